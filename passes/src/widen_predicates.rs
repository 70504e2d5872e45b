//! widen-predicates: a predicate in memory is one byte, 0 or 1.
//!
//! An `i1` in memory means a byte to a scalar access and a *bit* to a vector access, on every target, and nothing warns
//! of it. So each `i1` memory access, scalar or vector, becomes an `i8` one; vectors of `i1` live only as values. A byte
//! other than 0 counts as true when it is read.
//!
//! ```text
//! %v = vector.load %a[%i] : memref<64xi1>, vector<8xi1>
//! ```
//! becomes
//! ```text
//! %b = vector.load %a[%i] : memref<64xi8>, vector<8xi8>
//! %v = arith.cmpi ne, %b, %zero : vector<8xi8>
//! ```
//!
//! Must not touch anything but kernels, and must not guess: an op that holds predicates in memory and has no rule here is
//! an error.
//!
//! Invariants, in every `gpu.module`:
//! 1. no argument of a function or block is a memref of `i1` or of vectors of `i1`;
//! 2. no function type names one;
//! 3. no op makes one (workgroup and private memory, allocations, casts, views).

use crate::{
    ir::{B, O, TypeLike, V, ValueLike, args, body, elem, name, operands, ops, read, results, rewrite, walk},
    pass::{Env, Pass, PassError},
};
use melior::{
    Context,
    ir::{
        Attribute, Module, Type,
        attribute::TypeAttribute,
        r#type::{FunctionType, IntegerType},
    },
};

pub struct WidenPredicates;

impl Pass for WidenPredicates {
    fn name(&self) -> &'static str {
        "widen-predicates"
    }
    fn about(&self) -> &'static str {
        "every i1 memory access becomes an i8 one: a predicate is one byte"
    }
    fn run<'c>(&self, context: &'c Context, module: &mut Module<'c>, _env: Env) -> Result<(), PassError> {
        for g in kernels(module) {
            for op in walk(g) {
                if name(op) == "gpu.func" {
                    widen_signature(context, op);
                }
                widen(context, op)?;
            }
        }
        Ok(())
    }
    fn verify<'c>(&self, _context: &'c Context, module: &Module<'c>, _env: Env) -> Result<(), PassError> {
        for g in kernels(module) {
            for op in walk(g) {
                let found =
                    results(op).iter().chain(&block_args(op)).map(ValueLike::r#type).find(|t| holds_predicates(*t));
                let found = found.or_else(|| signature(op).into_iter().find(|t| holds_predicates(*t)));
                if let Some(t) = found {
                    let symbol = read::str_attr(g, "sym_name").unwrap_or_default();
                    return Err(PassError::Bug(format!(
                        "kernel {symbol}: `{}` has predicates in memory, `{t}`: a vector access to it would be bits",
                        name(op)
                    )));
                }
            }
        }
        Ok(())
    }
}

fn kernels<'c>(module: &Module<'c>) -> Vec<O<'c>> {
    ops(body(module)).into_iter().filter(|op| name(*op) == "gpu.module").collect()
}
fn block_args<'c>(op: O<'c>) -> Vec<V<'c>> {
    read::blocks(op).into_iter().flat_map(args).collect()
}
/// The types in a function's signature; none for another op.
fn signature<'c>(op: O<'c>) -> Vec<Type<'c>> {
    function_type(op).map_or_else(Vec::new, |t| (0..t.input_count()).filter_map(|i| t.input(i).ok()).collect())
}
fn function_type<'c>(op: O<'c>) -> Option<FunctionType<'c>> {
    let a: Attribute<'c> = read::attr(op, "function_type")?;
    let a: TypeAttribute<'c> = a.try_into().ok()?;
    a.value().try_into().ok()
}

/// A memref of `i1`, or of vectors of `i1`.
fn holds_predicates(t: Type) -> bool {
    t.is_mem_ref() && read::is_i1(elem(elem(t)))
}
/// The same type with `i8` for `i1`, and anything else as it is.
fn bytes<'c>(c: &'c Context, t: Type<'c>) -> Type<'c> {
    if read::is_i1(t) {
        IntegerType::new(c, 8).into()
    } else if t.is_mem_ref() || read::vector_len(t).is_some() {
        read::with_elem(t, bytes(c, elem(t)))
    } else {
        t
    }
}

fn widen_signature<'c>(c: &'c Context, f: O<'c>) {
    let Some(t) = function_type(f) else { return };
    let inputs: Vec<Type> =
        signature(f).into_iter().map(|t| if holds_predicates(t) { bytes(c, t) } else { t }).collect();
    let outputs: Vec<Type> = (0..t.result_count()).filter_map(|i| t.result(i).ok()).collect();
    let widened: Type = FunctionType::new(c, &inputs, &outputs).into();
    rewrite::set_attr(f, "function_type", TypeAttribute::new(widened).into());
    for a in block_args(f) {
        if holds_predicates(a.r#type()) {
            a.set_type(bytes(c, a.r#type()));
        }
    }
}

fn widen<'c>(c: &'c Context, op: O<'c>) -> Result<(), PassError> {
    match name(op) {
        "memref.load" | "vector.load" => {
            let y = read::result(op, 0);
            if read::is_i1(elem(y.r#type())) {
                y.set_type(bytes(c, y.r#type()));
                let b = B::after(c, op);
                let zero = zero(&b, y.r#type());
                let wide = b.cmpi("ne", y, zero);
                rewrite::replace_uses(y, wide);
                rewrite::set_operand(read::def(wide).expect("an op made it"), 0, y);
            }
        }
        "memref.store" | "vector.store" => {
            let x = read::operand(op, 0);
            if read::is_i1(elem(x.r#type())) {
                let b = B::before(c, op);
                rewrite::set_operand(op, 0, b.op1("arith.extui", &[x], bytes(c, x.r#type()), &[]));
            }
        }
        "memref.alloca"
        | "memref.alloc"
        | "memref.cast"
        | "memref.memory_space_cast"
        | "memref.subview"
        | "memref.reinterpret_cast"
        | "memref.expand_shape"
        | "memref.collapse_shape" => {
            let y = read::result(op, 0);
            if holds_predicates(y.r#type()) {
                y.set_type(bytes(c, y.r#type()));
            }
        }
        // Factors are copied so, and no predicate is one.
        "zml.copy_async" if !holds_predicates(read::operand(op, 0).r#type()) => {}
        "memref.dim" | "memref.dealloc" | "gpu.func" => {}
        other => {
            // Operands that were memrefs of i1 are of i8 by now, so ask for what still moves predicates through memory.
            let memory = operands(op).iter().chain(&results(op)).any(|v| v.r#type().is_mem_ref());
            let predicates = results(op).iter().chain(&operands(op)).any(|v| read::is_i1(elem(elem(v.r#type()))));
            if memory && predicates {
                return Err(PassError::Bug(format!(
                    "`{other}` moves predicates through memory, and there is no rule for it"
                )));
            }
        }
    }
    Ok(())
}
fn zero<'c>(b: &B<'c>, t: Type<'c>) -> V<'c> {
    match read::vector_len(t) {
        Some(_) => b.constant(b.attr(&format!("dense<0> : {t}")), t),
        None => b.cint(t, 0),
    }
}
