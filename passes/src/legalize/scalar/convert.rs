//! Conversions between element types: floats to integers truncate, saturate, and take NaN to 0; to predicates is `!= 0`;
//! integers wrap. reduce_precision is here because it is a conversion there and back.

use super::{
    super::{
        error::Refusal,
        value::{Val, element, zero},
    },
    int, narrow, wide, widen,
};
use crate::ir::{B, V, ValueLike, bits};
use zmlc_import::tree::DType;

/// From element type `from` to `to`.
pub(crate) fn convert<'c>(b: &B<'c>, from: DType, to: DType, x: &Val<'c>) -> Result<Val<'c>, Refusal> {
    if to.is_complex() {
        let (re, im) = match x {
            Val::Complex(re, im) => (*re, real(b, from.real(), to.real(), *im)),
            x => (x.one(), zero(b, element(b, to))),
        };
        return Ok(Val::Complex(real(b, from.real(), to.real(), re), im));
    }
    // The imaginary part is dropped.
    let re = x.parts()[0];
    Ok(Val::One(real(b, from.real(), to, re)))
}
fn real<'c>(b: &B<'c>, from: DType, to: DType, x: V<'c>) -> V<'c> {
    match (from.is_float(), to.is_float()) {
        _ if from == to => x,
        (true, true) if from == DType::F64 && to.bits() < 32 => narrow(b, to, float_to_odd(b, x)),
        (true, true) => narrow(b, to, resize(b, wide(to), widen(b, from, x))),
        (false, true) => {
            let t = element(b, wide(to));
            let signed = from.is_signed_int();
            // What f32 does not hold is infinite in the other types below 32 bits.
            if from.bits() >= 32 && matches!(to, DType::BF16 | DType::F8E8M0FNU) {
                return narrow(b, to, int_to_odd(b, signed, x));
            }
            narrow(b, to, b.op1(if signed { "arith.sitofp" } else { "arith.uitofp" }, &[x], t, &[]))
        }
        (true, false) => {
            let x = widen(b, from, x);
            if to == DType::I1 { b.cmpf("une", x, b.cfloat(x.r#type(), 0.0)) } else { truncate(b, to, x) }
        }
        (false, false) if to == DType::I1 => b.cmpi("ne", x, b.cint(x.r#type(), 0)),
        (false, false) => {
            let (t, have) = (element(b, to), bits(x.r#type()));
            let name = match have.cmp(&bits(t)) {
                std::cmp::Ordering::Greater => "arith.trunci",
                std::cmp::Ordering::Less if from.is_signed_int() => "arith.extsi",
                std::cmp::Ordering::Less => "arith.extui",
                std::cmp::Ordering::Equal => return int::wrap(b, to, x),
            };
            int::wrap(b, to, b.op1(name, &[x], t, &[]))
        }
    }
}
/// f32 to f64 or back.
fn resize<'c>(b: &B<'c>, to: DType, x: V<'c>) -> V<'c> {
    let t = element(b, to);
    match bits(x.r#type()).cmp(&bits(t)) {
        std::cmp::Ordering::Less => b.op1("arith.extf", &[x], t, &[]),
        std::cmp::Ordering::Greater => b.op1("arith.truncf", &[x], t, &[]),
        std::cmp::Ordering::Equal => x,
    }
}
/// An f64 as the f32 from which rounding to a narrower type gives what one rounding would: what is not exact has the last
/// bit set.
fn float_to_odd<'c>(b: &B<'c>, x: V<'c>) -> V<'c> {
    let (f32, t) = (b.f32(), b.i(32));
    let nearest = b.op1("arith.truncf", &[x], f32, &[]);
    let back = b.op1("arith.extf", &[nearest], x.r#type(), &[]);
    let size = |x: V<'c>| b.same("math.absf", &[x]);
    let raised = b.op1("arith.extui", &[b.cmpf("ogt", size(back), size(x))], t, &[]);
    let rounded = b.op1("arith.extui", &[b.cmpf("one", back, x)], t, &[]);
    let towards_zero = b.same("arith.subi", &[b.op1("arith.bitcast", &[nearest], t, &[]), raised]);
    b.op1("arith.bitcast", &[b.same("arith.ori", &[towards_zero, rounded])], f32, &[])
}
/// The same of an integer: its first 24 bits, of which the last says whether others are lost, times a power of two.
fn int_to_odd<'c>(b: &B<'c>, signed: bool, x: V<'c>) -> V<'c> {
    let (f32, t) = (b.f32(), x.r#type());
    let (zero, n) = (b.cint(t, 0), i64::from(bits(t)));
    let negative = b.cmpi("slt", x, zero);
    let m = if signed { b.select(negative, b.same("arith.subi", &[zero, x]), x) } else { x };
    let surplus = b.same("arith.subi", &[b.cint(t, n - 24), b.same("math.ctlz", &[m])]);
    let drop = b.same("arith.maxsi", &[surplus, zero]);
    let kept = b.same("arith.shrui", &[m, drop]);
    let lost = b.cmpi("ne", b.same("arith.shli", &[kept, drop]), m);
    let kept = b.same("arith.ori", &[kept, b.op1("arith.extui", &[lost], t, &[])]);
    let narrow = |x: V<'c>| if n > 32 { b.op1("arith.trunci", &[x], b.i(32), &[]) } else { x };
    let exponent = b.same("arith.shli", &[b.addi(narrow(drop), b.cint(b.i(32), 127)), b.cint(b.i(32), 23)]);
    let power = b.op1("arith.bitcast", &[exponent], f32, &[]);
    let size = b.mulf(b.op1("arith.uitofp", &[narrow(kept)], f32, &[]), power);
    if signed { b.select(negative, b.same("arith.negf", &[size]), size) } else { size }
}
/// To an integer of at least 2 bits. The bounds are powers of two and so exact in any float.
fn truncate<'c>(b: &B<'c>, to: DType, x: V<'c>) -> V<'c> {
    let (f, t) = (x.r#type(), element(b, to));
    let n = to.bits();
    let signed = to.is_signed_int();
    let (low, high) =
        if signed { (-(2f64.powi(n as i32 - 1)), 2f64.powi(n as i32 - 1)) } else { (0.0, 2f64.powi(n as i32)) };
    let (least, greatest) = match (signed, n) {
        (true, _) => (i64::MIN >> (64 - n), i64::MAX >> (64 - n)),
        (false, 64) => (0, -1),
        (false, _) => (0, (1i64 << n) - 1),
    };
    let below = b.cmpf("ole", x, b.cfloat(f, low));
    let above = b.cmpf("oge", x, b.cfloat(f, high));
    let nan = b.cmpf("uno", x, x);
    let outside = b.same("arith.ori", &[b.same("arith.ori", &[below, above]), nan]);
    let inside = b.select(outside, b.cfloat(f, 0.0), x);
    let r = b.op1(if signed { "arith.fptosi" } else { "arith.fptoui" }, &[inside], t, &[]);
    let r = b.select(below, b.cint(t, least), r);
    b.select(above, b.cint(t, greatest), r)
}

/// The bits of a value as an integer of the type that holds them, zeros above.
pub(crate) fn bits_of<'c>(b: &B<'c>, d: DType, x: V<'c>) -> V<'c> {
    let n = d.bits();
    if crate::ir::is_float(x.r#type()) {
        b.op1("arith.bitcast", &[x], b.i(n), &[])
    } else if n < 8 && d != DType::I1 {
        b.same("arith.andi", &[x, b.cint(x.r#type(), (1 << n) - 1)])
    } else {
        x
    }
}
/// The value that has these bits, an integer of at least as many.
pub(crate) fn of_bits<'c>(b: &B<'c>, d: DType, raw: V<'c>) -> V<'c> {
    let t = element(b, d);
    let same_width = b.i(bits(t));
    let raw = if bits(raw.r#type()) > bits(t) { b.op1("arith.trunci", &[raw], same_width, &[]) } else { raw };
    if crate::ir::is_float(t) { b.op1("arith.bitcast", &[raw], t, &[]) } else { int::wrap(b, d, raw) }
}

/// Rounds to a float of this many exponent and mantissa bits and back, to nearest even; what is too large becomes infinite,
/// what is too small a signed zero, NaN stays.
pub(crate) fn reduce_precision<'c>(b: &B<'c>, d: DType, exponent: i32, mantissa: i32, x: V<'c>) -> V<'c> {
    let x = widen(b, d, x);
    let f = x.r#type();
    let n = bits(f);
    let t = b.i(n);
    let (own_exponent, own_mantissa) = if n == 64 { (11, 52) } else { (8, 23) };
    let c = |x: i64| b.cint(t, x);
    let mut raw = b.op1("arith.bitcast", &[x], t, &[]);
    if mantissa < own_mantissa {
        let drop = own_mantissa - mantissa;
        let last = b.same("arith.andi", &[b.same("arith.shrui", &[raw, c(i64::from(drop))]), c(1)]);
        let bias = b.addi(last, c((1i64 << (drop - 1)) - 1));
        raw = b.same("arith.andi", &[b.addi(raw, bias), c(!((1i64 << drop) - 1))]);
    }
    if exponent < own_exponent {
        let sign = b.same("arith.andi", &[raw, c(1i64 << (n - 1))]);
        let field = ((1i64 << own_exponent) - 1) << own_mantissa;
        let e = b.same("arith.andi", &[raw, c(field)]);
        let bias = (1i64 << (own_exponent - 1)) - 1;
        let reduced_bias = (1i64 << (exponent - 1)) - 1;
        let over = b.cmpi("ugt", e, c((bias + reduced_bias) << own_mantissa));
        let under = b.cmpi("ule", e, c((bias - reduced_bias) << own_mantissa));
        let infinite = b.same("arith.ori", &[sign, c(field)]);
        raw = b.select(over, infinite, raw);
        raw = b.select(under, sign, raw);
    }
    let rounded = b.op1("arith.bitcast", &[raw], f, &[]);
    // A NaN needs a mantissa.
    let nan = if mantissa > 0 { x } else { b.same("math.copysign", &[b.cfloat(f, f64::INFINITY), x]) };
    narrow(b, d, b.select(b.cmpf("uno", x, x), nan, rounded))
}
