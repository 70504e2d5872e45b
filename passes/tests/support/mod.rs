//! Shared by the tests of the passes: StableHLO trees written by hand.

pub mod tree;
