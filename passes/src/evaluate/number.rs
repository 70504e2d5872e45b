//! Scalars of the evaluator and what each op does with them. A scalar is a word: integers and indices sign-extended from
//! their width (i1: 0 or 1), floats as the bits of an f64 that was rounded to their type.

use crate::ir::{bits, int_bits, is_bf16, is_float, is_index};
use half::{bf16, f16};
use melior::ir::Type;

/// A function of words.
pub enum Fun {
    One(Box<dyn Fn(u64) -> u64>),
    Two(Box<dyn Fn(u64, u64) -> u64>),
    Three(Box<dyn Fn(u64, u64, u64) -> u64>),
    /// Two results: the low and the high half of a product.
    Pair(Box<dyn Fn(u64, u64) -> [u64; 2]>),
}

/// What a scalar type is to the evaluator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Width in bits; an index is 64 wide.
    Int(u32),
    F16,
    Bf16,
    F32,
    F64,
}
impl Kind {
    pub fn of(t: Type) -> Result<Kind, String> {
        if is_index(t) {
            return Ok(Kind::Int(64));
        }
        match int_bits(t) {
            Some(w @ (1 | 8 | 16 | 32 | 64)) => return Ok(Kind::Int(w)),
            None if is_bf16(t) => return Ok(Kind::Bf16),
            None if is_float(t) => match bits(t) {
                64 => return Ok(Kind::F64),
                32 => return Ok(Kind::F32),
                16 => return Ok(Kind::F16),
                _ => {}
            },
            _ => {}
        }
        Err(format!("no evaluation of the type {t}"))
    }
    pub fn is_float(self) -> bool {
        !matches!(self, Kind::Int(_))
    }
    fn width(self) -> u32 {
        match self {
            Kind::Int(w) => w,
            Kind::F16 | Kind::Bf16 => 16,
            Kind::F32 => 32,
            Kind::F64 => 64,
        }
    }
    /// Bytes of one element in a buffer.
    pub fn bytes(self) -> usize {
        self.width().div_ceil(8) as usize
    }
    /// The little-endian bytes of a buffer as words.
    pub fn load(self, bytes: &[u8]) -> Vec<u64> {
        let one = |b: &[u8]| {
            let mut wide = [0; 8];
            wide[..b.len()].copy_from_slice(b);
            from_bits(self, u64::from_le_bytes(wide))
        };
        bytes.chunks_exact(self.bytes()).map(one).collect()
    }
    pub fn store(self, words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|w| to_bits(self, *w).to_le_bytes().into_iter().take(self.bytes())).collect()
    }
    /// A word as a number, for messages and tolerances.
    pub fn number(self, word: u64) -> f64 {
        if self.is_float() { real(word) } else { word as i64 as f64 }
    }
    /// Half the distance from 1 to the next number; 0 for integers, which are exact.
    pub fn roundoff(self) -> f64 {
        match self {
            Kind::Int(_) => 0.0,
            Kind::F16 => 2f64.powi(-11),
            Kind::Bf16 => 2f64.powi(-8),
            Kind::F32 => 2f64.powi(-24),
            Kind::F64 => 2f64.powi(-53),
        }
    }
    /// The word of an integer as an unsigned number.
    pub fn unsigned(self, word: u64) -> u64 {
        unsigned(self, word)
    }
    /// A number as a word of this kind.
    pub fn word(self, x: f64) -> u64 {
        if self.is_float() { round(self, x) } else { wrap(self, x as i64) }
    }
}

