//! Unary, binary, compare, select and clamp. An operand of rank 0 stands for every element, so that the scalar regions of
//! reductions can run on whole tensors.

use super::{R, Tensor, complex as c, special, tensor::Numbers, unsupported};
use crate::{
    float,
    tree::{BinaryOp, CompareType, DType, Direction, UnaryOp},
};

pub(super) fn unary(k: UnaryOp, x: &Tensor, result: DType) -> R<Tensor> {
    use UnaryOp as U;
    let d = x.dtype;
    let bits = d.bits();
    let numbers = match x.numbers() {
        Numbers::Float(v) => {
            let f: fn(f64) -> f64 = match k {
                U::Abs => f64::abs,
                U::Cbrt => f64::cbrt,
                U::Ceil => f64::ceil,
                U::Cosine => f64::cos,
                U::Exponential => f64::exp,
                U::ExponentialMinusOne => f64::exp_m1,
                U::Floor => f64::floor,
                U::Log => f64::ln,
                U::LogPlusOne => f64::ln_1p,
                U::Logistic => |x| 1.0 / (1.0 + (-x).exp()),
                U::Negate => |x| -x,
                U::Real => |x| x,
                U::Imag => |_| 0.0,
                U::RoundNearestAfz => f64::round,
                U::RoundNearestEven => f64::round_ties_even,
                U::Rsqrt => |x| 1.0 / x.sqrt(),
                U::Sign => |x| if x.is_nan() || x == 0.0 { x } else { x.signum() },
                U::Sine => f64::sin,
                U::Sqrt => f64::sqrt,
                U::Tan => f64::tan,
                U::Tanh => f64::tanh,
                U::IsFinite => {
                    let v = v.iter().map(|x| i128::from(x.is_finite())).collect();
                    return Ok(Tensor::from_numbers(DType::I1, &x.shape, &Numbers::Int(v)));
                }
                U::Clz | U::Not | U::Popcnt => return unsupported(format!("{k:?} of {d}")),
            };
            Numbers::Float(v.into_iter().map(f).collect())
        }
        Numbers::Int(v) => {
            let low = |x: i128| (x as u128) & ((1u128 << bits) - 1);
            let f: Box<dyn Fn(i128) -> i128> = match k {
                U::Abs => Box::new(i128::abs),
                U::Negate => Box::new(|x| -x),
                U::Sign => Box::new(i128::signum),
                U::Not if d == DType::I1 => Box::new(|x| 1 - x),
                U::Not => Box::new(|x| !x),
                U::Popcnt => Box::new(|x| i128::from(low(x).count_ones())),
                U::Clz => Box::new(|x| i128::from(low(x).leading_zeros() - (128 - bits))),
                _ => return unsupported(format!("{k:?} of {d}")),
            };
            Numbers::Int(v.into_iter().map(f).collect())
        }
        Numbers::Complex(v) => {
            let f: fn(c::C) -> c::C = match k {
                U::Abs => {
                    let v = v.iter().map(|x| x.0.hypot(x.1)).collect();
                    return Ok(Tensor::from_numbers(result, &x.shape, &Numbers::Float(v)));
                }
                U::Real | U::Imag => {
                    let v = v.iter().map(|x| if k == U::Real { x.0 } else { x.1 }).collect();
                    return Ok(Tensor::from_numbers(result, &x.shape, &Numbers::Float(v)));
                }
                U::Negate => |x| (-x.0, -x.1),
                U::Sign => c::sign,
                U::Exponential => c::exp,
                U::ExponentialMinusOne => c::exp_m1,
                U::Log => c::log,
                U::LogPlusOne => c::log_1p,
                U::Logistic => |x| c::div((1.0, 0.0), c::add((1.0, 0.0), c::exp((-x.0, -x.1)))),
                U::Sqrt => c::sqrt,
                U::Rsqrt => |x| c::div((1.0, 0.0), c::sqrt(x)),
                U::Cbrt => |x| c::pow(x, (1.0 / 3.0, 0.0)),
                U::Sine => c::sin,
                U::Cosine => c::cos,
                U::Tan => c::tan,
                U::Tanh => c::tanh,
                _ => return unsupported(format!("{k:?} of {d}")),
            };
            Numbers::Complex(v.into_iter().map(f).collect())
        }
    };
    Ok(Tensor::from_numbers(d, &x.shape, &numbers))
}

