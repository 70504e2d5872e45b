//! Attention in one pass over the positions: a workgroup has a row (a query of a head), and each of its groups of threads
//! every n-th position. What a thread keeps is the greatest score so far, the sum of the exponentials against it, and
//! the weighted sum of values, which shrink by a factor whenever a greater score comes. At the end the groups meet, by
//! exchange within subgroups and then in workgroup memory.
//!
//! The threads of a group share a position: each has a part of the score's products, whose sums meet by exchange, and
//! its own elements of the value. Where threads cannot exchange, a group is one thread.
//!
//! Scores, mask and scale come from the engine, which evaluates the weights with the greatest score so far in place of
//! the maximum, and 1 in place of the sum; dividing by the sum is the last step.

use super::{
    build::{Em, Lanes},
    contraction::Contraction,
    index::Ix,
    kernel::{Dispatch, Frame, Launch, kernel},
    loops::too_large,
    nest::Nest,
    output::{items, write},
};
use crate::{ir::*, pass::PassError, spec::DeviceSpec};
use melior::ir::Type;
use std::collections::HashSet;

/// Positions of a group that are under way at once.
const POSITIONS: i64 = 4;

/// Elements of the value that a thread has at least.
const KEPT: i64 = 16;
/// What a mask puts in place of a score so that nothing is left of it, whatever the others are.
const LOW: f64 = -1e30;

/// The reductions of the dispatch.
struct Roles<'c> {
    out: Contraction<'c>,
    /// Which input of `out` is the weights; the other is the values.
    weights: usize,
    max: O<'c>,
    sum: O<'c>,
    scores: O<'c>,
}

/// Who does what.
struct Plan {
    rows: i64,
    positions: i64,
    /// Elements of the value, and how many of them neighbouring in memory are loaded at once.
    kept: i64,
    lanes: i64,
    /// Threads of a group, groups of a workgroup.
    parts: i64,
    groups: i64,
    subgroup: i64,
}
impl Plan {
    fn block(&self) -> i64 {
        self.parts * self.groups
    }
    /// Runs of a thread.
    fn runs(&self) -> i64 {
        self.kept / self.lanes / self.parts
    }
    /// Groups that are left after exchange within subgroups.
    fn meeting(&self) -> i64 {
        if self.subgroup > 0 { self.block() / self.subgroup } else { self.groups }
    }
}

/// A reduction that several threads do together: each of neighbouring `parts` has every parts-th run of `lanes`.
pub struct Split<'c> {
    pub op: O<'c>,
    part: Ix,
    parts: i64,
    lanes: i64,
    subgroup: i64,
    /// Only the inputs are evaluated, so that they are known.
    is_rehearsal: bool,
}

pub fn emit<'c>(b: &B<'c>, d: &Dispatch<'c>, spec: &DeviceSpec) -> Result<Launch, PassError> {
    let roles = roles(d).ok_or_else(|| PassError::Bug(format!("{}: the hero attention has not its parts", d.name)))?;
    let plan = plan(&roles, spec);
    let launch = Launch::new(plan.rows, plan.block() as u32, spec).ok_or_else(|| too_large(d))?;
    let (f, n) = (b.f32(), plan.meeting());
    let mut shared: Vec<(i64, Type)> = vec![(n, f), (n, f), (n * plan.kept, f)];
    let mask = mask(&roles);
    if mask.is_some() {
        shared.push((if plan.subgroup > 0 { n } else { plan.block() }, b.i(32)));
    }
    kernel(b, d, launch, &shared, |em, b, frame| {
        em.if_below(b, frame.group, plan.rows, |em, b| row(em, b, d, frame, &roles, &plan, mask));
    });
    Ok(launch)
}

