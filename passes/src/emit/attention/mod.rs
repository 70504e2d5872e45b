//! Attention in one pass over the positions: a workgroup has a row (a query of a head), or several that read the same keys
//! and values, and each of its groups of threads every n-th position. What a thread keeps of a row is the greatest score
//! so far, the sum of the exponentials against it, and the weighted sum of values, which shrink by a factor whenever a
//! greater score comes. At the end the groups meet, by exchange within subgroups and then in workgroup memory.
//!
//! The threads of a group share a position: each has a part of the scores' products, whose sums meet by exchange, and
//! its own elements of the value. Where threads cannot exchange, a group is one thread.
//!
//! Scores, mask and scale come from the engine, which evaluates the weights with the greatest score so far in place of
//! the maximum, and 1 in place of the sum; dividing by the sum is the last step. A part of an attention that is cut
//! along its positions leaves it out, and writes maximum and sum of its rows too.
//!
//! Many rows go by tiles of fragments where the device multiplies them ([`tiles`]).

mod mask;
mod meet;
mod plan;
mod split;
mod steps;
mod tiles;

pub use split::Split;
pub use tiles::fits as fits_tiles;

use super::{
    build::Em,
    contraction::Contraction,
    index::Ix,
    kernel::{Dispatch, Frame, Launch, eager_kernel},
    loops::too_large,
    nest::Nest,
};
use crate::{ir::*, pass::PassError, spec::DeviceSpec};
use mask::{Mask, Reach};
use melior::ir::Type;
use plan::{POSITIONS, Plan};
use std::collections::HashSet;
use steps::{fetch, some, weight};

/// The reductions of the dispatch.
struct Roles<'c> {
    out: Contraction<'c>,
    /// Which input of `out` is the weights; the other is the values.
    weights: usize,
    /// Whether weights are divided by their sum.
    is_divided: bool,
    max: O<'c>,
    sum: O<'c>,
    scores: O<'c>,
    /// What the maximum is taken of, and what is summed up, as the weights are made from them.
    score: V<'c>,
    exponential: V<'c>,
}
impl<'c> Roles<'c> {
    fn of(d: &Dispatch<'c>) -> Option<Self> {
        let by = |op: O, what: &str| {
            name(op) == "linalg.reduce" && ops(block(op, 0)).first().is_some_and(|o| name(*o) == what)
        };
        let max = *d.ops.iter().find(|op| by(**op, "arith.maximumf"))?;
        let sum = *d.ops.iter().find(|op| by(**op, "arith.addf"))?;
        let heavy = |op: &O<'c>| name(*op) == "linalg.generic" && Nest::of(*op).is_some_and(|n| !n.is_parallel());
        let all: Vec<O> = d.ops.iter().copied().filter(heavy).collect();
        let [scores, out] = all[..] else { return None };
        let out = Contraction::of(Nest::of(out)?)?;
        let from = |v: V<'c>, source: O<'c>| {
            let mut next = vec![v];
            while let Some(v) = next.pop() {
                let Some(op) = def(v) else { continue };
                if op_key(op) == op_key(source) {
                    return true;
                }
                next.extend(operands(op));
            }
            false
        };
        let weights = (0..2).find(|i| from(out.nest.ins[*i], max))?;
        let is_divided = from(out.nest.ins[weights], sum);
        let [score, exponential] = [max, sum].map(|op| unwidened(operand(op, 0)));
        Some(Roles { out, weights, is_divided, max, sum, scores, score, exponential })
    }
    /// Loops that the weights have and the values do not.
    fn mine(&self) -> &[usize] {
        if self.weights == 0 { &self.out.m } else { &self.out.n }
    }
    /// Loops over the elements of a value.
    fn own(&self) -> &[usize] {
        if self.weights == 0 { &self.out.n } else { &self.out.m }
    }
    /// The loops of the weighted sum at a row and a position.
    fn loops(&self, em: &mut Em<'c>, row: Ix, position: Ix, value: Option<Ix>) -> Vec<Ix> {
        let nest = &self.out.nest;
        let mut rows: Vec<usize> = self.out.batch.iter().chain(self.mine()).copied().collect();
        rows.sort_unstable();
        let mut at = vec![em.ix.constant(0); nest.bounds.len()];
        let mut put = |em: &mut Em<'c>, which: &[usize], number: Ix| {
            let extents: Vec<i64> = which.iter().map(|l| nest.bounds[*l]).collect();
            for (l, i) in which.iter().zip(em.ix.delinear(number, &extents)) {
                at[*l] = i;
            }
        };
        put(em, &rows, row);
        put(em, &self.out.k, position);
        if let Some(value) = value {
            put(em, self.own(), value);
        }
        at
    }
    /// The weights, and their index at a row and a position.
    fn weights_at(&self, em: &mut Em<'c>, row: Ix, position: Ix) -> (V<'c>, Vec<Ix>) {
        let loops = self.loops(em, row, position, None);
        (self.out.nest.ins[self.weights], self.out.nest.in_index(em, self.weights, &loops))
    }
    /// Index of `v`, from which the weights are made, at a row and a position.
    fn index_of(&self, em: &mut Em<'c>, v: V<'c>, row: Ix, position: Ix) -> Option<Vec<Ix>> {
        let (weights, at) = self.weights_at(em, row, position);
        em.index_in(weights, &at, v)
    }
}

