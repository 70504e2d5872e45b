//! Whether an output equals the expected one: |a - b| <= atol + rtol * |b| for floats (NaN equals NaN, infinities are
//! exact), by modulus for complex numbers, and bit for bit for integers and predicates.

use zml_format::DType;

/// How floats and complex numbers are compared; everything else is exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    Tolerance {
        rtol: f64,
        atol: f64,
    },
    /// Part by part: within the tolerance, absolute or relative.
    AlmostEq(f64),
    /// Part by part: this many steps of the type apart.
    Ulp {
        least: u64,
        most: u64,
    },
}

/// What differs, in a line.
pub fn compare(dtype: DType, found: &[u8], expected: &[u8], rule: Rule) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!("{} bytes, expected {}", found.len(), expected.len()));
    }
    let parts = if dtype.is_complex() { 2 } else { 1 };
    let size = dtype.bytes();
    let mut wrong = 0usize;
    let mut first = None;
    let mut largest = 0f64;
    for (i, (a, b)) in found.chunks_exact(size).zip(expected.chunks_exact(size)).enumerate() {
        let (equal, shown) = if dtype.is_float() || dtype.is_complex() {
            let [x, y] =
                [a, b].map(|v| v.chunks_exact(size / parts).map(|p| float(dtype.real(), p)).collect::<Vec<_>>());
            let difference = distance(&x, &y);
            if difference.is_finite() {
                largest = largest.max(difference);
            }
            (close(dtype.real(), &x, &y, rule), format!("{x:?}, expected {y:?}"))
        } else {
            (a == b, format!("{}, expected {}", integer(dtype, a), integer(dtype, b)))
        };
        if !equal {
            wrong += 1;
            first.get_or_insert_with(|| format!("[{i}] is {shown}"));
        }
    }
    match first {
        None => Ok(()),
        Some(first) => {
            let of = found.len() / size;
            let most = if largest > 0.0 { format!(", largest difference {largest:.3e}") } else { String::new() };
            Err(format!("{wrong} of {of} differ: {first}{most}"))
        }
    }
}

