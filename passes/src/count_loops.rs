//! count-loops: a loop that counts from a constant to a constant says how many turns it takes, so that the host need not ask
//! after each.
//!
//! ```text
//! scf.while (%i = dense<0>, ...) { condition(%i < 10) ... } do { ...; yield %i + 1, ... }   gains {zml.turns = 10 : i64}
//! ```
//!
//! Invariant, checked by `verify`: only an `scf.while` carries `zml.turns`, and it is not negative.

use crate::{
    ir::*,
    pass::{Env, Pass, PassError},
};
use melior::{Context, ir::Module};

/// The pass.
pub struct CountLoops;

impl Pass for CountLoops {
    fn name(&self) -> &'static str {
        "count-loops"
    }
    fn about(&self) -> &'static str {
        "loops of a known number of turns say so"
    }
    fn run<'c>(&self, context: &'c Context, module: &mut Module<'c>, _env: Env) -> Result<(), PassError> {
        for op in walk(module_op(module)).into_iter().filter(|op| name(*op) == "scf.while") {
            if let Some(n) = turns(op) {
                rewrite::set_attr(op, "zml.turns", B::before(context, op).i64_attr(n));
            }
        }
        Ok(())
    }
    fn verify<'c>(&self, _context: &'c Context, module: &Module<'c>, _env: Env) -> Result<(), PassError> {
        let wrong = |op: &O| {
            has_attr(*op, "zml.turns") && (name(*op) != "scf.while" || int_attr(*op, "zml.turns").is_none_or(|n| n < 0))
        };
        match walk(module_op(module)).into_iter().find(wrong) {
            Some(op) => Err(PassError::Bug(format!("{} counts its turns", name(op)))),
            None => Ok(()),
        }
    }
}

/// How often the body of a loop runs, if its condition is a comparison of a carried counter with a constant.
fn turns(op: O) -> Option<i64> {
    let (before, after) = (region_block(op, 0)?, region_block(op, 1)?);
    let end = *ops(before).last()?;
    let forwarded: Vec<usize> = operands(end).into_iter().skip(1).map(key).collect();
    if name(end) != "scf.condition" || !args(before).into_iter().map(key).eq(forwarded) {
        return None;
    }
    let read = def(operand(end, 0)).filter(|d| name(*d) == "tensor.extract" && d.operand_count() == 1)?;
    let (compare, counter, swapped) = scalar_op(operand(read, 0), "arith.cmpi")?;
    let limit = constant(operand(compare, usize::from(!swapped)))?;
    let k = (0..op.operand_count()).find(|k| key(arg(before, *k)) == key(counter))?;
    let (add, carried, constant_first) = scalar_op(operand(*ops(after).last()?, k), "arith.addi")?;
    if key(carried) != key(arg(after, k)) {
        return None;
    }
    let step = constant(operand(add, usize::from(!constant_first)))?;
    let start = constant(operand(op, k))?;
    let width = int_bits(operand(compare, 0).r#type())?;
    count(int_attr(compare, "predicate")?, swapped, (start, limit, step), width)
}
/// If rank-0 tensor `v` is made by one scalar op of this name from one rank-0 tensor and a constant: the op, the tensor, and
/// whether the constant comes first.
fn scalar_op<'c>(v: V<'c>, of: &str) -> Option<(O<'c>, V<'c>, bool)> {
    let g = Generic::of(def(v)?)?;
    let inner = ops(g.body);
    let [from] = g.ins[..] else { return None };
    let rank0 = is_tensor(from.r#type()) && shape(from.r#type()).is_empty();
    let work: Vec<O> =
        inner.iter().copied().filter(|o| !matches!(name(*o), "arith.constant" | "linalg.yield")).collect();
    let [one] = work[..] else { return None };
    let yields = operands(*inner.last()?).first().map(|y| key(*y)) == Some(key(result(one, 0)));
    let first = key(operand(one, 0)) == key(arg(g.body, 0));
    let second = key(operand(one, 1)) == key(arg(g.body, 0));
    (rank0 && yields && name(one) == of && first != second).then_some((one, from, second))
}
/// The value of an integer constant, scalar or of one element.
fn constant(v: V) -> Option<i64> {
    let op = def(v).filter(|d| name(*d) == "arith.constant")?;
    let a = attr(op, "value")?;
    if !is_tensor(v.r#type()) {
        return int(a);
    }
    if elements(v.r#type()) != 1 {
        return None;
    }
    match *dense_bytes(a)? {
        [a, b, c, d] => Some(i64::from(i32::from_le_bytes([a, b, c, d]))),
        [a, b, c, d, e, f, g, h] => Some(i64::from_le_bytes([a, b, c, d, e, f, g, h])),
        _ => None,
    }
}
/// Turns of `for (i = start; i ? limit; i += step)`; `swapped`: the limit stands on the left. `None` if the counter would
/// leave its type or never reach the limit.
fn count(predicate: i64, swapped: bool, (start, limit, step): (i64, i64, i64), width: u32) -> Option<i64> {
    // `eq ne slt sle sgt sge ult ule ugt uge`; with sides exchanged, less is greater.
    let p = match (predicate, swapped) {
        (p @ (0 | 1), _) | (p, false) => p,
        (2 | 6, true) => predicate + 2,
        (3 | 7, true) => predicate + 2,
        (_, true) => predicate - 2,
    };
    if p >= 6 && (start < 0 || limit < 0) {
        return None;
    }
    let distance = match p {
        1 => (limit.checked_sub(start)? % step.max(1) == 0).then_some(limit - start)?,
        2 | 6 => limit.checked_sub(start)?,
        3 | 7 => limit.checked_sub(start)?.checked_add(1)?,
        _ => return None,
    };
    if step < 1 || (p == 1 && distance < 0) {
        return None;
    }
    let n = distance.max(0).div_euclid(step) + i64::from(distance.max(0) % step != 0);
    let last = start.checked_add(n.checked_mul(step)?)?;
    let fits = width >= 64 || (last >= -(1 << (width - 1)) && last < 1 << (width - 1));
    fits.then_some(n)
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn counts_what_a_loop_would() {
        assert_eq!(count(2, false, (0, 10, 1), 32), Some(10));
        assert_eq!(count(2, false, (0, 10, 3), 32), Some(4));
        assert_eq!(count(3, false, (1, 10, 3), 32), Some(4));
        assert_eq!(count(2, false, (5, 5, 1), 32), Some(0));
        assert_eq!(count(2, false, (9, 5, 1), 32), Some(0));
        assert_eq!(count(4, true, (0, 10, 1), 32), Some(10));
        assert_eq!(count(1, false, (0, 10, 5), 32), Some(2));
        assert_eq!(count(6, false, (0, 7, 1), 32), Some(7));
    }
    #[test]
    fn says_nothing_of_loops_that_do_not_end_so() {
        assert_eq!(count(1, false, (0, 10, 3), 32), None);
        assert_eq!(count(2, false, (0, 10, 0), 32), None);
        assert_eq!(count(4, false, (10, 0, -1), 32), None);
        assert_eq!(count(6, false, (-1, 7, 1), 32), None);
        assert_eq!(count(3, false, (0, i64::from(i32::MAX), 1), 32), None);
    }
}
