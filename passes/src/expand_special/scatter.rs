//! Scatter by folding: element i of the input looks at every scatter position and takes in the updates whose window is at i.
//! A window that is not wholly inside is skipped.

use super::sort::region;
use crate::{
    ir::*,
    legalize::{clamp_index, index_component},
};

struct Dims {
    update_window: Vec<usize>,
    inserted: Vec<usize>,
    input_batching: Vec<usize>,
    indices_batching: Vec<usize>,
    to_operand: Vec<usize>,
    index_vector: usize,
}
impl Dims {
    fn of(op: O) -> Self {
        let list = |n: &str| i64s_attr(op, n).unwrap_or_default().into_iter().map(|d| d as usize).collect();
        Dims {
            update_window: list("update_window_dims"),
            inserted: list("inserted_window_dims"),
            input_batching: list("input_batching_dims"),
            indices_batching: list("scatter_indices_batching_dims"),
            to_operand: list("scatter_dims_to_operand_dims"),
            index_vector: int_attr(op, "index_vector_dim").unwrap_or_default() as usize,
        }
    }
}

pub fn expand<'c>(b: &B<'c>, op: O<'c>) {
    let all = operands(op);
    let n = all.len() / 2;
    let (inputs, indices, updates) = (&all[..n], all[n], &all[n + 1..]);
    let dims = Dims::of(op);
    let unsigned = has_attr(op, "unsigned_indices");
    let extents = shape(inputs[0].r#type());
    let update_extents = shape(updates[0].r#type());
    let rank = extents.len();
    // Dimensions of the updates that number scatter positions, as those of the indices do without the index vector.
    let positions: Vec<usize> = (0..update_extents.len()).filter(|d| !dims.update_window.contains(d)).collect();
    let batching: Vec<Option<usize>> = (0..positions.len())
        .map(|p| {
            let at = if p >= dims.index_vector { p + 1 } else { p };
            dims.indices_batching.iter().position(|d| *d == at).map(|k| dims.input_batching[k])
        })
        .collect();
    // A loop for each position that is not the element's own batch, at least one.
    let mut loops = rank;
    let mut bounds = vec![];
    let of: Vec<usize> = batching
        .iter()
        .zip(&positions)
        .map(|(batch, p)| {
            batch.unwrap_or_else(|| {
                bounds.push(update_extents[*p]);
                loops += 1;
                loops - 1
            })
        })
        .collect();
    if bounds.is_empty() {
        bounds.push(1);
        loops += 1;
    }
    let window: Vec<usize> =
        (0..rank).filter(|d| !dims.inserted.contains(d) && !dims.input_batching.contains(d)).collect();
    let extent_of = |d: usize| window.iter().position(|w| *w == d).map_or(1, |k| update_extents[dims.update_window[k]]);

    let components: Vec<V> =
        (0..dims.to_operand.len()).map(|k| index_component(b, indices, dims.index_vector, k)).collect();
    let mut ins: Vec<_> = components.iter().map(|v| (*v, b.projection(loops, &of))).collect();
    let bound_loops: Vec<usize> = (rank..loops).collect();
    ins.push((b.empty(&bounds, elem(inputs[0].r#type())), b.projection(loops, &bound_loops)));
    let identity: Vec<usize> = (0..rank).collect();
    let outs: Vec<_> = inputs.iter().map(|v| (*v, b.projection(loops, &identity))).collect();
    let iterators = "p".repeat(rank) + &"r".repeat(loops - rank);
    let body = block(op, 0);
    let folded = b.generic(&iterators, &ins, &outs, |b, a| {
        let old = &a[ins.len()..];
        let mut hit = b.cint(b.i1(), 1);
        let mut place: Vec<V> = vec![b.cidx(0); update_extents.len()];
        for (p, loop_) in positions.iter().zip(&of) {
            place[*p] = b.loop_index(*loop_ as i64);
        }
        for (d, extent) in extents.iter().enumerate() {
            if dims.input_batching.contains(&d) {
                continue;
            }
            let i = b.loop_index(d as i64);
            let room = extent - extent_of(d);
            let start = match dims.to_operand.iter().position(|x| *x == d) {
                Some(k) => {
                    // Unchanged by clamping: the window is inside.
                    let clamped = clamp_index(b, a[k], unsigned, room);
                    let t = a[k].r#type();
                    let cast = if unsigned { "arith.index_castui" } else { "arith.index_cast" };
                    let back = b.op1(cast, &[clamped], t, &[]);
                    hit = b.same("arith.andi", &[hit, b.cmpi("eq", back, a[k])]);
                    clamped
                }
                None => b.cidx(0),
            };
            let offset = b.same("arith.subi", &[i, start]);
            let within = b.cmpi("ult", offset, b.cidx(extent_of(d)));
            hit = b.same("arith.andi", &[hit, within]);
            if let Some(k) = window.iter().position(|w| *w == d) {
                place[dims.update_window[k]] = b.select(within, offset, b.cidx(0));
            }
        }
        let new: Vec<V> = updates.iter().map(|u| b.extract(*u, &place)).collect();
        let args: Vec<V> = old.iter().chain(&new).copied().collect();
        let combined = region(b, body, &args);
        combined.iter().zip(old).map(|(c, o)| b.select(hit, *c, *o)).collect()
    });
    for k in 0..n {
        rewrite::replace_uses(result(op, k), result(folded, k));
    }
}
