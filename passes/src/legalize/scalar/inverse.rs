//! Inverse trigonometric and hyperbolic functions of complex numbers, after Hull, Fairgrieve and Tang (1997): by the distances
//! to 1 and -1, in the first quadrant, with the signs put back.

use super::{complex::C, real::Real};
use crate::ir::V;

/// Of non-negative x and y: the angle of asin and its complement, and the imaginary part.
fn kernel<'c>(m: Real<'_, 'c>, x: V<'c>, y: V<'c>) -> (V<'c>, V<'c>, V<'c>) {
    let (x_up, x_down) = (m.plus(x, 1.0), m.plus(x, -1.0));
    let (r, s) = (m.hypot(x_up, y), m.hypot(x_down, y));
    let a = m.add(m.scale(r, 0.5), m.scale(s, 0.5));
    let outside = m.gt(x, 1.0);
    let pick = |outer: V<'c>, inner: V<'c>| m.select(outside, outer, inner);
    // A small y is scaled up, so that its square is not lost.
    let (tiny, up) = if m.double() { (1e-60, 560) } else { (1e-12, 80) };
    let small_y = m.lt(y, tiny);
    let by = |e: i32| m.select(small_y, m.c(2f64.powi(e)), m.c(1.0));
    let scaled = m.mul(y, by(up));
    // y / d, zero at y = 0 whatever d is.
    let over = |d: V<'c>| m.select(m.eq(y, 0.0), m.c(0.0), m.div(scaled, d));
    let left = m.select(outside, m.add(s, x_down), m.sub(s, x_down));
    let from_up = over(m.add(r, x_up));
    let both = m.scale(m.add(from_up, over(left)), 0.5);
    // a - 1 and a - x without cancellation: the smaller one, y both, is a - x for x > 1; the other is half
    // of `larger`.
    let smaller = m.mul(m.mul(both, by(-up)), y);
    let larger = m.add(m.mul(m.mul(from_up, by(-up)), y), left);
    let (a_and_1, a_and_x) = (m.plus(a, 1.0), m.add(a, x));
    let smaller_root = m.mul(m.sqrt(m.mul(m.mul(both, pick(a_and_x, a_and_1)), scaled)), by(-up));
    let larger_root = m.sqrt(m.mul(larger, m.scale(pick(a_and_1, a_and_x), 0.5)));
    // sqrt(a^2 - 1) and sqrt(a^2 - x^2)
    let (root, other) = (pick(larger_root, smaller_root), pick(smaller_root, larger_root));
    let near = m.math("log1p", m.add(pick(m.scale(larger, 0.5), smaller), root));
    let im = m.select(m.lt(a, 1.5), near, m.math("log", m.add(a, root)));
    // Far out the angle is that of z, and squares would overflow.
    let limit = if m.double() { 1e150 } else { 1e18 };
    let huge = m.or(m.gt(m.max(x, y), limit), m.or(m.is_inf(x), m.is_inf(y)));
    let im = m.select(huge, m.plus(m.log_abs((x, y)), std::f64::consts::LN_2), im);
    // On the imaginary axis the angle is 0 whatever y is.
    let other = m.select(m.eq(x, 0.0), m.c(1.0), m.select(huge, y, other));
    (m.atan2(x, other), m.atan2(other, x), im)
}
pub(super) fn asin<'c>(m: Real<'_, 'c>, z: C<'c>) -> C<'c> {
    let (re, _, im) = kernel(m, m.abs(z.0), m.abs(z.1));
    (m.copysign(re, z.0), m.copysign(im, z.1))
}
pub(super) fn acos<'c>(m: Real<'_, 'c>, z: C<'c>) -> C<'c> {
    let (_, angle, im) = kernel(m, m.abs(z.0), m.abs(z.1));
    let left = m.eq(m.copysign(m.c(1.0), z.0), -1.0);
    let re = m.select(left, m.sub(m.c(std::f64::consts::PI), angle), angle);
    (re, m.neg(m.copysign(im, z.1)))
}
pub(super) fn asinh<'c>(m: Real<'_, 'c>, z: C<'c>) -> C<'c> {
    let w = asin(m, (m.neg(z.1), z.0));
    (w.1, m.neg(w.0))
}
/// The value whose real part is not negative.
pub(super) fn acosh<'c>(m: Real<'_, 'c>, z: C<'c>) -> C<'c> {
    let w = acos(m, z);
    (m.abs(w.1), m.copysign(w.0, z.1))
}
pub(super) fn atanh<'c>(m: Real<'_, 'c>, z: C<'c>) -> C<'c> {
    let (x, y) = (m.abs(z.0), m.abs(z.1));
    let below = m.sub(m.c(1.0), x);
    let d = m.add(m.mul(below, below), m.mul(y, y));
    let re = m.scale(m.math("log1p", m.div(m.scale(x, 4.0), d)), 0.25);
    // Next to 1 the square of the distance is too small; the logarithm of the distance is not.
    let (limit, near) = if m.double() { (1e140, 1e-280) } else { (1e15, 1e-30) };
    let close = m.scale(m.neg(m.math("log", m.scale(m.hypot(below, y), 0.5))), 0.5);
    let re = m.select(m.lt(d, near), close, re);
    // At 1 the difference is a zero of positive sign.
    let more = m.square_sum_less_one(x, y);
    let less = m.select(m.eq(more, 0.0), m.c(0.0), m.neg(more));
    let im = m.scale(m.atan2(m.scale(y, 2.0), less), 0.5);
    // Far out: x / |z|^2 and a right angle.
    let (large, small) = (m.max(x, y), m.min(x, y));
    let infinite = m.or(m.is_inf(x), m.is_inf(y));
    let far = m.or(m.gt(large, limit), infinite);
    let r = m.div(small, large);
    let size = m.div(m.div(m.div(x, large), m.plus(m.mul(r, r), 1.0)), large);
    let far_re = m.select(infinite, m.c(0.0), size);
    let angle = m.select(m.is_nan(y), y, m.c(std::f64::consts::FRAC_PI_2));
    let (re, im) = (m.select(far, far_re, re), m.select(far, angle, im));
    let re = m.select(m.eq(x, 0.0), x, re);
    (m.copysign(re, z.0), m.copysign(im, z.1))
}
pub(super) fn atan<'c>(m: Real<'_, 'c>, z: C<'c>) -> C<'c> {
    let w = atanh(m, (m.neg(z.1), z.0));
    (w.1, m.neg(w.0))
}
