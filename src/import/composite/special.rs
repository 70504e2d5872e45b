//! chlo's functions of real numbers, in f32 or f64.

use super::math::X;
use crate::tree::{BinaryOp, DType, Direction, UnaryOp};
use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, PI};

pub(super) fn real<'c, 'a>(name: &str, x: X<'c, 'a>, y: Option<X<'c, 'a>>) -> Option<X<'c, 'a>> {
    let half = x.n(0.5).ln();
    Some(match name {
        "is_inf" => x.abs().equals(f64::INFINITY),
        "is_pos_inf" => x.equals(f64::INFINITY),
        "is_neg_inf" => x.equals(f64::NEG_INFINITY),
        "acos" => x.equals(-1.0).choose(x.n(PI), root_of_rest(x).atan2(x + 1.0) * 2.0),
        "asin" => x.atan2(root_of_rest(x) + 1.0) * 2.0,
        "atan" => x.atan2(x.n(1.0)),
        "acosh" => x.above(far(x)).choose(x.ln() + LN_2, (x + ((x + 1.0) * (x - 1.0)).sqrt()).ln()),
        "asinh" => {
            let a = x.abs();
            let near = (a + a * a / ((a * a + 1.0).sqrt() + 1.0)).ln_1p();
            a.above(far(x)).choose(a.ln() + LN_2, near).signed_as(x)
        }
        "atanh" => (x.ln_1p() - (-x).ln_1p()) * 0.5,
        "sinh" => {
            let e = x.expm1();
            // The halves of the exponentials overflow no earlier than their difference.
            let wide = (x + half).exp() - (-x + half).exp();
            x.abs().below(1.0).choose((e + e / (e + 1.0)) * 0.5, wide)
        }
        "cosh" => (x + half).exp() + (-x + half).exp(),
        "erf" => erf(x),
        "erfc" => erfc(x),
        "erf_inv" => erf_inv(x),
        "lgamma" => lgamma(x),
        "digamma" => digamma(x),
        "bessel_i1e" => bessel_i1e(x),
        "zeta" => zeta(x, y?),
        "polygamma" => polygamma(x, y?),
        _ => return None,
    })
}

/// `sqrt(1 - x^2)`
fn root_of_rest<'c, 'a>(x: X<'c, 'a>) -> X<'c, 'a> {
    ((-x + 1.0) * (x + 1.0)).sqrt()
}
/// Beyond, squares overflow, and one added to them is lost.
fn far(x: X) -> f64 {
    if x.dtype() == DType::F64 { 1e150 } else { 1e18 }
}

/// Up to 1 in size.
fn small_erf<'c, 'a>(x: X<'c, 'a>) -> X<'c, 'a> {
    let z = x * x;
    let top = [
        9.604_973_739_870_516,
        90.026_019_720_384_27,
        2_232.005_345_946_843,
        7_003.325_141_128_051,
        55_592.301_301_039_49,
    ];
    let bottom = [
        1.0,
        33.561_714_164_750_31,
        521.357_949_780_152_7,
        4_594.323_829_709_801,
        22_629.000_061_389_095,
        49_267.394_260_863_59,
    ];
    x * z.polynomial(&top) / z.polynomial(&bottom)
}
/// From 1 up.
fn large_erfc<'c, 'a>(a: X<'c, 'a>) -> X<'c, 'a> {
    let near_top = [
        2.461_969_814_735_305e-10,
        0.564_189_564_831_068_8,
        7.463_210_564_422_699,
        48.637_197_098_568_14,
        196.520_832_956_077_1,
        526.445_194_995_477_4,
        934.528_527_171_957_6,
        1_027.551_886_895_157_1,
        557.535_335_369_399_3,
    ];
    let near_bottom = [
        1.0,
        13.228_195_115_474_5,
        86.707_214_088_598_97,
        354.937_778_887_819_9,
        975.708_501_743_205_5,
        1_823.909_166_879_097_4,
        2_246.337_608_187_109_8,
        1_656.663_091_941_613_5,
        557.535_340_817_727_7,
    ];
    let far_top = [
        0.564_189_583_547_755_1,
        1.275_366_707_599_781,
        5.019_050_422_511_805,
        6.160_210_979_930_536,
        7.409_742_699_504_489,
        2.978_866_653_721_002_4,
    ];
    let far_bottom = [
        1.0,
        2.260_528_632_201_173,
        9.396_035_249_380_015,
        12.048_953_980_809_666,
        17.081_445_074_756_59,
        9.608_968_090_632_859,
        3.369_076_451_000_815,
    ];
    let near = a.polynomial(&near_top) / a.polynomial(&near_bottom);
    // Beyond, the exponential is 0, and powers would overflow.
    let b = a.with(a.n(100.0), BinaryOp::Minimum);
    let far = b.polynomial(&far_top) / b.polynomial(&far_bottom);
    (-a * a).exp() * a.below(8.0).choose(near, far)
}
fn erf<'c, 'a>(x: X<'c, 'a>) -> X<'c, 'a> {
    let a = x.abs();
    a.below(1.0).choose(small_erf(x), (-large_erfc(a) + 1.0).signed_as(x))
}
fn erfc<'c, 'a>(x: X<'c, 'a>) -> X<'c, 'a> {
    let a = x.abs();
    let tail = large_erfc(a);
    a.below(1.0).choose(-small_erf(x) + 1.0, x.below(0.0).choose(-tail + 2.0, tail))
}

