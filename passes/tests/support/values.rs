//! Arguments from a seed, with the values in them that go wrong most often, and comparing results.

use zml_format::DType;
use zmlc_import::{interp::Tensor, tree::TensorType};

struct Seed(u64);
impl Seed {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}
/// Floats in [-4, 4] in steps of 1/8 and, if `special`, infinities, NaN, signed zeros and large numbers among them. Integers
/// small and at the ends of their range.
pub fn tensor(t: &TensorType, seed: u64, special: bool) -> Tensor {
    let mut r = Seed(seed * 7919 + 17);
    let shape = t.shape().unwrap();
    let n: u64 = shape.iter().product();
    let n = if t.dtype.is_complex() { 2 * n } else { n };
    let mut bytes = vec![];
    let d = t.dtype.real();
    for i in 0..n {
        let x = (r.next() % 65) as f64 / 8.0 - 4.0;
        let x = match (special, i % 12) {
            (true, 1) => f64::INFINITY,
            (true, 3) => -0.0,
            (true, 5) => f64::NAN,
            (true, 7) => 3.0e9,
            (true, 9) => -1.0e20,
            (true, 11) => f64::NEG_INFINITY,
            _ => x,
        };
        let k = match r.next() % 6 {
            0 => i64::MIN >> (64 - d.bits()),
            1 => i64::MAX >> (64 - d.bits()),
            2 => -1,
            3 => 0,
            _ => (r.next() % 41) as i64 - 20,
        };
        match d {
            DType::I1 => bytes.push((r.next() % 2) as u8),
            DType::F32 => bytes.extend((x as f32).to_le_bytes()),
            DType::F64 => bytes.extend(x.to_le_bytes()),
            DType::BF16 => bytes.extend((((x as f32).to_bits() >> 16) as u16).to_le_bytes()),
            DType::F16 => bytes.extend(f16(x).to_le_bytes()),
            d if d.bits() < 8 && d.is_signed_int() => {
                let up = 8 - d.bits();
                bytes.push((((k as i8) << up) >> up) as u8);
            }
            d if d.bits() < 8 => bytes.push(k as u8 & ((1 << d.bits()) - 1)),
            d if d.is_float() => bytes.push(r.next() as u8),
            d => bytes.extend(&k.to_le_bytes()[..d.bytes()]),
        }
    }
    Tensor::new(t.dtype, &shape, bytes).unwrap()
}
/// Exact for the small multiples of 1/8 that `tensor` makes, and for what is not finite.
fn f16(x: f64) -> u16 {
    let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
    let a = x.abs();
    let magnitude = match a {
        _ if x.is_nan() => 0x7e00,
        _ if a == 0.0 => 0,
        _ if a > 65504.0 => 0x7c00,
        _ => {
            let e = a.log2().floor() as i32;
            (((e + 15) << 10) + ((a / 2f64.powi(e) - 1.0) * 1024.0) as i32) as u16
        }
    };
    sign | magnitude
}
/// The elements as f64, complex parts one after another.
pub fn floats(t: &Tensor) -> Vec<f64> {
    let d = t.dtype.real();
    let each = |b: &[u8]| match d {
        DType::F64 => f64::from_le_bytes(b.try_into().unwrap()),
        DType::F32 => f32::from_le_bytes(b.try_into().unwrap()).into(),
        DType::BF16 => f32::from_bits(u32::from(u16::from_le_bytes(b.try_into().unwrap())) << 16).into(),
        _ => half(u16::from_le_bytes(b.try_into().unwrap())),
    };
    t.bytes.chunks(d.bytes()).map(each).collect()
}
fn half(x: u16) -> f64 {
    let (e, m) = (i32::from(x >> 10 & 31), f64::from(x & 1023));
    let a = match e {
        0 => m * 2f64.powi(-24),
        31 if m == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + m / 1024.0) * 2f64.powi(e - 15),
    };
    if x >> 15 == 1 { -a } else { a }
}
/// Integers, predicates and floats below 16 bits are equal, other floats within `tolerance` relative to the larger of 1 and the
/// expected value; NaN is equal to NaN.
pub fn difference(got: &Tensor, want: &Tensor, tolerance: f64) -> Option<String> {
    if (got.dtype, &got.shape) != (want.dtype, &want.shape) {
        return Some(format!("{} {:?} instead of {} {:?}", got.dtype, got.shape, want.dtype, want.shape));
    }
    if got.dtype.real().is_float() && got.dtype.real().bits() >= 16 {
        let step = match got.dtype.real() {
            DType::BF16 => 1.0 / 128.0,
            DType::F16 => 1.0 / 1024.0,
            _ => tolerance,
        };
        let close = |g: f64, w: f64| {
            g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= step * w.abs().max(1.0) && w.is_finite()
        };
        let (g, w) = (floats(got), floats(want));
        return (0..g.len()).find(|i| !close(g[*i], w[*i])).map(|i| format!("at {i}: {} instead of {}", g[i], w[i]));
    }
    let size = want.dtype.bytes();
    let at = (0..want.elements()).find(|i| got.bytes[i * size..][..size] != want.bytes[i * size..][..size])?;
    Some(format!("at {at}: {:?} instead of {:?}", &got.bytes[at * size..][..size], &want.bytes[at * size..][..size]))
}
