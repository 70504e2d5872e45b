//! Float ops that SPIR-V or its conversion does not have as MLIR defines them: everything on bf16, the maximum and minimum
//! of IEEE 754 (NaN wins, -0 is below +0; GLSL's leaves both open), classification. Arithmetic with a constant zero too:
//! Mesa's software device folds it as if there were no infinities, NaN and negative zeros, whatever the module asks for.

use super::{rewrite::Form, scalar::Scalar};
use melior::ir::{Type, attribute::FloatAttribute};
use zmlc_passes::{
    ir::{B, V, ValueLike, attr, name, read},
    pass::PassError,
};

/// The op in other ops, or none if it may stay.
pub fn op<'c>(b: &B<'c>, s: &Scalar<'c>, x: &[V<'c>]) -> Result<Option<V<'c>>, PassError> {
    let to = s.to[0];
    for t in [s.from, to] {
        let bits_only = s.name == "arith.bitcast" || s.name == "arith.select";
        if read::is_float(t) && read::bits(t) == 8 && !bits_only {
            return Err(PassError::Unsupported {
                what: format!("`{}` on `{t}` on this target", s.name),
                hint: "convert it through its bits".into(),
            });
        }
    }
    let bf16 = read::is_bf16(s.from) || read::is_bf16(to);
    if let [x, y] = *x
        && let Some(exact) = with_zero(b, s.name, x, y)
    {
        return Ok(Some(exact));
    }
    Ok(match s.name {
        "arith.maximumf" => Some(s.form.extreme(b, x[0], x[1], true)),
        "arith.minimumf" => Some(s.form.extreme(b, x[0], x[1], false)),
        // MLIR asks for NaN, whatever the flag says.
        "arith.maxnumf" if is_without_nan(s) => Some(b.same("spirv.GL.FMax", x)),
        "arith.minnumf" if is_without_nan(s) => Some(b.same("spirv.GL.FMin", x)),
        // Stands for Exp2, which MLIR lacks, up to the binary.
        "math.exp2" => Some(b.same("spirv.GL.Exp", &[x[0]])),
        "math.isnan" => Some(b.cmpf("une", x[0], x[0])),
        "math.isinf" => Some(b.cmpf("oeq", magnitude(b, x[0]), infinity(b, x[0]))),
        "math.isfinite" => Some(b.cmpf("olt", magnitude(b, x[0]), infinity(b, x[0]))),
        "math.trunc" => Some(b.same("math.copysign", &[b.same("math.floor", &[magnitude(b, x[0])]), x[0]])),
        "arith.extf" if bf16 => Some(match x[0].r#type() == to {
            true => x[0],
            false => b.op1("arith.extf", x, to, &[]),
        }),
        "arith.truncf" if read::is_bf16(to) => {
            let single = if read::bits(s.from) == 64 { to_odd(b, x[0]) } else { x[0] };
            Some(s.form.round(b, single))
        }
        "arith.bitcast" => Some(bitcast(b, s, x[0])),
        "arith.sitofp" if read::is_bf16(to) => Some(from_integer(b, s.form, x[0], true)),
        "arith.uitofp" if read::is_bf16(to) => Some(from_integer(b, s.form, x[0], false)),
        _ if read::is_bf16(to) && !is_exact(s.name) => Some(s.form.round(b, s.as_is(b, x)[0])),
        _ => None,
    })
}
fn is_without_nan(s: &Scalar) -> bool {
    s.attributes.iter().any(|(name, flags)| *name == "fastmath" && flags.to_string().contains("nnan"))
}
/// Whether bf16 operands give a bf16 result in f32 arithmetic without rounding.
fn is_exact(name: &str) -> bool {
    matches!(
        name,
        "arith.negf"
            | "arith.select"
            | "arith.maxnumf"
            | "arith.minnumf"
            | "math.absf"
            | "math.copysign"
            | "math.floor"
            | "math.ceil"
            | "math.trunc"
            | "math.round"
            | "math.roundeven"
    )
}

/// Arithmetic of which one operand is a constant zero, without it: what it gives is exact in any type.
fn with_zero<'c>(b: &B<'c>, name: &str, x: V<'c>, y: V<'c>) -> Option<V<'c>> {
    let zero = |v| constant(v).filter(|c| *c == 0.0);
    let float = |value| b.cfloat(x.r#type(), value);
    // Zero with the sign of `v` times that of `z`, or NaN.
    let signed = |z: f64, v, is_zero| {
        let unsigned = b.same("math.copysign", &[float(0.0), v]);
        let result = if z.is_sign_negative() { b.same("arith.negf", &[unsigned]) } else { unsigned };
        b.select(is_zero, result, float(f64::NAN))
    };
    let product = |z, v| signed(z, v, b.cmpf("olt", magnitude(b, v), infinity(b, v)));
    let unless_zero = |v, otherwise| b.select(b.cmpf("oeq", v, float(0.0)), float(0.0), otherwise);
    match (name, zero(x), zero(y)) {
        ("arith.divf", _, Some(z)) => Some(b.mulf(x, float(f64::INFINITY.copysign(z)))),
        ("arith.divf", Some(z), None) => Some(signed(z, y, b.cmpf("ogt", magnitude(b, y), float(0.0)))),
        ("arith.mulf", _, Some(z)) => Some(product(z, x)),
        ("arith.mulf", Some(z), None) => Some(product(z, y)),
        ("arith.addf", _, Some(z)) if z.is_sign_positive() => Some(unless_zero(x, x)),
        ("arith.addf", Some(z), None) if z.is_sign_positive() => Some(unless_zero(y, y)),
        ("arith.subf", _, Some(z)) if z.is_sign_negative() => Some(unless_zero(x, x)),
        ("arith.subf", Some(z), None) if z.is_sign_positive() => Some(unless_zero(y, b.same("arith.negf", &[y]))),
        _ => None,
    }
}

