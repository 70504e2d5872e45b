//! Running reductions: element i of a row is the row's elements up to i, combined.
//!
//! Where a row's elements are neighbours in memory, a part of a workgroup owns it. On `tensor<6x1024xf32>` with vectors of 4,
//! 256 threads a row: each combines its 4 in order, the row's 256 totals are combined in registers and workgroup memory
//! ([`meet`]), and each thread combines what lies before it into its 4. A longer row is taken in tiles, with the total so far
//! carried along. Where rows are neighbours in memory instead, a thread walks down a vector of them.

mod meet;

use super::{
    body::{Scalar, Scalars},
    build::{Em, Lanes},
    index::Ix,
    kernel::{Dispatch, Frame, Launch, kernel},
    loops::{cost, too_large},
    output::{Item, items, write},
};
use crate::{ir::*, pass::PassError, spec::DeviceSpec};
use melior::ir::Type;

/// Ops of one thread above which nothing is written out.
const MOST_OPS: i64 = 1024;
/// Steps, or tiles of a row, that a thread has under way at once.
const AHEAD: i64 = 8;

/// A `zml.scan`, read.
pub struct Scan<'c> {
    op: O<'c>,
    inputs: Vec<V<'c>>,
    inits: Vec<V<'c>>,
    dim: usize,
    reverse: bool,
    exclusive: bool,
    extents: Vec<i64>,
    body: Blk<'c>,
}
impl<'c> Scan<'c> {
    fn of(d: &Dispatch<'c>) -> Option<Self> {
        let op = *d.ops.iter().find(|op| name(**op) == "zml.scan")?;
        let all = operands(op);
        let (inputs, inits) = all.split_at(all.len() / 2);
        Some(Scan {
            op,
            inputs: inputs.to_vec(),
            inits: inits.to_vec(),
            dim: usize::try_from(int_attr(op, "dimension")?).ok()?,
            reverse: bool_attr(op, "reverse")?,
            exclusive: bool_attr(op, "exclusive")?,
            extents: shape(inputs[0].r#type()),
            body: block(op, 0),
        })
    }
    fn length(&self) -> i64 {
        self.extents[self.dim]
    }
    /// Extents of the rows.
    fn outer(&self) -> Vec<i64> {
        (0..self.extents.len()).filter(|d| *d != self.dim).map(|d| self.extents[d]).collect()
    }
    /// The index of element `k` of the row at `row`.
    fn index(&self, row: &[Ix], k: Ix) -> Vec<Ix> {
        let mut index = row.to_vec();
        index.insert(self.dim, k);
        index
    }
    fn types(&self) -> Vec<Type<'c>> {
        self.inputs.iter().map(|v| elem(v.r#type())).collect()
    }
    /// Two values, of which `first` comes first in the order of the scan.
    pub fn join(&self, em: &mut Em<'c>, b: &B<'c>, first: &[V<'c>], second: &[V<'c>]) -> Vec<V<'c>> {
        let (x, y) = if self.reverse { (second, first) } else { (first, second) };
        let mut map = Scalars::new();
        for (i, v) in x.iter().chain(y).enumerate() {
            map.insert(key(arg(self.body, i)), Scalar::Value(*v));
        }
        em.body(b, self.body, &mut map, &[]).1
    }
    /// What element 0 is combined with.
    fn start(&self, em: &mut Em<'c>, b: &B<'c>, row: &[Ix], lanes: i64) -> Vec<Lanes<'c>> {
        let wide = |x: Lanes<'c>| if x.len() == 1 { vec![x[0]; lanes as usize] } else { x };
        self.inits.iter().map(|v| wide(em.eval(b, *v, row))).collect()
    }
    /// Makes the scan's values at `index` known to the engine; by result, then lane.
    fn hand_over(&self, em: &mut Em<'c>, index: &[Ix], values: Vec<Lanes<'c>>) {
        for (i, lanes) in values.into_iter().enumerate() {
            em.heroes.insert(key(result(self.op, i)), vec![(index.to_vec(), lanes)]);
        }
    }
    /// Lanes of the widest vector that cuts `extent`.
    fn lanes(&self, d: &Dispatch, extent: i64, spec: &DeviceSpec) -> i64 {
        let types = d.args.iter().chain(&d.results).map(ValueLike::r#type).filter(|t| elements(*t) > 1);
        let mut lanes = i64::from(spec.vector_bytes) / types.map(elem_bytes).max().unwrap_or(1);
        while lanes > 1 && (extent % lanes != 0 || lanes * cost(d) > MOST_OPS) {
            lanes /= 2;
        }
        lanes.max(1)
    }
}

pub fn emit<'c>(b: &B<'c>, d: &Dispatch<'c>, spec: &DeviceSpec) -> Result<Launch, PassError> {
    let scan = Scan::of(d).ok_or_else(|| PassError::Bug(format!("{}: the hero scan has no scan", d.name)))?;
    let items = items(d);
    let innermost = (0..scan.extents.len()).rev().find(|d| scan.extents[*d] > 1).unwrap_or(scan.dim);
    if innermost == scan.dim { rows(b, d, &scan, &items, spec) } else { columns(b, d, &scan, &items, innermost, spec) }
}

