//! Contractions in tiles: a workgroup owns a tile of the result, brings the tiles of both inputs that it needs through
//! workgroup memory, step by step along k, and each thread keeps its share of the result in registers.
//!
//! `tensor<64x64xf32>` = 64x96 times 96x64 with tiles 32x32 and 16 along k: 4 workgroups of 16x16 threads, thread (y, x)
//! owns rows y, y+16 and columns x, x+16 of its tile (in larger tiles, fours of neighbours in their place). 6 steps: all threads load 32x16 elements of each input, in
//! vectors along whichever dimension lies together in memory, store them k by k, meet, load those of the next step and
//! multiply 16 times 2x2 meanwhile. Then
//! each thread hands its 4 elements to the engine as the contraction's value and writes what hangs on them.
//!
//! What the device multiplies as small matrices goes to [`mma`].

use super::{
    build::{Em, Lanes},
    contraction::Contraction,
    index::Ix,
    kernel::{Dispatch, Frame, Launch, kernel},
    loops::{cost, too_large},
    mma,
    nest::Nest,
    output::{Item, items, write},
    tile::{Side, loops, result_run},
};
use crate::{ir::*, pass::PassError, spec::DeviceSpec};

/// Elements between the rows of a tile in workgroup memory beyond its width: keeps stores along k off one bank, and rows
/// aligned to vectors.
const PAD: i64 = 4;
/// Neighbours of a tile that a thread owns together: a vector of workgroup memory.
const TOGETHER: i64 = 4;
/// Ops of one thread for what hangs on its elements.
const MOST_OPS: i64 = 1024;

/// Sizes of the tiles. A dimension is `threads` x `each`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tile {
    threads: i64,
    each: i64,
}
impl Tile {
    fn size(self) -> i64 {
        self.threads * self.each
    }
    /// Neighbours that a thread owns together.
    fn together(self) -> i64 {
        if self.each % TOGETHER == 0 { TOGETHER } else { 1 }
    }
    /// Place of the first of a thread's neighbours number `group`.
    fn place<'c>(self, em: &mut Em<'c>, thread: Ix, group: i64) -> Ix {
        let own = em.ix.scale(thread, self.together());
        em.ix.add_constant(own, group * self.threads * self.together())
    }
}
#[derive(Debug, PartialEq)]
struct Plan {
    m: Tile,
    n: Tile,
    k: i64,
}

pub fn emit<'c>(b: &B<'c>, d: &Dispatch<'c>, spec: &DeviceSpec) -> Result<Launch, PassError> {
    let heavy = d.ops.iter().filter_map(|op| Nest::of(*op)).find(|n| !n.is_parallel());
    let c = heavy
        .and_then(Contraction::of)
        .map(Contraction::by_neighbours)
        .ok_or_else(|| PassError::Bug(format!("{}: the hero matmul has no contraction", d.name)))?;
    if let Some(plan) = mma::plan(d, &c, spec) {
        return mma::emit(b, d, &c, &plan, spec);
    }
    let (batch, m, n) = (c.extent(&c.batch), c.extent(&c.m), c.extent(&c.n));
    let plan = plan([batch, m, n, c.extent(&c.k)], elem_bytes(c.factor_type()), cost(d), spec);
    let size = plan.m.threads * plan.n.threads;
    let sides = [(0, &c.m, plan.m), (1, &c.n, plan.n)]
        .map(|(i, outer, tile)| Side::of(&c, i, outer, (tile.size(), plan.k), size, spec));
    let (rows, columns) = ((m + plan.m.size() - 1) / plan.m.size(), (n + plan.n.size() - 1) / plan.n.size());
    let (threads, groups) = (plan.m.threads * plan.n.threads, batch * rows * columns);
    let launch = Launch::new(groups, threads as u32, spec).ok_or_else(|| too_large(d))?;
    let shared = [plan.m, plan.n].map(|t| ((t.size() + PAD) * plan.k, c.factor_type()));
    let items = items(d);
    kernel(b, d, launch, &shared, |em, b, frame| {
        em.if_below(b, frame.group, groups, |em, b| {
            let at = em.ix.delinear(frame.group, &[batch, rows, columns]);
            let thread = em.ix.delinear(frame.thread, &[plan.m.threads, plan.n.threads]);
            let work = Work { c: &c, plan: &plan, frame, sides: &sides, batch: at[0], tiles: [at[1], at[2]], thread };
            let accumulators = work.multiply(em, b);
            work.finish(em, b, d, &items.iter().collect::<Vec<_>>(), &accumulators);
        });
    });
    Ok(launch)
}

