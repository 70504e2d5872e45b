//! A program on Vulkan: command buffers recorded once, descriptors written once, one submit for each decision that the
//! host must make and one for the rest.
//!
//! Order within a submit: uploads of inputs that changed, segments, downloads of outputs. Each segment opens with a
//! barrier against all before it; inside a segment there are the program's own barriers and no others. Where the host
//! reaches the device's memory there are no uploads and downloads.

use super::{
    device::VulkanDevice,
    kernels::Kernels,
    memory::{Reach, Staging},
    timer::Timer,
};
use crate::{
    counters::{Counters, Tally},
    drivers::{
        ALIGN, Driver, Executable, Job, Region,
        control::{Machine, Node, Plan, walk},
    },
    error::{Error, Result},
    timing::StepTime,
};
use ash::vk;
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::CString,
    ptr::NonNull,
    slice,
    sync::Arc,
    time::Instant,
};
use zml_format::{Dispatch, Step};

pub(super) struct VulkanProgram {
    nodes: Vec<Node>,
    work: Work,
}

/// What the host sees of a region: an address, of device memory or of memory that it is copied through.
struct Window {
    at: NonNull<u8>,
    bytes: usize,
}
impl Window {
    const EMPTY: Window = Window { at: NonNull::dangling(), bytes: 0 };
}

struct Work {
    device: Arc<VulkanDevice>,
    tally: Arc<Tally>,
    pool: vk::CommandPool,
    descriptors: vk::DescriptorPool,
    fence: vk::Fence,
    segments: Vec<(vk::CommandBuffer, Counters)>,
    /// One for each read of the plan: makes the value visible, and where.
    reads: Vec<(vk::CommandBuffer, Window)>,
    /// One for each input, with what copies it to the device where it has to be copied.
    inputs: Vec<(Option<vk::CommandBuffer>, Window)>,
    changed: Vec<bool>,
    outputs: Vec<Window>,
    finish: vk::CommandBuffer,
    /// Not handed to the queue yet. Has room for everything that one submit can hold.
    pending: Vec<vk::CommandBuffer>,
    _staging: Vec<Staging>,
    /// Addresses that kernels read, and where in it each dispatch's begin.
    table: Region,
    tables: BTreeMap<Vec<u64>, u64>,
    timer: Option<Timer>,
    deadline: Option<Instant>,
    /// Something was handed to the queue that was not waited for.
    busy: bool,
}
// Safety: the windows are into memory that lives as long as `Work`, which nobody else holds.
unsafe impl Send for Work {}

const KERNEL: vk::PipelineStageFlags = vk::PipelineStageFlags::COMPUTE_SHADER;
const COPY: vk::PipelineStageFlags = vk::PipelineStageFlags::TRANSFER;
const HOST: vk::PipelineStageFlags = vk::PipelineStageFlags::HOST;

impl VulkanProgram {
    pub fn new(device: &Arc<VulkanDevice>, job: &Job) -> Result<Self> {
        let plan = Plan::new(job.steps);
        let mut work = Work {
            device: device.clone(),
            tally: job.tally.clone(),
            pool: vk::CommandPool::null(),
            descriptors: vk::DescriptorPool::null(),
            fence: vk::Fence::null(),
            segments: vec![],
            reads: vec![],
            inputs: vec![],
            changed: vec![false; job.inputs.len()],
            outputs: vec![],
            finish: vk::CommandBuffer::null(),
            pending: vec![],
            _staging: vec![],
            table: Region::EMPTY,
            tables: BTreeMap::new(),
            timer: None,
            deadline: None,
            busy: false,
        };
        if job.timed {
            work.timer = Some(Timer::new(device)?);
        }
        work.record(&plan, job)?;
        work.pending.reserve(job.inputs.len() + plan.segments.len() + plan.reads.len() + 1);
        Ok(VulkanProgram { nodes: plan.nodes, work })
    }
}

