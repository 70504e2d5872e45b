//! Constant folding on the tree: ops whose operands are all constants become constants, computed by the interpreter, and
//! pure ops that nothing reads are dropped. Runs on verified programs; what it cannot compute it leaves alone.

use crate::{
    interp::{self, Tensor},
    tree::{Block, Func, Op, OpKind, Program, Type, ValueId},
};
use std::collections::HashMap;

/// Results above this number of elements are left to the device.
const LARGEST: u64 = 1024;

/// Folds every function of a program.
pub fn fold(program: &mut Program) {
    for f in &mut program.funcs {
        let mut body = std::mem::take(&mut f.body);
        let mut known = HashMap::new();
        fold_block(f, &mut body, &mut known);
        let mut used = vec![false; f.values.len()];
        drop_dead(&mut body, &mut used);
        f.body = body;
    }
}

fn fold_block(f: &Func, b: &mut Block, known: &mut HashMap<ValueId, Tensor>) {
    for op in &mut b.ops {
        if let OpKind::Constant(l) = &op.kind {
            if l.elements() as u64 <= LARGEST && l.ty.quant.is_none() {
                known.insert(op.results[0], Tensor::from_literal(l));
            }
            continue;
        }
        for r in &mut op.regions {
            fold_block(f, r, known);
        }
        if let Some(t) = folded(f, op, known) {
            op.kind = OpKind::Constant(t.to_literal());
            op.operands.clear();
            op.operand_spans.clear();
            op.attr_spans.clear();
            op.extra.clear();
            known.insert(op.results[0], t);
        }
    }
}

fn folded(f: &Func, op: &Op, known: &HashMap<ValueId, Tensor>) -> Option<Tensor> {
    let [result] = op.results[..] else { return None };
    let pure_value = !matches!(
        op.kind,
        OpKind::CustomCall { .. } | OpKind::OptimizationBarrier | OpKind::Other(_) | OpKind::Rng { .. }
    );
    if !op.regions.is_empty() || !pure_value || op.operands.is_empty() && !matches!(op.kind, OpKind::Iota { .. }) {
        return None;
    }
    let Type::Tensor(ty) = f.ty(result) else { return None };
    // A broadcast constant is cheaper as a broadcast, an iota as an iota.
    let spread = matches!(op.kind, OpKind::BroadcastInDim { .. } | OpKind::Iota { .. }) && ty.elements()? > 1;
    if ty.elements()? > LARGEST || ty.quant.is_some() || spread {
        return None;
    }
    let operands = op.operands.iter().map(|v| known.get(v).cloned()).collect::<Option<Vec<_>>>()?;
    let t = interp::one(f, op, operands).ok()?.pop()?;
    (t.dtype == ty.dtype && Some(&t.shape) == ty.shape().as_ref()).then_some(t)
}

/// Whether an op may go if nothing reads its results.
fn is_pure(op: &Op) -> bool {
    match &op.kind {
        OpKind::CustomCall { has_side_effect, .. } => !has_side_effect,
        // A loop may not end, a callee may have effects, and what is not known may do anything.
        OpKind::While | OpKind::Call { .. } | OpKind::Other(_) | OpKind::Rng { .. } => false,
        _ => op.regions.iter().all(|r| r.ops.iter().all(is_pure)),
    }
}

fn drop_dead(b: &mut Block, used: &mut [bool]) {
    for r in &b.results {
        used[r.0 as usize] = true;
    }
    let mut kept: Vec<Op> = vec![];
    for mut op in std::mem::take(&mut b.ops).into_iter().rev() {
        if is_pure(&op) && op.results.iter().all(|r| !used[r.0 as usize]) {
            continue;
        }
        for v in &op.operands {
            used[v.0 as usize] = true;
        }
        for r in &mut op.regions {
            drop_dead(r, used);
        }
        kept.push(op);
    }
    kept.reverse();
    b.ops = kept;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::Source;

    fn folded_ops(text: &str) -> Vec<OpKind> {
        let mut p = crate::read(Source::new("t.mlir", text)).unwrap_or_else(|e| panic!("{e}"));
        fold(&mut p);
        p.funcs[0].body.ops.iter().map(|o| o.kind.clone()).collect()
    }

    #[test]
    fn constants_are_computed_and_dead_ops_dropped() {
        let ops = folded_ops(
            "func.func @main(%x: tensor<2xi32>) -> tensor<2xi32> {
              %a = stablehlo.constant dense<[3, 4]> : tensor<2xi32>
              %b = stablehlo.constant dense<10> : tensor<2xi32>
              %c = stablehlo.multiply %a, %b : tensor<2xi32>
              %dead = stablehlo.negate %x : tensor<2xi32>
              %d = stablehlo.add %x, %c : tensor<2xi32>
              return %d : tensor<2xi32>
            }",
        );
        assert_eq!(ops.len(), 2);
        let OpKind::Constant(l) = &ops[0] else { panic!("{ops:?}") };
        assert_eq!(l.to_i64s(), Some(vec![30, 40]));
    }

    #[test]
    fn effects_and_large_results_stay() {
        let ops = folded_ops(
            "func.func @main() -> tensor<2048xi32> {
              %a = stablehlo.constant dense<3> : tensor<2048xi32>
              %b = stablehlo.negate %a : tensor<2048xi32>
              %p = stablehlo.constant dense<true> : tensor<i1>
              stablehlo.custom_call @shape_assertion(%p) {has_side_effect = true} : (tensor<i1>) -> ()
              return %b : tensor<2048xi32>
            }",
        );
        assert_eq!(ops.len(), 4);
    }
}
