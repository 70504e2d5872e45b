//! Uploads of one thread: straight into memory that the host reaches, else through staging memory and commands of its own.

use super::{
    device::VulkanDevice,
    memory::{Reach, Staging},
};
use crate::{
    drivers::{Lane, Region},
    error::{Error, Result},
};
use ash::vk;
use std::{ptr::NonNull, sync::Arc};

pub(super) struct VulkanLane {
    device: Arc<VulkanDevice>,
    /// What the caller fills. Staging memory may be slow to read, and weights are hashed where they lie.
    host: Vec<u8>,
    /// For the first region that needs it.
    staged: Option<Staged>,
}

struct Staged {
    device: Arc<VulkanDevice>,
    pool: vk::CommandPool,
    commands: vk::CommandBuffer,
    fence: vk::Fence,
    staging: Staging,
    /// Recorded and not handed to the queue.
    open: bool,
    /// Handed to the queue and not waited for.
    busy: bool,
}

impl VulkanLane {
    pub fn new(device: &Arc<VulkanDevice>, bytes: usize) -> Self {
        VulkanLane { device: device.clone(), host: vec![0; bytes], staged: None }
    }
}

impl Lane for VulkanLane {
    fn memory(&mut self) -> &mut [u8] {
        &mut self.host
    }

    fn send(&mut self, at: usize, to: Region) -> Result<()> {
        let Some(memory) = to.memory else { return Ok(()) };
        let from = NonNull::from(&self.host[at..at + to.bytes as usize]).cast();
        let buffer = self.device.buffer(memory);
        if let Some(mapped) = buffer.at(to.offset, to.bytes) {
            // Safety: both have as many bytes; programs that use the buffer run to their end before they return.
            unsafe { mapped.copy_from_nonoverlapping(from, to.bytes as usize) };
            return Ok(());
        }
        let staged = match &mut self.staged {
            Some(s) => s,
            None => self.staged.insert(Staged::new(&self.device, self.host.len() as u64)?),
        };
        let Some(host) = staged.staging.buffer.at(at as u64, to.bytes) else {
            return Err(Error::Bug("staging memory is not mapped".into()));
        };
        // Safety: within the staging buffer; what was copied from there before was waited for.
        unsafe { host.copy_from_nonoverlapping(from, to.bytes as usize) };
        staged.open()?;
        let copy = [vk::BufferCopy::default().src_offset(at as u64).dst_offset(to.offset).size(to.bytes)];
        // Safety: both ranges are within their buffers, and the commands are being recorded.
        unsafe { self.device.raw.cmd_copy_buffer(staged.commands, staged.staging.buffer.raw, buffer.raw, &copy) };
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.staged.as_mut().map_or(Ok(()), Staged::submit)
    }

    fn wait(&mut self) -> Result<()> {
        self.staged.as_mut().map_or(Ok(()), Staged::wait)
    }
}

impl Staged {
    fn new(device: &Arc<VulkanDevice>, bytes: u64) -> Result<Self> {
        let mut staged = Staged {
            device: device.clone(),
            pool: vk::CommandPool::null(),
            commands: vk::CommandBuffer::null(),
            fence: vk::Fence::null(),
            staging: Staging::new(device, bytes, Reach::Up, "uploads")?,
            open: false,
            busy: false,
        };
        let (raw, failed) = (&device.raw, |call| device.failed(call));
        // Safety: the device is alive; what a failure leaves goes with `staged`.
        unsafe {
            let info = vk::CommandPoolCreateInfo::default()
                .queue_family_index(device.family)
                .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
            staged.pool = raw.create_command_pool(&info, None).map_err(failed("vkCreateCommandPool"))?;
            let info = vk::CommandBufferAllocateInfo::default().command_pool(staged.pool).command_buffer_count(1);
            staged.commands = raw.allocate_command_buffers(&info).map_err(failed("vkAllocateCommandBuffers"))?[0];
            let info = vk::FenceCreateInfo::default();
            staged.fence = raw.create_fence(&info, None).map_err(failed("vkCreateFence"))?;
        }
        Ok(staged)
    }

