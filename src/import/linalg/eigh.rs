//! Eigenvalues and -vectors of Hermitian matrices, and singular values, by Jacobi rotations of n/2 disjoint pairs of rows
//! (and columns) at a time. In round k of a sweep of n - 1 rounds rows i and j are a pair if i + j = k modulo n - 1, and the
//! row that would be its own partner goes with the last: each row meets each other once, and none moves.

use super::qr;
use crate::builder::Builder;
use crate::tree::{BinaryOp, DType, Direction, Func, UnaryOp, ValueId};

/// Sweeps after which a matrix is as diagonal as it gets: convergence is quadratic once it is nearly diagonal, and takes
/// about log2(n) + 4 sweeps.
fn most_sweeps(n: u64) -> u64 {
    10 + u64::from(n.ilog2())
}

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
    let sizes = f.unary(UnaryOp::Abs, a);
    let most = f.reduce(BinaryOp::Maximum, 0.0, sizes, &[1, 2]);
    let eps = f.like(most, epsilon(dtype) / 8.0);
    let small = f.mul(most, eps);
    let out = sweeps(
        &mut f,
        vec![a, v],
        even,
        // Something off the diagonal is not yet small.
        |f, v| {
            let sizes = f.unary(UnaryOp::Abs, v[0]);
            let off = off_diagonal(f, sizes);
            let most = f.reduce(BinaryOp::Maximum, 0.0, off, &[1, 2]);
            let more = f.compare(Direction::Gt, most, small);
            f.reduce(BinaryOp::Or, 0.0, more, &[0])
        },
        rotate_both,
    );
    let w = diagonal(&mut f, out[0]);
    let (w, v) = (f.slice(w, 1, 0, n), f.slice(out[1], 1, 0, n));
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
    // Sums of `large` products are known to about this.
    let limit = f.splat(dtype.real(), &[], epsilon(dtype) * (4.0 + (large as f64).sqrt()));
    let out = sweeps(
        &mut f,
        vec![a, v],
        even,
        |f, v| {
            let far = cosine(f, v[0]);
            f.compare(Direction::Gt, far, limit)
        },
        rotate_rows,
    );
    // Now `a = q^H r` with orthogonal rows in `r`, and `q` unitary.
    let (r, q) = (f.slice(out[0], 1, 0, small), f.slice(out[1], 1, 0, small));
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

/// A square matrix with zeros on its diagonal.
fn off_diagonal(f: &mut Builder, x: ValueId) -> ValueId {
    let shape = f.shape(x);
    let (i, j) = (f.iota(&shape, 1), f.iota(&shape, 2));
    let off = f.compare(Direction::Ne, i, j);
    f.keep(off, x)
}

/// Sweeps over `n` rows, while `more` says so.
fn sweeps(
    f: &mut Builder,
    state: Vec<ValueId>,
    n: u64,
    more: impl FnOnce(&mut Builder, &[ValueId]) -> ValueId,
    step: impl FnOnce(&mut Builder, &Pairs, &[ValueId]) -> Vec<ValueId>,
) -> Vec<ValueId> {
    let zero = f.splat(DType::I32, &[], 0.0);
    let mut out = f.repeat(
        [vec![zero], state].concat(),
        |f, v| {
            let most = f.splat(DType::I32, &[], most_sweeps(n) as f64);
            let few = f.compare(Direction::Lt, v[0], most);
            let more = more(f, &v[1..]);
            f.and(few, more)
        },
        |f, v| {
            let one = f.splat(DType::I32, &[], 1.0);
            let next = f.add(v[0], one);
            let state = f.count(n - 1, v[1..].to_vec(), |f, k, v| {
                let pairs = pairs(f, n, k);
                step(f, &pairs, v)
            });
            [vec![next], state].concat()
        },
    );
    out.remove(0);
    out
}

/// Who meets whom in a round, each a vector over the rows.
struct Pairs {
    partner: ValueId,
    /// Of the row and its partner, the one with the lower number, and the other.
    low: ValueId,
    high: ValueId,
    /// Whether the row is the lower one.
    first: ValueId,
}

