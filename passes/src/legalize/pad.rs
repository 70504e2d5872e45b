//! pad in all its forms from structured ops: interior padding is an added dimension that is padded and merged, a negative
//! edge is a slice, a value that is not a constant is chosen by comparing indices.

use super::{
    lower::Cx,
    shape::{broadcast, slice_static},
    value::{Val, splat_of},
};
use crate::ir::{B, V, ValueLike, elem, is_float, result, shape};
use melior::ir::{
    Attribute, Type,
    attribute::{DenseElementsAttribute, FloatAttribute, IntegerAttribute},
};
use zmlc_import::tree::OpKind;

pub(super) struct Padding {
    /// Elements before the first and after the last; negative cuts.
    pub low: Vec<i64>,
    pub high: Vec<i64>,
    /// Elements between neighbours.
    pub interior: Vec<i64>,
}
impl Padding {
    pub fn none(rank: usize) -> Self {
        Padding { low: vec![0; rank], high: vec![0; rank], interior: vec![0; rank] }
    }
}

pub(super) fn lower<'c>(cx: &Cx<'_, '_, 'c>) -> Val<'c> {
    let OpKind::Pad { low, high, interior } = &cx.op.kind else { panic!("not a pad") };
    let padding = Padding { low: low.clone(), high: high.clone(), interior: interior.clone() };
    pad(&cx.b, &cx.arg(0), &cx.arg(1), &padding)
}
/// `with` has rank 0.
pub(super) fn pad<'c>(b: &B<'c>, x: &Val<'c>, with: &Val<'c>, p: &Padding) -> Val<'c> {
    let parts: Vec<V> = x.parts().into_iter().zip(with.parts()).map(|(x, with)| pad_real(b, x, with, p)).collect();
    Val::of(&parts)
}
fn pad_real<'c>(b: &B<'c>, x: V<'c>, with: V<'c>, p: &Padding) -> V<'c> {
    let from = shape(x.r#type());
    let padded = |n: i64, d: usize| p.low[d] + n + (n - 1).max(0) * p.interior[d] + p.high[d];
    let out: Vec<i64> = from.iter().enumerate().map(|(d, n)| padded(*n, d)).collect();
    if from.contains(&0) {
        return broadcast(b, with, &out, &[]);
    }
    if out == from && p.low.iter().all(|l| *l == 0) && p.interior.iter().all(|i| *i == 0) {
        return x;
    }
    let Some(value) = splat_of(with) else {
        return choose(b, x, with, p, &out);
    };
    let x = spread(b, x, &p.interior, |b| b.constant(value, elem(x.r#type())));
    let (low, high) = (cut(&p.low), cut(&p.high));
    if shape(x.r#type()).iter().zip(low.iter().zip(&high)).any(|(n, (l, h))| l + h >= *n) {
        // Nothing of the operand is left.
        return broadcast(b, with, &out, &[]);
    }
    let x = edges(b, x, &low, &high);
    grow(b, x, &p.low, &p.high, |b| b.constant(value, elem(x.r#type())))
}
/// The negative amounts, as positive ones.
fn cut(edge: &[i64]) -> Vec<i64> {
    edge.iter().map(|e| (-e).max(0)).collect()
}
/// Cuts elements off.
fn edges<'c>(b: &B<'c>, x: V<'c>, low: &[i64], high: &[i64]) -> V<'c> {
    if low.iter().chain(high).all(|e| *e == 0) {
        return x;
    }
    let from = shape(x.r#type());
    let sizes: Vec<i64> = (0..from.len()).map(|d| from[d] - low[d] - high[d]).collect();
    slice_static(b, x, low, &sizes, &vec![1; from.len()])
}
/// Adds the positive amounts at the edges.
pub(crate) fn grow<'c>(b: &B<'c>, x: V<'c>, low: &[i64], high: &[i64], value: impl FnOnce(&B<'c>) -> V<'c>) -> V<'c> {
    let from = shape(x.r#type());
    let (low, high): (Vec<i64>, Vec<i64>) =
        (low.iter().map(|e| (*e).max(0)).collect(), high.iter().map(|e| (*e).max(0)).collect());
    if low.iter().chain(&high).all(|e| *e == 0) {
        return x;
    }
    let out: Vec<i64> = (0..from.len()).map(|d| low[d] + from[d] + high[d]).collect();
    let v = value(b);
    let region = b.region(&vec![b.index(); from.len()], |b, _| {
        b.op("tensor.yield", &[v], &[], &[], vec![]);
    });
    let attrs =
        [("static_low", b.i64s(&low)), ("static_high", b.i64s(&high)), ("operandSegmentSizes", b.i32s(&[1, 0, 0]))];
    let t = b.tensor(&out, elem(x.r#type()));
    result(b.op("tensor.pad", &[x], &[t], &attrs, vec![region]), 0)
}
/// Puts `interior` values between neighbours.
fn spread<'c>(b: &B<'c>, x: V<'c>, interior: &[i64], value: impl FnOnce(&B<'c>) -> V<'c>) -> V<'c> {
    if interior.iter().all(|i| *i == 0) {
        return x;
    }
    let from = shape(x.r#type());
    // [n, 1] padded to [n, 1 + i] and merged has i values after each element; those after the last go.
    let (mut split, mut high, mut merged) = (vec![], vec![], vec![]);
    for (n, i) in from.iter().zip(interior) {
        split.push(*n);
        high.push(0);
        if *i > 0 {
            split.push(1);
            high.push(*i);
        }
        merged.push(n * (1 + i));
    }
    let x = grow(b, b.reshape(x, &split), &vec![0; split.len()], &high, value);
    edges(b, b.reshape(x, &merged), &vec![0; from.len()], interior)
}
/// With a value known only at run time: pads with zeros, then replaces what is not an element.
fn choose<'c>(b: &B<'c>, x: V<'c>, with: V<'c>, p: &Padding, out: &[i64]) -> V<'c> {
    let from = shape(x.r#type());
    let t = elem(x.r#type());
    let rank0 = b.tensor(&[], t);
    let zeros = b.constant(DenseElementsAttribute::splat(rank0, zero_attr(b, t)).into(), rank0);
    let padded = pad_real(b, x, zeros, p);
    let identity: Vec<usize> = (0..out.len()).collect();
    b.map(out, t, &[(padded, &identity), (with, &[])], |b, a| {
        let mut inside = b.cint(b.i1(), 1);
        for (d, extent) in from.iter().enumerate() {
            let step = 1 + p.interior[d];
            let at = b.same("arith.subi", &[b.loop_index(d as i64), b.cidx(p.low[d])]);
            // Unsigned, so that what is before the first is beyond the last.
            let within = b.cmpi("ult", at, b.cidx((extent - 1) * step + 1));
            inside = b.same("arith.andi", &[inside, within]);
            if step > 1 {
                let on = b.cmpi("eq", b.same("arith.remui", &[at, b.cidx(step)]), b.cidx(0));
                inside = b.same("arith.andi", &[inside, on]);
            }
        }
        b.select(inside, a[0], a[1])
    })
}
fn zero_attr<'c>(b: &B<'c>, t: Type<'c>) -> Attribute<'c> {
    if is_float(t) { FloatAttribute::new(b.c, t, 0.0).into() } else { IntegerAttribute::new(t, 0).into() }
}