    /// Begins to record, unless it does already.
    fn open(&mut self) -> Result<()> {
        if !self.open {
            let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
            // Safety: the last submit of these commands was waited for.
            let begun = unsafe { self.device.raw.begin_command_buffer(self.commands, &begin) };
            begun.map_err(self.device.failed("vkBeginCommandBuffer"))?;
            self.open = true;
        }
        Ok(())
    }

    fn submit(&mut self) -> Result<()> {
        if std::mem::take(&mut self.open) {
            // Safety: they are being recorded.
            let ended = unsafe { self.device.raw.end_command_buffer(self.commands) };
            ended.map_err(self.device.failed("vkEndCommandBuffer"))?;
            self.device.submit(&[self.commands], Some(self.fence))?;
            self.busy = true;
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        if std::mem::take(&mut self.busy) { self.device.wait(self.fence, None) } else { Ok(()) }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // A lost device copies nothing any more.
        let _ = self.wait();
        // Safety: nothing of it is in use; null handles are ignored.
        unsafe {
            self.device.raw.destroy_fence(self.fence, None);
            self.device.raw.destroy_command_pool(self.pool, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cache::Cache,
        counters::Tally,
        drivers::{Driver, Job, vulkan::Vulkan},
        spans::Spans,
    };
    use zml_format::{Artifact, Manifest, Model, Profile, Requires, Writer};

    /// A device whose memory the host is taken not to reach.
    fn device() -> Option<Arc<VulkanDevice>> {
        let vulkan = Vulkan::open(&Spans::default()).map_err(|u| eprintln!("skipped: {}", u.cause)).ok()?;
        let requires = Requires { api: "1.2".into(), ..Requires::default() };
        Some(vulkan.open_as(0, &requires, false).unwrap())
    }

    /// What a device has at a region, by a program without steps.
    fn read(device: &Arc<VulkanDevice>, region: Region) -> Vec<u8> {
        let (requires, target, name) = (Requires::default(), "vulkan".into(), "test".into());
        let profile = Profile { target, name, requires, native: None, kernels: vec![], programs: vec![] };
        let manifest = Manifest {
            producer: "test".into(),
            model: Model { name: "m".into(), version: "1".into() },
            sources: None,
            weights: vec![],
            state: vec![],
            entries: vec![],
            profiles: vec![],
            blobs: vec![],
        };
        let artifact = Artifact::from_bytes(Writer::new().finish(manifest)).unwrap();
        let kernels = device.clone().load(&profile, &artifact, &Arc::new(Cache::of(None))).unwrap();
        let job = Job {
            kernels,
            profile: &profile,
            steps: &[],
            buffers: &[],
            inputs: &[],
            outputs: &[region],
            tally: &Arc::new(Tally::default()),
            timed: false,
        };
        let mut program = device.clone().build(&job).unwrap();
        program.run(1, None).unwrap();
        let bytes = program.read(0).to_vec();
        drop(program);
        device.unload(kernels);
        bytes
    }

    #[test]
    fn bytes_arrive_through_staging() {
        let Some(device) = device() else { return };
        let memory = device.allocate(4096, "the test").unwrap();
        let region = |offset, bytes| Region { memory: Some(memory), offset, bytes };
        device.clear(&[region(0, 2048), region(2048, 2048)]).unwrap();
        let mut lane = VulkanLane::new(&device, 256);
        let mut expected = vec![0; 4096];
        // Filled three times over, in two pieces each.
        for turn in 0..3u8 {
            lane.wait().unwrap();
            for (at, n) in [(0, 100), (128, 128)] {
                let value: Vec<u8> = (0..n).map(|i| i as u8 ^ (turn * 50 + at as u8)).collect();
                lane.memory()[at..at + n].copy_from_slice(&value);
                let offset = usize::from(turn) * 1024 + at * 2;
                lane.send(at, region(offset as u64, n as u64)).unwrap();
                expected[offset..offset + n].copy_from_slice(&value);
            }
            lane.flush().unwrap();
        }
        lane.wait().unwrap();
        assert!(lane.staged.is_some(), "the memory is not mapped");
        assert!(read(&device, region(0, 4096)) == expected);
        // What is under way when a lane goes has arrived.
        lane.memory().fill(7);
        lane.send(0, region(0, 256)).unwrap();
        lane.flush().unwrap();
        drop(lane);
        assert!(read(&device, region(0, 256)) == [7; 256]);
        device.free(memory);
    }
}
