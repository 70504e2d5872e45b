//! Executes level 1 on the CPU: bufferized and compiled by upstream's passes and MLIR's execution engine, so that numbers are
//! checked before any emitter or target of ours has touched them.

use melior::{Context, ExecutionEngine, ir::Module};
use zml_format::DType;
use zmlc_import::{interp::Tensor, tree::Program};
use zmlc_passes::{
    context,
    expand_special::ExpandSpecial,
    ir::{self, B, O, V, ValueLike, rewrite},
    legalize,
    pass::{Env, Pass},
    simplify::{self, Simplify},
};

const PIPELINE: &str = "builtin.module(func.func(llvm-request-c-wrappers),\
    one-shot-bufferize{bufferize-function-boundaries=1 function-boundary-type-conversion=identity-layout-map allow-return-allocs-from-loops=1},\
    func.func(convert-linalg-to-loops),expand-strided-metadata,lower-affine,\
    arith-expand{include-bf16=1},math-expand-ops{ops=rsqrt,roundeven,round},func.func(math-uplift-to-fma),\
    convert-scf-to-cf,convert-math-to-llvm,convert-math-to-libm,convert-complex-to-llvm,\
    finalize-memref-to-llvm,convert-func-to-llvm,convert-arith-to-llvm,convert-index-to-llvm,\
    convert-cf-to-llvm,reconcile-unrealized-casts)";

/// Has memrefCopy.
const RUNNER: &str = "/usr/lib/llvm-22/lib/libmlir_c_runner_utils.so\0";

/// The legalized module, also through simplify, each step verified.
pub fn level1<'c>(c: &'c Context, p: &Program, func: &str, simplified: bool) -> Module<'c> {
    let mut m = legalize::module(c, "test", "1");
    let plan = super::plan(p, func);
    legalize::entry(&B::new(c, ir::body(&m)), p, func, &plan).unwrap_or_else(|e| panic!("{}", e[0]));
    context::verify(c, &m).unwrap();
    simplify::level1(&m).unwrap();
    if simplified {
        Simplify.run(c, &mut m, Env { spec: None }).unwrap();
        context::verify(c, &m).unwrap();
        simplify::level1(&m).unwrap();
    }
    let text = context::print(&m);
    assert_eq!(context::print(&context::parse(c, &text).unwrap()), text);
    m
}

