//! Loops on devices that end them early: Mesa's software Vulkan lets all loops of a kernel make 65,535 rounds in all, then
//! goes on behind them without a word. A profile says so in its option `loop-rounds`; in a kernel that could make more,
//! loops get several turns a round, innermost first.
//!
//! Where the number of turns is constant, whole rounds come first and what is left is written out after them. Where the end
//! is computed, each turn of a round after the first stands under a condition.

use std::collections::HashMap;
use zmlc_passes::{
    ir::{O, OperationLike, V, blocks, def, name, op_key, operand, ops, read, walk},
    pass::PassError,
    spec::DeviceSpec,
};

/// Turns that one round may make.
const MOST: u64 = 64;
/// Turns that a loop with a computed end makes at most if it says nothing.
const FEW: u64 = 256;

/// Turns of each round, by loop; a loop that is not here stays as it is.
pub type Turns = HashMap<usize, u64>;

pub fn plan(f: O, spec: &DeviceSpec) -> Result<Turns, PassError> {
    let Some(most) = spec.options.get("loop-rounds") else { return Ok(Turns::new()) };
    let most: u64 = most
        .parse()
        .map_err(|_| PassError::Bug(format!("profile {}: the option loop-rounds is `{most}`, no number", spec.name)))?;
    let mut turns = 1;
    loop {
        let mut plan = Turns::new();
        let (rounds, _) = of_region(f, turns, &mut plan);
        if rounds <= most {
            return Ok(plan);
        }
        if turns == MOST {
            let symbol = read::str_attr(f, "sym_name").unwrap_or_default();
            return Err(PassError::Unsupported {
                what: format!(
                    "kernel {symbol} makes {rounds} rounds of loops even at {MOST} turns each, and devices of the profile \
                     {} may end them after {most}",
                    spec.name
                ),
                hint: "reduce in steps, or build for a profile of the device's maker".into(),
            });
        }
        turns *= 2;
    }
}

/// Rounds of all loops in the regions of `op`, and into how many copies of code they go at most.
fn of_region(op: O, turns: u64, plan: &mut Turns) -> (u64, u64) {
    let regions = blocks(op).into_iter().map(|b| {
        ops(b).into_iter().fold((0_u64, 1_u64), |(rounds, copies), inner| {
            let (more, other) = of_op(inner, turns, plan);
            (rounds.saturating_add(more), copies.max(other))
        })
    });
    // Of several regions one runs.
    regions.fold((0, 1), |(x, m), (y, n)| (x.max(y), m.max(n)))
}
fn of_op(op: O, turns: u64, plan: &mut Turns) -> (u64, u64) {
    let (inner, copies) = if op.region_count() > 0 { of_region(op, turns, plan) } else { (0, 1) };
    // The check that ends a loop is a round too.
    let rounds = |count: u64| count.saturating_mul(inner.saturating_add(1)).saturating_add(1);
    let known = match name(op) {
        "scf.for" => Loop::of(op),
        "scf.while" => return (rounds(FEW), copies),
        _ => return (inner, copies),
    };
    let may = inner == 0 && (known.turns.is_some() || !has_barrier(op));
    let several = if may { (turns / copies).max(1) } else { 1 };
    if several == 1 {
        return (rounds(known.most), copies);
    }
    plan.insert(op_key(op), several);
    match known.turns {
        Some(n) if n <= several => (0, copies.saturating_mul(n.max(1))),
        _ => (rounds(known.most.div_ceil(several)), copies.saturating_mul(several)),
    }
}
/// Threads meet at a barrier: it cannot stand under a condition.
fn has_barrier(op: O) -> bool {
    walk(op).into_iter().any(|o| name(o) == "gpu.barrier")
}

/// What is known of an `scf.for`.
pub struct Loop {
    /// First value and step of the counter, if they are constant.
    pub from: Option<i64>,
    pub step: Option<i64>,
    /// How many turns it makes, if that is constant.
    pub turns: Option<u64>,
    /// At most.
    most: u64,
}
impl Loop {
    pub fn of(op: O) -> Self {
        let [from, to, step] = [0, 1, 2].map(|i| operand(op, i));
        let (first, step) = (constant(from), constant(step).filter(|s| *s > 0));
        let count = |from: i64, to: i64| (to.saturating_sub(from)).max(0) as u64;
        let turns = match (first, constant(to), step) {
            (Some(from), Some(to), Some(step)) => Some(count(from, to).div_ceil(step as u64)),
            _ => None,
        };
        let stated = read::int_attr(op, "zml.rounds").map(|n| n as u64);
        // Counters are positions, which are not negative.
        let end = || Some(count(first.unwrap_or(0).max(0), upper(to)?).div_ceil(step? as u64));
        Loop { from: first, step, turns, most: turns.or(stated).or_else(end).unwrap_or(FEW) }
    }
}
fn constant(v: V) -> Option<i64> {
    def(v).filter(|op| name(*op) == "arith.constant").and_then(|op| read::int_attr(op, "value"))
}
/// A bound of an index that is kept below a constant.
fn upper(v: V) -> Option<i64> {
    let op = def(v)?;
    match name(op) {
        "arith.constant" => constant(v),
        "arith.minui" | "arith.minsi" => [0, 1].into_iter().filter_map(|i| upper(operand(op, i))).min(),
        _ => None,
    }
}
/// The turns of a round of `op`.
pub fn turns(plan: &Turns, op: O) -> u64 {
    plan.get(&op_key(op)).copied().unwrap_or(1)
}
