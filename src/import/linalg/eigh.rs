//! Eigenvalues and -vectors of Hermitian matrices, and singular values, by Jacobi rotations of n/2 disjoint pairs at a
//! time. The halves of the rows (and columns) are the pairs; a round-robin turn between steps lets each row meet each
//! other once in a sweep of n - 1 steps and come back to its place.

use super::{builder::Builder, qr};
use crate::tree::{BinaryOp, DType, Direction, Func, UnaryOp, ValueId};

/// Sweeps after which a matrix is as diagonal as it gets; convergence is quadratic and takes fewer than 15.
const SWEEPS: u64 = 30;

fn epsilon(d: DType) -> f64 {
    if d.real() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) }
}

/// The vectors as columns of `[b, n, n]` and the values, ascending, of `[b, n]`. One triangle of the argument is read.
pub(super) fn eigenvalues(name: String, dtype: DType, [b, n]: [u64; 2], lower: bool) -> Func {
    let mut f = Builder::new();
    let a = f.argument(dtype, &[b, n, n]);
    let a = hermitian(&mut f, a, lower);
    let even = n.next_multiple_of(2).max(2);
    let (a, v) = (padded(&mut f, a, even), identity(&mut f, dtype, b, even));
    let h = even / 2;
    let quarter = |f: &mut Builder, x: ValueId| -> Vec<ValueId> {
        let (top, bottom) = (f.slice(x, 1, 0, h), f.slice(x, 1, h, even));
        vec![f.slice(top, 2, 0, h), f.slice(top, 2, h, even), f.slice(bottom, 2, 0, h), f.slice(bottom, 2, h, even)]
    };
    let mut state = quarter(&mut f, a);
    let halves = [f.slice(v, 1, 0, h), f.slice(v, 1, h, even)];
    state.extend(halves);
    let sizes = f.unary(UnaryOp::Abs, a);
    let most = f.reduce(BinaryOp::Maximum, 0.0, sizes, &[1, 2]);
    let eps = f.like(most, epsilon(dtype) / 8.0);
    let small = f.mul(most, eps);
    let out = sweeps(
        &mut f,
        state,
        even - 1,
        // Something off the diagonal is not yet small.
        |f, v| {
            let off = off_diagonal(f, v);
            let more = f.compare(Direction::Gt, off, small);
            f.reduce(BinaryOp::Or, 0.0, more, &[0])
        },
        rotate_both,
    );
    let (first, second) = (diagonal(&mut f, out[0]), diagonal(&mut f, out[3]));
    let w = f.concatenate(&[first, second], 1);
    let v = f.concatenate(&[out[4], out[5]], 1);
    let (w, v) = (f.slice(w, 1, 0, n), f.slice(v, 1, 0, n));
    let v = f.slice(v, 2, 0, n);
    // Rows of v are the conjugates of the vectors.
    let v = f.conj(v);
    let v = f.transpose(v, &[0, 2, 1]);
    let w = f.real(w);
    let keys = f.spread(w, &[0, 2], &[b, n, n]);
    let (keys, v) = f.sort(true, keys, v);
    let w = f.slice(keys, 1, 0, 1);
    let w = f.reshape(w, &[b, n]);
    f.finish(name, vec![v, w])
}

