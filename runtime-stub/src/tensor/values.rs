//! Values as numbers, for people to read and for random inputs.

use super::HostTensor;
use crate::error::{Error, Result};
use serde_json::Value;
use zml_format::{DType, Tensor};

/// The first `most` values as text: `[0.5, 1, ...]`.
pub fn show(dtype: DType, bytes: &[u8], most: usize) -> String {
    let values = bytes.chunks_exact(dtype.bytes());
    let mut parts: Vec<String> = values.clone().take(most).map(|v| value(dtype, v)).collect();
    if values.len() > most {
        parts.push("...".into());
    }
    format!("[{}]", parts.join(", "))
}

/// The first `most` values as JSON: numbers, predicates as booleans, complex numbers as pairs. What JSON has no number for
/// is a string, `"NaN"` or `"inf"`.
pub fn json(dtype: DType, bytes: &[u8], most: usize) -> Value {
    let number = |d: DType, v: &[u8]| {
        let text = value(d, v);
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    };
    let one = |v: &[u8]| match dtype.is_complex() {
        true => {
            let (re, im) = v.split_at(v.len() / 2);
            Value::Array(vec![number(dtype.real(), re), number(dtype.real(), im)])
        }
        false => number(dtype, v),
    };
    Value::Array(bytes.chunks_exact(dtype.bytes()).take(most).map(one).collect())
}

/// The shortest digits that mean this number, with an exponent where they would be mostly zeros.
macro_rules! float_text {
    ($x:expr) => {{
        let x = $x;
        let plain = x == 0.0 || !x.is_finite() || (1e-4..1e16).contains(&x.abs());
        if plain { x.to_string() } else { format!("{x:e}") }
    }};
}

fn value(dtype: DType, v: &[u8]) -> String {
    use DType as D;
    let unsigned = v.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
    match dtype {
        D::I1 => (unsigned != 0).to_string(),
        D::C64 | D::C128 => {
            let (re, im) = v.split_at(v.len() / 2);
            format!("{}+{}i", value(dtype.real(), re), value(dtype.real(), im))
        }
        D::F32 => float_text!(f32::from_bits(unsigned as u32)),
        D::F64 => float_text!(f64::from_bits(unsigned)),
        d if d.is_signed_int() => {
            let unused = 64 - 8 * v.len() as u32;
            ((unsigned << unused) as i64 >> unused).to_string()
        }
        d if d.is_float() => float_text!(decode(layout(d), unsigned as u32) as f32),
        _ => unsigned.to_string(),
    }
}

/// A float of at most 16 bits: sign, exponent, mantissa from the top.
#[derive(Clone, Copy)]
struct Layout {
    sign: bool,
    exponent: u32,
    mantissa: u32,
    bias: i32,
    special: Special,
}
#[derive(Clone, Copy, PartialEq)]
enum Special {
    /// As IEEE 754: the top exponent is infinity or NaN.
    Ieee,
    /// All ones are NaN, no infinity (`FN`).
    TopNan,
    /// Only negative zero is NaN (`FNUZ`).
    ZeroNan,
    /// Every code is a number.
    None,
}

fn layout(d: DType) -> Layout {
    use DType as D;
    use Special as S;
    let (sign, exponent, mantissa, bias, special) = match d {
        D::F4E2M1FN => (true, 2, 1, 1, S::None),
        D::F6E2M3FN => (true, 2, 3, 1, S::None),
        D::F6E3M2FN => (true, 3, 2, 3, S::None),
        D::F8E3M4 => (true, 3, 4, 3, S::Ieee),
        D::F8E4M3 => (true, 4, 3, 7, S::Ieee),
        D::F8E4M3FN => (true, 4, 3, 7, S::TopNan),
        D::F8E4M3FNUZ => (true, 4, 3, 8, S::ZeroNan),
        D::F8E4M3B11FNUZ => (true, 4, 3, 11, S::ZeroNan),
        D::F8E5M2 => (true, 5, 2, 15, S::Ieee),
        D::F8E5M2FNUZ => (true, 5, 2, 16, S::ZeroNan),
        D::F8E8M0FNU => (false, 8, 0, 127, S::TopNan),
        D::BF16 => (true, 8, 7, 127, S::Ieee),
        _ => (true, 5, 10, 15, S::Ieee),
    };
    Layout { sign, exponent, mantissa, bias, special }
}

