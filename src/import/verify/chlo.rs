//! chlo's ops.

use super::{V, agrees, compatible, element, promotable, same_element};
use crate::{
    build::ints_of,
    print,
    tree::{Attr, DType, TensorType, Type},
};

impl V<'_> {
    pub(super) fn chlo(&mut self, name: &str) {
        match name {
            "top_k" => {
                let x = self.x(0);
                let Some(Attr::Int(k, _)) = self.op.attr("k") else {
                    let span = self.here();
                    return self.fail(span, "", "attribute `k` is missing", "expected `k`");
                };
                let span = self.attr_at("k");
                if !self.need(
                    x.rank() >= 1,
                    span,
                    "",
                    format!("operand {}", print::tensor(x)),
                    "expected at least one dimension",
                ) {
                    return;
                }
                let last = x.dims[x.rank() - 1];
                let fits = *k >= 0 && last.is_none_or(|n| *k <= i128::from(n));
                if self.need(
                    fits,
                    span,
                    "",
                    format!("k = {k} of {}", print::tensor(x)),
                    "expected at most the last dimension",
                ) {
                    let mut t = x.clone();
                    t.dims[x.rank() - 1] = Some(*k as u64);
                    t.bounds.clear();
                    self.result_like(0, "", &t);
                    self.result_like(1, "", &TensorType { dtype: DType::I32, quant: None, ..t });
                }
            }
            "is_inf" | "is_pos_inf" | "is_neg_inf" => {
                self.kinds(0, "f");
                let t = TensorType { dtype: DType::I1, ..self.x(0).clone() };
                self.result_like(0, "", &t);
            }
            "constant_like" => {
                self.result_shape(0, "", &self.x(0).dims.clone());
                let r = self.r(0);
                let fits = match self.op.attr("value") {
                    Some(Attr::Float(_, t) | Attr::Int(_, t)) => *t == r.dtype.name(),
                    _ => true,
                };
                let span = self.attr_at("value");
                self.need(
                    fits,
                    span,
                    "",
                    format!("a value of another type than {}", r.dtype),
                    format!("expected {}", r.dtype),
                );
            }
            "mulhi" => {
                if self.kinds(0, "su") && self.kinds(1, "su") {
                    self.result_like(0, "", self.x(0));
                }
            }
            _ if name.starts_with("broadcast_") => self.chlo_broadcast(name),
            "ragged_dot" => self.ragged_dot(),
            "scan" => self.scan(),
            _ => {
                for i in 1..self.op.operands.len() {
                    let (a, b) = (self.x(0), self.x(i));
                    let span = self.at(i);
                    self.need(
                        same_element(a, b) && compatible(&a.dims, &b.dims),
                        span,
                        "",
                        format!("operands of {} and {}", print::tensor(a), print::tensor(b)),
                        "expected equal types",
                    );
                }
                self.result_like(0, "", self.x(0));
            }
        }
    }

    fn chlo_broadcast(&mut self, name: &str) {
        let inputs = self.inputs();
        let rank = inputs.iter().map(|t| t.rank()).max().unwrap_or(0);
        if let Some(a) = self.op.attr("broadcast_dimensions") {
            let dims = ints_of(a).unwrap_or_default();
            let small = inputs.iter().map(|t| t.rank()).min().unwrap_or(0);
            let ok = rank == small
                || dims.len() == small
                    && dims.iter().all(|d| *d >= 0 && (*d as usize) < rank)
                    && dims.windows(2).all(|w| w[0] < w[1]);
            let span = self.attr_at("broadcast_dimensions");
            if !self.need(
                ok,
                span,
                "",
                format!("broadcast_dimensions = {dims:?}"),
                "expected a dimension of the larger operand for each of the smaller",
            ) {
                return;
            }
            if rank != small && dims.iter().enumerate().any(|(i, d)| *d as usize != rank - small + i) {
                return;
            }
        }
        let mut full = vec![Some(1); rank];
        for (i, t) in inputs.iter().enumerate() {
            for (k, d) in t.dims.iter().rev().enumerate() {
                let slot = &mut full[rank - 1 - k];
                *slot = match (*slot, *d) {
                    (Some(1), d) => d,
                    (s, Some(1)) => s,
                    (Some(a), Some(b)) if a != b => {
                        let span = self.at(i);
                        return self.fail(
                            span,
                            "",
                            format!("operands of sizes {a} and {b} in one dimension"),
                            "expected equal sizes, or 1",
                        );
                    }
                    (s, d) => s.or(d),
                };
            }
        }
        self.result_shape(0, "", &full);
        if !matches!(name, "broadcast_compare" | "broadcast_complex" | "broadcast_select") {
            let (a, b) = (inputs[0], inputs[inputs.len() - 1]);
            let span = self.at(inputs.len() - 1);
            if self.need(
                same_element(a, b),
                span,
                "",
                format!("operands of {} and {}", element(a), element(b)),
                "expected equal element types",
            ) {
                self.result_element(0, "", a);
            }
        }
    }

    /// One of: lhs ragged in a free dimension and a group dimension in rhs; ragged in a contracting dimension, which adds
    /// one for the groups to the result; ragged in a batching dimension.
    fn ragged_dot(&mut self) {
        const ATTR: &str = "ragged_dot_dimension_numbers";
        let span = self.attr_at(ATTR);
        let Some(Attr::Struct(_, _, fields)) = self.op.attr(ATTR) else {
            return self.fail(span, "", format!("attribute `{ATTR}` is missing"), "expected `#chlo.ragged_dot<...>`");
        };
        let list = |name: &str| -> Vec<u64> {
            let found = fields.iter().find(|(n, _)| n == name).map(|(_, a)| a);
            let ints = match found {
                Some(Attr::Array(l)) => {
                    l.iter().map(|a| if let Attr::Int(v, _) = a { u64::try_from(*v).ok() } else { None }).collect()
                }
                Some(a) => ints_of(a).map(|v| v.iter().map(|d| *d as u64).collect()),
                None => Some(vec![]),
            };
            // No rank has such a dimension.
            ints.unwrap_or_else(|| vec![u64::MAX])
        };
        let (lb, rb) = (list("lhs_batching_dimensions"), list("rhs_batching_dimensions"));
        let (lc, rc) = (list("lhs_contracting_dimensions"), list("rhs_contracting_dimensions"));
        let (ragged, group) = (list("lhs_ragged_dimensions"), list("rhs_group_dimensions"));
        let (a, b, g) = (self.x(0), self.x(1), self.x(2));
        let before = self.out.len();
        let right = [&rb[..], &rc, &group].concat();
        let left = [&lb[..], &lc].concat();
        let within = |l: &[u64], rank: usize| l.iter().all(|d| *d < rank as u64);
        for (ok, message, label) in [
            (lb.len() == rb.len(), "other numbers of batching dimensions left and right", "here"),
            (lc.len() == rc.len(), "other numbers of contracting dimensions left and right", "here"),
            (super::unique(&left), "a dimension of lhs is used twice", "here"),
            (
                super::unique(&right),
                "a dimension of rhs is used twice",
                "expected batching, contracting and group dimensions apart",
            ),
            (within(&left, a.rank()) && within(&ragged, a.rank()), "dimensions of lhs beyond its rank", "here"),
            (within(&right, b.rank()), "dimensions of rhs beyond its rank", "here"),
            (ragged.len() == 1, "not one ragged dimension of lhs", "expected one number in lhs_ragged_dimensions"),
        ] {
            self.need(ok, span, "", message, label);
        }
        if self.out.len() > before {
            return;
        }
        let ragged = ragged[0];
        let free = !left.contains(&ragged);
        self.need(
            group.len() == usize::from(free),
            span,
            "",
            format!("{} group dimensions of rhs", group.len()),
            if free {
                "expected one, as the ragged dimension is free"
            } else {
                "expected none, as the ragged dimension is not free"
            },
        );
        for (what, l, r) in [("batching", &lb, &rb), ("contracting", &lc, &rc)] {
            for (i, j) in l.iter().zip(r) {
                let (x, y) = (a.dims[*i as usize], b.dims[*j as usize]);
                let m = format!(
                    "{what} dimension {i} of lhs has {} elements, {j} of rhs has {}",
                    x.unwrap_or(0),
                    y.unwrap_or(0)
                );
                self.need(agrees(x, y), span, "", m, "expected equal sizes");
            }
        }
        let at = self.at(2);
        if !self.need(
            g.rank() >= 1 && g.dtype.is_int(),
            at,
            "",
            format!("group sizes given as {}", print::tensor(g)),
            "expected integers, one a group",
        ) || self.out.len() > before
        {
            return;
        }
        let groups = g.dims[g.rank() - 1];
        if let [d] = group[..] {
            let have = b.dims[d as usize];
            let m = format!("{} groups in rhs for {} group sizes", have.unwrap_or(0), groups.unwrap_or(0));
            self.need(agrees(have, groups), at, "", m, "expected equal numbers");
        }
        // One list of sizes for all, or one for each place in the dimensions before the ragged one.
        let others = |skip: &dyn Fn(u64) -> bool| -> Vec<u64> { (0..a.rank() as u64).filter(|d| !skip(*d)).collect() };
        let order: Vec<u64> = if free {
            [lb.clone(), others(&|d| left.contains(&d))].concat()
        } else if lc.contains(&ragged) {
            [&lb[..], &lc].concat()
        } else {
            lb.clone()
        };
        let mut want: Vec<Option<u64>> =
            order.iter().take_while(|d| **d != ragged).map(|d| a.dims[*d as usize]).collect();
        want.push(groups);
        if g.rank() > 1 || want.len() == 1 {
            let expected = print::tensor(&TensorType { dims: want.clone(), ..g.clone() });
            let m = format!("group sizes given as {}", print::tensor(g));
            self.need(compatible(&g.dims, &want), at, "", m, format!("expected {expected}, or one list for all"));
        }
        let mut dims: Vec<Option<u64>> = vec![];
        if lc.contains(&ragged) {
            dims.push(groups);
        }
        dims.extend(lb.iter().map(|d| a.dims[*d as usize]));
        dims.extend(others(&|d| left.contains(&d)).iter().map(|d| a.dims[*d as usize]));
        dims.extend((0..b.rank() as u64).filter(|d| !right.contains(d)).map(|d| b.dims[d as usize]));
        self.result_shape(0, "", &dims);
    }

    /// A loop over slices of the inputs: the body takes a slice of each and the carried values, and gives a slice of each
    /// output and the carried values.
    fn scan(&mut self) {
        let here = self.here();
        let total = self.op.operands.len();
        let sizes = self.op.attr("operandSegmentSizes").and_then(ints_of).unwrap_or_default();
        let [inputs, inits] = sizes[..] else {
            return self.fail(here, "", "inputs and inits are not told apart", "expected operandSegmentSizes");
        };
        let (inputs, inits) = (inputs.max(0) as usize, inits.max(0) as usize);
        if !self.need(
            inputs + inits == total,
            here,
            "",
            format!("{total} operands"),
            format!("expected {inputs} and {inits}"),
        ) {
            return;
        }
        let span = self.attr_at("dimension");
        let Some(Attr::Int(dim, _)) = self.op.attr("dimension") else {
            return self.fail(here, "", "attribute `dimension` is missing", "expected `dimension`");
        };
        let dim = *dim;
        let mut length = match self.op.attr("scan_dim_size") {
            Some(Attr::Int(n, _)) => u64::try_from(*n).ok(),
            _ => None,
        };
        let before = self.out.len();
        let mut wanted = vec![];
        for i in 0..inputs {
            let t = self.x(i);
            let m = format!("dimension = {dim} of {}", print::tensor(t));
            if !self.need(
                dim >= 0 && dim < t.rank() as i128,
                span,
                "",
                m,
                format!("expected a number below {}", t.rank()),
            ) {
                return;
            }
            let mut t = t.clone();
            let n = t.dims.remove(dim as usize);
            t.bounds.clear();
            let at = self.at(i);
            let label = format!("expected {}", length.unwrap_or(0));
            self.need(agrees(n, length), at, "", format!("{} slices", n.unwrap_or(0)), label);
            length = length.or(n);
            wanted.push(t);
        }
        wanted.extend((inputs..total).map(|i| self.x(i).clone()));
        let region = &self.op.regions[0];
        let m = format!("the body takes {} arguments", region.args.len());
        if !self.need(region.args.len() == total, here, "", m, format!("expected {total}")) {
            return;
        }
        let fits = |t: &Type, want: &TensorType| matches!(t, Type::Tensor(t) if compatible(&t.dims, &want.dims) && promotable(want, t));
        for (i, (ty, want)) in self.types(&region.args).into_iter().zip(&wanted).enumerate() {
            let at = self.at(i);
            let m = format!("argument {i} of the body is {}", print::ty(ty));
            self.need(fits(ty, want), at, "", m, format!("expected {}", print::tensor(want)));
        }
        let (gives, results) = (region.results.len(), self.op.results.len());
        if !self.need(
            gives == results && gives >= inits,
            here,
            "",
            format!("the body gives {gives} values"),
            format!("expected {results}"),
        ) || self.out.len() > before
        {
            return;
        }
        for (i, ty) in self.types(&region.results).into_iter().enumerate() {
            let Type::Tensor(t) = ty else {
                return self.fail(here, "", format!("the body gives {}", print::ty(ty)), "expected tensors");
            };
            let mut t = t.clone();
            if i < gives - inits {
                if !self.need(
                    dim <= t.rank() as i128,
                    span,
                    "",
                    format!("dimension = {dim} of {} slices", print::tensor(&t)),
                    "beyond their rank",
                ) {
                    return;
                }
                t.dims.insert(dim as usize, length);
            }
            self.result_like(i, "", &t);
        }
    }
}
