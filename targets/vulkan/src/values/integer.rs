//! Integer ops that SPIR-V or its conversion has for 32 bits alone, or not at all: bit counts, minimum and maximum
//! through GLSL, shuffles of other widths, widening to 64 bits.

use super::{
    divide,
    rewrite::{Lanes, Rewrite},
    scalar::Scalar,
};
use melior::ir::Type;
use zmlc_passes::{
    ir::{B, O, V, ValueLike, def, name, operand, read, result, results},
    pass::PassError,
};

/// The op in other ops, or none if it may stay.
pub fn op<'c>(b: &B<'c>, s: &Scalar<'c>, x: &[V<'c>]) -> Option<V<'c>> {
    let pick = |predicate| Some(b.select(b.cmpi(predicate, x[0], x[1]), x[0], x[1]));
    match s.name {
        "arith.minsi" => pick("slt"),
        "arith.maxsi" => pick("sgt"),
        "arith.minui" => pick("ult"),
        "arith.maxui" => pick("ugt"),
        "arith.sitofp" if read::is_i1(s.from) => {
            // The one bit is the sign.
            let [minus, zero] = [-1.0, 0.0].map(|v| b.cfloat(s.to[0], v));
            Some(b.select(x[0], minus, zero))
        }
        "arith.extsi" | "arith.extui" if !read::is_i1(s.from) && read::int_bits(s.to[0]) == Some(64) => {
            Some(double(b, s.name, x[0]))
        }
        "arith.index_cast" | "arith.index_castui" if s.form.wide && narrow(s.from) => {
            let extend = if s.name == "arith.index_cast" { "arith.extsi" } else { "arith.extui" };
            Some(b.op1("arith.index_cast", &[double(b, extend, x[0])], b.index(), &[]))
        }
        "arith.index_cast" | "arith.index_castui" if !s.form.wide && read::int_bits(s.to[0]) == Some(64) => {
            let extend = if s.name == "arith.index_cast" { "arith.extsi" } else { "arith.extui" };
            let word = b.op1(s.name, &[x[0]], b.i(32), &[]);
            Some(double(b, extend, word))
        }
        "arith.subi" if is_narrow(s.from) => Some(minus(b, x[0], x[1])),
        "arith.xori" if is_narrow(s.from) => Some(in_words(b, s.name, x[0], x[1])),
        "math.absi" => Some(magnitude(b, x[0])),
        "arith.divui" if is_long_division(s.from, x[1]) => Some(divide::unsigned(b, x[0], x[1]).0),
        "arith.remui" => Some(remainder(b, x[0], x[1])),
        "arith.divsi" if is_long_division(s.from, x[1]) => {
            let (quotient, _) = divide::unsigned(b, magnitude(b, x[0]), magnitude(b, x[1]));
            let zero = b.cint(s.from, 0);
            let negative = b.cmpi("slt", b.same("arith.xori", x), zero);
            Some(b.select(negative, minus(b, zero, quotient), quotient))
        }
        // SPIR-V leaves a negative operand open under Vulkan, and MLIR's way around it fails for the least integer.
        "arith.remsi" => {
            let rest = remainder(b, magnitude(b, x[0]), magnitude(b, x[1]));
            let zero = b.cint(s.from, 0);
            Some(b.select(b.cmpi("slt", x[0], zero), minus(b, zero, rest), rest))
        }
        "math.ctpop" => Some(as_type(b, population(b, word(b, x[0])), s.from)),
        // The ones below the lowest set bit. One above the integer is set if there is room for it.
        "math.cttz" => {
            let (mut x, bits) = (word(b, x[0]), read::bits(s.from));
            let t = x.r#type();
            if bits < 32 {
                x = b.same("arith.ori", &[x, b.cint(t, 1 << bits)]);
            }
            let less = b.same("arith.subi", &[x, b.cint(t, 1)]);
            let trailing = b.same("arith.andi", &[b.same("arith.xori", &[less, x]), less]);
            Some(as_type(b, population(b, trailing), s.from))
        }
        // All but the highest set bit spread over all below it.
        "math.ctlz" => {
            let (mut spread, bits) = (word(b, x[0]), read::bits(s.from));
            let t = spread.r#type();
            let mut by = 1;
            while by < bits {
                spread = b.same("arith.ori", &[spread, b.same("arith.shrui", &[spread, b.cint(t, i64::from(by))])]);
                by *= 2;
            }
            let zeros = b.same("arith.subi", &[b.cint(t, i64::from(bits)), population(b, spread)]);
            Some(as_type(b, zeros, s.from))
        }
        _ => None,
    }
}