/// Tiles for factors of so many bytes; `cost`: ops for what hangs on an element.
fn plan([batch, m, n, k]: [i64; 4], bytes: i64, cost: i64, spec: &DeviceSpec) -> Plan {
    let along = if k > 8 { 16 } else { 8 };
    let fits = |m: Tile, n: Tile| {
        (m.size() + n.size() + 2 * PAD) * along * bytes <= i64::from(spec.shared_bytes)
            && m.threads * n.threads <= i64::from(spec.max_block)
            && m.each * n.each * cost <= MOST_OPS
    };
    let tile = |size: i64| Tile { threads: size.min(16), each: (size / 16).max(1) };
    let groups = |m_tile: i64, n_tile: i64| batch * ((m + m_tile - 1) / m_tile) * ((n + n_tile - 1) / n_tile);
    // Half of what fills the device hides the rest: larger tiles read less.
    let wanted = i64::from(spec.parallel_blocks) / 2;
    let enough = |extent: i64, size: i64| extent > size / 2 || size == 8;
    // The largest tiles that leave no workgroup mostly empty and the device full; small ones for small problems.
    let sizes = [(128, 128), (64, 64), (32, 64), (64, 32), (32, 32), (16, 64), (64, 16), (16, 32), (32, 16)];
    let small = [(16, 16), (8, 64), (64, 8), (8, 32), (32, 8), (8, 16), (16, 8), (8, 8)];
    let possible = || {
        sizes
            .iter()
            .chain(&small)
            .filter(|(x, y)| enough(m, *x) && enough(n, *y) && fits(tile(*x), tile(*y)) && (*x < 128 || bytes <= 4))
    };
    let (x, y) = possible()
        .find(|(x, y)| groups(*x, *y) >= wanted && x * y >= 256)
        .or_else(|| possible().rfind(|(x, y)| x * y >= 256))
        .or_else(|| possible().next())
        .copied()
        .unwrap_or((8, 8));
    Plan { m: tile(x), n: tile(y), k: along }
}

/// Clocks that the product takes: of all steps along k that a multiprocessor goes after one another, with as many tiles
/// as it has room for, the longer of what they compute and what one waits for its elements.
pub fn time(extents: [i64; 4], bytes: i64, spec: &DeviceSpec) -> f64 {
    /// Clocks that elements take to come, and threads to meet, in a step.
    const WAIT: i64 = 700;
    const MEET: i64 = 100;
    /// Clocks before the first product and after the last.
    const ENDS: i64 = 2000;
    /// Threads of a multiprocessor.
    const ROOM: i64 = 1536;
    let [batch, m, n, k] = extents;
    let p = plan(extents, bytes, 1, spec);
    let up = |x: i64, by: i64| (x + by - 1) / by;
    let groups = batch * up(m, p.m.size()) * up(n, p.n.size());
    let threads = p.m.threads * p.n.threads;
    // A vector from workgroup memory takes two turns of it.
    let loads: i64 = [p.m, p.n].iter().map(|t| if t.together() > 1 { t.each / 2 } else { t.each }).sum();
    let multiply = p.k * (up(p.m.size() * p.n.size(), 128) + up(threads, 32) * loads);
    let processors = i64::from(spec.multiprocessors());
    let at_once = up(groups, processors).min((ROOM / threads).max(1));
    let rounds = up(groups, processors * at_once);
    (rounds * (ENDS + up(k, p.k) * (at_once * multiply).max(multiply.max(WAIT) + MEET))) as f64
}

fn barrier(b: &B) {
    b.op("gpu.barrier", &[], &[], &[], vec![]);
}

