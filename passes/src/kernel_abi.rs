//! kernel-abi: pointer arguments, as CUDA and ROCm take them. For profiles with `abi = "pointers"`.
//!
//! Before: `gpu.func @k(%a: memref<Nxf32> {zml.access = "read"}, %r: memref<Nxf32> {zml.access = "write"}, %n: i32)`.
//! After: each buffer also carries `llvm.noalias`, `llvm.align = 16`, and `llvm.readonly` if it is only read; the
//! conversion to the llvm dialect hands these to LLVM, which is what makes 16-byte loads through the read-only cache.
//! `zml.grid` becomes `known_grid_size` too: with bounds on block ids LLVM computes most indices in 32 bits.
//! The pass ends by recording the kernels for the host ([`kernels::record`]).
//! `noalias` holds because plan gives a result that shares memory with an argument one binding for both. A kernel that
//! may start before earlier ones have ended (`zml.overlaps`) has neither on a buffer that others write.
//!
//! Invariants, checked by `verify`:
//! 1. a kernel's arguments are flat memrefs with `zml.access`, each with the attributes above, then scalars, `i32` or `index`
//! 2. `known_block_size` is there, and within the profile's `max-block`
//! 3. `zml.grid`, if there, is within the profile's `max-grid`
//! 4. workgroup memory is within the profile's `shared-bytes`, or `large-shared-bytes` where it has such
//! 5. every buffer's element type is one that the profile stores
//! 6. every other value's element type is f32, an integer, or one that the profile stores or computes
//!
//! It knows no target: the two that share it differ from here on.

use crate::{
    ir::*,
    kernels,
    pass::{Env, Pass, PassError},
    spec::{Abi, DeviceSpec},
};
use melior::{
    Context,
    ir::{Attribute, Module, Type},
};

/// Bytes to which every buffer of a kernel is aligned: allocations are, and offsets into them are chosen so.
const ALIGN: i64 = 16;

pub struct KernelAbi;

impl Pass for KernelAbi {
    fn name(&self) -> &'static str {
        "kernel-abi"
    }
    fn about(&self) -> &'static str {
        "pointer arguments: aliasing, alignment and access for the llvm dialect"
    }
    fn run<'c>(&self, context: &'c Context, module: &mut Module<'c>, env: Env) -> Result<(), PassError> {
        if env.spec().abi != Abi::Pointers {
            return Err(PassError::Bug("runs for profiles with pointer arguments alone".into()));
        }
        for kernel in gpu_funcs(module) {
            let b = B::new(context, block(kernel, 0));
            let attributes = arguments(kernel)
                .into_iter()
                .map(|(t, given)| if t.is_mem_ref() { buffer(&b, kernel, given) } else { Ok(b.dict(&[])) })
                .collect::<Result<Vec<_>, _>>()?;
            rewrite::set_attr(kernel, "arg_attrs", b.array(&attributes));
            if let Some(grid) = attr(kernel, "zml.grid") {
                rewrite::set_attr(kernel, "known_grid_size", grid);
            }
        }
        kernels::record(&B::new(context, body(module)), module)
    }
    fn verify<'c>(&self, _context: &'c Context, module: &Module<'c>, env: Env) -> Result<(), PassError> {
        gpu_funcs(module).into_iter().try_for_each(|kernel| check(kernel, env.spec()))
    }
}

/// The kernels of every gpu.module, in module order.
fn gpu_funcs<'c>(module: &Module<'c>) -> Vec<O<'c>> {
    ops(body(module))
        .into_iter()
        .filter(|op| name(*op) == "gpu.module")
        .flat_map(|g| ops(block(g, 0)))
        .filter(|f| name(*f) == "gpu.func")
        .collect()
}

