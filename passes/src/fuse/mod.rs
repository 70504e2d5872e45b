//! Groups the tensor ops of every entry into dispatches: one dispatch is one kernel, with nothing intermediate in device
//! memory. What holds of a dispatch, by its hero, stands in ARCHITECTURE.md, "Dispatches", and is proved by `check`.
//!
//! Before: an entry of level 1 ops. After: calls of `func.func private` dispatches, non-splat constants and control flow.
//! A block is read once into a [`view::View`]; `assign` decides on that; `order` and `outline` write. It must not choose
//! tiles, threads or memory: those are emit's and plan's.

mod assign;
mod attention;
mod check;
mod contraction;
mod group;
mod index;
mod library;
mod loops;
mod order;
mod outline;
mod positions;
mod prepare;
mod shared;
#[cfg(test)]
mod tests;
mod view;

use crate::{
    ir::*,
    pass::{Env, Pass, PassError},
    spec::DeviceSpec,
};
use melior::{Context, ir::Module};

/// A contraction with a smaller m or n is computed row by row.
pub const LEAST_TILE: i64 = 5;

pub(crate) use attention::{Layout as AttentionLayout, shared_rows};
pub use contraction::multiplies_and_adds;
pub(crate) use contraction::{Contraction, of as contraction};
pub use view::{Coordinate, coordinates};

pub struct Fuse;

impl Pass for Fuse {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "group the ops of each entry into dispatches, one kernel each"
    }
    fn run<'c>(&self, context: &'c Context, module: &mut Module<'c>, env: Env) -> Result<(), PassError> {
        group(context, module, env, assign::assign)
    }
    fn verify<'c>(&self, _: &'c Context, module: &Module<'c>, env: Env) -> Result<(), PassError> {
        check::check(body(module), env.spec())
    }
}

/// In place of [`Fuse`]: every op is a dispatch of its own. For tests, and for finding out whether fusion is at fault.
pub struct Separate;

impl Pass for Separate {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "make each op of each entry a dispatch"
    }
    fn run<'c>(&self, context: &'c Context, module: &mut Module<'c>, env: Env) -> Result<(), PassError> {
        group(context, module, env, assign::separate)
    }
    fn verify<'c>(&self, context: &'c Context, module: &Module<'c>, env: Env) -> Result<(), PassError> {
        Fuse.verify(context, module, env)
    }
}
const NAME: &str = "fuse";

type Assign = fn(&mut group::Grouper);

fn group<'c>(context: &'c Context, module: &Module<'c>, env: Env, assign: Assign) -> Result<(), PassError> {
    let top = body(module);
    let mut outliner = outline::Outliner::new(context, top);
    for entry in entries(top) {
        fuse(context, block(entry, 0), assign, env.spec(), &mut outliner)?;
    }
    Ok(())
}

/// All attentions of a block that go row by row and can be cut along their positions.
pub(crate) fn attentions<'c>(block: Blk<'c>, spec: &DeviceSpec) -> Vec<AttentionLayout<'c>> {
    let view = view::View::of(block);
    let mut f = group::Grouper::new(&view, usize::MAX);
    f.spec = Some(spec);
    let found = attention::find(&f);
    found.iter().filter(|a| !a.is_part && !a.is_tiled).filter_map(|a| AttentionLayout::of(&view, a)).collect()
}

/// The ops that all attentions of a block have for themselves, and their results.
pub(crate) fn ops_of_attentions<'c>(block: Blk<'c>, spec: &DeviceSpec) -> Vec<O<'c>> {
    let view = view::View::of(block);
    let mut f = group::Grouper::new(&view, usize::MAX);
    f.spec = Some(spec);
    let found = attention::find(&f);
    found.iter().flat_map(|a| a.inner.iter().chain([&a.out])).map(|n| view.nodes[*n].op).collect()
}

/// The entry functions of a module.
pub fn entries<'c>(top: Blk<'c>) -> Vec<O<'c>> {
    let funcs = ops(top).into_iter().filter(|o| name(*o) == "func.func");
    funcs.filter(|o| str_attr(*o, "sym_visibility") != Some("private")).collect()
}

fn fuse<'c>(
    context: &'c Context,
    block: Blk<'c>,
    assign: Assign,
    spec: &DeviceSpec,
    outliner: &mut outline::Outliner<'c>,
) -> Result<(), PassError> {
    let budget = match spec.max_buffers {
        0 => usize::MAX,
        n => n as usize,
    };
    loops::hand_on_all(context, block);
    prepare::localise_constants(context, block);
    prepare::split_wide(context, block, budget);
    prepare::copy_own_updates(context, block);
    positions::lift(context, block);
    let view = view::View::of(block);
    let mut f = group::Grouper::new(&view, budget);
    f.spec = Some(spec);
    f.use_library();
    assign(&mut f);
    outliner.block(block, &f)?;
    for op in ops(block).into_iter().filter(|o| name(*o).starts_with("scf.")) {
        for region in 0..op.region_count() {
            fuse(context, crate::ir::block(op, region), assign, spec, outliner)?;
        }
    }
    Ok(())
}
