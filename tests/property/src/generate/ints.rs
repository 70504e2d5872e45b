//! Ops on integers and predicates, and what gives and takes predicates.

use super::{Maker, floats::either};
use crate::graph::{Num, Ty, Value};
use zml_format::DType;

/// How a comparison of this element type is marked.
pub(super) fn compare_type(d: DType) -> &'static str {
    match d {
        d if d.is_float() => "FLOAT",
        d if d.is_signed_int() => "SIGNED",
        _ => "UNSIGNED",
    }
}

impl Maker {
    pub(super) fn int_op(&mut self, a: Value) {
        let ty = self.ty(a);
        let d = ty.dtype;
        if self.r.one_in(4) {
            let op = match (self.r.below(4), d) {
                (_, DType::I1) | (0, _) => "not",
                (1, _) => "negate",
                (2, d) if d.is_signed_int() => self.r.pick(&["abs", "sign"]),
                (2, _) => "popcnt",
                _ => "count_leading_zeros",
            };
            let text = format!("stablehlo.{op} $0 : {}", ty.text());
            self.push(ty, Num::INT, text, &[a]);
            return;
        }
        let mut b = self.like(&ty);
        let op = if d == DType::I1 {
            self.r.pick(&["and", "or", "xor", "add", "multiply", "maximum", "minimum"])
        } else {
            self.r.pick(&[
                "add",
                "subtract",
                "multiply",
                "maximum",
                "minimum",
                "and",
                "or",
                "xor",
                "divide",
                "remainder",
                "shift_left",
                "shift_right_logical",
                "shift_right_arithmetic",
            ])
        };
        if ["divide", "remainder"].contains(&op) {
            // Dividing by zero has no meaning; by -1 the least number has none.
            let one = self.constant(&ty, "1", Num::INT);
            let text = format!("stablehlo.maximum $0, $1 : {}", ty.text());
            b = self.push(ty.clone(), Num::INT, text, &[b, one]);
        }
        let text = format!("stablehlo.{op} $0, $1 : {}", ty.text());
        self.push(ty, Num::INT, text, &[a, b]);
    }

    /// A comparison of values that are sure, or a choice by one.
    pub(super) fn compare(&mut self, a: Value) {
        let ty = self.ty(a);
        let of = Ty { dtype: DType::I1, ..ty.clone() };
        let predicate = self.find(|n| n.ty == of);
        match predicate {
            Some(p) if self.r.below(3) > 0 => {
                let b = self.like(&ty);
                let (p_text, t) = (of.text(), ty.text());
                let n = either(self.num(a), self.num(b));
                let text = format!("stablehlo.select $0, $1, $2 : {p_text}, {t}");
                self.push(ty, n, text, &[p, a, b]);
            }
            _ => {
                let b = self.like(&ty);
                if self.num(a).error > 0.0 || self.num(b).error > 0.0 {
                    return;
                }
                let direction = self.r.pick(&["EQ", "NE", "LT", "LE", "GT", "GE"]);
                let (t, kind) = (ty.text(), compare_type(ty.dtype));
                let text = format!("stablehlo.compare {direction}, $0, $1, {kind} : ({t}, {t}) -> {}", of.text());
                self.push(of, Num::INT, text, &[a, b]);
            }
        }
    }
}
