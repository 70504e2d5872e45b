//! Rows: a part of a workgroup owns a row, reduces it once or several times, and writes what hangs on it.
//!
//! Softmax of `tensor<6x256xf32>` (rows 6, tail 256, vectors of 4): 64 threads a row, one vector each. Level 0, the
//! maximum: each thread takes the maximum of its 4, the row's 64 partial results meet in workgroup memory in a tree, all
//! threads read the row's value. Level 1, the sum of exponentials, the same way. Then thread p writes elements
//! 4p .. 4p+3. Because every level asks the engine for the same elements by the same index, what fits in registers is
//! read and computed once.
//!
//! Where a row's elements are not neighbours in memory but the rows are (a sum over dimension 0), neighbouring threads
//! take neighbouring rows instead and the lanes of a vector are rows.
//!
//! The initial value goes in once, after the parts have met.

mod meet;
mod plan;

use super::{
    build::{Em, Lanes},
    combine::{Combiner, neutral},
    index::Ix,
    kernel::{Dispatch, Frame, Launch, kernel},
    loops::{cost, too_large},
    output::{Item, items, write},
};
use crate::{ir::*, pass::PassError, spec::DeviceSpec};
use meet::{initial, meet};
use melior::ir::Type;
use plan::{Heavy, MOST_OPS, Plan, UNROLL, heavy, plan, power_below};

