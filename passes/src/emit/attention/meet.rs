//! The groups of a workgroup meet, and its threads write what hangs on its rows.

use super::{
    super::{
        build::Em,
        index::Ix,
        output::{Item, items, write},
    },
    Job, State, divided, finite, row,
    split::exchange,
};
use crate::ir::*;

pub fn finish<'c>(em: &mut Em<'c>, b: &B<'c>, job: &Job<'_, 'c>, states: Vec<State<'c>>) {
    let Job { frame, plan, group, .. } = job;
    let states: Vec<State> = states.into_iter().map(|state| within_subgroup(em, b, job, state)).collect();
    if plan.subgroup > 0 {
        let lane = em.ix.rem(frame.thread, plan.subgroup);
        let number = em.ix.div(frame.thread, plan.subgroup);
        em.if_below(b, lane, plan.parts, |em, b| store(em, b, job, &states, number));
    } else {
        store(em, b, job, &states, *group);
    }
    b.op("gpu.barrier", &[], &[], &[], vec![]);
    let elements = plan.together * plan.kept;
    let turns = (elements + plan.block() - 1) / plan.block();
    for turn in 0..turns {
        let number = em.ix.add_constant(frame.thread, turn * plan.block());
        em.if_below(b, number, elements, |em, b| {
            let x = em.ssa(b, number);
            let number = em.ix.value(x, (0, elements - 1));
            last(em, b, job, number);
        });
    }
}
fn within_subgroup<'c>(em: &mut Em<'c>, b: &B<'c>, job: &Job<'_, 'c>, state: State<'c>) -> State<'c> {
    let plan = job.plan;
    if plan.parts >= plan.subgroup {
        return state;
    }
    // The greatest first: then each shrinks what it has once, and the rest is sums.
    let mut max = state.max;
    let mut offset = plan.parts;
    while offset < plan.subgroup {
        let other = exchange(em, b, max, offset, plan.subgroup);
        max = b.same("arith.maximumf", &[max, other]);
        offset *= 2;
    }
    let against = finite(em, b, job.r, max);
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
    State { max, sum, kept }
}
/// What a thread keeps goes into workgroup memory as that of the `meeting`-th group.
fn store<'c>(em: &mut Em<'c>, b: &B<'c>, job: &Job<'_, 'c>, states: &[State<'c>], meeting: Ix) {
    let Job { frame, plan, part, .. } = job;
    let [maxima, sums, values, ..] = frame.shared[..] else { unreachable!("three arrays were asked for") };
    let first = em.ix.scale(meeting, plan.together);
    em.if_below(b, *part, 1, |em, b| {
        for (j, state) in states.iter().enumerate() {
            let at = em.ix.add_constant(first, j as i64);
            let at = em.ssa(b, at);
            b.op("memref.store", &[state.max, maxima, at], &[], &[], vec![]);
            b.op("memref.store", &[state.sum, sums, at], &[], &[], vec![]);
        }
    });
    for (j, state) in states.iter().enumerate() {
        let first = em.ix.add_constant(first, j as i64);
        let first = em.ix.scale(first, plan.kept);
        for i in 0..plan.runs() {
            let run = em.ix.add_constant(*part, i * plan.parts);
            let run = em.ix.scale(run, plan.lanes);
            let run = em.ix.add(first, run);
            for k in 0..plan.lanes {
                let at = em.ix.add_constant(run, k);
                let at = em.ssa(b, at);
                b.op("memref.store", &[state.kept[(i * plan.lanes + k) as usize], values, at], &[], &[], vec![]);
            }
        }
    }
}
/// Element `number` of the workgroup's rows, from what the groups left in workgroup memory.
fn last<'c>(em: &mut Em<'c>, b: &B<'c>, job: &Job<'_, 'c>, number: Ix) {
    let Job { d, frame, r, plan, .. } = *job;
    let [maxima, sums, values, ..] = frame.shared[..] else { unreachable!("three arrays were asked for") };
    let (j, element) = (em.ix.div(number, plan.kept), em.ix.rem(number, plan.kept));
    let load = |em: &mut Em<'c>, b: &B<'c>, memory: V<'c>, at: Ix| {
        let at = em.ssa(b, at);
        b.op1("memref.load", &[memory, at], b.f32(), &[])
    };
    let of_group = |em: &mut Em<'c>, g: usize| em.ix.add_constant(j, g as i64 * plan.together);
    let meeting = plan.meeting() as usize;
    let all: Vec<V> = (0..meeting)
        .map(|g| {
            let at = of_group(em, g);
            load(em, b, maxima, at)
        })
        .collect();
    let max = all[1..].iter().fold(all[0], |m, x| b.same("arith.maximumf", &[m, *x]));
    let against = finite(em, b, r, max);
    let zero = em.zero(b.f32());
    let mut sum = zero;
    let mut factors = vec![];
    for (g, m) in all.iter().enumerate() {
        let difference = b.same("arith.subf", &[*m, against]);
        let factor = b.same("math.exp", &[difference]);
        let at = of_group(em, g);
        let theirs = load(em, b, sums, at);
        sum = b.addf(sum, b.mulf(theirs, factor));
        factors.push(factor);
    }
    let mut whole = zero;
    for (g, factor) in factors.iter().enumerate() {
        let at = em.ix.add_constant(number, g as i64 * plan.together * plan.kept);
        let theirs = load(em, b, values, at);
        whole = b.addf(whole, b.mulf(theirs, *factor));
    }
    let whole = if r.is_divided { divided(em, b, whole, sum) } else { whole };
    let row = row(em, plan, job.unit, j);
    let position = em.ix.constant(0);
    let loops = r.loops(em, row, position, Some(element));
    let index = r.out.nest.out_index(em, 0, &loops);
    let out = result(r.out.nest.op, 0);
    let init = em.eval(b, r.out.nest.outs[0], &index)[0];
    let whole = b.addf(init, whole);
    em.heroes.insert(key(out), vec![(index.clone(), vec![whole])]);
    let at = em.ix.linear(&index, &shape(out.r#type()));
    let of_row = |item: &Item| {
        let v = key(d.results[item.result]);
        [(r.max, max), (r.sum, sum)].into_iter().find(|(op, _)| key(result(*op, 0)) == v)
    };
    let all = items(d);
    let (of_rows, of_elements): (Vec<&Item>, Vec<&Item>) = all.iter().partition(|i| of_row(i).is_some());
    write(em, b, d, frame, &of_elements, at);
    if of_rows.is_empty() {
        return;
    }
    em.if_below(b, element, 1, |em, b| {
        for item in of_rows {
            let (op, x) = of_row(item).expect("just seen");
            let dims = i64s_attr(op, "dimensions").unwrap_or_default();
            let given = r.index_of(em, unwidened(operand(op, 0)), row, position).expect("weights are made from it");
            let at: Vec<Ix> = (0..given.len()).filter(|d| !dims.contains(&(*d as i64))).map(|d| given[d]).collect();
            let at = em.ix.linear(&at, &item.shape);
            em.store(b, frame.outs[item.result], at, &vec![x]);
        }
    });
}
