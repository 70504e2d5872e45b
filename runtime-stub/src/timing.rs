//! GPU time of each step of a program, for benchmarks.

use zml_format::{Profile, Step};

/// What a step makes the device do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// Index into the profile's kernels.
    Kernel(usize),
    /// A matrix product of a vendor's library.
    Library,
    Copy,
    Fill,
}
impl Work {
    /// The source ops of the kernel, or what else it is.
    pub fn label(self, profile: &Profile) -> &str {
        match self {
            Work::Kernel(k) => &profile.kernels[k].label,
            Work::Library => "library",
            Work::Copy => "copy",
            Work::Fill => "fill",
        }
    }
}

/// What one step of a program took, of all its runs together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepTime {
    pub work: Work,
    /// Read and written in one run: of the buffers that a kernel binds, which may be more than it touches.
    pub bytes: u64,
    pub runs: u64,
    pub nanoseconds: f64,
}
impl StepTime {
    /// None for a step that asks nothing of the device.
    pub(crate) fn of(step: &Step) -> Option<StepTime> {
        let (work, bytes) = match step {
            Step::Dispatch(d) if d.grid.contains(&0) => return None,
            Step::Dispatch(d) => (Work::Kernel(d.kernel), d.buffers.iter().map(|s| s.bytes).sum()),
            Step::Library(g) => (Work::Library, [&g.a, &g.b, &g.to].iter().map(|m| m.slice.bytes).sum()),
            Step::Copy { from, .. } if from.bytes > 0 => (Work::Copy, 2 * from.bytes),
            Step::Fill { to, .. } if to.bytes > 0 => (Work::Fill, to.bytes),
            _ => return None,
        };
        Some(StepTime { work, bytes, runs: 0, nanoseconds: 0.0 })
    }
    pub(crate) fn add(&mut self, nanoseconds: f64) {
        self.runs += 1;
        self.nanoseconds += nanoseconds;
    }
}
