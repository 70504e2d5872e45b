//! sin, cos, tan, for every finite argument.
//!
//! |x| = (4 n + q) pi/2 + r with |r| <= pi/4. From |x| = 1/2 on, r comes of |x| 2/pi in fixed point (Payne and Hanek): of
//! the bits of 2/pi, those that make multiples of 4 are skipped and the next 96 multiplied by the 24-bit mantissa, which
//! leaves the fraction with an error below 2^-62; no f32 is closer to a multiple of pi/2 than about 2^-30.

use super::machine::Machine;

/// 2/pi in binary, after 32 zeros that stand for the bits before its point.
const TWO_OVER_PI: [u32; 8] =
    [0, 0xa2f9_836e, 0x4e44_1529, 0xfc27_57d1, 0xf534_ddc0, 0xdb62_9599, 0x3c43_9041, 0xfe51_63ab];
const HALF_PI_HI: f32 = std::f32::consts::FRAC_PI_2;
/// pi/2 - HALF_PI_HI
const HALF_PI_LO: f32 = -4.371_139e-8;
/// (sin r - r) / r^3 in r^2, on |r| <= 0.786.
const SIN: &[f32] = &[-0.166_666_67, 0.008_333_379, -1.985_306_9e-4, 2.832_629_4e-6];
/// (cos r - 1 + r^2/2) / r^4 in r^2, on |r| <= 0.786.
const COS: &[f32] = &[0.041_666_646, -0.001_388_731, 2.443_233_6e-5];

/// q (modulo 4) and r of |x|; NaN for infinity and NaN.
fn reduce<M: Machine>(m: &M, x: M::F) -> (M::I, M::F) {
    let a = m.abs(x);
    let bits = m.bits(a);
    let exponent = m.isub(m.shr(bits, m.i(23)), m.i(127));
    let mantissa = m.or(m.and(bits, m.i(0x007f_ffff)), m.i(0x0080_0000));
    // Bit of the table that the product begins with: 6 for an exponent of -1, 134 for 127.
    let small = m.ilt(exponent, m.i(-1i32 as u32));
    let start = m.iadd(m.isel(small, m.i(-1i32 as u32), exponent), m.i(7));
    let (word, shift) = (m.shr(start, m.i(5)), m.and(start, m.i(31)));
    let at = |offset: usize| {
        let last = m.i(TWO_OVER_PI[4 + offset]);
        (0..4).rev().fold(last, |rest, w| m.isel(m.ieq(word, m.i(w as u32)), m.i(TWO_OVER_PI[w + offset]), rest))
    };
    let words = [at(0), at(1), at(2), at(3)];
    let window = |i: usize| {
        let next = m.shr(m.shr(words[i + 1], m.i(1)), m.isub(m.i(31), shift));
        m.or(m.shl(words[i], shift), next)
    };
    let (_, carry) = m.imul_wide(mantissa, window(2));
    let (middle, over) = m.imul_wide(mantissa, window(1));
    let low = m.iadd(middle, carry);
    let high = m.iadd(m.imul(mantissa, window(0)), over);
    let high = m.isel(m.ult(low, middle), m.iadd(high, m.i(1)), high);
    // Two bits of quarter turns, then a fraction of 62 bits; the fraction becomes signed by rounding q.
    let q = m.shr(m.iadd(high, m.i(0x2000_0000)), m.i(30));
    let upper = m.or(m.shl(high, m.i(2)), m.shr(low, m.i(30)));
    let lower = m.shl(low, m.i(2));
    // 2^-31 a + 2^-48 b + 2^-64 c, all exact in f32 and |b| small beside a.
    let half = m.sar(upper, m.i(1));
    let a24 = m.and(m.iadd(half, m.i(0x40)), m.i(0xffff_ff80));
    let odd = m.shl(m.and(upper, m.i(1)), m.i(16));
    let b24 = m.iadd(m.shl(m.isub(half, a24), m.i(17)), m.or(odd, m.shr(lower, m.i(16))));
    let c16 = m.and(lower, m.i(0xffff));
    let first = m.mul(m.to_float(a24), m.f(2f32.powi(-31)));
    let rest = m.fma(m.to_float(c16), m.f(2f32.powi(-64)), m.mul(m.to_float(b24), m.f(2f32.powi(-48))));
    let r = m.fma(first, m.f(HALF_PI_HI), m.fma(first, m.f(HALF_PI_LO), m.mul(rest, m.f(HALF_PI_HI))));
    let (q, r) = (m.isel(small, m.i(0), q), m.sel(small, a, r));
    (q, m.sel(m.lt(a, m.f(f32::INFINITY)), r, m.nan()))
}
fn sin_cos<M: Machine>(m: &M, r: M::F) -> (M::F, M::F) {
    let z = m.mul(r, r);
    let sin = m.fma(m.mul(r, z), m.poly(z, SIN), r);
    let cos = m.fma(m.mul(z, z), m.poly(z, COS), m.fma(z, m.f(-0.5), m.f(1.0)));
    (sin, cos)
}
/// sin(q pi/2 + r)
fn quarter<M: Machine>(m: &M, q: M::I, (sin, cos): (M::F, M::F)) -> M::F {
    let y = m.sel(m.ieq(m.and(q, m.i(1)), m.i(0)), sin, cos);
    m.float(m.xor(m.bits(y), m.shl(m.and(q, m.i(2)), m.i(30))))
}
/// y with its sign turned if x is negative.
fn odd<M: Machine>(m: &M, x: M::F, y: M::F) -> M::F {
    m.float(m.xor(m.bits(y), m.and(m.bits(x), m.i(0x8000_0000))))
}

pub fn sin<M: Machine>(m: &M, x: M::F) -> M::F {
    let (q, r) = reduce(m, x);
    odd(m, x, quarter(m, q, sin_cos(m, r)))
}
pub fn cos<M: Machine>(m: &M, x: M::F) -> M::F {
    let (q, r) = reduce(m, x);
    quarter(m, m.iadd(q, m.i(1)), sin_cos(m, r))
}
pub fn tan<M: Machine>(m: &M, x: M::F) -> M::F {
    let (q, r) = reduce(m, x);
    let (sin, cos) = sin_cos(m, r);
    let even = m.ieq(m.and(q, m.i(1)), m.i(0));
    odd(m, x, m.div(m.sel(even, sin, m.neg(cos)), m.sel(even, cos, sin)))
}