fn distance(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

fn close(dtype: DType, x: &[f64], y: &[f64], rule: Rule) -> bool {
    let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
    let parts = |equal: &dyn Fn(f64, f64) -> bool| x.iter().zip(y).all(|(a, b)| equal(*a, *b));
    match rule {
        Rule::AlmostEq(t) => parts(&|a, b| same(a, b) || (a - b).abs() <= t || (a - b).abs() <= t * b.abs()),
        Rule::Ulp { least, most } => parts(&|a, b| {
            let apart = if same(a, b) { 0 } else { steps(dtype, a, b) };
            (least..=most).contains(&apart)
        }),
        Rule::Tolerance { rtol, atol } => {
            let nan = |v: &[f64]| v.iter().any(|p| p.is_nan());
            if nan(x) || nan(y) {
                return nan(x) && nan(y);
            }
            let (difference, modulus) = (distance(x, y), distance(y, &[0.0; 2][..y.len()]));
            x == y || difference.is_finite() && modulus.is_finite() && difference <= atol + rtol * modulus
        }
    }
}

/// Values of the type from one float to another; as many as there can be if one of them is not finite.
fn steps(dtype: DType, a: f64, b: f64) -> u64 {
    if !a.is_finite() || !b.is_finite() {
        return u64::MAX;
    }
    // IEEE encodings are in the order of the magnitudes.
    let magnitude = |x: f64| match dtype {
        DType::F64 => x.abs().to_bits(),
        DType::F32 => u64::from((x as f32).abs().to_bits()),
        DType::F16 => u64::from(half::f16::from_f64(x.abs()).to_bits()),
        DType::BF16 => u64::from(half::bf16::from_f64(x.abs()).to_bits()),
        small_type => (0..=255u8).filter(|b| (0.0..x.abs()).contains(&small(small_type, *b))).count() as u64,
    };
    let (p, q) = (magnitude(a), magnitude(b));
    if a.is_sign_negative() == b.is_sign_negative() { p.abs_diff(q) } else { p + q }
}

/// An integer or predicate as people write it.
fn integer(dtype: DType, bytes: &[u8]) -> String {
    let mut wide = [if dtype.is_signed_int() && bytes.last().is_some_and(|b| *b >= 0x80) { 0xff } else { 0 }; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(wide).to_string()
}

/// The value of one float of a real element type.
pub fn float(dtype: DType, bytes: &[u8]) -> f64 {
    let b = |i: usize| bytes.get(i).copied().unwrap_or_default();
    match dtype {
        DType::F64 => bytes.try_into().map_or(f64::NAN, f64::from_le_bytes),
        DType::F32 => f64::from(f32::from_le_bytes([b(0), b(1), b(2), b(3)])),
        DType::F16 => half::f16::from_le_bytes([b(0), b(1)]).to_f64(),
        DType::BF16 => half::bf16::from_le_bytes([b(0), b(1)]).to_f64(),
        _ => small(dtype, b(0)),
    }
}

/// How a type of at most a byte encodes what is not a number.
enum Special {
    /// The highest exponent holds infinity and NaN, as in IEEE 754.
    Ieee,
    /// All ones is NaN; no infinity.
    AllOnesNan,
    /// The encoding of minus zero is NaN; no infinity, no minus zero.
    MinusZeroNan,
    /// Every encoding is a number.
    None,
}

fn small(dtype: DType, byte: u8) -> f64 {
    use DType as D;
    use Special as S;
    // Exponent bits, mantissa bits, bias: StableHLO's types are LLVM's APFloat semantics of the same names.
    let (exponent, mantissa, bias, special) = match dtype {
        D::F4E2M1FN => (2, 1, 1, S::None),
        D::F6E2M3FN => (2, 3, 1, S::None),
        D::F6E3M2FN => (3, 2, 3, S::None),
        D::F8E3M4 => (3, 4, 3, S::Ieee),
        D::F8E4M3 => (4, 3, 7, S::Ieee),
        D::F8E4M3B11FNUZ => (4, 3, 11, S::MinusZeroNan),
        D::F8E4M3FN => (4, 3, 7, S::AllOnesNan),
        D::F8E4M3FNUZ => (4, 3, 8, S::MinusZeroNan),
        D::F8E5M2 => (5, 2, 15, S::Ieee),
        D::F8E5M2FNUZ => (5, 2, 16, S::MinusZeroNan),
        // Powers of two without sign; 0xff is NaN.
        D::F8E8M0FNU => return if byte == 0xff { f64::NAN } else { (f64::from(byte) - 127.0).exp2() },
        _ => return f64::NAN,
    };
    let bits = u32::from(byte);
    let m = bits & ((1 << mantissa) - 1);
    let e = (bits >> mantissa) & ((1 << exponent) - 1);
    let sign = (bits >> (mantissa + exponent)) & 1;
    let top = (1 << exponent) - 1;
    let negative = if sign == 1 { -1.0 } else { 1.0 };
    match special {
        S::Ieee if e == top => return if m == 0 { negative * f64::INFINITY } else { f64::NAN },
        S::AllOnesNan if e == top && m == (1 << mantissa) - 1 => return f64::NAN,
        S::MinusZeroNan if sign == 1 && e == 0 && m == 0 => return f64::NAN,
        _ => {}
    }
    let fraction = f64::from(m) / f64::from(1u32 << mantissa);
    let magnitude = if e == 0 {
        fraction * f64::from(1 - bias).exp2()
    } else {
        (1.0 + fraction) * f64::from(e as i32 - bias).exp2()
    };
    negative * magnitude
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: Rule = Rule::Tolerance { rtol: 0.0, atol: 0.0 };
    const LOOSE: Rule = Rule::Tolerance { rtol: 1.0, atol: 1e9 };

    #[test]
    fn steps_of_a_type() {
        assert_eq!(steps(DType::F32, 1.0, f64::from(f32::EPSILON) + 1.0), 1);
        // The least positive and negative numbers are two apart.
        let least = f64::from(f32::from_bits(1));
        assert_eq!(steps(DType::F32, least, -least), 2);
        assert_eq!(steps(DType::F64, 1.0, 1.0 + 3.0 * f64::EPSILON), 3);
        assert_eq!(steps(DType::F8E4M3FN, 1.0, 1.25), 2);
        assert_eq!(steps(DType::F16, f64::INFINITY, 1.0), u64::MAX);
        let ulp = |least, most| {
            let rule = Rule::Ulp { least, most };
            compare(DType::F32, &f32s(&[1.0]), &f32s(&[1.0 + 2.0 * f32::EPSILON]), rule).is_ok()
        };
        assert!(ulp(0, 2) && ulp(2, 9) && !ulp(0, 1) && !ulp(3, 9));
        let almost = |b| compare(DType::F32, &f32s(&[1000.0]), &f32s(&[b]), Rule::AlmostEq(1e-3)).is_ok();
        assert!(almost(1000.9) && !almost(1001.1));
    }

    fn f32s(v: &[f32]) -> Vec<u8> {
        v.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    #[test]
    fn floats() {
        let same = |a: &[f32], b: &[f32]| {
            compare(DType::F32, &f32s(a), &f32s(b), Rule::Tolerance { rtol: 0.01, atol: 0.001 }).is_ok()
        };
        assert!(same(&[f32::NAN, f32::INFINITY, -0.0], &[f32::NAN, f32::INFINITY, 0.0]));
        assert!(same(&[100.9], &[100.0]) && !same(&[101.1], &[100.0]));
        assert!(same(&[0.0009], &[0.0]) && !same(&[0.0011], &[0.0]));
        assert!(!same(&[f32::NAN], &[1.0]) && !same(&[1.0], &[f32::NAN]));
        assert!(!same(&[f32::INFINITY], &[f32::NEG_INFINITY]) && !same(&[f32::MAX], &[f32::INFINITY]));
        assert!(!same(&[1.0], &[1.0, 2.0]));
        let e = compare(DType::F32, &f32s(&[1.0, 3.0]), &f32s(&[1.0, 2.0]), EXACT).unwrap_err();
        assert_eq!(e, "1 of 2 differ: [1] is [3.0], expected [2.0], largest difference 1.000e0");
    }

    #[test]
    fn complex_by_modulus() {
        let same = |a: &[f32], b: &[f32]| {
            compare(DType::C64, &f32s(a), &f32s(b), Rule::Tolerance { rtol: 0.1, atol: 0.0 }).is_ok()
        };
        // |(3, 4)| = 5: a difference of 0.5 is the limit, in whichever part.
        assert!(same(&[3.49, 4.0], &[3.0, 4.0]) && !same(&[3.51, 4.0], &[3.0, 4.0]));
        assert!(same(&[f32::NAN, 1.0], &[2.0, f32::NAN]));
    }

    #[test]
    fn integers_are_exact() {
        let e = compare(DType::I16, &[0xff, 0xff], &[1, 0], LOOSE).unwrap_err();
        assert_eq!(e, "1 of 1 differ: [0] is -1, expected 1");
        let e = compare(DType::U64, &[0xff; 8], &[0; 8], LOOSE).unwrap_err();
        assert_eq!(e, "1 of 1 differ: [0] is 18446744073709551615, expected 0");
        assert!(compare(DType::I1, &[1, 0], &[1, 0], EXACT).is_ok());
        assert!(compare(DType::I1, &[255], &[1], LOOSE).is_err());
    }

    /// The OCP 8-bit and microscaling specifications' tables of largest, least and special values, and Graphcore's FNUZ.
    #[test]
    fn small_floats() {
        let f = |d: DType, b: u8| small(d, b);
        assert_eq!(f(DType::F8E4M3FN, 0x7e), 448.0);
        assert!(f(DType::F8E4M3FN, 0x7f).is_nan());
        assert_eq!(f(DType::F8E4M3FN, 0x01), 2f64.powi(-9));
        assert_eq!(f(DType::F8E5M2, 0x7b), 57344.0);
        assert_eq!(f(DType::F8E5M2, 0xfc), f64::NEG_INFINITY);
        assert!(f(DType::F8E5M2, 0x7d).is_nan());
        assert_eq!(f(DType::F8E4M3FNUZ, 0x7f), 240.0);
        assert!(f(DType::F8E4M3FNUZ, 0x80).is_nan());
        assert_eq!(f(DType::F8E4M3B11FNUZ, 0x7f), 30.0);
        assert_eq!(f(DType::F8E5M2FNUZ, 0x7f), 57344.0);
        assert_eq!(f(DType::F8E4M3, 0x77), 240.0);
        assert_eq!(f(DType::F8E4M3, 0x78), f64::INFINITY);
        assert_eq!(f(DType::F8E3M4, 0x6f), 15.5);
        assert_eq!(f(DType::F4E2M1FN, 0x7), 6.0);
        assert_eq!(f(DType::F4E2M1FN, 0x9), -0.5);
        assert_eq!(f(DType::F6E2M3FN, 0x1f), 7.5);
        assert_eq!(f(DType::F6E3M2FN, 0x1f), 28.0);
        assert_eq!(f(DType::F8E8M0FNU, 0), 2f64.powi(-127));
        assert!(f(DType::F8E8M0FNU, 0xff).is_nan());
    }
}
