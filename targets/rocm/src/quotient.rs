//! Quotients that are rounded to f16 stay quotients of f32. LLVM narrows such a division where both operands are f16, and
//! ends it by `v_div_fixup_f16`, which tinygrad's emulator cannot compile; in f32 it takes as long.

use melior::{
    Context,
    ir::{Module, ValueLike},
};
use zmlc_passes::{
    ir::{B, def, name, operand, read, result, rewrite::set_operand, walk},
    llvm::gpu_modules,
};

/// Fences what is rounded, so that the two are not seen together.
pub fn lower<'c>(context: &'c Context, module: &Module<'c>) {
    for op in gpu_modules(module).into_iter().flat_map(walk).filter(|op| name(*op) == "arith.truncf") {
        let x = operand(op, 0);
        let (from, to) = (x.r#type(), result(op, 0).r#type());
        let is_quotient = def(x).is_some_and(|d| name(d) == "arith.divf");
        if is_quotient && read::bits(from) == 32 && read::bits(to) == 16 {
            let b = B::before(context, op);
            // No instruction. LLVM's own fence ends compilation where it lies in a bundle.
            let attributes = [("asm_string", b.attr("\"\"")), ("constraints", b.str("=v,0"))];
            set_operand(op, 0, b.op1("llvm.inline_asm", &[x], from, &attributes));
        }
    }
}
