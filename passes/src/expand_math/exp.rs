//! exp, exp2, expm1, and what is made of exp: tanh, sinh, cosh.
//!
//! exp: x = k ln 2 + r with |r| <= ln 2 / 2, and e^r = 1 + r + r^2 P(r). ln 2 is split so that k times its first part is
//! exact. Beyond what f32 holds x is clamped to where the result is 0 or infinity by itself.

use super::machine::Machine;

const LOG2E: f32 = std::f32::consts::LOG2_E;
/// ln 2 = LN2_HI + LN2_LO; LN2_HI has 10 bits.
const LN2_HI: f32 = 0.692_382_8;
const LN2_LO: f32 = 7.643_680_4e-4;
/// (e^r - 1 - r) / r^2 on |r| <= 0.3477.
const EXP: &[f32] = &[0.5, 0.166_666_66, 0.041_666_493, 0.008_333_543, 0.001_393_238_8, 1.976_443_3e-4];
/// (2^r - 1) / r on |r| <= 0.501.
const EXP2: &[f32] =
    &[std::f32::consts::LN_2, 0.240_226_5, 0.055_504_05, 0.009_618_087, 0.001_333_795, 1.545_218e-4, 1.433_003e-5];
/// (tanh x - x) / x^3 in x^2, on |x| <= 0.626.
const TANH: &[f32] = &[-0.333_333_3, 0.133_332_21, -0.053_948_18, 0.021_706_894, -0.008_190_013_5, 0.002_152_683_7];
/// (sinh x - x) / x^3 in x^2, on |x| <= 1.001.
const SINH: &[f32] = &[0.166_666_67, 0.008_333_310_5, 1.984_288_7e-4, 2.782_321_2e-6];

/// Within [low, high]; NaN becomes `low`.
fn clamp<M: Machine>(m: &M, x: M::F, low: f32, high: f32) -> M::F {
    let x = m.sel(m.lt(m.f(low), x), x, m.f(low));
    m.sel(m.lt(x, m.f(high)), x, m.f(high))
}
/// k and r of a finite x, to which `rest` is added after the first part of k ln 2 went.
fn reduce<M: Machine>(m: &M, x: M::F, rest: M::F) -> (M::I, M::F) {
    let k = m.roundeven(m.mul(m.add(x, rest), m.f(LOG2E)));
    let r = m.add(m.fma(k, m.f(-LN2_HI), x), rest);
    (m.to_int(k), m.fma(k, m.f(-LN2_LO), r))
}
/// e^r - 1
fn tail<M: Machine>(m: &M, r: M::F) -> M::F {
    m.fma(m.mul(r, r), m.poly(r, EXP), r)
}
/// 2^by e^x; 0 for NaN.
pub fn scaled<M: Machine>(m: &M, x: M::F, by: i32) -> M::F {
    let (k, r) = reduce(m, clamp(m, x, -105.0, 91.0), m.f(0.0));
    m.scale(m.add(m.f(1.0), tail(m, r)), m.iadd(k, m.i(by as u32)))
}
/// e^(x + rest) y for x in [-105, 0] and a rest small beside it.
pub fn of_sum<M: Machine>(m: &M, x: M::F, rest: M::F, y: M::F) -> M::F {
    let (k, r) = reduce(m, x, rest);
    m.scale(m.fma(y, tail(m, r), y), k)
}
fn nan_of<M: Machine>(m: &M, x: M::F, y: M::F) -> M::F {
    m.sel(m.is_nan(x), x, y)
}

pub fn exp<M: Machine>(m: &M, x: M::F) -> M::F {
    nan_of(m, x, scaled(m, x, 0))
}
pub fn exp2<M: Machine>(m: &M, x: M::F) -> M::F {
    let inside = clamp(m, x, -151.0, 129.0);
    let k = m.roundeven(inside);
    nan_of(m, x, m.scale(two_to(m, m.sub(inside, k)), m.to_int(k)))
}
/// 2^r for |r| <= 1/2.
pub fn two_to<M: Machine>(m: &M, r: M::F) -> M::F {
    m.fma(r, m.poly(r, EXP2), m.f(1.0))
}
/// With s = 2^(k-1): e^x - 1 = 2 (s (e^r - 1) + (s - 1/2)), which does not overflow before the result does.
pub fn expm1<M: Machine>(m: &M, x: M::F) -> M::F {
    let (k, r) = reduce(m, clamp(m, x, -18.0, 89.0), m.f(0.0));
    let s = m.power_of_two(m.isub(k, m.i(1)));
    let half = m.fma(s, tail(m, r), m.sub(s, m.f(0.5)));
    nan_of(m, x, m.copysign(m.add(half, half), x))
}
/// A polynomial near 0; 1 - 2 / (e^2|x| + 1) beyond.
pub fn tanh<M: Machine>(m: &M, x: M::F) -> M::F {
    let (a, z) = (m.abs(x), m.mul(x, x));
    let near = m.fma(m.mul(x, z), m.poly(z, TANH), x);
    let e = scaled(m, m.add(a, a), 0);
    let far = m.sub(m.f(1.0), m.div(m.f(2.0), m.add(e, m.f(1.0))));
    // x^2 overflows far out, where `near` is not taken.
    nan_of(m, x, m.copysign(m.sel(m.lt(a, m.f(0.625)), near, far), x))
}
/// With h = e^|x| / 2: h - 1 / (4 h).
pub fn sinh<M: Machine>(m: &M, x: M::F) -> M::F {
    let (a, z) = (m.abs(x), m.mul(x, x));
    let near = m.fma(m.mul(x, z), m.poly(z, SINH), x);
    let h = scaled(m, a, -1);
    let far = m.sub(h, m.div(m.f(0.25), h));
    nan_of(m, x, m.sel(m.lt(a, m.f(1.0)), near, m.copysign(far, x)))
}
pub fn cosh<M: Machine>(m: &M, x: M::F) -> M::F {
    let h = scaled(m, m.abs(x), -1);
    nan_of(m, x, m.add(h, m.div(m.f(0.25), h)))
}
