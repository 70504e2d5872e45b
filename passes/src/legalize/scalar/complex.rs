//! Complex element operations on pairs of real scalars. Formulas avoid overflow and cancellation where that is cheap.

use super::{
    super::{
        error::Refusal,
        value::{Val, element},
    },
    inverse,
    real::Real,
};
use crate::ir::{B, V};
use zmlc_import::tree::{BinaryOp, DType, Direction, UnaryOp};

pub(super) type C<'c> = (V<'c>, V<'c>);

pub(super) fn both<'c>(x: &Val<'c>) -> C<'c> {
    match x {
        Val::Complex(re, im) => (*re, *im),
        _ => panic!("a complex value was expected of a verified operand"),
    }
}
fn val<'c>(x: C<'c>) -> Val<'c> {
    Val::Complex(x.0, x.1)
}
impl<'c> Real<'_, 'c> {
    pub fn complex_mul(&self, x: C<'c>, y: C<'c>) -> C<'c> {
        (self.sub(self.mul(x.0, y.0), self.mul(x.1, y.1)), self.add(self.mul(x.0, y.1), self.mul(x.1, y.0)))
    }
    /// Smith's method: scaled by the larger part of the divisor.
    pub fn complex_div(&self, x: C<'c>, y: C<'c>) -> C<'c> {
        let by_real = self.b.cmpf("oge", self.abs(y.0), self.abs(y.1));
        let (large, small) = (self.select(by_real, y.0, y.1), self.select(by_real, y.1, y.0));
        let zero = self.and(self.eq(large, 0.0), self.eq(small, 0.0));
        let r = self.select(zero, self.c(0.0), self.div(small, large));
        let d = self.add(large, self.mul(small, r));
        let (p, q) = (self.select(by_real, x.0, x.1), self.select(by_real, x.1, x.0));
        // p + q r is the real part's numerator; the imaginary part's is q - p r, or its negative if by the imaginary part.
        let re = self.div(self.add(p, self.mul(q, r)), d);
        let im = self.div(self.sub(q, self.mul(p, r)), d);
        (re, self.select(by_real, im, self.neg(im)))
    }
    pub fn complex_exp(&self, x: C<'c>) -> C<'c> {
        let (s, c) = (self.math("sin", x.1), self.math("cos", x.1));
        // In two factors, the second constant, so that neither overflows before the product does.
        let far = if self.double() { 512.0 } else { 64.0 };
        let (above, below) = (self.b.cmpf("oge", x.0, self.c(far)), self.b.cmpf("ole", x.0, self.c(-far)));
        let pick = |up: f64, down: f64, none: f64| {
            self.select(above, self.c(up), self.select(below, self.c(down), self.c(none)))
        };
        let e = self.math("exp", self.sub(x.0, pick(far, -far, 0.0)));
        let rest = pick(far.exp(), (-far).exp(), 1.0);
        let part = |f: V<'c>| self.mul(self.mul(e, f), rest);
        let real = self.eq(x.1, 0.0);
        (self.select(real, self.math("exp", x.0), part(c)), self.select(real, x.1, part(s)))
    }
    /// log |x|
    pub fn log_abs(&self, x: C<'c>) -> V<'c> {
        let (p, q) = (self.abs(x.0), self.abs(x.1));
        let (a, b) = (self.max(p, q), self.min(p, q));
        // Near the unit circle the logarithm is small: by its distance.
        let near = self.scale(self.math("log1p", self.square_sum_less_one(a, b)), 0.5);
        let r = self.select(self.eq(a, 0.0), self.c(0.0), self.div(b, a));
        let far = self.add(self.math("log", a), self.scale(self.math("log1p", self.mul(r, r)), 0.5));
        let close = self.and(self.b.cmpf("oge", a, self.c(0.5)), self.lt(a, 3.0));
        let infinite = self.or(self.eq(p, f64::INFINITY), self.eq(q, f64::INFINITY));
        self.select(infinite, self.c(f64::INFINITY), self.select(close, near, far))
    }
    pub fn complex_log(&self, x: C<'c>) -> C<'c> {
        (self.log_abs(x), self.atan2(x.1, x.0))
    }
    pub fn complex_sqrt(&self, x: C<'c>) -> C<'c> {
        // Scaled by a power of four so that the sum neither overflows nor loses denormals.
        let (most, least) = if crate::ir::bits(self.t) == 64 { (1e300, 1e-280) } else { (1e30, 1e-25) };
        let size = self.max(self.abs(x.0), self.abs(x.1));
        let (huge, tiny) = (self.gt(size, most), self.lt(size, least));
        let pick = |h: f64, t: f64| self.select(huge, self.c(h), self.select(tiny, self.c(t), self.c(1.0)));
        let up = if self.double() { 100 } else { 24 };
        let (by, back) = (pick(2f64.powi(-4), 2f64.powi(2 * up)), pick(4.0, 2f64.powi(-up)));
        let (p, q) = (self.mul(x.0, by), self.mul(x.1, by));
        let (a, h) = (self.abs(p), self.hypot(p, q));
        let root = self.sqrt(self.scale(self.add(a, h), 0.5));
        let (t, other) = (self.mul(root, back), self.mul(self.scale(self.div(q, root), 0.5), back));
        let right = self.b.cmpf("oge", x.0, self.c(0.0));
        let re = self.select(right, t, self.abs(other));
        let im = self.select(right, other, self.copysign(t, x.1));
        let zero = self.eq(h, 0.0);
        let (re, im) = (self.select(zero, self.c(0.0), re), self.select(zero, x.1, im));
        // An infinite part decides alone.
        let infinity = self.c(f64::INFINITY);
        let (re_infinite, im_infinite) = (self.is_inf(x.0), self.is_inf(x.1));
        let flat = self.select(self.is_nan(x.1), x.1, self.c(0.0));
        let re = self.select(re_infinite, self.select(right, infinity, self.abs(flat)), re);
        let im =
            self.select(re_infinite, self.select(right, self.copysign(flat, x.1), self.copysign(infinity, x.1)), im);
        (self.select(im_infinite, infinity, re), self.select(im_infinite, x.1, im))
    }
    pub fn complex_tanh(&self, x: C<'c>) -> C<'c> {
        // With t = tanh re and u = tan im: (t (1 + u^2) , u (1 - t^2)) / (1 + t^2 u^2), of sines and cosines so that u may
        // be infinite.
        let (s, c) = (self.math("sin", x.1), self.math("cos", x.1));
        let t = self.math("tanh", x.0);
        let inverse_cosh = self.div(self.c(1.0), self.math("cosh", x.0));
        let squared = self.mul(inverse_cosh, inverse_cosh);
        let d = self.add(self.mul(c, c), self.mul(self.mul(t, t), self.mul(s, s)));
        let turn = self.mul(s, c);
        let (re, im) = (self.div(t, d), self.div(self.mul(turn, squared), d));
        let infinite = self.is_inf(x.0);
        let sign = self.select(self.is_nan(turn), x.1, turn);
        let im = self.select(infinite, self.copysign(self.c(0.0), sign), im);
        (self.select(self.or(infinite, self.eq(x.0, 0.0)), t, re), self.select(self.eq(x.1, 0.0), x.1, im))
    }
    /// The functions `of` of the real part, sinh and cosh in either order, times cosine and sine of the imaginary one.
    fn hyperbolic(&self, x: C<'c>, of: [&str; 2]) -> C<'c> {
        // From here on both are half of e^|x|, which overflows before the product does.
        let far = if self.double() { 700.0 } else { 80.0 };
        let size = self.abs(x.0);
        let large = self.gt(size, far);
        let e = self.math("exp", self.plus(size, -far));
        let half = self.c(f64::exp(far) * 0.5);
        let product = |of: &str, angle: &str| {
            let f = self.math(angle, x.1);
            let grown = self.mul(self.mul(e, f), if of == "sinh" { self.copysign(half, x.0) } else { half });
            self.select(large, grown, self.mul(self.math(of, x.0), f))
        };
        (product(of[0], "cos"), product(of[1], "sin"))
    }
    /// `value` where the product of a zero and what is not finite made NaN of `x`.
    fn kept(&self, x: V<'c>, zero: V<'c>, value: V<'c>) -> V<'c> {
        self.select(self.and(zero, self.is_nan(x)), value, x)
    }
    /// Whether an infinite real part stands beside an angle that is none.
    fn without_angle(&self, x: C<'c>) -> V<'c> {
        self.and(self.is_inf(x.0), self.is_nan(self.sub(x.1, x.1)))
    }
    pub fn complex_sinh(&self, x: C<'c>) -> C<'c> {
        let (re, im) = self.hyperbolic(x, ["sinh", "cosh"]);
        let re = self.kept(re, self.or(self.without_angle(x), self.eq(x.0, 0.0)), x.0);
        (re, self.kept(im, self.eq(x.1, 0.0), x.1))
    }
    pub fn complex_cosh(&self, x: C<'c>) -> C<'c> {
        let (re, im) = self.hyperbolic(x, ["cosh", "sinh"]);
        let re = self.kept(re, self.without_angle(x), self.c(f64::INFINITY));
        let zero = self.or(self.eq(x.0, 0.0), self.eq(x.1, 0.0));
        (re, self.kept(im, zero, self.mul(self.copysign(self.c(0.0), x.0), self.copysign(self.c(1.0), x.1))))
    }
    fn one(&self) -> C<'c> {
        (self.c(1.0), self.c(0.0))
    }
    fn complex_power(&self, x: C<'c>, y: C<'c>) -> C<'c> {
        let p = self.complex_exp(self.complex_mul(y, self.complex_log(x)));
        let zero = |z: C<'c>| self.and(self.eq(z.0, 0.0), self.eq(z.1, 0.0));
        let at_zero = self.select(zero(y), self.c(1.0), self.c(0.0));
        (self.select(zero(x), at_zero, p.0), self.select(zero(x), self.c(0.0), p.1))
    }
}

pub(super) fn unary<'c>(b: &B<'c>, op: UnaryOp, d: DType, x: &Val<'c>) -> Result<Val<'c>, Refusal> {
    let m = Real { b, t: element(b, d) };
    let (re, im) = both(x);
    let z = (re, im);
    Ok(val(match op {
        UnaryOp::Real => return Ok(Val::One(re)),
        UnaryOp::Imag => return Ok(Val::One(im)),
        UnaryOp::Abs => return Ok(Val::One(m.hypot(re, im))),
        UnaryOp::Negate => (m.neg(re), m.neg(im)),
        UnaryOp::Sign => {
            let h = m.hypot(re, im);
            let zero = m.eq(h, 0.0);
            (m.select(zero, h, m.div(re, h)), m.select(zero, h, m.div(im, h)))
        }
        UnaryOp::Exponential => m.complex_exp(z),
        UnaryOp::ExponentialMinusOne => {
            let h = m.math("sin", m.scale(im, 0.5));
            let (s, c) = (m.math("sin", im), m.math("cos", im));
            let turned = m.sub(m.mul(m.math("expm1", re), c), m.scale(m.mul(h, h), 2.0));
            let real = m.eq(im, 0.0);
            (m.select(real, m.math("expm1", re), turned), m.select(real, im, m.mul(m.math("exp", re), s)))
        }
        UnaryOp::Log => m.complex_log(z),
        UnaryOp::LogPlusOne => {
            // |1 + x|^2 - 1 = re (2 + re) + im^2, by parts where the sum is not near -1.
            let ((p, p_rest), (q, q_rest)) = (m.two_square(re), m.two_square(im));
            let (s, s_rest) = m.two_sum(m.scale(re, 2.0), p);
            let (s, rest) = m.two_sum(s, q);
            let small = m.add(s, m.add(m.add(rest, s_rest), m.add(p_rest, q_rest)));
            let within = m.and(m.lt(m.abs(re), 2.0), m.lt(m.abs(im), 2.0));
            let near = m.and(within, m.gt(small, -0.5));
            let small = m.scale(m.math("log1p", small), 0.5);
            let (far, angle) = m.complex_log((m.plus(re, 1.0), im));
            (m.select(near, small, far), angle)
        }
        UnaryOp::Sqrt => m.complex_sqrt(z),
        UnaryOp::Rsqrt => m.complex_div(m.one(), m.complex_sqrt(z)),
        UnaryOp::Cbrt => m.complex_power(z, (m.c(1.0 / 3.0), m.c(0.0))),
        UnaryOp::Sine => {
            let w = m.complex_sinh((m.neg(im), re));
            (w.1, m.neg(w.0))
        }
        UnaryOp::Cosine => m.complex_cosh((m.neg(im), re)),
        UnaryOp::Tanh => m.complex_tanh(z),
        UnaryOp::Tan => {
            let t = m.complex_tanh((m.neg(im), re));
            (t.1, m.neg(t.0))
        }
        UnaryOp::Logistic => {
            let e = m.complex_exp((m.neg(re), m.neg(im)));
            m.complex_div(m.one(), (m.plus(e.0, 1.0), e.1))
        }
        op => return Err(Refusal::dtype(format!("{op:?} has no meaning on complex numbers"))),
    }))
}
pub(super) fn binary<'c>(b: &B<'c>, op: BinaryOp, d: DType, x: &Val<'c>, y: &Val<'c>) -> Result<Val<'c>, Refusal> {
    let m = Real { b, t: element(b, d) };
    let (x, y) = (both(x), both(y));
    Ok(val(match op {
        BinaryOp::Add => (m.add(x.0, y.0), m.add(x.1, y.1)),
        BinaryOp::Subtract => (m.sub(x.0, y.0), m.sub(x.1, y.1)),
        BinaryOp::Multiply => m.complex_mul(x, y),
        BinaryOp::Divide => m.complex_div(x, y),
        BinaryOp::Power => m.complex_power(x, y),
        // -i log((y + i x) / sqrt(x^2 + y^2)), of atan2(x, y).
        BinaryOp::Atan2 => {
            let (p, q) = (m.complex_mul(x, x), m.complex_mul(y, y));
            let r = m.complex_sqrt((m.add(p.0, q.0), m.add(p.1, q.1)));
            let l = m.complex_log(m.complex_div((m.sub(y.0, x.1), m.add(y.1, x.0)), r));
            (l.1, m.neg(l.0))
        }
        // By the real part, then by the imaginary.
        BinaryOp::Maximum | BinaryOp::Minimum => {
            let (more, most) = if op == BinaryOp::Maximum { ("ogt", "oge") } else { ("olt", "ole") };
            let tie = m.and(b.cmpf("oeq", x.0, y.0), b.cmpf(most, x.1, y.1));
            let first = m.or(b.cmpf(more, x.0, y.0), tie);
            (m.select(first, x.0, y.0), m.select(first, x.1, y.1))
        }
        op => return Err(Refusal::dtype(format!("{op:?} has no meaning on complex numbers"))),
    }))
}
pub(super) fn compare<'c>(b: &B<'c>, direction: Direction, x: &Val<'c>, y: &Val<'c>) -> Result<V<'c>, Refusal> {
    let ((xr, xi), (yr, yi)) = (both(x), both(y));
    match direction {
        Direction::Eq => Ok(b.same("arith.andi", &[b.cmpf("oeq", xr, yr), b.cmpf("oeq", xi, yi)])),
        Direction::Ne => Ok(b.same("arith.ori", &[b.cmpf("une", xr, yr), b.cmpf("une", xi, yi)])),
        _ => Err(Refusal::dtype("complex numbers have no order")),
    }
}
/// chlo's functions.
pub(super) fn chlo<'c>(b: &B<'c>, name: &str, d: DType, x: &Val<'c>) -> Result<Val<'c>, Refusal> {
    let m = Real { b, t: element(b, d) };
    let z = both(x);
    Ok(val(match name {
        // The difference of squares as a product keeps its digits.
        "square" => {
            let difference = m.mul(m.sub(z.0, z.1), m.add(z.0, z.1));
            let size = m.abs(z.0);
            let equal = m.and(b.cmpf("oeq", size, m.abs(z.1)), m.lt(size, f64::INFINITY));
            (m.select(equal, m.c(0.0), difference), m.scale(m.mul(z.0, z.1), 2.0))
        }
        "conj" => (z.0, m.neg(z.1)),
        "sinh" => m.complex_sinh(z),
        "cosh" => m.complex_cosh(z),
        "tan" => return unary(b, UnaryOp::Tan, d, x),
        "asin" => inverse::asin(m, z),
        "acos" => inverse::acos(m, z),
        "asinh" => inverse::asinh(m, z),
        "acosh" => inverse::acosh(m, z),
        "atan" => inverse::atan(m, z),
        "atanh" => inverse::atanh(m, z),
        _ => return Err(Refusal::dtype(format!("{name} on complex numbers is not supported"))),
    }))
}
