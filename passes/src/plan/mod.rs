//! Makes the host program of each entry: which buffer every value lives in, in which order and with which barriers the
//! dispatches run, what is copied and why.
//!
//! Before: an entry function of calls. After: a `zml.program`, one to one with the artifact's `Program`; the dispatch
//! functions stay. `entry` reads, `place` puts values into buffers, `arena` gives offsets, `barriers` separates, `write`
//! writes, `check` proves the result from its text, `extract` turns it into the artifact's form.

mod arena;
mod barriers;
mod check;
mod entry;
mod extract;
mod model;
mod place;
#[cfg(test)]
mod simulate;
mod write;

pub use extract::extract;

use crate::{
    fuse::entries,
    ir::*,
    pass::{Env, Pass, PassError},
};
use melior::{Context, ir::Module};

pub struct Plan;

impl Pass for Plan {
    fn name(&self) -> &'static str {
        "plan"
    }
    fn about(&self) -> &'static str {
        "the host program of each entry: buffers, arena, copies, barriers"
    }
    fn run<'c>(&self, context: &'c Context, module: &mut Module<'c>, _: Env) -> Result<(), PassError> {
        let top = body(module);
        for func in entries(top) {
            let read = entry::read(func, top)?;
            let program = program(&read.entry);
            write::write(&B::before(context, func), func, top, &read, &program);
            rewrite::erase(func);
        }
        Ok(())
    }
    fn verify<'c>(&self, _: &'c Context, module: &Module<'c>, _: Env) -> Result<(), PassError> {
        check::check(body(module))
    }
}

fn program(entry: &model::Entry) -> model::Program {
    let mut p = place::place(entry);
    arena::pack(&mut p);
    barriers::separate(&mut p);
    p
}
