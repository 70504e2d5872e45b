//! Scatter by rows: a row is the input at one index of the dimensions that have a start index. The parts of updates that go
//! to one row each are numbered, sorted by it, and each row finds its first by bisection.
//!
//! Where the region is an op that is associative, runs of 64 neighbours in that order are combined ahead, and runs of 64 of
//! those, so that a row that takes all updates is not one long loop.

use super::{
    super::{
        search::{bisect, rounds},
        sort::sorted,
    },
    Scatter,
};
use crate::ir::{rewrite::yielded, *};
use melior::ir::Type;

/// Neighbours that are combined ahead.
const RUN: i64 = 64;
/// Fewer parts are not combined ahead.
const SHORT: i64 = 4096;

/// Ops that may be applied in a tree.
const ASSOCIATIVE: [&str; 13] = [
    "arith.addf",
    "arith.mulf",
    "arith.maximumf",
    "arith.minimumf",
    "arith.addi",
    "arith.muli",
    "arith.maxsi",
    "arith.minsi",
    "arith.maxui",
    "arith.minui",
    "arith.andi",
    "arith.ori",
    "arith.xori",
];

enum Region {
    /// The update itself: the last counts.
    Assigns,
    Associative,
    Any,
}
impl Region {
    fn of(s: &Scatter) -> Self {
        let n = s.inputs.len();
        let ends = operands(*ops(s.body).last().expect("a terminator"));
        if ends.iter().enumerate().all(|(i, v)| key(*v) == key(arg(s.body, n + i))) {
            return Region::Assigns;
        }
        let all = ops(s.body);
        let inner = all[..all.len() - 1].iter().filter(|o| !matches!(name(**o), "arith.extf" | "arith.truncf"));
        let associative = inner.clone().count() == 1
            && inner.clone().all(|o| ASSOCIATIVE.contains(&name(*o)) && key(operand(*o, 0)) != key(operand(*o, 1)));
        let both = n == 1 && (0..2).all(|i| !uses(arg(s.body, i)).is_empty());
        if associative && both { Region::Associative } else { Region::Any }
    }
}

/// The updates in parts, each of which goes to one row.
struct Parts<'a, 'c> {
    s: &'a Scatter<'c>,
    /// Dimensions of the input that make the row.
    rows: Vec<usize>,
    /// Dimensions of the updates that number the parts.
    numbering: Vec<usize>,
    /// The others, with the input's dimension of each.
    free: Vec<(usize, usize)>,
}
impl<'a, 'c> Parts<'a, 'c> {
    fn of(s: &'a Scatter<'c>) -> Self {
        let in_row = |d: &usize| s.to_operand.contains(d) || s.input_batching.contains(d);
        let free: Vec<(usize, usize)> = s.window.iter().filter(|w| !in_row(&w.0)).map(|w| (w.1, w.0)).collect();
        Parts {
            s,
            rows: (0..s.extents.len()).filter(in_row).collect(),
            numbering: (0..s.update_extents.len()).filter(|u| free.iter().all(|f| f.0 != *u)).collect(),
            free,
        }
    }
    fn count(&self) -> i64 {
        self.numbering.iter().map(|u| self.s.update_extents[*u]).product()
    }
    fn row_count(&self) -> i64 {
        self.rows.iter().map(|d| self.s.extents[*d]).product()
    }
    /// The index in the updates of part `number`; 0 in its free dimensions.
    fn place(&self, b: &B<'c>, number: V<'c>) -> Vec<V<'c>> {
        let mut place = vec![b.cidx(0); self.s.update_extents.len()];
        let mut rest = number;
        for (i, u) in self.numbering.iter().enumerate().rev() {
            let extent = b.cidx(self.s.update_extents[*u]);
            place[*u] = if i == 0 { rest } else { b.same("arith.remui", &[rest, extent]) };
            rest = b.same("arith.divui", &[rest, extent]);
        }
        place
    }
    /// The number of a row.
    fn row(&self, b: &B<'c>, at: impl Fn(usize) -> V<'c>) -> V<'c> {
        self.rows.iter().fold(b.cidx(0), |row, d| b.addi(b.muli(row, b.cidx(self.s.extents[*d])), at(*d)))
    }
    /// Row of each part, and the number of rows for those outside.
    fn keys(&self, b: &B<'c>, t: Type<'c>) -> V<'c> {
        let s = self.s;
        b.map(&[self.count()], t, &[], |b, _| {
            let place = self.place(b, b.loop_index(0));
            let at_position: Vec<V> = s.positions.iter().map(|p| place[*p]).collect();
            let mut hit = b.cint(b.i1(), 1);
            let mut at = vec![b.cidx(0); s.extents.len()];
            for (batch, p) in s.batch.iter().zip(&s.positions) {
                if let Some(d) = batch {
                    at[*d] = place[*p];
                }
            }
            for (k, d) in s.to_operand.iter().enumerate() {
                let start = s.start(b, *d, b.extract(s.components[k], &at_position));
                at[*d] = s.window_dim(*d).map_or(start, |u| b.addi(start, place[u]));
                hit = b.same("arith.andi", &[hit, b.cmpi("ult", at[*d], b.cidx(s.extents[*d]))]);
            }
            let row = self.row(b, |d| at[d]);
            b.op1("arith.index_cast", &[b.select(hit, row, b.cidx(self.row_count()))], t, &[])
        })
    }
}
fn integer<'c>(b: &B<'c>, most: i64) -> Type<'c> {
    b.i(if most > i64::from(i32::MAX) { 64 } else { 32 })
}
fn to_index<'c>(b: &B<'c>, x: V<'c>) -> V<'c> {
    b.op1("arith.index_cast", &[x], b.index(), &[])
}

