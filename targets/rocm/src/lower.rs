//! lower-to-rocdl: every kernel in the llvm and rocdl dialects.
//!
//! Buffers move to the global address space first (workgroup memory is in its own already), so that no load or store is
//! a flat one, which would have to find out at run time which memory it means.
//!
//! Options of the profile: `chip` ("gfx942"), `features` (of LLVM, beside those of the chip), and where it has matrices
//! `matrix` ([`crate::matrix`]).
//!
//! Invariants, checked by `verify`: nothing but llvm and rocdl ops in a `gpu.module`; every pointer argument of a kernel
//! is in address space 1.

use melior::{
    Context,
    ir::{Module, Type, TypeLike, ValueLike, r#type::FunctionType},
};
use zmlc_passes::{
    context::run_pipeline,
    ir::{B, O, arg, args, block, elem, has_attr, int_attr, name, ops, rewrite::set_attr, shape},
    kernels::is_wide,
    llvm,
    pass::{Env, Pass, PassError},
    spec::DeviceSpec,
};

pub struct LowerToRocdl;

impl Pass for LowerToRocdl {
    fn name(&self) -> &'static str {
        "lower-to-rocdl"
    }
    fn about(&self) -> &'static str {
        "kernels to the llvm and rocdl dialects"
    }
    fn run<'c>(&self, context: &'c Context, module: &mut Module<'c>, env: Env) -> Result<(), PassError> {
        let spec = env.spec();
        let chip = chip(spec)?;
        crate::matrix::lower(context, module, spec)?;
        crate::exchange::lower(context, module);
        crate::quotient::lower(context, module);
        llvm::prepare_kernels(context, module, spec.subgroup);
        let functions = llvm::gpu_modules(module).into_iter().flat_map(|g| ops(block(g, 0)));
        let functions: Vec<O> = functions.filter(|f| name(*f) == "gpu.func").collect();
        functions.iter().for_each(|f| buffers_to_global(context, *f));
        // AMD's GPUs multiply and divide words.
        let index = if functions.iter().any(|f| is_wide(*f)) { 64 } else { 32 };
        let pipeline = format!(
            "builtin.module(gpu.module(canonicalize,cse,convert-scf-to-cf,convert-gpu-to-rocdl{{chipset={chip} runtime=HIP \
             use-bare-ptr-memref-call-conv=1 index-bitwidth={index}}},reconcile-unrealized-casts,canonicalize))"
        );
        run_pipeline(context, module, &pipeline)?;
        workgroup_memory(context, module);
        Ok(())
    }
    fn verify<'c>(&self, _context: &'c Context, module: &Module<'c>, _env: Env) -> Result<(), PassError> {
        llvm::only_dialects(module, &["llvm", "rocdl"])?;
        for f in llvm::gpu_modules(module).into_iter().flat_map(|g| ops(block(g, 0))) {
            if has_attr(f, "gpu.kernel") && args(block(f, 0)).iter().any(|a| a.r#type().to_string() == "!llvm.ptr") {
                return Err(PassError::Bug(format!("a kernel takes a flat pointer: {f}")));
            }
        }
        Ok(())
    }
}

/// Arrays in workgroup memory begin where their widest accesses may.
fn workgroup_memory<'c>(context: &'c Context, module: &Module<'c>) {
    for g in llvm::gpu_modules(module) {
        for array in ops(block(g, 0)) {
            if name(array) == "llvm.mlir.global" && int_attr(array, "addr_space") == Some(3) {
                set_attr(array, "alignment", B::before(context, array).i64_attr(16));
            }
        }
    }
}

pub fn chip(spec: &DeviceSpec) -> Result<&str, PassError> {
    let found = spec.options.get("chip").map(String::as_str);
    found.ok_or_else(|| PassError::Bug(format!("profile {} has no option `chip`", spec.name)))
}
pub fn features(spec: &DeviceSpec) -> &str {
    spec.options.get("features").map_or("", String::as_str)
}

/// `memref<NxT>` arguments become `memref<NxT, #gpu.address_space<global>>`, in the body and in the function's type.
fn buffers_to_global<'c>(context: &'c Context, kernel: O<'c>) {
    let entry = block(kernel, 0);
    let b = B::new(context, entry);
    let all = args(entry);
    let workgroup = int_attr(kernel, "workgroup_attributions").unwrap_or(0) as usize;
    let types: Vec<Type> = (0..all.len() - workgroup)
        .map(|i| {
            let given = all[i].r#type();
            if !given.is_mem_ref() {
                return given;
            }
            let global = b.ty(&format!("memref<{}x{}, #gpu.address_space<global>>", shape(given)[0], elem(given)));
            arg(entry, i).set_type(global);
            global
        })
        .collect();
    set_attr(kernel, "function_type", b.type_attr(FunctionType::new(context, &types, &[]).into()));
}
