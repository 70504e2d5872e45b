//! Ops of tensor that only move elements.

use super::{
    Evaluator, Shared,
    tensor::{Tensor, each},
};
use crate::ir::*;
use std::rc::Rc;

impl<'c> Evaluator<'c, '_> {
    /// The same elements in the shape of the result.
    pub(super) fn reshape(&mut self, op: O<'c>) -> Result<Vec<Shared>, String> {
        let from = self.get(operand(op, 0))?;
        Ok(vec![Rc::new(Tensor { shape: shape(result(op, 0).r#type()), ..(*from).clone() })])
    }

    pub(super) fn slice(&mut self, op: O<'c>) -> Result<Vec<Shared>, String> {
        let from = self.get(operand(op, 0))?;
        let list = |n: &str| i64s_attr(op, n).unwrap_or_default();
        let (offsets, sizes, steps) = (list("static_offsets"), list("static_sizes"), list("static_strides"));
        if op.operand_count() > 1 {
            return Err("no evaluation of a slice at positions that are computed".into());
        }
        let strides = from.strides();
        let mut out = Tensor { kind: from.kind, shape: shape(result(op, 0).r#type()), words: vec![] };
        each(&sizes, |at| {
            let place: i64 = (0..at.len()).map(|d| (offsets[d] + at[d] * steps[d]) * strides[d]).sum();
            out.words.push(from.words[place as usize]);
        });
        Ok(vec![Rc::new(out)])
    }

    pub(super) fn pad(&mut self, op: O<'c>) -> Result<Vec<Shared>, String> {
        let from = self.get(operand(op, 0))?;
        let low = i64s_attr(op, "static_low").unwrap_or_default();
        let padding = *operands(*ops(block(op, 0)).last().ok_or("a pad without a body")?)
            .first()
            .ok_or("a pad without a value")?;
        let padding = match self.get(padding) {
            Ok(t) => t,
            // A constant inside the pad's region.
            Err(e) => {
                let d = def(padding).filter(|d| name(*d) == "arith.constant").ok_or(e)?;
                Rc::new(Tensor::constant(attr(d, "value").ok_or("a constant without a value")?, padding.r#type())?)
            }
        };
        let mut out = Tensor::zeros(result(op, 0).r#type())?;
        out.words.fill(padding.words[0]);
        let (strides, mut place) = (out.strides(), 0);
        each(&from.shape, |at| {
            let to: i64 = (0..at.len()).map(|d| (low[d] + at[d]) * strides[d]).sum();
            out.words[to as usize] = from.words[place];
            place += 1;
        });
        Ok(vec![Rc::new(out)])
    }

    pub(super) fn concat(&mut self, op: O<'c>) -> Result<Vec<Shared>, String> {
        let dim = int_attr(op, "dim").ok_or("a concat without dim")? as usize;
        let mut out = Tensor::zeros(result(op, 0).r#type())?;
        let strides = out.strides();
        let mut begin = 0;
        for v in operands(op) {
            let from = self.get(v)?;
            let mut place = 0;
            each(&from.shape, |at| {
                let to: i64 = (0..at.len()).map(|d| (at[d] + if d == dim { begin } else { 0 }) * strides[d]).sum();
                out.words[to as usize] = from.words[place];
                place += 1;
            });
            begin += from.shape[dim];
        }
        Ok(vec![Rc::new(out)])
    }

    pub(super) fn update_slice(&mut self, op: O<'c>) -> Result<Vec<Shared>, String> {
        let mut out = (*self.get(operand(op, 0))?).clone();
        let update = self.get(operand(op, 1))?;
        let unsigned = has_attr(op, "unsigned_starts");
        let mut starts = vec![];
        for (d, v) in operands(op)[2..].iter().enumerate() {
            let t = self.get(*v)?;
            let room = out.shape[d] - update.shape[d];
            let start: i128 = if unsigned { t.kind.unsigned(t.words[0]).into() } else { (t.words[0] as i64).into() };
            starts.push(start.clamp(0, room.into()) as i64);
        }
        let (strides, mut place) = (out.strides(), 0);
        each(&update.shape, |at| {
            let to: i64 = (0..at.len()).map(|d| (starts[d] + at[d]) * strides[d]).sum();
            out.words[to as usize] = update.words[place];
            place += 1;
        });
        Ok(vec![Rc::new(out)])
    }
}