pub fn emit<'c>(b: &B<'c>, d: &Dispatch<'c>, spec: &DeviceSpec) -> Result<Launch, PassError> {
    let rows = int_attr(d.func, "zml.rows")
        .ok_or_else(|| PassError::Bug(format!("{}: a reduce dispatch says zml.rows", d.name)))?;
    let heavy = heavy(d);
    if heavy.is_empty() {
        return Err(PassError::Bug(format!("{}: the hero reduce has no reduction", d.name)));
    }
    let items = items(d);
    let plan = plan(d, &heavy, &items, rows, spec);
    let (block, groups) = (plan.parts * plan.owned, (plan.rows / plan.lanes_across() + plan.owned - 1) / plan.owned);
    let launch = Launch::new(groups, block as u32, spec).ok_or_else(|| too_large(d))?;
    let shared: Vec<(i64, Type)> = if plan.parts == 1 {
        vec![]
    } else {
        let outs = heavy.iter().flat_map(|h| &h.nest.outs);
        // After an exchange within subgroups, one value of each meets the others'.
        let slots = if plan.subgroup > 0 { block / plan.subgroup } else { block * plan.lanes_across() };
        outs.map(|o| (slots, elem(o.r#type()))).filter(|_| plan.subgroup == 0 || plan.parts > plan.subgroup).collect()
    };
    kernel(b, d, launch, &shared, |em, b, frame| {
        if rows == 0 {
            return;
        }
        em.if_below(b, frame.group, groups, |em, b| rows_of_group(em, b, d, frame, &plan, &heavy, &items));
    });
    Ok(launch)
}

/// The thread's place: its row (of lanes, with `across`) and its part.
struct Place {
    row: Ix,
    part: Ix,
    /// Number of the row before it was kept inside.
    unclamped: Ix,
}
fn place<'c>(em: &mut Em<'c>, b: &B<'c>, frame: &Frame<'c>, plan: &Plan) -> Place {
    let (local, part) = if plan.across {
        (em.ix.rem(frame.thread, plan.owned), em.ix.div(frame.thread, plan.owned))
    } else {
        (em.ix.div(frame.thread, plan.parts), em.ix.rem(frame.thread, plan.parts))
    };
    let first = em.ix.scale(frame.group, plan.owned);
    let unclamped = em.ix.add(first, local);
    let rows = plan.rows / plan.lanes_across();
    let mut row = unclamped;
    if em.ix.range(row).1 >= rows {
        // Threads without a row do the last one again and do not write.
        let (x, last) = (em.ssa(b, row), em.index(rows - 1));
        let v = b.same("arith.minui", &[x, last]);
        row = em.ix.value(v, (0, rows - 1));
    }
    if let Some(j) = plan.along {
        // The rows in the order in which they lie in memory: dimension j innermost, cut into lanes.
        let order: Vec<usize> = (0..plan.shape.len()).filter(|d| *d != j).chain([j]).collect();
        let lanes = plan.lanes;
        let extents: Vec<i64> = order.iter().map(|d| plan.shape[*d] / if *d == j { lanes } else { 1 }).collect();
        let mut index = vec![row; order.len()];
        for (d, i) in order.iter().zip(em.ix.delinear(row, &extents)) {
            index[*d] = i;
        }
        let lane = em.ix.lane(lanes);
        index[j] = em.ix.scale(index[j], lanes);
        index[j] = em.ix.add(index[j], lane);
        row = em.ix.linear(&index, &plan.shape);
    }
    Place { row, part, unclamped }
}

fn rows_of_group<'c>(
    em: &mut Em<'c>,
    b: &B<'c>,
    d: &Dispatch<'c>,
    frame: &Frame<'c>,
    plan: &Plan,
    heavy: &[Heavy<'c>],
    items: &[Item<'c>],
) {
    let place = place(em, b, frame, plan);
    let levels = heavy.iter().map(|h| h.level).max().map_or(0, |l| l + 1);
    for level in 0..levels {
        let mut left: Vec<&Heavy> = heavy.iter().filter(|h| h.level == level).collect();
        while let Some(first) = left.first() {
            let extent = first.nest.reduction_extent();
            let alike = |h: &Heavy| (h.nest.reduction_extent(), h.from_first(), h.ordered());
            let wanted = alike(first);
            let (now, later): (Vec<&Heavy>, Vec<&Heavy>) = left.into_iter().partition(|h| alike(h) == wanted);
            let partial = accumulate(em, b, plan, &place, &now, extent, cost(d));
            meet(em, b, frame, plan, &place, &now, &partial);
            left = later;
        }
    }
    let rows = plan.rows / plan.lanes_across();
    em.if_below(b, place.unclamped, rows, |em, b| tails(em, b, d, frame, plan, &place, items));
}

/// What is done with some chunks of a row, by their numbers: carried values to carried values.
type Step<'a, 'c> = dyn FnMut(&mut Em<'c>, &B<'c>, &[Ix], &[V<'c>]) -> Vec<V<'c>> + 'a;

/// Runs `f` over the chunks part, part + parts, ... below `chunks`, with carried values.
fn for_chunks<'c>(
    em: &mut Em<'c>,
    b: &B<'c>,
    (chunks, parts): (i64, i64),
    part: Ix,
    budget: i64,
    init: Vec<V<'c>>,
    f: &mut Step<'_, 'c>,
) -> Vec<V<'c>> {
    let unroll = UNROLL.min(budget.max(1));
    let strided = |em: &mut Em<'c>, first: Ix, n: i64| -> Vec<Ix> {
        (0..n).map(|u| em.ix.add_constant(first, u * parts)).collect()
    };
    if chunks % parts == 0 && chunks / parts <= unroll {
        let all = strided(em, part, chunks / parts);
        return if all.is_empty() { init } else { f(em, b, &all, &init) };
    }
    // Whole steps of several chunks first, then one by one what is left.
    let several = power_below(unroll.min(4));
    let whole = if several > 1 { chunks / (parts * several) } else { 0 };
    let mut carried = init;
    if whole > 0 {
        carried = em.for_each(b, whole, &carried, |em, b, i, carried| {
            let first = em.ix.scale(i, parts * several);
            let first = em.ix.add(first, part);
            let all = strided(em, first, several);
            f(em, b, &all, carried)
        });
    }
    let done = whole * parts * several;
    if done == chunks {
        return carried;
    }
    let from = em.ix.add_constant(part, done);
    let (from, to, step) = (em.ssa(b, from), em.index(chunks), em.index(parts));
    b.for_loop(from, to, step, &carried, |b, i, carried| {
        em.scoped(|em| {
            let i = em.ix.value(i, (done, chunks - 1));
            f(em, b, &[i], carried)
        })
    })
}

/// Runs `f` over the chunks after `first` of its segment, in order.
fn for_segment<'c>(
    em: &mut Em<'c>,
    b: &B<'c>,
    (chunks, segment): (i64, i64),
    first: Ix,
    budget: i64,
    init: Vec<V<'c>>,
    f: &mut Step<'_, 'c>,
) -> Vec<V<'c>> {
    let whole = chunks % segment == 0;
    if whole && segment - 1 <= UNROLL.min(budget) {
        let all: Vec<Ix> = (1..segment).map(|u| em.ix.add_constant(first, u)).collect();
        return if all.is_empty() { init } else { f(em, b, &all, &init) };
    }
    if whole {
        return em.for_each(b, segment - 1, &init, |em, b, i, carried| {
            let at = em.ix.add(first, i);
            let at = em.ix.add_constant(at, 1);
            f(em, b, &[at], carried)
        });
    }
    // The last segment may be shorter.
    let (from, end) = (em.ix.add_constant(first, 1), em.ix.add_constant(first, segment));
    let (from, end, step, all) = (em.ssa(b, from), em.ssa(b, end), em.index(1), em.index(chunks));
    let end = b.same("arith.minui", &[end, all]);
    b.for_loop(from, end, step, &init, |b, i, carried| {
        em.scoped(|em| {
            let i = em.ix.value(i, (1, chunks - 1));
            f(em, b, &[i], carried)
        })
    })
}

