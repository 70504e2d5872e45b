//! What differs between f32 and f64 in an expansion: the layout of a number, the coefficients, and the few parts that are
//! computed in another way. Polynomials are minimax (Remez), rounded to the format.

use super::{double, error, exp, log, machine::Machine, power, single};
use std::ops::{Mul, Neg};

/// pi = pi_hi + pi_lo, the first rounded.
pub struct Angles<R> {
    pub pi_hi: R,
    pub pi_lo: R,
}

pub trait Format: Copy + Sized + Neg<Output = Self> + Mul<Output = Self> + 'static {
    type Bits: Copy;
    /// Bits of the mantissa that are stored.
    const MANTISSA: i64;
    const BIAS: i64;
    const WIDTH: i64;
    /// The bias of a product of two powers of two.
    const BOTH: i64 = 2 * Self::BIAS;
    /// Bits of the mantissa that the lower half has.
    const HALF: u32;
    const MIN_POSITIVE: f64;
    /// The number before 1/2.
    const BELOW_HALF: f64;
    const PI: Angles<Self>;
    const EXP: exp::Table<Self>;
    const LOG: log::Table<Self>;
    const ASIN: &'static [Self];
    const POWER: power::Table;
    const ERROR: error::Table<Self>;

    /// Rounded.
    fn of(x: f64) -> Self;
    fn int(x: i64) -> Self::Bits;
    /// As MLIR writes its bits.
    fn hex(self) -> String;
    /// The bits as a signed number.
    fn signed(bits: Self::Bits) -> i64;

    /// log(1 + f) - f for 1 + f in [sqrt(1/2), sqrt 2).
    fn log_tail<M: Machine<Real = Self>>(m: &M, f: M::F) -> M::F;
    /// |x| = (4 n + q) pi/2 + r: q modulo 4, and sine and cosine of r, |r| <= pi/4; NaN for infinity and NaN.
    fn angle<M: Machine<Real = Self>>(m: &M, x: M::F) -> (M::I, (M::F, M::F));
    /// atan(small / large) of 0 <= small <= large.
    fn atan_ratio<M: Machine<Real = Self>>(m: &M, small: M::F, large: M::F) -> M::F;
    /// log2 of a positive finite number: a head whose products with another head are exact, and a rest.
    fn log2_parts<M: Machine<Real = Self>>(m: &M, x: M::F) -> (M::F, M::F);
    /// erf of a positive number from `ERROR.near` on.
    fn erf_far<M: Machine<Real = Self>>(m: &M, a: M::F) -> M::F;
    /// erfc(x) e^(x^2) from 1/2 to `ERROR.end`.
    fn scaled_erfc<M: Machine<Real = Self>>(m: &M, x: M::F) -> M::F;
    /// A positive normal number's cube root, to a few percent.
    fn cbrt_guess<M: Machine<Real = Self>>(m: &M, a: M::F) -> M::F;
}

impl Format for f32 {
    type Bits = u32;
    const MANTISSA: i64 = 23;
    const BIAS: i64 = 127;
    const WIDTH: i64 = 32;
    const HALF: u32 = 12;
    const MIN_POSITIVE: f64 = f32::MIN_POSITIVE as f64;
    const BELOW_HALF: f64 = 0.499_999_97f32 as f64;
    const PI: Angles<f32> = Angles { pi_hi: std::f32::consts::PI, pi_lo: -8.742_278e-8 };
    const EXP: exp::Table<f32> = single::EXP;
    const LOG: log::Table<f32> = single::LOG;
    const ASIN: &'static [f32] = single::ASIN;
    const POWER: power::Table = single::POWER;
    const ERROR: error::Table<f32> = single::ERROR;