fn rows<'c>(
    b: &B<'c>,
    d: &Dispatch<'c>,
    scan: &Scan<'c>,
    items: &[Item<'c>],
    spec: &DeviceSpec,
) -> Result<Launch, PassError> {
    let outer = scan.outer();
    let rows: i64 = outer.iter().product();
    let lanes = scan.lanes(d, scan.length(), spec);
    let chunks = scan.length() / lanes;
    let shape = meet::Shape::of(chunks, rows, &scan.types(), spec);
    let (parts, owned) = (shape.parts, shape.owned);
    let groups = (rows + owned - 1) / owned;
    let launch = Launch::new(groups, shape.block() as u32, spec).ok_or_else(|| too_large(d))?;
    kernel(b, d, launch, &shape.shared(&scan.types()), |em, b, frame| {
        if rows == 0 {
            return;
        }
        em.if_below(b, frame.group, groups, |em, b| {
            let (local, part) = (em.ix.div(frame.thread, parts), em.ix.rem(frame.thread, parts));
            let first = em.ix.scale(frame.group, owned);
            let number = em.ix.add(first, local);
            // Threads without a row do the last one again and do not write.
            let row = least(em, b, number, rows - 1);
            let row = em.ix.delinear(row, &outer);
            let carry: Vec<V> = scan.start(em, b, &row, 1).into_iter().map(|x| x[0]).collect();
            let tiles = (chunks + parts - 1) / parts;
            let together = together(d, tiles, lanes);
            em.for_each(b, tiles / together, &carry, |em, b, turn, carry| {
                let first = em.ix.scale(turn, parts * together);
                let first = em.ix.add(first, part);
                let mine: Vec<(Ix, Vec<Ix>)> = (0..together)
                    .map(|tile| {
                        let chunk = em.ix.add_constant(first, tile * parts);
                        // Beyond the end nothing follows that could be wrong.
                        let inside = least(em, b, chunk, chunks - 1);
                        let at = if scan.reverse {
                            let back = em.ix.scale(inside, -1);
                            em.ix.add_constant(back, chunks - 1)
                        } else {
                            inside
                        };
                        let (at, lane) = (em.ix.scale(at, lanes), em.ix.lane(lanes));
                        let at = em.ix.add(at, lane);
                        (chunk, scan.index(&row, at))
                    })
                    .collect();
                // All loads before the first use.
                for (_, index) in &mine {
                    scan.inputs.iter().for_each(|v| em.fetch(b, *v, index));
                }
                let mut carry = carry.to_vec();
                for (chunk, index) in &mine {
                    let (values, total) = tile_values(em, b, scan, frame, &shape, part, index, &carry, tiles > 1);
                    scan.hand_over(em, index, values);
                    em.if_below(b, number, rows, |em, b| {
                        em.if_below(b, *chunk, chunks, |em, b| {
                            let all: Vec<&Item> = items.iter().collect();
                            let at = em.ix.linear(index, &scan.extents);
                            write(em, b, d, frame, &all, at);
                        });
                    });
                    if tiles > 1 {
                        carry = scan.join(em, b, &carry, &total);
                    }
                }
                carry
            });
        });
    });
    Ok(launch)
}
/// Tiles that are taken at once: a divisor of `tiles`, within what a thread can keep.
fn together(d: &Dispatch, tiles: i64, lanes: i64) -> i64 {
    let budget = (MOST_OPS / (cost(d) * lanes).max(1)).clamp(1, AHEAD);
    (1..=budget.min(tiles)).rev().find(|n| tiles % n == 0).unwrap_or(1)
}
/// `e`, or `most` if it is above that.
fn least<'c>(em: &mut Em<'c>, b: &B<'c>, e: Ix, most: i64) -> Ix {
    if em.ix.range(e).1 <= most {
        return e;
    }
    let (x, y) = (em.ssa(b, e), em.index(most));
    let v = b.same("arith.minui", &[x, y]);
    em.ix.value(v, (0, most))
}
/// The scan's values at the lanes of `index`, by result, and what the tile as a whole comes to.
#[allow(clippy::too_many_arguments)]
fn tile_values<'c>(
    em: &mut Em<'c>,
    b: &B<'c>,
    scan: &Scan<'c>,
    frame: &Frame<'c>,
    shape: &meet::Shape,
    part: Ix,
    index: &[Ix],
    carry: &[V<'c>],
    again: bool,
) -> (Vec<Lanes<'c>>, Vec<V<'c>>) {
    let lanes = index.iter().map(|i| em.ix.lanes(*i)).max().unwrap_or(1) as usize;
    let read: Vec<Lanes> = scan.inputs.iter().map(|v| em.eval(b, *v, index)).collect();
    let of = |k: usize| -> Vec<V<'c>> { read.iter().map(|x| if x.len() == 1 { x[0] } else { x[k] }).collect() };
    let order: Vec<usize> = if scan.reverse { (0..lanes).rev().collect() } else { (0..lanes).collect() };
    let mut running = vec![of(order[0])];
    for k in &order[1..] {
        let next = scan.join(em, b, running.last().expect("has one"), &of(*k));
        running.push(next);
    }
    let (before, total) = meet::meet(em, b, scan, frame, shape, part, running.last().expect("has one"), again);
    let before = match before {
        None => carry.to_vec(),
        Some(before) => {
            let joined = scan.join(em, b, carry, &before);
            let (x, zero) = (em.ssa(b, part), em.index(0));
            let first = b.cmpi("eq", x, zero);
            carry.iter().zip(joined).map(|(c, j)| b.select(first, *c, j)).collect()
        }
    };
    let mut values = vec![vec![before[0]; lanes]; before.len()];
    for (place, k) in order.iter().enumerate() {
        let here = match (scan.exclusive, place) {
            (false, p) => scan.join(em, b, &before, &running[p]),
            (true, 0) => before.clone(),
            (true, p) => scan.join(em, b, &before, &running[p - 1]),
        };
        for (i, v) in here.into_iter().enumerate() {
            values[i][*k] = v;
        }
    }
    (values, total)
}

