//! Functions of real numbers that Rust's standard library does not have.

/// NaN if either is; +0 is above -0.
pub(super) fn maximum(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        f64::NAN
    } else if x == 0.0 && y == 0.0 {
        if x.is_sign_positive() { x } else { y }
    } else {
        x.max(y)
    }
}
pub(super) fn minimum(x: f64, y: f64) -> f64 {
    -maximum(-x, -y)
}

/// `x` to the power of `y` modulo the type's range; negative powers are 0 except of 1 and -1.
pub(super) fn int_power(x: i128, y: i128, mask: i128) -> i128 {
    if y < 0 {
        return match x {
            1 => 1,
            -1 => 1 - 2 * (y & 1),
            _ => 0,
        };
    }
    let (mut base, mut e, mut r) = (x & mask, y, 1i128);
    while e > 0 {
        if e & 1 == 1 {
            r = r.wrapping_mul(base) & mask;
        }
        base = base.wrapping_mul(base) & mask;
        e >>= 1;
    }
    r
}

pub(super) fn asinh(x: f64) -> f64 {
    let a = x.abs();
    let y = if a > 1e150 { a.ln() + std::f64::consts::LN_2 } else { (a + a * a / (1.0 + a.hypot(1.0))).ln_1p() };
    y.copysign(x)
}

pub(super) fn acosh(x: f64) -> f64 {
    let t = x - 1.0;
    if x > 1e150 { x.ln() + std::f64::consts::LN_2 } else { (t + (t * (t + 2.0)).sqrt()).ln_1p() }
}

pub(super) fn lgamma(x: f64) -> f64 {
    if x.is_infinite() {
        return f64::INFINITY;
    }
    libm::lgamma(x)
}

/// Newton's method on erf from Winitzki's approximation.
pub(super) fn erf_inv(x: f64) -> f64 {
    if x.is_nan() || x.abs() > 1.0 {
        return f64::NAN;
    }
    if x.abs() == 1.0 {
        return f64::INFINITY.copysign(x);
    }
    if x == 0.0 {
        return x;
    }
    let a = 0.147;
    let l = (-x * x).ln_1p();
    let t = 2.0 / (std::f64::consts::PI * a) + l / 2.0;
    let mut y = ((t * t - l / a).sqrt() - t).sqrt().copysign(x);
    for _ in 0..4 {
        // Near the ends erf is flat; the complement keeps the digits.
        let error =
            if x.abs() < 0.5 { libm::erf(y) - x } else { -(libm::erfc(y.abs()) - (1.0 - x.abs())) * x.signum() };
        let slope = 2.0 / std::f64::consts::PI.sqrt() * (-y * y).exp();
        let step = error / slope;
        y -= step / (1.0 + y * step);
    }
    y
}

/// Recurrence up to 10, then the asymptotic series; reflection below zero.
pub(super) fn digamma(x: f64) -> f64 {
    if x <= 0.0 && x == x.floor() {
        return f64::NAN;
    }
    if x < 0.0 {
        return digamma(1.0 - x) - std::f64::consts::PI / (std::f64::consts::PI * (x - x.floor())).tan();
    }
    if x.is_infinite() {
        return x;
    }
    let (mut x, mut r) = (x, 0.0);
    while x < 10.0 {
        r -= 1.0 / x;
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    let series = y
        * (1.0 / 12.0
            - y * (1.0 / 120.0 - y * (1.0 / 252.0 - y * (1.0 / 240.0 - y * (1.0 / 132.0 - y * 691.0 / 32760.0)))));
    r + x.ln() - 0.5 / x - series
}

/// The Hurwitz zeta function by Euler-Maclaurin summation.
pub(super) fn zeta(s: f64, q: f64) -> f64 {
    if s == 1.0 {
        return f64::INFINITY;
    }
    if s < 1.0 || s.is_nan() || q.is_nan() {
        return f64::NAN;
    }
    if q <= 0.0 {
        if q == q.floor() {
            return f64::INFINITY;
        }
        if s != s.floor() {
            return f64::NAN;
        }
    }
    let mut sum = 0.0;
    let mut a = q;
    let mut n = 0;
    while n < 12 || a <= 12.0 {
        sum += a.powf(-s);
        a += 1.0;
        n += 1;
    }
    sum += a.powf(1.0 - s) / (s - 1.0) + 0.5 * a.powf(-s);
    // Bernoulli numbers B2k / (2k)!
    const TERMS: [f64; 8] = [
        1.0 / 12.0,
        -1.0 / 720.0,
        1.0 / 30240.0,
        -1.0 / 1_209_600.0,
        1.0 / 47_900_160.0,
        -691.0 / 1_307_674_368_000.0,
        1.0 / 74_724_249_600.0,
        -3617.0 / 10_670_622_842_880_000.0,
    ];
    let mut factor = s;
    let mut power = a.powf(-s - 1.0);
    for (k, t) in TERMS.into_iter().enumerate() {
        sum += t * factor * power;
        let j = 2.0 * k as f64;
        factor *= (s + j + 1.0) * (s + j + 2.0);
        power /= a * a;
    }
    sum
}

pub(super) fn polygamma(n: f64, x: f64) -> f64 {
    if n == 0.0 {
        return digamma(x);
    }
    if n < 0.0 || n != n.floor() {
        return f64::NAN;
    }
    let sign = if n % 2.0 == 0.0 { -1.0 } else { 1.0 };
    sign * libm::lgamma(n + 1.0).exp() * zeta(n + 1.0, x)
}

/// `exp(-|x|) I1(x)`: the power series for small arguments, the asymptotic one for large.
pub(super) fn bessel_i1e(x: f64) -> f64 {
    let a = x.abs();
    let y = if a < 30.0 {
        let q = a * a / 4.0;
        let (mut term, mut sum) = (a / 2.0, a / 2.0);
        for k in 1..200 {
            term *= q / (f64::from(k) * f64::from(k + 1));
            sum += term;
            if term < sum * 1e-18 {
                break;
            }
        }
        sum * (-a).exp()
    } else if a.is_infinite() {
        0.0
    } else {
        let (mut term, mut sum) = (1.0, 1.0);
        for k in 1..30 {
            let odd = f64::from(2 * k - 1);
            term *= -(4.0 - odd * odd) / (f64::from(k) * 8.0 * a);
            sum += term;
            if term.abs() < 1e-18 {
                break;
            }
        }
        sum / (2.0 * std::f64::consts::PI * a).sqrt()
    };
    y.copysign(x)
}