    fn of(x: f64) -> f32 {
        x as f32
    }
    fn int(x: i64) -> u32 {
        x as u32
    }
    fn hex(self) -> String {
        format!("0x{:08X}", self.to_bits())
    }
    fn signed(bits: u32) -> i64 {
        i64::from(bits as i32)
    }
    fn log_tail<M: Machine<Real = f32>>(m: &M, f: M::F) -> M::F {
        single::log_tail(m, f)
    }
    fn angle<M: Machine<Real = f32>>(m: &M, x: M::F) -> (M::I, (M::F, M::F)) {
        single::angle(m, x)
    }
    fn atan_ratio<M: Machine<Real = f32>>(m: &M, small: M::F, large: M::F) -> M::F {
        single::atan_ratio(m, small, large)
    }
    fn log2_parts<M: Machine<Real = f32>>(m: &M, x: M::F) -> (M::F, M::F) {
        single::log2_parts(m, x)
    }
    fn erf_far<M: Machine<Real = f32>>(m: &M, a: M::F) -> M::F {
        single::erf_far(m, a)
    }
    fn scaled_erfc<M: Machine<Real = f32>>(m: &M, x: M::F) -> M::F {
        single::scaled_erfc(m, x)
    }
    fn cbrt_guess<M: Machine<Real = f32>>(m: &M, a: M::F) -> M::F {
        let (_, third) = m.imul_wide(m.bits(a), m.i(0x5555_5556));
        m.float(m.iadd(third, m.i(0x2a51_2ce3)))
    }
}

impl Format for f64 {
    type Bits = u64;
    const MANTISSA: i64 = 52;
    const BIAS: i64 = 1023;
    const WIDTH: i64 = 64;
    const HALF: u32 = 27;
    const MIN_POSITIVE: f64 = f64::MIN_POSITIVE;
    const BELOW_HALF: f64 = 0.499_999_999_999_999_94;
    const PI: Angles<f64> = Angles { pi_hi: std::f64::consts::PI, pi_lo: 1.224_646_799_147_353_2e-16 };
    const EXP: exp::Table<f64> = double::tables::EXP;
    const LOG: log::Table<f64> = double::tables::LOG;
    const ASIN: &'static [f64] = double::tables::ASIN;
    const POWER: power::Table = double::tables::POWER;
    const ERROR: error::Table<f64> = double::tables::ERROR;

    fn of(x: f64) -> f64 {
        x
    }
    fn int(x: i64) -> u64 {
        x as u64
    }
    fn hex(self) -> String {
        format!("0x{:016X}", self.to_bits())
    }
    fn signed(bits: u64) -> i64 {
        bits as i64
    }
    fn log_tail<M: Machine<Real = f64>>(m: &M, f: M::F) -> M::F {
        double::log_tail(m, f)
    }
    fn angle<M: Machine<Real = f64>>(m: &M, x: M::F) -> (M::I, (M::F, M::F)) {
        double::angle::angle(m, x)
    }
    fn atan_ratio<M: Machine<Real = f64>>(m: &M, small: M::F, large: M::F) -> M::F {
        double::atan_ratio(m, small, large)
    }
    fn log2_parts<M: Machine<Real = f64>>(m: &M, x: M::F) -> (M::F, M::F) {
        double::log2_parts(m, x)
    }
    fn erf_far<M: Machine<Real = f64>>(m: &M, a: M::F) -> M::F {
        m.sub(m.c(1.0), error::erfc_far(m, m.sel(m.lt(a, m.c(6.0)), a, m.c(6.0))))
    }
    fn scaled_erfc<M: Machine<Real = f64>>(m: &M, x: M::F) -> M::F {
        double::scaled_erfc(m, x)
    }
    fn cbrt_guess<M: Machine<Real = f64>>(m: &M, a: M::F) -> M::F {
        let third = m.shr(m.imul(m.shr(m.bits(a), m.n(32)), m.i(0x5555_5556)), m.n(32));
        m.float(m.iadd(m.shl(third, m.n(32)), m.i(0x2a9f_7625_0000_0000)))
    }
}
