//! What an artifact says of itself: the manifest, as JSON in the file. Every index is into the `Vec` that its doc names.
//! Shapes are in elements, sizes and offsets in bytes, row-major, no padding.

use crate::{DType, Dim, Sources};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// `zmlc 0.1.0`: who wrote this.
    pub producer: String,
    pub model: Model,
    /// What it was built from. None in files before version 5, and in those that were not built from a model.toml.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<Sources>,
    pub weights: Vec<Weight>,
    pub state: Vec<State>,
    pub entries: Vec<Entry>,
    pub profiles: Vec<Profile>,
    /// Filled by the writer. Blobs follow the manifest in this order, each at a multiple of 64 bytes.
    pub blobs: Vec<BlobInfo>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    pub name: String,
    pub version: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlobInfo {
    /// From the start of the file.
    pub offset: u64,
    pub bytes: u64,
    /// Lower-case hex.
    pub sha256: String,
}

/// Name, element type and shape of something that crosses the boundary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tensor {
    pub name: String,
    pub dtype: DType,
    pub shape: Vec<u64>,
}
impl Tensor {
    /// Saturates; [`Manifest::check`] refuses a tensor that large.
    pub fn elements(&self) -> u64 {
        if self.shape.contains(&0) { 0 } else { self.shape.iter().fold(1, |n, d| n.saturating_mul(*d)) }
    }
    /// Bytes in memory, row-major without padding. Saturates like [`Tensor::elements`].
    pub fn bytes(&self) -> u64 {
        self.elements().saturating_mul(self.dtype.bytes() as u64)
    }
}

/// A constant of the model that the user supplied. One copy on the device serves all entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weight {
    pub tensor: Tensor,
    /// Of the raw bytes, lower-case hex.
    pub sha256: String,
    pub source: WeightSource,
}
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WeightSource {
    /// Index into `Manifest::blobs`.
    Embedded { blob: usize },
    /// `file` is a safetensors file name without folders, looked for beside the artifact; `key` the tensor in it.
    External { file: String, key: String },
}

/// Lives on the device across calls and entries (a KV cache). Starts as zeros.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    pub tensor: Tensor,
}

/// A function of the model that can be called. A program with dynamic dimensions gives several of one name, its
/// specialisations, one for each choice of sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub name: String,
    /// The sizes that this specialisation is for; empty if the program has no dynamic dimensions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dims: Vec<Dim>,
    pub arguments: Vec<Argument>,
    pub results: Vec<EntryResult>,
}
impl Entry {
    /// The arguments that a caller supplies, in order: what `--input INDEX` counts.
    pub fn inputs(&self) -> impl Iterator<Item = (usize, &Tensor)> {
        self.arguments.iter().enumerate().filter_map(|(i, a)| match a {
            Argument::Input { tensor, .. } => Some((i, tensor)),
            _ => None,
        })
    }
    /// The results that a caller gets, in order: what `--output INDEX` counts.
    pub fn outputs(&self) -> impl Iterator<Item = (usize, &Tensor)> {
        self.results.iter().enumerate().filter(|(_, r)| r.state.is_none()).map(|(i, r)| (i, &r.tensor))
    }
}
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Argument {
    /// `donated`: the program may write into its buffer (a result may live there).
    Input { tensor: Tensor, donated: bool },
    /// Index into `Manifest::weights`.
    Weight { weight: usize },
    /// Index into `Manifest::state`.
    State { state: usize },
}
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryResult {
    pub tensor: Tensor,
    /// This result is the next value of `Manifest::state[state]` and is not handed to the caller.
    pub state: Option<usize>,
}

