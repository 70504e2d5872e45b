//! Slices whose start only the run knows and whose size is known: exporters write them as `real_dynamic_slice` from a start
//! to that start plus the sizes, in every loop over slices of a value with dynamic dimensions.

use super::Work;
use crate::tree::{BinaryOp, Op, OpKind, TensorType, Type, ValueId};
use std::collections::HashMap;

/// Sums of a value and a constant, by their results.
pub type Sums = HashMap<ValueId, (ValueId, Vec<i64>)>;

impl<'a> Work<'_, 'a> {
    pub(super) fn note_sum(&mut self, op: &Op) {
        let (OpKind::Binary(BinaryOp::Add), [a, b], [sum]) = (&op.kind, &op.operands[..], &op.results[..]) else {
            return;
        };
        let constant = match (self.ints(*a), self.ints(*b)) {
            (None, Some(n)) => (*a, n),
            (Some(n), None) => (*b, n),
            _ => return,
        };
        self.sums.insert(*sum, constant);
    }

    /// True if the slice became a `dynamic_slice`.
    pub(super) fn moving_slice(&mut self, op: &'a Op, operands: &[ValueId], out: &mut Vec<Op>) -> bool {
        let [x, start, limit, strides] = operands[..] else { return false };
        let Some((base, sizes)) = self.sums.get(&limit).cloned() else { return false };
        let by_one = self.ints(strides).is_some_and(|s| s.iter().all(|s| *s == 1));
        let (Type::Tensor(source), Type::Tensor(index)) = (self.new.ty(x).clone(), self.new.ty(start).clone()) else {
            return false;
        };
        let within = |(size, dim): (&i64, &Option<u64>)| *size >= 0 && dim.is_some_and(|d| *size as u64 <= d);
        if base != start || !by_one || !sizes.iter().zip(&source.dims).all(within) {
            return false;
        }
        let place = |kind: OpKind, operands: Vec<ValueId>, result: ValueId| Op {
            loc: op.loc.clone(),
            span: op.span,
            ..Op::new(kind, operands, vec![result])
        };
        let mut list = vec![x];
        for k in 0..sizes.len() as i64 {
            let one = self.fresh(op.results[0], Type::Tensor(TensorType::new(index.dtype, &[1])));
            let scalar = self.fresh(op.results[0], Type::Tensor(TensorType::new(index.dtype, &[])));
            let part = OpKind::Slice { start: vec![k], limit: vec![k + 1], strides: vec![1] };
            out.push(place(part, vec![start], one));
            out.push(place(OpKind::Reshape, vec![one], scalar));
            list.push(scalar);
        }
        let dims = sizes.iter().map(|n| Some(*n as u64)).collect();
        let result = self.define(op.results[0], Type::Tensor(TensorType { dims, bounds: vec![], ..source }));
        out.push(place(OpKind::DynamicSlice { sizes }, list, result));
        true
    }
}
