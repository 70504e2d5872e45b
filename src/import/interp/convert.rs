//! Conversions: by value, by bits, and the rounding of reduce_precision.

use super::{R, Tensor, tensor::Numbers, unsupported};
use crate::{
    float::power_of_two,
    literal::put_int,
    tree::{DType, TensorType},
};

pub(super) fn convert(x: &Tensor, to: DType) -> Tensor {
    let numbers = if to.is_complex() {
        Numbers::Complex(match x.numbers() {
            Numbers::Complex(v) => v,
            Numbers::Float(v) => v.into_iter().map(|x| (x, 0.0)).collect(),
            Numbers::Int(v) => v.into_iter().map(|x| (x as f64, 0.0)).collect(),
        })
    } else if to.is_float() {
        Numbers::Float(match x.numbers() {
            Numbers::Complex(v) => v.into_iter().map(|x| x.0).collect(),
            Numbers::Float(v) => v,
            Numbers::Int(v) => v.into_iter().map(|x| int_to_float(x, to)).collect(),
        })
    } else {
        let from_float = |x: f64| {
            if to == DType::I1 {
                return i128::from(x != 0.0);
            }
            // Out of range is implementation-defined; XLA saturates and takes NaN for zero.
            let (low, high) = if to.is_signed_int() {
                (-(1i128 << (to.bits() - 1)), (1i128 << (to.bits() - 1)) - 1)
            } else {
                (0, (1i128 << to.bits()) - 1)
            };
            (x as i128).clamp(low, high)
        };
        Numbers::Int(match x.numbers() {
            Numbers::Complex(v) => v.into_iter().map(|x| from_float(x.0)).collect(),
            Numbers::Float(v) => v.into_iter().map(from_float).collect(),
            Numbers::Int(v) if to == DType::I1 => v.into_iter().map(|x| i128::from(x != 0)).collect(),
            Numbers::Int(v) => v,
        })
    };
    Tensor::from_numbers(to, &x.shape, &numbers)
}

/// An integer as the f64 from which rounding to `to` gives what one rounding would.
fn int_to_float(x: i128, to: DType) -> f64 {
    if to == DType::F64 {
        return x as f64;
    }
    // Round to odd at 53 bits: the sticky bit decides later ties.
    let m = x.unsigned_abs();
    let drop = (128 - m.leading_zeros()).saturating_sub(53);
    let kept = m >> drop;
    let sticky = u128::from(kept << drop != m);
    let v = (kept | sticky) as f64 * 2f64.powi(drop as i32);
    if x < 0 { -v } else { v }
}

/// The bits of the operand's elements, low first, read as the result's.
pub(super) fn bitcast(x: &Tensor, to: &TensorType) -> R<Tensor> {
    let Some(shape) = result_shape(x, to) else { return unsupported("bitcast_convert between these types") };
    let (from_bits, to_bits) = (x.dtype.bits(), to.dtype.bits());
    if from_bits % 8 == 0 && to_bits % 8 == 0 {
        return Ok(Tensor { dtype: to.dtype, shape, bytes: x.bytes.clone() });
    }
    let Numbers::Int(v) = x.numbers() else { return unsupported("bitcast_convert of sub-byte floats") };
    let mut bits = vec![];
    for e in v {
        bits.extend((0..from_bits).map(|i| e >> i & 1));
    }
    let mut bytes = vec![];
    for group in bits.chunks_exact(to_bits as usize) {
        let value = group.iter().rev().fold(0i128, |x, b| x << 1 | b);
        if to.dtype.is_float() {
            bytes.extend_from_slice(&value.to_le_bytes()[..to.dtype.bytes()]);
        } else {
            put_int(to.dtype, value, &mut bytes);
        }
    }
    Ok(Tensor { dtype: to.dtype, shape, bytes })
}

/// The result's shape with dynamic dimensions resolved from the operand's.
fn result_shape(x: &Tensor, to: &TensorType) -> Option<Vec<u64>> {
    let (from_bits, to_bits) = (u64::from(x.dtype.bits()), u64::from(to.dtype.bits()));
    let mut shape = x.shape.clone();
    if from_bits > to_bits {
        shape.push(from_bits / to_bits);
    } else if from_bits < to_bits && shape.pop()? != to_bits / from_bits {
        return None;
    }
    Some(shape)
}

pub(super) fn reduce_precision(x: &Tensor, exponent: i32, mantissa: i32) -> Tensor {
    let bias = (1 << (exponent - 1).clamp(0, 30)) - 1;
    let round = |x: f64| {
        if x.is_nan() && mantissa == 0 {
            // Without a mantissa there is no NaN.
            return f64::INFINITY.copysign(x);
        }
        if x.is_nan() || x.is_infinite() || x == 0.0 {
            return x;
        }
        let e = ((x.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(-1022);
        // Rounding may carry into the next power of two, which the scaled division takes care of.
        let quantum = power_of_two((e - mantissa).max(-1074));
        let r = (x / quantum).round_ties_even() * quantum;
        if r.abs() >= power_of_two(bias + 1) {
            return f64::INFINITY.copysign(x);
        }
        // Results below the smallest normal are flushed, as XLA does.
        if r.abs() < power_of_two(1 - bias) { 0f64.copysign(x) } else { r }
    };
    let v = x.floats().into_iter().map(round).collect();
    Tensor::from_numbers(x.dtype, &x.shape, &Numbers::Float(v))
}
