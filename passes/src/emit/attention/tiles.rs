//! Attention of many rows by fragments: a workgroup has a tile of rows, a subgroup 16 of them, and goes along the positions
//! twice, tile by tile. Scores never leave workgroup memory.
//!
//! First it finds each row's greatest score. The second time it has the scores again, takes their exponentials against
//! the greatest, and multiplies these with the values: sums of fragments are never scaled, so who holds which element stays
//! the target's business. Multiplying keys twice costs less than moving anything.
//!
//! A turn meets twice: once the scores are in workgroup memory, and once the weights, the tile's values and the next keys
//! are. What the turn after needs is loaded before the products and stored after them.

use super::{
    super::{
        build::{Em, Lanes},
        contraction::Contraction,
        index::Ix,
        kernel::{Dispatch, Frame, Launch, kernel},
        loops::too_large,
        mma::{Chunk, barrier},
        nest::Nest,
        output::{Item, items, write},
        tile::loops,
    },
    Roles, divided, finite, float,
    mask::{LOW, Mask, Reach},
    split::exchange,
    steps::{as_f32, as_type},
};
use crate::{
    ir::*,
    pass::PassError,
    spec::{DeviceSpec, Matrix},
};
use melior::ir::Type;

/// Rows of a subgroup, and rows and columns of a fragment of sums.
const EDGE: i64 = 16;
/// Subgroups of a workgroup at most.
const SUBGROUPS: i64 = 4;
/// Neighbouring scores that a thread has at once, at most.
const RUN: i64 = 4;
/// Bytes by which lines in workgroup memory are longer than their content.
const PAD_BYTES: i64 = 16;

/// Sizes of a tile.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    matrix: Matrix,
    subgroups: i64,
    /// Threads of a subgroup.
    lanes: i64,
    /// Positions of a tile, elements of a query or key, and of a value.
    columns: i64,
    depth: i64,
    kept: i64,
    /// Elements by which lines of factors are padded, and those of scores.
    pad: i64,
    pad_scores: i64,
}
impl Plan {
    /// `None` where the device does not multiply such matrices or has no room. `rows`: those that share keys and values.
    pub fn of(factor: &str, rows: i64, (depth, kept): (i64, i64), spec: &DeviceSpec) -> Option<Self> {
        let matrix = spec.matrices.iter().find(|m| m.factors == factor && m.sums == "f32")?;
        let lanes = i64::from(spec.subgroup);
        if lanes == 0 || rows < EDGE || depth % matrix.shape[2] != 0 || kept % EDGE != 0 || matrix.shape[2] > EDGE {
            return None;
        }
        let subgroups = SUBGROUPS.min(rows / EDGE);
        let (pad, pad_scores) = (PAD_BYTES / 2, 8);
        let all = [64, 32, 16].map(|columns| Plan {
            matrix: matrix.clone(),
            subgroups,
            lanes,
            columns,
            depth,
            kept,
            pad,
            pad_scores,
        });
        let room = i64::from(spec.most_shared_bytes());
        all.into_iter().find(|p| p.bytes() <= room && p.threads() <= i64::from(spec.max_block))
    }
    fn rows(&self) -> i64 {
        self.subgroups * EDGE
    }
    fn threads(&self) -> i64 {
        self.subgroups * self.lanes
    }
    /// Elements of a number of lines of this length.
    fn lines(&self, lines: i64, length: i64) -> i64 {
        lines * (length + self.pad)
    }
    /// Queries first, weights later.
    fn of_rows(&self) -> i64 {
        self.lines(self.rows(), self.depth.max(self.columns))
    }
    fn scores_stride(&self) -> i64 {
        self.columns + self.pad_scores
    }
    fn bytes(&self) -> i64 {
        let factors = self.of_rows() + self.lines(self.columns, self.depth) + self.lines(self.columns, self.kept);
        let words = self.rows() * (self.scores_stride() + 1) + self.threads();
        factors * 2 + words * 4
    }
    /// Threads of a row, and rows of a thread.
    fn threads_of_row(&self) -> i64 {
        (self.lanes / EDGE).max(1)
    }
    fn rows_of_thread(&self) -> i64 {
        (EDGE / self.lanes).max(1)
    }
}

