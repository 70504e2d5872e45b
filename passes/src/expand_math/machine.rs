//! The arithmetic that expansions are written in: floats of 32 or 64 bits, integers as wide, and predicates. One expansion
//! serves two machines: [`super::ir::Ir`] writes it as ops, [`Cpu`] and [`Cpu64`] compute it, which is how its accuracy is
//! measured. What differs between the two formats is in [`super::format::Format`].
//!
//! An expansion has no branches, so that it holds for vectors lane by lane. It does not rely on `fma` rounding once:
//! some Vulkan drivers multiply and then add. It does rely on sums and products not being reassociated.

use super::format::Format;

pub use super::host::{Cpu, Cpu64};

/// What every target can do.
pub trait Machine: Sized {
    /// f32 or f64.
    type Real: Format;
    /// A number, or a vector of them.
    type F: Copy;
    /// Integer as wide as a number, without a sign of its own.
    type I: Copy;
    /// Predicate.
    type P: Copy;

    fn f(&self, x: Self::Real) -> Self::F;
    fn i(&self, x: <Self::Real as Format>::Bits) -> Self::I;

    fn add(&self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(&self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(&self, a: Self::F, b: Self::F) -> Self::F;
    fn div(&self, a: Self::F, b: Self::F) -> Self::F;
    /// a / b for b within 2^-126 and 2^126: in f32 2.5 ulp are enough, as Vulkan has it.
    fn div_inside(&self, a: Self::F, b: Self::F) -> Self::F;
    /// 2^x in f32 as a unit of the device has it: good to 4 ulp for |x| at most 1/2 and to 2^-21 of it from there to 128,
    /// zero where it would be denormal. Infinities and NaN go through. Asked only if there is one.
    fn exp2_by_unit(&self, x: Self::F) -> Self::F;
    fn has_unit(&self) -> bool;
    /// Whether each result is rounded to bf16.
    fn is_short(&self) -> bool;
    /// a within 0 and 1; of NaN either.
    fn saturate(&self, a: Self::F) -> Self::F {
        let a = self.sel(self.lt(self.c(0.0), a), a, self.c(0.0));
        self.sel(self.lt(a, self.c(1.0)), a, self.c(1.0))
    }
    /// a b + c
    fn fma(&self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    fn neg(&self, a: Self::F) -> Self::F;
    fn abs(&self, a: Self::F) -> Self::F;
    fn sqrt(&self, a: Self::F) -> Self::F;
    fn trunc(&self, a: Self::F) -> Self::F;
    fn copysign(&self, a: Self::F, sign: Self::F) -> Self::F;

    fn bits(&self, a: Self::F) -> Self::I;
    /// The number of these bits.
    fn float(&self, a: Self::I) -> Self::F;
    /// Of a finite number within i32 or, of f64, within i64, an integer already.
    fn to_int(&self, a: Self::F) -> Self::I;
    /// As signed.
    fn to_float(&self, a: Self::I) -> Self::F;

    fn iadd(&self, a: Self::I, b: Self::I) -> Self::I;
    fn isub(&self, a: Self::I, b: Self::I) -> Self::I;
    fn imul(&self, a: Self::I, b: Self::I) -> Self::I;
    /// Low and high half of the unsigned product.
    fn imul_wide(&self, a: Self::I, b: Self::I) -> (Self::I, Self::I);
    fn urem(&self, a: Self::I, b: Self::I) -> Self::I;
    fn and(&self, a: Self::I, b: Self::I) -> Self::I;
    fn or(&self, a: Self::I, b: Self::I) -> Self::I;
    fn xor(&self, a: Self::I, b: Self::I) -> Self::I;
    /// Shifts are by less than the width.
    fn shl(&self, a: Self::I, by: Self::I) -> Self::I;
    fn shr(&self, a: Self::I, by: Self::I) -> Self::I;
    /// Keeps the sign.
    fn sar(&self, a: Self::I, by: Self::I) -> Self::I;

    /// Ordered: false if either is NaN.
    fn lt(&self, a: Self::F, b: Self::F) -> Self::P;
    fn le(&self, a: Self::F, b: Self::F) -> Self::P;
    fn eq(&self, a: Self::F, b: Self::F) -> Self::P;
    fn ieq(&self, a: Self::I, b: Self::I) -> Self::P;
    /// Signed.
    fn ilt(&self, a: Self::I, b: Self::I) -> Self::P;
    fn ult(&self, a: Self::I, b: Self::I) -> Self::P;

    fn both(&self, a: Self::P, b: Self::P) -> Self::P;
    fn either(&self, a: Self::P, b: Self::P) -> Self::P;
    fn not(&self, a: Self::P) -> Self::P;
    fn sel(&self, p: Self::P, a: Self::F, b: Self::F) -> Self::F;
    fn isel(&self, p: Self::P, a: Self::I, b: Self::I) -> Self::I;

    /// `step` applied `count` times (signed; none if it is below 1) from `init` on.
    fn repeat(&self, count: Self::I, init: Self::I, step: impl FnOnce(&Self, Self::I) -> Self::I + Clone) -> Self::I;

    // Short forms.

    /// A constant that both formats hold exactly.
    fn c(&self, x: f64) -> Self::F {
        self.f(Self::Real::of(x))
    }
    /// A small integer.
    fn n(&self, x: i64) -> Self::I {
        self.i(Self::Real::int(x))
    }
    fn is_nan(&self, a: Self::F) -> Self::P {
        self.not(self.eq(a, a))
    }
    fn nan(&self) -> Self::F {
        self.c(f64::NAN)
    }
    /// Horner: `c[0] + x (c[1] + x (...))`.
    fn poly(&self, x: Self::F, c: &[Self::Real]) -> Self::F {
        let (last, rest) = c.split_last().expect("a polynomial has coefficients");
        rest.iter().rev().fold(self.f(*last), |sum, c| self.fma(sum, x, self.f(*c)))
    }
    fn is_negative(&self, a: Self::F) -> Self::P {
        self.ilt(self.bits(a), self.n(0))
    }
    /// The leading half of the mantissa: products of two such are exact.
    fn head(&self, a: Self::F) -> Self::F {
        self.float(self.and(self.bits(a), self.n(-1 << Self::Real::HALF)))
    }
    /// The integer nearest to x times `factor`, small beside 2^MANTISSA, and an integer with the low bits of it plus `more`:
    /// what a sum with 1.5 2^MANTISSA leaves of the fraction. Conversions and roundings are slow instructions on most
    /// devices.
    fn nearest_product(&self, x: Self::F, factor: f64, more: i64) -> (Self::F, Self::I) {
        let magic = self.c(rounding::<Self::Real>() + more as f64);
        let sum = if factor == 1.0 { self.add(x, magic) } else { self.fma(x, self.c(factor), magic) };
        (self.sub(sum, magic), self.bits(sum))
    }
    /// 2^(n + by) for a normal result; of n the low bits count.
    fn power_of_two(&self, n: Self::I, by: i64) -> Self::F {
        let exponent = self.shl(n, self.n(Self::Real::MANTISSA));
        self.float(self.iadd(exponent, self.n((Self::Real::BIAS + by) << Self::Real::MANTISSA)))
    }
    /// a 2^(n - [`BOTH`](Format::BOTH)) for n between 0 and twice that, of which the low bits count: rounds once if the
    /// result is denormal, overflows to infinity. Each of two factors has half of the exponent.
    fn scale(&self, a: Self::F, n: Self::I) -> Self::F {
        let stored = Self::Real::MANTISSA;
        let field = self.n((2 * Self::Real::BIAS + 1) << stored);
        let half = self.and(self.shl(n, self.n(stored - 1)), field);
        let rest = self.isub(self.shl(n, self.n(stored)), half);
        self.mul(self.mul(a, self.float(half)), self.float(rest))
    }
}

/// Added to a small number, it leaves an integer's bits in the lowest bits of the mantissa.
fn rounding<R: Format>() -> f64 {
    1.5 * 2f64.powi(R::MANTISSA as i32)
}
