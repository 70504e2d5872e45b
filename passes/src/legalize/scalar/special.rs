//! chlo's special functions by formula, in f32 or f64. Sources: Giles, "Approximating the erfinv function" (2012); Lanczos'
//! approximation of gamma with g = 7; recurrence and asymptotic series for digamma; Euler-Maclaurin for zeta; the
//! trapezoidal rule on Bessel's integral, which converges geometrically.

use super::real::Real;
use crate::ir::{V, bits};
use std::f64::consts::PI;

/// Giles' single precision form; in f64 two steps of Newton's method on erf follow.
pub(super) fn erf_inv<'c>(m: Real<'_, 'c>, x: V<'c>) -> V<'c> {
    const CENTRE: [f64; 9] = [
        2.810_226_36e-08,
        3.432_739_39e-07,
        -3.523_387_7e-06,
        -4.391_506_54e-06,
        0.000_218_580_87,
        -0.001_253_725_03,
        -0.004_177_681_64,
        0.246_640_727,
        1.501_409_41,
    ];
    const TAIL: [f64; 9] = [
        -0.000_200_214_257,
        0.000_100_950_558,
        0.001_349_343_22,
        -0.003_673_428_44,
        0.005_739_507_73,
        -0.007_622_461_3,
        0.009_438_870_47,
        1.001_674_06,
        2.832_976_82,
    ];
    let w = m.neg(m.math("log1p", m.neg(m.mul(x, x))));
    let centre = m.polynomial(m.plus(w, -2.5), &CENTRE);
    let tail = m.polynomial(m.plus(m.sqrt(w), -3.0), &TAIL);
    let mut y = m.mul(m.select(m.lt(w, 5.0), centre, tail), x);
    if bits(m.t) == 64 {
        for _ in 0..2 {
            // Near the ends erf is flat; its complement keeps the digits.
            let flat = m.gt(m.abs(x), 0.5);
            let complement = m.sub(m.math("erfc", m.abs(y)), m.sub(m.c(1.0), m.abs(x)));
            let error = m.select(flat, m.neg(m.mul(complement, m.copysign(m.c(1.0), x))), m.sub(m.math("erf", y), x));
            let slope = m.scale(m.math("exp", m.neg(m.mul(y, y))), 2.0 / PI.sqrt());
            let step = m.div(error, slope);
            y = m.sub(y, m.div(step, m.plus(m.mul(y, step), 1.0)));
        }
    }
    let end = m.eq(m.abs(x), 1.0);
    m.select(end, m.copysign(m.c(f64::INFINITY), x), y)
}

/// log |gamma(x)|
pub(super) fn lgamma<'c>(m: Real<'_, 'c>, x: V<'c>) -> V<'c> {
    const G: f64 = 7.0;
    const FIRST: f64 = 0.999_999_999_999_809_9;
    const SERIES: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let reflect = m.lt(x, 0.5);
    let z = m.select(reflect, m.neg(x), m.plus(x, -1.0));
    let sum =
        SERIES.iter().enumerate().fold(m.c(FIRST), |sum, (k, c)| m.add(sum, m.div(m.c(*c), m.plus(z, k as f64 + 1.0))));
    let t = m.plus(z, G + 0.5);
    let log_t = m.plus(m.math("log1p", m.scale(z, 1.0 / (G + 0.5))), (G + 0.5f64).ln());
    let power = m.mul(m.sub(m.plus(z, 0.5), m.div(t, log_t)), log_t);
    let y = m.add(m.plus(power, 0.5 * (2.0 * PI).ln()), m.math("log", sum));
    // Reflection: log(pi / |sin(pi x)|) - lgamma(1 - x).
    let a = m.abs(x);
    let fraction = m.sub(a, m.math("floor", a));
    let fraction = m.min(fraction, m.sub(m.c(1.0), fraction));
    // A small angle is its own sine; pi times it might be a denormal number of few digits, so pi is left out of both.
    let tiny = m.lt(fraction, 1e-10);
    let sine = m.math("log", m.select(tiny, fraction, m.math("sin", m.scale(fraction, PI))));
    let pole = m.is_inf(sine);
    let reflected = m.sub(m.sub(m.select(tiny, m.c(0.0), m.c(PI.ln())), sine), y);
    let y = m.select(reflect, m.select(pole, m.neg(sine), reflected), y);
    m.select(m.is_inf(x), m.c(f64::INFINITY), y)
}

pub(super) fn digamma<'c>(m: Real<'_, 'c>, x: V<'c>) -> V<'c> {
    let reflect = m.lt(x, 0.5);
    let mut z = m.select(reflect, m.sub(m.c(1.0), x), x);
    let mut r = m.c(0.0);
    for _ in 0..10 {
        let small = m.lt(z, 10.0);
        r = m.select(small, m.sub(r, m.div(m.c(1.0), z)), r);
        z = m.select(small, m.plus(z, 1.0), z);
    }
    let y = m.div(m.c(1.0), m.mul(z, z));
    let series =
        m.polynomial(y, &[691.0 / 32760.0, -1.0 / 132.0, 1.0 / 240.0, -1.0 / 252.0, 1.0 / 120.0, -1.0 / 12.0, 0.0]);
    let series = m.add(m.add(r, m.math("log", z)), m.add(series, m.neg(m.div(m.c(0.5), z))));
    // pi / tan(pi x) from the part below the integer, which is exact.
    let fraction = m.sub(x, m.math("floor", x));
    let tangent = m.math("tan", m.scale(fraction, PI));
    let reflected = m.sub(series, m.div(m.c(PI), tangent));
    let pole = m.and(m.b.cmpf("ole", x, m.c(0.0)), m.eq(fraction, 0.0));
    let y = m.select(reflect, m.select(pole, m.c(f64::NAN), reflected), series);
    m.select(m.eq(x, f64::INFINITY), x, y)
}