/// Whether attention goes by tiles: type of the factors, rows that share keys and values, elements of a key and of a value.
pub fn fits(factor: &str, rows: i64, sizes: (i64, i64), spec: &DeviceSpec) -> bool {
    Plan::of(factor, rows, sizes, spec).is_some()
}

/// The kernel; `None` if the device does not multiply such matrices.
pub fn emit<'c>(
    b: &B<'c>,
    d: &Dispatch<'c>,
    r: &Roles<'c>,
    mask: Option<&Mask<'c>>,
    spec: &DeviceSpec,
) -> Option<Result<Launch, PassError>> {
    let positions = r.out.extent(&r.out.k);
    let scores = Contraction::of(Nest::of(r.scores)?)?;
    let (narrow, narrow_scores) = (r.out.narrow()?, scores.narrow()?);
    let factor = narrow[0].r#type();
    if narrow_scores[0].r#type() != factor {
        return None;
    }
    let (mine, own) = (r.mine(), r.own());
    let rows = r.out.extent(mine);
    let plan = Plan::of(&factor.to_string(), rows, (scores.extent(&scores.k), r.out.extent(own)), spec)?;
    let (batch, tiles) = (r.out.extent(&r.out.batch), (rows + plan.rows() - 1) / plan.rows());
    let groups = batch * tiles;
    let Some(launch) = Launch::new(groups, plan.threads() as u32, spec) else { return Some(Err(too_large(d))) };
    let mut shared: Vec<(i64, Type)> = vec![
        (plan.of_rows(), factor),
        (plan.lines(plan.columns, plan.depth), factor),
        (plan.lines(plan.columns, plan.kept), factor),
        (plan.rows() * plan.scores_stride(), b.f32()),
        (plan.rows(), b.f32()),
    ];
    if mask.is_some() {
        shared.push((plan.threads(), b.i(32)));
    }
    kernel(b, d, launch, &shared, |em, b, frame| {
        em.if_below(b, frame.group, groups, |em, b| {
            // The last rows have the most positions under a causal mask: they go first.
            let place = em.ix.delinear(frame.group, &[tiles, batch]);
            let last = em.ix.scale(place[0], -plan.rows());
            let first = em.ix.add_constant(last, (tiles - 1) * plan.rows());
            let (subgroup, lane) = (em.ix.div(frame.thread, plan.lanes), em.ix.rem(frame.thread, plan.lanes));
            let mut work = Work {
                d,
                frame,
                r,
                plan: &plan,
                scores: &scores,
                narrow,
                narrow_scores,
                key: 0,
                positions,
                rows,
                batch: place[1],
                first,
                subgroup,
                lane,
            };
            work.key = work.key_input(em);
            work.run(em, b, mask);
        });
    });
    Some(Ok(launch))
}

