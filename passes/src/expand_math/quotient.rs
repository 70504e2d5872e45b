//! Divisions by one number: the reciprocal is taken once, and each quotient is a product that a residual puts right.
//!
//! With r the reciprocal of s, rounded, and q = a r, rounded: q + (a - q s) r, rounded, is a / s rounded, where `fma` rounds
//! once and nothing is denormal or too large. The residual a - q s is exact, so what is rounded last lies 1.5 2^-24 of a
//! unit in the last place from a / s at most, and no quotient that is as near to the middle between two numbers is rounded
//! to the other one (tried for all of them, `tests/expand_math.rs`). Where the divisor or a quotient is out of range the
//! group is divided in the ordinary way.

use super::{ir::Ir, machine::Machine};
use crate::ir::{rewrite::*, *};
use melior::Context;

/// Divisions that are worth a branch.
const LEAST: usize = 4;
/// Divisors, and quotients at least.
const DIVISOR: [f64; 2] = [1.0 / (1u64 << 20) as f64, (1u64 << 60) as f64];
const QUOTIENT: f64 = 1.0 / (1u128 << 80) as f64;

/// a / s for a reciprocal r of s that is rounded.
pub fn quotient<M: Machine>(m: &M, a: M::F, s: M::F, r: M::F) -> M::F {
    let q = m.mul(a, r);
    m.fma(m.fma(m.neg(q), s, a), r, q)
}

/// Groups of f32 divisions by one value, next to each other in a block.
pub fn share<'c>(context: &'c Context, block: Blk<'c>) {
    let all = ops(block);
    let place: std::collections::HashMap<usize, usize> =
        all.iter().enumerate().map(|(i, op)| (op_key(*op), i)).collect();
    let mut group: Vec<O> = vec![];
    for op in &all {
        let joins = is_plain(*op)
            && group.first().is_none_or(|first| {
                let made = def(operand(*op, 0)).and_then(|d| place.get(&op_key(d)));
                key(operand(*first, 1)) == key(operand(*op, 1)) && made.is_none_or(|at| *at < place[&op_key(*first)])
            });
        if !joins {
            close(context, &mut group);
        }
        if is_plain(*op) {
            group.push(*op);
        }
    }
    close(context, &mut group);
}
fn is_plain(op: O) -> bool {
    let quick = || attr(op, "fastmath").is_some_and(|a| a.to_string().contains("afn"));
    name(op) == "arith.divf" && is_float(result(op, 0).r#type()) && bits(result(op, 0).r#type()) == 32 && !quick()
}
fn close<'c>(context: &'c Context, group: &mut Vec<O<'c>>) {
    let group = std::mem::take(group);
    if group.len() < LEAST {
        return;
    }
    let b = B::before(context, group[0]);
    let s = operand(group[0], 1);
    let m = Ir::<f32>::new(b, None, false);
    let r = m.div(m.c(1.0), s);
    let size = m.abs(s);
    let mut fits = m.both(m.le(m.c(DIVISOR[0]), size), m.le(size, m.c(DIVISOR[1])));
    let mut quotients = vec![];
    for op in &group {
        let q = quotient(&m, operand(*op, 0), s, r);
        // Not so of NaN, which infinities and numbers too large leave.
        fits = m.both(fits, m.le(m.c(QUOTIENT), m.abs(q)));
        quotients.push(q);
    }
    let types = vec![b.f32(); group.len()];
    let new = b.if_else(
        fits,
        &types,
        |_| quotients.clone(),
        |b| group.iter().map(|op| b.same("arith.divf", &[operand(*op, 0), s])).collect(),
    );
    for (op, new) in group.iter().zip(new) {
        replace_uses(result(*op, 0), new);
        erase(*op);
    }
}
