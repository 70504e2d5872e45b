//! Scatter by folding: an element of the input looks at every scatter position and takes in the updates whose window it is in.

use super::Scatter;
use crate::ir::{rewrite::yielded, *};

pub fn expand<'c>(b: &B<'c>, s: &Scatter<'c>) -> Vec<V<'c>> {
    let rank = s.extents.len();
    // A loop for each position that is not the element's own batch, at least one.
    let mut loops = rank;
    let mut bounds = vec![];
    let mut of = vec![];
    for (batch, p) in s.batch.iter().zip(&s.positions) {
        of.push(batch.unwrap_or_else(|| {
            bounds.push(s.update_extents[*p]);
            loops += 1;
            loops - 1
        }));
    }
    if bounds.is_empty() {
        bounds.push(1);
        loops += 1;
    }
    let mut ins: Vec<_> = s.components.iter().map(|v| (*v, b.projection(loops, &of))).collect();
    let bound_loops: Vec<usize> = (rank..loops).collect();
    ins.push((b.empty(&bounds, elem(s.inputs[0].r#type())), b.projection(loops, &bound_loops)));
    let identity: Vec<usize> = (0..rank).collect();
    let outs: Vec<_> = s.inputs.iter().map(|v| (*v, b.projection(loops, &identity))).collect();
    let iterators = "p".repeat(rank) + &"r".repeat(loops - rank);
    let folded = b.generic(&iterators, &ins, &outs, |b, a| {
        let old = &a[ins.len()..];
        let mut hit = b.cint(b.i1(), 1);
        let mut place: Vec<V> = vec![b.cidx(0); s.update_extents.len()];
        for (p, loop_) in s.positions.iter().zip(&of) {
            place[*p] = b.loop_index(*loop_ as i64);
        }
        for d in (0..rank).filter(|d| !s.input_batching.contains(d)) {
            let start = match s.to_operand.iter().position(|x| *x == d) {
                Some(k) => s.start(b, d, a[k]),
                None => b.cidx(0),
            };
            let offset = b.same("arith.subi", &[b.loop_index(d as i64), start]);
            let within = b.cmpi("ult", offset, b.cidx(s.window_extent(d)));
            hit = b.same("arith.andi", &[hit, within]);
            if let Some(u) = s.window_dim(d) {
                place[u] = b.select(within, offset, b.cidx(0));
            }
        }
        let new: Vec<V> = s.updates.iter().map(|u| b.extract(*u, &place)).collect();
        let args: Vec<V> = old.iter().chain(&new).copied().collect();
        let combined = yielded(b, s.body, &args);
        combined.iter().zip(old).map(|(c, o)| b.select(hit, *c, *o)).collect()
    });
    results(folded)
}