fn real(x: u64) -> f64 {
    f64::from_bits(x)
}
fn round(k: Kind, x: f64) -> u64 {
    match k {
        Kind::F32 => f64::from(x as f32),
        Kind::F16 => f16::from_f64(x).to_f64(),
        Kind::Bf16 => bf16::from_f64(x).to_f64(),
        Kind::F64 | Kind::Int(_) => x,
    }
    .to_bits()
}
/// Sign-extended from the width; an i1 is 0 or 1.
pub fn wrap(k: Kind, x: i64) -> u64 {
    (match k.width() {
        64 => x,
        1 => x & 1,
        w => x << (64 - w) >> (64 - w),
    }) as u64
}
fn unsigned(k: Kind, x: u64) -> u64 {
    match k.width() {
        64 => x,
        w => x & ((1 << w) - 1),
    }
}
/// As a signed number a set i1 is -1.
fn signed(k: Kind, x: u64) -> i64 {
    if k == Kind::Int(1) { -(x as i64) } else { x as i64 }
}
fn to_bits(k: Kind, word: u64) -> u64 {
    match k {
        Kind::Int(_) => unsigned(k, word),
        Kind::F16 => f16::from_f64(real(word)).to_bits().into(),
        Kind::Bf16 => bf16::from_f64(real(word)).to_bits().into(),
        Kind::F32 => (real(word) as f32).to_bits().into(),
        Kind::F64 => word,
    }
}
fn from_bits(k: Kind, bits: u64) -> u64 {
    match k {
        Kind::Int(_) => wrap(k, bits as i64),
        Kind::F16 => f16::from_bits(bits as u16).to_f64().to_bits(),
        Kind::Bf16 => bf16::from_bits(bits as u16).to_f64().to_bits(),
        Kind::F32 => f64::from(f32::from_bits(bits as u32)).to_bits(),
        Kind::F64 => bits,
    }
}

/// Of `arith.cmpi` over integers of a kind, by the number of its predicate.
pub fn compare_ints(predicate: i64, k: Kind) -> Fun {
    Fun::Two(Box::new(move |a, b| {
        let (x, y, u, v) = (signed(k, a), signed(k, b), unsigned(k, a), unsigned(k, b));
        u64::from(match predicate {
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
        })
    }))
}
/// Of `arith.cmpf`, by the number of its predicate.
pub fn compare_floats(predicate: i64) -> Fun {
    Fun::Two(Box::new(move |a, b| {
        let (x, y) = (real(a), real(b));
        let nan = x.is_nan() || y.is_nan();
        u64::from(match predicate {
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
        })
    }))
}

/// What an op of arith or math does, from operands of `from` to a result of `to`; none for an op that is not known.
pub fn function(op: &str, from: Kind, to: Kind) -> Option<Fun> {
    if op == "arith.select" {
        return Some(Fun::Three(Box::new(|c, a, b| if c == 0 { b } else { a })));
    }
    conversion(op, from, to).or_else(|| if to.is_float() { float(op, to) } else { integer(op, to) })
}

fn integer(op: &str, k: Kind) -> Option<Fun> {
    // Operands as signed numbers, and as unsigned ones.
    let two = |f: fn(i64, i64, u64, u64, u32) -> i64| {
        Some(Fun::Two(Box::new(move |a, b| {
            wrap(k, f(signed(k, a), signed(k, b), unsigned(k, a), unsigned(k, b), k.width()))
        })))
    };
    let one = |f: fn(i64, u64, u32) -> i64| {
        Some(Fun::One(Box::new(move |a| wrap(k, f(signed(k, a), unsigned(k, a), k.width())))))
    };
    let halves = |f: fn(i64, i64, u64, u64) -> i128| {
        Some(Fun::Pair(Box::new(move |a, b| {
            let p = f(signed(k, a), signed(k, b), unsigned(k, a), unsigned(k, b));
            [wrap(k, p as i64), wrap(k, (p >> k.width()) as i64)]
        })))
    };
    let shift = |f: fn(i64, u64, u32) -> i64, past: fn(i64) -> i64| {
        Some(Fun::Two(Box::new(move |a, b| {
            let (x, by) = (signed(k, a), unsigned(k, b));
            let shifted = if by < u64::from(k.width()) { f(x, unsigned(k, a), by as u32) } else { past(x) };
            wrap(k, shifted)
        })))
    };
    match op {
        "arith.addi" => two(|x, y, _, _, _| x.wrapping_add(y)),
        "arith.subi" => two(|x, y, _, _, _| x.wrapping_sub(y)),
        "arith.muli" => two(|x, y, _, _, _| x.wrapping_mul(y)),
        // A divisor of zero has no meaning: the bodies choose another value there.
        "arith.divsi" => two(|x, y, _, _, _| if y == 0 { 0 } else { x.wrapping_div(y) }),
        "arith.remsi" => two(|x, y, _, _, _| if y == 0 { 0 } else { x.wrapping_rem(y) }),
        "arith.divui" => two(|_, _, u, v, _| u.checked_div(v).unwrap_or(0) as i64),
        "arith.remui" => two(|_, _, u, v, _| u.checked_rem(v).unwrap_or(0) as i64),
        "arith.andi" => two(|x, y, _, _, _| x & y),
        "arith.ori" => two(|x, y, _, _, _| x | y),
        "arith.xori" => two(|x, y, _, _, _| x ^ y),
        "arith.maxsi" => two(|x, y, _, _, _| x.max(y)),
        "arith.minsi" => two(|x, y, _, _, _| x.min(y)),
        "arith.maxui" => two(|_, _, u, v, _| u.max(v) as i64),
        "arith.minui" => two(|_, _, u, v, _| u.min(v) as i64),
        "arith.shli" => shift(|x, _, s| x << s, |_| 0),
        "arith.shrui" => shift(|_, u, s| (u >> s) as i64, |_| 0),
        "arith.shrsi" => shift(|x, _, s| x >> s, |x| x >> 63),
        "arith.mulsi_extended" => halves(|x, y, _, _| i128::from(x) * i128::from(y)),
        "arith.mului_extended" => halves(|_, _, u, v| (u128::from(u) * u128::from(v)) as i128),
        "math.absi" => one(|x, _, _| x.wrapping_abs()),
        "math.ctpop" => one(|_, u, _| u.count_ones().into()),
        "math.ctlz" => one(|_, u, w| (u.leading_zeros() + w - 64).into()),
        "math.cttz" => one(|_, u, w| u.trailing_zeros().min(w).into()),
        _ => None,
    }
}

