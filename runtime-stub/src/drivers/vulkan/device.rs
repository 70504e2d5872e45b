//! An opened Vulkan device: its queue, its allocations, uploads to them, and the kernels loaded on it.

use super::{
    Instance, failed,
    limits::Properties,
    memory::{Buffer, Reach},
    one_at_a_time,
    program::VulkanProgram,
};
use crate::{
    drivers::{Driver, Executable, Job, KernelSet, Memory, Region, slab::Slab},
    error::{Error, Result},
};
use ash::vk;
use std::{
    ffi::CString,
    sync::{Arc, Mutex, MutexGuard, OnceLock},
    time::{Duration, Instant},
};
use zml_format::{Artifact, Kernel, Profile};

/// What creating the device gave.
pub(super) struct Opened {
    pub physical: vk::PhysicalDevice,
    pub raw: ash::Device,
    pub family: u32,
    /// The host reaches all of its memory at full speed.
    pub unified: bool,
    /// Kernels ask for subgroups of this size, which is not the device's default.
    pub subgroup: Option<u32>,
}

pub(super) struct VulkanDevice {
    pub raw: ash::Device,
    pub name: String,
    pub properties: Properties,
    pub unified: bool,
    pub family: u32,
    pub debug: Option<ash::ext::debug_utils::Device>,
    /// Bits of a timestamp that count; 0 if the queue has none.
    pub timestamp_bits: u32,
    memory: vk::PhysicalDeviceMemoryProperties,
    subgroup: Option<u32>,
    queue: Mutex<vk::Queue>,
    buffers: Slab<Buffer>,
    kernels: Slab<Kernels>,
    transfer: Mutex<Transfer>,
    /// Stands for slices without bytes, which a binding cannot have.
    nothing: OnceLock<Buffer>,
    /// Each byte value four times: what fills take where `vkCmdFillBuffer` cannot, at odd ends.
    bytes: OnceLock<Buffer>,
}

/// For work outside of programs: uploads and clears.
#[derive(Default)]
struct Transfer {
    pool: vk::CommandPool,
    commands: vk::CommandBuffer,
    fence: vk::Fence,
    staging: Option<Buffer>,
}

/// A submit that is over sooner is waited for without giving up the processor.
const SPIN: Duration = Duration::from_micros(200);

/// Uploads go through this much memory at a time.
const STAGING_BYTES: u64 = 32 << 20;

/// Pipelines of one profile.
pub(super) struct Kernels {
    pub kernels: Vec<Loaded>,
    pub layouts: Vec<Layout>,
    modules: Vec<vk::ShaderModule>,
}
pub(super) struct Loaded {
    pub pipeline: vk::Pipeline,
    /// Index into `Kernels::layouts`.
    pub layout: usize,
}
/// Shared by kernels with equal numbers of buffers and scalars.
pub(super) struct Layout {
    buffers: usize,
    scalar_bytes: u32,
    pub set: vk::DescriptorSetLayout,
    pub pipeline: vk::PipelineLayout,
}

impl VulkanDevice {
    pub fn new(instance: &'static Instance, o: Opened, properties: Properties, name: String) -> Result<Arc<Self>> {
        // Safety: the device is of the instance.
        let (memory, queue) = unsafe {
            (instance.raw.get_physical_device_memory_properties(o.physical), o.raw.get_device_queue(o.family, 0))
        };
        // Safety: as above.
        let families = unsafe { instance.raw.get_physical_device_queue_family_properties(o.physical) };
        let debug = instance.debug.then(|| ash::ext::debug_utils::Device::new(&instance.raw, &o.raw));
        let device = VulkanDevice {
            raw: o.raw,
            name,
            properties,
            unified: o.unified,
            family: o.family,
            debug,
            timestamp_bits: families[o.family as usize].timestamp_valid_bits,
            memory,
            subgroup: o.subgroup,
            queue: Mutex::new(queue),
            buffers: Slab::new(),
            kernels: Slab::new(),
            transfer: Mutex::default(),
            nothing: OnceLock::new(),
            bytes: OnceLock::new(),
        };
        device.prepare()?;
        Ok(Arc::new(device))
    }