/// Everything for one kind of device. The runtime takes the first profile, in file order, that the device satisfies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// `vulkan`, `cuda`, `rocm`.
    pub target: String,
    /// `vulkan1.3`, `sm_90a`, `gfx942`.
    pub name: String,
    pub requires: Requires,
    /// Machine code for a device that offers more: it is loaded instead of what `kernels` name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
    pub kernels: Vec<Kernel>,
    /// One for each of `Manifest::entries`, in that order.
    pub programs: Vec<Program>,
}
/// The kernels of a profile as machine code, which needs no compiler in the driver: an ELF file, on CUDA a cubin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Native {
    /// What made it: `ptxas 13.0.88`.
    pub producer: String,
    /// What a device must offer beside the profile's own requirements.
    pub requires: Requires,
    /// Index into `Manifest::blobs`, one for each of `Profile::kernels`.
    pub blobs: Vec<usize>,
}
/// What a device must offer. Fields that a target has no use for are empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requires {
    /// The least driver. Vulkan: API version, `1.3`. CUDA: as `cuDriverGetVersion` counts, `12080`. ROCm: version of the
    /// code objects that it must load, `5`; empty in files before version 5.
    pub api: String,
    /// CUDA: `sm_90a` (that chip alone), `sm_80` (that major version, this minor or newer), `sm_80+` (that and newer). ROCm: `gfx942`. Vulkan: empty.
    pub arch: String,
    /// Vulkan: feature names as in the specification, `shaderInt8`, and extension names, `VK_KHR_...`.
    pub features: Vec<String>,
    /// Vulkan: least values of limits by their names in the specification, `maxComputeSharedMemorySize`; for subgroups `subgroupSize` exactly.
    pub limits: Vec<(String, u64)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// Entry point in the module.
    pub symbol: String,
    /// Index into `Manifest::blobs`: SPIR-V words, PTX text or cubin, HSACO. Several kernels may share one.
    pub blob: usize,
    /// Threads of a workgroup.
    pub block: [u32; 3],
    /// Dynamic shared memory; static allocations are in the kernel itself.
    pub shared_bytes: u32,
    /// How each buffer is accessed, by argument position (CUDA, HIP). Vulkan: those not in `addresses` are, in order, the
    /// storage buffers at set 0, bindings 0 and up.
    pub buffers: Vec<Access>,
    /// Vulkan: positions in `buffers`, ascending, of those that the kernel finds by address. The addresses, 8 bytes each in
    /// this order, lie in a storage buffer at the binding after the others'.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<u32>,
    /// Bytes of scalars: push constants (Vulkan), or arguments of 4 bytes each after the buffers (CUDA, HIP).
    pub scalar_bytes: u32,
    /// The source ops of the kernel, for traces: `dot_general_add_maximum`.
    pub label: String,
    /// The kernel itself waits for what was launched before it, so it may start early (CUDA: programmatic dependent
    /// launch).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overlaps: bool,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    Read,
    Write,
    ReadWrite,
}
impl Access {
    pub fn reads(self) -> bool {
        self != Access::Write
    }
    pub fn writes(self) -> bool {
        self != Access::Read
    }
}

/// The host program of one entry: straight-line steps over numbered buffers, one submit a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// One scratch allocation that holds every `BufferKind::Arena`.
    pub arena_bytes: u64,
    pub buffers: Vec<Buffer>,
    /// Index into `buffers` for each of `Entry::results`.
    pub results: Vec<usize>,
    pub steps: Vec<Step>,
}
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    pub kind: BufferKind,
    pub bytes: u64,
}
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum BufferKind {
    /// Index into `Entry::arguments`. Written only if donated or state.
    Argument(usize),
    /// Memory of its own for `Entry::results[i]`.
    Result(usize),
    /// Index into `Manifest::blobs`: uploaded once.
    Constant(usize),
    /// Offset into the arena.
    Arena(u64),
}
/// Bytes of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slice {
    /// Index into `Program::buffers`.
    pub buffer: usize,
    pub offset: u64,
    pub bytes: u64,
}
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    Dispatch(Dispatch),
    /// Everything before is finished and visible to everything after. Needed on Vulkan; a CUDA or HIP stream is in order anyway.
    Barrier,
    Copy {
        from: Slice,
        to: Slice,
    },
    /// A call into a vendor's library that lies in the package.
    Library(Gemm),
    /// Writes one byte value everywhere.
    Fill {
        to: Slice,
        byte: u8,
    },
    /// Runs `condition`, reads the predicate byte back, and while it is 1 runs `body` and starts over. With `turns` runs
    /// `body` so often and nothing else.
    While {
        condition: Vec<Step>,
        predicate: Slice,
        body: Vec<Step>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turns: Option<u64>,
    },
    If {
        predicate: Slice,
        then: Vec<Step>,
        otherwise: Vec<Step>,
    },
    /// `index` is an i32; out of range means the last branch (StableHLO `case`).
    Case {
        index: Slice,
        branches: Vec<Vec<Step>>,
    },
}
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dispatch {
    /// Index into `Profile::kernels`.
    pub kernel: usize,
    /// Workgroups.
    pub grid: [u32; 3],
    /// One for each of `Kernel::buffers`.
    pub buffers: Vec<Slice>,
    /// `Kernel::scalar_bytes / 4` little-endian words.
    pub scalars: Vec<u32>,
}

/// `to[b, m, n] = sum over k of a[b, m, k] * b[b, k, n]`, in the arithmetic of `to`'s element type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gemm {
    pub batch: u64,
    pub m: u64,
    pub n: u64,
    pub k: u64,
    /// f32 factors may be rounded to tf32.
    pub tf32: bool,
    pub a: Matrix,
    pub b: Matrix,
    pub to: Matrix,
    /// Scratch that the call may use.
    pub workspace: Slice,
}
/// A matrix for each batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    pub slice: Slice,
    pub dtype: DType,
    /// In elements: from batch to batch, from row to row, from column to column. One of the last two is 1.
    pub strides: [u64; 3],
}

impl Manifest {
    /// Name, element type and shape of an argument, whatever supplies it.
    pub fn argument<'a>(&'a self, a: &'a Argument) -> &'a Tensor {
        match a {
            Argument::Input { tensor, .. } => tensor,
            Argument::Weight { weight } => &self.weights[*weight].tensor,
            Argument::State { state } => &self.state[*state].tensor,
        }
    }
}
