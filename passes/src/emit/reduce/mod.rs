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
//!
//! A dispatch may have several row spaces ([`Rows`]): each workgroup works for one of them. What all rows read whole is
//! first brought into workgroup memory ([`Stage`]), and reductions of one element that it needs (the sum of squares of
//! a norm) are done before by the whole workgroup: every workgroup does that again, which is cheaper than a launch.

mod matvec;
mod meet;
pub mod online;
mod pick;
mod plan;
mod tables;

use super::{
    build::{Em, Lanes},
    combine::{Combiner, neutral},
    index::Ix,
    kernel::{Dispatch, Frame, Launch, eager_kernel},
    loops::{cost, too_large},
    nest::Nest,
    output::{Item, items, write},
    stage::{Stage, Staged},
};
use crate::{ir::*, pass::PassError, rows::Rows, spec::DeviceSpec};
use meet::{barrier, initial, meet};
use melior::ir::Type;
pub use online::ONLINE;
pub use pick::{Pick, number_of};
use plan::{Heavy, MOST_OPS, Plan, UNROLL, heavy, plan, power_below};

/// The work of one row space.
struct Section<'c> {
    plan: Plan,
    heavy: Vec<Heavy<'c>>,
    items: Vec<Item<'c>>,
    /// Workgroups before its own, and its own.
    first: i64,
    groups: i64,
}

pub fn emit<'c>(b: &B<'c>, d: &mut Dispatch<'c>, spec: &DeviceSpec) -> Result<Launch, PassError> {
    let spaces =
        Rows::of(d.func).ok_or_else(|| PassError::Bug(format!("{}: a reduce dispatch says zml.rows", d.name)))?;
    let heavy = heavy(d);
    if heavy.is_empty() {
        return Err(PassError::Bug(format!("{}: the hero reduce has no reduction", d.name)));
    }
    let many = spaces.iter().all(|s| s.count > 1);
    let (mut before, heavy): (Vec<Heavy>, Vec<Heavy>) = heavy.into_iter().partition(|h| many && h.rows() == 1);
    let mut sections = split(d, &spaces, heavy);
    let mut stages = stages(&sections, spec, !before.is_empty());
    if !stages.is_empty() {
        stages.extend(tables::tables(d, &spaces));
    }
    let resident = matvec::resident(&sections, &stages, spec);
    let block = deal(d, &mut sections, spec, (!stages.is_empty() || !before.is_empty(), resident));
    if sections.iter().all(|s| s.plan.matvec) {
        d.resident = u32::try_from(resident).ok();
    }
    let d = &*d;
    let (groups, mut shared) = (sections.iter().map(|s| s.groups).sum(), vec![]);
    for s in &mut sections {
        let rows = s.plan.rows_at_once();
        s.plan.arrays = arrays(b, &mut s.heavy, &s.plan, rows, &mut shared);
    }
    let mut whole = plan::whole(&before, block, spec);
    whole.arrays = arrays(b, &mut before, &whole, 1, &mut shared);
    let kept = shared.len();
    let mut room = i64::from(spec.shared_bytes) - shared.iter().map(|(n, t)| n * elem_bytes(*t)).sum::<i64>();
    stages.retain(|s| {
        let fits = s.bytes() <= room;
        room -= if fits { s.bytes() } else { 0 };
        fits
    });
    shared.extend(stages.iter().map(|s| (s.count(), s.kept(b))));
    let launch = Launch::new(groups, block as u32, spec).ok_or_else(|| too_large(d))?;
    let first = First { before, whole, stages, kept, block };
    eager_kernel(b, d, launch, &shared, |em, b, frame| {
        if spaces.iter().all(|s| s.count == 0) {
            return;
        }
        em.if_below(b, frame.group, groups, |em, b| dealt(em, b, d, frame, &first, &sections));
    });
    Ok(launch)
}

