//! How attention of few rows is cut along its positions, so that more of the device works on it: part i of n has the
//! positions i, i + n, i + 2 n, .. of each row, which come in at the same rate whatever of a cache is in use.
//!
//! ```text
//! m' = max s along a part,  e' = exp(s - max(m', lowest finite)),  l' = sum e',  o' = sum e' v       one kernel
//! m = max m' over the parts,  w = exp(m' - max(m, lowest finite)),  o = sum w o' / sum w l'          elementwise
//! ```
//!
//! The second line is computed again by whoever reads o, a matrix times it for the most part: no launch of its own.

use crate::{emit::online::exponential, fuse::AttentionLayout, ir::*, spec::DeviceSpec};
use melior::{
    Context,
    ir::{AffineExpr, AffineMap, Type, attribute::FloatAttribute},
};

/// Positions of a part below which cutting does not pay.
const LEAST_PART: i64 = 128;
/// Parts that a reader puts together at most.
const MOST_PARTS: i64 = 8;

/// Into how many parts the positions of each row go.
fn parts(a: &AttentionLayout, spec: &DeviceSpec) -> i64 {
    let rows: i64 = a.rows.iter().map(|r| r.0).product();
    let positions = shape(a.scores.r#type())[a.along];
    // Four small workgroups fill a multiprocessor.
    let processors = i64::from(spec.parallel_blocks) / 4;
    let wanted = processors / (rows / a.shared.0).max(1);
    let most = wanted.min(positions / LEAST_PART).min(MOST_PARTS);
    let divides = |n: &i64| positions % n == 0;
    (2..=most)
        .rev()
        .filter(|n| n.count_ones() == 1)
        .find(divides)
        .or_else(|| (2..=most).rev().find(divides))
        .unwrap_or(1)
}

/// Cuts `a` into as many parts as the profile wants.
pub fn split<'c>(c: &'c Context, a: &AttentionLayout<'c>, spec: &DeviceSpec) {
    let count = parts(a, spec);
    let is_zero = |op: O| name(op) == "linalg.fill" && def(operand(op, 0)).is_some_and(|x| is_constant(x, 0.0));
    if count < 2 || !def(a.out.outs[0]).is_some_and(is_zero) {
        return;
    }
    let label = |op: O<'c>| str_attr(op, "zml.op").unwrap_or_default();
    let divide = def(a.divided).expect("a division");
    let b = B::before(c, divide).labelled(label(divide));
    let rows = Rows::of(&b, a, count);
    rewrite::replace_uses(a.divided, rows.weights(&b, a));
    let b = B::before(c, a.out.op).labelled(label(a.out.op));
    let sums = weighted(&b, a, count);
    let whole = rows.together(&b, a, &sums, count);
    rewrite::replace_uses(result(a.out.op, 0), whole);
    erase_unread(vec![a.out.op, divide]);
}
fn is_constant(op: O, x: f64) -> bool {
    let value = attr(op, "value").and_then(|a| FloatAttribute::try_from(a).ok());
    name(op) == "arith.constant" && value.is_some_and(|a| a.value() == x)
}

