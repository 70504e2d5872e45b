//! A program on CUDA or HIP: each segment captured once from a stream as a graph, one graph launch a segment and call.
//!
//! The stream keeps order, so barriers are nothing here. Inputs and outputs pass through pinned memory.

use super::{
    Failed, NOT_READY,
    api::{Api, Graph, GraphExec, Launch, Stream},
    device::{Kernels, StreamDevice},
    timer::Timer,
};
use crate::{
    counters::{Counters, Tally},
    drivers::{
        ALIGN, Executable, Job, Region,
        control::{Machine, Node, Plan, walk},
    },
    error::{Error, Result},
    timing::StepTime,
};
use std::{
    ffi::c_void,
    ptr::{NonNull, null_mut},
    slice,
    sync::Arc,
    time::{Duration, Instant},
};
use zml_format::{Dispatch, Step};

pub(super) struct StreamProgram {
    nodes: Vec<Node>,
    work: Work,
}

/// A region and the pinned memory that it is copied from or to.
struct Window {
    at: NonNull<u8>,
    bytes: usize,
    device: u64,
}

struct Work {
    device: Arc<StreamDevice>,
    tally: Arc<Tally>,
    stream: Stream,
    /// Nothing for a segment that asks nothing of the device.
    segments: Vec<(Option<GraphExec>, Counters)>,
    reads: Vec<Window>,
    inputs: Vec<Window>,
    changed: Vec<bool>,
    outputs: Vec<Window>,
    /// What all windows are in, if there are any.
    pinned: Option<NonNull<c_void>>,
    timer: Option<Timer>,
    deadline: Option<Instant>,
}
// Safety: the windows are into pinned memory that lives as long as `Work`, which nobody else holds.
unsafe impl Send for Work {}

/// Calls of other threads do not disturb a capture.
const CAPTURE_THREAD: i32 = 1;
/// A call that is over sooner is waited for without giving up the processor.
const SPIN: Duration = Duration::from_micros(100);

impl StreamProgram {
    pub fn new(device: &Arc<StreamDevice>, job: &Job) -> Result<Self> {
        let plan = Plan::new(job.steps);
        let mut work = Work {
            device: device.clone(),
            tally: job.tally.clone(),
            stream: Stream::NULL,
            segments: vec![],
            reads: vec![],
            inputs: vec![],
            changed: vec![false; job.inputs.len()],
            outputs: vec![],
            pinned: None,
            timer: None,
            deadline: None,
        };
        work.stream = device.new_stream()?;
        if job.timed {
            work.timer = Some(Timer::new(device)?);
        }
        let kernels = device.kernels(job.kernels);
        for steps in &plan.segments {
            if let Some(t) = &mut work.timer {
                t.open(steps)?;
            }
            let captured = work.capture(steps, job, &kernels)?;
            work.segments.push(captured);
        }
        let reads: Vec<Region> = plan.reads.iter().map(|s| job.region(s)).collect();
        let mut windows = work.windows(&[&reads, job.inputs, job.outputs].concat())?;
        work.outputs = windows.split_off(reads.len() + job.inputs.len());
        work.inputs = windows.split_off(reads.len());
        work.reads = windows;
        Ok(StreamProgram { nodes: plan.nodes, work })
    }
}

impl Executable for StreamProgram {
    fn write(&mut self, i: usize, bytes: &[u8]) {
        let w = &self.work.inputs[i];
        assert_eq!(bytes.len(), w.bytes, "the session checks sizes");
        // Safety: the window has as many bytes, and the stream was waited for.
        unsafe { w.at.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        self.work.changed[i] = true;
    }

    fn run(&mut self, times: u32, deadline: Option<Instant>) -> Result<()> {
        let device = self.work.device.clone();
        device.bind()?;
        self.work.deadline = deadline;
        let (api, stream) = (device.api(), self.work.stream);
        for (w, changed) in self.work.inputs.iter().zip(&mut self.work.changed) {
            if std::mem::take(changed) && w.bytes > 0 {
                // Safety: both have as many bytes.
                let done = api.copy_up.with(|f| unsafe { f(w.device, w.at.as_ptr().cast(), w.bytes, stream) });
                done.map_err(|f| device.error(f))?;
            }
        }
        for _ in 0..times {
            walk(&self.nodes, &mut self.work)?;
        }
        for w in &self.work.outputs {
            self.work.fetch(w)?;
        }
        self.work.wait()
    }

    fn read(&self, i: usize) -> &[u8] {
        let w = &self.work.outputs[i];
        // Safety: the window has as many bytes, and nothing writes to it while `self` is borrowed.
        unsafe { slice::from_raw_parts(w.at.as_ptr(), w.bytes) }
    }

    fn times(&self) -> &[StepTime] {
        self.work.timer.as_ref().map_or(&[], |t| &t.steps)
    }
}

impl Machine for Work {
    fn enqueue(&mut self, segment: usize) -> Result<()> {
        let (graph, counts) = self.segments[segment];
        self.tally.add(counts);
        if let Some(graph) = graph {
            // Safety: the graph is this program's, and so is the stream.
            let done = self.device.api().graph_launch.with(|f| unsafe { f(graph, self.stream) });
            done.map_err(|f| self.device.error(f))?;
            self.tally.add(Counters { submits: 1, ..Counters::default() });
            if self.timer.is_some() {
                self.wait()?;
            }
            if let Some(t) = &mut self.timer {
                t.collect(segment).map_err(|f| self.device.error(f))?;
            }
        }
        Ok(())
    }

