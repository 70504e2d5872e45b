//! erf and erfc.

use super::{exp, machine::Machine};

/// Below it erf is a polynomial; above, 1 minus the exponential of one.
const NEAR: f32 = 0.925;
/// (erf x - x) / x in x^2, on |x| <= 0.93.
const ERF: &[f32] =
    &[0.128_379_17, -0.376_126_3, 0.112_836_26, -0.026_855_731, 0.005_192_405, -8.049_769_7e-4, 7.996_65e-5];
/// log(erfc x) on [0.92, 3.93].
const LOG_ERFC: &[f32] = &[
    1.746_845_5e-4,
    -1.129_514_9,
    -0.633_346_9,
    -0.108_280_04,
    0.025_119_35,
    -0.004_171_006,
    4.344_427_7e-4,
    -2.109_241_9e-5,
];
/// erfc(x) e^(x^2) in 1 / (1 + 0.4 x), on [0.49, 10.1].
const ERFC: &[f32] = &[
    3.399_501e-6,
    0.225_602_57,
    0.226_309_9,
    0.204_990_03,
    0.175_060_51,
    0.136_108_5,
    -0.013_102_11,
    0.190_449_94,
    -0.201_410_28,
    0.055_997_144,
];

fn near<M: Machine>(m: &M, x: M::F) -> M::F {
    m.fma(x, m.poly(m.mul(x, x), ERF), x)
}
pub fn erf<M: Machine>(m: &M, x: M::F) -> M::F {
    let a = m.abs(x);
    // From 3.93 on the result is 1.
    let inside = m.sel(m.lt(a, m.f(3.93)), a, m.f(3.93));
    let far = m.copysign(m.sub(m.f(1.0), exp::scaled(m, m.poly(inside, LOG_ERFC), 0)), x);
    let y = m.sel(m.lt(a, m.f(NEAR)), near(m, x), far);
    m.sel(m.is_nan(x), x, y)
}
/// e^(-x^2) g(|x|) from 1/2 on, with what x^2 loses by rounding put back; 2 minus that for negative x.
pub fn erfc<M: Machine>(m: &M, x: M::F) -> M::F {
    let a = m.abs(x);
    let inside = m.sel(m.lt(a, m.f(10.1)), a, m.f(10.1));
    let head = m.head(inside);
    let rest = m.mul(m.sub(head, inside), m.add(head, inside));
    let g = m.poly(m.div(m.f(1.0), m.fma(inside, m.f(0.4), m.f(1.0))), ERFC);
    let far = exp::of_sum(m, m.neg(m.mul(head, head)), rest, g);
    let far = m.sel(m.lt(x, m.f(0.0)), m.sub(m.f(2.0), far), far);
    let y = m.sel(m.lt(a, m.f(0.5)), m.sub(m.f(1.0), near(m, x)), far);
    m.sel(m.is_nan(x), x, y)
}
