//! QR decomposition by Householder reflectors, as LAPACK's geqrf and orgqr. Matrices are `[b, m, n]`.

use crate::builder::Builder;
use crate::tree::{BinaryOp, DType, Direction, Func, UnaryOp, ValueId};

/// R on and above the diagonal, the reflectors' vectors below it, and their factors, `[b, min(m, n)]`.
pub(super) fn decompose(name: String, dtype: DType, shape: [u64; 3]) -> Func {
    let mut f = Builder::new();
    let a = f.argument(dtype, &shape);
    let out = reflectors(&mut f, a);
    f.finish(name, out)
}

/// The first `columns` columns of the product of reflectors, in place of the matrix that holds them.
pub(super) fn product(name: String, dtype: DType, shape: [u64; 3], taus: u64) -> Func {
    let mut f = Builder::new();
    let a = f.argument(dtype, &shape);
    let t = f.argument(dtype, &[shape[0], taus]);
    let out = orthogonal(&mut f, a, t, shape[2]);
    f.finish(name, vec![out])
}

/// Matrix and factors as in `decompose`.
pub(super) fn reflectors(f: &mut Builder, a: ValueId) -> Vec<ValueId> {
    let [b, m, n] = f.shape(a)[..] else { unreachable!("matrices have three dimensions here") };
    let steps = m.min(n);
    let taus = f.splat(f.dtype(a), &[b, steps], 0.0);
    f.count(steps, vec![a, taus], |f, k, v| {
        let [a, taus] = *v else { unreachable!("two values are carried") };
        let d = f.dtype(a);
        let rows = f.iota(&[b, m], 1);
        let k_rows = f.spread(k, &[], &[b, m]);
        let under = f.compare(Direction::Gt, rows, k_rows);
        let here = f.compare(Direction::Eq, rows, k_rows);
        let column = f.at(a, 2, k);
        let alpha = f.at(column, 1, k);
        let x = f.keep(under, column);
        let Reflector { beta, tau, scale } = reflector(f, alpha, x);
        let scale = f.spread(scale, &[0], &[b, m]);
        let tail = f.mul(x, scale);
        // v = (0, ..., 1, x / (alpha - beta)); the columns to the right become H^H a = a - conj(tau) v (v^H a).
        let ones = f.like(tail, 1.0);
        let head = f.keep(here, ones);
        let whole = f.add(head, tail);
        let columns = f.iota(&[b, n], 1);
        let k_columns = f.spread(k, &[], &[b, n]);
        let right = f.compare(Direction::Gt, columns, k_columns);
        let conj_tau = f.conj(tau);
        let a = reflect(f, a, whole, conj_tau, right);
        // Column k becomes (..., beta, tail).
        let beta = f.widen(beta, d);
        let beta = f.spread(beta, &[0], &[b, m]);
        let column = f.select(here, beta, column);
        let column = f.select(under, tail, column);
        let column = f.spread(column, &[0, 1], &[b, m, n]);
        let now = f.compare(Direction::Eq, columns, k_columns);
        let now = f.spread(now, &[0, 2], &[b, m, n]);
        let a = f.select(now, column, a);
        let numbers = f.iota(&[b, steps], 1);
        let k_numbers = f.spread(k, &[], &[b, steps]);
        let now = f.compare(Direction::Eq, numbers, k_numbers);
        let tau = f.spread(tau, &[0], &[b, steps]);
        let taus = f.select(now, tau, taus);
        vec![a, taus]
    })
}

struct Reflector {
    /// Real; what takes the place of alpha.
    beta: ValueId,
    tau: ValueId,
    /// What the rest of the column is multiplied with.
    scale: ValueId,
}

