//! Scalar functions that Rust's standard library does not have, for real and complex numbers.

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

pub(super) mod complex {
    //! Complex numbers as pairs of real and imaginary part.
    pub type C = (f64, f64);

    pub fn add(x: C, y: C) -> C {
        (x.0 + y.0, x.1 + y.1)
    }
    pub fn mul(x: C, y: C) -> C {
        (x.0 * y.0 - x.1 * y.1, x.0 * y.1 + x.1 * y.0)
    }
    pub fn div(x: C, y: C) -> C {
        // Smith's method: scale by the larger part.
        if y.0.abs() >= y.1.abs() {
            if y.0 == 0.0 && y.1 == 0.0 {
                return (x.0 / y.0, x.1 / y.0);
            }
            let r = y.1 / y.0;
            let d = y.0 + y.1 * r;
            ((x.0 + x.1 * r) / d, (x.1 - x.0 * r) / d)
        } else {
            let r = y.0 / y.1;
            let d = y.0 * r + y.1;
            ((x.0 * r + x.1) / d, (x.1 * r - x.0) / d)
        }
    }
    pub fn sign(x: C) -> C {
        let m = x.0.hypot(x.1);
        if m == 0.0 || m.is_nan() {
            if m == 0.0 { (0.0, 0.0) } else { (f64::NAN, f64::NAN) }
        } else {
            (x.0 / m, x.1 / m)
        }
    }
    pub fn exp(x: C) -> C {
        if x.1 == 0.0 {
            return (x.0.exp(), x.1);
        }
        if x.0 == f64::NEG_INFINITY && !x.1.is_finite() {
            return (0.0, 0.0);
        }
        let (s, c) = x.1.sin_cos();
        // Two factors, so that exp does not overflow before the product does.
        let (half, rest) = if x.0 > 700.0 { ((x.0 / 2.0).exp(), (x.0 / 2.0).exp()) } else { (x.0.exp(), 1.0) };
        (half * c * rest, half * s * rest)
    }
    pub fn exp_m1(x: C) -> C {
        if x.1 == 0.0 {
            return (x.0.exp_m1(), x.1);
        }
        let (s, c) = x.1.sin_cos();
        let h = (x.1 / 2.0).sin();
        (x.0.exp_m1() * c - 2.0 * h * h, x.0.exp() * s)
    }
    pub fn log(x: C) -> C {
        (log_abs(x), x.1.atan2(x.0))
    }
    fn log_abs(x: C) -> f64 {
        let (a, b) = (x.0.abs().max(x.1.abs()), x.0.abs().min(x.1.abs()));
        if a.is_infinite() || b.is_infinite() {
            return f64::INFINITY;
        }
        if a == 0.0 || a.is_nan() {
            return a.ln();
        }
        if (0.5..3.0).contains(&a) {
            return 0.5 * ((a - 1.0) * (a + 1.0) + b * b).ln_1p();
        }
        let r = b / a;
        a.ln() + 0.5 * (r * r).ln_1p()
    }
    pub fn log_1p(x: C) -> C {
        let re = if x.0.abs() < 0.5 && x.1.abs() < 0.5 {
            0.5 * (x.0 * (2.0 + x.0) + x.1 * x.1).ln_1p()
        } else {
            log_abs((1.0 + x.0, x.1))
        };
        (re, x.1.atan2(1.0 + x.0))
    }
    pub fn sqrt(x: C) -> C {
        if x == (0.0, 0.0) {
            return (0.0, x.1);
        }
        if x.1.is_infinite() {
            return (f64::INFINITY, x.1);
        }
        if x.0.is_infinite() {
            let imaginary = if x.1.is_nan() { f64::NAN } else { 0f64.copysign(x.1) };
            return if x.0 > 0.0 { (x.0, imaginary) } else { (imaginary.abs(), f64::INFINITY.copysign(x.1)) };
        }
        // Scaled so that the sum neither overflows nor underflows.
        let k = x.0.abs().max(x.1.abs());
        let scale = if k > 1e300 {
            0.25
        } else if k < 1e-290 {
            2f64.powi(100)
        } else {
            1.0
        };
        let (a, b) = (x.0 * scale, x.1 * scale);
        let t = ((a.abs() + a.hypot(b)) / 2.0).sqrt();
        let back = 1.0 / scale.sqrt();
        if a >= 0.0 { (t * back, b / (2.0 * t) * back) } else { (b.abs() / (2.0 * t) * back, t.copysign(b) * back) }
    }
    pub fn pow(x: C, y: C) -> C {
        if x == (0.0, 0.0) {
            return if y == (0.0, 0.0) { (1.0, 0.0) } else { (0.0, 0.0) };
        }
        exp(mul(y, log(x)))
    }
    pub fn sin(x: C) -> C {
        (x.0.sin() * x.1.cosh(), x.0.cos() * x.1.sinh())
    }
    pub fn cos(x: C) -> C {
        (x.0.cos() * x.1.cosh(), -x.0.sin() * x.1.sinh())
    }
    pub fn tanh(x: C) -> C {
        if x.0.abs() > 20.0 {
            let s = (2.0 * x.1).sin();
            return (1f64.copysign(x.0), 4.0 * s / 2.0 * (-2.0 * x.0.abs()).exp());
        }
        let d = (2.0 * x.0).cosh() + (2.0 * x.1).cos();
        ((2.0 * x.0).sinh() / d, (2.0 * x.1).sin() / d)
    }
    pub fn tan(x: C) -> C {
        let t = tanh((-x.1, x.0));
        (t.1, -t.0)
    }
    /// `-i log((x + i y) / sqrt(x^2 + y^2))` of `atan2(y, x)`.
    pub fn atan2(y: C, x: C) -> C {
        let iy = (-y.1, y.0);
        let r = sqrt(add(mul(x, x), mul(y, y)));
        let l = log(div(add(x, iy), r));
        (l.1, -l.0)
    }
}

