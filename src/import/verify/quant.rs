//! Constraints on quantized types and on the ops that carry them.

use super::V;
use crate::{
    print,
    text::full_range,
    tree::{Convolution, DotDims, Quant, TensorType},
};

impl V<'_> {
    /// The type itself: scales, zero points and the quantized dimension.
    pub(super) fn quant_type(&mut self, t: &TensorType) {
        let Some(q) = &t.quant else { return };
        let here = self.here();
        let (low, high) = q.range.unwrap_or_else(|| full_range(t.dtype));
        let (full_low, full_high) = full_range(t.dtype);
        let limit = |d: crate::tree::DType| {
            (0..1u64 << d.bits().min(16))
                .map(|b| crate::float::decode(d, b))
                .filter(|v| v.is_finite())
                .fold(0.0, f64::max)
        };
        let largest = match q.expressed.bits() {
            64 => f64::MAX,
            32 => f64::from(f32::MAX),
            _ if q.expressed.is_float() => limit(q.expressed),
            _ => f64::MAX,
        };
        let smallest = match q.expressed {
            crate::tree::DType::F16 => 2f64.powi(-14),
            crate::tree::DType::BF16 | crate::tree::DType::F32 => f64::from(f32::MIN_POSITIVE),
            _ => f64::MIN_POSITIVE,
        };
        let scales_ok = q.scales.iter().all(|s| {
            let v = f64::from_bits(*s);
            v.is_finite() && v <= largest && v >= smallest
        });
        self.need(
            q.expressed.is_float(),
            here,
            "",
            format!("{}: expressed type is no float", print::tensor(t)),
            "expected a float type",
        );
        self.need(
            full_low <= low && low < high && high <= full_high,
            here,
            "",
            format!("{}: storage range", print::tensor(t)),
            "out of the storage type's range",
        );
        self.need(
            scales_ok,
            here,
            "",
            format!("{}: a scale is not a positive number of the expressed type", print::tensor(t)),
            "expected positive scales",
        );
        self.need(
            q.zero_points.iter().all(|z| (low..=high).contains(z)),
            here,
            "",
            format!("{}: a zero point outside of the storage range", print::tensor(t)),
            format!("expected {low} to {high}"),
        );
        if let Some(a) = q.axis {
            let ok = (a as usize) < t.rank() && t.dims[a as usize].is_none_or(|d| d == q.scales.len() as u64);
            self.need(
                ok,
                here,
                "",
                format!("{}: {} scales along dimension {a}", print::tensor(t), q.scales.len()),
                "expected one for each index of the dimension",
            );
        }
    }

    pub(super) fn uniform_quantize(&mut self) {
        let (x, r) = (self.x(0), self.r(0));
        self.result_shape(0, "C1", &x.dims.clone());
        let here = self.here();
        let Some(q) = &r.quant else {
            return self.fail(here, "", format!("result {}", print::tensor(r)), "expected a quantized type");
        };
        let from = x.quant.as_ref().map_or(x.dtype, |p| p.expressed);
        self.need(
            q.expressed == from,
            here,
            "C2",
            format!("{} quantized from {from}", print::tensor(r)),
            format!("expected the expressed type {from}"),
        );
    }

    pub(super) fn uniform_dequantize(&mut self) {
        let x = self.x(0);
        let Some(q) = &x.quant else {
            let span = self.at(0);
            return self.fail(span, "I1", format!("operand {}", print::tensor(x)), "expected a quantized type");
        };
        let t = TensorType { dtype: q.expressed, quant: None, ..x.clone() };
        self.result_like(0, "C1, C2", &t);
    }

    /// What add asks of quantized operands.
    pub(super) fn add_quant(&mut self) {
        let (x, y, r) = (self.x(0), self.x(1), self.r(0));
        let axis = |t: &TensorType| t.quant.as_ref().and_then(|q| q.axis);
        let (a, b, c) = (axis(x), axis(y), axis(r));
        let here = self.here();
        self.need(
            (a.is_some() || b.is_some()) == c.is_some(),
            here,
            "C5",
            "per-axis quantization of operands or result alone",
            "expected both or none",
        );
        self.need(
            a.is_none() || c.is_none() || a == c,
            here,
            "C6",
            "quantized dimensions of lhs and result differ",
            "expected one",
        );
        self.need(
            b.is_none() || c.is_none() || b == c,
            here,
            "C7",
            "quantized dimensions of rhs and result differ",
            "expected one",
        );
    }

    /// Per-axis quantization through a broadcast.
    pub(super) fn broadcast_quant(&mut self, dims: &[u64]) {
        let (x, r) = (self.x(0), self.r(0));
        let (Some(p), Some(q)) = (&x.quant, &r.quant) else { return };
        let here = self.here();
        match (p.axis, q.axis) {
            (Some(a), Some(b)) => {
                let moved = dims.get(a as usize).copied();
                if self.need(
                    moved == Some(u64::from(b)),
                    here,
                    "C6",
                    format!("quantized dimension {a} becomes {b}"),
                    format!("expected {}", moved.unwrap_or(0)),
                ) && x.dims[a as usize] == Some(1)
                {
                    let spread = q.scales.iter().all(|s| *s == p.scales[0])
                        && q.zero_points.iter().all(|z| *z == p.zero_points[0]);
                    self.need(
                        spread,
                        here,
                        "C6",
                        "scales and zero points do not stay through the broadcast",
                        "expected those of the operand",
                    );
                }
            }
            (None, None) => {
                self.need(
                    p == q,
                    here,
                    "C1",
                    format!("{} as {}", print::tensor(x), print::tensor(r)),
                    "quantization parameters must stay",
                );
            }
            _ => self.fail(
                here,
                "C1",
                format!("{} as {}", print::tensor(x), print::tensor(r)),
                "per-axis and per-tensor quantization do not mix",
            ),
        }
    }

    pub(super) fn reshape_quant(&mut self) {
        let (x, r) = (self.x(0), self.r(0));
        let (Some(p), Some(q)) = (&x.quant, &r.quant) else { return };
        let here = self.here();
        if !self.need(
            same_parameters(p, q),
            here,
            "C1",
            format!("{} as {}", print::tensor(x), print::tensor(r)),
            "quantization parameters must stay",
        ) {
            return;
        }
        if let (Some(a), Some(b)) = (p.axis, q.axis) {
            let size = |t: &TensorType, range: std::ops::Range<usize>| {
                t.dims.get(range).and_then(|d| d.iter().copied().try_fold(1u64, |n, d| Some(n * d?)))
            };
            let (a, b) = (a as usize, b as usize);
            let ok = a < x.rank()
                && b < r.rank()
                && size(x, 0..a) == size(r, 0..b)
                && x.dims[a] == r.dims[b]
                && size(x, a + 1..x.rank()) == size(r, b + 1..r.rank());
            self.need(
                ok,
                here,
                "C3",
                format!("quantized dimension {a} becomes {b}"),
                "the dimensions around it must keep their sizes",
            );
        }
    }

    pub(super) fn transpose_quant(&mut self, permutation: &[u64]) {
        let (x, r) = (self.x(0), self.r(0));
        let (Some(p), Some(q)) = (&x.quant, &r.quant) else { return };
        let here = self.here();
        self.need(
            same_parameters(p, q),
            here,
            "C1",
            format!("{} as {}", print::tensor(x), print::tensor(r)),
            "quantization parameters must stay",
        );
        if let (Some(a), Some(b)) = (p.axis, q.axis) {
            self.need(
                permutation.get(b as usize) == Some(&u64::from(a)),
                here,
                "C4",
                format!("quantized dimension {a} becomes {b}"),
                "expected where the permutation moves it",
            );
        }
    }

    /// What dot_general and convolution ask of quantized operands. The tags are dot_general's and convolution's.
    fn product_quant(&mut self, tags: [&str; 5], axis: impl Fn(&Quant) -> bool) {
        let (x, w, r) = (self.x(0), self.x(1), self.r(0));
        let here = self.here();
        let at = self.at(1);
        let Some(q) = &w.quant else {
            return self.fail(
                at,
                tags[0],
                format!("{} by {}", print::tensor(x), print::tensor(w)),
                "expected a quantized right side",
            );
        };
        if !self.need(
            x.quant.is_some() == r.quant.is_some(),
            here,
            tags[0],
            format!("{} gives {}", print::tensor(x), print::tensor(r)),
            "both or none are quantized",
        ) {
            return;
        }
        if q.axis.is_some() {
            self.need(
                axis(q),
                at,
                tags[1],
                format!("quantized dimension of {}", print::tensor(w)),
                "not one that may be quantized",
            );
        }
        match (&x.quant, &r.quant) {
            (Some(p), Some(o)) => {
                self.need(
                    x.dtype == w.dtype,
                    at,
                    tags[2],
                    format!("storage types {} and {}", x.dtype, w.dtype),
                    format!("expected {}", x.dtype),
                );
                self.need(
                    p.expressed == q.expressed && q.expressed == o.expressed,
                    at,
                    tags[3],
                    "expressed types differ",
                    format!("expected {}", p.expressed),
                );
                self.need(
                    q.axis.is_some() || o.axis.is_none(),
                    here,
                    tags[4],
                    "a result quantized per axis of operands quantized per tensor",
                    "expected per tensor",
                );
            }
            _ => {
                self.need(
                    x.dtype == q.expressed && r.dtype == q.expressed,
                    here,
                    tags[3],
                    format!("{} by {} gives {}", print::tensor(x), print::tensor(w), print::tensor(r)),
                    format!("expected {}", q.expressed),
                );
            }
        }
    }

    pub(super) fn dot_quant(&mut self, d: &DotDims) {
        let w = self.x(1);
        if let Some(q) = &w.quant {
            let at = self.at(1);
            self.need(
                q.zero_points.iter().all(|z| *z == 0),
                at,
                "C15",
                format!("zero points of {}", print::tensor(w)),
                "expected zeros",
            );
        }
        self.product_quant(["C14", "C16", "C17", "C18", "C19"], |q| {
            q.axis.is_none_or(|a| !d.rhs_contracting.contains(&u64::from(a)))
        });
    }

    pub(super) fn conv_quant(&mut self, c: &Convolution) {
        self.product_quant(["C28", "C29", "C31", "C32", "C33"], |q| {
            q.axis.is_none_or(|a| u64::from(a) == c.kernel_output_feature)
        });
        let r = self.r(0);
        if let Some(a) = r.quant.as_ref().and_then(|q| q.axis) {
            let here = self.here();
            self.need(
                u64::from(a) == c.output_feature,
                here,
                "C30",
                format!("quantized dimension of {}", print::tensor(r)),
                "expected the output feature dimension",
            );
        }
    }
}

fn same_parameters(p: &Quant, q: &Quant) -> bool {
    (&p.scales, &p.zero_points, p.axis.is_some(), p.expressed, p.range)
        == (&q.scales, &q.zero_points, q.axis.is_some(), q.expressed, q.range)
}
