//! Elementwise ops: a generic of parallel loops around the scalar form, one for each real part of the result.

use super::{
    error::Refusal,
    lower::Cx,
    scalar,
    value::{Val, element, zero},
};
use crate::ir::B;
use std::cell::RefCell;
use zmlc_import::tree::{DType, OpKind};

/// Whether an op computes each element of its result from the operands' elements at the same place.
pub(super) fn is(kind: &OpKind) -> bool {
    use OpKind::{Binary, Clamp, Compare, Convert, ReducePrecision, Select, Unary};
    if let OpKind::Chlo(name) = kind {
        return scalar::is_chlo(name);
    }
    matches!(kind, Unary(_) | Binary(_) | Compare { .. } | Select | Clamp | Convert | ReducePrecision { .. })
}
/// The scalar form: `args` are elements of types `types`.
fn apply<'c>(b: &B<'c>, kind: &OpKind, types: &[DType], out: DType, args: &[Val<'c>]) -> Result<Val<'c>, Refusal> {
    use zmlc_import::tree::BinaryOp::{Maximum, Minimum};
    Ok(match kind {
        OpKind::Unary(op) => scalar::unary(b, *op, types[0], &args[0])?,
        OpKind::Binary(op) => scalar::binary(b, *op, types[0], &args[0], &args[1])?,
        OpKind::Compare { direction, ty } => {
            Val::One(scalar::compare(b, *direction, *ty, types[0], &args[0], &args[1])?)
        }
        OpKind::Select => scalar::select(b, args[0].one(), &args[1], &args[2]),
        OpKind::Clamp => {
            let at_least = scalar::binary(b, Maximum, out, &args[1], &args[0])?;
            scalar::binary(b, Minimum, out, &at_least, &args[2])?
        }
        OpKind::Convert => scalar::convert(b, types[0], out, &args[0])?,
        OpKind::ReducePrecision { exponent_bits, mantissa_bits } => {
            Val::One(scalar::reduce_precision(b, types[0], *exponent_bits, *mantissa_bits, args[0].one()))
        }
        OpKind::Chlo(name) => scalar::chlo_op(b, name, types[0], args)?,
        _ => panic!("not an elementwise op"),
    })
}
pub(super) fn lower_scalar<'c>(cx: &Cx<'_, '_, 'c>) -> Result<Val<'c>, Refusal> {
    let types: Vec<DType> = (0..cx.op.operands.len()).map(|i| cx.dtype(i)).collect();
    apply(&cx.b, &cx.op.kind, &types, cx.out(0).dtype, &cx.args())
}
pub(super) fn lower<'c>(cx: &Cx<'_, '_, 'c>) -> Result<Val<'c>, Refusal> {
    let types: Vec<DType> = (0..cx.op.operands.len()).map(|i| cx.dtype(i)).collect();
    let out = cx.out(0).dtype;
    map(&cx.b, &cx.out_shape(), out, &cx.args(), |b, args| apply(b, &cx.op.kind, &types, out, args))
}
/// map: the region on the elements at each place.
pub(super) fn map_region<'c>(cx: &mut Cx<'_, '_, 'c>) -> Result<Val<'c>, Refusal> {
    let (b, shape, out, args) = (cx.b, cx.out_shape(), cx.out(0).dtype, cx.args());
    let cx = RefCell::new(cx);
    map(&b, &shape, out, &args, |b, a| Ok(cx.borrow_mut().scalar_region(b, 0, a)[0].clone()))
}

/// A value of this shape whose elements `f` computes from those of `args`, each of the same shape or of rank 0.
pub(super) fn map<'c>(
    b: &B<'c>,
    shape: &[i64],
    out: DType,
    args: &[Val<'c>],
    f: impl Fn(&B<'c>, &[Val<'c>]) -> Result<Val<'c>, Refusal>,
) -> Result<Val<'c>, Refusal> {
    let identity: Vec<usize> = (0..shape.len()).collect();
    let ins: Vec<_> = args
        .iter()
        .flat_map(Val::parts)
        .map(|v| (v, if crate::ir::shape(crate::ir::ValueLike::r#type(&v)).is_empty() { &[][..] } else { &identity }))
        .collect();
    let refused = RefCell::new(None);
    let t = element(b, out);
    let parts: Vec<_> = (0..if out.is_complex() { 2 } else { 1 })
        .map(|part| {
            b.map(shape, t, &ins, |b, scalars| {
                let mut rest = scalars;
                let mut values = vec![];
                for a in args {
                    let (own, others) = rest.split_at(a.parts().len());
                    values.push(Val::of(own));
                    rest = others;
                }
                match f(b, &values) {
                    Ok(v) => v.parts()[part],
                    Err(r) => {
                        refused.replace(Some(r));
                        zero(b, t)
                    }
                }
            })
        })
        .collect();
    match refused.take() {
        None => Ok(Val::of(&parts)),
        Some(r) => Err(r),
    }
}
