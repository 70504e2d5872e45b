//! exp, exp2, expm1, and what is made of exp: tanh, the logistic function, sinh, cosh.
//!
//! exp: x = k ln 2 + r with |r| <= ln 2 / 2, and e^r = 1 + r + r^2 P(r). ln 2 is split so that k times its first part is
//! exact. Beyond what f32 holds x is clamped to where the result is 0 or infinity by itself. NaN goes through.

use super::{format::Format, machine::Machine};

/// Coefficients and limits of a format.
pub struct Table<R: 'static> {
    /// ln 2 = ln2_hi + ln2_lo; products of ln2_hi and an exponent are exact.
    pub ln2_hi: R,
    pub ln2_lo: R,
    /// (e^r - 1 - r) / r^2 on |r| <= 0.3477, as far as e^r - 1 needs it.
    pub exp: &'static [R],
    /// The same as far as e^r needs it.
    pub whole: &'static [R],
    /// (2^r - 1) / r on |r| <= 0.501.
    pub exp2: &'static [R],
    /// (sinh x - x) / x^3 in x^2, on |x| <= 1.001.
    pub sinh: &'static [R],
    /// Below the first e^x is 0, from the second on it is infinite.
    pub range: [f64; 2],
    /// The same of 2^x.
    pub range2: [f64; 2],
    /// Below the first e^x - 1 is -1, from the second on it is infinite; 2^k is normal between.
    pub range_minus_one: [f64; 2],
}

/// Within [low, high], or NaN.
fn clamp<M: Machine>(m: &M, x: M::F, [low, high]: [f64; 2]) -> M::F {
    let x = m.sel(m.lt(x, m.c(low)), m.c(low), x);
    m.sel(m.lt(m.c(high), x), m.c(high), x)
}
/// An integer with the low bits of k + `more`, and r of a finite x, to which `rest` is added after the first part of k
/// ln 2 went.
fn reduce<M: Machine>(m: &M, x: M::F, rest: Option<M::F>, more: i64) -> (M::I, M::F) {
    let whole = rest.map_or(x, |rest| m.add(x, rest));
    let (k, bits) = m.nearest_product(whole, std::f64::consts::LOG2_E, more);
    let r = m.fma(k, m.f(-M::Real::EXP.ln2_hi), x);
    let r = rest.map_or(r, |rest| m.add(r, rest));
    (bits, m.fma(k, m.f(-M::Real::EXP.ln2_lo), r))
}
/// e^r - 1
fn tail<M: Machine>(m: &M, r: M::F) -> M::F {
    m.fma(m.mul(r, r), m.poly(r, M::Real::EXP.exp), r)
}
/// e^r
fn whole<M: Machine>(m: &M, r: M::F) -> M::F {
    let one = m.c(1.0);
    m.fma(r, m.fma(r, m.poly(r, M::Real::EXP.whole), one), one)
}
/// 2^by e^x
pub fn scaled<M: Machine>(m: &M, x: M::F, by: i64) -> M::F {
    let (n, r) = reduce(m, clamp(m, x, M::Real::EXP.range), None, M::Real::BOTH + by);
    m.scale(whole(m, r), n)
}
/// e^(x + rest) y for x in [range[0], 0] and a rest small beside it.
pub fn of_sum<M: Machine>(m: &M, x: M::F, rest: M::F, y: M::F) -> M::F {
    let (n, r) = reduce(m, x, Some(rest), M::Real::BOTH);
    m.scale(m.fma(y, tail(m, r), y), n)
}

