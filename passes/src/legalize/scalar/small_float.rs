//! Floats of 4, 6 and 8 bits, held as their bits in an `i8`, to f32 and back in integer arithmetic: every target has it.

use crate::ir::{B, V, ValueLike};
use zmlc_import::tree::DType;

/// What the codes of a format mean.
struct Format {
    /// Bits of the exponent and of the mantissa; a sign bit stands before them unless `unsigned`.
    exponent: i64,
    mantissa: i64,
    bias: i64,
    special: Special,
}
#[derive(Clone, Copy, PartialEq)]
enum Special {
    /// As IEEE 754: the highest exponent is infinity and NaNs.
    Ieee,
    /// All ones below the sign is NaN; no infinity.
    OnlyNan,
    /// The code of negative zero is NaN; no infinity and no negative zero.
    Unsigned0,
    /// Every code is a number.
    None,
    /// No sign, no mantissa, no zero: a power of two; all ones is NaN.
    Scale,
}
fn format(d: DType) -> Format {
    let (exponent, mantissa, bias, special) = match d {
        DType::F4E2M1FN => (2, 1, 1, Special::None),
        DType::F6E2M3FN => (2, 3, 1, Special::None),
        DType::F6E3M2FN => (3, 2, 3, Special::None),
        DType::F8E3M4 => (3, 4, 3, Special::Ieee),
        DType::F8E4M3 => (4, 3, 7, Special::Ieee),
        DType::F8E4M3FN => (4, 3, 7, Special::OnlyNan),
        DType::F8E4M3FNUZ => (4, 3, 8, Special::Unsigned0),
        DType::F8E4M3B11FNUZ => (4, 3, 11, Special::Unsigned0),
        DType::F8E5M2 => (5, 2, 15, Special::Ieee),
        DType::F8E5M2FNUZ => (5, 2, 16, Special::Unsigned0),
        _ => (8, 0, 127, Special::Scale),
    };
    Format { exponent, mantissa, bias, special }
}
impl Format {
    /// The largest code of a finite number, sign left out.
    fn greatest(&self) -> i64 {
        let all = (1 << (self.exponent + self.mantissa)) - 1;
        match self.special {
            Special::Ieee => all - (1 << self.mantissa),
            Special::OnlyNan | Special::Scale => all - 1,
            Special::Unsigned0 | Special::None => all,
        }
    }
    /// What a number too large becomes.
    fn overflow(&self) -> i64 {
        match self.special {
            Special::Ieee => self.greatest() + 1,
            Special::OnlyNan => self.greatest() + 1,
            Special::Unsigned0 => 1 << (self.exponent + self.mantissa),
            Special::None => self.greatest(),
            Special::Scale => 255,
        }
    }
    fn nan(&self) -> i64 {
        match self.special {
            // The quiet one.
            Special::Ieee => self.greatest() + 1 + (1 << (self.mantissa - 1)),
            Special::None => 1 << (self.exponent + self.mantissa),
            _ => self.overflow(),
        }
    }
}

fn to_f32<'c>(b: &B<'c>, bits: V<'c>) -> V<'c> {
    b.op1("arith.bitcast", &[bits], b.f32(), &[])
}
const F32_NAN: i64 = 0x7fc0_0000;
const F32_INF: i64 = 0x7f80_0000;

/// The f32 of a code: exact.
pub(super) fn decode<'c>(b: &B<'c>, d: DType, code: V<'c>) -> V<'c> {
    let f = format(d);
    let t = b.i(32);
    let c = |x: i64| b.cint(t, x);
    let code = b.op1("arith.extui", &[code], t, &[]);
    if f.special == Special::Scale {
        // Code 0 is 2^-127, which f32 holds as a denormal.
        let normal = b.same("arith.shli", &[code, c(23)]);
        let bits = b.select(b.cmpi("eq", code, c(0)), c(0x0040_0000), normal);
        return to_f32(b, b.select(b.cmpi("eq", code, c(255)), c(F32_NAN), bits));
    }
    let width = f.exponent + f.mantissa;
    let magnitude = b.same("arith.andi", &[code, c((1 << width) - 1)]);
    let sign = b.same("arith.shli", &[b.same("arith.shrui", &[code, c(width)]), c(31)]);
    let shift = 23 - f.mantissa;
    let normal = b.addi(b.same("arith.shli", &[magnitude, c(shift)]), c((127 - f.bias) << 23));
    // A denormal is its mantissa times the smallest step: exact in f32.
    let step = 2f64.powi((1 - f.bias - f.mantissa) as i32);
    let small = b.mulf(b.op1("arith.uitofp", &[magnitude], b.f32(), &[]), b.cfloat(b.f32(), step));
    let small = b.op1("arith.bitcast", &[small], t, &[]);
    let mut bits = b.select(b.cmpi("ult", magnitude, c(1 << f.mantissa)), small, normal);
    bits = match f.special {
        Special::Ieee => {
            let infinity = f.greatest() + 1;
            let above = b.select(b.cmpi("eq", magnitude, c(infinity)), c(F32_INF), c(F32_NAN));
            b.select(b.cmpi("uge", magnitude, c(infinity)), above, bits)
        }
        Special::OnlyNan => b.select(b.cmpi("eq", magnitude, c(f.nan())), c(F32_NAN), bits),
        _ => bits,
    };
    bits = b.same("arith.ori", &[bits, sign]);
    if f.special == Special::Unsigned0 {
        bits = b.select(b.cmpi("eq", code, c(f.nan())), c(F32_NAN), bits);
    }
    to_f32(b, bits)
}

