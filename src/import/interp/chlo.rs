//! chlo's ops, computed by formula in f64.

use super::{R, Tensor, complex as c, elementwise, shape, special, tensor::Numbers, unsupported};
use crate::tree::{Attr, CompareType, DType, Direction, Op, TensorType};

pub(super) fn op(name: &str, op: &Op, x: &[&Tensor], types: &[&TensorType]) -> R<Vec<Tensor>> {
    if let Some(base) = name.strip_prefix("broadcast_") {
        return broadcast(base, op, x).map(|t| vec![t]);
    }
    match name {
        "top_k" => return top_k(x[0], op),
        "constant_like" => {
            let v = match op.attr("value") {
                Some(Attr::Float(v, _)) => *v,
                Some(Attr::Int(v, _)) => *v as f64,
                _ => return unsupported("this constant_like"),
            };
            let one = super::convert::convert(&Tensor::scalar(DType::F64, v), types[0].dtype);
            return Ok(vec![Tensor {
                dtype: one.dtype,
                shape: x[0].shape.clone(),
                bytes: one.bytes.repeat(x[0].elements()),
            }]);
        }
        "conj" => {
            let Numbers::Complex(v) = x[0].numbers() else { return Ok(vec![x[0].clone()]) };
            let v = v.into_iter().map(|x| (x.0, -x.1)).collect();
            return Ok(vec![Tensor::from_numbers(x[0].dtype, &x[0].shape, &Numbers::Complex(v))]);
        }
        _ => {}
    }
    if x.len() == 2 {
        return binary(name, x[0], x[1]).map(|t| vec![t]);
    }
    let numbers = match x[0].numbers() {
        Numbers::Float(v) => {
            let f: fn(f64) -> f64 = match name {
                "acos" => f64::acos,
                "acosh" => special::acosh,
                "asin" => f64::asin,
                "asinh" => special::asinh,
                "atan" => f64::atan,
                "atanh" => f64::atanh,
                "bessel_i1e" => special::bessel_i1e,
                "cosh" => f64::cosh,
                "digamma" => special::digamma,
                "erf" => libm::erf,
                "erfc" => libm::erfc,
                "erf_inv" => special::erf_inv,
                "lgamma" => special::lgamma,
                "sinh" => f64::sinh,
                "square" => |x| x * x,
                "tan" => f64::tan,
                "is_inf" | "is_pos_inf" | "is_neg_inf" => {
                    let v = v.into_iter().map(|x| {
                        i128::from(x.is_infinite() && (name == "is_inf" || (x > 0.0) == (name == "is_pos_inf")))
                    });
                    return Ok(vec![Tensor::from_numbers(DType::I1, &x[0].shape, &Numbers::Int(v.collect()))]);
                }
                _ => return unsupported(format!("`chlo.{name}`")),
            };
            Numbers::Float(v.into_iter().map(f).collect())
        }
        Numbers::Complex(v) => {
            let f: fn(c::C) -> c::C = match name {
                "acos" => c::acos,
                "acosh" => c::acosh,
                "asin" => c::asin,
                "asinh" => c::asinh,
                "atan" => c::atan,
                "atanh" => c::atanh,
                "cosh" => c::cosh,
                "sinh" => c::sinh,
                "square" => c::square,
                "tan" => c::tan,
                _ => return unsupported(format!("`chlo.{name}` of complex numbers")),
            };
            Numbers::Complex(v.into_iter().map(f).collect())
        }
        Numbers::Int(v) => match name {
            "square" => Numbers::Int(v.into_iter().map(|x| x.wrapping_mul(x)).collect()),
            _ => return unsupported(format!("`chlo.{name}` of integers")),
        },
    };
    Ok(vec![Tensor::from_numbers(x[0].dtype, &x[0].shape, &numbers)])
}

fn binary(name: &str, a: &Tensor, b: &Tensor) -> R<Tensor> {
    if name == "next_after" {
        return next_after(a, b);
    }
    if name == "mulhi" {
        let (Numbers::Int(x), Numbers::Int(y)) = (a.numbers(), b.numbers()) else {
            return unsupported("mulhi of floats");
        };
        let bits = a.dtype.bits();
        let v = x.iter().zip(&y).map(|(x, y)| {
            if a.dtype.is_signed_int() { (x * y) >> bits } else { ((*x as u128 * *y as u128) >> bits) as i128 }
        });
        return Ok(Tensor::from_numbers(a.dtype, &a.shape, &Numbers::Int(v.collect())));
    }
    let f: fn(f64, f64) -> f64 = match name {
        "zeta" => special::zeta,
        "polygamma" => special::polygamma,
        _ => return unsupported(format!("`chlo.{name}`")),
    };
    let v = a.floats().into_iter().zip(b.floats()).map(|(x, y)| f(x, y)).collect();
    Ok(Tensor::from_numbers(a.dtype, &a.shape, &Numbers::Float(v)))
}

