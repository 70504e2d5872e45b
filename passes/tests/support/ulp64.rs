//! How far the f64 expansions are from the true value, in units in the last place of f64. The true value is computed in
//! double-double arithmetic (`wide.rs`); special values are the host's.

use crate::{
    ulp,
    wide::{self, LN_2, Wide},
};
use zmlc_passes::expand_math::{Function, machine::Cpu64};

/// The largest error found.
#[derive(Clone, Debug, Default)]
pub struct Worst {
    pub ulp: f64,
    pub at: Vec<f64>,
    pub samples: u64,
}

/// Beyond it `wide` has too few digits of pi.
const FARTHEST_ANGLE: f64 = 1e12;

/// The true value as a number and a power of two, where it is neither special nor denormal in its parts.
fn truth(function: Function, x: &[f64]) -> Option<(Wide, i32)> {
    let w = Wide::from(x[0]);
    let (a, one) = (Wide::from(x[0].abs()), Wide::from(1.0));
    let signed = |v: Wide| if x[0] < 0.0 { -v } else { v };
    let cosine = || ((one - w) * (one + w)).sqrt();
    let large_log = || wide::log(a) + LN_2;
    // (e^a + sign e^-a) / 2
    let hyperbolic = |sign: f64| {
        let (e, k) = wide::exp(a);
        let back = one / e;
        let small = back.scaled(2f64.powi((-2 * k).max(-300)) * sign);
        (e + if k < 60 { small } else { 0.0.into() }, k - 1)
    };
    Some(match function {
        Function::Acos => (wide::atan2(cosine(), w), 0),
        Function::Asin => (wide::atan2(w, cosine()), 0),
        Function::Atan if x[0].abs() > 1e-290 => (wide::atan2(w, one), 0),
        Function::Atan2 => {
            let ratio = x[0].abs() / x[1].abs();
            if !(1e-290..1e290).contains(&ratio) || x.iter().any(|v| v.abs() < 1e-280) {
                return None;
            }
            (wide::atan2(w, x[1].into()), 0)
        }
        Function::Acosh if x[0] > 1e15 => (large_log(), 0),
        Function::Acosh => {
            let t = w - one;
            (wide::log1p(t + (t * (t + 2.0.into())).sqrt()), 0)
        }
        Function::Asinh if x[0].abs() > 1e30 => (signed(large_log()), 0),
        Function::Asinh if x[0].abs() > 1e-140 => (signed(wide::log1p(a + a * a / (one + (a * a + one).sqrt()))), 0),
        Function::Atanh if x[0].abs() > 1e-290 => (signed(wide::log1p(a.scaled(2.0) / (one - a)).scaled(0.5)), 0),
        Function::Cbrt if x[0].abs() > 1e-280 => (wide::cbrt(w), 0),
        Function::Sin | Function::Cos | Function::Tan if x[0].abs() > FARTHEST_ANGLE => return None,
        Function::Cos => (wide::sin_cos(w).1, 0),
        Function::Sin if x[0].abs() > 1e-140 => (wide::sin_cos(w).0, 0),
        Function::Tan if x[0].abs() > 1e-140 => {
            let (s, c) = wide::sin_cos(w);
            (s / c, 0)
        }
        Function::Cosh => hyperbolic(1.0),
        Function::Sinh if x[0].abs() > 1.0 => {
            let (v, k) = hyperbolic(-1.0);
            (signed(v), k)
        }
        Function::Sinh if x[0].abs() > 1e-140 => {
            let t = wide::expm1(a);
            (signed((t + t / (t + one)).scaled(0.5)), 0)
        }
        Function::Tanh if x[0].abs() > 1e-140 => {
            let t = wide::expm1(Wide::from(x[0].abs().min(40.0) * 2.0));
            (signed(t / (t + 2.0.into())), 0)
        }
        Function::Erf if x[0].abs() > 1e-140 => (wide::erf(x[0]), 0),
        Function::Erfc if x[0] >= 2.0 => wide::erfc_parts(x[0]),
        Function::Erfc => (wide::erfc(x[0].max(-10.0)), 0),
        Function::Exp => wide::exp(w),
        Function::Exp2 => {
            let k = x[0].round();
            let (v, n) = wide::exp((w - k.into()) * LN_2);
            (v, n + k as i32)
        }
        Function::Expm1 if x[0] > 100.0 => wide::exp(w),
        Function::Expm1 if x[0].abs() > 1e-140 => (wide::expm1(Wide::from(x[0].max(-100.0))), 0),
        Function::Log => (wide::log(w), 0),
        Function::Log2 => (wide::log(w) / LN_2, 0),
        Function::Log10 => (wide::log(w) / wide::log(10.0.into()), 0),
        Function::Log1p if x[0].abs() > 1e-140 => (wide::log1p(w), 0),
        Function::Powf if x[0] > 0.0 => wide::exp(wide::log(w) * x[1].into()),
        Function::Rsqrt if x[0] > 1e-280 => (one / w.sqrt(), 0),
        _ => return None,
    })
}
/// The host's value, for what is special or exact.
fn host(function: Function, x: &[f64]) -> f64 {
    match function {
        Function::Erf if x[0].is_infinite() => x[0].signum(),
        Function::Erfc if x[0].is_infinite() => 1.0 - x[0].signum(),
        Function::Erf | Function::Erfc if x[0].is_nan() => x[0],
        Function::Erf if x[0].abs() < 1e-100 => x[0] * std::f64::consts::FRAC_2_SQRT_PI,
        // The host's own overflow.
        Function::Acosh if x[0] > 1e300 => x[0].ln() + LN_2.0,
        Function::Asinh if x[0].abs() > 1e300 => (x[0].abs().ln() + LN_2.0).copysign(x[0]),
        Function::Erf => wide::erf(x[0].clamp(-10.0, 10.0)).0,
        Function::Erfc => wide::erfc(x[0].clamp(-10.0, 30.0)).0,
        _ => ulp::truth(function, x),
    }
}

