//! LU decomposition with partial pivoting, as LAPACK's getrf, and pivots to permutations. Matrices are `[b, m, n]`.

use crate::builder::Builder;
use crate::tree::{BinaryOp, DType, Direction, Func, UnaryOp, ValueId};

/// The factors in one matrix, the row that each was swapped with (from 1, of `[b, min(m, n)]`), and for each matrix 0 or
/// the first column (from 1) without a pivot.
pub(super) fn decompose(name: String, dtype: DType, [b, m, n]: [u64; 3]) -> Func {
    let mut f = Builder::new();
    let a = f.argument(dtype, &[b, m, n]);
    let steps = m.min(n);
    let pivots = f.splat(DType::I32, &[b, steps], 0.0);
    let info = f.splat(DType::I32, &[b], 0.0);
    let out = f.count(steps, vec![a, pivots, info], |f, k, v| step(f, k, v, [b, m, n]));
    f.finish(name, out)
}

fn step(f: &mut Builder, k: ValueId, v: &[ValueId], [b, m, n]: [u64; 3]) -> Vec<ValueId> {
    let [a, pivots, info] = *v else { unreachable!("three values are carried") };
    let rows = f.iota(&[b, m], 1);
    let k_rows = f.spread(k, &[], &[b, m]);
    let column = f.at(a, 2, k);
    // The pivot: the largest of the rows that are left, in the norm that LAPACK takes.
    let size = size(f, column);
    let left = f.compare(Direction::Ge, rows, k_rows);
    let below = f.like(size, -1.0);
    let size = f.select(left, size, below);
    let found = f.largest(size);
    // Beside NaN, nothing is the largest.
    let (none, k_each) = (f.splat(DType::I32, &[b], m as f64), f.spread(k, &[], &[b]));
    let found_one = f.compare(Direction::Lt, found, none);
    let p = f.select(found_one, found, k_each);
    // Rows k and p change places.
    let p_rows = f.spread(p, &[0], &[b, m]);
    let (at_k, at_p) = (f.compare(Direction::Eq, rows, k_rows), f.compare(Direction::Eq, rows, p_rows));
    let (at_k, at_p) = (f.spread(at_k, &[0, 1], &[b, m, n]), f.spread(at_p, &[0, 1], &[b, m, n]));
    let row_k = f.at(a, 1, k);
    let only_p = f.keep(at_p, a);
    let row_p = f.sum(only_p, &[1]);
    let (new_k, new_p) = (f.spread(row_p, &[0, 2], &[b, m, n]), f.spread(row_k, &[0, 2], &[b, m, n]));
    let a = f.select(at_p, new_p, a);
    let a = f.select(at_k, new_k, a);
    // Multipliers below the pivot, and the rest less what the pivot's row takes away.
    let column = f.at(a, 2, k);
    let pivot = f.at(row_p, 1, k);
    let zero = f.like(pivot, 0.0);
    let singular = f.compare(Direction::Eq, pivot, zero);
    let one = f.like(pivot, 1.0);
    let divisor = f.select(singular, one, pivot);
    let divisor = f.spread(divisor, &[0], &[b, m]);
    let quotient = f.div(column, divisor);
    let under = f.compare(Direction::Gt, rows, k_rows);
    let multipliers = f.keep(under, quotient);
    let columns = f.iota(&[b, n], 1);
    let k_columns = f.spread(k, &[], &[b, n]);
    let right = f.compare(Direction::Gt, columns, k_columns);
    let u = f.keep(right, row_p);
    let (l3, u3) = (f.spread(multipliers, &[0, 1], &[b, m, n]), f.spread(u, &[0, 2], &[b, m, n]));
    let product = f.mul(l3, u3);
    let rest = f.sub(a, product);
    let (under, right) = (f.spread(under, &[0, 1], &[b, m, n]), f.spread(right, &[0, 2], &[b, m, n]));
    let trailing = f.and(under, right);
    let a = f.select(trailing, rest, a);
    let here = f.compare(Direction::Eq, columns, k_columns);
    let here = f.spread(here, &[0, 2], &[b, m, n]);
    let here = f.and(here, under);
    let a = f.select(here, l3, a);
    // What was done.
    let steps = m.min(n);
    let numbers = f.iota(&[b, steps], 1);
    let k_numbers = f.spread(k, &[], &[b, steps]);
    let now = f.compare(Direction::Eq, numbers, k_numbers);
    let one = f.like(p, 1.0);
    let (from_one, k_one) = (f.add(p, one), f.add(k_each, one));
    let row = f.spread(from_one, &[0], &[b, steps]);
    let pivots = f.select(now, row, pivots);
    let fine = f.like(info, 0.0);
    let first = f.compare(Direction::Eq, info, fine);
    let first = f.and(first, singular);
    let info = f.select(first, k_one, info);
    vec![a, pivots, info]
}

/// `|x|`, or of complex numbers `|re x| + |im x|`.
fn size(f: &mut Builder, x: ValueId) -> ValueId {
    if !f.dtype(x).is_complex() {
        return f.unary(UnaryOp::Abs, x);
    }
    let (re, im) = (f.unary(UnaryOp::Real, x), f.unary(UnaryOp::Imag, x));
    let (re, im) = (f.unary(UnaryOp::Abs, re), f.unary(UnaryOp::Abs, im));
    f.binary(BinaryOp::Add, re, im)
}

/// The rows' order after the swaps that `[b, k]` pivots (from 0) say, of `[b, n]`.
pub(super) fn permutation(name: String, [b, k, n]: [u64; 3]) -> Func {
    let mut f = Builder::new();
    let pivots = f.argument(DType::I32, &[b, k]);
    let start = f.iota(&[b, n], 1);
    let out = f.count(k, vec![start, pivots], |f, i, v| {
        let [order, pivots] = *v else { unreachable!("two values are carried") };
        let j = f.at(pivots, 1, i);
        let numbers = f.iota(&[b, n], 1);
        let (i_all, j_all) = (f.spread(i, &[], &[b, n]), f.spread(j, &[0], &[b, n]));
        let (at_i, at_j) = (f.compare(Direction::Eq, numbers, i_all), f.compare(Direction::Eq, numbers, j_all));
        let (only_i, only_j) = (f.keep(at_i, order), f.keep(at_j, order));
        let (x, y) = (f.sum(only_i, &[1]), f.sum(only_j, &[1]));
        let (x, y) = (f.spread(x, &[0], &[b, n]), f.spread(y, &[0], &[b, n]));
        let swapped = f.select(at_j, x, order);
        let swapped = f.select(at_i, y, swapped);
        vec![swapped, pivots]
    });
    f.finish(name, vec![out[0]])
}
