//! asin, acos, atan, atan2.

use super::machine::Machine;

const PI_HI: f32 = std::f32::consts::PI;
/// pi - PI_HI
const PI_LO: f32 = -8.742_278e-8;
/// (atan x - x) / x^3 in x^2, on |x| <= 1.001.
const ATAN: &[f32] = &[
    -0.333_333,
    0.199_985_3,
    -0.142_640_16,
    0.109_508_805,
    -0.083_993_055,
    0.057_881_33,
    -0.031_096_827,
    0.010_868_513,
    -0.001_782_754_3,
];
/// (asin x - x) / x^3 in x^2, on |x| <= 0.501.
const ASIN: &[f32] = &[0.166_666_6, 0.075_005_21, 0.044_513_658, 0.031_835_757, 0.014_330_41, 0.037_671_63];

/// c pi - y, c a power of two times 1.
fn from_pi<M: Machine>(m: &M, c: f32, y: M::F) -> M::F {
    m.add(m.sub(m.f(c * PI_HI), y), m.f(c * PI_LO))
}
/// atan of q in [0, 1].
fn atan_unit<M: Machine>(m: &M, q: M::F) -> M::F {
    let z = m.mul(q, q);
    m.fma(m.mul(q, z), m.poly(z, ATAN), q)
}
/// asin of x with |x| <= 1/2, given x^2.
fn asin_half<M: Machine>(m: &M, x: M::F, z: M::F) -> M::F {
    m.fma(m.mul(x, z), m.poly(z, ASIN), x)
}

/// pi/2 - atan(1/x) above 1.
pub fn atan<M: Machine>(m: &M, x: M::F) -> M::F {
    let a = m.abs(x);
    let above = m.lt(m.f(1.0), a);
    let y = atan_unit(m, m.sel(above, m.div(m.f(1.0), a), a));
    m.copysign(m.sel(above, from_pi(m, 0.5, y), y), x)
}
/// The angle of the smaller over the larger, then the octant.
pub fn atan2<M: Machine>(m: &M, y: M::F, x: M::F) -> M::F {
    let (a, b) = (m.abs(y), m.abs(x));
    let steep = m.lt(b, a);
    let (small, large) = (m.sel(steep, b, a), m.sel(steep, a, b));
    let q = m.div(small, large);
    let q = m.sel(m.eq(small, large), m.f(1.0), q);
    let q = m.sel(m.eq(large, m.f(0.0)), m.f(0.0), q);
    let r = atan_unit(m, q);
    let r = m.sel(steep, from_pi(m, 0.5, r), r);
    let r = m.copysign(m.sel(m.is_negative(x), from_pi(m, 1.0, r), r), y);
    m.sel(m.either(m.is_nan(x), m.is_nan(y)), m.nan(), r)
}
/// pi/2 - 2 asin(sqrt((1 - |x|) / 2)) above 1/2.
pub fn asin<M: Machine>(m: &M, x: M::F) -> M::F {
    let a = m.abs(x);
    let above = m.lt(m.f(0.5), a);
    let z = m.sel(above, m.fma(a, m.f(-0.5), m.f(0.5)), m.mul(a, a));
    let y = asin_half(m, m.sel(above, m.sqrt(z), a), z);
    let y = m.sel(above, from_pi(m, 0.5, m.add(y, y)), y);
    m.sel(m.le(a, m.f(1.0)), m.copysign(y, x), m.nan())
}
/// 2 asin(sqrt((1 - |x|) / 2)) above 1/2, and pi minus that below -1/2.
pub fn acos<M: Machine>(m: &M, x: M::F) -> M::F {
    let a = m.abs(x);
    let above = m.lt(m.f(0.5), a);
    let z = m.sel(above, m.fma(a, m.f(-0.5), m.f(0.5)), m.mul(a, a));
    let y = asin_half(m, m.sel(above, m.sqrt(z), x), z);
    let far = m.add(y, y);
    let far = m.sel(m.lt(x, m.f(0.0)), from_pi(m, 1.0, far), far);
    m.sel(m.le(a, m.f(1.0)), m.sel(above, far, from_pi(m, 0.5, y)), m.nan())
}