/// Newton's method on erf, or on erfc near the ends, from Winitzki's approximation.
fn erf_inv<'c, 'a>(x: X<'c, 'a>) -> X<'c, 'a> {
    const A: f64 = 0.147;
    let a = x.abs();
    let l = (-x).ln_1p() + x.ln_1p();
    let t = l * 0.5 + 2.0 / (PI * A);
    let mut y = (-l / ((t * t - l / A).sqrt() + t) / A).sqrt();
    for _ in 0..3 {
        let error = a.below(0.5).choose(erf(y) - a, (-a + 1.0) - erfc(y));
        let step = error / ((-y * y).exp() * FRAC_2_SQRT_PI);
        y = y - step / (y * step + 1.0);
    }
    let y = a.equals(1.0).choose(x.n(f64::INFINITY), y);
    x.equals(0.0).choose(x, y.signed_as(x))
}

const LANCZOS_G: f64 = 7.0;
const LANCZOS: [f64; 8] = [
    676.520_368_121_885_1,
    -1_259.139_216_722_402_8,
    771.323_428_777_653_1,
    -176.615_029_162_140_6,
    12.507_343_278_686_905,
    -0.138_571_095_265_720_12,
    9.984_369_578_019_572e-6,
    1.505_632_735_149_311_6e-7,
];

/// Lanczos' approximation; reflection below 1/2.
fn lgamma<'c, 'a>(x: X<'c, 'a>) -> X<'c, 'a> {
    let reflected = x.below(0.5);
    let z = reflected.choose(-x, x - 1.0);
    let sum = (1..).zip(LANCZOS).fold(x.n(0.999_999_999_999_809_9), |s, (i, c)| s + x.n(c) / (z + f64::from(i)));
    let t = z + (LANCZOS_G + 0.5);
    let log_t = (z / (LANCZOS_G + 0.5)).ln_1p() + (LANCZOS_G + 0.5).ln();
    let y = (z + 0.5 - t / log_t) * log_t + (0.5 * (2.0 * PI).ln()) + sum.ln();
    let fraction = x.abs() - x.abs().floor();
    let fraction = fraction.above(0.5).choose(-fraction + 1.0, fraction);
    let sine = (fraction * PI).sin().ln();
    // At a pole the logarithm of the sine is -inf.
    let low = sine.unary(UnaryOp::IsFinite).choose(-sine + PI.ln() - y, -sine);
    let y = reflected.choose(low, y);
    x.abs().equals(f64::INFINITY).choose(x.n(f64::INFINITY), y)
}

