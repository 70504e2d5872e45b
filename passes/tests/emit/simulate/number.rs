//! Numbers of the simulator: integers sign-extended from their width (i1: 0 or 1), floats rounded to their type after every op.

use half::{bf16, f16};
use melior::ir::{Attribute, Type, attribute::IntegerAttribute};
use zmlc_passes::ir::*;

unsafe extern "C" {
    fn erf(x: f64) -> f64;
    fn erfc(x: f64) -> f64;
}

#[derive(Clone, Debug, PartialEq)]
pub enum Num {
    Int(i64),
    Float(f64),
}
impl Num {
    pub fn float(&self) -> f64 {
        match self {
            Num::Float(x) => *x,
            Num::Int(_) => panic!("a float"),
        }
    }
    pub fn int(&self) -> i64 {
        match self {
            Num::Int(x) => *x,
            Num::Float(_) => panic!("an integer"),
        }
    }
}
fn width(t: Type) -> u32 {
    if is_index(t) { 64 } else { bits(t) }
}
/// Wrapped to the width of `t`.
pub fn wrap(x: i64, t: Type) -> Num {
    let w = width(t);
    Num::Int(match w {
        64 => x,
        1 => x & 1,
        w => x << (64 - w) >> (64 - w),
    })
}
fn unsigned(x: i64, t: Type) -> u64 {
    let w = width(t);
    if w == 64 { x as u64 } else { x as u64 & ((1 << w) - 1) }
}
pub fn round(x: f64, t: Type) -> Num {
    Num::Float(match t.to_string().as_str() {
        "f64" => x,
        "f32" => f64::from(x as f32),
        "f16" => f16::from_f64(x).to_f64(),
        "bf16" => bf16::from_f64(x).to_f64(),
        other => panic!("float {other}"),
    })
}
pub fn constant(a: Attribute, t: Type) -> Num {
    if is_float(t) {
        // The attribute is a float's: the constant's type says so.
        return Num::Float(unsafe { mlir_sys::mlirFloatAttrGetValueDouble(a.to_raw()) });
    }
    match IntegerAttribute::try_from(a) {
        Ok(i) => wrap(i.value(), t),
        Err(_) => Num::Int(i64::from(a.to_string() == "true")),
    }
}
pub fn compare(op: &str, predicate: i64, t: Type, a: &Num, b: &Num) -> Num {
    let r = if op == "arith.cmpi" {
        let (x, y) = (a.int(), b.int());
        let (u, v) = (unsigned(x, t), unsigned(y, t));
        // As signed numbers a set i1 is -1.
        let (x, y) = if width(t) == 1 { (-x, -y) } else { (x, y) };
        match predicate {
            0 => x == y,
            1 => x != y,
            2 => x < y,
            3 => x <= y,
            4 => x > y,
            5 => x >= y,
            6 => u < v,
            7 => u <= v,
            8 => u > v,
            _ => u >= v,
        }
    } else {
        let (x, y) = (a.float(), b.float());
        let nan = x.is_nan() || y.is_nan();
        match predicate {
            0 => false,
            1 => x == y,
            2 => x > y,
            3 => x >= y,
            4 => x < y,
            5 => x <= y,
            6 => !nan && x != y,
            7 => !nan,
            8 => nan || x == y,
            9 => nan || x > y,
            10 => nan || x >= y,
            11 => nan || x < y,
            12 => nan || x <= y,
            13 => x != y,
            14 => nan,
            _ => true,
        }
    };
    Num::Int(i64::from(r))
}
pub fn binary(op: &str, t: Type, a: &Num, b: &Num) -> Option<Num> {
    if is_float(t) {
        let (x, y) = (a.float(), b.float());
        let nan = x.is_nan() || y.is_nan();
        // max(-0, 0) is 0, min(-0, 0) is -0.
        let zeros = x == 0.0 && y == 0.0;
        return Some(round(
            match op {
                "arith.addf" => x + y,
                "arith.subf" => x - y,
                "arith.mulf" => x * y,
                "arith.divf" => x / y,
                "arith.remf" => x % y,
                "arith.maximumf" | "arith.minimumf" if nan => f64::NAN,
                "arith.maximumf" if zeros => {
                    if x.is_sign_positive() {
                        x
                    } else {
                        y
                    }
                }
                "arith.minimumf" if zeros => {
                    if x.is_sign_negative() {
                        x
                    } else {
                        y
                    }
                }
                "arith.maximumf" | "arith.maxnumf" => x.max(y),
                "arith.minimumf" | "arith.minnumf" => x.min(y),
                "math.powf" => x.powf(y),
                "math.atan2" => x.atan2(y),
                "math.copysign" => x.copysign(y),
                _ => return None,
            },
            t,
        ));
    }
    let (x, y) = (a.int(), b.int());
    let (u, v) = (unsigned(x, t), unsigned(y, t));
    let shift = u32::try_from(v).ok().filter(|s| *s < width(t));
    Some(wrap(
        match op {
            "arith.addi" => x.wrapping_add(y),
            "arith.subi" => x.wrapping_sub(y),
            "arith.muli" => x.wrapping_mul(y),
            "arith.divsi" => x.checked_div(y)?,
            "arith.remsi" => x.checked_rem(y)?,
            "arith.divui" => u.checked_div(v)? as i64,
            "arith.remui" => u.checked_rem(v)? as i64,
            "arith.andi" => x & y,
            "arith.ori" => x | y,
            "arith.xori" => x ^ y,
            "arith.maxsi" => x.max(y),
            "arith.minsi" => x.min(y),
            "arith.maxui" => u.max(v) as i64,
            "arith.minui" => u.min(v) as i64,
            "arith.shli" => shift.map_or(0, |s| x << s),
            "arith.shrui" => shift.map_or(0, |s| (u >> s) as i64),
            "arith.shrsi" => x >> shift.unwrap_or(63),
            _ => return None,
        },
        t,
    ))
}
pub fn unary(op: &str, t: Type, a: &Num) -> Option<Num> {
    if !is_float(t) {
        let (x, w) = (unsigned(a.int(), t), width(t));
        return Some(Num::Int(match op {
            "math.ctpop" => i64::from(x.count_ones()),
            "math.ctlz" => i64::from(x.leading_zeros() + w - 64),
            "math.absi" => return Some(wrap(a.int().wrapping_abs(), t)),
            _ => return None,
        }));
    }
    let x = a.float();
    Some(round(
        match op {
            "arith.negf" => -x,
            "math.absf" => x.abs(),
            "math.exp" => x.exp(),
            "math.log" => x.ln(),
            "math.sqrt" => x.sqrt(),
            "math.rsqrt" => 1.0 / x.sqrt(),
            "math.tanh" => x.tanh(),
            "math.sin" => x.sin(),
            "math.cos" => x.cos(),
            "math.floor" => x.floor(),
            "math.ceil" => x.ceil(),
            "math.roundeven" => x.round_ties_even(),
            "math.round" => x.round(),
            "math.trunc" => x.trunc(),
            "math.log1p" => x.ln_1p(),
            "math.expm1" => x.exp_m1(),
            "math.exp2" => x.exp2(),
            "math.log2" => x.log2(),
            "math.tan" => x.tan(),
            "math.atan" => x.atan(),
            "math.cbrt" => x.cbrt(),
            "math.cosh" => x.cosh(),
            "math.sinh" => x.sinh(),
            "math.asin" => x.asin(),
            "math.acos" => x.acos(),
            "math.asinh" => x.asinh(),
            "math.acosh" => x.acosh(),
            "math.atanh" => x.atanh(),
            // Sound: functions of the C library without a condition.
            "math.erf" => unsafe { erf(x) },
            "math.erfc" => unsafe { erfc(x) },
            _ => return None,
        },
        t,
    ))
}
fn to_bits(a: &Num, t: Type) -> u64 {
    match (a, width(t)) {
        (Num::Int(x), _) => unsigned(*x, t),
        (Num::Float(x), 64) => x.to_bits(),
        (Num::Float(x), 32) => u64::from((*x as f32).to_bits()),
        (Num::Float(x), _) if is_bf16(t) => u64::from(bf16::from_f64(*x).to_bits()),
        (Num::Float(x), _) => u64::from(f16::from_f64(*x).to_bits()),
    }
}
fn from_bits(x: u64, t: Type) -> Num {
    if !is_float(t) {
        return wrap(x as i64, t);
    }
    Num::Float(match width(t) {
        64 => f64::from_bits(x),
        32 => f64::from(f32::from_bits(x as u32)),
        _ if is_bf16(t) => bf16::from_bits(x as u16).to_f64(),
        _ => f16::from_bits(x as u16).to_f64(),
    })
}
pub fn convert(op: &str, from: Type, to: Type, a: &Num) -> Option<Num> {
    Some(match op {
        "arith.extf" | "arith.truncf" => round(a.float(), to),
        "arith.bitcast" => from_bits(to_bits(a, from), to),
        "arith.extsi" | "arith.index_cast" if width(from) == 1 => wrap(-a.int(), to),
        "arith.extsi" | "arith.index_cast" | "arith.trunci" => wrap(a.int(), to),
        "arith.extui" | "arith.index_castui" => wrap(unsigned(a.int(), from) as i64, to),
        "arith.sitofp" => round(a.int() as f64, to),
        "arith.uitofp" => round(unsigned(a.int(), from) as f64, to),
        "arith.fptosi" => wrap(a.float() as i64, to),
        "arith.fptoui" => wrap(a.float() as u64 as i64, to),
        _ => return None,
    })
}
