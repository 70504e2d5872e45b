//! log, log2, log10, log1p, and what is made of log1p: asinh, acosh, atanh.
//!
//! x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt 2), and log(1 + f) = f + t, t = f^3 P(f) - f^2 / 2.

use super::machine::Machine;

const LN2_HI: f32 = 0.692_382_8;
const LN2_LO: f32 = 7.643_680_4e-4;
const LN2: f32 = std::f32::consts::LN_2;
const LOG2E: f32 = std::f32::consts::LOG2_E;
const LOG10E: f32 = std::f32::consts::LOG10_E;
/// log10 2 = LOG10_2_HI + LOG10_2_LO; the first has 10 bits.
const LOG10_2_HI: f32 = 0.300_781_25;
const LOG10_2_LO: f32 = 2.487_456_7e-4;
/// (log(1 + f) - f + f^2/2) / f^3 on [-0.2939, 0.4152].
const LOG: &[f32] = &[
    0.333_333_1,
    -0.249_999_94,
    0.200_022_01,
    -0.166_686_52,
    0.142_187_3,
    -0.123_961_64,
    0.118_852_35,
    -0.117_219_04,
    0.068_030_61,
];
/// Bits of sqrt(1/2).
const SQRT_HALF: u32 = 0x3f35_04f3;

/// k and the bits of 1 + f of a positive normal number.
fn split<M: Machine>(m: &M, bits: M::I) -> (M::I, M::I) {
    let k = m.sar(m.isub(bits, m.i(SQRT_HALF)), m.i(23));
    (k, m.isub(bits, m.shl(k, m.i(23))))
}
/// t of log(1 + f) = f + t.
fn tail<M: Machine>(m: &M, f: M::F) -> M::F {
    let z = m.mul(f, f);
    m.fma(m.mul(z, f), m.poly(f, LOG), m.mul(z, m.f(-0.5)))
}
/// k as a float, f and t; denormal numbers are scaled first.
fn reduce<M: Machine>(m: &M, x: M::F) -> (M::F, M::F, M::F) {
    let tiny = m.lt(x, m.f(f32::MIN_POSITIVE));
    let (k, one) = split(m, m.bits(m.sel(tiny, m.mul(x, m.f(8_388_608.0)), x)));
    let k = m.to_float(m.isel(tiny, m.isub(k, m.i(23)), k));
    let f = m.sub(m.float(one), m.f(1.0));
    (k, f, tail(m, f))
}
/// The result for 0, negative numbers, infinity and NaN.
fn special<M: Machine>(m: &M, x: M::F, y: M::F) -> M::F {
    let y = m.sel(m.lt(x, m.f(f32::INFINITY)), y, x);
    let y = m.sel(m.eq(x, m.f(0.0)), m.f(f32::NEG_INFINITY), y);
    m.sel(m.lt(x, m.f(0.0)), m.nan(), y)
}

pub fn log<M: Machine>(m: &M, x: M::F) -> M::F {
    let (k, f, t) = reduce(m, x);
    let y = m.add(f, m.fma(k, m.f(LN2_LO), t));
    special(m, x, m.fma(k, m.f(LN2_HI), y))
}
/// log2 e (f + t), with the 1 of log2 e = 1.44... taken out so that f enters exactly.
pub fn log2<M: Machine>(m: &M, x: M::F) -> M::F {
    let (k, f, t) = reduce(m, x);
    let rest = m.fma(t, m.f(LOG2E), m.mul(f, m.f(LOG2E - 1.0)));
    special(m, x, m.add(k, m.add(f, rest)))
}
/// log10 e (f + t), log10 e = 1/2 - 0.0657...
pub fn log10<M: Machine>(m: &M, x: M::F) -> M::F {
    let (k, f, t) = reduce(m, x);
    let rest = m.fma(k, m.f(LOG10_2_LO), m.fma(t, m.f(LOG10E), m.mul(f, m.f(LOG10E - 0.5))));
    let y = m.fma(f, m.f(0.5), rest);
    special(m, x, m.fma(k, m.f(LOG10_2_HI), y))
}
/// k is that of 1 + x, and f = 2^-k x + (2^-k - 1), which rounds once.
pub fn log1p<M: Machine>(m: &M, x: M::F) -> M::F {
    let (k, one) = split(m, m.bits(m.add(x, m.f(1.0))));
    let large = m.ilt(m.i(24), k);
    let s = m.power_of_two(
        m.isub(m.i(0), m.isel(large, m.i(24), m.isel(m.ilt(k, m.i(-24i32 as u32)), m.i(-24i32 as u32), k))),
    );
    let f = m.sel(large, m.sub(m.float(one), m.f(1.0)), m.fma(x, s, m.sub(s, m.f(1.0))));
    let k = m.to_float(k);
    let y = m.fma(k, m.f(LN2_HI), m.add(f, m.fma(k, m.f(LN2_LO), tail(m, f))));
    let y = m.sel(m.lt(x, m.f(f32::INFINITY)), m.copysign(y, x), x);
    let y = m.sel(m.eq(x, m.f(-1.0)), m.f(f32::NEG_INFINITY), y);
    m.sel(m.lt(x, m.f(-1.0)), m.nan(), y)
}

/// Above it 1 + x is x to f32, and its square still far from overflow.
const LARGE: f32 = 67_108_864.0;

/// log(|x| + sqrt(x^2 + 1)) with the sign of x.
pub fn asinh<M: Machine>(m: &M, x: M::F) -> M::F {
    let a = m.abs(x);
    let z = m.mul(a, a);
    let inner = m.add(a, m.div(z, m.add(m.f(1.0), m.sqrt(m.add(z, m.f(1.0))))));
    m.copysign(log1p_or_doubled(m, a, inner), x)
}
/// log1p(inner), or log(2 a) if a is large.
fn log1p_or_doubled<M: Machine>(m: &M, a: M::F, inner: M::F) -> M::F {
    let large = m.not(m.le(a, m.f(LARGE)));
    m.add(log1p(m, m.sel(large, a, inner)), m.sel(large, m.f(LN2), m.f(0.0)))
}
/// With t = x - 1: log(1 + t + sqrt(2 t + t^2)).
pub fn acosh<M: Machine>(m: &M, x: M::F) -> M::F {
    let t = m.sub(x, m.f(1.0));
    let inner = m.add(t, m.sqrt(m.fma(t, t, m.add(t, t))));
    m.sel(m.le(m.f(1.0), x), log1p_or_doubled(m, x, inner), m.nan())
}
/// log((1 + x) / (1 - x)) / 2
pub fn atanh<M: Machine>(m: &M, x: M::F) -> M::F {
    let a = m.abs(x);
    let y = log1p(m, m.div(m.add(a, a), m.sub(m.f(1.0), a)));
    m.sel(m.le(a, m.f(1.0)), m.copysign(m.mul(y, m.f(0.5)), x), m.nan())
}
