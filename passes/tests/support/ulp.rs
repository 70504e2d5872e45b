//! How far expansions are from the true value, in units in the last place of f32. The true value is the host's f64
//! function; erf and erfc have none, so they are summed here. Used by the test and by `examples/ulp.rs`, which sweeps.

use std::fmt;
use zmlc_passes::expand_math::{Function, machine::Cpu};

/// The largest error found.
#[derive(Clone, Debug, Default)]
pub struct Worst {
    pub ulp: f64,
    pub at: Vec<f32>,
    pub samples: u64,
}

/// Distance of `got` from `want` in ulps of `want`, which is at least the smallest denormal number. Infinite if one is
/// NaN and the other is not, or a zero or infinity is expected and it or its sign is missed.
pub fn distance(got: f32, want: f64) -> f64 {
    if want.is_nan() || got.is_nan() {
        return if want.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if want.is_infinite() || want == 0.0 {
        let same = f64::from(got) == want && got.is_sign_negative() == want.is_sign_negative();
        return if same { 0.0 } else { f64::INFINITY };
    }
    let exponent = ((want.to_bits() >> 52 & 0x7ff) as i32 - 1023).clamp(-126, 127);
    // Infinity stands where the next number after the largest would.
    let got = if got.is_infinite() { f64::from(got.signum()) * 2f64.powi(128) } else { f64::from(got) };
    let off = (got - want).abs() / 2f64.powi(exponent - 23);
    // What rounds to infinity is right as infinity, however large.
    if want.abs() >= 2f64.powi(128) - 2f64.powi(103) {
        if got.abs() >= 2f64.powi(128) { 0.0 } else { f64::INFINITY }
    } else {
        off
    }
}

pub fn truth(function: Function, x: &[f64]) -> f64 {
    match function {
        Function::Acos => x[0].acos(),
        Function::Acosh => x[0].acosh(),
        Function::Asin => x[0].asin(),
        Function::Asinh => x[0].asinh(),
        Function::Atan => x[0].atan(),
        Function::Atan2 => x[0].atan2(x[1]),
        Function::Atanh => x[0].atanh(),
        Function::Cbrt => x[0].cbrt(),
        Function::Cos => x[0].cos(),
        Function::Cosh => x[0].cosh(),
        Function::Erf => erf(x[0]),
        Function::Erfc => erfc(x[0]),
        Function::Exp => x[0].exp(),
        Function::Exp2 => x[0].exp2(),
        Function::Expm1 => x[0].exp_m1(),
        Function::Logistic => 1.0 / (1.0 + (-x[0]).exp()),
        Function::Log => x[0].ln(),
        Function::Log10 => x[0].log10(),
        Function::Log1p => x[0].ln_1p(),
        Function::Log2 => x[0].log2(),
        Function::Powf => x[0].powf(x[1]),
        Function::Rem => x[0] % x[1],
        Function::Round => x[0].round(),
        Function::Rsqrt => 1.0 / x[0].sqrt(),
        Function::Sin => x[0].sin(),
        Function::Sinh => x[0].sinh(),
        Function::Tan => x[0].tan(),
        Function::Tanh => x[0].tanh(),
    }
}

/// Abramowitz and Stegun 7.1.6.
fn erf(x: f64) -> f64 {
    if x.is_nan() || x == 0.0 {
        return x;
    }
    if x.abs() > 3.0 {
        return (1.0 - erfc(x.abs())).copysign(x);
    }
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term.abs() > sum.abs() * 1e-17 {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}
/// Abramowitz and Stegun 7.1.14, the continued fraction from the back, where the series would cancel.
fn erfc(x: f64) -> f64 {
    if x < 1.0 || x.is_nan() {
        return 1.0 - erf(x);
    }
    if x > 40.0 {
        return 0.0;
    }
    let depth = (20.0 + 400.0 / (x * x)) as u32;
    let fraction = (1..=depth).rev().fold(x, |f, k| x + f64::from(k) / 2.0 / f);
    std::f64::consts::FRAC_2_SQRT_PI / 2.0 * (-x * x).exp() / fraction
}

impl fmt::Display for Worst {
    /// `1.24 | 0.7` or, of two arguments, `1.24 | 0.7, 2`.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let at: Vec<_> = self.at.iter().map(|x| format!("{x:e}")).collect();
        write!(f, "{:.2} | {}", self.ulp, at.join(", "))
    }
}
impl Worst {
    pub fn look(&mut self, function: Function, m: &Cpu, x: &[f32]) {
        let got = function.apply(m, x);
        let want = truth(function, &x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>());
        let ulp = distance(got, want);
        self.samples += 1;
        if ulp > self.ulp {
            (self.ulp, self.at) = (ulp, x.to_vec());
        }
    }
}

/// Numbers that functions are special at.
pub const SPECIAL: &[f32] = &[
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    3.0,
    -3.0,
    0.5,
    -0.5,
    1.5,
    -2.5,
    1e-45,
    -1e-45,
    1.1754942e-38,
    f32::MIN_POSITIVE,
    -f32::MIN_POSITIVE,
    0.99999994,
    1.0000001,
    -1.0000001,
    16777216.0,
    16777217.0,
    -16777215.0,
    88.72284,
    88.7229,
    -103.98,
    -104.0,
    1e10,
    -1e10,
    f32::MAX,
    f32::MIN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    std::f32::consts::PI,
    -std::f32::consts::FRAC_PI_2,
];

/// Every `step`th f32 by its bits, and [`SPECIAL`]; two-argument functions get pairs of both and pseudo-random ones.
pub fn sweep(function: Function, m: &Cpu, step: u64) -> Worst {
    let mut worst = Worst::default();
    let two = matches!(function, Function::Atan2 | Function::Powf | Function::Rem);
    if !two {
        let all = (0..1u64 << 32).step_by(step as usize).map(|b| f32::from_bits(b as u32));
        all.chain(SPECIAL.iter().copied()).for_each(|x| worst.look(function, m, &[x]));
        return worst;
    }
    for x in SPECIAL {
        SPECIAL.iter().for_each(|y| worst.look(function, m, &[*x, *y]));
    }
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        seed = seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
        (seed >> 32) as u32
    };
    for _ in 0..(1u64 << 32) / step {
        let (a, b) = (f32::from_bits(next()), f32::from_bits(next()));
        worst.look(function, m, &[a, b]);
        // Where powers are neither 0 nor infinite: bases near 1, exponents to match, and everyday numbers.
        let near = 1.0 + (next() as i32 as f32) * 2f32.powi(-31 - (next() % 24) as i32);
        let exponent = (next() as i32 as f32) * 2f32.powi(-31) * 128.0 / near.log2();
        worst.look(function, m, &[near, exponent]);
        let everyday = (next() as f32 * 2f32.powi(-26)).abs();
        worst.look(function, m, &[everyday, (next() as i32 as f32) * 2f32.powi(-28)]);
    }
    worst
}