fn decode(l: Layout, code: u32) -> f64 {
    let mantissa = code & ((1 << l.mantissa) - 1);
    let exponent = code >> l.mantissa & ((1 << l.exponent) - 1);
    let negative = l.sign && code >> (l.mantissa + l.exponent) & 1 == 1;
    let (top, full) = ((1 << l.exponent) - 1, (1 << l.mantissa) - 1);
    let nan = match l.special {
        Special::Ieee => exponent == top && mantissa != 0,
        Special::TopNan => exponent == top && mantissa == full,
        Special::ZeroNan => negative && exponent == 0 && mantissa == 0,
        Special::None => false,
    };
    let fraction = f64::from(mantissa) / f64::from(1 << l.mantissa);
    let size = if nan {
        f64::NAN
    } else if l.special == Special::Ieee && exponent == top {
        f64::INFINITY
    } else if exponent == 0 && l.sign {
        fraction * f64::from(1 - l.bias).exp2()
    } else {
        (1.0 + fraction) * f64::from(exponent as i32 - l.bias).exp2()
    };
    if negative { -size } else { size }
}

/// Values that depend on nothing but `seed` and the tensor's type: floats between -1 and 1, integers from 0 to 7 (as far
/// as they go), predicates. The error: more bytes than there is memory for.
pub fn random(t: &Tensor, seed: u64) -> Result<HostTensor> {
    use DType as D;
    let mut state = seed;
    let mut next = move || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    };
    let mut unit = move || (next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
    let mut bytes = vec![];
    usize::try_from(t.bytes()).ok().and_then(|n| bytes.try_reserve_exact(n).ok()).ok_or_else(|| {
        Error::Input(format!(
            "input `{}` has {} bytes, more than this machine has memory to make up",
            t.name,
            t.bytes()
        ))
    })?;
    let real = t.dtype.real();
    let parts = if t.dtype.is_complex() { 2 * t.elements() } else { t.elements() };
    for _ in 0..parts {
        let x = unit();
        let whole = ((x + 1.0) * 4.0) as u64 & 7;
        match real {
            D::F64 => bytes.extend(x.to_le_bytes()),
            D::F32 => bytes.extend((x as f32).to_le_bytes()),
            D::BF16 => bytes.extend(&(x as f32).to_le_bytes()[2..]),
            D::I1 => bytes.push(u8::from(x > 0.0)),
            D::I2 => bytes.push((whole & 1) as u8),
            D::U2 => bytes.push((whole & 3) as u8),
            d if d.is_int() => bytes.extend(&whole.to_le_bytes()[..d.bytes()]),
            d => {
                let code = encode(layout(d), x);
                bytes.extend(&code.to_le_bytes()[..d.bytes()]);
            }
        }
    }
    Ok(HostTensor { dtype: t.dtype, shape: t.shape.clone(), bytes })
}

