//! A score's sum of products by several threads.

use super::super::{build::Em, index::Ix, nest::Nest};
use crate::ir::*;

/// A reduction that several threads do together: each of neighbouring `parts` has every parts-th run of `lanes`.
pub struct Split<'c> {
    pub op: O<'c>,
    pub part: Ix,
    pub parts: i64,
    pub lanes: i64,
    pub subgroup: i64,
    /// Only the inputs are evaluated, so that they are known.
    pub is_rehearsal: bool,
}

/// The value of the thread whose number in the subgroup differs in the bit `offset`.
pub fn exchange<'c>(em: &mut Em<'c>, b: &B<'c>, x: V<'c>, offset: i64, width: i64) -> V<'c> {
    let t = b.i(32);
    let (by, width) = (em.int(t, offset), em.int(t, width));
    let mode = b.attr("#gpu<shuffle_mode xor>");
    result(b.op("gpu.shuffle", &[x, by, width], &[x.r#type(), b.i1()], &[("mode", mode)], vec![]), 0)
}

impl<'c> Em<'c> {
    /// The value of a reduction that neighbouring threads do together, from accumulators to accumulators.
    pub fn shared_sum(&mut self, b: &B<'c>, split: &Split<'c>, nest: &Nest<'c>, known: &[Ix], init: V<'c>) -> V<'c> {
        let dims = nest.reduction_loops();
        let extents: Vec<i64> = dims.iter().map(|d| nest.bounds[*d]).collect();
        let extent: i64 = extents.iter().product();
        // Where the runs cannot be dealt out evenly each thread has all of them.
        let parts = if extent % (split.lanes * split.parts) == 0 { split.parts } else { 1 };
        let runs = extent / split.lanes / parts;
        let zero = self.zero(elem(nest.outs[0].r#type()));
        let mut loops_of = vec![];
        for i in 0..runs {
            let run = if parts == 1 { self.ix.constant(i) } else { self.ix.add_constant(split.part, i * parts) };
            let first = self.ix.scale(run, split.lanes);
            let lane = self.ix.lane(split.lanes);
            let number = self.ix.add(first, lane);
            let mut loops = known.to_vec();
            for (d, x) in dims.iter().zip(self.ix.delinear(number, &extents)) {
                loops[*d] = x;
            }
            self.body_inputs(b, nest, &loops);
            loops_of.push(loops);
        }
        if split.is_rehearsal {
            return zero;
        }
        let mut sum = vec![zero];
        for loops in &loops_of {
            sum = self.chain(b, nest, loops, 0, &sum);
        }
        let mut sum = sum[0];
        let mut offset = 1;
        while offset < parts {
            let other = exchange(self, b, sum, offset, split.subgroup);
            sum = b.addf(sum, other);
            offset *= 2;
        }
        b.addf(init, sum)
    }
}
