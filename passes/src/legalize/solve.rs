//! cholesky and triangular_solve: a loop over columns or rows, each step of which is as parallel as the matrix is wide.

use super::{
    error::Refusal,
    lower::Cx,
    scalar,
    shape::broadcast,
    value::{Val, element, zero, zeros},
};
use crate::ir::{B, V, ValueLike, result, results, shape};
use zmlc_import::tree::{BinaryOp, DType};

struct Solve<'a, 'c> {
    b: &'a B<'c>,
    d: DType,
    /// `[batch, n, m]`
    extents: [i64; 3],
}
impl<'c> Solve<'_, 'c> {
    fn binary(&self, b: &B<'c>, op: BinaryOp, x: &Val<'c>, y: &Val<'c>) -> Result<Val<'c>, Refusal> {
        scalar::binary(b, op, self.d, x, y)
    }
    fn nothing(&self) -> Vec<V<'c>> {
        let parts = if self.d.is_complex() { 2 } else { 1 };
        vec![zeros(self.b, &self.extents, self.d); parts]
    }
    /// Runs `step` for 0, 1, ... n - 1, from zeros; it gets the number as a rank-0 tensor and the value so far.
    fn steps(
        &self,
        step: impl FnOnce(&Self, &B<'c>, V<'c>, &Val<'c>) -> Result<Val<'c>, Refusal>,
    ) -> Result<Val<'c>, Refusal> {
        let b = self.b;
        let i32 = b.i(32);
        let number = b.tensor(&[], i32);
        let mut init = vec![b.constant(b.attr("dense<0> : tensor<i32>"), number)];
        init.extend(self.nothing());
        let types: Vec<_> = init.iter().map(ValueLike::r#type).collect();
        let n = self.extents[1];
        let before = b.region(&types, |b, a| {
            let more = b.map(&[], b.i1(), &[(a[0], &[])], |b, a| b.cmpi("slt", a[0], b.cint(i32, n)));
            let mut operands = vec![b.extract(more, &[])];
            operands.extend(a);
            b.op("scf.condition", &operands, &[], &[], vec![]);
        });
        let mut failed = None;
        let after = b.region(&types, |b, a| {
            let next = b.map(&[], i32, &[(a[0], &[])], |b, a| b.addi(a[0], b.cint(i32, 1)));
            let mut yielded = vec![next];
            match step(self, b, a[0], &Val::of(&a[1..])) {
                Ok(v) => yielded.extend(v.parts()),
                Err(r) => {
                    failed = Some(r);
                    yielded.extend(&a[1..]);
                }
            }
            b.op("scf.yield", &yielded, &[], &[], vec![]);
        });
        let done = results(b.op("scf.while", &init, &types, &[], vec![before, after]));
        failed.map_or(Ok(Val::of(&done[1..])), Err)
    }
    /// The sum over k of what `f` says for each element of `out`, as complex if need be.
    fn sum(
        &self,
        b: &B<'c>,
        number: V<'c>,
        out: &[i64],
        f: impl Fn(&B<'c>, V<'c>, V<'c>) -> Result<Val<'c>, Refusal>,
    ) -> Result<Val<'c>, Refusal> {
        let t = element(b, self.d);
        let n = out.len();
        let mut failed = None;
        let parts: Vec<V> = (0..if self.d.is_complex() { 2 } else { 1 })
            .map(|part| {
                let own: Vec<usize> = (0..n).collect();
                let bounds = b.empty(&[self.extents[1]], t);
                let ins = [(number, b.projection(n + 1, &[])), (bounds, b.projection(n + 1, &[n]))];
                let outs = [(b.fill(zero(b, t), out), b.projection(n + 1, &own))];
                let op = b.generic(&("p".repeat(n) + "r"), &ins, &outs, |b, a| {
                    let i = b.op1("arith.index_cast", &[a[0]], b.index(), &[]);
                    match f(b, i, b.loop_index(n as i64)) {
                        Ok(v) => vec![b.addf(a[2], v.parts()[part])],
                        Err(r) => {
                            failed = Some(r);
                            vec![a[2]]
                        }
                    }
                });
                result(op, 0)
            })
            .collect();
        failed.map_or(Ok(Val::of(&parts)), Err)
    }
    /// `into` with row or column `place` (a rank-0 tensor) of dimension `dim` by element. `f` gets the number of the step
    /// as an index, and where in the row or column it is.
    fn put(
        &self,
        b: &B<'c>,
        number: V<'c>,
        (dim, place): (usize, V<'c>),
        into: &Val<'c>,
        f: impl Fn(&B<'c>, V<'c>, [V<'c>; 2]) -> Result<Val<'c>, Refusal>,
    ) -> Result<Val<'c>, Refusal> {
        let mut extents = self.extents;
        extents[dim] = 1;
        let line = super::elementwise::map(b, &extents, self.d, &[Val::One(number)], |b, a| {
            let i = b.op1("arith.index_cast", &[a[0].one()], b.index(), &[]);
            f(b, i, [0, 3 - dim as i64].map(|d| b.loop_index(d)))
        })?;
        let origin = b.constant(b.attr("dense<0> : tensor<i32>"), place.r#type());
        let parts: Vec<V> = into
            .parts()
            .iter()
            .zip(line.parts())
            .map(|(whole, line)| {
                let mut operands = vec![*whole, line, origin, origin, origin];
                operands[2 + dim] = place;
                b.op1("zml.dynamic_update_slice", &operands, whole.r#type(), &[])
            })
            .collect();
        Ok(Val::of(&parts))
    }
}
fn read<'c>(b: &B<'c>, x: &Val<'c>, at: &[V<'c>]) -> Val<'c> {
    x.each(|v| b.extract(v, at))
}
fn conj<'c>(b: &B<'c>, x: &Val<'c>) -> Val<'c> {
    match x {
        Val::Complex(re, im) => Val::Complex(*re, b.same("arith.negf", &[*im])),
        x => x.clone(),
    }
}
/// `[batch, n, m]` of a tensor, and with the last two dimensions swapped if asked for.
fn matrices<'c>(b: &B<'c>, x: &Val<'c>, swap: bool) -> (Val<'c>, [i64; 3]) {
    let s = shape(x.parts()[0].r#type());
    let (n, m) = (s[s.len() - 2], s[s.len() - 1]);
    let batch: i64 = s[..s.len() - 2].iter().product();
    let flat = x.each(|v| b.reshape(v, &[batch, n, m]));
    if swap {
        (flat.each(|v| broadcast(b, v, &[batch, m, n], &[0, 2, 1])), [batch, m, n])
    } else {
        (flat, [batch, n, m])
    }
}
/// The type to compute in: floats below 32 bits are converted around the whole.
fn widened<'c>(
    cx: &Cx<'_, '_, 'c>,
    f: impl FnOnce(&[Val<'c>], DType) -> Result<Val<'c>, Refusal>,
) -> Result<Val<'c>, Refusal> {
    let (d, w) = (cx.dtype(0), scalar::wide(cx.dtype(0)));
    if d == w {
        return f(&cx.args(), d);
    }
    let to = |v: &Val<'c>, from, to| {
        let s = shape(v.parts()[0].r#type());
        super::elementwise::map(&cx.b, &s, to, std::slice::from_ref(v), |b, a| scalar::convert(b, from, to, &a[0]))
    };
    let args = cx.args().iter().map(|v| to(v, d, w)).collect::<Result<Vec<_>, _>>()?;
    to(&f(&args, w)?, w, d)
}

/// A = L L^H by columns: s = A[:, j] - L L[j, :]^H, then L[:, j] = s / sqrt(s[j]) from the diagonal on.
pub(super) fn cholesky<'c>(cx: &Cx<'_, '_, 'c>, lower: bool) -> Result<Val<'c>, Refusal> {
    widened(cx, |args, d| factor(&cx.b, &args[0], d, lower, &cx.out_shape()))
}
fn factor<'c>(b: &B<'c>, a: &Val<'c>, d: DType, lower: bool, out: &[i64]) -> Result<Val<'c>, Refusal> {
    // Of an upper triangle, the conjugate transpose is the lower one.
    let (a, extents) = matrices(b, a, !lower);
    let a = if lower { a } else { conj_all(b, d, &extents, &a)? };
    let s = Solve { b, d, extents };
    let l = s.steps(|s, b, number, l| {
        let column = s.sum(b, number, &extents[..2], |b, j, k| {
            let (batch, i) = (b.loop_index(0), b.loop_index(1));
            let other = conj(b, &read(b, l, &[batch, j, k]));
            s.binary(b, BinaryOp::Multiply, &read(b, l, &[batch, i, k]), &other)
        })?;
        s.put(b, number, (2, number), l, |b, j, [batch, i]| {
            let at = |i: V<'c>| {
                s.binary(b, BinaryOp::Subtract, &read(b, &a, &[batch, i, j]), &read(b, &column, &[batch, i]))
            };
            let diagonal = at(j)?.parts()[0];
            let root = b.same("math.sqrt", &[diagonal]);
            let positive = b.cmpf("ogt", diagonal, b.cfloat(element(b, d), 0.0));
            let root = b.select(positive, root, b.cfloat(element(b, d), f64::NAN));
            let quotient = at(i)?.each(|v| b.same("arith.divf", &[v, root]));
            let nil = zero(b, element(b, d));
            let is_complex = quotient.parts().len() == 2;
            let root = if is_complex { Val::Complex(root, nil) } else { Val::One(root) };
            let below = scalar::select(b, b.cmpi("eq", i, j), &root, &quotient);
            let in_triangle = b.cmpi("uge", i, j);
            Ok(below.each(|v| b.select(in_triangle, v, nil)))
        })
    })?;
    // NaN on the diagonal: the matrix is not positive definite and all of the triangle is NaN. Every later column of the last
    // row has met it.
    let n = extents[1];
    let failed = |b: &B<'c>, batch: V<'c>| {
        let last = b.cidx(n - 1);
        let x = read(b, &l, &[batch, last, last]).parts()[0];
        b.cmpf("uno", x, x)
    };
    let checked = super::elementwise::map(b, &extents, d, std::slice::from_ref(&l), |b, v| {
        let [batch, i, k] = [0, 1, 2].map(|d| b.loop_index(d));
        let nan = b.cfloat(element(b, d), f64::NAN);
        let in_triangle = b.cmpi("uge", i, k);
        let spoiled = b.same("arith.andi", &[failed(b, batch), in_triangle]);
        Ok(v[0].each(|x| b.select(spoiled, nan, x)))
    })?;
    if lower {
        return Ok(checked.each(|v| b.reshape(v, out)));
    }
    let upper = conj_all(b, d, &extents, &checked)?;
    Ok(upper.each(|v| b.reshape(broadcast(b, v, &extents, &[0, 2, 1]), out)))
}
fn conj_all<'c>(b: &B<'c>, d: DType, extents: &[i64; 3], x: &Val<'c>) -> Result<Val<'c>, Refusal> {
    if !d.is_complex() {
        return Ok(x.clone());
    }
    super::elementwise::map(b, extents, d, std::slice::from_ref(x), |b, a| Ok(conj(b, &a[0])))
}

