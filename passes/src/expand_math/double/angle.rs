//! Reduction of an f64 by multiples of pi/2, and sine and cosine of what is left.
//!
//! From |x| = 1/2 on, the rest comes of |x| 2/pi in fixed point (Payne and Hanek): of the bits of 2/pi, those that make
//! multiples of 4 are skipped and the next 192 multiplied by the 53-bit mantissa, which leaves the fraction with an error
//! below 2^-137; no f64 is closer to a multiple of pi/2 than about 2^-62.

use super::{Pair, product, sum, tables};
use crate::expand_math::machine::Machine;
use std::f64::consts::FRAC_PI_2;

/// 2/pi in binary, after 64 zeros that stand for the bits before its point.
const TWO_OVER_PI: [u64; 20] = [
    0,
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
];
/// pi/2 - FRAC_PI_2
const FRAC_PI_2_LO: f64 = 6.123_233_995_736_766e-17;

pub fn angle<M: Machine<Real = f64>>(m: &M, x: M::F) -> (M::I, Pair<M>) {
    let a = m.abs(x);
    let bits = m.bits(a);
    let exponent = m.isub(m.shr(bits, m.i(52)), m.i(1023));
    let mantissa = m.or(m.and(bits, m.i((1 << 52) - 1)), m.i(1 << 52));
    // Bit of the table that the product begins with: 9 for an exponent of -1, 1033 for 1023.
    let small = m.ilt(exponent, m.n(-1));
    let start = m.iadd(m.isel(small, m.n(-1), exponent), m.i(10));
    let limbs = limbs(m, m.shr(start, m.i(6)), m.and(start, m.i(63)));
    let (q, fraction) = multiply(m, mantissa, &limbs);
    let turn = radians(m, fraction);
    let none = m.f(0.0);
    let (q, r) = (m.isel(small, m.i(0), q), (m.sel(small, a, turn.0), m.sel(small, none, turn.1)));
    let r = (m.sel(m.lt(a, m.f(f64::INFINITY)), r.0, m.nan()), r.1);
    (q, sin_cos(m, r))
}
/// Six limbs of 32 bits of the table, the lowest first, from bit 64 `word` + `shift` on.
fn limbs<M: Machine<Real = f64>>(m: &M, word: M::I, shift: M::I) -> [M::I; 6] {
    let mut words: Vec<M::I> = TWO_OVER_PI.iter().map(|w| m.i(*w)).collect();
    // Shifted by 16 words or not, then by 8, 4, 2, 1: at each step as many are left as can be needed.
    for step in [16, 8, 4, 2, 1] {
        let stay = m.ieq(m.and(word, m.i(step as u64)), m.i(0));
        let shifted = |i: usize| words.get(i + step).map_or(words[i], |w| m.isel(stay, words[i], *w));
        words = (0..words.len().min(3 + step)).map(shifted).collect();
    }
    let window = |i: usize| {
        let next = m.shr(m.shr(words[i + 1], m.i(1)), m.isub(m.i(63), shift));
        m.or(m.shl(words[i], shift), next)
    };
    let parts = |w: M::I| [m.and(w, m.i(0xffff_ffff)), m.shr(w, m.i(32))];
    let (high, middle, low) = (parts(window(0)), parts(window(1)), parts(window(2)));
    [low[0], low[1], middle[0], middle[1], high[0], high[1]]
}
/// Quarter turns, the nearest, and what is left as a signed fraction of 128 bits, of the product modulo 4.
fn multiply<M: Machine<Real = f64>>(m: &M, mantissa: M::I, limbs: &[M::I; 6]) -> (M::I, (M::I, M::I)) {
    let mask = m.i(0xffff_ffff);
    let (low, high) = (|v: M::I| m.and(v, mask), |v: M::I| m.shr(v, m.i(32)));
    let (m0, m1) = (low(mantissa), high(mantissa));
    let mut carry = m.i(0);
    let mut over: Vec<M::I> = vec![];
    let mut result = vec![];
    for k in 0..6 {
        let p = m.imul(m0, limbs[k]);
        let mut column = over.drain(..).fold(m.iadd(carry, low(p)), |s, v| m.iadd(s, v));
        over.push(high(p));
        if k > 0 {
            let p = m.imul(m1, limbs[k - 1]);
            column = m.iadd(column, low(p));
            over.push(high(p));
        }
        result.push(low(column));
        carry = high(column);
    }
    let word = |i: usize| m.or(m.shl(result[i + 1], m.i(32)), result[i]);
    let (upper, middle, lower) = (word(4), word(2), word(0));
    let up = |a: M::I, b: M::I| m.or(m.shl(a, m.i(2)), m.shr(b, m.i(62)));
    let (first, second) = (up(upper, middle), up(middle, lower));
    let q = m.iadd(m.shr(upper, m.i(62)), m.shr(first, m.i(63)));
    (q, (first, second))
}
/// pi/2 times a signed fraction of 128 bits.
fn radians<M: Machine<Real = f64>>(m: &M, (first, second): (M::I, M::I)) -> Pair<M> {
    let scaled = |v: M::I, e: i32| m.mul(m.to_float(v), m.f(2f64.powi(e)));
    let large = scaled(m.sar(first, m.i(32)), -32);
    let small = scaled(m.and(first, m.i(0xffff_ffff)), -64);
    let rest = scaled(m.shr(second, m.i(11)), -117);
    let (hi, lo) = sum(m, large, small);
    let (hi, lo) = sum(m, hi, m.add(lo, rest));
    let (p, p_lo) = product(m, hi, m.f(FRAC_PI_2));
    let cross = m.fma(hi, m.f(FRAC_PI_2_LO), m.mul(lo, m.f(FRAC_PI_2)));
    sum(m, p, m.add(p_lo, cross))
}
fn sin_cos<M: Machine<Real = f64>>(m: &M, (r, rest): Pair<M>) -> Pair<M> {
    let z = m.mul(r, r);
    let half = m.mul(z, m.f(0.5));
    let one = m.f(1.0);
    let slope = m.sub(one, half);
    let sin = m.add(r, m.fma(m.mul(r, z), m.poly(z, tables::SIN), m.mul(rest, slope)));
    // 1 - z/2 as a pair.
    let lost = m.sub(m.sub(one, slope), half);
    let cos = m.add(slope, m.add(lost, m.fma(m.mul(z, z), m.poly(z, tables::COS), m.neg(m.mul(r, rest)))));
    (sin, cos)
}
