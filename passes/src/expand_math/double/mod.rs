//! What expansions have for f64 alone. Where 53 bits do not carry enough digits a number is a pair, a large part and a
//! small one that is beyond its last place; products of pairs are by halves of the mantissa, so that nothing depends on
//! `fma` rounding once.

pub mod angle;
pub mod tables;

use super::machine::Machine;
use std::f64::consts::{FRAC_PI_4, LOG2_E};

type Pair<M> = (<M as Machine>::F, <M as Machine>::F);

/// a + b of |a| >= |b|, or of a = 0.
fn sum<M: Machine>(m: &M, a: M::F, b: M::F) -> Pair<M> {
    let s = m.add(a, b);
    (s, m.sub(b, m.sub(s, a)))
}
/// a b
fn product<M: Machine>(m: &M, a: M::F, b: M::F) -> Pair<M> {
    let p = m.mul(a, b);
    let (ah, bh) = (m.head(a), m.head(b));
    let (al, bl) = (m.sub(a, ah), m.sub(b, bh));
    let rest = m.sub(m.mul(ah, bh), p);
    let rest = m.add(m.add(rest, m.mul(ah, bl)), m.mul(al, bh));
    (p, m.add(rest, m.mul(al, bl)))
}
fn times<M: Machine>(m: &M, a: Pair<M>, b: Pair<M>) -> Pair<M> {
    let (p, rest) = product(m, a.0, b.0);
    let cross = m.add(m.mul(a.0, b.1), m.mul(a.1, b.0));
    sum(m, p, m.add(rest, cross))
}

/// With s = f / (2 + f): log(1 + f) = 2 atanh s = f - s (f - R), R = 2 atanh s / s - 2.
pub fn log_tail<M: Machine<Real = f64>>(m: &M, f: M::F) -> M::F {
    let s = m.div(f, m.add(f, m.f(2.0)));
    let z = m.mul(s, s);
    let r = m.mul(z, m.poly(z, tables::LOG_TAIL));
    m.mul(s, m.sub(r, f))
}

/// atan c + atan((small - c large) / (large + c small)), with c = 0, 1/2 or 1, whichever is near.
pub fn atan_ratio<M: Machine<Real = f64>>(m: &M, small: M::F, large: M::F) -> M::F {
    const ATAN_HALF: [f64; 2] = [0.463_647_609_000_806_1, 2.269_877_745_296_168_7e-17];
    const ATAN_ONE: [f64; 2] = [FRAC_PI_4, 3.061_616_997_868_383e-17];
    // Away from overflow and from denormal numbers.
    let huge = m.lt(m.f(1e300), large);
    let tiny = m.lt(large, m.f(1e-290));
    let by = m.sel(huge, m.f(2f64.powi(-20)), m.sel(tiny, m.f(2f64.powi(110)), m.f(1.0)));
    let (a, b) = (m.mul(small, by), m.mul(large, by));
    let middle = m.lt(m.mul(b, m.f(0.3)), a);
    let near = m.lt(m.mul(b, m.f(0.72)), a);
    let pick = |one: M::F, half: M::F, zero: M::F| m.sel(near, one, m.sel(middle, half, zero));
    let half = m.f(0.5);
    let numerator = pick(m.sub(a, b), m.sub(a, m.mul(b, half)), a);
    let denominator = pick(m.add(a, b), m.add(b, m.mul(a, half)), b);
    let t = m.div(numerator, denominator);
    // 0 / 0, infinity / infinity and the like, by the angle that they stand for.
    let t = m.sel(m.either(m.eq(small, large), m.eq(large, m.f(0.0))), m.f(0.0), t);
    let none = m.f(0.0);
    let equal = m.both(m.eq(small, large), m.lt(none, large));
    let base = |i: usize| m.sel(equal, m.f(ATAN_ONE[i]), pick(m.f(ATAN_ONE[i]), m.f(ATAN_HALF[i]), none));
    let z = m.mul(t, t);
    let rest = m.fma(m.mul(t, z), m.poly(z, tables::ATAN), base(1));
    m.add(base(0), m.add(t, rest))
}

