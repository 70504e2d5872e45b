//! Kernels on a Vulkan device. Modules and layouts are made at once; pipelines, which are what takes time, by a few
//! threads that go on while the model loads and runs. A program waits for its own pipelines and no others.
//!
//! What the driver compiled is kept on disk for the same device, driver and artifact.

use super::{device::VulkanDevice, limits::Properties};
use crate::{
    cache::Cache,
    error::{Error, Result},
};
use ash::vk;
use std::{
    ffi::CString,
    num::NonZero,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};
use zml_format::{Artifact, Kernel, Profile};

/// Compiling takes all cores of a small machine, and leaves most of a large one alone.
const MOST_WORKERS: usize = 8;

/// Pipelines of one profile.
pub(super) struct Kernels {
    pub kernels: Vec<Loaded>,
    pub layouts: Vec<Layout>,
    modules: Vec<vk::ShaderModule>,
    kept: Kept,
    /// The kernel that the next idle worker takes.
    next: AtomicUsize,
    /// Kernels that no worker has done.
    left: AtomicUsize,
    stop: AtomicBool,
    workers: Mutex<Vec<JoinHandle<()>>>,
}

/// The driver's own cache, and where it comes from and goes to.
struct Kept {
    driver: vk::PipelineCache,
    cache: Arc<Cache>,
    key: String,
    /// That came from disk.
    bytes: usize,
}
const KIND: &str = "vulkan";

pub(super) struct Loaded {
    module: vk::ShaderModule,
    symbol: CString,
    label: String,
    /// Index into `Kernels::layouts`.
    pub layout: usize,
    pipeline: OnceLock<Result<vk::Pipeline, vk::Result>>,
}
/// Storage buffers that a kernel binds: those that it does not find by address, and the table of the addresses.
fn bindings(k: &Kernel) -> usize {
    k.buffers.len() - k.addresses.len() + usize::from(!k.addresses.is_empty())
}
/// Shared by kernels with equal numbers of bindings and scalars.
pub(super) struct Layout {
    bindings: usize,
    scalar_bytes: u32,
    pub set: vk::DescriptorSetLayout,
    pub pipeline: vk::PipelineLayout,
}

impl Kernels {
    /// Of a kernel that was waited for.
    pub fn pipeline(&self, i: usize) -> vk::Pipeline {
        self.kernels[i].pipeline.get().and_then(|p| p.ok()).expect("a program waits for its pipelines")
    }
}