fn pairs(f: &mut Builder, n: u64, round: ValueId) -> Pairs {
    let i = f.iota(&[n], 0);
    let (k, m, last) = (f.spread(round, &[], &[n]), f.like(i, (n - 1) as f64), f.like(i, (n - 1) as f64));
    let difference = f.sub(k, i);
    let difference = f.add(difference, m);
    let other = f.binary(BinaryOp::Remainder, difference, m);
    let alone = f.compare(Direction::Eq, other, i);
    let other = f.select(alone, last, other);
    // n/2 is the half of 1 modulo n - 1.
    let half = f.like(i, (n / 2) as f64);
    let half = f.mul(k, half);
    let half = f.binary(BinaryOp::Remainder, half, m);
    let ends = f.compare(Direction::Eq, i, last);
    let partner = f.select(ends, half, other);
    Pairs {
        partner,
        low: f.binary(BinaryOp::Minimum, i, partner),
        high: f.binary(BinaryOp::Maximum, i, partner),
        first: f.compare(Direction::Lt, i, partner),
    }
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

/// What a row is multiplied by, and its partner, for the sum to be the rotated row.
struct Turn {
    own: ValueId,
    other: ValueId,
}

impl Rotation {
    fn turn(&self, f: &mut Builder, p: &Pairs, d: DType) -> Turn {
        let (c, s) = (f.widen(self.c, d), f.widen(self.s, d));
        let (cw, sw) = match self.w {
            Some(w) => (f.mul(c, w), f.mul(s, w)),
            None => (c, s),
        };
        let minus = f.unary(UnaryOp::Negate, sw);
        let shape = f.shape(c);
        let first = f.spread(p.first, &[1], &shape);
        Turn { own: f.select(first, c, cw), other: f.select(first, minus, s) }
    }
}

impl Turn {
    /// Of rows (`dim` 1) or, conjugated, of columns (`dim` 2).
    fn apply(&self, f: &mut Builder, p: &Pairs, x: ValueId, dim: u64) -> ValueId {
        let shape = f.shape(x);
        let over = |f: &mut Builder, v: ValueId| {
            let v = if dim == 2 { f.conj(v) } else { v };
            f.spread(v, &[0, dim], &shape)
        };
        let (own, other) = (over(f, self.own), over(f, self.other));
        let partners = f.take(x, dim as usize, p.partner);
        let (a, b) = (f.mul(own, x), f.mul(other, partners));
        f.add(a, b)
    }
}

/// One round of `eigenvalues`: A becomes J^H A J, and the rows of V^H turn with it.
fn rotate_both(f: &mut Builder, pairs: &Pairs, v: &[ValueId]) -> Vec<ValueId> {
    let [a, v] = *v else { unreachable!("two values are carried") };
    let d = f.dtype(a);
    let (p, r, q) =
        (f.pick(a, pairs.low, pairs.low), f.pick(a, pairs.low, pairs.high), f.pick(a, pairs.high, pairs.high));
    let rotation = rotation(f, p, r, q);
    let turn = rotation.turn(f, pairs, d);
    let rows = turn.apply(f, pairs, a, 1);
    let both = turn.apply(f, pairs, rows, 2);
    let v = turn.apply(f, pairs, v, 1);
    // What is known of the result is put there exactly.
    let shape = f.shape(a);
    let (i, j) = (f.iota(&shape, 1), f.iota(&shape, 2));
    let partner = f.spread(pairs.partner, &[1], &shape);
    let (on, pivot) = (f.compare(Direction::Eq, i, j), f.compare(Direction::Eq, j, partner));
    let (p, q) = (f.real(p), f.real(q));
    let (p, q) = (f.sub(p, rotation.shift), f.add(q, rotation.shift));
    let flat = f.shape(p);
    let first = f.spread(pairs.first, &[1], &flat);
    let values = f.select(first, p, q);
    let values = f.widen(values, d);
    let values = f.spread(values, &[0, 1], &shape);
    let zero = f.like(both, 0.0);
    let rest = f.select(pivot, zero, both);
    vec![f.select(on, values, rest), v]
}

/// The largest cosine of an angle between two rows.
fn cosine(f: &mut Builder, x: ValueId) -> ValueId {
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
    let sizes = f.unary(UnaryOp::Abs, products);
    let sizes = off_diagonal(f, sizes);
    f.reduce(BinaryOp::Maximum, 0.0, sizes, &[0, 1, 2])
}

/// One round of `singular_values`: pairs of rows become orthogonal.
fn rotate_rows(f: &mut Builder, pairs: &Pairs, v: &[ValueId]) -> Vec<ValueId> {
    let [x, v] = *v else { unreachable!("two values are carried") };
    let partners = f.take(x, 1, pairs.partner);
    let mut inner = |y: ValueId| {
        let y = f.conj(y);
        let product = f.mul(x, y);
        f.sum(product, &[2])
    };
    let (squares, products) = (inner(x), inner(partners));
    // Both rows of a pair take the same numbers.
    let (p, r, q) = (f.take(squares, 1, pairs.low), f.take(products, 1, pairs.low), f.take(squares, 1, pairs.high));
    let rotation = rotation(f, p, r, q);
    let turn = rotation.turn(f, pairs, f.dtype(x));
    vec![turn.apply(f, pairs, x, 1), turn.apply(f, pairs, v, 1)]
}
