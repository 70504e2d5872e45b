//! Functions of complex numbers, as pairs of real and imaginary part. Infinities, NaN and the signs of zero are as C's
//! Annex G has them; only the exponential function of an infinite imaginary part is NaN in both parts whatever the real
//! part is, as the public test programs of StableHLO have it.

use std::f64::consts::{FRAC_PI_2, LN_2, PI};

pub(super) type C = (f64, f64);

pub(super) fn add(x: C, y: C) -> C {
    (x.0 + y.0, x.1 + y.1)
}
pub(super) fn mul(x: C, y: C) -> C {
    (x.0 * y.0 - x.1 * y.1, x.0 * y.1 + x.1 * y.0)
}
/// Smith's method: scaled by the larger part of the divisor.
pub(super) fn div(x: C, y: C) -> C {
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
pub(super) fn sign(x: C) -> C {
    let m = x.0.hypot(x.1);
    if m == 0.0 || m.is_nan() { if m == 0.0 { (0.0, 0.0) } else { (f64::NAN, f64::NAN) } } else { (x.0 / m, x.1 / m) }
}
pub(super) fn square(x: C) -> C {
    // The difference of squares as a product keeps its digits.
    let re = if x.0.abs() == x.1.abs() && x.0.is_finite() { 0.0 } else { (x.0 - x.1) * (x.0 + x.1) };
    (re, 2.0 * x.0 * x.1)
}

pub(super) fn exp(x: C) -> C {
    if x.1 == 0.0 {
        return (x.0.exp(), x.1);
    }
    let (s, c) = x.1.sin_cos();
    // Two factors, so that exp does not overflow before the product does.
    let (half, rest) = if x.0 > 700.0 { ((x.0 / 2.0).exp(), (x.0 / 2.0).exp()) } else { (x.0.exp(), 1.0) };
    (half * c * rest, half * s * rest)
}
pub(super) fn exp_m1(x: C) -> C {
    if x.1 == 0.0 {
        return (x.0.exp_m1(), x.1);
    }
    let (s, c) = x.1.sin_cos();
    let h = (x.1 / 2.0).sin();
    (x.0.exp_m1() * c - 2.0 * h * h, x.0.exp() * s)
}

/// x + y and what rounding took from it.
fn two_sum(x: f64, y: f64) -> (f64, f64) {
    let s = x + y;
    let part = s - x;
    (s, (x - (s - part)) + (y - part))
}
/// x^2 and what rounding took from it.
fn two_square(x: f64) -> (f64, f64) {
    let p = x * x;
    (p, x.mul_add(x, -p))
}
/// x^2 + y^2 - 1, good to the last place also where most of it cancels.
fn square_sum_less_one(x: f64, y: f64) -> f64 {
    let ((p, p_rest), (q, q_rest)) = (two_square(x), two_square(y));
    let (s, s_rest) = two_sum(p, q);
    let (d, d_rest) = two_sum(s, -1.0);
    d + ((d_rest + s_rest) + (p_rest + q_rest))
}
/// log |x|
fn log_abs(x: C) -> f64 {
    let (p, q) = (x.0.abs(), x.1.abs());
    if p.is_infinite() || q.is_infinite() {
        return f64::INFINITY;
    }
    if p.is_nan() || q.is_nan() {
        return f64::NAN;
    }
    let (a, b) = (p.max(q), p.min(q));
    if a == 0.0 {
        return f64::NEG_INFINITY;
    }
    // Near the unit circle the logarithm is small: by its distance.
    if (0.5..3.0).contains(&a) {
        return 0.5 * square_sum_less_one(a, b).ln_1p();
    }
    let r = b / a;
    a.ln() + 0.5 * (r * r).ln_1p()
}
pub(super) fn log(x: C) -> C {
    (log_abs(x), x.1.atan2(x.0))
}
pub(super) fn log_1p(x: C) -> C {
    let (far, angle) = log((1.0 + x.0, x.1));
    // |1 + x|^2 - 1 = re (2 + re) + im^2, by parts where the sum is not near -1.
    if x.0.abs() < 2.0 && x.1.abs() < 2.0 {
        let ((p, p_rest), (q, q_rest)) = (two_square(x.0), two_square(x.1));
        let (s, s_rest) = two_sum(2.0 * x.0, p);
        let (s, rest) = two_sum(s, q);
        let small = s + ((rest + s_rest) + (p_rest + q_rest));
        if small > -0.5 {
            return (0.5 * small.ln_1p(), angle);
        }
    }
    (far, angle)
}
pub(super) fn sqrt(x: C) -> C {
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
        2f64.powi(200)
    } else {
        1.0
    };
    let (a, b) = (x.0 * scale, x.1 * scale);
    let t = ((a.abs() + a.hypot(b)) / 2.0).sqrt();
    let back = 1.0 / scale.sqrt();
    if a >= 0.0 { (t * back, b / (2.0 * t) * back) } else { (b.abs() / (2.0 * t) * back, t.copysign(b) * back) }
}
pub(super) fn pow(x: C, y: C) -> C {
    if x == (0.0, 0.0) {
        return if y == (0.0, 0.0) { (1.0, 0.0) } else { (0.0, 0.0) };
    }
    exp(mul(y, log(x)))
}

