//! What a target crate implements. `passes` calls nothing of a target; the driver strings both together.

use crate::{
    pass::{Pass, PassError},
    spec::DeviceSpec,
};
use melior::{Context, ir::Module};
use zml_format::Requires;

/// One kernel as the target's binary.
#[derive(Clone, Debug, PartialEq)]
pub struct Binary {
    /// Symbol of the `gpu.module` that it came from, which is what `zml.dispatch` names.
    pub kernel: String,
    /// Entry point in `bytes`.
    pub symbol: String,
    pub bytes: Vec<u8>,
    /// Dynamic shared memory in bytes.
    pub shared_bytes: u32,
}

pub trait Target: Sync {
    /// `vulkan`, `cuda`, `rocm`.
    fn name(&self) -> &'static str;
    /// The profiles, the best first. `defaults` says which a bare `--target NAME` builds.
    fn specs(&self) -> Vec<DeviceSpec>;
    fn defaults(&self) -> &'static [&'static str];
    /// The target's own passes after the common ones, ending in the dialect that `serialize` takes.
    fn passes(&self) -> Vec<&'static dyn Pass>;
    /// One binary for each `gpu.module`, in module order.
    fn serialize<'c>(
        &self,
        context: &'c Context,
        module: &Module<'c>,
        spec: &DeviceSpec,
    ) -> Result<Vec<Binary>, PassError>;
    /// What a device must offer to run these binaries: the profile's requirements, and what the code itself needs.
    fn requires(&self, spec: &DeviceSpec, _binaries: &[Binary]) -> Requires {
        spec.requires.clone()
    }
    /// Whether a kernel's binary is what the manifest says of it, as far as that shows without a device.
    fn inspect(&self, _kernel: &zml_format::Kernel, _bytes: &[u8], _spec: &DeviceSpec) -> Result<(), String> {
        Ok(())
    }
    /// Text of a binary, for `inspect-ir`.
    fn disassemble(&self, bytes: &[u8], spec: &DeviceSpec) -> Result<String, PassError>;
}
