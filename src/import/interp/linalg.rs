//! Cholesky, triangular solve, Fourier transforms and batch normalisation, by definition, in f64.

use super::{
    Tensor,
    complex::{self, C},
    tensor::{Numbers, strides},
};
use crate::tree::DType;

/// Elements as complex numbers, whatever they are.
fn complex_of(x: &Tensor) -> Vec<C> {
    match x.numbers() {
        Numbers::Complex(v) => v,
        _ => x.floats().into_iter().map(|v| (v, 0.0)).collect(),
    }
}
fn from_complex(d: DType, shape: &[u64], v: Vec<C>) -> Tensor {
    let n = if d.is_complex() { Numbers::Complex(v) } else { Numbers::Float(v.into_iter().map(|x| x.0).collect()) };
    Tensor::from_numbers(d, shape, &n)
}
fn conj(x: C) -> C {
    (x.0, -x.1)
}
fn sub(x: C, y: C) -> C {
    (x.0 - y.0, x.1 - y.1)
}

pub(super) fn cholesky(a: &Tensor, lower: bool) -> Tensor {
    let n = *a.shape.last().expect("verified rank") as usize;
    let mut v = complex_of(a);
    let mut out = vec![(0.0, 0.0); v.len()];
    if n == 0 {
        return a.clone();
    }
    for (m, l) in v.chunks_exact_mut(n * n).zip(out.chunks_exact_mut(n * n)) {
        if !lower {
            // A = U^H U: the lower triangle is the conjugate of the upper.
            for i in 0..n {
                for j in 0..i {
                    m[i * n + j] = conj(m[j * n + i]);
                }
            }
        }
        let mut failed = false;
        for i in 0..n {
            for j in 0..=i {
                let s = (0..j).fold(m[i * n + j], |s, k| sub(s, complex::mul(l[i * n + k], conj(l[j * n + k]))));
                if i == j {
                    failed |= s.0 <= 0.0 || s.0.is_nan();
                    l[i * n + i] = (s.0.sqrt(), 0.0);
                } else {
                    l[i * n + j] = complex::div(s, l[j * n + j]);
                }
            }
        }
        if failed {
            // Not positive definite: as XLA does, every element of the triangle is NaN.
            for i in 0..n {
                for j in 0..=i {
                    l[i * n + j] = (f64::NAN, f64::NAN);
                }
            }
        }
        if !lower {
            for i in 0..n {
                for j in 0..i {
                    l[j * n + i] = conj(l[i * n + j]);
                    l[i * n + j] = (0.0, 0.0);
                }
            }
        }
    }
    from_complex(a.dtype, &a.shape, out)
}

pub(super) fn triangular_solve(a: &Tensor, b: &Tensor, left: bool, lower: bool, unit: bool, transpose: &str) -> Tensor {
    let n = *a.shape.last().expect("verified rank") as usize;
    let rank = b.shape.len();
    let (rows, cols) = (b.shape[rank - 2] as usize, b.shape[rank - 1] as usize);
    let av = complex_of(a);
    let mut bv = complex_of(b);
    if n == 0 || rows * cols == 0 {
        return b.clone();
    }
    for (m, x) in av.chunks_exact(n * n).zip(bv.chunks_exact_mut(rows * cols)) {
        // op(A)[i][j]
        let at = |i: usize, j: usize| match transpose {
            "TRANSPOSE" => m[j * n + i],
            "ADJOINT" => conj(m[j * n + i]),
            _ => m[i * n + j],
        };
        let op_lower = lower == (transpose == "NO_TRANSPOSE");
        // Solve op(A) X = B by columns, or X op(A) = B, which is op(A)^T X^T = B^T, by rows.
        let (forward, systems) = if left { (op_lower, cols) } else { (!op_lower, rows) };
        for s in 0..systems {
            let place = |i: usize| if left { i * cols + s } else { s * cols + i };
            let order: Vec<usize> = if forward { (0..n).collect() } else { (0..n).rev().collect() };
            for (done, &i) in order.iter().enumerate() {
                let mut v = x[place(i)];
                for &k in &order[..done] {
                    let c = if left { at(i, k) } else { at(k, i) };
                    v = sub(v, complex::mul(c, x[place(k)]));
                }
                x[place(i)] = if unit { v } else { complex::div(v, at(i, i)) };
            }
        }
    }
    from_complex(b.dtype, &b.shape, bv)
}

/// One-dimensional transform; `sign` is -1 for the forward one.
fn dft(x: &[C], sign: f64) -> Vec<C> {
    let n = x.len();
    (0..n)
        .map(|k| {
            x.iter().enumerate().fold((0.0, 0.0), |s, (j, v)| {
                // The angle is reduced exactly before it becomes a float.
                let angle = sign * 2.0 * std::f64::consts::PI * ((j * k) % n) as f64 / n as f64;
                complex::add(s, complex::mul(*v, (angle.cos(), angle.sin())))
            })
        })
        .collect()
}

/// Transforms along dimension `dim` of complex data in place.
fn along(v: &mut [C], dims: &[usize], dim: usize, sign: f64) {
    let step = strides(dims)[dim];
    let n = dims[dim];
    for base in (0..v.len()).filter(|i| (i / step).is_multiple_of(n)) {
        let line: Vec<C> = (0..n).map(|i| v[base + i * step]).collect();
        let scale = if sign > 0.0 { 1.0 / n as f64 } else { 1.0 };
        for (i, y) in dft(&line, sign).into_iter().enumerate() {
            v[base + i * step] = (y.0 * scale, y.1 * scale);
        }
    }
}

