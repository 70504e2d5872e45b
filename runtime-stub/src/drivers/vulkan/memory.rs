//! Buffers: one `VkBuffer` with memory of its own for each allocation, mapped where the host can reach it.

use super::{device::VulkanDevice, failed};
use crate::error::{Error, Result};
use ash::vk;
use std::{ptr::NonNull, sync::Arc};

/// Who reaches a buffer, which decides the kind of its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Kernels; the host too where memory is unified.
    Device,
    /// The host writes, copies read.
    Up,
    /// Copies write, the host reads.
    Down,
}

impl Reach {
    /// Flags that memory must have, and those it should have, most wanted first.
    fn flags(self, unified: bool) -> (vk::MemoryPropertyFlags, [vk::MemoryPropertyFlags; 2]) {
        use vk::MemoryPropertyFlags as F;
        let host = F::HOST_VISIBLE | F::HOST_COHERENT;
        match self {
            Reach::Device if unified => (host, [F::HOST_CACHED, F::DEVICE_LOCAL]),
            Reach::Device => (F::DEVICE_LOCAL, [F::empty(); 2]),
            Reach::Up => (host, [F::empty(); 2]),
            Reach::Down => (host, [F::HOST_CACHED; 2]),
        }
    }
}

pub(super) struct Buffer {
    pub raw: vk::Buffer,
    memory: vk::DeviceMemory,
    /// Of the whole buffer, if the host can reach it.
    pub mapped: Option<NonNull<u8>>,
    pub bytes: u64,
}
// Safety: the pointer is to memory that stays mapped until `destroy`; who may use it when is up to the owner.
unsafe impl Send for Buffer {}
// Safety: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub fn new(d: &VulkanDevice, bytes: u64, reach: Reach, what: &str) -> Result<Self> {
        let name = &d.name;
        let too_large = |most: u64| {
            let why = format!("{what} takes {bytes} bytes, and an allocation has at most {most}");
            Error::Unsupported { device: name.clone(), why }
        };
        if bytes > d.properties.max_buffer {
            return Err(too_large(d.properties.max_buffer));
        }
        // More than a driver promises of one allocation is asked for all the same: many give it.
        let promised = d.properties.max_allocation;
        let exhausted = |call| {
            move |code| match code {
                vk::Result::ERROR_OUT_OF_DEVICE_MEMORY if bytes > promised => too_large(promised),
                vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY => {
                    Error::OutOfMemory { device: name.clone(), what: what.into(), bytes }
                }
                _ => failed(name, call)(code),
            }
        };
        let mut usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST;
        let mut flags = vk::MemoryAllocateFlagsInfo::default();
        if d.addresses {
            usage |= vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
            flags.flags = vk::MemoryAllocateFlags::DEVICE_ADDRESS;
        }
        // Vectors at the end of a buffer whose length is odd stay within it.
        let info = vk::BufferCreateInfo::default().size(bytes.next_multiple_of(16)).usage(usage);
        // Safety: the device is alive, the structures live through the calls, and each failure destroys what was made.
        unsafe {
            let raw = d.raw.create_buffer(&info, None).map_err(exhausted("vkCreateBuffer"))?;
            let needs = d.raw.get_buffer_memory_requirements(raw);
            let memory = d
                .memory_type(needs.memory_type_bits, reach.flags(d.unified))
                .ok_or_else(|| Error::Unsupported { device: name.clone(), why: format!("it has no memory for {what}") })
                .and_then(|index| {
                    let info = vk::MemoryAllocateInfo::default()
                        .allocation_size(needs.size)
                        .memory_type_index(index)
                        .push_next(&mut flags);
                    d.raw.allocate_memory(&info, None).map_err(exhausted("vkAllocateMemory"))
                });
            let memory = match memory {
                Ok(m) => m,
                Err(e) => {
                    d.raw.destroy_buffer(raw, None);
                    return Err(e);
                }
            };
            let mut buffer = Buffer { raw, memory, mapped: None, bytes };
            match buffer.bind(d, reach) {
                Ok(()) => Ok(buffer),
                Err(code) => {
                    buffer.destroy(d);
                    Err(exhausted("vkMapMemory")(code))
                }
            }
        }
    }

    /// Safety: memory and buffer are new and of one device.
    unsafe fn bind(&mut self, d: &VulkanDevice, reach: Reach) -> Result<(), vk::Result> {
        // Safety: as the caller promises.
        unsafe {
            d.raw.bind_buffer_memory(self.raw, self.memory, 0)?;
            if reach != Reach::Device || d.unified {
                let at = d.raw.map_memory(self.memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty())?;
                self.mapped = NonNull::new(at.cast());
            }
        }
        Ok(())
    }

    /// Host memory of `[offset, offset + bytes)`.
    pub fn at(&self, offset: u64, bytes: u64) -> Option<NonNull<u8>> {
        debug_assert!(offset + bytes <= self.bytes);
        // Safety: within the mapped range.
        self.mapped.map(|p| unsafe { p.add(offset as usize) })
    }

    /// Once, when the device no longer uses it.
    pub fn destroy(&self, d: &VulkanDevice) {
        // Safety: as the caller promises; unmapping is implied.
        unsafe {
            d.raw.destroy_buffer(self.raw, None);
            d.raw.free_memory(self.memory, None);
        }
    }
}

/// A mapped buffer that goes with its owner.
pub(super) struct Staging {
    device: Arc<VulkanDevice>,
    pub buffer: Buffer,
}
impl Staging {
    pub fn new(device: &Arc<VulkanDevice>, bytes: u64, reach: Reach, what: &str) -> Result<Self> {
        Ok(Staging { buffer: Buffer::new(device, bytes, reach, what)?, device: device.clone() })
    }
}
impl Drop for Staging {
    fn drop(&mut self) {
        self.buffer.destroy(&self.device);
    }
}
