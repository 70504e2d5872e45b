//! Folds a generic whose body only yields its input (broadcast, transpose) into the maps of the generics that read it, and a
//! transpose into the dimensions of a reduce.

use crate::ir::{rewrite::*, *};
use melior::ir::{AffineExpr, AffineMap, Attribute};

/// Input and map of a copy.
fn copied<'c>(v: V<'c>) -> Option<(V<'c>, AffineMap<'c>)> {
    let g = Generic::of(def(v)?)?;
    let yields_input = || {
        let all = ops(g.body);
        all.len() == 1 && key(operand(all[0], 0)) == key(arg(g.body, 0))
    };
    (g.is_parallel() && g.ins.len() == 1 && g.outs.len() == 1 && g.out_map(0).is_identity() && yields_input())
        .then(|| (g.ins[0], g.in_map(0)))
}
/// Whether every loop is a result of some map: linalg finds the extents of loops there.
pub fn names_all_loops(maps: &[AffineMap], loops: usize) -> bool {
    (0..loops).all(|d| {
        maps.iter().any(|m| {
            (0..m.result_count()).any(|r| {
                let e = m.result(r).expect("in range");
                e.is_dim() && e.dim_position() == d
            })
        })
    })
}

pub fn fold<'c>(b: &B<'c>, block: Blk<'c>) -> bool {
    let mut changed = false;
    for op in ops(block) {
        changed |= match name(op) {
            "linalg.generic" => into_generic(b, op),
            "linalg.reduce" => into_reduce(b, op),
            _ => false,
        };
    }
    changed
}
fn into_generic<'c>(b: &B<'c>, op: O<'c>) -> bool {
    let g = Generic::of(op).expect("a generic");
    let mut maps: Vec<AffineMap> = (0..g.ins.len()).map(|i| g.in_map(i)).collect();
    maps.extend((0..g.outs.len()).map(|i| g.out_map(i)));
    let mut changed = false;
    for i in 0..g.ins.len() {
        while let Some((source, inner)) = copied(operand(op, i)) {
            let outer = maps[i];
            let results: Vec<AffineExpr> =
                (0..inner.result_count()).map(|r| inner.result(r).expect("in range").compose(outer)).collect();
            let composed = AffineMap::new(b.c, g.loops(), 0, &results);
            let before = std::mem::replace(&mut maps[i], composed);
            if !names_all_loops(&maps, g.loops()) {
                // The sum of a broadcast: nothing else says how often.
                maps[i] = before;
                break;
            }
            set_operand(op, i, source);
            changed = true;
        }
    }
    if changed {
        let maps: Vec<Attribute> = maps.into_iter().map(map_attr).collect();
        set_attr(op, "indexing_maps", b.array(&maps));
    }
    changed
}
/// All inputs transposed alike, and what is kept in the same order: reduces the originals.
fn into_reduce<'c>(b: &B<'c>, op: O<'c>) -> bool {
    let inputs = op.operand_count() / 2;
    let sources: Option<Vec<_>> = (0..inputs).map(|i| copied(operand(op, i))).collect();
    let Some(sources) = sources else { return false };
    let permutation = |m: &AffineMap| -> Option<Vec<i64>> {
        let dims = (0..m.result_count()).map(|r| m.result(r).expect("in range"));
        let dims: Vec<i64> = dims.map(|e| if e.is_dim() { e.dim_position() as i64 } else { -1 }).collect();
        (m.is_permutation() && dims.len() == m.dim_count()).then_some(dims)
    };
    // of[i]: where dimension i of a source is in its copy.
    let Some(of) = permutation(&sources[0].1) else { return false };
    if sources.iter().any(|s| permutation(&s.1).as_ref() != Some(&of)) {
        return false;
    }
    let dimensions = i64s_attr(op, "dimensions").unwrap_or_default();
    let (reduced, kept): (Vec<usize>, Vec<usize>) = (0..of.len()).partition(|i| dimensions.contains(&of[*i]));
    if !kept.iter().map(|i| of[*i]).is_sorted() {
        return false;
    }
    for (i, (source, _)) in sources.iter().enumerate() {
        set_operand(op, i, *source);
    }
    set_attr(op, "dimensions", b.i64s(&reduced.iter().map(|i| *i as i64).collect::<Vec<_>>()));
    true
}
