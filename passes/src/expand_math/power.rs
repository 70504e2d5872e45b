//! pow, cbrt, rsqrt, and the integer power.

use super::{exp::two_to, machine::Machine};
use crate::ir::{B, V, ValueLike, bits, elem, vector_len};

/// (atanh s - s) / s^3 in s^2, on |s| <= 0.1025.
const ATANH: &[f32] = &[0.333_333_34, 0.199_994_3, 0.143_784_03, 0.066_534_69];
/// 2 / ln 2 = TWO_LOG2E_HI + TWO_LOG2E_LO; the first has 12 bits.
const TWO_LOG2E: f32 = 2.885_39;
const TWO_LOG2E_HI: f32 = 2.884_765_6;
const TWO_LOG2E_LO: f32 = 6.244_568e-4;
/// log2 1.5 = LOG2_3_2_HI + LOG2_3_2_LO; the first has 12 bits.
const LOG2_3_2_HI: f32 = 0.584_960_94;
const LOG2_3_2_LO: f32 = 1.563_221_2e-6;

/// log2 of a positive finite number as a head of 12 bits and a rest, together good to about 2^-31 of it.
///
/// x = 2^k m with m in [0.866, 1.732); with c = 1 or 1.5, whichever is nearer, s = (m - c) / (m + c) and
/// log2 m = log2 c + 2 / ln 2 (s + s^3 R(s^2)).
fn log2_parts<M: Machine>(m: &M, x: M::F) -> (M::F, M::F) {
    let tiny = m.lt(x, m.f(f32::MIN_POSITIVE));
    let bits = m.bits(m.sel(tiny, m.mul(x, m.f(8_388_608.0)), x));
    // The bits of sqrt(3)/2.
    let k = m.sar(m.isub(bits, m.i(0x3f5d_b3d7)), m.i(23));
    let mantissa = m.float(m.isub(bits, m.shl(k, m.i(23))));
    let k = m.to_float(m.isel(tiny, m.isub(k, m.i(23)), k));
    let upper = m.lt(m.f(1.224_744_9), mantissa);
    let c = m.sel(upper, m.f(1.5), m.f(1.0));
    let zero = m.f(0.0);
    let (c_hi, c_lo) = (m.sel(upper, m.f(LOG2_3_2_HI), zero), m.sel(upper, m.f(LOG2_3_2_LO), zero));
    // s = s_hi + s_lo.
    let numerator = m.sub(mantissa, c);
    let denominator = m.add(mantissa, c);
    let s = m.div(numerator, denominator);
    let s_hi = m.head(s);
    let d_hi = m.head(denominator);
    let d_lo = m.sub(mantissa, m.sub(d_hi, c));
    let rest = m.sub(m.sub(numerator, m.mul(s_hi, d_hi)), m.mul(s_hi, d_lo));
    let s_lo = m.div(rest, denominator);
    // z = s + s^3 R.
    let square = m.mul(s, s);
    let z_lo = m.fma(m.mul(s, square), m.poly(square, ATANH), s_lo);
    let z_hi = m.head(m.add(s_hi, z_lo));
    let z_lo = m.sub(z_lo, m.sub(z_hi, s_hi));
    // Times 2 / ln 2, then the sum of all.
    let w_hi = m.mul(z_hi, m.f(TWO_LOG2E_HI));
    let w_lo = m.fma(z_lo, m.f(TWO_LOG2E), m.fma(z_hi, m.f(TWO_LOG2E_LO), c_lo));
    let head = m.head(m.add(m.add(m.add(w_hi, w_lo), c_hi), k));
    (head, m.sub(w_lo, m.sub(m.sub(m.sub(head, k), c_hi), w_hi)))
}