/// What every workgroup does before its rows.
struct First<'c> {
    /// Reductions of one element, by the whole workgroup.
    before: Vec<Heavy<'c>>,
    whole: Plan,
    stages: Vec<Stage<'c>>,
    /// Where the stages' arrays begin.
    kept: usize,
    block: i64,
}
impl<'c> First<'c> {
    fn emit(&self, em: &mut Em<'c>, b: &B<'c>, d: &Dispatch<'c>, frame: &Frame<'c>) {
        // Another section may have kept the same before.
        em.staged.clear();
        // What earlier dispatches have no part in is computed while they end.
        let mut filled = self.fill(em, b, frame, |s| self.is_apart(d, s.value));
        d.wait(b);
        if !self.before.is_empty() {
            let zero = em.ix.constant(0);
            let place = Place { rows: vec![zero], part: frame.thread, unclamped: zero };
            levels(em, b, frame, &self.whole, &place, &self.before, MOST_OPS);
        }
        if !self.stages.is_empty() {
            filled.extend(self.fill(em, b, frame, |s| !self.is_apart(d, s.value)));
            em.staged.extend(filled);
            barrier(b);
        }
    }
    fn fill(
        &self,
        em: &mut Em<'c>,
        b: &B<'c>,
        frame: &Frame<'c>,
        which: impl Fn(&Stage<'c>) -> bool,
    ) -> Vec<(usize, Staged<'c>)> {
        let all = self.stages.iter().zip(&frame.shared[self.kept..]).filter(|(s, _)| which(s));
        all.map(|(s, m)| (key(s.value), s.fill(em, b, frame, self.block, *m))).collect()
    }
    /// Whether a value can be had without any of it.
    fn is_apart(&self, d: &Dispatch<'c>, v: V<'c>) -> bool {
        if !d.is_constant(v) {
            return false;
        }
        let (mut next, mut seen) = (vec![v], std::collections::HashSet::new());
        while let Some(v) = next.pop() {
            if !seen.insert(key(v)) {
                continue;
            }
            let Some(op) = def(v) else { continue };
            if Nest::of(op).is_some_and(|n| !n.is_parallel()) {
                return false;
            }
            next.extend(reads(op).into_iter().chain(operands(op)));
        }
        true
    }
}

/// Reductions and results by the space that they belong to.
fn split<'c>(d: &Dispatch<'c>, spaces: &[Rows], heavy: Vec<Heavy<'c>>) -> Vec<Section<'c>> {
    let mut of: std::collections::HashMap<usize, usize> = std::collections::HashMap::new();
    for op in &d.ops {
        let own = heavy.iter().find(|h| op_key(h.nest.op) == op_key(*op));
        let own = own.and_then(|h| spaces.iter().position(|s| s.count == h.rows()));
        let space = own.or_else(|| reads(*op).iter().find_map(|v| of.get(&key(*v)).copied()));
        if let Some(space) = space {
            of.extend(results(*op).iter().map(|r| (key(*r), space)));
        }
    }
    let mut items: Vec<Vec<Item>> = spaces.iter().map(|_| vec![]).collect();
    for item in self::items(d) {
        let space = of.get(&key(d.results[item.result])).copied().unwrap_or(0);
        items[space].push(item);
    }
    let mut parts: Vec<Vec<Heavy>> = spaces.iter().map(|_| vec![]).collect();
    for h in heavy {
        let space = spaces.iter().position(|s| s.count == h.rows()).unwrap_or(0);
        parts[space].push(h);
    }
    let all = spaces.iter().zip(parts).zip(items);
    all.map(|((s, heavy), items)| {
        let plan = Plan::empty(*s);
        Section { plan, heavy, items, first: 0, groups: 0 }
    })
    .collect()
}

/// What every row of the sections reads whole.
fn stages<'c>(sections: &[Section<'c>], spec: &DeviceSpec, needed: bool) -> Vec<Stage<'c>> {
    let mut found: Vec<Stage> = vec![];
    for s in sections {
        if !needed && s.plan.space.count < matvec::LEAST_ROWS {
            continue;
        }
        for h in s.heavy.iter().filter(|h| matvec::is_plain(h)) {
            for i in (0..h.nest.ins.len()).filter(|i| h.nest.is_shared_by_rows(*i)) {
                let mut value = h.nest.ins[i];
                while let Some(op) = def(value)
                    && matches!(name(op), "tensor.expand_shape" | "tensor.collapse_shape")
                {
                    value = operand(op, 0);
                }
                let t = value.r#type();
                if !is_tensor(t) || elements(t) < 2 || is_i1(elem(t)) || is_index(elem(t)) {
                    continue;
                }
                // A constant everywhere is nothing to keep.
                let computed = def(value).is_none_or(|op| name(op).starts_with("linalg.generic"));
                let stage = Stage { value, run: matvec::lanes(&h.nest, spec) };
                let is_new = !found.iter().any(|f| key(f.value) == key(value));
                if computed && is_new && h.nest.reduction_extent() == stage.count() {
                    found.push(stage);
                }
            }
        }
    }
    found
}

