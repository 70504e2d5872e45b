//! Ops that the tree keeps as they are: collectives between devices, host transfers, legacy ops.

use super::{V, agrees, compatible, same_element};
use crate::{
    build::ints_of,
    print,
    tree::{Attr, DType, Literal, OpKind, TensorType, Type},
};

impl<'a> V<'a> {
    fn int(&self, name: &str) -> Option<i64> {
        match self.op.attr(name) {
            Some(Attr::Int(v, _)) => i64::try_from(*v).ok(),
            _ => None,
        }
    }
    fn dense(&self, name: &str) -> Option<&'a Literal> {
        match self.op.attr(name) {
            Some(Attr::Dense(l)) => Some(l),
            _ => None,
        }
    }
    fn tensor_at(&self, i: usize) -> Option<&'a TensorType> {
        match self.op.operands.get(i).map(|v| self.f.ty(*v)) {
            Some(Type::Tensor(t)) => Some(t),
            _ => None,
        }
    }

    pub(super) fn collective(&mut self) {
        let OpKind::Other(name) = &self.op.kind else { return };
        if !matches!(name.as_str(), "stablehlo.send" | "stablehlo.outfeed" | "stablehlo.dot") {
            self.per_axis();
        }
        match name.as_str() {
            "stablehlo.all_gather" => self.all_gather(),
            "stablehlo.all_reduce" => {
                self.groups();
                self.reductions(("C5", "C6", "C7"));
            }
            "stablehlo.collective_reduce" => {
                self.groups();
                let n = self.rooted();
                for i in 0..n.min(self.op.results.len()) {
                    let Some(x) = self.tensor_at(i) else { continue };
                    if self.reducer(0, &[x], "C4").is_some() {
                        self.result_shape(i, "C3", &x.dims.clone());
                    }
                }
            }
            "stablehlo.reduce_scatter" => self.reduce_scatter(),
            "stablehlo.all_to_all" => self.all_to_all(),
            "stablehlo.collective_permute" => {
                self.pairs();
                self.results_as_operands("C5");
            }
            "stablehlo.collective_broadcast" => {
                self.groups();
                if self.op.attr("has_dynamic_root").is_some() {
                    self.rooted();
                } else {
                    self.results_as_operands("C3");
                }
            }
            "stablehlo.send" | "stablehlo.recv" => self.transfer(name == "stablehlo.send"),
            "stablehlo.infeed" => {
                let last = self.op.results.last().map(|v| self.f.ty(*v));
                let here = self.here();
                self.need(last == Some(&Type::Token), here, "C3", "the last result is not a token", "expected a token");
                let rest = &self.op.results[..self.op.results.len().saturating_sub(1)];
                let ok = rest.iter().all(|v| matches!(self.f.ty(*v), Type::Tensor(_)));
                self.need(ok, here, "C2", "results other than tensors", "expected tensors and a token");
                if let Some(Attr::Array(l)) = self.op.attr("layout") {
                    let span = self.attr_at("layout");
                    self.need(
                        l.len() == rest.len(),
                        span,
                        "",
                        format!("{} layouts for {} results", l.len(), rest.len()),
                        format!("expected {}", rest.len()),
                    );
                    for (a, v) in l.iter().zip(rest) {
                        let mut order = ints_of(a).unwrap_or_default();
                        order.sort_unstable();
                        let rank = match self.f.ty(*v) {
                            Type::Tensor(t) => t.rank(),
                            _ => 0,
                        };
                        self.need(
                            order.iter().copied().eq(0..rank as i64),
                            span,
                            "",
                            "a layout that is no permutation of the dimensions",
                            "here",
                        );
                    }
                }
            }
            "stablehlo.replica_id" | "stablehlo.partition_id" => {
                let t = Type::Tensor(TensorType::new(DType::U32, &[]));
                let here = self.here();
                let r = self.f.ty(self.op.results[0]);
                self.need(*r == t, here, "", format!("result {}", print::ty(r)), "expected tensor<ui32>");
            }
            "stablehlo.torch_index_select" => self.torch_index_select(),
            "stablehlo.einsum" | "stablehlo.unary_einsum"
                if !matches!(self.op.attr("einsum_config"), Some(Attr::Str(_))) =>
            {
                let here = self.here();
                self.fail(here, "", "attribute `einsum_config` is missing", "expected a string");
            }
            "stablehlo.async_start" => self.async_start(),
            "stablehlo.async_done" => {
                let t = self.f.ty(self.op.operands[0]);
                let ok = matches!(t, Type::Other(s) if s.starts_with("!stablehlo.future"));
                let span = self.at(0);
                self.need(ok, span, "I1", format!("operand {}", print::ty(t)), "expected a future");
                if ok {
                    let mut list = String::new();
                    let types: Vec<Type> = self.types(&self.op.results).into_iter().cloned().collect();
                    print::write_types(&mut list, &types);
                    let here = self.here();
                    self.need(
                        print::ty(t) == format!("!stablehlo.future<{list}>"),
                        here,
                        "C1",
                        format!("results {list} of {}", print::ty(t)),
                        "expected the future's types",
                    );
                }
            }
            _ => {}
        }
    }

    /// Groups of devices: a matrix of numbers, each once, -1 for none. Gives the size of a group, if it is known.
    fn groups(&mut self) -> Option<u64> {
        let span = self.attr_at("replica_groups");
        match self.op.attr("replica_groups") {
            None => {
                let here = self.here();
                self.fail(here, "", "attribute `replica_groups` is missing", "expected `dense<...> : tensor<NxMxi64>`");
                return None;
            }
            Some(Attr::Dense(_)) => {}
            Some(_) => return None,
        }
        let l = self.dense("replica_groups")?;
        if !self.need(
            l.ty.rank() == 2,
            span,
            "",
            format!("replica_groups of {}", print::tensor(&l.ty)),
            "expected a matrix",
        ) {
            return None;
        }
        let mut ids = l.to_i64s().unwrap_or_default();
        // all_reduce alone may pad its groups with -1.
        let padded = matches!(&self.op.kind, OpKind::Other(n) if n == "stablehlo.all_reduce" || n == "stablehlo.collective_reduce");
        let holes = ids.contains(&-1);
        self.need(padded || !holes, span, "C4", "replica groups with the device -1", "expected numbers from 0");
        ids.retain(|v| *v != -1);
        ids.sort_unstable();
        self.need(
            ids.windows(2).all(|w| w[0] != w[1]),
            span,
            "C1",
            "a device is in two replica groups",
            "expected each once",
        );
        self.need(
            ids.iter().enumerate().all(|(i, v)| *v == i as i64) || !ids.windows(2).all(|w| w[0] != w[1]),
            span,
            "C3",
            "replica groups leave a device out",
            "expected all of 0, 1, ...",
        );
        let handle = match self.op.attr("channel_handle") {
            Some(Attr::Struct(_, _, f)) => f
                .iter()
                .find(|(n, _)| n == "handle")
                .and_then(|(_, a)| if let Attr::Int(v, _) = a { Some(*v) } else { None }),
            _ => None,
        };
        if self.op.attr("use_global_device_ids").is_some() {
            let span = self.attr_at("channel_handle");
            self.need(
                handle.is_some_and(|h| h > 0),
                span,
                "C5",
                "use_global_device_ids without a channel",
                "expected channel_id > 0",
            );
            let span = self.attr_at("replica_groups");
            self.need(
                l.elements() > 0,
                span,
                "",
                "use_global_device_ids with no replica groups",
                "expected at least one",
            );
        }
        l.ty.dims[1]
    }

    /// With a dynamic root, the last operand has the roots: one i32 for each of the others. Gives the number of others.
    fn rooted(&mut self) -> usize {
        let n = self.op.operands.len();
        if self.op.attr("has_dynamic_root").is_none() {
            return n;
        }
        let here = self.here();
        let ok = self
            .tensor_at(n - 1)
            .is_some_and(|t| t.dtype == DType::I32 && compatible(&t.dims, &vec![Some(n as u64 - 1)]));
        self.need(
            ok && n >= 2,
            here,
            "C4",
            "the last operand does not hold the roots",
            format!("expected tensor<{}xi32>", n - 1),
        );
        n - 1
    }

    fn results_as_operands(&mut self, tag: &str) {
        let (a, b) = (self.types(&self.op.operands), self.types(&self.op.results));
        let here = self.here();
        let ok = a.len() == b.len()
            && a.iter().zip(&b).all(|(x, y)| match (x, y) {
                (Type::Tensor(x), Type::Tensor(y)) => same_element(x, y) && compatible(&x.dims, &y.dims),
                _ => x == y,
            });
        self.need(ok, here, tag, "results of other types than the operands", "expected equal types");
    }

    fn all_gather(&mut self) {
        self.groups();
        let Some(dim) = self.int("all_gather_dim") else {
            let here = self.here();
            return self.fail(here, "", "attribute `all_gather_dim` is missing", "expected a dimension");
        };
        let n = self.op.operands.len();
        let here = self.here();
        if !self.need(
            n == self.op.results.len(),
            here,
            "",
            format!("{n} operands and {} results", self.op.results.len()),
            "expected as many",
        ) {
            return;
        }
        for i in 0..n {
            let Some(x) = self.tensor_at(i) else { continue };
            let Type::Tensor(r) = self.f.ty(self.op.results[i]) else { continue };
            let span = self.attr_at("all_gather_dim");
            let in_range = dim >= 0 && (dim as usize) < x.rank();
            if !self.need(
                in_range,
                span,
                "C1",
                format!("all_gather_dim = {dim} for rank {}", x.rank()),
                format!("expected a number below {}", x.rank()),
            ) {
                return;
            }
            let dim = dim as usize;
            let same = r.rank() == x.rank()
                && (0..x.rank()).all(|k| k == dim || agrees(x.dims[k], r.dims[k]))
                && same_element(x, r);
            if !self.need(
                same,
                here,
                "C6",
                format!("{} gathered into {}", print::tensor(x), print::tensor(r)),
                "the other dimensions must be equal",
            ) {
                continue;
            }
            // How many processes a group has depends on the machine unless the group is flat, so a multiple it must be.
            if let (Some(a), Some(b)) = (x.dims[dim], r.dims[dim]) {
                let ok = if a == 0 { b == 0 } else { b % a == 0 };
                self.need(
                    ok,
                    here,
                    "C6",
                    format!("{} gathered into {}", print::tensor(x), print::tensor(r)),
                    "expected a multiple",
                );
            }
        }
    }

    fn reductions(&mut self, (computation, shape, element): (&str, &str, &str)) {
        let here = self.here();
        let n = self.op.operands.len();
        if !self.need(
            n == self.op.results.len(),
            here,
            "",
            format!("{n} operands and {} results", self.op.results.len()),
            "expected as many",
        ) {
            return;
        }
        for i in 0..n {
            let Some(x) = self.tensor_at(i) else { continue };
            if let Some(e) = self.reducer(0, &[x], computation) {
                self.result_shape(i, shape, &x.dims.clone());
                self.result_element(i, element, &e[0]);
            }
        }
    }

    fn reduce_scatter(&mut self) {
        let group = self.groups();
        let here = self.here();
        let Some(dim) = self.int("scatter_dimension") else {
            return self.fail(here, "", "attribute `scatter_dimension` is missing", "expected a dimension");
        };
        let Some(x) = self.tensor_at(0) else { return };
        let span = self.attr_at("scatter_dimension");
        let in_range = dim >= 0 && (dim as usize) < x.rank();
        if !self.need(
            in_range,
            span,
            "C2",
            format!("scatter_dimension = {dim} for rank {}", x.rank()),
            format!("expected a number below {}", x.rank()),
        ) {
            return;
        }
        let dim = dim as usize;
        let Some(e) = self.reducer(0, &[x], "C7") else { return };
        self.result_element(0, "C9", &e[0]);
        let r = self.r(0);
        let same = r.rank() == x.rank() && (0..x.rank()).all(|k| k == dim || agrees(x.dims[k], r.dims[k]));
        if !self.need(
            same,
            here,
            "C8",
            format!("{} scattered into {}", print::tensor(x), print::tensor(r)),
            "the other dimensions must be equal",
        ) {
            return;
        }
        if let (Some(a), Some(b)) = (x.dims[dim], r.dims[dim]) {
            match group.filter(|g| *g > 0) {
                Some(g) => {
                    self.need(a % g == 0, here, "C1", format!("{a} elements for groups of {g}"), "expected a multiple");
                    self.need(
                        a % g != 0 || b == a / g,
                        here,
                        "C8",
                        format!("{} scattered into {}", print::tensor(x), print::tensor(r)),
                        format!("expected {} elements", a / g),
                    );
                }
                None => {
                    let ok = if b == 0 { a == 0 } else { a % b == 0 };
                    self.need(
                        ok,
                        here,
                        "C8",
                        format!("{} scattered into {}", print::tensor(x), print::tensor(r)),
                        "expected a divisor",
                    );
                }
            }
        }
    }

    fn all_to_all(&mut self) {
        let group = self.groups();
        let here = self.here();
        let (Some(split), Some(concat), Some(count)) =
            (self.int("split_dimension"), self.int("concat_dimension"), self.int("split_count"))
        else {
            return self.fail(
                here,
                "",
                "split_dimension, concat_dimension or split_count is missing",
                "expected all of them",
            );
        };
        let span = self.attr_at("split_count");
        if !self.need(count > 0, span, "C4", format!("split_count = {count}"), "expected at least 1") {
            return;
        }
        self.need(
            group.is_none_or(|g| g == count as u64),
            span,
            "C8",
            format!("split_count = {count} for groups of {}", group.unwrap_or(0)),
            "expected the size of a group",
        );
        if self.op.operands.len() != self.op.results.len() {
            return self.fail(here, "C9", "other numbers of operands and results", "expected as many");
        }
        for i in 0..self.op.operands.len() {
            let Some(x) = self.tensor_at(i) else { continue };
            let rank = x.rank() as i64;
            for (name, d, tag) in [("split_dimension", split, "C1"), ("concat_dimension", concat, "C3")] {
                let span = self.attr_at(name);
                if !self.need(
                    (0..rank).contains(&d),
                    span,
                    tag,
                    format!("{name} = {d} for rank {rank}"),
                    format!("expected a number below {rank}"),
                ) {
                    return;
                }
            }
            let span = self.attr_at("split_dimension");
            let size = x.dims[split as usize];
            if !self.need(
                size.is_none_or(|s| s % count as u64 == 0),
                span,
                "C2",
                format!("{} elements in {count} parts", size.unwrap_or(0)),
                "expected a multiple",
            ) {
                return;
            }
            let mut dims = x.dims.clone();
            if split != concat {
                dims[split as usize] = dims[split as usize].map(|d| d / count as u64);
                dims[concat as usize] = dims[concat as usize].map(|d| d * count as u64);
            }
            self.result_shape(i, "C9", &dims);
            self.result_element(i, "C9", x);
        }
    }

    /// Sources and targets: each device once on each side.
    fn pairs(&mut self) {
        let Some(l) = self.dense("source_target_pairs") else { return };
        let span = self.attr_at("source_target_pairs");
        let form = l.ty.rank() == 2 && l.ty.dims[1] == Some(2);
        if !self.need(form, span, "C1", format!("source_target_pairs of {}", print::tensor(&l.ty)), "expected pairs") {
            return;
        }
        let v = l.to_i64s().unwrap_or_default();
        for (k, tag) in [(0, "C2"), (1, "C3")] {
            let mut side: Vec<i64> = v.iter().skip(k).step_by(2).copied().collect();
            side.sort_unstable();
            self.need(
                side.windows(2).all(|w| w[0] != w[1]),
                span,
                tag,
                ["a source is used twice", "a target is used twice"][k],
                "expected each once",
            );
        }
        self.need(v.iter().all(|d| *d >= 0), span, "C4", "a negative device", "expected numbers from 0");
    }

    fn transfer(&mut self, send: bool) {
        let here = self.here();
        let host = matches!(self.op.attr("is_host_transfer"), Some(Attr::Bool(true)));
        let kind = match self.op.attr("channel_handle") {
            Some(Attr::Struct(_, _, f)) => f
                .iter()
                .find(|(n, _)| n == "type")
                .and_then(|(_, a)| if let Attr::Int(v, _) = a { Some(*v) } else { None }),
            _ => return self.fail(here, "", "attribute `channel_handle` is missing", "expected a channel"),
        };
        let want = match (host, send) {
            (true, true) => 2,
            (true, false) => 3,
            (false, _) => 1,
        };
        let span = self.attr_at("channel_handle");
        self.need(
            kind == Some(want),
            span,
            "C5",
            format!("channel of type {}", kind.unwrap_or(0)),
            format!("expected type {want}"),
        );
        self.pairs();
        if !send {
            let last = self.op.results.last().map(|v| self.f.ty(*v));
            self.need(last == Some(&Type::Token), here, "", "the last result is not a token", "expected a token");
            let rest = &self.op.results[..self.op.results.len().saturating_sub(1)];
            let ok = rest.iter().all(|v| matches!(self.f.ty(*v), Type::Tensor(_)));
            self.need(ok, here, "", "results other than tensors", "expected tensors and a token");
        }
    }

    fn torch_index_select(&mut self) {
        let here = self.here();
        let (Some(x), Some(index)) = (self.tensor_at(0), self.tensor_at(1)) else { return };
        let (Some(dim), Some(batch)) = (self.int("dim"), self.int("batch_dims")) else {
            return self.fail(here, "", "attribute `dim` or `batch_dims` is missing", "expected both");
        };
        let (rank, irank) = (x.rank() as i64, index.rank() as i64);
        let normal = |v: i64, n: i64| if v < 0 { v + n } else { v };
        let (dim, batch) = (normal(dim, rank), normal(batch, irank));
        let span = self.attr_at("dim");
        if !self.need((0..rank).contains(&dim), span, "", format!("dim = {dim} for rank {rank}"), "out of range") {
            return;
        }
        let span = self.attr_at("batch_dims");
        if !self.need(
            (0..=irank).contains(&batch) && batch <= dim,
            span,
            "",
            format!("batch_dims = {batch}"),
            "out of range",
        ) {
            return;
        }
        let same = (0..batch as usize).all(|k| agrees(x.dims[k], index.dims[k]));
        let at = self.at(1);
        self.need(same, at, "", "other sizes of batch dimensions", "expected equal sizes");
        let (d, b) = (dim as usize, batch as usize);
        let dims = [&x.dims[..d], &index.dims[b..], &x.dims[d + 1..]].concat();
        self.result_shape(0, "", &dims);
    }

    fn async_start(&mut self) {
        let here = self.here();
        let r = &self.op.regions[0];
        let ok = r.ops.len() == 1;
        self.need(ok, here, "C1", format!("a body of {} ops", r.ops.len()), "expected one");
        let args = self.types(&r.args);
        self.need(
            args == self.types(&self.op.operands),
            here,
            "C3",
            "the body takes other arguments than the op",
            "expected the operands' types",
        );
        let mut list = String::new();
        let types: Vec<Type> = self.types(&r.results).into_iter().cloned().collect();
        print::write_types(&mut list, &types);
        let result = print::ty(self.f.ty(self.op.results[0]));
        self.need(
            result == format!("!stablehlo.future<{list}>"),
            here,
            "C4",
            format!("result {result}"),
            format!("expected !stablehlo.future<{list}>"),
        );
        let names = [
            "all_reduce",
            "all_gather",
            "all_to_all",
            "collective_permute",
            "reduce_scatter",
            "collective_broadcast",
            "slice",
            "dynamic_slice",
            "dynamic_update_slice",
        ];
        if let Some(op) = r.ops.first() {
            let name = crate::unbuild::name(&op.kind);
            let known = names.iter().any(|n| name == format!("stablehlo.{n}"));
            self.need(
                known,
                here,
                "C2",
                format!("`{name}` cannot run asynchronously"),
                "expected a collective or a slice",
            );
        }
    }
}
