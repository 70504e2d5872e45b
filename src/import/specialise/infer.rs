//! Shapes of results from shapes of operands, where a program's type leaves a dimension open. Operands are static.

use crate::tree::{OpKind, TensorType};

fn shape(t: &TensorType) -> Option<Vec<u64>> {
    t.shape()
}

/// Number of windows along a dimension.
fn windows(n: u64, base: i64, (low, high): (i64, i64), window: i64, dilation: i64, stride: i64) -> u64 {
    let dilated = |n: i64, d: i64| if n == 0 { 0 } else { (n - 1) * d + 1 };
    let padded = low + dilated(n as i64, base) + high;
    let reach = dilated(window, dilation);
    if padded <= 0 || reach > padded { 0 } else { ((padded - reach) / stride + 1) as u64 }
}

/// The shape of result `i`; `None` for ops whose result does not follow from operand shapes.
pub(super) fn result(k: &OpKind, x: &[&TensorType], i: usize) -> Option<Vec<u64>> {
    let first = || shape(x.first()?);
    Some(match k {
        OpKind::Unary(_)
        | OpKind::Convert
        | OpKind::ReducePrecision { .. }
        | OpKind::Reverse { .. }
        | OpKind::Cholesky { .. }
        | OpKind::DynamicUpdateSlice
        | OpKind::UniformQuantize
        | OpKind::UniformDequantize
        | OpKind::SelectAndScatter { .. }
        | OpKind::BatchNormInference { .. }
        | OpKind::Map { .. } => first()?,
        OpKind::Binary(_) | OpKind::Compare { .. } => first()?,
        OpKind::BatchNormTraining { .. } | OpKind::BatchNormGrad { .. } => shape(if i == 0 { x[0] } else { x[1] })?,
        OpKind::Scatter { .. } | OpKind::Sort { .. } | OpKind::OptimizationBarrier | OpKind::While => shape(x.get(i)?)?,
        OpKind::Select | OpKind::Clamp | OpKind::TriangularSolve { .. } => shape(x[1])?,
        OpKind::BitcastConvert => return None,
        OpKind::Transpose { permutation } => {
            let s = first()?;
            permutation.iter().map(|p| s[*p as usize]).collect()
        }
        OpKind::Slice { start, limit, strides } => {
            (0..start.len()).map(|k| ((limit[k] - start[k]) as u64).div_ceil(strides[k] as u64)).collect()
        }
        OpKind::Concatenate { dim } => {
            let mut s = first()?;
            s[*dim as usize] = x.iter().map(|t| Some(shape(t)?[*dim as usize])).sum::<Option<u64>>()?;
            s
        }
        OpKind::Pad { low, high, interior } => {
            let s = first()?;
            (0..s.len())
                .map(|k| u64::try_from(low[k] + s[k] as i64 + (s[k] as i64 - 1).max(0) * interior[k] + high[k]).ok())
                .collect::<Option<_>>()?
        }
        OpKind::DynamicSlice { sizes } => sizes.iter().map(|n| *n as u64).collect(),
        OpKind::Gather { dims, slice_sizes, .. } => {
            let mut batch = shape(x[1])?;
            if (dims.index_vector_dim as usize) < batch.len() {
                batch.remove(dims.index_vector_dim as usize);
            }
            let dropped = |k: &u64| dims.collapsed_slice_dims.contains(k) || dims.operand_batching_dims.contains(k);
            let mut offsets =
                (0..slice_sizes.len() as u64).filter(|k| !dropped(k)).map(|k| slice_sizes[k as usize] as u64);
            let rank = batch.len() + dims.offset_dims.len();
            let mut batch = batch.into_iter();
            (0..rank as u64)
                .map(|k| if dims.offset_dims.contains(&k) { offsets.next() } else { batch.next() })
                .collect::<Option<_>>()?
        }
        OpKind::DotGeneral { dims, .. } => {
            let (a, b) = (shape(x[0])?, shape(x[1])?);
            let free = |s: &[u64], batching: &[u64], contracting: &[u64]| -> Vec<u64> {
                (0..s.len() as u64)
                    .filter(|k| !batching.contains(k) && !contracting.contains(k))
                    .map(|k| s[k as usize])
                    .collect()
            };
            let batch: Vec<u64> = dims.lhs_batching.iter().map(|k| a[*k as usize]).collect();
            [
                batch,
                free(&a, &dims.lhs_batching, &dims.lhs_contracting),
                free(&b, &dims.rhs_batching, &dims.rhs_contracting),
            ]
            .concat()
        }
        OpKind::Convolution(c) => {
            let (a, w) = (shape(x[0])?, shape(x[1])?);
            let mut s = vec![0; a.len()];
            s[c.output_batch as usize] = a[c.input_batch as usize] / c.batch_group_count as u64;
            s[c.output_feature as usize] = w[c.kernel_output_feature as usize];
            for k in 0..c.input_spatial.len() {
                let window = w[c.kernel_spatial[k] as usize] as i64;
                s[c.output_spatial[k] as usize] = windows(
                    a[c.input_spatial[k] as usize],
                    c.lhs_dilation[k],
                    c.padding[k],
                    window,
                    c.rhs_dilation[k],
                    c.window_strides[k],
                );
            }
            s
        }
        OpKind::Reduce { dims } => {
            let s = first()?;
            (0..s.len() as u64).filter(|k| !dims.contains(k)).map(|k| s[k as usize]).collect()
        }
        OpKind::ReduceWindow(w) => {
            let s = first()?;
            (0..s.len())
                .map(|k| {
                    windows(
                        s[k],
                        w.base_dilations[k],
                        w.padding[k],
                        w.dimensions[k],
                        w.window_dilations[k],
                        w.strides[k],
                    )
                })
                .collect()
        }
        OpKind::Fft { kind, length } => {
            let mut s = first()?;
            let last = s.len() - 1;
            match kind.as_str() {
                "RFFT" => s[last] = if s[last] == 0 { 0 } else { s[last] / 2 + 1 },
                "IRFFT" => s[last] = *length.last()? as u64,
                _ => {}
            }
            s
        }
        OpKind::Chlo(name) if name == "top_k" => return None,
        OpKind::Chlo(_) => first()?,
        _ => return None,
    })
}
