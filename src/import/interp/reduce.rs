//! Ops that run a region on elements: reduce, map, sort, scatter. Regions of elementwise ops run on whole tensors at once.

use super::{
    R, Run, Tensor,
    gather::scatter_places,
    tensor::{dot_index, each_index, strides},
};
use crate::tree::{Block, Op, OpKind};

pub(super) fn has_region(k: &OpKind) -> bool {
    matches!(
        k,
        OpKind::Reduce { .. }
            | OpKind::ReduceWindow(_)
            | OpKind::SelectAndScatter { .. }
            | OpKind::Map { .. }
            | OpKind::Sort { .. }
            | OpKind::Scatter { .. }
    )
}

/// Whether a region means the same on tensors of any shape, element by element.
fn is_elementwise(b: &Block) -> bool {
    b.ops.iter().all(|op| {
        matches!(
            op.kind,
            OpKind::Unary(_)
                | OpKind::Binary(_)
                | OpKind::Compare { .. }
                | OpKind::Select
                | OpKind::Clamp
                | OpKind::Convert
        )
    })
}

impl<'a> Run<'a> {
    pub(super) fn with_region(&mut self, op: &'a Op) -> R<()> {
        let x = op.operands.iter().map(|v| self.tensor(*v).cloned()).collect::<R<Vec<_>>>()?;
        let results = match &op.kind {
            OpKind::Reduce { dims } => self.reduce(&x, dims, &op.regions[0])?,
            OpKind::ReduceWindow(w) => self.reduce_window(&x, w, &op.regions[0])?,
            OpKind::SelectAndScatter { window_dimensions, window_strides, padding } => {
                let w = (&window_dimensions[..], &window_strides[..], &padding[..]);
                vec![self.select_and_scatter(&x, w, &op.regions[0], &op.regions[1])?]
            }
            OpKind::Map { .. } => {
                let n = x[0].elements();
                let shape = x[0].shape.clone();
                self.apply(&op.regions[0], x, n, &shape)?
            }
            OpKind::Sort { dim, .. } => self.sort(&x, *dim, &op.regions[0])?,
            OpKind::Scatter { dims, .. } => self.scatter(&x, dims, &op.regions[0])?,
            _ => unreachable!("the list of has_region"),
        };
        for (v, t) in op.results.iter().zip(results) {
            // A region may compute in a wider type than the result's element... which then has the region's type.
            self.set(*v, t);
        }
        Ok(())
    }

    /// The region on the elements of tensors of one shape.
    pub(super) fn apply(&mut self, b: &'a Block, args: Vec<Tensor>, n: usize, shape: &[u64]) -> R<Vec<Tensor>> {
        if is_elementwise(b) && n != 1 {
            let mut out = self.block_tensors(b, args)?;
            for t in &mut out {
                // A result that does not depend on the arguments is a scalar.
                if t.shape.is_empty() && !shape.is_empty() {
                    t.bytes = t.bytes.repeat(n);
                    t.shape = shape.to_vec();
                }
            }
            return Ok(out);
        }
        let mut out: Vec<Tensor> = vec![];
        for i in 0..n {
            let results = self.block_tensors(b, args.iter().map(|t| t.at(i)))?;
            if out.is_empty() {
                out = results.iter().map(|r| Tensor { dtype: r.dtype, shape: shape.to_vec(), bytes: vec![] }).collect();
            }
            for (o, r) in out.iter_mut().zip(results) {
                o.bytes.extend_from_slice(&r.bytes);
            }
        }
        if n == 0 {
            let types = b.results.iter().map(|r| self.func.tensor(*r).dtype);
            out = types.map(|dtype| Tensor { dtype, shape: shape.to_vec(), bytes: vec![] }).collect();
        }
        Ok(out)
    }

