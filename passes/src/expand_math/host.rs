//! The machine that computes an expansion with the host's own arithmetic.

use super::machine::Machine;

/// The host's own arithmetic in f32. `fused`: whether `fma` rounds once. `unit`: whether there is a unit for 2^x.
/// `short`: whether results are rounded to bf16.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    pub fused: bool,
    pub unit: bool,
    pub short: bool,
}
/// The same in f64.
#[derive(Clone, Copy, Debug)]
pub struct Cpu64 {
    pub fused: bool,
}

macro_rules! host {
    ($machine:ty, $float:ty, $bits:ty, $signed:ty, $double:ty, $has:expr) => {
        impl Machine for $machine {
            type Real = $float;
            type F = $float;
            type I = $bits;
            type P = bool;

            fn f(&self, x: $float) -> $float {
                x
            }
            fn i(&self, x: $bits) -> $bits {
                x
            }
            fn add(&self, a: $float, b: $float) -> $float {
                a + b
            }
            fn sub(&self, a: $float, b: $float) -> $float {
                a - b
            }
            fn mul(&self, a: $float, b: $float) -> $float {
                a * b
            }
            fn div(&self, a: $float, b: $float) -> $float {
                a / b
            }
            fn div_inside(&self, a: $float, b: $float) -> $float {
                a / b
            }
            fn has_unit(&self) -> bool {
                let has: fn(&$machine) -> (bool, bool) = $has;
                has(self).0
            }
            fn is_short(&self) -> bool {
                let has: fn(&$machine) -> (bool, bool) = $has;
                has(self).1
            }
            fn exp2_by_unit(&self, x: $float) -> $float {
                let y = (x as f64).exp2() as $float;
                if y.is_subnormal() { 0.0 } else { y }
            }
            fn fma(&self, a: $float, b: $float, c: $float) -> $float {
                if self.fused { a.mul_add(b, c) } else { a * b + c }
            }
            fn neg(&self, a: $float) -> $float {
                -a
            }
            fn abs(&self, a: $float) -> $float {
                a.abs()
            }
            fn sqrt(&self, a: $float) -> $float {
                a.sqrt()
            }
            fn trunc(&self, a: $float) -> $float {
                a.trunc()
            }
            fn copysign(&self, a: $float, sign: $float) -> $float {
                a.copysign(sign)
            }
            fn bits(&self, a: $float) -> $bits {
                a.to_bits()
            }
            fn float(&self, a: $bits) -> $float {
                <$float>::from_bits(a)
            }
            fn to_int(&self, a: $float) -> $bits {
                assert!(
                    a == a.trunc() && a.abs() < <$signed>::MAX as $float,
                    "{a} is no int: a device would be free to make anything of it"
                );
                a as $signed as $bits
            }
            fn to_float(&self, a: $bits) -> $float {
                a as $signed as $float
            }
            fn iadd(&self, a: $bits, b: $bits) -> $bits {
                a.wrapping_add(b)
            }
            fn isub(&self, a: $bits, b: $bits) -> $bits {
                a.wrapping_sub(b)
            }
            fn imul(&self, a: $bits, b: $bits) -> $bits {
                a.wrapping_mul(b)
            }
            fn imul_wide(&self, a: $bits, b: $bits) -> ($bits, $bits) {
                let p = (a as $double) * (b as $double);
                (p as $bits, (p >> <$bits>::BITS) as $bits)
            }
            fn urem(&self, a: $bits, b: $bits) -> $bits {
                a % b
            }
            fn and(&self, a: $bits, b: $bits) -> $bits {
                a & b
            }
            fn or(&self, a: $bits, b: $bits) -> $bits {
                a | b
            }
            fn xor(&self, a: $bits, b: $bits) -> $bits {
                a ^ b
            }
            fn shl(&self, a: $bits, by: $bits) -> $bits {
                a.checked_shl(by as u32).expect("shifts are by less than the width")
            }
            fn shr(&self, a: $bits, by: $bits) -> $bits {
                a.checked_shr(by as u32).expect("shifts are by less than the width")
            }
            fn sar(&self, a: $bits, by: $bits) -> $bits {
                (a as $signed).checked_shr(by as u32).expect("shifts are by less than the width") as $bits
            }
            fn lt(&self, a: $float, b: $float) -> bool {
                a < b
            }
            fn le(&self, a: $float, b: $float) -> bool {
                a <= b
            }
            fn eq(&self, a: $float, b: $float) -> bool {
                a == b
            }
            fn ieq(&self, a: $bits, b: $bits) -> bool {
                a == b
            }
            fn ilt(&self, a: $bits, b: $bits) -> bool {
                (a as $signed) < (b as $signed)
            }
            fn ult(&self, a: $bits, b: $bits) -> bool {
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
            fn sel(&self, p: bool, a: $float, b: $float) -> $float {
                if p { a } else { b }
            }
            fn isel(&self, p: bool, a: $bits, b: $bits) -> $bits {
                if p { a } else { b }
            }
            fn repeat(&self, count: $bits, init: $bits, step: impl FnOnce(&Self, $bits) -> $bits + Clone) -> $bits {
                (0..count as $signed).fold(init, |x, _| step.clone()(self, x))
            }
        }
    };
}
host!(Cpu, f32, u32, i32, u64, |m| (m.unit, m.short));
host!(Cpu64, f64, u64, i64, u128, |_| (false, false));
