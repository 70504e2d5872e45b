//! Partial results of a row become one: through workgroup memory in a tree, or through registers within subgroups. The
//! initial value goes in last, once, and the row's values are made known to the engine.

use super::{
    super::{
        build::{Em, Lanes},
        combine::{Combiner, body},
        index::Ix,
        kernel::Frame,
    },
    Place,
    plan::{Heavy, Plan},
};
use crate::ir::*;

/// The initial values of a reduction at a row.
pub fn initial<'c>(em: &mut Em<'c>, b: &B<'c>, h: &Heavy<'c>, row: Ix, across: usize) -> Vec<Lanes<'c>> {
    let index = em.ix.delinear(row, &h.extents());
    h.nest
        .outs
        .iter()
        .map(|out| {
            let x = em.eval(b, *out, &index);
            if x.len() == 1 { vec![x[0]; across] } else { x }
        })
        .collect()
}

/// Whether an initial value is still to be taken in: a serial reduction and one of exponentials start from it, a partial one
/// has none.
fn has_initial(h: &Heavy) -> bool {
    !matches!(h.combiner, Combiner::Serial | Combiner::Online) && !has_attr(h.nest.op, "zml.partial")
}

/// Joins the parts of each of the thread's rows and makes the rows' values known to the engine. `partial`: by row,
/// reduction, result, lane.
pub fn meet<'c>(
    em: &mut Em<'c>,
    b: &B<'c>,
    frame: &Frame<'c>,
    plan: &Plan,
    place: &Place,
    heavy: &[&Heavy<'c>],
    partial: &[V<'c>],
) {
    let across = plan.lanes_across() as usize;
    // Each row's reductions, one row after the other.
    let all: Vec<&Heavy> = place.rows.iter().flat_map(|_| heavy.iter().copied()).collect();
    let slots: Vec<V> = if frame.shared.is_empty() {
        vec![]
    } else {
        let firsts: Vec<usize> =
            heavy.iter().flat_map(|h| (0..h.nest.outs.len()).map(|i| h.first_shared + i)).collect();
        let places = (0..place.rows.len()).flat_map(|j| firsts.iter().map(move |i| i + j * plan.arrays));
        places.filter_map(|i| frame.shared.get(i).copied()).collect()
    };
    let joined = match (plan.parts, plan.subgroup) {
        (1, _) => partial.to_vec(),
        (_, 0) => tree(em, b, frame, plan, place, &all, (&slots, partial)),
        _ => exchange(em, b, frame, plan, &all, &slots, partial),
    };
    let mut joined = &joined[..];
    let mut found: Vec<(usize, Vec<Ix>, Lanes)> = vec![];
    for row in &place.rows {
        for h in heavy {
            let n = h.nest.outs.len() * across;
            let (mine, rest) = joined.split_at(n);
            joined = rest;
            let mine = match &h.combiner {
                Combiner::Pick(pick) => pick.found(em, b, (h, plan), *row, mine),
                _ => mine.to_vec(),
            };
            let whole = if has_initial(h) {
                let first: Vec<V> = initial(em, b, h, *row, across).into_iter().flatten().collect();
                match &h.combiner {
                    Combiner::Pick(_) => body(em, b, &h.nest, &first, &mine),
                    _ => combine(em, b, &[h], &first, &mine, across),
                }
            } else {
                mine
            };
            let index = em.ix.delinear(*row, &h.extents());
            for (i, lanes) in whole.chunks(across).enumerate() {
                found.push((key(result(h.nest.op, i)), index.clone(), lanes.to_vec()));
            }
        }
    }
    found.iter().for_each(|(value, ..)| {
        em.heroes.remove(value);
    });
    for (value, index, lanes) in found {
        em.heroes.entry(value).or_default().push((index, lanes));
    }
}

/// Parts meet in workgroup memory, half of those that are left at each step.
fn tree<'c>(
    em: &mut Em<'c>,
    b: &B<'c>,
    frame: &Frame<'c>,
    plan: &Plan,
    place: &Place,
    heavy: &[&Heavy<'c>],
    (arrays, partial): (&[V<'c>], &[V<'c>]),
) -> Vec<V<'c>> {
    let across = plan.lanes_across();
    let block = plan.parts * plan.owned;
    // (array, lane) of each accumulator.
    let slots: Vec<(V, i64)> = arrays.iter().flat_map(|m| (0..across).map(move |l| (*m, l))).collect();
    let stride = if plan.across { plan.owned } else { 1 };
    let at = |em: &mut Em<'c>, b: &B<'c>, thread: Ix, lane: i64| {
        let i = em.ix.add_constant(thread, lane * block);
        em.ssa(b, i)
    };
    let load = |em: &mut Em<'c>, b: &B<'c>, thread: Ix| -> Vec<V<'c>> {
        slots
            .iter()
            .map(|(m, l)| {
                let i = at(em, b, thread, *l);
                b.op1("memref.load", &[*m, i], elem(m.r#type()), &[])
            })
            .collect()
    };
    let store = |em: &mut Em<'c>, b: &B<'c>, values: &[V<'c>]| {
        for ((m, l), x) in slots.iter().zip(values) {
            let i = at(em, b, frame.thread, *l);
            b.op("memref.store", &[*x, *m, i], &[], &[], vec![]);
        }
    };
    store(em, b, partial);
    barrier(b);
    let join = |em: &mut Em<'c>, b: &B<'c>, by: i64| {
        let mine = load(em, b, frame.thread);
        let other = em.ix.add_constant(frame.thread, by * stride);
        let other = load(em, b, other);
        let all = combine(em, b, heavy, &mine, &other, across as usize);
        store(em, b, &all);
    };
    if heavy.iter().any(|h| h.ordered()) {
        // Neighbours first, so that what comes earlier in the row stays on the left.
        let (_, segments) = plan.segments(heavy[0].nest.reduction_extent());
        let mut by = 1;
        while by < plan.parts {
            let even = em.ix.rem(place.part, 2 * by);
            em.if_below(b, even, 1, |em, b| em.if_below(b, place.part, segments - by, |em, b| join(em, b, by)));
            barrier(b);
            by *= 2;
        }
    } else {
        let mut half = plan.parts / 2;
        while half > 0 {
            em.if_below(b, place.part, half, |em, b| join(em, b, half));
            barrier(b);
            half /= 2;
        }
    }
    let minus = em.ix.scale(place.part, -stride);
    let first = em.ix.add(frame.thread, minus);
    load(em, b, first)
}
pub fn barrier(b: &B) {
    b.op("gpu.barrier", &[], &[], &[], vec![]);
}
/// Parts meet in registers within a subgroup; where a row has several, those meet in workgroup memory, once.
fn exchange<'c>(
    em: &mut Em<'c>,
    b: &B<'c>,
    frame: &Frame<'c>,
    plan: &Plan,
    heavy: &[&Heavy<'c>],
    slots: &[V<'c>],
    partial: &[V<'c>],
) -> Vec<V<'c>> {
    let across_lanes = |em: &mut Em<'c>, lanes: i64, mut mine: Vec<V<'c>>| {
        let t = b.i(32);
        let width = em.int(t, plan.subgroup);
        let mut offset = lanes / 2;
        while offset > 0 {
            let by = em.int(t, offset);
            let mode = [("mode", b.attr("#gpu<shuffle_mode xor>"))];
            let shuffled =
                |x: &V<'c>| result(b.op("gpu.shuffle", &[*x, by, width], &[x.r#type(), b.i1()], &mode, vec![]), 0);
            let other: Vec<V> = mine.iter().map(shuffled).collect();
            mine = combine(em, b, heavy, &mine, &other, 1);
            offset /= 2;
        }
        mine
    };
    let mine = across_lanes(em, plan.parts.min(plan.subgroup), partial.to_vec());
    if plan.parts <= plan.subgroup {
        return mine;
    }
    let (lane, group) = (em.ix.rem(frame.thread, plan.subgroup), em.ix.div(frame.thread, plan.subgroup));
    em.if_below(b, lane, 1, |em, b| {
        let at = em.ssa(b, group);
        for (m, x) in slots.iter().zip(&mine) {
            b.op("memref.store", &[*x, *m, at], &[], &[], vec![]);
        }
    });
    barrier(b);
    let per_row = plan.parts / plan.subgroup;
    let row = em.ix.div(frame.thread, plan.parts);
    let first = em.ix.scale(row, per_row);
    let load = |em: &mut Em<'c>, k: Ix| -> Vec<V<'c>> {
        let at = em.ix.add(first, k);
        let at = em.ssa(b, at);
        slots.iter().map(|m| b.op1("memref.load", &[*m, at], elem(m.r#type()), &[])).collect()
    };
    // What takes long to join the lanes join, once for all.
    if heavy.iter().any(|h| h.is_online()) && per_row <= plan.subgroup && per_row.count_ones() == 1 {
        let part = em.ix.rem(frame.thread, per_row);
        let mine = load(em, part);
        return across_lanes(em, per_row, mine);
    }
    // Every thread takes all of its row's, in one order.
    let zero = em.ix.constant(0);
    let mut all = load(em, zero);
    for k in 1..per_row {
        let k = em.ix.constant(k);
        let next = load(em, k);
        all = combine(em, b, heavy, &all, &next, 1);
    }
    all
}
fn combine<'c>(
    em: &mut Em<'c>,
    b: &B<'c>,
    heavy: &[&Heavy<'c>],
    x: &[V<'c>],
    y: &[V<'c>],
    across: usize,
) -> Vec<V<'c>> {
    let mut all = vec![];
    let mut start = 0;
    for h in heavy {
        let outs = h.nest.outs.len();
        let mut lanes = vec![vec![]; outs];
        for l in 0..across {
            let pick = |v: &[V<'c>]| -> Vec<V<'c>> { (0..outs).map(|i| v[start + i * across + l]).collect() };
            for (i, z) in h.combiner.combine(em, b, &h.nest, &pick(x), &pick(y)).into_iter().enumerate() {
                lanes[i].push(z);
            }
        }
        all.extend(lanes.into_iter().flatten());
        start += outs * across;
    }
    all
}
