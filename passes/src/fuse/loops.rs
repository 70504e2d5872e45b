//! Brings loops into the form that the host program has: a condition hands on exactly the values that it was given.
//! Upstream's clean-ups forward fewer values, or others, where the body and the results need no more.
//!
//! Before: `scf.condition(%p) %y` in a loop over `%i` and `%y`, with `%c` from outside forwarded too. After:
//! `scf.condition(%p) %i, %y`; what the body and the readers of the results get else is outside, or computed there again.

use crate::ir::{rewrite::*, *};
use melior::Context;
use std::collections::HashMap;

pub fn hand_on_all<'c>(context: &'c Context, block: Blk<'c>) {
    for op in ops(block).into_iter().filter(|o| name(*o) == "scf.while") {
        let condition = crate::ir::block(op, 0);
        let (end, _) = split(condition);
        let same = |(a, b): (&V, &V)| key(*a) == key(*b);
        let (given, handed) = (args(condition), operands(end)[1..].to_vec());
        if given.len() != handed.len() || !given.iter().zip(&handed).all(same) {
            rebuild(context, op, condition, &handed);
        }
    }
}

fn rebuild<'c>(context: &'c Context, op: O<'c>, condition: Blk<'c>, handed: &[V<'c>]) {
    let b = B::before(context, op);
    let given = args(condition);
    let types: Vec<_> = given.iter().map(ValueLike::r#type).collect();
    let first = b.region(&types, |b, a| {
        let mut map: Map<'c> = given.iter().zip(a).map(|(v, a)| (key(*v), *a)).collect();
        let (end, rest) = split(condition);
        for o in rest {
            clone_mapped(b, o, &mut map);
        }
        let predicate = operand(end, 0);
        let mut all = vec![map.get(&key(predicate)).copied().unwrap_or(predicate)];
        all.extend(a);
        b.op("scf.condition", &all, &[], &[], vec![]);
    });
    let body = block(op, 1);
    let second = b.region(&types, |b, a| {
        let mut map = HashMap::new();
        let values = again(b, condition, a, handed);
        map.extend(args(body).into_iter().zip(values).map(|(v, x)| (key(v), x)));
        for o in ops(body) {
            clone_mapped(b, o, &mut map);
        }
    });
    let new = b.with_loc(location(op)).op("scf.while", &operands(op), &types, &[], vec![first, second]);
    let values = again(&B::after(context, new), condition, &results(new), handed);
    for (old, new) in results(op).into_iter().zip(values) {
        replace_uses(old, new);
    }
    erase(op);
}
fn split<'c>(block: Blk<'c>) -> (O<'c>, Vec<O<'c>>) {
    let mut all = ops(block);
    (all.pop().expect("a block has a terminator"), all)
}
/// The values `handed` on by the condition where it was given `given`, computed where `b` stands.
fn again<'c>(b: &B<'c>, condition: Blk<'c>, given: &[V<'c>], handed: &[V<'c>]) -> Vec<V<'c>> {
    let mut map: Map<'c> = args(condition).into_iter().zip(given).map(|(v, a)| (key(v), *a)).collect();
    for v in handed {
        bring(b, condition, *v, &mut map);
    }
    handed.iter().map(|v| map.get(&key(*v)).copied().unwrap_or(*v)).collect()
}
fn bring<'c>(b: &B<'c>, home: Blk<'c>, v: V<'c>, map: &mut Map<'c>) {
    let Some(d) = def(v).filter(|d| in_block(*d, home) && !map.contains_key(&key(v))) else { return };
    for inner in walk(d).into_iter().flat_map(operands) {
        bring(b, home, inner, map);
    }
    clone_mapped(b, d, map);
}