fn roles<'c>(d: &Dispatch<'c>) -> Option<Roles<'c>> {
    let by =
        |op: O, what: &str| name(op) == "linalg.reduce" && ops(block(op, 0)).first().is_some_and(|o| name(*o) == what);
    let max = *d.ops.iter().find(|op| by(**op, "arith.maximumf"))?;
    let sum = *d.ops.iter().find(|op| by(**op, "arith.addf"))?;
    let heavy = |op: &O<'c>| name(*op) == "linalg.generic" && Nest::of(*op).is_some_and(|n| !n.is_parallel());
    let all: Vec<O> = d.ops.iter().copied().filter(heavy).collect();
    let [scores, out] = all[..] else { return None };
    let out = Contraction::of(Nest::of(out)?)?;
    let from_sum = |v: V<'c>| {
        let mut next = vec![v];
        while let Some(v) = next.pop() {
            let Some(op) = def(v) else { continue };
            if op_key(op) == op_key(sum) {
                return true;
            }
            next.extend(operands(op));
        }
        false
    };
    let weights = (0..2).find(|i| from_sum(out.nest.ins[*i]))?;
    Some(Roles { out, weights, max, sum, scores })
}

fn plan(r: &Roles, spec: &DeviceSpec) -> Plan {
    let nest = &r.out.nest;
    let extent = |loops: &[usize]| r.out.extent(loops);
    let own = if r.weights == 0 { &r.out.n } else { &r.out.m };
    let values = nest.ins[1 - r.weights].r#type();
    let rows = elements(result(r.max, 0).r#type());
    let kept = extent(own);
    let inner = own.last().map_or(1, |l| nest.bounds[*l]);
    let mut lanes = i64::from(spec.vector_bytes) / elem_bytes(values);
    while lanes > 1 && inner % lanes != 0 {
        lanes /= 2;
    }
    let lanes = lanes.max(1);
    let subgroup = if spec.subgroup > 1 { i64::from(spec.subgroup) } else { 0 };
    let mut parts = subgroup.max(1);
    // Each thread of a group takes the exponential of its position's score: fewer threads, fewer of them.
    while parts > 1 && ((kept / lanes) % parts != 0 || kept / parts < KEPT) {
        parts /= 2;
    }
    let positions = extent(&r.out.k);
    let fill = i64::from(spec.parallel_blocks);
    let room = i64::from(spec.shared_bytes) / (4 * (kept + 2));
    let most = (if rows * 2 <= fill { 512 } else { 128 }).min(i64::from(spec.max_block));
    let meets = |groups: i64| if subgroup > 0 { groups * parts / subgroup } else { groups };
    let least = if subgroup > 0 { subgroup / parts } else { 1 };
    let mut groups = least;
    while groups * 2 * parts <= most && groups < positions && meets(groups * 2) <= room {
        groups *= 2;
    }
    Plan { rows, positions, kept, lanes, parts, groups, subgroup }
}

/// Where scores are chosen by a predicate, with a constant in place of the others that makes them nothing: the predicate,
/// and its value where the score counts.
fn mask<'c>(r: &Roles<'c>) -> Option<(V<'c>, bool)> {
    let mut v = operand(r.max, 0);
    while let Some(op) = def(v)
        && matches!(name(op), "tensor.expand_shape" | "tensor.collapse_shape")
    {
        v = operand(op, 0);
    }
    let g = Generic::of(def(v)?)?;
    let select = def(operand(ops(g.body).pop()?, 0)).filter(|d| name(*d) == "arith.select")?;
    let low = |v: V| {
        let value = def(v).filter(|d| name(*d) == "arith.constant").and_then(|d| attr(d, "value"));
        value.and_then(|a| melior::ir::attribute::FloatAttribute::try_from(a).ok()).is_some_and(|a| a.value() <= LOW)
    };
    let given = |v: V| (0..g.ins.len()).find(|i| key(arg(g.body, *i)) == key(v) && is_tensor(g.ins[*i].r#type()));
    let counts = if low(operand(select, 2)) {
        true
    } else if low(operand(select, 1)) {
        false
    } else {
        return None;
    };
    Some((g.ins[given(operand(select, 0))?], counts))
}
/// One more than the last position whose score counts, the same for all threads; all positions if none does, for then
/// they count alike.
fn end<'c>(em: &mut Em<'c>, b: &B<'c>, job: &Job<'_, 'c>, (mask, counts): (V<'c>, bool)) -> V<'c> {
    let Job { plan, frame, .. } = *job;
    let (block, t) = (plan.block(), b.i(32));
    let turns = (plan.positions + block - 1) / block;
    let zero = em.int(t, 0);
    let last = em.for_each(b, turns, &[zero], |em, b, turn, last| {
        let first = em.ix.scale(turn, block);
        let number = em.ix.add(first, frame.thread);
        let (x, most) = (em.ssa(b, number), em.index(plan.positions - 1));
        let clamped = b.same("arith.minui", &[x, most]);
        let position = em.ix.value(clamped, (0, plan.positions - 1));
        em.watched.insert(key(mask), None);
        let keep = em.scoped(|em| {
            weight(em, b, job, position, None);
            em.watched.get(&key(mask)).cloned().flatten()
        });
        let (_, lanes) = keep.expect("checked: weights are made from masked scores");
        let number = b.op1("arith.index_castui", &[clamped], t, &[]);
        let one = em.int(t, 1);
        let after = b.addi(number, one);
        let (yes, no) = if counts { (after, zero) } else { (zero, after) };
        let mine = b.select(lanes[0], yes, no);
        vec![b.same("arith.maxsi", &[last[0], mine])]
    });
    let mut last = last[0];
    let mut offset = 1;
    while offset < plan.subgroup {
        let other = exchange(em, b, last, offset, plan.subgroup);
        last = b.same("arith.maxsi", &[last, other]);
        offset *= 2;
    }
    let memory = frame.shared[3];
    let store = |em: &mut Em<'c>, b: &B<'c>, number: Ix| {
        let at = em.ssa(b, number);
        b.op("memref.store", &[last, memory, at], &[], &[], vec![]);
    };
    let count = if plan.subgroup > 0 {
        let (lane, number) = (em.ix.rem(frame.thread, plan.subgroup), em.ix.div(frame.thread, plan.subgroup));
        em.if_below(b, lane, 1, |em, b| store(em, b, number));
        block / plan.subgroup
    } else {
        store(em, b, frame.thread);
        block
    };
    b.op("gpu.barrier", &[], &[], &[], vec![]);
    let all = em.for_each(b, count, &[zero], |em, b, i, last| {
        let at = em.ssa(b, i);
        let x = b.op1("memref.load", &[memory, at], t, &[]);
        vec![b.same("arith.maxsi", &[last[0], x])]
    });
    let (none, every) = (b.cmpi("eq", all[0], zero), em.int(t, plan.positions));
    let end = b.select(none, every, all[0]);
    b.op1("arith.index_castui", &[end], b.index(), &[])
}

