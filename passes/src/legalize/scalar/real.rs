//! Arithmetic on floats of one type with short names, for formulas of more than a line.

use crate::ir::{B, V};
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
    /// sqrt(x^2 + y^2) without overflow; infinite if either is.
    pub fn hypot(&self, x: V<'c>, y: V<'c>) -> V<'c> {
        let (x, y) = (self.abs(x), self.abs(y));
        let (a, b) = (self.max(x, y), self.min(x, y));
        let r = self.div(b, a);
        let h = self.mul(a, self.sqrt(self.plus(self.mul(r, r), 1.0)));
        let h = self.select(self.eq(a, 0.0), a, h);
        let infinite = self.or(self.eq(x, f64::INFINITY), self.eq(y, f64::INFINITY));
        self.select(infinite, self.c(f64::INFINITY), h)
    }
}