impl Form {
    /// An f32 to the nearest bf16, ties to even, held as f32. NaN stays NaN.
    fn round<'c>(self, b: &B<'c>, x: V<'c>) -> V<'c> {
        let int = b.i(32);
        let c = |v| b.cint(int, v);
        let up = |bits| {
            let odd = b.same("arith.andi", &[b.same("arith.shrui", &[bits, c(16)]), c(1)]);
            b.addi(b.addi(bits, c(0x7fff)), odd)
        };
        let bits = b.op1("arith.bitcast", &[x], int, &[]);
        let y = if self.has_one_nan && is_computed(x) {
            // Nothing else is above, as signed: what is added does not carry into the sign.
            up(b.same("spirv.GL.SMin", &[bits, c(0x7fff_7fff)]))
        } else {
            let (up, quiet) = (up(bits), b.same("arith.ori", &[bits, c(0x0040_0000)]));
            b.select(b.cmpf("une", x, x), quiet, up)
        };
        b.op1("arith.bitcast", &[b.same("arith.andi", &[y, c(0xffff_0000)])], b.f32(), &[])
    }
}
/// Whether arithmetic makes the value, on all ways; not what a driver may make a change of sign of.
fn is_computed(x: V) -> bool {
    let Some(op) = read::def(x) else { return false };
    let has = |is: fn(f64) -> bool| read::operands(op).into_iter().any(|v| constant(v).is_some_and(is));
    match name(op) {
        "arith.addf" | "arith.subf" => !has(|c| c == 0.0),
        "arith.mulf" | "arith.divf" => !has(|c| c.abs() == 1.0),
        "math.fma" => !has(|c| c == 0.0 || c.abs() == 1.0),
        "math.sqrt" => true,
        "scf.if" => read::blocks(op).into_iter().all(|way| {
            let end = *read::ops(way).last().expect("a way yields");
            is_computed(read::operand(end, read::result_number(x)))
        }),
        _ => false,
    }
}
/// An f64 to the f32 next to it whose last bit is 1 unless it is exact: rounding that to bf16 is rounding once.
fn to_odd<'c>(b: &B<'c>, x: V<'c>) -> V<'c> {
    let int = b.i(32);
    let near = b.op1("arith.truncf", &[x], b.f32(), &[]);
    let back = b.op1("arith.extf", &[near], x.r#type(), &[]);
    let bits = b.op1("arith.bitcast", &[near], int, &[]);
    let away = b.cmpf("ogt", magnitude(b, back), magnitude(b, x));
    let down = b.select(away, b.same("arith.subi", &[bits, b.cint(int, 1)]), bits);
    let odd = b.same("arith.ori", &[down, b.cint(int, 1)]);
    // Ordered: of a NaN the bits stay.
    let y = b.select(b.cmpf("one", back, x), odd, bits);
    b.op1("arith.bitcast", &[y], b.f32(), &[])
}
/// An integer to bf16. f32 holds 24 bits: what lies below them in a larger one is kept as one sticky bit, so that f32 is
/// exact and the only rounding is the one to bf16.
fn from_integer<'c>(b: &B<'c>, form: Form, x: V<'c>, signed: bool) -> V<'c> {
    let t = x.r#type();
    let bits = read::bits(t);
    let convert = |x| b.op1("arith.uitofp", &[x], b.f32(), &[]);
    if bits < 32 {
        let exact = b.op1(if signed { "arith.sitofp" } else { "arith.uitofp" }, &[x], b.f32(), &[]);
        return form.round(b, exact);
    }
    let zero = b.cint(t, 0);
    let negative = b.cmpi("slt", x, zero);
    let mut m = if signed { b.select(negative, b.same("arith.subi", &[zero, x]), x) } else { x };
    let mut scale = b.cfloat(b.f32(), 1.0);
    if bits == 64 {
        for (limit, by) in [(1i64 << 48, 24), (1 << 32, 16)] {
            let large = b.cmpi("uge", m, b.cint(t, limit));
            m = b.select(large, sticky(b, m, by, true), m);
            scale = b.select(large, b.mulf(scale, b.cfloat(b.f32(), (1u64 << by) as f64)), scale);
        }
        m = b.op1("arith.trunci", &[m], b.i(32), &[]);
    }
    let large = b.cmpi("uge", m, b.cint(b.i(32), 1 << 24));
    m = b.select(large, sticky(b, m, 8, false), m);
    let y = b.mulf(form.round(b, convert(m)), scale);
    if signed { b.select(negative, b.same("arith.negf", &[y]), y) } else { y }
}
/// The bits from `by` on, with the lowest of them set if any below is; shifted down or left in place.
fn sticky<'c>(b: &B<'c>, x: V<'c>, by: i64, down: bool) -> V<'c> {
    let t = x.r#type();
    let below = b.same("arith.andi", &[x, b.cint(t, (1 << by) - 1)]);
    let any = b.op1("arith.extui", &[b.cmpi("ne", below, b.cint(t, 0))], t, &[]);
    let high = b.same("arith.ori", &[b.same("arith.shrui", &[x, b.cint(t, by)]), any]);
    if down { high } else { b.same("arith.shli", &[high, b.cint(t, by)]) }
}

fn bitcast<'c>(b: &B<'c>, s: &Scalar<'c>, x: V<'c>) -> V<'c> {
    let (from, to) = (s.from, s.to[0]);
    let bits = if read::is_bf16(from) {
        let wide = b.op1("arith.bitcast", &[x], b.i(32), &[]);
        b.op1("arith.trunci", &[b.same("arith.shrui", &[wide, b.cint(b.i(32), 16)])], b.i(16), &[])
    } else {
        x
    };
    if read::is_bf16(to) {
        let int = cast(b, bits, b.i(16));
        let wide = b.op1("arith.extui", &[int], b.i(32), &[]);
        let high = b.same("arith.shli", &[wide, b.cint(b.i(32), 16)]);
        return b.op1("arith.bitcast", &[high], b.f32(), &[]);
    }
    cast(b, bits, super::rewrite::held(b, to))
}
fn cast<'c>(b: &B<'c>, x: V<'c>, t: Type<'c>) -> V<'c> {
    if x.r#type() == t { x } else { b.op1("arith.bitcast", &[x], t, &[]) }
}

