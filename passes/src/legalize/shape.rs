//! Ops that only move data: broadcast, transpose (generics that yield their input), reshape (expand and collapse).

use super::{
    lower::Cx,
    value::{Val, splat_of},
};
use crate::ir::{B, V, ValueLike, elem, shape as extents_of};
use melior::ir::attribute::DenseElementsAttribute;

/// A generic that yields its input: dimension i of `x` follows loop `of[i]`.
pub(super) fn copy<'c>(b: &B<'c>, x: V<'c>, shape: &[i64], of: &[usize]) -> V<'c> {
    b.map(shape, elem(x.r#type()), &[(x, of)], |_, a| a[0])
}
pub(super) fn broadcast_in_dim<'c>(cx: &Cx<'_, '_, 'c>, dims: &[u64]) -> Val<'c> {
    let out = cx.out_shape();
    cx.arg(0).each(|x| broadcast(&cx.b, x, &out, dims))
}
pub(super) fn broadcast<'c>(b: &B<'c>, x: V<'c>, out: &[i64], dims: &[u64]) -> V<'c> {
    let from = extents_of(x.r#type());
    let of: Vec<usize> = dims.iter().map(|d| *d as usize).collect();
    if from == out && of.iter().copied().eq(0..out.len()) {
        return x;
    }
    if let Some(a) = splat_of(x) {
        let t = b.tensor(out, elem(x.r#type()));
        return b.constant(DenseElementsAttribute::splat(t, a).into(), t);
    }
    // Dimensions of extent 1 come and go by reshapes, so that the map is a projection and no copy only adds them.
    let long: Vec<usize> = (0..out.len()).filter(|d| out[*d] != 1).collect();
    let kept: Vec<usize> = (0..from.len()).filter(|i| from[*i] != 1).collect();
    let loops: Vec<usize> = kept.iter().map(|i| position(&long, of[*i])).collect();
    let x = b.reshape(x, &kept.iter().map(|i| from[*i]).collect::<Vec<_>>());
    let inner: Vec<i64> = long.iter().map(|d| out[*d]).collect();
    let stretched = if loops.iter().copied().eq(0..long.len()) { x } else { copy(b, x, &inner, &loops) };
    b.reshape(stretched, out)
}
fn position(list: &[usize], x: usize) -> usize {
    list.iter().position(|y| *y == x).expect("a dimension longer than 1 stays so")
}
/// A rank-0 value in every element of a tensor that accumulates.
pub(super) fn fill<'c>(b: &B<'c>, x: &Val<'c>, out: &[i64]) -> Val<'c> {
    x.each(|x| match splat_of(x) {
        Some(a) => b.fill(b.constant(a, elem(x.r#type())), out),
        None => broadcast(b, x, out, &[]),
    })
}
pub(super) fn transpose<'c>(cx: &Cx<'_, '_, 'c>, permutation: &[u64]) -> Val<'c> {
    let out = cx.out_shape();
    cx.arg(0).each(|x| transpose_to(&cx.b, x, &out, permutation))
}
fn transpose_to<'c>(b: &B<'c>, x: V<'c>, out: &[i64], permutation: &[u64]) -> V<'c> {
    // The dimension of the result that each one of the operand becomes.
    let mut of = vec![0; permutation.len()];
    for (i, p) in permutation.iter().enumerate() {
        of[*p as usize] = i as u64;
    }
    broadcast(b, x, out, &of)
}
pub(super) fn reshape<'c>(cx: &Cx<'_, '_, 'c>) -> Val<'c> {
    let out = cx.out_shape();
    cx.arg(0).each(|x| cx.b.reshape(x, &out))
}
pub(super) fn slice<'c>(cx: &Cx<'_, '_, 'c>, start: &[i64], strides: &[i64]) -> Val<'c> {
    let sizes = cx.out_shape();
    if sizes == cx.shape(0) {
        return cx.arg(0);
    }
    // A stride over one element is none.
    let strides: Vec<i64> = strides.iter().zip(&sizes).map(|(s, n)| if *n == 1 { 1 } else { *s }).collect();
    cx.arg(0).each(|x| slice_static(&cx.b, x, start, &sizes, &strides))
}
pub(super) fn concatenate<'c>(cx: &Cx<'_, '_, 'c>, dim: u64) -> Val<'c> {
    // Operands without elements add nothing.
    let operands: Vec<Val> =
        (0..cx.op.operands.len()).filter(|i| !cx.shape(*i).contains(&0)).map(|i| cx.arg(i)).collect();
    if let [one] = &operands[..] {
        return one.clone();
    }
    let parts: Vec<V> = (0..operands[0].parts().len())
        .map(|k| {
            let parts: Vec<V> = operands.iter().map(|v| v.parts()[k]).collect();
            let t = cx.b.tensor(&cx.out_shape(), elem(parts[0].r#type()));
            cx.b.op1("tensor.concat", &parts, t, &[("dim", cx.b.i64_attr(dim as i64))])
        })
        .collect();
    Val::of(&parts)
}

/// A boundary tensor, last dimension 2, as a pair.
pub(super) fn deinterleave<'c>(b: &B<'c>, x: V<'c>) -> Val<'c> {
    let shape = extents_of(x.r#type());
    let (_, outer) = shape.split_last().expect("a boundary tensor has a last dimension of 2");
    let part = |k: i64| {
        let starts: Vec<i64> = outer.iter().map(|_| 0).chain([k]).collect();
        let sizes: Vec<i64> = outer.iter().copied().chain([1]).collect();
        b.reshape(slice_static(b, x, &starts, &sizes, &vec![1; shape.len()]), outer)
    };
    Val::Complex(part(0), part(1))
}
/// Back.
pub(super) fn interleave<'c>(b: &B<'c>, re: V<'c>, im: V<'c>) -> V<'c> {
    let outer = extents_of(re.r#type());
    let n = outer.len();
    let mut shape = outer;
    shape.push(2);
    let loops: Vec<usize> = (0..n).collect();
    b.map(&shape, elem(re.r#type()), &[(re, &loops), (im, &loops)], |b, a| {
        let first = b.cmpi("eq", b.loop_index(n as i64), b.cidx(0));
        b.select(first, a[0], a[1])
    })
}
/// tensor.extract_slice with static offsets, sizes and strides; one without elements is a constant.
pub(crate) fn slice_static<'c>(b: &B<'c>, x: V<'c>, starts: &[i64], sizes: &[i64], strides: &[i64]) -> V<'c> {
    if sizes.contains(&0) {
        let t = b.tensor(sizes, elem(x.r#type()));
        return b.constant(b.attr(&format!("dense<> : {t}")), t);
    }
    let attrs = [
        ("static_offsets", b.i64s(starts)),
        ("static_sizes", b.i64s(sizes)),
        ("static_strides", b.i64s(strides)),
        ("operandSegmentSizes", b.i32s(&[1, 0, 0, 0])),
    ];
    b.op1("tensor.extract_slice", &[x], b.tensor(sizes, elem(x.r#type())), &attrs)
}