/// Applies `f` to elements, the one of a rank-0 operand to all of the other's.
fn zip<A: Copy, B>(a: &[A], b: &[A], scalar: (bool, bool), f: impl Fn(A, A) -> B) -> Vec<B> {
    match scalar {
        (true, false) => b.iter().map(|y| f(a[0], *y)).collect(),
        (false, true) => a.iter().map(|x| f(*x, b[0])).collect(),
        _ => a.iter().zip(b).map(|(x, y)| f(*x, *y)).collect(),
    }
}
fn scalars(a: &Tensor, b: &Tensor) -> (bool, bool) {
    (a.shape.is_empty(), b.shape.is_empty())
}
fn shape<'a>(a: &'a Tensor, b: &'a Tensor) -> &'a [u64] {
    if a.shape.is_empty() { &b.shape } else { &a.shape }
}

pub(super) fn binary(k: BinaryOp, a: &Tensor, b: &Tensor) -> R<Tensor> {
    use BinaryOp as B;
    let d = a.dtype;
    let s = scalars(a, b);
    let numbers = match (a.numbers(), b.numbers()) {
        (Numbers::Float(x), Numbers::Float(y)) => {
            let f: fn(f64, f64) -> f64 = match k {
                B::Add => |x, y| x + y,
                B::Subtract => |x, y| x - y,
                B::Multiply => |x, y| x * y,
                B::Divide => |x, y| x / y,
                B::Remainder => |x, y| x % y,
                B::Power => f64::powf,
                B::Atan2 => f64::atan2,
                B::Maximum => special::maximum,
                B::Minimum => special::minimum,
                B::Complex => {
                    let c = if d == DType::F32 { DType::C64 } else { DType::C128 };
                    return Ok(Tensor::from_numbers(c, shape(a, b), &Numbers::Complex(zip(&x, &y, s, |x, y| (x, y)))));
                }
                _ => return unsupported(format!("{k:?} of {d}")),
            };
            Numbers::Float(zip(&x, &y, s, f))
        }
        (Numbers::Int(x), Numbers::Int(y)) => {
            let bits = i128::from(d.bits());
            let mask = (1i128 << bits) - 1;
            let predicate = d == DType::I1;
            let f: Box<dyn Fn(i128, i128) -> i128> = match k {
                B::Add if predicate => Box::new(|x, y| x | y),
                B::Multiply if predicate => Box::new(|x, y| x & y),
                B::Add => Box::new(|x, y| x + y),
                B::Subtract => Box::new(|x, y| x - y),
                B::Multiply => Box::new(i128::wrapping_mul),
                // Division by zero is implementation-defined; all bits set, as XLA does.
                B::Divide => Box::new(|x, y| if y == 0 { -1 } else { x / y }),
                B::Remainder => Box::new(|x, y| if y == 0 { x } else { x % y }),
                B::Power => Box::new(move |x, y| special::int_power(x, y, mask)),
                B::Maximum => Box::new(i128::max),
                B::Minimum => Box::new(i128::min),
                B::And => Box::new(|x, y| x & y),
                B::Or => Box::new(|x, y| x | y),
                B::Xor => Box::new(|x, y| x ^ y),
                B::ShiftLeft => Box::new(move |x, y| if (0..bits).contains(&y) { x << y } else { 0 }),
                B::ShiftRightArithmetic => Box::new(move |x, y| {
                    // Of unsigned types, too, the top bit is the sign.
                    let x = (x & mask) << (128 - bits) >> (128 - bits);
                    x >> if (0..bits).contains(&y) { y } else { bits - 1 }
                }),
                B::ShiftRightLogical => Box::new(move |x, y| if (0..bits).contains(&y) { (x & mask) >> y } else { 0 }),
                B::Atan2 | B::Complex => return unsupported(format!("{k:?} of {d}")),
            };
            Numbers::Int(zip(&x, &y, s, f))
        }
        (Numbers::Complex(x), Numbers::Complex(y)) => {
            let f: fn(c::C, c::C) -> c::C = match k {
                B::Add => c::add,
                B::Subtract => |x, y| (x.0 - y.0, x.1 - y.1),
                B::Multiply => c::mul,
                B::Divide => c::div,
                B::Power => c::pow,
                B::Atan2 => c::atan2,
                B::Maximum => |x, y| if x.0 > y.0 || (x.0 == y.0 && x.1 >= y.1) { x } else { y },
                B::Minimum => |x, y| if x.0 < y.0 || (x.0 == y.0 && x.1 <= y.1) { x } else { y },
                _ => return unsupported(format!("{k:?} of {d}")),
            };
            Numbers::Complex(zip(&x, &y, s, f))
        }
        _ => return unsupported(format!("{k:?} of {d} and {}", b.dtype)),
    };
    Ok(Tensor::from_numbers(d, shape(a, b), &numbers))
}