    fn prepare(&self) -> Result<()> {
        let mut t = self.transfer();
        // Safety: the device is new; what a failure leaves goes with the device.
        unsafe {
            let info = vk::CommandPoolCreateInfo::default()
                .queue_family_index(self.family)
                .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
            t.pool = self.raw.create_command_pool(&info, None).map_err(self.failed("vkCreateCommandPool"))?;
            let info = vk::CommandBufferAllocateInfo::default().command_pool(t.pool).command_buffer_count(1);
            t.commands = self.raw.allocate_command_buffers(&info).map_err(self.failed("vkAllocateCommandBuffers"))?[0];
            let info = vk::FenceCreateInfo::default();
            t.fence = self.raw.create_fence(&info, None).map_err(self.failed("vkCreateFence"))?;
        }
        drop(t);
        let nothing = Buffer::new(self, 16, Reach::Device, "empty buffers")?;
        self.nothing.get_or_init(|| nothing);
        let table: Vec<u8> = (0..=255).flat_map(|b| [b; 4]).collect();
        let bytes = Buffer::new(self, table.len() as u64, Reach::Up, "fills")?;
        if let Some(at) = bytes.mapped {
            // Safety: the buffer was made for as many bytes and nobody else has it yet.
            unsafe { at.copy_from_nonoverlapping((&table[0]).into(), table.len()) };
        }
        self.bytes.get_or_init(|| bytes);
        Ok(())
    }

    pub fn failed(&self, call: &'static str) -> impl FnOnce(vk::Result) -> Error {
        failed(&self.name, call)
    }
    pub fn unsupported(&self, why: String) -> Error {
        Error::Unsupported { device: self.name.clone(), why }
    }

    fn transfer(&self) -> MutexGuard<'_, Transfer> {
        self.transfer.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub fn buffer(&self, m: Memory) -> Arc<Buffer> {
        self.buffers.get(m.0).expect("a region outlived its memory")
    }
    pub fn kernels(&self, k: KernelSet) -> Arc<Kernels> {
        self.kernels.get(k.0).expect("a program outlived its kernels")
    }
    pub fn nothing(&self) -> vk::Buffer {
        self.nothing.get().map_or(vk::Buffer::null(), |b| b.raw)
    }
    /// Holds `[b; 4]` at `4 * b`.
    pub fn byte_table(&self) -> vk::Buffer {
        self.bytes.get().map_or(vk::Buffer::null(), |b| b.raw)
    }

    /// A memory type among `allowed` that has `must` and as much of `wish` as there is.
    pub fn memory_type(
        &self,
        allowed: u32,
        (must, wish): (vk::MemoryPropertyFlags, [vk::MemoryPropertyFlags; 2]),
    ) -> Option<u32> {
        let types = self.memory.memory_types_as_slice();
        let has = |f: vk::MemoryPropertyFlags| {
            (0..types.len()).find(|i| allowed >> i & 1 == 1 && types[*i].property_flags.contains(f)).map(|i| i as u32)
        };
        has(must | wish[0] | wish[1]).or_else(|| has(must | wish[0])).or_else(|| has(must))
    }

    /// Hands command buffers to the queue; the fence, if one is given, tells when they and all before them are done.
    pub fn submit(&self, commands: &[vk::CommandBuffer], fence: Option<vk::Fence>) -> Result<()> {
        let submit = [vk::SubmitInfo::default().command_buffers(commands)];
        // Safety: recorded command buffers of this device, and a fence that nothing waits for; the lock is the queue's.
        unsafe {
            if let Some(fence) = fence {
                self.raw.reset_fences(&[fence]).map_err(self.failed("vkResetFences"))?;
            }
            let queue = self.queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let fence = fence.unwrap_or_default();
            self.raw.queue_submit(*queue, &submit, fence).map_err(self.failed("vkQueueSubmit"))
        }
    }

