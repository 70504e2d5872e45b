//! The pass `emit`: every dispatch function becomes a `gpu.module` with one kernel, and every `zml.dispatch` that names
//! it learns its grid.
//!
//! ```text
//! func.func private @k(%a: tensor<8xf32>) -> tensor<8xf32> attributes {zml.dispatch, zml.hero = "loop"}
//! →  gpu.module @k { gpu.func @k(%a: memref<8xf32>, %r: memref<8xf32>) kernel {...} }
//! ```
//!
//! The emitter is chosen by the dispatch's hero: [`loops`] for elements that stand alone, [`reduce`] for rows,
//! [`matmul`] for contractions with tiles, by [`mma`] where the device multiplies matrices, [`scan`] for running reductions.
//! All of them get values from the elemental engine ([`eval`]). Kernels use gpu,
//! scf, arith, math, memref and vector only and are the same for the same dispatch and numbers of the device.

mod attention;
mod blocks;
mod body;
mod build;
mod check;
mod combine;
mod commute;
mod contraction;
mod early;
mod eval;
mod index;
mod kernel;
mod loops;
mod matmul;
mod mma;
mod nest;
mod output;
mod reduce;
mod scan;
mod stage;
mod tile;

pub(crate) use attention::fits_tiles;
pub(crate) use combine::Combiner;
pub(crate) use matmul::time as time_in_tiles;
pub(crate) use reduce::{number_of, online};

use crate::{
    ir::*,
    pass::{Env, Pass, PassError},
};
use kernel::{Dispatch, Launch};
use melior::{Context, ir::Module};
use std::collections::HashMap;

pub struct Emit;

impl Pass for Emit {
    fn name(&self) -> &'static str {
        "emit"
    }
    fn about(&self) -> &'static str {
        "every dispatch becomes a kernel in gpu, scf, arith, math, memref and vector"
    }
    fn run<'c>(&self, context: &'c Context, module: &mut Module<'c>, env: Env) -> Result<(), PassError> {
        let spec = env.spec();
        let top = body(module);
        let mut launches: HashMap<&str, Launch> = HashMap::new();
        let mut done = vec![];
        let written = early::Written::of(top);
        for op in ops(top) {
            let Some(mut d) = Dispatch::of(op) else { continue };
            // Its step calls a library, and needs no kernel.
            if d.hero == "library" {
                done.push(op);
                continue;
            }
            if spec.overlap {
                d.early = Some(written.constants(&d));
            }
            check::check(&d)?;
            let b = B::before(context, op);
            let launch = match d.hero {
                "attention" | "tiled-attention" => attention::emit(&b, &d, spec)?,
                "loop" => loops::emit(&b, &d, spec)?,
                "matmul" => matmul::emit(&b, &d, spec)?,
                "scan" => scan::emit(&b, &d, spec)?,
                "reduce" => reduce::emit(&b, &mut d, spec)?,
                other => return Err(PassError::Bug(format!("{}: there is no hero `{other}`", d.name))),
            };
            launches.insert(d.name, launch);
            done.push(op);
        }
        let b = B::new(context, top);
        for op in walk(op_ref(module.as_operation().to_raw())) {
            if name(op) == "zml.dispatch"
                && let Some(launch) = symbol_attr(op, "kernel").and_then(|k| launches.get(k))
            {
                rewrite::set_attr(op, "grid", b.i32s(&launch.grid.map(|n| n as i32)));
            }
        }
        done.into_iter().for_each(rewrite::erase);
        Ok(())
    }
    fn verify<'c>(&self, _context: &'c Context, module: &Module<'c>, _env: Env) -> Result<(), PassError> {
        for op in walk(op_ref(module.as_operation().to_raw())) {
            if has_attr(op, "zml.dispatch") {
                return Err(PassError::Bug(format!("{} is still a function", str_attr(op, "sym_name").unwrap_or("?"))));
            }
            if name(op) == "zml.dispatch" && !has_attr(op, "grid") {
                return Err(PassError::Bug("a zml.dispatch has no grid".into()));
            }
        }
        Ok(())
    }
}
