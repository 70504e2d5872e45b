//! What expansions have for f32 alone: coefficients, and parts that 32 bits ask to be computed in their own way.

use super::{error, exp, log, machine::Machine, power};

pub const EXP: exp::Table<f32> = exp::Table {
    // 10 bits.
    ln2_hi: 0.692_382_8,
    ln2_lo: 7.643_680_4e-4,
    exp: &[0.5, 0.166_666_66, 0.041_666_493, 0.008_333_543, 0.001_393_238_8, 1.976_443_3e-4],
    whole: &[0.5, 0.166_665_17, 0.041_666_2, 0.008_369_114, 0.001_395_088],
    exp2: &[
        std::f32::consts::LN_2,
        0.240_226_5,
        0.055_504_05,
        0.009_618_087,
        0.001_333_795,
        1.545_218e-4,
        1.433_003e-5,
    ],
    sinh: &[0.166_666_67, 0.008_333_310_5, 1.984_288_7e-4, 2.782_321_2e-6],
    range: [-105.0, 91.0],
    range2: [-151.0, 129.0],
    range_minus_one: [-18.0, 89.0],
};
pub const LOG: log::Table<f32> =
    log::Table { log10_2_hi: 0.300_781_25, log10_2_lo: 2.487_456_7e-4, sqrt_half: 0x3f35_04f3 };
/// (asin x - x) / x^3 in x^2, on |x| <= 0.501.
pub const ASIN: &[f32] = &[0.166_666_6, 0.075_005_21, 0.044_513_658, 0.031_835_757, 0.014_330_41, 0.037_671_63];
pub const POWER: power::Table = power::Table { over: 128.0, under: -151.0, most: 4_294_967_296.0, steps: 2 };
pub const ERROR: error::Table<f32> = error::Table {
    near: 0.925,
    erf: &[0.128_379_17, -0.376_126_3, 0.112_836_26, -0.026_855_731, 0.005_192_405, -8.049_769_7e-4, 7.996_65e-5],
    end: 10.1,
};

/// (log(1 + f) - f + f^2/2) / f^3 on [-0.2939, 0.4152].
const LOG_TAIL: &[f32] = &[
    0.333_333_1,
    -0.249_999_94,
    0.200_022_01,
    -0.166_686_52,
    0.142_187_3,
    -0.123_961_64,
    0.118_852_35,
    -0.117_219_04,
    0.068_030_61,
];
pub fn log_tail<M: Machine<Real = f32>>(m: &M, f: M::F) -> M::F {
    let z = m.mul(f, f);
    m.fma(m.mul(z, f), m.poly(f, LOG_TAIL), m.mul(z, m.f(-0.5)))
}

/// (atan x - x) / x^3 in x^2, on |x| <= 1.001.
const ATAN: &[f32] = &[
    -0.333_333,
    0.199_985_3,
    -0.142_640_16,
    0.109_508_805,
    -0.083_993_055,
    0.057_881_33,
    -0.031_096_827,
    0.010_868_513,
    -0.001_782_754_3,
];
pub fn atan_ratio<M: Machine<Real = f32>>(m: &M, small: M::F, large: M::F) -> M::F {
    let q = m.div(small, large);
    let q = m.sel(m.eq(small, large), m.f(1.0), q);
    let q = m.sel(m.eq(large, m.f(0.0)), m.f(0.0), q);
    let z = m.mul(q, q);
    m.fma(m.mul(q, z), m.poly(z, ATAN), q)
}

/// log(erfc x) on [0.92, 3.93].
const LOG_ERFC: &[f32] = &[
    1.746_845_5e-4,
    -1.129_514_9,
    -0.633_346_9,
    -0.108_280_04,
    0.025_119_35,
    -0.004_171_006,
    4.344_427_7e-4,
    -2.109_241_9e-5,
];
/// erfc(x) e^(x^2) in 1 / (1 + 0.4 x), on [0.49, 10.1].
const ERFC: &[f32] = &[
    3.399_501e-6,
    0.225_602_57,
    0.226_309_9,
    0.204_990_03,
    0.175_060_51,
    0.136_108_5,
    -0.013_102_11,
    0.190_449_94,
    -0.201_410_28,
    0.055_997_144,
];

pub fn erf_far<M: Machine<Real = f32>>(m: &M, a: M::F) -> M::F {
    // From 3.93 on the result is 1.
    let inside = m.sel(m.lt(a, m.f(3.93)), a, m.f(3.93));
    m.sub(m.f(1.0), exp::scaled(m, m.poly(inside, LOG_ERFC), 0))
}
pub fn scaled_erfc<M: Machine<Real = f32>>(m: &M, x: M::F) -> M::F {
    m.poly(m.div(m.f(1.0), m.fma(x, m.f(0.4), m.f(1.0))), ERFC)
}