/// Results of `func` for these arguments.
pub fn run(p: &Program, func: &str, args: &[Tensor], simplified: bool) -> Vec<Tensor> {
    let c = context::context();
    let mut m = level1(&c, p, func, simplified);
    ExpandSpecial.run(&c, &mut m, Env { spec: None }).unwrap();
    context::verify(&c, &m).unwrap();
    simplify::level1(&m).unwrap();
    for op in ir::walk(ir::module_op(&m)) {
        for name in ["zml.model", "zml.op", "arg_attrs", "res_attrs"] {
            rewrite::remove_attr(op, name);
        }
        if ir::name(op) == "zml.dynamic_update_slice" {
            insert_slice(&c, op);
        }
    }
    context::run_pipeline(&c, &mut m, PIPELINE).unwrap();
    let engine = ExecutionEngine::new(&m, 0, &[RUNNER], false, false);
    let f = p.func(func).unwrap();
    let mut buffers: Vec<Vec<u64>> = args.iter().map(|t| aligned(&t.bytes)).collect();
    let shape = |t: &zmlc_import::tree::TensorType| {
        let mut s: Vec<i64> = t.dims.iter().map(|d| d.unwrap() as i64).collect();
        if t.dtype.is_complex() {
            s.push(2);
        }
        s
    };
    // Memref descriptors: allocated, aligned, offset, sizes, strides.
    let mut descriptors: Vec<Vec<i64>> = f
        .body
        .args
        .iter()
        .zip(&mut buffers)
        .map(|(a, data)| {
            let s = shape(f.tensor(*a));
            let at = data.as_mut_ptr() as i64;
            let strides: Vec<i64> = (0..s.len()).map(|i| s[i + 1..].iter().product()).collect();
            [at, at, 0].into_iter().chain(s).chain(strides).collect()
        })
        .collect();
    let ranks: Vec<usize> = f.result_types.iter().map(|t| shape(t.tensor()).len()).collect();
    let mut results: Vec<i64> = vec![0; ranks.iter().map(|r| 3 + 2 * r).sum()];
    let mut pointers: Vec<*mut i64> = vec![results.as_mut_ptr()];
    pointers.extend(descriptors.iter_mut().map(Vec::as_mut_ptr));
    let mut packed: Vec<*mut ()> = pointers.iter_mut().map(|p| std::ptr::from_mut(p).cast()).collect();
    // Sound: descriptors match the function's signature, and the buffers outlive the call.
    unsafe { engine.invoke_packed(func, &mut packed).unwrap() };
    let mut at = 0;
    f.result_types
        .iter()
        .zip(ranks)
        .map(|(t, rank)| {
            let t = t.tensor();
            let (data, offset, rest) = (results[at + 1], results[at + 2], &results[at + 3..at + 3 + 2 * rank]);
            at += 3 + 2 * rank;
            let (sizes, strides) = rest.split_at(rank);
            let part = t.dtype.real().bytes();
            let n: i64 = sizes.iter().product();
            let mut bytes = vec![];
            for i in 0..n {
                let (mut left, mut place) = (i, offset);
                for d in (0..rank).rev() {
                    place += left % sizes[d] * strides[d];
                    left /= sizes[d];
                }
                // Sound: within the result's own sizes and strides.
                let from = unsafe { (data as *const u8).add(place as usize * part) };
                bytes.extend(unsafe { std::slice::from_raw_parts(from, part) });
            }
            if t.dtype == DType::I1 {
                bytes.iter_mut().for_each(|b| *b &= 1);
            }
            Tensor::new(t.dtype, &t.shape().unwrap(), bytes).unwrap()
        })
        .collect()
}
fn aligned(bytes: &[u8]) -> Vec<u64> {
    let mut words: Vec<u64> = bytes
        .chunks(8)
        .map(|c| {
            let mut w = [0; 8];
            w[..c.len()].copy_from_slice(c);
            u64::from_ne_bytes(w)
        })
        .collect();
    words.push(0);
    words
}
/// The op in tensor's terms, which upstream can lower.
fn insert_slice<'c>(c: &'c Context, op: O<'c>) {
    let b = B::before(c, op);
    let (operand, update) = (ir::operand(op, 0), ir::operand(op, 1));
    let (whole, part) = (ir::shape(operand.r#type()), ir::shape(update.r#type()));
    let unsigned = ir::has_attr(op, "unsigned_starts");
    let starts = (0..whole.len()).map(|i| {
        let s = b.extract(ir::operand(op, 2 + i), &[]);
        let s = b.op1(if unsigned { "arith.index_castui" } else { "arith.index_cast" }, &[s], b.index(), &[]);
        let limit = b.cidx(whole[i] - part[i]);
        if unsigned {
            b.same("arith.minui", &[s, limit])
        } else {
            b.same("arith.minsi", &[b.same("arith.maxsi", &[s, b.cidx(0)]), limit])
        }
    });
    let mut operands: Vec<V> = vec![update, operand];
    operands.extend(starts);
    let attrs = [
        ("static_offsets", b.i64s(&vec![i64::MIN; whole.len()])),
        ("static_sizes", b.i64s(&part)),
        ("static_strides", b.i64s(&vec![1; whole.len()])),
        ("operandSegmentSizes", b.i32s(&[1, 1, whole.len() as i32, 0, 0])),
    ];
    let new = b.op1("tensor.insert_slice", &operands, operand.r#type(), &attrs);
    rewrite::replace_uses(ir::result(op, 0), new);
    rewrite::erase(op);
}
