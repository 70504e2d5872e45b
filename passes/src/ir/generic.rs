//! linalg.generic, read once into plain data.

use super::{
    AttributeLike, Blk, O, OperationLike, TypeLike, V, ValueLike, arg, array, attr, block, def, elem, i32s_attr, key,
    name, operand, operands, ops, result, shape,
};
use melior::ir::{AffineMap, Attribute};
use mlir_sys::*;
use std::{cell::RefCell, collections::HashMap};

pub fn map_attr<'c>(m: AffineMap<'c>) -> Attribute<'c> {
    unsafe { Attribute::from_raw(mlirAffineMapAttrGet(m.to_raw())) }
}
fn map_of<'c>(a: Attribute<'c>) -> AffineMap<'c> {
    unsafe { AffineMap::from_raw(mlirAffineMapAttrGetValue(a.to_raw())) }
}

thread_local! {
    /// By context and attribute, of which each context has one a kind.
    static REDUCTIONS: RefCell<HashMap<(usize, usize), bool>> = RefCell::default();
}
/// The C API has no reader for the iterator enum: what is printed of it is looked at once, for that takes long.
fn is_reduction(iterator: Attribute) -> bool {
    let raw = iterator.to_raw();
    let known = (unsafe { mlirAttributeGetContext(raw) }.ptr as usize, raw.ptr as usize);
    REDUCTIONS.with_borrow_mut(|all| *all.entry(known).or_insert_with(|| iterator.to_string().contains("reduction")))
}
/// A new context may lie where an old one did.
pub(crate) fn forget_iterators() {
    REDUCTIONS.with_borrow_mut(HashMap::clear);
}

pub struct Generic<'c> {
    pub op: O<'c>,
    pub ins: Vec<V<'c>>,
    pub outs: Vec<V<'c>>,
    maps: Vec<AffineMap<'c>>,
    /// For each loop, whether it is a reduction.
    pub reduces: Vec<bool>,
    pub body: Blk<'c>,
}
impl<'c> Generic<'c> {
    pub fn of(op: O<'c>) -> Option<Self> {
        if name(op) != "linalg.generic" {
            return None;
        }
        let n = i32s_attr(op, "operandSegmentSizes")?[0] as usize;
        let all = operands(op);
        let maps = array(attr(op, "indexing_maps")?).into_iter().map(map_of).collect();
        let reduces = array(attr(op, "iterator_types")?).into_iter().map(is_reduction).collect();
        Some(Generic { op, ins: all[..n].to_vec(), outs: all[n..].to_vec(), maps, reduces, body: block(op, 0) })
    }
    pub fn loops(&self) -> usize {
        self.reduces.len()
    }
    pub fn is_parallel(&self) -> bool {
        !self.reduces.contains(&true)
    }
    pub fn in_map(&self, i: usize) -> AffineMap<'c> {
        self.maps[i]
    }
    pub fn out_map(&self, i: usize) -> AffineMap<'c> {
        self.maps[self.ins.len() + i]
    }
    /// Extent of every loop, from the operands that a plain dimension indexes; -1 where none does.
    pub fn bounds(&self) -> Vec<i64> {
        let mut bounds = vec![-1; self.loops()];
        for (m, v) in self.maps.iter().zip(self.ins.iter().chain(&self.outs)) {
            if !v.r#type().is_ranked_tensor() {
                continue;
            }
            for (i, extent) in shape(v.r#type()).into_iter().enumerate() {
                if let Ok(e) = m.result(i)
                    && e.is_dim()
                {
                    bounds[e.dim_position()] = extent;
                }
            }
        }
        bounds
    }
}

/// What an elementwise op does nothing to but to widen it to another float.
pub fn widens<'c>(op: O<'c>) -> Option<V<'c>> {
    // Of most ops their types tell, and to read a generic takes long.
    let is_wider = op.operand_count() == 2 && elem(operand(op, 0).r#type()) != elem(operand(op, 1).r#type());
    let g = Generic::of(Some(op).filter(|_| is_wider)?)
        .filter(|g| g.is_parallel() && g.ins.len() == 1 && g.outs.len() == 1)?;
    let [widen, end] = ops(g.body)[..] else { return None };
    let in_place = g.in_map(0).is_identity() && g.out_map(0).is_identity();
    let handed = key(operand(widen, 0)) == key(arg(g.body, 0)) && key(operand(end, 0)) == key(result(widen, 0));
    (in_place && handed && name(widen) == "arith.extf").then_some(g.ins[0])
}
/// What `v` was widened from.
pub fn unwidened<'c>(mut v: V<'c>) -> V<'c> {
    while let Some(from) = def(v).and_then(widens) {
        v = from;
    }
    v
}
