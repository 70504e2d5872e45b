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

use super::{
    build::{Em, Lanes},
    combine::{Combiner, neutral},
    index::Ix,
    kernel::{Dispatch, Frame, Launch, kernel},
    loops::{cost, too_large},
    nest::Nest,
    output::{Item, items, write},
};
use crate::{ir::*, pass::PassError, spec::DeviceSpec};
use melior::ir::Type;

/// Chunks of a thread that are written out one after the other rather than in a loop.
const UNROLL: i64 = 8;
/// Ops of one thread above which nothing is written out.
const MOST_OPS: i64 = 1024;

/// One reduction of the dispatch.
struct Heavy<'c> {
    nest: Nest<'c>,
    combiner: Combiner,
    /// One more than the highest level that it reads.
    level: usize,
    /// Its arrays in workgroup memory: the first of one for each accumulator.
    first_shared: usize,
}
/// Who does what.
#[derive(Debug, PartialEq)]
struct Plan {
    rows: i64,
    /// Elements of each result in a row.
    tail: i64,
    /// Threads of a row.
    parts: i64,
    /// Rows of a workgroup, lanes aside.
    owned: i64,
    /// Neighbouring threads have neighbouring rows.
    across: bool,
    /// Lanes of a chunk of a row, or with `across` rows of a thread.
    lanes: i64,
}

pub fn emit<'c>(b: &B<'c>, d: &Dispatch<'c>, spec: &DeviceSpec) -> Result<Launch, PassError> {
    let rows = int_attr(d.func, "zml.rows")
        .ok_or_else(|| PassError::Bug(format!("{}: a reduce dispatch says zml.rows", d.name)))?;
    let heavy = heavy(d);
    let items = items(d);
    let plan = plan(d, &heavy, &items, rows, spec);
    let (block, groups) = (plan.parts * plan.owned, (plan.rows / plan.lanes_across() + plan.owned - 1) / plan.owned);
    let launch = Launch::new(groups, block as u32, spec).ok_or_else(|| too_large(d))?;
    let shared: Vec<(i64, Type)> = if plan.parts == 1 {
        vec![]
    } else {
        let outs = heavy.iter().flat_map(|h| &h.nest.outs);
        outs.map(|o| (block * plan.lanes_across(), elem(o.r#type()))).collect()
    };
    kernel(b, d, launch, &shared, |em, b, frame| {
        if rows == 0 {
            return;
        }
        em.if_below(b, frame.group, groups, |em, b| rows_of_group(em, b, d, frame, &plan, &heavy, &items));
    });
    Ok(launch)
}

fn heavy<'c>(d: &Dispatch<'c>) -> Vec<Heavy<'c>> {
    let mut found: Vec<Heavy> = vec![];
    // Level of each value: that of the highest reduction below it, plus one.
    let mut above = std::collections::HashMap::new();
    let mut first_shared = 0;
    for op in &d.ops {
        let below = reads(*op).iter().filter_map(|v| above.get(&key(*v)).copied()).max().unwrap_or(0);
        let nest = Nest::of(*op).filter(|n| !n.is_parallel());
        let mine = below + usize::from(nest.is_some());
        for r in results(*op) {
            above.insert(key(r), mine);
        }
        if let Some(nest) = nest {
            let outs = nest.outs.len();
            // Nothing to reduce: the initial value is all.
            let combiner = if nest.reduction_extent() == 0 { Combiner::Serial } else { Combiner::of(&nest) };
            found.push(Heavy { combiner, nest, level: below, first_shared });
            first_shared += outs;
        }
    }
    found
}

