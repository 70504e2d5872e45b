//! StableHLO's element operations as arith and math on scalars: the bodies of generics, and the regions of reductions.
//! Semantics are the specification's, edge cases included; where it leaves a choice, XLA's.
//!
//! Floats below 32 bits compute in f32 and round after each op; integers below 8 bits compute in i8 and wrap.

mod chlo;
mod complex;
mod convert;
mod float;
mod int;
mod inverse;
mod real;
mod small_float;
mod special;

pub(super) use chlo::{apply as chlo_op, is_elementwise as is_chlo};
pub(super) use convert::{bits_of, convert, of_bits, reduce_precision};
pub(super) use real::Real;

use super::{error::Refusal, value::Val};
use crate::ir::{B, V};
use zmlc_import::tree::{BinaryOp, CompareType, DType, Direction, UnaryOp};

/// Element type that arithmetic on `d` is done in.
pub(super) fn wide(d: DType) -> DType {
    if d.is_float() && d.bits() < 32 { DType::F32 } else { d }
}
/// A float in the type that arithmetic is done in.
pub(super) fn widen<'c>(b: &B<'c>, d: DType, x: V<'c>) -> V<'c> {
    match d {
        DType::F16 | DType::BF16 => b.op1("arith.extf", &[x], b.f32(), &[]),
        d if wide(d) != d => small_float::decode(b, d, x),
        _ => x,
    }
}
/// Back to the element type, rounded to nearest even.
pub(super) fn narrow<'c>(b: &B<'c>, d: DType, x: V<'c>) -> V<'c> {
    match d {
        DType::F16 | DType::BF16 => b.op1("arith.truncf", &[x], super::value::element(b, d), &[]),
        d if wide(d) != d => small_float::encode(b, d, x),
        _ => x,
    }
}
fn no_op(op: &str, d: DType) -> Refusal {
    Refusal::dtype(format!("{op} has no meaning on {d}"))
}

/// `x` has element type `d`; the result's type follows from the op.
pub(super) fn unary<'c>(b: &B<'c>, op: UnaryOp, d: DType, x: &Val<'c>) -> Result<Val<'c>, Refusal> {
    match (op, x) {
        (_, Val::Complex(..)) => complex::unary(b, op, d, x),
        (UnaryOp::Real, _) => Ok(x.clone()),
        (UnaryOp::Imag, _) => Ok(Val::One(super::value::zero(b, super::value::element(b, d)))),
        (UnaryOp::IsFinite, _) if d.is_float() => Ok(Val::One(float::is_finite(b, widen(b, d, x.one())))),
        _ if d.is_float() => Ok(Val::One(narrow(b, d, float::unary(b, op, widen(b, d, x.one()))?))),
        _ => Ok(Val::One(int::unary(b, op, d, x.one())?)),
    }
}
/// Both operands have element type `d`.
pub(super) fn binary<'c>(b: &B<'c>, op: BinaryOp, d: DType, x: &Val<'c>, y: &Val<'c>) -> Result<Val<'c>, Refusal> {
    match op {
        BinaryOp::Complex => Ok(Val::Complex(x.one(), y.one())),
        _ if d.is_complex() => complex::binary(b, op, d, x, y),
        _ if d.is_float() => {
            let r = float::binary(b, op, widen(b, d, x.one()), widen(b, d, y.one()))?;
            Ok(Val::One(narrow(b, d, r)))
        }
        _ => Ok(Val::One(int::binary(b, op, d, x.one(), y.one())?)),
    }
}
pub(super) fn compare<'c>(
    b: &B<'c>,
    direction: Direction,
    ty: CompareType,
    d: DType,
    x: &Val<'c>,
    y: &Val<'c>,
) -> Result<V<'c>, Refusal> {
    if d.is_complex() {
        return complex::compare(b, direction, x, y);
    }
    let (x, y) = (x.one(), y.one());
    if d.is_float() {
        return Ok(if ty == CompareType::TotalOrder {
            let (x, y) = (float::total_order_key(b, d, x), float::total_order_key(b, d, y));
            b.cmpi(int_predicate(direction, true), x, y)
        } else {
            b.cmpf(float_predicate(direction), widen(b, d, x), widen(b, d, y))
        });
    }
    Ok(b.cmpi(int_predicate(direction, d.is_signed_int()), x, y))
}
/// Whether `x` comes before `y` in falling order; floats in IEEE 754's total order.
pub(super) fn descending<'c>(b: &B<'c>, d: DType, x: V<'c>, y: V<'c>) -> V<'c> {
    if d.is_float() {
        b.cmpi("sgt", float::total_order_key(b, d, x), float::total_order_key(b, d, y))
    } else {
        b.cmpi(if d.is_signed_int() { "sgt" } else { "ugt" }, x, y)
    }
}
fn float_predicate(d: Direction) -> &'static str {
    match d {
        Direction::Eq => "oeq",
        Direction::Ne => "une",
        Direction::Ge => "oge",
        Direction::Gt => "ogt",
        Direction::Le => "ole",
        Direction::Lt => "olt",
    }
}
fn int_predicate(d: Direction, signed: bool) -> &'static str {
    match (d, signed) {
        (Direction::Eq, _) => "eq",
        (Direction::Ne, _) => "ne",
        (Direction::Ge, true) => "sge",
        (Direction::Gt, true) => "sgt",
        (Direction::Le, true) => "sle",
        (Direction::Lt, true) => "slt",
        (Direction::Ge, false) => "uge",
        (Direction::Gt, false) => "ugt",
        (Direction::Le, false) => "ule",
        (Direction::Lt, false) => "ult",
    }
}
/// Each part of `x` where the condition holds, else of `y`.
pub(super) fn select<'c>(b: &B<'c>, condition: V<'c>, x: &Val<'c>, y: &Val<'c>) -> Val<'c> {
    let parts: Vec<_> = x.parts().into_iter().zip(y.parts()).map(|(x, y)| b.select(condition, x, y)).collect();
    Val::of(&parts)
}
