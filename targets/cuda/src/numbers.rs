//! Numbers in fewer instructions than LLVM finds by itself, before the conversion to the llvm dialect.
//!
//! - bf16 elements of a vector that are widened: a 32-bit word holds two, of which the upper one is the word without its
//!   lower half and the lower one the word shifted up. LLVM takes the halves out first.
//! - 2^x, which the special function units have.
//! - Quick divisions (`afn`): the divisor is a normal number whose reciprocal is normal too, so that the reciprocal needs
//!   no scaling.

use melior::{Context, ir::Module};
use zmlc_passes::{
    ir::{
        B, O, OperationLike, V, ValueLike, attr, def, elem, i64s_attr, is_bf16, name, operand, result,
        rewrite::{erase, replace_uses},
        uses, vector_len, walk,
    },
    llvm::gpu_modules,
};

pub fn lower<'c>(context: &'c Context, module: &Module<'c>) {
    for op in gpu_modules(module).into_iter().flat_map(walk) {
        let b = B::before(context, op);
        let new = match name(op) {
            "arith.extf" => widened(&b, op),
            "arith.divf" => quick_quotient(&b, op),
            "math.exp2" => Some(power_of_two(&b, op)),
            _ => None,
        };
        if let Some(new) = new {
            replace_uses(result(op, 0), new);
            erase(op);
        }
    }
}

/// f32 of a bf16 element of a vector.
fn widened<'c>(b: &B<'c>, op: O<'c>) -> Option<V<'c>> {
    let (x, t) = (operand(op, 0), result(op, 0).r#type());
    let extract = def(x).filter(|e| name(*e) == "vector.extract" && is_bf16(x.r#type()) && t == b.f32())?;
    // Arithmetic that is rounded back at once LLVM does in bf16, two at a time.
    let is_narrow = |user: O| {
        let next = (user.result_count() == 1).then(|| uses(result(user, 0)));
        matches!(next.as_deref(), Some([(n, _)]) if name(*n) == "arith.truncf" && is_bf16(result(*n, 0).r#type()))
    };
    if uses(result(op, 0)).into_iter().any(|(user, _)| is_narrow(user)) {
        return None;
    }
    let vector = operand(extract, 0);
    let [at] = i64s_attr(extract, "static_position")?[..] else { return None };
    let n = vector_len(vector.r#type()).filter(|n| n % 2 == 0 && at >= 0)?;
    let words = words(b, vector, n / 2)?;
    let word = b.op1("vector.extract", &[words], b.i(32), &[("static_position", b.i64s(&[at / 2]))]);
    let int = b.i(32);
    let bits = if at % 2 == 1 {
        b.same("arith.andi", &[word, b.cint(int, 0xffff_0000)])
    } else {
        b.same("arith.shli", &[word, b.cint(int, 16)])
    };
    Some(b.op1("arith.bitcast", &[bits], t, &[]))
}
/// The words of a vector of bf16, right after it is made.
fn words<'c>(b: &B<'c>, vector: V<'c>, n: i64) -> Option<V<'c>> {
    let known = uses(vector).into_iter().map(|u| u.0).find(|u| name(*u) == "vector.bitcast");
    if let Some(known) = known.filter(|k| elem(result(*k, 0).r#type()) == b.i(32)) {
        return Some(result(known, 0));
    }
    let b = B::after(b.c, def(vector)?);
    Some(b.op1("vector.bitcast", &[vector], b.vector(n, b.i(32)), &[]))
}

/// 2^x by the unit, lane by lane.
fn power_of_two<'c>(b: &B<'c>, op: O<'c>) -> V<'c> {
    let (x, t) = (operand(op, 0), result(op, 0).r#type());
    let one = |x: V<'c>| {
        let attributes = [
            ("intrin", b.str("llvm.nvvm.ex2.approx.ftz.f32")),
            ("op_bundle_sizes", b.i32s(&[])),
            ("operandSegmentSizes", b.i32s(&[1, 0])),
        ];
        b.op1("llvm.call_intrinsic", &[x], b.f32(), &attributes)
    };
    let Some(lanes) = vector_len(t) else { return one(x) };
    let lane = |i| b.op1("vector.extract", &[x], b.f32(), &[("static_position", b.i64s(&[i]))]);
    let each: Vec<V> = (0..lanes).map(|i| one(lane(i))).collect();
    b.op1("vector.from_elements", &each, t, &[])
}

/// a / b as a times the reciprocal of b.
fn quick_quotient<'c>(b: &B<'c>, op: O<'c>) -> Option<V<'c>> {
    let (x, y) = (operand(op, 0), operand(op, 1));
    let quick = attr(op, "fastmath").is_some_and(|a| a.to_string().contains("afn"));
    if !quick || y.r#type() != b.f32() {
        return None;
    }
    Some(b.mulf(x, b.op1("nvvm.rcp.approx.ftz.f", &[y], b.f32(), &[])))
}