/// The work of a thread.
struct Job<'a, 'c> {
    d: &'a Dispatch<'c>,
    frame: &'a Frame<'c>,
    r: &'a Roles<'c>,
    plan: &'a Plan,
    /// Number of the workgroup, below the plan's units, and its rows.
    unit: Ix,
    rows: Vec<Ix>,
    /// Number of the thread's group, and of the thread in it.
    group: Ix,
    part: Ix,
}

pub fn emit<'c>(b: &B<'c>, d: &Dispatch<'c>, spec: &DeviceSpec) -> Result<Launch, PassError> {
    let bug = || PassError::Bug(format!("{}: the hero attention has not its parts", d.name));
    let roles = Roles::of(d).ok_or_else(bug)?;
    let mask = Mask::of(&roles);
    if d.hero == "tiled-attention" {
        return tiles::emit(b, d, &roles, mask.as_ref(), spec).unwrap_or_else(|| Err(bug()));
    }
    let plan = Plan::of(&roles, d.func, spec);
    let launch = Launch::new(plan.units(), plan.block() as u32, spec).ok_or_else(|| too_large(d))?;
    let (f, n) = (b.f32(), plan.meeting() * plan.together);
    let mut shared: Vec<(i64, Type)> = vec![(n, f), (n, f), (n * plan.kept, f)];
    if mask.is_some() && plan.positions > plan.turn() && Mask::meets(plan.positions, plan.subgroup) {
        let slots = if plan.subgroup > 0 { plan.meeting() } else { plan.block() };
        shared.push((slots * plan.together, b.i(32)));
    }
    eager_kernel(b, d, launch, &shared, |em, b, frame| {
        em.if_below(b, frame.group, plan.units(), |em, b| work(em, b, d, frame, &roles, &plan, mask));
    });
    Ok(launch)
}

/// The rows of workgroup `unit`.
fn rows(em: &mut Em, plan: &Plan, unit: Ix) -> Vec<Ix> {
    (0..plan.together)
        .map(|j| {
            let j = em.ix.constant(j);
            row(em, plan, unit, j)
        })
        .collect()
}
/// Row `j` of workgroup `unit`.
fn row(em: &mut Em, plan: &Plan, unit: Ix, j: Ix) -> Ix {
    let (high, low) = (em.ix.div(unit, plan.apart), em.ix.rem(unit, plan.apart));
    let high = em.ix.scale(high, plan.together * plan.apart);
    let first = em.ix.add(high, low);
    let j = em.ix.scale(j, plan.apart);
    em.ix.add(first, j)
}