/// Plans the sections and deals workgroups out among them; threads of a workgroup.
fn deal<'c>(d: &Dispatch<'c>, sections: &mut [Section<'c>], spec: &DeviceSpec, (staged, resident): (bool, i64)) -> i64 {
    let several = sections.len() > 1;
    let mut block = 0;
    if staged || several || sections[0].plan.space.orbit.0 > 1 {
        block = matvec::plans(d, sections, spec, (staged, resident));
    } else {
        let s = &mut sections[0];
        s.plan = plan(d, &s.heavy, &s.items, s.plan.space.count, spec);
        block = block.max(s.plan.parts * s.plan.owned);
        s.groups = (s.plan.units() + s.plan.owned - 1) / s.plan.owned;
    }
    let mut first = 0;
    for s in sections {
        s.first = first;
        first += s.groups;
    }
    block
}

/// Adds the arrays in which partial results meet, one for each accumulator of each row that a thread has at once; how
/// many a row has.
fn arrays<'c>(
    b: &B<'c>,
    heavy: &mut [Heavy<'c>],
    plan: &Plan,
    rows: usize,
    shared: &mut Vec<(i64, Type<'c>)>,
) -> usize {
    let outs: Vec<Type> = heavy.iter().flat_map(|h| h.carried(b)).collect();
    let mut next = shared.len();
    for h in heavy {
        h.first_shared = next;
        next += h.nest.outs.len();
    }
    let block = plan.parts * plan.owned;
    // After an exchange within subgroups, one value of each meets the others'.
    let slots = if plan.subgroup > 0 { block / plan.subgroup } else { block * plan.lanes_across() };
    if plan.parts > plan.subgroup.max(1) {
        for _ in 0..rows {
            shared.extend(outs.iter().map(|t| (slots, *t)));
        }
    }
    outs.len()
}

/// The section that the workgroup's number belongs to.
fn dealt<'c>(
    em: &mut Em<'c>,
    b: &B<'c>,
    d: &Dispatch<'c>,
    frame: &Frame<'c>,
    first: &First<'c>,
    sections: &[Section<'c>],
) {
    let (s, rest) = sections.split_first().expect("at least one space");
    if s.groups == 0 && !rest.is_empty() {
        return dealt(em, b, d, frame, first, rest);
    }
    let group = em.ix.add_constant(frame.group, -s.first);
    let run = |em: &mut Em<'c>, b: &B<'c>, group: Ix| {
        let (plan, meets) = (&s.plan, s.plan.parts > s.plan.subgroup.max(1));
        let zero = em.ix.constant(0);
        let place = place(em, b, frame, s, (group, zero));
        // Rows' own inputs are under way while all that they share is computed.
        ahead(em, b, d, first, s, &place);
        first.emit(em, b, d, frame);
        if plan.rounds == 1 {
            return rows_of_group(em, b, d, frame, s, &place);
        }
        // What the first round has of the common vector must not stay in registers for the others.
        em.scoped(|em| rows_of_group(em, b, d, frame, s, &place));
        em.for_each(b, plan.rounds - 1, &[], |em, b, round, _| {
            if meets {
                // This round writes where the last one reads.
                barrier(b);
            }
            let round = em.ix.add_constant(round, 1);
            let place = self::place(em, b, frame, s, (group, round));
            rows_of_group(em, b, d, frame, s, &place);
            vec![]
        });
    };
    if rest.is_empty() {
        // The branches before leave no smaller number.
        let number = if s.first > 0 {
            let x = em.ssa(b, group);
            em.ix.value(x, (0, s.groups - 1))
        } else {
            group
        };
        return run(em, b, number);
    }
    let (x, end) = (em.ssa(b, frame.group), em.index(s.first + s.groups));
    let mine = b.cmpi("ult", x, end);
    em.if_else(
        b,
        mine,
        &[],
        |em, b| {
            let x = em.ssa(b, group);
            let number = em.ix.value(x, (0, s.groups - 1));
            run(em, b, number);
            vec![]
        },
        |em, b| {
            dealt(em, b, d, frame, first, rest);
            vec![]
        },
    );
}

/// The thread's place: its rows (of lanes, with `across`) and its part of them.
struct Place {
    rows: Vec<Ix>,
    part: Ix,
    /// Number of the unit before it was kept inside.
    unclamped: Ix,
}
fn place<'c>(em: &mut Em<'c>, b: &B<'c>, frame: &Frame<'c>, s: &Section<'c>, (group, round): (Ix, Ix)) -> Place {
    let plan = &s.plan;
    let (local, part) = if plan.across {
        (em.ix.rem(frame.thread, plan.owned), em.ix.div(frame.thread, plan.owned))
    } else {
        (em.ix.div(frame.thread, plan.parts), em.ix.rem(frame.thread, plan.parts))
    };
    let first = em.ix.scale(round, s.groups);
    let first = em.ix.add(first, group);
    let first = em.ix.scale(first, plan.owned);
    let unclamped = em.ix.add(first, local);
    let units = plan.units();
    let mut unit = unclamped;
    if em.ix.range(unit).1 >= units {
        // Threads without a row do the last one again and do not write.
        let (x, last) = (em.ssa(b, unit), em.index(units - 1));
        let v = b.same("arith.minui", &[x, last]);
        unit = em.ix.value(v, (0, units - 1));
    }
    if plan.rows_at_once() > 1 {
        let x = em.ssa(b, unit);
        unit = em.ix.value(x, (0, units - 1));
    }
    if let Some(j) = plan.along {
        // The rows in the order in which they lie in memory: dimension j innermost, cut into lanes.
        let order: Vec<usize> = (0..plan.shape.len()).filter(|d| *d != j).chain([j]).collect();
        let lanes = plan.lanes;
        let extents: Vec<i64> = order.iter().map(|d| plan.shape[*d] / if *d == j { lanes } else { 1 }).collect();
        let mut index = vec![unit; order.len()];
        for (d, i) in order.iter().zip(em.ix.delinear(unit, &extents)) {
            index[*d] = i;
        }
        let lane = em.ix.lane(lanes);
        index[j] = em.ix.scale(index[j], lanes);
        index[j] = em.ix.add(index[j], lane);
        unit = em.ix.linear(&index, &plan.shape);
    }
    let (count, apart) = plan.space.orbit;
    let mut rows = vec![];
    for k in 0..plan.together {
        let orbit = em.ix.scale(unit, plan.together);
        let orbit = em.ix.add_constant(orbit, k);
        if count == 1 {
            rows.push(orbit);
            continue;
        }
        let (high, low) = (em.ix.div(orbit, apart), em.ix.rem(orbit, apart));
        let high = em.ix.scale(high, count * apart);
        let first = em.ix.add(high, low);
        rows.extend((0..count).map(|p| em.ix.add_constant(first, p * apart)));
    }
    Place { rows, part, unclamped }
}

