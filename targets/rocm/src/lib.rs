//! ROCm: kernels to an AMDGPU code object (HSACO), with nothing of ROCm installed.
//!
//! All kernels of a profile are one code object, so [`Binary::bytes`](zmlc_passes::target::Binary) is the same for each
//! and is stored once.

mod bytes;
pub mod code_object;
mod codegen;
mod disassemble;
mod exchange;
mod inspect;
mod link;
mod lower;
mod matrix;
mod quotient;

pub use link::link;
pub use lower::LowerToRocdl;

use zmlc_passes::{
    llvm,
    pass::{Pass, PassError},
    spec::DeviceSpec,
    target::{Binary, Target},
};

pub struct Rocm;

const SPECS: &[&str] = &[
    include_str!("../specs/gfx942.toml"),
    include_str!("../specs/gfx90a.toml"),
    include_str!("../specs/gfx1100.toml"),
    include_str!("../specs/gfx1201.toml"),
];

/// The relocatable object of all kernels of a lowered module, which [`link`] takes, and the kernels in it; nothing if
/// there is no kernel.
#[allow(clippy::type_complexity)]
pub fn object<'c>(
    context: &'c melior::Context,
    module: &melior::ir::Module<'c>,
    spec: &DeviceSpec,
) -> Result<Option<(Vec<u8>, Vec<llvm::Entry>)>, PassError> {
    let (merged, entries) = llvm::merge(context, module)?;
    let Some(kernels) = llvm::gpu_modules(&merged).into_iter().next() else { return Ok(None) };
    Ok(Some((codegen::object(context, kernels, lower::chip(spec)?, lower::features(spec))?, entries)))
}

impl Target for Rocm {
    fn name(&self) -> &'static str {
        "rocm"
    }
    fn specs(&self) -> Vec<DeviceSpec> {
        SPECS.iter().map(|s| DeviceSpec::parse(s).expect("embedded profiles are valid, a test loads them")).collect()
    }
    fn defaults(&self) -> &'static [&'static str] {
        &["gfx942", "gfx1100"]
    }
    fn passes(&self) -> Vec<&'static dyn Pass> {
        vec![&LowerToRocdl]
    }
    fn serialize<'c>(
        &self,
        context: &'c melior::Context,
        module: &melior::ir::Module<'c>,
        spec: &DeviceSpec,
    ) -> Result<Vec<Binary>, PassError> {
        let Some((object, entries)) = object(context, module, spec)? else { return Ok(vec![]) };
        let bytes = link(&object)?;
        let binary =
            |e: llvm::Entry| Binary { kernel: e.kernel, symbol: e.symbol, bytes: bytes.clone(), shared_bytes: 0 };
        Ok(entries.into_iter().map(binary).collect())
    }
    fn disassemble(&self, bytes: &[u8], spec: &DeviceSpec) -> Result<String, PassError> {
        disassemble::disassemble(bytes, lower::chip(spec)?)
    }
    fn inspect(&self, kernel: &zml_format::Kernel, bytes: &[u8], spec: &DeviceSpec) -> Result<(), String> {
        inspect::inspect(kernel, bytes, spec)
    }
}
