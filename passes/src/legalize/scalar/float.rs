//! Float element operations, in f32 or f64: what has a math op uses it, `expand-math` gives it its accuracy.

use super::{super::error::Refusal, no_op, widen};
use crate::ir::{B, V, ValueLike, bits};
use zmlc_import::tree::{BinaryOp, DType, UnaryOp};

/// In the type of `x`, f32 or f64.
pub(super) fn unary<'c>(b: &B<'c>, op: UnaryOp, x: V<'c>) -> Result<V<'c>, Refusal> {
    let t = x.r#type();
    let name = match op {
        UnaryOp::Abs => "math.absf",
        UnaryOp::Cbrt => "math.cbrt",
        UnaryOp::Ceil => "math.ceil",
        UnaryOp::Cosine => "math.cos",
        UnaryOp::Exponential => "math.exp",
        UnaryOp::ExponentialMinusOne => "math.expm1",
        UnaryOp::Floor => "math.floor",
        UnaryOp::Log => "math.log",
        UnaryOp::LogPlusOne => "math.log1p",
        UnaryOp::Negate => "arith.negf",
        UnaryOp::RoundNearestAfz => "math.round",
        // Vulkan drivers lose the sign of a zero that comes of an f64.
        UnaryOp::RoundNearestEven if bits(t) == 64 => {
            return Ok(b.same("math.copysign", &[b.same("math.roundeven", &[x]), x]));
        }
        UnaryOp::RoundNearestEven => "math.roundeven",
        UnaryOp::Rsqrt => "math.rsqrt",
        UnaryOp::Sine => "math.sin",
        UnaryOp::Sqrt => "math.sqrt",
        UnaryOp::Tan => "math.tan",
        UnaryOp::Tanh => "math.tanh",
        UnaryOp::Logistic => {
            let one = b.cfloat(t, 1.0);
            let e = b.same("math.exp", &[b.same("arith.negf", &[x])]);
            return Ok(b.same("arith.divf", &[one, b.addf(e, one)]));
        }
        UnaryOp::Sign => {
            let nonzero = b.cmpf("one", x, b.cfloat(t, 0.0));
            // Zeros keep their sign, NaN stays.
            return Ok(b.select(nonzero, b.same("math.copysign", &[b.cfloat(t, 1.0), x]), x));
        }
        op => return Err(no_op(&format!("{op:?}"), if bits(t) == 64 { DType::F64 } else { DType::F32 })),
    };
    Ok(b.same(name, &[x]))
}
pub(super) fn binary<'c>(b: &B<'c>, op: BinaryOp, x: V<'c>, y: V<'c>) -> Result<V<'c>, Refusal> {
    let name = match op {
        BinaryOp::Add => "arith.addf",
        BinaryOp::Atan2 => "math.atan2",
        BinaryOp::Divide => "arith.divf",
        BinaryOp::Maximum => "arith.maximumf",
        BinaryOp::Minimum => "arith.minimumf",
        BinaryOp::Multiply => "arith.mulf",
        BinaryOp::Power => "math.powf",
        BinaryOp::Remainder => "arith.remf",
        BinaryOp::Subtract => "arith.subf",
        op => return Err(no_op(&format!("{op:?}"), if bits(x.r#type()) == 64 { DType::F64 } else { DType::F32 })),
    };
    Ok(b.same(name, &[x, y]))
}
/// |x| < inf, which NaN is not.
pub(super) fn is_finite<'c>(b: &B<'c>, x: V<'c>) -> V<'c> {
    b.cmpf("olt", b.same("math.absf", &[x]), b.cfloat(x.r#type(), f64::INFINITY))
}
/// An integer whose signed order is IEEE 754's total order: -NaN < -inf < ... < -0 < 0 < ... < inf < NaN.
pub(super) fn total_order_key<'c>(b: &B<'c>, d: DType, x: V<'c>) -> V<'c> {
    // A NaN of bf16 or f16 is one of f32, so the wide type orders as the narrow one does.
    let x = widen(b, d, x);
    let n = bits(x.r#type());
    let t = b.i(n);
    let raw = b.op1("arith.bitcast", &[x], t, &[]);
    let sign = b.same("arith.shrsi", &[raw, b.cint(t, i64::from(n) - 1)]);
    let flip = b.same("arith.shrui", &[sign, b.cint(t, 1)]);
    b.same("arith.xori", &[raw, flip])
}