/// All that is done with the rows of a place.
fn rows_of_group<'c>(em: &mut Em<'c>, b: &B<'c>, d: &Dispatch<'c>, frame: &Frame<'c>, s: &Section<'c>, place: &Place) {
    let budget = if s.plan.matvec { MOST_OPS } else { MOST_OPS / (cost(d) * s.plan.lanes).max(1) };
    levels(em, b, frame, &s.plan, place, &s.heavy, budget);
    em.if_below(b, place.unclamped, s.plan.units(), |em, b| tails(em, b, d, frame, s, place));
}

/// Loads what the thread's rows have for themselves, where all of it is written out anyway.
fn ahead<'c>(em: &mut Em<'c>, b: &B<'c>, d: &Dispatch<'c>, first: &First<'c>, s: &Section<'c>, place: &Place) {
    let plan = &s.plan;
    for row in &place.rows {
        for h in s.heavy.iter().filter(|h| is_written_out(h, plan)) {
            for u in 0..h.nest.reduction_extent() / plan.lanes / plan.parts {
                let k = em.ix.add_constant(place.part, u * plan.parts);
                fetch(em, b, h, plan, (*row, k), |v| first.is_apart(d, v));
            }
        }
    }
}
/// Whether all chunks of a thread's rows are gone through in straight code.
fn is_written_out(h: &Heavy, plan: &Plan) -> bool {
    let chunks = h.nest.reduction_extent() / plan.lanes;
    plan.matvec && !plan.across && chunks % plan.parts == 0 && chunks / plan.parts <= UNROLL
}
/// Loads what a row has for itself of chunk `k`, of the inputs that are wanted.
fn fetch<'c>(
    em: &mut Em<'c>,
    b: &B<'c>,
    h: &Heavy<'c>,
    plan: &Plan,
    (row, k): (Ix, Ix),
    wanted: impl Fn(V<'c>) -> bool,
) {
    let loops = element(em, h, plan, row, k);
    for i in (0..h.nest.ins.len()).filter(|i| !h.nest.is_shared_by_rows(*i)) {
        let v = h.nest.ins[i];
        if is_tensor(v.r#type()) && wanted(v) {
            let at = h.nest.in_index(em, i, &loops);
            em.fetch(b, v, &at);
        }
    }
}