    /// Waits for a fence that was submitted.
    pub fn wait(&self, fence: vk::Fence, deadline: Option<Instant>) -> Result<()> {
        // Where the device is the processor itself, the wait would take its time away.
        let begin = Instant::now();
        while !self.unified && begin.elapsed() < SPIN {
            // Safety: the fence is this device's.
            if unsafe { self.raw.get_fence_status(fence) }.map_err(self.failed("vkGetFenceStatus"))? {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let left = deadline.map_or(u64::MAX, |d| d.saturating_duration_since(begin).as_nanos() as u64);
        // Safety: as above.
        match unsafe { self.raw.wait_for_fences(&[fence], true, left) } {
            Err(vk::Result::TIMEOUT) => Err(Error::Deadline { device: self.name.clone() }),
            done => done.map_err(self.failed("vkWaitForFences")),
        }
    }

    /// Waits for everything that the queue has.
    pub fn wait_idle(&self) {
        let queue = self.queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Safety: the lock is the queue's. A lost device runs nothing.
        let _ = unsafe { self.raw.queue_wait_idle(*queue) };
    }

    fn once(&self, t: &Transfer, record: impl FnOnce(vk::CommandBuffer)) -> Result<()> {
        let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // Safety: the caller holds the transfer's lock, and its last submit is done.
        unsafe {
            self.raw.begin_command_buffer(t.commands, &begin).map_err(self.failed("vkBeginCommandBuffer"))?;
            record(t.commands);
            self.raw.end_command_buffer(t.commands).map_err(self.failed("vkEndCommandBuffer"))?;
        }
        self.submit(&[t.commands], Some(t.fence))?;
        self.wait(t.fence, None)
    }

    fn module(&self, words: &[u8], what: &str) -> Result<vk::ShaderModule> {
        let words: Vec<u32> = match words.as_chunks() {
            (words, []) => words.iter().map(|w| u32::from_le_bytes(*w)).collect(),
            _ => vec![],
        };
        if words.first() != Some(&0x0723_0203) {
            return Err(Error::Bug(format!("kernel {what} is not SPIR-V")));
        }
        let info = vk::ShaderModuleCreateInfo::default().code(&words);
        // Safety: the words were validated when they were compiled, and the artifact's digest holds.
        unsafe { self.raw.create_shader_module(&info, None).map_err(self.failed("vkCreateShaderModule")) }
    }

    fn layout(&self, k: &Kernel) -> Result<Layout> {
        let limits = &self.properties.base.limits;
        let bindings: Vec<_> = (0..k.buffers.len())
            .map(|i| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(i as u32)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .descriptor_count(1)
                    .stage_flags(vk::ShaderStageFlags::COMPUTE)
            })
            .collect();
        let most = limits.max_per_stage_descriptor_storage_buffers as usize;
        if bindings.len() > most {
            let why = format!("kernel {} has {} buffers, and it binds at most {most}", k.symbol, bindings.len());
            return Err(self.unsupported(why));
        }
        if k.scalar_bytes > limits.max_push_constants_size {
            let most = limits.max_push_constants_size;
            let why =
                format!("kernel {} has {} bytes of scalars, and it takes at most {most}", k.symbol, k.scalar_bytes);
            return Err(self.unsupported(why));
        }
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        let push = [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(k.scalar_bytes)];
        // Safety: within the limits checked above; a failure destroys what was made.
        unsafe {
            let set = self
                .raw
                .create_descriptor_set_layout(&info, None)
                .map_err(self.failed("vkCreateDescriptorSetLayout"))?;
            let sets = [set];
            let mut info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
            if k.scalar_bytes > 0 {
                info = info.push_constant_ranges(&push);
            }
            match self.raw.create_pipeline_layout(&info, None) {
                Ok(pipeline) => Ok(Layout { buffers: k.buffers.len(), scalar_bytes: k.scalar_bytes, set, pipeline }),
                Err(code) => {
                    self.raw.destroy_descriptor_set_layout(set, None);
                    Err(self.failed("vkCreatePipelineLayout")(code))
                }
            }
        }
    }

    fn pipeline(&self, k: &Kernel, module: vk::ShaderModule, layout: vk::PipelineLayout) -> Result<vk::Pipeline> {
        let symbol = CString::new(k.symbol.as_str())
            .map_err(|_| Error::Bug(format!("kernel {:?} has a zero in its name", k.symbol)))?;
        let mut subgroup = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default();
        let mut stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(&symbol);
        if let Some(size) = self.subgroup {
            subgroup.required_subgroup_size = size;
            stage = stage.push_next(&mut subgroup);
        }
        let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout)];
        // Safety: module and layout are of this device.
        let made = unsafe { self.raw.create_compute_pipelines(vk::PipelineCache::null(), &info, None) };
        let pipeline = made.map_err(|(_, code)| self.failed("vkCreateComputePipelines")(code))?[0];
        self.label(pipeline, &k.label);
        Ok(pipeline)
    }

    /// Names an object in traces; without the extension nothing.
    fn label<H: vk::Handle>(&self, object: H, label: &str) {
        if let (Some(debug), Ok(label)) = (&self.debug, CString::new(label)) {
            let info = vk::DebugUtilsObjectNameInfoEXT::default().object_handle(object).object_name(&label);
            // Safety: an object of this device. Names are for people: without one all works.
            let _ = unsafe { debug.set_debug_utils_object_name(&info) };
        }
    }

    fn add_kernel(&self, set: &mut Kernels, k: &Kernel, module: vk::ShaderModule) -> Result<()> {
        let same = |l: &Layout| l.buffers == k.buffers.len() && l.scalar_bytes == k.scalar_bytes;
        let layout = match set.layouts.iter().position(same) {
            Some(l) => l,
            None => {
                set.layouts.push(self.layout(k)?);
                set.layouts.len() - 1
            }
        };
        let pipeline = self.pipeline(k, module, set.layouts[layout].pipeline)?;
        set.kernels.push(Loaded { pipeline, layout });
        Ok(())
    }

    fn fill_set(&self, set: &mut Kernels, profile: &Profile, artifact: &Artifact) -> Result<()> {
        let mut modules: Vec<(usize, vk::ShaderModule)> = vec![];
        for k in &profile.kernels {
            let module = match modules.iter().find(|m| m.0 == k.blob) {
                Some(m) => m.1,
                None => {
                    let m = self.module(artifact.blob(k.blob), &k.symbol)?;
                    set.modules.push(m);
                    modules.push((k.blob, m));
                    m
                }
            };
            self.add_kernel(set, k, module)?;
        }
        Ok(())
    }

    fn destroy_kernels(&self, set: &Kernels) {
        // Safety: the caller has taken the set, and nothing that runs uses it.
        unsafe {
            set.kernels.iter().for_each(|k| self.raw.destroy_pipeline(k.pipeline, None));
            for l in &set.layouts {
                self.raw.destroy_pipeline_layout(l.pipeline, None);
                self.raw.destroy_descriptor_set_layout(l.set, None);
            }
            set.modules.iter().for_each(|m| self.raw.destroy_shader_module(*m, None));
        }
    }
}

