//! Contractions, linear algebra, transforms, batch normalisation, random numbers.

use super::{V, agrees, compatible, element, same_element, window::windows};
use crate::{
    print,
    tree::{Convolution, DType, DotAlgorithm, DotDims, OpKind, TensorType},
};

/// The algorithms that some hardware has, with one part for each side: types of the operands and of the sum, and numbers of
/// operations.
fn known_algorithm(g: &DotAlgorithm) -> bool {
    let f8 = |s: &str| s.starts_with("f8");
    let (l, r, acc) = (g.lhs_precision.as_str(), g.rhs_precision.as_str(), g.accumulation.as_str());
    if g.lhs_components != 1 || g.rhs_components != 1 {
        return false;
    }
    let n = g.primitive_operations;
    if g.allow_imprecise_accumulation {
        return f8(l) && f8(r) && acc == "f32" && n == 1;
    }
    match (l, r, acc) {
        _ if f8(l) && f8(r) => acc == "f32" && n == 1,
        ("f16", "f16", "f16" | "f32") | ("bf16", "bf16", "bf16") | ("f32", "f32", "f32") | ("f64", "f64", "f64") => {
            n == 1
        }
        ("bf16", "bf16", "f32") => matches!(n, 1 | 3 | 6 | 9),
        ("tf32", "tf32", "f32") => matches!(n, 1 | 3),
        _ => false,
    }
}

