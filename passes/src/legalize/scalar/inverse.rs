//! Inverse trigonometric and hyperbolic functions of complex numbers, after Hull, Fairgrieve and Tang (1997): by the distances
//! to 1 and -1, in the first quadrant, with the signs put back.

use super::{complex::C, real::Real};
use crate::ir::V;

/// Of non-negative x and y: the angle of asin and its complement, and the imaginary part.
fn kernel<'c>(m: Real<'_, 'c>, x: V<'c>, y: V<'c>) -> (V<'c>, V<'c>, V<'c>) {
    let (x_up, x_down) = (m.plus(x, 1.0), m.plus(x, -1.0));
    let (r, s) = (m.hypot(x_up, y), m.hypot(x_down, y));
    let a = m.add(m.scale(r, 0.5), m.scale(s, 0.5));
    let inside = m.b.cmpf("ole", x, m.c(1.0));
    // y^2 / d, zero at y = 0 whatever d is.
    let over = |d: V<'c>| m.select(m.eq(y, 0.0), m.c(0.0), m.mul(y, m.div(y, d)));
    let from_up = over(m.add(r, x_up));
    let left = m.sub(s, x_down);
    // a - 1 and a - x without cancellation.
    let am1 = m.scale(m.add(from_up, m.select(inside, over(left), m.add(s, x_down))), 0.5);
    let amx = m.scale(m.add(from_up, m.select(inside, left, over(m.add(s, x_down)))), 0.5);
    let near = m.math("log1p", m.add(am1, m.sqrt(m.mul(am1, m.plus(a, 1.0)))));
    let far = m.math("log", m.add(a, m.mul(m.sqrt(m.plus(a, -1.0)), m.sqrt(m.plus(a, 1.0)))));
    let im = m.select(m.lt(a, 1.5), near, far);
    let root = m.mul(m.sqrt(m.add(a, x)), m.sqrt(amx));
    // Far out the angle is that of z, and squares would overflow.
    let limit = if crate::ir::bits(m.t) == 64 { 1e150 } else { 1e18 };
    let huge = m.gt(m.max(x, y), limit);
    let (over, up) = (m.select(huge, y, root), m.log_abs((x, y)));
    let im = m.select(huge, m.plus(up, std::f64::consts::LN_2), im);
    (m.atan2(x, over), m.atan2(over, x), im)
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
    let im = m.scale(m.atan2(m.scale(y, 2.0), m.neg(m.square_sum_less_one(x, y))), 0.5);
    // Far out: x / |z|^2 and a right angle.
    let (large, small) = (m.max(x, y), m.min(x, y));
    let far = m.gt(large, limit);
    let r = m.div(small, large);
    let size = m.div(m.div(m.div(x, large), m.plus(m.mul(r, r), 1.0)), large);
    let far_re = m.select(m.is_inf(large), m.c(0.0), size);
    let (re, im) = (m.select(far, far_re, re), m.select(far, m.c(std::f64::consts::FRAC_PI_2), im));
    (m.copysign(re, z.0), m.copysign(im, z.1))
}
pub(super) fn atan<'c>(m: Real<'_, 'c>, z: C<'c>) -> C<'c> {
    let w = atanh(m, (m.neg(z.1), z.0));
    (w.1, m.neg(w.0))
}
