//! Contractions: dot_general and convolution, summed in f64 (integers exactly) and rounded once.

use super::{
    R, Tensor,
    tensor::{Numbers, dot_index, each_index, strides},
    unsupported,
};
use crate::tree::{Convolution, DType, DotDims};

/// Sums products of pairs of elements. The places of both operands' elements come in the order of the result's elements,
/// `terms` a result.
struct Sum {
    a: Numbers,
    b: Numbers,
}
impl Sum {
    fn new(a: &Tensor, b: &Tensor) -> Self {
        let widen = |n: Numbers, other: &Numbers| match (n, other) {
            // Mixed operands (an integer kernel for a float input) meet in the wider kind.
            (Numbers::Int(v), Numbers::Float(_)) => Numbers::Float(v.into_iter().map(|x| x as f64).collect()),
            (n, _) => n,
        };
        let (x, y) = (a.numbers(), b.numbers());
        let a = widen(x.clone(), &y);
        let b = widen(y, &x);
        Sum { a, b }
    }
    fn results(&self, shape: &[u64], d: DType, mut pairs: impl FnMut(&mut dyn FnMut(usize, usize), usize)) -> Tensor {
        let n = shape.iter().product::<u64>() as usize;
        let numbers = match (&self.a, &self.b) {
            (Numbers::Float(a), Numbers::Float(b)) => Numbers::Float(
                (0..n)
                    .map(|r| {
                        let mut s = 0.0;
                        pairs(&mut |i, j| s += a[i] * b[j], r);
                        s
                    })
                    .collect(),
            ),
            (Numbers::Int(a), Numbers::Int(b)) => {
                let v: Vec<i128> = (0..n)
                    .map(|r| {
                        let mut s = 0i128;
                        if d == DType::I1 {
                            pairs(&mut |i, j| s |= a[i] & b[j], r);
                        } else {
                            pairs(&mut |i, j| s = s.wrapping_add(a[i].wrapping_mul(b[j])), r);
                        }
                        s
                    })
                    .collect();
                if d.is_float() { Numbers::Float(v.into_iter().map(|x| x as f64).collect()) } else { Numbers::Int(v) }
            }
            (Numbers::Complex(a), Numbers::Complex(b)) => Numbers::Complex(
                (0..n)
                    .map(|r| {
                        let mut s = (0.0, 0.0);
                        pairs(
                            &mut |i, j| {
                                let p = super::complex::mul(a[i], b[j]);
                                s = (s.0 + p.0, s.1 + p.1);
                            },
                            r,
                        );
                        s
                    })
                    .collect(),
            ),
            _ => panic!("verified operands are of one kind"),
        };
        let numbers = match numbers {
            Numbers::Float(v) if d.is_int() => Numbers::Int(v.into_iter().map(|x| x as i128).collect()),
            n => n,
        };
        Tensor::from_numbers(d, shape, &numbers)
    }
}

pub(super) fn dot_general(a: &Tensor, b: &Tensor, d: &DotDims, result: DType) -> Tensor {
    let free = |rank: usize, used: &[&[u64]]| -> Vec<usize> {
        (0..rank).filter(|k| used.iter().all(|u| !u.contains(&(*k as u64)))).collect()
    };
    let index = |v: &[u64]| -> Vec<usize> { v.iter().map(|x| *x as usize).collect() };
    let a_free = free(a.shape.len(), &[&d.lhs_batching, &d.lhs_contracting]);
    let b_free = free(b.shape.len(), &[&d.rhs_batching, &d.rhs_contracting]);
    let (a_batch, b_batch) = (index(&d.lhs_batching), index(&d.rhs_batching));
    let (a_sum, b_sum) = (index(&d.lhs_contracting), index(&d.rhs_contracting));
    let (ad, bd) = (a.dims(), b.dims());
    let (ast, bst) = (strides(&ad), strides(&bd));
    let places = |dims: &[usize], sizes: &[usize], st: &[usize]| -> Vec<usize> {
        let shape: Vec<usize> = dims.iter().map(|k| sizes[*k]).collect();
        let steps: Vec<usize> = dims.iter().map(|k| st[*k]).collect();
        let mut v = vec![];
        each_index(&shape, |i| v.push(dot_index(i, &steps)));
        v
    };
    let a_rows: Vec<usize> = places(&a_free, &ad, &ast);
    let b_rows: Vec<usize> = places(&b_free, &bd, &bst);
    let (a_b, b_b) = (places(&a_batch, &ad, &ast), places(&b_batch, &bd, &bst));
    let (a_k, b_k) = (places(&a_sum, &ad, &ast), places(&b_sum, &bd, &bst));
    let shape: Vec<u64> = a_batch
        .iter()
        .map(|k| a.shape[*k])
        .chain(a_free.iter().map(|k| a.shape[*k]))
        .chain(b_free.iter().map(|k| b.shape[*k]))
        .collect();
    let (m, n) = (a_rows.len(), b_rows.len());
    Sum::new(a, b).results(&shape, result, |add, r| {
        let (batch, i, j) = (r / (m * n), r / n % m, r % n);
        let (x, y) = (a_b[batch] + a_rows[i], b_b[batch] + b_rows[j]);
        for (p, q) in a_k.iter().zip(&b_k) {
            add(x + p, y + q);
        }
    })
}

