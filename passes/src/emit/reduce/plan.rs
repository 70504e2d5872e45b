//! Who does what in a reduce kernel: how many threads a row gets, which rows a workgroup, what is a vector.

use super::{
    super::{combine::Combiner, kernel::Dispatch, loops::cost, nest::Nest, output::Item},
    pick::Pick,
};
use crate::{ir::*, rows::Rows, spec::DeviceSpec};
use melior::ir::Type;

/// Ops of one thread above which nothing is written out.
pub const MOST_OPS: i64 = 1024;
/// Chunks of a thread that are written out one after the other rather than in a loop.
pub const UNROLL: i64 = 16;

/// One reduction of the dispatch.
pub struct Heavy<'c> {
    pub nest: Nest<'c>,
    pub combiner: Combiner,
    /// One more than the highest level that it reads.
    pub level: usize,
    /// Its arrays in workgroup memory: the first of one for each accumulator.
    pub first_shared: usize,
}
/// Who does what.
#[derive(Debug, PartialEq)]
pub struct Plan {
    pub space: Rows,
    /// Threads of a row.
    pub parts: i64,
    /// Rows of a workgroup, lanes aside.
    pub owned: i64,
    /// Neighbouring threads have neighbouring rows.
    pub across: bool,
    /// Lanes of a chunk of a row, or with `across` rows of a thread.
    pub lanes: i64,
    /// Extents of the rows as the first result of the largest reduction has them.
    pub shape: Vec<i64>,
    /// With `across`, the dimension of `shape` whose rows are neighbours in memory.
    pub along: Option<usize>,
    /// Threads that can exchange registers; 0 if partial results meet in workgroup memory only.
    pub subgroup: i64,
    /// Neighbouring orbits that a thread has at once.
    pub together: i64,
    /// Turns that a workgroup takes.
    pub rounds: i64,
    /// Rows read one large input each and share the other.
    pub matvec: bool,
    /// Arrays in workgroup memory for the partial results of one row.
    pub arrays: usize,
}

pub fn heavy<'c>(d: &Dispatch<'c>) -> Vec<Heavy<'c>> {
    let mut found: Vec<Heavy> = vec![];
    // Level of each value: that of the highest reduction below it, plus one.
    let mut above = std::collections::HashMap::new();
    for op in &d.ops {
        let below = reads(*op).iter().filter_map(|v| above.get(&key(*v)).copied()).max().unwrap_or(0);
        let nest = Nest::of(*op).filter(|n| !n.is_parallel());
        let mine = below + usize::from(nest.is_some());
        for r in results(*op) {
            above.insert(key(r), mine);
        }
        if let Some(nest) = nest {
            // Nothing to reduce: the initial value is all.
            let combiner = if nest.reduction_extent() == 0 { Combiner::Serial } else { Combiner::of(&nest) };
            found.push(Heavy { combiner, nest, level: below, first_shared: 0 });
        }
    }
    // Along rows that are neighbours in memory each lane has a row of its own.
    if !found.is_empty() && across(largest(&found)).is_none() {
        for h in &mut found {
            if matches!(h.combiner, Combiner::Body { .. })
                && let Some(pick) = Pick::of(&h.nest)
            {
                h.combiner = Combiner::Pick(pick);
            }
        }
    }
    found
}