fn distance(function: Function, got: f64, x: &[f64]) -> f64 {
    let host = host(function, x);
    if host.is_nan() || got.is_nan() {
        return if host.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if host == 0.0 || host.is_infinite() || x.iter().any(|x| !x.is_finite()) {
        let least = f64::from_bits(1);
        let close = got == host || (host == 0.0 && got.abs() <= least) || (host.is_infinite() && got.abs() == f64::MAX);
        return match close && got.is_sign_negative() == host.is_sign_negative() {
            true => ((got - host) / least).abs().min(if got == host { 0.0 } else { 1.0 }),
            false => f64::INFINITY,
        };
    }
    let Some((want, k)) = truth(function, x) else {
        // The host's own functions are good to an ulp: a coarse look.
        let apart = got.to_bits().abs_diff(host.to_bits());
        return if apart <= 3 { 0.0 } else { apart as f64 };
    };
    let exponent = (((want.0.to_bits() >> 52 & 0x7ff) as i32) - 1023 + k).clamp(-1022, 1023);
    let scale = |v: f64, by: i32| v * 2f64.powi(by / 2) * 2f64.powi(by - by / 2);
    let got = if got.is_infinite() { scale(got.signum(), 1024 - k) } else { scale(got, -k) };
    ((got - want.0) - want.1).abs() / 2f64.powi(exponent - 52 - k)
}

impl std::fmt::Display for Worst {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let at: Vec<_> = self.at.iter().map(|x| format!("{x:e}")).collect();
        write!(f, "{:.2} | {}", self.ulp, at.join(", "))
    }
}
impl Worst {
    fn look(&mut self, function: Function, m: &Cpu64, x: &[f64]) {
        let ulp = distance(function, function.apply(m, x), x);
        self.samples += 1;
        if ulp > self.ulp {
            (self.ulp, self.at) = (ulp, x.to_vec());
        }
    }
}

/// `count` pseudo-random numbers of all exponents, as many of everyday size, and the special ones; two-argument functions
/// get pairs of them.
pub fn sweep(function: Function, m: &Cpu64, count: u64) -> Worst {
    let mut worst = Worst::default();
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (seed >> 33 ^ seed).rotate_left((seed >> 59) as u32)
    };
    let mut everyday = move || {
        let (bits, exponent) = (next(), next() % 40);
        f64::from_bits(bits & (1 << 63 | ((1 << 52) - 1)) | (1023 - 32 + exponent) << 52)
    };
    let two = matches!(function, Function::Atan2 | Function::Powf | Function::Rem);
    let special: Vec<f64> = ulp::SPECIAL.iter().map(|x| f64::from(*x)).collect();
    for x in &special {
        match two {
            true => special.iter().for_each(|y| worst.look(function, m, &[*x, *y])),
            false => worst.look(function, m, &[*x]),
        }
    }
    let mut other = 0x2545_f491_4f6c_dd1du64;
    let mut any = move || {
        other ^= other << 13;
        other ^= other >> 7;
        other ^= other << 17;
        f64::from_bits(other)
    };
    for _ in 0..count {
        if two {
            worst.look(function, m, &[any(), any()]);
            let (x, y) = (everyday(), everyday());
            worst.look(function, m, &[x, y]);
            // Where powers are neither 0 nor infinite.
            worst.look(function, m, &[x.abs(), y % 1000.0 / x.abs().log2()]);
        } else {
            worst.look(function, m, &[any()]);
            worst.look(function, m, &[everyday()]);
            worst.look(function, m, &[everyday() % 2.0]);
        }
    }
    worst
}
