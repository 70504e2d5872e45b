//! Softmax of rows that a workgroup cannot keep: the maximum and the sum of each part of a row come from one reading, and
//! what is read again is only what the result is made of.
//!
//! ```text
//! m = max x,  s = sum exp(x - m)
//! →  m' = max x along a part,  s' = sum exp(x - max(m', lowest finite))       one kernel
//!    m = max m',  s = sum s' exp(m' - max(m, lowest finite))                  over the parts
//! ```

use super::{
    attention::{erase_unread, exponential},
    reduction::{cut, parts},
};
use crate::{ir::*, spec::DeviceSpec};

/// Elements that a workgroup keeps in registers.
const KEPT: i64 = 32 << 10;
/// Elements of a part.
const PART: i64 = 8 << 10;

/// The two reductions of a softmax over the last dimension.
struct Softmax<'c> {
    x: V<'c>,
    max: O<'c>,
    sum: O<'c>,
    /// x - m, and its exponential.
    difference: V<'c>,
    exponentials: V<'c>,
}
impl<'c> Softmax<'c> {
    /// `sum`: a `linalg.reduce`.
    fn of(sum: O<'c>) -> Option<Self> {
        let exponentials = along_last(sum, "arith.addf")?;
        let exp = Generic::of(def(exponentials)?)?;
        let from = *exp.ins.first()?;
        let difference = Generic::of(def(from)?)?;
        let one = |g: &Generic<'c>, op: &str| {
            let [body, end] = ops(g.body)[..] else { return false };
            let taken = operands(body).iter().zip(args(g.body)).all(|(x, a)| key(*x) == key(a));
            name(body) == op && taken && key(operand(end, 0)) == key(result(body, 0)) && !g.reduces.contains(&true)
        };
        let [x, m] = difference.ins[..] else { return None };
        let n = shape(x.r#type()).len();
        let straight = |g: &Generic<'c>, i: usize, dims: usize| {
            let map = g.in_map(i);
            map.result_count() == dims
                && (0..dims).all(|d| map.result(d).is_ok_and(|e| e.is_dim() && e.dim_position() == d))
        };
        let max = def(m)?;
        let fits = one(&exp, "math.exp")
            && one(&difference, "arith.subf")
            && straight(&exp, 0, n)
            && straight(&difference, 0, n)
            && straight(&difference, 1, n - 1)
            && [&exp, &difference].iter().all(|g| g.out_map(0).is_identity())
            && key(along_last(max, "arith.maximumf")?) == key(x)
            && bits(elem(x.r#type())) == 32;
        fits.then_some(Softmax { x, max, sum, difference: from, exponentials })
    }
    /// Whether all that others read of it they read after the sum.
    fn is_read_later(&self) -> bool {
        let exp = def(self.exponentials).map(op_key);
        let home = parent(self.sum).into_iter().flat_map(blocks).find(|home| in_block(self.sum, *home));
        let home: Vec<usize> = home.into_iter().flat_map(ops).map(op_key).collect();
        let place = |op: O| home.iter().position(|o| *o == op_key(op));
        let mut users: Vec<O> = [self.difference, self.exponentials].into_iter().flat_map(uses).map(|u| u.0).collect();
        users.retain(|u| Some(op_key(*u)) != exp && op_key(*u) != op_key(self.sum));
        users.iter().all(|u| place(*u) > place(self.sum))
    }
}
/// What `op` reduces, if it reduces the last dimension of one tensor by `by`.
fn along_last<'c>(op: O<'c>, by: &str) -> Option<V<'c>> {
    if name(op) != "linalg.reduce" || op.operand_count() != 2 || has_attr(op, "zml.partial") {
        return None;
    }
    let x = operand(op, 0);
    let last = shape(x.r#type()).len() as i64 - 1;
    let [body, _] = ops(block(op, 0))[..] else { return None };
    (i64s_attr(op, "dimensions")? == [last] && name(body) == by).then_some(x)
}

pub fn split<'c>(b: &B<'c>, sum: O<'c>, spec: &DeviceSpec) {
    let Some(s) = Softmax::of(sum) else { return };
    let b = &b.labelled(str_attr(sum, "zml.op").unwrap_or_default());
    let extents = shape(s.x.r#type());
    let (length, of_rows) = extents.split_last().expect("it has a last dimension");
    let rows: i64 = of_rows.iter().product();
    let (count, part) = cut(*length, parts(rows, *length, false, spec).max(length / PART).max(1));
    if *length <= KEPT || count * part != *length || rows == 0 || !s.is_read_later() {
        return;
    }
    let f = elem(s.x.r#type());
    let mut of_parts = of_rows.to_vec();
    of_parts.push(count);
    let mut all = of_parts.clone();
    all.push(part);
    let dims: Vec<usize> = (0..all.len()).collect();
    let (kept, outer) = (&dims[..dims.len() - 1], &dims[..dims.len() - 2]);
    let partial = |x: V<'c>, by: &str| {
        let init = b.fill(b.zero(f), &of_parts);
        let op = b.reduce(&[x], &[init], &[kept.len() as i64], |b, a| vec![b.same(by, &[a[1], a[0]])]);
        rewrite::set_attr(op, "zml.partial", b.unit());
        result(op, 0)
    };
    let whole = |x: V<'c>, of: O<'c>| {
        let along = [outer.len() as i64];
        let op = b.reduce(&[x], &[operand(of, 1)], &along, |b, a| rewrite::yielded(b, block(of, 0), a));
        result(op, 0)
    };
    let x = b.reshape(s.x, &all);
    let max = partial(x, "arith.maximumf");
    let exponentials = b.map(&all, f, &[(x, &dims), (max, kept)], |b, a| exponential(b, a[0], a[1]));
    let sums = partial(exponentials, "arith.addf");
    let m = whole(max, s.max);
    let scaled =
        b.map(&of_parts, f, &[(sums, kept), (max, kept), (m, outer)], |b, a| b.mulf(a[0], exponential(b, a[1], a[2])));
    let sum = whole(scaled, s.sum);
    // What is made of the row's elements reads the new maximum.
    let own = &dims[..extents.len()];
    let difference = b.map(&extents, f, &[(s.x, own), (m, outer)], |b, a| b.same("arith.subf", &[a[0], a[1]]));
    let exponentials = b.map(&extents, f, &[(difference, own)], |b, a| b.same("math.exp", &[a[0]]));
    let old = [s.difference, s.exponentials, result(s.sum, 0)];
    for (old, new) in old.into_iter().zip([difference, exponentials, sum]) {
        rewrite::replace_uses(old, new);
    }
    erase_unread(old.into_iter().filter_map(def).collect());
}
