//! dot_general: a generic with a loop for each batch, free and contracting dimension. Products are summed in f32 for
//! floats below 32 bits and in the result's type otherwise, and rounded once.

use super::{
    error::Refusal,
    lower::Cx,
    scalar,
    value::{Val, element, zero, zeros},
};
use crate::gemm::is_f8;
use crate::ir::{B, V, def, result, rewrite::set_attr};
use melior::ir::AffineMap;
use zmlc_import::tree::{BinaryOp, DType, DotAlgorithm, DotDims};

/// Element type that sums are kept in.
pub(super) fn accumulator(out: DType) -> DType {
    if out.is_float() && out.bits() < 32 { DType::F32 } else { out }
}

/// A contraction: where to read, how far each loop runs, how the sum becomes the result.
pub(super) struct Contraction<'c> {
    pub lhs: (Val<'c>, DType, AffineMap<'c>),
    pub rhs: (Val<'c>, DType, AffineMap<'c>),
    /// The result's extents: the parallel loops, in the result's order, come first.
    pub shape: Vec<i64>,
    /// Number of reduction loops, which come after.
    pub reductions: usize,
    pub out: DType,
}
impl<'c> Contraction<'c> {
    pub fn build(&self, b: &B<'c>) -> Result<Val<'c>, Refusal> {
        let acc = accumulator(self.out);
        let sums = if acc.is_complex() {
            Val::Complex(self.sum(b, acc, 0)?, self.sum(b, acc, 1)?)
        } else {
            Val::One(self.sum(b, acc, 0)?)
        };
        if acc == self.out {
            return Ok(sums);
        }
        super::elementwise::map(b, &self.shape, self.out, &[sums], |b, a| scalar::convert(b, acc, self.out, &a[0]))
    }
    /// The real or imaginary part of the sums.
    fn sum(&self, b: &B<'c>, acc: DType, part: usize) -> Result<V<'c>, Refusal> {
        let t = element(b, acc);
        let n = self.shape.len();
        let mut ins: Vec<(V<'c>, AffineMap<'c>)> = vec![];
        for (v, _, map) in [&self.lhs, &self.rhs] {
            ins.extend(v.parts().into_iter().map(|v| (v, *map)));
        }
        let split = self.lhs.0.parts().len();
        let init = b.fill(zero(b, t), &self.shape);
        let identity: Vec<usize> = (0..n).collect();
        let outs = [(init, b.projection(n + self.reductions, &identity))];
        let iterators = "p".repeat(n) + &"r".repeat(self.reductions);
        let mut refused = None;
        let op = b.generic(&iterators, &ins, &outs, |b, a| {
            let (scalars, sum) = a.split_at(a.len() - 1);
            let added =
                product(b, acc, (&Val::of(&scalars[..split]), self.lhs.1), (&Val::of(&scalars[split..]), self.rhs.1))
                    .and_then(|p| {
                        let add = Val::One(p.parts()[part]);
                        if self.reductions == 0 {
                            return Ok(add);
                        }
                        scalar::binary(b, BinaryOp::Add, acc.real(), &Val::One(sum[0]), &add)
                    });
            vec![match added {
                Ok(v) => v.one(),
                Err(r) => {
                    refused = Some(r);
                    zero(b, t)
                }
            }]
        });
        refused.map_or(Ok(result(op, 0)), Err)
    }
}
fn product<'c>(
    b: &B<'c>,
    acc: DType,
    (x, dx): (&Val<'c>, DType),
    (y, dy): (&Val<'c>, DType),
) -> Result<Val<'c>, Refusal> {
    let (x, y) = (scalar::convert(b, dx, acc, x)?, scalar::convert(b, dy, acc, y)?);
    scalar::binary(b, BinaryOp::Multiply, acc, &x, &y)
}

pub(super) fn dot_general<'c>(
    cx: &Cx<'_, '_, 'c>,
    dims: &DotDims,
    algorithm: Option<&DotAlgorithm>,
) -> Result<Val<'c>, Refusal> {
    let b = &cx.b;
    let (lhs, rhs) = (cx.shape(0), cx.shape(1));
    let out = cx.out(0).dtype;
    if dims.lhs_contracting.iter().any(|d| lhs[*d as usize] == 0) {
        return Ok(all_zero(b, &cx.out_shape(), out));
    }
    let free = |rank: usize, batching: &[u64], contracting: &[u64]| -> Vec<usize> {
        (0..rank).filter(|d| !batching.contains(&(*d as u64)) && !contracting.contains(&(*d as u64))).collect()
    };
    let lhs_free = free(lhs.len(), &dims.lhs_batching, &dims.lhs_contracting);
    let rhs_free = free(rhs.len(), &dims.rhs_batching, &dims.rhs_contracting);
    let n_batch = dims.lhs_batching.len();
    let n_out = n_batch + lhs_free.len() + rhs_free.len();
    let loops = n_out + dims.lhs_contracting.len();
    let map = |rank: usize, batching: &[u64], free: &[usize], first_free: usize, contracting: &[u64]| {
        let mut of = vec![0; rank];
        for (i, d) in batching.iter().enumerate() {
            of[*d as usize] = i;
        }
        for (i, d) in free.iter().enumerate() {
            of[*d] = first_free + i;
        }
        for (i, d) in contracting.iter().enumerate() {
            of[*d as usize] = n_out + i;
        }
        b.projection(loops, &of)
    };
    let lhs_map = map(lhs.len(), &dims.lhs_batching, &lhs_free, n_batch, &dims.lhs_contracting);
    let rhs_map = map(rhs.len(), &dims.rhs_batching, &rhs_free, n_batch + lhs_free.len(), &dims.rhs_contracting);
    let sums = Contraction {
        lhs: (cx.arg(0), cx.dtype(0), lhs_map),
        rhs: (cx.arg(1), cx.dtype(1), rhs_map),
        shape: cx.out_shape(),
        reductions: dims.lhs_contracting.len(),
        out,
    }
    .build(b)?;
    // The program lets the factors be rounded: no kernel has to, a library may.
    let tf32 = |a: &DotAlgorithm| a.lhs_precision == "tf32" && a.rhs_precision == "tf32" && a.accumulation == "f32";
    if let (Val::One(v), true) = (&sums, algorithm.is_some_and(tf32))
        && let Some(op) = def(*v).filter(|_| [cx.dtype(0), cx.dtype(1), out] == [DType::F32; 3])
    {
        set_attr(op, "zml.tf32", b.unit());
    }
    // Their bits are taken apart in the body: a library is told what they are.
    let factors = [cx.dtype(0), cx.dtype(1)];
    if let Val::One(v) = &sums
        && let Some(op) = def(*v).filter(|_| factors.into_iter().all(is_f8))
    {
        set_attr(op, "zml.factors", b.array(&factors.map(|d| b.str(d.name()))));
    }
    Ok(sums)
}
/// What a sum of nothing is.
pub(super) fn all_zero<'c>(b: &B<'c>, shape: &[i64], d: DType) -> Val<'c> {
    let parts = if d.is_complex() { 2 } else { 1 };
    Val::of(&vec![zeros(b, shape, d); parts])
}
