//! What the runtime asks of a device, whatever API reaches it: one trait, and behind it one folder for each API.
//!
//! A driver knows programs, kernels and regions of memory. It must not know entries, weights, states or files: those
//! are the session's and the model's.

pub(crate) mod control;
mod cuda;
mod hip;
pub(crate) mod slab;
mod stream;
mod vulkan;

use crate::{
    cache::Cache,
    counters::Tally,
    device::{Backend, DeviceInfo},
    error::Result,
    spans::Spans,
    timing::StepTime,
};
use std::{path::PathBuf, sync::Arc, time::Instant};
use zml_format::{Artifact, Profile, Requires, Slice, Step};

/// Every region starts at a multiple of this, which every device accepts as the offset of a binding.
pub(crate) const ALIGN: u64 = 256;

/// An allocation on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Memory(pub usize);

/// Kernels of one profile, loaded on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelSet(pub usize);

/// Bytes of an allocation. Without bytes it has no memory either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Region {
    pub memory: Option<Memory>,
    pub offset: u64,
    pub bytes: u64,
}
impl Region {
    pub const EMPTY: Region = Region { memory: None, offset: 0, bytes: 0 };

    pub fn part(self, offset: u64, bytes: u64) -> Region {
        debug_assert!(offset + bytes <= self.bytes);
        if bytes == 0 { Region::EMPTY } else { Region { memory: self.memory, offset: self.offset + offset, bytes } }
    }
}

/// A program with everything that its indices mean on a device.
pub(crate) struct Job<'a> {
    pub kernels: KernelSet,
    pub profile: &'a Profile,
    /// The program's and what the session adds.
    pub steps: &'a [Step],
    /// What the steps' buffer numbers mean.
    pub buffers: &'a [Region],
    /// What the host writes before a call.
    pub inputs: &'a [Region],
    /// What the host reads after a call.
    pub outputs: &'a [Region],
    pub tally: &'a Arc<Tally>,
    /// Whether the device's clock is read around each step.
    pub timed: bool,
}
impl Job<'_> {
    pub fn region(&self, s: &Slice) -> Region {
        self.buffers[s.buffer].part(s.offset, s.bytes)
    }
}

/// One opened device.
pub(crate) trait Driver: Send + Sync {
    /// `bytes` is not 0. Contents are undefined. `what` is for the error.
    fn allocate(&self, bytes: u64, what: &str) -> Result<Memory>;
    /// Once for each allocation, when nothing that runs uses it.
    fn free(&self, memory: Memory);
    /// Returns when `bytes` may be reused. `to.bytes` equals their number.
    fn upload(&self, to: Region, bytes: &[u8]) -> Result<()>;
    /// Memory of `bytes` bytes for a thread that uploads much.
    fn lane(self: Arc<Self>, bytes: usize) -> Result<Box<dyn Lane>>;
    /// Zeros in all of them.
    fn clear(&self, regions: &[Region]) -> Result<()>;
    /// May go on after it returns, and looks first for what was kept of an earlier run.
    fn load(self: Arc<Self>, profile: &Profile, artifact: &Artifact, cache: &Arc<Cache>) -> Result<KernelSet>;
    fn unload(&self, kernels: KernelSet);
    /// Prepares everything that calls share. The executable must go before its regions and kernels do.
    fn build(self: Arc<Self>, job: &Job) -> Result<Box<dyn Executable>>;
}

/// Host memory that a device copies from while its thread goes on. What is dropped has arrived or never will.
pub(crate) trait Lane: Send {
    /// All of it. What was sent must not be written to before it was waited for.
    fn memory(&mut self) -> &mut [u8];
    /// Copies `to.bytes` bytes of the memory, from `at` on.
    fn send(&mut self, at: usize, to: Region) -> Result<()>;
    /// Nothing more is sent before the next `wait`.
    fn flush(&mut self) -> Result<()>;
    /// Returns when all that was flushed has arrived.
    fn wait(&mut self) -> Result<()>;
}

/// A program ready to run, with host memory for what goes in and comes out.
pub(crate) trait Executable: Send {
    /// Sets input `i` for the next and all later runs. `bytes` has the region's size.
    fn write(&mut self, i: usize, bytes: &[u8]);
    /// Runs `times` times, without waiting in between where the host has nothing to decide, and waits for the end.
    /// Allocates nothing. After an error the device may still be at it.
    fn run(&mut self, times: u32, deadline: Option<Instant>) -> Result<()>;
    /// Output `i` of the last run.
    fn read(&self, i: usize) -> &[u8];
    /// Of all runs since it was built; nothing if the job was not timed.
    fn times(&self) -> &[StepTime];
}

/// The devices that one API reaches.
pub(crate) trait Platform {
    fn devices(&self) -> &[DeviceInfo];
    /// What `devices()[i]` lacks for a profile, in words; nothing if it satisfies it.
    fn unmet(&self, i: usize, requires: &Requires) -> Vec<String>;
    fn open(&self, i: usize, requires: &Requires) -> Result<Arc<dyn Driver>>;
}

/// Why an API reaches no device.
#[derive(Clone, Debug)]
pub(crate) struct Unavailable {
    pub cause: String,
    pub remedy: String,
}

/// For each backend whose profiles call a vendor's library: where it is in the package, or why it does not serve.
pub(crate) fn libraries(profiles: &[Profile]) -> Vec<(Backend, Result<PathBuf, Unavailable>)> {
    let calls = |p: &&Profile| p.programs.iter().any(|p| zml_format::calls_library(&p.steps));
    let targets: Vec<&str> = profiles.iter().filter(calls).map(|p| p.target.as_str()).collect();
    let found = |b: &Backend| match b {
        Backend::Vulkan => None,
        Backend::Cuda => Some((*b, stream::locate(stream::api::Flavor::Cuda))),
        Backend::Rocm => Some((*b, stream::locate(stream::api::Flavor::Hip))),
    };
    Backend::ALL.iter().filter(|b| targets.contains(&b.name())).filter_map(found).collect()
}

/// Opens the API's library and lists its devices.
pub(crate) fn platform(backend: Backend, spans: &Spans) -> Result<Box<dyn Platform>, Unavailable> {
    match backend {
        Backend::Vulkan => Ok(Box::new(vulkan::Vulkan::open(spans)?)),
        Backend::Cuda => Ok(Box::new(cuda::Cuda::open(spans)?)),
        Backend::Rocm => Ok(Box::new(hip::Hip::open(spans)?)),
    }
}
