//! Bodies of structured ops, rebuilt scalar by scalar inside a kernel. Index arithmetic stays symbolic, so that a read
//! at `start + i` is seen to be next to the one at `start + i + 1`.

use super::{
    build::{Em, Lanes},
    index::Ix,
    nest::Nest,
};
use crate::ir::*;
use melior::ir::{Attribute, Region, Type, attribute::IntegerAttribute};
use mlir_sys::{mlirIdentifierStr, mlirOperationGetAttribute, mlirOperationGetNumAttributes};
use std::collections::HashMap;

/// Ops that positions are made of, whose value depends on name, operands and type alone.
const INTEGER: [&str; 6] =
    ["arith.index_cast", "arith.index_castui", "arith.maxsi", "arith.minsi", "arith.extsi", "arith.select"];

#[derive(Clone, Copy)]
pub enum Scalar<'c> {
    Value(V<'c>),
    Index(Ix),
}
/// What the values of a body are in the kernel, by key.
pub type Scalars<'c> = HashMap<usize, Scalar<'c>>;

/// The attributes of an op by name.
fn attributes<'c>(op: O<'c>) -> Vec<(&'c str, Attribute<'c>)> {
    // Names are interned in the context, which outlives 'c.
    unsafe {
        (0..mlirOperationGetNumAttributes(op.to_raw()))
            .map(|i| {
                let a = mlirOperationGetAttribute(op.to_raw(), i);
                let s = mlirIdentifierStr(a.name);
                let name = std::str::from_utf8_unchecked(std::slice::from_raw_parts(s.data.cast(), s.length));
                (name, Attribute::from_raw(a.attribute))
            })
            .collect()
    }
}
fn constant_int(v: V) -> Option<i64> {
    let op = def(v).filter(|op| name(*op) == "arith.constant")?;
    IntegerAttribute::try_from(attr(op, "value")?).ok().map(|a| a.value())
}
/// Bounds of an emitted integer as far as clamps and constants show them, both included.
fn int_range(v: V, depth: u32) -> (i64, i64) {
    const FAR: (i64, i64) = (-(1 << 56), 1 << 56);
    if let Some(k) = constant_int(v) {
        return (k, k);
    }
    let Some(op) = def(v).filter(|_| depth > 0) else { return FAR };
    let of = |i: usize| int_range(operand(op, i), depth - 1);
    match name(op) {
        "arith.maxsi" => (of(0).0.max(of(1).0), of(0).1.max(of(1).1)),
        "arith.minsi" => (of(0).0.min(of(1).0), of(0).1.min(of(1).1)),
        "arith.minui" if of(0).0 >= 0 && of(1).0 >= 0 => (0, of(0).1.min(of(1).1)),
        "arith.index_cast" | "arith.extsi" => of(0),
        "arith.index_castui" | "arith.extui" if of(0).0 >= 0 => of(0),
        _ => FAR,
    }
}

