//! What a pass may know of a device: numbers and capabilities from a data file, never a name to branch on.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use zml_format::Requires;

/// A device profile, `targets/<target>/specs/<name>.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DeviceSpec {
    /// `vulkan1.3`, `sm_90a`, `gfx942`.
    pub name: String,
    /// One line: the devices that it covers.
    pub covers: String,
    pub abi: Abi,
    /// Threads that run in lockstep; 0 if it is not known at build time.
    pub subgroup: u32,
    pub max_block: u32,
    /// Workgroups in x, y, z.
    pub max_grid: [u32; 3],
    /// Bytes of workgroup memory a kernel may use.
    pub shared_bytes: u32,
    /// The same for a kernel that asks for it when it is started; 0 where that is no more.
    #[serde(default)]
    pub large_shared_bytes: u32,
    /// Whether copies from buffers to workgroup memory run beside the threads.
    #[serde(default)]
    pub async_copy: bool,
    /// Products of small matrices that subgroups do as one instruction.
    #[serde(default)]
    pub matrices: Vec<Matrix>,
    /// Buffers that one kernel may bind; 0 for no limit.
    pub max_buffers: u32,
    /// Bytes that one binding may span; 0 for no limit.
    pub max_buffer_bytes: u64,
    /// Kernels may find buffers by address: those that are too large to be bound, or too many.
    #[serde(default)]
    pub addresses: bool,
    /// Bytes of scalars that one dispatch may carry.
    pub max_scalar_bytes: u32,
    /// Widest load or store of one thread in bytes.
    pub vector_bytes: u32,
    /// Workgroups or blocks that fill the device: what a kernel aims for.
    pub parallel_blocks: u32,
    /// Kernels may start before earlier ones have ended, and wait for them themselves.
    #[serde(default)]
    pub overlap: bool,
    /// 2^x in f32 is an instruction, good to 4 ulp where |x| is at most 1/2, whose denormal results are 0.
    #[serde(default)]
    pub exp2_unit: bool,
    /// Element types in arithmetic: `f16`, `f64`, `i64`, `bf16`.
    pub arithmetic: BTreeSet<String>,
    /// Element types in buffers.
    pub storage: BTreeSet<String>,
    /// Whether contractions go to the vendor's matrix library, where it does them.
    #[serde(default)]
    pub library_gemm: bool,
    /// The f8 types whose products that library does on this device, into f32.
    #[serde(default)]
    pub library_f8: BTreeSet<String>,
    /// Options of the target's own lowering; meaning is the target's.
    #[serde(default)]
    pub options: std::collections::BTreeMap<String, String>,
    /// What the runtime must find on the device.
    pub requires: Requires,
}

/// One kind of matrix product.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Matrix {
    /// Element type of both factors: `bf16`, `i8` (signed).
    pub factors: String,
    /// Element type of the sums.
    pub sums: String,
    /// Rows, columns and depth of the product of two fragments.
    pub shape: [i64; 3],
    /// Subgroups that multiply together straight from workgroup memory, 16 rows each; 0 if there is no such thing.
    #[serde(default)]
    pub team: i64,
}

/// How a kernel gets its buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Abi {
    /// Descriptor set 0, binding i; scalars as push constants.
    Descriptors,
    /// Pointer arguments, then scalars.
    Pointers,
}

impl DeviceSpec {
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|e| e.to_string())
    }
    /// Most bytes of workgroup memory that a kernel can have.
    pub fn most_shared_bytes(&self) -> u32 {
        self.shared_bytes.max(self.large_shared_bytes)
    }
    /// Four small workgroups fill a multiprocessor.
    pub fn multiprocessors(&self) -> u32 {
        self.parallel_blocks.div_ceil(4).max(1)
    }
    pub fn computes(&self, dtype: &str) -> bool {
        self.arithmetic.contains(dtype)
    }
    pub fn stores(&self, dtype: &str) -> bool {
        self.storage.contains(dtype)
    }
}
