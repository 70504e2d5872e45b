//! Makes equal what differs in constant positions only: where several ops read or write the same kind of tensor at
//! different constant positions (the layers of a stacked cache), the positions become inputs, so that one kernel serves
//! all. It runs before grouping; which ops go together is not its concern.
//!
//! Before: `tensor.extract %cache[%c3, %i, %j]`, and elsewhere the same with `%c4`. After: both read the position from a
//! rank-0 tensor, which the entry holds as a constant marked `zml.position`.

use crate::ir::{rewrite::*, *};
use melior::{Context, ir::AffineMap};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// An op with the constant position of each dimension, if it has one there.
struct Placed<'c> {
    op: O<'c>,
    /// `tensor.extract` in the body, or none for an update.
    extract: Option<O<'c>>,
    at: Vec<Option<i64>>,
}

pub fn lift<'c>(context: &'c Context, block: Blk<'c>) {
    let mut kinds: BTreeMap<String, Vec<Placed<'c>>> = BTreeMap::new();
    for op in ops(block) {
        if let Some((kind, placed)) = update(op).or_else(|| read(op)) {
            kinds.entry(kind).or_default().push(placed);
        }
    }
    let Some(first) = ops(block).first().copied() else { return };
    let b = B::before(context, first);
    let mut constants: BTreeMap<i64, V<'c>> = BTreeMap::new();
    for all in kinds.values() {
        let differs = |d: usize| {
            let values: BTreeSet<i64> = all.iter().filter_map(|p| p.at[d]).collect();
            values.len() > 1 && all.iter().all(|p| p.at[d].is_some())
        };
        let dims: Vec<usize> = (0..all[0].at.len()).filter(|d| differs(*d)).collect();
        for p in all {
            let mut inputs = vec![];
            for d in &dims {
                let x = p.at[*d].expect("all have one");
                let v = *constants.entry(x).or_insert_with(|| position(&b, x));
                inputs.push((*d, v));
            }
            match p.extract {
                None => inputs.iter().for_each(|(d, v)| set_operand(p.op, 2 + d, *v)),
                Some(e) if !inputs.is_empty() => with_inputs(context, p.op, e, &inputs),
                Some(_) => {}
            }
        }
    }
}
/// A rank-0 constant that stays in the entry.
fn position<'c>(b: &B<'c>, x: i64) -> V<'c> {
    let t = b.tensor(&[], b.i(32));
    let v = b.constant(b.attr(&format!("dense<{x}> : tensor<i32>")), t);
    set_attr(def(v).expect("just made"), "zml.position", b.unit());
    v
}

fn update<'c>(op: O<'c>) -> Option<(String, Placed<'c>)> {
    if name(op) != "zml.dynamic_update_slice" || has_attr(op, "unsigned_starts") {
        return None;
    }
    let (whole, part) = (operand(op, 0).r#type(), operand(op, 1).r#type());
    let starts = operands(op)[2..].to_vec();
    // Starts of other types than i32 stay: the new one must fit beside them.
    if !starts.iter().all(|v| int_bits(elem(v.r#type())) == Some(32)) {
        return None;
    }
    let room: Vec<i64> = shape(whole).iter().zip(shape(part)).map(|(w, p)| w - p).collect();
    let at = starts.iter().zip(&room).map(|(v, room)| constant(*v).map(|x| x.clamp(0, *room))).collect();
    Some((format!("update {whole} {part}"), Placed { op, extract: None, at }))
}
fn read<'c>(op: O<'c>) -> Option<(String, Placed<'c>)> {
    let g = Generic::of(op).filter(Generic::is_parallel)?;
    let mut extracts = ops(g.body).into_iter().filter(|o| name(*o) == "tensor.extract");
    let e = extracts.next().filter(|_| extracts.next().is_none())?;
    let from = operand(e, 0).r#type();
    let at: Vec<Option<i64>> = operands(e)[1..].iter().map(|v| constant(*v)).collect();
    // Positions of other dimensions have to be computed the same way for kernels to be equal; that shows later.
    Some((format!("read {from} {}", result(op, 0).r#type()), Placed { op, extract: Some(e), at }))
}
fn constant(v: V) -> Option<i64> {
    let d = def(v).filter(|d| name(*d) == "arith.constant")?;
    let a = attr(d, "value")?;
    if !is_tensor(v.r#type()) {
        return int(a);
    }
    let bytes = dense_bytes(a).filter(|b| b.len() == 4)?;
    Some(i64::from(i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])))
}

/// The generic `op` again with more rank-0 inputs, each the position of dimension `.0` of `extract`.
fn with_inputs<'c>(context: &'c Context, op: O<'c>, extract: O<'c>, inputs: &[(usize, V<'c>)]) {
    let g = Generic::of(op).expect("a generic");
    let b = B::before(context, op);
    let mut ins: Vec<(V, AffineMap)> = g.ins.iter().enumerate().map(|(i, v)| (*v, g.in_map(i))).collect();
    ins.extend(inputs.iter().map(|(_, v)| (*v, b.projection(g.loops(), &[]))));
    let outs: Vec<(V, AffineMap)> = g.outs.iter().enumerate().map(|(i, v)| (*v, g.out_map(i))).collect();
    let (old, count) = (g.ins.len(), ins.len());
    let new = b.generic(&"p".repeat(g.loops()), &ins, &outs, |b, a| {
        let mut map: Map = HashMap::new();
        for (i, x) in a.iter().take(old).enumerate() {
            map.insert(key(arg(g.body, i)), *x);
        }
        for i in 0..outs.len() {
            map.insert(key(arg(g.body, old + i)), a[count + i]);
        }
        let all = ops(g.body);
        let (last, rest) = all.split_last().expect("a body has a terminator");
        for inner in rest {
            let cast: Vec<V> = if op_key(*inner) == op_key(extract) {
                (0..inputs.len()).map(|k| b.op1("arith.index_cast", &[a[old + k]], b.index(), &[])).collect()
            } else {
                vec![]
            };
            let copy = clone_mapped(b, *inner, &mut map);
            for ((d, _), v) in inputs.iter().zip(cast) {
                set_operand(copy, 1 + d, v);
            }
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
}
