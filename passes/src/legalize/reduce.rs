//! reduce: a linalg.reduce whose region is the program's, as scalar code. Sums and products of floats below 32 bits are
//! kept in f32 and rounded once.

use super::{contract::accumulator, elementwise, error::Refusal, lower::Cx, scalar, shape::fill, value::Val};
use crate::ir::{V, results};
use std::cell::RefCell;
use zmlc_import::tree::{BinaryOp, DType, OpKind};

/// The op that a region of one op applies to its two arguments.
pub(super) fn combiner(region: &zmlc_import::tree::Block) -> Option<BinaryOp> {
    match (&region.ops[..], &region.results[..], &region.args[..]) {
        ([op], [r], [x, y]) if op.results == [*r] && (op.operands == [*x, *y] || op.operands == [*y, *x]) => {
            if let OpKind::Binary(kind) = op.kind {
                Some(kind)
            } else {
                None
            }
        }
        _ => None,
    }
}
/// Whether to keep the sum of this region in f32.
pub(super) fn widens(region: &zmlc_import::tree::Block, d: DType) -> bool {
    accumulator(d) != d && matches!(combiner(region), Some(BinaryOp::Add | BinaryOp::Multiply))
}

pub(super) fn reduce<'c>(cx: &mut Cx<'_, '_, 'c>, dims: &[u64]) -> Result<Vec<Val<'c>>, Refusal> {
    let b = cx.b;
    let n = cx.op.operands.len() / 2;
    let shape = cx.shape(0);
    let out_shape = cx.out_shape();
    let types: Vec<DType> = (0..n).map(|i| cx.dtype(i)).collect();
    let inits: Vec<Val> = (0..n).map(|i| fill(&b, &cx.arg(n + i), &out_shape)).collect();
    let mut dims: Vec<i64> = dims.iter().map(|d| *d as i64).collect();
    dims.sort_unstable();
    if dims.iter().any(|d| shape[*d as usize] == 0) {
        return Ok(inits);
    }
    if dims.is_empty() {
        return over_nothing(cx, &types);
    }
    // A maximum is the same in f32, where those who look for it find it whatever the element type.
    if let (1, Some(kind)) = (n, combiner(&cx.op.regions[0]))
        && accumulator(types[0]) != types[0]
        && matches!(kind, BinaryOp::Add | BinaryOp::Multiply | BinaryOp::Maximum | BinaryOp::Minimum)
    {
        let acc = accumulator(types[0]);
        let to = |v: Val<'c>, s: &[i64], from, to| {
            elementwise::map(&b, s, to, &[v], |b, a| scalar::convert(b, from, to, &a[0]))
        };
        let wide = to(cx.arg(0), &shape, types[0], acc)?;
        let init = to(inits[0].clone(), &out_shape, types[0], acc)?;
        let op = b.reduce(&wide.parts(), &init.parts(), &dims, |b, a| {
            let sum = scalar::binary(b, kind, acc, &Val::One(a[1]), &Val::One(a[0]));
            vec![sum.map_or(a[1], |v| v.one())]
        });
        return Ok(vec![to(Val::of(&results(op)), &out_shape, acc, types[0])?]);
    }
    let inputs: Vec<Val> = (0..n).map(|i| cx.arg(i)).collect();
    let flat = |v: &[Val<'c>]| v.iter().flat_map(Val::parts).collect::<Vec<V>>();
    let (ins, outs) = (flat(&inputs), flat(&inits));
    let op = b.reduce(&ins, &outs, &dims, |b, a| {
        let (x, acc) = a.split_at(a.len() / 2);
        let args: Vec<Val> = unflatten(&inits, acc).into_iter().chain(unflatten(&inputs, x)).collect();
        flat(&cx.scalar_region(b, 0, &args))
    });
    Ok(unflatten(&inits, &results(op)))
}
/// Each element combined with the initial values.
fn over_nothing<'c>(cx: &mut Cx<'_, '_, 'c>, types: &[DType]) -> Result<Vec<Val<'c>>, Refusal> {
    let (b, shape) = (cx.b, cx.out_shape());
    let (inputs, inits): (Vec<Val>, Vec<Val>) = (0..types.len()).map(|i| (cx.arg(i), cx.arg(types.len() + i))).unzip();
    let args = [inits, inputs].concat();
    let cx = RefCell::new(cx);
    let result = |i: usize| {
        elementwise::map(&b, &shape, types[i], &args, |b, a| Ok(cx.borrow_mut().scalar_region(b, 0, a).swap_remove(i)))
    };
    (0..types.len()).map(result).collect()
}
/// Splits values as the parts of `like` are.
pub(super) fn unflatten<'c>(like: &[Val<'c>], mut flat: &[V<'c>]) -> Vec<Val<'c>> {
    like.iter()
        .map(|v| {
            let (own, rest) = flat.split_at(v.parts().len());
            flat = rest;
            Val::of(own)
        })
        .collect()
}