/// Recurrence by ten steps, then the asymptotic series; reflection below 1/2.
fn digamma<'c, 'a>(x: X<'c, 'a>) -> X<'c, 'a> {
    let reflected = x.below(0.5);
    let mut a = reflected.choose(-x + 1.0, x);
    let mut sum = x.n(0.0);
    for _ in 0..10 {
        sum = sum - x.n(1.0) / a;
        a = a + 1.0;
    }
    let r = x.n(1.0) / (a * a);
    let series = r.polynomial(&[-691.0 / 32_760.0, 1.0 / 132.0, -1.0 / 240.0, 1.0 / 252.0, -1.0 / 120.0, 1.0 / 12.0]);
    let y = sum + a.ln() - x.n(0.5) / a - r * series;
    let turn = (x - (x + 0.5).floor()) * PI;
    let low = y - x.n(PI) / turn.unary(UnaryOp::Tan);
    let pole = x.is(Direction::Le, x.n(0.0)).and(x.is_integer());
    pole.choose(x.n(f64::NAN), reflected.choose(low, y))
}

/// `exp(-|x|) I1(x)`, a mean over the circle of `cos(t) exp(|x| cos(t))`; the asymptotic series for large arguments.
fn bessel_i1e<'c, 'a>(x: X<'c, 'a>) -> X<'c, 'a> {
    const FAR: f64 = 30.0;
    let points = if x.dtype() == DType::F64 { 64 } else { 32 };
    let a = x.abs();
    let near = a.with(a.n(FAR), BinaryOp::Minimum);
    // The cosines add to zero, so that expm1 serves and keeps the digits of small results.
    let mean = (0..=points / 2).fold(x.n(0.0), |sum, i| {
        let cosine = (2.0 * PI * f64::from(i) / f64::from(points)).cos();
        let weight = if i == 0 || i == points / 2 { 1.0 } else { 2.0 } / f64::from(points);
        sum + (near * cosine).expm1() * (cosine * weight)
    });
    let near = mean * (-near).exp();
    let (mut term, mut sum) = (x.n(1.0), x.n(1.0));
    for k in 1..12 {
        let odd = f64::from(2 * k - 1);
        term = term * (-(4.0 - odd * odd) / (8.0 * f64::from(k))) / a;
        sum = sum + term;
    }
    let far = sum / (a * (2.0 * PI)).sqrt();
    a.above(FAR).choose(far, near).signed_as(x)
}

/// The Hurwitz zeta function by Euler-Maclaurin summation.
fn zeta<'c, 'a>(s: X<'c, 'a>, q: X<'c, 'a>) -> X<'c, 'a> {
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
    let (mut sum, mut a) = (s.n(0.0), q);
    for _ in 0..12 {
        sum = sum + a.pow(-s);
        a = a + 1.0;
    }
    let last = a.pow(-s);
    sum = sum + last * a / (s - 1.0) + last * 0.5;
    let (mut factor, mut power) = (s, last / a);
    for (k, t) in (0..).zip(TERMS) {
        sum = sum + factor * power * t;
        let j = f64::from(2 * k);
        factor = factor * (s + (j + 1.0)) * (s + (j + 2.0));
        power = power / (a * a);
    }
    let pole = q.is(Direction::Le, q.n(0.0)).and(q.is_integer());
    let fractional = s.is(Direction::Ne, s.floor());
    let undefined = s.below(1.0).or(q.below(0.0).and(fractional));
    let sum = undefined.choose(s.n(f64::NAN), sum);
    s.equals(1.0).or(pole.and(s.above(1.0))).choose(s.n(f64::INFINITY), sum)
}

/// `(-1)^(n + 1) n! zeta(n + 1, x)`; digamma for n = 0.
fn polygamma<'c, 'a>(n: X<'c, 'a>, x: X<'c, 'a>) -> X<'c, 'a> {
    let next = n + 1.0;
    let sign = (n * 0.5).is_integer().choose(n.n(-1.0), n.n(1.0));
    let value = sign * lgamma(next).exp() * zeta(next, x);
    let defined = n.is(Direction::Ge, n.n(0.0)).and(n.is_integer());
    n.equals(0.0).choose(digamma(x), defined.choose(value, n.n(f64::NAN)))
}
