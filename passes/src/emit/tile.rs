//! One input's share of a contraction in tiles: which chunks of neighbours its tile has, where they lie in the tile, and
//! which elements of the input they are. What the tile becomes in workgroup memory is the emitters' business.
//!
//! Edges: indices beyond the end of m or n are kept inside and what is made of them is not written; beyond the end of k
//! both factors are to be 0, which [`Side::inside`] decides.

use super::{build::Em, contraction::Contraction, index::Ix};
use crate::{ir::*, spec::DeviceSpec};

pub struct Side {
    pub input: usize,
    /// Its own loops, m or n, and how far they run together.
    outer: Vec<usize>,
    pub extent: i64,
    /// Elements of a tile along `outer` and along k.
    pub tile: i64,
    pub depth: i64,
    /// Elements of a chunk.
    pub lanes: i64,
    /// Chunks run along k rather than along `outer`.
    pub along_k: bool,
}

impl Side {
    /// `threads` share the work of loading a tile.
    pub fn of(
        c: &Contraction,
        input: usize,
        outer: &[usize],
        (tile, depth): (i64, i64),
        threads: i64,
        spec: &DeviceSpec,
    ) -> Self {
        let (along_k, run) = lines(c, input);
        let mut lanes = (i64::from(spec.vector_bytes) / elem_bytes(c.nest.ins[input].r#type())).max(1);
        let width = if along_k { depth } else { tile };
        // Shorter vectors rather than threads with nothing to load.
        while lanes > 1 && (run % lanes != 0 || width % lanes != 0 || tile * depth / lanes < threads) {
            lanes /= 2;
        }
        Side { input, outer: outer.to_vec(), extent: c.extent(outer), tile, depth, lanes, along_k }
    }
    pub fn chunks(&self) -> i64 {
        self.tile * self.depth / self.lanes
    }
    /// (k, o) in the tile of a chunk, with lanes.
    pub fn chunk<'c>(&self, em: &mut Em<'c>, number: Ix) -> (Ix, Ix) {
        let (inner, outer) = if self.along_k { (self.depth, self.tile) } else { (self.tile, self.depth) };
        let place = em.ix.delinear(number, &[outer, inner / self.lanes]);
        let (run, lane) = (em.ix.scale(place[1], self.lanes), em.ix.lane(self.lanes));
        let run = em.ix.add(run, lane);
        if self.along_k { (run, place[0]) } else { (place[0], run) }
    }
    /// Whether k, with lanes, is below its end; `None` where that is known. All lanes are on one side.
    pub fn inside<'c>(&self, em: &mut Em<'c>, b: &B<'c>, c: &Contraction<'c>, k: Ix) -> Option<V<'c>> {
        let extent = c.extent(&c.k);
        (em.ix.range(k).1 >= extent).then(|| {
            let x = em.ix.at_lane(k, 0);
            let (x, n) = (em.ssa(b, x), em.index(extent));
            b.cmpi("ult", x, n)
        })
    }
    /// Index of the input for (k, o), kept inside.
    pub fn index<'c>(&self, em: &mut Em<'c>, b: &B<'c>, c: &Contraction<'c>, batch: Ix, k: Ix, o: Ix) -> Vec<Ix> {
        // Lanes of the dimension that they run along are cut as whole vectors.
        let (k_lanes, o_lanes) = if self.along_k { (self.lanes, 1) } else { (1, self.lanes) };
        let k = keep_inside(em, b, k, c.extent(&c.k), k_lanes);
        let o = keep_inside(em, b, o, self.extent, o_lanes);
        let loops = loops(em, c, &[(&c.batch, batch), (&self.outer, o), (&c.k, k)]);
        c.nest.in_index(em, self.input, &loops)
    }
}

/// Whether neighbours of an input lie along k rather than along its own loops, and how many are reached by one loop alone.
pub fn lines(c: &Contraction, input: usize) -> (bool, i64) {
    match c.nest.along(input).unwrap_or_default()[..] {
        [] => (true, 1),
        [(l, 1)] => (c.k.contains(&l), c.nest.bounds[l]),
        // A window: places overlap, and the outer loop's do not lie in vectors.
        ref several => (several.iter().all(|(l, _)| c.k.contains(l)), 1),
    }
}

/// All loops of the contraction from the numbers of groups of loops; others are 0.
pub fn loops<'c>(em: &mut Em<'c>, c: &Contraction<'c>, groups: &[(&[usize], Ix)]) -> Vec<Ix> {
    let mut loops = vec![em.ix.constant(0); c.nest.bounds.len()];
    for (group, at) in groups {
        let extents: Vec<i64> = group.iter().map(|l| c.nest.bounds[*l]).collect();
        for (l, i) in group.iter().zip(em.ix.delinear(*at, &extents)) {
            loops[*l] = i;
        }
    }
    loops
}

/// The most neighbours of the result, at most `most` and a power of two, that runs along n can be cut into; 1 if the
/// result's neighbours do not lie along n.
pub fn result_run(c: &Contraction, most: i64) -> i64 {
    let extents = shape(result(c.nest.op, 0).r#type());
    let last = (0..extents.len()).rev().find(|d| extents[*d] > 1);
    let innermost = c.n.iter().find(|l| last.is_some() && c.nest.output_dim(0, **l) == last);
    let fits = |run: &i64| innermost.is_some_and(|l| c.nest.bounds[*l] % run == 0);
    [8, 4, 2].into_iter().filter(|run| *run <= most).find(fits).unwrap_or(1)
}

/// `e` where it is below `extent`, else the last index; lanes go together.
fn keep_inside<'c>(em: &mut Em<'c>, b: &B<'c>, e: Ix, extent: i64, lanes: i64) -> Ix {
    if em.ix.range(e).1 < extent {
        return e;
    }
    let first = em.ix.at_lane(e, 0);
    let vector = em.ix.div(first, lanes);
    let (x, last) = (em.ssa(b, vector), em.index(extent / lanes - 1));
    let v = b.same("arith.minui", &[x, last]);
    let v = em.ix.value(v, (0, extent / lanes - 1));
    let v = em.ix.scale(v, lanes);
    let lane = em.ix.lane(lanes);
    em.ix.add(v, lane)
}