fn float(op: &str, k: Kind) -> Option<Fun> {
    let one = |f: fn(f64) -> f64| Some(Fun::One(Box::new(move |a| round(k, f(real(a))))));
    let two = |f: fn(f64, f64) -> f64| Some(Fun::Two(Box::new(move |a, b| round(k, f(real(a), real(b))))));
    match op {
        "arith.addf" => two(|x, y| x + y),
        "arith.subf" => two(|x, y| x - y),
        "arith.mulf" => two(|x, y| x * y),
        "arith.divf" => two(|x, y| x / y),
        "arith.remf" => two(|x, y| x % y),
        "arith.maximumf" => two(maximum),
        "arith.minimumf" => two(|x, y| -maximum(-x, -y)),
        "arith.maxnumf" => two(f64::max),
        "arith.minnumf" => two(f64::min),
        "math.powf" => two(f64::powf),
        "math.atan2" => two(f64::atan2),
        "math.copysign" => two(f64::copysign),
        "math.fma" => Some(Fun::Three(Box::new(move |a, b, c| round(k, real(a).mul_add(real(b), real(c)))))),
        "arith.negf" => one(|x| -x),
        "math.absf" => one(f64::abs),
        "math.exp" => one(f64::exp),
        "math.exp2" => one(f64::exp2),
        "math.expm1" => one(f64::exp_m1),
        "math.log" => one(f64::ln),
        "math.log2" => one(f64::log2),
        "math.log1p" => one(f64::ln_1p),
        "math.sqrt" => one(f64::sqrt),
        "math.rsqrt" => one(|x| 1.0 / x.sqrt()),
        "math.cbrt" => one(f64::cbrt),
        "math.sin" => one(f64::sin),
        "math.cos" => one(f64::cos),
        "math.tan" => one(f64::tan),
        "math.erf" => one(libm::erf),
        "math.erfc" => one(libm::erfc),
        "math.asinh" => one(f64::asinh),
        "math.acosh" => one(f64::acosh),
        "math.atanh" => one(f64::atanh),
        "math.tanh" => one(f64::tanh),
        "math.sinh" => one(f64::sinh),
        "math.cosh" => one(f64::cosh),
        "math.asin" => one(f64::asin),
        "math.acos" => one(f64::acos),
        "math.atan" => one(f64::atan),
        "math.floor" => one(f64::floor),
        "math.ceil" => one(f64::ceil),
        "math.trunc" => one(f64::trunc),
        "math.round" => one(f64::round),
        "math.roundeven" => one(f64::round_ties_even),
        _ => None,
    }
}
/// NaN if either is; 0 is more than -0.
fn maximum(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        f64::NAN
    } else if x == y {
        if x.is_sign_positive() { x } else { y }
    } else {
        x.max(y)
    }
}