/// x^y = 2^(y log2 x), with the cases of IEEE 754 `pow`.
pub fn pow<M: Machine>(m: &M, x: M::F, y: M::F) -> M::F {
    let (zero, one, infinity) = (m.f(0.0), m.f(1.0), m.f(f32::INFINITY));
    let (a, b) = (m.abs(x), m.abs(y));
    let (hi, lo) = log2_parts(m, m.sel(m.lt(a, infinity), a, one));
    // Past 2^31 every power of another number than 1 is 0 or infinity; NaN goes the same way and is put back below.
    let most = m.f(4_294_967_296.0);
    let exponent = m.copysign(m.sel(m.lt(b, most), b, most), y);
    let e_hi = m.head(exponent);
    let p_lo = m.fma(m.sub(exponent, e_hi), hi, m.mul(exponent, lo));
    let p_hi = m.mul(e_hi, hi);
    let p = m.add(p_hi, p_lo);
    let (over, under) = (m.le(m.f(128.0), p), m.lt(p, m.f(-151.0)));
    let n = m.roundeven(m.sel(m.either(over, under), zero, p));
    let r = m.add(m.sub(p_hi, n), p_lo);
    let size = m.scale(two_to(m, m.sel(m.either(over, under), zero, r)), m.to_int(n));
    let size = m.sel(over, infinity, m.sel(under, zero, size));
    // 0 and infinity, raised or lowered.
    let falling = m.lt(y, zero);
    let size = m.sel(m.eq(a, zero), m.sel(falling, infinity, zero), size);
    let size = m.sel(m.eq(a, infinity), m.sel(falling, zero, infinity), size);
    // An infinite exponent, by whether |x| is above 1.
    let grows = m.ieq(m.isel(m.lt(one, a), m.i(1), m.i(0)), m.isel(falling, m.i(0), m.i(1)));
    let endless = m.sel(m.eq(a, one), one, m.sel(grows, infinity, zero));
    let size = m.sel(m.eq(b, infinity), endless, size);
    // A negative base takes integers: odd ones turn the sign. Past 2^24 all are even.
    let whole = m.eq(m.trunc(y), y);
    let half = m.mul(y, m.f(0.5));
    let odd = m.both(m.both(whole, m.not(m.eq(m.trunc(half), half))), m.lt(b, m.f(16_777_216.0)));
    let signed = m.sel(m.both(odd, m.is_negative(x)), m.neg(size), size);
    let finite_base = m.both(m.lt(x, zero), m.lt(a, infinity));
    let value = m.sel(m.both(finite_base, m.not(whole)), m.nan(), signed);
    let value = m.sel(m.either(m.is_nan(x), m.is_nan(y)), m.nan(), value);
    m.sel(m.either(m.eq(y, zero), m.eq(x, one)), one, value)
}

pub fn rsqrt<M: Machine>(m: &M, x: M::F) -> M::F {
    m.div(m.f(1.0), m.sqrt(x))
}

/// The exponent divided by 3 in the bits gives a first guess; two steps of Halley's method make it exact to rounding.
pub fn cbrt<M: Machine>(m: &M, x: M::F) -> M::F {
    let a = m.abs(x);
    let tiny = m.lt(a, m.f(f32::MIN_POSITIVE));
    let a = m.sel(tiny, m.mul(a, m.f(16_777_216.0)), a);
    let (_, third) = m.imul_wide(m.bits(a), m.i(0x5555_5556));
    let guess = m.float(m.iadd(third, m.i(0x2a51_2ce3)));
    let step = |y: M::F| {
        // Quarters, so that the sum does not overflow.
        let cube = m.mul(y, m.mul(y, m.mul(y, m.f(0.25))));
        let quarter = m.mul(a, m.f(0.25));
        let off = m.div(m.sub(quarter, cube), m.fma(cube, m.f(2.0), quarter));
        m.fma(y, off, y)
    };
    let y = step(step(guess));
    let y = m.copysign(m.sel(tiny, m.mul(y, m.f(0.003_906_25)), y), x);
    let plain = m.both(m.lt(m.abs(x), m.f(f32::INFINITY)), m.not(m.eq(x, m.f(0.0))));
    m.sel(plain, y, x)
}

/// base^exponent in integers, wrapping, by squaring; a negative exponent leaves 1 and -1 and makes 0 of others.
pub fn integer<'c>(b: &B<'c>, base: V<'c>, exponent: V<'c>) -> V<'c> {
    let t = base.r#type();
    let int = |x: i64| match vector_len(t) {
        Some(_) => b.constant(b.attr(&format!("dense<{x}> : {t}")), t),
        None => b.cint(t, x),
    };
    let (zero, one, minus_one) = (int(0), int(1), int(-1));
    let is_odd = |b: &B<'c>, x: V<'c>| b.cmpi("ne", b.same("arith.andi", &[x, one]), zero);
    let steps = b.cidx(i64::from(bits(elem(t))));
    let carried = b.for_loop(b.cidx(0), steps, b.cidx(1), &[one, base, exponent], |b, _, v| {
        let taken = b.select(is_odd(b, v[2]), b.muli(v[0], v[1]), v[0]);
        vec![taken, b.muli(v[1], v[1]), b.same("arith.shrui", &[v[2], one])]
    });
    let sign = b.select(is_odd(b, exponent), minus_one, one);
    let small = b.select(b.cmpi("eq", base, one), one, b.select(b.cmpi("eq", base, minus_one), sign, zero));
    b.select(b.cmpi("slt", exponent, zero), small, carried[0])
}
