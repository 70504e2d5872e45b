//! split: a reduction of long rows that are too few to fill the device becomes two, over parts of a row and over the parts;
//! a running reduction becomes that of each part, started from what a running reduction of the parts leaves before it.
//!
//! ```text
//! %r = linalg.reduce ins(%x : tensor<16777216xf32>) outs(%init : tensor<f32>) dimensions = [0]
//! →  %p = linalg.reduce ins(%x' : tensor<1024x16384xf32>) outs(...) dimensions = [1] {zml.partial}
//!    %r = linalg.reduce ins(%p : tensor<1024xf32>) outs(%init) dimensions = [0]
//! ```
//!
//! A softmax has the maximum of its numbers, and of rows that a workgroup cannot keep maximum and sum from one reading.
//!
//! Attention of few rows over many positions becomes attention over parts of them, and what puts these together.
//!
//! A contraction with fewer tiles than the device takes at once has parts of its sum computed side by side.
//!
//! Parts keep the order of their elements and their number depends on the shape and the device profile alone, so results are
//! the same on every run. `zml.partial` says that the initial value does not count: it is taken in once, at the end.

mod attention;
mod contraction;
mod reduction;
mod scan;
mod softmax;

use crate::{
    fuse::{attentions, entries, ops_of_attentions},
    ir::*,
    pass::{Env, Pass, PassError},
    spec::DeviceSpec,
};
use melior::{Context, ir::Module};
use std::collections::HashSet;

/// The pass.
pub struct Split;

impl Pass for Split {
    fn name(&self) -> &'static str {
        "split"
    }
    fn about(&self) -> &'static str {
        "reductions, scans and attention of few long rows in steps, contractions of few tiles in parts"
    }
    fn run<'c>(&self, context: &'c Context, module: &mut Module<'c>, env: Env) -> Result<(), PassError> {
        let spec = env.spec();
        for entry in entries(body(module)) {
            cut_attentions(context, block(entry, 0), spec);
        }
        // The rows of an attention are nowhere in memory.
        let mut taken = HashSet::new();
        for entry in entries(body(module)) {
            of_attentions(block(entry, 0), spec, &mut taken);
        }
        // All of them first: each removes ops.
        let all = |of: &[&str]| -> Vec<O<'c>> {
            walk(module_op(module)).into_iter().filter(|op| of.contains(&name(*op))).collect()
        };
        for op in all(&["linalg.reduce"]).into_iter().filter(|op| !taken.contains(&op_key(*op))) {
            softmax::split(&B::before(context, op), op, spec);
        }
        for op in all(&["linalg.generic", "linalg.reduce", "zml.scan"]) {
            match name(op) {
                "linalg.generic" if !taken.contains(&op_key(op)) => {
                    contraction::split(&B::before(context, op), op, spec);
                }
                "linalg.generic" => {}
                "linalg.reduce" => reduction::split(&B::before(context, op), op, spec),
                _ => scan::split(&B::before(context, op), op, spec),
            }
        }
        Ok(())
    }
    fn verify<'c>(&self, _context: &'c Context, module: &Module<'c>, _env: Env) -> Result<(), PassError> {
        crate::simplify::level1(module)
    }
}

fn of_attentions(home: Blk, spec: &DeviceSpec, found: &mut HashSet<usize>) {
    found.extend(ops_of_attentions(home, spec).into_iter().map(op_key));
    for inner in ops(home).into_iter().filter(|op| name(*op).starts_with("scf.")).flat_map(blocks) {
        of_attentions(inner, spec, found);
    }
}

fn cut_attentions<'c>(context: &'c Context, home: Blk<'c>, spec: &DeviceSpec) {
    attentions(home, spec).iter().for_each(|a| attention::split(context, a, spec));
    for inner in ops(home).into_iter().filter(|op| name(*op).starts_with("scf.")).flat_map(blocks) {
        cut_attentions(context, inner, spec);
    }
}
