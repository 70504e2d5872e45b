//! Calls that stand for ops of the language: composites of chlo's ops, and the custom calls that JAX writes for linear
//! algebra and for sharding. Those are replaced; others are refused by name, with what to do.

use crate::{
    build,
    diag::Diagnostic,
    specialise,
    tree::{Attr, Block, Func, Literal, Op, OpKind, Program, Type, ValueId},
};

/// Replaces what has a meaning here, drops functions that nothing calls any more, and reports custom calls that remain.
/// Runs on verified programs.
pub fn resolve_calls(p: &mut Program) -> Vec<Diagnostic> {
    let mut errors = vec![];
    for f in &mut p.funcs {
        let mut body = std::mem::take(&mut f.body);
        let mut r = Rewrite { f, aliases: vec![], errors: &mut errors };
        r.block(&mut body);
        f.body = body;
    }
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
    aliases: Vec<(ValueId, ValueId)>,
    errors: &'a mut Vec<Diagnostic>,
}

impl Rewrite<'_> {
    fn block(&mut self, b: &mut Block) {
        let mark = self.aliases.len();
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
        self.aliases.truncate(mark);
    }

    fn rename(&self, list: &mut [ValueId]) {
        for v in list {
            if let Some((_, to)) = self.aliases.iter().rev().find(|(from, _)| from == v) {
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
                if op.operands.len() == op.results.len() && self.same_types(&op) =>
            {
                self.aliases.extend(op.results.iter().copied().zip(op.operands.iter().copied()));
            }
            // Until shapes are static.
            _ if specialise::is_dynamic_call(target)
                || op.results.iter().any(|r| self.is_open(*r)) && is_routine(target) =>
            {
                out.push(op);
            }
            "shape_assertion" | "check.expect_eq" | "check.expect_close" | "check.expect_almost_eq" => out.push(op),
            _ => {
                let done = match routine(target) {
                    Some("potrf") => self.cholesky(&op, out),
                    Some("trsm") => Self::triangular_solve(&op, out),
                    _ => false,
                };
                if !done {
                    self.refuse(target, &op);
                    out.push(op);
                }
            }
        }
    }

    fn is_open(&self, v: ValueId) -> bool {
        matches!(self.f.ty(v), Type::Tensor(t) if !t.is_static())
    }

    fn same_types(&self, op: &Op) -> bool {
        op.operands.iter().zip(&op.results).all(|(a, b)| self.f.ty(*a) == self.f.ty(*b))
    }

    /// `lapack_spotrf_ffi(a) -> (factor, info)`: info is 0 where the matrix is positive definite. JAX looks at info only to
    /// put NaN in place of failed factors, which cholesky gives by itself.
    fn cholesky(&self, op: &Op, out: &mut Vec<Op>) -> bool {
        let [factor, info] = op.results[..] else { return false };
        let lower = config(op, "uplo") == Some(i128::from(b'L'));
        let mut c = Op::new(OpKind::Cholesky { lower }, vec![op.operands[0]], vec![factor]);
        (c.loc, c.span, c.operand_spans) = (op.loc.clone(), op.span, op.operand_spans.clone());
        out.push(c);
        let ty = self.f.tensor(info).clone();
        let zero = Literal::new(ty.clone(), vec![0; ty.dtype.bytes()]);
        out.push(Op { loc: op.loc.clone(), ..Op::new(OpKind::Constant(zero), vec![], vec![info]) });
        true
    }

    /// `lapack_strsm_ffi(a, b) -> x`
    fn triangular_solve(op: &Op, out: &mut Vec<Op>) -> bool {
        let (Some(side), Some(uplo), Some(trans), Some(diag)) =
            (config(op, "side"), config(op, "uplo"), config(op, "trans_x"), config(op, "diag"))
        else {
            return false;
        };
        let is = |v: i128, c: u8| v == i128::from(c);
        let transpose_a = if is(trans, b'N') {
            "NO_TRANSPOSE"
        } else if is(trans, b'T') {
            "TRANSPOSE"
        } else {
            "ADJOINT"
        };
        let kind = OpKind::TriangularSolve {
            left_side: is(side, b'L'),
            lower: is(uplo, b'L'),
            unit_diagonal: is(diag, b'U'),
            transpose_a: transpose_a.into(),
        };
        let [result] = op.results[..] else { return false };
        let mut s = Op::new(kind, op.operands.clone(), vec![result]);
        (s.loc, s.span, s.operand_spans) = (op.loc.clone(), op.span, op.operand_spans.clone());
        out.push(s);
        true
    }

    fn refuse(&mut self, target: &str, op: &Op) {
        let hint = if target.starts_with("lapack_")
            || target.starts_with("cusolver_")
            || target.starts_with("hipsolver_")
        {
            "LAPACK's QR, LU, eigenvalue and singular value routines are not compiled; run that step outside of the model"
        } else if target.contains("callback") || target == "debug_print" {
            "the program calls back into Python; remove the callback (`jax.debug.print`, `pure_callback`, `io_callback`) before exporting"
        } else if target == "ApproxTopK" || target.contains("PartialReduce") {
            "use `jax.lax.top_k` instead of `jax.lax.approx_max_k`"
        } else if target.contains("triton") || target.contains("mosaic") || target == "tpu_custom_call" {
            "a kernel for one device; export the model with its portable implementation"
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

/// `potrf` of `lapack_spotrf_ffi`: the routine without its element type.
pub fn routine(target: &str) -> Option<&str> {
    target.strip_prefix("lapack_")?.strip_suffix("_ffi")?.get(1..)
}
fn is_routine(target: &str) -> bool {
    matches!(routine(target), Some("potrf" | "trsm"))
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

/// An integer of the call's configuration: JAX writes it as `mhlo.backend_config` or `backend_config`.
fn config(op: &Op, name: &str) -> Option<i128> {
    let own = match &op.kind {
        OpKind::CustomCall { backend_config, .. } => Some(backend_config),
        _ => None,
    };
    [op.attr("mhlo.backend_config"), own].into_iter().flatten().find_map(|a| match a {
        Attr::Dict(d) => {
            d.iter().find(|(n, _)| n == name).and_then(|(_, a)| if let Attr::Int(v, _) = a { Some(*v) } else { None })
        }
        _ => None,
    })
}
