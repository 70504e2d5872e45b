//! Floating-point formats of every width: bits to value and back, rounded to nearest even. The formats are those of the
//! StableHLO specification's "Types"; what overflows goes to infinity where the format has one, to NaN where it has only
//! that, and to the largest value otherwise.

use crate::tree::DType;

#[derive(Clone, Copy, PartialEq)]
enum Specials {
    /// Infinities and NaNs at the largest exponent.
    Ieee,
    /// One NaN of each sign, all bits set; no infinities.
    NanOnly,
    /// One NaN, the pattern of negative zero.
    NanIsNegativeZero,
    Finite,
}

struct Format {
    exponent: u32,
    mantissa: u32,
    bias: i32,
    specials: Specials,
}

fn format(d: DType) -> Format {
    use DType::*;
    use Specials::*;
    let (exponent, mantissa, bias, specials) = match d {
        F4E2M1FN => (2, 1, 1, Finite),
        F6E2M3FN => (2, 3, 1, Finite),
        F6E3M2FN => (3, 2, 3, Finite),
        F8E3M4 => (3, 4, 3, Ieee),
        F8E4M3 => (4, 3, 7, Ieee),
        F8E4M3B11FNUZ => (4, 3, 11, NanIsNegativeZero),
        F8E4M3FN => (4, 3, 7, NanOnly),
        F8E4M3FNUZ => (4, 3, 8, NanIsNegativeZero),
        F8E5M2 => (5, 2, 15, Ieee),
        F8E5M2FNUZ => (5, 2, 16, NanIsNegativeZero),
        BF16 => (8, 7, 127, Ieee),
        F16 => (5, 10, 15, Ieee),
        F32 => (8, 23, 127, Ieee),
        F64 => (11, 52, 1023, Ieee),
        _ => panic!("{d} has no floating-point format"),
    };
    Format { exponent, mantissa, bias, specials }
}

/// 2 to the power of `e`, subnormal results too; 0 below them, infinity above the largest.
pub(crate) fn power_of_two(e: i32) -> f64 {
    if e > 1023 {
        return f64::INFINITY;
    }
    if e < -1074 {
        return 0.0;
    }
    if e >= -1022 { f64::from_bits(((e + 1023) as u64) << 52) } else { f64::from_bits(1 << (e + 1074)) }
}

/// The value of the low bits of `bits`. Exact for every format.
pub(crate) fn decode(d: DType, bits: u64) -> f64 {
    match d {
        DType::F64 => return f64::from_bits(bits),
        DType::F32 => return f64::from(f32::from_bits(bits as u32)),
        DType::F8E8M0FNU => {
            return if bits & 0xff == 0xff { f64::NAN } else { power_of_two((bits & 0xff) as i32 - 127) };
        }
        _ => {}
    }
    let f = format(d);
    let width = f.exponent + f.mantissa;
    let negative = bits >> width & 1 == 1;
    let field = bits & ((1 << width) - 1);
    let (e, m) = ((field >> f.mantissa) as i32, field & ((1 << f.mantissa) - 1));
    let top = (1 << f.exponent) - 1;
    let magnitude = match f.specials {
        Specials::Ieee if e == top => {
            if m == 0 {
                f64::INFINITY
            } else {
                f64::NAN
            }
        }
        Specials::NanOnly if field == (1 << width) - 1 => f64::NAN,
        Specials::NanIsNegativeZero if negative && field == 0 => f64::NAN,
        _ if e == 0 => m as f64 * power_of_two(1 - f.bias - f.mantissa as i32),
        _ => (m | 1 << f.mantissa) as f64 * power_of_two(e - f.bias - f.mantissa as i32),
    };
    if negative { -magnitude } else { magnitude }
}

