//! Integer and predicate element operations. Predicates: add is OR, multiply is AND (specification, "Boolean type").
//! Division by zero gives all ones and remainder by zero the dividend, MIN / -1 gives MIN and remainder 0, as XLA does.

use super::{super::error::Refusal, super::value::element, no_op};
use crate::ir::{B, V, ValueLike};
use zmlc_import::tree::{BinaryOp, DType, UnaryOp};

/// Smallest value of a signed type, in the type that holds it.
fn min(d: DType) -> i64 {
    i64::MIN >> (64 - d.bits())
}
/// Brings a result below 8 bits back into its range.
pub(super) fn wrap<'c>(b: &B<'c>, d: DType, x: V<'c>) -> V<'c> {
    let n = d.bits();
    if n >= 8 || d == DType::I1 {
        return x;
    }
    let t = x.r#type();
    if d.is_signed_int() {
        let by = b.cint(t, i64::from(8 - n));
        b.same("arith.shrsi", &[b.same("arith.shli", &[x, by]), by])
    } else {
        b.same("arith.andi", &[x, b.cint(t, (1 << n) - 1)])
    }
}

pub(super) fn unary<'c>(b: &B<'c>, op: UnaryOp, d: DType, x: V<'c>) -> Result<V<'c>, Refusal> {
    let t = element(b, d);
    let n = i64::from(d.bits());
    let zero = || b.cint(t, 0);
    Ok(match op {
        UnaryOp::Not if d == DType::I1 => b.same("arith.xori", &[x, b.cint(t, 1)]),
        UnaryOp::Not => wrap(b, d, b.same("arith.xori", &[x, b.cint(t, -1)])),
        UnaryOp::Negate if d.is_int() => wrap(b, d, b.same("arith.subi", &[zero(), x])),
        UnaryOp::Abs if d.is_signed_int() => {
            let negated = wrap(b, d, b.same("arith.subi", &[zero(), x]));
            b.same("arith.maxsi", &[x, negated])
        }
        UnaryOp::Sign if d.is_signed_int() => {
            let sign = b.same("arith.shrsi", &[x, b.cint(t, n.max(8) - 1)]);
            b.select(b.cmpi("eq", x, zero()), zero(), b.same("arith.ori", &[sign, b.cint(t, 1)]))
        }
        UnaryOp::Clz if d.is_int() => match n {
            8.. => b.same("math.ctlz", &[x]),
            _ => {
                let bits = b.same("arith.andi", &[x, b.cint(t, (1 << n) - 1)]);
                wrap(b, d, b.same("arith.subi", &[b.same("math.ctlz", &[bits]), b.cint(t, 8 - n)]))
            }
        },
        UnaryOp::Popcnt if d.is_int() => match n {
            8.. => b.same("math.ctpop", &[x]),
            _ => wrap(b, d, b.same("math.ctpop", &[b.same("arith.andi", &[x, b.cint(t, (1 << n) - 1)])])),
        },
        op => return Err(no_op(&format!("{op:?}"), d)),
    })
}
pub(super) fn binary<'c>(b: &B<'c>, op: BinaryOp, d: DType, x: V<'c>, y: V<'c>) -> Result<V<'c>, Refusal> {
    let signed = d.is_signed_int();
    let name = match op {
        BinaryOp::Add | BinaryOp::Maximum if d == DType::I1 => "arith.ori",
        BinaryOp::Multiply | BinaryOp::Minimum if d == DType::I1 => "arith.andi",
        BinaryOp::And => "arith.andi",
        BinaryOp::Or => "arith.ori",
        BinaryOp::Xor => "arith.xori",
        _ if d == DType::I1 => return Err(no_op(&format!("{op:?}"), d)),
        BinaryOp::Add => "arith.addi",
        BinaryOp::Subtract => "arith.subi",
        BinaryOp::Multiply => "arith.muli",
        BinaryOp::Maximum if signed => "arith.maxsi",
        BinaryOp::Maximum => "arith.maxui",
        BinaryOp::Minimum if signed => "arith.minsi",
        BinaryOp::Minimum => "arith.minui",
        BinaryOp::Divide => return Ok(wrap(b, d, divide(b, d, x, y))),
        BinaryOp::Remainder => return Ok(remainder(b, d, x, y)),
        BinaryOp::ShiftLeft | BinaryOp::ShiftRightLogical | BinaryOp::ShiftRightArithmetic => {
            return Ok(wrap(b, d, shift(b, op, d, x, y)));
        }
        BinaryOp::Power => return Ok(power(b, d, x, y)),
        op => return Err(no_op(&format!("{op:?}"), d)),
    };
    Ok(wrap(b, d, b.same(name, &[x, y])))
}
/// The divisor with what would trap replaced by 1, and whether it is zero.
fn safe_divisor<'c>(b: &B<'c>, d: DType, x: V<'c>, y: V<'c>) -> (V<'c>, V<'c>) {
    let t = y.r#type();
    let zero = b.cmpi("eq", y, b.cint(t, 0));
    let unsafe_ = if d.is_signed_int() {
        let lowest = b.cmpi("eq", x, b.cint(t, min(d)));
        let minus_one = b.cmpi("eq", y, b.cint(t, -1));
        b.same("arith.ori", &[zero, b.same("arith.andi", &[lowest, minus_one])])
    } else {
        zero
    };
    (b.select(unsafe_, b.cint(t, 1), y), zero)
}
fn divide<'c>(b: &B<'c>, d: DType, x: V<'c>, y: V<'c>) -> V<'c> {
    let (safe, zero) = safe_divisor(b, d, x, y);
    let q = b.same(if d.is_signed_int() { "arith.divsi" } else { "arith.divui" }, &[x, safe]);
    b.select(zero, b.cint(y.r#type(), -1), q)
}
fn remainder<'c>(b: &B<'c>, d: DType, x: V<'c>, y: V<'c>) -> V<'c> {
    let (safe, zero) = safe_divisor(b, d, x, y);
    let r = b.same(if d.is_signed_int() { "arith.remsi" } else { "arith.remui" }, &[x, safe]);
    b.select(zero, x, r)
}
/// Shifting by the width or more leaves no bit of `x`; a negative amount is such an amount.
fn shift<'c>(b: &B<'c>, op: BinaryOp, d: DType, x: V<'c>, y: V<'c>) -> V<'c> {
    let t = x.r#type();
    let n = i64::from(d.bits());
    if op == BinaryOp::ShiftRightArithmetic {
        let by = b.same("arith.minui", &[y, b.cint(t, n - 1)]);
        // An unsigned value below 8 bits has its sign bit at n - 1.
        let x = if n < 8 && !d.is_signed_int() {
            let up = b.cint(t, 8 - n);
            b.same("arith.shrsi", &[b.same("arith.shli", &[x, up]), up])
        } else {
            x
        };
        return b.same("arith.shrsi", &[x, by]);
    }
    // Not `fits` selecting the amount: LLVM drops the test then, since PTX's shifts clamp, and cuts the amount to 32 bits.
    let fits = b.cmpi("ult", y, b.cint(t, n));
    let by = b.same("arith.minui", &[y, b.cint(t, n - 1)]);
    let shifted = if op == BinaryOp::ShiftLeft {
        b.same("arith.shli", &[x, by])
    } else {
        let bits = if n < 8 { b.same("arith.andi", &[x, b.cint(t, (1 << n) - 1)]) } else { x };
        b.same("arith.shrui", &[bits, by])
    };
    b.select(fits, shifted, b.cint(t, 0))
}
/// x^y by squaring, modulo 2^bits. A negative exponent gives 1 / x^-y rounded to zero: 1, -1 or 0.
fn power<'c>(b: &B<'c>, d: DType, x: V<'c>, y: V<'c>) -> V<'c> {
    let t = x.r#type();
    let (zero, one) = (b.cint(t, 0), b.cint(t, 1));
    let (mut result, mut square) = (one, x);
    for bit in 0..d.bits() {
        let set = b.same("arith.andi", &[y, b.cint(t, 1i64 << bit)]);
        let set = b.cmpi("ne", set, zero);
        result = b.select(set, b.muli(result, square), result);
        square = b.muli(square, square);
    }
    let result = wrap(b, d, result);
    if !d.is_signed_int() {
        return result;
    }
    let odd = b.cmpi("ne", b.same("arith.andi", &[y, one]), zero);
    let minus_one = b.cint(t, -1);
    let of_minus_one = b.select(odd, minus_one, one);
    let inverse = b.select(b.cmpi("eq", x, minus_one), of_minus_one, zero);
    let inverse = b.select(b.cmpi("eq", x, one), one, inverse);
    b.select(b.cmpi("slt", y, zero), inverse, result)
}
