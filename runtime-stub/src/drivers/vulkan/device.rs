//! An opened Vulkan device: its queue, its allocations, uploads to them, and the kernels loaded on it.

use super::{
    Instance, failed,
    kernels::Kernels,
    lane::VulkanLane,
    limits::Properties,
    memory::{Buffer, Reach},
    one_at_a_time,
    program::VulkanProgram,
};
use crate::{
    cache::Cache,
    drivers::{Driver, Executable, Job, KernelSet, Lane, Memory, Region, slab::Slab},
    error::{Error, Result},
};
use ash::vk;
use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock},
    time::{Duration, Instant},
};
use zml_format::{Artifact, Profile};

/// What creating the device gave.
pub(super) struct Opened {
    pub physical: vk::PhysicalDevice,
    pub raw: ash::Device,
    pub family: u32,
    /// The host reaches all of its memory at full speed.
    pub unified: bool,
    /// Kernels ask for subgroups of this size, which is not the device's default.
    pub subgroup: Option<u32>,
    /// Kernels find buffers by address.
    pub addresses: bool,
}

pub(super) struct VulkanDevice {
    pub raw: ash::Device,
    pub name: String,
    pub properties: Properties,
    pub unified: bool,
    /// Buffers have addresses.
    pub addresses: bool,
    pub family: u32,
    pub debug: Option<ash::ext::debug_utils::Device>,
    /// Bits of a timestamp that count; 0 if the queue has none.
    pub timestamp_bits: u32,
    memory: vk::PhysicalDeviceMemoryProperties,
    pub subgroup: Option<u32>,
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
            addresses: o.addresses,
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
    /// Where kernels find a region's first byte.
    pub fn address(&self, r: Region) -> u64 {
        let buffer = r.memory.map_or(self.nothing(), |m| self.buffer(m).raw);
        let info = vk::BufferDeviceAddressInfo::default().buffer(buffer);
        // Safety: a buffer of this device that was made to have an address.
        unsafe { self.raw.get_buffer_device_address(&info) + r.offset }
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

    fn lane(self: Arc<Self>, bytes: usize) -> Result<Box<dyn Lane>> {
        Ok(Box::new(VulkanLane::new(&self, bytes)))
    }

    fn clear(&self, regions: &[Region]) -> Result<()> {
        let buffers: Vec<_> = regions.iter().filter_map(|r| Some((r, self.buffer(r.memory?)))).collect();
        if buffers.is_empty() {
            return Ok(());
        }
        self.once(&self.transfer(), |c| {
            for (region, buffer) in &buffers {
                // Regions start at multiples of `ALIGN`, and what follows up to the next is nobody's.
                let bytes = region.bytes.next_multiple_of(4);
                // Safety: within the buffer, which is rounded up as well.
                unsafe { self.raw.cmd_fill_buffer(c, buffer.raw, region.offset, bytes, 0) };
            }
        })
    }

    fn load(self: Arc<Self>, profile: &Profile, artifact: &Artifact, cache: &Arc<Cache>) -> Result<KernelSet> {
        let mut set = self.new_set(profile, artifact, cache);
        match self.fill_set(&mut set, profile, artifact) {
            Ok(()) => {
                let at = KernelSet(self.kernels.put(set));
                self.start(&self.kernels(at));
                Ok(at)
            }
            Err(e) => {
                self.destroy_kernels(&set);
                Err(e)
            }
        }
    }

    fn unload(&self, kernels: KernelSet) {
        if let Some(set) = self.kernels.take(kernels.0) {
            self.stop(&set);
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