/// The loops of a reduction at chunk `k` of a row.
fn element<'c>(em: &mut Em<'c>, h: &Heavy<'c>, plan: &Plan, row: Ix, k: Ix) -> Vec<Ix> {
    let along = plan.lanes_along();
    let k = em.ix.scale(k, along);
    let lane = em.ix.lane(along);
    let k = em.ix.add(k, lane);
    let index = em.ix.delinear(row, &h.extents());
    let mut loops = h.nest.loops_at(em, 0, &index);
    let dims = h.nest.reduction_loops();
    let extents: Vec<i64> = dims.iter().map(|d| h.nest.bounds[*d]).collect();
    for (d, i) in dims.into_iter().zip(em.ix.delinear(k, &extents)) {
        loops[d] = Some(i);
    }
    loops.into_iter().map(|l| l.expect("every loop is a row's or reduces")).collect()
}

/// All reductions at the thread's rows, those first that others read.
fn levels<'c>(
    em: &mut Em<'c>,
    b: &B<'c>,
    frame: &Frame<'c>,
    plan: &Plan,
    place: &Place,
    heavy: &[Heavy<'c>],
    budget: i64,
) {
    let levels = heavy.iter().map(|h| h.level).max().map_or(0, |l| l + 1);
    for level in 0..levels {
        let mut left: Vec<&Heavy> = heavy.iter().filter(|h| h.level == level).collect();
        while let Some(first) = left.first() {
            let extent = first.nest.reduction_extent();
            let alike = |h: &Heavy| (h.nest.reduction_extent(), h.starts_from_first(), h.ordered());
            let wanted = alike(first);
            let (now, later): (Vec<&Heavy>, Vec<&Heavy>) = left.into_iter().partition(|h| alike(h) == wanted);
            let partial = accumulate(em, b, plan, place, &now, extent, budget);
            meet(em, b, frame, plan, place, &now, &partial);
            left = later;
        }
    }
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

/// Each thread's part of reductions that have `extent` in common: accumulators by row, reduction, result, lane, flat.
/// `budget`: chunks that may be written out.
fn accumulate<'c>(
    em: &mut Em<'c>,
    b: &B<'c>,
    plan: &Plan,
    place: &Place,
    heavy: &[&Heavy<'c>],
    extent: i64,
    budget: i64,
) -> Vec<V<'c>> {
    let across = plan.lanes_across() as usize;
    let along = plan.lanes_along();
    // Where the order of elements counts a part is a segment.
    let ordered = heavy.iter().any(|h| h.ordered());
    let from_first = heavy.iter().any(|h| h.starts_from_first());
    let (segment, segments) = if ordered { plan.segments(extent) } else { (1, plan.parts) };
    let mut first = place.part;
    if segments < plan.parts {
        let (x, last) = (em.ssa(b, first), em.index(segments - 1));
        let v = b.same("arith.minui", &[x, last]);
        first = em.ix.value(v, (0, segments - 1));
    }
    let first = em.ix.scale(first, segment);
    let all: Vec<(Ix, &Heavy)> = place.rows.iter().flat_map(|r| heavy.iter().map(|h| (*r, *h))).collect();
    let mut init = vec![];
    for (row, h) in &all {
        match &h.combiner {
            Combiner::Ops(ops) => {
                for (op, out) in ops.iter().zip(&h.nest.outs) {
                    let x = neutral(em, b, op, elem(out.r#type()));
                    init.extend(vec![x; across]);
                }
            }
            Combiner::Body { .. } => {
                let loops = element(em, h, plan, *row, first);
                let first: Vec<Lanes> = em.body_inputs(b, &h.nest, &loops).into_iter().flatten().collect();
                if across > 1 {
                    init.extend(first.into_iter().flat_map(|x| if x.len() == 1 { vec![x[0]; across] } else { x }));
                } else {
                    let first: Vec<V> = first.iter().map(|x| x[0]).collect();
                    init.extend(em.chain(b, &h.nest, &loops, 1, &first));
                }
            }
            Combiner::Pick(pick) => init.extend(pick.start(em, b, first)),
            Combiner::Online => init.extend(online::start(b)),
            Combiner::Serial => {
                for lanes in initial(em, b, h, *row, across) {
                    init.extend(lanes);
                }
            }
        }
    }
    let mut step = |em: &mut Em<'c>, b: &B<'c>, ks: &[Ix], carried: &[V<'c>]| {
        // All loads of the rows' own before the first use; what rows share is at hand.
        for (row, h) in &all {
            for k in ks {
                let loops = element(em, h, plan, *row, *k);
                let own = |i: &usize| !h.nest.is_shared_by_rows(*i);
                for i in (0..h.nest.ins.len()).filter(own) {
                    if is_tensor(h.nest.ins[i].r#type()) && (plan.matvec || matches!(h.combiner, Combiner::Pick(_))) {
                        let at = h.nest.in_index(em, i, &loops);
                        em.fetch(b, h.nest.ins[i], &at);
                    } else {
                        em.body_input(b, &h.nest, i, &loops);
                    }
                }
            }
        }
        let mut rest = carried;
        let mut state: Vec<Vec<Lanes>> = vec![];
        for (_, h) in &all {
            let (mine, more) = rest.split_at(h.nest.outs.len() * across);
            state.push(mine.chunks(across).map(<[V]>::to_vec).collect());
            rest = more;
        }
        for ((row, h), lanes) in all.iter().zip(&mut state).filter(|((_, h), _)| h.is_online()) {
            let chunks: Vec<Vec<Ix>> = ks.iter().map(|k| element(em, h, plan, *row, *k)).collect();
            let elements: Vec<V> =
                chunks.iter().filter_map(|loops| em.body_input(b, &h.nest, 0, loops)).flatten().collect();
            *lanes = online::step(b, [lanes[0][0], lanes[1][0]], &elements).map(|x| vec![x]).to_vec();
        }
        // Chunk by chunk, so that what rows share is held for one chunk alone.
        for k in ks {
            let others = all.iter().zip(&mut state).filter(|((_, h), _)| !h.is_online());
            for ((row, h), lanes) in others {
                let loops = element(em, h, plan, *row, *k);
                *lanes = if let Combiner::Pick(pick) = &h.combiner {
                    let flat: Vec<V> = lanes.iter().map(|l| l[0]).collect();
                    pick.step(em, b, &h.nest, (&loops, *k), &flat).into_iter().map(|x| vec![x]).collect()
                } else if across > 1 {
                    em.inline(b, &h.nest, &loops, Some(lanes))
                } else {
                    let flat: Vec<V> = lanes.iter().map(|l| l[0]).collect();
                    em.chain(b, &h.nest, &loops, 0, &flat).into_iter().map(|x| vec![x]).collect()
                };
            }
        }
        state.into_iter().flatten().flatten().collect()
    };
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
    // Not fewer of what is scaled once for all of them.
    let budget = if heavy.iter().any(|h| h.is_online()) { budget.max(4) } else { budget };
    for_chunks(em, b, (extent / along, plan.parts), place.part, budget, init, &mut step)
}

/// What hangs on the rows.
fn tails<'c>(em: &mut Em<'c>, b: &B<'c>, d: &Dispatch<'c>, frame: &Frame<'c>, s: &Section<'c>, place: &Place) {
    let (plan, items) = (&s.plan, &s.items);
    // Results may have tails of different lengths.
    let count = plan.space.count;
    let mut lengths: Vec<i64> = items.iter().map(|i| i.elements() / count).collect();
    lengths.sort_unstable();
    lengths.dedup();
    for tail in lengths {
        let mine: Vec<&Item> = items.iter().filter(|i| i.elements() / count == tail).collect();
        if tail == 1 {
            em.if_below(b, place.part, 1, |em, b| {
                place.rows.iter().for_each(|row| write(em, b, d, frame, &mine, *row));
            });
            continue;
        }
        let cut = mine.iter().all(|i| i.shape.last().is_some_and(|n| n % plan.lanes == 0));
        let lanes = if plan.across || !cut || tail % plan.lanes != 0 { 1 } else { plan.lanes };
        let lane = em.ix.lane(lanes);
        let budget = MOST_OPS / (cost(d) * lanes).max(1);
        for row in &place.rows {
            let first = em.ix.scale(*row, tail);
            let again =
                s.heavy.iter().find(|h| h.is_online() && h.nest.reduction_extent() == tail && lanes == plan.lanes);
            let budget = if again.is_some() { budget.max(4) } else { budget };
            for_chunks(em, b, (tail / lanes, plan.parts), place.part, budget, vec![], &mut |em, b, chunks, _| {
                // What is read again is under way before the first of it is used.
                for (h, chunk) in again.iter().flat_map(|h| chunks.iter().map(move |c| (h, c))) {
                    fetch(em, b, h, plan, (*row, *chunk), |_| true);
                }
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
}
