//! Sort by counting. Of two places p < q, the element at q comes before that at p if the comparator says so of them, else
//! after: this orders any two whatever the comparator is, and keeps the order of equals.

use crate::ir::{rewrite::*, *};
use melior::ir::AffineMap;

/// What the region yields for these arguments.
pub fn region<'c>(b: &B<'c>, body: Blk<'c>, args: &[V<'c>]) -> Vec<V<'c>> {
    let mut map = Map::new();
    for (i, v) in args.iter().enumerate() {
        map.insert(key(arg(body, i)), *v);
    }
    let all = ops(body);
    let (last, rest) = all.split_last().expect("a region has a terminator");
    for op in rest {
        clone_mapped(b, *op, &mut map);
    }
    operands(*last).into_iter().map(|v| map.get(&key(v)).copied().unwrap_or(v)).collect()
}

pub fn expand<'c>(b: &B<'c>, op: O<'c>) {
    let inputs = operands(op);
    let extents = shape(inputs[0].r#type());
    let dim = int_attr(op, "dimension").unwrap_or_default() as usize;
    let n = extents.len();
    let i32 = b.i(32);
    // Loops: the places, and one more along the sorted dimension.
    let own: Vec<usize> = (0..n).collect();
    let mut other = own.clone();
    other[dim] = n;
    let iterators = "p".repeat(n) + "r";
    let project = |of: &[usize]| b.projection(n + 1, of);
    let count = |ins: &[(V<'c>, AffineMap<'c>)], f: &dyn Fn(&B<'c>, &[V<'c>]) -> V<'c>| {
        let start = b.fill(b.cint(i32, 0), &extents);
        let counted = b.generic(&iterators, ins, &[(start, project(&own))], |b, a| {
            let (values, sum) = a.split_at(a.len() - 1);
            vec![b.addi(sum[0], f(b, values))]
        });
        result(counted, 0)
    };
    let mut ins: Vec<_> = inputs.iter().map(|v| (*v, project(&own))).collect();
    ins.extend(inputs.iter().map(|v| (*v, project(&other))));
    let body = block(op, 0);
    let rank = count(&ins, &|b, a| {
        let (mine, others) = a.split_at(inputs.len());
        let (i, j) = (b.loop_index(dim as i64), b.loop_index(n as i64));
        let earlier = b.cmpi("ult", j, i);
        // The later of the two against the earlier.
        let args: Vec<V> =
            mine.iter().zip(others).flat_map(|(x, y)| [b.select(earlier, *x, *y), b.select(earlier, *y, *x)]).collect();
        let overtakes = region(b, body, &args)[0];
        let before = b.same("arith.xori", &[overtakes, earlier]);
        let before = b.same("arith.andi", &[before, b.cmpi("ne", i, j)]);
        b.op1("arith.extui", &[before], i32, &[])
    });
    // Where the element of each place comes from: the sum has one term.
    let source = count(&[(rank, project(&other))], &|b, a| {
        let place = b.op1("arith.index_cast", &[b.loop_index(dim as i64)], i32, &[]);
        let from = b.op1("arith.index_cast", &[b.loop_index(n as i64)], i32, &[]);
        b.select(b.cmpi("eq", a[0], place), from, b.cint(i32, 0))
    });
    for (k, input) in inputs.iter().enumerate() {
        let sorted = b.map(&extents, elem(input.r#type()), &[(source, &own)], |b, a| {
            let from = b.op1("arith.index_cast", &[a[0]], b.index(), &[]);
            let place: Vec<V> = (0..n).map(|d| if d == dim { from } else { b.loop_index(d as i64) }).collect();
            b.extract(*input, &place)
        });
        replace_uses(result(op, k), sorted);
    }
}