impl Executable for VulkanProgram {
    fn write(&mut self, i: usize, bytes: &[u8]) {
        let w = &self.work.inputs[i].1;
        assert_eq!(bytes.len(), w.bytes, "the session checks sizes");
        // Safety: the window has as many bytes, and no run is under way while `self` is borrowed.
        unsafe { w.at.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        self.work.changed[i] = true;
    }

    fn run(&mut self, times: u32, deadline: Option<Instant>) -> Result<()> {
        self.work.deadline = deadline;
        self.work.pending.clear();
        for ((upload, _), changed) in self.work.inputs.iter().zip(&mut self.work.changed) {
            if let Some(c) = upload.filter(|_| *changed) {
                self.work.pending.push(c);
            }
            *changed = false;
        }
        for again in (0..times).rev() {
            walk(&self.nodes, &mut self.work)?;
            if again > 0 {
                self.work.submit(false)?;
            }
        }
        self.work.pending.push(self.work.finish);
        self.work.submit(true)
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

/// The stages of the steps up to the next barrier, of all if there is none or nothing.
fn stages<'a, 'b: 'a>(steps: impl Iterator<Item = &'a &'b Step>) -> vk::PipelineStageFlags {
    let near = steps.take_while(|s| !matches!(s, Step::Barrier));
    let found = near.fold(vk::PipelineStageFlags::empty(), |all, s| {
        all | match s {
            Step::Dispatch(_) => KERNEL,
            _ => COPY,
        }
    });
    if found.is_empty() { KERNEL | COPY } else { found }
}

/// Command buffers of one submit.
const MOST_PENDING: usize = 4096;

impl Machine for Work {
    fn enqueue(&mut self, segment: usize) -> Result<()> {
        let (commands, counts) = self.segments[segment];
        self.pending.push(commands);
        self.tally.add(counts);
        if self.timer.is_some() {
            self.submit(true)?;
        }
        match &mut self.timer {
            Some(t) => t.collect(segment),
            // A loop of many turns does not gather them all.
            None if self.pending.len() >= MOST_PENDING => self.submit(true),
            None => Ok(()),
        }
    }

    fn decide(&mut self, read: usize) -> Result<i32> {
        self.pending.push(self.reads[read].0);
        self.submit(true)?;
        self.tally.add(Counters { read_backs: 1, ..Counters::default() });
        let w = &self.reads[read].1;
        // Safety: the window has as many bytes, and the submit that wrote them is done.
        let bytes = unsafe { slice::from_raw_parts(w.at.as_ptr(), w.bytes) };
        Ok(match *bytes {
            [a, b, c, d] => i32::from_le_bytes([a, b, c, d]),
            [predicate, ..] => predicate.into(),
            [] => 0,
        })
    }
}

/// The set of each distinct row of bindings: `(layout, [(buffer, offset, bytes)])`.
type Sets = BTreeMap<(usize, Vec<(vk::Buffer, u64, u64)>), vk::DescriptorSet>;

impl Work {
    fn submit(&mut self, wait: bool) -> Result<()> {
        self.device.submit(&self.pending, wait.then_some(self.fence))?;
        self.pending.clear();
        self.busy = true;
        self.tally.add(Counters { submits: 1, ..Counters::default() });
        if wait {
            self.device.wait(self.fence, self.deadline)?;
            self.busy = false;
        }
        Ok(())
    }

    fn record(&mut self, plan: &Plan, job: &Job) -> Result<()> {
        let d = self.device.clone();
        let kernels = d.kernels(job.kernels);
        // Safety: plain creations on a live device; `drop` destroys them.
        unsafe {
            let info = vk::CommandPoolCreateInfo::default().queue_family_index(d.family);
            self.pool = d.raw.create_command_pool(&info, None).map_err(d.failed("vkCreateCommandPool"))?;
            let info = vk::FenceCreateInfo::default();
            self.fence = d.raw.create_fence(&info, None).map_err(d.failed("vkCreateFence"))?;
        }
        let sets = self.bind(plan, job, &kernels)?;
        d.finish(&kernels, used(plan))?;
        for steps in &plan.segments {
            let mut counts = Counters::default();
            if let Some(t) = &mut self.timer {
                t.open(steps)?;
            }
            let commands = self.commands(|c| {
                self.barrier(c, KERNEL | COPY, KERNEL | COPY);
                if let Some(t) = &self.timer {
                    t.begin(c);
                }
                let mut marks = 0;
                for (i, s) in steps.iter().enumerate() {
                    if let Step::Barrier = s {
                        let (before, after) = (stages(steps[..i].iter().rev()), stages(steps[i + 1..].iter()));
                        self.barrier(c, before, after);
                        counts.barriers += 1;
                    } else {
                        self.step(c, s, job, &kernels, &sets, &mut counts);
                    }
                    if let (Some(t), Some(_)) = (&self.timer, StepTime::of(s)) {
                        marks += 1;
                        t.mark(c, marks);
                    }
                }
            })?;
            self.segments.push((commands, counts));
        }
        for s in &plan.reads {
            let region = job.region(s);
            let windows = self.windows(&[region], Reach::Down)?;
            let commands = self.commands(|c| self.show(c, &[region], &windows.copies))?;
            self.reads.push((commands, windows.windows.into_iter().next().unwrap_or(Window::EMPTY)));
        }
        let up = self.windows(job.inputs, Reach::Up)?;
        for (i, window) in up.windows.into_iter().enumerate() {
            let copy = match up.copies.iter().find(|c| c.region == i) {
                None => None,
                Some(c) => {
                    let copy = [vk::BufferCopy::default().src_offset(c.offset).dst_offset(c.at).size(c.bytes)];
                    // Safety: both ranges are within their buffers.
                    Some(self.commands(|b| unsafe { d.raw.cmd_copy_buffer(b, c.staging, c.buffer, &copy) })?)
                }
            };
            self.inputs.push((copy, window));
        }
        let down = self.windows(job.outputs, Reach::Down)?;
        self.finish = self.commands(|c| self.show(c, job.outputs, &down.copies))?;
        self.outputs = down.windows;
        Ok(())
    }

    /// A command buffer that may be submitted again and again, also before it is done.
    fn commands(&self, record: impl FnOnce(vk::CommandBuffer)) -> Result<vk::CommandBuffer> {
        let d = &self.device;
        let info = vk::CommandBufferAllocateInfo::default().command_pool(self.pool).command_buffer_count(1);
        let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::SIMULTANEOUS_USE);
        // Safety: the pool is this program's alone.
        unsafe {
            let c = d.raw.allocate_command_buffers(&info).map_err(d.failed("vkAllocateCommandBuffers"))?[0];
            d.raw.begin_command_buffer(c, &begin).map_err(d.failed("vkBeginCommandBuffer"))?;
            record(c);
            d.raw.end_command_buffer(c).map_err(d.failed("vkEndCommandBuffer"))?;
            Ok(c)
        }
    }

    /// Everything before, of these stages, is finished and visible to everything after.
    fn barrier(&self, c: vk::CommandBuffer, before: vk::PipelineStageFlags, after: vk::PipelineStageFlags) {
        // Only what these stages do: masks for everything empty caches that kernels never use.
        let reads = [
            (KERNEL, vk::AccessFlags::SHADER_READ),
            (COPY, vk::AccessFlags::TRANSFER_READ),
            (HOST, vk::AccessFlags::HOST_READ),
        ];
        let writes = [(KERNEL, vk::AccessFlags::SHADER_WRITE), (COPY, vk::AccessFlags::TRANSFER_WRITE)];
        let of = |all: &[(vk::PipelineStageFlags, vk::AccessFlags)], stages: vk::PipelineStageFlags| {
            let held = all.iter().filter(|(s, _)| stages.contains(*s));
            held.fold(vk::AccessFlags::empty(), |mask, (_, a)| mask | *a)
        };
        let memory = [vk::MemoryBarrier::default()
            .src_access_mask(of(&writes, before))
            .dst_access_mask(of(&reads, after) | of(&writes, after))];
        // Safety: `c` is being recorded.
        unsafe {
            self.device.raw.cmd_pipeline_barrier(c, before, after, vk::DependencyFlags::empty(), &memory, &[], &[]);
        }
    }

    /// Brings regions to where the host reads them.
    fn show(&self, c: vk::CommandBuffer, regions: &[Region], copies: &[HostCopy]) {
        if copies.is_empty() {
            if regions.iter().any(|r| r.bytes > 0) {
                self.barrier(c, KERNEL | COPY, HOST);
            }
            return;
        }
        self.barrier(c, KERNEL | COPY, COPY);
        for x in copies {
            let copy = [vk::BufferCopy::default().src_offset(x.at).dst_offset(x.offset).size(x.bytes)];
            // Safety: both ranges are within their buffers.
            unsafe { self.device.raw.cmd_copy_buffer(c, x.buffer, x.staging, &copy) };
        }
        self.barrier(c, COPY, HOST);
    }

    fn step(&self, c: vk::CommandBuffer, s: &Step, job: &Job, kernels: &Kernels, sets: &Sets, counts: &mut Counters) {
        let raw = &self.device.raw;
        match s {
            Step::Dispatch(x) => {
                if x.grid.contains(&0) {
                    return;
                }
                let k = &kernels.kernels[x.kernel];
                let layout = kernels.layouts[k.layout].pipeline;
                let set = sets[&(k.layout, self.bindings(x, job))];
                let label = CString::new(job.profile.kernels[x.kernel].label.as_str()).unwrap_or_default();
                // Safety: pipeline, layout and set were made for each other; the scalars are as many as the layout's.
                unsafe {
                    if let Some(debug) = &self.device.debug {
                        debug.cmd_begin_debug_utils_label(c, &vk::DebugUtilsLabelEXT::default().label_name(&label));
                    }
                    raw.cmd_bind_pipeline(c, vk::PipelineBindPoint::COMPUTE, kernels.pipeline(x.kernel));
                    raw.cmd_bind_descriptor_sets(c, vk::PipelineBindPoint::COMPUTE, layout, 0, &[set], &[]);
                    if !x.scalars.is_empty() {
                        let bytes: Vec<u8> = x.scalars.iter().flat_map(|s| s.to_le_bytes()).collect();
                        raw.cmd_push_constants(c, layout, vk::ShaderStageFlags::COMPUTE, 0, &bytes);
                    }
                    raw.cmd_dispatch(c, x.grid[0], x.grid[1], x.grid[2]);
                    if let Some(debug) = &self.device.debug {
                        debug.cmd_end_debug_utils_label(c);
                    }
                }
                counts.dispatches += 1;
            }
            Step::Barrier => unreachable!("a barrier is recorded with what stands around it"),
            Step::Copy { from, to } => {
                let (from, to) = (job.region(from), job.region(to));
                let (Some(a), Some(b)) = (from.memory, to.memory) else { return };
                let (a, b) = (self.device.buffer(a), self.device.buffer(b));
                let copy = [vk::BufferCopy::default().src_offset(from.offset).dst_offset(to.offset).size(from.bytes)];
                // Safety: both regions are within their buffers, and do not overlap.
                unsafe { raw.cmd_copy_buffer(c, a.raw, b.raw, &copy) };
                counts.copies += 1;
            }
            Step::Fill { to, byte } => {
                let to = job.region(to);
                if to.bytes > 0 {
                    self.fill(c, to, *byte);
                    counts.copies += 1;
                }
            }
            Step::Library(_) => unreachable!("refused when the program was bound"),
            Step::While { .. } | Step::If { .. } | Step::Case { .. } => unreachable!("a plan's segments are straight"),
        }
    }

    /// `vkCmdFillBuffer` writes whole words; odd ends are copied from the table of bytes.
    fn fill(&self, c: vk::CommandBuffer, to: Region, byte: u8) {
        let Some(memory) = to.memory else { return };
        let (raw, buffer) = (&self.device.raw, self.device.buffer(memory).raw);
        let end = to.offset + to.bytes;
        let first = to.offset.next_multiple_of(4).min(end);
        let last = (end & !3).max(first);
        let odd = |from: u64, to: u64| {
            if from < to {
                let copy = [vk::BufferCopy::default().src_offset(4 * u64::from(byte)).dst_offset(from).size(to - from)];
                // Safety: at most 3 bytes of the table, and within the buffer.
                unsafe { raw.cmd_copy_buffer(c, self.device.byte_table(), buffer, &copy) };
            }
        };
        odd(to.offset, first);
        if first < last {
            // Safety: whole words within the buffer.
            unsafe { raw.cmd_fill_buffer(c, buffer, first, last - first, u32::from_ne_bytes([byte; 4])) };
        }
        odd(last, end);
    }

    fn bindings(&self, x: &Dispatch, job: &Job) -> Vec<(vk::Buffer, u64, u64)> {
        let of = |r: Region| match r.memory {
            Some(m) => (self.device.buffer(m).raw, r.offset, r.bytes),
            None => (self.device.nothing(), 0, vk::WHOLE_SIZE),
        };
        let (bound, addresses) = self.places(x, job);
        let table = self.tables.get(&addresses).map(|at| self.table.part(*at, 8 * addresses.len() as u64));
        bound.into_iter().chain(table).map(of).collect()
    }
    /// The buffers of a dispatch that it binds, and the addresses of the others.
    fn places(&self, x: &Dispatch, job: &Job) -> (Vec<Region>, Vec<u64>) {
        let by_address = &job.profile.kernels[x.kernel].addresses;
        let (mut bound, mut addresses) = (vec![], vec![]);
        for (i, s) in x.buffers.iter().enumerate() {
            let region = job.region(s);
            match by_address.contains(&(i as u32)) {
                true => addresses.push(self.device.address(region)),
                false => bound.push(region),
            }
        }
        (bound, addresses)
    }
    /// Puts the addresses that the plan's dispatches read where they find them.
    fn tabulate(&mut self, plan: &Plan, job: &Job) -> Result<()> {
        let mut bytes: Vec<u8> = vec![];
        for s in plan.segments.iter().flatten() {
            let Step::Dispatch(x) = s else { continue };
            let addresses = self.places(x, job).1;
            if addresses.is_empty() || self.tables.contains_key(&addresses) {
                continue;
            }
            bytes.resize(bytes.len().next_multiple_of(ALIGN as usize), 0);
            let at = bytes.len() as u64;
            bytes.extend(addresses.iter().flat_map(|a| a.to_le_bytes()));
            self.tables.insert(addresses, at);
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let count = bytes.len() as u64;
        self.table = Region { memory: Some(self.device.allocate(count, "addresses")?), offset: 0, bytes: count };
        self.tally.add(Counters { allocations: 1, ..Counters::default() });
        self.device.upload(self.table, &bytes)
    }

    /// Checks each dispatch against the device, and writes the descriptor sets that they bind.
    fn bind(&mut self, plan: &Plan, job: &Job, kernels: &Kernels) -> Result<Sets> {
        let d = self.device.clone();
        self.tabulate(plan, job)?;
        let mut sets = Sets::new();
        for s in plan.segments.iter().flatten() {
            if let Step::Library(_) = s {
                let why = "it calls a matrix library, and Vulkan has none".into();
                return Err(Error::Unsupported { device: self.device.name.clone(), why });
            }
            if let Step::Dispatch(x) = s {
                self.fits(x, job)?;
                sets.insert((kernels.kernels[x.kernel].layout, self.bindings(x, job)), vk::DescriptorSet::null());
            }
        }
        if sets.is_empty() {
            return Ok(sets);
        }
        let count = sets.keys().map(|k| k.1.len() as u32).sum::<u32>().max(1);
        let size = [vk::DescriptorPoolSize::default().ty(vk::DescriptorType::STORAGE_BUFFER).descriptor_count(count)];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(sets.len() as u32).pool_sizes(&size);
        // Safety: the pool has room for all sets, and buffers outlive the program.
        unsafe {
            self.descriptors = d.raw.create_descriptor_pool(&info, None).map_err(d.failed("vkCreateDescriptorPool"))?;
            for ((layout, bindings), set) in &mut sets {
                let layouts = [kernels.layouts[*layout].set];
                let info =
                    vk::DescriptorSetAllocateInfo::default().descriptor_pool(self.descriptors).set_layouts(&layouts);
                *set = d.raw.allocate_descriptor_sets(&info).map_err(d.failed("vkAllocateDescriptorSets"))?[0];
                let infos: Vec<_> = bindings
                    .iter()
                    .map(|(b, offset, bytes)| {
                        vk::DescriptorBufferInfo::default().buffer(*b).offset(*offset).range(*bytes)
                    })
                    .collect();
                if !infos.is_empty() {
                    let write = vk::WriteDescriptorSet::default()
                        .dst_set(*set)
                        .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                        .buffer_info(&infos);
                    d.raw.update_descriptor_sets(&[write], &[]);
                }
            }
        }
        Ok(sets)
    }

    /// What the device's limits say of a dispatch.
    fn fits(&self, x: &Dispatch, job: &Job) -> Result<()> {
        let (d, symbol) = (&self.device, &job.profile.kernels[x.kernel].symbol);
        let limits = &d.properties.base.limits;
        if x.grid.iter().zip(limits.max_compute_work_group_count).any(|(n, most)| *n > most) {
            let most = limits.max_compute_work_group_count;
            return Err(d.unsupported(format!("{symbol} has {:?} workgroups, and it runs at most {most:?}", x.grid)));
        }
        for r in self.places(x, job).0 {
            if r.bytes > limits.max_storage_buffer_range.into() {
                let most = limits.max_storage_buffer_range;
                return Err(d.unsupported(format!("{symbol} binds {} bytes, and it binds at most {most}", r.bytes)));
            }
        }
        for r in x.buffers.iter().map(|s| job.region(s)) {
            if !r.offset.is_multiple_of(limits.min_storage_buffer_offset_alignment) {
                let align = limits.min_storage_buffer_offset_alignment;
                return Err(d.unsupported(format!("{symbol} binds at offset {}, no multiple of {align}", r.offset)));
            }
        }
        Ok(())
    }

    /// Where the host reaches each region: in place, or in staging memory that all of them share.
    fn windows(&mut self, regions: &[Region], reach: Reach) -> Result<Windows> {
        let d = self.device.clone();
        let mut out = Windows { windows: vec![], copies: vec![] };
        let staged: u64 = if d.unified { 0 } else { regions.iter().map(|r| r.bytes.next_multiple_of(ALIGN)).sum() };
        if staged > 0 {
            self._staging.push(Staging::new(&d, staged, reach, "inputs and outputs")?);
            self.tally.add(Counters { allocations: 1, ..Counters::default() });
        }
        let mut offset = 0;
        for (i, r) in regions.iter().enumerate() {
            let Some(memory) = r.memory else {
                out.windows.push(Window::EMPTY);
                continue;
            };
            let buffer = d.buffer(memory);
            let at = match self._staging.last().filter(|_| staged > 0) {
                None => buffer.at(r.offset, r.bytes),
                Some(s) => {
                    let (staging, bytes) = (s.buffer.raw, r.bytes);
                    out.copies.push(HostCopy { region: i, buffer: buffer.raw, at: r.offset, staging, offset, bytes });
                    let at = s.buffer.at(offset, bytes);
                    offset += bytes.next_multiple_of(ALIGN);
                    at
                }
            };
            let at = at.ok_or_else(|| Error::Bug("memory for the host is not mapped".into()))?;
            out.windows.push(Window { at, bytes: r.bytes as usize });
        }
        Ok(out)
    }
}

/// Kernels that a plan dispatches.
fn used(plan: &Plan) -> BTreeSet<usize> {
    let of = |s: &&Step| match s {
        Step::Dispatch(x) if !x.grid.contains(&0) => Some(x.kernel),
        _ => None,
    };
    plan.segments.iter().flatten().filter_map(of).collect()
}

struct Windows {
    /// One for each region.
    windows: Vec<Window>,
    /// For the regions that the host cannot reach.
    copies: Vec<HostCopy>,
}

/// Bytes of a region and their place in staging memory.
struct HostCopy {
    region: usize,
    buffer: vk::Buffer,
    at: u64,
    staging: vk::Buffer,
    offset: u64,
    bytes: u64,
}

impl Drop for Work {
    fn drop(&mut self) {
        let raw = &self.device.raw;
        if self.busy {
            self.device.wait_idle();
        }
        // Safety: every submit was waited for; null handles are ignored.
        unsafe {
            raw.destroy_fence(self.fence, None);
            raw.destroy_descriptor_pool(self.descriptors, None);
            raw.destroy_command_pool(self.pool, None);
        }
        if let Some(memory) = self.table.memory {
            self.device.free(memory);
        }
    }
}