/// The code of a value of at most 1, rounded towards zero.
fn encode(l: Layout, x: f64) -> u32 {
    let codes = 1u32 << (l.mantissa + l.exponent);
    // Codes of positive numbers are in their order, so halving finds the largest that is not too large.
    let (mut low, mut high) = (0, codes - 1);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if decode(l, middle) <= x.abs() { low = middle } else { high = middle - 1 }
    }
    if l.sign && x < 0.0 && low != 0 { low | codes } else { low }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DType as D;

    #[test]
    fn values_are_shown_as_numbers() {
        let f = |v: &[f32]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(show(D::F32, &f(&[0.5, -1.0, f32::NAN]), 9), "[0.5, -1, NaN]");
        assert_eq!(show(D::F32, &f(&[1.0, 2.0, 3.0]), 2), "[1, 2, ...]");
        assert_eq!(show(D::C64, &f(&[1.0, -2.0]), 2), "[1+-2i]");
        assert_eq!(show(D::I1, &[0, 1], 2), "[false, true]");
        assert_eq!(show(D::I4, &[0xff, 7], 2), "[-1, 7]");
        assert_eq!(show(D::I64, &i64::MIN.to_le_bytes(), 2), "[-9223372036854775808]");
        assert_eq!(show(D::U16, &[0xff, 0xff], 2), "[65535]");
        assert_eq!(show(D::F32, &[], 2), "[]");
        assert_eq!(show(D::F32, &f(&[1e-7, -2.5e20, 1e-4, 0.0, -0.0]), 9), "[1e-7, -2.5e20, 0.0001, 0, -0]");
        assert_eq!(show(D::F64, &1e-300f64.to_le_bytes(), 1), "[1e-300]");
    }

    #[test]
    fn values_in_json_are_numbers() {
        let f = |v: &[f32]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let text = |d, bytes: &[u8]| json(d, bytes, 3).to_string();
        assert_eq!(text(D::F32, &f(&[0.1, 1e-7, f32::NAN, 4.0])), "[0.1,1e-7,\"NaN\"]");
        assert_eq!(text(D::F32, &f(&[f32::NEG_INFINITY, 2.0])), "[\"-inf\",2]");
        assert_eq!(text(D::U64, &u64::MAX.to_le_bytes()), "[18446744073709551615]");
        assert_eq!(text(D::I1, &[1, 0]), "[true,false]");
        assert_eq!(text(D::C64, &f(&[1.0, -2.0])), "[[1,-2]]");
    }

    /// Codes from the OCP 8-bit, the MX and the IEEE 754 definitions.
    #[test]
    fn small_floats_are_decoded() {
        let of = |d, code: u32| decode(layout(d), code);
        assert_eq!((of(D::F16, 0x3c00), of(D::F16, 0x7bff), of(D::F16, 1)), (1.0, 65504.0, 2f64.powi(-24)));
        assert_eq!((of(D::BF16, 0x3f80), of(D::BF16, 0xff80)), (1.0, f64::NEG_INFINITY));
        assert_eq!((of(D::F8E4M3FN, 0x7e), of(D::F8E4M3FN, 0x01)), (448.0, 2f64.powi(-9)));
        assert!(of(D::F8E4M3FN, 0x7f).is_nan() && of(D::F8E5M2FNUZ, 0x80).is_nan() && of(D::F8E8M0FNU, 0xff).is_nan());
        assert_eq!((of(D::F8E5M2, 0x7b), of(D::F8E5M2, 0x7c)), (57344.0, f64::INFINITY));
        assert_eq!((of(D::F8E4M3FNUZ, 0x7f), of(D::F8E5M2FNUZ, 0x7f)), (240.0, 57344.0));
        assert_eq!(of(D::F8E8M0FNU, 127), 1.0);
        assert_eq!((of(D::F4E2M1FN, 7), of(D::F4E2M1FN, 0xf), of(D::F6E3M2FN, 0x1f)), (6.0, -6.0, 28.0));
    }

    #[test]
    fn random_values_are_in_range_and_depend_on_the_seed_alone() {
        for dtype in DType::all() {
            let t = Tensor { name: "x".into(), dtype, shape: vec![3, 7] };
            let [a, b, c] = [1, 1, 2].map(|seed| random(&t, seed).unwrap());
            assert_eq!(a, b);
            assert_ne!(a, c, "{dtype}");
            assert_eq!(a.bytes.len() as u64, t.bytes());
            if dtype.is_float() && dtype.bytes() <= 2 {
                for v in a.bytes.chunks_exact(dtype.bytes()) {
                    let code = v.iter().rev().fold(0u32, |n, b| n << 8 | u32::from(*b));
                    assert!(decode(layout(dtype), code).abs() <= 1.0, "{dtype} {code:x}");
                }
            }
        }
        let t = Tensor { name: "x".into(), dtype: D::F32, shape: vec![2] };
        let one = || show(D::F32, &random(&t, 7).unwrap().bytes, 2);
        assert_eq!(one(), one());
        let huge = Tensor { name: "x".into(), dtype: D::F32, shape: vec![1 << 60] };
        let said = random(&huge, 1).unwrap_err().to_string();
        assert!(said.contains("input `x` has 4611686018427387904 bytes"), "{said}");
    }
}
