//! pow, cbrt, rsqrt, and the integer power.

use super::{exp::two_to, format::Format, machine::Machine};
use crate::ir::{B, V, ValueLike, bits, elem, vector_len};

/// Limits of a format.
pub struct Table {
    /// From it on 2^p is infinite, and below the second 0.
    pub over: f64,
    pub under: f64,
    /// Beyond it every power of another number than 1 is 0 or infinity.
    pub most: f64,
    /// Steps of Halley's method from the first guess to a cube root.
    pub steps: usize,
}

/// x^y = 2^(y log2 x), with the cases of IEEE 754 `pow`.
pub fn pow<M: Machine>(m: &M, x: M::F, y: M::F) -> M::F {
    let (zero, one, infinity) = (m.c(0.0), m.c(1.0), m.c(f64::INFINITY));
    let limits = M::Real::POWER;
    let (a, b) = (m.abs(x), m.abs(y));
    let (hi, lo) = M::Real::log2_parts(m, m.sel(m.lt(a, infinity), a, one));
    // NaN goes the same way as what is too large and is put back below.
    let most = m.c(limits.most);
    let exponent = m.copysign(m.sel(m.lt(b, most), b, most), y);
    let e_hi = m.head(exponent);
    let p_lo = m.fma(m.sub(exponent, e_hi), hi, m.mul(exponent, lo));
    let p_hi = m.mul(e_hi, hi);
    let p = m.add(p_hi, p_lo);
    let (over, under) = (m.le(m.c(limits.over), p), m.lt(p, m.c(limits.under)));
    let (n, bits) = m.nearest_product(m.sel(m.either(over, under), zero, p), 1.0, M::Real::BOTH);
    let r = m.add(m.sub(p_hi, n), p_lo);
    let size = m.scale(two_to(m, m.sel(m.either(over, under), zero, r)), bits);
    let size = m.sel(over, infinity, m.sel(under, zero, size));
    // 0 and infinity, raised or lowered.
    let falling = m.lt(y, zero);
    let size = m.sel(m.eq(a, zero), m.sel(falling, infinity, zero), size);
    let size = m.sel(m.eq(a, infinity), m.sel(falling, zero, infinity), size);
    // An infinite exponent, by whether |x| is above 1.
    let grows = m.ieq(m.isel(m.lt(one, a), m.n(1), m.n(0)), m.isel(falling, m.n(0), m.n(1)));
    let endless = m.sel(m.eq(a, one), one, m.sel(grows, infinity, zero));
    let size = m.sel(m.eq(b, infinity), endless, size);
    // A negative base takes integers: odd ones turn the sign. Past the mantissa's digits all are even.
    let whole = m.eq(m.trunc(y), y);
    let half = m.mul(y, m.c(0.5));
    let odd = m.both(m.both(whole, m.not(m.eq(m.trunc(half), half))), m.lt(b, m.c((2i64 << M::Real::MANTISSA) as f64)));
    let signed = m.sel(m.both(odd, m.is_negative(x)), m.neg(size), size);
    let finite_base = m.both(m.lt(x, zero), m.lt(a, infinity));
    let value = m.sel(m.both(finite_base, m.not(whole)), m.nan(), signed);
    let value = m.sel(m.either(m.is_nan(x), m.is_nan(y)), m.nan(), value);
    m.sel(m.either(m.eq(y, zero), m.eq(x, one)), one, value)
}

pub fn rsqrt<M: Machine>(m: &M, x: M::F) -> M::F {
    m.div(m.c(1.0), m.sqrt(x))
}

/// Halley's method triples the digits of the first guess at each step.
pub fn cbrt<M: Machine>(m: &M, x: M::F) -> M::F {
    let a = m.abs(x);
    let tiny = m.lt(a, m.c(M::Real::MIN_POSITIVE));
    // A power of 8 that makes denormal numbers normal.
    let thirds = (M::Real::MANTISSA as i32 + 2) / 3;
    let a = m.sel(tiny, m.mul(a, m.c(8f64.powi(thirds))), a);
    let step = |y: M::F| {
        // Quarters, so that the sum does not overflow.
        let cube = m.mul(y, m.mul(y, m.mul(y, m.c(0.25))));
        let quarter = m.mul(a, m.c(0.25));
        let off = m.div(m.sub(quarter, cube), m.fma(cube, m.c(2.0), quarter));
        m.fma(y, off, y)
    };
    let y = (0..M::Real::POWER.steps).fold(M::Real::cbrt_guess(m, a), |y, _| step(y));
    let y = m.copysign(m.sel(tiny, m.mul(y, m.c(2f64.powi(-thirds))), y), x);
    let plain = m.both(m.lt(m.abs(x), m.c(f64::INFINITY)), m.not(m.eq(x, m.c(0.0))));
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