/// Type and attribute dictionary of each argument, workgroup attributions not among them.
fn arguments<'c>(kernel: O<'c>) -> Vec<(Type<'c>, Option<Attribute<'c>>)> {
    let all = args(block(kernel, 0));
    let workgroup = int_attr(kernel, "workgroup_attributions").unwrap_or(0) as usize;
    let given = attr(kernel, "arg_attrs").map(array).unwrap_or_default();
    (0..all.len() - workgroup).map(|i| (all[i].r#type(), given.get(i).copied())).collect()
}
fn workgroup_bytes(kernel: O) -> i64 {
    let all = args(block(kernel, 0));
    let workgroup = int_attr(kernel, "workgroup_attributions").unwrap_or(0) as usize;
    all[all.len() - workgroup..].iter().map(|a| elements(a.r#type()) * elem_bytes(a.r#type())).sum()
}
fn access(given: Option<Attribute>) -> Option<String> {
    dict_get(given?, "zml.access").and_then(string)
}

fn buffer<'c>(b: &B<'c>, kernel: O<'c>, given: Option<Attribute<'c>>) -> Result<Attribute<'c>, PassError> {
    let access = access(given).ok_or_else(|| bug(kernel, "a buffer has no zml.access"))?;
    let mut all = vec![("llvm.align", b.i64_attr(ALIGN)), ("zml.access", b.str(&access))];
    let constant = given.is_some_and(|g| dict_get(g, "zml.constant").is_some());
    if constant {
        all.push(("zml.constant", b.unit()));
    }
    // In a kernel that starts early, what is only read may still be written by another.
    let written_by_others = has_attr(kernel, "zml.overlaps") && !constant;
    if written_by_others {
        return Ok(b.dict(&all));
    }
    all.insert(1, ("llvm.noalias", b.unit()));
    match access.as_str() {
        "read" => all.insert(2, ("llvm.readonly", b.unit())),
        "write" | "read_write" => {}
        other => return Err(bug(kernel, &format!("zml.access = \"{other}\""))),
    }
    Ok(b.dict(&all))
}

fn check(kernel: O, spec: &DeviceSpec) -> Result<(), PassError> {
    let mut scalars = false;
    for (i, (t, given)) in arguments(kernel).into_iter().enumerate() {
        if !t.is_mem_ref() {
            scalars = true;
            if int_bits(t) != Some(32) && !is_index(t) {
                return Err(bug(kernel, &format!("scalar argument {i} is {t}, not i32 or index")));
            }
            continue;
        }
        if scalars {
            return Err(bug(kernel, &format!("buffer {i} comes after a scalar")));
        }
        if shape(t).len() != 1 {
            return Err(bug(kernel, &format!("buffer {i} is {t}, which is not flat")));
        }
        let element = elem(t).to_string();
        if !spec.stores(&element) {
            return Err(unsupported(spec, &format!("buffers of {element}")));
        }
        let has = |key| given.is_some_and(|g| dict_get(g, key).is_some());
        let read_only = access(given).as_deref() == Some("read");
        let own = !has_attr(kernel, "zml.overlaps") || has("zml.constant");
        let marked = has("llvm.noalias") == own && has("llvm.readonly") == (read_only && own);
        if !has("zml.access") || !has("llvm.align") || !marked {
            return Err(bug(kernel, &format!("buffer {i} lacks what kernel-abi puts on it")));
        }
    }
    for v in walk(kernel).into_iter().flat_map(results) {
        let element = elem(v.r#type());
        let named = element.to_string();
        if is_float(element) && named != "f32" && !spec.stores(&named) && !spec.computes(&named) {
            return Err(unsupported(spec, &format!("values of {named}")));
        }
    }
    let extents = |key| i32s_attr(kernel, key).filter(|x| x.len() == 3 && x.iter().all(|d| *d > 0));
    let threads = extents("known_block_size").ok_or_else(|| bug(kernel, "known_block_size is not three extents"))?;
    let threads: i64 = threads.iter().map(|d| i64::from(*d)).product();
    if threads > i64::from(spec.max_block) {
        return Err(bug(kernel, &format!("{threads} threads a block, and {} has {}", spec.name, spec.max_block)));
    }
    if let Some(grid) = extents("zml.grid")
        && grid.iter().zip(spec.max_grid).any(|(g, most)| *g as u32 > most)
    {
        return Err(bug(kernel, &format!("a grid of {grid:?}, and {} has {:?}", spec.name, spec.max_grid)));
    }
    let bytes = workgroup_bytes(kernel);
    if bytes > i64::from(spec.most_shared_bytes()) {
        return Err(bug(
            kernel,
            &format!("{bytes} bytes of workgroup memory, and {} has {}", spec.name, spec.most_shared_bytes()),
        ));
    }
    Ok(())
}

fn bug(kernel: O, what: &str) -> PassError {
    PassError::Bug(format!("kernel @{}: {what}", str_attr(kernel, "sym_name").unwrap_or("?")))
}
fn unsupported(spec: &DeviceSpec, what: &str) -> PassError {
    PassError::Unsupported {
        what: format!("{} has no {what}", spec.name),
        hint: format!("it stores {}", spec.storage.iter().cloned().collect::<Vec<_>>().join(", ")),
    }
}
