//! expand-special: ops of the zml dialect for which there is no emitter become generics that every device can run.
//!
//! `zml.sort` becomes merges of sorted runs, each as parallel as it has elements. `zml.scatter` becomes, for each element of
//! the input, a fold over the updates that hit it, in their order: all of them where they are few, else those of its row,
//! found by sorting.
//!
//! Invariant, checked by `verify`: no `zml.sort` or `zml.scatter` is left.

mod scatter;
mod search;
mod sort;

use crate::{
    ir::{B, module_op, name, rewrite::erase, walk},
    pass::{Env, Pass, PassError},
};
use melior::{Context, ir::Module};

/// The pass.
pub struct ExpandSpecial;

impl Pass for ExpandSpecial {
    fn name(&self) -> &'static str {
        "expand-special"
    }
    fn about(&self) -> &'static str {
        "sort and scatter become merges, searches and folds"
    }
    fn run<'c>(&self, context: &'c Context, module: &mut Module<'c>, _env: Env) -> Result<(), PassError> {
        for op in walk(module_op(module)) {
            let b = B::before(context, op).labelled(name(op).trim_start_matches("zml."));
            match name(op) {
                "zml.sort" => sort::expand(&b, op),
                "zml.scatter" => scatter::expand(&b, op),
                _ => continue,
            }
            erase(op);
        }
        Ok(())
    }
    fn verify<'c>(&self, _context: &'c Context, module: &Module<'c>, _env: Env) -> Result<(), PassError> {
        match walk(module_op(module)).into_iter().find(|op| matches!(name(*op), "zml.sort" | "zml.scatter")) {
            Some(op) => Err(PassError::Bug(format!("{} is left", name(op)))),
            None => Ok(()),
        }
    }
}
