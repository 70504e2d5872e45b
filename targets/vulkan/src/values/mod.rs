//! spirv-values: kernels in the values that SPIR-V has.
//!
//! Vectors live only in memory words: a vector value becomes its elements, so that any width works (SPIR-V knows 2, 3 and
//! 4) and a driver's compiler, which works on scalars anyway, sees them. bf16 is held as the f32 equal to it and rounded
//! after each operation. Buffers are retyped to the widest word that all their accesses agree on ([`memory`]), scalar
//! arguments are read from a push-constant block, and workgroup memory becomes an allocation, the one form that
//! MLIR's conversion takes.
//!
//! ```text
//! gpu.func @k(%x: memref<64xbf16> {zml.binding = 0 ...}, %n: i32 {zml.offset = 0}) {
//!   %v = vector.load %x[%i] {alignment = 16} : memref<64xbf16>, vector<8xbf16>
//! ```
//! becomes
//! ```text
//! spirv.GlobalVariable @scalars : !spirv.ptr<!spirv.struct<(i32 [0])>, PushConstant>
//! gpu.func @k(%x: memref<8xvector<4xi32>, #spirv.storage_class<StorageBuffer>> {zml.binding = 0 ...}) {
//!   %w = memref.load %x[%i / 8]
//!   %c0 = vector.extract %w[0] : i32        // elements 0 and 1, each an f32
//! ```
//! bf16 is rounded in integers: of SPV_KHR_bfloat16's conversion NVIDIA's driver makes a truncation.
//! Loops that a device would end too early get fewer and longer rounds ([`rounds`]).
//! Must not change what a kernel computes: no reassociation, no contraction, NaN and signed zero as MLIR defines them.
//!
//! Invariants, in every `gpu.module`:
//! 1. buffers are the only arguments of a `gpu.func`, and it has no attributions;
//! 2. no value is a vector but a word of memory, of 2 or 4 elements of 32 or 64 bits, or the parts of a 32-bit word;
//! 3. no value or memory is of a type that SPIR-V lacks: bf16, f8, integers other than 1, 8, 16, 32 and 64 bits;
//!    `i1` is no memory type.

mod divide;
mod float;
mod integer;
mod matrix;
mod memory;
mod rewrite;
mod rounds;
mod scalar;
mod vector;

pub use matrix::FACTORS;
use rewrite::Form;

/// The profile's option for a device whose `FMax` and `FMin` of f32 have -0 below +0, which GLSL leaves open.
const ORDERS_ZEROS: &str = "orders-zeros";
/// The profile's option for a device whose arithmetic gives one NaN, that of all bits but the sign.
const ONE_NAN: &str = "one-nan";
/// On a `gpu.module`: an index in it may exceed 31 bits.
pub const WIDE: &str = "zml.wide";
/// On a buffer that is found by address: the offset of an element in bytes may exceed 31 bits.
pub const FAR: &str = "zml.far";

use melior::{
    Context,
    ir::{Module, Type},
};
use zmlc_passes::{
    context::run_pipeline,
    ir::{
        B, Blk, BlockLike, Fragment, O, TypeLike, ValueLike, args, block, blocks, body, elem, name, operand, ops, read,
        results, walk,
    },
    kernels::is_wide,
    pass::{Env, Pass, PassError},
};

pub struct SpirvValues;

impl Pass for SpirvValues {
    fn name(&self) -> &'static str {
        "spirv-values"
    }
    fn about(&self) -> &'static str {
        "vectors to scalars and memory words, bf16 to f32, scalar arguments to push constants"
    }
    fn run<'c>(&self, context: &'c Context, module: &mut Module<'c>, env: Env) -> Result<(), PassError> {
        for g in kernels(module) {
            let home: Blk = block(g, 0);
            for f in ops(home).into_iter().filter(|f| name(*f) == "gpu.func") {
                if let Some(factor) = walk(f).into_iter().find_map(|op| {
                    let f = (name(op) == "zml.mma").then(|| Fragment::of(operand(op, 0)))??;
                    (f.element == "bf16").then_some(f.element)
                }) {
                    zmlc_passes::ir::rewrite::set_attr(g, FACTORS, B::before(context, f).str(&factor));
                }
                let wide = is_wide(f);
                if wide {
                    let unit = B::before(context, f).unit();
                    zmlc_passes::ir::rewrite::set_attr(g, WIDE, unit);
                }
                let turns = rounds::plan(f, env.spec())?;
                let says = |option| env.spec().options.get(option).is_some_and(|s| s == "true");
                let form = Form { wide, orders_zeros: says(ORDERS_ZEROS), has_one_nan: says(ONE_NAN) };
                rewrite::function(&B::before(context, f), f, form, turns)?;
                zmlc_passes::ir::rewrite::erase(f);
            }
        }
        run_pipeline(context, module, "builtin.module(gpu.module(gpu.func(arith-expand),canonicalize,cse))")
    }
    fn verify<'c>(&self, _context: &'c Context, module: &Module<'c>, _env: Env) -> Result<(), PassError> {
        for g in kernels(module) {
            for op in walk(g) {
                check(op).map_err(|what| {
                    let symbol = read::str_attr(g, "sym_name").unwrap_or_default();
                    PassError::Bug(format!("kernel {symbol}: `{}` {what}", name(op)))
                })?;
            }
        }
        Ok(())
    }
}

/// Whether an index into the buffer may exceed 31 bits.
pub fn kernels<'c>(module: &Module<'c>) -> Vec<O<'c>> {
    ops(body(module)).into_iter().filter(|op| name(*op) == "gpu.module").collect()
}

fn check(op: O) -> Result<(), String> {
    if name(op) == "gpu.func" {
        let entry = block(op, 0);
        let buffers = args(entry).iter().filter(|a| a.r#type().is_mem_ref()).count();
        if buffers != entry.argument_count() || read::int_attr(op, "workgroup_attributions").unwrap_or(0) > 0 {
            return Err("takes more than buffers".into());
        }
    }
    let arguments: Vec<_> = blocks(op).into_iter().flat_map(args).collect();
    for t in results(op).iter().chain(&arguments).map(ValueLike::r#type) {
        if let Some(n) = read::vector_len(t)
            && !(matches!(n, 2 | 4) && read::bits(elem(t)) * n as u32 <= 128)
        {
            return Err(format!("makes a `{t}`"));
        }
        let e = elem(elem(t));
        if !t.is_mem_ref() && is_foreign(t) {
            continue;
        }
        if !known(e) || (t.is_mem_ref() && read::is_i1(e)) {
            return Err(format!("makes a `{t}`"));
        }
    }
    Ok(())
}
/// Neither a number, nor a vector or memref of them: a type of the spirv dialect.
fn is_foreign(t: Type) -> bool {
    let e = elem(t);
    !read::is_float(e) && read::int_bits(e).is_none() && !e.is_index() && !t.is_mem_ref()
}
fn known(t: Type) -> bool {
    match read::int_bits(t) {
        Some(bits) => matches!(bits, 1 | 8 | 16 | 32 | 64),
        None => t.is_index() || (read::is_float(t) && matches!(read::bits(t), 16 | 32 | 64) && !read::is_bf16(t)),
    }
}