impl V<'_> {
    fn precision(&mut self, p: &[String], tag: &str) {
        let span = self.attr_at("precision_config");
        self.need(
            p.is_empty() || p.len() == 2,
            span,
            tag,
            format!("{} precisions", p.len()),
            "expected one for each operand",
        );
    }

    pub(super) fn dot_general(&mut self, d: &DotDims, precision: &[String], algorithm: Option<&DotAlgorithm>) {
        const ATTR: &str = "dot_dimension_numbers";
        let (a, b) = (self.x(0), self.x(1));
        let span = self.attr_at(ATTR);
        let (la, ra) =
            ([&d.lhs_batching[..], &d.lhs_contracting].concat(), [&d.rhs_batching[..], &d.rhs_contracting].concat());
        let checks = [
            (d.lhs_batching.len() == d.rhs_batching.len(), "C1", "other numbers of batching dimensions left and right"),
            (
                d.lhs_contracting.len() == d.rhs_contracting.len(),
                "C2",
                "other numbers of contracting dimensions left and right",
            ),
            (super::unique(&la), "C3", "a dimension of lhs is used twice"),
            (super::unique(&ra), "C4", "a dimension of rhs is used twice"),
        ];
        let before = self.out.len();
        for (ok, tag, message) in checks {
            self.need(ok, span, tag, message, "here");
        }
        for (tag, what, list, rank) in [
            ("C5", "lhs batching", &d.lhs_batching, a.rank()),
            ("C6", "lhs contracting", &d.lhs_contracting, a.rank()),
            ("C7", "rhs batching", &d.rhs_batching, b.rank()),
            ("C8", "rhs contracting", &d.rhs_contracting, b.rank()),
        ] {
            let ok = list.iter().all(|k| (*k as usize) < rank);
            let message = format!("{what} dimensions {list:?} of an operand of rank {rank}");
            self.need(ok, span, tag, message, format!("expected numbers below {rank}"));
        }
        if self.out.len() > before {
            return;
        }
        for (what, l, r, tag) in [
            ("batching", &d.lhs_batching, &d.rhs_batching, "C9"),
            ("contracting", &d.lhs_contracting, &d.rhs_contracting, "C10"),
        ] {
            for (i, j) in l.iter().zip(r) {
                let (x, y) = (a.dims[*i as usize], b.dims[*j as usize]);
                self.need(
                    agrees(x, y),
                    span,
                    tag,
                    format!(
                        "{what} dimension {i} of lhs has {} elements, {j} of rhs has {}",
                        x.unwrap_or(0),
                        y.unwrap_or(0)
                    ),
                    "expected equal sizes",
                );
            }
        }
        self.precision(precision, "C11");
        if a.quant.is_none() && b.quant.is_none() {
            let at = self.at(1);
            self.need(
                same_element(a, b),
                at,
                "C13",
                format!("operands of {} and {}", element(a), element(b)),
                format!("expected {}", element(a)),
            );
        } else {
            self.dot_quant(d);
        }
        if let Some(g) = algorithm {
            let at = self.attr_at("algorithm");
            self.need(precision.is_empty(), at, "C21", "a precision beside an algorithm", "expected one of them");
            self.need(
                g.lhs_components > 0 && g.rhs_components > 0,
                at,
                "C22, C23",
                "component counts below 1",
                "expected at least 1",
            );
            self.need(g.primitive_operations > 0, at, "C24", "num_primitive_operations below 1", "expected at least 1");
            self.need(
                known_algorithm(g),
                at,
                "",
                "an algorithm that no hardware has",
                "see the list of `algorithm` in the specification of dot_general",
            );
        }
        let free = |t: &TensorType, used: &[u64]| -> Vec<Option<u64>> {
            (0..t.rank() as u64).filter(|k| !used.contains(k)).map(|k| t.dims[k as usize]).collect()
        };
        let batch: Vec<Option<u64>> = d
            .lhs_batching
            .iter()
            .zip(&d.rhs_batching)
            .map(|(i, j)| a.dims[*i as usize].or(b.dims[*j as usize]))
            .collect();
        let dims = [batch, free(a, &la), free(b, &ra)].concat();
        self.result_shape(0, "C12", &dims);
    }

    pub(super) fn convolution(&mut self, c: &Convolution) {
        const ATTR: &str = "dimension_numbers";
        let (x, w) = (self.x(0), self.x(1));
        let n = x.rank();
        let at = self.at(1);
        if !self.need(
            w.rank() == n && n >= 2,
            at,
            "C1",
            format!("operands {} and {}", print::tensor(x), print::tensor(w)),
            "expected equal ranks of at least 2",
        ) {
            return;
        }
        let s = n - 2;
        let lists = [
            ("window_strides", &c.window_strides, "C2", "C3"),
            ("lhs_dilation", &c.lhs_dilation, "C5", "C6"),
            ("rhs_dilation", &c.rhs_dilation, "C7", "C8"),
        ];
        let before = self.out.len();
        for (name, list, size_tag, value_tag) in lists {
            let span = self.attr_at(name);
            self.need(
                list.len() == s,
                span,
                size_tag,
                format!("{name} = {list:?} for {s} spatial dimensions"),
                super::expected_numbers(s),
            );
            self.need(
                list.iter().all(|v| *v > 0),
                span,
                value_tag,
                format!("{name} = {list:?}"),
                "expected numbers from 1",
            );
        }
        let dynamic = matches!(self.op.kind, OpKind::DynamicConv(_));
        let span = self.attr_at("padding");
        self.need(
            dynamic || c.padding.len() == s,
            span,
            "C4",
            format!("padding of {} dimensions for {s}", c.padding.len()),
            format!("expected {s} pairs"),
        );
        let span = self.attr_at("window_reversal");
        self.need(
            c.window_reversal.len() == s,
            span,
            "C9",
            format!("window_reversal for {} dimensions", c.window_reversal.len()),
            format!("expected {s}"),
        );
        let span = self.attr_at(ATTR);
        let sides = [
            ("input", &c.input_spatial, c.input_batch, c.input_feature, "C12", "C13"),
            ("kernel", &c.kernel_spatial, c.kernel_input_feature, c.kernel_output_feature, "C17", "C18"),
            ("output", &c.output_spatial, c.output_batch, c.output_feature, "C19", "C20"),
        ];
        for (side, spatial, p, q, size_tag, range_tag) in sides {
            self.need(
                spatial.len() == s,
                span,
                size_tag,
                format!("{} spatial dimensions of the {side}", spatial.len()),
                format!("expected {s}"),
            );
            let all = [&spatial[..], &[p, q]].concat();
            self.need(
                super::unique(&all) && all.iter().all(|k| (*k as usize) < n),
                span,
                range_tag,
                format!("dimension numbers {all:?} of the {side}"),
                format!("expected each of 0 to {} once", n - 1),
            );
        }
        for (name, v, tag) in
            [("feature_group_count", c.feature_group_count, "C21"), ("batch_group_count", c.batch_group_count, "C22")]
        {
            let span = self.attr_at(name);
            self.need(v > 0, span, tag, format!("{name} = {v}"), "expected at least 1");
        }
        if self.out.len() > before {
            return;
        }
        let empty = c.kernel_spatial.iter().find(|k| w.dims[**k as usize] == Some(0));
        if let Some(k) = empty {
            self.fail(
                at,
                "",
                format!("dimension {k} of the kernel {} is empty", print::tensor(w)),
                "expected a window of at least 1",
            );
            return;
        }
        let span = self.attr_at("batch_group_count");
        self.need(
            c.feature_group_count == 1 || c.batch_group_count == 1,
            span,
            "C23",
            format!("feature_group_count = {} and batch_group_count = {}", c.feature_group_count, c.batch_group_count),
            "expected one of them to be 1",
        );
        let get = |t: &TensorType, k: u64| t.dims[k as usize];
        let divides = |v: Option<u64>, by: i64| v.is_none_or(|v| v % by as u64 == 0);
        let here = self.here();
        let (batch, feature) = (get(x, c.input_batch), get(x, c.input_feature));
        let (kin, kout) = (get(w, c.kernel_input_feature), get(w, c.kernel_output_feature));
        self.need(
            divides(batch, c.batch_group_count),
            here,
            "C10",
            "the batch is not a multiple of batch_group_count",
            "here",
        );
        self.need(
            divides(feature, c.feature_group_count),
            here,
            "C11",
            "the input features are not a multiple of feature_group_count",
            "here",
        );
        self.need(
            agrees(kin, feature.map(|f| f / c.feature_group_count as u64)),
            at,
            "C14",
            format!(
                "the kernel takes {} features, a group of the input has {}",
                kin.unwrap_or(0),
                feature.unwrap_or(0) / c.feature_group_count as u64
            ),
            "expected equal numbers",
        );
        self.need(
            divides(kout, c.batch_group_count),
            here,
            "C15",
            "the kernel's output features are not a multiple of batch_group_count",
            "here",
        );
        self.need(
            divides(kout, c.feature_group_count),
            here,
            "C16",
            "the kernel's output features are not a multiple of feature_group_count",
            "here",
        );
        self.precision(&c.precision, "C24");
        if x.quant.is_none() && w.quant.is_none() {
            self.need(
                same_element(x, w) || (x.dtype.is_float() && w.dtype.is_float()),
                at,
                "C27",
                format!("operands of {} and {}", element(x), element(w)),
                format!("expected {}", element(x)),
            );
        } else {
            self.conv_quant(c);
        }
        let r = self.r(0);
        if !self.need(r.rank() == n, here, "C26", format!("result {}", print::tensor(r)), format!("expected rank {n}"))
        {
            return;
        }
        let mut dims = vec![None; n];
        dims[c.output_batch as usize] = batch.map(|b| b / c.batch_group_count as u64);
        dims[c.output_feature as usize] = kout;
        for k in 0..s {
            let window = get(w, c.kernel_spatial[k]);
            dims[c.output_spatial[k] as usize] = match window {
                Some(window) if !dynamic => windows(
                    get(x, c.input_spatial[k]),
                    c.lhs_dilation[k],
                    c.padding[k],
                    window as i64,
                    c.rhs_dilation[k],
                    c.window_strides[k],
                ),
                _ => None,
            };
        }
        self.result_shape(0, "C25", &dims);
        if dynamic {
            let p = self.x(2);
            let span = self.at(2);
            self.need(
                p.dtype.is_int() && compatible(&p.dims, &vec![Some(s as u64), Some(2)]),
                span,
                "C4",
                format!("padding given as {}", print::tensor(p)),
                format!("expected {s} pairs of integers"),
            );
        }
    }

    pub(super) fn cholesky(&mut self) {
        self.kinds(0, "fc");
        let a = self.x(0);
        let span = self.at(0);
        let n = a.rank();
        if self.need(n >= 2, span, "C2", format!("operand {}", print::tensor(a)), "expected a matrix")
            && self.need(
                agrees(a.dims[n - 1], a.dims[n - 2]),
                span,
                "C3",
                format!("operand {}", print::tensor(a)),
                "expected square matrices",
            )
        {
            self.result_like(0, "C1", a);
        }
    }

    pub(super) fn triangular_solve(&mut self, left: bool) {
        self.kinds(0, "fc");
        let (a, b) = (self.x(0), self.x(1));
        let span = self.at(1);
        self.need(
            same_element(a, b),
            span,
            "C1",
            format!("operands of {} and {}", element(a), element(b)),
            format!("expected {}", element(a)),
        );
        let n = a.rank();
        if !self.need(
            n >= 2 && b.rank() == n,
            span,
            "C2",
            format!("operands {} and {}", print::tensor(a), print::tensor(b)),
            "expected equal ranks of at least 2",
        ) {
            return;
        }
        let batches = (0..n - 2).all(|k| agrees(a.dims[k], b.dims[k]));
        self.need(
            batches,
            span,
            "C3",
            format!("operands {} and {}", print::tensor(a), print::tensor(b)),
            "expected equal batch dimensions",
        );
        let at = self.at(0);
        self.need(
            agrees(a.dims[n - 1], a.dims[n - 2]),
            at,
            "C3",
            format!("operand {}", print::tensor(a)),
            "expected square matrices",
        );
        let side = if left { b.dims[n - 2] } else { b.dims[n - 1] };
        self.need(
            agrees(a.dims[n - 1], side),
            span,
            "C3",
            format!("operands {} and {}", print::tensor(a), print::tensor(b)),
            "their sizes do not fit",
        );
        let transpose =
            matches!(&self.op.kind, OpKind::TriangularSolve { transpose_a, .. } if transpose_a == "TRANSPOSE_INVALID");
        let span = self.attr_at("transpose_a");
        self.need(
            !transpose,
            span,
            "I6",
            "transpose_a = TRANSPOSE_INVALID",
            "expected NO_TRANSPOSE, TRANSPOSE or ADJOINT",
        );
        self.result_like(0, "C4", b);
    }

    pub(super) fn fft(&mut self, kind: &str, length: &[i64]) {
        let x = self.x(0);
        let span = self.attr_at("fft_length");
        let (n, rank) = (length.len(), x.rank());
        if !self.need((1..=3).contains(&n), span, "C3", format!("fft_length = {length:?}"), "expected 1 to 3 numbers")
            || !self.need(
                n <= rank,
                span,
                "C1",
                format!("fft_length = {length:?} for rank {rank}"),
                format!("expected at most {rank} numbers"),
            )
        {
            return;
        }
        let real_in = kind == "RFFT";
        if !self.kinds(0, if real_in { "f" } else { "c" }) {
            return;
        }
        let at = self.at(0);
        if real_in {
            let plain = matches!(x.dtype, DType::F32 | DType::F64);
            if !self.need(plain, at, "I1", format!("transform of {}", x.dtype), "expected f32 or f64") {
                return;
            }
        }
        let dtype = match (kind, x.dtype) {
            ("RFFT", DType::F64) => DType::C128,
            ("RFFT", _) => DType::C64,
            ("IRFFT", d) => d.real(),
            (_, d) => d,
        };
        let mut dims = x.dims.clone();
        for (k, l) in length.iter().enumerate() {
            let d = rank - n + k;
            let last = d == rank - 1;
            let want = u64::try_from(*l).ok();
            let have = match (kind, last) {
                ("IRFFT", true) => want.map(|l| if l == 0 { 0 } else { l / 2 + 1 }),
                _ => want,
            };
            if !self.need(
                agrees(x.dims[d], have),
                at,
                if kind == "IRFFT" { "C5" } else { "C4" },
                format!("operand {} for fft_length = {length:?}", print::tensor(x)),
                format!("expected {} elements in dimension {d}", have.unwrap_or(0)),
            ) {
                return;
            }
            if last {
                dims[d] = match kind {
                    "RFFT" => x.dims[d].map(|v| if v == 0 { 0 } else { v / 2 + 1 }),
                    "IRFFT" => want,
                    _ => x.dims[d],
                };
            }
        }
        let t = TensorType { dtype, dims, bounds: vec![], quant: None };
        self.result_like(0, "C2, C5", &t);
    }

    /// Operands and results that are vectors over the features.
    pub(super) fn batch_norm(&mut self, feature: i64, vectors: &[usize], outputs: &[usize]) {
        self.kinds(0, "f");
        let x = self.x(0);
        let span = self.attr_at("feature_index");
        if !self.need(
            (feature as u64) < x.rank() as u64,
            span,
            "C1",
            format!("feature_index = {feature} for rank {}", x.rank()),
            format!("expected a number below {}", x.rank()),
        ) {
            return;
        }
        let features = vec![x.dims[feature as usize]];
        for (k, i) in vectors.iter().enumerate() {
            let t = self.x(*i);
            let span = self.at(*i);
            self.need(
                same_element(t, x),
                span,
                "C2",
                format!("operand of {} beside {}", element(t), element(x)),
                format!("expected {}", element(x)),
            );
            self.need(
                compatible(&t.dims, &features),
                span,
                &format!("C{}", k + 3),
                format!("operand {} for {} features", print::tensor(t), features[0].unwrap_or(0)),
                "expected one element for each feature",
            );
        }
        if let OpKind::BatchNormGrad { .. } = self.op.kind {
            let g = self.x(4);
            let span = self.at(4);
            self.need(
                same_element(g, x) && compatible(&g.dims, &x.dims),
                span,
                "C3",
                format!("grad_output {} for an operand of {}", print::tensor(g), print::tensor(x)),
                "expected equal types",
            );
        }
        self.result_like(0, "C7", x);
        let t = TensorType { dims: features, bounds: vec![], ..x.clone() };
        for i in outputs {
            self.result_like(*i, "C5", &t);
        }
    }

    pub(super) fn rng_bit_generator(&mut self, algorithm: &str) {
        let s = self.x(0);
        let span = self.at(0);
        let size = s.elements();
        let ok = match algorithm {
            "THREE_FRY" => size.is_none_or(|n| n == 2),
            "PHILOX" => size.is_none_or(|n| n == 2 || n == 3),
            _ => true,
        };
        self.need(
            ok,
            span,
            "C2",
            format!("state {} for {algorithm}", print::tensor(s)),
            if algorithm == "PHILOX" { "expected 2 or 3 elements" } else { "expected 2 elements" },
        );
        self.result_like(0, "C1", s);
        let r = self.r(1);
        let here = self.here();
        self.need(
            !r.dtype.is_complex() && r.dtype != DType::I1,
            here,
            "O2",
            format!("random bits of {}", r.dtype),
            "expected integers or floats",
        );
    }

    pub(super) fn rng(&mut self, distribution: &str) {
        let (a, b) = (self.x(0), self.x(1));
        for i in 0..2 {
            let t = self.x(i);
            let span = self.at(i);
            self.need(
                t.rank() == 0,
                span,
                &format!("I{}", i + 1),
                format!("parameter {}", print::tensor(t)),
                "expected a scalar",
            );
        }
        let span = self.at(1);
        self.need(
            same_element(a, b),
            span,
            "C1",
            format!("parameters of {} and {}", element(a), element(b)),
            format!("expected {}", element(a)),
        );
        if distribution == "NORMAL" {
            self.kinds(0, "f");
        }
        self.result_element(0, "C1", a);
        self.shape_operand(2, self.r(0).rank(), "C3");
        self.constant_shape(2);
    }
}
