//! Ops on floats, with the range and the error of what they give.

use super::Maker;
use crate::graph::{Num, Ty, Value};
use zml_format::DType;

/// Bits of a type's significand, and its largest number that is used.
fn precision(d: DType) -> (f64, f64) {
    match d {
        DType::F64 => (2f64.powi(53), 1e9),
        DType::F32 => (2f64.powi(24), 1e6),
        DType::F16 => (2f64.powi(11), 2000.0),
        _ => (2f64.powi(8), 1e6),
    }
}
/// What a value of type `d` with these numbers is once it is rounded; none if it is too large to be used.
pub(super) fn rounded(d: DType, n: Num) -> Option<Num> {
    if !d.is_float() {
        return Some(n);
    }
    let (significand, largest) = precision(d);
    let bound = n.bound();
    if bound > largest {
        return None;
    }
    if n.error == 0.0 && n.step > 0.0 && bound / n.step <= significand {
        return Some(n);
    }
    // f64 is computed in f64 by the interpreter too, in another order.
    let error = n.error + 2.0 * bound / significand;
    (error <= 0.02 * bound.max(1.0)).then_some(Num { step: 0.0, error, ..n })
}
pub(super) fn sum(a: Num, b: Num) -> Num {
    Num { low: a.low + b.low, high: a.high + b.high, step: common(a, b), error: a.error + b.error }
}
pub(super) fn common(a: Num, b: Num) -> f64 {
    if a.step == 0.0 || b.step == 0.0 { 0.0 } else { a.step.min(b.step) }
}
pub(super) fn product(a: Num, b: Num) -> Num {
    let all = [a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high];
    Num {
        low: all.into_iter().fold(f64::INFINITY, f64::min),
        high: all.into_iter().fold(f64::NEG_INFINITY, f64::max),
        step: a.step * b.step,
        error: a.error * b.bound() + b.error * a.bound() + a.error * b.error,
    }
}
/// Of a value that is one or the other.
pub(super) fn either(a: Num, b: Num) -> Num {
    Num { low: a.low.min(b.low), high: a.high.max(b.high), step: common(a, b), error: a.error.max(b.error) }
}

impl Maker {
    pub(super) fn float_op(&mut self, a: Value) {
        if self.r.one_in(3) { self.float_unary(a) } else { self.float_binary(a) }
    }
    fn float_binary(&mut self, a: Value) {
        let ty = self.ty(a);
        let b = self.like(&ty);
        let (x, y) = (self.num(a), self.num(b));
        let (op, n) = match self.r.below(7) {
            0 | 1 => ("add", sum(x, y)),
            2 => ("subtract", Num { low: x.low - y.high, high: x.high - y.low, ..sum(x, y) }),
            3 | 4 => ("multiply", product(x, y)),
            5 => ("maximum", Num { low: x.low.max(y.low), high: x.high.max(y.high), ..either(x, y) }),
            _ => ("minimum", Num { low: x.low.min(y.low), high: x.high.min(y.high), ..either(x, y) }),
        };
        if let Some(n) = rounded(ty.dtype, n) {
            let text = format!("stablehlo.{op} $0, $1 : {}", ty.text());
            self.push(ty, n, text, &[a, b]);
        }
    }
    fn float_unary(&mut self, a: Value) {
        let (ty, x) = (self.ty(a), self.num(a));
        let wide = ty.dtype == DType::F64;
        // Functions are within some steps of the type, and those of f64 are not compared.
        let function = |low: f64, high: f64, error: f64| {
            let bound = low.abs().max(high.abs());
            let own = 32.0 * bound.max(1e-3) / precision(DType::F32).0;
            (!wide).then_some(Num { low, high, step: 0.0, error: error + own })
        };
        let whole = |low: f64, high: f64| (x.error == 0.0).then_some(Num { low, high, step: 1.0, error: 0.0 });
        let (op, n) = match self.r.below(16) {
            0 => ("negate", Some(Num { low: -x.high, high: -x.low, ..x })),
            1 => ("abs", Some(Num { low: x.low.max(-x.high).max(0.0), high: x.bound(), ..x })),
            2 => ("floor", whole(x.low.floor(), x.high)),
            3 => ("ceil", whole(x.low, x.high.ceil())),
            4 => ("round_nearest_even", whole(x.low - 1.0, x.high + 1.0)),
            5 => ("round_nearest_afz", whole(x.low - 1.0, x.high + 1.0)),
            6 => ("sign", whole(-1.0, 1.0)),
            7 if x.high <= 4.0 => ("exponential", function(x.low.exp(), x.high.exp(), x.error * x.high.exp())),
            8 => ("tanh", function(-1.0, 1.0, x.error)),
            9 => ("logistic", function(0.0, 1.0, x.error)),
            10 if x.bound() <= 100.0 => ("sine", function(-1.0, 1.0, x.error)),
            11 if x.bound() <= 100.0 => ("cosine", function(-1.0, 1.0, x.error)),
            12 if x.low >= 0.5 => ("sqrt", function(x.low.sqrt(), x.high.sqrt(), x.error)),
            13 if x.low >= 0.5 => ("rsqrt", function(1.0 / x.high.sqrt(), 1.0 / x.low.sqrt(), 4.0 * x.error)),
            14 if x.low >= 0.5 => ("log", function(x.low.ln(), x.high.ln(), 2.0 * x.error)),
            15 if x.bound() <= 1e3 => ("cbrt", (x.error == 0.0).then(|| function(-10.0, 10.0, 0.0)).flatten()),
            _ => return,
        };
        if let Some(n) = n.and_then(|n| rounded(ty.dtype, n)) {
            let text = format!("stablehlo.{op} $0 : {}", ty.text());
            self.push(ty, n, text, &[a]);
        }
    }
    /// To another element type; only numbers that are sure become integers.
    pub(super) fn convert(&mut self, a: Value) {
        let (from, x) = (self.ty(a), self.num(a));
        let to = Ty { dtype: self.dtype(), ..from.clone() };
        if to == from {
            return;
        }
        let text = format!("stablehlo.convert $0 : ({}) -> {}", from.text(), to.text());
        let (a, n) = match (from.dtype.is_float(), to.dtype.is_float()) {
            (false, false) => (a, Some(Num::INT)),
            (true, true) => (a, rounded(to.dtype, x)),
            (true, false) => {
                let fits = x.error == 0.0
                    && (to.dtype == DType::I1
                        || x.low >= 0.0 && x.high <= 7.0
                        || to.dtype.is_signed_int() && to.dtype.bits() >= 8 && x.bound() <= 100.0);
                (a, fits.then_some(Num::INT))
            }
            (false, true) if from.dtype == DType::I1 => (a, Some(Num { low: 0.0, high: 1.0, step: 1.0, error: 0.0 })),
            (false, true) => {
                let low = if from.dtype.is_signed_int() { -7.0 } else { 0.0 };
                let scalar = Ty::new(from.dtype, &[]);
                let least = self.constant(&scalar, &format!("{low}"), Num::INT);
                let most = self.constant(&scalar, "7", Num::INT);
                let (s, t) = (scalar.text(), from.text());
                let text = format!("stablehlo.clamp $0, $1, $2 : ({s}, {t}, {s}) -> {t}");
                let a = self.push(from.clone(), Num::INT, text, &[least, a, most]);
                (a, Some(Num { low, high: 7.0, step: 1.0, error: 0.0 }))
            }
        };
        if let Some(n) = n {
            self.push(to, n, text, &[a]);
        }
    }
}