struct Work<'a, 'c> {
    d: &'a Dispatch<'c>,
    frame: &'a Frame<'c>,
    r: &'a Roles<'c>,
    plan: &'a Plan,
    scores: &'a Contraction<'c>,
    /// What is multiplied, as values of the bodies of the weighted sum and of the scores.
    narrow: [V<'c>; 2],
    narrow_scores: [V<'c>; 2],
    /// Which input of the scores has the keys.
    key: usize,
    positions: i64,
    rows: i64,
    batch: Ix,
    /// The tile's first row, among those of its batch.
    first: Ix,
    /// Number of the subgroup in its workgroup, and of the thread in its subgroup.
    subgroup: Ix,
    lane: Ix,
}
/// What is brought into workgroup memory.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Queries,
    Keys,
    Values,
}

impl<'c> Work<'_, 'c> {
    fn loops(&self, em: &mut Em<'c>, row: Ix, position: Ix, value: Option<Ix>) -> Vec<Ix> {
        let c = &self.r.out;
        let value = value.unwrap_or_else(|| em.ix.constant(0));
        loops(em, c, &[(&c.batch, self.batch), (self.r.mine(), row), (&c.k, position), (self.r.own(), value)])
    }
    /// Index of a value that the weights are made from.
    fn index(&self, em: &mut Em<'c>, v: V<'c>, row: Ix, position: Ix) -> Vec<Ix> {
        let loops = self.loops(em, row, position, None);
        let at = self.r.out.nest.in_index(em, self.r.weights, &loops);
        let weights = self.r.out.nest.ins[self.r.weights];
        em.index_in(weights, &at, v).expect("weights are made from it")
    }
    /// Index of an input of the scores.
    fn scores_input(&self, em: &mut Em<'c>, i: usize, row: Ix, position: Ix, element: Ix) -> Vec<Ix> {
        let nest = &self.scores.nest;
        let at = self.index(em, result(nest.op, 0), row, position);
        let k: Vec<i64> = self.scores.k.iter().map(|l| nest.bounds[*l]).collect();
        let inner = em.ix.delinear(element, &k);
        let known = nest.loops_at(em, 0, &at);
        let loops: Vec<Ix> = (0..known.len())
            .map(|l| known[l].unwrap_or_else(|| inner[self.scores.k.iter().position(|k| *k == l).expect("reduced")]))
            .collect();
        nest.in_index(em, i, &loops)
    }
    fn key_input(&self, em: &mut Em<'c>) -> usize {
        let (zero, one) = (em.ix.constant(0), em.ix.constant(1));
        let moves = |em: &mut Em<'c>, i| {
            self.scores_input(em, i, zero, zero, zero) != self.scores_input(em, i, zero, one, zero)
        };
        usize::from(!moves(em, 0))
    }
    /// `e` where it is below `extent`, else the last.
    fn kept_inside(&self, em: &mut Em<'c>, b: &B<'c>, e: Ix, extent: i64) -> Ix {
        if em.ix.range(e).1 < extent {
            return e;
        }
        let (x, last) = (em.ssa(b, e), em.index(extent - 1));
        let v = b.same("arith.minui", &[x, last]);
        em.ix.value(v, (0, extent - 1))
    }
    fn lines_of(&self, part: Part) -> (i64, i64) {
        match part {
            Part::Queries => (self.plan.rows(), self.plan.depth),
            Part::Keys => (self.plan.columns, self.plan.depth),
            Part::Values => (self.plan.columns, self.plan.kept),
        }
    }
    /// The thread's chunks of the queries, or of tile `tile` of the others.
    fn load(&self, em: &mut Em<'c>, b: &B<'c>, part: Part, tile: Ix) -> Vec<Chunk<'c>> {
        let (lines, length) = self.lines_of(part);
        let run = [8, 4, 2].into_iter().find(|n| length % n == 0).unwrap_or(1);
        let (zero, threads) = (em.ix.constant(0), self.plan.threads());
        let chunks = lines * length / run;
        (0..(chunks + threads - 1) / threads)
            .map(|turn| {
                let number = em.ix.add_constant(self.frame.thread, turn * threads);
                let place = em.ix.delinear(number, &[lines, length / run]);
                let (along, lane) = (em.ix.scale(place[1], run), em.ix.lane(run));
                let along = em.ix.add(along, lane);
                let at = em.ix.scale(place[0], length + self.plan.pad);
                let at = em.ix.add(at, along);
                let (c, i, narrow, index) = if part == Part::Queries {
                    let row = em.ix.add(self.first, place[0]);
                    let row = self.kept_inside(em, b, row, self.rows);
                    let i = 1 - self.key;
                    let index = self.scores_input(em, i, row, zero, along);
                    (self.scores, i, self.narrow_scores, index)
                } else {
                    let start = em.ix.scale(tile, self.plan.columns);
                    let position = em.ix.add(start, place[0]);
                    let position = self.kept_inside(em, b, position, self.positions);
                    if part == Part::Keys {
                        let index = self.scores_input(em, self.key, zero, position, along);
                        (self.scores, self.key, self.narrow_scores, index)
                    } else {
                        let i = 1 - self.r.weights;
                        let loops = self.loops(em, zero, position, Some(along));
                        (&self.r.out, i, self.narrow, self.r.out.nest.in_index(em, i, &loops))
                    }
                };
                let elements = em.eval(b, c.nest.ins[i], &index);
                let mut lanes: Lanes = elements.into_iter().map(|x| c.value(em, b, i, narrow[i], x)).collect();
                if lanes.len() == 1 {
                    lanes = vec![lanes[0]; run as usize];
                }
                Chunk { number, lanes, at }
            })
            .collect()
    }
    fn store(&self, em: &mut Em<'c>, b: &B<'c>, part: Part, chunks: &[Chunk<'c>]) {
        let (lines, length) = self.lines_of(part);
        let memory = self.frame.shared[part as usize];
        for chunk in chunks {
            let count = lines * length / chunk.lanes.len() as i64;
            em.if_below(b, chunk.number, count, |em, b| em.store(b, memory, chunk.at, &chunk.lanes));
        }
    }
    /// Fragment of a factor at line `line` and element `along` of an array.
    fn fragment(&self, em: &mut Em<'c>, b: &B<'c>, part: Part, length: i64, (line, along): (Ix, i64)) -> V<'c> {
        let memory = self.frame.shared[part as usize];
        let stride = length + self.plan.pad;
        let at = em.ix.scale(line, stride);
        let at = em.ix.add_constant(at, along);
        let at = em.ssa(b, at);
        let depth = self.plan.matrix.shape[2];
        let (role, rows, columns) = if part == Part::Queries { ('a', EDGE, depth) } else { ('b', depth, EDGE) };
        let mut attributes = vec![("stride", b.i64_attr(stride))];
        if part == Part::Keys {
            attributes.push(("transposed", b.unit()));
        }
        let element = elem(memory.r#type()).to_string();
        b.op1("zml.fragment_load", &[memory, at], Fragment::new(role, rows, columns, &element).ty(b), &attributes)
    }
    fn no_sums(&self, em: &mut Em<'c>, b: &B<'c>, count: i64) -> Vec<V<'c>> {
        let zero = em.zero(b.f32());
        let t = Fragment::new('c', EDGE, EDGE, "f32").ty(b);
        vec![b.op1("zml.fragment_fill", &[zero], t, &[]); count as usize]
    }
    /// Writes fragments of sums beside each other into the subgroup's rows of the scores' memory.
    fn lay_out(&self, em: &mut Em<'c>, b: &B<'c>, sums: &[V<'c>]) {
        let stride = self.plan.scores_stride();
        let first = em.ix.scale(self.subgroup, EDGE * stride);
        for (j, x) in sums.iter().enumerate() {
            let at = em.ix.add_constant(first, j as i64 * EDGE);
            let at = em.ssa(b, at);
            let attributes = [("stride", b.i64_attr(stride))];
            b.op("zml.fragment_store", &[*x, self.frame.shared[3], at], &[], &attributes, vec![]);
        }
    }
    /// The products of the subgroup's queries and the tile's keys.
    fn multiply(&self, em: &mut Em<'c>, b: &B<'c>, queries: &[V<'c>]) {
        let depth = self.plan.matrix.shape[2];
        let columns = self.plan.columns / EDGE;
        let mut sums = self.no_sums(em, b, columns);
        for (k, q) in queries.iter().enumerate() {
            for (j, sum) in sums.iter_mut().enumerate() {
                let line = em.ix.constant(j as i64 * EDGE);
                let y = self.fragment(em, b, Part::Keys, self.plan.depth, (line, k as i64 * depth));
                *sum = b.op1("zml.mma", &[*q, y, *sum], sum.r#type(), &[]);
            }
        }
        self.lay_out(em, b, &sums);
    }
    /// Sums plus the products of the subgroup's weights and the tile's values.
    fn add(&self, em: &mut Em<'c>, b: &B<'c>, sums: &[V<'c>]) -> Vec<V<'c>> {
        let depth = self.plan.matrix.shape[2];
        let row = em.ix.scale(self.subgroup, EDGE);
        let mut sums = sums.to_vec();
        for k in 0..self.plan.columns / depth {
            let x = self.fragment(em, b, Part::Queries, self.plan.columns, (row, k * depth));
            for (j, sum) in sums.iter_mut().enumerate() {
                let line = em.ix.constant(k * depth);
                let y = self.fragment(em, b, Part::Values, self.plan.kept, (line, j as i64 * EDGE));
                *sum = b.op1("zml.mma", &[x, y, *sum], sum.r#type(), &[]);
            }
        }
        sums
    }

    /// The thread's rows, by number in the subgroup.
    fn thread_rows(&self, em: &mut Em<'c>) -> Vec<Ix> {
        let of_row = self.plan.threads_of_row();
        let row = em.ix.div(self.lane, of_row);
        let apart = self.plan.lanes / of_row;
        (0..self.plan.rows_of_thread()).map(|i| em.ix.add_constant(row, i * apart)).collect()
    }
    /// Goes through the thread's scores of a tile, run by run; the engine knows them.
    fn each_run(&self, em: &mut Em<'c>, b: &B<'c>, tile: Ix, f: &mut dyn FnMut(&mut Em<'c>, &B<'c>, Run<'c>)) {
        let of_row = self.plan.threads_of_row();
        let part = em.ix.rem(self.lane, of_row);
        for (i, local) in self.thread_rows(em).into_iter().enumerate() {
            let own = em.ix.scale(self.subgroup, EDGE);
            let line = em.ix.add(own, local);
            let row = em.ix.add(self.first, line);
            let row = self.kept_inside(em, b, row, self.rows);
            // Whole runs are there or not.
            let length = [RUN, 2].into_iter().find(|n| self.positions % n == 0).unwrap_or(1);
            for j in 0..self.plan.columns / length / of_row {
                let run = em.ix.add_constant(part, j * of_row);
                let (first, lane) = (em.ix.scale(run, length), em.ix.lane(length));
                let column = em.ix.add(first, lane);
                let before = em.ix.scale(tile, self.plan.columns / length);
                let number = em.ix.add(before, run);
                let runs = self.positions / length;
                let inside = (em.ix.range(number).1 >= runs).then(|| {
                    let (x, n) = (em.ssa(b, number), em.index(runs));
                    b.cmpi("ult", x, n)
                });
                let number = self.kept_inside(em, b, number, runs);
                let position = em.ix.scale(number, length);
                let position = em.ix.add(position, lane);
                let at = em.ix.scale(line, self.plan.scores_stride());
                let at = em.ix.add(at, column);
                let sums = em.load(b, self.frame.shared[3], at);
                let scores = result(self.scores.nest.op, 0);
                let index = self.index(em, scores, row, position);
                em.heroes.insert(key(scores), vec![(index, sums)]);
                em.scoped(|em| f(em, b, Run { i, line, row, column, position, inside }));
            }
        }
    }
    /// What all threads of a row have between them.
    fn of_row(&self, em: &mut Em<'c>, b: &B<'c>, x: V<'c>, op: &str) -> V<'c> {
        let (mut x, mut offset) = (x, 1);
        while offset < self.plan.threads_of_row() {
            let other = exchange(em, b, x, offset, self.plan.lanes);
            x = b.same(op, &[x, other]);
            offset *= 2;
        }
        x
    }

    fn run(&self, em: &mut Em<'c>, b: &B<'c>, mask: Option<&Mask<'c>>) {
        let tiles = (self.positions + self.plan.columns - 1) / self.plan.columns;
        let zero = em.ix.constant(0);
        let queries = em.scoped(|em| self.load(em, b, Part::Queries, zero));
        self.store(em, b, Part::Queries, &queries);
        let turns = match mask {
            None => {
                barrier(b);
                em.index(tiles)
            }
            Some(mask) => {
                let end = self.end(em, b, mask);
                let (more, by) = (em.index(self.plan.columns - 1), em.index(self.plan.columns));
                b.same("arith.divui", &[b.addi(end, more), by])
            }
        };
        let depth = self.plan.matrix.shape[2];
        let row = em.ix.scale(self.subgroup, EDGE);
        let queries: Vec<V> = (0..self.plan.depth / depth)
            .map(|k| self.fragment(em, b, Part::Queries, self.plan.depth, (row, k * depth)))
            .collect();
        let rows = self.plan.rows_of_thread() as usize;
        let lowest = float(em, b, f64::NEG_INFINITY);
        let maxima = self.turns(em, b, (tiles, turns), &vec![lowest; rows], |em, b, tile, next, carried| {
            let keys = em.scoped(|em| self.load(em, b, Part::Keys, next));
            self.multiply(em, b, &queries);
            barrier(b);
            let mut maxima = carried.to_vec();
            self.each_run(em, b, tile, &mut |em, b, run| {
                let score = self.r.score;
                let at = self.index(em, score, run.row, run.position);
                let scores = em.eval(b, score, &at);
                for x in scores {
                    let x = as_f32(em, b, x);
                    let x = run.inside.map_or(x, |inside| b.select(inside, x, lowest));
                    maxima[run.i] = b.same("arith.maximumf", &[maxima[run.i], x]);
                }
            });
            self.store(em, b, Part::Keys, &keys);
            barrier(b);
            maxima
        });
        let maxima: Vec<V> = maxima.into_iter().map(|x| self.of_row(em, b, x, "arith.maximumf")).collect();
        let turns = match mask {
            None => turns,
            Some(_) => self.all_if_nothing_counts(em, b, (tiles, turns), &maxima),
        };
        let maxima: Vec<V> = maxima.into_iter().map(|x| finite(em, b, self.r, x)).collect();
        let mut init = vec![em.zero(b.f32()); rows];
        init.extend(self.no_sums(em, b, self.plan.kept / EDGE));
        let all = self.turns(em, b, (tiles, turns), &init, |em, b, tile, next, carried| {
            let values = em.scoped(|em| self.load(em, b, Part::Values, tile));
            let keys = em.scoped(|em| self.load(em, b, Part::Keys, next));
            self.multiply(em, b, &queries);
            barrier(b);
            let (sums, products) = carried.split_at(rows);
            let mut sums = sums.to_vec();
            self.each_run(em, b, tile, &mut |em, b, run| self.weigh(em, b, &run, maxima[run.i], &mut sums));
            self.store(em, b, Part::Values, &values);
            self.store(em, b, Part::Keys, &keys);
            barrier(b);
            sums.extend(self.add(em, b, products));
            sums
        });
        let (sums, products) = all.split_at(rows);
        self.finish(em, b, sums, products);
    }
    /// One more than the last position that counts in any row of the tile.
    fn end(&self, em: &mut Em<'c>, b: &B<'c>, mask: &Mask<'c>) -> V<'c> {
        let reach = Reach {
            frame: self.frame,
            block: self.plan.threads(),
            subgroup: self.plan.lanes,
            positions: self.positions,
            memory: Some(self.frame.shared[5]),
            each: false,
        };
        let rows: Vec<Ix> = (0..self.plan.rows())
            .map(|j| {
                let row = em.ix.add_constant(self.first, j);
                self.kept_inside(em, b, row, self.rows)
            })
            .collect();
        mask.end(em, b, &reach, &mut |em, position| {
            rows.iter().map(|row| self.index(em, mask.predicate, *row, position)).collect()
        })
    }
    /// All tiles where a row has seen nothing but what a mask puts in place of scores: its positions count alike.
    fn all_if_nothing_counts(
        &self,
        em: &mut Em<'c>,
        b: &B<'c>,
        (tiles, turns): (i64, V<'c>),
        maxima: &[V<'c>],
    ) -> V<'c> {
        let (memory, t) = (self.frame.shared[5], b.i(32));
        let (low, lowest) = (float(em, b, LOW), float(em, b, f64::NEG_INFINITY));
        // Against minus infinity everything is no number.
        let nothing = maxima.iter().map(|x| b.same("arith.andi", &[b.cmpf("ole", *x, low), b.cmpf("ogt", *x, lowest)]));
        let nothing = nothing.collect::<Vec<V>>().into_iter().reduce(|x, y| b.same("arith.ori", &[x, y]));
        let (one, zero) = (em.int(t, 1), em.int(t, 0));
        let mut mine = b.select(nothing.expect("at least one row"), one, zero);
        let mut offset = 1;
        while offset < self.plan.lanes {
            let other = exchange(em, b, mine, offset, self.plan.lanes);
            mine = b.same("arith.maxsi", &[mine, other]);
            offset *= 2;
        }
        em.if_below(b, self.lane, 1, |em, b| {
            let at = em.ssa(b, self.subgroup);
            b.op("memref.store", &[mine, memory, at], &[], &[], vec![]);
        });
        barrier(b);
        let all: Vec<V> = (0..self.plan.subgroups)
            .map(|i| {
                let at = em.index(i);
                b.op1("memref.load", &[memory, at], t, &[])
            })
            .collect();
        let any = all.into_iter().reduce(|x, y| b.same("arith.ori", &[x, y])).expect("at least one");
        let every = em.index(tiles);
        b.select(b.cmpi("ne", any, zero), every, turns)
    }
    /// Goes through the tiles, with the first keys in workgroup memory: `f` has the tile's number and the next one's.
    fn turns(
        &self,
        em: &mut Em<'c>,
        b: &B<'c>,
        (tiles, turns): (i64, V<'c>),
        init: &[V<'c>],
        f: impl FnOnce(&mut Em<'c>, &B<'c>, Ix, Ix, &[V<'c>]) -> Vec<V<'c>>,
    ) -> Vec<V<'c>> {
        let first = em.ix.constant(0);
        let keys = em.scoped(|em| self.load(em, b, Part::Keys, first));
        self.store(em, b, Part::Keys, &keys);
        barrier(b);
        let (zero, one) = (em.index(0), em.index(1));
        b.for_loop(zero, turns, one, init, |b, i, carried| {
            em.scoped(|em| {
                let tile = em.ix.value(i, (0, tiles - 1));
                // After the last tile nobody reads the keys.
                let next = em.ix.add_constant(tile, 1);
                let next = self.kept_inside(em, b, next, tiles);
                f(em, b, tile, next, carried)
            })
        })
    }
    /// Turns a run of scores into weights, and adds their exponentials to the row's sum.
    fn weigh(&self, em: &mut Em<'c>, b: &B<'c>, run: &Run<'c>, max: V<'c>, sums: &mut [V<'c>]) {
        let r = self.r;
        let (one, zero) = (float(em, b, 1.0), em.zero(b.f32()));
        for (op, x) in [(r.max, max), (r.sum, one)] {
            let v = result(op, 0);
            let x = as_type(em, b, x, elem(v.r#type()));
            em.heroes.insert(key(v), vec![(vec![], vec![x])]);
        }
        let exponential = r.exponential;
        em.watched.insert(key(exponential), None);
        let weights = r.out.nest.ins[r.weights];
        let at = self.index(em, weights, run.row, run.position);
        let lanes = em.eval(b, weights, &at);
        let seen = em.watched.get(&key(exponential)).cloned().flatten();
        let (_, exponentials) = seen.expect("checked: weights are made from exponentials");
        let narrow = self.narrow[r.weights];
        let none = em.zero(narrow.r#type());
        let mut all: Lanes = vec![];
        for (x, y) in exponentials.into_iter().zip(lanes) {
            let (x, y) = (as_f32(em, b, x), r.out.value(em, b, r.weights, narrow, y));
            let (x, y) = match run.inside {
                None => (x, y),
                Some(inside) => (b.select(inside, x, zero), b.select(inside, y, none)),
            };
            sums[run.i] = b.addf(sums[run.i], x);
            all.push(y);
        }
        let at = em.ix.scale(run.line, self.plan.columns + self.plan.pad);
        let at = em.ix.add(at, run.column);
        em.store(b, self.frame.shared[0], at, &all);
    }

    /// Divides by the rows' sums and writes what hangs on the elements, some columns at a time.
    fn finish(&self, em: &mut Em<'c>, b: &B<'c>, sums: &[V<'c>], products: &[V<'c>]) {
        let part = em.ix.rem(self.lane, self.plan.threads_of_row());
        let lines = self.thread_rows(em);
        for (local, x) in lines.into_iter().zip(sums) {
            let sum = self.of_row(em, b, *x, "arith.addf");
            em.if_below(b, part, 1, |em, b| {
                let own = em.ix.scale(self.subgroup, EDGE);
                let at = em.ix.add(own, local);
                let at = em.ssa(b, at);
                b.op("memref.store", &[sum, self.frame.shared[4], at], &[], &[], vec![]);
            });
        }
        let all = items(self.d);
        let all: Vec<&Item> = all.iter().collect();
        let piece = self.plan.columns.min(self.plan.kept) / EDGE;
        for (p, products) in products.chunks(piece as usize).enumerate() {
            if p > 0 {
                barrier(b);
            }
            self.lay_out(em, b, products);
            barrier(b);
            let columns = products.len() as i64 * EDGE;
            em.scoped(|em| self.write_piece(em, b, &all, (p as i64 * piece * EDGE, columns)));
        }
    }
    /// Neighbours of the result that a thread writes together, and whether they are of several rows.
    fn result_run(&self) -> (i64, bool) {
        let nest = &self.r.out.nest;
        let extents = shape(result(nest.op, 0).r#type());
        let last = (0..extents.len()).rev().find(|d| extents[*d] > 1);
        let widest = self.d.results.iter().map(|v| elem_bytes(v.r#type())).max().unwrap_or(4);
        let follows = |l: &&usize| last.is_some() && nest.output_dim(0, **l) == last;
        let (own, mine) = (self.r.own().iter().find(follows), self.r.mine().last().filter(|l| follows(l)));
        let fits =
            |l: &usize| [8, 4, 2].into_iter().find(|n| *n <= 16 / widest && nest.bounds[*l] % n == 0).unwrap_or(1);
        match (own, mine) {
            (Some(l), _) => (fits(l), false),
            (_, Some(l)) => (fits(l), true),
            _ => (1, false),
        }
    }
    /// Columns from `first` on, which lie in the scores' memory.
    fn write_piece(&self, em: &mut Em<'c>, b: &B<'c>, items: &[&Item<'c>], (first, columns): (i64, i64)) {
        let (run, across) = self.result_run();
        let threads = self.plan.threads();
        let (lines, length) = if across { (columns, self.plan.rows()) } else { (self.plan.rows(), columns) };
        let chunks = lines * length / run;
        for turn in 0..(chunks + threads - 1) / threads {
            let number = em.ix.add_constant(self.frame.thread, turn * threads);
            em.if_below(b, number, chunks, |em, b| {
                let place = em.ix.delinear(number, &[lines, length / run]);
                let (along, lane) = (em.ix.scale(place[1], run), em.ix.lane(run));
                let along = em.ix.add(along, lane);
                let (line, column) = if across { (along, place[0]) } else { (place[0], along) };
                self.write_run(em, b, items, line, (column, first));
            });
        }
    }
    fn write_run(&self, em: &mut Em<'c>, b: &B<'c>, items: &[&Item<'c>], line: Ix, (column, start): (Ix, i64)) {
        let row = em.ix.add(self.first, line);
        let first = em.ix.at_lane(row, 0);
        em.if_below(b, first, self.rows, |em, b| {
            let at = em.ix.scale(line, self.plan.scores_stride());
            let at = em.ix.add(at, column);
            let products = em.load(b, self.frame.shared[3], at);
            let sums = em.load(b, self.frame.shared[4], line);
            let column = em.ix.add_constant(column, start);
            let zero = em.ix.constant(0);
            let loops = self.loops(em, row, zero, Some(column));
            let nest = &self.r.out.nest;
            let index = nest.out_index(em, 0, &loops);
            let inits = em.eval(b, nest.outs[0], &index);
            let of = |lanes: &Lanes<'c>, k: usize| lanes[if lanes.len() == 1 { 0 } else { k }];
            let whole = |k| b.addf(of(&inits, k), divided(em, b, of(&products, k), of(&sums, k)));
            let lanes: Lanes = (0..products.len()).map(whole).collect();
            let out = result(nest.op, 0);
            let at = em.ix.linear(&index, &shape(out.r#type()));
            em.heroes.insert(key(out), vec![(index, lanes)]);
            write(em, b, self.d, self.frame, items, at);
        });
    }
}
/// Some neighbouring scores of a row.
struct Run<'c> {
    /// Number of the row among the thread's.
    i: usize,
    /// The row in the tile, and among all.
    line: Ix,
    row: Ix,
    /// Columns of the tile and positions, with lanes.
    column: Ix,
    position: Ix,
    /// Whether the positions are there, where that is not known.
    inside: Option<V<'c>>,
}