/// What a thread keeps.
struct State<'c> {
    max: V<'c>,
    sum: V<'c>,
    kept: Vec<V<'c>>,
}
impl<'c> State<'c> {
    fn of(all: &[V<'c>]) -> Self {
        State { max: all[0], sum: all[1], kept: all[2..].to_vec() }
    }
    fn all(&self) -> Vec<V<'c>> {
        [self.max, self.sum].into_iter().chain(self.kept.iter().copied()).collect()
    }
}

/// The work of a thread.
struct Job<'a, 'c> {
    d: &'a Dispatch<'c>,
    frame: &'a Frame<'c>,
    r: &'a Roles<'c>,
    plan: &'a Plan,
    row: Ix,
    /// Number of its group, and of the thread in it.
    group: Ix,
    part: Ix,
}

fn row<'c>(
    em: &mut Em<'c>,
    b: &B<'c>,
    d: &Dispatch<'c>,
    frame: &Frame<'c>,
    r: &Roles<'c>,
    plan: &Plan,
    mask: Option<(V<'c>, bool)>,
) {
    let (group, part) = (em.ix.div(frame.thread, plan.parts), em.ix.rem(frame.thread, plan.parts));
    let x = em.ssa(b, frame.group);
    let row = em.ix.value(x, (0, plan.rows - 1));
    let job = &Job { d, frame, r, plan, row, group, part };
    let inner = Generic::of(r.scores).map_or(1, |g| {
        let last = (0..g.reduces.len()).rev().find(|l| g.reduces[*l]);
        last.map_or(1, |l| g.bounds()[l])
    });
    let mut lanes = plan.lanes;
    while lanes > 1 && inner % lanes != 0 {
        lanes /= 2;
    }
    let split = |is_rehearsal: bool| Split {
        op: r.scores,
        part,
        parts: plan.parts,
        lanes,
        subgroup: plan.subgroup,
        is_rehearsal,
    };
    // What does not depend on the position is read before; this position is no other's.
    em.split = Some(split(true));
    let (x, most) = (em.ssa(b, group), em.index(plan.positions - 1));
    let x = b.same("arith.minui", &[x, most]);
    let nowhere = em.ix.value(x, (0, plan.positions - 1));
    let end = mask.map(|mask| end(em, b, job, mask));
    weight(em, b, job, nowhere, None);
    em.forget(&below(d, &[r.max, r.sum]));
    em.split = Some(split(false));

    let t = b.f32();
    let (lowest, zero) = (float(em, b, f64::NEG_INFINITY), em.zero(t));
    let kept = (plan.runs() * plan.lanes) as usize;
    let init = State { max: lowest, sum: zero, kept: vec![zero; kept] }.all();
    let step = plan.groups * POSITIONS;
    let whole = plan.positions / step;
    let positions = |em: &mut Em<'c>, first: Ix, n: i64| -> Vec<Ix> {
        (0..n).map(|u| em.ix.add_constant(first, u * plan.groups)).collect()
    };
    let mut all = init;
    if whole > 0 {
        let turn = |em: &mut Em<'c>, b: &B<'c>, i: Ix, carried: &[V<'c>]| {
            let first = em.ix.scale(i, step);
            let first = em.ix.add(first, group);
            let at = positions(em, first, POSITIONS);
            some(em, b, job, &at, &State::of(carried))
        };
        all = match end {
            None => em.for_each(b, whole, &all, turn),
            Some(end) => {
                let (zero, one, more) = (em.index(0), em.index(1), em.index(step - 1));
                let (by, most) = (em.index(step), em.index(whole));
                let turns = b.same("arith.divui", &[b.addi(end, more), by]);
                let turns = b.same("arith.minui", &[turns, most]);
                b.for_loop(zero, turns, one, &all, |b, i, carried| {
                    em.scoped(|em| {
                        let i = em.ix.value(i, (0, whole - 1));
                        turn(em, b, i, carried)
                    })
                })
            }
        };
    }
    let done = whole * step;
    let rest = plan.positions - done;
    for u in 0..(rest + plan.groups - 1) / plan.groups {
        let first = done + u * plan.groups;
        let at = em.ix.add_constant(group, first);
        let inside = (plan.positions - first).min(plan.groups);
        // All threads take part in the exchange of the score; those past the end keep what they have.
        let clamped = if inside < plan.groups {
            let (x, last) = (em.ssa(b, at), em.index(plan.positions - 1));
            let v = b.same("arith.minui", &[x, last]);
            em.ix.value(v, (0, plan.positions - 1))
        } else {
            at
        };
        let next = em.scoped(|em| some(em, b, job, &[clamped], &State::of(&all)));
        all = if inside < plan.groups {
            let (x, n) = (em.ssa(b, group), em.index(inside));
            let is_inside = b.cmpi("ult", x, n);
            next.iter().zip(&all).map(|(new, old)| b.select(is_inside, *new, *old)).collect()
        } else {
            next
        };
    }
    em.split = None;
    finish(em, b, job, State::of(&all));
}
/// Values that are made from results of `from`.
fn below<'c>(d: &Dispatch<'c>, from: &[O<'c>]) -> HashSet<usize> {
    let mut found: HashSet<usize> = from.iter().flat_map(|op| results(*op)).map(key).collect();
    for op in &d.ops {
        if operands(*op).into_iter().any(|v| found.contains(&key(v))) {
            found.extend(results(*op).into_iter().map(key));
        }
    }
    found
}
fn float<'c>(em: &mut Em<'c>, b: &B<'c>, x: f64) -> V<'c> {
    let t = b.f32();
    em.constant(melior::ir::attribute::FloatAttribute::new(b.c, t, x).into(), t)
}
/// An f32 as a value of type `t` that is known to be exact.
fn as_type<'c>(em: &mut Em<'c>, b: &B<'c>, x: V<'c>, t: Type<'c>) -> V<'c> {
    if x.r#type() == t {
        return x;
    }
    let narrow = b.op1("arith.truncf", &[x], t, &[]);
    em.exact.insert(key(narrow), x);
    em.narrowed.push(narrow);
    narrow
}
fn as_f32<'c>(em: &Em<'c>, b: &B<'c>, x: V<'c>) -> V<'c> {
    if let Some(wide) = em.exact.get(&key(x)) {
        return *wide;
    }
    if x.r#type() == b.f32() { x } else { b.op1("arith.extf", &[x], b.f32(), &[]) }
}

