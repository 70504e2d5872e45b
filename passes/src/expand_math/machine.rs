//! The arithmetic that expansions are written in: f32, 32-bit integers and predicates. One expansion serves two machines:
//! [`super::ir::Ir`] writes it as ops, [`Cpu`] computes it, which is how its accuracy is measured.
//!
//! An expansion has no branches, so that it holds for vectors lane by lane. It does not rely on `fma` rounding once:
//! some Vulkan drivers multiply and then add. It does rely on sums and products not being reassociated.

/// What every target can do.
pub trait Machine {
    /// f32, or a vector of them.
    type F: Copy;
    /// 32-bit integer without a sign of its own.
    type I: Copy;
    /// Predicate.
    type P: Copy;

    fn f(&self, x: f32) -> Self::F;
    fn i(&self, x: u32) -> Self::I;

    fn add(&self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(&self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(&self, a: Self::F, b: Self::F) -> Self::F;
    fn div(&self, a: Self::F, b: Self::F) -> Self::F;
    /// a b + c
    fn fma(&self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    fn neg(&self, a: Self::F) -> Self::F;
    fn abs(&self, a: Self::F) -> Self::F;
    fn sqrt(&self, a: Self::F) -> Self::F;
    fn trunc(&self, a: Self::F) -> Self::F;
    /// To the nearest integer, halves to the even one.
    fn roundeven(&self, a: Self::F) -> Self::F;
    fn copysign(&self, a: Self::F, sign: Self::F) -> Self::F;

    fn bits(&self, a: Self::F) -> Self::I;
    /// The number of these bits.
    fn float(&self, a: Self::I) -> Self::F;
    /// Of a finite number within i32, an integer already.
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
    /// Shifts are by less than 32.
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

    fn is_nan(&self, a: Self::F) -> Self::P {
        self.not(self.eq(a, a))
    }
    fn nan(&self) -> Self::F {
        self.f(f32::NAN)
    }
    /// Horner: `c[0] + x (c[1] + x (...))`.
    fn poly(&self, x: Self::F, c: &[f32]) -> Self::F {
        let (last, rest) = c.split_last().expect("a polynomial has coefficients");
        rest.iter().rev().fold(self.f(*last), |sum, c| self.fma(sum, x, self.f(*c)))
    }
    fn is_negative(&self, a: Self::F) -> Self::P {
        self.ilt(self.bits(a), self.i(0))
    }
    /// The 12 leading bits of the mantissa: products of two such are exact.
    fn head(&self, a: Self::F) -> Self::F {
        self.float(self.and(self.bits(a), self.i(0xffff_f000)))
    }
    /// 2^n for n in [-126, 127].
    fn power_of_two(&self, n: Self::I) -> Self::F {
        self.float(self.shl(self.iadd(n, self.i(127)), self.i(23)))
    }
    /// a 2^n for n in [-252, 254]: rounds once if the result is denormal, overflows to infinity.
    fn scale(&self, a: Self::F, n: Self::I) -> Self::F {
        let half = self.sar(n, self.i(1));
        self.mul(self.mul(a, self.power_of_two(half)), self.power_of_two(self.isub(n, half)))
    }
}

/// The host's own arithmetic. `fused`: whether `fma` rounds once.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    pub fused: bool,
}

impl Machine for Cpu {
    type F = f32;
    type I = u32;
    type P = bool;

    fn f(&self, x: f32) -> f32 {
        x
    }
    fn i(&self, x: u32) -> u32 {
        x
    }
    fn add(&self, a: f32, b: f32) -> f32 {
        a + b
    }
    fn sub(&self, a: f32, b: f32) -> f32 {
        a - b
    }
    fn mul(&self, a: f32, b: f32) -> f32 {
        a * b
    }
    fn div(&self, a: f32, b: f32) -> f32 {
        a / b
    }
    fn fma(&self, a: f32, b: f32, c: f32) -> f32 {
        if self.fused { a.mul_add(b, c) } else { a * b + c }
    }
    fn neg(&self, a: f32) -> f32 {
        -a
    }
    fn abs(&self, a: f32) -> f32 {
        a.abs()
    }
    fn sqrt(&self, a: f32) -> f32 {
        a.sqrt()
    }
    fn trunc(&self, a: f32) -> f32 {
        a.trunc()
    }
    fn roundeven(&self, a: f32) -> f32 {
        a.round_ties_even()
    }
    fn copysign(&self, a: f32, sign: f32) -> f32 {
        a.copysign(sign)
    }
    fn bits(&self, a: f32) -> u32 {
        a.to_bits()
    }
    fn float(&self, a: u32) -> f32 {
        f32::from_bits(a)
    }
    fn to_int(&self, a: f32) -> u32 {
        assert!(a == a.trunc() && a.abs() < 2e9, "{a} is no int: a device would be free to make anything of it");
        a as i32 as u32
    }
    fn to_float(&self, a: u32) -> f32 {
        a as i32 as f32
    }
    fn iadd(&self, a: u32, b: u32) -> u32 {
        a.wrapping_add(b)
    }
    fn isub(&self, a: u32, b: u32) -> u32 {
        a.wrapping_sub(b)
    }
    fn imul(&self, a: u32, b: u32) -> u32 {
        a.wrapping_mul(b)
    }
    fn imul_wide(&self, a: u32, b: u32) -> (u32, u32) {
        let p = u64::from(a) * u64::from(b);
        (p as u32, (p >> 32) as u32)
    }
    fn urem(&self, a: u32, b: u32) -> u32 {
        a % b
    }
    fn and(&self, a: u32, b: u32) -> u32 {
        a & b
    }
    fn or(&self, a: u32, b: u32) -> u32 {
        a | b
    }
    fn xor(&self, a: u32, b: u32) -> u32 {
        a ^ b
    }
    fn shl(&self, a: u32, by: u32) -> u32 {
        a.checked_shl(by).expect("shifts are by less than 32")
    }
    fn shr(&self, a: u32, by: u32) -> u32 {
        a.checked_shr(by).expect("shifts are by less than 32")
    }
    fn sar(&self, a: u32, by: u32) -> u32 {
        (a as i32).checked_shr(by).expect("shifts are by less than 32") as u32
    }
    fn lt(&self, a: f32, b: f32) -> bool {
        a < b
    }
    fn le(&self, a: f32, b: f32) -> bool {
        a <= b
    }
    fn eq(&self, a: f32, b: f32) -> bool {
        a == b
    }
    fn ieq(&self, a: u32, b: u32) -> bool {
        a == b
    }
    fn ilt(&self, a: u32, b: u32) -> bool {
        (a as i32) < (b as i32)
    }
    fn ult(&self, a: u32, b: u32) -> bool {
        a < b
    }
    fn both(&self, a: bool, b: bool) -> bool {
        a && b
    }
    fn either(&self, a: bool, b: bool) -> bool {
        a || b
    }
    fn not(&self, a: bool) -> bool {
        !a
    }
    fn sel(&self, p: bool, a: f32, b: f32) -> f32 {
        if p { a } else { b }
    }
    fn isel(&self, p: bool, a: u32, b: u32) -> u32 {
        if p { a } else { b }
    }
    fn repeat(&self, count: u32, init: u32, step: impl FnOnce(&Self, u32) -> u32 + Clone) -> u32 {
        (0..count as i32).fold(init, |x, _| step.clone()(self, x))
    }
}
