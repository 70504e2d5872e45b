//! Windows: convolution and reduce_window, as generics whose window is reduction loops over an input that is padded first.

use super::{
    contract::{Contraction, accumulator, all_zero},
    elementwise,
    error::Refusal,
    index::reverse_dims,
    lower::Cx,
    pad::{Padding, pad},
    reduce::{combiner, unflatten, widens},
    scalar,
    shape::fill,
    value::Val,
};
use crate::ir::{B, V, ValueLike, elem, results, shape};
use melior::ir::{AffineExpr, AffineMap};
use zmlc_import::tree::{Convolution, DType, Window};

/// out * stride + window * dilation.
fn strided<'c>(b: &B<'c>, out: usize, stride: i64, window: usize, dilation: i64) -> AffineExpr<'c> {
    let scaled = |d: usize, by: i64| {
        let d = AffineExpr::dim(b.c, d);
        if by == 1 { d } else { d * AffineExpr::constant(b.c, by) }
    };
    scaled(out, stride) + scaled(window, dilation)
}

/// Splits dimension `at` into `[groups, extent / groups]`.
fn split<'c>(b: &B<'c>, x: &Val<'c>, at: usize, groups: i64) -> Val<'c> {
    let mut to = shape(x.parts()[0].r#type());
    to[at] /= groups;
    to.insert(at, groups);
    x.each(|x| b.reshape(x, &to))
}

/// Loops, in order: the result's dimensions (its feature split in group and place if there are groups), then the window, then
/// the input features of a group.
pub(super) fn convolution<'c>(cx: &Cx<'_, '_, 'c>, c: &Convolution) -> Result<Val<'c>, Refusal> {
    let b = &cx.b;
    let (out, out_type) = (cx.out_shape(), cx.out(0).dtype);
    let spatial = c.input_spatial.len();
    let (input, kernel) = (cx.shape(0), cx.shape(1));
    let (feature, batch) = (c.input_feature as usize, c.input_batch as usize);
    if kernel.contains(&0) || input[feature] == 0 {
        return Ok(all_zero(b, &out, out_type));
    }
    let mut padding = Padding::none(input.len());
    for (i, d) in c.input_spatial.iter().map(|d| *d as usize).enumerate() {
        (padding.low[d], padding.high[d]) = c.padding[i];
        padding.interior[d] = c.lhs_dilation[i] - 1;
    }
    let zero = all_zero(b, &[], cx.dtype(0));
    let mut lhs = pad(b, &cx.arg(0), &zero, &padding);
    let turned: Vec<u64> =
        c.kernel_spatial.iter().zip(&c.window_reversal).filter(|(_, r)| **r).map(|(d, _)| *d).collect();
    let mut rhs = reverse_dims(b, &cx.arg(1), &turned);

    let (groups, batches) = (c.feature_group_count, c.batch_group_count);
    // Group counts are never both above 1. Split dimensions: the group goes before the place in it.
    let grouped = groups > 1 || batches > 1;
    let kernel_out = c.kernel_output_feature as usize;
    if groups > 1 {
        lhs = split(b, &lhs, feature, groups);
    }
    if batches > 1 {
        lhs = split(b, &lhs, batch, batches);
    }
    if grouped {
        rhs = split(b, &rhs, kernel_out, groups.max(batches));
    }
    let out_feature = c.output_feature as usize;
    let mut loop_shape = out.clone();
    if grouped {
        loop_shape[out_feature] /= groups.max(batches);
        loop_shape.insert(out_feature, groups.max(batches));
    }
    // Where a dimension of the result went.
    let moved = |d: usize| if grouped && d > out_feature { d + 1 } else { d };
    let n = loop_shape.len();
    let (group_loop, feature_loop) = (out_feature, if grouped { out_feature + 1 } else { out_feature });
    let (window_loop, input_feature_loop) = (n, n + spatial);
    let loops = n + spatial + 1;
    let dim = |d: usize| AffineExpr::dim(b.c, d);

    let mut lhs_exprs = vec![];
    for d in 0..input.len() {
        if d == batch {
            if batches > 1 {
                lhs_exprs.push(dim(group_loop));
            }
            lhs_exprs.push(dim(moved(c.output_batch as usize)));
        } else if d == feature {
            if groups > 1 {
                lhs_exprs.push(dim(group_loop));
            }
            lhs_exprs.push(dim(input_feature_loop));
        } else {
            let i = c.input_spatial.iter().position(|s| *s as usize == d).expect("batch, feature or spatial");
            let at = moved(c.output_spatial[i] as usize);
            lhs_exprs.push(strided(b, at, c.window_strides[i], window_loop + i, c.rhs_dilation[i]));
        }
    }
    let mut rhs_exprs = vec![];
    for d in 0..kernel.len() {
        if d == kernel_out {
            if grouped {
                rhs_exprs.push(dim(group_loop));
            }
            rhs_exprs.push(dim(feature_loop));
        } else if d == c.kernel_input_feature as usize {
            rhs_exprs.push(dim(input_feature_loop));
        } else {
            let i = c.kernel_spatial.iter().position(|s| *s as usize == d).expect("feature or spatial");
            rhs_exprs.push(dim(window_loop + i));
        }
    }
    let sums = Contraction {
        lhs: (lhs, cx.dtype(0), AffineMap::new(b.c, loops, 0, &lhs_exprs)),
        rhs: (rhs, cx.dtype(1), AffineMap::new(b.c, loops, 0, &rhs_exprs)),
        shape: loop_shape,
        reductions: spatial + 1,
        out: out_type,
    }
    .build(b)?;
    Ok(sums.each(|v| b.reshape(v, &out)))
}

