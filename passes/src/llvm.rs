//! What targets that go through MLIR's llvm dialect share: native math ops as LLVM intrinsics, subgroup ids as
//! arithmetic, one module of kernels for the serializer. Upstream's conversions turn every math op, even fma, into a
//! call of a vendor library that is not there; intrinsics they leave alone.
//!
//! Expects what expand-math leaves. Names no target.

use crate::{
    ir::{rewrite::*, *},
    pass::PassError,
};
use melior::{
    Context,
    ir::{Location, Module, Type},
};

/// Op, intrinsic, and whether the intrinsic takes a flag "zero is poison" as well.
const INTRINSICS: &[(&str, &str, bool)] = &[
    ("arith.maxnumf", "maxnum", false),
    ("arith.minnumf", "minnum", false),
    ("math.absf", "fabs", false),
    ("math.ceil", "ceil", false),
    ("math.copysign", "copysign", false),
    ("math.ctlz", "ctlz", true),
    ("math.ctpop", "ctpop", false),
    ("math.cttz", "cttz", true),
    ("math.floor", "floor", false),
    ("math.fma", "fma", false),
    ("math.roundeven", "roundeven", false),
    ("math.sqrt", "sqrt", false),
    ("math.trunc", "trunc", false),
];

/// Inside every gpu.module: native math ops become `llvm.call_intrinsic`, `math.absi` becomes arithmetic, and subgroup ids
/// follow from thread ids, `known_block_size` and `subgroup`, the threads of one.
pub fn prepare_kernels<'c>(context: &'c Context, module: &Module<'c>, subgroup: u32) {
    for f in gpu_modules(module).into_iter().flat_map(|g| ops(block(g, 0))) {
        let size = i32s_attr(f, "known_block_size").unwrap_or_default();
        let threads: i64 = size.iter().map(|n| i64::from(*n)).product();
        let subgroup = i64::from(subgroup);
        for op in walk(f) {
            let b = B::before(context, op);
            let new = match name(op) {
                "math.absi" => {
                    let x = operand(op, 0);
                    let zero = zero(&b, x.r#type());
                    b.same("arith.maxsi", &[x, b.same("arith.subi", &[zero, x])])
                }
                "gpu.lane_id" => b.same("arith.remui", &[thread(&b, &size), b.cidx(subgroup)]),
                "gpu.subgroup_id" => b.same("arith.divui", &[thread(&b, &size), b.cidx(subgroup)]),
                "gpu.subgroup_size" => b.cidx(subgroup),
                "gpu.num_subgroups" => b.cidx((threads + subgroup - 1) / subgroup),
                other => match INTRINSICS.iter().find(|x| x.0 == other) {
                    Some((_, intrinsic, flag)) => call(&b, op, intrinsic, *flag),
                    None => continue,
                },
            };
            replace_uses(result(op, 0), new);
            erase(op);
        }
    }
}

/// Number of the thread in its block, x fastest.
fn thread<'c>(b: &B<'c>, size: &[i32]) -> V<'c> {
    let id = |d| b.op1("gpu.thread_id", &[], b.index(), &[("dimension", b.attr(&format!("#gpu<dim {d}>")))]);
    let mut number = id('x');
    let mut below = 1;
    for (d, (inner, extent)) in ['y', 'z'].into_iter().zip(size.iter().zip(size.iter().skip(1))) {
        below *= i64::from(*inner);
        if *extent > 1 {
            number = b.addi(number, b.muli(id(d), b.cidx(below)));
        }
    }
    number
}
fn zero<'c>(b: &B<'c>, t: Type<'c>) -> V<'c> {
    match vector_len(t) {
        None => b.cint(t, 0),
        Some(_) => b.constant(b.attr(&format!("dense<0> : {t}")), t),
    }
}
fn call<'c>(b: &B<'c>, op: O<'c>, intrinsic: &str, flag: bool) -> V<'c> {
    let t = result(op, 0).r#type();
    let suffix = match vector_len(t) {
        Some(n) => format!("v{n}{}", elem(t)),
        None => t.to_string(),
    };
    let mut operands = operands(op);
    if flag {
        operands.push(b.op1("llvm.mlir.constant", &[], b.i1(), &[("value", b.attr("false"))]));
    }
    let segments = b.i32s(&[operands.len() as i32, 0]);
    b.op1(
        "llvm.call_intrinsic",
        &operands,
        t,
        &[
            ("intrin", b.str(&format!("llvm.{intrinsic}.{suffix}"))),
            ("op_bundle_sizes", b.i32s(&[])),
            ("operandSegmentSizes", segments),
        ],
    )
}

pub fn gpu_modules<'c>(module: &Module<'c>) -> Vec<O<'c>> {
    ops(body(module)).into_iter().filter(|op| name(*op) == "gpu.module").collect()
}

/// Workgroup memory begins at multiples of 16 bytes, as kernels that access it in vectors take for granted; conversions
/// leave the alignment of one element.
pub fn align_workgroup_memory<'c>(context: &'c Context, module: &Module<'c>) {
    for op in gpu_modules(module).into_iter().flat_map(|g| ops(block(g, 0))) {
        if name(op) == "llvm.mlir.global" && int_attr(op, "addr_space") == Some(3) {
            set_attr(op, "alignment", B::before(context, op).i64_attr(16));
        }
    }
}

/// Refuses what a conversion left behind: every op in the gpu.modules must be of `dialects`.
pub fn only_dialects(module: &Module, dialects: &[&str]) -> Result<(), PassError> {
    for g in gpu_modules(module) {
        for op in walk(g).into_iter().skip(1) {
            let full = name(op);
            let dialect = full.split('.').next().unwrap_or(full);
            if !dialects.contains(&dialect) {
                let kernel = str_attr(g, "sym_name").unwrap_or("?");
                return Err(PassError::Bug(format!("kernel @{kernel}: {full} is left: {op}")));
            }
        }
    }
    Ok(())
}

/// A kernel after lowering: the gpu.module's symbol and the entry point in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub kernel: String,
    pub symbol: String,
}

/// A module of its own whose one gpu.module, `@kernels`, holds what all gpu.modules of `module` hold, in their order, and
/// the attributes of the first: loading one binary costs a device little more than loading one of its kernels.
pub fn merge<'c>(context: &'c Context, module: &Module<'c>) -> Result<(Module<'c>, Vec<Entry>), PassError> {
    let merged = Module::new(Location::unknown(context));
    let b = B::new(context, body(&merged));
    set_attr(op_ref(merged.as_operation().to_raw()), "gpu.container_module", b.unit());
    let mut home = None;
    let mut entries = vec![];
    let mut symbols = std::collections::BTreeSet::new();
    for g in gpu_modules(module) {
        let kernel = str_attr(g, "sym_name").unwrap_or_default().to_string();
        let new = clone_mapped(&b, g, &mut Map::new());
        for op in ops(block(new, 0)) {
            let symbol = str_attr(op, "sym_name").unwrap_or_default().to_string();
            if !symbol.is_empty() && !symbols.insert(symbol.clone()) {
                return Err(PassError::Bug(format!("two kernels define @{symbol}")));
            }
            if has_attr(op, "gpu.kernel") {
                entries.push(Entry { kernel: kernel.clone(), symbol });
            }
        }
        match home {
            None => {
                set_attr(new, "sym_name", b.str("kernels"));
                home = Some(new);
            }
            Some(home) => {
                ops(block(new, 0)).into_iter().for_each(|op| move_to_end(op, block(home, 0)));
                erase(new);
            }
        }
    }
    Ok((merged, entries))
}