/// A product, of a zero too if the other factor is infinite or none; that of an infinity without an angle is infinite.
fn times(x: f64, angle: f64, zero: f64) -> f64 {
    let p = x * angle;
    if p.is_nan() { zero } else { p }
}
/// The functions `first` and `second` of the real part, which grow like half of e^|x|, times cosine and sine.
fn hyperbolic(x: C, first: fn(f64) -> f64, second: fn(f64) -> f64) -> [(f64, f64); 2] {
    let (s, c) = x.1.sin_cos();
    // From here on half of e^|x| overflows before the product does.
    if x.0.abs() > 700.0 && x.0.is_finite() {
        let e = (x.0.abs() - 700.0).exp();
        let half = 700f64.exp() / 2.0;
        return [(first(x.0).signum() * half, e * c), (second(x.0).signum() * half, e * s)];
    }
    [(first(x.0), c), (second(x.0), s)]
}
/// Whether an infinite real part stands beside an angle that is none.
fn without_angle(x: C) -> bool {
    x.0.is_infinite() && !x.1.is_finite()
}
pub(super) fn sinh(x: C) -> C {
    let [(re, c), (im, s)] = hyperbolic(x, f64::sinh, f64::cosh);
    let zero = |z: f64, zero: bool| if zero { z } else { f64::NAN };
    (times(re, c, zero(x.0, x.0 == 0.0 || without_angle(x))), times(im, s, zero(x.1, x.1 == 0.0)))
}
pub(super) fn cosh(x: C) -> C {
    let [(re, c), (im, s)] = hyperbolic(x, f64::cosh, f64::sinh);
    let infinite = if without_angle(x) { f64::INFINITY } else { f64::NAN };
    let zero = 0f64.copysign(x.0) * 1f64.copysign(x.1);
    (times(re, c, infinite), times(im, s, if x.0 == 0.0 || x.1 == 0.0 { zero } else { f64::NAN }))
}
pub(super) fn tanh(x: C) -> C {
    let (s, c) = x.1.sin_cos();
    if x.0.is_infinite() {
        return (x.0.tanh(), 0f64.copysign(if x.1.is_finite() { s * c } else { x.1 }));
    }
    let (t, inverse_cosh) = (x.0.tanh(), 1.0 / x.0.cosh());
    let d = c * c + t * t * (s * s);
    let (re, im) = (t / d, s * c * (inverse_cosh * inverse_cosh) / d);
    (if x.0 == 0.0 { t } else { re }, if x.1 == 0.0 { x.1 } else { im })
}
/// -i f(i x)
fn turned(f: fn(C) -> C, x: C) -> C {
    let w = f((-x.1, x.0));
    (w.1, -w.0)
}
pub(super) fn sin(x: C) -> C {
    turned(sinh, x)
}
pub(super) fn cos(x: C) -> C {
    cosh((-x.1, x.0))
}
pub(super) fn tan(x: C) -> C {
    turned(tanh, x)
}
/// `-i log((x + i y) / sqrt(x^2 + y^2))` of `atan2(y, x)`.
pub(super) fn atan2(y: C, x: C) -> C {
    let iy = (-y.1, y.0);
    let r = sqrt(add(mul(x, x), mul(y, y)));
    let l = log(div(add(x, iy), r));
    (l.1, -l.0)
}

