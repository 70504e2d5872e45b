//! How a running reduction is cut.

use super::reduction::cut;
use crate::{
    ir::*,
    legalize::{grow, slice_static},
    spec::DeviceSpec,
};

/// Elements of a part below which steps of their own do not pay.
const LEAST_PART: i64 = 4096;
/// Elements of a part at most: neighbours, and what one thread walks along.
const LONGEST_PART: i64 = 1 << 22;
const LONGEST_WALK: i64 = 1 << 14;
/// Rows that one workgroup takes where rows are neighbours in memory.
const ACROSS: i64 = 256;

pub fn split<'c>(b: &B<'c>, op: O<'c>, spec: &DeviceSpec) {
    let all = operands(op);
    let (inputs, inits) = all.split_at(all.len() / 2);
    let (Some(dim), Some(reverse), Some(exclusive)) =
        (int_attr(op, "dimension"), bool_attr(op, "reverse"), bool_attr(op, "exclusive"))
    else {
        return;
    };
    let dim = dim as usize;
    let extents = shape(inputs[0].r#type());
    if extents.contains(&0) {
        return;
    }
    let (n, rows) = (extents[dim], elements(inits[0].r#type()));
    let across = (0..extents.len()).rev().find(|d| extents[*d] > 1).is_some_and(|d| d != dim);
    let (groups, least, longest) =
        if across { (rows / ACROSS, LEAST_PART / 64, LONGEST_WALK) } else { (rows, LEAST_PART, LONGEST_PART) };
    let wanted = i64::from(spec.parallel_blocks) * 2 / groups.max(1);
    let parts = (n / longest).max(wanted.min(n / least));
    if parts < 2 {
        return;
    }
    let (count, length) = cut(n, parts);
    let count = count + i64::from(count * length < n);
    let missing = count * length - n;
    // What is made up lies where the scan comes last.
    let edge = |amount: i64| -> Vec<i64> { (0..extents.len()).map(|d| if d == dim { amount } else { 0 }).collect() };
    let (low, high) = if reverse { (edge(missing), edge(0)) } else { (edge(0), edge(missing)) };
    let mut shaped = extents.clone();
    shaped.splice(dim..=dim, [count, length]);
    let mut parted = extents.clone();
    parted[dim] = count;
    let body = block(op, 0);
    let cut: Vec<V> =
        inputs.iter().map(|v| b.reshape(grow(b, *v, &low, &high, |b| b.zero(elem(v.r#type()))), &shaped)).collect();
    let empty: Vec<V> = inits.iter().map(|v| b.fill(b.zero(elem(v.r#type())), &parted)).collect();
    let totals = b.reduce(&cut, &empty, &[dim as i64 + 1], |b, a| {
        let (x, sums) = a.split_at(inputs.len());
        rewrite::yielded(b, body, &[sums, x].concat())
    });
    rewrite::set_attr(totals, "zml.partial", b.unit());
    let before = b.scan(&results(totals), inits, (dim, reverse, true), |b, a| rewrite::yielded(b, body, a));
    let done = b.scan(&cut, &before, (dim + 1, reverse, exclusive), |b, a| rewrite::yielded(b, body, a));
    let mut whole = extents.clone();
    whole[dim] = count * length;
    let label = attr(op, "zml.op");
    for v in before.iter().chain(&done).chain(&results(totals)) {
        if let (Some(op), Some(label)) = (def(*v), label) {
            rewrite::set_attr(op, "zml.op", label);
        }
    }
    for (i, v) in done.into_iter().enumerate() {
        let v = b.reshape(v, &whole);
        let v = if missing == 0 { v } else { slice_static(b, v, &low, &extents, &vec![1; extents.len()]) };
        rewrite::replace_uses(result(op, i), v);
    }
    rewrite::erase(op);
}
