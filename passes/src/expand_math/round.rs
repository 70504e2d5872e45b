//! round, the classifying ops, and the remainder.

use super::machine::Machine;

/// Halves away from zero. The constant is the number before 1/2: with 1/2 itself the sum would round up too much.
pub fn round<M: Machine>(m: &M, x: M::F) -> M::F {
    m.trunc(m.add(x, m.copysign(m.f(0.499_999_97), x)))
}
pub fn is_inf<M: Machine>(m: &M, x: M::F) -> M::P {
    m.eq(m.abs(x), m.f(f32::INFINITY))
}
pub fn is_finite<M: Machine>(m: &M, x: M::F) -> M::P {
    m.lt(m.abs(x), m.f(f32::INFINITY))
}
pub fn is_normal<M: Machine>(m: &M, x: M::F) -> M::P {
    m.both(is_finite(m, x), m.le(m.f(f32::MIN_POSITIVE), m.abs(x)))
}

/// Exponent and 24-bit mantissa: |x| = mantissa 2^exponent, for zero and denormal numbers too.
fn integer<M: Machine>(m: &M, x: M::F) -> (M::I, M::I) {
    let bits = m.and(m.bits(x), m.i(0x7fff_ffff));
    let field = m.shr(bits, m.i(23));
    let denormal = m.ieq(field, m.i(0));
    let mantissa = m.and(bits, m.i(0x007f_ffff));
    let exponent = m.isub(m.isel(denormal, m.i(1), field), m.i(150));
    (exponent, m.isel(denormal, mantissa, m.or(mantissa, m.i(0x0080_0000))))
}
/// x - y trunc(x / y), exactly, with the sign of x: the mantissa of x modulo that of y, then eight bits of the difference
/// of the exponents at a time.
pub fn rem<M: Machine>(m: &M, x: M::F, y: M::F) -> M::F {
    let (ex, mx) = integer(m, x);
    let (ey, my) = integer(m, y);
    let my = m.isel(m.ieq(my, m.i(0)), m.i(1), my);
    let up = m.isub(ex, ey);
    let below = m.ilt(up, m.i(0));
    let up = m.isel(below, m.i(0), up);
    let r = m.repeat(m.shr(up, m.i(3)), m.urem(mx, my), |m, r| m.urem(m.shl(r, m.i(8)), my));
    let r = m.urem(m.shl(r, m.and(up, m.i(7))), my);
    // A smaller exponent does not mean a smaller number if y is denormal, but then both exponents are the same.
    let value = m.sel(below, m.abs(x), m.scale(m.to_float(r), ey));
    let value = m.copysign(value, x);
    let value = m.sel(is_inf(m, y), x, value);
    m.sel(m.both(is_finite(m, x), m.lt(m.f(0.0), m.abs(y))), value, m.nan())
}