/// U, the singular values, descending, V^H and V. `full`: all columns of U and rows of V^H.
pub(super) fn singular_values(name: String, dtype: DType, [b, m, n]: [u64; 3], full: bool) -> Func {
    let mut f = Builder::new();
    let a = f.argument(dtype, &[b, m, n]);
    // The rows that are made orthogonal are the fewer ones: of A if it is wide, else of A^H.
    let wide = m < n;
    let a = if wide { a } else { adjoint(&mut f, a) };
    let (small, large) = (m.min(n), m.max(n));
    let even = small.next_multiple_of(2).max(2);
    let a = f.pad(a, 1, even);
    let v = identity(&mut f, dtype, b, even);
    let h = even / 2;
    let state = vec![f.slice(a, 1, 0, h), f.slice(a, 1, h, even), f.slice(v, 1, 0, h), f.slice(v, 1, h, even)];
    // Sums of `large` products are known to about this.
    let limit = f.splat(dtype.real(), &[], epsilon(dtype) * (4.0 + (large as f64).sqrt()));
    let out = sweeps(
        &mut f,
        state,
        even - 1,
        |f, v| {
            let far = cosine(f, v);
            f.compare(Direction::Gt, far, limit)
        },
        rotate_rows,
    );
    // Now `a = q^H r` with orthogonal rows in `r`, and `q` unitary.
    let (r, q) = (f.concatenate(&out[..2], 1), f.concatenate(&out[2..], 1));
    let (r, q) = (f.slice(r, 1, 0, small), f.slice(q, 1, 0, small));
    let q = f.slice(q, 2, 0, small);
    let lengths = norms(&mut f, r);
    // Columns instead of rows, sorted by their lengths.
    let (r, q) = (adjoint(&mut f, r), adjoint(&mut f, q));
    let by_r = f.spread(lengths, &[0, 2], &[b, large, small]);
    let by_q = f.spread(lengths, &[0, 2], &[b, small, small]);
    let (_, r) = f.sort(false, by_r, r);
    let (_, q) = f.sort(false, by_q, q);
    // r = X R with R diagonal up to its signs: X is orthogonal even where singular values are 0.
    let packed = qr::reflectors(&mut f, r);
    let columns = if full { large } else { small };
    let x = qr::orthogonal(&mut f, packed[0], packed[1], columns);
    let top = f.slice(packed[0], 1, 0, small);
    let d = diagonal(&mut f, top);
    let s = f.unary(UnaryOp::Abs, d);
    let d = f.real(d);
    let zero = f.like(d, 0.0);
    let negative = f.compare(Direction::Lt, d, zero);
    let (plus, minus) = (f.like(d, 1.0), f.like(d, -1.0));
    let signs = f.select(negative, minus, plus);
    let signs = f.widen(signs, dtype);
    let signs = f.spread(signs, &[0, 2], &[b, small, small]);
    let q = f.mul(q, signs);
    let (u, v) = if wide { (q, x) } else { (x, q) };
    let vh = adjoint(&mut f, v);
    f.finish(name, vec![u, s, vh, v])
}

fn adjoint(f: &mut Builder, x: ValueId) -> ValueId {
    let x = f.conj(x);
    f.transpose(x, &[0, 2, 1])
}

/// The matrix that one triangle says.
fn hermitian(f: &mut Builder, a: ValueId, lower: bool) -> ValueId {
    let shape = f.shape(a);
    let (i, j) = (f.iota(&shape, 1), f.iota(&shape, 2));
    let said = f.compare(if lower { Direction::Ge } else { Direction::Le }, i, j);
    let other = adjoint(f, a);
    let a = f.select(said, a, other);
    if !f.dtype(a).is_complex() {
        return a;
    }
    let on = f.compare(Direction::Eq, i, j);
    let re = f.real(a);
    let re = f.widen(re, f.dtype(a));
    f.select(on, re, a)
}

fn padded(f: &mut Builder, a: ValueId, n: u64) -> ValueId {
    let a = f.pad(a, 1, n);
    f.pad(a, 2, n)
}

fn identity(f: &mut Builder, d: DType, b: u64, n: u64) -> ValueId {
    let (i, j) = (f.iota(&[b, n, n], 1), f.iota(&[b, n, n], 2));
    let on = f.compare(Direction::Eq, i, j);
    let ones = f.splat(d, &[b, n, n], 1.0);
    f.keep(on, ones)
}

/// The diagonal of `[b, n, n]`.
fn diagonal(f: &mut Builder, x: ValueId) -> ValueId {
    let shape = f.shape(x);
    let (i, j) = (f.iota(&shape, 1), f.iota(&shape, 2));
    let on = f.compare(Direction::Eq, i, j);
    let only = f.keep(on, x);
    f.sum(only, &[2])
}

/// Euclidean lengths of the rows, `[b, n]`.
fn norms(f: &mut Builder, x: ValueId) -> ValueId {
    let sizes = f.unary(UnaryOp::Abs, x);
    let shape = f.shape(sizes);
    let most = f.reduce(BinaryOp::Maximum, 0.0, sizes, &[2]);
    let (zero, one) = (f.like(most, 0.0), f.like(most, 1.0));
    let nothing = f.compare(Direction::Eq, most, zero);
    let unit = f.select(nothing, one, most);
    let units = f.spread(unit, &[0, 1], &shape);
    let scaled = f.div(sizes, units);
    let squares = f.mul(scaled, scaled);
    let sum = f.sum(squares, &[2]);
    let root = f.unary(UnaryOp::Sqrt, sum);
    f.mul(root, unit)
}

