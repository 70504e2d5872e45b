//! chlo's elementwise ops.

use super::{
    super::{
        error::Refusal,
        value::{Val, element},
    },
    binary, complex, convert, narrow,
    real::Real,
    special, wide, widen,
};
use crate::ir::{B, bits};
use zmlc_import::tree::{BinaryOp, DType};

const UNARY: &[&str] = &[
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bessel_i1e",
    "conj",
    "cosh",
    "digamma",
    "erf",
    "erf_inv",
    "erfc",
    "is_inf",
    "is_neg_inf",
    "is_pos_inf",
    "lgamma",
    "sinh",
    "square",
    "tan",
];
const BINARY: &[&str] = &["mulhi", "next_after", "polygamma", "zeta"];

/// Whether an op of chlo computes each element of its result from the operands' elements at the same place.
pub(crate) fn is_elementwise(name: &str) -> bool {
    UNARY.contains(&name) || BINARY.contains(&name)
}
/// Operands have element type `d`.
pub(crate) fn apply<'c>(b: &B<'c>, name: &str, d: DType, args: &[Val<'c>]) -> Result<Val<'c>, Refusal> {
    if name == "square" && !d.is_complex() {
        return binary(b, BinaryOp::Multiply, d, &args[0], &args[0]);
    }
    if name == "conj" && !d.is_complex() {
        return Ok(args[0].clone());
    }
    if name == "mulhi" && d.is_int() {
        return mulhi(b, d, args);
    }
    if d.is_complex() {
        return complex::chlo(b, name, d, &args[0]);
    }
    if !d.is_float() {
        return Err(Refusal::dtype(format!("{name} has no meaning on {d}")));
    }
    if name == "next_after" {
        return next_after(b, d, args);
    }
    let m = Real { b, t: element(b, wide(d)) };
    let x = widen(b, d, args[0].one());
    let y = match name {
        "is_inf" => return Ok(Val::One(m.is_inf(x))),
        "is_pos_inf" => return Ok(Val::One(m.eq(x, f64::INFINITY))),
        "is_neg_inf" => return Ok(Val::One(m.eq(x, f64::NEG_INFINITY))),
        "bessel_i1e" => special::bessel_i1e(m, x),
        "digamma" => special::digamma(m, x),
        "erf_inv" => special::erf_inv(m, x),
        "lgamma" => special::lgamma(m, x),
        "zeta" => special::zeta(m, x, widen(b, d, args[1].one())),
        "polygamma" => special::polygamma(m, x, widen(b, d, args[1].one())),
        // The others are math ops of the same name.
        name => m.math(name, x),
    };
    Ok(Val::One(narrow(b, d, y)))
}
fn next_after<'c>(b: &B<'c>, d: DType, args: &[Val<'c>]) -> Result<Val<'c>, Refusal> {
    if d.bits() < 16 {
        return Err(Refusal::dtype(format!("next_after on {d} is not supported")));
    }
    let t = element(b, d);
    Ok(Val::One(special::next_after(Real { b, t }, bits(t), args[0].one(), args[1].one())))
}
/// The upper half of the product.
fn mulhi<'c>(b: &B<'c>, d: DType, args: &[Val<'c>]) -> Result<Val<'c>, Refusal> {
    let n = d.bits();
    if n == 64 {
        let op = if d.is_signed_int() { "arith.mulsi_extended" } else { "arith.mului_extended" };
        let t = element(b, d);
        let both = b.op(op, &[args[0].one(), args[1].one()], &[t, t], &[], vec![]);
        return Ok(Val::One(crate::ir::result(both, 1)));
    }
    let double = if d.is_signed_int() { DType::I64 } else { DType::U64 };
    let (x, y) = (convert(b, d, double, &args[0])?.one(), convert(b, d, double, &args[1])?.one());
    let high = b.same(
        if d.is_signed_int() { "arith.shrsi" } else { "arith.shrui" },
        &[b.muli(x, y), b.cint(b.i(64), i64::from(n))],
    );
    convert(b, double, d, &Val::One(high))
}
