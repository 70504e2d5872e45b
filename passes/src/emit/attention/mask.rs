//! Where a mask ends: positions beyond are not gone to.

use super::{
    super::{build::Em, index::Ix, kernel::Frame},
    Roles,
    split::exchange,
};
use crate::ir::*;
use melior::ir::attribute::FloatAttribute;

/// What a mask puts in place of a score so that nothing is left of it, whatever the others are.
pub const LOW: f64 = -1e30;
/// Values that are read one after the other in straight code.
const UNROLL: i64 = 32;

/// Scores are chosen by a predicate, with a constant in place of the others that makes them nothing.
#[derive(Clone, Copy)]
pub struct Mask<'c> {
    pub predicate: V<'c>,
    /// The predicate's value where the score counts.
    counts: bool,
}
impl<'c> Mask<'c> {
    pub fn of(r: &Roles<'c>) -> Option<Self> {
        let mut v = r.score;
        while let Some(op) = def(v).filter(|op| hands_on(*op)) {
            v = operand(op, 0);
        }
        let g = Generic::of(def(v)?)?;
        let select = def(operand(ops(g.body).pop()?, 0)).filter(|d| name(*d) == "arith.select")?;
        let low = |v: V| {
            let value = def(v).filter(|d| name(*d) == "arith.constant").and_then(|d| attr(d, "value"));
            value.and_then(|a| FloatAttribute::try_from(a).ok()).is_some_and(|a| a.value() <= LOW)
        };
        let given = |v: V| (0..g.ins.len()).find(|i| key(arg(g.body, *i)) == key(v) && is_tensor(g.ins[*i].r#type()));
        let counts = match [1, 2].map(|i| low(operand(select, i))) {
            [false, true] => true,
            [true, false] => false,
            _ => return None,
        };
        Some(Mask { predicate: g.ins[given(operand(select, 0))?], counts })
    }
    /// One more than the last position whose score counts in any of some rows, the same for all threads; all positions if
    /// none does, for then they count alike. `index`: where the predicate is for each row at a position. With
    /// `reach.each`, all positions if one of the rows has none, too.
    pub fn end(
        &self,
        em: &mut Em<'c>,
        b: &B<'c>,
        reach: &Reach<'_, 'c>,
        index: &mut dyn FnMut(&mut Em<'c>, Ix) -> Vec<Vec<Ix>>,
    ) -> V<'c> {
        let Reach { frame, block, subgroup, positions, memory, each } = *reach;
        let t = b.i(32);
        let zero = em.int(t, 0);
        let start = em.ix.constant(0);
        let mut distinct = index(em, start);
        distinct.dedup();
        let count = if each { distinct.len() } else { 1 };
        // Few positions each subgroup looks at for itself.
        let meets = memory.is_some();
        let (threads, thread) =
            if meets { (block, frame.thread) } else { (subgroup, em.ix.rem(frame.thread, subgroup)) };
        let turns = (positions + threads - 1) / threads;
        let mut look = |em: &mut Em<'c>, b: &B<'c>, turn: Ix, last: &[V<'c>]| {
            let first = em.ix.scale(turn, threads);
            let number = em.ix.add(first, thread);
            let (x, most) = (em.ssa(b, number), em.index(positions - 1));
            let clamped = b.same("arith.minui", &[x, most]);
            let position = em.ix.value(clamped, (0, positions - 1));
            let mut at = index(em, position);
            at.dedup();
            let keep: Vec<V> = at.into_iter().map(|at| em.eval(b, self.predicate, &at)[0]).collect();
            let op = if self.counts { "arith.ori" } else { "arith.andi" };
            let number = b.op1("arith.index_castui", &[clamped], t, &[]);
            let one = em.int(t, 1);
            let after = b.addi(number, one);
            let (yes, no) = if self.counts { (after, zero) } else { (zero, after) };
            let of_rows = keep.chunks(keep.len() / count).zip(last);
            let of_rows = of_rows.map(|(keep, last)| {
                let any = keep.iter().copied().reduce(|x, y| b.same(op, &[x, y])).expect("at least one row");
                b.same("arith.maxsi", &[*last, b.select(any, yes, no)])
            });
            of_rows.collect::<Vec<V>>()
        };
        let mut last = vec![zero; count];
        if meets {
            last = em.for_each(b, turns, &last, look);
        } else {
            for turn in 0..turns {
                let turn = em.ix.constant(turn);
                last = em.scoped(|em| look(em, b, turn, &last));
            }
        }
        let mut offset = 1;
        while offset < subgroup {
            for x in &mut last {
                let other = exchange(em, b, *x, offset, subgroup);
                *x = b.same("arith.maxsi", &[*x, other]);
            }
            offset *= 2;
        }
        if let Some(memory) = memory {
            last = self.meet(em, b, reach, memory, &last);
        }
        let every = em.int(t, positions);
        let ends = last.into_iter().map(|all| b.select(b.cmpi("eq", all, zero), every, all)).collect::<Vec<V>>();
        let end = ends.into_iter().reduce(|m, x| b.same("arith.maxsi", &[m, x])).expect("at least one row");
        b.op1("arith.index_castui", &[end], b.index(), &[])
    }
    /// Whether a workgroup of few rows does better to look for the end together.
    pub fn meets(positions: i64, subgroup: i64) -> bool {
        subgroup == 0 || positions > subgroup * UNROLL
    }
    /// The greatest of all subgroups' numbers, or of all threads' where they cannot exchange.
    fn meet(&self, em: &mut Em<'c>, b: &B<'c>, reach: &Reach<'_, 'c>, memory: V<'c>, mine: &[V<'c>]) -> Vec<V<'c>> {
        let Reach { frame, block, subgroup, .. } = *reach;
        let slots = if subgroup > 0 { block / subgroup } else { block };
        let store = |em: &mut Em<'c>, b: &B<'c>, number| {
            for (i, x) in mine.iter().enumerate() {
                let at = em.ix.add_constant(number, i as i64 * slots);
                let at = em.ssa(b, at);
                b.op("memref.store", &[*x, memory, at], &[], &[], vec![]);
            }
        };
        if subgroup > 0 {
            let (lane, number) = (em.ix.rem(frame.thread, subgroup), em.ix.div(frame.thread, subgroup));
            em.if_below(b, lane, 1, |em, b| store(em, b, number));
        } else {
            store(em, b, frame.thread);
        }
        b.op("gpu.barrier", &[], &[], &[], vec![]);
        (0..mine.len() as i64).map(|i| greatest(em, b, memory, (i * slots, slots))).collect()
    }
}
/// The greatest of `count` numbers in workgroup memory.
fn greatest<'c>(em: &mut Em<'c>, b: &B<'c>, memory: V<'c>, (first, count): (i64, i64)) -> V<'c> {
    let t = b.i(32);
    let load = |em: &mut Em<'c>, b: &B<'c>, i: Ix| {
        let at = em.ix.add_constant(i, first);
        let at = em.ssa(b, at);
        b.op1("memref.load", &[memory, at], t, &[])
    };
    if count <= UNROLL {
        let numbers: Vec<_> = (0..count).map(|i| em.ix.constant(i)).collect();
        let all: Vec<V> = numbers.into_iter().map(|i| load(em, b, i)).collect();
        return all.into_iter().reduce(|m, x| b.same("arith.maxsi", &[m, x])).expect("at least one");
    }
    let zero = em.int(t, 0);
    let all = em.for_each(b, count, &[zero], |em, b, i, last| {
        let x = load(em, b, i);
        vec![b.same("arith.maxsi", &[last[0], x])]
    });
    all[0]
}
/// Who looks for the end of a mask, and where.
pub struct Reach<'a, 'c> {
    pub frame: &'a Frame<'c>,
    /// Threads of a workgroup, and of a subgroup if they can exchange.
    pub block: i64,
    pub subgroup: i64,
    pub positions: i64,
    /// Where the workgroup meets: memory of i32, an element a thread, or a subgroup, for each row that is looked at by
    /// itself. Without it each subgroup looks at all positions.
    pub memory: Option<V<'c>>,
    pub each: bool,
}
/// Whether an op changes the shape or the type of its operand alone.
fn hands_on(op: O) -> bool {
    match name(op) {
        "tensor.expand_shape" | "tensor.collapse_shape" => true,
        _ => Generic::of(op).is_some_and(|g| {
            let all = ops(g.body);
            g.is_parallel() && g.ins.len() == 1 && all[..all.len() - 1].iter().all(|o| name(*o) == "arith.extf")
        }),
    }
}