struct Work<'a, 'c> {
    c: &'a Contraction<'c>,
    plan: &'a Plan,
    frame: &'a Frame<'c>,
    sides: &'a [Side; 2],
    batch: Ix,
    /// Number of the tile along m and n.
    tiles: [Ix; 2],
    /// Place of the thread along m and n.
    thread: Vec<Ix>,
}

impl<'c> Work<'_, 'c> {
    /// The thread's elements, row by row. What the next step needs is under way while one is multiplied.
    fn multiply(&self, em: &mut Em<'c>, b: &B<'c>) -> Vec<V<'c>> {
        let count = (self.plan.m.each * self.plan.n.each) as usize;
        let zero = em.zero(self.c.accumulator_type());
        let k = self.c.extent(&self.c.k);
        let steps = (k + self.plan.k - 1) / self.plan.k;
        let mut sums = vec![zero; count];
        if steps == 0 {
            return sums;
        }
        let first = em.ix.constant(0);
        let mut loaded = self.load(em, b, first);
        if steps > 1 {
            let carried = em.for_each(b, steps - 1, &[sums, loaded].concat(), |em, b, step, carried| {
                let (sums, loaded) = carried.split_at(count);
                self.store(em, b, loaded);
                barrier(b);
                let next = em.ix.add_constant(step, 1);
                let next = em.ix.scale(next, self.plan.k);
                let next = self.load(em, b, next);
                let sums = self.products(em, b, sums);
                barrier(b);
                [sums, next].concat()
            });
            (sums, loaded) = (carried[..count].to_vec(), carried[count..].to_vec());
        }
        self.store(em, b, &loaded);
        barrier(b);
        self.products(em, b, &sums)
    }
    /// Sums and the products of the tiles in workgroup memory.
    fn products(&self, em: &mut Em<'c>, b: &B<'c>, sums: &[V<'c>]) -> Vec<V<'c>> {
        let columns = self.plan.n.each as usize;
        em.for_each(b, self.plan.k, sums, |em, b, k, sums| {
            let x = self.fragment(em, b, 0, self.plan.m, k);
            let y = self.fragment(em, b, 1, self.plan.n, k);
            let pairs = (0..sums.len()).map(|i| (x[i / columns], y[i % columns]));
            pairs.zip(sums).map(|((x, y), a)| self.c.step(b, x, y, *a)).collect()
        })
    }
    /// The thread's factors at one k.
    fn fragment(&self, em: &mut Em<'c>, b: &B<'c>, side: usize, tile: Tile, k: Ix) -> Lanes<'c> {
        let row = em.ix.scale(k, tile.size() + PAD);
        let lane = em.ix.lane(tile.together());
        (0..tile.each / tile.together())
            .flat_map(|group| {
                let at = tile.place(em, self.thread[side], group);
                let at = em.ix.add(row, at);
                let at = em.ix.add(at, lane);
                em.load(b, self.frame.shared[side], at)
            })
            .collect()
    }
}

