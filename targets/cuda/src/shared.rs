//! Workgroup memory beyond what a kernel may have without asking: its arrays become parts of the one that the launch
//! sizes. Works on the llvm dialect, where each array is a global of address space 3.

use melior::{Context, ir::Module};
use zmlc_passes::{
    ir::{
        B, O, ValueLike, attr, block, has_attr, int_attr, name, ops, result,
        rewrite::{erase, replace_uses, set_attr},
        str_attr, symbol_attr, walk,
    },
    llvm::gpu_modules,
    pass::PassError,
};

/// What a kernel may use without asking.
const STATIC_BYTES: i64 = 48 << 10;
/// Alignment of every array: tiles with swizzled lines repeat after as many bytes.
const ALIGN: i64 = 1024;
/// On a kernel: bytes that its launch must ask for.
pub const BYTES: &str = "zml.shared_bytes";

pub fn place<'c>(context: &'c Context, module: &Module<'c>) -> Result<(), PassError> {
    for g in gpu_modules(module) {
        let all = ops(block(g, 0));
        let Some(kernel) = all.iter().find(|op| has_attr(**op, "gpu.kernel")) else { continue };
        let symbol = str_attr(*kernel, "sym_name").unwrap_or_default();
        let arrays: Vec<O> = all
            .iter()
            .copied()
            .filter(|op| name(*op) == "llvm.mlir.global" && int_attr(*op, "addr_space") == Some(3))
            .collect();
        let mut offsets = vec![];
        let mut total = 0;
        for array in &arrays {
            total = (total + ALIGN - 1) / ALIGN * ALIGN;
            offsets.push(total);
            total += bytes(*array).ok_or_else(|| PassError::Bug(format!("kernel @{symbol}: the size of {array}")))?;
        }
        let b = B::before(context, *kernel);
        if total <= STATIC_BYTES {
            arrays.iter().for_each(|array| set_attr(*array, "alignment", b.i64_attr(ALIGN.min(128))));
            continue;
        }
        let memory = format!("{symbol}_shared");
        b.op(
            "llvm.mlir.global",
            &[],
            &[],
            &[
                ("sym_name", b.str(&memory)),
                ("global_type", b.type_attr(b.ty("!llvm.array<0 x i8>"))),
                ("linkage", b.attr("#llvm.linkage<external>")),
                ("addr_space", b.attr("3 : i32")),
                ("alignment", b.i64_attr(ALIGN)),
            ],
            vec![melior::ir::Region::new()],
        );
        for (array, offset) in arrays.iter().zip(&offsets) {
            let symbol = str_attr(*array, "sym_name").unwrap_or_default();
            for op in walk(*kernel) {
                if name(op) != "llvm.mlir.addressof" || symbol_attr(op, "global_name") != Some(symbol) {
                    continue;
                }
                let (b, t) = (B::before(context, op), result(op, 0).r#type());
                let base = b.op1("llvm.mlir.addressof", &[], t, &[("global_name", b.symbol(&memory))]);
                let attributes =
                    [("rawConstantIndices", b.i32s(&[*offset as i32])), ("elem_type", b.type_attr(b.i(8)))];
                replace_uses(result(op, 0), b.op1("llvm.getelementptr", &[base], t, &attributes));
                erase(op);
            }
            erase(*array);
        }
        set_attr(*kernel, BYTES, b.i64_attr(total));
    }
    Ok(())
}

/// Bytes of a global `!llvm.array<N x T>`.
fn bytes(global: O) -> Option<i64> {
    let t = attr(global, "global_type")?.to_string();
    let (n, element) = t.strip_prefix("!llvm.array<")?.strip_suffix('>')?.split_once(" x ")?;
    let bits: i64 = element.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().ok()?;
    Some(n.parse::<i64>().ok()? * ((bits + 7) / 8))
}
