//! Contractions by fragments: small matrices that a subgroup, or a team of them, holds together and multiplies as one.
//!
//! bf16 4096^3 with tiles 128x128 and 64 along k, 8 subgroups as 2x4: a subgroup owns 64x32 of the tile, 4x2 fragments of
//! 16x16 sums. Tiles of both inputs go through workgroup memory in a ring of stages. One turn: wait for the oldest
//! tile, meet, start loading the tile `ahead` turns later into the stage that was multiplied last, multiply. What lies
//! in memory as it is multiplied is copied beside the threads where the device can; the rest is loaded into registers
//! before the products and stored after them; what takes many ops to compute is stored before, a chunk a turn, so that the
//! code of a chunk is there once.
//!
//! Who holds which sum is the target's business, so sums go through workgroup memory too, some columns at a time: then a
//! thread takes runs of neighbours, hands them to the engine as the contraction's value and writes what hangs on them.

mod plan;

use super::{
    build::{Em, Lanes},
    contraction::Contraction,
    index::Ix,
    kernel::{Dispatch, Frame, Launch, kernel},
    loops::{cost_under, too_large},
    output::{Item, items, write},
    tile::{Side, loops, result_run},
};
use crate::{ir::*, pass::PassError, spec::DeviceSpec};
use plan::EDGE;
pub use plan::{Plan, plan};

/// Ops of one thread for the chunks of an input that it holds in registers.
const MOST_HELD: i64 = 768;

pub fn emit<'c>(
    b: &B<'c>,
    d: &Dispatch<'c>,
    c: &Contraction<'c>,
    plan: &Plan,
    spec: &DeviceSpec,
) -> Result<Launch, PassError> {
    let narrow = c.narrow().expect("planned by its type");
    let factor = narrow[0].r#type();
    let sides = [(0, &c.m), (1, &c.n)].map(|(i, outer)| Side::of(c, i, outer, (plan.tile[i], plan.depth), 0, spec));
    let tiles = |i: usize| (sides[i].extent + plan.tile[i] - 1) / plan.tile[i];
    let (batch, rows, columns) = (c.extent(&c.batch), tiles(0), tiles(1));
    let groups = batch * rows * columns;
    let launch = Launch::new(groups, plan.threads() as u32, spec).ok_or_else(|| too_large(d))?;
    let mut shared: Vec<_> =
        sides.iter().map(|s| (plan.stages * plan.stage(s.tile, plan.lines_along_k(s.along_k)), factor)).collect();
    shared.push((plan.sums(), c.accumulator_type()));
    let items = items(d);
    kernel(b, d, launch, &shared, |em, b, frame| {
        em.if_below(b, frame.group, groups, |em, b| {
            // Neighbouring workgroups share tiles of both inputs: a block of rows, then the next column.
            let block = (1..=8).rev().find(|n| rows % n == 0).unwrap_or(1);
            let at = em.ix.delinear(frame.group, &[batch, rows / block, columns, block]);
            let row = em.ix.scale(at[1], block);
            let row = em.ix.add(row, at[3]);
            let subgroup = em.ix.div(frame.thread, plan.lanes);
            let place = em.ix.delinear(subgroup, &plan.subgroups);
            let lane = em.ix.rem(frame.thread, plan.lanes);
            let place = [place[0], place[1]];
            let mut work = Work {
                c,
                plan,
                frame,
                sides: &sides,
                narrow,
                batch: at[0],
                tiles: [row, at[2]],
                subgroup,
                place,
                lane,
                ways: [Way::Held; 2],
            };
            work.ways = [0, 1].map(|i| work.way(em, b, &sides[i], spec.async_copy));
            let sums = work.multiply(em, b);
            work.finish(em, b, d, &items.iter().collect::<Vec<_>>(), &sums);
        });
    });
    Ok(launch)
}

/// How an input's chunks come into workgroup memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Copied as they lie in memory.
    Direct,
    /// In registers while the stage before is multiplied.
    Held,
    /// Computed one after the other, and stored at once.
    Computed,
}