/// The code nearest to an f32, ties to even.
pub(super) fn encode<'c>(b: &B<'c>, d: DType, x: V<'c>) -> V<'c> {
    let f = format(d);
    let t = b.i(32);
    let c = |x: i64| b.cint(t, x);
    let i8 = b.i(8);
    let raw = b.op1("arith.bitcast", &[x], t, &[]);
    let nan = b.cmpf("uno", x, x);
    if f.special == Special::Scale {
        let code = encode_scale(b, x, raw);
        return b.op1("arith.trunci", &[b.select(nan, c(255), code)], i8, &[]);
    }
    let magnitude = b.same("arith.andi", &[raw, c(0x7fff_ffff)]);
    let shift = 23 - f.mantissa;
    // Normal: round the f32's own bits to the mantissa, then move the exponent.
    let last = b.same("arith.andi", &[b.same("arith.shrui", &[magnitude, c(shift)]), c(1)]);
    let rounded = b.addi(b.addi(magnitude, c((1 << (shift - 1)) - 1)), last);
    let rounded = b.same("arith.shrui", &[rounded, c(shift)]);
    let normal = b.same("arith.subi", &[rounded, c((127 - f.bias) << f.mantissa)]);
    // Denormal: adding a number whose last place is the step rounds to the step.
    let magic = 2f64.powi((1 - f.bias - f.mantissa + 23) as i32);
    let magic_bits = i64::from((magic as f32).to_bits());
    let sum = b.addf(to_f32(b, magnitude), b.cfloat(b.f32(), magic));
    let small = b.same("arith.subi", &[b.op1("arith.bitcast", &[sum], t, &[]), c(magic_bits)]);
    let first_normal = i64::from((2f64.powi((1 - f.bias) as i32) as f32).to_bits());
    let code = b.select(b.cmpi("ult", magnitude, c(first_normal)), small, normal);
    let over = b.cmpi("ugt", code, c(f.greatest()));
    // Compare the f32 too: what is far above may have wrapped.
    let limit = i64::from((2f64.powi(((1 << f.exponent) - f.bias) as i32) as f32).to_bits());
    let over = b.same("arith.ori", &[over, b.cmpi("uge", magnitude, c(limit))]);
    let code = b.select(over, c(f.overflow()), code);
    let code = b.select(nan, c(f.nan()), code);
    let sign = b.same("arith.shrui", &[b.same("arith.andi", &[raw, c(-0x8000_0000)]), c(31 - f.exponent - f.mantissa)]);
    let signed = b.same("arith.ori", &[code, sign]);
    let code = match f.special {
        // Zero and NaN have one code each.
        Special::Unsigned0 => b.select(b.cmpi("eq", code, c(0)), c(0), signed),
        Special::None => b.select(nan, code, signed),
        _ => signed,
    };
    b.op1("arith.trunci", &[code], i8, &[])
}
/// The nearest power of two, ties to the even exponent; the least one for zero; a negative number has none.
fn encode_scale<'c>(b: &B<'c>, x: V<'c>, raw: V<'c>) -> V<'c> {
    let t = raw.r#type();
    let c = |x: i64| b.cint(t, x);
    let last = b.same("arith.andi", &[b.same("arith.shrui", &[raw, c(23)]), c(1)]);
    let code = b.same("arith.shrui", &[b.addi(b.addi(raw, c((1 << 22) - 1)), last), c(23)]);
    // Denormal: the least power, 2^-127, or the next one; the middle between them goes to the first, which is even.
    let low = b.op1("arith.extui", &[b.cmpi("ugt", raw, c(0x0060_0000))], t, &[]);
    let code = b.select(b.cmpi("ult", raw, c(0x0080_0000)), low, b.same("arith.minui", &[code, c(255)]));
    let zero = b.cmpf("oeq", x, b.cfloat(b.f32(), 0.0));
    let code = b.select(zero, c(0), code);
    b.select(b.cmpf("olt", x, b.cfloat(b.f32(), 0.0)), c(255), code)
}
