//! Warnings of constant indices: outside of what they index, or not as sorted or unique as the op says.

use super::Watch;
use crate::tree::{GatherDims, Op, OpKind, ScatterDims, ValueId};

impl<'a> Watch<'a> {
    /// Constant start indices of dynamic slices, which are clamped.
    pub(super) fn starts(&mut self, op: &'a Op) {
        let update = matches!(op.kind, OpKind::DynamicUpdateSlice);
        let first = if update { 2 } else { 1 };
        let whole = self.f.tensor(op.operands[0]).dims.clone();
        let part = self.f.tensor(if update { op.operands[1] } else { op.results[0] }).dims.clone();
        for (d, (n, size)) in whole.iter().zip(&part).enumerate() {
            let (Some(n), Some(size)) = (n, size) else { continue };
            let Some(start) = self.integer(op.operands[first + d]) else { continue };
            let last = i128::from(n.saturating_sub(*size));
            if start < 0 || start > last {
                let label = format!("{start} becomes {}", start.clamp(0, last));
                let m = format!("the start in dimension {d} is outside of 0 to {last}");
                self.warn(
                    "W0206",
                    Self::at(op, first + d),
                    op,
                    &m,
                    label,
                    "start indices are clamped so that the slice fits: is the size right?",
                );
            }
        }
    }

    /// The index vectors of a constant, each of `n` numbers; `None` if it is not a constant or not so small.
    fn vectors(&self, v: ValueId, vector_dim: u64) -> Option<Vec<Vec<i128>>> {
        let shape = self.f.tensor(v).shape()?;
        let list = self.integers(v)?;
        let total: u64 = shape.iter().product();
        let list = if list.len() == 1 {
            vec![list[0]; usize::try_from(total).ok().filter(|n| *n <= super::FEW)?]
        } else {
            list
        };
        if list.len() as u64 != total {
            return None;
        }
        let rank = shape.len() as u64;
        if vector_dim == rank {
            return Some(list.into_iter().map(|x| vec![x]).collect());
        }
        // Only the usual place of the vectors, the last dimension.
        let n = *shape.last()? as usize;
        (vector_dim + 1 == rank && n > 0).then(|| list.chunks(n).map(<[i128]>::to_vec).collect())
    }

    pub(super) fn gather(&mut self, op: &'a Op, dims: &GatherDims, sizes: &[i64], sorted: bool) {
        let Some(list) = self.vectors(op.operands[1], dims.index_vector_dim) else { return };
        let shape = self.f.tensor(op.operands[0]).dims.clone();
        let outside = list.iter().find_map(|v| {
            dims.start_index_map.iter().zip(v).find_map(|(d, x)| {
                let last = i128::from(shape[*d as usize]?) - i128::from(sizes[*d as usize]);
                (*x < 0 || *x > last).then_some((*d, *x, last))
            })
        });
        if let Some((d, x, last)) = outside {
            let label = format!("{x} becomes {}", x.clamp(0, last.max(0)));
            let m = format!("an index of dimension {d} is outside of 0 to {last}");
            self.warn("W0206", Self::at(op, 1), op, &m, label, "indices are clamped so that each slice fits");
        }
        self.order(op, &list, sorted && dims.start_indices_batching_dims.is_empty(), &dims.start_index_map, false);
    }

    pub(super) fn scatter(&mut self, op: &'a Op, dims: &ScatterDims, sorted: bool, unique: bool) {
        let n = (op.operands.len() - 1) / 2;
        let Some(list) = self.vectors(op.operands[n], dims.index_vector_dim) else { return };
        let batched = !dims.scatter_indices_batching_dims.is_empty();
        let map = &dims.scatter_dims_to_operand_dims;
        self.order(op, &list, sorted && !batched, map, unique && !batched);
    }

    /// What the op claims of its indices.
    fn order(&mut self, op: &'a Op, list: &[Vec<i128>], sorted: bool, map: &[u64], unique: bool) {
        let n = if matches!(op.kind, OpKind::Gather { .. }) { 1 } else { (op.operands.len() - 1) / 2 };
        // In the order of the operand's dimensions.
        let mut order: Vec<usize> = (0..map.len()).collect();
        order.sort_by_key(|i| map[*i]);
        let keys: Vec<Vec<i128>> =
            list.iter().map(|v| order.iter().filter_map(|i| v.get(*i).copied()).collect()).collect();
        let mut claim = |name: &str, code: &'static str, found: String| {
            let span = op.attr_spans.iter().find(|(a, _)| a == name).map_or_else(|| Self::at(op, n), |(_, s)| *s);
            let m = format!("the indices are constants and not as `{name}` says");
            self.warn(code, span, op, &m, found, "what happens then differs between devices: leave the attribute out");
        };
        if sorted && let Some(w) = keys.windows(2).find(|w| w[0] > w[1]) {
            claim("indices_are_sorted", "W0207", format!("{:?} stands before {:?}", w[0], w[1]));
        }
        if unique {
            let mut seen = keys.clone();
            seen.sort();
            if let Some(w) = seen.windows(2).find(|w| w[0] == w[1]) {
                claim("unique_indices", "W0207", format!("{:?} comes twice", w[0]));
            }
        }
    }
}