pub fn expand<'c>(b: &B<'c>, s: &Scatter<'c>) -> Vec<V<'c>> {
    let parts = Parts::of(s);
    let (count, row_count) = (parts.count(), parts.row_count());
    let (key_type, number_type) = (integer(b, row_count), integer(b, count));
    let keys = parts.keys(b, key_type);
    let numbers =
        b.map(&[count], number_type, &[], |b, _| b.op1("arith.index_cast", &[b.loop_index(0)], number_type, &[]));
    let less = |b: &B<'c>, x: &[V<'c>], y: &[V<'c>]| b.cmpi("slt", x[0], y[0]);
    let sorted = sorted(b, &[keys, numbers], &[true, false], 0, count, &less);
    let (keys, order) = (sorted[0], sorted[1]);
    let firsts = b.map(&[row_count + 1], number_type, &[], |b, _| {
        let row = b.loop_index(0);
        let last = b.cidx(count - 1);
        let first = bisect(b, b.cidx(0), b.cidx(count), b.cidx(rounds(count)), |b, middle, _| {
            let middle = b.same("arith.minui", &[middle, last]);
            b.cmpi("ult", to_index(b, b.extract(keys, &[middle])), row)
        });
        b.op1("arith.index_cast", &[first], number_type, &[])
    });
    let kind = Region::of(s);
    let levels = match kind {
        Region::Associative if !s.unique && count > SHORT => ahead(b, &parts, order),
        _ => vec![],
    };
    let identity: Vec<usize> = (0..s.extents.len()).collect();
    let ins: Vec<(V, &[usize])> = s.inputs.iter().map(|v| (*v, &identity[..])).collect();
    (0..s.inputs.len())
        .map(|k| {
            b.map(&s.extents, elem(s.inputs[k].r#type()), &ins, |b, all| {
                let old = &all[..s.inputs.len()];
                let row = parts.row(b, |d| b.loop_index(d as i64));
                let from = to_index(b, b.extract(firsts, &[row]));
                let to = to_index(b, b.extract(firsts, &[b.addi(row, b.cidx(1))]));
                let mut inside = b.cint(b.i1(), 1);
                for d in (0..s.extents.len()).filter(|d| !parts.rows.contains(d)) {
                    let within = b.cmpi("ult", b.loop_index(d as i64), b.cidx(s.window_extent(d)));
                    inside = b.same("arith.andi", &[inside, within]);
                }
                let to = b.select(inside, to, from);
                let free: Vec<V> = parts.free.iter().map(|f| b.loop_index(f.1 as i64)).collect();
                let at = |b: &B<'c>, number: V<'c>, hit: Option<V<'c>>| -> Vec<V<'c>> {
                    let number = to_index(b, b.extract(order, &[number]));
                    let mut place = parts.place(b, number);
                    for (f, i) in parts.free.iter().zip(&free) {
                        place[f.0] = hit.map_or(*i, |hit| b.select(hit, *i, b.cidx(0)));
                    }
                    place
                };
                if matches!(kind, Region::Assigns) {
                    let hit = b.cmpi("ult", from, to);
                    let last = b.select(hit, b.same("arith.subi", &[to, b.cidx(1)]), b.cidx(0));
                    let new = b.extract(s.updates[k], &at(b, last, Some(hit)));
                    return b.select(hit, new, old[k]);
                }
                let apply = |b: &B<'c>, acc: &[V<'c>], new: &[V<'c>]| {
                    let args: Vec<V> = acc.iter().chain(new).copied().collect();
                    yielded(b, s.body, &args)
                };
                let one = |b: &B<'c>, number: V<'c>, acc: &[V<'c>]| {
                    let place = at(b, number, None);
                    let new: Vec<V> = s.updates.iter().map(|u| b.extract(*u, &place)).collect();
                    apply(b, acc, &new)
                };
                let run = |b: &B<'c>, level: V<'c>, number: V<'c>, acc: &[V<'c>]| {
                    let place: Vec<V> = [number].into_iter().chain(free.iter().copied()).collect();
                    apply(b, acc, &[b.extract(level, &place)])
                };
                // Where nothing is combined ahead, one row may take in all.
                let most = if s.unique { 1 } else { count };
                spans(b, (from, to, most), &levels, old, &one, &run)[k]
            })
        })
        .collect()
}