/// If `op` adds a product that nothing else needs to an accumulator: both factors and the accumulator, for `math.fma`.
/// This is the only place where rounding is left out, so it is the same on every target.
fn contraction<'c>(op: O<'c>) -> Option<[V<'c>; 3]> {
    if name(op) != "arith.addf" || !matches!(bits(result(op, 0).r#type()), 32 | 64) {
        return None;
    }
    let (x, y) = (operand(op, 0), operand(op, 1));
    let (product, accumulator) = if x.is_block_argument() { (y, x) } else { (x, y) };
    let mul = def(product).filter(|m| name(*m) == "arith.mulf" && uses(product).len() == 1)?;
    let inside = accumulator.is_block_argument() && uses(accumulator).len() == 1;
    let nest = if inside { owner(accumulator)? } else { return None };
    let inputs = match name(nest) {
        "linalg.generic" => i32s_attr(nest, "operandSegmentSizes")?[0] as usize,
        "linalg.reduce" => nest.operand_count() / 2,
        _ => return None,
    };
    (arg_number(accumulator) >= inputs).then(|| [operand(mul, 0), operand(mul, 1), accumulator])
}

impl<'c> Em<'c> {
    /// The body of `nest` at `loops`, once for each lane of loops or inputs: results by accumulator, then lane.
    /// With `accumulators` (by accumulator, then lane) lane k continues from its own.
    pub fn inline(
        &mut self,
        b: &B<'c>,
        nest: &Nest<'c>,
        loops: &[Ix],
        accumulators: Option<&[Lanes<'c>]>,
    ) -> Vec<Lanes<'c>> {
        if accumulators.is_none()
            && let Some(lanes) = self.gather(b, nest, loops)
        {
            return vec![lanes];
        }
        let ins = self.body_inputs(b, nest, loops);
        let outs: Vec<Option<Lanes>> = (0..nest.outs.len())
            .map(|i| match accumulators {
                Some(a) => Some(a[i].clone()),
                None if nest.reads_argument(nest.ins.len() + i) => {
                    let at = nest.out_index(self, i, loops);
                    Some(self.eval(b, nest.outs[i], &at))
                }
                None => None,
            })
            .collect();
        let indexed = walk(nest.op).into_iter().any(|op| name(op) == "linalg.index");
        let loop_lanes = loops.iter().map(|i| self.ix.lanes(*i)).max().unwrap_or(1) as usize;
        let lanes = ins.iter().chain(&outs).flatten().map(Vec::len).max().unwrap_or(1);
        let lanes = if indexed { lanes.max(loop_lanes) } else { lanes };
        let mut maps: Vec<(Scalars, Vec<Ix>)> = (0..lanes)
            .map(|k| {
                let mut map = Scalars::new();
                for (i, x) in ins.iter().chain(&outs).enumerate() {
                    if let Some(x) = x {
                        map.insert(key(arg(nest.body, i)), Scalar::Value(if x.len() == 1 { x[0] } else { x[k] }));
                    }
                }
                (map, loops.iter().map(|i| self.ix.at_lane(*i, k as i64)).collect())
            })
            .collect();
        // Op by op, so that what the lanes have in common in an op stands together.
        let all = ops(nest.body);
        let (end, rest) = all.split_last().expect("a block ends in a terminator");
        for op in rest {
            maps.iter_mut().for_each(|(map, at)| self.rebuild(b, *op, map, at));
        }
        let mut results = vec![vec![]; nest.outs.len()];
        for (map, _) in &maps {
            let found: Vec<Scalar> = operands(*end).into_iter().map(|x| self.get(b, map, x)).collect();
            for (r, y) in results.iter_mut().zip(found) {
                r.push(self.scalar(b, y));
            }
        }
        results
    }
    /// A body that only takes an element of a tensor, where the lanes of `loops` show in the position alone: all lanes
    /// at once, so that neighbours are loaded as such.
    fn gather(&mut self, b: &B<'c>, nest: &Nest<'c>, loops: &[Ix]) -> Option<Lanes<'c>> {
        if loops.iter().all(|i| self.ix.lanes(*i) == 1) {
            return None;
        }
        let all = ops(nest.body);
        let (end, rest) = all.split_last()?;
        let extract = def(operand(*end, 0)).filter(|op| end.operand_count() == 1 && name(*op) == "tensor.extract")?;
        // Index arithmetic stays symbolic; nothing else may need a loop that has lanes.
        let mut with_lanes: Vec<usize> = vec![];
        for op in rest.iter().filter(|op| op_key(**op) != op_key(extract)) {
            let own = name(*op) == "linalg.index"
                && int_attr(*op, "dim").is_some_and(|d| self.ix.lanes(loops[d as usize]) > 1);
            if own || operands(*op).iter().any(|v| with_lanes.contains(&key(*v))) {
                let symbolic = match name(*op) {
                    "linalg.index" | "arith.addi" | "arith.subi" => is_index(result(*op, 0).r#type()),
                    "arith.muli" => operands(*op).iter().any(|v| constant_int(*v).is_some()),
                    _ => false,
                };
                if !symbolic {
                    return None;
                }
                with_lanes.extend(results(*op).into_iter().map(key));
            }
        }
        let ins = self.body_inputs(b, nest, loops);
        if ins.iter().flatten().any(|x| x.len() > 1) {
            return None;
        }
        let mut map = Scalars::new();
        for (i, x) in ins.iter().enumerate() {
            if let Some(x) = x {
                map.insert(key(arg(nest.body, i)), Scalar::Value(x[0]));
            }
        }
        for op in rest.iter().filter(|op| op_key(**op) != op_key(extract)) {
            self.rebuild(b, *op, &mut map, loops);
        }
        let tensor = operand(extract, 0);
        let extents = shape(tensor.r#type());
        let at: Vec<Ix> = operands(extract)[1..]
            .iter()
            .zip(extents)
            .map(|(x, extent)| match self.get(b, &map, *x) {
                Scalar::Index(e) if self.ix.lanes(e) > 1 => e,
                x => self.in_bounds(b, x, extent),
            })
            .collect();
        Some(self.eval(b, tensor, &at))
    }
    /// The body of `nest` at `loops`, lane after lane from lane `first` on, each continuing from the last one's
    /// accumulators.
    pub fn chain(
        &mut self,
        b: &B<'c>,
        nest: &Nest<'c>,
        loops: &[Ix],
        first: i64,
        accumulators: &[V<'c>],
    ) -> Vec<V<'c>> {
        let ins = self.body_inputs(b, nest, loops);
        let lanes = loops.iter().map(|i| self.ix.lanes(*i)).max().unwrap_or(1);
        let mut carried = accumulators.to_vec();
        for k in first..lanes {
            let mut map = Scalars::new();
            for (i, x) in ins.iter().enumerate() {
                if let Some(x) = x {
                    let x = if x.len() == 1 { x[0] } else { x[k as usize] };
                    map.insert(key(arg(nest.body, i)), Scalar::Value(x));
                }
            }
            for (i, x) in carried.iter().enumerate() {
                map.insert(key(arg(nest.body, nest.ins.len() + i)), Scalar::Value(*x));
            }
            let at: Vec<Ix> = loops.iter().map(|i| self.ix.at_lane(*i, k)).collect();
            carried = self.body(b, nest.body, &mut map, &at).1;
        }
        carried
    }
    pub fn body_inputs(&mut self, b: &B<'c>, nest: &Nest<'c>, loops: &[Ix]) -> Vec<Option<Lanes<'c>>> {
        (0..nest.ins.len()).map(|i| self.body_input(b, nest, i, loops)).collect()
    }
    pub fn body_input(&mut self, b: &B<'c>, nest: &Nest<'c>, i: usize, loops: &[Ix]) -> Option<Lanes<'c>> {
        if !nest.reads_argument(i) {
            return None;
        }
        if !is_tensor(nest.ins[i].r#type()) {
            return Some(vec![self.outside(b, nest.ins[i])]);
        }
        let at = nest.in_index(self, i, loops);
        Some(self.eval(b, nest.ins[i], &at))
    }

    pub fn scalar(&mut self, b: &B<'c>, x: Scalar<'c>) -> V<'c> {
        match x {
            Scalar::Value(v) => v,
            Scalar::Index(e) => self.ssa(b, e),
        }
    }
    /// A scalar that is defined at function level.
    pub fn outside(&mut self, b: &B<'c>, x: V<'c>) -> V<'c> {
        if let Some(v) = self.recall(x, &[]) {
            return v[0];
        }
        let op = def(x).expect("checked: dispatches have tensor arguments");
        let mut map = Scalars::new();
        self.rebuild(b, op, &mut map, &[]);
        let v = self.scalar(b, map[&key(x)]);
        self.remember(x, &[], &vec![v]);
        v
    }
    /// One value of a body that needs only what is in `map`, rebuilt with what it needs.
    pub fn value_in(&mut self, b: &B<'c>, x: V<'c>, map: &mut Scalars<'c>) -> V<'c> {
        if !map.contains_key(&key(x))
            && let Some(op) = def(x)
        {
            for y in operands(op) {
                self.value_in(b, y, map);
            }
            self.rebuild(b, op, map, &[]);
        }
        let y = self.get(b, map, x);
        self.scalar(b, y)
    }
    fn get(&mut self, b: &B<'c>, map: &Scalars<'c>, x: V<'c>) -> Scalar<'c> {
        match map.get(&key(x)) {
            Some(y) => *y,
            None => match constant_int(x).filter(|_| is_index(x.r#type())) {
                Some(k) => Scalar::Index(self.ix.constant(k)),
                None => Scalar::Value(self.outside(b, x)),
            },
        }
    }
    /// Rebuilds a block at the builder's place; its terminator is returned, by name and operands, not written.
    pub fn body(&mut self, b: &B<'c>, block: Blk<'c>, map: &mut Scalars<'c>, loops: &[Ix]) -> (&'c str, Vec<V<'c>>) {
        let all = ops(block);
        let (last, rest) = all.split_last().expect("a block ends in a terminator");
        for op in rest {
            self.rebuild(b, *op, map, loops);
        }
        let operands = operands(*last).into_iter().map(|x| self.get(b, map, x)).collect::<Vec<_>>();
        (name(*last), operands.into_iter().map(|x| self.scalar(b, x)).collect())
    }
    fn rebuild(&mut self, b: &B<'c>, op: O<'c>, map: &mut Scalars<'c>, loops: &[Ix]) {
        if name(op) == "arith.mulf" && matches!(uses(result(op, 0))[..], [(add, _)] if contraction(add).is_some()) {
            return;
        }
        if let Some(factors) = contraction(op) {
            let all = factors.map(|x| self.get(b, map, x)).map(|x| self.scalar(b, x));
            map.insert(key(result(op, 0)), Scalar::Value(b.same("math.fma", &all)));
            return;
        }
        let operands: Vec<Scalar> =
            operands(op).into_iter().filter(|x| !is_tensor(x.r#type())).map(|x| self.get(b, map, x)).collect();
        if name(op) == "arith.extf"
            && let [Scalar::Value(x)] = operands[..]
            && let Some(wide) = self.exact.get(&key(x)).copied()
            && wide.r#type() == result(op, 0).r#type()
        {
            map.insert(key(result(op, 0)), Scalar::Value(wide));
            return;
        }
        if let Some(e) = self.symbolic(op, &operands, loops) {
            map.insert(key(result(op, 0)), Scalar::Index(e));
            return;
        }
        match name(op) {
            "arith.constant" => {
                let v = self.constant(attr(op, "value").expect("a constant has a value"), result(op, 0).r#type());
                map.insert(key(result(op, 0)), Scalar::Value(v));
            }
            "tensor.extract" => {
                let tensor = operand(op, 0);
                let extents = shape(tensor.r#type());
                let at: Vec<Ix> =
                    operands.iter().zip(extents).map(|(x, extent)| self.in_bounds(b, *x, extent)).collect();
                let v = self.eval(b, tensor, &at)[0];
                map.insert(key(result(op, 0)), Scalar::Value(v));
            }
            _ => {
                let operands: Vec<V> = operands.into_iter().map(|x| self.scalar(b, x)).collect();
                if let [y] = results(op)[..]
                    && INTEGER.contains(&name(op))
                {
                    let t = y.r#type();
                    let new = self.integer(name(op), &operands, t, || b.op1(name(op), &operands, t, &attributes(op)));
                    let new = if is_index(t) {
                        Scalar::Index(self.ix.value(new, int_range(new, 4)))
                    } else {
                        Scalar::Value(new)
                    };
                    map.insert(key(y), new);
                    return;
                }
                let regions: Vec<Region> = (0..op.region_count()).map(|r| self.region(b, op, r, map, loops)).collect();
                let types: Vec<Type> = results(op).iter().map(ValueLike::r#type).collect();
                let new = b.op(name(op), &operands, &types, &attributes(op), regions);
                for (old, new) in results(op).into_iter().zip(results(new)) {
                    let ranged = is_index(new.r#type()).then(|| int_range(new, 4));
                    map.insert(
                        key(old),
                        match ranged {
                            Some(range) => Scalar::Index(self.ix.value(new, range)),
                            None => Scalar::Value(new),
                        },
                    );
                }
            }
        }
    }
    fn region(&mut self, b: &B<'c>, op: O<'c>, r: usize, map: &Scalars<'c>, loops: &[Ix]) -> Region<'c> {
        if unsafe { mlir_sys::mlirRegionGetFirstBlock(mlir_sys::mlirOperationGetRegion(op.to_raw(), r as isize)) }
            .ptr
            .is_null()
        {
            return Region::new();
        }
        let inner = block(op, r);
        let types: Vec<Type> = args(inner).iter().map(ValueLike::r#type).collect();
        b.region(&types, |b, values| {
            self.scoped(|em| {
                let mut map = map.clone();
                for (old, new) in args(inner).into_iter().zip(values) {
                    let new =
                        if is_index(new.r#type()) { Scalar::Index(em.ix.unknown(*new)) } else { Scalar::Value(*new) };
                    map.insert(key(old), new);
                }
                let (end, operands) = em.body(b, inner, &mut map, loops);
                b.op(end, &operands, &[], &[], vec![]);
            });
        })
    }
    /// An index that is in 0 .. extent-1 because the source says so.
    fn in_bounds(&mut self, b: &B<'c>, x: Scalar<'c>, extent: i64) -> Ix {
        match x {
            Scalar::Index(e) if self.ix.within(e, extent) => e,
            x => {
                let v = self.scalar(b, x);
                self.ix.value(v, (0, extent - 1))
            }
        }
    }
    fn symbolic(&mut self, op: O<'c>, operands: &[Scalar<'c>], loops: &[Ix]) -> Option<Ix> {
        if op.result_count() != 1 || !is_index(result(op, 0).r#type()) {
            return None;
        }
        if name(op) == "linalg.index" {
            return Some(loops[int_attr(op, "dim")? as usize]);
        }
        if let Some(k) = constant_int(result(op, 0)) {
            return Some(self.ix.constant(k));
        }
        let [Scalar::Index(x), Scalar::Index(y)] = operands[..] else { return None };
        match name(op) {
            "arith.addi" => Some(self.ix.add(x, y)),
            "arith.subi" => {
                let y = self.ix.scale(y, -1);
                Some(self.ix.add(x, y))
            }
            "arith.muli" => match (self.ix.as_constant(x), self.ix.as_constant(y)) {
                (_, Some(k)) => Some(self.ix.scale(x, k)),
                (Some(k), _) => Some(self.ix.scale(y, k)),
                _ => None,
            },
            _ => None,
        }
    }
}
