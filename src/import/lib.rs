//! The StableHLO front end: a typed tree with source positions, read from text or from portable bytecode, verified,
//! printed, and evaluated. Nothing here knows MLIR's libraries; `passes::legalize` takes the tree from here.

mod build;
pub mod diag;
mod float;
mod fold;
pub mod interp;
mod literal;
mod print;
mod raw;
mod read;
mod text;
pub mod tree;
mod unbuild;

pub use diag::{Diagnostic, Diagnostics, Severity, Source};
pub use fold::fold;
pub use read::{read, read_ref};
