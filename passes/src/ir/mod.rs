//! MLIR as the passes see it: a builder ([`B`]) to write, [`read`] to look, and [`Generic`] for linalg.generic as data.
//! All unsafe calls into MLIR's C API that melior has no safe form for are in this folder.
//!
//! Values and ops carry the context's lifetime: melior ties them to a borrow of their block, which no pass that moves
//! ops between blocks can express. The IR must outlive the pass that holds them; every pass does its work on a module
//! that it borrows.

mod build;
mod fragment;
mod generic;
pub mod read;
mod reshape;
pub mod rewrite;

pub use build::B;
pub use fragment::Fragment;
pub(crate) use generic::forget_iterators;
pub use generic::{Generic, map_attr, unwidened, widens};
pub use melior::ir::{AttributeLike, BlockLike, TypeLike, ValueLike, operation::OperationLike};
pub(crate) use read::op_ref;
pub use read::*;
pub use reshape::reshape_steps;

use melior::ir::{BlockRef, OperationRef, Value};

pub type V<'c> = Value<'c, 'c>;
pub type O<'c> = OperationRef<'c, 'c>;
pub type Blk<'c> = BlockRef<'c, 'c>;