struct Work<'a, 'c> {
    c: &'a Contraction<'c>,
    plan: &'a Plan,
    frame: &'a Frame<'c>,
    sides: &'a [Side; 2],
    /// What is multiplied, as values of the contraction's body.
    narrow: [V<'c>; 2],
    batch: Ix,
    /// Number of the tile along m and n.
    tiles: [Ix; 2],
    /// Number of the subgroup, and its place along m and n.
    subgroup: Ix,
    place: [Ix; 2],
    /// Number of the thread in its subgroup.
    lane: Ix,
    ways: [Way; 2],
}

/// Neighbours in registers, and their place in workgroup memory.
pub(super) struct Chunk<'c> {
    pub number: Ix,
    pub lanes: Lanes<'c>,
    pub at: Ix,
}

pub(super) fn barrier(b: &B) {
    b.op("gpu.barrier", &[], &[], &[], vec![]);
}

impl<'c> Work<'_, 'c> {
    /// Sums of the subgroup, fragment by fragment, row by row.
    fn multiply(&self, em: &mut Em<'c>, b: &B<'c>) -> Vec<V<'c>> {
        let [rows, columns] = self.plan.fragments();
        let sums = self.c.accumulator_type();
        let fragment = Fragment::new('c', EDGE, EDGE, &sums.to_string()).ty(b);
        let zero = em.zero(sums);
        let zero = b.op1("zml.fragment_fill", &[zero], fragment, &[]);
        let mut carried = vec![zero; (rows * columns) as usize];
        let (steps, ahead, stages) = (self.steps(), self.plan.ahead(), self.plan.stages);
        if steps == 0 {
            return carried;
        }
        for s in 0..ahead {
            if s < steps {
                let (step, slot) = (em.ix.constant(s), em.ix.constant(s));
                self.copy(em, b, step, slot);
                self.compute(em, b, step, slot);
                let chunks = self.load(em, b, step);
                self.store(em, b, &chunks, slot);
            }
            self.commit(b);
        }
        carried.push(em.index(0));
        let mut sums = em.for_each(b, steps, &carried, |em, b, step, carried| {
            let (slot, sums) = carried.split_last().expect("the slot comes last");
            let slot = em.ix.value(*slot, (0, stages - 1));
            self.wait(b);
            barrier(b);
            let later = em.ix.add_constant(step, ahead);
            let next = self.turn(em, b, slot, ahead);
            em.if_below(b, later, steps, |em, b| {
                let step = em.ssa(b, later);
                let step = em.ix.value(step, (0, steps - 1));
                self.copy(em, b, step, next);
                self.compute(em, b, step, next);
            });
            self.commit(b);
            // Beyond the end the last tile is loaded again, into a stage that nobody reads.
            let (x, last) = (em.ssa(b, later), em.index(steps - 1));
            let kept = b.same("arith.minui", &[x, last]);
            let kept = em.ix.value(kept, (0, steps - 1));
            let chunks = self.load(em, b, kept);
            let mut sums = if self.plan.team { self.team(em, b, slot, sums) } else { self.product(em, b, slot, sums) };
            self.store(em, b, &chunks, next);
            let after = self.turn(em, b, slot, 1);
            sums.push(em.ssa(b, after));
            sums
        });
        sums.pop();
        if self.plan.team { self.team_wait(b, &sums, 0) } else { sums }
    }
    fn steps(&self) -> i64 {
        (self.c.extent(&self.c.k) + self.plan.depth - 1) / self.plan.depth
    }
    /// The stage `by` after `slot` in the ring.
    fn turn(&self, em: &mut Em<'c>, b: &B<'c>, slot: Ix, by: i64) -> Ix {
        let stages = self.plan.stages;
        let sum = em.ix.add_constant(slot, by);
        let around = em.ix.add_constant(sum, -stages);
        let (x, limit) = (em.ssa(b, slot), em.index(stages - by));
        let (sum, around) = (em.ssa(b, sum), em.ssa(b, around));
        let next = b.select(b.cmpi("ult", x, limit), sum, around);
        em.ix.value(next, (0, stages - 1))
    }
    fn commit(&self, b: &B<'c>) {
        if self.ways.contains(&Way::Direct) {
            b.op("zml.async_commit", &[], &[], &[], vec![]);
        }
    }
    fn wait(&self, b: &B<'c>) {
        if self.ways.contains(&Way::Direct) || self.plan.team {
            b.op("zml.async_wait", &[], &[], &[("pending", b.i64_attr(self.plan.ahead() - 1))], vec![]);
        }
    }

    /// Turns that the threads take to load a tile.
    fn turns(&self, side: &Side) -> i64 {
        (side.chunks() + self.plan.threads() - 1) / self.plan.threads()
    }
    /// Number of the thread's chunk of those from `from` on, its index in the input, whether it is below the end of k, and its place in a stage.
    fn chunk(&self, em: &mut Em<'c>, b: &B<'c>, side: &Side, step: Ix, from: Ix) -> (Ix, Vec<Ix>, Option<V<'c>>, Ix) {
        let number = em.ix.add(self.frame.thread, from);
        let (k, o) = side.chunk(em, number);
        let at = self.layout(em, b, side, k, o);
        let first = em.ix.scale(step, self.plan.depth);
        let k = em.ix.add(first, k);
        let start = em.ix.scale(self.tiles[side.input], side.tile);
        let o = em.ix.add(start, o);
        let inside = side.inside(em, b, self.c, k);
        (number, side.index(em, b, self.c, self.batch, k, o), inside, at)
    }
    /// Place of (k, o) in a stage.
    fn layout(&self, em: &mut Em<'c>, b: &B<'c>, side: &Side, k: Ix, o: Ix) -> Ix {
        let along_k = self.plan.lines_along_k(side.along_k);
        let (line, along) = if along_k { (o, k) } else { (k, o) };
        let (lines, length) = if along_k { (side.tile, side.depth) } else { (side.depth, side.tile) };
        if !self.plan.team {
            let at = em.ix.scale(line, length + self.plan.pad);
            return em.ix.add(at, along);
        }
        // See `zml.team_mma`.
        let (line_length, piece) = (128 / self.plan.factor_bytes, 16 / self.plan.factor_bytes);
        let (block, within) = (em.ix.div(along, line_length), em.ix.rem(along, line_length));
        let (number, rest) = (em.ix.div(within, piece), em.ix.rem(within, piece));
        let number = em.ix.at_lane(number, 0);
        let turn = em.ix.rem(line, 8);
        let (x, y) = (em.ssa(b, number), em.ssa(b, turn));
        let moved = b.same("arith.xori", &[x, y]);
        let moved = em.ix.value(moved, (0, 7));
        let parts = [(block, lines * line_length), (line, line_length), (moved, piece), (rest, 1)];
        parts.into_iter().fold(em.ix.constant(0), |sum, (x, f)| {
            let x = em.ix.scale(x, f);
            em.ix.add(sum, x)
        })
    }
    fn stage(&self, side: &Side) -> i64 {
        self.plan.stage(side.tile, self.plan.lines_along_k(side.along_k))
    }
    fn by(&self, way: Way) -> impl Iterator<Item = &Side> {
        self.sides.iter().filter(move |s| self.ways[s.input] == way)
    }
    fn way(&self, em: &mut Em<'c>, b: &B<'c>, side: &Side, async_copy: bool) -> Way {
        if async_copy && self.is_direct(em, b, side) {
            return Way::Direct;
        }
        let turns = self.turns(side);
        let ops = turns * side.lanes * cost_under(self.c.nest.ins[side.input]);
        if turns > 1 && ops > MOST_HELD { Way::Computed } else { Way::Held }
    }
    /// Whether the chunks of an input are whole pieces of memory, multiplied as they are.
    fn is_direct(&self, em: &mut Em<'c>, b: &B<'c>, side: &Side) -> bool {
        let i = side.input;
        let as_they_are = self.plan.lines_along_k(side.along_k) == side.along_k;
        if !self.c.is_input(i, self.narrow[i]) || side.lanes * self.plan.factor_bytes != 16 || !as_they_are {
            return false;
        }
        let first = em.ix.constant(0);
        let (_, index, _, _) = self.chunk(em, b, side, first, first);
        let place = em.place(self.c.nest.ins[i], &index);
        place.is_some_and(|(_, at)| em.ix.aligned_run(at).is_some())
    }
    /// Starts the copies of a tile into a stage.
    fn copy(&self, em: &mut Em<'c>, b: &B<'c>, step: Ix, slot: Ix) {
        for side in self.by(Way::Direct) {
            for turn in 0..self.turns(side) {
                let first = em.ix.constant(turn * self.plan.threads());
                let (number, index, inside, at) = self.chunk(em, b, side, step, first);
                let (memory, from) = em.place(self.c.nest.ins[side.input], &index).expect("seen to be so");
                let from = em.ix.aligned_run(from).expect("seen to be so");
                let start = em.ix.scale(slot, self.stage(side));
                let at = em.ix.add(start, at);
                let at = em.ix.at_lane(at, 0);
                em.if_below(b, number, side.chunks(), |em, b| {
                    let (from, at) = (em.ssa(b, from), em.ssa(b, at));
                    let mut operands = vec![memory, from, self.frame.shared[side.input], at];
                    operands.extend(inside);
                    b.op("zml.copy_async", &operands, &[], &[("elements", b.i64_attr(side.lanes))], vec![]);
                });
            }
        }
    }
    /// The thread's chunks of a tile that go through registers.
    fn load(&self, em: &mut Em<'c>, b: &B<'c>, step: Ix) -> Vec<(usize, Chunk<'c>)> {
        let mut all = vec![];
        for side in self.by(Way::Held) {
            for turn in 0..self.turns(side) {
                let first = em.ix.constant(turn * self.plan.threads());
                all.push((side.input, self.evaluate(em, b, side, step, first)));
            }
        }
        all
    }
    /// Computes a tile into a stage.
    fn compute(&self, em: &mut Em<'c>, b: &B<'c>, step: Ix, slot: Ix) {
        for side in self.by(Way::Computed) {
            em.for_each(b, self.turns(side), &[], |em, b, turn, _| {
                let first = em.ix.scale(turn, self.plan.threads());
                let chunk = self.evaluate(em, b, side, step, first);
                self.store(em, b, &[(side.input, chunk)], slot);
                vec![]
            });
        }
    }
    /// The thread's chunk of those from `first` on.
    fn evaluate(&self, em: &mut Em<'c>, b: &B<'c>, side: &Side, step: Ix, first: Ix) -> Chunk<'c> {
        let i = side.input;
        let (number, index, inside, at) = self.chunk(em, b, side, step, first);
        let elements = em.eval(b, self.c.nest.ins[i], &index);
        let factors = elements.into_iter().map(|x| {
            let x = self.c.value(em, b, i, self.narrow[i], x);
            let zero = em.zero(x.r#type());
            inside.map_or(x, |inside| b.select(inside, x, zero))
        });
        let mut lanes: Lanes = factors.collect();
        if lanes.len() == 1 {
            lanes = vec![lanes[0]; side.lanes as usize];
        }
        Chunk { number, lanes, at }
    }
    fn store(&self, em: &mut Em<'c>, b: &B<'c>, chunks: &[(usize, Chunk<'c>)], slot: Ix) {
        for (i, chunk) in chunks {
            let side = &self.sides[*i];
            let start = em.ix.scale(slot, self.stage(side));
            let at = em.ix.add(start, chunk.at);
            em.if_below(b, chunk.number, side.chunks(), |em, b| em.store(b, self.frame.shared[*i], at, &chunk.lanes));
        }
    }

    /// Sums plus the product of the tiles in a stage.
    fn product(&self, em: &mut Em<'c>, b: &B<'c>, slot: Ix, sums: &[V<'c>]) -> Vec<V<'c>> {
        let [rows, columns] = self.plan.fragments();
        let mut sums = sums.to_vec();
        for k in 0..self.plan.depth / self.plan.matrix.shape[2] {
            let x: Vec<V> = (0..rows).map(|i| self.fragment(em, b, 0, slot, i, k)).collect();
            let y: Vec<V> = (0..columns).map(|j| self.fragment(em, b, 1, slot, j, k)).collect();
            for (i, x) in x.iter().enumerate() {
                for (j, y) in y.iter().enumerate() {
                    let at = i * columns as usize + j;
                    sums[at] = b.op1("zml.mma", &[*x, *y, sums[at]], sums[at].r#type(), &[]);
                }
            }
        }
        sums
    }
    /// Fragment `number` of an input at product `k` of a stage.
    fn fragment(&self, em: &mut Em<'c>, b: &B<'c>, input: usize, slot: Ix, number: i64, k: i64) -> V<'c> {
        let side = &self.sides[input];
        let own = self.plan.fragments()[input] * EDGE;
        let o = em.ix.scale(self.place[input], own);
        let o = em.ix.add_constant(o, number * EDGE);
        let k = em.ix.constant(k * self.plan.matrix.shape[2]);
        let at = self.layout(em, b, side, k, o);
        let start = em.ix.scale(slot, self.stage(side));
        let at = em.ix.add(start, at);
        let at = em.ssa(b, at);
        let along_k = self.plan.lines_along_k(side.along_k);
        let stride = if along_k { side.depth } else { side.tile } + self.plan.pad;
        let element = self.narrow[input].r#type().to_string();
        let depth = self.plan.matrix.shape[2];
        let (rows, columns, role) = if input == 0 { (EDGE, depth, 'a') } else { (depth, EDGE, 'b') };
        let mut attributes = vec![("stride", b.i64_attr(stride))];
        if along_k != (input == 0) {
            attributes.push(("transposed", b.unit()));
        }
        let t = Fragment::new(role, rows, columns, &element).ty(b);
        b.op1("zml.fragment_load", &[self.frame.shared[input], at], t, &attributes)
    }
    /// As `product`, by the team that the subgroup is in.
    fn team(&self, em: &mut Em<'c>, b: &B<'c>, slot: Ix, sums: &[V<'c>]) -> Vec<V<'c>> {
        let [x, y] = self.sides;
        let zero = em.ix.constant(0);
        let team = em.ix.div(self.subgroup, self.plan.matrix.team);
        let row = em.ix.scale(team, self.plan.matrix.team * EDGE);
        let starts = [(x, row), (y, zero)].map(|(side, o)| {
            let line_length = 128 / self.plan.factor_bytes;
            // A team's first line is a multiple of 8, its first column one of a line's length.
            let at = if side.along_k {
                em.ix.scale(o, line_length)
            } else {
                let block = em.ix.div(o, line_length);
                em.ix.scale(block, side.depth * line_length)
            };
            let start = em.ix.scale(slot, self.stage(side));
            let at = em.ix.add(start, at);
            em.ssa(b, at)
        });
        let mut operands = vec![self.frame.shared[0], starts[0], self.frame.shared[1], starts[1]];
        operands.extend(sums);
        let types: Vec<_> = sums.iter().map(ValueLike::r#type).collect();
        let lines = |side: &Side| b.i64_attr(if side.along_k { side.tile } else { side.depth });
        let mut attributes = vec![("a_rows", lines(x)), ("b_rows", lines(y)), ("depth", b.i64_attr(self.plan.depth))];
        if !x.along_k {
            attributes.push(("a_across", b.unit()));
        }
        if !y.along_k {
            attributes.push(("b_across", b.unit()));
        }
        let sums = results(b.op("zml.team_mma", &operands, &types, &attributes, vec![]));
        self.team_wait(b, &sums, 1)
    }
    fn team_wait(&self, b: &B<'c>, sums: &[V<'c>], pending: i64) -> Vec<V<'c>> {
        let types: Vec<_> = sums.iter().map(ValueLike::r#type).collect();
        results(b.op("zml.team_wait", sums, &types, &[("pending", b.i64_attr(pending))], vec![]))
    }

    /// Elements that a thread writes together: neighbours of the result along n.
    fn run(&self, d: &Dispatch<'c>) -> i64 {
        let widest = d.results.iter().map(|r| elem_bytes(r.r#type())).max().unwrap_or(4);
        result_run(self.c, 16 / widest)
    }
    /// Hands the sums to the engine, piece by piece, and writes what hangs on them.
    fn finish(&self, em: &mut Em<'c>, b: &B<'c>, d: &Dispatch<'c>, items: &[&Item<'c>], sums: &[V<'c>]) {
        let [rows, columns] = self.plan.fragments();
        let (piece, stride) = (self.plan.piece, self.plan.sums_stride());
        let memory = self.frame.shared[2];
        let own = em.ix.scale(self.subgroup, EDGE * stride);
        let (run, wide) = (self.run(d), piece / EDGE);
        let mut first = true;
        for i in 0..rows {
            for j in 0..columns / wide {
                if !first {
                    barrier(b);
                }
                first = false;
                for f in 0..wide {
                    let at = em.ix.add_constant(own, f * EDGE);
                    let at = em.ssa(b, at);
                    let x = sums[(i * columns + j * wide + f) as usize];
                    b.op("zml.fragment_store", &[x, memory, at], &[], &[("stride", b.i64_attr(stride))], vec![]);
                }
                barrier(b);
                // In a scope of its own: the memory has other sums the next time.
                em.scoped(|em| self.write_piece(em, b, d, items, [i, j], own, run));
            }
        }
    }
    /// The thread's runs of piece `[i, j]` of the subgroup's sums, which lies in memory from `own` on.
    #[allow(clippy::too_many_arguments)]
    fn write_piece(
        &self,
        em: &mut Em<'c>,
        b: &B<'c>,
        d: &Dispatch<'c>,
        items: &[&Item<'c>],
        [i, j]: [i64; 2],
        own: Ix,
        run: i64,
    ) {
        let (piece, stride) = (self.plan.piece, self.plan.sums_stride());
        let chunks = EDGE * piece / run;
        for turn in 0..(chunks + self.plan.lanes - 1) / self.plan.lanes {
            let number = em.ix.add_constant(self.lane, turn * self.plan.lanes);
            em.if_below(b, number, chunks, |em, b| {
                let place = em.ix.delinear(number, &[EDGE, piece / run]);
                let column = em.ix.scale(place[1], run);
                let at = em.ix.scale(place[0], stride);
                let at = em.ix.add(at, own);
                let at = em.ix.add(at, column);
                let row = em.ix.add_constant(place[0], i * EDGE);
                let lane = em.ix.lane(run);
                let column = em.ix.add(column, lane);
                let column = em.ix.add_constant(column, j * piece);
                self.write(em, b, d, items, [row, column], at, run);
            });
        }
    }
    /// Elements from `at` on in the sums' memory are those at `place` of the subgroup's own.
    #[allow(clippy::too_many_arguments)]
    fn write(
        &self,
        em: &mut Em<'c>,
        b: &B<'c>,
        d: &Dispatch<'c>,
        items: &[&Item<'c>],
        place: [Ix; 2],
        at: Ix,
        run: i64,
    ) {
        let [m, n] = [0, 1].map(|i| {
            let tile = em.ix.scale(self.tiles[i], self.plan.tile[i]);
            let own = em.ix.scale(self.place[i], self.plan.fragments()[i] * EDGE);
            let start = em.ix.add(tile, own);
            em.ix.add(start, place[i])
        });
        let first = em.ix.at_lane(n, 0);
        em.if_below(b, m, self.sides[0].extent, |em, b| {
            em.if_below(b, first, self.sides[1].extent, |em, b| {
                let wide = run.min(4);
                let lanes: Lanes = (0..run / wide)
                    .flat_map(|h| {
                        let at = em.ix.add_constant(at, h * wide);
                        let lane = em.ix.lane(wide);
                        let at = em.ix.add(at, lane);
                        em.load(b, self.frame.shared[2], at)
                    })
                    .collect();
                let result = result(self.c.nest.op, 0);
                let loops = loops(em, self.c, &[(&self.c.batch, self.batch), (&self.c.m, m), (&self.c.n, n)]);
                let index = self.c.nest.out_index(em, 0, &loops);
                let at = em.ix.linear(&index, &shape(result.r#type()));
                em.heroes.insert(key(result), vec![(index, lanes)]);
                write(em, b, d, self.frame, items, at);
            });
        });
    }
}
