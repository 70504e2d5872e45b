//! The StableHLO front end: a typed tree with source positions, read from text or from portable bytecode, verified,
//! printed, and evaluated. Nothing here knows MLIR's libraries; `passes::legalize` takes the tree from here.

mod build;
mod builder;
mod bytecode;
mod composite;
pub mod diag;
mod exported;
mod float;
mod fold;
mod inlined;
pub mod interp;
mod kind;
mod known;
mod linalg;
mod literal;
mod names;
mod prepare;
pub mod print;
mod raw;
mod read;
mod same;
mod sink;
mod specialise;
mod spell;
mod suspicious;
mod text;
pub mod tree;
mod unbuild;
mod verify;

pub use bytecode::{PORTABLE_VERSION, WRITTEN_VERSIONS, write_artifact};
pub use composite::without_chlo;
pub use diag::{Diagnostic, Diagnostics, Severity, Source};
pub use fold::fold;
pub use known::resolve_calls;
pub use names::argument_names;
pub use prepare::prepare;
pub use print::print;
pub use read::read;
pub use same::{difference, same};
pub use specialise::{DynamicDim, dynamic_dims, specialise};
pub use suspicious::suspicious;
pub use unbuild::name as op_name;
pub use verify::verify;
