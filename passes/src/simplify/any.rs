//! Whether any element of a row differs from minus infinity is asked of the row's maximum, where that is known already:
//! exporters of softmax ask it to give rows without a position zeros, and the maximum of such a row is minus infinity.

use super::splats::value_of;
use crate::ir::{rewrite::*, *};
use melior::ir::{
    Attribute,
    attribute::{FloatAttribute, IntegerAttribute},
};

/// `any(x != -inf)` along some dimensions becomes `max(x) != -inf`, which is true of numbers that are none as well.
pub fn of_maximum<'c>(b: &B<'c>, block: Blk<'c>) -> bool {
    let mut changed = false;
    let mut maxima: Vec<O> = vec![];
    for op in ops(block).into_iter().filter(|op| name(*op) == "linalg.reduce") {
        match combines(op) {
            Some("arith.maximumf") => maxima.push(op),
            Some("arith.ori") => changed |= replace(b, op, &maxima),
            _ => {}
        }
    }
    changed
}
/// By one of the maxima that are known before `op`.
fn replace<'c>(b: &B<'c>, op: O<'c>, maxima: &[O<'c>]) -> bool {
    let start = |op: O<'c>| value_of(operand(op, 1));
    let is_false = |a: Attribute| IntegerAttribute::try_from(a).is_ok_and(|a| a.value() == 0);
    let is_lowest = |a: Attribute| FloatAttribute::try_from(a).is_ok_and(|a| a.value() == f64::NEG_INFINITY);
    let Some(x) = differs(operand(op, 0)).filter(|_| start(op).is_some_and(is_false)) else { return false };
    let dimensions = i64s_attr(op, "dimensions");
    let same = |m: &&O<'c>| {
        key(unwidened(operand(**m, 0))) == key(unwidened(x))
            && i64s_attr(**m, "dimensions") == dimensions
            && start(**m).is_some_and(is_lowest)
    };
    let Some(maximum) = maxima.iter().find(same) else { return false };
    let b = B::before(b.c, op);
    let b = str_attr(op, "zml.op").map_or(b, |label| b.labelled(label));
    let (t, m) = (result(op, 0).r#type(), result(*maximum, 0));
    let loops: Vec<usize> = (0..shape(t).len()).collect();
    let new = b.map(&shape(t), elem(t), &[(m, &loops)], |b, a| {
        b.cmpf("une", a[0], b.cfloat(a[0].r#type(), f64::NEG_INFINITY))
    });
    replace_uses(result(op, 0), new);
    erase(op);
    true
}

/// The one op of a reduction of one tensor.
fn combines(op: O<'_>) -> Option<&str> {
    let all = ops(block(op, 0));
    let [by, end] = all[..] else { return None };
    let plain = op.operand_count() == 2 && key(operand(end, 0)) == key(result(by, 0));
    plain.then(|| name(by))
}

/// The tensor of floats whose elements `v` compares with minus infinity, true where they differ.
fn differs<'c>(v: V<'c>) -> Option<V<'c>> {
    let (mut v, mut negated) = (v, false);
    loop {
        let g = Generic::of(def(v)?).filter(|g| g.is_parallel() && g.ins.len() == 1 && g.outs.len() == 1)?;
        if !g.in_map(0).is_identity() || !g.out_map(0).is_identity() {
            return None;
        }
        let (op, end) = match ops(g.body)[..] {
            [op, end] => (op, end),
            [widen, op, end] if name(widen) == "arith.extf" => (op, end),
            _ => return None,
        };
        let given = def(operand(op, 0)).map_or(operand(op, 0), |widen| operand(widen, 0));
        let reads = key(given) == key(arg(g.body, 0)) && key(operand(end, 0)) == key(result(op, 0));
        let other =
            def(operand(op, 1)).filter(|d| reads && name(*d) == "arith.constant").and_then(|d| attr(d, "value"))?;
        match name(op) {
            "arith.xori" if IntegerAttribute::try_from(other).is_ok_and(|a| a.value() != 0) => negated = !negated,
            "arith.cmpf" => {
                let infinite = FloatAttribute::try_from(other).is_ok_and(|a| a.value() == f64::NEG_INFINITY);
                let predicate = int_attr(op, "predicate")?;
                let asked = if negated { OEQ } else { UNE };
                return (infinite && predicate == asked).then_some(g.ins[0]);
            }
            _ => return None,
        }
        v = g.ins[0];
    }
}
