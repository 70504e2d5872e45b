//! CUDA: kernels to PTX text, which the driver compiles when it loads the module, and with NVIDIA's assembler at hand to
//! cubins, which need no compiling.
//!
//! All kernels of a profile are one PTX module, so [`Binary::bytes`](zmlc_passes::target::Binary) is the same for each
//! and is stored once: the driver's compiler works per module, and one load of twenty kernels beats twenty loads.

mod isa;
mod lower;
mod matrix;
mod negate;
mod numbers;
mod ptxas;
mod serialize;
mod shared;

pub use lower::LowerToNvvm;
pub use ptxas::{Ptxas, PtxasError, inspect as inspect_cubin, native};

use zml_format::Requires;
use zmlc_passes::{
    pass::{Pass, PassError},
    spec::DeviceSpec,
    target::{Binary, Target},
};

pub struct Cuda;

/// Best first: the first that a device satisfies is taken.
const SPECS: &[&str] =
    &[include_str!("../specs/sm_90a.toml"), include_str!("../specs/sm_80.toml"), include_str!("../specs/generic.toml")];

impl Target for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }
    fn specs(&self) -> Vec<DeviceSpec> {
        SPECS.iter().map(|s| DeviceSpec::parse(s).expect("embedded profiles are valid, a test loads them")).collect()
    }
    fn defaults(&self) -> &'static [&'static str] {
        &["sm_90a", "generic"]
    }
    fn passes(&self) -> Vec<&'static dyn Pass> {
        vec![&LowerToNvvm]
    }
    fn serialize<'c>(
        &self,
        context: &'c melior::Context,
        module: &melior::ir::Module<'c>,
        _spec: &DeviceSpec,
    ) -> Result<Vec<Binary>, PassError> {
        serialize::serialize(context, module)
    }
    /// The driver version follows from the PTX itself.
    fn requires(&self, spec: &DeviceSpec, binaries: &[Binary]) -> Requires {
        let least = binaries.iter().filter_map(|b| isa::least_cuda(&b.bytes)).max();
        let api = least.map_or_else(|| spec.requires.api.clone(), |l| l.to_string());
        Requires { api, ..spec.requires.clone() }
    }
    fn disassemble(&self, bytes: &[u8], _spec: &DeviceSpec) -> Result<String, PassError> {
        let text = bytes.strip_suffix(&[0]).unwrap_or(bytes);
        let text = String::from_utf8(text.to_vec()).ok().filter(|t| t.contains(".version"));
        text.ok_or_else(|| PassError::Input("not PTX text".into()))
    }
}
