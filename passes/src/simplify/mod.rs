//! Cleans level 1: upstream's canonicalize and cse, pure data movement folded into the maps of its readers, constants of one
//! value brought into the bodies that read them, chains of reshapes shortened.
//!
//! Before, `y + broadcast(b)` is a generic that copies `b` and one that adds. After, it is one that adds, whose second input
//! has the map `(d0, d1) -> (d1)`.
//!
//! It must not move arithmetic: what is computed where is fuse's decision.

mod any;
mod check;
mod copies;
mod reshapes;
mod splats;

use crate::{
    context::run_pipeline,
    ir::{B, Blk, O, block, body, name, ops, walk},
    pass::{Env, Pass, PassError},
};
use melior::{
    Context,
    ir::{Module, operation::OperationLike},
};

pub use check::level1;

/// The pass.
pub struct Simplify;

/// Each round can only remove ops, so few are ever needed.
const ROUNDS: usize = 8;

impl Pass for Simplify {
    fn name(&self) -> &'static str {
        "simplify"
    }
    fn about(&self) -> &'static str {
        "canonicalize, cse, copies and constants folded into their readers"
    }
    fn run<'c>(&self, context: &'c Context, module: &mut Module<'c>, _env: Env) -> Result<(), PassError> {
        for _ in 0..ROUNDS {
            run_pipeline(context, module, "builtin.module(canonicalize{region-simplify=disabled},cse)")?;
            // Upstream's part takes long, and most of what one of ours leaves to another needs none of it.
            let changes = (0..ROUNDS).take_while(|_| fold(context, module)).count();
            if changes == 0 {
                return Ok(());
            }
        }
        run_pipeline(context, module, "builtin.module(canonicalize,cse)")
    }
    fn verify<'c>(&self, _context: &'c Context, module: &Module<'c>, _env: Env) -> Result<(), PassError> {
        level1(module)
    }
}

/// Whether anything was.
fn fold<'c>(context: &'c Context, module: &Module<'c>) -> bool {
    let mut changed = false;
    for block in tensor_blocks(module) {
        let b = B::new(context, block);
        changed |= splats::select_of_tensors(&b, block);
        changed |= copies::fold(&b, block);
        changed |= splats::fold(&b, block);
        changed |= splats::uniform(&b, block);
        changed |= reshapes::fold(&b, block);
        changed |= any::of_maximum(&b, block);
    }
    changed
}

/// The blocks whose ops work on tensors: of the entries, and of the control flow in them.
fn tensor_blocks<'c>(module: &Module<'c>) -> Vec<Blk<'c>> {
    let mut found = vec![];
    for func in ops(body(module)).into_iter().filter(|op| name(*op) == "func.func") {
        for op in walk(func).into_iter().filter(|op| *op == func || holds_tensors(*op)) {
            found.extend((0..op.region_count()).map(|r| block(op, r)));
        }
    }
    found
}
/// Control flow at the level of tensors, not in the body of a generic.
fn holds_tensors(op: O) -> bool {
    let mut op = op;
    if !name(op).starts_with("scf.") {
        return false;
    }
    while let Some(parent) = crate::ir::parent(op) {
        if name(parent) == "func.func" {
            return true;
        }
        if !name(parent).starts_with("scf.") {
            return false;
        }
        op = parent;
    }
    false
}
