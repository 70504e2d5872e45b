//! erf and erfc.

use super::{exp, format::Format, machine::Machine};

/// Coefficients and limits of a format.
pub struct Table<R: 'static> {
    /// Below it erf is a polynomial.
    pub near: f64,
    /// (erf x - x) / x in x^2, up to `near`.
    pub erf: &'static [R],
    /// From here on erfc is 0.
    pub end: f64,
}

fn near<M: Machine>(m: &M, x: M::F) -> M::F {
    m.fma(x, m.poly(m.mul(x, x), M::Real::ERROR.erf), x)
}
pub fn erf<M: Machine>(m: &M, x: M::F) -> M::F {
    let a = m.abs(x);
    let far = m.copysign(M::Real::erf_far(m, a), x);
    let y = m.sel(m.lt(a, m.c(M::Real::ERROR.near)), near(m, x), far);
    m.sel(m.is_nan(x), x, y)
}
/// e^(-a^2) g(a) for a from 1/2 on, with what a^2 loses by rounding put back.
pub fn erfc_far<M: Machine>(m: &M, a: M::F) -> M::F {
    let end = m.c(M::Real::ERROR.end);
    let inside = m.sel(m.lt(a, end), a, end);
    let head = m.head(inside);
    let rest = m.mul(m.sub(head, inside), m.add(head, inside));
    exp::of_sum(m, m.neg(m.mul(head, head)), rest, M::Real::scaled_erfc(m, inside))
}
/// 2 minus that of |x| for negative x.
pub fn erfc<M: Machine>(m: &M, x: M::F) -> M::F {
    let a = m.abs(x);
    let far = erfc_far(m, a);
    let far = m.sel(m.lt(x, m.c(0.0)), m.sub(m.c(2.0), far), far);
    let y = m.sel(m.lt(a, m.c(0.5)), m.sub(m.c(1.0), near(m, x)), far);
    m.sel(m.is_nan(x), x, y)
}
