//! lower-to-nvvm: every kernel in the llvm and nvvm dialects, its `gpu.module` with the `#nvvm.target` to serialize for.
//!
//! Options of the profile: `chip` ("sm_90a"), `features` ("+ptx80": the PTX version, which decides the oldest driver).
//!
//! Invariant, checked by `verify`: nothing but llvm and nvvm ops in a `gpu.module`.

use melior::{Context, ir::Module};
use zmlc_passes::{
    context::run_pipeline,
    ir::{B, block, int_attr, name, ops, rewrite, walk},
    llvm,
    pass::{Env, Pass, PassError},
};

pub struct LowerToNvvm;

impl Pass for LowerToNvvm {
    fn name(&self) -> &'static str {
        "lower-to-nvvm"
    }
    fn about(&self) -> &'static str {
        "kernels to the llvm and nvvm dialects"
    }
    fn run<'c>(&self, context: &'c Context, module: &mut Module<'c>, env: Env) -> Result<(), PassError> {
        let spec = env.spec();
        let option = |key| {
            let found = spec.options.get(key).map(String::as_str);
            found.ok_or_else(|| PassError::Bug(format!("profile {} has no option `{key}`", spec.name)))
        };
        let (chip, features) = (option("chip")?, option("features")?);
        wait_for_earlier_grids(context, module);
        crate::matrix::lower(context, module);
        crate::numbers::lower(context, module);
        llvm::prepare_kernels(context, module, spec.subgroup);
        let pipeline = format!(
            "builtin.module(nvvm-attach-target{{chip={chip} features={features} O=3}},gpu.module(canonicalize,cse,\
             convert-scf-to-cf,convert-gpu-to-nvvm{{use-bare-ptr-memref-call-conv=1}},reconcile-unrealized-casts,canonicalize))"
        );
        run_pipeline(context, module, &pipeline)?;
        llvm::align_workgroup_memory(context, module);
        for f in llvm::gpu_modules(module).into_iter().flat_map(|g| ops(block(g, 0))) {
            if let Some(n) = int_attr(f, "zml.resident") {
                let b = B::before(context, f);
                rewrite::set_attr(f, "nvvm.minctasm", b.attr(&format!("{n} : i32")));
            }
        }
        crate::shared::place(context, module)
    }
    fn verify<'c>(&self, _context: &'c Context, module: &Module<'c>, _env: Env) -> Result<(), PassError> {
        llvm::only_dialects(module, &["llvm", "nvvm"])
    }
}

/// `zml.await` as grid dependency control: wait for earlier grids, then let later ones start.
fn wait_for_earlier_grids<'c>(context: &'c Context, module: &Module<'c>) {
    for op in llvm::gpu_modules(module).into_iter().flat_map(walk).filter(|op| name(*op) == "zml.await") {
        let b = B::before(context, op);
        for action in ["wait", "launch_dependents"] {
            let kind = b.attr(&format!("#nvvm<grid_dep_action {action}>"));
            b.op("nvvm.griddepcontrol", &[], &[], &[("kind", kind)], vec![]);
        }
        rewrite::erase(op);
    }
}
