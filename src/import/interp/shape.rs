//! Ops that move elements without looking at them.

use super::{
    EvalError, R, Tensor,
    tensor::{Numbers, dot_index, each_index, strides},
    unsupported,
};
use crate::{
    literal::put_int,
    tree::{DType, OpKind, TensorType},
};

/// The result's shape, where its type says it.
fn static_shape(t: &TensorType) -> R<Vec<u64>> {
    t.shape().ok_or_else(|| EvalError::Unsupported(format!("a result of dynamic type {}", crate::print::tensor(t))))
}

/// `None` if the op is not one of these.
pub(super) fn op(k: &OpKind, x: &[&Tensor], ty: Option<&TensorType>) -> R<Option<Tensor>> {
    let Some(ty) = ty else { return Ok(None) };
    let sizes = |t: &Tensor| -> Vec<u64> { t.ints().into_iter().map(|v| v.max(0) as u64).collect() };
    Ok(Some(match k {
        OpKind::BroadcastInDim { dims } => broadcast(x[0], dims, &static_shape(ty)?),
        OpKind::DynamicBroadcastInDim { dims } => broadcast(x[0], dims, &sizes(x[1])),
        OpKind::Reshape => reshape(x[0], static_shape(ty)?)?,
        OpKind::DynamicReshape => reshape(x[0], sizes(x[1]))?,
        OpKind::DynamicIota { dim } => iota(&TensorType::new(ty.dtype, &sizes(x[0])), *dim as usize)?,
        OpKind::Transpose { permutation } => transpose(x[0], permutation),
        OpKind::Slice { start, limit, strides } => slice(x[0], start, limit, strides)?,
        OpKind::RealDynamicSlice => slice(x[0], &x[1].ints(), &x[2].ints(), &x[3].ints())?,
        OpKind::Concatenate { dim } => concatenate(x, *dim as usize),
        OpKind::Pad { low, high, interior } => pad(x[0], x[1], low, high, interior)?,
        OpKind::DynamicPad => pad(x[0], x[1], &x[2].ints(), &x[3].ints(), &x[4].ints())?,
        OpKind::Reverse { dims } => reverse(x[0], dims),
        OpKind::DynamicSlice { sizes } => {
            let start = starts(&x[1..], &x[0].shape, sizes);
            let limit: Vec<i64> = start.iter().zip(sizes).map(|(a, n)| a + n).collect();
            slice(x[0], &start, &limit, &vec![1; start.len()])?
        }
        OpKind::DynamicUpdateSlice => {
            let sizes: Vec<i64> = x[1].shape.iter().map(|d| *d as i64).collect();
            let start = starts(&x[2..], &x[0].shape, &sizes);
            update(x[0], x[1], &start)
        }
        OpKind::GetDimensionSize { dim } => Tensor::scalar(DType::I32, x[0].shape[*dim as usize] as f64),
        OpKind::SetDimensionSize { dim } => {
            let n = x[1].ints()[0];
            let mut limit: Vec<i64> = x[0].shape.iter().map(|d| *d as i64).collect();
            limit[*dim as usize] = n.clamp(0, limit[*dim as usize]);
            slice(x[0], &vec![0; limit.len()], &limit, &vec![1; limit.len()])?
        }
        _ => return Ok(None),
    }))
}

/// Collects the elements at the given places.
fn pick(x: &Tensor, shape: Vec<u64>, places: impl Iterator<Item = usize>) -> Tensor {
    let n = x.dtype.bytes();
    let mut bytes = Vec::with_capacity(shape.iter().product::<u64>() as usize * n);
    places.for_each(|p| bytes.extend_from_slice(&x.bytes[p * n..(p + 1) * n]));
    Tensor { dtype: x.dtype, shape, bytes }
}
fn pick_by(x: &Tensor, shape: Vec<u64>, place: impl Fn(&[usize]) -> usize) -> Tensor {
    let dims: Vec<usize> = shape.iter().map(|d| *d as usize).collect();
    let mut places = Vec::with_capacity(dims.iter().product());
    each_index(&dims, |i| places.push(place(i)));
    pick(x, shape, places.into_iter())
}

pub(super) fn iota(ty: &TensorType, dim: usize) -> R<Tensor> {
    let shape = static_shape(ty)?;
    let dims: Vec<usize> = shape.iter().map(|d| *d as usize).collect();
    let mut v = vec![];
    each_index(&dims, |i| v.push(i[dim]));
    let numbers = if ty.dtype.is_complex() {
        Numbers::Complex(v.into_iter().map(|x| (x as f64, 0.0)).collect())
    } else if ty.dtype.is_float() {
        Numbers::Float(v.into_iter().map(|x| x as f64).collect())
    } else {
        Numbers::Int(v.into_iter().map(|x| x as i128).collect())
    };
    Ok(Tensor::from_numbers(ty.dtype, &shape, &numbers))
}

pub(super) fn broadcast(x: &Tensor, dims: &[u64], shape: &[u64]) -> Tensor {
    let steps = strides(&x.dims());
    let sizes = x.dims();
    pick_by(x, shape.to_vec(), |i| {
        dims.iter().enumerate().map(|(k, d)| if sizes[k] == 1 { 0 } else { i[*d as usize] * steps[k] }).sum()
    })
}

