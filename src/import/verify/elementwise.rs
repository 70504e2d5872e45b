//! Unary and binary ops, compare, select, clamp, conversions.

use super::{V, agrees, compatible, element, same_element};
use crate::{
    print,
    tree::{BinaryOp, CompareType, DType, TensorType, UnaryOp},
};

/// Kinds of element types, as letters: b predicate, s signed, u unsigned, f float, c complex.
fn kind(d: DType) -> char {
    if d == DType::I1 {
        'b'
    } else if d.is_signed_int() {
        's'
    } else if d.is_unsigned_int() {
        'u'
    } else if d.is_float() {
        'f'
    } else {
        'c'
    }
}
fn describe(kinds: &str) -> String {
    let words: Vec<&str> = kinds
        .chars()
        .map(|c| match c {
            'b' => "predicates",
            's' => "signed integers",
            'u' => "unsigned integers",
            'f' => "floats",
            _ => "complex numbers",
        })
        .collect();
    words.join(", ")
}

impl V<'_> {
    /// Operand `i` must be of one of these kinds; quantized integers count as floats.
    pub(super) fn kinds(&mut self, i: usize, kinds: &str) -> bool {
        let t = self.x(i);
        let ok = if t.quant.is_some() { kinds.contains('f') } else { kinds.contains(kind(t.dtype)) };
        let span = self.at(i);
        self.need(
            ok,
            span,
            &format!("I{}", i + 1),
            format!("operand of {}", print::tensor(t)),
            format!("expected {}", describe(kinds)),
        )
    }

    pub(super) fn unary(&mut self, k: UnaryOp) {
        use UnaryOp as U;
        let kinds = match k {
            U::Abs => "sfc",
            U::Negate => "sufc",
            U::Sign => "sfc",
            U::Clz | U::Popcnt => "su",
            U::Not => "bsu",
            U::IsFinite | U::RoundNearestAfz | U::RoundNearestEven | U::Floor | U::Ceil => "f",
            _ => "fc",
        };
        if !self.kinds(0, kinds) {
            return;
        }
        let x = self.x(0);
        let part = TensorType { dtype: x.dtype.real(), ..x.clone() };
        match k {
            U::Abs | U::Real | U::Imag => self.result_like(0, "C1, C2", &part),
            U::IsFinite => {
                let t = TensorType { dtype: DType::I1, quant: None, ..x.clone() };
                self.result_like(0, "C1", &t);
            }
            _ => self.result_like(0, "C1", x),
        }
    }

    pub(super) fn binary(&mut self, k: BinaryOp) {
        use BinaryOp as B;
        let kinds = match k {
            B::And | B::Or | B::Xor => "bsu",
            B::ShiftLeft | B::ShiftRightArithmetic | B::ShiftRightLogical => "su",
            B::Atan2 => "fc",
            B::Complex => "f",
            B::Divide | B::Power | B::Subtract | B::Remainder => "sufc",
            B::Add | B::Multiply | B::Maximum | B::Minimum => "bsufc",
        };
        if !self.kinds(0, kinds) || !self.kinds(1, kinds) {
            return;
        }
        let (a, b) = (self.x(0), self.x(1));
        let span = self.at(1);
        if !self.need(
            same_element(a, b),
            span,
            "C1",
            format!("operands of element types {} and {}", element(a), element(b)),
            format!("expected {}", element(a)),
        ) {
            return self.hint("nothing is converted in silence: put a `stablehlo.convert` before one of them");
        }
        if !self.need(
            compatible(&a.dims, &b.dims),
            span,
            "C1",
            format!("operands of shapes {} and {}", print::tensor(a), print::tensor(b)),
            format!("expected {}", print::tensor(&TensorType { dims: a.dims.clone(), ..b.clone() })),
        ) {
            return self.hint("nothing is broadcast in silence: put a `stablehlo.broadcast_in_dim` before one of them");
        }
        if k == B::Add {
            self.add_quant();
        }
        // What either operand knows of the shape, the result must know.
        let dims = a.dims.iter().zip(&b.dims).map(|(x, y)| x.or(*y)).collect();
        if k == B::Complex {
            let dtype = match a.dtype {
                DType::F32 => DType::C64,
                DType::F64 => DType::C128,
                d => {
                    let span = self.at(0);
                    return self.fail(span, "I1", format!("complex number of {d}"), "expected f32 or f64");
                }
            };
            let t = TensorType { dtype, dims, bounds: vec![], quant: None };
            return self.result_like(0, "C2, C3", &t);
        }
        let t = TensorType { dims, bounds: vec![], ..a.clone() };
        self.result_like(0, "C1", &t);
    }

    pub(super) fn compare(&mut self, ty: CompareType) {
        let (a, b) = (self.x(0), self.x(1));
        let span = self.at(1);
        if !self.need(
            same_element(a, b),
            span,
            "C1",
            format!("operands of element types {} and {}", element(a), element(b)),
            format!("expected {}", element(a)),
        ) {
            return;
        }
        self.need(
            compatible(&a.dims, &b.dims),
            span,
            "C2",
            format!("operands of shapes {} and {}", print::tensor(a), print::tensor(b)),
            "expected equal shapes",
        );
        let found = match kind(a.dtype) {
            _ if a.quant.is_some() => true,
            'f' => matches!(ty, CompareType::Default | CompareType::Float | CompareType::TotalOrder),
            'c' => matches!(ty, CompareType::Default | CompareType::Float),
            's' => matches!(ty, CompareType::Default | CompareType::Signed),
            _ => matches!(ty, CompareType::Default | CompareType::Unsigned),
        };
        let span = self.attr_at("compare_type");
        self.need(
            found,
            span,
            "C3",
            format!("compare_type {ty:?} for elements of {}", a.dtype),
            "does not fit the element type",
        );
        let dims = a.dims.iter().zip(&b.dims).map(|(x, y)| x.or(*y)).collect();
        let t = TensorType { dtype: DType::I1, dims, bounds: vec![], quant: None };
        self.result_like(0, "C2", &t);
    }

    pub(super) fn select(&mut self) {
        let (p, a, b) = (self.x(0), self.x(1), self.x(2));
        let span = self.at(0);
        self.need(
            p.dtype == DType::I1 && p.quant.is_none(),
            span,
            "I1",
            format!("predicate of {}", print::tensor(p)),
            "expected i1",
        );
        self.need(
            p.rank() == 0 || compatible(&p.dims, &a.dims),
            span,
            "C1",
            format!("predicate {} for values of {}", print::tensor(p), print::tensor(a)),
            "expected a scalar or the values' shape",
        );
        let span = self.at(2);
        if self.need(
            same_element(a, b) && compatible(&a.dims, &b.dims),
            span,
            "C2",
            format!("values of {} and {}", print::tensor(a), print::tensor(b)),
            "expected equal types",
        ) {
            self.result_like(0, "C2", a);
        }
    }

    pub(super) fn clamp(&mut self) {
        let x = self.x(1);
        for (i, tag) in [(0, "C1"), (2, "C2")] {
            let t = self.x(i);
            let span = self.at(i);
            self.need(
                t.rank() == 0 || compatible(&t.dims, &x.dims),
                span,
                tag,
                format!("bound {} for {}", print::tensor(t), print::tensor(x)),
                "expected a scalar or the operand's shape",
            );
            self.need(
                same_element(t, x),
                span,
                "C3",
                format!("bound {} for {}", print::tensor(t), print::tensor(x)),
                format!("expected {}", element(x)),
            );
        }
        self.result_like(0, "C4", x);
    }

    pub(super) fn convert(&mut self) {
        let x = self.x(0);
        self.result_shape(0, "C1", &x.dims);
        let r = self.r(0);
        let span = self.here();
        self.need(
            x.quant.is_none() && r.quant.is_none(),
            span,
            "",
            "conversion from or to a quantized type",
            "use uniform_quantize or uniform_dequantize",
        );
    }

    pub(super) fn bitcast(&mut self) {
        let (x, r) = (self.x(0), self.r(0));
        let span = self.here();
        if !self.need(
            x.dtype.is_complex() == r.dtype.is_complex(),
            span,
            "C2",
            format!("bits of {} as {}", element(x), element(r)),
            "complex and other numbers do not mix",
        ) {
            return;
        }
        let (from, to) = (x.dtype.bits(), r.dtype.bits());
        let (longer, shorter, ratio) = match from.cmp(&to) {
            std::cmp::Ordering::Equal => return self.result_shape(0, "C1", &x.dims),
            std::cmp::Ordering::Greater => (&r.dims, &x.dims, from / to),
            std::cmp::Ordering::Less => (&x.dims, &r.dims, to / from),
        };
        let fits = longer.len() == shorter.len() + 1
            && longer.iter().zip(shorter).all(|(a, b)| agrees(*a, *b))
            && agrees(longer[shorter.len()], Some(u64::from(ratio)));
        self.need(
            fits,
            span,
            "C1",
            format!("bits of {} as {}", print::tensor(x), print::tensor(r)),
            format!("expected a last dimension of {ratio} on the narrower side"),
        );
    }

    pub(super) fn reduce_precision(&mut self, exponent: i32, mantissa: i32) {
        self.kinds(0, "f");
        let span = self.attr_at("exponent_bits");
        self.need(exponent >= 1, span, "C2", format!("exponent_bits = {exponent}"), "expected at least 1");
        let span = self.attr_at("mantissa_bits");
        self.need(mantissa >= 0, span, "C3", format!("mantissa_bits = {mantissa}"), "expected at least 0");
        self.result_like(0, "C1", self.x(0));
    }
}
