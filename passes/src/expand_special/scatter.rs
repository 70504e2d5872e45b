//! Scatter, as what each element of the input reads. Few updates: every element looks at all of them ([`fold`]). Many: they
//! are sorted by the row that they go to, and an element looks at its row's alone ([`by_rows`]). Either way an element takes
//! its updates in their order, so every run gives the same. Of a window that is partly outside, the elements inside count.

mod by_rows;
mod fold;

use crate::{ir::*, legalize::index_component};

pub fn expand<'c>(b: &B<'c>, op: O<'c>) {
    let s = Scatter::of(b, op);
    let looks = s.positions.iter().map(|p| s.update_extents[*p]).product::<i64>();
    // What sorting takes pays only where each element would look at much.
    let few = looks <= 8 || looks.saturating_mul(s.extents.iter().product()) <= 1 << 18;
    let new = if few { fold::expand(b, &s) } else { by_rows::expand(b, &s) };
    for (k, v) in new.into_iter().enumerate() {
        rewrite::replace_uses(result(op, k), v);
    }
}

/// A scatter, read.
struct Scatter<'c> {
    inputs: Vec<V<'c>>,
    updates: Vec<V<'c>>,
    /// For each dimension that has a start index, it alone.
    components: Vec<V<'c>>,
    /// Input dimension of each component.
    to_operand: Vec<usize>,
    input_batching: Vec<usize>,
    unsigned: bool,
    extents: Vec<i64>,
    update_extents: Vec<i64>,
    /// Dimensions of the updates that number scatter positions, and the input's batch dimension that each stands for.
    positions: Vec<usize>,
    batch: Vec<Option<usize>>,
    /// Input dimensions that windows extend over, and the updates' dimension of each.
    window: Vec<(usize, usize)>,
    body: Blk<'c>,
    unique: bool,
}
impl<'c> Scatter<'c> {
    fn of(b: &B<'c>, op: O<'c>) -> Self {
        let list =
            |n: &str| i64s_attr(op, n).unwrap_or_default().into_iter().map(|d| d as usize).collect::<Vec<usize>>();
        let all = operands(op);
        let n = all.len() / 2;
        let (update_window, inserted) = (list("update_window_dims"), list("inserted_window_dims"));
        let (input_batching, indices_batching) = (list("input_batching_dims"), list("scatter_indices_batching_dims"));
        let to_operand = list("scatter_dims_to_operand_dims");
        let index_vector = int_attr(op, "index_vector_dim").unwrap_or_default() as usize;
        let (extents, update_extents) = (shape(all[0].r#type()), shape(all[n + 1].r#type()));
        let positions: Vec<usize> = (0..update_extents.len()).filter(|d| !update_window.contains(d)).collect();
        let batch = (0..positions.len())
            .map(|p| {
                let at = if p >= index_vector { p + 1 } else { p };
                indices_batching.iter().position(|d| *d == at).map(|k| input_batching[k])
            })
            .collect();
        let windowed = (0..extents.len()).filter(|d| !inserted.contains(d) && !input_batching.contains(d));
        Scatter {
            inputs: all[..n].to_vec(),
            updates: all[n + 1..].to_vec(),
            components: (0..to_operand.len()).map(|k| index_component(b, all[n], index_vector, k)).collect(),
            window: windowed.zip(update_window).collect(),
            unsigned: has_attr(op, "unsigned_indices"),
            unique: bool_attr(op, "unique_indices").unwrap_or(false),
            body: block(op, 0),
            to_operand,
            input_batching,
            extents,
            update_extents,
            positions,
            batch,
        }
    }
    /// The updates' dimension that a window has along dimension `d` of the input.
    fn window_dim(&self, d: usize) -> Option<usize> {
        self.window.iter().find(|w| w.0 == d).map(|w| w.1)
    }
    /// Elements of a window along dimension `d` of the input.
    fn window_extent(&self, d: usize) -> i64 {
        self.window_dim(d).map_or(1, |u| self.update_extents[u])
    }
    /// Where the window that has index `x` starts along dimension `d`: at that place, or at one as far outside as need be
    /// that nothing of it is inside. Clamped in the index's own type, so that no value is taken for another.
    fn start(&self, b: &B<'c>, d: usize, x: V<'c>) -> V<'c> {
        let t = x.r#type();
        let (least, most) = (-self.window_extent(d), self.extents[d]);
        // A bound that the type does not hold is never passed.
        let room = bits(t) - u32::from(!self.unsigned);
        let holds = |bound: i64| room >= 63 || bound < 1 << room;
        let x = if !self.unsigned && holds(-least) { b.same("arith.maxsi", &[x, b.cint(t, least)]) } else { x };
        let (min, cast) =
            if self.unsigned { ("arith.minui", "arith.index_castui") } else { ("arith.minsi", "arith.index_cast") };
        let x = if holds(most) { b.same(min, &[x, b.cint(t, most)]) } else { x };
        b.op1(cast, &[x], b.index(), &[])
    }
}
