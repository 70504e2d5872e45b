//! log, log2, log10, log1p, and what is made of log1p: asinh, acosh, atanh.
//!
//! x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt 2), and log(1 + f) = f + t, t = f^3 P(f) - f^2 / 2.

use super::{format::Format, machine::Machine};
use std::f64::consts::{LN_2, LOG2_E, LOG10_E};

/// Constants of a format.
pub struct Table<R> {
    /// log10 2 = log10_2_hi + log10_2_lo; products of the first and an exponent are exact.
    pub log10_2_hi: R,
    pub log10_2_lo: R,
    /// Bits of sqrt(1/2).
    pub sqrt_half: i64,
}

/// k and the bits of 1 + f of a positive normal number.
fn split<M: Machine>(m: &M, bits: M::I) -> (M::I, M::I) {
    let k = m.sar(m.isub(bits, m.n(M::Real::LOG.sqrt_half)), m.n(M::Real::MANTISSA));
    (k, m.isub(bits, m.shl(k, m.n(M::Real::MANTISSA))))
}
/// k as a float, f and t; denormal numbers are scaled first.
fn reduce<M: Machine>(m: &M, x: M::F) -> (M::F, M::F, M::F) {
    let tiny = m.lt(x, m.c(M::Real::MIN_POSITIVE));
    let (k, one) = split(m, m.bits(m.sel(tiny, m.mul(x, m.c((1i64 << M::Real::MANTISSA) as f64)), x)));
    let k = m.to_float(m.isel(tiny, m.isub(k, m.n(M::Real::MANTISSA)), k));
    let f = m.sub(m.float(one), m.c(1.0));
    (k, f, M::Real::log_tail(m, f))
}
/// The result for 0, negative numbers, infinity and NaN.
fn special<M: Machine>(m: &M, x: M::F, y: M::F) -> M::F {
    let y = m.sel(m.lt(x, m.c(f64::INFINITY)), y, x);
    let y = m.sel(m.eq(x, m.c(0.0)), m.c(f64::NEG_INFINITY), y);
    m.sel(m.lt(x, m.c(0.0)), m.nan(), y)
}

pub fn log<M: Machine>(m: &M, x: M::F) -> M::F {
    let (k, f, t) = reduce(m, x);
    let y = m.add(f, m.fma(k, m.f(M::Real::EXP.ln2_lo), t));
    special(m, x, m.fma(k, m.f(M::Real::EXP.ln2_hi), y))
}
/// log2 e (f + t), with the 1 of log2 e = 1.44... taken out so that f enters exactly.
pub fn log2<M: Machine>(m: &M, x: M::F) -> M::F {
    let (k, f, t) = reduce(m, x);
    let rest = m.fma(t, m.c(LOG2_E), m.mul(f, m.c(LOG2_E - 1.0)));
    special(m, x, m.add(k, m.add(f, rest)))
}
/// log10 e (f + t), log10 e = 1/2 - 0.0657...
pub fn log10<M: Machine>(m: &M, x: M::F) -> M::F {
    let (k, f, t) = reduce(m, x);
    let rest = m.fma(k, m.f(M::Real::LOG.log10_2_lo), m.fma(t, m.c(LOG10_E), m.mul(f, m.c(LOG10_E - 0.5))));
    let y = m.fma(f, m.c(0.5), rest);
    special(m, x, m.fma(k, m.f(M::Real::LOG.log10_2_hi), y))
}
/// k is that of 1 + x, and f = 2^-k x + (2^-k - 1), which rounds once.
pub fn log1p<M: Machine>(m: &M, x: M::F) -> M::F {
    let (k, one) = split(m, m.bits(m.add(x, m.c(1.0))));
    let digits = M::Real::MANTISSA + 1;
    let large = m.ilt(m.n(digits), k);
    let within = m.isel(large, m.n(digits), m.isel(m.ilt(k, m.n(-digits)), m.n(-digits), k));
    let s = m.power_of_two(m.isub(m.n(0), within), 0);
    let f = m.sel(large, m.sub(m.float(one), m.c(1.0)), m.fma(x, s, m.sub(s, m.c(1.0))));
    let k = m.to_float(k);
    let y = m.fma(k, m.f(M::Real::EXP.ln2_hi), m.add(f, m.fma(k, m.f(M::Real::EXP.ln2_lo), M::Real::log_tail(m, f))));
    let y = m.sel(m.lt(x, m.c(f64::INFINITY)), m.copysign(y, x), x);
    let y = m.sel(m.eq(x, m.c(-1.0)), m.c(f64::NEG_INFINITY), y);
    m.sel(m.lt(x, m.c(-1.0)), m.nan(), y)
}

/// log(|x| + sqrt(x^2 + 1)) with the sign of x.
pub fn asinh<M: Machine>(m: &M, x: M::F) -> M::F {
    let a = m.abs(x);
    let z = m.mul(a, a);
    let inner = m.add(a, m.div(z, m.add(m.c(1.0), m.sqrt(m.add(z, m.c(1.0))))));
    m.copysign(log1p_or_doubled(m, a, inner), x)
}
/// log1p(inner), or log(2 a) if a is large: if 1 + a is a, with its square still far from overflow.
fn log1p_or_doubled<M: Machine>(m: &M, a: M::F, inner: M::F) -> M::F {
    let large = m.not(m.le(a, m.c((1i64 << (M::Real::MANTISSA + 3)) as f64)));
    m.add(log1p(m, m.sel(large, a, inner)), m.sel(large, m.c(LN_2), m.c(0.0)))
}
/// With t = x - 1: log(1 + t + sqrt(2 t + t^2)).
pub fn acosh<M: Machine>(m: &M, x: M::F) -> M::F {
    let t = m.sub(x, m.c(1.0));
    let inner = m.add(t, m.sqrt(m.fma(t, t, m.add(t, t))));
    m.sel(m.le(m.c(1.0), x), log1p_or_doubled(m, x, inner), m.nan())
}
/// log((1 + x) / (1 - x)) / 2
pub fn atanh<M: Machine>(m: &M, x: M::F) -> M::F {
    let a = m.abs(x);
    let y = log1p(m, m.div(m.add(a, a), m.sub(m.c(1.0), a)));
    m.sel(m.le(a, m.c(1.0)), m.copysign(m.mul(y, m.c(0.5)), x), m.nan())
}
