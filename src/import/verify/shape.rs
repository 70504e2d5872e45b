//! Ops that move elements.

use super::{V, agrees, element, same_element};
use crate::{print, tree::TensorType};

impl V<'_> {
    pub(super) fn iota(&mut self, dim: u64) {
        let r = self.r(0);
        let span = self.attr_at("iota_dimension");
        self.need(
            dim < r.rank() as u64,
            span,
            "C1",
            format!("iota_dimension = {dim} of {}", print::tensor(r)),
            format!("expected a number below {}", r.rank()),
        );
        let span = self.here();
        self.need(r.shape().is_some(), span, "", format!("result {} is dynamic", print::tensor(r)), "use dynamic_iota");
    }

    pub(super) fn broadcast(&mut self, dims: &[u64], dynamic: bool) {
        const ATTR: &str = "broadcast_dimensions";
        let (x, r) = (self.x(0), self.r(0));
        let span = self.attr_at(ATTR);
        if !self.need(
            dims.len() == x.rank(),
            span,
            "C2",
            format!("{ATTR} = {dims:?} for an operand of rank {}", x.rank()),
            super::expected_numbers(x.rank()),
        ) || !self.dims_in(dims, r.rank(), ATTR, ("C3", "C4"))
        {
            return;
        }
        let shape = if dynamic { self.constant(1).filter(|v| v.len() == r.rank()) } else { None };
        for (i, d) in dims.iter().enumerate() {
            let said = shape.as_ref().and_then(|v| u64::try_from(v[*d as usize]).ok());
            let (from, to) = (x.dims[i], r.dims[*d as usize].or(said));
            let ok = from == Some(1) || agrees(from, to) || (dynamic && from.is_none());
            if !ok {
                let (from, to) = (from.unwrap_or(0), to.unwrap_or(0));
                self.fail(
                    span,
                    "C5",
                    format!("operand dimension {i} of size {from} becomes result dimension {d} of size {to}"),
                    "sizes must be equal, or the operand's 1",
                );
            }
        }
        self.result_element(0, "C1", x);
        self.broadcast_quant(dims);
        if dynamic {
            self.shape_operand(1, r.rank(), "C7");
            self.constant_shape(1);
            self.known_dimensions(x.rank());
        } else {
            let span = self.here();
            self.need(
                static_or_bounded(r),
                span,
                "",
                format!("result {} is dynamic", print::tensor(r)),
                "use dynamic_broadcast_in_dim",
            );
        }
    }

    pub(super) fn reshape(&mut self) {
        let (x, r) = (self.x(0), self.r(0));
        self.result_element(0, "C1", x);
        let span = self.here();
        self.need(
            static_or_bounded(r),
            span,
            "",
            format!("result {} is dynamic", print::tensor(r)),
            "use dynamic_reshape",
        );
        if let (Some(a), Some(b)) = (x.elements(), r.elements()) {
            self.need(
                a == b,
                span,
                "C2",
                format!("{} of {a} elements as {} of {b}", print::tensor(x), print::tensor(r)),
                "the number of elements must stay",
            );
        }
        self.reshape_quant();
    }

    pub(super) fn transpose(&mut self, permutation: &[u64]) {
        let x = self.x(0);
        let mut sorted = permutation.to_vec();
        sorted.sort_unstable();
        let span = self.attr_at("permutation");
        if self.need(
            sorted.iter().copied().eq(0..x.rank() as u64),
            span,
            "C2",
            format!("permutation = {permutation:?} for rank {}", x.rank()),
            format!("expected each of 0 to {} once", x.rank().saturating_sub(1)),
        ) {
            self.result_element(0, "C1", x);
            let dims = permutation.iter().map(|p| x.dims[*p as usize]).collect();
            self.result_shape(0, "C3", &dims);
            self.transpose_quant(permutation);
        }
    }

    pub(super) fn slice(&mut self, start: &[i64], limit: &[i64], strides: &[i64]) {
        let x = self.x(0);
        for (name, list) in [("start_indices", start), ("limit_indices", limit), ("strides", strides)] {
            let span = self.attr_at(name);
            if !self.need(
                list.len() == x.rank(),
                span,
                "C2",
                format!("{name} = {list:?} for rank {}", x.rank()),
                super::expected_numbers(x.rank()),
            ) {
                return;
            }
        }
        let mut dims = vec![];
        for k in 0..x.rank() {
            let (a, b, s) = (start[k], limit[k], strides[k]);
            let span = self.attr_at("start_indices");
            let inside = a >= 0 && a <= b && x.dims[k].is_none_or(|d| b as u64 <= d);
            let size = x.dims[k].map_or("?".to_string(), |d| d.to_string());
            if !self.need(
                inside,
                span,
                "C3",
                format!("elements {a} to {b} of dimension {k}, which has {size}"),
                format!("expected 0 <= start <= limit <= {size}"),
            ) {
                return;
            }
            let span = self.attr_at("strides");
            if !self.need(s > 0, span, "C4", format!("stride {s} in dimension {k}"), "expected at least 1") {
                return;
            }
            dims.push(Some(((b - a) as u64).div_ceil(s as u64)));
        }
        self.result_element(0, "C1", x);
        self.result_shape(0, "C5", &dims);
    }

    pub(super) fn concatenate(&mut self, dim: u64) {
        let inputs = self.inputs();
        let first = inputs[0];
        let span = self.attr_at("dimension");
        if !self.need(
            dim < first.rank() as u64,
            span,
            "C4",
            format!("dimension = {dim} for rank {}", first.rank()),
            format!("expected a number below {}", first.rank()),
        ) {
            return;
        }
        let dim = dim as usize;
        let mut dims = first.dims.clone();
        for (i, t) in inputs.iter().enumerate().skip(1) {
            let span = self.at(i);
            if !self.need(
                same_element(first, t),
                span,
                "C1",
                format!("inputs of element types {} and {}", element(first), element(t)),
                format!("expected {}", element(first)),
            ) {
                return;
            }
            let fits = t.rank() == first.rank() && (0..t.rank()).all(|k| k == dim || agrees(t.dims[k], dims[k]));
            if !self.need(
                fits,
                span,
                "C2",
                format!("inputs {} and {} along dimension {dim}", print::tensor(first), print::tensor(t)),
                "the other dimensions must be equal",
            ) {
                return;
            }
            for (k, (have, d)) in dims.iter_mut().zip(&t.dims).enumerate() {
                *have = if k == dim { have.zip(*d).map(|(a, b)| a + b) } else { have.or(*d) };
            }
        }
        self.result_element(0, "C5", first);
        self.result_shape(0, "C6", &dims);
    }

    pub(super) fn pad(&mut self, low: &[i64], high: &[i64], interior: &[i64]) {
        let (x, p) = (self.x(0), self.x(1));
        let span = self.at(1);
        self.need(p.rank() == 0, span, "I2", format!("padding value {}", print::tensor(p)), "expected a scalar");
        self.need(
            same_element(x, p),
            span,
            "C1",
            format!("padding value {} for {}", print::tensor(p), print::tensor(x)),
            format!("expected {}", element(x)),
        );
        for (name, list) in [("edge_padding_low", low), ("edge_padding_high", high), ("interior_padding", interior)] {
            let span = self.attr_at(name);
            if !self.need(
                list.len() == x.rank(),
                span,
                "C2",
                format!("{name} = {list:?} for rank {}", x.rank()),
                super::expected_numbers(x.rank()),
            ) {
                return;
            }
        }
        let mut dims = vec![];
        for k in 0..x.rank() {
            let span = self.attr_at("interior_padding");
            if !self.need(
                interior[k] >= 0,
                span,
                "C3",
                format!("interior padding {} in dimension {k}", interior[k]),
                "expected at least 0",
            ) {
                return;
            }
            let size = x.dims[k].map(|d| {
                i128::from(low[k])
                    + i128::from(high[k])
                    + i128::from(d)
                    + i128::from(d.max(1) - 1) * i128::from(interior[k])
            });
            let span = self.attr_at("edge_padding_low");
            if !self.need(
                size.is_none_or(|s| s >= 0),
                span,
                "C4",
                format!("a negative size in dimension {k}"),
                "too much is cut off",
            ) {
                return;
            }
            dims.push(size.map(|s| s as u64));
        }
        self.result_element(0, "C1", x);
        self.result_shape(0, "C4", &dims);
    }

    pub(super) fn reverse(&mut self, dims: &[u64]) {
        let x = self.x(0);
        self.dims_in(dims, x.rank(), "dimensions", ("C3", "C2"));
        self.result_like(0, "C1", x);
    }

    pub(super) fn dynamic_slice(&mut self, sizes: &[i64]) {
        let x = self.x(0);
        let span = self.attr_at("slice_sizes");
        if !self.need(
            sizes.len() == x.rank() && self.op.operands.len() == x.rank() + 1,
            span,
            "C2",
            format!("{} start indices and {} sizes for rank {}", self.op.operands.len() - 1, sizes.len(), x.rank()),
            format!("expected {} of each", x.rank()),
        ) {
            return;
        }
        self.start_indices(1);
        for (k, n) in sizes.iter().enumerate() {
            let ok = *n >= 0 && x.dims[k].is_none_or(|d| *n as u64 <= d);
            self.need(
                ok,
                span,
                "C4",
                format!("slice of {n} in dimension {k} of {}", print::tensor(x)),
                "does not fit into the operand",
            );
        }
        self.result_element(0, "C1", x);
        let dims = sizes.iter().map(|n| u64::try_from(*n).ok()).collect();
        self.result_shape(0, "C5", &dims);
    }

    pub(super) fn dynamic_update_slice(&mut self) {
        let (x, u) = (self.x(0), self.x(1));
        let span = self.at(1);
        self.need(
            same_element(x, u),
            span,
            "C2",
            format!("update {} of {}", print::tensor(u), print::tensor(x)),
            format!("expected {}", element(x)),
        );
        if !self.need(
            u.rank() == x.rank(),
            span,
            "C3",
            format!("update {} of {}", print::tensor(u), print::tensor(x)),
            "expected equal ranks",
        ) {
            return;
        }
        let here = self.here();
        self.need(
            self.op.operands.len() == x.rank() + 2,
            here,
            "C4",
            format!("{} start indices for rank {}", self.op.operands.len() - 2, x.rank()),
            format!("expected {}", x.rank()),
        );
        self.start_indices(2);
        let inside = u.dims.iter().zip(&x.dims).all(|(a, b)| match (a, b) {
            (Some(a), Some(b)) => a <= b,
            _ => true,
        });
        self.need(
            inside,
            span,
            "C6",
            format!("update {} of {}", print::tensor(u), print::tensor(x)),
            "larger than the operand",
        );
        self.result_like(0, "C1", x);
    }

    /// Scalars of one integer type, from operand `first` on.
    fn start_indices(&mut self, first: usize) {
        let Some(t0) = self.op.operands.get(first).map(|v| self.f.tensor(*v)) else { return };
        for i in first..self.op.operands.len() {
            let t = self.x(i);
            let span = self.at(i);
            let scalar = t.rank() == 0 && t.dtype.is_int();
            if self.need(scalar, span, "I2", format!("start index {}", print::tensor(t)), "expected an integer scalar")
            {
                self.need(
                    t.dtype == t0.dtype,
                    span,
                    if first == 1 { "C3" } else { "C5" },
                    format!("start indices of {} and {}", t0.dtype, t.dtype),
                    format!("expected {}", t0.dtype),
                );
            }
        }
    }

    /// Operand `i` must be a static one-dimensional tensor of `rank` integers, a shape.
    pub(super) fn shape_operand(&mut self, i: usize, rank: usize, tag: &str) -> bool {
        let t: &TensorType = self.x(i);
        let span = self.at(i);
        let form = t.rank() == 1 && t.dtype.is_int();
        self.need(
            form,
            span,
            &format!("I{}", i + 1),
            format!("shape given as {}", print::tensor(t)),
            "expected a vector of integers",
        ) && self.need(
            t.dims[0] == Some(rank as u64),
            span,
            tag,
            format!("shape given as {} for rank {rank}", print::tensor(t)),
            format!("expected {rank} elements"),
        )
    }
}

/// Static, or with one dynamic dimension that has a bound.
fn static_or_bounded(t: &TensorType) -> bool {
    let dynamic = t.dims.iter().filter(|d| d.is_none()).count();
    dynamic == 0 || (dynamic == 1 && t.bounds.iter().any(Option::is_some))
}
