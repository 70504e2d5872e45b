//! Reductions, windows, map and sort.

use super::{V, compatible, element, same_element};
use crate::{
    print,
    tree::{TensorType, Type, Window},
};

/// Number of windows along a dimension, or `None` if its size is not known.
pub(super) fn windows(
    size: Option<u64>,
    base_dilation: i64,
    (low, high): (i64, i64),
    window: i64,
    window_dilation: i64,
    stride: i64,
) -> Option<u64> {
    let n = i128::from(size?);
    let dilated = |n: i128, d: i64| if n == 0 { 0 } else { (n - 1) * i128::from(d) + 1 };
    let padded = i128::from(low) + dilated(n, base_dilation) + i128::from(high);
    let reach = dilated(i128::from(window), window_dilation);
    Some(if padded <= 0 || reach > padded { 0 } else { ((padded - reach) / i128::from(stride) + 1) as u64 })
}

impl V<'_> {
    /// Inputs and their init values: as many, of equal shapes, scalars of the inputs' element types.
    fn inputs_and_inits(&mut self, tags: (&str, &str, &str)) -> Option<Vec<TensorType>> {
        let count = self.op.operands.len();
        let here = self.here();
        if !self.need(
            count.is_multiple_of(2),
            here,
            tags.0,
            format!("{count} operands"),
            "expected as many init values as inputs",
        ) || !self.need(
            self.op.results.len() == count / 2,
            here,
            tags.0,
            format!("{} results", self.op.results.len()),
            format!("expected {}", count / 2),
        ) {
            return None;
        }
        let n = count / 2;
        let x = self.x(0);
        for i in 0..n {
            let (t, init) = (self.x(i), self.x(n + i));
            let span = self.at(i);
            if !self.need(
                compatible(&t.dims, &x.dims),
                span,
                tags.1,
                format!("inputs {} and {}", print::tensor(x), print::tensor(t)),
                "expected equal shapes",
            ) {
                return None;
            }
            let span = self.at(n + i);
            if !self.need(
                init.rank() == 0,
                span,
                tags.2,
                format!("init value {}", print::tensor(init)),
                "expected a scalar",
            ) || !self.need(
                same_element(t, init),
                span,
                tags.2,
                format!("init value {} for an input of {}", print::tensor(init), print::tensor(t)),
                format!("expected tensor<{}>", element(t)),
            ) {
                return None;
            }
        }
        Some((0..n).map(|i| self.x(i).clone()).collect())
    }

    pub(super) fn reduce(&mut self, dims: &[u64]) {
        let Some(inputs) = self.inputs_and_inits(("C3", "C1", "C2")) else { return };
        let rank = inputs[0].rank();
        if !self.dims_in(dims, rank, "dimensions", ("C4", "C5")) {
            return;
        }
        let refs: Vec<&TensorType> = inputs.iter().collect();
        if let Some(elements) = self.reducer(0, &refs, "C6") {
            for (i, e) in elements.iter().enumerate() {
                let kept = (0..rank).filter(|k| !dims.contains(&(*k as u64))).map(|k| inputs[i].dims[k]).collect();
                self.result_shape(i, "C7", &kept);
                self.result_element(i, "C8", e);
            }
        }
    }

    pub(super) fn reduce_window(&mut self, w: &Window) {
        let Some(inputs) = self.inputs_and_inits(("C1", "C2", "C3")) else { return };
        let rank = inputs[0].rank();
        let lists = [
            ("window_dimensions", &w.dimensions, "C4", "C5"),
            ("window_strides", &w.strides, "C6", "C7"),
            ("base_dilations", &w.base_dilations, "C8", "C9"),
            ("window_dilations", &w.window_dilations, "C10", "C11"),
        ];
        for (name, list, size_tag, value_tag) in lists {
            let span = self.attr_at(name);
            if !self.need(
                list.len() == rank,
                span,
                size_tag,
                format!("{name} = {list:?} for rank {rank}"),
                super::expected_numbers(rank),
            ) || !self.need(
                list.iter().all(|v| *v > 0),
                span,
                value_tag,
                format!("{name} = {list:?}"),
                "expected numbers from 1",
            ) {
                return;
            }
        }
        let span = self.attr_at("padding");
        if !self.need(
            w.padding.len() == rank,
            span,
            "C12",
            format!("padding of {} dimensions for rank {rank}", w.padding.len()),
            format!("expected {rank} pairs"),
        ) {
            return;
        }
        let refs: Vec<&TensorType> = inputs.iter().collect();
        if let Some(elements) = self.reducer(0, &refs, "C13") {
            let dims = (0..rank)
                .map(|k| {
                    windows(
                        inputs[0].dims[k],
                        w.base_dilations[k],
                        w.padding[k],
                        w.dimensions[k],
                        w.window_dilations[k],
                        w.strides[k],
                    )
                })
                .collect();
            for (i, e) in elements.iter().enumerate() {
                self.result_shape(i, "C15", &dims);
                self.result_element(i, "C16", e);
            }
        }
    }

    pub(super) fn select_and_scatter(&mut self, dims: &[i64], strides: &[i64], padding: &[(i64, i64)]) {
        let (x, source, init) = (self.x(0), self.x(1), self.x(2));
        let span = self.at(1);
        self.need(
            same_element(x, source),
            span,
            "C1",
            format!("source of {} for an operand of {}", element(source), element(x)),
            format!("expected {}", element(x)),
        );
        let span = self.at(2);
        self.need(
            same_element(x, init) && init.rank() == 0,
            span,
            "C3",
            format!("init value {} for an operand of {}", print::tensor(init), element(x)),
            format!("expected tensor<{}>", element(x)),
        );
        let rank = x.rank();
        for (name, list, size_tag, value_tag) in
            [("window_dimensions", dims, "C4", "C5"), ("window_strides", strides, "C6", "C7")]
        {
            let span = self.attr_at(name);
            if !self.need(
                list.len() == rank,
                span,
                size_tag,
                format!("{name} = {list:?} for rank {rank}"),
                super::expected_numbers(rank),
            ) || !self.need(
                list.iter().all(|v| *v > 0),
                span,
                value_tag,
                format!("{name} = {list:?}"),
                "expected numbers from 1",
            ) {
                return;
            }
        }
        let span = self.attr_at("padding");
        if !self.need(
            padding.len() == rank,
            span,
            "C8",
            format!("padding of {} dimensions for rank {rank}", padding.len()),
            format!("expected {rank} pairs"),
        ) {
            return;
        }
        let want = (0..rank).map(|k| windows(x.dims[k], 1, padding[k], dims[k], 1, strides[k])).collect();
        let span = self.at(1);
        self.need(
            compatible(&source.dims, &want),
            span,
            "C2",
            format!("source {} for the windows of {}", print::tensor(source), print::tensor(x)),
            format!("expected {}", print::tensor(&TensorType { dims: want.clone(), ..source.clone() })),
        );
        if self.takes(0, &[x, x], "C9") {
            self.gives_predicate(0, "C9");
        }
        if let Some(e) = self.reducer(1, &[x], "C10") {
            self.result_shape(0, "C11", &x.dims.clone());
            self.result_element(0, "C12", &e[0]);
        }
    }

    pub(super) fn map(&mut self, dims: &[u64]) {
        let inputs = self.inputs();
        let x = inputs[0];
        for (i, t) in inputs.iter().enumerate().skip(1) {
            let span = self.at(i);
            self.need(
                compatible(&t.dims, &x.dims),
                span,
                "C1",
                format!("inputs {} and {}", print::tensor(x), print::tensor(t)),
                "expected equal shapes",
            );
        }
        let span = self.attr_at("dimensions");
        self.need(
            dims.iter().copied().eq(0..x.rank() as u64),
            span,
            "C3",
            format!("dimensions = {dims:?} for rank {}", x.rank()),
            "expected 0, 1, ... to the rank",
        );
        if self.takes(0, &inputs, "C4") {
            let results = self.types(&self.op.regions[0].results);
            let here = self.here();
            match results[..] {
                [Type::Tensor(t)] if t.rank() == 0 => {
                    let t = t.clone();
                    self.result_shape(0, "C1", &x.dims.clone());
                    self.result_element(0, "C4", &t);
                }
                _ => self.fail(here, "C4", "the computation does not return one scalar", "expected one"),
            }
        }
    }

    pub(super) fn sort(&mut self, dim: i64) {
        let inputs = self.inputs();
        let here = self.here();
        if !self.need(
            self.op.results.len() == inputs.len(),
            here,
            "C2",
            format!("{} results for {} inputs", self.op.results.len(), inputs.len()),
            format!("expected {}", inputs.len()),
        ) {
            return;
        }
        let x = inputs[0];
        for (i, t) in inputs.iter().enumerate() {
            let span = self.at(i);
            self.need(
                compatible(&t.dims, &x.dims),
                span,
                "C3",
                format!("inputs {} and {}", print::tensor(x), print::tensor(t)),
                "expected equal shapes",
            );
            self.result_like(i, "C2", t);
        }
        let rank = x.rank() as i64;
        let span = self.attr_at("dimension");
        // A scalar has no dimension; sorting it is allowed with the default.
        let ok = (-rank..rank).contains(&dim) || (rank == 0 && (dim == -1 || dim == 0));
        self.need(
            ok,
            span,
            "C4",
            format!("dimension = {dim} for rank {rank}"),
            format!("expected {} to {}", -rank, rank - 1),
        );
        let pairs: Vec<&TensorType> = inputs.iter().flat_map(|t| [*t, *t]).collect();
        if self.takes(0, &pairs, "C5") {
            self.gives_predicate(0, "C5");
        }
    }
}
