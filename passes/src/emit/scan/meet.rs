//! The totals of a row's threads, combined in order: what lies before each thread, and the whole. In registers within
//! subgroups and across those through workgroup memory; where there is no exchange of registers, all in workgroup memory.

use super::{
    super::{build::Em, index::Ix, kernel::Frame},
    Scan,
};
use crate::{ir::*, spec::DeviceSpec};
use melior::ir::Type;

/// Threads of a workgroup: `parts` a row, `owned` rows.
pub struct Shape {
    pub parts: i64,
    pub owned: i64,
    /// Threads that exchange registers; 0 if none do.
    subgroup: i64,
}
impl Shape {
    pub fn of(chunks: i64, rows: i64, types: &[Type], spec: &DeviceSpec) -> Self {
        // Rows that fill the device with a subgroup each need no workgroup memory.
        let subgroup = i64::from(spec.subgroup);
        let alone = subgroup > 1 && chunks >= subgroup && rows * subgroup >= 64 * i64::from(spec.parallel_blocks);
        let power = |n: i64| 1i64 << (63 - n.max(1).leading_zeros());
        let bytes: i64 = types.iter().map(|t| elem_bytes(*t)).sum();
        let most = power((256.min(i64::from(spec.max_block))).min(i64::from(spec.shared_bytes) / bytes.max(1)));
        let parts = power(2 * chunks - 1).min(if alone { subgroup } else { most });
        let owned = (most / parts).min(power(2 * rows - 1)).max(1);
        let exchanged = types.iter().all(|t| bits(*t) == 32 && !is_index(*t));
        let whole = subgroup > 1 && (parts * owned) % subgroup == 0;
        Shape { parts, owned, subgroup: if exchanged && whole { subgroup } else { 0 } }
    }
    pub fn block(&self) -> i64 {
        self.parts * self.owned
    }
    /// Arrays in workgroup memory, one for each input of the scan.
    pub fn shared<'c>(&self, types: &[Type<'c>]) -> Vec<(i64, Type<'c>)> {
        let slots = match self.subgroup {
            _ if self.parts == 1 => return vec![],
            0 => self.block(),
            s if self.parts <= s => return vec![],
            s => self.block() / s,
        };
        types.iter().map(|t| (slots, *t)).collect()
    }
}