/// The position of a float in the total order of IEEE 754-2019, section 5.10.
fn total_order(d: DType, x: f64) -> i64 {
    let bits = float::encode(d, x);
    let width = d.bits();
    let sign = 1u64 << (width - 1);
    if bits & sign == 0 { bits as i64 } else { -((bits & (sign - 1)) as i64) - 1 }
}

pub(super) fn compare(direction: Direction, ty: CompareType, a: &Tensor, b: &Tensor) -> Tensor {
    let s = scalars(a, b);
    fn by<T: PartialOrd>(direction: Direction, x: &T, y: &T) -> i128 {
        i128::from(match direction {
            Direction::Eq => x == y,
            Direction::Ne => x != y,
            Direction::Ge => x >= y,
            Direction::Gt => x > y,
            Direction::Le => x <= y,
            Direction::Lt => x < y,
        })
    }
    let v = match (a.numbers(), b.numbers()) {
        (Numbers::Float(x), Numbers::Float(y)) => {
            if ty == CompareType::TotalOrder {
                let order = |v: Vec<f64>| -> Vec<i64> { v.into_iter().map(|x| total_order(a.dtype, x)).collect() };
                zip(&order(x), &order(y), s, |x, y| by(direction, &x, &y))
            } else {
                zip(&x, &y, s, |x, y| by(direction, &x, &y))
            }
        }
        (Numbers::Int(x), Numbers::Int(y)) => zip(&x, &y, s, |x, y| by(direction, &x, &y)),
        (Numbers::Complex(x), Numbers::Complex(y)) => zip(&x, &y, s, |x, y| by(direction, &x, &y)),
        _ => panic!("verified operands have one type"),
    };
    Tensor::from_numbers(DType::I1, shape(a, b), &Numbers::Int(v))
}

pub(super) fn select(p: &Tensor, a: &Tensor, b: &Tensor) -> Tensor {
    let of = |t: &Tensor, i: usize| if t.shape.is_empty() { 0 } else { i };
    let shape = [p, a, b].into_iter().map(|t| &t.shape).find(|s| !s.is_empty()).unwrap_or(&p.shape);
    let n = shape.iter().product::<u64>() as usize;
    let mut bytes = Vec::with_capacity(n * a.dtype.bytes());
    for i in 0..n {
        let t = if p.is_true(of(p, i)) { a } else { b };
        bytes.extend_from_slice(t.element(of(t, i)));
    }
    Tensor { dtype: a.dtype, shape: shape.clone(), bytes }
}

pub(super) fn clamp(min: &Tensor, x: &Tensor, max: &Tensor) -> R<Tensor> {
    let low = binary(BinaryOp::Maximum, min, x)?;
    binary(BinaryOp::Minimum, &low, max)
}
