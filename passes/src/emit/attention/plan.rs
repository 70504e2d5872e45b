//! Who does what in an attention kernel.

use super::Roles;
use crate::{fuse::shared_rows, ir::*, spec::DeviceSpec};

/// Positions of a group that are under way at once.
pub const POSITIONS: i64 = 4;
/// Elements of the value that a thread has at least, over all its rows, and at most.
const LEAST_KEPT: i64 = 16;
const MOST_KEPT: i64 = 64;

pub struct Plan {
    pub rows: i64,
    /// Rows of a workgroup, which read the same values, and how far apart their numbers are.
    pub together: i64,
    pub apart: i64,
    pub positions: i64,
    /// Elements of the value, and how many of them neighbouring in memory are loaded at once.
    pub kept: i64,
    pub lanes: i64,
    /// Threads of a group, groups of a workgroup.
    pub parts: i64,
    pub groups: i64,
    pub subgroup: i64,
}
impl Plan {
    pub fn of(r: &Roles, func: O, spec: &DeviceSpec) -> Self {
        let nest = &r.out.nest;
        let extent = |loops: &[usize]| r.out.extent(loops);
        let own = r.own();
        let values = nest.ins[1 - r.weights].r#type();
        let rows = elements(result(r.max, 0).r#type());
        let kept = extent(own);
        let inner = own.last().map_or(1, |l| nest.bounds[*l]);
        let mut lanes = i64::from(spec.vector_bytes) / elem_bytes(values);
        while lanes > 1 && inner % lanes != 0 {
            lanes /= 2;
        }
        let lanes = lanes.max(1);
        let (mut together, apart) = shared_rows(func);
        let subgroup = if spec.subgroup > 1 { i64::from(spec.subgroup) } else { 0 };
        let mut parts = subgroup.max(1);
        // Each thread of a group takes the exponentials of its position's scores: fewer threads, fewer of them.
        while parts > 1 && ((kept / lanes) % parts != 0 || kept / parts * together < LEAST_KEPT) {
            parts /= 2;
        }
        while together > 1 && kept / parts * together > MOST_KEPT {
            together = (1..together).rev().find(|n| together % n == 0).unwrap_or(1);
        }
        let positions = extent(&r.out.k);
        let fill = i64::from(spec.parallel_blocks);
        let units = rows / together;
        let room = i64::from(spec.shared_bytes) / (4 * (kept + 2) * together);
        let most = (if units * 2 <= fill { 512 } else { 128 }).min(i64::from(spec.max_block));
        let meets = |groups: i64| if subgroup > 0 { groups * parts / subgroup } else { groups };
        let least = if subgroup > 0 { subgroup / parts } else { 1 };
        let mut groups = least;
        while groups * 2 * parts <= most && groups * POSITIONS < positions && meets(groups * 2) <= room {
            groups *= 2;
        }
        Plan { rows, together, apart, positions, kept, lanes, parts, groups, subgroup }
    }
    /// Workgroups.
    pub fn units(&self) -> i64 {
        self.rows / self.together
    }
    pub fn block(&self) -> i64 {
        self.parts * self.groups
    }
    /// Positions that a workgroup takes in at once.
    pub fn turn(&self) -> i64 {
        self.groups * POSITIONS
    }
    /// Runs of a thread.
    pub fn runs(&self) -> i64 {
        self.kept / self.lanes / self.parts
    }
    /// Groups that are left after exchange within subgroups.
    pub fn meeting(&self) -> i64 {
        if self.subgroup > 0 { self.block() / self.subgroup } else { self.groups }
    }
}
