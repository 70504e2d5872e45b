//! Quantized tensors: `uniform_quantize`, `uniform_dequantize`, and every other op by dequantizing its operands,
//! computing, and quantizing the results, as the specification's section "Quantization computations" says.

use super::{
    R, Run, Tensor,
    tensor::{Numbers, strides},
    unsupported,
};
use crate::{
    text::full_range,
    tree::{Func, Op, OpKind, Quant, TensorType, Type, ValueId},
};

/// Whether the op reads or writes quantized tensors in a way that needs them as numbers.
pub(super) fn applies(k: &OpKind, _: &[&Tensor], operands: &[ValueId], results: &[&TensorType], f: &Func) -> bool {
    if matches!(k, OpKind::UniformQuantize | OpKind::UniformDequantize) {
        return true;
    }
    // Ops that only move elements, and those that speak of bits, do not look at the scale.
    if matches!(k, OpKind::Constant(_) | OpKind::BitcastConvert) {
        return false;
    }
    results.iter().any(|t| t.quant.is_some()) || operands.iter().any(|v| quant(f, *v).is_some())
}

fn quant(f: &Func, v: ValueId) -> Option<&Quant> {
    match f.ty(v) {
        Type::Tensor(t) => t.quant.as_deref(),
        _ => None,
    }
}

fn channel(q: &Quant, dims: &[usize]) -> impl Fn(usize) -> usize + use<> {
    let (step, n) = match q.axis {
        Some(a) => (strides(dims)[a as usize], dims[a as usize]),
        None => (1, 1),
    };
    let per_axis = q.axis.is_some();
    move |i| if per_axis { i / step % n } else { 0 }
}

fn dequantize(x: &Tensor, q: &Quant) -> Tensor {
    let c = channel(q, &x.dims());
    let Numbers::Int(v) = x.numbers() else { panic!("storage is of integers") };
    let real = v
        .into_iter()
        .enumerate()
        .map(|(i, v)| (v - i128::from(q.zero_points[c(i)])) as f64 * f64::from_bits(q.scales[c(i)]))
        .collect();
    Tensor::from_numbers(q.expressed, &x.shape, &Numbers::Float(real))
}

fn quantize(x: &Tensor, ty: &TensorType, q: &Quant) -> Tensor {
    let c = channel(q, &x.dims());
    let (low, high) = q.range.unwrap_or_else(|| full_range(ty.dtype));
    let stored = x
        .floats()
        .into_iter()
        .enumerate()
        .map(|(i, v)| {
            let scaled = (v / f64::from_bits(q.scales[c(i)])).round_ties_even() + q.zero_points[c(i)] as f64;
            (scaled as i128).clamp(i128::from(low), i128::from(high))
        })
        .collect();
    Tensor::from_numbers(ty.dtype, &x.shape, &Numbers::Int(stored))
}

pub(super) fn op(k: &OpKind, x: &[&Tensor], operands: &[ValueId], results: &[&TensorType], f: &Func) -> R<Vec<Tensor>> {
    let real: Vec<Tensor> =
        x.iter().zip(operands).map(|(t, v)| quant(f, *v).map_or_else(|| (*t).clone(), |q| dequantize(t, q))).collect();
    let computed = match k {
        OpKind::UniformQuantize | OpKind::UniformDequantize => real,
        _ => {
            // The same op on expressed types, in a function of its own.
            let plain = |t: &TensorType| match &t.quant {
                Some(q) => TensorType { dtype: q.expressed, quant: None, ..t.clone() },
                None => t.clone(),
            };
            let types = real.iter().map(Tensor::ty).chain(results.iter().map(|t| plain(t)));
            let g = super::scratch(types.map(Type::Tensor));
            let ids = |from: usize, n: usize| (from..from + n).map(|i| ValueId(i as u32)).collect::<Vec<_>>();
            let op = Op::new(k.clone(), ids(0, real.len()), ids(real.len(), results.len()));
            if super::reduce::has_region(k) {
                return unsupported("a region over quantized tensors");
            }
            let empty = crate::tree::Program::default();
            let mut run = Run { program: &empty, func: &g, values: vec![None; g.values.len()] };
            for (v, t) in op.operands.iter().zip(real) {
                run.set(*v, t);
            }
            run.op(&op)?;
            op.results.iter().map(|r| run.tensor(*r).cloned()).collect::<R<Vec<_>>>()?
        }
    };
    Ok(computed
        .into_iter()
        .zip(results)
        .map(|(t, ty)| match ty.quant.as_deref() {
            Some(q) => quantize(&t, ty, q),
            None if t.dtype == ty.dtype => t,
            None => super::convert::convert(&t, ty.dtype),
        })
        .collect())
}
