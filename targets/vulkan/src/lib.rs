//! SPIR-V for Vulkan: kernels as compute shaders, one module and one entry point each. Buffers are storage buffers of
//! set 0, scalars a push-constant block.
//!
//! Device profiles are `specs/*.toml`. A profile's `requires.features` is what its kernels may use; an artifact
//! requires of them what its kernels do use.

pub mod binary;
mod loops;
mod lower;
mod serialize;
pub mod validate;
mod values;

use binary::capabilities;
pub use lower::LowerToSpirv;
pub use values::SpirvValues;

use melior::{Context, ir::Module};
use std::collections::{BTreeMap, BTreeSet};
use zml_format::Requires;
use zmlc_passes::{
    pass::{Pass, PassError},
    spec::DeviceSpec,
    target::{Binary, Target},
};

pub struct Vulkan;

/// The best first: those for one maker's devices, then the portable one.
const SPECS: [&str; 2] = [include_str!("../specs/vulkan1.3-nvidia.toml"), include_str!("../specs/vulkan1.3.toml")];

impl Target for Vulkan {
    fn name(&self) -> &'static str {
        "vulkan"
    }
    fn specs(&self) -> Vec<DeviceSpec> {
        SPECS.iter().map(|text| DeviceSpec::parse(text).expect("a test reads every profile")).collect()
    }
    fn defaults(&self) -> &'static [&'static str] {
        &["vulkan1.3-nvidia", "vulkan1.3"]
    }
    fn passes(&self) -> Vec<&'static dyn Pass> {
        vec![&SpirvValues, &LowerToSpirv]
    }
    fn serialize<'c>(
        &self,
        context: &'c Context,
        module: &Module<'c>,
        spec: &DeviceSpec,
    ) -> Result<Vec<Binary>, PassError> {
        serialize::serialize(context, module, spec)
    }
    /// The profile's limits, and of the features, float controls and subgroup operations that it offers to kernels those
    /// that they use.
    fn requires(&self, spec: &DeviceSpec, binaries: &[Binary]) -> Requires {
        let modules: Vec<_> = binaries.iter().filter_map(|b| binary::load(&b.bytes).ok()).collect();
        let used: BTreeSet<&str> = modules.iter().flat_map(capabilities::features).collect();
        let features = spec.requires.features.iter().filter(|f| used.contains(f.as_str())).cloned().collect();
        let mut properties = BTreeMap::new();
        for (name, value) in modules.iter().flat_map(capabilities::properties) {
            *properties.entry(name).or_insert(0) |= value;
        }
        let limit = |(name, least): &(String, u64)| {
            let least = if capabilities::is_offer(name) { *properties.get(name.as_str())? } else { *least };
            Some((name.clone(), least))
        };
        Requires { features, limits: spec.requires.limits.iter().filter_map(limit).collect(), ..spec.requires.clone() }
    }
    fn disassemble(&self, bytes: &[u8], _spec: &DeviceSpec) -> Result<String, PassError> {
        binary::text(bytes)
    }
}

/// The Vulkan features and extensions, by the specification's names, that a SPIR-V module needs; none if it does not load.
pub fn required_features(spirv: &[u8]) -> Vec<&'static str> {
    binary::load(spirv).map(|m| capabilities::features(&m).into_iter().collect()).unwrap_or_default()
}
