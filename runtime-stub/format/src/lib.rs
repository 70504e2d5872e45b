//! The `.zml` artifact: element types, manifest, host program, and the file that holds them.
//!
//! This crate is the only thing that the compiler and the runtime share.

mod check;
mod dims;
mod dtype;
mod file;
mod manifest;
mod needs;
mod sources;

pub use dims::{Dim, sizes, symbolic};
pub use dtype::DType;
pub use file::{Artifact, ArtifactError, FORMAT_VERSION, Writer, calls_library};
pub use manifest::*;
pub use needs::{cuda_version, nvidia_driver};
pub use sources::{Source, Sources};
