//! asin, acos, atan, atan2.

use super::{format::Format, machine::Machine};

/// c pi + y, c a power of two.
fn pi_plus<M: Machine>(m: &M, c: f64, y: M::F) -> M::F {
    let c = M::Real::of(c);
    m.add(m.add(m.f(c * M::Real::PI.pi_hi), y), m.f(c * M::Real::PI.pi_lo))
}
fn from_pi<M: Machine>(m: &M, c: f64, y: M::F) -> M::F {
    pi_plus(m, c, m.neg(y))
}
/// asin of x with |x| <= 1/2, given x^2.
fn asin_half<M: Machine>(m: &M, x: M::F, z: M::F) -> M::F {
    m.fma(m.mul(x, z), m.poly(z, M::Real::ASIN), x)
}

/// pi/2 - atan(1/x) above 1.
pub fn atan<M: Machine>(m: &M, x: M::F) -> M::F {
    let a = m.abs(x);
    let above = m.lt(m.c(1.0), a);
    let one = m.c(1.0);
    let y = M::Real::atan_ratio(m, m.sel(above, one, a), m.sel(above, a, one));
    m.copysign(m.sel(above, from_pi(m, 0.5, y), y), x)
}
/// The angle of the smaller over the larger, then the octant.
pub fn atan2<M: Machine>(m: &M, y: M::F, x: M::F) -> M::F {
    let (a, b) = (m.abs(y), m.abs(x));
    let steep = m.lt(b, a);
    let (small, large) = (m.sel(steep, b, a), m.sel(steep, a, b));
    let r = M::Real::atan_ratio(m, small, large);
    let left = m.is_negative(x);
    // pi/2 - r, pi - r, or pi - (pi/2 - r).
    let turned = m.sel(m.both(steep, left), r, m.neg(r));
    let angle = m.sel(steep, pi_plus(m, 0.5, turned), pi_plus(m, 1.0, turned));
    let r = m.copysign(m.sel(m.either(steep, left), angle, r), y);
    m.sel(m.either(m.is_nan(x), m.is_nan(y)), m.nan(), r)
}
/// pi/2 - 2 asin(sqrt((1 - |x|) / 2)) above 1/2.
pub fn asin<M: Machine>(m: &M, x: M::F) -> M::F {
    let a = m.abs(x);
    let above = m.lt(m.c(0.5), a);
    let z = m.sel(above, m.fma(a, m.c(-0.5), m.c(0.5)), m.mul(a, a));
    let y = asin_half(m, m.sel(above, m.sqrt(z), a), z);
    let y = m.sel(above, from_pi(m, 0.5, m.add(y, y)), y);
    m.sel(m.le(a, m.c(1.0)), m.copysign(y, x), m.nan())
}
/// 2 asin(sqrt((1 - |x|) / 2)) above 1/2, and pi minus that below -1/2.
pub fn acos<M: Machine>(m: &M, x: M::F) -> M::F {
    let a = m.abs(x);
    let above = m.lt(m.c(0.5), a);
    let z = m.sel(above, m.fma(a, m.c(-0.5), m.c(0.5)), m.mul(a, a));
    let y = asin_half(m, m.sel(above, m.sqrt(z), x), z);
    let far = m.add(y, y);
    let far = m.sel(m.lt(x, m.c(0.0)), from_pi(m, 1.0, far), far);
    m.sel(m.le(a, m.c(1.0)), m.sel(above, far, from_pi(m, 0.5, y)), m.nan())
}