/// The next value of the type after `a` in the direction of `b`.
fn next_after(a: &Tensor, b: &Tensor) -> R<Tensor> {
    let d = a.dtype;
    let width = d.bits();
    let sign = 1u64 << (width - 1);
    let mut bytes = vec![];
    for (x, y) in a.floats().into_iter().zip(b.floats()) {
        let bits = crate::float::encode(d, x);
        let next = if x.is_nan() || y.is_nan() {
            crate::float::encode(d, f64::NAN)
        } else if x == y {
            crate::float::encode(d, y)
        } else if x == 0.0 {
            1 | if y < 0.0 { sign } else { 0 }
        } else if (x < y) == (x > 0.0) {
            bits + 1
        } else {
            bits - 1
        };
        bytes.extend_from_slice(&next.to_le_bytes()[..d.bytes()]);
    }
    Ok(Tensor { dtype: d, shape: a.shape.clone(), bytes })
}

/// Numpy's broadcasting: trailing dimensions agree, unless `broadcast_dimensions` places the smaller operand's.
fn broadcast(base: &str, op: &Op, x: &[&Tensor]) -> R<Tensor> {
    let rank = x.iter().map(|t| t.shape.len()).max().unwrap_or(0);
    let place = |t: &Tensor| -> Vec<u64> {
        match op.attr("broadcast_dimensions").and_then(crate::build::ints_of) {
            Some(d) if t.shape.len() < rank && d.len() == t.shape.len() => d.into_iter().map(|d| d as u64).collect(),
            _ => ((rank - t.shape.len()) as u64..rank as u64).collect(),
        }
    };
    let mut full = vec![1u64; rank];
    for t in x {
        for (d, n) in place(t).into_iter().zip(&t.shape) {
            if *n != 1 {
                full[d as usize] = *n;
            }
        }
    }
    let y: Vec<Tensor> = x.iter().map(|t| shape::broadcast(t, &place(t), &full)).collect();
    match base {
        "select" => return Ok(elementwise::select(&y[0], &y[1], &y[2])),
        "compare" => {
            let word = |n: &str| match op.attr(n) {
                Some(Attr::Enum(_, _, w)) => w.clone(),
                _ => String::new(),
            };
            let direction = match word("comparison_direction").as_str() {
                "NE" => Direction::Ne,
                "GE" => Direction::Ge,
                "GT" => Direction::Gt,
                "LE" => Direction::Le,
                "LT" => Direction::Lt,
                _ => Direction::Eq,
            };
            let ty = if word("compare_type") == "TOTALORDER" { CompareType::TotalOrder } else { CompareType::Default };
            return Ok(elementwise::compare(direction, ty, &y[0], &y[1]));
        }
        _ => {}
    }
    match crate::raw::BINARY.iter().find(|b| b.1 == base) {
        Some((k, _)) => elementwise::binary(*k, &y[0], &y[1]),
        None => binary(base, &y[0], &y[1]),
    }
}

/// The k largest of each row, equal ones in their order.
fn top_k(x: &Tensor, op: &Op) -> R<Vec<Tensor>> {
    let Some(Attr::Int(k, _)) = op.attr("k") else { return unsupported("top_k without k") };
    let k = *k as usize;
    let n = *x.shape.last().expect("verified rank") as usize;
    let mut shape = x.shape.clone();
    *shape.last_mut().expect("verified rank") = k as u64;
    let mut places = vec![];
    let mut indices = vec![];
    // IEEE 754's total order, as XLA sorts: NaN above everything, -NaN below.
    let keys = x.floats();
    for row in 0..x.elements().checked_div(n).unwrap_or(0) {
        let mut list: Vec<usize> = (0..n).collect();
        list.sort_by(|a, b| keys[row * n + b].total_cmp(&keys[row * n + a]));
        for i in list.into_iter().take(k) {
            places.push(row * n + i);
            indices.push(i as i64);
        }
    }
    Ok(vec![shape::elements_at(x, shape.clone(), &places), shape::int_tensor(DType::I32, &shape, indices.into_iter())?])
}