/// op(A) X = B by rows in the order of dependence; X op(A) = B is op(A)^T X^T = B^T.
pub(super) fn triangular<'c>(
    cx: &Cx<'_, '_, 'c>,
    left: bool,
    lower: bool,
    unit: bool,
    transpose: &str,
) -> Result<Val<'c>, Refusal> {
    let form = Form { left, lower, unit, adjoint: transpose == "ADJOINT", transposed: transpose == "TRANSPOSE" };
    widened(cx, |args, d| form.solve(&cx.b, args, d, &cx.out_shape()))
}
/// How A stands in the equation.
struct Form {
    left: bool,
    lower: bool,
    unit: bool,
    adjoint: bool,
    transposed: bool,
}
impl Form {
    fn solve<'c>(&self, b: &B<'c>, args: &[Val<'c>], d: DType, out: &[i64]) -> Result<Val<'c>, Refusal> {
        let Form { left, lower, unit, .. } = *self;
        let transposed = self.transposed || self.adjoint;
        let (a, a_extents) = matrices(b, &args[0], transposed == left);
        let a = if self.adjoint { conj_all(b, d, &a_extents, &a)? } else { a };
        let (rhs, extents) = matrices(b, &args[1], !left);
        let forward = lower != (transposed == left);
        let n = extents[1];
        let s = Solve { b, d, extents };
        let x = s.steps(|s, b, number, x| {
            // The row that is solved in a step.
            let row = |b: &B<'c>, i: V<'c>| if forward { i } else { b.same("arith.subi", &[b.cidx(n - 1), i]) };
            let known = s.sum(b, number, &[extents[0], extents[2]], |b, i, k| {
                let (batch, column, i) = (b.loop_index(0), b.loop_index(1), row(b, i));
                let product =
                    s.binary(b, BinaryOp::Multiply, &read(b, &a, &[batch, i, k]), &read(b, x, &[batch, k, column]))?;
                // The other triangle of A may hold anything.
                let solved = b.cmpi(if forward { "ult" } else { "ugt" }, k, i);
                let nil = zero(b, element(b, d));
                Ok(product.each(|v| b.select(solved, v, nil)))
            })?;
            let i32 = b.i(32);
            let place = if forward {
                number
            } else {
                b.map(&[], i32, &[(number, &[])], |b, a| b.same("arith.subi", &[b.cint(i32, n - 1), a[0]]))
            };
            s.put(b, number, (1, place), x, |b, i, [batch, column]| {
                let i = row(b, i);
                let rest = s.binary(
                    b,
                    BinaryOp::Subtract,
                    &read(b, &rhs, &[batch, i, column]),
                    &read(b, &known, &[batch, column]),
                )?;
                if unit { Ok(rest) } else { s.binary(b, BinaryOp::Divide, &rest, &read(b, &a, &[batch, i, i])) }
            })
        })?;
        Ok(x.each(|v| {
            if left {
                b.reshape(v, out)
            } else {
                b.reshape(broadcast(b, v, &[extents[0], extents[2], extents[1]], &[0, 2, 1]), out)
            }
        }))
    }
}
