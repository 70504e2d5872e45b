//! The target that emits its own IR: template and test double.
