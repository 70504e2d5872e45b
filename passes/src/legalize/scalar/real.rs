//! Arithmetic on floats of one type with short names, for formulas of more than a line.

use crate::ir::{B, V, bits};
use melior::ir::Type;

#[derive(Clone, Copy)]
pub(crate) struct Real<'a, 'c> {
    pub b: &'a B<'c>,
    pub t: Type<'c>,
}
impl<'c> Real<'_, 'c> {
    pub fn c(&self, x: f64) -> V<'c> {
        self.b.cfloat(self.t, x)
    }
    /// A math op of one operand, by its name without the dialect.
    pub fn math(&self, name: &str, x: V<'c>) -> V<'c> {
        self.b.same(&format!("math.{name}"), &[x])
    }
    pub fn add(&self, x: V<'c>, y: V<'c>) -> V<'c> {
        self.b.addf(x, y)
    }
    pub fn sub(&self, x: V<'c>, y: V<'c>) -> V<'c> {
        self.b.same("arith.subf", &[x, y])
    }
    pub fn mul(&self, x: V<'c>, y: V<'c>) -> V<'c> {
        self.b.mulf(x, y)
    }
    pub fn div(&self, x: V<'c>, y: V<'c>) -> V<'c> {
        self.b.same("arith.divf", &[x, y])
    }
    pub fn neg(&self, x: V<'c>) -> V<'c> {
        self.b.same("arith.negf", &[x])
    }
    pub fn scale(&self, x: V<'c>, by: f64) -> V<'c> {
        self.mul(x, self.c(by))
    }
    pub fn plus(&self, x: V<'c>, y: f64) -> V<'c> {
        self.add(x, self.c(y))
    }
    pub fn abs(&self, x: V<'c>) -> V<'c> {
        self.math("absf", x)
    }
    pub fn sqrt(&self, x: V<'c>) -> V<'c> {
        self.math("sqrt", x)
    }
    pub fn max(&self, x: V<'c>, y: V<'c>) -> V<'c> {
        self.b.same("arith.maximumf", &[x, y])
    }
    pub fn min(&self, x: V<'c>, y: V<'c>) -> V<'c> {
        self.b.same("arith.minimumf", &[x, y])
    }
    pub fn copysign(&self, x: V<'c>, sign: V<'c>) -> V<'c> {
        self.b.same("math.copysign", &[x, sign])
    }
    pub fn atan2(&self, y: V<'c>, x: V<'c>) -> V<'c> {
        self.b.same("math.atan2", &[y, x])
    }
    pub fn powf(&self, x: V<'c>, y: V<'c>) -> V<'c> {
        self.b.same("math.powf", &[x, y])
    }
    pub fn select(&self, condition: V<'c>, x: V<'c>, y: V<'c>) -> V<'c> {
        self.b.select(condition, x, y)
    }
    pub fn lt(&self, x: V<'c>, y: f64) -> V<'c> {
        self.b.cmpf("olt", x, self.c(y))
    }
    pub fn gt(&self, x: V<'c>, y: f64) -> V<'c> {
        self.b.cmpf("ogt", x, self.c(y))
    }
    pub fn eq(&self, x: V<'c>, y: f64) -> V<'c> {
        self.b.cmpf("oeq", x, self.c(y))
    }
    pub fn is_nan(&self, x: V<'c>) -> V<'c> {
        self.b.cmpf("uno", x, x)
    }
    pub fn is_inf(&self, x: V<'c>) -> V<'c> {
        self.eq(self.abs(x), f64::INFINITY)
    }
    pub fn or(&self, x: V<'c>, y: V<'c>) -> V<'c> {
        self.b.same("arith.ori", &[x, y])
    }
    pub fn and(&self, x: V<'c>, y: V<'c>) -> V<'c> {
        self.b.same("arith.andi", &[x, y])
    }
    /// Horner's rule, the highest power first.
    pub fn polynomial(&self, x: V<'c>, coefficients: &[f64]) -> V<'c> {
        let (first, rest) = coefficients.split_first().expect("a polynomial has coefficients");
        rest.iter().fold(self.c(*first), |p, c| self.plus(self.mul(p, x), *c))
    }
    pub fn double(&self) -> bool {
        bits(self.t) == 64
    }
    /// x + y and what rounding took from it.
    pub fn two_sum(&self, x: V<'c>, y: V<'c>) -> (V<'c>, V<'c>) {
        let s = self.add(x, y);
        let part = self.sub(s, x);
        (s, self.add(self.sub(x, self.sub(s, part)), self.sub(y, part)))
    }
    /// x^2 and what rounding took from it, by halves of the mantissa; x is far from overflow.
    pub fn two_square(&self, x: V<'c>) -> (V<'c>, V<'c>) {
        let spread = self.scale(x, if self.double() { 134_217_729.0 } else { 4097.0 });
        let high = self.sub(spread, self.sub(spread, x));
        let low = self.sub(x, high);
        let p = self.mul(x, x);
        let rest = self.add(self.sub(self.mul(high, high), p), self.scale(self.mul(high, low), 2.0));
        (p, self.add(rest, self.mul(low, low)))
    }
    /// x^2 + y^2 - 1, good to the last place also where most of it cancels.
    pub fn square_sum_less_one(&self, x: V<'c>, y: V<'c>) -> V<'c> {
        let ((p, p_rest), (q, q_rest)) = (self.two_square(x), self.two_square(y));
        let (s, s_rest) = self.two_sum(p, q);
        let (d, d_rest) = self.two_sum(s, self.c(-1.0));
        self.add(d, self.add(self.add(d_rest, s_rest), self.add(p_rest, q_rest)))
    }
    /// sqrt(x^2 + y^2), rounded once, without overflow; infinite if either is.
    pub fn hypot(&self, x: V<'c>, y: V<'c>) -> V<'c> {
        let (x, y) = (self.abs(x), self.abs(y));
        let size = self.max(x, y);
        let limits = if self.double() { [-400, 600, 500, -540] } else { [-30, 90, 60, -70] };
        let [small, up, large, down] = limits.map(|e| 2f64.powi(e));
        let (tiny, huge) = (self.lt(size, small), self.gt(size, large));
        let pick = |t: f64, h: f64| self.select(tiny, self.c(t), self.select(huge, self.c(h), self.c(1.0)));
        let (by, back) = (pick(up, down), pick(1.0 / up, 1.0 / down));
        let ((p, p_rest), (q, q_rest)) = (self.two_square(self.mul(x, by)), self.two_square(self.mul(y, by)));
        let (s, s_rest) = self.two_sum(p, q);
        let rest = self.add(s_rest, self.add(p_rest, q_rest));
        let h = self.sqrt(s);
        let (again, again_rest) = self.two_square(h);
        let off = self.add(self.sub(self.sub(s, again), again_rest), rest);
        let h = self.mul(self.add(h, self.div(self.scale(off, 0.5), h)), back);
        let h = self.select(self.eq(size, 0.0), size, h);
        let infinite = self.or(self.eq(x, f64::INFINITY), self.eq(y, f64::INFINITY));
        self.select(infinite, self.c(f64::INFINITY), h)
    }
}