impl Driver for VulkanDevice {
    fn allocate(&self, bytes: u64, what: &str) -> Result<Memory> {
        Ok(Memory(self.buffers.put(Buffer::new(self, bytes, Reach::Device, what)?)))
    }

    fn free(&self, memory: Memory) {
        if let Some(b) = self.buffers.take(memory.0) {
            b.destroy(self);
        }
    }

    fn upload(&self, to: Region, bytes: &[u8]) -> Result<()> {
        let Some(memory) = to.memory else { return Ok(()) };
        let buffer = self.buffer(memory);
        let mut t = self.transfer();
        if let Some(at) = buffer.at(to.offset, to.bytes) {
            // Safety: within the mapped buffer; programs that use it run to their end before they return.
            unsafe { at.copy_from_nonoverlapping((&bytes[0]).into(), bytes.len()) };
            return Ok(());
        }
        if t.staging.is_none() {
            t.staging = Some(Buffer::new(self, STAGING_BYTES, Reach::Up, "uploads")?);
        }
        let Some((staging, host)) = t.staging.as_ref().and_then(|s| Some((s.raw, s.mapped?))) else {
            return Err(Error::Bug("staging memory is not mapped".into()));
        };
        for (i, chunk) in bytes.chunks(STAGING_BYTES as usize).enumerate() {
            // Safety: `chunk` fits, and the last copy out of the staging buffer is done.
            unsafe { host.copy_from_nonoverlapping((&chunk[0]).into(), chunk.len()) };
            let offset = to.offset + i as u64 * STAGING_BYTES;
            let copy = [vk::BufferCopy::default().dst_offset(offset).size(chunk.len() as u64)];
            // Safety: both ranges are within their buffers.
            self.once(&t, |c| unsafe { self.raw.cmd_copy_buffer(c, staging, buffer.raw, &copy) })?;
        }
        Ok(())
    }

    fn clear(&self, region: Region) -> Result<()> {
        let Some(memory) = region.memory else { return Ok(()) };
        let buffer = self.buffer(memory);
        // Regions start at multiples of `ALIGN`, and what follows up to the next is nobody's.
        let bytes = region.bytes.next_multiple_of(4);
        // Safety: within the buffer, which is rounded up as well.
        self.once(&self.transfer(), |c| unsafe { self.raw.cmd_fill_buffer(c, buffer.raw, region.offset, bytes, 0) })
    }

    fn load(&self, profile: &Profile, artifact: &Artifact) -> Result<KernelSet> {
        let mut set = Kernels { kernels: vec![], layouts: vec![], modules: vec![] };
        match self.fill_set(&mut set, profile, artifact) {
            Ok(()) => Ok(KernelSet(self.kernels.put(set))),
            Err(e) => {
                self.destroy_kernels(&set);
                Err(e)
            }
        }
    }

    fn unload(&self, kernels: KernelSet) {
        if let Some(set) = self.kernels.take(kernels.0) {
            self.destroy_kernels(&set);
        }
    }

    fn build(self: Arc<Self>, job: &Job) -> Result<Box<dyn Executable>> {
        Ok(Box::new(VulkanProgram::new(&self, job)?))
    }
}

impl Drop for VulkanDevice {
    fn drop(&mut self) {
        // Safety: nothing else holds the device, so nothing of it runs.
        unsafe {
            let _ = self.raw.device_wait_idle();
            self.kernels.drain().iter().for_each(|k| self.destroy_kernels(k));
            self.buffers.drain().iter().for_each(|b| b.destroy(self));
            let t = std::mem::take(&mut *self.transfer());
            t.staging.iter().chain(self.nothing.get()).chain(self.bytes.get()).for_each(|b| b.destroy(self));
            self.raw.destroy_fence(t.fence, None);
            self.raw.destroy_command_pool(t.pool, None);
            let _lock = one_at_a_time();
            self.raw.destroy_device(None);
        }
    }
}