/// Maximum, exponentials and their sum, of each part of each row.
struct Rows<'c> {
    max: V<'c>,
    exponentials: V<'c>,
    sum: V<'c>,
}
impl<'c> Rows<'c> {
    fn of(b: &B<'c>, a: &AttentionLayout<'c>, count: i64) -> Self {
        let f = b.f32();
        let scores = convert(b, b.reshape(a.scores, &cut(&shape(a.scores.r#type()), a.along, count)), f);
        let extents = shape(scores.r#type());
        let all: Vec<usize> = (0..extents.len()).collect();
        let kept: Vec<usize> = all.iter().copied().filter(|d| *d != a.along).collect();
        let of_rows: Vec<i64> = kept.iter().map(|d| extents[*d]).collect();
        let along = [a.along as i64];
        let reduce = |x: V<'c>, by: &str, init: f64| {
            let init = b.fill(b.cfloat(f, init), &of_rows);
            let op = b.reduce(&[x], &[init], &along, |b, a| vec![b.same(by, &[a[1], a[0]])]);
            rewrite::set_attr(op, "zml.partial", b.unit());
            result(op, 0)
        };
        let max = reduce(scores, "arith.maximumf", f64::NEG_INFINITY);
        let exponentials = b.map(&extents, f, &[(scores, &all), (max, &kept)], |b, a| exponential(b, a[0], a[1]));
        Rows { max, exponentials, sum: reduce(exponentials, "arith.addf", 0.0) }
    }
    /// What takes the place of the weights after the division.
    fn weights(&self, b: &B<'c>, a: &AttentionLayout<'c>) -> V<'c> {
        let t = a.divided.r#type();
        convert(b, b.reshape(self.exponentials, &shape(t)), elem(t))
    }
    /// The weighted sum of whole rows, from that of their parts.
    fn together(&self, b: &B<'c>, a: &AttentionLayout<'c>, sums: &Sums<'c>, count: i64) -> V<'c> {
        let f = b.f32();
        let extents = shape(self.max.r#type());
        let n = extents.len();
        let others: Vec<usize> = (0..n).filter(|d| *d != a.along).collect();
        let of_rows: Vec<i64> = others.iter().map(|d| extents[*d]).collect();
        let part = |i: i64| {
            let at = (0..n).map(|d| match others.iter().position(|o| *o == d) {
                Some(l) => AffineExpr::dim(b.c, l),
                None => AffineExpr::constant(b.c, i),
            });
            AffineMap::new(b.c, n - 1, 0, &at.collect::<Vec<_>>())
        };
        let each = |v: V<'c>| (0..count).map(move |i| (v, i));
        let maxima: Vec<_> = each(self.max).map(|(v, i)| (v, part(i))).collect();
        let max =
            over(b, &of_rows, f, &maxima, |b, a| a[1..].iter().fold(a[0], |m, x| b.same("arith.maximumf", &[m, *x])));
        // By part first.
        let mut first = vec![count];
        first.extend(&of_rows);
        let from: Vec<usize> = (0..n).map(|d| others.iter().position(|o| *o == d).map_or(0, |l| l + 1)).collect();
        let rest: Vec<usize> = (1..n).collect();
        let factors = b.map(&first, f, &[(self.max, &from), (max, &rest)], |b, a| exponential(b, a[0], a[1]));
        let of_part = |i: i64, loops: usize, rows: &[usize]| {
            let at = std::iter::once(AffineExpr::constant(b.c, i)).chain(rows.iter().map(|l| AffineExpr::dim(b.c, *l)));
            AffineMap::new(b.c, loops, 0, &at.collect::<Vec<_>>())
        };
        let own: Vec<usize> = (0..n - 1).collect();
        let both: Vec<_> = (0..count).flat_map(|i| [(factors, of_part(i, n - 1, &own)), (self.sum, part(i))]).collect();
        let inverse = over(b, &of_rows, f, &both, |b, a| b.same("arith.divf", &[b.cfloat(f, 1.0), products(b, a)]));
        // At the elements of the result.
        let whole = shape(result(a.out.op, 0).r#type());
        let rows: Vec<i64> = a.rows.iter().map(|r| r.0).collect();
        let at_rows: Vec<usize> = a.rows.iter().map(|r| sums.dim(r.1)).collect();
        let mut by_part = vec![count];
        by_part.extend(&rows);
        let (factors, inverse) = (b.reshape(factors, &by_part), b.reshape(inverse, &rows));
        let mut ins: Vec<_> = (0..count)
            .flat_map(|i| [(factors, of_part(i, whole.len(), &at_rows)), (sums.value, sums.part(b, i))])
            .collect();
        ins.push((inverse, b.projection(whole.len(), &at_rows)));
        over(b, &whole, f, &ins, |b, a| {
            let (inverse, terms) = a.split_last().expect("it comes last");
            b.mulf(products(b, terms), *inverse)
        })
    }
}
/// The sum of the products of neighbours.
fn products<'c>(b: &B<'c>, x: &[V<'c>]) -> V<'c> {
    let all = x.chunks(2).map(|p| b.mulf(p[0], p[1]));
    all.reduce(|sum, p| b.addf(sum, p)).expect("at least one part")
}

/// The weighted sums of the parts.
struct Sums<'c> {
    value: V<'c>,
    /// Loops of the whole sum that are left in its result, and those of the parts' in the order of theirs: `None` is the
    /// part.
    whole: Vec<usize>,
    order: Vec<Option<usize>>,
}
impl Sums<'_> {
    /// Dimension of the whole result that loop `l` is.
    fn dim(&self, l: usize) -> usize {
        self.whole.iter().position(|w| *w == l).expect("a loop of the result")
    }
    /// Where an element of the whole finds that of part `i`.
    fn part<'c>(&self, b: &B<'c>, i: i64) -> AffineMap<'c> {
        let at = self.order.iter().map(|l| match l {
            Some(l) => AffineExpr::dim(b.c, self.dim(*l)),
            None => AffineExpr::constant(b.c, i),
        });
        AffineMap::new(b.c, self.whole.len(), 0, &at.collect::<Vec<_>>())
    }
}
/// Rows that read the same values lie next to each other, the elements of a row innermost.
fn weighted<'c>(b: &B<'c>, a: &AttentionLayout<'c>, count: i64) -> Sums<'c> {
    let (g, bounds) = (&a.out, a.out.bounds());
    let loops = |m: &AffineMap<'c>| -> Vec<usize> {
        (0..m.result_count()).map(|i| m.result(i).expect("in range").dim_position()).collect()
    };
    let [of_weights, of_values] = [a.weights, 1 - a.weights].map(|i| loops(&g.in_map(i)));
    let whole: Vec<usize> = (0..g.loops()).filter(|l| !g.reduces[*l]).collect();
    let (values, rows): (Vec<usize>, Vec<usize>) = whole.iter().partition(|l| of_values.contains(l));
    let (batch, kept): (Vec<usize>, Vec<usize>) = values.into_iter().partition(|l| of_weights.contains(l));
    let mut order: Vec<Option<usize>> = batch.into_iter().map(Some).collect();
    order.push(None);
    order.extend(rows.into_iter().chain(kept).map(Some));
    let reduced = (0..g.loops()).filter(|l| g.reduces[*l]);
    let all: Vec<Option<usize>> = order.iter().copied().chain(reduced.map(Some)).collect();
    let at = |l: Option<usize>| all.iter().position(|x| *x == l).expect("every loop");
    let input = |i: usize, own: &[usize], along: usize| {
        // As it is now: weights have just been replaced.
        let v = operand(g.op, i);
        let cut = b.reshape(v, &cut(&shape(v.r#type()), along, count));
        let dims = own.iter().enumerate();
        let dims = dims.flat_map(|(d, l)| if d == along { vec![at(Some(*l)), at(None)] } else { vec![at(Some(*l))] });
        (cut, b.projection(all.len(), &dims.collect::<Vec<_>>()))
    };
    let mut ins = [None; 2];
    ins[a.weights] = Some(input(a.weights, &of_weights, a.weights_along));
    ins[1 - a.weights] = Some(input(1 - a.weights, &of_values, a.values_along));
    let ins = ins.map(|x| x.expect("both are there"));
    let extents: Vec<i64> = order.iter().map(|l| l.map_or(count, |l| bounds[l])).collect();
    let zero = b.fill(b.cfloat(b.f32(), 0.0), &extents);
    let kinds: String = all.iter().map(|l| if l.is_some_and(|l| g.reduces[l]) { 'r' } else { 'p' }).collect();
    let out = b.projection(all.len(), &(0..order.len()).collect::<Vec<_>>());
    let op = b.generic(&kinds, &ins, &[(zero, out)], |b, x| rewrite::yielded(b, g.body, x));
    Sums { value: result(op, 0), whole, order }
}

/// A dimension in parts: element i of part j is element i `count` + j.
fn cut(extents: &[i64], d: usize, count: i64) -> Vec<i64> {
    let mut cut = extents.to_vec();
    cut.splice(d..=d, [extents[d] / count, count]);
    cut
}
/// A generic of parallel loops with one result.
fn over<'c>(
    b: &B<'c>,
    extents: &[i64],
    e: Type<'c>,
    ins: &[(V<'c>, AffineMap<'c>)],
    f: impl FnOnce(&B<'c>, &[V<'c>]) -> V<'c>,
) -> V<'c> {
    let n = extents.len();
    let identity = b.projection(n, &(0..n).collect::<Vec<_>>());
    let init = b.empty(extents, e);
    result(b.generic(&"p".repeat(n), ins, &[(init, identity)], |b, a| vec![f(b, &a[..ins.len()])]), 0)
}
fn convert<'c>(b: &B<'c>, x: V<'c>, e: Type<'c>) -> V<'c> {
    let (from, extents) = (elem(x.r#type()), shape(x.r#type()));
    if from == e {
        return x;
    }
    let op = if bits(from) < bits(e) { "arith.extf" } else { "arith.truncf" };
    let identity: Vec<usize> = (0..extents.len()).collect();
    b.map(&extents, e, &[(x, &identity)], |b, a| b.op1(op, &[a[0]], e, &[]))
}
/// Erases ops that nothing reads, and what only they read.
pub(super) fn erase_unread(next: Vec<O>) {
    let (mut next, mut erased) = (next, std::collections::HashSet::new());
    next.reverse();
    while let Some(op) = next.pop() {
        if erased.contains(&op_key(op)) || results(op).iter().any(|v| !uses(*v).is_empty()) {
            continue;
        }
        next.extend(reads(op).into_iter().chain(operands(op)).filter_map(def));
        erased.insert(op_key(op));
        rewrite::erase(op);
    }
}