/// The sum of (q + k)^-s over k from 0.
pub(super) fn zeta<'c>(m: Real<'_, 'c>, s: V<'c>, q: V<'c>) -> V<'c> {
    /// Bernoulli numbers B2k / (2k)!
    const TERMS: [f64; 8] = [
        1.0 / 12.0,
        -1.0 / 720.0,
        1.0 / 30_240.0,
        -1.0 / 1_209_600.0,
        1.0 / 47_900_160.0,
        -691.0 / 1_307_674_368_000.0,
        1.0 / 74_724_249_600.0,
        -3617.0 / 10_670_622_842_880_000.0,
    ];
    let minus_s = m.neg(s);
    let (mut sum, mut a) = (m.c(0.0), q);
    for _ in 0..12 {
        sum = m.add(sum, m.powf(a, minus_s));
        a = m.plus(a, 1.0);
    }
    let last = m.powf(a, minus_s);
    sum = m.add(sum, m.div(m.mul(last, a), m.plus(s, -1.0)));
    sum = m.add(sum, m.scale(last, 0.5));
    let (mut factor, mut power) = (s, m.div(last, a));
    for (k, t) in TERMS.into_iter().enumerate() {
        sum = m.add(sum, m.scale(m.mul(factor, power), t));
        let j = 2.0 * k as f64;
        factor = m.mul(factor, m.mul(m.plus(s, j + 1.0), m.plus(s, j + 2.0)));
        power = m.div(power, m.mul(a, a));
    }
    // Beside infinity there is nothing, where the products above have none.
    let sum = m.select(m.eq(q, f64::INFINITY), m.c(0.0), sum);
    let at_pole = m.and(m.b.cmpf("ole", q, m.c(0.0)), m.b.cmpf("oeq", q, m.math("floor", q)));
    let fractional = m.b.cmpf("one", s, m.math("floor", s));
    let undefined = m.or(m.lt(s, 1.0), m.and(m.lt(q, 0.0), fractional));
    let sum = m.select(undefined, m.c(f64::NAN), sum);
    let infinite = m.or(m.eq(s, 1.0), m.and(at_pole, m.gt(s, 1.0)));
    m.select(infinite, m.c(f64::INFINITY), sum)
}
/// (-1)^(n + 1) n! zeta(n + 1, x); digamma for n = 0.
pub(super) fn polygamma<'c>(m: Real<'_, 'c>, n: V<'c>, x: V<'c>) -> V<'c> {
    let next = m.plus(n, 1.0);
    let half = m.scale(n, 0.5);
    let even = m.b.cmpf("oeq", half, m.math("floor", half));
    let sign = m.select(even, m.c(-1.0), m.c(1.0));
    let value = m.mul(m.mul(sign, m.math("exp", lgamma(m, next))), zeta(m, next, x));
    let defined = m.and(m.b.cmpf("oge", n, m.c(0.0)), m.b.cmpf("oeq", n, m.math("floor", n)));
    m.select(m.eq(n, 0.0), digamma(m, x), m.select(defined, value, m.c(f64::NAN)))
}

/// exp(-|x|) I1(x)
pub(super) fn bessel_i1e<'c>(m: Real<'_, 'c>, x: V<'c>) -> V<'c> {
    /// Above, the asymptotic series.
    const FAR: f64 = 30.0;
    let points = if bits(m.t) == 64 { 64 } else { 32 };
    let a = m.abs(x);
    let near_a = m.min(a, m.c(FAR));
    // I1(a) is the mean over the circle of cos(t) exp(a cos(t)). The cosines add to zero, so expm1 serves and keeps the
    // digits of small results; t and -t are alike.
    let mean = (0..=points / 2).fold(m.c(0.0), |sum, i| {
        let cosine = (2.0 * PI * f64::from(i) / f64::from(points)).cos();
        let weight = if i == 0 || i == points / 2 { 1.0 } else { 2.0 } / f64::from(points);
        m.add(sum, m.scale(m.math("expm1", m.scale(near_a, cosine)), cosine * weight))
    });
    let near = m.mul(mean, m.math("exp", m.neg(near_a)));
    let (mut term, mut sum) = (m.c(1.0), m.c(1.0));
    for k in 1..12 {
        let odd = f64::from(2 * k - 1);
        term = m.div(m.scale(term, -(4.0 - odd * odd) / (8.0 * f64::from(k))), a);
        sum = m.add(sum, term);
    }
    let far = m.div(sum, m.sqrt(m.scale(a, 2.0 * PI)));
    m.copysign(m.select(m.gt(a, FAR), far, near), x)
}

/// The next value of the same type after `x` in the direction of `y`, on the bits of both.
pub(super) fn next_after<'c>(m: Real<'_, 'c>, width: u32, x: V<'c>, y: V<'c>) -> V<'c> {
    let i = m.b.i(width);
    let c = |v: i64| m.b.cint(i, v);
    let raw = m.b.op1("arith.bitcast", &[x], i, &[]);
    let zero = m.eq(x, 0.0);
    let away = m.b.cmpi("eq", m.b.cmpf("olt", x, y), m.b.cmpf("ogt", x, m.c(0.0)));
    let stepped = m.b.addi(raw, m.select(away, c(1), c(-1)));
    let smallest = m.select(m.lt(y, 0.0), c(i64::MIN >> (64 - width) | 1), c(1));
    let next = m.b.op1("arith.bitcast", &[m.select(zero, smallest, stepped)], m.t, &[]);
    let next = m.select(m.b.cmpf("oeq", x, y), y, next);
    m.select(m.b.cmpf("uno", x, y), m.c(f64::NAN), next)
}
