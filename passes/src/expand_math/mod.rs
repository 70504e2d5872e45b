//! expand-math: every math op that is not native everywhere becomes arithmetic, the same on all targets, so that results
//! do not depend on a vendor's library. docs/numerics.md has the accuracy of each. One part is the device's where its
//! profile says so: 2^x, of which e^x and the logistic function are made in f32.
//!
//! Before: `%y = math.exp %x : vector<4xf32>`. After: arith ops on vectors, and math ops of [`NATIVE`].
//! f16 and bf16 are computed in f32 and rounded once, native ops among them; f64 is computed in f64. Predicates and integers
//! keep native ops. `arith.remf`, for which no target has an exact instruction, and `math.ipowi` are expanded too.
//!
//! Invariants, checked by `verify`, of everything in a gpu.module:
//! 1. math ops are of [`NATIVE`], or `math.exp2` with the flag `afn` where the profile has a unit for it
//! 2. none of them is on f16 or bf16
//! 3. there is no `arith.remf`

mod double;
pub mod error;
pub mod exp;
pub mod format;
mod host;
pub mod inverse;
mod ir;
pub mod log;
pub mod machine;
pub mod power;
pub mod quotient;
pub mod round;
mod single;
pub mod trig;

use crate::{
    ir::{rewrite::*, *},
    llvm::gpu_modules,
    pass::{Env, Pass, PassError},
};
use format::Format;
use ir::Ir;
use machine::Machine;
use melior::{
    Context,
    ir::{Module, Type},
};

/// Math ops that every target has as instructions or exact short sequences.
pub const NATIVE: &[&str] =
    &["absf", "absi", "ceil", "copysign", "ctlz", "ctpop", "cttz", "floor", "fma", "roundeven", "sqrt", "trunc"];

macro_rules! functions {
    ($($variant:ident $op:literal $path:path, ($($argument:ident)+);)*) => {
        /// What is expanded from floats to one float.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Function { $($variant),* }
        impl Function {
            pub const ALL: &[Function] = &[$(Function::$variant),*];
            /// `math.exp`; the logistic function has no op of its own.
            pub fn op(self) -> &'static str {
                match self { $(Function::$variant => $op),* }
            }
            /// Of as many arguments as the op has operands.
            pub fn apply<M: Machine>(self, m: &M, arguments: &[M::F]) -> M::F {
                match self {
                    $(Function::$variant => {
                        let [$($argument),+] = *arguments else { panic!("{} arguments for {}", arguments.len(), $op) };
                        $path(m, $($argument),+)
                    })*
                }
            }
        }
    };
}
functions! {
    Acos "math.acos" inverse::acos, (x);
    Acosh "math.acosh" log::acosh, (x);
    Asin "math.asin" inverse::asin, (x);
    Asinh "math.asinh" log::asinh, (x);
    Atan "math.atan" inverse::atan, (x);
    Atan2 "math.atan2" inverse::atan2, (y x);
    Atanh "math.atanh" log::atanh, (x);
    Cbrt "math.cbrt" power::cbrt, (x);
    Cos "math.cos" trig::cos, (x);
    Cosh "math.cosh" exp::cosh, (x);
    Erf "math.erf" error::erf, (x);
    Erfc "math.erfc" error::erfc, (x);
    Exp "math.exp" exp::exp, (x);
    Exp2 "math.exp2" exp::exp2, (x);
    Expm1 "math.expm1" exp::expm1, (x);
    Logistic "logistic" exp::logistic, (x);
    Log "math.log" log::log, (x);
    Log10 "math.log10" log::log10, (x);
    Log1p "math.log1p" log::log1p, (x);
    Log2 "math.log2" log::log2, (x);
    Powf "math.powf" power::pow, (x y);
    Rem "arith.remf" round::rem, (x y);
    Round "math.round" round::round, (x);
    Rsqrt "math.rsqrt" power::rsqrt, (x);
    Sin "math.sin" trig::sin, (x);
    Sinh "math.sinh" exp::sinh, (x);
    Tan "math.tan" trig::tan, (x);
    Tanh "math.tanh" exp::tanh, (x);
}
impl Function {
    fn of(op: &str) -> Option<Function> {
        Function::ALL.iter().copied().find(|f| f.op() == op)
    }
}

