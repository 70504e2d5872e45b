//! Sizes for a contraction by fragments: which product of matrices, tiles, subgroups, stages. Chosen by a model of the time
//! that a tile takes, from numbers of the device alone.

use super::super::{contraction::Contraction, kernel::Dispatch, loops::cost, tile::lines};
use crate::{
    ir::*,
    spec::{DeviceSpec, Matrix},
};

/// Rows and columns of a fragment of sums.
pub const EDGE: i64 = 16;
/// Bytes by which lines of a tile in workgroup memory are longer than their content: rows of a fragment then lie in
/// different banks.
const PAD_BYTES: i64 = 16;
/// Ops of one thread for what hangs on its elements.
const MOST_OPS: i64 = 8192;

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub matrix: Matrix,
    /// Tile of a workgroup: rows, columns, elements of k.
    pub tile: [i64; 2],
    pub depth: i64,
    /// Subgroups along m and n.
    pub subgroups: [i64; 2],
    /// Threads of a subgroup.
    pub lanes: i64,
    /// Tiles of each input in workgroup memory.
    pub stages: i64,
    /// Columns of sums that go through workgroup memory at once.
    pub piece: i64,
    /// The subgroups along m multiply in teams from workgroup memory.
    pub team: bool,
    pub factor_bytes: i64,
    /// Elements by which lines of tiles are padded; none in a team's layout.
    pub pad: i64,
}
impl Plan {
    pub fn threads(&self) -> i64 {
        self.subgroups[0] * self.subgroups[1] * self.lanes
    }
    /// Fragments of a subgroup along m and n.
    pub fn fragments(&self) -> [i64; 2] {
        [0, 1].map(|i| self.tile[i] / self.subgroups[i] / EDGE)
    }
    /// Tiles that are on their way while one is multiplied. A team reads its tile until the next one's turn is over.
    pub fn ahead(&self) -> i64 {
        self.stages - if self.team { 2 } else { 1 }
    }
    /// Whether a tile's lines in workgroup memory run along k: they do as the input's neighbours, except that bytes are
    /// multiplied from lines along k only.
    pub fn lines_along_k(&self, along_k: bool) -> bool {
        along_k || self.factor_bytes == 1
    }
    /// Elements of one stage of an input with this tile, lines along k or across.
    pub fn stage(&self, tile: i64, along_k: bool) -> i64 {
        let (lines, length) = if along_k { (tile, self.depth) } else { (self.depth, tile) };
        lines * (length + self.pad)
    }
    /// Elements between the rows of sums in workgroup memory, and of all of it.
    pub fn sums_stride(&self) -> i64 {
        self.piece + 4
    }
    pub fn sums(&self) -> i64 {
        self.subgroups[0] * self.subgroups[1] * EDGE * self.sums_stride()
    }
    fn shared_bytes(&self) -> i64 {
        // Whichever way the lines run.
        let stage = |tile: i64| self.stage(tile, true).max(self.stage(tile, false));
        let tiles = self.stages * (stage(self.tile[0]) + stage(self.tile[1])) * self.factor_bytes;
        tiles + self.sums() * 4
    }
}

