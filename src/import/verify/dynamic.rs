//! Ops whose shapes are operands.

use super::{V, element, same_element};
use crate::{
    build::ints_of,
    print,
    tree::{DType, TensorType},
};

impl V<'_> {
    /// The result against the shape in operand `i`, where that is a constant.
    pub(super) fn constant_shape(&mut self, i: usize) {
        let Some(shape) = self.constant(i) else { return };
        let r = self.r(0);
        let here = self.here();
        let ok = shape.len() == r.rank()
            && shape.iter().zip(&r.dims).all(|(s, d)| *s >= 0 && super::agrees(u64::try_from(*s).ok(), *d));
        self.need(
            ok,
            here,
            "",
            format!("result {} of shape {shape:?}", print::tensor(r)),
            "the result's type and the shape disagree",
        );
    }

    pub(super) fn dynamic_reshape(&mut self) {
        let (x, r) = (self.x(0), self.r(0));
        self.result_element(0, "C1", x);
        self.shape_operand(1, r.rank(), "C4");
        self.constant_shape(1);
        if let (Some(shape), Some(n)) = (self.constant(1), x.elements()) {
            let here = self.here();
            let m = shape.iter().try_fold(1u64, |m, s| m.checked_mul(u64::try_from(*s).ok()?));
            self.need(
                m == Some(n),
                here,
                "C2",
                format!("{n} elements in shape {shape:?}"),
                "the number of elements must stay",
            );
        }
        if let (Some(a), Some(b)) = (x.elements(), r.elements()) {
            let span = self.here();
            self.need(
                a == b,
                span,
                "C2",
                format!("{} as {}", print::tensor(x), print::tensor(r)),
                "the number of elements must stay",
            );
        }
    }

    pub(super) fn dynamic_iota(&mut self, dim: u64) {
        let r = self.r(0);
        self.shape_operand(0, r.rank(), "C2");
        self.constant_shape(0);
        let span = self.attr_at("iota_dimension");
        self.need(
            dim < r.rank() as u64,
            span,
            "C1",
            format!("iota_dimension = {dim} of {}", print::tensor(r)),
            format!("expected a number below {}", r.rank()),
        );
    }

    pub(super) fn known_dimensions(&mut self, rank: usize) {
        let mut all = vec![];
        for (name, tag) in [("known_expanding_dimensions", "C9"), ("known_nonexpanding_dimensions", "C10")] {
            let Some(list) = self.op.attr(name).and_then(ints_of) else { continue };
            let span = self.attr_at(name);
            let ok = list.iter().all(|d| (0..rank as i64).contains(d));
            self.need(
                ok,
                span,
                tag,
                format!("{name} = {list:?} for rank {rank}"),
                format!("expected numbers below {rank}"),
            );
            all.extend(list.iter().map(|d| *d as u64));
        }
        let span = self.attr_at("known_expanding_dimensions");
        self.need(
            super::unique(&all),
            span,
            "C8",
            format!("a dimension is known twice: {all:?}"),
            "expected each once",
        );
    }

    pub(super) fn real_dynamic_slice(&mut self) {
        let x = self.x(0);
        for i in 1..4 {
            self.shape_operand(i, x.rank(), "");
        }
        self.result_element(0, "", x);
        let span = self.here();
        let r = self.r(0);
        self.need(
            r.rank() == x.rank(),
            span,
            "",
            format!("slice of {} as {}", print::tensor(x), print::tensor(r)),
            "expected equal ranks",
        );
    }

    pub(super) fn dynamic_pad(&mut self) {
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
        for i in 2..5 {
            self.shape_operand(i, x.rank(), "C2");
        }
        self.result_element(0, "C1", x);
        let r = self.r(0);
        let span = self.here();
        self.need(
            r.rank() == x.rank(),
            span,
            "C4",
            format!("padding of {} as {}", print::tensor(x), print::tensor(r)),
            "expected equal ranks",
        );
        let known = [2, 3, 4].map(|i| self.constant(i).filter(|v| v.len() == x.rank()));
        if let Some(interior) = &known[2] {
            let at = self.at(4);
            let ok = interior.iter().all(|v| *v >= 0);
            self.need(ok, at, "C3", format!("interior padding {interior:?}"), "expected numbers from 0");
        }
        if let [Some(low), Some(high), Some(interior)] = &known
            && r.rank() == x.rank()
        {
            let size = |k: usize| -> Option<u64> {
                let n = i128::from(x.dims[k]?);
                let between = (n - 1).max(0) * i128::from(interior[k]);
                u64::try_from(i128::from(low[k]) + n + between + i128::from(high[k])).ok()
            };
            let want = (0..x.rank()).map(size).collect();
            self.result_shape(0, "C4", &want);
        }
    }

    pub(super) fn get_dimension_size(&mut self, dim: u64) {
        let x = self.x(0);
        let span = self.attr_at("dimension");
        self.need(
            dim < x.rank() as u64,
            span,
            "C1",
            format!("dimension = {dim} of {}", print::tensor(x)),
            format!("expected a number below {}", x.rank()),
        );
        let t = TensorType::new(DType::I32, &[]);
        self.result_like(0, "", &t);
    }

    pub(super) fn set_dimension_size(&mut self, dim: u64) {
        let (x, n) = (self.x(0), self.x(1));
        let span = self.attr_at("dimension");
        if !self.need(
            dim < x.rank() as u64,
            span,
            "",
            format!("dimension = {dim} of {}", print::tensor(x)),
            format!("expected a number below {}", x.rank()),
        ) {
            return;
        }
        let span = self.at(1);
        self.need(
            n.rank() == 0 && n.dtype == DType::I32,
            span,
            "",
            format!("size given as {}", print::tensor(n)),
            "expected tensor<i32>",
        );
        let mut dims = x.dims.clone();
        dims[dim as usize] = None;
        self.result_shape(0, "", &dims);
    }
}
