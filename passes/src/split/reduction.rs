//! How a reduction is cut, and the two that it becomes.

use crate::{emit::Combiner, ir::*, spec::DeviceSpec};

/// Elements of a part below which a step of its own does not pay.
const LEAST_PART: i64 = 4096;
/// Elements that a workgroup reduces at most.
const LONGEST_PART: i64 = 1 << 22;
/// Rows that one workgroup takes where rows are neighbours in memory.
const ACROSS: i64 = 64;
/// What parts are multiples of where it can be: the elements of the widest load.
const WHOLE: i64 = 16;

/// Into how many parts each row of `op` goes.
pub(super) fn parts(rows: i64, extent: i64, across: bool, spec: &DeviceSpec) -> i64 {
    let groups = if across { (rows / ACROSS).max(1) } else { rows };
    let wanted = i64::from(spec.parallel_blocks) * 2 / groups.max(1);
    let enough = if across { LEAST_PART / ACROSS } else { LEAST_PART };
    (extent / LONGEST_PART).max(wanted.min(extent / enough))
}

/// A reduced dimension of extent `n` in `.0` parts of `.1` elements; what is left over makes one part more.
pub(super) fn cut(n: i64, parts: i64) -> (i64, i64) {
    let even = |whole: i64| (parts..=(parts * 4).min(n)).find(|p| n % p == 0 && (n / p) % whole == 0);
    if let Some(p) = even(WHOLE).or_else(|| even(1)) {
        return (p, n / p);
    }
    let length = n / parts;
    let length = if length > WHOLE { length / WHOLE * WHOLE } else { length };
    (n / length, length)
}

pub fn split<'c>(b: &B<'c>, op: O<'c>, spec: &DeviceSpec) {
    if has_attr(op, "zml.partial") || matches!(Combiner::of_reduce(op), Combiner::Serial | Combiner::Online) {
        return;
    }
    let all = operands(op);
    let (ins, inits) = all.split_at(all.len() / 2);
    let extents = shape(ins[0].r#type());
    let dims: Vec<usize> = i64s_attr(op, "dimensions").unwrap_or_default().into_iter().map(|d| d as usize).collect();
    let extent: i64 = dims.iter().map(|d| extents[*d]).product();
    let rows = elements(inits[0].r#type());
    let innermost = (0..extents.len()).rev().find(|d| extents[*d] > 1);
    let across = innermost.is_some_and(|d| !dims.contains(&d));
    let mut wanted = parts(rows, extent, across, spec);
    if wanted < 2 || extents.contains(&0) {
        return;
    }
    // Outer dimensions become parts as they are, until one has to be cut.
    let mut kept = vec![];
    let mut cut_dim = None;
    for d in &dims {
        if wanted <= 1 {
            break;
        }
        if wanted * 2 > extents[*d] {
            kept.push(*d);
            wanted = (wanted + extents[*d] - 1) / extents[*d];
        } else {
            cut_dim = Some((*d, cut(extents[*d], wanted)));
            break;
        }
    }
    if kept.len() == dims.len() {
        return;
    }
    let label = attr(op, "zml.op");
    let reduced = |b: &B<'c>, ins: &[V<'c>], inits: &[V<'c>], dims: &[i64], partial: bool| -> Vec<V<'c>> {
        let new = b.reduce(ins, inits, dims, |b, a| rewrite::yielded(b, block(op, 0), a));
        if let Some(label) = label {
            rewrite::set_attr(new, "zml.op", label);
        }
        if partial {
            rewrite::set_attr(new, "zml.partial", b.unit());
        }
        results(new)
    };
    // Of some elements along the cut dimension, in parts of `length`: the parts' values.
    let partial = |b: &B<'c>, ins: &[V<'c>], length: Option<i64>| -> Vec<V<'c>> {
        let mut shaped = shape(ins[0].r#type());
        if let (Some((d, _)), Some(length)) = (cut_dim, length) {
            let whole = shaped[d];
            shaped.splice(d..=d, [whole / length, length]);
        }
        let moved = |d: usize| d + usize::from(cut_dim.is_some_and(|c| d >= c.0));
        let left: Vec<i64> = dims.iter().filter(|d| !kept.contains(d)).map(|d| moved(*d) as i64).collect();
        let out: Vec<i64> = (0..shaped.len()).filter(|d| !left.contains(&(*d as i64))).map(|d| shaped[d]).collect();
        let ins: Vec<V> = ins.iter().map(|v| b.reshape(*v, &shaped)).collect();
        let inits: Vec<V> = inits.iter().map(|v| b.fill(b.zero(elem(v.r#type())), &out)).collect();
        reduced(b, &ins, &inits, &left, true)
    };
    let (mut values, mut parts_at) = (vec![], kept.clone());
    match cut_dim {
        None => values = partial(b, ins, None),
        Some((d, (count, length))) => {
            let rest = extents[d] - count * length;
            let piece = |v: V<'c>, from: i64, n: i64| {
                let mut sizes = shape(v.r#type());
                let mut offsets = vec![0; sizes.len()];
                (sizes[d], offsets[d]) = (n, from);
                crate::legalize::slice_static(b, v, &offsets, &sizes, &vec![1; sizes.len()])
            };
            if rest == 0 {
                values = partial(b, ins, Some(length));
            } else {
                let main: Vec<V> = ins.iter().map(|v| piece(*v, 0, count * length)).collect();
                let last: Vec<V> = ins.iter().map(|v| piece(*v, count * length, rest)).collect();
                let (main, last) = (partial(b, &main, Some(length)), partial(b, &last, Some(rest)));
                // The cut dimension's place among those that are left.
                let at = (0..d).filter(|x| !dims.contains(x) || kept.contains(x)).count();
                for (x, y) in main.into_iter().zip(last) {
                    let mut extents = shape(x.r#type());
                    extents[at] += 1;
                    let t = b.tensor(&extents, elem(x.r#type()));
                    values.push(b.op1("tensor.concat", &[x, y], t, &[("dim", b.i64_attr(at as i64))]));
                }
            }
            parts_at.push(d);
        }
    }
    let last: Vec<i64> =
        parts_at.iter().map(|p| (0..*p).filter(|x| !dims.contains(x) || kept.contains(x)).count() as i64).collect();
    let done = reduced(b, &values, inits, &last, false);
    for (i, v) in done.into_iter().enumerate() {
        rewrite::replace_uses(result(op, i), v);
    }
    rewrite::erase(op);
}
