//! Custom calls by which exporters write ops whose attributes are values: the op of the language once these are known.

use super::Work;
use crate::tree::{Attr, Block, DType, Op, OpKind, Type, ValueId, Window};

/// Whether a custom call stands for an op whose attributes are operands.
pub fn is_dynamic(target: &str) -> bool {
    matches!(
        target,
        "stablehlo.dynamic_reduce_window" | "stablehlo.dynamic_rng_bit_generator" | "stablehlo.dynamic_top_k"
    )
}

/// An op with the operands that it still has and, where an attribute gives it, its shape.
pub type StaticForm = (OpKind, Vec<ValueId>, Option<Vec<u64>>);

impl<'a> Work<'_, 'a> {
    /// The op that a custom call stands for.
    pub(super) fn static_call(&self, target: &str, op: &Op, operands: &[ValueId]) -> Option<StaticForm> {
        let ints = |i: usize| self.ints(*operands.get(i)?);
        match target {
            "stablehlo.dynamic_reduce_window" => {
                // Inputs, as many initial values, then dimensions, strides, dilations of both, and padding.
                let n = operands.len().checked_sub(5)?;
                let window = Window {
                    dimensions: ints(n)?,
                    strides: ints(n + 1)?,
                    base_dilations: ints(n + 2)?,
                    window_dilations: ints(n + 3)?,
                    padding: ints(n + 4)?.chunks_exact(2).map(|p| (p[0], p[1])).collect(),
                };
                Some((OpKind::ReduceWindow(Box::new(window)), operands[..n].to_vec(), None))
            }
            "stablehlo.dynamic_rng_bit_generator" => {
                let Some(Attr::Enum(_, _, algorithm) | Attr::Str(algorithm)) = op.attr("rng_algorithm") else {
                    return None;
                };
                let shape = ints(1)?.into_iter().map(|d| u64::try_from(d).ok()).collect::<Option<_>>()?;
                let kind = OpKind::RngBitGenerator { algorithm: algorithm.clone() };
                Some((kind, operands[..1].to_vec(), Some(shape)))
            }
            "stablehlo.dynamic_top_k" => {
                let k = u64::try_from(*ints(1)?.first()?).ok()?;
                let shape = self.with_last(operands[0], k)?;
                Some((OpKind::Chlo("top_k".into()), operands[..1].to_vec(), Some(shape)))
            }
            _ => None,
        }
    }

    /// The shape of a value with another last dimension.
    pub(super) fn with_last(&self, v: ValueId, size: u64) -> Option<Vec<u64>> {
        let Type::Tensor(t) = self.new.ty(v) else { return None };
        let mut shape = t.shape()?;
        *shape.last_mut()? = size;
        Some(shape)
    }

    /// A region that calls the function which a custom call names as its computation.
    pub(super) fn computation(&mut self, op: &'a Op, callee: &str) -> Option<Block> {
        let f = self.s.p.func(callee)?;
        let types: Vec<Type> = f.body.args.iter().map(|a| f.ty(*a).clone()).collect();
        let (name, results, _) = self.s.callee(callee, types.clone(), vec![None; types.len()], op.span)?;
        let like = *op.results.first()?;
        let args: Vec<ValueId> = types.into_iter().map(|t| self.fresh(like, t)).collect();
        let results: Vec<ValueId> = results.into_iter().map(|t| self.fresh(like, t)).collect();
        let call = Op::new(OpKind::Call { callee: name }, args.clone(), results.clone());
        let call = Op { loc: op.loc.clone(), span: op.span, ..call };
        Some(Block { args, ops: vec![call], results, span: op.span })
    }
}

/// The shape of a bitcast to another width: a last dimension comes or goes.
pub fn bitcast(shape: &[u64], from: DType, to: DType) -> Option<Vec<u64>> {
    let (from, to) = (u64::from(from.bits()), u64::from(to.bits()));
    if from == to {
        return Some(shape.to_vec());
    }
    if from > to {
        return Some([shape, &[from / to]].concat());
    }
    let (last, rest) = shape.split_last()?;
    (*last == to / from).then(|| rest.to_vec())
}
