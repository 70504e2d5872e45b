//! exp, exp2, expm1, and what is made of exp: tanh, the logistic function, sinh, cosh.
//!
//! exp: x = k ln 2 + r with |r| <= ln 2 / 2, and e^r = 1 + r + r^2 P(r). ln 2 is split so that k times its first part is
//! exact. Beyond what f32 holds x is clamped to where the result is 0 or infinity by itself.

use super::{format::Format, machine::Machine};

/// Coefficients and limits of a format.
pub struct Table<R: 'static> {
    /// ln 2 = ln2_hi + ln2_lo; products of ln2_hi and an exponent are exact.
    pub ln2_hi: R,
    pub ln2_lo: R,
    /// (e^r - 1 - r) / r^2 on |r| <= 0.3477.
    pub exp: &'static [R],
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

/// Within [low, high]; NaN becomes `low`.
fn clamp<M: Machine>(m: &M, x: M::F, [low, high]: [f64; 2]) -> M::F {
    let x = m.sel(m.lt(m.c(low), x), x, m.c(low));
    m.sel(m.lt(x, m.c(high)), x, m.c(high))
}
/// k, an integer with the same low bits, and r of a finite x, to which `rest` is added after the first part of k ln 2
/// went.
fn reduce<M: Machine>(m: &M, x: M::F, rest: Option<M::F>) -> (M::F, M::I, M::F) {
    let whole = rest.map_or(x, |rest| m.add(x, rest));
    let (k, bits) = m.nearest_product(whole, std::f64::consts::LOG2_E);
    let r = m.fma(k, m.f(-M::Real::EXP.ln2_hi), x);
    let r = rest.map_or(r, |rest| m.add(r, rest));
    (k, bits, m.fma(k, m.f(-M::Real::EXP.ln2_lo), r))
}
/// e^r - 1
fn tail<M: Machine>(m: &M, r: M::F) -> M::F {
    m.fma(m.mul(r, r), m.poly(r, M::Real::EXP.exp), r)
}
/// 2^by e^x; 0 for NaN.
pub fn scaled<M: Machine>(m: &M, x: M::F, by: i64) -> M::F {
    let (k, _, r) = reduce(m, clamp(m, x, M::Real::EXP.range), None);
    m.scale(m.add(m.c(1.0), tail(m, r)), k, by)
}
/// e^(x + rest) y for x in [range[0], 0] and a rest small beside it.
pub fn of_sum<M: Machine>(m: &M, x: M::F, rest: M::F, y: M::F) -> M::F {
    let (k, _, r) = reduce(m, x, Some(rest));
    m.scale(m.fma(y, tail(m, r), y), k, 0)
}
fn nan_of<M: Machine>(m: &M, x: M::F, y: M::F) -> M::F {
    m.sel(m.is_nan(x), x, y)
}

pub fn exp<M: Machine>(m: &M, x: M::F) -> M::F {
    nan_of(m, x, scaled(m, x, 0))
}
pub fn exp2<M: Machine>(m: &M, x: M::F) -> M::F {
    let inside = clamp(m, x, M::Real::EXP.range2);
    let (k, _) = m.nearest_product(inside, 1.0);
    nan_of(m, x, m.scale(two_to(m, m.sub(inside, k)), k, 0))
}
/// 2^r for |r| <= 1/2.
pub fn two_to<M: Machine>(m: &M, r: M::F) -> M::F {
    m.fma(r, m.poly(r, M::Real::EXP.exp2), m.c(1.0))
}
/// With s = 2^(k-1): e^x - 1 = 2 (s (e^r - 1) + (s - 1/2)), which does not overflow before the result does.
pub fn expm1<M: Machine>(m: &M, x: M::F) -> M::F {
    let (_, k, r) = reduce(m, clamp(m, x, M::Real::EXP.range_minus_one), None);
    let s = m.power_of_two(k, -1);
    let half = m.fma(s, tail(m, r), m.sub(s, m.c(0.5)));
    nan_of(m, x, m.copysign(m.add(half, half), x))
}
/// With y = e^2|x| - 1: y / (y + 2), which is 1 from 10 on, in f64 from 20 on.
pub fn tanh<M: Machine>(m: &M, x: M::F) -> M::F {
    // NaN goes through.
    let (a, end) = (m.abs(x), m.c((M::Real::MANTISSA as f64 * 0.35).ceil() + 1.0));
    let inside = m.sel(m.lt(end, a), end, a);
    let (_, k, r) = reduce(m, m.add(inside, inside), None);
    let s = m.power_of_two(k, 0);
    let y = m.fma(s, tail(m, r), m.sub(s, m.c(1.0)));
    m.copysign(m.div_inside(y, m.add(y, m.c(2.0))), x)
}
/// 1 / (1 + e^-x): with t = e^-|x|, 1 / (1 + t) or, for negative x, t / (1 + t).
pub fn logistic<M: Machine>(m: &M, x: M::F) -> M::F {
    // NaN goes through; far out the result is 0.
    let (down, end) = (m.neg(m.abs(x)), m.c(M::Real::EXP.range[0]));
    let inside = m.sel(m.lt(down, end), end, down);
    let (_, k, r) = reduce(m, inside, None);
    // In two steps, so that it rounds once where it is denormal.
    let by = M::Real::MANTISSA + 1;
    let large = m.mul(m.add(m.c(1.0), tail(m, r)), m.power_of_two(k, by));
    let t = m.mul(large, m.c(2f64.powi(-by as i32)));
    m.div_inside(m.sel(m.lt(x, m.c(0.0)), t, m.c(1.0)), m.add(m.c(1.0), t))
}
/// With h = e^|x| / 2: h - 1 / (4 h).
pub fn sinh<M: Machine>(m: &M, x: M::F) -> M::F {
    let (a, z) = (m.abs(x), m.mul(x, x));
    let near = m.fma(m.mul(x, z), m.poly(z, M::Real::EXP.sinh), x);
    let h = scaled(m, a, -1);
    let far = m.sub(h, m.div(m.c(0.25), h));
    nan_of(m, x, m.sel(m.lt(a, m.c(1.0)), near, m.copysign(far, x)))
}
pub fn cosh<M: Machine>(m: &M, x: M::F) -> M::F {
    let h = scaled(m, m.abs(x), -1);
    nan_of(m, x, m.add(h, m.div(m.c(0.25), h)))
}
