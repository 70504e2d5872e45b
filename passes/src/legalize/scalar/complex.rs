//! Complex element operations on pairs of real scalars.

use super::super::{error::Refusal, value::Val};
use crate::ir::{B, V};
use zmlc_import::tree::{BinaryOp, DType, Direction, UnaryOp};

fn both<'c>(x: &Val<'c>) -> (V<'c>, V<'c>) {
    match x {
        Val::Complex(re, im) => (*re, *im),
        _ => panic!("a complex value was expected of a verified operand"),
    }
}
pub(super) fn unary<'c>(b: &B<'c>, op: UnaryOp, d: DType, x: &Val<'c>) -> Result<Val<'c>, Refusal> {
    let (re, im) = both(x);
    let _ = d;
    Ok(match op {
        UnaryOp::Real => Val::One(re),
        UnaryOp::Imag => Val::One(im),
        UnaryOp::Negate => x.each(|x| b.same("arith.negf", &[x])),
        op => return Err(Refusal::dtype(format!("{op:?} on complex numbers is not supported"))),
    })
}
pub(super) fn binary<'c>(b: &B<'c>, op: BinaryOp, d: DType, x: &Val<'c>, y: &Val<'c>) -> Result<Val<'c>, Refusal> {
    let ((xr, xi), (yr, yi)) = (both(x), both(y));
    let _ = d;
    let sub = |x, y| b.same("arith.subf", &[x, y]);
    Ok(match op {
        BinaryOp::Add => Val::Complex(b.addf(xr, yr), b.addf(xi, yi)),
        BinaryOp::Subtract => Val::Complex(sub(xr, yr), sub(xi, yi)),
        BinaryOp::Multiply => Val::Complex(sub(b.mulf(xr, yr), b.mulf(xi, yi)), b.addf(b.mulf(xr, yi), b.mulf(xi, yr))),
        op => return Err(Refusal::dtype(format!("{op:?} on complex numbers is not supported"))),
    })
}
pub(super) fn compare<'c>(b: &B<'c>, direction: Direction, x: &Val<'c>, y: &Val<'c>) -> Result<V<'c>, Refusal> {
    let ((xr, xi), (yr, yi)) = (both(x), both(y));
    match direction {
        Direction::Eq => Ok(b.same("arith.andi", &[b.cmpf("oeq", xr, yr), b.cmpf("oeq", xi, yi)])),
        Direction::Ne => Ok(b.same("arith.ori", &[b.cmpf("une", xr, yr), b.cmpf("une", xi, yi)])),
        _ => Err(Refusal::dtype("complex numbers have no order")),
    }
}
