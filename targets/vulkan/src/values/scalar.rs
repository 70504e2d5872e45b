//! One arith or math op on scalars: as it is where SPIR-V and MLIR's conversion do what MLIR means by it, and otherwise
//! in ops that do.

use super::{
    float, integer,
    rewrite::{Form, held},
};
use melior::ir::{Attribute, Type};
use zmlc_passes::{
    ir::{B, O, OperationLike, V, ValueLike, elem, name, operand, read, results},
    pass::PassError,
};

/// An op apart from its operands. Types are elements as the kernel was written, so bf16 is still there.
pub struct Scalar<'c> {
    pub name: &'c str,
    /// Of the first operand.
    pub from: Type<'c>,
    pub to: Vec<Type<'c>>,
    pub attributes: Vec<(&'c str, Attribute<'c>)>,
    pub form: Form,
}
impl<'c> Scalar<'c> {
    pub fn of(op: O<'c>, form: Form) -> Self {
        let to: Vec<Type> = results(op).iter().map(|r| elem(r.r#type())).collect();
        let from = if op.operand_count() > 0 { elem(operand(op, 0).r#type()) } else { to[0] };
        Scalar { name: name(op), from, to, attributes: read::attributes(op), form }
    }
    /// An op without attributes whose operands and result have one type.
    pub fn plain(name: &'c str, t: Type<'c>, form: Form) -> Self {
        Scalar { name, from: t, to: vec![t], attributes: vec![], form }
    }
    /// Writes it for held operands.
    pub fn emit(&self, b: &B<'c>, x: &[V<'c>]) -> Result<Vec<V<'c>>, PassError> {
        if let Some(y) = float::op(b, self, x)? {
            return Ok(vec![y]);
        }
        if let Some(y) = integer::op(b, self, x) {
            return Ok(vec![y]);
        }
        Ok(self.as_is(b, x))
    }
    pub fn as_is(&self, b: &B<'c>, x: &[V<'c>]) -> Vec<V<'c>> {
        let types: Vec<Type> = self.to.iter().map(|t| held(b, *t)).collect();
        results(b.op(self.name, x, &types, &self.attributes, vec![]))
    }
}