pub(super) fn fft(x: &Tensor, kind: &str, length: &[i64], result: DType) -> Tensor {
    let rank = x.shape.len();
    let mut dims = x.dims();
    let mut v = complex_of(x);
    let first = rank - length.len();
    let sign = if kind.starts_with('I') { 1.0 } else { -1.0 };
    let last = rank - 1;
    if dims.contains(&0) {
        let mut shape = x.shape.clone();
        match kind {
            "RFFT" => shape[last] = if shape[last] == 0 { 0 } else { shape[last] / 2 + 1 },
            "IRFFT" => shape[last] = length[length.len() - 1] as u64,
            _ => {}
        }
        let n = shape.iter().product::<u64>() as usize;
        return from_complex(result, &shape, vec![(0.0, 0.0); n]);
    }
    match kind {
        "IRFFT" => {
            for d in first..last {
                along(&mut v, &dims, d, sign);
            }
            // The missing half of the last dimension is the conjugate of the present one.
            let (half, n) = (dims[last], length[length.len() - 1] as usize);
            let mut full = vec![];
            for line in v.chunks_exact(half) {
                full.extend((0..n).map(|k| if k < half { line[k] } else { conj(line[n - k]) }));
            }
            v = full;
            dims[last] = n;
            along(&mut v, &dims, last, sign);
        }
        _ => {
            for d in (first..rank).rev() {
                along(&mut v, &dims, d, sign);
            }
            if kind == "RFFT" {
                let (n, half) = (dims[last], dims[last] / 2 + 1);
                v = v.chunks_exact(n).flat_map(|line| line[..half].to_vec()).collect();
                dims[last] = half;
            }
        }
    }
    let shape: Vec<u64> = dims.iter().map(|d| *d as u64).collect();
    from_complex(result, &shape, v)
}

/// For each element, its index along the feature dimension.
fn features(x: &Tensor, dim: usize) -> impl Fn(usize) -> usize {
    let dims = x.dims();
    let step = strides(&dims)[dim];
    let n = dims[dim];
    move |i| i / step % n
}

pub(super) fn batch_norm_inference(x: &[&Tensor], epsilon: f32, dim: usize) -> Tensor {
    let f = features(x[0], dim);
    let (scale, offset, mean, variance) = (x[1].floats(), x[2].floats(), x[3].floats(), x[4].floats());
    let v = x[0].floats().into_iter().enumerate().map(|(i, v)| {
        let k = f(i);
        (v - mean[k]) / (variance[k] + f64::from(epsilon)).sqrt() * scale[k] + offset[k]
    });
    Tensor::from_numbers(x[0].dtype, &x[0].shape, &Numbers::Float(v.collect()))
}

/// Mean and variance of each feature.
fn moments(x: &Tensor, dim: usize) -> (Vec<f64>, Vec<f64>) {
    let f = features(x, dim);
    let n = x.shape[dim] as usize;
    let v = x.floats();
    let count = v.len() as f64 / n as f64;
    let mut mean = vec![0.0; n];
    v.iter().enumerate().for_each(|(i, v)| mean[f(i)] += v / count);
    let mut variance = vec![0.0; n];
    v.iter().enumerate().for_each(|(i, v)| variance[f(i)] += (v - mean[f(i)]).powi(2) / count);
    (mean, variance)
}

pub(super) fn batch_norm_training(x: &[&Tensor], epsilon: f32, dim: usize) -> Vec<Tensor> {
    let (mean, variance) = moments(x[0], dim);
    let vector = |v: Vec<f64>| Tensor::from_numbers(x[1].dtype, &x[1].shape, &Numbers::Float(v));
    let (m, s) = (vector(mean), vector(variance));
    vec![batch_norm_inference(&[x[0], x[1], x[2], &m, &s], epsilon, dim), m, s]
}

pub(super) fn batch_norm_grad(x: &[&Tensor], epsilon: f32, dim: usize) -> Vec<Tensor> {
    let f = features(x[0], dim);
    let n = x[0].shape[dim] as usize;
    let (v, scale, mean, variance, grad) = (x[0].floats(), x[1].floats(), x[2].floats(), x[3].floats(), x[4].floats());
    let count = v.len() as f64 / n as f64;
    let inverse: Vec<f64> = variance.iter().map(|s| 1.0 / (s + f64::from(epsilon)).sqrt()).collect();
    let (mut sum, mut dot) = (vec![0.0; n], vec![0.0; n]);
    for (i, g) in grad.iter().enumerate() {
        let k = f(i);
        sum[k] += g;
        dot[k] += g * (v[i] - mean[k]);
    }
    let operand = (0..v.len()).map(|i| {
        let k = f(i);
        let centred = v[i] - mean[k];
        scale[k] * inverse[k] / count * (count * grad[i] - sum[k] - centred * dot[k] * inverse[k] * inverse[k])
    });
    let vector = |v: Vec<f64>| Tensor::from_numbers(x[1].dtype, &x[1].shape, &Numbers::Float(v));
    vec![
        Tensor::from_numbers(x[0].dtype, &x[0].shape, &Numbers::Float(operand.collect())),
        vector((0..n).map(|k| dot[k] * inverse[k]).collect()),
        vector(sum),
    ]
}