fn columns<'c>(
    b: &B<'c>,
    d: &Dispatch<'c>,
    scan: &Scan<'c>,
    items: &[Item<'c>],
    innermost: usize,
    spec: &DeviceSpec,
) -> Result<Launch, PassError> {
    let lanes = scan.lanes(d, scan.extents[innermost], spec);
    let mut outer = scan.outer();
    // The dimension of the rows along which they are neighbours.
    let along = if innermost > scan.dim { innermost - 1 } else { innermost };
    outer[along] /= lanes;
    let threads: i64 = outer.iter().product();
    let block = 64.min(spec.max_block);
    let groups = (threads + i64::from(block) - 1) / i64::from(block);
    let launch = Launch::new(groups, block, spec).ok_or_else(|| too_large(d))?;
    let n = scan.length();
    let budget = (MOST_OPS / (cost(d) * lanes).max(1)).max(1);
    let ahead = (1..=AHEAD.min(budget)).rev().find(|a| n % a == 0).unwrap_or(1);
    kernel(b, d, launch, &[], |em, b, frame| {
        let first = em.ix.scale(frame.group, i64::from(block));
        let number = em.ix.add(first, frame.thread);
        em.if_below(b, number, threads, |em, b| {
            let mut row = em.ix.delinear(number, &outer);
            let lane = em.ix.lane(lanes);
            row[along] = em.ix.scale(row[along], lanes);
            row[along] = em.ix.add(row[along], lane);
            let start: Vec<V> = scan.start(em, b, &row, lanes).into_iter().flatten().collect();
            em.for_each(b, n / ahead, &start, |em, b, turn, carried| {
                let mut sums: Vec<Lanes> = carried.chunks(lanes as usize).map(<[V]>::to_vec).collect();
                let first = em.ix.scale(turn, ahead);
                let steps: Vec<Vec<Ix>> = (0..ahead)
                    .map(|a| {
                        let k = em.ix.add_constant(first, a);
                        let k = if scan.reverse {
                            let back = em.ix.scale(k, -1);
                            em.ix.add_constant(back, n - 1)
                        } else {
                            k
                        };
                        scan.index(&row, k)
                    })
                    .collect();
                // All loads before the first use.
                let read: Vec<Vec<Lanes>> =
                    steps.iter().map(|i| scan.inputs.iter().map(|v| em.eval(b, *v, i)).collect()).collect();
                for (index, read) in steps.iter().zip(&read) {
                    let mut next = sums.clone();
                    for l in 0..lanes as usize {
                        let so_far: Vec<V> = sums.iter().map(|s| s[l]).collect();
                        let new: Vec<V> = read.iter().map(|x| if x.len() == 1 { x[0] } else { x[l] }).collect();
                        for (s, v) in next.iter_mut().zip(scan.join(em, b, &so_far, &new)) {
                            s[l] = v;
                        }
                    }
                    let here = if scan.exclusive { sums } else { next.clone() };
                    scan.hand_over(em, index, here);
                    let all: Vec<&Item> = items.iter().collect();
                    let at = em.ix.linear(index, &scan.extents);
                    em.scoped(|em| write(em, b, d, frame, &all, at));
                    sums = next;
                }
                sums.into_iter().flatten().collect()
            });
        });
    });
    Ok(launch)
}