impl VulkanDevice {
    /// Everything but the pipelines. What a failure leaves is in the set.
    pub(super) fn fill_set(&self, set: &mut Kernels, profile: &Profile, artifact: &Artifact) -> Result<()> {
        set.kept.driver = self.open_cache(&mut set.kept)?;
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
            let same = |l: &Layout| l.bindings == bindings(k) && l.scalar_bytes == k.scalar_bytes;
            let layout = match set.layouts.iter().position(same) {
                Some(l) => l,
                None => {
                    set.layouts.push(self.layout(k)?);
                    set.layouts.len() - 1
                }
            };
            let symbol = CString::new(k.symbol.as_str())
                .map_err(|_| Error::Bug(format!("kernel {:?} has a zero in its name", k.symbol)))?;
            let label = k.label.clone();
            set.kernels.push(Loaded { module, symbol, label, layout, pipeline: OnceLock::new() });
        }
        set.left = AtomicUsize::new(set.kernels.len());
        Ok(())
    }

    pub(super) fn new_set(&self, profile: &Profile, artifact: &Artifact, cache: &Arc<Cache>) -> Kernels {
        let key = key(&self.properties, &artifact.digest(), &profile.name);
        Kernels {
            kernels: vec![],
            layouts: vec![],
            modules: vec![],
            kept: Kept { driver: vk::PipelineCache::null(), cache: cache.clone(), key, bytes: 0 },
            next: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            workers: Mutex::default(),
        }
    }

    /// Lets threads make all pipelines of a set. They end by themselves, or in `stop`.
    pub(super) fn start(self: &Arc<Self>, set: &Arc<Kernels>) {
        let count = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_WORKERS).min(set.kernels.len());
        let mut workers = set.workers.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..count {
            let (device, set) = (self.clone(), set.clone());
            // Without a thread the programs make their pipelines themselves.
            workers.extend(thread::Builder::new().name("zml-kernels".into()).spawn(move || device.work(&set)));
        }
    }

    fn work(&self, set: &Kernels) {
        while !set.stop.load(Ordering::Relaxed) {
            let i = set.next.fetch_add(1, Ordering::Relaxed);
            let Some(k) = set.kernels.get(i) else { break };
            let _ = self.make(set, k);
            if set.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.keep(&set.kept);
            }
        }
    }

    /// Ends the threads of a set, each with the pipeline that it is at.
    pub(super) fn stop(&self, set: &Kernels) {
        set.stop.store(true, Ordering::Relaxed);
        let workers = std::mem::take(&mut *set.workers.lock().unwrap_or_else(PoisonError::into_inner));
        for w in workers {
            let _ = w.join();
        }
        if set.left.load(Ordering::Acquire) > 0 {
            self.keep(&set.kept);
        }
    }

    /// Returns when these kernels have their pipelines.
    pub(super) fn finish(&self, set: &Kernels, kernels: impl IntoIterator<Item = usize>) -> Result<()> {
        kernels.into_iter().try_for_each(|i| {
            let made = self.make(set, &set.kernels[i]);
            made.map(|_| ()).map_err(self.failed("vkCreateComputePipelines"))
        })
    }

    /// The pipeline of a kernel, which another thread may be at: then it is waited for.
    fn make(&self, set: &Kernels, k: &Loaded) -> Result<vk::Pipeline, vk::Result> {
        *k.pipeline.get_or_init(|| {
            let mut subgroup = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default();
            let mut stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(k.module)
                .name(&k.symbol);
            if let Some(size) = self.subgroup {
                subgroup.required_subgroup_size = size;
                stage = stage.push_next(&mut subgroup);
            }
            let layout = set.layouts[k.layout].pipeline;
            let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout)];
            // Safety: all handles are of this device; the driver's cache takes care of threads itself.
            let made = unsafe { self.raw.create_compute_pipelines(set.kept.driver, &info, None) };
            let pipeline = made.map_err(|(_, code)| code)?[0];
            self.label(pipeline, &k.label);
            Ok(pipeline)
        })
    }

    fn open_cache(&self, kept: &mut Kept) -> Result<vk::PipelineCache> {
        let mut data = vec![];
        if let Some(found) = kept.cache.read(KIND, &kept.key) {
            if is_for(&self.properties, &found) {
                data = found;
            } else {
                kept.cache.note("the pipelines are ignored: they are of another device or driver");
            }
        }
        kept.bytes = data.len();
        let info = vk::PipelineCacheCreateInfo::default().initial_data(&data);
        // Safety: the driver judges the data, whose digest holds.
        unsafe { self.raw.create_pipeline_cache(&info, None).map_err(self.failed("vkCreatePipelineCache")) }
    }

    /// Writes what the driver compiled, if there is more of it than there was.
    fn keep(&self, kept: &Kept) {
        if !kept.cache.is_on() {
            return;
        }
        // Safety: the handle is this device's.
        match unsafe { self.raw.get_pipeline_cache_data(kept.driver) } {
            Ok(data) if data.len() > kept.bytes => kept.cache.write(KIND, &kept.key, &data),
            Ok(_) => {}
            Err(code) => kept.cache.note(&format!("the driver does not give its pipelines: {code:?}")),
        }
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
        if !k.addresses.is_empty() && !self.addresses {
            let what = "finds buffers by address, and its profile does not require bufferDeviceAddress";
            return Err(self.unsupported(format!("kernel {} {what}", k.symbol)));
        }
        let bindings: Vec<_> = (0..bindings(k))
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
            let why = format!("kernel {} binds {} buffers, and it binds at most {most}", k.symbol, bindings.len());
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
                Ok(pipeline) => Ok(Layout { bindings: bindings.len(), scalar_bytes: k.scalar_bytes, set, pipeline }),
                Err(code) => {
                    self.raw.destroy_descriptor_set_layout(set, None);
                    Err(self.failed("vkCreatePipelineLayout")(code))
                }
            }
        }
    }

    /// Names an object in traces; without the extension nothing.
    fn label<H: vk::Handle>(&self, object: H, label: &str) {
        if let (Some(debug), Ok(label)) = (&self.debug, CString::new(label)) {
            let info = vk::DebugUtilsObjectNameInfoEXT::default().object_handle(object).object_name(&label);
            // Safety: an object of this device. Names are for people: without one all works.
            let _ = unsafe { debug.set_debug_utils_object_name(&info) };
        }
    }

    /// Of a set that no thread works on.
    pub(super) fn destroy_kernels(&self, set: &Kernels) {
        // Safety: the caller has taken the set, and nothing that runs uses it; null handles are ignored.
        unsafe {
            let made = set.kernels.iter().filter_map(|k| k.pipeline.get()?.ok());
            made.for_each(|p| self.raw.destroy_pipeline(p, None));
            self.raw.destroy_pipeline_cache(set.kept.driver, None);
            for l in &set.layouts {
                self.raw.destroy_pipeline_layout(l.pipeline, None);
                self.raw.destroy_descriptor_set_layout(l.set, None);
            }
            set.modules.iter().for_each(|m| self.raw.destroy_shader_module(*m, None));
        }
    }
}

