//! reduce_window and select_and_scatter.

use super::{
    R, Run, Tensor,
    tensor::{dot_index, each_index, strides},
};
use crate::tree::{Block, Window};

/// Where a window's element lies along one dimension: in the padded and dilated input, and in the input if it is no hole.
fn place(base: i64, low: i64, dilation: i64, size: usize) -> Option<usize> {
    let p = base - low;
    (p >= 0 && p % dilation == 0 && p / dilation < size as i64).then(|| (p / dilation) as usize)
}

impl<'a> Run<'a> {
    pub(super) fn reduce_window(&mut self, x: &[Tensor], w: &Window, b: &'a Block) -> R<Vec<Tensor>> {
        let n = x.len() / 2;
        let (inputs, inits) = x.split_at(n);
        let sizes = inputs[0].dims();
        let dilated = |n: i64, d: i64| if n == 0 { 0 } else { (n - 1) * d + 1 };
        let shape: Vec<u64> = (0..sizes.len())
            .map(|k| {
                let padded = w.padding[k].0 + dilated(sizes[k] as i64, w.base_dilations[k]) + w.padding[k].1;
                let window = dilated(w.dimensions[k], w.window_dilations[k]);
                if padded <= 0 || window > padded { 0 } else { ((padded - window) / w.strides[k] + 1) as u64 }
            })
            .collect();
        let count = shape.iter().product::<u64>() as usize;
        let out_dims: Vec<usize> = shape.iter().map(|d| *d as usize).collect();
        let mut outs = vec![];
        each_index(&out_dims, |i| outs.push(i.to_vec()));
        let steps = strides(&sizes);
        let window: Vec<usize> = w.dimensions.iter().map(|d| *d as usize).collect();
        let mut acc: Vec<Tensor> = inits
            .iter()
            .map(|t| Tensor { dtype: t.dtype, shape: shape.clone(), bytes: t.bytes.repeat(count) })
            .collect();
        let mut offsets = vec![];
        each_index(&window, |i| offsets.push(i.to_vec()));
        for o in offsets {
            // Elements of the padding are the init value.
            let mut next: Vec<Tensor> = inits
                .iter()
                .map(|t| Tensor { dtype: t.dtype, shape: shape.clone(), bytes: t.bytes.repeat(count) })
                .collect();
            for (r, out) in outs.iter().enumerate() {
                let at: Option<Vec<usize>> = (0..sizes.len())
                    .map(|k| {
                        let base = out[k] as i64 * w.strides[k] + o[k] as i64 * w.window_dilations[k];
                        place(base, w.padding[k].0, w.base_dilations[k], sizes[k])
                    })
                    .collect();
                if let Some(at) = at {
                    let p = dot_index(&at, &steps);
                    for (t, x) in next.iter_mut().zip(inputs) {
                        let width = t.dtype.bytes();
                        t.bytes[r * width..(r + 1) * width].copy_from_slice(x.element(p));
                    }
                }
            }
            acc = self.apply(b, acc.into_iter().chain(next).collect(), count, &shape)?;
        }
        Ok(acc)
    }

    /// Window dimensions, strides, padding.
    pub(super) fn select_and_scatter(
        &mut self,
        x: &[Tensor],
        (dims, window_strides, padding): (&[i64], &[i64], &[(i64, i64)]),
        select: &'a Block,
        scatter: &'a Block,
    ) -> R<Tensor> {
        let (input, source, init) = (&x[0], &x[1], &x[2]);
        let sizes = input.dims();
        let steps = strides(&sizes);
        let mut out =
            Tensor { dtype: input.dtype, shape: input.shape.clone(), bytes: init.bytes.repeat(input.elements()) };
        let window: Vec<usize> = dims.iter().map(|d| *d as usize).collect();
        let mut sources = vec![];
        each_index(&source.dims(), |i| sources.push(i.to_vec()));
        for (r, s) in sources.iter().enumerate() {
            let mut inside = vec![];
            each_index(&window, |o| {
                let at: Option<Vec<usize>> = (0..sizes.len())
                    .map(|k| place(s[k] as i64 * window_strides[k] + o[k] as i64, padding[k].0, 1, sizes[k]))
                    .collect();
                if let Some(at) = at {
                    inside.push(dot_index(&at, &steps));
                }
            });
            let mut chosen: Option<usize> = None;
            for p in inside {
                chosen = Some(match chosen {
                    Some(c) if self.block_tensors(select, [input.at(c), input.at(p)])?[0].is_true(0) => c,
                    _ => p,
                });
            }
            if let Some(p) = chosen {
                let v = self.block_tensors(scatter, [out.at(p), source.at(r)])?;
                let w = out.dtype.bytes();
                out.bytes[p * w..(p + 1) * w].copy_from_slice(&v[0].bytes);
            }
        }
        Ok(out)
    }
}
