//! Ops that only move data: broadcast, transpose (generics that yield their input), reshape (expand and collapse).

use super::{
    lower::Cx,
    value::{Val, splat_of},
};
use crate::ir::{B, V, ValueLike, elem, shape as extents_of};
use melior::ir::{Attribute, attribute::DenseElementsAttribute};

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
    // What is stretched is dropped first, so that the map stays a projection.
    let stays = |i: &usize| from[*i] == out[of[*i]];
    let kept: Vec<usize> = (0..from.len()).filter(stays).collect();
    let shape: Vec<i64> = kept.iter().map(|i| from[*i]).collect();
    let loops: Vec<usize> = kept.iter().map(|i| of[*i]).collect();
    copy(b, reshape_to(b, x, &shape), out, &loops)
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
    let mut of = vec![0; permutation.len()];
    for (i, p) in permutation.iter().enumerate() {
        of[*p as usize] = i;
    }
    if of.iter().copied().eq(0..out.len()) { x } else { copy(b, x, out, &of) }
}
pub(super) fn reshape<'c>(cx: &Cx<'_, '_, 'c>) -> Val<'c> {
    let out = cx.out_shape();
    cx.arg(0).each(|x| reshape_to(&cx.b, x, &out))
}
/// Collapses to the extents that both shapes share the factors of, then expands.
pub(super) fn reshape_to<'c>(b: &B<'c>, x: V<'c>, to: &[i64]) -> V<'c> {
    let from = extents_of(x.r#type());
    if from == to {
        return x;
    }
    let (from_groups, to_groups) = groups(&from, to);
    let merged: Vec<i64> = from_groups.iter().map(|g| g.iter().map(|i| from[*i]).product()).collect();
    let x = if merged.len() == from.len() { x } else { collapse(b, x, &merged, &from_groups) };
    if merged.len() == to.len() { x } else { expand(b, x, to, &to_groups) }
}
type Groups = Vec<Vec<usize>>;
/// Splits both shapes into as many groups as possible, of equal products; dimensions of extent 1 join a neighbour. No group if
/// either has rank 0.
fn groups(from: &[i64], to: &[i64]) -> (Groups, Groups) {
    let (mut i, mut j) = (0, 0);
    let (mut left, mut right): (Groups, Groups) = (vec![], vec![]);
    while i < from.len() && j < to.len() {
        let (mut p, mut q) = (from[i], to[j]);
        let (mut g, mut h) = (vec![i], vec![j]);
        i += 1;
        j += 1;
        while p != q {
            if p < q {
                p *= from[i];
                g.push(i);
                i += 1;
            } else {
                q *= to[j];
                h.push(j);
                j += 1;
            }
        }
        left.push(g);
        right.push(h);
    }
    // What is left over has extent 1.
    if let (Some(g), Some(h)) = (left.last_mut(), right.last_mut()) {
        g.extend(i..from.len());
        h.extend(j..to.len());
    }
    (left, right)
}
fn reassociation<'c>(b: &B<'c>, groups: &Groups) -> Attribute<'c> {
    let of = |g: &Vec<usize>| b.array(&g.iter().map(|i| b.i64_attr(*i as i64)).collect::<Vec<_>>());
    b.array(&groups.iter().map(of).collect::<Vec<_>>())
}
fn collapse<'c>(b: &B<'c>, x: V<'c>, to: &[i64], groups: &Groups) -> V<'c> {
    let t = b.tensor(to, elem(x.r#type()));
    b.op1("tensor.collapse_shape", &[x], t, &[("reassociation", reassociation(b, groups))])
}
fn expand<'c>(b: &B<'c>, x: V<'c>, to: &[i64], groups: &Groups) -> V<'c> {
    let t = b.tensor(to, elem(x.r#type()));
    let attrs = [("reassociation", reassociation(b, groups)), ("static_output_shape", b.i64s(to))];
    b.op1("tensor.expand_shape", &[x], t, &attrs)
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
        reshape_to(b, slice_static(b, x, &starts, &sizes, &vec![1; shape.len()]), outer)
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
/// tensor.extract_slice with static offsets, sizes and strides.
pub(super) fn slice_static<'c>(b: &B<'c>, x: V<'c>, starts: &[i64], sizes: &[i64], strides: &[i64]) -> V<'c> {
    let attrs = [
        ("static_offsets", b.i64s(starts)),
        ("static_sizes", b.i64s(sizes)),
        ("static_strides", b.i64s(strides)),
        ("operandSegmentSizes", b.i32s(&[1, 0, 0, 0])),
    ];
    b.op1("tensor.extract_slice", &[x], b.tensor(sizes, elem(x.r#type())), &attrs)
}