/// Runs of 64 parts in order, combined, then runs of 64 of those: `[runs, free extents]` each.
fn ahead<'c>(b: &B<'c>, parts: &Parts<'_, 'c>, order: V<'c>) -> Vec<V<'c>> {
    let s = parts.s;
    let t = elem(s.updates[0].r#type());
    let mut levels: Vec<V> = vec![];
    let mut count = parts.count() / RUN;
    while count > 0 {
        let mut extents = vec![count];
        extents.extend(parts.free.iter().map(|f| s.update_extents[f.0]));
        let below = levels.last().copied();
        let level = b.map(&extents, t, &[], |b, _| {
            let free: Vec<V> = (1..extents.len()).map(|d| b.loop_index(d as i64)).collect();
            let read = |b: &B<'c>, number: V<'c>| match below {
                None => {
                    let mut place = parts.place(b, to_index(b, b.extract(order, &[number])));
                    for (f, i) in parts.free.iter().zip(&free) {
                        place[f.0] = *i;
                    }
                    b.extract(s.updates[0], &place)
                }
                Some(below) => {
                    let place: Vec<V> = [number].into_iter().chain(free.iter().copied()).collect();
                    b.extract(below, &place)
                }
            };
            let first = b.muli(b.loop_index(0), b.cidx(RUN));
            let start = read(b, first);
            b.for_loop(b.cidx(1), b.cidx(RUN), b.cidx(1), &[start], |b, i, acc| {
                let new = read(b, b.addi(first, i));
                yielded(b, s.body, &[acc[0], new])
            })[0]
        });
        levels.push(level);
        count /= RUN;
    }
    levels
}

/// Takes in an element.
type One<'a, 'c> = &'a dyn Fn(&B<'c>, V<'c>, &[V<'c>]) -> Vec<V<'c>>;
/// Takes in a run of a level.
type Run<'a, 'c> = &'a dyn Fn(&B<'c>, V<'c>, V<'c>, &[V<'c>]) -> Vec<V<'c>>;

/// Takes in all from `from` up to `to`, at most `most`, whole runs at once where there are.
fn spans<'c>(
    b: &B<'c>,
    (from, to, most): (V<'c>, V<'c>, i64),
    levels: &[V<'c>],
    start: &[V<'c>],
    one: One<'_, 'c>,
    run: Run<'_, 'c>,
) -> Vec<V<'c>> {
    let size = b.cidx(RUN);
    let walk = |b: &B<'c>, level: usize, from: V<'c>, to: V<'c>, acc: Vec<V<'c>>| {
        let next = b.for_loop(from, to, b.cidx(1), &acc, |b, i, acc| match level {
            0 => one(b, i, acc),
            l => run(b, levels[l - 1], i, acc),
        });
        let most = if levels.is_empty() { most } else { RUN };
        rewrite::set_attr(def(next[0]).expect("a loop"), "zml.rounds", b.i64_attr(most));
        next
    };
    let mut acc = start.to_vec();
    let (mut from, mut to) = (from, to);
    // What is after the whole runs of each level.
    let mut tails = vec![];
    for level in 0..levels.len() {
        let next = b.same("arith.divui", &[b.addi(from, b.cidx(RUN - 1)), size]);
        let end = b.same("arith.divui", &[to, size]);
        let head = b.same("arith.minui", &[b.muli(next, size), to]);
        acc = walk(b, level, from, head, acc);
        let end = b.same("arith.maxui", &[next, end]);
        let tail = b.same("arith.minui", &[b.muli(end, size), to]);
        tails.push((b.same("arith.maxui", &[tail, head]), to));
        (from, to) = (next, end);
    }
    acc = walk(b, levels.len(), from, to, acc);
    for (level, (from, to)) in tails.into_iter().enumerate().rev() {
        acc = walk(b, level, from, to, acc);
    }
    acc
}