/// The nearest value of the format, ties to even.
pub(crate) fn encode(d: DType, x: f64) -> u64 {
    match d {
        DType::F64 => return x.to_bits(),
        DType::F32 => return u64::from((x as f32).to_bits()),
        DType::F8E8M0FNU => return encode_exponent_only(x),
        _ => {}
    }
    let f = format(d);
    let width = f.exponent + f.mantissa;
    let all = (1u64 << width) - 1;
    let inf = ((1u64 << f.exponent) - 1) << f.mantissa;
    let sign = u64::from(x.is_sign_negative()) << width;
    let nan = match f.specials {
        Specials::Ieee => sign | inf | 1 << (f.mantissa - 1),
        Specials::NanOnly => sign | all,
        Specials::NanIsNegativeZero => 1 << width,
        // Negative zero stands in.
        Specials::Finite => 1 << width,
    };
    if x.is_nan() {
        return nan;
    }
    let (largest, overflow) = match f.specials {
        Specials::Ieee => (inf - 1, sign | inf),
        Specials::NanOnly => (all - 1, nan),
        Specials::NanIsNegativeZero => (all, nan),
        Specials::Finite => (all, sign | all),
    };
    if x.is_infinite() {
        return overflow;
    }
    let lowest = 1 - f.bias;
    // Values below the smallest normal f64 are far below every format here; their exponent field of 0 clamps to `lowest`.
    let e = ((x.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(lowest);
    let steps = (x.abs() / power_of_two(e - f.mantissa as i32)).round_ties_even() as u64;
    let field = (((e - lowest) as u64) << f.mantissa) + steps;
    if field > largest {
        return overflow;
    }
    if field == 0 && f.specials == Specials::NanIsNegativeZero {
        return 0;
    }
    sign | field
}

/// The least power of two stands in for zero; of negative numbers, which there are none of, comes NaN.
fn encode_exponent_only(x: f64) -> u64 {
    if x.is_nan() || x < 0.0 || x.is_infinite() {
        return 0xff;
    }
    if x == 0.0 {
        return 0;
    }
    let bits = x.to_bits();
    let (e, m) = ((bits >> 52) as i32 - 1023, bits & ((1 << 52) - 1));
    let half = 1 << 51;
    let up = m > half || (m == half && e & 1 == 0);
    let field = e + 127 + i32::from(up);
    if field > 254 { 0xff } else { field.max(0) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_the_small_formats_survives() {
        for d in DType::all().filter(|d| d.is_float() && d.bits() <= 16) {
            for bits in 0..1u64 << d.bits() {
                let x = decode(d, bits);
                if !x.is_nan() {
                    assert_eq!(encode(d, x), bits, "{d} {bits:#x} {x}");
                }
            }
        }
    }

    #[test]
    fn agrees_with_the_half_crate() {
        for i in 0..200_000u64 {
            let x = f64::from(f32::from_bits((i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32));
            if !x.is_nan() {
                assert_eq!(encode(DType::F16, x), u64::from(half::f16::from_f32(x as f32).to_bits()), "{x}");
                assert_eq!(encode(DType::BF16, x), u64::from(half::bf16::from_f32(x as f32).to_bits()), "{x}");
            }
        }
    }

    #[test]
    fn limits_are_those_of_the_specification() {
        // Largest values: the names in OCP's MX and 8-bit specifications and StableHLO's RFCs.
        let largest = [
            (DType::F4E2M1FN, 6.0),
            (DType::F6E2M3FN, 7.5),
            (DType::F6E3M2FN, 28.0),
            (DType::F8E3M4, 15.5),
            (DType::F8E4M3, 240.0),
            (DType::F8E4M3B11FNUZ, 30.0),
            (DType::F8E4M3FN, 448.0),
            (DType::F8E4M3FNUZ, 240.0),
            (DType::F8E5M2, 57344.0),
            (DType::F8E5M2FNUZ, 57344.0),
        ];
        for (d, want) in largest {
            let found = (0..1u64 << d.bits()).map(|b| decode(d, b)).filter(|x| x.is_finite()).fold(0.0, f64::max);
            assert_eq!(found, want, "{d}");
        }
        assert!(decode(DType::F8E4M3FN, encode(DType::F8E4M3FN, 1e6)).is_nan());
        assert_eq!(decode(DType::F8E5M2, encode(DType::F8E5M2, 1e6)), f64::INFINITY);
        assert_eq!(decode(DType::F4E2M1FN, encode(DType::F4E2M1FN, -100.0)), -6.0);
        assert_eq!(encode(DType::F8E4M3FNUZ, -0.0), 0);
        // Ties go to the even exponent field.
        assert_eq!(encode(DType::F8E8M0FNU, 3.0), 128);
        assert_eq!(encode(DType::F8E8M0FNU, 6.0), 130);
        let least = power_of_two(-127);
        for (x, want) in
            [(0.0, 0), (-0.0, 0), (5e-324, 0), (least, 0), (1.5 * least, 0), (1.6 * least, 1), (-least, 255)]
        {
            assert_eq!(encode(DType::F8E8M0FNU, x), want, "{x}");
        }
    }
}
