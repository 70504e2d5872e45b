//! gather and scatter.

use super::{V, agrees, ascending, element, same_element, unique};
use crate::{
    print,
    tree::{GatherDims, ScatterDims, TensorType},
};

impl V<'_> {
    fn indices(&mut self, i: usize) {
        let t = self.x(i);
        let span = self.at(i);
        self.need(
            t.dtype.is_int() && t.quant.is_none(),
            span,
            &format!("I{}", i + 1),
            format!("indices of {}", print::tensor(t)),
            "expected integers",
        );
    }

    /// `slice_sizes` is absent where it is an operand.
    pub(super) fn gather(&mut self, d: &GatherDims, sizes: Option<&Vec<i64>>) {
        const ATTR: &str = "dimension_numbers";
        self.indices(1);
        let (x, ind) = (self.x(0), self.x(1));
        let span = self.attr_at(ATTR);
        let (rank, irank) = (x.rank(), ind.rank());
        let vector = d.index_vector_dim as usize;
        if !self.need(
            rank == d.offset_dims.len() + d.collapsed_slice_dims.len() + d.operand_batching_dims.len(),
            span,
            "C1",
            format!(
                "{} offset, {} collapsed and {} batching dimensions for an operand of rank {rank}",
                d.offset_dims.len(),
                d.collapsed_slice_dims.len(),
                d.operand_batching_dims.len()
            ),
            format!("expected {rank} in all"),
        ) || !self.need(
            vector <= irank,
            span,
            "C2",
            format!("index_vector_dim = {vector} for indices of rank {irank}"),
            format!("expected at most {irank}"),
        ) {
            return;
        }
        let components = if vector < irank { ind.dims[vector] } else { Some(1) };
        self.need(
            agrees(components, Some(d.start_index_map.len() as u64)),
            span,
            "C3",
            format!(
                "start_index_map = {:?} for index vectors of {} components",
                d.start_index_map,
                components.unwrap_or(0)
            ),
            "expected one entry for each component",
        );
        let all = [&d.collapsed_slice_dims[..], &d.operand_batching_dims].concat();
        let out_rank = irank - usize::from(vector < irank) + d.offset_dims.len();
        let checks = [
            (unique(&d.offset_dims) && ascending(&d.offset_dims), "C4", "offset_dims are not ascending"),
            (d.offset_dims.iter().all(|k| (*k as usize) < out_rank), "C5", "offset_dims beyond the result's rank"),
            (unique(&all), "C6", "collapsed_slice_dims and operand_batching_dims share a dimension"),
            (ascending(&d.collapsed_slice_dims), "C7", "collapsed_slice_dims are not ascending"),
            (
                d.collapsed_slice_dims.iter().all(|k| (*k as usize) < rank),
                "C8",
                "collapsed_slice_dims beyond the operand's rank",
            ),
            (ascending(&d.operand_batching_dims), "C10", "operand_batching_dims are not ascending"),
            (
                d.operand_batching_dims.iter().all(|k| (*k as usize) < rank),
                "C11",
                "operand_batching_dims beyond the operand's rank",
            ),
            (unique(&d.start_indices_batching_dims), "C13", "start_indices_batching_dims repeat a dimension"),
            (
                d.start_indices_batching_dims.iter().all(|k| (*k as usize) < irank),
                "C14",
                "start_indices_batching_dims beyond the indices' rank",
            ),
            (
                !d.start_indices_batching_dims.contains(&d.index_vector_dim),
                "C15",
                "index_vector_dim is a batching dimension",
            ),
            (
                d.operand_batching_dims.len() == d.start_indices_batching_dims.len(),
                "C16",
                "other numbers of batching dimensions in operand and indices",
            ),
            (
                unique(&[&d.start_index_map[..], &d.operand_batching_dims].concat()),
                "C18",
                "start_index_map and operand_batching_dims share a dimension",
            ),
            (
                d.start_index_map.iter().all(|k| (*k as usize) < rank),
                "C19",
                "start_index_map beyond the operand's rank",
            ),
        ];
        let before = self.out.len();
        for (ok, tag, message) in checks {
            self.need(ok, span, tag, message, "here");
        }
        if self.out.len() > before {
            return;
        }
        let equal = d
            .operand_batching_dims
            .iter()
            .zip(&d.start_indices_batching_dims)
            .all(|(a, b)| agrees(x.dims[*a as usize], ind.dims[*b as usize]));
        self.need(
            equal,
            span,
            "C17",
            "batching dimensions of operand and indices have other sizes",
            "expected equal sizes",
        );
        let dropped =
            |k: usize| d.collapsed_slice_dims.contains(&(k as u64)) || d.operand_batching_dims.contains(&(k as u64));
        let mut offset_sizes: Vec<Option<u64>> = vec![];
        let constant = self.constant(2);
        if sizes.is_none() {
            self.shape_operand(2, rank, "C11");
        }
        if let Some(sizes) = sizes.or(constant.as_ref()) {
            let span = self.attr_at("slice_sizes");
            if !self.need(
                sizes.len() == rank,
                span,
                "C20",
                format!("slice_sizes = {sizes:?} for rank {rank}"),
                super::expected_numbers(rank),
            ) {
                return;
            }
            for (k, n) in sizes.iter().enumerate() {
                let inside = *n >= 0 && x.dims[k].is_none_or(|d| *n as u64 <= d);
                self.need(
                    inside,
                    span,
                    "C21",
                    format!("slice of {n} in dimension {k} of {}", print::tensor(x)),
                    "does not fit into the operand",
                );
                if dropped(k) {
                    let tag = if d.collapsed_slice_dims.contains(&(k as u64)) { "C9" } else { "C12" };
                    self.need(
                        *n <= 1,
                        span,
                        tag,
                        format!("slice of {n} in dimension {k}, which is dropped"),
                        "expected at most 1",
                    );
                } else {
                    offset_sizes.push(Some(*n as u64));
                }
            }
        } else {
            offset_sizes = vec![None; d.offset_dims.len()];
        }
        let mut batch = ind.dims.clone();
        if vector < irank {
            batch.remove(vector);
        }
        let (mut b, mut o) = (batch.into_iter(), offset_sizes.into_iter());
        let dims = (0..out_rank as u64)
            .map(|k| if d.offset_dims.contains(&k) { o.next().flatten() } else { b.next().flatten() })
            .collect();
        self.result_element(0, if sizes.is_some() { "C23" } else { "C14" }, x);
        self.result_shape(0, if sizes.is_some() { "C22" } else { "C13" }, &dims);
    }

    pub(super) fn scatter(&mut self, d: &ScatterDims) {
        const ATTR: &str = "scatter_dimension_numbers";
        let count = self.op.operands.len();
        let here = self.here();
        if !self.need(
            count % 2 == 1,
            here,
            "C5",
            format!("{count} operands"),
            "expected as many updates as inputs, and the indices",
        ) {
            return;
        }
        let n = count / 2;
        self.indices(n);
        let (x, ind, u) = (self.x(0), self.x(n), self.x(n + 1));
        for i in 1..n {
            let span = self.at(i);
            self.need(
                super::compatible(&self.x(i).dims, &x.dims),
                span,
                "C1",
                "inputs of other shapes",
                "expected the first input's shape",
            );
            let span = self.at(n + 1 + i);
            self.need(
                super::compatible(&self.x(n + 1 + i).dims, &u.dims),
                span,
                "C3",
                "updates of other shapes",
                "expected the first update's shape",
            );
        }
        for i in 0..n {
            let (a, b) = (self.x(i), self.x(n + 1 + i));
            let span = self.at(n + 1 + i);
            self.need(
                same_element(a, b),
                span,
                "C6",
                format!("update of {} for an input of {}", element(b), element(a)),
                format!("expected {}", element(a)),
            );
        }
        let span = self.attr_at(ATTR);
        let (rank, irank, urank) = (x.rank(), ind.rank(), u.rank());
        let vector = d.index_vector_dim as usize;
        let checks = [
            (
                rank == d.update_window_dims.len() + d.inserted_window_dims.len() + d.input_batching_dims.len(),
                "C2",
                "the window, inserted and batching dimensions are not as many as the input's",
            ),
            (
                unique(&d.update_window_dims) && ascending(&d.update_window_dims),
                "C7",
                "update_window_dims are not ascending",
            ),
            (
                d.update_window_dims.iter().all(|k| (*k as usize) < urank),
                "C8",
                "update_window_dims beyond the updates' rank",
            ),
            (
                unique(&[&d.inserted_window_dims[..], &d.input_batching_dims].concat()),
                "C9",
                "inserted_window_dims and input_batching_dims share a dimension",
            ),
            (ascending(&d.inserted_window_dims), "C10", "inserted_window_dims are not ascending"),
            (
                d.inserted_window_dims.iter().all(|k| (*k as usize) < rank),
                "C11",
                "inserted_window_dims beyond the input's rank",
            ),
            (ascending(&d.input_batching_dims), "C12", "input_batching_dims are not ascending"),
            (
                d.input_batching_dims.iter().all(|k| (*k as usize) < rank),
                "C13",
                "input_batching_dims beyond the input's rank",
            ),
            (unique(&d.scatter_indices_batching_dims), "C14", "scatter_indices_batching_dims repeat a dimension"),
            (
                d.scatter_indices_batching_dims.iter().all(|k| (*k as usize) < irank),
                "C15",
                "scatter_indices_batching_dims beyond the indices' rank",
            ),
            (
                !d.scatter_indices_batching_dims.contains(&d.index_vector_dim),
                "C16",
                "index_vector_dim is a batching dimension",
            ),
            (
                d.input_batching_dims.len() == d.scatter_indices_batching_dims.len(),
                "C17",
                "other numbers of batching dimensions in input and indices",
            ),
            (
                unique(&[&d.scatter_dims_to_operand_dims[..], &d.input_batching_dims].concat()),
                "C20",
                "scatter_dims_to_operand_dims and input_batching_dims share a dimension",
            ),
            (
                d.scatter_dims_to_operand_dims.iter().all(|k| (*k as usize) < rank),
                "C21",
                "scatter_dims_to_operand_dims beyond the input's rank",
            ),
            (vector <= irank, "C22", "index_vector_dim beyond the indices' rank"),
        ];
        let before = self.out.len();
        for (ok, tag, message) in checks {
            self.need(ok, span, tag, message, "here");
        }
        if self.out.len() > before {
            return;
        }
        let equal = d
            .input_batching_dims
            .iter()
            .zip(&d.scatter_indices_batching_dims)
            .all(|(a, b)| agrees(x.dims[*a as usize], ind.dims[*b as usize]));
        self.need(
            equal,
            span,
            "C18",
            "batching dimensions of input and indices have other sizes",
            "expected equal sizes",
        );
        let components = if vector < irank { ind.dims[vector] } else { Some(1) };
        self.need(
            agrees(components, Some(d.scatter_dims_to_operand_dims.len() as u64)),
            span,
            "C19",
            format!(
                "scatter_dims_to_operand_dims = {:?} for index vectors of {} components",
                d.scatter_dims_to_operand_dims,
                components.unwrap_or(0)
            ),
            "expected one entry for each component",
        );
        let mut batch = ind.dims.clone();
        if vector < irank {
            batch.remove(vector);
        }
        let at = self.at(n + 1);
        if self.need(
            urank == batch.len() + d.update_window_dims.len(),
            at,
            "C4",
            format!(
                "updates of rank {urank} for {} indices' and {} window dimensions",
                batch.len(),
                d.update_window_dims.len()
            ),
            format!("expected rank {}", batch.len() + d.update_window_dims.len()),
        ) {
            let kept =
                (0..rank as u64).filter(|k| !d.inserted_window_dims.contains(k) && !d.input_batching_dims.contains(k));
            let mut window = kept.map(|k| x.dims[k as usize]);
            let mut b = batch.into_iter();
            let fits = (0..urank as u64).all(|k| {
                let have = u.dims[k as usize];
                if d.update_window_dims.contains(&k) {
                    match (have, window.next().flatten()) {
                        (Some(h), Some(w)) => h <= w,
                        _ => true,
                    }
                } else {
                    agrees(have, b.next().flatten())
                }
            });
            self.need(
                fits,
                at,
                "C4",
                format!("updates {} do not fit input and indices", print::tensor(u)),
                "other sizes",
            );
        }
        let inputs: Vec<&TensorType> = (0..n).map(|i| self.x(i)).collect();
        if let Some(e) = self.reducer(0, &inputs, "C23") {
            for (i, t) in e.into_iter().enumerate() {
                self.result_shape(i, "C24", &inputs[i].dims.clone());
                self.result_element(i, "C25", &t);
            }
        }
    }
}