fn work<'c>(
    em: &mut Em<'c>,
    b: &B<'c>,
    d: &Dispatch<'c>,
    frame: &Frame<'c>,
    r: &Roles<'c>,
    plan: &Plan,
    mask: Option<Mask<'c>>,
) {
    let (group, part) = (em.ix.div(frame.thread, plan.parts), em.ix.rem(frame.thread, plan.parts));
    let x = em.ssa(b, frame.group);
    let unit = em.ix.value(x, (0, plan.units() - 1));
    let rows = rows(em, plan, unit);
    let job = &Job { d, frame, r, plan, unit, rows, group, part };
    let end = |em: &mut Em<'c>, b: &B<'c>| {
        let mask = mask.filter(|_| plan.positions > plan.turn())?;
        let (block, memory) = (plan.block(), frame.shared.get(3).copied());
        let (subgroup, positions) = (plan.subgroup, plan.positions);
        let reach = Reach { frame, block, subgroup, positions, memory, each: true };
        Some(mask.end(em, b, &reach, &mut |em, position| {
            let of = |row: &Ix| r.index_of(em, mask.predicate, *row, position).expect("scores are chosen by it");
            job.rows.iter().map(of).collect()
        }))
    };
    // Before what earlier kernels leave is there, or else while the first positions are under way.
    let early = mask.filter(|m| d.early.is_some() && d.is_constant(m.predicate)).and_then(|_| end(em, b));
    d.wait(b);
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
    for row in &job.rows {
        weight(em, b, r, (*row, nowhere), None);
    }
    em.forget(&below(d, &[r.max, r.sum]));
    if plan.positions >= plan.turn() {
        let first = positions(em, plan, group, POSITIONS);
        fetch(em, b, job, &first);
    }
    let end = early.or_else(|| end(em, b));
    em.split = Some(split(false));
    let all = walk(em, b, job, end);
    em.split = None;
    meet::finish(em, b, job, State::all_of(plan, &all));
}
/// Positions of a thread's group from `first` on.
fn positions(em: &mut Em, plan: &Plan, first: Ix, n: i64) -> Vec<Ix> {
    (0..n).map(|u| em.ix.add_constant(first, u * plan.groups)).collect()
}
/// All of the thread's positions below `end`.
fn walk<'c>(em: &mut Em<'c>, b: &B<'c>, job: &Job<'_, 'c>, end: Option<V<'c>>) -> Vec<V<'c>> {
    let (plan, group) = (job.plan, job.group);
    let (lowest, zero) = (float(em, b, f64::NEG_INFINITY), em.zero(b.f32()));
    let one = State { max: lowest, sum: zero, kept: vec![zero; (plan.runs() * plan.lanes) as usize] }.all();
    let init: Vec<V> = job.rows.iter().flat_map(|_| one.clone()).collect();
    let step = plan.turn();
    let whole = plan.positions / step;
    let mut all = init;
    if whole > 0 {
        let turn = |em: &mut Em<'c>, b: &B<'c>, i: Ix, carried: &[V<'c>]| {
            let first = em.ix.scale(i, step);
            let first = em.ix.add(first, group);
            let at = positions(em, plan, first, POSITIONS);
            some(em, b, job, &at, &State::all_of(plan, carried))
        };
        // The first turn is always there, and its loads are under way.
        let first = em.ix.constant(0);
        all = em.scoped(|em| turn(em, b, first, &all));
        if whole > 1 {
            let (one, last) = (em.index(1), em.index(whole));
            let turns = end.map_or(last, |end| {
                let (more, by) = (em.index(step - 1), em.index(step));
                let turns = b.same("arith.divui", &[b.addi(end, more), by]);
                b.same("arith.minui", &[turns, last])
            });
            all = b.for_loop(one, turns, one, &all, |b, i, carried| {
                em.scoped(|em| {
                    let i = em.ix.value(i, (1, whole - 1));
                    turn(em, b, i, carried)
                })
            });
        }
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
        let next = em.scoped(|em| some(em, b, job, &[clamped], &State::all_of(plan, &all)));
        all = if inside < plan.groups {
            let (x, n) = (em.ssa(b, group), em.index(inside));
            let is_inside = b.cmpi("ult", x, n);
            next.iter().zip(&all).map(|(new, old)| b.select(is_inside, *new, *old)).collect()
        } else {
            next
        };
    }
    all
}

/// What a thread keeps of a row.
struct State<'c> {
    max: V<'c>,
    sum: V<'c>,
    kept: Vec<V<'c>>,
}
impl<'c> State<'c> {
    /// Of all rows.
    fn all_of(plan: &Plan, all: &[V<'c>]) -> Vec<Self> {
        let each = 2 + (plan.runs() * plan.lanes) as usize;
        all.chunks(each).map(|x| State { max: x[0], sum: x[1], kept: x[2..].to_vec() }).collect()
    }
    fn all(&self) -> Vec<V<'c>> {
        [self.max, self.sum].into_iter().chain(self.kept.iter().copied()).collect()
    }
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
/// A row's weighted sum over the sum of its weights. The greatest score has the weight 1, so that is at least 1, or 0 where
/// weights leave the whole row out: its weighted sum is 0.
fn divided<'c>(em: &mut Em<'c>, b: &B<'c>, weighted: V<'c>, sum: V<'c>) -> V<'c> {
    let one = float(em, b, 1.0);
    b.same("arith.divf", &[weighted, b.same("arith.maximumf", &[sum, one])])
}
/// A maximum that differences are taken with: where nothing but minus infinity was seen they would be no numbers.
fn finite<'c>(em: &mut Em<'c>, b: &B<'c>, r: &Roles<'c>, max: V<'c>) -> V<'c> {
    // Of the scores' type, to which it may be rounded.
    let lowest = match elem(r.score.r#type()).to_string().as_str() {
        "f16" => -65504.0,
        "bf16" => f64::from(f32::from_bits(0xff7f_0000)),
        _ => f64::from(f32::MIN),
    };
    let lowest = float(em, b, lowest);
    b.same("arith.maximumf", &[max, lowest])
}
