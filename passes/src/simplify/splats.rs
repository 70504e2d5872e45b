//! Brings constants of one value into the bodies that read them, and turns a choice between whole tensors, which
//! canonicalize makes of trivial branches, back into an elementwise one.

use crate::ir::{rewrite::*, *};
use melior::ir::{AffineMap, Attribute, attribute::DenseElementsAttribute};

/// The one value of a constant tensor or of a fill with a constant.
pub(super) fn value_of<'c>(v: V<'c>) -> Option<Attribute<'c>> {
    let op = def(v)?;
    match name(op) {
        "arith.constant" if !has_attr(op, "zml.position") => {
            let dense = DenseElementsAttribute::try_from(attr(op, "value")?).ok()?;
            dense.is_splat().then(|| dense.splat_value())
        }
        "linalg.fill" => {
            let scalar = def(operand(op, 0)).filter(|s| name(*s) == "arith.constant")?;
            attr(scalar, "value")
        }
        _ => None,
    }
}

pub fn fold<'c>(b: &B<'c>, block: Blk<'c>) -> bool {
    let mut changed = false;
    for op in ops(block).into_iter().filter(|op| name(*op) == "linalg.generic") {
        changed |= into_generic(b, op);
    }
    changed
}
fn into_generic<'c>(b: &B<'c>, op: O<'c>) -> bool {
    let g = Generic::of(op).expect("a generic");
    let values: Vec<Option<Attribute>> = g.ins.iter().map(|v| value_of(*v)).collect();
    let kept: Vec<usize> = (0..g.ins.len()).filter(|i| values[*i].is_none()).collect();
    let outs: Vec<(V, AffineMap)> = g.outs.iter().enumerate().map(|(i, v)| (*v, g.out_map(i))).collect();
    let ins: Vec<(V, AffineMap)> = kept.iter().map(|i| (g.ins[*i], g.in_map(*i))).collect();
    let maps: Vec<AffineMap> = ins.iter().chain(&outs).map(|x| x.1).collect();
    if kept.len() == g.ins.len() || !super::copies::names_all_loops(&maps, g.loops()) {
        return false;
    }
    let at = B::before(b.c, op);
    let constants: Vec<Option<V>> =
        values.iter().enumerate().map(|(i, a)| a.map(|a| at.constant(a, elem(g.ins[i].r#type())))).collect();
    let iterators: String = g.reduces.iter().map(|r| if *r { 'r' } else { 'p' }).collect();
    let new = at.generic(&iterators, &ins, &outs, |b, a| {
        let mut map = Map::new();
        for (i, c) in constants.iter().enumerate() {
            let now = c.unwrap_or_else(|| a[kept.iter().position(|k| *k == i).expect("kept")]);
            map.insert(key(arg(g.body, i)), now);
        }
        for i in 0..outs.len() {
            map.insert(key(arg(g.body, g.ins.len() + i)), a[kept.len() + i]);
        }
        let all = ops(g.body);
        let (last, rest) = all.split_last().expect("a body has a terminator");
        for inner in rest {
            clone_mapped(b, *inner, &mut map);
        }
        operands(*last).into_iter().map(|v| map.get(&key(v)).copied().unwrap_or(v)).collect()
    });
    if let Some(label) = attr(op, "zml.op") {
        set_attr(new, "zml.op", label);
    }
    for i in 0..outs.len() {
        replace_uses(result(op, i), result(new, i));
    }
    erase(op);
    true
}

/// An elementwise op that yields a constant everywhere is a constant.
pub fn uniform<'c>(b: &B<'c>, block: Blk<'c>) -> bool {
    let mut changed = false;
    for op in ops(block).into_iter().filter(|op| name(*op) == "linalg.generic") {
        let g = Generic::of(op).expect("a generic");
        let Some(yielded) = ops(g.body).pop().map(operands) else { continue };
        let constant = |v: &V<'c>| def(*v).filter(|d| name(*d) == "arith.constant").and_then(|d| attr(d, "value"));
        let values: Option<Vec<Attribute>> = yielded.iter().map(constant).collect();
        let Some(values) = values.filter(|_| g.is_parallel()) else { continue };
        let at = B::before(b.c, op);
        for (i, value) in values.into_iter().enumerate() {
            let t = result(op, i).r#type();
            replace_uses(result(op, i), at.constant(splat(t, value), t));
        }
        erase(op);
        changed = true;
    }
    changed
}

/// arith.select between tensors by the element of a rank-0 predicate: an elementwise select that reads it everywhere.
pub fn select_of_tensors<'c>(b: &B<'c>, block: Blk<'c>) -> bool {
    let mut changed = false;
    for op in ops(block).into_iter().filter(|op| name(*op) == "arith.select" && is_tensor(result(*op, 0).r#type())) {
        let b = B::before(b.c, op);
        let t = result(op, 0).r#type();
        let condition = operand(op, 0);
        let predicate = match def(condition) {
            Some(d) if name(d) == "tensor.extract" && d.operand_count() == 1 => operand(d, 0),
            _ => continue,
        };
        let loops: Vec<usize> = (0..shape(t).len()).collect();
        let ins = [(predicate, &[][..]), (operand(op, 1), &loops[..]), (operand(op, 2), &loops[..])];
        let chosen = b.map(&shape(t), elem(t), &ins, |b, a| b.select(a[0], a[1], a[2]));
        replace_uses(result(op, 0), chosen);
        erase(op);
        changed = true;
    }
    changed
}
