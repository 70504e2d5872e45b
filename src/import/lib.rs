//! The StableHLO front end: a typed tree with source positions, read from text or from portable bytecode, verified,
//! printed, and evaluated. Nothing here knows MLIR's libraries; `passes::legalize` takes the tree from here.

pub mod tree;
