//! fft of any length: Cooley and Tukey's split n = p q as long as n has a small factor, each part a contraction with a matrix
//! of roots of one. The roots come from a table of n constants, computed in f64.

use super::{
    contract::Contraction,
    elementwise,
    error::Refusal,
    lower::Cx,
    scalar,
    shape::{broadcast, slice_static},
    value::{Val, element, zeros},
};
use crate::ir::{B, V, ValueLike, shape};
use melior::ir::attribute::DenseElementsAttribute;
use zmlc_import::tree::{BinaryOp, DType};

/// Transforms up to this length are one contraction.
const DIRECT: i64 = 32;

struct Fft<'a, 'c> {
    b: &'a B<'c>,
    d: DType,
    sign: f64,
}

pub(super) fn lower<'c>(cx: &Cx<'_, '_, 'c>, kind: &str, length: &[i64]) -> Result<Val<'c>, Refusal> {
    let b = &cx.b;
    let complex = if cx.dtype(0).is_complex() { cx.dtype(0) } else { cx.out(0).dtype };
    let f = Fft { b, d: complex, sign: if kind.starts_with('I') { 1.0 } else { -1.0 } };
    let rank = cx.shape(0).len();
    let (first, last) = (rank - length.len(), rank - 1);
    let mut x = cx.arg(0);
    if cx.shape(0).contains(&0) {
        return Ok(super::contract::all_zero(b, &cx.out_shape(), cx.out(0).dtype));
    }
    match kind {
        "IRFFT" => {
            for d in first..last {
                x = f.along(&x, d)?;
            }
            x = f.mirrored(&x, length[length.len() - 1])?;
            x = f.along(&x, last)?;
            Ok(Val::One(x.parts()[0]))
        }
        "FFT" | "IFFT" | "RFFT" => {
            if let Val::One(re) = x {
                x = Val::Complex(re, zeros(b, &cx.shape(0), complex));
            }
            for d in (first..rank).rev() {
                x = f.along(&x, d)?;
            }
            let out = cx.out_shape();
            Ok(x.each(
                |v| if cx.shape(0) == out { v } else { slice_static(b, v, &vec![0; rank], &out, &vec![1; rank]) },
            ))
        }
        kind => Err(Refusal::form(format!("a transform of kind {kind}"))),
    }
}

