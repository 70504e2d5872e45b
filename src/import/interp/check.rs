//! The ops of StableHLO's test dialect, `check`, as ops and as custom calls: its public test programs assert with them.

use super::{EvalError, R, Tensor, tensor::Numbers, unsupported};
use crate::{
    float,
    tree::{Attr, DType, Op},
};

fn tolerance(op: &Op, name: &str) -> Option<f64> {
    match op.attr(name) {
        Some(Attr::Float(v, _)) => Some(*v),
        Some(Attr::Int(v, _)) => Some(*v as f64),
        _ => None,
    }
}

/// Steps of the type between two floats; none between equal ones, and all between a NaN and a number.
fn steps(d: DType, a: f64, b: f64) -> f64 {
    if a == b || (a.is_nan() && b.is_nan()) {
        return 0.0;
    }
    if a.is_nan() || b.is_nan() || a.is_infinite() || b.is_infinite() {
        return f64::INFINITY;
    }
    let place = |x: f64| {
        let bits = float::encode(d, x);
        let sign = 1u64 << (d.bits() - 1);
        if bits & sign == 0 { bits as i128 } else { -i128::from(bits & (sign - 1)) }
    };
    (place(a) - place(b)).unsigned_abs() as f64
}

/// `name` without its dialect.
pub(super) fn check(name: &str, op: &Op, found: &Tensor, want: &Tensor) -> R<()> {
    let fail =
        |i: usize, a: String, b: String| Err(EvalError::Program(format!("{name}: element {i} is {a}, expected {b}")));
    if found.dtype != want.dtype || found.shape != want.shape {
        return Err(EvalError::Program(format!(
            "{name}: {} for {}",
            crate::print::tensor(&found.ty()),
            crate::print::tensor(&want.ty())
        )));
    }
    let d = found.dtype.real();
    let close = |a: f64, b: f64| -> bool {
        match name {
            "expect_almost_eq" | "expect_almost_eq_const" => {
                let t = tolerance(op, "tolerance").unwrap_or(1e-3);
                a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= t || (a - b).abs() <= t * b.abs()
            }
            "expect_close" => steps(d, a, b) <= tolerance(op, "max_ulp_difference").unwrap_or(3.0),
            // Equal as numbers, NaN equal to NaN.
            _ => a == b || (a.is_nan() && b.is_nan()),
        }
    };
    match (found.numbers(), want.numbers()) {
        (Numbers::Float(a), Numbers::Float(b)) => {
            if let Some(i) = (0..a.len()).find(|i| !close(a[*i], b[*i])) {
                return fail(i, a[i].to_string(), b[i].to_string());
            }
        }
        (Numbers::Int(a), Numbers::Int(b)) => {
            if let Some(i) = (0..a.len()).find(|i| a[*i] != b[*i]) {
                return fail(i, a[i].to_string(), b[i].to_string());
            }
        }
        (Numbers::Complex(a), Numbers::Complex(b)) => {
            if let Some(i) = (0..a.len()).find(|i| !(close(a[*i].0, b[*i].0) && close(a[*i].1, b[*i].1))) {
                return fail(i, format!("{:?}", a[i]), format!("{:?}", b[i]));
            }
        }
        _ => return unsupported(format!("`check.{name}` of these types")),
    }
    Ok(())
}
