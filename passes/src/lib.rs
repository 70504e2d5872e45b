//! Target-blind passes: StableHLO tree -> linalg -> dispatches -> host program -> kernels in gpu, memref, vector, scf, arith.
//!
//! From `legalize` on the only IR is MLIR, so what is printed after any pass parses again and resumes. A pass reads a
//! function once into plain Rust data and touches MLIR only to write. Nothing here names a target: what differs is in
//! [`spec::DeviceSpec`] and behind [`target::Target`].

pub mod assign_descriptors;
pub mod context;
pub mod count_loops;
pub mod emit;
pub mod evaluate;
pub mod expand_math;
pub mod expand_special;
pub mod fuse;
pub mod gemm;
pub mod ir;
pub mod kernel_abi;
pub mod kernels;
pub mod legalize;
pub mod llvm;
pub mod pass;
pub mod plan;
pub mod rows;
pub mod simplify;
pub mod spec;
pub mod split;
pub mod target;
pub mod unroll;
pub mod widen_predicates;