/// The loops of the weighted sum at a row and a position.
fn loops<'c>(em: &mut Em<'c>, r: &Roles<'c>, row: Ix, position: Ix, value: Option<Ix>) -> Vec<Ix> {
    let nest = &r.out.nest;
    let (mine, own) = if r.weights == 0 { (&r.out.m, &r.out.n) } else { (&r.out.n, &r.out.m) };
    let mut rows: Vec<usize> = r.out.batch.iter().chain(mine).copied().collect();
    rows.sort_unstable();
    let mut at = vec![em.ix.constant(0); nest.bounds.len()];
    let mut put = |em: &mut Em<'c>, which: &[usize], number: Ix| {
        let extents: Vec<i64> = which.iter().map(|l| nest.bounds[*l]).collect();
        for (l, i) in which.iter().zip(em.ix.delinear(number, &extents)) {
            at[*l] = i;
        }
    };
    put(em, &rows, row);
    put(em, &r.out.k, position);
    if let Some(value) = value {
        put(em, own, value);
    }
    at
}
/// Score, exponential and weight at a position. `max`: the greatest score so far, or none for the score alone.
fn weight<'c>(em: &mut Em<'c>, b: &B<'c>, job: &Job<'_, 'c>, position: Ix, max: Option<V<'c>>) -> [Option<V<'c>>; 3] {
    let r = job.r;
    let loops = loops(em, r, job.row, position, None);
    let at = r.out.nest.in_index(em, r.weights, &loops);
    let weights = r.out.nest.ins[r.weights];
    let (score, exponential) = (operand(r.max, 0), operand(r.sum, 0));
    let (one, zero) = (float(em, b, 1.0), em.zero(b.f32()));
    for (op, x) in [(r.max, max.unwrap_or(zero)), (r.sum, one)] {
        let v = result(op, 0);
        let x = as_type(em, b, x, elem(v.r#type()));
        em.heroes.insert(key(v), vec![(vec![], vec![x])]);
    }
    em.watched.insert(key(score), None);
    em.watched.insert(key(exponential), None);
    let is_rehearsal = em.split.as_ref().is_some_and(|s| s.is_rehearsal);
    let lanes = if max.is_some() || is_rehearsal {
        em.eval(b, weights, &at)
    } else {
        // Nothing but the score is to be remembered.
        let lanes = em.scoped(|em| em.eval(b, weights, &at));
        if let Some(Some((at, lanes))) = em.watched.get(&key(score)).cloned() {
            em.remember(score, &at, &lanes);
        }
        lanes
    };
    let seen =
        |em: &Em<'c>, v: V<'c>| em.watched.get(&key(v)).cloned().flatten().map(|(_, lanes): (_, Lanes<'c>)| lanes[0]);
    [seen(em, score), seen(em, exponential), Some(lanes[0])]
}

/// Where the thread's i-th run of a position's value is.
fn value_at<'c>(em: &mut Em<'c>, job: &Job<'_, 'c>, position: Ix, i: i64) -> Vec<Ix> {
    let Job { r, plan, row, part, .. } = *job;
    let run = em.ix.add_constant(part, i * plan.parts);
    let first = em.ix.scale(run, plan.lanes);
    let lane = em.ix.lane(plan.lanes);
    let number = em.ix.add(first, lane);
    let loops = loops(em, r, row, position, Some(number));
    r.out.nest.in_index(em, 1 - r.weights, &loops)
}
/// Loads the keys and values of some positions.
fn fetch<'c>(em: &mut Em<'c>, b: &B<'c>, job: &Job<'_, 'c>, positions: &[Ix]) {
    let Job { r, plan, row, .. } = *job;
    if let Some(split) = &mut em.split {
        split.is_rehearsal = true;
    }
    for p in positions {
        let loops = loops(em, r, row, *p, None);
        let at = r.out.nest.in_index(em, r.weights, &loops);
        em.fetch(b, r.out.nest.ins[r.weights], &at);
    }
    if let Some(split) = &mut em.split {
        split.is_rehearsal = false;
    }
    for p in positions {
        for i in 0..plan.runs() {
            let at = value_at(em, job, *p, i);
            em.fetch(b, r.out.nest.ins[1 - r.weights], &at);
        }
    }
}

/// Takes some positions in.
fn some<'c>(em: &mut Em<'c>, b: &B<'c>, job: &Job<'_, 'c>, positions: &[Ix], state: &State<'c>) -> Vec<V<'c>> {
    let Job { r, plan, .. } = *job;
    let value = r.out.nest.ins[1 - r.weights];
    // All loads before the first exchange: what is made of them comes after.
    fetch(em, b, job, positions);
    let mut scores = vec![];
    for p in positions {
        let [score, ..] = weight(em, b, job, *p, None);
        let score = score.expect("checked: weights are made from scores");
        scores.push(as_f32(em, b, score));
    }
    let mut loaded: Vec<Vec<Lanes>> = vec![];
    for p in positions {
        let runs = (0..plan.runs()).map(|i| {
            let at = value_at(em, job, *p, i);
            em.eval(b, value, &at)
        });
        loaded.push(runs.collect());
    }
    let max = scores.iter().fold(state.max, |m, s| b.same("arith.maximumf", &[m, *s]));
    // Where nothing but minus infinity was seen, differences with it would be no numbers.
    let finite = float(em, b, f64::from(f32::MIN));
    let against = b.same("arith.maximumf", &[max, finite]);
    let difference = b.same("arith.subf", &[state.max, against]);
    let shrink = b.same("math.exp", &[difference]);
    let mut sum = b.mulf(state.sum, shrink);
    let mut kept: Vec<V> = state.kept.iter().map(|x| b.mulf(*x, shrink)).collect();
    for (p, runs) in positions.iter().zip(loaded) {
        let [_, exponential, weight] = weight(em, b, job, *p, Some(against));
        let exponential = exponential.expect("checked: weights are made from exponentials");
        let exponential = as_f32(em, b, exponential);
        sum = b.addf(sum, exponential);
        let weight = r.out.factor(em, b, r.weights, weight.expect("just computed"));
        for (i, lanes) in runs.into_iter().enumerate() {
            for k in 0..plan.lanes as usize {
                let x = r.out.factor(em, b, 1 - r.weights, lanes[if lanes.len() == 1 { 0 } else { k }]);
                let at = i * plan.lanes as usize + k;
                kept[at] = r.out.step(b, weight, x, kept[at]);
            }
        }
    }
    State { max, sum, kept }.all()
}