impl Plan {
    fn lanes_across(&self) -> i64 {
        if self.across { self.lanes } else { 1 }
    }
    fn lanes_along(&self) -> i64 {
        if self.across { 1 } else { self.lanes }
    }
}
/// Whether the largest input of the largest reduction has its rows, not their elements, next to each other.
fn is_across(heavy: &[Heavy]) -> bool {
    let size = |h: &&Heavy| (h.nest.reduction_extent(), h.nest.ins.iter().map(|v| elements(v.r#type())).max());
    let Some(h) = heavy.iter().rev().max_by_key(size) else { return false };
    let n = &h.nest;
    let Some(i) = (0..n.ins.len()).rev().max_by_key(|i| elements(n.ins[*i].r#type())) else { return false };
    let extents = shape(n.ins[i].r#type());
    let Some(last) = (0..extents.len()).rev().find(|d| extents[*d] > 1) else { return false };
    n.reduction_loops().iter().all(|l| n.input_dim(i, *l) != Some(last))
        && (0..n.bounds.len()).any(|l| n.input_dim(i, l) == Some(last))
}
/// The greatest power of two that is at most `n`, at least 1.
fn power_below(n: i64) -> i64 {
    1 << (63 - n.max(1).leading_zeros())
}
fn plan(d: &Dispatch, heavy: &[Heavy], items: &[Item], rows: i64, spec: &DeviceSpec) -> Plan {
    let across = is_across(heavy);
    let tail = if rows == 0 { 0 } else { items.iter().map(Item::elements).max().unwrap_or(0) / rows };
    let extent = heavy.iter().map(|h| h.nest.reduction_extent()).max().unwrap_or(1);
    let inputs = heavy.iter().flat_map(|h| h.nest.ins.iter()).filter(|v| is_tensor(v.r#type()));
    let widest = inputs.map(|v| elem_bytes(v.r#type())).max().unwrap_or(1);
    let serial = heavy.iter().any(|h| matches!(h.combiner, Combiner::Serial));
    let by_body = heavy.iter().any(|h| matches!(h.combiner, Combiner::Body));
    let innermost = |n: &Nest| n.reduction_loops().last().map_or(1, |l| n.bounds[*l]);
    let fits = |lanes: i64| {
        lanes * cost(d) <= MOST_OPS
            && if across {
                // Rows are cut into lanes only where nothing else hangs on a row.
                tail == 1 && heavy.iter().all(|h| result_extents(h).last().is_some_and(|n| n % lanes == 0))
            } else {
                !by_body && heavy.iter().all(|h| innermost(&h.nest) % lanes == 0)
            }
    };
    let mut lanes = i64::from(spec.vector_bytes) / widest;
    while lanes > 1 && !fits(lanes) {
        lanes /= 2;
    }
    let lanes = lanes.max(1);
    let fill = i64::from(spec.parallel_blocks);
    let accumulators: i64 = heavy.iter().flat_map(|h| &h.nest.outs).map(|o| elem_bytes(o.r#type())).sum();
    let across_lanes = if across { lanes } else { 1 };
    let room = i64::from(spec.shared_bytes) / (accumulators * across_lanes).max(1);
    let most = power_below(i64::from(spec.max_block).min(room));
    let least = heavy.iter().map(|h| h.nest.reduction_extent()).min().unwrap_or(1);
    let limit = if serial {
        1
    } else if by_body {
        least
    } else {
        i64::MAX
    };
    if across {
        let threads = rows / lanes;
        let owned = power_below((2 * threads - 1).max(1)).min(32);
        // Enough parts that the device is full, no more than leave each some elements.
        let wanted = (fill * 256 / threads.max(1)).max(8);
        let parts = power_below(wanted.min((extent / 4).max(1)).min(limit)).min(256 / owned).min((most / owned).max(1));
        let owned = if parts == 1 { owned.max(64).min(most) } else { owned };
        return Plan { rows, tail, parts, owned, across, lanes };
    }
    let chunks = extent.max(tail) / lanes;
    let block = if rows < fill && chunks >= 1024 { 1024 } else { 256 }.min(most);
    // Many rows: four chunks a thread hide the latency of memory; few rows: all threads that have something to do.
    let wanted = if rows >= fill * 4 { chunks / 4 } else { chunks };
    let parts = power_below(wanted.max(1)).min(block).min(power_below(limit));
    let owned = (block / parts).min(power_below((2 * rows - 1).max(1)));
    // Spread few rows over more workgroups.
    let spread = power_below((rows / fill).max(1)).max(if parts < 32 { 32 / parts } else { 1 });
    Plan { rows, tail, parts, owned: owned.min(spread), across, lanes }
}
fn result_extents(h: &Heavy) -> Vec<i64> {
    shape(result(h.nest.op, 0).r#type())
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
    let lanes = plan.lanes_across();
    if lanes > 1 {
        row = em.ix.scale(row, lanes);
        let lane = em.ix.lane(lanes);
        row = em.ix.add(row, lane);
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
            let (now, later): (Vec<&Heavy>, Vec<&Heavy>) =
                left.into_iter().partition(|h| h.nest.reduction_extent() == extent);
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
    let by_body = heavy.iter().any(|h| matches!(h.combiner, Combiner::Body));
    let element = |em: &mut Em<'c>, h: &Heavy<'c>, k: Ix| -> Vec<Ix> {
        let index = em.ix.delinear(place.row, &result_extents(h));
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
            Combiner::Body => {
                let loops = element(em, h, place.part);
                for x in em.body_inputs(b, &h.nest, &loops).into_iter().take(h.nest.outs.len()) {
                    let x = x.expect("a combiner reads its inputs");
                    init.extend(if x.len() == 1 { vec![x[0]; across] } else { x });
                }
            }
            Combiner::Serial => {
                for lanes in initial(em, b, h, place, across) {
                    init.extend(lanes);
                }
            }
        }
    }
    // Where the first elements are in already, the next ones follow `parts` later.
    let shift = if by_body { plan.parts } else { 0 };
    let chunks = extent / along - shift;
    let lane = em.ix.lane(along);
    for_chunks(
        em,
        b,
        (chunks, plan.parts),
        place.part,
        MOST_OPS / (cost * plan.lanes).max(1),
        init,
        &mut |em, b, ks, carried| {
            let mut loops_of = vec![];
            for h in heavy {
                for k in ks {
                    let k = em.ix.add_constant(*k, shift);
                    let k = em.ix.scale(k, along);
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
                        em.chain(b, &h.nest, loops, &flat).into_iter().map(|x| vec![x]).collect()
                    };
                }
                next.extend(lanes.into_iter().flatten());
            }
            next
        },
    )
}
/// The initial values of a reduction at the thread's row.
fn initial<'c>(em: &mut Em<'c>, b: &B<'c>, h: &Heavy<'c>, place: &Place, across: usize) -> Vec<Lanes<'c>> {
    let index = em.ix.delinear(place.row, &result_extents(h));
    h.nest
        .outs
        .iter()
        .map(|out| {
            let x = em.eval(b, *out, &index);
            if x.len() == 1 { vec![x[0]; across] } else { x }
        })
        .collect()
}

/// Joins the parts of each row and makes the row's values known to the engine.
fn meet<'c>(
    em: &mut Em<'c>,
    b: &B<'c>,
    frame: &Frame<'c>,
    plan: &Plan,
    place: &Place,
    heavy: &[&Heavy<'c>],
    partial: &[V<'c>],
) {
    let across = plan.lanes_across();
    let block = plan.parts * plan.owned;
    let mut joined = partial.to_vec();
    if plan.parts > 1 {
        // (array, lane) of each accumulator.
        let slots: Vec<(V, i64)> = heavy
            .iter()
            .flat_map(|h| (0..h.nest.outs.len()).map(|i| frame.shared[h.first_shared + i]))
            .flat_map(|m| (0..across).map(move |l| (m, l)))
            .collect();
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
        let barrier = |b: &B<'c>| {
            b.op("gpu.barrier", &[], &[], &[], vec![]);
        };
        store(em, b, partial);
        barrier(b);
        let mut half = plan.parts / 2;
        while half > 0 {
            em.if_below(b, place.part, half, |em, b| {
                let mine = load(em, b, frame.thread);
                let other = em.ix.add_constant(frame.thread, half * stride);
                let other = load(em, b, other);
                let all = combine(em, b, heavy, &mine, &other, across as usize);
                store(em, b, &all);
            });
            barrier(b);
            half /= 2;
        }
        let minus = em.ix.scale(place.part, -stride);
        let first = em.ix.add(frame.thread, minus);
        joined = load(em, b, first);
    }
    let mut init = vec![];
    let mut whole = vec![];
    for h in heavy {
        if !matches!(h.combiner, Combiner::Serial) {
            init.extend(initial(em, b, h, place, across as usize).into_iter().flatten());
        }
    }
    let (mut joined, mut init) = (&joined[..], &init[..]);
    for h in heavy {
        let n = h.nest.outs.len() * across as usize;
        let (mine, rest) = joined.split_at(n);
        joined = rest;
        if matches!(h.combiner, Combiner::Serial) {
            whole.extend(mine.to_vec());
            continue;
        }
        let (first, rest) = init.split_at(n);
        init = rest;
        whole.extend(combine(em, b, &[h], first, mine, across as usize));
    }
    let mut whole = &whole[..];
    for h in heavy {
        let index = em.ix.delinear(place.row, &result_extents(h));
        for i in 0..h.nest.outs.len() {
            let (lanes, rest) = whole.split_at(across as usize);
            whole = rest;
            em.heroes.insert(key(result(h.nest.op, i)), (index.clone(), lanes.to_vec()));
        }
    }
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