/// If windows are all that comes before an element along one dimension, or all that comes after it: that dimension, and
/// whether it is the latter.
fn running(w: &Window, extents: &[i64]) -> Option<(usize, bool)> {
    /// What is shorter is summed anew for each element.
    const SHORT: i64 = 16;
    if w.strides.iter().chain(&w.base_dilations).chain(&w.window_dilations).any(|x| *x != 1) {
        return None;
    }
    let mut long = (0..extents.len()).filter(|d| w.dimensions[*d] > 1 || w.padding[*d] != (0, 0));
    let d = long.next().filter(|_| long.next().is_none())?;
    let n = extents[d];
    if n < SHORT || w.dimensions[d] != n || extents.contains(&0) {
        return None;
    }
    match w.padding[d] {
        (low, 0) if low == n - 1 => Some((d, false)),
        (0, high) if high == n - 1 => Some((d, true)),
        _ => None,
    }
}

pub(super) fn reduce_window<'c>(cx: &mut Cx<'_, '_, 'c>, w: &Window) -> Result<Vec<Val<'c>>, Refusal> {
    let b = cx.b;
    let n = cx.op.operands.len() / 2;
    let types: Vec<DType> = (0..n).map(|i| cx.dtype(i)).collect();
    let mut inputs: Vec<Val> = (0..n).map(|i| cx.arg(i)).collect();
    let mut inits: Vec<Val> = (0..n).map(|i| cx.arg(n + i)).collect();
    let region = &cx.op.regions[0];
    // Sums of narrow floats are kept in f32.
    let wide = n == 1 && widens(region, types[0]);
    let acc = if wide { accumulator(types[0]) } else { types[0] };
    let to = |v: &Val<'c>, from, to| {
        let s = shape(v.parts()[0].r#type());
        elementwise::map(&b, &s, to, std::slice::from_ref(v), |b, a| scalar::convert(b, from, to, &a[0]))
    };
    if wide {
        inputs[0] = to(&inputs[0], types[0], acc)?;
        inits[0] = to(&inits[0], types[0], acc)?;
    }
    let out = cx.out_shape();
    if let Some((d, reverse)) = running(w, &cx.shape(0))
        && super::special::closed(region).is_ok()
    {
        let rows: Vec<i64> = (0..out.len()).filter(|i| *i != d).map(|i| out[i]).collect();
        let flat = |v: &[Val<'c>]| v.iter().flat_map(Val::parts).collect::<Vec<V>>();
        let starts: Vec<Val> = inits.iter().map(|v| fill(&b, v, &rows)).collect();
        let (flat_inputs, flat_starts) = (flat(&inputs), flat(&starts));
        let done = b.scan(&flat_inputs, &flat_starts, (d, reverse, false), |b, a| {
            let (x, y) = a.split_at(flat_inputs.len());
            match combiner(region).filter(|_| wide) {
                Some(kind) => {
                    let sum = scalar::binary(b, kind, acc, &Val::One(x[0]), &Val::One(y[0]));
                    vec![sum.map_or(x[0], |v| v.one())]
                }
                None => {
                    let args: Vec<Val> = unflatten(&inputs, x).into_iter().chain(unflatten(&inputs, y)).collect();
                    flat(&cx.scalar_region(b, 0, &args))
                }
            }
        });
        let done = unflatten(&inputs, &done);
        return if wide { Ok(vec![to(&done[0], acc, types[0])?]) } else { Ok(done) };
    }
    let padding = Padding {
        low: w.padding.iter().map(|p| p.0).collect(),
        high: w.padding.iter().map(|p| p.1).collect(),
        interior: w.base_dilations.iter().map(|d| d - 1).collect(),
    };
    let padded: Vec<Val> = inputs.iter().zip(&inits).map(|(x, init)| pad(&b, x, init, &padding)).collect();
    if out.is_empty() {
        return Err(Refusal::form("a window over a tensor of rank 0"));
    }
    // Only dimensions with a window of more than one have a loop for it, but at least one has.
    let mut windowed: Vec<usize> = (0..out.len()).filter(|d| w.dimensions[*d] > 1).collect();
    if windowed.is_empty() {
        windowed.push(0);
    }
    let loops = out.len() + windowed.len();
    let place = |d: usize| match windowed.iter().position(|x| *x == d) {
        Some(k) => strided(&b, d, w.strides[d], out.len() + k, w.window_dilations[d]),
        None if w.strides[d] == 1 => AffineExpr::dim(b.c, d),
        None => AffineExpr::dim(b.c, d) * AffineExpr::constant(b.c, w.strides[d]),
    };
    let map = AffineMap::new(b.c, loops, 0, &(0..out.len()).map(place).collect::<Vec<_>>());
    let flat = |v: &[Val<'c>]| v.iter().flat_map(Val::parts).collect::<Vec<V>>();
    let mut ins: Vec<_> = flat(&padded).into_iter().map(|v| (v, map)).collect();
    let values = ins.len();
    let window: Vec<i64> = windowed.iter().map(|d| w.dimensions[*d]).collect();
    let window_loops: Vec<usize> = (out.len()..loops).collect();
    let bounds = b.empty(&window, elem(ins[0].0.r#type()));
    ins.push((bounds, b.projection(loops, &window_loops)));
    let identity: Vec<usize> = (0..out.len()).collect();
    let starts: Vec<Val> = inits.iter().map(|v| fill(&b, v, &out)).collect();
    let outs: Vec<_> = flat(&starts).into_iter().map(|v| (v, b.projection(loops, &identity))).collect();
    let iterators = "p".repeat(out.len()) + &"r".repeat(windowed.len());
    let op = b.generic(&iterators, &ins, &outs, |b, a| {
        let (x, sums) = (&a[..values], &a[values + 1..]);
        match combiner(region).filter(|_| wide) {
            Some(kind) => {
                let sum = scalar::binary(b, kind, acc, &Val::One(sums[0]), &Val::One(x[0]));
                vec![sum.map_or(sums[0], |v| v.one())]
            }
            None => {
                let args: Vec<Val> = unflatten(&inits, sums).into_iter().chain(unflatten(&inputs, x)).collect();
                flat(&cx.scalar_region(b, 0, &args))
            }
        }
    });
    let done = unflatten(&inits, &results(op));
    if wide { Ok(vec![to(&done[0], acc, types[0])?]) } else { Ok(done) }
}