/// The reflector that takes (alpha, x) to (beta, 0): tau is 0 where x is 0 and alpha real.
fn reflector(f: &mut Builder, alpha: ValueId, x: ValueId) -> Reflector {
    let d = f.dtype(alpha);
    // The norm of numbers that the largest brings below 1, so that no square leaves the range.
    let sizes = f.unary(UnaryOp::Abs, x);
    let size_alpha = f.unary(UnaryOp::Abs, alpha);
    let most = f.reduce(BinaryOp::Maximum, 0.0, sizes, &[1]);
    let most = f.binary(BinaryOp::Maximum, most, size_alpha);
    let (zero, one) = (f.like(most, 0.0), f.like(most, 1.0));
    let nothing = f.compare(Direction::Eq, most, zero);
    let unit = f.select(nothing, one, most);
    let shape = f.shape(x);
    let units = f.spread(unit, &[0], &shape);
    let scaled = f.div(sizes, units);
    let squares = f.mul(scaled, scaled);
    let rest = f.sum(squares, &[1]);
    let scaled = f.div(size_alpha, unit);
    let square = f.mul(scaled, scaled);
    let all = f.add(rest, square);
    let norm = f.unary(UnaryOp::Sqrt, all);
    let norm = f.mul(norm, unit);
    let re = f.real(alpha);
    let negative = f.compare(Direction::Lt, re, zero);
    let minus = f.unary(UnaryOp::Negate, norm);
    let beta = f.select(negative, norm, minus);
    let any = f.reduce(BinaryOp::Maximum, 0.0, sizes, &[1]);
    let mut done = f.compare(Direction::Eq, any, zero);
    if d.is_complex() {
        let im = f.unary(UnaryOp::Imag, alpha);
        let real = f.compare(Direction::Eq, im, zero);
        done = f.and(done, real);
    }
    let beta = f.select(done, re, beta);
    // (beta - alpha) / beta, its imaginary part -im / beta.
    let wide = f.widen(beta, d);
    let (zero, one) = (f.like(alpha, 0.0), f.like(alpha, 1.0));
    let divisor = f.select(done, one, wide);
    let difference = f.sub(wide, alpha);
    let tau = f.div(difference, divisor);
    let tau = f.select(done, zero, tau);
    let difference = f.sub(alpha, wide);
    let divisor = f.select(done, one, difference);
    let scale = f.div(one, divisor);
    Reflector { beta, tau, scale }
}

/// `a - tau v (v^H a)` in the columns `where_`, `[b, n]`.
fn reflect(f: &mut Builder, a: ValueId, v: ValueId, tau: ValueId, where_: ValueId) -> ValueId {
    let shape = f.shape(a);
    let (vc, vs) = (f.conj(v), f.spread(v, &[0, 1], &shape));
    let vc = f.spread(vc, &[0, 1], &shape);
    let product = f.mul(vc, a);
    let row = f.sum(product, &[1]);
    let t = f.spread(tau, &[0], &[shape[0], shape[2]]);
    let row = f.mul(row, t);
    let row = f.spread(row, &[0, 2], &shape);
    let change = f.mul(vs, row);
    let new = f.sub(a, change);
    let p = f.spread(where_, &[0, 2], &shape);
    f.select(p, new, a)
}

/// The first `columns` columns of H_0 H_1 ...; the vectors stand below the diagonal of `a`.
pub(super) fn orthogonal(f: &mut Builder, a: ValueId, taus: ValueId, columns: u64) -> ValueId {
    let [b, m, _] = f.shape(a)[..] else { unreachable!("matrices have three dimensions here") };
    let steps = f.shape(taus)[1];
    let shape = [b, m, columns];
    let (i, j) = (f.iota(&shape, 1), f.iota(&shape, 2));
    let diagonal = f.compare(Direction::Eq, i, j);
    let ones = f.splat(f.dtype(a), &shape, 1.0);
    let identity = f.keep(diagonal, ones);
    if steps == 0 {
        return identity;
    }
    let out = f.count(steps, vec![identity, a, taus], |f, i, v| {
        let [q, a, taus] = *v else { unreachable!("three values are carried") };
        let last = f.splat(DType::I32, &[], steps as f64 - 1.0);
        let k = f.sub(last, i);
        let column = f.at(a, 2, k);
        let tau = f.at(taus, 1, k);
        let rows = f.iota(&[b, m], 1);
        let k_rows = f.spread(k, &[], &[b, m]);
        let under = f.compare(Direction::Gt, rows, k_rows);
        let here = f.compare(Direction::Eq, rows, k_rows);
        let ones = f.like(column, 1.0);
        let (tail, head) = (f.keep(under, column), f.keep(here, ones));
        let whole = f.add(head, tail);
        let numbers = f.iota(&[b, columns], 1);
        let every = f.compare(Direction::Eq, numbers, numbers);
        let q = reflect(f, q, whole, tau, every);
        vec![q, a, taus]
    });
    out[0]
}