pub fn exp<M: Machine>(m: &M, x: M::F) -> M::F {
    if m.has_unit() { by_unit(m, x) } else { scaled(m, x, 0) }
}
/// x = (k + f) ln 2, k an integer between -126 and 126 and |f| <= 1/2 where that is enough; beyond, 2^f is 0 or infinity
/// by itself. The sum with 1.5 2^23 has k + 127 in its lowest bits. log2 e is split in two.
fn by_unit<M: Machine>(m: &M, x: M::F) -> M::F {
    const LOG2_E: f64 = std::f32::consts::LOG2_E as f64;
    let steps = 252.0;
    let part = m.saturate(m.fma(x, m.c(LOG2_E / steps), m.c(0.5)));
    let sum = m.fma(part, m.c(steps), m.c(12_582_912.0 + 1.0));
    let k = m.sub(sum, m.c(12_582_912.0 + 127.0));
    let f = m.fma(x, m.c(LOG2_E), m.neg(k));
    let f = m.fma(x, m.c(std::f64::consts::LOG2_E - LOG2_E), f);
    m.mul(m.exp2_by_unit(f), m.float(m.shl(m.bits(sum), m.n(23))))
}
pub fn exp2<M: Machine>(m: &M, x: M::F) -> M::F {
    let inside = clamp(m, x, M::Real::EXP.range2);
    let (k, n) = m.nearest_product(inside, 1.0, M::Real::BOTH);
    m.scale(two_to(m, m.sub(inside, k)), n)
}
/// 2^r for |r| <= 1/2.
pub fn two_to<M: Machine>(m: &M, r: M::F) -> M::F {
    m.fma(r, m.poly(r, M::Real::EXP.exp2), m.c(1.0))
}
/// With s = 2^(k-1): e^x - 1 = 2 (s (e^r - 1) + (s - 1/2)), which does not overflow before the result does.
pub fn expm1<M: Machine>(m: &M, x: M::F) -> M::F {
    let (k, r) = reduce(m, clamp(m, x, M::Real::EXP.range_minus_one), None, 0);
    let s = m.power_of_two(k, -1);
    let half = m.fma(s, tail(m, r), m.sub(s, m.c(0.5)));
    m.copysign(m.add(half, half), x)
}
/// (tanh x - x) / x^3 in x^2 below a number.
const TANH: (f64, &[f64]) = (0.55, &[-0.333_329_47, 0.133_207_25, -0.052_671_81, 0.016_437_58]);
/// The same to 2^-18.
const TANH_SHORT: (f64, &[f64]) = (0.0625, &[-1.0 / 3.0]);

/// With y = e^2|x| - 1: y / (y + 2), which is 1 from 10 on, in f64 from 20 on. With a unit for 2^x, 1 - 2 / (e^2|x| + 1)
/// but for small numbers, of which a polynomial has the digits that the difference loses.
pub fn tanh<M: Machine>(m: &M, x: M::F) -> M::F {
    let (a, end) = (m.abs(x), m.c((M::Real::MANTISSA as f64 * 0.35).ceil() + 1.0));
    let inside = m.sel(m.lt(end, a), end, a);
    if m.has_unit() {
        let e = m.exp2_by_unit(m.mul(inside, m.c(2.0 * std::f64::consts::LOG2_E)));
        let far = m.fma(m.c(-2.0), m.div_inside(m.c(1.0), m.add(e, m.c(1.0))), m.c(1.0));
        let (limit, near) = if m.is_short() { TANH_SHORT } else { TANH };
        let near: Vec<M::Real> = near.iter().map(|c| M::Real::of(*c)).collect();
        let z = m.mul(x, x);
        let near = m.fma(m.mul(x, z), m.poly(z, &near), x);
        return with_sign(m, m.sel(m.lt(a, m.c(limit)), near, far), x);
    }
    let (k, r) = reduce(m, m.add(inside, inside), None, 0);
    let s = m.power_of_two(k, 0);
    let y = m.fma(s, tail(m, r), m.sub(s, m.c(1.0)));
    with_sign(m, m.div_inside(y, m.add(y, m.c(2.0))), x)
}
/// a, which is not negative unless x is, with the sign of x.
fn with_sign<M: Machine>(m: &M, a: M::F, x: M::F) -> M::F {
    m.float(m.or(m.bits(a), m.and(m.bits(x), m.n(-1 << (M::Real::WIDTH - 1)))))
}
/// 1 / (1 + e^-x), both sides times 2^-by, so that what is divided by stays in range where the result is denormal. With a
/// unit for e^x, of a negative x the same times e^x.
pub fn logistic<M: Machine>(m: &M, x: M::F) -> M::F {
    if m.has_unit() {
        let e = by_unit(m, m.neg(m.abs(x)));
        let above = m.sel(m.lt(x, m.c(0.0)), e, m.c(1.0));
        return m.div_inside(above, m.add(e, m.c(1.0)));
    }
    // From the second on the result is 1.
    let inside = clamp(m, x, [M::Real::EXP.range[0], 60.0]);
    let (k, r) = reduce(m, m.neg(inside), None, 0);
    let by = M::Real::MANTISSA + 9;
    let one = m.c(2f64.powi(-by as i32));
    m.div_inside(one, m.fma(whole(m, r), m.power_of_two(k, -by), one))
}
/// With h = e^|x| / 2: h - 1 / (4 h).
pub fn sinh<M: Machine>(m: &M, x: M::F) -> M::F {
    let (a, z) = (m.abs(x), m.mul(x, x));
    let near = m.fma(m.mul(x, z), m.poly(z, M::Real::EXP.sinh), x);
    let h = scaled(m, a, -1);
    let far = m.sub(h, m.div(m.c(0.25), h));
    m.sel(m.lt(a, m.c(1.0)), near, m.copysign(far, x))
}
pub fn cosh<M: Machine>(m: &M, x: M::F) -> M::F {
    let h = scaled(m, m.abs(x), -1);
    m.add(h, m.div(m.c(0.25), h))
}