impl<'c> Fft<'_, 'c> {
    fn extents(x: &Val<'c>) -> Vec<i64> {
        shape(x.parts()[0].r#type())
    }
    /// The missing half of the last dimension is the conjugate of the present one.
    fn mirrored(&self, x: &Val<'c>, n: i64) -> Result<Val<'c>, Refusal> {
        let mut out = Self::extents(x);
        let last = out.len() - 1;
        let half = out[last];
        out[last] = n;
        let parts: Vec<V> = x
            .parts()
            .into_iter()
            .enumerate()
            .map(|(part, v)| {
                self.b.map(&out, element(self.b, self.d), &[], |b, _| {
                    let k = b.loop_index(last as i64);
                    let present = b.cmpi("ult", k, b.cidx(half));
                    let from = b.select(present, k, b.same("arith.subi", &[b.cidx(n), k]));
                    let place: Vec<V> =
                        (0..=last).map(|d| if d == last { from } else { b.loop_index(d as i64) }).collect();
                    let y = b.extract(v, &place);
                    if part == 0 { y } else { b.select(present, y, b.same("arith.negf", &[y])) }
                })
            })
            .collect();
        Ok(Val::of(&parts))
    }
    /// The transform along one dimension, scaled if it is an inverse.
    fn along(&self, x: &Val<'c>, dim: usize) -> Result<Val<'c>, Refusal> {
        let extents = Self::extents(x);
        let n = extents[dim];
        // Brought to [everything else, n].
        let mut order: Vec<u64> = (0..extents.len() as u64).collect();
        order.swap(dim, extents.len() - 1);
        let mut swapped = extents.clone();
        swapped.swap(dim, extents.len() - 1);
        let rows: i64 = extents.iter().product::<i64>() / n;
        let flat = x.each(|v| self.b.reshape(broadcast(self.b, v, &swapped, &order), &[rows, n]));
        let mut y = self.rows(&flat, rows, n)?;
        if self.sign > 0.0 {
            let t = element(self.b, self.d);
            let by = 1.0 / n as f64;
            y = y.each(|v| self.b.map(&[rows, n], t, &[(v, &[0, 1])], |b, a| b.mulf(a[0], b.cfloat(t, by))));
        }
        Ok(y.each(|v| broadcast(self.b, self.b.reshape(v, &swapped), &extents, &order)))
    }
    /// Of each row of `[rows, n]`, not scaled.
    fn rows(&self, x: &Val<'c>, rows: i64, n: i64) -> Result<Val<'c>, Refusal> {
        let factor = if n <= DIRECT { None } else { (2..=DIRECT).rev().find(|p| n % p == 0) };
        let Some(p) = factor else {
            // out[r, k] = sum over j of x[r, j] w[j, k]
            return self.contract(x, &[0, 2], &[rows, n], &[2, 1], n);
        };
        let q = n / p;
        // With j = j1 q + j2 and k = k1 + p k2: transforms over j1, twists by w^(j2 k1), transforms over j2.
        let split = x.each(|v| self.b.reshape(v, &[rows, p, q]));
        let inner = self.contract(&split, &[0, 3, 2], &[rows, p, q], &[3, 1], p)?;
        let table = self.roots(n);
        let twisted = elementwise::map(self.b, &[rows, p, q], self.d, &[inner], |b, a| {
            let root = self.root(b, &table, n, b.loop_index(1), b.loop_index(2));
            scalar::binary(b, BinaryOp::Multiply, self.d, &a[0], &root)
        })?;
        let flat = twisted.each(|v| self.b.reshape(v, &[rows * p, q]));
        let outer = self.rows(&flat, rows * p, q)?;
        Ok(outer.each(|v| {
            let v = self.b.reshape(v, &[rows, p, q]);
            self.b.reshape(broadcast(self.b, v, &[rows, q, p], &[0, 2, 1]), &[rows, n])
        }))
    }
    /// Sums over the last loop of `x`, read at `x_loops`, times the n-th root of one to the product of two loops.
    fn contract(
        &self,
        x: &Val<'c>,
        x_loops: &[usize],
        out: &[i64],
        root_loops: &[usize],
        n: i64,
    ) -> Result<Val<'c>, Refusal> {
        let table = self.roots(n);
        let matrix = elementwise::map(self.b, &[n, n], self.d, &[], |b, _| {
            Ok(self.root(b, &table, n, b.loop_index(0), b.loop_index(1)))
        })?;
        let loops = out.len() + 1;
        Contraction {
            lhs: (x.clone(), self.d, self.b.projection(loops, x_loops)),
            rhs: (matrix, self.d, self.b.projection(loops, root_loops)),
            shape: out.to_vec(),
            reductions: 1,
            out: self.d,
        }
        .build(self.b)
    }
    /// The n-th roots of one, in order.
    fn roots(&self, n: i64) -> Val<'c> {
        let angle = |k: i64| self.sign * 2.0 * std::f64::consts::PI * k as f64 / n as f64;
        let (re, im): (Vec<f64>, Vec<f64>) = (0..n).map(|k| (angle(k).cos(), angle(k).sin())).unzip();
        let t = self.b.tensor(&[n], element(self.b, self.d));
        let constant = |v: &[f64]| {
            let a = if self.d.real() == DType::F64 {
                DenseElementsAttribute::f64_values(t, v)
            } else {
                DenseElementsAttribute::f32_values(t, &v.iter().map(|x| *x as f32).collect::<Vec<_>>())
            };
            self.b.constant(a.into(), t)
        };
        Val::Complex(constant(&re), constant(&im))
    }
    /// The root to the power x y, which is reduced exactly.
    fn root(&self, b: &B<'c>, table: &Val<'c>, n: i64, x: V<'c>, y: V<'c>) -> Val<'c> {
        let k = b.same("arith.remui", &[b.muli(x, y), b.cidx(n)]);
        table.each(|t| b.extract(t, &[k]))
    }
}
