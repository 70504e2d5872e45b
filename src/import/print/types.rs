//! Types as StableHLO prints them.

use crate::tree::{DType, TensorType, Type};
use std::fmt::Write as _;

pub fn ty(t: &Type) -> String {
    let mut s = String::new();
    write_type(&mut s, t);
    s
}
pub(crate) fn tensor(t: &TensorType) -> String {
    let mut s = String::new();
    write_tensor(&mut s, t);
    s
}

pub(crate) fn write_type(out: &mut String, t: &Type) {
    match t {
        Type::Tensor(t) => write_tensor(out, t),
        Type::Token => out.push_str("!stablehlo.token"),
        Type::Tuple(parts) => {
            out.push_str("tuple<");
            write_types(out, parts);
            out.push('>');
        }
        Type::Function(inputs, results) => {
            out.push('(');
            write_types(out, inputs);
            out.push_str(") -> ");
            write_results(out, results);
        }
        Type::Other(s) => out.push_str(s),
    }
}
/// Separated by commas.
pub(crate) fn write_types(out: &mut String, list: &[Type]) {
    for (i, t) in list.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write_type(out, t);
    }
}
/// One type bare, others in brackets.
pub(crate) fn write_results(out: &mut String, list: &[Type]) {
    match list {
        [t] if !matches!(t, Type::Function(..)) => write_type(out, t),
        _ => {
            out.push('(');
            write_types(out, list);
            out.push(')');
        }
    }
}

pub(crate) fn write_tensor(out: &mut String, t: &TensorType) {
    out.push_str("tensor<");
    for d in &t.dims {
        match d {
            Some(d) => write!(out, "{d}x").expect("writing to a string"),
            None => out.push_str("?x"),
        }
    }
    match &t.quant {
        None => out.push_str(t.dtype.name()),
        Some(q) => {
            let storage = t.dtype.name();
            write!(
                out,
                "!quant.uniform<{}",
                storage.strip_prefix("ui").map_or(storage.to_string(), |b| format!("u{b}"))
            )
            .expect("writing to a string");
            if let Some((low, high)) = q.range {
                write!(out, "<{low}:{high}>").expect("writing to a string");
            }
            write!(out, ":{}", q.expressed).expect("writing to a string");
            if let Some(a) = q.axis {
                write!(out, ":{a}").expect("writing to a string");
            }
            out.push_str(", ");
            if q.axis.is_some() {
                out.push('{');
            }
            for (i, (s, z)) in q.scales.iter().zip(&q.zero_points).enumerate() {
                if i > 0 {
                    out.push(',');
                }
                super::attrs::write_float(out, DType::F64, f64::from_bits(*s));
                if *z != 0 {
                    write!(out, ":{z}").expect("writing to a string");
                }
            }
            if q.axis.is_some() {
                out.push('}');
            }
            out.push('>');
        }
    }
    if !t.bounds.is_empty() {
        out.push_str(", #stablehlo.bounds<");
        for (i, b) in t.bounds.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            match b {
                Some(b) => write!(out, "{b}").expect("writing to a string"),
                None => out.push('?'),
            }
        }
        out.push('>');
    }
    out.push('>');
}