    fn reduce(&mut self, x: &[Tensor], dims: &[u64], b: &'a Block) -> R<Vec<Tensor>> {
        let n = x.len() / 2;
        let (inputs, inits) = x.split_at(n);
        let sizes = inputs[0].dims();
        let reduced = |k: usize| dims.contains(&(k as u64));
        let kept: Vec<usize> = (0..sizes.len()).filter(|k| !reduced(*k)).collect();
        let shape: Vec<u64> = kept.iter().map(|k| sizes[*k] as u64).collect();
        let count = shape.iter().product::<u64>() as usize;
        let steps = strides(&sizes);
        let kept_sizes: Vec<usize> = kept.iter().map(|k| sizes[*k]).collect();
        let kept_steps: Vec<usize> = kept.iter().map(|k| steps[*k]).collect();
        let mut bases = vec![];
        each_index(&kept_sizes, |i| bases.push(dot_index(i, &kept_steps)));
        let sum_sizes: Vec<usize> = (0..sizes.len()).filter(|k| reduced(*k)).map(|k| sizes[k]).collect();
        let sum_steps: Vec<usize> = (0..sizes.len()).filter(|k| reduced(*k)).map(|k| steps[k]).collect();
        let mut offsets = vec![];
        each_index(&sum_sizes, |i| offsets.push(dot_index(i, &sum_steps)));
        let mut acc: Vec<Tensor> = inits
            .iter()
            .map(|t| Tensor { dtype: t.dtype, shape: shape.clone(), bytes: t.bytes.repeat(count) })
            .collect();
        for o in offsets {
            let places: Vec<usize> = bases.iter().map(|b| b + o).collect();
            let next = inputs.iter().map(|t| super::shape::elements_at(t, shape.clone(), &places));
            let args = acc.into_iter().chain(next).collect();
            acc = self.apply(b, args, count, &shape)?;
        }
        Ok(acc)
    }

    fn sort(&mut self, x: &[Tensor], dim: i64, b: &'a Block) -> R<Vec<Tensor>> {
        let sizes = x[0].dims();
        if sizes.is_empty() {
            return Ok(x.to_vec());
        }
        let dim = if dim < 0 { dim + sizes.len() as i64 } else { dim } as usize;
        let step = strides(&sizes)[dim];
        let length = sizes[dim];
        let mut others = sizes.clone();
        others[dim] = 1.min(length);
        let steps = strides(&sizes);
        let mut bases = vec![];
        each_index(&others, |i| bases.push(dot_index(i, &steps)));
        let mut from = vec![0usize; x[0].elements()];
        for base in bases {
            let places: Vec<usize> = (0..length).map(|i| base + i * step).collect();
            let sorted = self.merge_sort(places.clone(), x, b)?;
            for (p, s) in places.into_iter().zip(sorted) {
                from[p] = s;
            }
        }
        Ok(x.iter().map(|t| super::shape::elements_at(t, t.shape.clone(), &from)).collect())
    }

    /// Stable; never asks for more than the comparator can answer, whatever order that is.
    fn merge_sort(&mut self, list: Vec<usize>, x: &[Tensor], b: &'a Block) -> R<Vec<usize>> {
        if list.len() < 2 {
            return Ok(list);
        }
        let mut left = list;
        let right = left.split_off(left.len() / 2);
        let left = self.merge_sort(left, x, b)?;
        let right = self.merge_sort(right, x, b)?;
        let mut out = Vec::with_capacity(left.len() + right.len());
        let (mut i, mut j) = (0, 0);
        while i < left.len() && j < right.len() {
            let args = x.iter().flat_map(|t| [t.at(right[j]), t.at(left[i])]).collect::<Vec<_>>();
            let right_first = self.block_tensors(b, args)?[0].is_true(0);
            if right_first {
                out.push(right[j]);
                j += 1;
            } else {
                out.push(left[i]);
                i += 1;
            }
        }
        out.extend_from_slice(&left[i..]);
        out.extend_from_slice(&right[j..]);
        Ok(out)
    }

    fn scatter(&mut self, x: &[Tensor], dims: &crate::tree::ScatterDims, b: &'a Block) -> R<Vec<Tensor>> {
        let n = (x.len() - 1) / 2;
        let (inputs, rest) = x.split_at(n);
        let (indices, updates) = (&rest[0], &rest[1..]);
        let mut out = inputs.to_vec();
        let places = scatter_places(&inputs[0].shape, indices, &updates[0].shape, dims);
        for (i, place) in places.into_iter().enumerate() {
            let Some(p) = place else { continue };
            let args = out.iter().map(|t| t.at(p)).chain(updates.iter().map(|t| t.at(i))).collect::<Vec<_>>();
            let results = self.block_tensors(b, args)?;
            for (t, r) in out.iter_mut().zip(results) {
                let w = r.bytes.len();
                t.bytes[p * w..(p + 1) * w].copy_from_slice(&r.bytes);
            }
        }
        Ok(out)
    }
}
