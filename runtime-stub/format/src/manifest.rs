//! What an artifact says of itself: the manifest, as JSON in the file. Every index is into the `Vec` that its doc names.
//! Shapes are in elements, sizes and offsets in bytes, row-major, no padding.

use crate::DType;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// `zmlc 0.1.0`: who wrote this.
    pub producer: String,
    pub model: Model,
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
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }
    pub fn bytes(&self) -> u64 {
        self.elements() * self.dtype.bytes() as u64
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

/// A function of the model that can be called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub name: String,
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
    pub kernels: Vec<Kernel>,
    /// One for each of `Manifest::entries`, in that order.
    pub programs: Vec<Program>,
}
/// What a device must offer. Fields that a target has no use for are empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requires {
    /// Vulkan: least API version, `1.3`. CUDA: least driver version as `cuDriverGetVersion` counts, `12080`.
    pub api: String,
    /// CUDA: `sm_90a` (that chip alone), `sm_80+` (that and newer: PTX). ROCm: `gfx942`. Vulkan: empty.
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
    /// How each buffer is accessed: binding number (Vulkan, set 0) or argument position (CUDA, HIP).
    pub buffers: Vec<Access>,
    /// Bytes of scalars: push constants (Vulkan), or arguments of 4 bytes each after the buffers (CUDA, HIP).
    pub scalar_bytes: u32,
    /// The source ops of the kernel, for traces: `dot_general_add_maximum`.
    pub label: String,
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
    /// Writes one byte value everywhere.
    Fill {
        to: Slice,
        byte: u8,
    },
    /// Runs `condition`, reads the predicate byte back, and while it is 1 runs `body` and starts over.
    While {
        condition: Vec<Step>,
        predicate: Slice,
        body: Vec<Step>,
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

impl Manifest {
    /// Every index in range and every slice within its buffer, so that nothing later has to ask again.
    pub fn check(&self) -> Result<(), String> {
        let blob = |i: usize| if i < self.blobs.len() { Ok(()) } else { Err(format!("blob {i} does not exist")) };
        for w in &self.weights {
            if let WeightSource::Embedded { blob: b } = w.source {
                blob(b)?;
                if self.blobs[b].bytes != w.tensor.bytes() {
                    return Err(format!("weight `{}` has {} bytes", w.tensor.name, self.blobs[b].bytes));
                }
            }
        }
        for e in &self.entries {
            for a in &e.arguments {
                match a {
                    Argument::Weight { weight } if *weight >= self.weights.len() => {
                        return Err(format!("weight {weight} does not exist"));
                    }
                    Argument::State { state } if *state >= self.state.len() => {
                        return Err(format!("state {state} does not exist"));
                    }
                    _ => {}
                }
            }
            if let Some(s) = e.results.iter().filter_map(|r| r.state).find(|s| *s >= self.state.len()) {
                return Err(format!("state {s} does not exist"));
            }
        }
        for p in &self.profiles {
            let at = format!("profile {}:{}", p.target, p.name);
            for k in &p.kernels {
                blob(k.blob).map_err(|e| format!("{at}: {e}"))?;
            }
            if p.programs.len() != self.entries.len() {
                return Err(format!("{at}: {} programs for {} entries", p.programs.len(), self.entries.len()));
            }
            for (program, entry) in p.programs.iter().zip(&self.entries) {
                program.check(entry, self, &p.kernels).map_err(|e| format!("{at}, entry {}: {e}", entry.name))?;
            }
        }
        Ok(())
    }
    /// Name, element type and shape of an argument, whatever supplies it.
    pub fn argument<'a>(&'a self, a: &'a Argument) -> &'a Tensor {
        match a {
            Argument::Input { tensor, .. } => tensor,
            Argument::Weight { weight } => &self.weights[*weight].tensor,
            Argument::State { state } => &self.state[*state].tensor,
        }
    }
}

impl Program {
    fn check(&self, entry: &Entry, m: &Manifest, kernels: &[Kernel]) -> Result<(), String> {
        for (i, b) in self.buffers.iter().enumerate() {
            let limit = match b.kind {
                BufferKind::Argument(a) => entry.arguments.get(a).map(|a| m.argument(a).bytes()),
                BufferKind::Result(r) => entry.results.get(r).map(|r| r.tensor.bytes()),
                BufferKind::Constant(c) => m.blobs.get(c).map(|b| b.bytes),
                BufferKind::Arena(offset) => self.arena_bytes.checked_sub(offset),
            };
            if limit.is_none_or(|l| b.bytes > l) {
                return Err(format!("buffer {i} is larger than what holds it"));
            }
        }
        if self.results.len() != entry.results.len() {
            return Err(format!("{} results for {}", self.results.len(), entry.results.len()));
        }
        if let Some(r) = self.results.iter().find(|r| **r >= self.buffers.len()) {
            return Err(format!("buffer {r} does not exist"));
        }
        self.check_steps(&self.steps, kernels)
    }
    fn check_steps(&self, steps: &[Step], kernels: &[Kernel]) -> Result<(), String> {
        let slice = |s: &Slice| match self.buffers.get(s.buffer) {
            Some(b) if s.offset.checked_add(s.bytes).is_some_and(|e| e <= b.bytes) => Ok(()),
            Some(_) => Err(format!("slice out of buffer {}", s.buffer)),
            None => Err(format!("buffer {} does not exist", s.buffer)),
        };
        for s in steps {
            match s {
                Step::Dispatch(d) => {
                    let k = kernels.get(d.kernel).ok_or_else(|| format!("kernel {} does not exist", d.kernel))?;
                    if k.buffers.len() != d.buffers.len() || k.scalar_bytes as usize != 4 * d.scalars.len() {
                        return Err(format!("dispatch of {} has other arguments than the kernel", k.symbol));
                    }
                    d.buffers.iter().try_for_each(slice)?;
                }
                Step::Barrier => {}
                Step::Copy { from, to } => {
                    slice(from)?;
                    slice(to)?;
                    if from.bytes != to.bytes {
                        return Err("copy between different sizes".into());
                    }
                }
                Step::Fill { to, .. } => slice(to)?,
                Step::While { condition, predicate, body } => {
                    slice(predicate)?;
                    self.check_steps(condition, kernels)?;
                    self.check_steps(body, kernels)?;
                }
                Step::If { predicate, then, otherwise } => {
                    slice(predicate)?;
                    self.check_steps(then, kernels)?;
                    self.check_steps(otherwise, kernels)?;
                }
                Step::Case { index, branches } => {
                    slice(index)?;
                    branches.iter().try_for_each(|b| self.check_steps(b, kernels))?;
                }
            }
        }
        Ok(())
    }
}