pub(super) fn asinh(x: f64) -> f64 {
    let a = x.abs();
    let y = if a > 1e150 { a.ln() + std::f64::consts::LN_2 } else { (a + a * a / (1.0 + a.hypot(1.0))).ln_1p() };
    y.copysign(x)
}

pub(super) fn acosh(x: f64) -> f64 {
    if x > 1e150 { x.ln() + std::f64::consts::LN_2 } else { x.acosh() }
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

pub(super) mod inverse {
    //! Inverse trigonometric and hyperbolic functions of complex numbers, after Hull, Fairgrieve and Tang.
    use super::complex::C;

    /// Imaginary part of acosh-like forms and the real part of asin, for non-negative arguments.
    fn kernel(x: f64, y: f64) -> (f64, f64) {
        // r and s: distances to 1 and -1; a their mean.
        let r = (x + 1.0).hypot(y);
        let s = (x - 1.0).hypot(y);
        let a = 0.5 * (r + s);
        // a - 1 without cancellation.
        let up = y * y / (r + (x + 1.0));
        let down = if x < 1.0 { y * y / (s + (1.0 - x)) } else { s + (x - 1.0) };
        let am1 = 0.5 * (up + down);
        let im = if a < 1.5 && am1.is_finite() {
            (am1 + (am1 * (a + 1.0)).sqrt()).ln_1p()
        } else if a > 1e150 {
            a.ln() + std::f64::consts::LN_2
        } else {
            (a + (a * a - 1.0).sqrt()).ln()
        };
        // sqrt(a^2 - x^2)
        let apx = a + x;
        let amx = if x <= 1.0 {
            0.5 * (y * y / (r + (x + 1.0)) + (s + (1.0 - x)))
        } else {
            0.5 * (y * y / (r + (x + 1.0)) + y * y / (s + (x - 1.0)))
        };
        let root = (apx).sqrt() * amx.sqrt();
        (x.atan2(root), im)
    }
    pub fn asin(z: C) -> C {
        let (re, im) = kernel(z.0.abs(), z.1.abs());
        (re.copysign(z.0), im.copysign(z.1))
    }
    pub fn acos(z: C) -> C {
        let (x, y) = (z.0.abs(), z.1.abs());
        let (re, im) = kernel(x, y);
        let angle = std::f64::consts::FRAC_PI_2 - re;
        // Near 1 the difference cancels; the tangent of the angle does not.
        let r = (x + 1.0).hypot(y);
        let s = (x - 1.0).hypot(y);
        let a = 0.5 * (r + s);
        let amx = if x <= 1.0 {
            0.5 * (y * y / (r + (x + 1.0)) + (s + (1.0 - x)))
        } else {
            0.5 * (y * y / (r + (x + 1.0)) + y * y / (s + (x - 1.0)))
        };
        let exact = ((a + x).sqrt() * amx.sqrt()).atan2(x);
        let angle = if exact.is_finite() { exact } else { angle };
        (if z.0.is_sign_negative() { std::f64::consts::PI - angle } else { angle }, -im.copysign(z.1))
    }
    pub fn asinh(z: C) -> C {
        let w = asin((-z.1, z.0));
        (w.1, -w.0)
    }
    pub fn acosh(z: C) -> C {
        let w = acos(z);
        // Principal value: real part not negative.
        if w.1.is_sign_positive() && w.1 != 0.0 { (w.1, -w.0) } else { (-w.1, w.0.copysign(z.1)) }
    }
    pub fn atanh(z: C) -> C {
        let (x, y) = (z.0.abs(), z.1.abs());
        if x > 1e150 || y > 1e150 {
            let re = if x.is_infinite() || y.is_infinite() { 0.0 } else { x / x.hypot(y) / x.hypot(y) };
            return (re.copysign(z.0), std::f64::consts::FRAC_PI_2.copysign(z.1));
        }
        let d = (1.0 - x) * (1.0 - x) + y * y;
        let re = 0.25 * (4.0 * x / d).ln_1p();
        let im = 0.5 * (2.0 * y).atan2((1.0 - x) * (1.0 + x) - y * y);
        (re.copysign(z.0), im.copysign(z.1))
    }
    pub fn atan(z: C) -> C {
        let w = atanh((-z.1, z.0));
        (w.1, -w.0)
    }
}
