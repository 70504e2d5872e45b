//! The pass `unroll`: loops whose turns can be counted become straight lines, so that a scan over stacked layers is the
//! same program as the layers written out: weights are read where they lie, state is not copied, the host decides nothing.
//!
//! ```text
//! %r:2 = scf.while (%i = 0, %x = %a) { condition: %i < 3 } do { yield %i + 1, f(%i, %x) }
//! →  %p0 = 0, %x1 = f(%p0, %a), %p1 = 1, %x2 = f(%p1, %x1), %p2 = 2, %x3 = f(%p2, %x2)
//! ```
//!
//! The counter becomes constants marked `zml.position`, which fuse keeps as arguments: equal turns are equal kernels. A
//! loop stays where its turns depend on more than a counter with constant start, step and end, or where the straight line
//! would be too long; very soon so if loops are left in its turns, between which the host decides either way. Nothing in a
//! turn is changed.

use crate::{
    fuse::entries,
    ir::{rewrite::*, *},
    pass::{Env, Pass, PassError},
};
use melior::{Context, ir::Module};
use std::collections::HashMap;

/// Turns that are written out at most.
const MOST_TURNS: i64 = 256;
/// Ops that all turns may come to, those of inner regions counted in.
const MOST_OPS: i64 = 1 << 14;
/// The same, of turns that hold loops.
const MOST_OPS_AROUND_LOOPS: i64 = 256;

pub struct Unroll;

impl Pass for Unroll {
    fn name(&self) -> &'static str {
        "unroll"
    }
    fn about(&self) -> &'static str {
        "loops with a counted number of turns become straight lines"
    }
    fn run<'c>(&self, context: &'c Context, module: &mut Module<'c>, _: Env) -> Result<(), PassError> {
        for entry in entries(body(module)) {
            within(context, block(entry, 0));
        }
        Ok(())
    }
    fn verify<'c>(&self, _: &'c Context, _: &Module<'c>, _: Env) -> Result<(), PassError> {
        Ok(())
    }
}

/// Inner loops first: what they come to counts for the outer ones.
fn within<'c>(context: &'c Context, b: Blk<'c>) {
    for op in ops(b).into_iter().filter(|o| name(*o).starts_with("scf.")) {
        blocks(op).into_iter().for_each(|inner| within(context, inner));
        if let Some(counted) = Counted::of(op) {
            counted.write(context);
        }
    }
}

struct Counted<'c> {
    op: O<'c>,
    /// Which carried value counts.
    counter: usize,
    /// Its value in each turn.
    values: Vec<i64>,
}