/// Each thread's part of reductions that have `extent` in common: accumulators by reduction, result, lane, flat.
fn accumulate<'c>(
    em: &mut Em<'c>,
    b: &B<'c>,
    plan: &Plan,
    place: &Place,
    heavy: &[&Heavy<'c>],
    extent: i64,
    cost: i64,
) -> Vec<V<'c>> {
    let across = plan.lanes_across() as usize;
    let along = plan.lanes_along();
    // Where the order of elements counts a part is a segment.
    let ordered = heavy.iter().any(|h| h.ordered());
    let from_first = heavy.iter().any(|h| h.from_first());
    let (segment, segments) = if ordered { plan.segments(extent) } else { (1, plan.parts) };
    let mut first = place.part;
    if segments < plan.parts {
        let (x, last) = (em.ssa(b, first), em.index(segments - 1));
        let v = b.same("arith.minui", &[x, last]);
        first = em.ix.value(v, (0, segments - 1));
    }
    let first = em.ix.scale(first, segment);
    let lane = em.ix.lane(along);
    let element = |em: &mut Em<'c>, h: &Heavy<'c>, k: Ix| -> Vec<Ix> {
        let index = em.ix.delinear(place.row, &h.extents());
        let mut loops = h.nest.loops_at(em, 0, &index);
        let dims = h.nest.reduction_loops();
        let extents: Vec<i64> = dims.iter().map(|d| h.nest.bounds[*d]).collect();
        for (d, i) in dims.into_iter().zip(em.ix.delinear(k, &extents)) {
            loops[d] = Some(i);
        }
        loops.into_iter().map(|l| l.expect("every loop is a row's or reduces")).collect()
    };
    let mut init = vec![];
    for h in heavy {
        match &h.combiner {
            Combiner::Ops(ops) => {
                for (op, out) in ops.iter().zip(&h.nest.outs) {
                    let x = neutral(em, b, op, elem(out.r#type()));
                    init.extend(vec![x; across]);
                }
            }
            Combiner::Body { .. } => {
                let k = em.ix.scale(first, along);
                let k = em.ix.add(k, lane);
                let loops = element(em, h, k);
                let first: Vec<Lanes> = em.body_inputs(b, &h.nest, &loops).into_iter().flatten().collect();
                if across > 1 {
                    init.extend(first.into_iter().flat_map(|x| if x.len() == 1 { vec![x[0]; across] } else { x }));
                } else {
                    let first: Vec<V> = first.iter().map(|x| x[0]).collect();
                    init.extend(em.chain(b, &h.nest, &loops, 1, &first));
                }
            }
            Combiner::Serial => {
                for lanes in initial(em, b, h, place, across) {
                    init.extend(lanes);
                }
            }
        }
    }
    let mut step = |em: &mut Em<'c>, b: &B<'c>, ks: &[Ix], carried: &[V<'c>]| {
        let mut loops_of = vec![];
        for h in heavy {
            for k in ks {
                let k = em.ix.scale(*k, along);
                let k = em.ix.add(k, lane);
                let loops = element(em, h, k);
                // All loads before the first use.
                em.body_inputs(b, &h.nest, &loops);
                loops_of.push(loops);
            }
        }
        let mut carried = carried;
        let mut next = vec![];
        for (h, loops) in heavy.iter().zip(loops_of.chunks(ks.len())) {
            let (mine, rest) = carried.split_at(h.nest.outs.len() * across);
            carried = rest;
            let mut lanes: Vec<Lanes> = mine.chunks(across).map(<[V]>::to_vec).collect();
            for loops in loops {
                lanes = if across > 1 {
                    em.inline(b, &h.nest, loops, Some(&lanes))
                } else {
                    let flat: Vec<V> = lanes.iter().map(|l| l[0]).collect();
                    em.chain(b, &h.nest, loops, 0, &flat).into_iter().map(|x| vec![x]).collect()
                };
            }
            next.extend(lanes.into_iter().flatten());
        }
        next
    };
    let budget = MOST_OPS / (cost * plan.lanes).max(1);
    // The first chunk is in already.
    if ordered {
        return for_segment(em, b, (extent / along, segment), first, budget, init, &mut step);
    }
    if from_first {
        let mut later = |em: &mut Em<'c>, b: &B<'c>, ks: &[Ix], carried: &[V<'c>]| {
            let ks: Vec<Ix> = ks.iter().map(|k| em.ix.add_constant(*k, plan.parts)).collect();
            step(em, b, &ks, carried)
        };
        return for_chunks(em, b, (extent / along - plan.parts, plan.parts), place.part, budget, init, &mut later);
    }
    for_chunks(em, b, (extent / along, plan.parts), place.part, budget, init, &mut step)
}

/// What hangs on the rows.
fn tails<'c>(
    em: &mut Em<'c>,
    b: &B<'c>,
    d: &Dispatch<'c>,
    frame: &Frame<'c>,
    plan: &Plan,
    place: &Place,
    items: &[Item<'c>],
) {
    // Results may have tails of different lengths.
    let mut lengths: Vec<i64> = items.iter().map(|i| i.elements() / plan.rows).collect();
    lengths.sort_unstable();
    lengths.dedup();
    for tail in lengths {
        let mine: Vec<&Item> = items.iter().filter(|i| i.elements() / plan.rows == tail).collect();
        if tail == 1 {
            em.if_below(b, place.part, 1, |em, b| write(em, b, d, frame, &mine, place.row));
            continue;
        }
        let cut = mine.iter().all(|i| i.shape.last().is_some_and(|n| n % plan.lanes == 0));
        let lanes = if plan.across || !cut || tail % plan.lanes != 0 { 1 } else { plan.lanes };
        let first = em.ix.scale(place.row, tail);
        let lane = em.ix.lane(lanes);
        let budget = MOST_OPS / (cost(d) * lanes).max(1);
        for_chunks(em, b, (tail / lanes, plan.parts), place.part, budget, vec![], &mut |em, b, chunks, _| {
            for chunk in chunks {
                let at = em.ix.scale(*chunk, lanes);
                let at = em.ix.add(at, lane);
                let at = em.ix.add(first, at);
                write(em, b, d, frame, &mine, at);
            }
            vec![]
        });
    }
}