pub(super) fn convolution(x: &Tensor, w: &Tensor, c: &Convolution, result: DType) -> R<Tensor> {
    let spatial = c.input_spatial.len();
    if c.feature_group_count < 1 || c.batch_group_count < 1 {
        return unsupported("a convolution with no groups");
    }
    let at = |v: &[u64], k: usize| v[k] as usize;
    let (xd, wd) = (x.dims(), w.dims());
    let (xs, ws) = (strides(&xd), strides(&wd));
    let mut shape = vec![0u64; x.shape.len()];
    let batches = xd[c.input_batch as usize] / c.batch_group_count as usize;
    let features = wd[c.kernel_output_feature as usize];
    shape[c.output_batch as usize] = batches as u64;
    shape[c.output_feature as usize] = features as u64;
    for k in 0..spatial {
        let input = xd[at(&c.input_spatial, k)] as i64;
        let kernel = wd[at(&c.kernel_spatial, k)] as i64;
        let dilated = |n: i64, d: i64| if n == 0 { 0 } else { (n - 1) * d + 1 };
        let padded = c.padding[k].0 + dilated(input, c.lhs_dilation[k]) + c.padding[k].1;
        let window = dilated(kernel, c.rhs_dilation[k]);
        let out = if padded < window { 0 } else { (padded - window) / c.window_strides[k] + 1 };
        shape[at(&c.output_spatial, k)] = out as u64;
    }
    let out_dims: Vec<usize> = shape.iter().map(|d| *d as usize).collect();
    let mut indices = vec![];
    each_index(&out_dims, |i| indices.push(i.to_vec()));
    let kernel_spatial: Vec<usize> = (0..spatial).map(|k| wd[at(&c.kernel_spatial, k)]).collect();
    let group_inputs = wd[c.kernel_input_feature as usize];
    let per_feature_group = features / c.feature_group_count as usize;
    let per_batch_group = features / c.batch_group_count as usize;
    Ok(Sum::new(x, w).results(&shape, result, |add, r| {
        let o = &indices[r];
        let f = o[c.output_feature as usize];
        let mut base = o[c.output_batch as usize];
        if c.batch_group_count > 1 {
            base += f / per_batch_group * batches;
        }
        let x0 = base * xs[c.input_batch as usize];
        let first_input = if c.feature_group_count > 1 { f / per_feature_group * group_inputs } else { 0 };
        each_index(&kernel_spatial, |k| {
            let (mut xp, mut wp) = (x0, f * ws[c.kernel_output_feature as usize]);
            for s in 0..spatial {
                let kk = if c.window_reversal[s] { kernel_spatial[s] - 1 - k[s] } else { k[s] };
                wp += kk * ws[at(&c.kernel_spatial, s)];
                let p = o[at(&c.output_spatial, s)] as i64 * c.window_strides[s] + k[s] as i64 * c.rhs_dilation[s]
                    - c.padding[s].0;
                let q = p.div_euclid(c.lhs_dilation[s]);
                if p.rem_euclid(c.lhs_dilation[s]) != 0 || q < 0 || q as usize >= xd[at(&c.input_spatial, s)] {
                    return;
                }
                xp += q as usize * xs[at(&c.input_spatial, s)];
            }
            for i in 0..group_inputs {
                add(
                    xp + (first_input + i) * xs[c.input_feature as usize],
                    wp + i * ws[c.kernel_input_feature as usize],
                );
            }
        });
    }))
}
