//! The maximum of a row and the sum of its elements' exponentials from it in one reading (Milakov and Gimelshein, Online
//! normalizer calculation for softmax, 2018): what was summed from a smaller maximum is scaled where a larger one comes.
//!
//! NaN goes through the sum: its exponential is one, whatever the maximum is.
//!
//! A `linalg.reduce` with the attribute [`ONLINE`] is one; its body does it element by element, [`step`] for many at once.

use super::pick::number_of;
use crate::ir::*;

/// On a `linalg.reduce` of a tensor, taken twice, to its maximum and the sum of its exponentials, from minus infinity and 0.
pub const ONLINE: &str = "zml.online_softmax";

/// exp(x - max), where a maximum over nothing gives 0.
pub fn exponential<'c>(b: &B<'c>, x: V<'c>, max: V<'c>) -> V<'c> {
    let max = finite(b, max);
    b.same("math.exp", &[b.same("arith.subf", &[x, max])])
}
fn finite<'c>(b: &B<'c>, max: V<'c>) -> V<'c> {
    b.same("arith.maximumf", &[max, b.cfloat(b.f32(), f64::from(f32::MIN))])
}
fn larger<'c>(b: &B<'c>, x: V<'c>, y: V<'c>) -> V<'c> {
    number_of(b, "arith.maxnumf", x, y)
}
/// Before the first element: the maximum and the sum.
pub fn start<'c>(b: &B<'c>) -> [V<'c>; 2] {
    [f64::NEG_INFINITY, 0.0].map(|x| b.cfloat(b.f32(), x))
}
/// Takes in elements.
pub fn step<'c>(b: &B<'c>, [max, sum]: [V<'c>; 2], elements: &[V<'c>]) -> [V<'c>; 2] {
    let maximum = |x: &[V<'c>]| x.iter().copied().reduce(|x, y| larger(b, x, y));
    // In pairs of pairs, so that none waits for all before it.
    let mut level = elements.to_vec();
    while level.len() > 1 {
        level = level.chunks(2).filter_map(maximum).collect();
    }
    let new = larger(b, level[0], max);
    let from = finite(b, new);
    let exp = |x: V<'c>| b.same("math.exp", &[b.same("arith.subf", &[x, from])]);
    let mut terms: Vec<V> = elements.iter().map(|x| exp(*x)).collect();
    while terms.len() > 1 {
        terms = terms.chunks(2).filter_map(|p| p.iter().copied().reduce(|x, y| b.addf(x, y))).collect();
    }
    [new, b.addf(b.mulf(sum, exp(max)), terms[0])]
}
/// Of two parts.
pub fn join<'c>(b: &B<'c>, x: &[V<'c>], y: &[V<'c>]) -> Vec<V<'c>> {
    let max = larger(b, y[0], x[0]);
    let scaled = |part: &[V<'c>]| b.mulf(part[1], exponential(b, part[0], max));
    vec![max, b.addf(scaled(x), scaled(y))]
}
