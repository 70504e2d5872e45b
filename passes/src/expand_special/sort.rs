//! Sort by merging: sorted runs of 1, 2, 4, ... elements become runs of twice the length, in as many steps as the extent
//! has bits. A step is parallel in its elements: each finds by bisection how much of either run lies before it. Equals
//! keep their order, whatever the comparator is.
//!
//! The number of a step is an input, so that the steps are one kernel. If all readers take only the first k elements,
//! what cannot be among them is dropped as soon as runs are that long.

use super::search::bisect;
use crate::ir::{rewrite::*, *};

/// Whether an element of each input comes before another: elements of the one, elements of the other.
type Less<'a, 'c> = &'a dyn Fn(&B<'c>, &[V<'c>], &[V<'c>]) -> V<'c>;

pub fn expand<'c>(b: &B<'c>, op: O<'c>) {
    let inputs = operands(op);
    let dim = int_attr(op, "dimension").unwrap_or_default() as usize;
    let extent = shape(inputs[0].r#type())[dim];
    let body = block(op, 0);
    // Which inputs the comparator looks at.
    let keys: Vec<bool> =
        (0..inputs.len()).map(|i| [2 * i, 2 * i + 1].iter().any(|a| !uses(arg(body, *a)).is_empty())).collect();
    let less = |b: &B<'c>, x: &[V<'c>], y: &[V<'c>]| {
        let args: Vec<V> = x.iter().zip(y).flat_map(|(x, y)| [*x, *y]).collect();
        yielded(b, body, &args)[0]
    };
    let keep = kept(op, dim, extent);
    let sorted = sorted(b, &inputs, &keys, dim, keep, &less);
    for (k, value) in sorted.into_iter().enumerate() {
        let old = result(op, k);
        if shape(value.r#type())[dim] == extent {
            replace_uses(old, value);
            continue;
        }
        for (slice, _) in uses(old) {
            set_operand(slice, 0, value);
        }
    }
}
/// How many elements the readers of a sort take from its start.
fn kept(op: O, dim: usize, extent: i64) -> i64 {
    let mut most = 1;
    for (reader, _) in results(op).into_iter().flat_map(uses) {
        let list = |n: &str| i64s_attr(reader, n).unwrap_or_default();
        let slice = name(reader) == "tensor.extract_slice" && list("static_strides").iter().all(|s| *s == 1);
        if !slice || list("static_offsets")[dim] < 0 {
            return extent;
        }
        most = most.max(list("static_offsets")[dim] + list("static_sizes")[dim]);
    }
    most
}

/// `inputs` sorted along `dim`, the first `keep` elements at least. `less` reads the inputs for which `keys` holds.
pub fn sorted<'c>(b: &B<'c>, inputs: &[V<'c>], keys: &[bool], dim: usize, keep: i64, less: Less<'_, 'c>) -> Vec<V<'c>> {
    let extents = shape(inputs[0].r#type());
    let mut values = inputs.to_vec();
    if extents.contains(&0) {
        return values;
    }
    let mut n = extents[dim];
    // Runs of 2^most hold all that is kept.
    let bits = |n: i64| i64::from(64 - (n - 1).leading_zeros());
    let most = bits(keep.clamp(1, n));
    for step in 0..bits(n) {
        let number = number(b, step.min(most));
        if step < most {
            values = merged(b, &values, keys, dim, n, number, less);
        } else {
            let run = 1 << most;
            n = if n <= 2 * run { keep } else { n / (2 * run) * run + run.min(n % (2 * run)) };
            values = merged(b, &values, keys, dim, n, number, less);
        }
    }
    values
}
/// A rank-0 constant that stays an input of the kernels that read it.
fn number<'c>(b: &B<'c>, x: i64) -> V<'c> {
    let v = b.constant(b.attr(&format!("dense<{x}> : tensor<i32>")), b.tensor(&[], b.i(32)));
    set_attr(def(v).expect("just made"), "zml.position", b.unit());
    v
}

