//! sin, cos, tan, for every finite argument: the argument becomes a multiple of pi/2 and a rest (`Format::angle`).

use super::{format::Format, machine::Machine};

/// sin(q pi/2 + r)
fn quarter<M: Machine>(m: &M, q: M::I, (sin, cos): (M::F, M::F)) -> M::F {
    let y = m.sel(m.ieq(m.and(q, m.n(1)), m.n(0)), sin, cos);
    m.float(m.xor(m.bits(y), m.shl(m.and(q, m.n(2)), m.n(M::Real::WIDTH - 2))))
}
/// y with its sign turned if x is negative.
fn odd<M: Machine>(m: &M, x: M::F, y: M::F) -> M::F {
    m.float(m.xor(m.bits(y), m.and(m.bits(x), m.n(i64::MIN >> (64 - M::Real::WIDTH)))))
}

pub fn sin<M: Machine>(m: &M, x: M::F) -> M::F {
    let (q, parts) = M::Real::angle(m, x);
    odd(m, x, quarter(m, q, parts))
}
pub fn cos<M: Machine>(m: &M, x: M::F) -> M::F {
    let (q, parts) = M::Real::angle(m, x);
    quarter(m, m.iadd(q, m.n(1)), parts)
}
pub fn tan<M: Machine>(m: &M, x: M::F) -> M::F {
    let (q, (sin, cos)) = M::Real::angle(m, x);
    let even = m.ieq(m.and(q, m.n(1)), m.n(0));
    odd(m, x, m.div(m.sel(even, sin, m.neg(cos)), m.sel(even, cos, sin)))
}
