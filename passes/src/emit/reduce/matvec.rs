//! Plans for sections of a kernel that are dealt workgroups of one size: matrices times a vector that is kept in
//! workgroup memory, several row spaces at once.
//!
//! What counts is bytes under way: a thread issues about [`FLIGHT`] vector loads before it uses the first, and
//! workgroups are as many as the device holds at once, each taking rounds, so that no part of a last round is left over
//! and what is kept is computed no oftener than needed.

use super::{
    super::{combine::Combiner, kernel::Dispatch, loops::cost, nest::Nest, stage::Stage},
    Section,
    plan::{Heavy, MOST_OPS, Plan, across, largest, power_below},
};
use crate::{ir::*, spec::DeviceSpec};

/// Vector loads of a thread that are under way at once.
const FLIGHT: i64 = 16;
/// Threads of a workgroup.
const BLOCK: i64 = 256;
/// Workgroups that a multiprocessor holds at once.
const RESIDENT: i64 = 2;
/// Rows below which there is nothing to share.
pub const LEAST_ROWS: i64 = 32;

/// Whether partial results of any part of a row can be joined in any order.
pub fn is_plain(h: &Heavy) -> bool {
    matches!(h.combiner, Combiner::Ops(_))
}

/// Elements of a row that one vector load brings, by the widest input that is the row's own.
pub fn lanes(nest: &Nest, spec: &DeviceSpec) -> i64 {
    let own = (0..nest.ins.len()).filter(|i| is_tensor(nest.ins[*i].r#type()) && !nest.is_shared_by_rows(*i));
    let widest = own.map(|i| elem_bytes(nest.ins[i].r#type())).max().unwrap_or(4);
    let innermost = nest.reduction_loops().last().map_or(1, |l| nest.bounds[*l]);
    let mut lanes = i64::from(spec.vector_bytes) / widest;
    while lanes > 1 && innermost % lanes != 0 {
        lanes /= 2;
    }
    lanes.max(1)
}

/// Workgroups that a multiprocessor should hold at once: fewer where what each of them keeps takes more reading than its
/// rows.
pub fn resident(sections: &[Section], stages: &[Stage], spec: &DeviceSpec) -> i64 {
    let bytes = |v: &V| elements(v.r#type()) * elem_bytes(v.r#type());
    // Of a table only some rows are read.
    let read = |s: &Stage| -> i64 { s.sources().iter().map(|v| bytes(v).min(16 * s.bytes())).sum() };
    let kept: i64 = stages.iter().map(read).sum();
    let own = |h: &Heavy| -> i64 {
        (0..h.nest.ins.len()).filter(|i| !h.nest.is_shared_by_rows(*i)).map(|i| bytes(&h.nest.ins[i])).sum()
    };
    let own: i64 = sections.iter().flat_map(|s| &s.heavy).map(own).sum();
    if kept * slots(RESIDENT, spec) > own { 1 } else { RESIDENT }
}
/// Workgroups that the device holds at once.
fn slots(resident: i64, spec: &DeviceSpec) -> i64 {
    // Four small workgroups fill a multiprocessor.
    (i64::from(spec.parallel_blocks) * resident / 4).max(1)
}

/// Plans all sections and says how many threads a workgroup has.
pub fn plans<'c>(
    d: &Dispatch<'c>,
    sections: &mut [Section<'c>],
    spec: &DeviceSpec,
    (staged, resident): (bool, i64),
) -> i64 {
    let most = power_below(i64::from(spec.max_block)).min(BLOCK);
    let slots = slots(resident, spec);
    let mut block = most;
    // A kernel has the accumulators of all sections.
    let accumulators = sections.iter().map(accumulators).sum();
    loop {
        for s in sections.iter_mut() {
            s.plan = plan(d, s, (block, accumulators), slots, spec, staged);
        }
        let turns: i64 = sections.iter().map(|s| groups(&s.plan)).sum();
        let widest = sections.iter().map(|s| if s.plan.across { block } else { s.plan.parts }).max().unwrap_or(1);
        if turns * 2 > slots || block / 2 < widest.max(64) {
            break;
        }
        block /= 2;
    }
    let turns: i64 = sections.iter().map(|s| groups(&s.plan)).sum();
    let rounds = ((turns + slots - 1) / slots).max(1);
    for s in sections {
        s.groups = (groups(&s.plan) + rounds - 1) / rounds;
        // As few as cover all.
        s.plan.rounds = if s.groups == 0 { 1 } else { ((groups(&s.plan) + s.groups - 1) / s.groups).max(1) };
    }
    block
}
/// Workgroups of one round that cover all rows.
fn groups(plan: &Plan) -> i64 {
    (plan.units() + plan.owned - 1) / plan.owned
}

/// Bytes that a thread's lane accumulates.
fn accumulators(s: &Section) -> i64 {
    let outs = s.heavy.iter().flat_map(|h| &h.nest.outs);
    outs.map(|o| elem_bytes(o.r#type())).sum::<i64>() * s.plan.space.orbit.0
}

fn plan(d: &Dispatch, s: &Section, (block, all): (i64, i64), slots: i64, spec: &DeviceSpec, staged: bool) -> Plan {
    let space = s.plan.space;
    let nest = largest(&s.heavy);
    let extents = shape(result(nest.op, 0).r#type());
    let extent = s.heavy.iter().map(|h| h.nest.reduction_extent()).max().unwrap_or(1);
    let parallel = s.heavy.iter().all(is_plain);
    let subgroup = i64::from(spec.subgroup);
    let exchanged = subgroup > 1 && s.heavy.iter().all(Heavy::is_exchanged);
    let tail = s.items.iter().all(|i| i.elements() == space.count);
    let mut plan = Plan { shape: extents, matvec: parallel && staged, ..Plan::empty(space) };
    let last = (0..plan.shape.len()).rev().find(|j| plan.shape[*j] > 1);
    let (count, apart) = space.orbit;
    let whole = |j: usize| Some(j) == last && plan.shape[j] % (count * apart) == 0;
    if let Some(j) = across(nest).filter(|j| whole(*j) && tail && parallel) {
        // Neighbouring rows lie next to each other: lanes and threads go along them, parts along what is reduced.
        let inner = if count > 1 { apart } else { plan.shape[j] };
        // All accumulators of a workgroup meet in its memory.
        let shared = i64::from(spec.shared_bytes);
        let room = (shared * 3 / 4 / (accumulators(s) * block)).min(shared * 7 / 8 / (all * block));
        let mut lanes = own_lanes(nest, spec);
        while lanes > 1 && (inner % lanes != 0 || lanes > room) {
            lanes /= 2;
        }
        (plan.across, plan.along, plan.lanes) = (true, Some(j), lanes.max(1));
        plan.shape[j] /= count;
        let units = plan.units();
        let mut together = block.min(32);
        while together > 8 && units / together < slots {
            together /= 2;
        }
        plan.owned = together;
        plan.parts = block / together;
        return plan;
    }
    let mut lanes = s.heavy.iter().map(|h| lanes(&h.nest, spec)).min().unwrap_or(1);
    let weight = if plan.matvec { 1 } else { cost(d) };
    while lanes > 1 && lanes * weight > MOST_OPS {
        lanes /= 2;
    }
    plan.lanes = lanes;
    if !parallel {
        plan.owned = block;
        return plan;
    }
    let chunks = (extent / lanes).max(1);
    let loads = s.heavy.len() as i64 * count * chunks;
    let mut parts = power_below(chunks).min(if subgroup > 1 { subgroup } else { 32 }).min(block);
    while parts < block && parts * 2 <= power_below(chunks) && loads / parts > FLIGHT {
        parts *= 2;
    }
    plan.parts = parts;
    plan.owned = block / parts;
    while plan.together < 4
        && loads * plan.together * 2 / parts <= FLIGHT
        && space.orbits() % (plan.together * 2) == 0
        && plan.units() / 2 >= slots * plan.owned
    {
        plan.together *= 2;
    }
    if exchanged && block % subgroup == 0 {
        plan.subgroup = subgroup;
    }
    plan
}
/// Neighbouring rows that one vector load of the row's own input brings.
fn own_lanes(nest: &Nest, spec: &DeviceSpec) -> i64 {
    let own = (0..nest.ins.len()).filter(|i| is_tensor(nest.ins[*i].r#type()) && !nest.is_shared_by_rows(*i));
    i64::from(spec.vector_bytes) / own.map(|i| elem_bytes(nest.ins[i].r#type())).max().unwrap_or(4)
}
