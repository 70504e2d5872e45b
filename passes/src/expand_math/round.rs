//! round, the classifying ops, and the remainder.

use super::{format::Format, machine::Machine};

/// Halves away from zero. The constant is the number before 1/2: with 1/2 itself the sum would round up too much.
pub fn round<M: Machine>(m: &M, x: M::F) -> M::F {
    m.trunc(m.add(x, m.copysign(m.c(M::Real::BELOW_HALF), x)))
}
pub fn is_inf<M: Machine>(m: &M, x: M::F) -> M::P {
    m.eq(m.abs(x), m.c(f64::INFINITY))
}
pub fn is_finite<M: Machine>(m: &M, x: M::F) -> M::P {
    m.lt(m.abs(x), m.c(f64::INFINITY))
}
pub fn is_normal<M: Machine>(m: &M, x: M::F) -> M::P {
    m.both(is_finite(m, x), m.le(m.c(M::Real::MIN_POSITIVE), m.abs(x)))
}

/// Exponent and mantissa: |x| = mantissa 2^exponent, for zero and denormal numbers too.
fn integer<M: Machine>(m: &M, x: M::F) -> (M::I, M::I) {
    let (stored, one) = (M::Real::MANTISSA, 1i64 << M::Real::MANTISSA);
    let bits = m.bits(m.abs(x));
    let field = m.shr(bits, m.n(stored));
    let denormal = m.ieq(field, m.n(0));
    let mantissa = m.and(bits, m.n(one - 1));
    let exponent = m.isub(m.isel(denormal, m.n(1), field), m.n(M::Real::BIAS + stored));
    (exponent, m.isel(denormal, mantissa, m.or(mantissa, m.n(one))))
}
/// x - y trunc(x / y), exactly, with the sign of x: the mantissa of x modulo that of y, then eight bits of the difference
/// of the exponents at a time.
pub fn rem<M: Machine>(m: &M, x: M::F, y: M::F) -> M::F {
    let (ex, mx) = integer(m, x);
    let (ey, my) = integer(m, y);
    let my = m.isel(m.ieq(my, m.n(0)), m.n(1), my);
    let up = m.isub(ex, ey);
    let below = m.ilt(up, m.n(0));
    let up = m.isel(below, m.n(0), up);
    let r = m.repeat(m.shr(up, m.n(3)), m.urem(mx, my), |m, r| m.urem(m.shl(r, m.n(8)), my));
    let r = m.urem(m.shl(r, m.and(up, m.n(7))), my);
    // A smaller exponent does not mean a smaller number if y is denormal, but then both exponents are the same.
    let value = m.sel(below, m.abs(x), m.scale(m.to_float(r), m.iadd(ey, m.n(M::Real::BOTH))));
    let value = m.copysign(value, x);
    let value = m.sel(is_inf(m, y), x, value);
    m.sel(m.both(is_finite(m, x), m.lt(m.c(0.0), m.abs(y))), value, m.nan())
}