/// Everything that decides what a driver compiles.
fn key(p: &Properties, artifact: &str, profile: &str) -> String {
    let base = &p.base;
    let id = |uuid: &[u8]| uuid.iter().map(|b| format!("{b:02x}")).collect::<String>();
    format!(
        "vendor {:#x} device {:#x} driver {:#x} pipelines {} artifact {artifact} profile {profile}",
        base.vendor_id,
        base.device_id,
        base.driver_version,
        id(&base.pipeline_cache_uuid)
    )
}

/// Whether the header of a pipeline cache's data, `VkPipelineCacheHeaderVersionOne`, is of this device and driver.
fn is_for(p: &Properties, data: &[u8]) -> bool {
    const HEADER: usize = 32;
    let Some(header) = data.first_chunk::<HEADER>() else { return false };
    let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|k| header[at + k]));
    let length = word(0) as usize;
    (HEADER..=data.len()).contains(&length)
        && word(4) == vk::PipelineCacheHeaderVersion::ONE.as_raw() as u32
        && (word(8), word(12)) == (p.base.vendor_id, p.base.device_id)
        && header[16..] == p.base.pipeline_cache_uuid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipelines_of_another_device_are_not_taken() {
        let mut p = Properties::default();
        p.base.vendor_id = 0x10de;
        p.base.device_id = 0x2335;
        p.base.pipeline_cache_uuid = std::array::from_fn(|i| i as u8);
        let mut data = [32u32, 1, 0x10de, 0x2335].map(u32::to_le_bytes).concat();
        data.extend(0..16u8);
        data.extend(b"what the driver made");
        assert!(is_for(&p, &data) && is_for(&p, &data[..32]));
        assert!(!is_for(&p, &data[..31]) && !is_for(&p, &[]));
        for i in 0..32 {
            let mut other = data.clone();
            other[i] ^= 0x80;
            assert!(!is_for(&p, &other), "byte {i}");
        }
        let one = key(&p, "digest", "vulkan1.3");
        assert_eq!(
            one,
            "vendor 0x10de device 0x2335 driver 0x0 pipelines 000102030405060708090a0b0c0d0e0f artifact digest profile \
             vulkan1.3"
        );
        p.base.driver_version = 1;
        assert_ne!(key(&p, "digest", "vulkan1.3"), one);
    }
}