pub struct ExpandMath;

impl Pass for ExpandMath {
    fn name(&self) -> &'static str {
        "expand-math"
    }
    fn about(&self) -> &'static str {
        "math functions to arithmetic, the same on all targets"
    }
    fn run<'c>(&self, context: &'c Context, module: &mut Module<'c>, env: Env) -> Result<(), PassError> {
        let unit = env.spec.is_some_and(|s| s.exp2_unit);
        gpu_modules(module).into_iter().flat_map(walk).for_each(|op| logistic(context, op, unit));
        gpu_modules(module).into_iter().flat_map(walk).try_for_each(|op| expand(context, op, unit))?;
        let blocks: Vec<Blk> = gpu_modules(module).into_iter().flat_map(walk).flat_map(blocks).collect();
        blocks.into_iter().for_each(|block| quotient::share(context, block));
        Ok(())
    }
    fn verify<'c>(&self, _context: &'c Context, module: &Module<'c>, env: Env) -> Result<(), PassError> {
        for op in gpu_modules(module).into_iter().flat_map(walk) {
            let unit = is_by_unit(op) && env.spec.is_some_and(|s| s.exp2_unit);
            let native = name(op).strip_prefix("math.").map(|n| NATIVE.contains(&n) || unit);
            let half = native.is_some() && is_half(elem(operand(op, 0).r#type()));
            if native == Some(false) || half || name(op) == Function::Rem.op() {
                return Err(PassError::Bug(format!("{} is left: {op}", name(op))));
            }
        }
        Ok(())
    }
}