fn reshape(x: &Tensor, shape: Vec<u64>) -> R<Tensor> {
    if shape.iter().product::<u64>() != x.shape.iter().product::<u64>() {
        return Err(EvalError::Program(format!("reshape of {:?} to {shape:?}: another number of elements", x.shape)));
    }
    Ok(Tensor { dtype: x.dtype, shape, bytes: x.bytes.clone() })
}

pub(super) fn transpose(x: &Tensor, permutation: &[u64]) -> Tensor {
    let steps = strides(&x.dims());
    let shape = permutation.iter().map(|p| x.shape[*p as usize]).collect();
    pick_by(x, shape, |i| permutation.iter().zip(i).map(|(p, i)| steps[*p as usize] * i).sum())
}

pub(super) fn slice(x: &Tensor, start: &[i64], limit: &[i64], step: &[i64]) -> R<Tensor> {
    let mut shape = vec![];
    for (((a, b), s), d) in start.iter().zip(limit).zip(step).zip(&x.shape) {
        if *a < 0 || a > b || *b > *d as i64 || *s < 1 {
            return Err(EvalError::Program(format!("slice {start:?} to {limit:?} by {step:?} of shape {:?}", x.shape)));
        }
        shape.push(((b - a) as u64).div_ceil(*s as u64));
    }
    let steps = strides(&x.dims());
    Ok(pick_by(x, shape, |i| {
        i.iter().enumerate().map(|(k, i)| (start[k] as usize + i * step[k] as usize) * steps[k]).sum()
    }))
}

fn concatenate(x: &[&Tensor], dim: usize) -> Tensor {
    let mut shape = x[0].shape.clone();
    shape[dim] = x.iter().map(|t| t.shape[dim]).sum();
    let outer: usize = shape[..dim].iter().product::<u64>() as usize;
    let mut bytes = vec![];
    for o in 0..outer {
        for t in x {
            let run = t.bytes.len() / outer;
            bytes.extend_from_slice(&t.bytes[o * run..(o + 1) * run]);
        }
    }
    Tensor { dtype: x[0].dtype, shape, bytes }
}

fn pad(x: &Tensor, value: &Tensor, low: &[i64], high: &[i64], interior: &[i64]) -> R<Tensor> {
    let mut shape = vec![];
    for (k, d) in x.shape.iter().enumerate() {
        let n = *d as i64;
        let size = low[k] + n + (n - 1).max(0) * interior[k] + high[k];
        if size < 0 {
            return Err(EvalError::Program(format!("pad to a negative size in dimension {k}")));
        }
        shape.push(size as u64);
    }
    let n = shape.iter().product::<u64>() as usize;
    let width = x.dtype.bytes();
    let mut out = Tensor { dtype: x.dtype, shape, bytes: value.bytes.repeat(n) };
    let sizes = out.dims();
    let steps = strides(&sizes);
    let mut from = 0;
    each_index(&x.dims(), |i| {
        let mut place = 0;
        let mut inside = true;
        for (k, i) in i.iter().enumerate() {
            let p = low[k] + *i as i64 * (interior[k] + 1);
            inside &= p >= 0 && (p as usize) < sizes[k];
            place += p.max(0) as usize * steps[k];
        }
        if inside {
            out.bytes[place * width..(place + 1) * width].copy_from_slice(x.element(from));
        }
        from += 1;
    });
    Ok(out)
}

fn reverse(x: &Tensor, dims: &[u64]) -> Tensor {
    let sizes = x.dims();
    let steps = strides(&sizes);
    pick_by(x, x.shape.clone(), |i| {
        let flipped = i.iter().enumerate().map(|(k, i)| if dims.contains(&(k as u64)) { sizes[k] - 1 - i } else { *i });
        flipped.zip(&steps).map(|(i, s)| i * s).sum()
    })
}

/// Start indices of a dynamic slice, clamped so that it stays inside.
fn starts(indices: &[&Tensor], shape: &[u64], sizes: &[i64]) -> Vec<i64> {
    let clamp = |(t, (d, n)): (&&Tensor, (&u64, &i64))| {
        let Numbers::Int(v) = t.numbers() else { panic!("verified index is not an integer") };
        v[0].clamp(0, i128::from(*d as i64 - n)) as i64
    };
    indices.iter().zip(shape.iter().zip(sizes)).map(clamp).collect()
}

fn update(x: &Tensor, u: &Tensor, start: &[i64]) -> Tensor {
    let mut out = x.clone();
    let steps = strides(&x.dims());
    let base: usize = start.iter().zip(&steps).map(|(a, s)| *a as usize * s).sum();
    let width = x.dtype.bytes();
    let mut from = 0;
    each_index(&u.dims(), |i| {
        let place = base + dot_index(i, &steps);
        out.bytes[place * width..(place + 1) * width].copy_from_slice(u.element(from));
        from += 1;
    });
    out
}

/// The k-th element of each listed place, for gathers and windows.
pub(super) fn elements_at(x: &Tensor, shape: Vec<u64>, places: &[usize]) -> Tensor {
    pick(x, shape, places.iter().copied())
}

/// i64 values as a one-dimensional tensor of an integer type.
pub(super) fn int_tensor(d: DType, shape: &[u64], v: impl Iterator<Item = i64>) -> R<Tensor> {
    if d.is_float() || d.is_complex() {
        return unsupported(format!("indices of type {d}"));
    }
    let mut bytes = vec![];
    v.for_each(|x| put_int(d, i128::from(x), &mut bytes));
    Tensor::new(d, shape, bytes)
}