/// Head of 26 bits and a rest, together good to about 2^-67 of it.
///
/// x = 2^k m with m in [0.866, 1.732); with c = 1 or 1.5, whichever is nearer, s = (m - c) / (m + c) and
/// log2 m = log2 c + 2 / ln 2 (s + s^3 (1/3 + s^2 R(s^2))).
pub fn log2_parts<M: Machine<Real = f64>>(m: &M, x: M::F) -> Pair<M> {
    // 2 / ln 2, log2 1.5 and 1/3, each as a head of 26 bits and a rest.
    const TWO_LOG2E: [f64; 2] = [2.885_390_043_258_667, 3.851_925_982_253_235e-8];
    const LOG2_3_2: [f64; 2] = [0.584_962_487_220_764_2, 1.350_039_202_129_749e-8];
    const THIRD: [f64; 2] = [0.333_333_328_366_279_6, 4.967_053_731_282_552e-9];
    let tiny = m.lt(x, m.f(f64::MIN_POSITIVE));
    let bits = m.bits(m.sel(tiny, m.mul(x, m.f(2f64.powi(54))), x));
    // The bits of sqrt(3)/2.
    let k = m.sar(m.isub(bits, m.i(0x3feb_b67a_e858_4caa)), m.i(52));
    let mantissa = m.float(m.isub(bits, m.shl(k, m.i(52))));
    let k = m.to_float(m.isel(tiny, m.isub(k, m.i(54)), k));
    let upper = m.lt(m.f(1.224_744_9), mantissa);
    let c = m.sel(upper, m.f(1.5), m.f(1.0));
    let zero = m.f(0.0);
    let (c_hi, c_lo) = (m.sel(upper, m.f(LOG2_3_2[0]), zero), m.sel(upper, m.f(LOG2_3_2[1]), zero));
    // s as a pair.
    let numerator = m.sub(mantissa, c);
    let denominator = m.add(mantissa, c);
    let s = m.div(numerator, denominator);
    let s_hi = m.head(s);
    let d_hi = m.head(denominator);
    let d_lo = m.sub(mantissa, m.sub(d_hi, c));
    let rest = m.sub(m.sub(numerator, m.mul(s_hi, d_hi)), m.mul(s_hi, d_lo));
    let s = sum(m, s_hi, m.div(rest, denominator));
    // s + s^3 (1/3 + ...) as a pair.
    let square = times(m, s, s);
    let factor = sum(m, m.f(THIRD[0]), m.fma(square.0, m.poly(square.0, tables::ATANH), m.f(THIRD[1])));
    let cubic = times(m, times(m, s, square), factor);
    let z = sum(m, s.0, cubic.0);
    let z_lo = m.add(z.1, m.add(s.1, cubic.1));
    let z_hi = m.head(z.0);
    let z_lo = m.add(m.sub(z.0, z_hi), z_lo);
    // Times 2 / ln 2, then the sum of all.
    let w_hi = m.mul(z_hi, m.f(TWO_LOG2E[0]));
    let w_lo = m.fma(z_lo, m.f(2.0 * LOG2_E), m.fma(z_hi, m.f(TWO_LOG2E[1]), c_lo));
    let head = m.head(m.add(m.add(m.add(w_hi, w_lo), c_hi), k));
    (head, m.sub(w_lo, m.sub(m.sub(m.sub(head, k), c_hi), w_hi)))
}

/// Polynomials in 1 / (1 + x/2), of which what rounding takes is put back.
pub fn scaled_erfc<M: Machine<Real = f64>>(m: &M, x: M::F) -> M::F {
    let (one, half) = (m.f(1.0), m.mul(x, m.f(0.5)));
    let above = m.lt(one, half);
    let u = sum(m, m.sel(above, half, one), m.sel(above, one, half));
    let t = m.div(one, u.0);
    let (p, p_lo) = product(m, t, u.0);
    let rest = m.mul(t, m.sub(m.sub(m.sub(one, p), p_lo), m.mul(t, u.1)));
    let value = |s: &tables::Segment| m.poly(m.add(m.sub(t, m.f(s.centre)), rest), s.coefficients);
    let [first @ .., last] = &tables::ERFC;
    first.iter().rev().fold(value(last), |later, s| m.sel(m.lt(x, m.f(s.until)), value(s), later))
}
