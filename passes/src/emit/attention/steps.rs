//! Positions are taken in: scores, exponentials, values.

use super::{
    super::{
        build::{Em, Lanes},
        index::Ix,
    },
    Job, Roles, State, finite, float,
};
use crate::ir::*;
use melior::ir::Type;

/// An f32 as a value of type `t` that is known to be exact.
pub fn as_type<'c>(em: &mut Em<'c>, b: &B<'c>, x: V<'c>, t: Type<'c>) -> V<'c> {
    if x.r#type() == t {
        return x;
    }
    let narrow = b.op1("arith.truncf", &[x], t, &[]);
    em.exact.insert(key(narrow), x);
    em.narrowed.push(narrow);
    narrow
}
pub fn as_f32<'c>(em: &Em<'c>, b: &B<'c>, x: V<'c>) -> V<'c> {
    if let Some(wide) = em.exact.get(&key(x)) {
        return *wide;
    }
    if x.r#type() == b.f32() { x } else { b.op1("arith.extf", &[x], b.f32(), &[]) }
}

/// Score, exponential and weight at a row and a position. `max`: the greatest score so far, or none for the score alone.
pub fn weight<'c>(
    em: &mut Em<'c>,
    b: &B<'c>,
    r: &Roles<'c>,
    (row, position): (Ix, Ix),
    max: Option<V<'c>>,
) -> [Option<V<'c>>; 3] {
    let (weights, at) = r.weights_at(em, row, position);
    let (score, exponential) = (r.score, r.exponential);
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
    let Job { r, plan, part, .. } = job;
    let run = em.ix.add_constant(*part, i * plan.parts);
    let first = em.ix.scale(run, plan.lanes);
    let lane = em.ix.lane(plan.lanes);
    let number = em.ix.add(first, lane);
    // All rows of the workgroup read the same.
    let loops = r.loops(em, job.rows[0], position, Some(number));
    r.out.nest.in_index(em, 1 - r.weights, &loops)
}
/// Loads the keys and values of some positions.
pub fn fetch<'c>(em: &mut Em<'c>, b: &B<'c>, job: &Job<'_, 'c>, positions: &[Ix]) {
    let Job { r, plan, .. } = job;
    if let Some(split) = &mut em.split {
        split.is_rehearsal = true;
    }
    for p in positions {
        for row in &job.rows {
            let (weights, at) = r.weights_at(em, *row, *p);
            em.fetch(b, weights, &at);
        }
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
pub fn some<'c>(em: &mut Em<'c>, b: &B<'c>, job: &Job<'_, 'c>, positions: &[Ix], states: &[State<'c>]) -> Vec<V<'c>> {
    let Job { r, plan, .. } = job;
    let value = r.out.nest.ins[1 - r.weights];
    // All loads before the first exchange: what is made of them comes after.
    fetch(em, b, job, positions);
    let mut scores: Vec<Vec<V>> = job.rows.iter().map(|_| vec![]).collect();
    for p in positions {
        for (row, scores) in job.rows.iter().zip(&mut scores) {
            let [score, ..] = weight(em, b, r, (*row, *p), None);
            let score = score.expect("checked: weights are made from scores");
            scores.push(as_f32(em, b, score));
        }
    }
    let mut loaded: Vec<Vec<Lanes>> = vec![];
    for p in positions {
        let runs = (0..plan.runs()).map(|i| {
            let at = value_at(em, job, *p, i);
            let lanes = em.eval(b, value, &at);
            lanes.into_iter().map(|x| r.out.factor(em, b, 1 - r.weights, x)).collect()
        });
        loaded.push(runs.collect());
    }
    let mut all = vec![];
    for ((row, state), scores) in job.rows.iter().zip(states).zip(&scores) {
        let max = scores.iter().fold(state.max, |m, s| b.same("arith.maximumf", &[m, *s]));
        let against = finite(em, b, r, max);
        let difference = b.same("arith.subf", &[state.max, against]);
        let shrink = b.same("math.exp", &[difference]);
        let mut sum = b.mulf(state.sum, shrink);
        let mut kept: Vec<V> = state.kept.iter().map(|x| b.mulf(*x, shrink)).collect();
        for (p, runs) in positions.iter().zip(&loaded) {
            let [_, exponential, weight] = weight(em, b, r, (*row, *p), Some(against));
            let exponential = exponential.expect("checked: weights are made from exponentials");
            let exponential = as_f32(em, b, exponential);
            sum = b.addf(sum, exponential);
            let weight = r.out.factor(em, b, r.weights, weight.expect("just computed"));
            for (i, lanes) in runs.iter().enumerate() {
                for k in 0..plan.lanes as usize {
                    let x = lanes[if lanes.len() == 1 { 0 } else { k }];
                    let at = i * plan.lanes as usize + k;
                    kept[at] = r.out.step(b, weight, x, kept[at]);
                }
            }
        }
        all.extend(State { max, sum, kept }.all());
    }
    all
}