impl<'c> Work<'_, 'c> {
    /// Chunks of a side's tile that a thread takes. Where there are fewer than threads, only some have one.
    fn turns(&self, side: &Side) -> i64 {
        (side.chunks() / (self.plan.m.threads * self.plan.n.threads)).max(1)
    }
    fn number(&self, em: &mut Em<'c>, turn: i64) -> Ix {
        em.ix.add_constant(self.frame.thread, turn * self.plan.m.threads * self.plan.n.threads)
    }
    /// The thread's share of both inputs' tiles at the step that begins at `first` along k, chunk by chunk.
    fn load(&self, em: &mut Em<'c>, b: &B<'c>, first: Ix) -> Vec<V<'c>> {
        let t = self.c.factor_type();
        let mut all = vec![];
        for side in self.sides {
            for turn in 0..self.turns(side) {
                let number = self.number(em, turn);
                let chunk = |em: &mut Em<'c>, b: &B<'c>| {
                    let (k, o) = side.chunk(em, number);
                    let lanes = self.elements(em, b, side, first, k, o);
                    if lanes.len() == 1 { vec![lanes[0]; side.lanes as usize] } else { lanes }
                };
                if em.ix.range(number).1 < side.chunks() {
                    all.extend(chunk(em, b));
                    continue;
                }
                let (x, n) = (em.ssa(b, number), em.index(side.chunks()));
                let zeros = vec![em.zero(t); side.lanes as usize];
                let types = vec![t; side.lanes as usize];
                all.extend(em.if_else(b, b.cmpi("ult", x, n), &types, chunk, |_, _| zeros));
            }
        }
        all
    }
    /// Puts what was loaded into workgroup memory.
    fn store(&self, em: &mut Em<'c>, b: &B<'c>, loaded: &[V<'c>]) {
        let mut rest = loaded;
        for side in self.sides {
            for turn in 0..self.turns(side) {
                let (lanes, after) = rest.split_at(side.lanes as usize);
                rest = after;
                let number = self.number(em, turn);
                em.if_below(b, number, side.chunks(), |em, b| {
                    let (k, o) = side.chunk(em, number);
                    let at = em.ix.scale(k, side.tile + PAD);
                    let at = em.ix.add(at, o);
                    for (l, x) in lanes.iter().enumerate() {
                        let at = em.ix.at_lane(at, l as i64);
                        let at = em.ssa(b, at);
                        b.op("memref.store", &[*x, self.frame.shared[side.input], at], &[], &[], vec![]);
                    }
                });
            }
        }
    }
    /// Factors of one input at (k, o) of its tile.
    fn elements(&self, em: &mut Em<'c>, b: &B<'c>, side: &Side, first: Ix, k: Ix, o: Ix) -> Lanes<'c> {
        let k = em.ix.add(first, k);
        let start = em.ix.scale(self.tiles[side.input], side.tile);
        let o = em.ix.add(start, o);
        let inside = side.inside(em, b, self.c, k);
        let index = side.index(em, b, self.c, self.batch, k, o);
        let lanes = em.eval(b, self.c.nest.ins[side.input], &index);
        lanes
            .into_iter()
            .map(|x| {
                let x = self.c.factor(em, b, side.input, x);
                let zero = em.zero(self.c.factor_type());
                inside.map_or(x, |i| b.select(i, x, zero))
            })
            .collect()
    }
    /// Hands each element to the engine and writes what hangs on it.
    fn finish(&self, em: &mut Em<'c>, b: &B<'c>, d: &Dispatch<'c>, items: &[&Item<'c>], accumulators: &[V<'c>]) {
        let result = result(self.c.nest.op, 0);
        let shape = shape(result.r#type());
        let columns = self.plan.n.each;
        // Neighbours of the result where they are neighbours of the tile too, else one by one.
        let together = self.plan.n.together();
        let run = if result_run(self.c, together) == together { together } else { 1 };
        for (i, lanes) in accumulators.chunks(run as usize).enumerate() {
            let i = i as i64 * run;
            let place = |em: &mut Em<'c>, side: usize, tile: Tile, i: i64| {
                let start = em.ix.scale(self.tiles[side], tile.size());
                let at = tile.place(em, self.thread[side], i / tile.together());
                let at = em.ix.add_constant(at, i % tile.together());
                em.ix.add(start, at)
            };
            let m = place(em, 0, self.plan.m, i / columns);
            let first = place(em, 1, self.plan.n, i % columns);
            em.if_below(b, m, self.sides[0].extent, |em, b| {
                em.if_below(b, first, self.sides[1].extent, |em, b| {
                    let lane = em.ix.lane(run);
                    let n = em.ix.add(first, lane);
                    let groups = [(&self.c.batch[..], self.batch), (&self.c.m, m), (&self.c.n, n)];
                    let loops = loops(em, self.c, &groups);
                    let index = self.c.nest.out_index(em, 0, &loops);
                    let at = em.ix.linear(&index, &shape);
                    em.heroes.insert(key(result), vec![(index, lanes.to_vec())]);
                    write(em, b, d, self.frame, items, at);
                });
            });
        }
    }
}