/// `None` where the device does not multiply such matrices, or plain tiles do as well.
pub fn plan(d: &Dispatch, c: &Contraction, spec: &DeviceSpec) -> Option<Plan> {
    let factor = c.narrow()?[0].r#type();
    let (factors, sums) = (factor.to_string(), c.accumulator_type().to_string());
    let matrix = spec.matrices.iter().find(|m| m.factors == factors && m.sums == sums)?;
    let extents = [c.extent(&c.batch), c.extent(&c.m), c.extent(&c.n), c.extent(&c.k)];
    if spec.subgroup == 0 || extents[3] < matrix.shape[2] / 2 {
        return None;
    }
    let bytes = elem_bytes(factor);
    // A team's layout of bytes has lines along k only.
    let teams = matrix.team > 0 && (bytes == 2 || (0..2).all(|i| lines(c, i).0));
    let wide = [(128, 256, 2, 4), (128, 128, 2, 4), (128, 64, 4, 2), (64, 128, 2, 4), (64, 64, 2, 2), (32, 128, 1, 4)];
    let narrow = [(32, 64, 1, 4), (16, 128, 1, 4), (64, 32, 4, 1), (16, 64, 1, 4), (32, 32, 2, 2), (16, 32, 1, 2)];
    let single = [(64, 16, 4, 1), (32, 16, 2, 1), (16, 16, 1, 1)];
    let alone = wide.into_iter().chain(narrow).chain(single).map(|(m, n, x, y)| ([m, n], [x, y], false));
    let team = [(128, 256), (128, 192), (128, 128), (128, 64), (64, 256), (64, 128), (64, 64)];
    let team = team.into_iter().filter(|_| teams).map(|(m, n)| ([m, n], [m / EDGE, 1], true));
    let possible = alone.chain(team).filter_map(|(tile, subgroups, team)| {
        let plan = Plan {
            matrix: matrix.clone(),
            tile,
            depth: 128 / bytes,
            subgroups,
            lanes: i64::from(spec.subgroup),
            stages: 4,
            piece: 0,
            team,
            factor_bytes: bytes,
            pad: if team { 0 } else { PAD_BYTES / bytes },
        };
        fit(&plan, d, spec)
    });
    // The first of the fastest.
    possible.reduce(|best, p| if time(&p, extents, spec) < time(&best, extents, spec) { p } else { best })
}

/// The plan with as many stages and as wide pieces as there is room for.
fn fit(plan: &Plan, d: &Dispatch, spec: &DeviceSpec) -> Option<Plan> {
    let [rows, columns] = plan.fragments();
    let elements = rows * columns * EDGE * EDGE / plan.lanes;
    if plan.threads() > i64::from(spec.max_block) || elements * cost(d) > MOST_OPS {
        return None;
    }
    let room = i64::from(spec.most_shared_bytes());
    let depths = if plan.team { vec![plan.depth] } else { vec![plan.depth, plan.depth / 2] };
    let stages: &[i64] = if plan.team {
        &[4, 3]
    } else if spec.async_copy {
        &[4, 3, 2]
    } else {
        &[2]
    };
    let pieces = [4, 2, 1].into_iter().filter(|p| columns % p == 0).map(|p| p * EDGE);
    let pieces: Vec<i64> = pieces.collect();
    let sizes = depths.iter().flat_map(|depth| stages.iter().map(move |stages| (*depth, *stages)));
    let all = sizes.flat_map(|(depth, stages)| pieces.iter().map(move |piece| (depth, stages, *piece)));
    all.map(|(depth, stages, piece)| Plan { depth, stages, piece, ..plan.clone() })
        .find(|p| p.depth >= p.matrix.shape[2] && p.shared_bytes() <= room)
}

/// Relative time of the whole contraction: for each element of k the slowest of multiplying, loading and waiting, times
/// the tiles that one multiprocessor gets.
fn time(p: &Plan, [batch, m, n, _]: [i64; 4], spec: &DeviceSpec) -> f64 {
    let tiles = |extent: i64, tile: i64| (extent + tile - 1) / tile;
    let groups = batch * tiles(m, p.tile[0]) * tiles(n, p.tile[1]);
    let processors = i64::from(spec.multiprocessors());
    let [rows, columns] = p.tile.map(|t| t as f64);
    let bytes = p.factor_bytes as f64;
    let multiply = rows * columns * bytes / if p.team { 3800.0 } else { 2560.0 };
    // What comes from the second-level cache to one multiprocessor while all of them read.
    let load = (rows + columns) * bytes / 36.0;
    // Fragments come from workgroup memory once for each subgroup that needs them, a team's once for the team.
    let [x, y] = p.subgroups.map(|s| s as f64);
    let parts = if p.team { (x / p.matrix.team as f64) * columns + rows } else { x * columns + y * rows };
    let fragments = parts * bytes / 128.0;
    let slowest = multiply.max(load).max(fragments);
    let all = slowest + (multiply + load + fragments) / 16.0;
    let each = all.max(1.5);
    // What several workgroups of one multiprocessor do at once is not waited for twice.
    let rounds = tiles(groups, processors) as f64;
    (rounds * all).max(each)
}