/// The groups meet, and each thread writes some of the row's elements.
fn finish<'c>(em: &mut Em<'c>, b: &B<'c>, job: &Job<'_, 'c>, state: State<'c>) {
    let Job { frame, plan, group, part, .. } = *job;
    let finite = float(em, b, f64::from(f32::MIN));
    let mut state = state;
    let mut offset = plan.parts;
    if plan.parts < plan.subgroup {
        // The greatest first: then each shrinks what it has once, and the rest is sums.
        let mut max = state.max;
        while offset < plan.subgroup {
            let other = exchange(em, b, max, offset, plan.subgroup);
            max = b.same("arith.maximumf", &[max, other]);
            offset *= 2;
        }
        let against = b.same("arith.maximumf", &[max, finite]);
        let difference = b.same("arith.subf", &[state.max, against]);
        let shrink = b.same("math.exp", &[difference]);
        let sum_up = |em: &mut Em<'c>, x: V<'c>| {
            let mut x = b.mulf(x, shrink);
            let mut offset = plan.parts;
            while offset < plan.subgroup {
                let other = exchange(em, b, x, offset, plan.subgroup);
                x = b.addf(x, other);
                offset *= 2;
            }
            x
        };
        let sum = sum_up(em, state.sum);
        let kept = state.kept.iter().map(|x| sum_up(em, *x)).collect();
        state = State { max, sum, kept };
    }
    let [maxima, sums, values, ..] = frame.shared[..] else { unreachable!("three arrays were asked for") };
    let store = |em: &mut Em<'c>, b: &B<'c>, meeting: Ix| {
        em.if_below(b, part, 1, |em, b| {
            let at = em.ssa(b, meeting);
            b.op("memref.store", &[state.max, maxima, at], &[], &[], vec![]);
            b.op("memref.store", &[state.sum, sums, at], &[], &[], vec![]);
        });
        let first = em.ix.scale(meeting, plan.kept);
        for i in 0..plan.runs() {
            let run = em.ix.add_constant(part, i * plan.parts);
            let run = em.ix.scale(run, plan.lanes);
            let run = em.ix.add(first, run);
            for k in 0..plan.lanes {
                let at = em.ix.add_constant(run, k);
                let at = em.ssa(b, at);
                b.op("memref.store", &[state.kept[(i * plan.lanes + k) as usize], values, at], &[], &[], vec![]);
            }
        }
    };
    if plan.subgroup > 0 {
        let lane = em.ix.rem(frame.thread, plan.subgroup);
        let number = em.ix.div(frame.thread, plan.subgroup);
        em.if_below(b, lane, plan.parts, |em, b| store(em, b, number));
    } else {
        store(em, b, group);
    }
    b.op("gpu.barrier", &[], &[], &[], vec![]);
    let turns = (plan.kept + plan.block() - 1) / plan.block();
    for turn in 0..turns {
        let number = em.ix.add_constant(frame.thread, turn * plan.block());
        em.if_below(b, number, plan.kept, |em, b| {
            let x = em.ssa(b, number);
            let number = em.ix.value(x, (0, plan.kept - 1));
            last(em, b, job, number);
        });
    }
}
/// Element `number` of the row, from what the groups left in workgroup memory.
fn last<'c>(em: &mut Em<'c>, b: &B<'c>, job: &Job<'_, 'c>, number: Ix) {
    let Job { d, frame, r, plan, row, .. } = *job;
    let [maxima, sums, values, ..] = frame.shared[..] else { unreachable!("three arrays were asked for") };
    let finite = float(em, b, f64::from(f32::MIN));
    let load = |em: &mut Em<'c>, b: &B<'c>, memory: V<'c>, at: Ix| {
        let at = em.ssa(b, at);
        b.op1("memref.load", &[memory, at], b.f32(), &[])
    };
    let meeting = plan.meeting();
    let mut all = vec![];
    for g in 0..meeting {
        let g = em.ix.constant(g);
        all.push(load(em, b, maxima, g));
    }
    let max = all[1..].iter().fold(all[0], |m, x| b.same("arith.maximumf", &[m, *x]));
    let against = b.same("arith.maximumf", &[max, finite]);
    let zero = em.zero(b.f32());
    let mut sum = zero;
    let mut factors = vec![];
    for (g, m) in all.iter().enumerate() {
        let difference = b.same("arith.subf", &[*m, against]);
        let factor = b.same("math.exp", &[difference]);
        let g = em.ix.constant(g as i64);
        let theirs = load(em, b, sums, g);
        sum = b.addf(sum, b.mulf(theirs, factor));
        factors.push(factor);
    }
    let mut whole = zero;
    for (g, factor) in factors.iter().enumerate() {
        let at = em.ix.add_constant(number, g as i64 * plan.kept);
        let theirs = load(em, b, values, at);
        whole = b.addf(whole, b.mulf(theirs, *factor));
    }
    let whole = b.same("arith.divf", &[whole, sum]);
    let position = em.ix.constant(0);
    let loops = loops(em, r, row, position, Some(number));
    let index = r.out.nest.out_index(em, 0, &loops);
    let out = result(r.out.nest.op, 0);
    let init = em.eval(b, r.out.nest.outs[0], &index)[0];
    let whole = b.addf(init, whole);
    em.heroes.insert(key(out), vec![(index.clone(), vec![whole])]);
    let at = em.ix.linear(&index, &shape(out.r#type()));
    let items = items(d);
    write(em, b, d, frame, &items.iter().collect::<Vec<_>>(), at);
}
fn exchange<'c>(em: &mut Em<'c>, b: &B<'c>, x: V<'c>, offset: i64, width: i64) -> V<'c> {
    let t = b.i(32);
    let (by, width) = (em.int(t, offset), em.int(t, width));
    let mode = b.attr("#gpu<shuffle_mode xor>");
    result(b.op("gpu.shuffle", &[x, by, width], &[x.r#type(), b.i1()], &[("mode", mode)], vec![]), 0)
}

impl<'c> Em<'c> {
    /// The value of a reduction that neighbouring threads do together, from accumulators to accumulators.
    pub fn shared_sum(&mut self, b: &B<'c>, split: &Split<'c>, nest: &Nest<'c>, known: &[Ix], init: V<'c>) -> V<'c> {
        let dims = nest.reduction_loops();
        let extents: Vec<i64> = dims.iter().map(|d| nest.bounds[*d]).collect();
        let extent: i64 = extents.iter().product();
        // Where the runs cannot be dealt out evenly each thread has all of them.
        let parts = if extent % (split.lanes * split.parts) == 0 { split.parts } else { 1 };
        let runs = extent / split.lanes / parts;
        let zero = self.zero(elem(nest.outs[0].r#type()));
        let mut loops_of = vec![];
        for i in 0..runs {
            let run = if parts == 1 { self.ix.constant(i) } else { self.ix.add_constant(split.part, i * parts) };
            let first = self.ix.scale(run, split.lanes);
            let lane = self.ix.lane(split.lanes);
            let number = self.ix.add(first, lane);
            let mut loops = known.to_vec();
            for (d, x) in dims.iter().zip(self.ix.delinear(number, &extents)) {
                loops[*d] = x;
            }
            self.body_inputs(b, nest, &loops);
            loops_of.push(loops);
        }
        if split.is_rehearsal {
            return zero;
        }
        let mut sum = vec![zero];
        for loops in &loops_of {
            sum = self.chain(b, nest, loops, 0, &sum);
        }
        let mut sum = sum[0];
        let mut offset = 1;
        while offset < parts {
            let other = exchange(self, b, sum, offset, split.subgroup);
            sum = b.addf(sum, other);
            offset *= 2;
        }
        b.addf(init, sum)
    }
}
