//! Exchanges within a subgroup by `ds_bpermute`, on every chip alike: MLIR's conversion takes `ds_swizzle` on some, which the
//! emulator that kernels are checked in lacks.

use melior::{
    Context,
    ir::{Module, ValueLike},
};
use zmlc_passes::{
    ir::{
        B, V, name, operand, read, result,
        rewrite::{erase, replace_uses},
        uses, walk,
    },
    llvm::gpu_modules,
};

/// Every `gpu.shuffle`, all of mode xor. Before `prepare_kernels`, which says what a lane is.
pub fn lower<'c>(context: &'c Context, module: &Module<'c>) {
    for op in gpu_modules(module).into_iter().flat_map(walk).filter(|op| name(*op) == "gpu.shuffle") {
        let b = B::before(context, op);
        let word = b.i(32);
        let lane = b.op1("arith.index_cast", &[b.op1("gpu.lane_id", &[], b.index(), &[])], word, &[]);
        let other = b.same("arith.xori", &[lane, operand(op, 1)]);
        let at = b.same("arith.shli", &[other, b.cint(word, 2)]);
        let new = from_lane(&b, at, operand(op, 0));
        replace_uses(result(op, 0), new);
        if !uses(result(op, 1)).is_empty() {
            replace_uses(result(op, 1), b.cint(b.i1(), 1));
        }
        erase(op);
    }
}

/// The value that the thread at byte `at` of a register has.
fn from_lane<'c>(b: &B<'c>, at: V<'c>, x: V<'c>) -> V<'c> {
    let (t, word) = (x.r#type(), b.i(32));
    let Some(bits) = read::int_bits(t) else {
        let int = b.i(read::bits(t));
        return b.op1("arith.bitcast", &[from_lane(b, at, b.op1("arith.bitcast", &[x], int, &[]))], t, &[]);
    };
    let permuted = |x: V<'c>| b.op1("rocdl.ds_bpermute", &[at, x], word, &[]);
    match bits {
        32 => permuted(x),
        64 => {
            let half = b.cint(t, 32);
            let [low, high] = [x, b.same("arith.shrui", &[x, half])]
                .map(|part| b.op1("arith.extui", &[permuted(b.op1("arith.trunci", &[part], word, &[]))], t, &[]));
            b.same("arith.ori", &[low, b.same("arith.shli", &[high, half])])
        }
        _ => b.op1("arith.trunci", &[permuted(b.op1("arith.extui", &[x], word, &[]))], t, &[]),
    }
}