/// 1 / (1 + e^x), however it is written, is the logistic function of -x. What nothing else needs is removed.
fn logistic<'c>(context: &'c Context, op: O<'c>, unit: bool) {
    let is_one = |v: V<'c>| {
        let value = def(v).filter(|op| name(*op) == "arith.constant").and_then(|op| attr(op, "value"));
        value.is_some_and(|a| a.to_string().trim_start_matches("dense<").starts_with("1.000000e+00"))
    };
    let made_by = |v: V<'c>, op: &str| def(v).filter(|d| name(*d) == op);
    if name(op) != "arith.divf" || !is_one(operand(op, 0)) || is_half(elem(result(op, 0).r#type())) {
        return;
    }
    let Some(sum) = made_by(operand(op, 1), "arith.addf") else { return };
    let exponential = [0, 1]
        .into_iter()
        .find_map(|i| is_one(operand(sum, 1 - i)).then(|| made_by(operand(sum, i), "math.exp")).flatten());
    let Some(exponential) = exponential else { return };
    let b = B::before(context, op);
    let x = operand(exponential, 0);
    let x = made_by(x, "arith.negf").map_or_else(|| b.same("arith.negf", &[x]), |negation| operand(negation, 0));
    let lanes = vector_len(x.r#type());
    let y = match bits(elem(x.r#type())) {
        32 => exp::logistic(&Ir::<f32>::new(b, lanes, unit), x),
        _ => exp::logistic(&Ir::<f64>::new(b, lanes, unit), x),
    };
    replace_uses(result(op, 0), y);
    erase(op);
    for unused in [sum, exponential] {
        if uses(result(unused, 0)).is_empty() {
            erase(unused);
        }
    }
}

/// 2^x as the device's unit has it.
fn is_by_unit(op: O) -> bool {
    name(op) == "math.exp2" && attr(op, "fastmath").is_some_and(|a| a.to_string().contains("afn"))
}

/// Whether all that is made of a result is bf16.
fn is_rounded(op: O) -> bool {
    let to_bf16 = |user: O| name(user) == "arith.truncf" && is_bf16(elem(result(user, 0).r#type()));
    is_bf16(elem(result(op, 0).r#type())) || uses(result(op, 0)).into_iter().all(|(user, _)| to_bf16(user))
}
fn is_half(t: Type) -> bool {
    is_float(t) && bits(t) == 16
}

fn expand<'c>(context: &'c Context, op: O<'c>, unit: bool) -> Result<(), PassError> {
    let full = name(op);
    let function = Function::of(full);
    if (function.is_none() && !full.starts_with("math.")) || is_by_unit(op) {
        return Ok(());
    }
    let b = B::before(context, op);
    let given = operand(op, 0).r#type();
    if shape(given).len() > 1 {
        return Err(PassError::Bug(format!("{full} on {given}: vectors here have one dimension")));
    }
    let native = full.strip_prefix("math.").is_some_and(|n| NATIVE.contains(&n));
    let new = if full == "math.ipowi" {
        vec![power::integer(&b, operand(op, 0), operand(op, 1))]
    } else if !is_float(elem(given)) || (native && !is_half(elem(given))) {
        return if native { Ok(()) } else { Err(unsupported(full, given)) };
    } else {
        let wide = operands(op).into_iter().map(|x| widen(&b, x)).collect::<Option<Vec<_>>>();
        let wide = wide.ok_or_else(|| unsupported(full, given))?;
        let new = if bits(elem(given)) == 64 {
            write(&Ir::<f64>::new(b, vector_len(given), unit), full, &wide, elem(given))
        } else {
            write(&Ir::<f32>::new(b, vector_len(given), unit).short(is_rounded(op)), full, &wide, elem(given))
        };
        let new = new.ok_or_else(|| unsupported(full, given))?;
        new.into_iter().enumerate().map(|(i, v)| narrow(&b, v, result(op, i).r#type())).collect()
    };
    for (i, v) in new.into_iter().enumerate() {
        replace_uses(result(op, i), v);
    }
    erase(op);
    Ok(())
}

/// What `op` computes from `x`, whose elements were of type `given`.
fn write<'c, R: Format>(m: &Ir<'c, R>, op: &str, x: &[V<'c>], given: Type<'c>) -> Option<Vec<V<'c>>> {
    Some(match (Function::of(op), op) {
        (Some(Function::Rem), _) => vec![by_lane(m, x, |m, x| round::rem(m, x[0], x[1]))],
        (Some(function), _) => vec![function.apply(m, x)],
        _ if op.strip_prefix("math.").is_some_and(|n| NATIVE.contains(&n)) => vec![m.b.same(op, x)],
        (_, "math.sincos") => vec![trig::sin(m, x[0]), trig::cos(m, x[0])],
        (_, "math.isnan") => vec![m.is_nan(x[0])],
        (_, "math.isinf") => vec![round::is_inf(m, x[0])],
        (_, "math.isfinite") => vec![round::is_finite(m, x[0])],
        // A small f16 is a normal f32.
        (_, "math.isnormal") if !is_half(given) => vec![round::is_normal(m, x[0])],
        _ => return None,
    })
}
/// f32 of f16 or bf16; f32 and f64 as they are; none of other types.
fn widen<'c>(b: &B<'c>, x: V<'c>) -> Option<V<'c>> {
    let t = x.r#type();
    let wide = vector_len(t).map_or(b.f32(), |n| b.vector(n, b.f32()));
    match elem(t) {
        e if is_half(e) => Some(b.op1("arith.extf", &[x], wide, &[])),
        e if e == b.f32() || bits(e) == 64 => Some(x),
        _ => None,
    }
}
fn narrow<'c>(b: &B<'c>, x: V<'c>, to: Type<'c>) -> V<'c> {
    if x.r#type() == to { x } else { b.op1("arith.truncf", &[x], to, &[]) }
}
/// `f` of scalars, lane by lane: for what holds a loop.
fn by_lane<'c, R: Format>(m: &Ir<'c, R>, x: &[V<'c>], f: impl Fn(&Ir<'c, R>, &[V<'c>]) -> V<'c>) -> V<'c> {
    let Some(lanes) = m.lanes else { return f(m, x) };
    let scalar = m.scalar();
    let each: Vec<V> = (0..lanes)
        .map(|i| {
            let at = [("static_position", m.b.i64s(&[i]))];
            let lane = |v: &V<'c>| m.b.op1("vector.extract", &[*v], elem(v.r#type()), &at);
            f(&scalar, &x.iter().map(lane).collect::<Vec<_>>())
        })
        .collect();
    m.b.op1("vector.from_elements", &each, x[0].r#type(), &[])
}

fn unsupported(op: &str, t: Type) -> PassError {
    PassError::Unsupported {
        what: format!("{op} on {t}"),
        hint: "zmlc has expansions for f64 and f32, and for f16 and bf16 through f32".into(),
    }
}
