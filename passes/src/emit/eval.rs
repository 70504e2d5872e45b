//! The elemental engine: the value of any level 1 tensor at an index, recursing through its producers down to buffers.
//! The index may hold the lane atom: then it is n values at once, and what the lanes do not touch is computed once.
//!
//! It must not know what kernel it is part of: emitters decide who evaluates what, and hand over what they computed
//! themselves as [`Em::heroes`].

use super::{
    body::Scalars,
    build::{Em, Lanes},
    index::Ix,
    nest::Nest,
};
use crate::ir::*;
use melior::ir::Attribute;
use mlir_sys::{mlirDenseElementsAttrGetSplatValue, mlirDenseElementsAttrIsSplat};

impl<'c> Em<'c> {
    /// Tensor `x` at `at`: one value for each lane of `at`, or one for all.
    pub fn eval(&mut self, b: &B<'c>, x: V<'c>, at: &[Ix]) -> Lanes<'c> {
        if let Some(lanes) = self.recall(x, at) {
            self.watch(x, at, &lanes);
            return lanes;
        }
        let lanes = match self.buffers.get(&key(x)) {
            _ if self.staged.contains_key(&key(x)) => {
                let staged = self.staged[&key(x)].clone();
                let at = self.ix.linear(at, &shape(x.r#type()));
                staged.load(self, b, at)
            }
            Some(memory) => {
                let memory = *memory;
                let at = self.ix.linear(at, &shape(x.r#type()));
                self.load(b, memory, at)
            }
            None => self.produce(b, x, at),
        };
        if self.buffers.contains_key(&key(x)) && lanes.len() == 1 && !self.staged.contains_key(&key(x)) {
            // Read as it is, whatever is only fetched beside it.
            self.remember_always(x, at, &lanes);
        } else {
            self.remember(x, at, &lanes);
        }
        self.watch(x, at, &lanes);
        lanes
    }
    fn watch(&mut self, x: V<'c>, at: &[Ix], lanes: &Lanes<'c>) {
        if let Some(seen) = self.watched.get_mut(&key(x)) {
            *seen = Some((at.to_vec(), lanes.clone()));
        }
    }
    fn lanes_of(&self, at: &[Ix]) -> i64 {
        at.iter().map(|i| self.ix.lanes(*i)).max().unwrap_or(1)
    }
    fn each_lane(&mut self, b: &B<'c>, x: V<'c>, at: &[Ix]) -> Lanes<'c> {
        (0..self.lanes_of(at))
            .map(|k| {
                let at: Vec<Ix> = at.iter().map(|i| self.ix.at_lane(*i, k)).collect();
                self.eval(b, x, &at)[0]
            })
            .collect()
    }
    /// Where element `at` of `x` lies in memory, if it lies there as it is.
    pub fn place(&mut self, x: V<'c>, at: &[Ix]) -> Option<(V<'c>, Ix)> {
        if let Some(memory) = self.buffers.get(&key(x)) {
            let memory = *memory;
            return Some((memory, self.ix.linear(at, &shape(x.r#type()))));
        }
        let (source, from) = self.same_element(x, def(x)?, at)?;
        self.place(source, &from)
    }
    /// For an op that only moves elements, by shape or window: its operand, and the index there.
    fn same_element(&mut self, x: V<'c>, op: O<'c>, at: &[Ix]) -> Option<(V<'c>, Vec<Ix>)> {
        let from = match name(op) {
            "tensor.expand_shape" => {
                let extents = shape(x.r#type());
                let linear = |group: &Vec<usize>| {
                    let index: Vec<Ix> = group.iter().map(|d| at[*d]).collect();
                    let extents: Vec<i64> = group.iter().map(|d| extents[*d]).collect();
                    self.ix.linear(&index, &extents)
                };
                reassociation(op).iter().map(linear).collect()
            }
            "tensor.collapse_shape" => {
                let extents = shape(operand(op, 0).r#type());
                let groups = reassociation(op);
                if groups.is_empty() {
                    vec![self.ix.constant(0); extents.len()]
                } else {
                    let parts = groups.iter().zip(at).flat_map(|(group, i)| {
                        let extents: Vec<i64> = group.iter().map(|d| extents[*d]).collect();
                        self.ix.delinear(*i, &extents)
                    });
                    parts.collect()
                }
            }
            "tensor.extract_slice" => Slice::of(op).outer(self, at, &shape(x.r#type())),
            _ => return None,
        };
        Some((operand(op, 0), from))
    }
    /// Where element `at` of `x` needs `target`, through reshapes, windows and elementwise ops.
    pub fn index_in(&mut self, x: V<'c>, at: &[Ix], target: V<'c>) -> Option<Vec<Ix>> {
        if key(x) == key(target) {
            return Some(at.to_vec());
        }
        let op = def(x)?;
        if let Some((source, from)) = self.same_element(x, op, at) {
            return self.index_in(source, &from, target);
        }
        let nest = Nest::of(op).filter(Nest::is_parallel)?;
        let loops: Option<Vec<Ix>> = nest.loops_at(self, result_number(x), at).into_iter().collect();
        let loops = loops?;
        (0..nest.ins.len()).filter(|i| is_tensor(nest.ins[*i].r#type())).find_map(|i| {
            let at = nest.in_index(self, i, &loops);
            self.index_in(nest.ins[i], &at, target)
        })
    }
    fn produce(&mut self, b: &B<'c>, x: V<'c>, at: &[Ix]) -> Lanes<'c> {
        let op = def(x).expect("checked: every argument of a dispatch has a buffer");
        if let Some((source, from)) = self.same_element(x, op, at) {
            return self.eval(b, source, &from);
        }
        if let Some(nest) = Nest::of(op) {
            return self.nest(b, &nest, result_number(x), at);
        }
        match name(op) {
            "linalg.fill" => vec![self.outside(b, operand(op, 0))],
            "tensor.empty" => vec![self.zero(elem(x.r#type()))],
            "tensor.splat" => vec![self.outside(b, operand(op, 0))],
            "tensor.from_elements" => vec![self.outside(b, operand(op, 0))],
            "arith.constant" => {
                let value = attr(op, "value").expect("a constant has a value");
                // Sound: the attribute is a splat, which `check` and this function's callers know.
                debug_assert!(unsafe { mlirDenseElementsAttrIsSplat(value.to_raw()) });
                let splat = unsafe { Attribute::from_raw(mlirDenseElementsAttrGetSplatValue(value.to_raw())) };
                vec![self.constant(splat, elem(x.r#type()))]
            }
            "tensor.insert_slice" => self.insert_slice(b, x, op, at),
            "tensor.pad" => self.pad(b, x, op, at),
            "tensor.concat" => {
                let dim = int_attr(op, "dim").expect("concat has a dimension") as usize;
                let pieces: Vec<V> = operands(op).into_iter().filter(|p| shape(p.r#type())[dim] > 0).collect();
                self.concat(b, x, dim, &pieces, 0, at)
            }
            "zml.dynamic_update_slice" => self.update_slice(b, x, op, at),
            other => unreachable!("{other} passed the check of dispatches"),
        }
    }
    /// A structured op: its body at the loops that write `at`, with serial loops where it reduces.
    fn nest(&mut self, b: &B<'c>, nest: &Nest<'c>, number: usize, at: &[Ix]) -> Lanes<'c> {
        let loops = nest.loops_at(self, number, at);
        if nest.is_parallel() {
            let loops: Vec<Ix> = loops.into_iter().map(|l| l.expect("every parallel loop writes")).collect();
            return self.inline(b, nest, &loops, None).swap_remove(number);
        }
        let n = self.lanes_of(at) as usize;
        let known: Vec<Ix> = loops.iter().map(|l| l.unwrap_or_else(|| self.ix.constant(0))).collect();
        let init: Vec<Lanes> = (0..nest.outs.len())
            .map(|i| {
                let at = nest.out_index(self, i, &known);
                let x = self.eval(b, nest.outs[i], &at);
                if x.len() == 1 { vec![x[0]; n] } else { x }
            })
            .collect();
        let split = self.split.take_if(|s| op_key(s.op) == op_key(nest.op) && n == 1);
        let all = match split {
            Some(split) => {
                let sum = self.shared_sum(b, &split, nest, &known, init[0][0]);
                self.split = Some(split);
                vec![vec![sum]]
            }
            None => self.serial(b, nest, &nest.reduction_loops(), &known, init),
        };
        for (i, lanes) in all.iter().enumerate() {
            let at = nest.out_index(self, i, &known);
            self.remember(result(nest.op, i), &at, lanes);
        }
        all.into_iter().nth(number).expect("one value for each result")
    }
    /// The reduction loops `dims` of a nest one inside the other, from accumulators by result, then lane.
    pub fn serial(
        &mut self,
        b: &B<'c>,
        nest: &Nest<'c>,
        dims: &[usize],
        loops: &[Ix],
        accumulators: Vec<Lanes<'c>>,
    ) -> Vec<Lanes<'c>> {
        let Some((d, rest)) = dims.split_first() else {
            return self.inline(b, nest, loops, Some(&accumulators));
        };
        let n = accumulators[0].len();
        let flat: Vec<V> = accumulators.into_iter().flatten().collect();
        let flat = self.for_each(b, nest.bounds[*d], &flat, |em, b, i, carried| {
            let mut loops = loops.to_vec();
            loops[*d] = i;
            let carried = carried.chunks(n).map(<[V]>::to_vec).collect();
            em.serial(b, nest, rest, &loops, carried).into_iter().flatten().collect()
        });
        flat.chunks(n).map(<[V]>::to_vec).collect()
    }

    /// Whether all lanes of `e` lie on one side of each of `edges`.
    fn on_one_side(&mut self, e: Ix, edges: &[i64]) -> bool {
        let n = self.ix.lanes(e);
        n == 1 || (self.ix.aligned_run(e).is_some() && edges.iter().all(|x| x % n == 0))
    }
    /// lo <= index < hi for each (index, lo, hi), as far as it is not known; `None` if it is. Each index has all its
    /// lanes on one side.
    fn inside(&mut self, b: &B<'c>, bounds: &[(Ix, i64, i64)]) -> Option<V<'c>> {
        let mut all: Option<V> = None;
        for (e, lo, hi) in bounds {
            let e = self.ix.at_lane(*e, 0);
            let (min, max) = self.ix.range(e);
            let mut conditions = vec![];
            if min < *lo {
                let (x, y) = (self.ssa(b, e), self.index(*lo));
                conditions.push(b.cmpi("sge", x, y));
            }
            if max >= *hi {
                let (x, y) = (self.ssa(b, e), self.index(*hi));
                conditions.push(b.cmpi("slt", x, y));
            }
            for c in conditions {
                all = Some(all.map_or(c, |a| b.same("arith.andi", &[a, c])));
            }
        }
        all
    }
    fn branch(
        &mut self,
        b: &B<'c>,
        x: V<'c>,
        condition: Option<V<'c>>,
        n: i64,
        f: impl FnOnce(&mut Self, &B<'c>) -> Lanes<'c>,
        g: impl FnOnce(&mut Self, &B<'c>) -> Lanes<'c>,
    ) -> Lanes<'c> {
        let Some(condition) = condition else { return f(self, b) };
        let n = n as usize;
        let wide = |lanes: Lanes<'c>| if lanes.len() == 1 { vec![lanes[0]; n] } else { lanes };
        self.if_else(b, condition, &vec![elem(x.r#type()); n], |em, b| wide(f(em, b)), |em, b| wide(g(em, b)))
    }
    fn pad(&mut self, b: &B<'c>, x: V<'c>, op: O<'c>, at: &[Ix]) -> Lanes<'c> {
        let source = operand(op, 0);
        let low = i64s_attr(op, "static_low").expect("pad has static edges");
        let extents = shape(source.r#type());
        let bounds: Vec<_> = (0..at.len()).map(|d| (at[d], low[d], low[d] + extents[d])).collect();
        if !bounds.iter().all(|(e, lo, hi)| self.on_one_side(*e, &[*lo, *hi])) {
            return self.each_lane(b, x, at);
        }
        let padding = |em: &mut Self, b: &B<'c>| {
            let (inner, mut map) = (block(op, 0), Scalars::new());
            em.body(b, inner, &mut map, at).1
        };
        if extents.contains(&0) {
            return padding(self, b);
        }
        let condition = self.inside(b, &bounds);
        let from: Vec<Ix> = at.iter().zip(&low).map(|(i, l)| self.ix.add_constant(*i, -l)).collect();
        self.branch(b, x, condition, self.lanes_of(at), |em, b| em.eval(b, source, &from), padding)
    }
    /// Reads only the piece that holds the index.
    fn concat(&mut self, b: &B<'c>, x: V<'c>, dim: usize, pieces: &[V<'c>], start: i64, at: &[Ix]) -> Lanes<'c> {
        let (first, rest) = pieces.split_first().expect("an element has a piece");
        let end = start + shape(first.r#type())[dim];
        let (min, max) = self.ix.range(at[dim]);
        if min >= end && !rest.is_empty() {
            return self.concat(b, x, dim, rest, end, at);
        }
        let mut from = at.to_vec();
        from[dim] = self.ix.add_constant(at[dim], -start);
        if max < end || rest.is_empty() {
            return self.eval(b, *first, &from);
        }
        if !self.on_one_side(at[dim], &[end]) {
            return self.each_lane(b, x, at);
        }
        let condition = self.inside(b, &[(at[dim], i64::MIN, end)]);
        self.branch(
            b,
            x,
            condition,
            self.lanes_of(at),
            |em, b| em.eval(b, *first, &from),
            |em, b| em.concat(b, x, dim, rest, end, at),
        )
    }
    fn insert_slice(&mut self, b: &B<'c>, x: V<'c>, op: O<'c>, at: &[Ix]) -> Lanes<'c> {
        let (source, target) = (operand(op, 0), operand(op, 1));
        let slice = Slice::of(op);
        if slice.sizes.contains(&0) {
            return self.eval(b, target, at);
        }
        let spans: Vec<i64> = slice.sizes.iter().zip(&slice.strides).map(|(n, s)| (n - 1) * s + 1).collect();
        let bounds: Vec<_> = (0..at.len()).map(|d| (at[d], slice.offsets[d], slice.offsets[d] + spans[d])).collect();
        let strided = slice.strides.iter().any(|s| *s != 1);
        if self.lanes_of(at) > 1 && (strided || !bounds.iter().all(|(e, lo, hi)| self.on_one_side(*e, &[*lo, *hi]))) {
            return self.each_lane(b, x, at);
        }
        let mut condition = self.inside(b, &bounds);
        let mut from = vec![];
        for (d, (index, stride)) in at.iter().zip(slice.strides.iter().copied()).enumerate() {
            let i = self.ix.add_constant(*index, -slice.offsets[d]);
            if stride > 1 {
                // Adding a multiple of the stride keeps the dividend of a remainder non-negative before the check.
                let before = (slice.offsets[d] + stride - 1) / stride * stride;
                let shifted = self.ix.add_constant(i, before);
                let (r, zero) = (self.ix.rem(shifted, stride), self.index(0));
                let r = self.ssa(b, r);
                let hit = b.cmpi("eq", r, zero);
                condition = Some(condition.map_or(hit, |c| b.same("arith.andi", &[c, hit])));
            }
            from.push(self.ix.div(i, stride));
        }
        let from = slice.inner(&from, &shape(source.r#type()));
        self.branch(
            b,
            x,
            condition,
            self.lanes_of(at),
            |em, b| em.eval(b, source, &from),
            |em, b| em.eval(b, target, at),
        )
    }
    fn update_slice(&mut self, b: &B<'c>, x: V<'c>, op: O<'c>, at: &[Ix]) -> Lanes<'c> {
        if self.lanes_of(at) > 1 {
            // Where the run's dimension is replaced as a whole, its lanes do not matter.
            let (whole, part) = (shape(x.r#type()), shape(operand(op, 1).r#type()));
            if (0..at.len()).any(|d| self.ix.lanes(at[d]) > 1 && whole[d] != part[d]) {
                return self.each_lane(b, x, at);
            }
        }
        let update = operand(op, 1);
        let extents = shape(update.r#type());
        if extents.contains(&0) {
            return self.eval(b, operand(op, 0), at);
        }
        let starts = self.update_starts(b, op);
        let mut bounds = vec![];
        let mut from = vec![];
        for d in 0..at.len() {
            let minus = self.ix.scale(starts[d], -1);
            let i = self.ix.add(at[d], minus);
            bounds.push((i, 0, extents[d]));
            from.push(i);
        }
        let condition = self.inside(b, &bounds);
        self.branch(
            b,
            x,
            condition,
            self.lanes_of(at),
            |em, b| em.eval(b, update, &from),
            |em, b| em.eval(b, operand(op, 0), at),
        )
    }
    /// Clamped start indices of a `zml.dynamic_update_slice`.
    pub fn update_starts(&mut self, b: &B<'c>, op: O<'c>) -> Vec<Ix> {
        let (whole, part) = (shape(operand(op, 0).r#type()), shape(operand(op, 1).r#type()));
        let unsigned = has_attr(op, "unsigned_starts");
        (0..whole.len())
            .map(|d| {
                let last = whole[d] - part[d];
                let start = operand(op, 2 + d);
                if last == 0 {
                    return self.ix.constant(0);
                }
                // A rank 0 tensor has no other value with an index: the clamped start is kept there.
                let kept = [self.ix.constant(last)];
                let clamped = match self.remembered(start, &kept) {
                    Some(v) => v[0],
                    None => {
                        let x = self.eval(b, start, &[])[0];
                        let v = self.clamp(b, x, last, unsigned);
                        self.remember(start, &kept, &vec![v]);
                        v
                    }
                };
                self.ix.value(clamped, (0, last))
            })
            .collect()
    }
    /// An integer clamped to 0 .. last, as an index.
    fn clamp(&mut self, b: &B<'c>, x: V<'c>, last: i64, unsigned: bool) -> V<'c> {
        let t = x.r#type();
        let width = bits(t);
        let mut x = x;
        let largest = if width >= 63 { i64::MAX } else { (1 << (width - u32::from(!unsigned))) - 1 };
        if last < largest {
            let last = self.int(t, last);
            x = b.same(if unsigned { "arith.minui" } else { "arith.minsi" }, &[x, last]);
        }
        if !unsigned {
            let zero = self.int(t, 0);
            x = b.same("arith.maxsi", &[x, zero]);
        }
        b.op1("arith.index_castui", &[x], b.index(), &[])
    }
}

/// The static window of extract_slice and insert_slice; the small tensor may lack dimensions of extent 1.
struct Slice {
    offsets: Vec<i64>,
    sizes: Vec<i64>,
    strides: Vec<i64>,
}
impl Slice {
    fn of(op: O) -> Self {
        let get = |name| i64s_attr(op, name).expect("slices have static windows");
        Slice { offsets: get("static_offsets"), sizes: get("static_sizes"), strides: get("static_strides") }
    }
    /// For each dimension of the large tensor, the one of the small tensor, if it is there.
    fn kept(&self, small: &[i64]) -> Vec<Option<usize>> {
        let mut dropped = self.sizes.len() - small.len();
        let mut next = 0;
        self.sizes
            .iter()
            .map(|n| {
                if dropped > 0 && *n == 1 && small.get(next) != Some(&1) {
                    dropped -= 1;
                    return None;
                }
                next += 1;
                Some(next - 1)
            })
            .collect()
    }
    fn outer<'c>(&self, em: &mut Em<'c>, at: &[Ix], small: &[i64]) -> Vec<Ix> {
        self.kept(small)
            .into_iter()
            .enumerate()
            .map(|(d, kept)| {
                let i = kept.map_or_else(|| em.ix.constant(0), |j| at[j]);
                let i = em.ix.scale(i, self.strides[d]);
                em.ix.add_constant(i, self.offsets[d])
            })
            .collect()
    }
    fn inner(&self, at: &[Ix], small: &[i64]) -> Vec<Ix> {
        self.kept(small).into_iter().enumerate().filter_map(|(d, kept)| kept.map(|_| at[d])).collect()
    }
}