    fn decide(&mut self, read: usize) -> Result<i32> {
        let w = &self.reads[read];
        self.fetch(w)?;
        self.wait()?;
        self.tally.add(Counters { read_backs: 1, ..Counters::default() });
        // Safety: the window has as many bytes, and the copy that wrote them is done.
        let bytes = unsafe { slice::from_raw_parts(w.at.as_ptr(), w.bytes) };
        Ok(match *bytes {
            [a, b, c, d] => i32::from_le_bytes([a, b, c, d]),
            [predicate, ..] => predicate.into(),
            [] => 0,
        })
    }
}

impl Work {
    fn fetch(&self, w: &Window) -> Result<()> {
        if w.bytes == 0 {
            return Ok(());
        }
        // Safety: both have as many bytes.
        let copy = |f: &unsafe extern "C" fn(*mut c_void, u64, usize, Stream) -> i32| unsafe {
            f(w.at.as_ptr().cast(), w.device, w.bytes, self.stream)
        };
        self.device.api().copy_down.with(copy).map_err(|f| self.device.error(f))
    }

    fn wait(&self) -> Result<()> {
        if let Some(deadline) = self.deadline {
            return self.wait_until(deadline);
        }
        // Safety: the stream is this program's.
        let done = self.device.api().stream_wait.with(|f| unsafe { f(self.stream) });
        done.map_err(|f| self.device.error(f))
    }

    /// The libraries wait without a limit, so the stream is asked again and again.
    fn wait_until(&self, deadline: Instant) -> Result<()> {
        let begin = Instant::now();
        loop {
            // Safety: the stream is this program's.
            match self.device.api().stream_query.with(|f| unsafe { f(self.stream) }) {
                Err(f) if f.code == NOT_READY => {}
                done => return done.map_err(|f| self.device.error(f)),
            }
            match begin.elapsed() {
                _ if Instant::now() >= deadline => {
                    return Err(Error::Deadline { device: self.device.name.clone() });
                }
                short if short < SPIN => std::hint::spin_loop(),
                _ => std::thread::sleep(SPIN),
            }
        }
    }

    fn capture(&self, steps: &[&Step], job: &Job, kernels: &Kernels) -> Result<(Option<GraphExec>, Counters)> {
        let api = self.device.api();
        let mut counts = Counters::default();
        let mut graph = Graph::NULL;
        // Safety: the stream is this program's; what is captured runs only when the graph is launched.
        let captured = api.capture_begin.with(|f| unsafe { f(self.stream, CAPTURE_THREAD) }).and_then(|()| {
            let mut marks = 0;
            let mut mark = || match &self.timer {
                Some(t) => {
                    marks += 1;
                    t.mark(marks - 1, self.stream)
                }
                None => Ok(()),
            };
            let done = mark().and_then(|()| {
                steps.iter().try_for_each(|s| {
                    self.step(api, s, job, kernels, &mut counts)?;
                    if StepTime::of(s).is_some() { mark() } else { Ok(()) }
                })
            });
            // Ended in any case: a stream that captures is of no other use.
            let ended = api.capture_end.with(|f| unsafe { f(self.stream, &raw mut graph) });
            done.and(ended)
        });
        let mut executable = GraphExec::NULL;
        let is_idle = counts.dispatches + counts.copies == 0;
        let made = captured.and_then(|()| {
            if is_idle {
                return Ok(());
            }
            // Safety: the graph was just captured.
            api.graph_instantiate.with(|f| unsafe { f(&raw mut executable, graph, 0) })
        });
        if graph != Graph::NULL {
            // Safety: the executable graph does not need it.
            let _ = api.graph_destroy.with(|f| unsafe { f(graph) });
        }
        made.map_err(|f| self.device.error(f))?;
        Ok(((!is_idle).then_some(executable), counts))
    }