/// The largest size off the diagonal of each matrix, which is in quarters.
fn off_diagonal(f: &mut Builder, v: &[ValueId]) -> ValueId {
    let shape = f.shape(v[0]);
    let (i, j) = (f.iota(&shape, 1), f.iota(&shape, 2));
    let off = f.compare(Direction::Ne, i, j);
    let sizes: Vec<ValueId> = v[..4].iter().map(|x| f.unary(UnaryOp::Abs, *x)).collect();
    let (a, d) = (f.keep(off, sizes[0]), f.keep(off, sizes[3]));
    let x = f.binary(BinaryOp::Maximum, a, sizes[1]);
    let y = f.binary(BinaryOp::Maximum, sizes[2], d);
    let x = f.binary(BinaryOp::Maximum, x, y);
    f.reduce(BinaryOp::Maximum, 0.0, x, &[1, 2])
}

/// Sweeps of `steps` steps each, while `more` says so.
fn sweeps(
    f: &mut Builder,
    state: Vec<ValueId>,
    steps: u64,
    more: impl FnOnce(&mut Builder, &[ValueId]) -> ValueId,
    step: impl FnOnce(&mut Builder, &[ValueId]) -> Vec<ValueId>,
) -> Vec<ValueId> {
    let zero = f.splat(DType::I32, &[], 0.0);
    let mut out = f.repeat(
        [vec![zero], state].concat(),
        |f, v| {
            let most = f.splat(DType::I32, &[], SWEEPS as f64);
            let few = f.compare(Direction::Lt, v[0], most);
            let more = more(f, &v[1..]);
            f.and(few, more)
        },
        |f, v| {
            let one = f.splat(DType::I32, &[], 1.0);
            let next = f.add(v[0], one);
            let state = f.count(steps, v[1..].to_vec(), |f, _, v| step(f, v));
            [vec![next], state].concat()
        },
    );
    out.remove(0);
    out
}

/// A rotation of each pair: (x, y) -> (c x - s w y, s x + c w y) takes [p, r; conj r, q] to a diagonal.
struct Rotation {
    c: ValueId,
    s: ValueId,
    /// The phase of r; its sign, and so 1, if r is real.
    w: Option<ValueId>,
    /// Tangent times |r|: what p loses and q gains.
    shift: ValueId,
}

fn rotation(f: &mut Builder, p: ValueId, r: ValueId, q: ValueId) -> Rotation {
    let d = f.dtype(r);
    let (p, q) = (f.real(p), f.real(q));
    let (zero, one, two) = (f.like(p, 0.0), f.like(p, 1.0), f.like(p, 2.0));
    let (size, w) = if d.is_complex() {
        let size = f.unary(UnaryOp::Abs, r);
        let none = f.compare(Direction::Eq, size, zero);
        let divisor = f.select(none, one, size);
        let divisor = f.widen(divisor, d);
        let phase = f.div(r, divisor);
        let plain = f.like(r, 1.0);
        (size, Some(f.select(none, plain, phase)))
    } else {
        (r, None)
    };
    let none = f.compare(Direction::Eq, size, zero);
    let divisor = f.mul(two, size);
    let divisor = f.select(none, one, divisor);
    let difference = f.sub(q, p);
    let tau = f.div(difference, divisor);
    let positive = f.compare(Direction::Ge, tau, zero);
    let steep = f.unary(UnaryOp::Abs, tau);
    // 1 + tau^2 may overflow; its root is then tau.
    let square = f.mul(tau, tau);
    let sum = f.add(square, one);
    let root = f.unary(UnaryOp::Sqrt, sum);
    let t = f.add(steep, root);
    let t = f.div(one, t);
    let minus = f.unary(UnaryOp::Negate, t);
    let t = f.select(positive, t, minus);
    let t = f.select(none, zero, t);
    let square = f.mul(t, t);
    let sum = f.add(square, one);
    let c = f.unary(UnaryOp::Rsqrt, sum);
    let s = f.mul(t, c);
    let shift = f.mul(t, size);
    Rotation { c, s, w, shift }
}

impl Rotation {
    /// Applied to rows (`dim` 1) or, conjugated, to columns (`dim` 2) of `x` and `y`.
    fn apply(&self, f: &mut Builder, x: ValueId, y: ValueId, dim: u64) -> (ValueId, ValueId) {
        let shape = f.shape(x);
        let d = f.dtype(x);
        let over = |f: &mut Builder, v: ValueId| {
            let v = f.widen(v, d);
            f.spread(v, &[0, dim], &shape)
        };
        let (c, s) = (over(f, self.c), over(f, self.s));
        let y = match self.w {
            Some(w) => {
                let w = if dim == 2 { f.conj(w) } else { w };
                let w = over(f, w);
                f.mul(w, y)
            }
            None => y,
        };
        let (cx, sy) = (f.mul(c, x), f.mul(s, y));
        let (sx, cy) = (f.mul(s, x), f.mul(c, y));
        (f.sub(cx, sy), f.add(sx, cy))
    }
}