/// (atanh s - s) / s^3 in s^2, on |s| <= 0.1025.
const ATANH: &[f32] = &[0.333_333_34, 0.199_994_3, 0.143_784_03, 0.066_534_69];
/// 2 / ln 2 = TWO_LOG2E_HI + TWO_LOG2E_LO; the first has 12 bits.
const TWO_LOG2E: f32 = 2.885_39;
const TWO_LOG2E_HI: f32 = 2.884_765_6;
const TWO_LOG2E_LO: f32 = 6.244_568e-4;
/// log2 1.5 = LOG2_3_2_HI + LOG2_3_2_LO; the first has 12 bits.
const LOG2_3_2_HI: f32 = 0.584_960_94;
const LOG2_3_2_LO: f32 = 1.563_221_2e-6;

/// log2 of a positive finite number as a head of 12 bits and a rest, together good to about 2^-31 of it.
///
/// x = 2^k m with m in [0.866, 1.732); with c = 1 or 1.5, whichever is nearer, s = (m - c) / (m + c) and
/// log2 m = log2 c + 2 / ln 2 (s + s^3 R(s^2)).
pub fn log2_parts<M: Machine<Real = f32>>(m: &M, x: M::F) -> (M::F, M::F) {
    let tiny = m.lt(x, m.f(f32::MIN_POSITIVE));
    let bits = m.bits(m.sel(tiny, m.mul(x, m.f(8_388_608.0)), x));
    // The bits of sqrt(3)/2.
    let k = m.sar(m.isub(bits, m.i(0x3f5d_b3d7)), m.i(23));
    let mantissa = m.float(m.isub(bits, m.shl(k, m.i(23))));
    let k = m.to_float(m.isel(tiny, m.isub(k, m.i(23)), k));
    let upper = m.lt(m.f(1.224_744_9), mantissa);
    let c = m.sel(upper, m.f(1.5), m.f(1.0));
    let zero = m.f(0.0);
    let (c_hi, c_lo) = (m.sel(upper, m.f(LOG2_3_2_HI), zero), m.sel(upper, m.f(LOG2_3_2_LO), zero));
    // s = s_hi + s_lo.
    let numerator = m.sub(mantissa, c);
    let denominator = m.add(mantissa, c);
    let s = m.div(numerator, denominator);
    let s_hi = m.head(s);
    let d_hi = m.head(denominator);
    let d_lo = m.sub(mantissa, m.sub(d_hi, c));
    let rest = m.sub(m.sub(numerator, m.mul(s_hi, d_hi)), m.mul(s_hi, d_lo));
    let s_lo = m.div(rest, denominator);
    // z = s + s^3 R.
    let square = m.mul(s, s);
    let z_lo = m.fma(m.mul(s, square), m.poly(square, ATANH), s_lo);
    let z_hi = m.head(m.add(s_hi, z_lo));
    let z_lo = m.sub(z_lo, m.sub(z_hi, s_hi));
    // Times 2 / ln 2, then the sum of all.
    let w_hi = m.mul(z_hi, m.f(TWO_LOG2E_HI));
    let w_lo = m.fma(z_lo, m.f(TWO_LOG2E), m.fma(z_hi, m.f(TWO_LOG2E_LO), c_lo));
    let head = m.head(m.add(m.add(m.add(w_hi, w_lo), c_hi), k));
    (head, m.sub(w_lo, m.sub(m.sub(m.sub(head, k), c_hi), w_hi)))
}

/// From |x| = 1/2 on, r comes of |x| 2/pi in fixed point (Payne and Hanek): of the bits of 2/pi, those that make multiples
/// of 4 are skipped and the next 96 multiplied by the 24-bit mantissa, which leaves the fraction with an error below 2^-62;
/// no f32 is closer to a multiple of pi/2 than about 2^-30.
pub fn angle<M: Machine<Real = f32>>(m: &M, x: M::F) -> (M::I, (M::F, M::F)) {
    let (q, r) = reduce(m, x);
    (q, sin_cos(m, r))
}

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
fn reduce<M: Machine<Real = f32>>(m: &M, x: M::F) -> (M::I, M::F) {
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
fn sin_cos<M: Machine<Real = f32>>(m: &M, r: M::F) -> (M::F, M::F) {
    let z = m.mul(r, r);
    let sin = m.fma(m.mul(r, z), m.poly(z, SIN), r);
    let cos = m.fma(m.mul(z, z), m.poly(z, COS), m.fma(z, m.f(-0.5), m.f(1.0)));
    (sin, cos)
}