fn magnitude<'c>(b: &B<'c>, x: V<'c>) -> V<'c> {
    b.same("math.absf", &[x])
}
fn infinity<'c>(b: &B<'c>, like: V<'c>) -> V<'c> {
    b.cfloat(like.r#type(), f64::INFINITY)
}

impl Form {
    /// IEEE 754 maximum or minimum.
    fn extreme<'c>(self, b: &B<'c>, x: V<'c>, y: V<'c>, max: bool) -> V<'c> {
        let is_number = |v| constant(v).is_some_and(|c| !c.is_nan());
        if self.orders_zeros && x.r#type() == b.f32() && ![x, y].into_iter().any(is_number) {
            let of_numbers = b.same(if max { "spirv.GL.FMax" } else { "spirv.GL.FMin" }, &[x, y]);
            return b.select(b.cmpf("uno", x, y), b.cfloat(x.r#type(), f64::NAN), of_numbers);
        }
        extreme(b, x, y, max)
    }
}
fn extreme<'c>(b: &B<'c>, x: V<'c>, y: V<'c>, max: bool) -> V<'c> {
    for (x, c) in [(x, y), (y, x)] {
        if let Some(value) = constant(c).filter(|v| !v.is_nan()) {
            // Unordered, so that a NaN is kept; on a tie of zeros the right one is taken.
            let keep_tie = (value.to_bits() == 0) != max;
            let predicate = match (max, keep_tie) {
                (true, false) => "ugt",
                (true, true) => "uge",
                (false, false) => "ult",
                (false, true) => "ule",
            };
            return b.select(b.cmpf(predicate, x, c), x, c);
        }
    }
    let int = b.i(read::bits(x.r#type()));
    let [p, q] = [x, y].map(|v| b.op1("arith.bitcast", &[v], int, &[]));
    // Equal values have equal bits, but for zeros: the sign of the maximum is the AND of the signs, of the minimum the OR.
    let tie = b.op1("arith.bitcast", &[b.same(if max { "arith.andi" } else { "arith.ori" }, &[p, q])], x.r#type(), &[]);
    let larger = b.select(b.cmpf(if max { "ugt" } else { "ult" }, x, y), x, y);
    let ordered = b.select(b.cmpf("oeq", x, y), tie, larger);
    b.select(b.cmpf("une", y, y), y, ordered)
}
/// The value of a float constant.
fn constant(v: V) -> Option<f64> {
    let mut op = read::def(v)?;
    if name(op) == "arith.extf" {
        op = read::def(read::operand(op, 0))?;
    }
    if name(op) == "vector.extract" {
        return None;
    }
    let value: FloatAttribute = attr(op, "value")?.try_into().ok()?;
    Some(value.value())
}
