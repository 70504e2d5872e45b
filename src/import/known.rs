//! Calls that stand for ops of the language: composites of chlo's ops, and the custom calls that JAX writes for linear
//! algebra and for sharding. Those are replaced; others are refused by name, with what to do.

use crate::{
    build,
    diag::Diagnostic,
    linalg::{self, Outcome},
    specialise,
    tree::{Attr, Block, Func, Literal, Op, OpKind, Program, ValueId},
};
use std::collections::HashMap;

/// Replaces what has a meaning here, drops functions that nothing calls any more, and reports custom calls that remain.
/// Runs on verified programs.
pub fn resolve_calls(p: &mut Program) -> Vec<Diagnostic> {
    let mut errors = vec![];
    let mut made = vec![];
    for f in &mut p.funcs {
        let mut body = std::mem::take(&mut f.body);
        let mut r = Rewrite { f, aliases: HashMap::new(), made: &mut made, errors: &mut errors };
        r.block(&mut body);
        f.body = body;
    }
    made.retain(|g| p.func(&g.name).is_none());
    p.funcs.append(&mut made);
    drop_unused(p);
    errors
}

/// Private functions that nothing reaches from a public one.
fn drop_unused(p: &mut Program) {
    fn callees<'a>(b: &'a Block, list: &mut Vec<&'a str>) {
        for op in &b.ops {
            match &op.kind {
                OpKind::Call { callee } => list.push(callee),
                OpKind::Composite { decomposition, .. } => list.push(decomposition),
                OpKind::CustomCall { called, .. } => list.extend(called.iter().map(String::as_str)),
                _ => {}
            }
            op.regions.iter().for_each(|r| callees(r, list));
        }
    }
    let mut kept: Vec<bool> = p.funcs.iter().map(|f| f.public).collect();
    if !kept.contains(&true) {
        return;
    }
    let mut work: Vec<usize> = (0..kept.len()).filter(|i| kept[*i]).collect();
    while let Some(i) = work.pop() {
        let mut list = vec![];
        callees(&p.funcs[i].body, &mut list);
        for name in list {
            if let Some(j) = p.funcs.iter().position(|f| f.name == name)
                && !std::mem::replace(&mut kept[j], true)
            {
                work.push(j);
            }
        }
    }
    let mut keep = kept.into_iter();
    p.funcs.retain(|_| keep.next().unwrap_or(true));
}

struct Rewrite<'a> {
    f: &'a mut Func,
    /// Values that another one replaces.
    aliases: HashMap<ValueId, ValueId>,
    /// Functions that replaced calls call.
    made: &'a mut Vec<Func>,
    errors: &'a mut Vec<Diagnostic>,
}

impl Rewrite<'_> {
    fn block(&mut self, b: &mut Block) {
        let mut out = Vec::with_capacity(b.ops.len());
        for mut op in std::mem::take(&mut b.ops) {
            self.rename(&mut op.operands);
            for r in &mut op.regions {
                self.block(r);
            }
            self.op(op, &mut out);
        }
        self.rename(&mut b.results);
        b.ops = out;
    }

    fn rename(&self, list: &mut [ValueId]) {
        for v in list {
            if let Some(to) = self.aliases.get(v) {
                *v = *to;
            }
        }
    }

    fn op(&mut self, mut op: Op, out: &mut Vec<Op>) {
        match &op.kind {
            OpKind::Composite { name, attributes, .. } => {
                if let Some(short) = name.strip_prefix("chlo.").filter(|n| build::names("chlo").contains(n)) {
                    op.extra.extend(attributes.iter().cloned());
                    op.extra.sort_by(|a, b| a.0.cmp(&b.0));
                    op.kind = OpKind::Chlo(short.to_string());
                }
                out.push(op);
            }
            OpKind::CustomCall { target, .. } => {
                let target = target.clone();
                self.custom_call(&target, op, out);
            }
            OpKind::Other(name) if alone(name, &op) && self.same_types(&op) => {
                self.aliases.extend(op.results.iter().copied().zip(op.operands.iter().copied()));
            }
            OpKind::Other(name) if matches!(name.as_str(), "stablehlo.replica_id" | "stablehlo.partition_id") => {
                // One device is the first of its kind.
                let ty = self.f.tensor(op.results[0]).clone();
                let zero = Literal::new(ty.clone(), vec![0; ty.dtype.bytes()]);
                op.kind = OpKind::Constant(zero);
                out.push(op);
            }
            _ => out.push(op),
        }
    }

    fn custom_call(&mut self, target: &str, op: Op, out: &mut Vec<Op>) {
        match target {
            // Markers of placement; on one device the value is its own shard.
            "Sharding"
            | "SPMDFullToShardShape"
            | "SPMDShardToFullShape"
            | "annotate_device_placement"
            | "xla.sdy.FuncResultSharding"
            | "xla.sdy.GlobalToLocalShape"
            | "xla.sdy.LocalToGlobalShape"
                if op.operands.len() == op.results.len() && self.same_types(&op) =>
            {
                self.aliases.extend(op.results.iter().copied().zip(op.operands.iter().copied()));
            }
            // Until shapes are static.
            _ if specialise::is_dynamic_call(target) => out.push(op),
            "shape_assertion" | "check.expect_eq" | "check.expect_close" | "check.expect_almost_eq" => out.push(op),
            _ => {
                let outcome = linalg::replace(target, self.f, &op, out, self.made);
                if matches!(outcome, Outcome::Unknown) {
                    self.refuse(target, &op);
                }
                if !matches!(outcome, Outcome::Replaced) {
                    out.push(op);
                }
            }
        }
    }

    fn same_types(&self, op: &Op) -> bool {
        op.operands.iter().zip(&op.results).all(|(a, b)| self.f.ty(*a) == self.f.ty(*b))
    }

    fn refuse(&mut self, target: &str, op: &Op) {
        let hint = if target.starts_with("lapack_")
            || target.starts_with("cusolver_")
            || target.starts_with("hipsolver_")
        {
            "of linear algebra, cholesky, triangular_solve, lu, qr, eigh and svd of static shapes are compiled, as JAX writes them since 0.5; write the step with those, or run it outside of the model"
        } else if target.contains("callback") || target == "debug_print" {
            "the program calls back into Python; remove the callback (`jax.debug.print`, `pure_callback`, `io_callback`) before exporting"
        } else if target == "ApproxTopK" || target.contains("PartialReduce") {
            "use `jax.lax.top_k` instead of `jax.lax.approx_max_k`"
        } else if target.contains("triton") || target.contains("mosaic") || target == "tpu_custom_call" {
            "a kernel for one device; export the model with its portable implementation"
        } else if target.starts_with("xla.sdy.") {
            "a part of the value for each of several devices; a program is compiled for one device, export it with a mesh of one"
        } else {
            "no meaning is known for it here; export the model without it"
        };
        self.errors.push(
            Diagnostic::error("E0602", op.span, format!("custom_call `@{target}` cannot be compiled"))
                .label("not known")
                .hint(hint),
        );
    }
}

/// Whether a collective op runs in groups of one device, where each device keeps what it has.
fn alone(name: &str, op: &Op) -> bool {
    let collective = matches!(
        name,
        "stablehlo.all_reduce"
            | "stablehlo.all_gather"
            | "stablehlo.all_to_all"
            | "stablehlo.reduce_scatter"
            | "stablehlo.collective_broadcast"
    );
    let single = matches!(op.attr("replica_groups"), Some(Attr::Dense(l)) if l.ty.dims.get(1) == Some(&Some(1)) && l.elements() == 1);
    collective && single && op.operands.len() == op.results.len()
}
