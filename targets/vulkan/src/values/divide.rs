//! Division of 64-bit integers. NVIDIA's driver (580) now and then makes wrong code of SPIR-V's, or none ("NVVM compilation
//! failed"), so it is written out: an estimate of 2^64 / d in f32, two of Newton's steps in integers, which always stay
//! below it, and what is left of the dividend corrected twice.

use super::integer::double;
use zmlc_passes::ir::{B, V};

/// 2^64 (1 - 2^-20): below the quotient even where division in f32 is 2.5 units off, as Vulkan allows.
const BELOW: f64 = 18_446_726_481_523_507_200.0;
const WORD: f64 = 4_294_967_296.0;

/// Quotient and remainder of `n` and `d`, which is not 0, without signs.
pub fn unsigned<'c>(b: &B<'c>, n: V<'c>, d: V<'c>) -> (V<'c>, V<'c>) {
    let c = |x| b.cfloat(b.f32(), x);
    let zero = b.cint(b.i(64), 0);
    let (low, high) = words(b, d);
    let [low, high] = [low, high].map(|w| b.op1("arith.uitofp", &[w], b.f32(), &[]));
    let estimate = b.same("arith.divf", &[c(1.0), b.same("arith.addf", &[b.mulf(high, c(WORD)), low])]);
    let estimate = b.mulf(estimate, c(BELOW));
    let high = b.same("math.floor", &[b.mulf(estimate, c(1.0 / WORD))]);
    let low = b.same("arith.subf", &[estimate, b.mulf(high, c(WORD))]);
    let [low, high] = [low, high].map(|x| b.op1("arith.fptoui", &[x], b.i(32), &[]));
    let high = b.same("arith.shli", &[double(b, "arith.extui", high), b.cint(b.i(64), 32)]);
    let mut inverse = b.same("arith.ori", &[high, double(b, "arith.extui", low)]);
    let minus = b.same("arith.subi", &[zero, d]);
    for _ in 0..2 {
        inverse = b.addi(inverse, high_product(b, inverse, b.muli(minus, inverse)));
    }
    let mut quotient = high_product(b, n, inverse);
    let mut rest = b.same("arith.subi", &[n, b.muli(quotient, d)]);
    for _ in 0..2 {
        let more = b.cmpi("uge", rest, d);
        quotient = b.select(more, b.addi(quotient, b.cint(b.i(64), 1)), quotient);
        rest = b.select(more, b.same("arith.subi", &[rest, d]), rest);
    }
    (quotient, rest)
}

/// Low and high half.
fn words<'c>(b: &B<'c>, x: V<'c>) -> (V<'c>, V<'c>) {
    let word = |x| b.op1("arith.trunci", &[x], b.i(32), &[]);
    (word(x), word(b.same("arith.shrui", &[x, b.cint(b.i(64), 32)])))
}
/// The upper 64 bits of the product.
fn high_product<'c>(b: &B<'c>, x: V<'c>, y: V<'c>) -> V<'c> {
    let [(x0, x1), (y0, y1)] = [x, y].map(|v| {
        let (low, high) = words(b, v);
        (double(b, "arith.extui", low), double(b, "arith.extui", high))
    });
    let upper = |v| b.same("arith.shrui", &[v, b.cint(b.i(64), 32)]);
    let lower = |v| b.same("arith.andi", &[v, b.cint(b.i(64), 0xffff_ffff)]);
    let (one, other) = (b.muli(x0, y1), b.muli(x1, y0));
    let middle = b.addi(b.addi(upper(b.muli(x0, y0)), lower(one)), lower(other));
    b.addi(b.addi(b.muli(x1, y1), upper(one)), b.addi(upper(other), upper(middle)))
}
