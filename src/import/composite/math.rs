//! Formulas over the values of a function being built, and the functions of complex numbers in them.

use crate::{
    builder::Builder,
    tree::{BinaryOp, DType, Direction, UnaryOp, ValueId},
};
use std::{
    cell::RefCell,
    ops::{Add, Div, Mul, Neg, Sub},
};

type Cell<'a> = RefCell<&'a mut Builder>;

/// A value that formulas are written with. Numbers beside it are constants of its type.
#[derive(Clone, Copy)]
pub(super) struct X<'c, 'a> {
    cell: &'c Cell<'a>,
    v: ValueId,
}

macro_rules! arithmetic {
    ($($t:ident $f:ident $k:ident),*) => {$(
        impl $t for X<'_, '_> {
            type Output = Self;
            fn $f(self, o: Self) -> Self {
                self.with(o, BinaryOp::$k)
            }
        }
        impl $t<f64> for X<'_, '_> {
            type Output = Self;
            fn $f(self, o: f64) -> Self {
                self.with(self.n(o), BinaryOp::$k)
            }
        }
    )*};
}
arithmetic!(Add add Add, Sub sub Subtract, Mul mul Multiply, Div div Divide);
impl Neg for X<'_, '_> {
    type Output = Self;
    fn neg(self) -> Self {
        self.unary(UnaryOp::Negate)
    }
}

impl<'c, 'a> X<'c, 'a> {
    pub fn new(cell: &'c Cell<'a>, v: ValueId) -> Self {
        X { cell, v }
    }
    pub fn value(self) -> ValueId {
        self.v
    }
    pub fn dtype(self) -> DType {
        self.cell.borrow().dtype(self.v)
    }
    fn at(self, v: ValueId) -> Self {
        X { v, ..self }
    }
    /// A number in every element.
    pub fn n(self, x: f64) -> Self {
        self.at(self.cell.borrow_mut().like(self.v, x))
    }
    pub fn unary(self, k: UnaryOp) -> Self {
        self.at(self.cell.borrow_mut().unary(k, self.v))
    }
    pub fn with(self, o: Self, k: BinaryOp) -> Self {
        self.at(self.cell.borrow_mut().binary(k, self.v, o.v))
    }
    pub fn is(self, d: Direction, o: Self) -> Self {
        self.at(self.cell.borrow_mut().compare(d, self.v, o.v))
    }
    pub fn below(self, x: f64) -> Self {
        self.is(Direction::Lt, self.n(x))
    }
    pub fn above(self, x: f64) -> Self {
        self.is(Direction::Gt, self.n(x))
    }
    pub fn equals(self, x: f64) -> Self {
        self.is(Direction::Eq, self.n(x))
    }
    pub fn and(self, o: Self) -> Self {
        self.with(o, BinaryOp::And)
    }
    pub fn or(self, o: Self) -> Self {
        self.with(o, BinaryOp::Or)
    }
    /// Of a predicate.
    pub fn choose(self, yes: Self, no: Self) -> Self {
        self.at(self.cell.borrow_mut().select(self.v, yes.v, no.v))
    }
    pub fn abs(self) -> Self {
        self.unary(UnaryOp::Abs)
    }
    pub fn exp(self) -> Self {
        self.unary(UnaryOp::Exponential)
    }
    pub fn expm1(self) -> Self {
        self.unary(UnaryOp::ExponentialMinusOne)
    }
    pub fn ln(self) -> Self {
        self.unary(UnaryOp::Log)
    }
    pub fn ln_1p(self) -> Self {
        self.unary(UnaryOp::LogPlusOne)
    }
    pub fn sqrt(self) -> Self {
        self.unary(UnaryOp::Sqrt)
    }
    pub fn floor(self) -> Self {
        self.unary(UnaryOp::Floor)
    }
    pub fn sin(self) -> Self {
        self.unary(UnaryOp::Sine)
    }
    pub fn atan2(self, o: Self) -> Self {
        self.with(o, BinaryOp::Atan2)
    }
    pub fn pow(self, o: Self) -> Self {
        self.with(o, BinaryOp::Power)
    }
    pub fn is_integer(self) -> Self {
        self.is(Direction::Eq, self.floor())
    }
    /// With the sign of `o`; zero and NaN keep theirs.
    pub fn signed_as(self, o: Self) -> Self {
        o.below(0.0).choose(-self, self)
    }
    /// `self * (re + i im)` of a complex value.
    fn times(self, re: f64, im: f64) -> Self {
        let mut b = self.cell.borrow_mut();
        let real = b.unary(UnaryOp::Real, self.v);
        let (re, im) = (b.like(real, re), b.like(real, im));
        let by = b.complex(re, im);
        drop(b);
        self.with(self.at(by), BinaryOp::Multiply)
    }
    /// Coefficients from the highest power down.
    pub fn polynomial(self, c: &[f64]) -> Self {
        c[1..].iter().fold(self.n(c[0]), |s, c| s * self + *c)
    }
}

/// By the formulas of the principal branches.
pub(super) fn complex<'c, 'a>(name: &str, z: X<'c, 'a>) -> Option<X<'c, 'a>> {
    let asinh = |z: X<'c, 'a>| (z + (z * z + 1.0).sqrt()).ln();
    let atanh = |z: X<'c, 'a>| (z.ln_1p() - (-z).ln_1p()) * 0.5;
    Some(match name {
        "sinh" => (z.exp() - (-z).exp()) * 0.5,
        "cosh" => (z.exp() + (-z).exp()) * 0.5,
        "asinh" => asinh(z),
        "acosh" => (z + (z + 1.0).sqrt() * (z - 1.0).sqrt()).ln(),
        "atanh" => atanh(z),
        "asin" => asinh(z.times(0.0, 1.0)).times(0.0, -1.0),
        "acos" => -asinh(z.times(0.0, 1.0)).times(0.0, -1.0) + std::f64::consts::FRAC_PI_2,
        "atan" => atanh(z.times(0.0, 1.0)).times(0.0, -1.0),
        _ => return None,
    })
}