/// Merges neighbouring runs of 2^step elements. With a result of fewer elements than the inputs, `out` along `dim`, of
/// each pair as many are kept as one run has.
fn merged<'c>(
    b: &B<'c>,
    inputs: &[V<'c>],
    keys: &[bool],
    dim: usize,
    out: i64,
    step: V<'c>,
    less: Less<'_, 'c>,
) -> Vec<V<'c>> {
    let mut extents = shape(inputs[0].r#type());
    let n = extents[dim];
    let rank = extents.len();
    extents[dim] = out;
    let own: Vec<usize> = (0..rank).collect();
    let place_type = if n > i64::from(i32::MAX) { b.i(64) } else { b.i(32) };
    let minus = |b: &B<'c>, x: V<'c>, y: V<'c>| b.same("arith.subi", &[x, y]);
    let least = |b: &B<'c>, x: V<'c>, y: V<'c>| b.same("arith.minui", &[x, y]);
    let source = b.map(&extents, place_type, &[(step, &[])], |b, a| {
        let step = b.op1("arith.index_cast", &[a[0]], b.index(), &[]);
        let (one, last) = (b.cidx(1), b.cidx(n - 1));
        let run = b.same("arith.shli", &[one, step]);
        // Elements that a pair of runs leaves.
        let span = if out == n { b.addi(run, run) } else { run };
        let here: Vec<V> = (0..rank).map(|d| b.loop_index(d as i64)).collect();
        let i = here[dim];
        let k = b.same("arith.remui", &[i, span]);
        let first = minus(b, i, k);
        let first = if out == n { first } else { b.addi(first, first) };
        let rest = minus(b, b.cidx(n), first);
        let left = least(b, run, rest);
        let right = least(b, run, minus(b, rest, left));
        let second = b.addi(first, run);
        let read = |b: &B<'c>, at: V<'c>| -> Vec<V<'c>> {
            let mut place = here.clone();
            place[dim] = at;
            let nothing = |v: &V<'c>| b.zero(elem(v.r#type()));
            inputs.iter().zip(keys).map(|(v, key)| if *key { b.extract(*v, &place) } else { nothing(v) }).collect()
        };
        let overtakes = |b: &B<'c>, of_left: V<'c>, of_right: V<'c>| {
            let at = least(b, b.addi(second, of_right), last);
            let (x, y) = (read(b, at), read(b, b.addi(first, of_left)));
            less(b, &x, &y)
        };
        let spare = b.cmpi("ugt", k, right);
        let from = b.select(spare, minus(b, k, right), b.cidx(0));
        let to = least(b, k, left);
        let taken = bisect(b, from, to, b.addi(step, one), |b, middle, open| {
            let other = minus(b, minus(b, k, one), middle);
            let middle = b.select(open, middle, b.cidx(0));
            let other = b.select(open, other, b.cidx(0));
            b.same("arith.xori", &[overtakes(b, middle, other), b.cint(b.i1(), 1)])
        });
        let others = minus(b, k, taken);
        let (more_left, more_right) = (b.cmpi("ult", taken, left), b.cmpi("ult", others, right));
        let of_left = least(b, taken, minus(b, left, one));
        let of_right = b.select(more_right, others, b.cidx(0));
        let over = overtakes(b, of_left, of_right);
        let over = b.same("arith.ori", &[over, b.same("arith.xori", &[more_left, b.cint(b.i1(), 1)])]);
        let over = b.same("arith.andi", &[over, more_right]);
        let from = b.select(over, b.addi(second, others), b.addi(first, taken));
        b.op1("arith.index_cast", &[from], place_type, &[])
    });
    let moved = |v: &V<'c>| {
        b.map(&extents, elem(v.r#type()), &[(source, &own)], |b, a| {
            let from = b.op1("arith.index_cast", &[a[0]], b.index(), &[]);
            let place: Vec<V> = own.iter().map(|d| if *d == dim { from } else { b.loop_index(*d as i64) }).collect();
            b.extract(*v, &place)
        })
    };
    inputs.iter().map(moved).collect()
}