    fn step(&self, api: &Api, s: &Step, job: &Job, kernels: &Kernels, n: &mut Counters) -> Result<(), Failed> {
        match s {
            Step::Dispatch(x) if x.grid.contains(&0) => Ok(()),
            Step::Dispatch(x) => {
                n.dispatches += 1;
                self.launch(api, x, job, kernels)
            }
            Step::Library(g) => {
                n.dispatches += 1;
                let slices = [&g.a.slice, &g.b.slice, &g.to.slice, &g.workspace];
                let addresses = slices.map(|s| self.device.address(job.region(s)));
                let blas = kernels.blas.as_ref().expect("opened for a profile that calls it");
                blas.product(g, addresses, self.stream)
            }
            Step::Barrier => {
                n.barriers += 1;
                Ok(())
            }
            Step::Copy { from, .. } if from.bytes == 0 => Ok(()),
            Step::Copy { from, to } => {
                n.copies += 1;
                let (a, b) = (self.device.address(job.region(from)), self.device.address(job.region(to)));
                // Safety: both regions have as many bytes and do not overlap.
                api.copy.with(|f| unsafe { f(b, a, from.bytes as usize, self.stream) })
            }
            Step::Fill { to, .. } if to.bytes == 0 => Ok(()),
            Step::Fill { to, byte } => {
                n.copies += 1;
                let at = self.device.address(job.region(to));
                // Safety: within the region.
                api.fill.with(|f| unsafe { f(at, *byte, to.bytes as usize, self.stream) })
            }
            Step::While { .. } | Step::If { .. } | Step::Case { .. } => unreachable!("a plan's segments are straight"),
        }
    }

    fn launch(&self, api: &Api, x: &Dispatch, job: &Job, kernels: &Kernels) -> Result<(), Failed> {
        let k = &job.profile.kernels[x.kernel];
        let mut addresses: Vec<u64> = x.buffers.iter().map(|s| self.device.address(job.region(s))).collect();
        let mut scalars = x.scalars.clone();
        let mut arguments: Vec<*mut c_void> = addresses.iter_mut().map(|a| (&raw mut *a).cast()).collect();
        arguments.extend(scalars.iter_mut().map(|s| (&raw mut *s).cast::<c_void>()));
        let l = Launch {
            function: kernels.functions[x.kernel],
            grid: x.grid,
            block: k.block,
            shared: k.shared_bytes,
            stream: self.stream,
            arguments: arguments.as_mut_ptr(),
        };
        // Safety: the arguments are what the kernel declares, and are read before the call returns.
        unsafe { if k.overlaps { self.device.vendor.launch_early(&l) } else { l.plain(api) } }
    }

    /// Pinned memory for each region, in one allocation.
    fn windows(&mut self, regions: &[Region]) -> Result<Vec<Window>> {
        let total: u64 = regions.iter().map(|r| r.bytes.next_multiple_of(ALIGN)).sum();
        let mut base = NonNull::dangling();
        if total > 0 {
            let mut at = null_mut();
            // Safety: the pointer is written before it is read.
            let done = self.device.api().allocate_host.with(|f| unsafe { f(&raw mut at, total as usize, 0) });
            done.map_err(|f| self.device.exhausted(f, "inputs and outputs", total))?;
            base = NonNull::new(at).unwrap_or(base);
            self.pinned = Some(base);
            self.tally.add(Counters { allocations: 1, ..Counters::default() });
        }
        let mut offset = 0;
        let window = |r: &Region| {
            // Safety: within the allocation.
            let at = if r.bytes == 0 { NonNull::dangling() } else { unsafe { base.cast::<u8>().add(offset) } };
            offset += r.bytes.next_multiple_of(ALIGN) as usize;
            Window { at, bytes: r.bytes as usize, device: self.device.address(*r) }
        };
        Ok(regions.iter().map(window).collect())
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if self.device.bind().is_err() {
            return;
        }
        let api = self.device.api();
        // Safety: all is this program's; a run that failed may have left work behind. Failures have nobody to tell.
        unsafe {
            if self.stream != Stream::NULL {
                let _ = api.stream_wait.with(|f| f(self.stream));
            }
            for graph in self.segments.iter().filter_map(|s| s.0) {
                let _ = api.graph_exec_destroy.with(|f| f(graph));
            }
            if self.stream != Stream::NULL {
                let _ = api.stream_destroy.with(|f| f(self.stream));
            }
            if let Some(p) = self.pinned {
                let _ = api.free_host.with(|f| f(p.as_ptr()));
            }
        }
    }
}