impl<'c> Heavy<'c> {
    /// Rows that it reduces.
    pub fn rows(&self) -> i64 {
        self.extents().iter().product()
    }
    /// Whether parts of a row can meet by exchanging registers.
    pub fn is_exchanged(&self) -> bool {
        let fits = |t: Type| bits(t) == 32 && !is_index(t);
        match self.combiner {
            Combiner::Serial => false,
            Combiner::Pick(_) => true,
            _ => !self.ordered() && self.nest.outs.iter().all(|o| fits(elem(o.r#type()))),
        }
    }
    /// Types of what is carried along a row.
    pub fn carried(&self, b: &B<'c>) -> Vec<Type<'c>> {
        match &self.combiner {
            Combiner::Pick(pick) => pick.types(b).to_vec(),
            _ => self.nest.outs.iter().map(|o| elem(o.r#type())).collect(),
        }
    }
    /// Whether parts start from their first elements: there is no neutral one.
    pub fn starts_from_first(&self) -> bool {
        matches!(self.combiner, Combiner::Body { .. })
    }
    pub fn is_online(&self) -> bool {
        matches!(self.combiner, Combiner::Online)
    }
    /// Whether the order of elements must be kept.
    pub fn ordered(&self) -> bool {
        matches!(self.combiner, Combiner::Body { commutes: false })
    }
    /// Extents of the results: one element a row.
    pub fn extents(&self) -> Vec<i64> {
        shape(result(self.nest.op, 0).r#type())
    }
}
impl Plan {
    pub fn empty(space: Rows) -> Self {
        Plan {
            space,
            parts: 1,
            owned: 1,
            across: false,
            lanes: 1,
            shape: vec![],
            along: None,
            subgroup: 0,
            together: 1,
            rounds: 1,
            matvec: false,
            arrays: 0,
        }
    }
    /// What a thread's number in the section counts: orbits, by lanes with `across`, or several at once.
    pub fn units(&self) -> i64 {
        self.space.orbits() / self.lanes_across() / self.together
    }
    pub fn rows_at_once(&self) -> usize {
        (self.space.orbit.0 * self.together) as usize
    }
    pub fn lanes_across(&self) -> i64 {
        if self.across { self.lanes } else { 1 }
    }
    /// For reductions that keep the order of their elements: chunks of one part of a row, the last perhaps fewer, and
    /// how many parts have any.
    pub fn segments(&self, extent: i64) -> (i64, i64) {
        let chunks = (extent / self.lanes_along()).max(1);
        let segment = (chunks + self.parts - 1) / self.parts;
        (segment, (chunks + segment - 1) / segment)
    }
    pub fn lanes_along(&self) -> i64 {
        if self.across { 1 } else { self.lanes }
    }
}
/// The reduction that decides how the work is cut: that with the most elements.
pub fn largest<'a, 'c>(heavy: &'a [Heavy<'c>]) -> &'a Nest<'c> {
    let size = |h: &&Heavy| (h.nest.reduction_extent(), h.nest.ins.iter().map(|v| elements(v.r#type())).max());
    &heavy.iter().rev().max_by_key(size).expect("a reduce dispatch reduces").nest
}
/// Reductions of one row by a whole workgroup.
pub fn whole(heavy: &[Heavy], block: i64, spec: &DeviceSpec) -> Plan {
    let inputs = heavy.iter().flat_map(|h| h.nest.ins.iter()).filter(|v| is_tensor(v.r#type()));
    let mut lanes = i64::from(spec.vector_bytes) / inputs.map(|v| elem_bytes(v.r#type())).max().unwrap_or(1);
    let innermost = |h: &Heavy| h.nest.reduction_loops().last().map_or(1, |l| h.nest.bounds[*l]);
    while lanes > 1 && !heavy.iter().all(|h| innermost(h) % lanes == 0) {
        lanes /= 2;
    }
    let subgroup = i64::from(spec.subgroup);
    let exchanged = subgroup > 1 && block % subgroup == 0 && heavy.iter().all(Heavy::is_exchanged);
    let subgroup = if exchanged { subgroup } else { 0 };
    Plan { parts: block, lanes: lanes.max(1), subgroup, ..Plan::empty(Rows::plain(1)) }
}
/// If the largest input of `n` has its rows, not their elements, next to each other: the dimension of the result that
/// the rows follow.
pub fn across(n: &Nest) -> Option<usize> {
    let i = (0..n.ins.len()).rev().max_by_key(|i| elements(n.ins[*i].r#type()))?;
    let extents = shape(n.ins[i].r#type());
    let last = (0..extents.len()).rev().find(|d| extents[*d] > 1)?;
    let l = (0..n.bounds.len()).find(|l| !n.reduces[*l] && n.input_dim(i, *l) == Some(last))?;
    n.output_dim(0, l)
}
/// The greatest power of two that is at most `n`, at least 1.
pub fn power_below(n: i64) -> i64 {
    1 << (63 - n.max(1).leading_zeros())
}
/// Bytes of the widest element that is read or written.
fn widest(d: &Dispatch, items: &[Item]) -> i64 {
    let results = items.iter().map(|i| d.results[i.result].r#type());
    let all = d.args.iter().map(ValueLike::r#type).chain(results).filter(|t| elements(*t) > 1);
    all.map(elem_bytes).max().unwrap_or(1)
}
pub fn plan(d: &Dispatch, heavy: &[Heavy], items: &[Item], rows: i64, spec: &DeviceSpec) -> Plan {
    let nest = largest(heavy);
    let extents = shape(result(nest.op, 0).r#type());
    let along = across(nest);
    let tail = if rows == 0 { 0 } else { items.iter().map(Item::elements).max().unwrap_or(0) / rows };
    let extent = heavy.iter().map(|h| h.nest.reduction_extent()).max().unwrap_or(1);
    let widest = widest(d, items);
    let serial = heavy.iter().any(|h| matches!(h.combiner, Combiner::Serial));
    let from_first = heavy.iter().any(Heavy::starts_from_first);
    let innermost = |n: &Nest| n.reduction_loops().last().map_or(1, |l| n.bounds[*l]);
    let fits = |lanes: i64| {
        lanes * cost(d) <= MOST_OPS
            && match along {
                // Rows are cut into lanes only where nothing else hangs on a row.
                Some(j) => tail == 1 && extents[j] % lanes == 0,
                None => heavy.iter().all(|h| innermost(&h.nest) % lanes == 0),
            }
    };
    let mut lanes = i64::from(spec.vector_bytes) / widest;
    while lanes > 1 && !fits(lanes) {
        lanes /= 2;
    }
    let lanes = lanes.max(1);
    let fill = i64::from(spec.parallel_blocks);
    let accumulators: i64 = heavy.iter().flat_map(|h| &h.nest.outs).map(|o| elem_bytes(o.r#type()).max(4)).sum();
    let room = i64::from(spec.shared_bytes) / (accumulators * if along.is_some() { lanes } else { 1 }).max(1);
    let most = power_below(i64::from(spec.max_block).min(room));
    let least = heavy.iter().map(|h| h.nest.reduction_extent()).min().unwrap_or(1);
    let limit = power_below(match (serial, from_first) {
        (true, _) => 1,
        // Each part has a first chunk.
        (_, true) => least / if along.is_some() { 1 } else { lanes },
        _ => i64::MAX,
    });
    let mut plan = Plan { lanes, shape: extents, along, ..Plan::empty(Rows::plain(rows)) };
    if let Some(j) = along {
        plan.across = true;
        let threads = rows / lanes;
        // Neighbours in memory go to neighbouring threads, eight vectors of them at least; the parts of a row fill the
        // device.
        let mut together = power_below((2 * (plan.shape[j] / lanes).min(threads) - 1).max(1)).min(32);
        while together > 8 && threads / together < fill {
            together /= 2;
        }
        let block = if threads / together < fill { most.min(1024) } else { most.min(256) };
        plan.parts = power_below((extent / 8).max(1)).min(block / together.min(block)).min(limit);
        plan.owned = if plan.parts == 1 { 64.min(most) } else { together.min(most / plan.parts) };
        return plan;
    }
    let chunks = extent.max(tail) / lanes;
    // A subgroup for a row, more where its chunks would not all be under way at once or the rows do not fill the device.
    // What is read again for a tail stays in registers, 32 elements of a thread.
    let kept = if tail > 1 { (32 / lanes).max(1) } else { 8 };
    let wanted = (chunks / kept).max(chunks.min(32));
    let wanted = if rows * wanted < fill * 64 { chunks.min(fill * 64 / rows.max(1)).max(wanted) } else { wanted };
    // A row that does not stay in registers is read again for each level: the fewer are under way, the more stay in caches.
    let again = tail > 1 && chunks > 256 * UNROLL;
    let block = if rows * 256 < fill * 64 || again { 1024 } else { 256 }.min(most);
    plan.parts = power_below(wanted.max(1)).min(block).min(limit);
    let spread = power_below((rows / fill).max(1)).max(if plan.parts < 32 { 32 / plan.parts } else { 1 });
    plan.owned = (256.min(most) / plan.parts).max(1).min(power_below((2 * rows - 1).max(1))).min(spread);
    let subgroup = i64::from(spec.subgroup);
    let exchanged = heavy.iter().all(Heavy::is_exchanged);
    if exchanged && subgroup > 1 && plan.parts > 1 && (plan.parts * plan.owned) % subgroup == 0 {
        plan.subgroup = subgroup;
    }
    plan
}