/// One step of `eigenvalues`: A becomes J^H A J, and the rows of V^H turn with it.
fn rotate_both(f: &mut Builder, v: &[ValueId]) -> Vec<ValueId> {
    let [a, r, l, q, top, bottom] = *v else { unreachable!("six values are carried") };
    let (p, apq, aqq) = (diagonal(f, a), diagonal(f, r), diagonal(f, q));
    let turn = rotation(f, p, apq, aqq);
    let (a, l) = turn.apply(f, a, l, 1);
    let (r, q) = turn.apply(f, r, q, 1);
    let (a, r) = turn.apply(f, a, r, 2);
    let (l, q) = turn.apply(f, l, q, 2);
    let (top, bottom) = turn.apply(f, top, bottom, 1);
    // What is known of the result is put there exactly.
    let shape = f.shape(a);
    let (i, j) = (f.iota(&shape, 1), f.iota(&shape, 2));
    let on = f.compare(Direction::Eq, i, j);
    let zero = f.like(a, 0.0);
    let (r, l) = (f.select(on, zero, r), f.select(on, zero, l));
    let d = f.dtype(a);
    let (p, aqq) = (f.real(p), f.real(aqq));
    let (p, aqq) = (f.sub(p, turn.shift), f.add(aqq, turn.shift));
    let (p, aqq) = (f.widen(p, d), f.widen(aqq, d));
    let (p, aqq) = (f.spread(p, &[0, 2], &shape), f.spread(aqq, &[0, 2], &shape));
    let (a, q) = (f.select(on, p, a), f.select(on, aqq, q));
    // The turn, of columns and then of rows.
    let (a, r) = robin(f, a, r, 2);
    let (l, q) = robin(f, l, q, 2);
    let (a, l) = robin(f, a, l, 1);
    let (r, q) = robin(f, r, q, 1);
    let (top, bottom) = robin(f, top, bottom, 1);
    vec![a, r, l, q, top, bottom]
}

/// The largest cosine of an angle between two rows.
fn cosine(f: &mut Builder, v: &[ValueId]) -> ValueId {
    let x = f.concatenate(&v[..2], 1);
    let lengths = norms(f, x);
    let (zero, one) = (f.like(lengths, 0.0), f.like(lengths, 1.0));
    let none = f.compare(Direction::Eq, lengths, zero);
    let lengths = f.select(none, one, lengths);
    let lengths = f.widen(lengths, f.dtype(x));
    let shape = f.shape(x);
    let lengths = f.spread(lengths, &[0, 1], &shape);
    let unit = f.div(x, lengths);
    let other = adjoint(f, unit);
    let products = f.matmul(unit, other);
    let shape = f.shape(products);
    let (i, j) = (f.iota(&shape, 1), f.iota(&shape, 2));
    let off = f.compare(Direction::Ne, i, j);
    let sizes = f.unary(UnaryOp::Abs, products);
    let sizes = f.keep(off, sizes);
    f.reduce(BinaryOp::Maximum, 0.0, sizes, &[0, 1, 2])
}

/// One step of `singular_values`: pairs of rows become orthogonal.
fn rotate_rows(f: &mut Builder, v: &[ValueId]) -> Vec<ValueId> {
    let [x, y, top, bottom] = *v else { unreachable!("four values are carried") };
    let inner = |f: &mut Builder, x: ValueId, y: ValueId| {
        let y = f.conj(y);
        let product = f.mul(x, y);
        f.sum(product, &[2])
    };
    let (p, r, q) = (inner(f, x, x), inner(f, x, y), inner(f, y, y));
    let turn = rotation(f, p, r, q);
    let (x, y) = turn.apply(f, x, y, 1);
    let (top, bottom) = turn.apply(f, top, bottom, 1);
    let (x, y) = robin(f, x, y, 1);
    let (top, bottom) = robin(f, top, bottom, 1);
    vec![x, y, top, bottom]
}

/// The next pairs: all but the first of the upper half move one place on, around through the lower half.
fn robin(f: &mut Builder, x: ValueId, y: ValueId, dim: usize) -> (ValueId, ValueId) {
    let n = f.shape(x)[dim];
    if n == 1 {
        return (x, y);
    }
    let (first, last, from_y) = (f.slice(x, dim, 0, 1), f.slice(x, dim, n - 1, n), f.slice(y, dim, 0, 1));
    let mut upper = vec![first, from_y];
    if n > 2 {
        upper.push(f.slice(x, dim, 1, n - 1));
    }
    let lower = f.slice(y, dim, 1, n);
    (f.concatenate(&upper, dim), f.concatenate(&[lower, last], dim))
}
