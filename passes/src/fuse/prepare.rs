//! Rewrites before grouping: constants are brought into the regions that read them, a concatenation of more inputs than a
//! kernel may bind becomes writes into one buffer, and what is written over itself is copied first.

use super::view::{Kind, kind_of};
use crate::ir::{rewrite::*, *};
use melior::Context;
use std::collections::HashMap;

/// Clones splat and scalar constants of `block` into the regions of its control flow that read them: a region is grouped
/// by itself, and a constant from outside would be a buffer.
pub fn localise_constants<'c>(context: &'c Context, block: Blk<'c>) {
    for op in ops(block).into_iter().filter(|o| name(*o).starts_with("scf.")) {
        for region in 0..op.region_count() {
            let inner = crate::ir::block(op, region);
            let Some(first) = ops(inner).first().copied() else { continue };
            let b = B::before(context, first);
            let mut map: Map<'c> = HashMap::new();
            for o in ops(inner) {
                for v in walk(o).into_iter().flat_map(operands) {
                    bring(&b, block, v, &mut map);
                }
                remap(o, &map);
            }
        }
    }
}
fn bring<'c>(b: &B<'c>, home: Blk<'c>, v: V<'c>, map: &mut Map<'c>) {
    let Some(d) = def(v) else { return };
    if map.contains_key(&key(v)) || kind_of(d) != Kind::Constant || !in_block(d, home) {
        return;
    }
    for inner in operands(d) {
        bring(b, home, inner, map);
    }
    clone_mapped(b, d, map);
}

/// `concat(x0 .. x50)` with at most 32 buffers becomes `y0 = update(empty, concat(x0 .. x29))`,
/// `y1 = update(y0, concat(x30 .. x50))`, each in place.
pub fn split_wide<'c>(context: &'c Context, block: Blk<'c>, budget: usize) {
    for op in ops(block).into_iter().filter(|o| name(*o) == "tensor.concat") {
        let inputs = operands(op);
        let mut distinct: Vec<usize> = inputs.iter().map(|v| key(*v)).collect();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() < budget {
            continue;
        }
        let b = B::before(context, op);
        let whole = result(op, 0).r#type();
        let (extents, dim) = (shape(whole), int_attr(op, "dim").unwrap_or_default());
        let label = attr(op, "zml.op");
        let t = if extents[dim as usize] > i64::from(i32::MAX) { b.i(64) } else { b.i(32) };
        let mut y = b.empty(&extents, elem(whole));
        let mut offset = 0;
        for part in inputs.chunks(budget.saturating_sub(2).max(1)) {
            let length: i64 = part.iter().map(|v| shape(v.r#type())[dim as usize]).sum();
            let mut partial = extents.clone();
            partial[dim as usize] = length;
            let piece = match part {
                [one] => *one,
                _ => b.op1(
                    "tensor.concat",
                    part,
                    b.tensor(&partial, elem(whole)),
                    &[("dim", attr(op, "dim").expect("a dimension"))],
                ),
            };
            let start = |b: &B<'c>, x: i64| b.constant(b.attr(&format!("dense<{x}> : tensor<{t}>")), b.tensor(&[], t));
            let starts = (0..extents.len()).map(|i| start(&b, if i as i64 == dim { offset } else { 0 }));
            let mut operands = vec![y, piece];
            operands.extend(starts);
            let mut attrs = vec![];
            attrs.extend(label.map(|l| ("zml.op", l)));
            y = b.op1("zml.dynamic_update_slice", &operands, whole, &attrs);
            offset += length;
        }
        replace_uses(result(op, 0), y);
        erase(op);
    }
}

/// `update(x, x)` becomes `update(x, copy of x)`: a buffer that is written in place is read by nothing else. A constant with
/// other readers, in whose kernels it is made anew, becomes one of the update's own.
pub fn copy_own_updates<'c>(context: &'c Context, block: Blk<'c>) {
    for op in ops(block).into_iter().filter(|o| name(*o) == "zml.dynamic_update_slice") {
        let own = operand(op, 0);
        if let Some(constant) = def(own).filter(|d| kind_of(*d) == Kind::Constant && uses(own).len() > 1) {
            let mut mapped: Map<'c> = HashMap::new();
            clone_mapped(&B::before(context, op), constant, &mut mapped);
            set_operand(op, 0, mapped[&key(own)]);
            continue;
        }
        for i in (1..op.operand_count()).filter(|i| key(operand(op, *i)) == key(own)).collect::<Vec<_>>() {
            let extents = shape(own.r#type());
            let identity: Vec<usize> = (0..extents.len()).collect();
            let b = B::before(context, op).labelled("dynamic_update_slice");
            let copy = b.map(&extents, elem(own.r#type()), &[(own, &identity)], |_, a| a[0]);
            set_operand(op, i, copy);
        }
    }
}