/// Of non-negative x and y: the angle of asin and its complement, and the imaginary part; after Hull, Fairgrieve and Tang
/// (1997), by the distances r and s to -1 and 1, of which a is the mean.
fn inverse(x: f64, y: f64) -> (f64, f64, f64) {
    // On the imaginary axis the angle is 0 whatever y is.
    let angles = |other: f64| if x == 0.0 { (0.0, FRAC_PI_2) } else { (x.atan2(other), other.atan2(x)) };
    // Far out the angle is that of the number, and squares would overflow.
    if x.max(y) > 1e150 {
        let (angle, complement) = angles(y);
        return (angle, complement, log_abs((x, y)) + LN_2);
    }
    let (r, s) = ((x + 1.0).hypot(y), (x - 1.0).hypot(y));
    let a = 0.5 * (r + s);
    // A small y is scaled up, so that its square is not lost.
    let scale = if y < 1e-60 { 2f64.powi(560) } else { 1.0 };
    let over = |d: f64| if y == 0.0 { 0.0 } else { y * scale / d };
    let outside = x > 1.0;
    let left = if outside { s + (x - 1.0) } else { s + (1.0 - x) };
    let from_up = over(r + (x + 1.0));
    let both = 0.5 * (from_up + over(left));
    // a - 1 and a - x without cancellation: the smaller one, y both, is a - x for x > 1; the other is half of `larger`.
    let (smaller, larger) = (both / scale * y, from_up / scale * y + left);
    let smaller_root = |w: f64| (both * w * (y * scale)).sqrt() / scale;
    let larger_root = |w: f64| (larger * (0.5 * w)).sqrt();
    let (less_one, root, other) = if outside {
        (0.5 * larger, larger_root(a + 1.0), smaller_root(a + x))
    } else {
        (smaller, smaller_root(a + 1.0), larger_root(a + x))
    };
    let im = if a < 1.5 { (less_one + root).ln_1p() } else { (a + root).ln() };
    let (angle, complement) = angles(other);
    (angle, complement, im)
}
pub(super) fn asin(z: C) -> C {
    let (re, _, im) = inverse(z.0.abs(), z.1.abs());
    (re.copysign(z.0), im.copysign(z.1))
}
pub(super) fn acos(z: C) -> C {
    let (_, angle, im) = inverse(z.0.abs(), z.1.abs());
    (if z.0.is_sign_negative() { PI - angle } else { angle }, -im.copysign(z.1))
}
pub(super) fn asinh(z: C) -> C {
    turned(asin, z)
}
/// The value whose real part is not negative.
pub(super) fn acosh(z: C) -> C {
    let w = acos(z);
    (w.1.abs(), w.0.copysign(z.1))
}
pub(super) fn atanh(z: C) -> C {
    let (x, y) = (z.0.abs(), z.1.abs());
    let infinite = x.is_infinite() || y.is_infinite();
    let (re, im) = if infinite {
        (0.0, if y.is_nan() { y } else { FRAC_PI_2 })
    } else if x.max(y) > 1e140 {
        // x / |z|^2 and a right angle.
        let (large, small) = (x.max(y), x.min(y));
        let r = small / large;
        (x / large / (1.0 + r * r) / large, FRAC_PI_2)
    } else {
        let d = (1.0 - x) * (1.0 - x) + y * y;
        // Next to 1 the square of the distance is too small; the logarithm of the distance is not.
        let near = -0.5 * (0.5 * (1.0 - x).hypot(y)).ln();
        let re = if d < 1e-280 { near } else { 0.25 * (4.0 * x / d).ln_1p() };
        // Subtracted from zero, not negated: at 1 the difference is a zero of positive sign.
        (re, 0.5 * (2.0 * y).atan2(0.0 - square_sum_less_one(x, y)))
    };
    (if x == 0.0 { x } else { re }.copysign(z.0), im.copysign(z.1))
}
pub(super) fn atan(z: C) -> C {
    turned(atanh, z)
}