fn narrow(t: Type) -> bool {
    read::int_bits(t).is_some_and(|bits| (2..=32).contains(&bits))
}
/// The absolute value; of the least integer, itself, which is right as an unsigned number.
fn magnitude<'c>(b: &B<'c>, x: V<'c>) -> V<'c> {
    let zero = b.cint(x.r#type(), 0);
    b.select(b.cmpi("slt", x, zero), minus(b, zero, x), x)
}
fn is_narrow(t: Type) -> bool {
    read::int_bits(t).is_some_and(|n| (2..32).contains(&n))
}
/// Division by a constant is a product, which drivers get right.
fn is_long_division(t: Type, by: V) -> bool {
    read::int_bits(t) == Some(64) && def(by).is_none_or(|op| name(op) != "arith.constant")
}
fn remainder<'c>(b: &B<'c>, x: V<'c>, y: V<'c>) -> V<'c> {
    if is_long_division(x.r#type(), y) { divide::unsigned(b, x, y).1 } else { b.same("arith.remui", &[x, y]) }
}
fn minus<'c>(b: &B<'c>, x: V<'c>, y: V<'c>) -> V<'c> {
    if is_narrow(x.r#type()) { in_words(b, "arith.subi", x, y) } else { b.same("arith.subi", &[x, y]) }
}
/// An op on integers of 8 or 16 bits. NVIDIA's driver keeps them in words and folds a negation or a complement into what
/// reads it without cutting it back: of -128 it makes 128. A field taken out of a word it leaves alone.
fn in_words<'c>(b: &B<'c>, op: &str, x: V<'c>, y: V<'c>) -> V<'c> {
    let (t, word) = (x.r#type(), b.i(32));
    let [x, y] = [x, y].map(|v| b.op1("arith.extsi", &[v], word, &[]));
    let field = [b.same(op, &[x, y]), b.cint(word, 0), b.cint(word, i64::from(read::bits(t)))];
    b.op1("arith.trunci", &[b.op1("spirv.BitFieldSExtract", &field, word, &[])], t, &[])
}
/// An integer of less than 32 bits as a word whose other bits are zeros, cut out so for the same driver's sake.
fn word<'c>(b: &B<'c>, x: V<'c>) -> V<'c> {
    let bits = read::bits(x.r#type());
    if bits >= 32 {
        return x;
    }
    let word = b.i(32);
    let field = [b.op1("arith.extui", &[x], word, &[]), b.cint(word, 0), b.cint(word, i64::from(bits))];
    b.op1("spirv.BitFieldUExtract", &field, word, &[])
}
fn as_type<'c>(b: &B<'c>, word: V<'c>, t: Type<'c>) -> V<'c> {
    if read::bits(t) < 32 { b.op1("arith.trunci", &[word], t, &[]) } else { word }
}
/// An integer of up to 32 bits as two words of 64. Mesa 22.3 (Debian 12's software Vulkan) narrows a comparison of a
/// 64-bit conversion with a constant and gets it wrong: `i64(-5) >= 0` was true. Words put together it leaves alone.
pub fn double<'c>(b: &B<'c>, extend: &str, x: V<'c>) -> V<'c> {
    let word = b.i(32);
    let low = if read::bits(x.r#type()) < 32 { b.op1(extend, &[x], word, &[]) } else { x };
    let high = match extend {
        "arith.extsi" => b.same("arith.shrsi", &[low, b.cint(word, 31)]),
        _ => b.cint(word, 0),
    };
    let pair = b.op1("spirv.CompositeConstruct", &[low, high], b.vector(2, word), &[]);
    b.op1("spirv.Bitcast", &[pair], b.i(64), &[])
}
/// Set bits of an integer of 32 or 64 bits, by SPIR-V's 32-bit count.
fn population<'c>(b: &B<'c>, x: V<'c>) -> V<'c> {
    let (t, word) = (x.r#type(), b.i(32));
    let count = |x| b.op1("spirv.BitCount", &[x], word, &[]);
    if read::bits(t) == 32 {
        return count(x);
    }
    let high = b.same("arith.shrui", &[x, b.cint(t, 32)]);
    let [low, high] = [x, high].map(|x| count(b.op1("arith.trunci", &[x], word, &[])));
    b.op1("arith.extui", &[b.addi(low, high)], t, &[])
}

/// `gpu.shuffle` of any type through 32-bit words, which every device with subgroup shuffles has.
pub fn shuffle<'c>(r: &mut Rewrite<'c>, b: &B<'c>, op: O<'c>) -> Result<(), PassError> {
    let [offset, width] = [1, 2].map(|i| r.one(operand(op, i)));
    let attributes = read::attributes(op);
    let mut valid = None;
    let mut word = |x: V<'c>| {
        let y = results(b.op("gpu.shuffle", &[x, offset, width], &[x.r#type(), b.i1()], &attributes, vec![]));
        valid = Some(y[1]);
        y[0]
    };
    let lanes: Lanes = r.lanes(operand(op, 0)).into_iter().map(|x| shuffled(b, x, &mut word)).collect();
    r.set(result(op, 0), lanes);
    r.set(result(op, 1), valid.into_iter().collect());
    Ok(())
}
fn shuffled<'c>(b: &B<'c>, x: V<'c>, word: &mut impl FnMut(V<'c>) -> V<'c>) -> V<'c> {
    let t = x.r#type();
    let bits = read::bits(t);
    let int: Type = b.i(bits);
    if bits == 32 {
        return word(x);
    }
    let as_int = if read::is_float(t) { b.op1("arith.bitcast", &[x], int, &[]) } else { x };
    let y = if bits < 32 {
        let wide = word(b.op1("arith.extui", &[as_int], b.i(32), &[]));
        b.op1("arith.trunci", &[wide], int, &[])
    } else {
        let high = b.same("arith.shrui", &[as_int, b.cint(int, 32)]);
        let [low, high] = [as_int, high].map(|x| word(b.op1("arith.trunci", &[x], b.i(32), &[])));
        let [low, high] = [low, high].map(|x| b.op1("arith.extui", &[x], int, &[]));
        b.same("arith.ori", &[low, b.same("arith.shli", &[high, b.cint(int, 32)])])
    };
    if read::is_float(t) { b.op1("arith.bitcast", &[y], t, &[]) } else { y }
}