impl<'c> Counted<'c> {
    fn of(op: O<'c>) -> Option<Self> {
        if name(op) != "scf.while" {
            return None;
        }
        let (before, after) = (block(op, 0), block(op, 1));
        let condition = ops(before).pop()?;
        // All carried values are handed on as they are.
        let carried = operands(condition);
        let same = |(i, v): (usize, &V)| key(*v) == key(arg(before, i));
        if carried.len() != args(before).len() + 1 || !carried[1..].iter().enumerate().all(same) {
            return None;
        }
        let extract = def(carried[0]).filter(|d| name(*d) == "tensor.extract" && d.operand_count() == 1)?;
        let test = Generic::of(def(operand(extract, 0))?)?;
        let (compare, counter, end) = comparison(&test, before)?;
        let next = operand(ops(after).pop()?, counter);
        let step = step(next, arg(after, counter))?;
        let start = constant(operand(op, counter))?;
        let bound = 1i128 << (bits(elem(next.r#type())) - 1);
        let mut values = vec![];
        let mut x = start;
        let goes_on = |x: i64| match compare {
            2 => x < end,
            3 => x <= end,
            4 => x > end,
            5 => x >= end,
            1 => x != end,
            _ => false,
        };
        let (size, loops) = extent(after);
        let most = if loops { MOST_OPS_AROUND_LOOPS } else { MOST_OPS } / size.max(1);
        while goes_on(x) {
            if values.len() as i64 >= most.min(MOST_TURNS)
                || !(-bound..bound).contains(&(i128::from(x) + i128::from(step)))
            {
                return None;
            }
            values.push(x);
            x += step;
        }
        Some(Counted { op, counter, values })
    }
    fn write(self, context: &'c Context) {
        let after = block(self.op, 1);
        let b = B::before(context, self.op);
        let mut carried = operands(self.op);
        let t = carried[self.counter].r#type();
        let mut last = carried[self.counter];
        let position = |x: i64| {
            let v = b.constant(b.attr(&format!("dense<{x}> : {t}")), t);
            set_attr(def(v).expect("just made"), "zml.position", b.unit());
            v
        };
        let all = ops(after);
        let (end, rest) = all.split_last().expect("a body has a terminator");
        for x in &self.values {
            carried[self.counter] = position(*x);
            let mut map: Map<'c> = HashMap::new();
            for (i, v) in carried.iter().enumerate() {
                map.insert(key(arg(after, i)), *v);
            }
            for op in rest {
                clone_mapped(&b, *op, &mut map);
            }
            let next: Vec<V> = operands(*end).into_iter().map(|v| map.get(&key(v)).copied().unwrap_or(v)).collect();
            carried = next;
            last = carried[self.counter];
        }
        carried[self.counter] = last;
        for (i, v) in carried.iter().enumerate() {
            replace_uses(result(self.op, i), *v);
        }
        erase(self.op);
    }
}

/// Ops of a block and of control flow in it, and whether there is a loop among them.
fn extent(b: Blk) -> (i64, bool) {
    ops(b).into_iter().fold((0, false), |(size, loops), op| {
        let inner = if name(op).starts_with("scf.") { blocks(op) } else { vec![] };
        inner
            .into_iter()
            .map(extent)
            .fold((size + 1, loops || name(op) == "scf.while"), |all, inner| (all.0 + inner.0, all.1 || inner.1))
    })
}

/// Of a predicate by one comparison with a constant: the comparison (signed), the carried value and the constant.
fn comparison(test: &Generic, before: Blk) -> Option<(i64, usize, i64)> {
    let end = ops(test.body).pop()?;
    let compare = def(operand(end, 0)).filter(|d| name(*d) == "arith.cmpi" && end.operand_count() == 1)?;
    let predicate = int_attr(compare, "predicate")?;
    let carried = |v: V| -> Option<usize> {
        let i = (0..test.ins.len()).find(|i| key(arg(test.body, *i)) == key(v))?;
        args(before).iter().position(|a| key(*a) == key(test.ins[i]))
    };
    let fixed = |v: V| -> Option<i64> {
        if let Some(i) = (0..test.ins.len()).find(|i| key(arg(test.body, *i)) == key(v)) {
            return constant(test.ins[i]);
        }
        constant(v)
    };
    let (x, y) = (operand(compare, 0), operand(compare, 1));
    if let (Some(i), Some(k)) = (carried(x), fixed(y)) {
        return Some((predicate, i, k));
    }
    // k < i is i > k.
    let turned = match predicate {
        2 => 4,
        3 => 5,
        4 => 2,
        5 => 3,
        p => p,
    };
    Some((turned, carried(y)?, fixed(x)?))
}
/// What `next` adds to `counter`, if it is that and a constant.
fn step(next: V, counter: V) -> Option<i64> {
    let g = Generic::of(def(next)?)?;
    let end = ops(g.body).pop()?;
    let add = def(operand(end, 0)).filter(|d| name(*d) == "arith.addi" && end.operand_count() == 1)?;
    let mut of = [false, false];
    let mut by = None;
    for (k, v) in operands(add).into_iter().enumerate() {
        match (0..g.ins.len()).find(|i| key(arg(g.body, *i)) == key(v)) {
            Some(i) if key(g.ins[i]) == key(counter) => of[k] = true,
            Some(i) => by = constant(g.ins[i]),
            None => by = constant(v),
        }
    }
    (of[0] != of[1]).then_some(by?)
}
/// The value of an integer constant of one element.
fn constant(v: V) -> Option<i64> {
    let d = def(v).filter(|d| name(*d) == "arith.constant")?;
    let a = attr(d, "value")?;
    if !is_tensor(v.r#type()) {
        return int(a);
    }
    let bytes = dense_bytes(a)?;
    match bytes.len() {
        4 => Some(i64::from(i32::from_le_bytes(bytes.try_into().ok()?))),
        8 => Some(i64::from_le_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}
