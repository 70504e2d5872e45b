//! Softmax. NaN goes through its sum, so the maximum is one of numbers, which is one instruction on more devices.
//!
//! Of rows that a workgroup cannot keep: the maximum and the sum come from one reading, and what is read again is
//! only what the result is made of.
//!
//! Where the rows fill the device both are one reduction, [`online`], and all is one kernel. Where they do not:
//!
//! ```text
//! m = max x,  s = sum exp(x - m)
//! →  m' = max x along a part,  s' = sum exp(x - max(m', lowest finite))       one kernel
//!    m = max m',  s = sum s' exp(m' - max(m, lowest finite))                  over the parts
//! ```

use super::{
    attention::erase_unread,
    reduction::{cut, parts},
};
use crate::{
    emit::{
        number_of,
        online::{self, exponential},
    },
    ir::*,
    spec::DeviceSpec,
};
use melior::ir::attribute::FloatAttribute;

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
    /// Whether all that is made of the differences and their exponentials is NaN where the sum is.
    fn goes_through_the_sum(&self) -> bool {
        let own = [def(self.exponentials).map(op_key), Some(op_key(self.sum))];
        [self.difference, self.exponentials].into_iter().all(|of| {
            let others = uses(of).into_iter().map(|u| u.0).filter(|user| !own.contains(&Some(op_key(*user))));
            others.into_iter().all(|user| self.joins_the_sum(user, of))
        })
    }
    /// Whether an op combines each element of `of` with the sum of its row.
    fn joins_the_sum(&self, user: O<'c>, of: V<'c>) -> bool {
        let n = shape(self.x.r#type()).len();
        // Elementwise and reshaped, so in the same order.
        let from_sum = |v: V<'c>| {
            let mut v = v;
            while let Some(op) = def(v) {
                v = match Generic::of(op).filter(passes_on) {
                    Some(g) if g.ins.len() == 1 && g.in_map(0).is_identity() => g.ins[0],
                    None if ["tensor.expand_shape", "tensor.collapse_shape"].contains(&name(op)) => operand(op, 0),
                    _ => break,
                };
            }
            key(v) == key(result(self.sum, 0))
        };
        let Some(g) = Generic::of(user).filter(passes_on) else { return false };
        let reads = |wanted: &dyn Fn(V<'c>) -> bool, dims: usize| {
            (0..g.ins.len()).any(|i| wanted(g.ins[i]) && straight(&g, i, dims) && !uses(arg(g.body, i)).is_empty())
        };
        reads(&|v| key(v) == key(of), n) && reads(&from_sum, n - 1)
    }
    /// The maximum need not be NaN where an element is, if nothing reads it that does not read the sum.
    fn of_numbers(&self, b: &B<'c>) {
        let max = self.max;
        if uses(result(max, 0)).len() == 1 && starts_from(self.max, f64::NEG_INFINITY) && self.goes_through_the_sum() {
            let b = B::before(b.c, max).labelled(str_attr(max, "zml.op").unwrap_or_default());
            let along = i64s_attr(max, "dimensions").unwrap_or_default();
            let of_numbers =
                b.reduce(&[self.x], &[operand(max, 1)], &along, |b, a| vec![number_of(b, "arith.maxnumf", a[0], a[1])]);
            rewrite::replace_uses(result(max, 0), result(of_numbers, 0));
            rewrite::erase(max);
        }
    }
    /// What is made of the row's elements reads a new maximum and a new sum, which is NaN where all are minus infinity.
    fn replace(&self, b: &B<'c>, max: V<'c>, sum: V<'c>) {
        let f = elem(self.x.r#type());
        let extents = shape(self.x.r#type());
        let dims: Vec<usize> = (0..extents.len()).collect();
        let (outer, of_rows) = (&dims[..dims.len() - 1], &extents[..dims.len() - 1]);
        let sum = b.map(of_rows, f, &[(sum, outer), (max, outer)], |b, a| {
            let is_nothing = b.cmpf("oeq", a[1], b.cfloat(f, f64::NEG_INFINITY));
            b.select(is_nothing, b.cfloat(f, f64::NAN), a[0])
        });
        let difference =
            b.map(&extents, f, &[(self.x, &dims), (max, outer)], |b, a| b.same("arith.subf", &[a[0], a[1]]));
        let exponentials = b.map(&extents, f, &[(difference, &dims)], |b, a| b.same("math.exp", &[a[0]]));
        let old = [self.difference, self.exponentials, result(self.sum, 0)];
        for (old, new) in old.into_iter().zip([difference, exponentials, sum]) {
            rewrite::replace_uses(old, new);
        }
        erase_unread(old.into_iter().filter_map(def).collect());
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
/// Whether input `i` is read by the first `dims` loops in order.
fn straight(g: &Generic, i: usize, dims: usize) -> bool {
    let map = g.in_map(i);
    map.result_count() == dims && (0..dims).all(|d| map.result(d).is_ok_and(|e| e.is_dim() && e.dim_position() == d))
}
/// Whether a generic is one op on elements that gives NaN of NaN.
fn passes_on(g: &Generic) -> bool {
    const PASS_ON: [&str; 6] = ["arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.truncf", "math.log"];
    let [op, _] = ops(g.body)[..] else { return false };
    g.is_parallel() && PASS_ON.contains(&name(op)) && g.out_map(0).is_identity()
}
/// Whether a reduction starts from this number.
fn starts_from(op: O, number: f64) -> bool {
    let value = def(operand(op, 1)).filter(|f| name(*f) == "linalg.fill").and_then(|f| def(operand(f, 0)));
    let value = value.and_then(|c| attr(c, "value")).and_then(|a| FloatAttribute::try_from(a).ok());
    value.is_some_and(|v| v.value() == number)
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
    if *length <= KEPT {
        return s.of_numbers(b);
    }
    if rows == 0 || !s.is_read_later() {
        return;
    }
    let is_plain = starts_from(s.max, f64::NEG_INFINITY) && starts_from(s.sum, 0.0) && s.goes_through_the_sum();
    if rows >= i64::from(spec.multiprocessors()) && is_plain {
        return in_one_reading(b, &s);
    }
    let (count, part) = cut(*length, parts(rows, *length, false, spec).max(length / PART).max(1));
    if count * part != *length {
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
    s.replace(b, m, sum);
}
fn in_one_reading<'c>(b: &B<'c>, s: &Softmax<'c>) {
    let extents = shape(s.x.r#type());
    let last = extents.len() - 1;
    let inits = online::start(b).map(|x| b.fill(x, &extents[..last]));
    let both = b.reduce(&[s.x, s.x], &inits, &[last as i64], |b, a| online::step(b, [a[2], a[3]], &a[..1]).to_vec());
    rewrite::set_attr(both, online::ONLINE, b.unit());
    s.replace(b, result(both, 0), result(both, 1));
}
