//! One file a command.

pub mod bench;
pub mod bisect;
pub mod build;
pub mod check;
pub mod completions;
pub mod convert;
pub mod doctor;
pub mod explain;
pub mod init;
pub mod inspect;
pub mod inspect_ir;
pub mod package;
pub mod push;
pub mod run;
pub mod targets;
pub mod vendor;
pub mod verify;