fn conversion(op: &str, from: Kind, to: Kind) -> Option<Fun> {
    let one = |f: Box<dyn Fn(u64) -> u64>| Some(Fun::One(f));
    match op {
        "arith.extf" | "arith.truncf" => one(Box::new(move |a| round(to, real(a)))),
        "arith.extsi" | "arith.trunci" | "arith.index_cast" => one(Box::new(move |a| wrap(to, signed(from, a)))),
        "arith.extui" | "arith.index_castui" => one(Box::new(move |a| wrap(to, unsigned(from, a) as i64))),
        "arith.sitofp" => one(Box::new(move |a| round_int(to, signed(from, a).into()))),
        "arith.uitofp" => one(Box::new(move |a| round_int(to, unsigned(from, a).into()))),
        "arith.fptosi" => one(Box::new(move |a| wrap(to, real(a) as i64))),
        "arith.fptoui" => one(Box::new(move |a| wrap(to, real(a) as u64 as i64))),
        "arith.bitcast" => one(Box::new(move |a| from_bits(to, to_bits(from, a)))),
        _ => None,
    }
}
/// Rounded once: by way of f64 a 64-bit integer would be rounded twice.
fn round_int(k: Kind, x: i128) -> u64 {
    match k {
        Kind::F32 => f64::from(x as f32).to_bits(),
        // Whatever f64 cannot hold overflows f16, and rounds in bf16 as its upper bits with a sticky one below do.
        Kind::Bf16 if x.unsigned_abs() >= 1 << 53 => round(k, (x & !0xfff | i128::from(x & 0xfff != 0) << 11) as f64),
        _ => round(k, x as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two(op: &str, k: Kind, a: u64, b: u64) -> u64 {
        match function(op, k, k) {
            Some(Fun::Two(f)) => f(a, b),
            _ => panic!("{op}"),
        }
    }
    fn one(op: &str, from: Kind, to: Kind, a: u64) -> u64 {
        match function(op, from, to) {
            Some(Fun::One(f)) => f(a),
            _ => panic!("{op}"),
        }
    }

    #[test]
    fn integers_wrap_at_their_width() {
        let i8 = Kind::Int(8);
        assert_eq!(two("arith.addi", i8, 127, 1) as i64, -128);
        assert_eq!(two("arith.shrui", i8, -1i64 as u64, 4), 15);
        assert_eq!(two("arith.shli", i8, 1, 8), 0);
        assert_eq!(two("arith.shrsi", i8, -2i64 as u64, 200) as i64, -1);
        assert_eq!(two("arith.addi", Kind::Int(1), 1, 1), 0);
        assert_eq!(one("math.ctlz", i8, i8, 0), 8);
        assert_eq!(one("arith.extsi", Kind::Int(1), Kind::Int(32), 1) as i64, -1);
        assert_eq!(one("arith.extui", i8, Kind::Int(32), -1i64 as u64), 255);
        assert_eq!(two("arith.divsi", Kind::Int(32), 5, 0), 0);
    }

    #[test]
    fn floats_round_to_their_type() {
        let third = two("arith.divf", Kind::F32, 1f64.to_bits(), 3f64.to_bits());
        assert_eq!(f64::from_bits(third), f64::from(1f32 / 3.0));
        assert_eq!(one("arith.bitcast", Kind::F32, Kind::Int(32), 1f64.to_bits()), 0x3f80_0000);
        let zeros = two("arith.minimumf", Kind::F32, 0f64.to_bits(), (-0f64).to_bits());
        assert!(f64::from_bits(zeros).is_sign_negative());
        let big = one("arith.uitofp", Kind::Int(64), Kind::F32, (1u64 << 63) + (1 << 39) + 1);
        assert_eq!(f64::from_bits(big), f64::from(9_223_373_136_366_403_584f32));
    }

    #[test]
    fn buffers_hold_what_they_got() {
        for k in [Kind::Int(1), Kind::Int(16), Kind::F16, Kind::Bf16, Kind::F32, Kind::F64] {
            let words = [k.word(1.0), k.word(0.0)];
            assert_eq!(k.load(&k.store(&words)), words, "{k:?}");
        }
    }
}