fn barrier(b: &B) {
    b.op("gpu.barrier", &[], &[], &[], vec![]);
}
fn load<'c>(em: &mut Em<'c>, b: &B<'c>, frame: &Frame<'c>, at: Ix) -> Vec<V<'c>> {
    let at = em.ssa(b, at);
    frame.shared.iter().map(|m| b.op1("memref.load", &[*m, at], elem(m.r#type()), &[])).collect()
}
fn store<'c>(em: &mut Em<'c>, b: &B<'c>, frame: &Frame<'c>, at: Ix, values: &[V<'c>]) {
    let at = em.ssa(b, at);
    for (m, x) in frame.shared.iter().zip(values) {
        b.op("memref.store", &[*x, *m, at], &[], &[], vec![]);
    }
}
fn choose<'c>(b: &B<'c>, condition: V<'c>, x: &[V<'c>], y: &[V<'c>]) -> Vec<V<'c>> {
    x.iter().zip(y).map(|(x, y)| b.select(condition, *x, *y)).collect()
}

/// What comes before thread `part` of the row (any value for the first thread; none if the row has one), and the whole.
/// `again`: workgroup memory is used again after.
#[allow(clippy::too_many_arguments)]
pub fn meet<'c>(
    em: &mut Em<'c>,
    b: &B<'c>,
    scan: &Scan<'c>,
    frame: &Frame<'c>,
    shape: &Shape,
    part: Ix,
    mine: &[V<'c>],
    again: bool,
) -> (Option<Vec<V<'c>>>, Vec<V<'c>>) {
    if shape.parts == 1 {
        return (None, mine.to_vec());
    }
    let (before, whole) = match shape.subgroup {
        0 => ladder(em, b, scan, frame, shape, part, mine),
        _ => exchange(em, b, scan, frame, shape, part, mine),
    };
    if again && !frame.shared.is_empty() {
        barrier(b);
    }
    (Some(before), whole)
}
/// Each takes in what is 1, 2, 4, ... places before.
fn ladder<'c>(
    em: &mut Em<'c>,
    b: &B<'c>,
    scan: &Scan<'c>,
    frame: &Frame<'c>,
    shape: &Shape,
    part: Ix,
    mine: &[V<'c>],
) -> (Vec<V<'c>>, Vec<V<'c>>) {
    let mut sum = mine.to_vec();
    store(em, b, frame, frame.thread, &sum);
    barrier(b);
    // The thread `by` places before, the row's first if there is none.
    let earlier = |em: &mut Em<'c>, b: &B<'c>, by: i64| -> (V<'c>, Vec<V<'c>>) {
        let (p, by) = (em.ssa(b, part), em.index(by));
        let there = b.cmpi("uge", p, by);
        let zero = em.index(0);
        let back = b.select(there, by, zero);
        let thread = em.ssa(b, frame.thread);
        let at = b.same("arith.subi", &[thread, back]);
        let at = em.ix.value(at, (0, shape.block() - 1));
        (there, load(em, b, frame, at))
    };
    let mut by = 1;
    while by < shape.parts {
        let (there, other) = earlier(em, b, by);
        let joined = scan.join(em, b, &other, &sum);
        sum = choose(b, there, &joined, &sum);
        barrier(b);
        store(em, b, frame, frame.thread, &sum);
        barrier(b);
        by *= 2;
    }
    let (_, before) = earlier(em, b, 1);
    let minus = em.ix.scale(part, -1);
    let last = em.ix.add(frame.thread, minus);
    let last = em.ix.add_constant(last, shape.parts - 1);
    (before, load(em, b, frame, last))
}
/// Pairs, then pairs of pairs: the upper half takes in the lower.
fn exchange<'c>(
    em: &mut Em<'c>,
    b: &B<'c>,
    scan: &Scan<'c>,
    frame: &Frame<'c>,
    shape: &Shape,
    part: Ix,
    mine: &[V<'c>],
) -> (Vec<V<'c>>, Vec<V<'c>>) {
    let t = b.i(32);
    let width = em.int(t, shape.subgroup);
    let within = shape.parts.min(shape.subgroup);
    let p = em.ssa(b, part);
    let masked = |em: &mut Em<'c>, b: &B<'c>, mask: i64| {
        let (mask, zero) = (em.index(mask), em.index(0));
        b.cmpi("ne", b.same("arith.andi", &[p, mask]), zero)
    };
    let (mut before, mut whole) = (mine.to_vec(), mine.to_vec());
    let mut by = 1;
    while by < within {
        let distance = em.int(t, by);
        let mode = b.attr("#gpu<shuffle_mode xor>");
        let other: Vec<V> = whole
            .iter()
            .map(|x| {
                result(b.op("gpu.shuffle", &[*x, distance, width], &[x.r#type(), b.i1()], &[("mode", mode)], vec![]), 0)
            })
            .collect();
        let upper = masked(em, b, by);
        let taken = if by == 1 {
            other.clone()
        } else {
            let some = masked(em, b, by - 1);
            let joined = scan.join(em, b, &other, &before);
            choose(b, some, &joined, &other)
        };
        before = choose(b, upper, &taken, &before);
        let (first, second) = (choose(b, upper, &other, &whole), choose(b, upper, &whole, &other));
        whole = scan.join(em, b, &first, &second);
        by *= 2;
    }
    if shape.parts <= shape.subgroup {
        return (before, whole);
    }
    let count = shape.parts / shape.subgroup;
    let slot = em.ix.div(frame.thread, shape.subgroup);
    let lane = em.ix.rem(frame.thread, shape.subgroup);
    em.if_below(b, lane, 1, |em, b| store(em, b, frame, slot, &whole));
    barrier(b);
    let row = em.ix.div(frame.thread, shape.parts);
    let first = em.ix.scale(row, count);
    let place = em.ix.div(part, shape.subgroup);
    let place = em.ssa(b, place);
    let mut sum = load(em, b, frame, first);
    let mut ahead = sum.clone();
    for k in 1..count {
        let k_ = em.index(k);
        let here = b.cmpi("eq", place, k_);
        ahead = choose(b, here, &sum, &ahead);
        let at = em.ix.add_constant(first, k);
        let next = load(em, b, frame, at);
        sum = scan.join(em, b, &sum, &next);
    }
    // The first subgroup has nothing ahead, the first thread of one nothing of its own before.
    let joined = scan.join(em, b, &ahead, &before);
    let own = masked(em, b, shape.subgroup - 1);
    let later = choose(b, own, &joined, &ahead);
    let zero = em.index(0);
    let none = b.cmpi("eq", place, zero);
    (choose(b, none, &before, &later), sum)
}
