//! Vulkan: the loader, opened at run time, and the devices that it lists.

mod device;
mod features;
mod kernels;
mod lane;
mod limits;
mod memory;
mod program;
mod timer;

use super::{Driver, Platform, Unavailable};
use crate::{
    device::{Backend, DeviceInfo, DeviceKind},
    error::{Error, Result},
    spans::Spans,
};
use ash::vk;
use features::Chain;
use limits::Properties;
use std::{
    collections::BTreeSet,
    ffi::{CStr, CString, OsString},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};
use zml_format::Requires;

/// Names the loader to open instead of the system's.
pub(crate) const LIBRARY_VARIABLE: &str = "ZML_LIBVULKAN";
const LIBRARY: &str = "libvulkan.so.1";

/// What a call into Vulkan returned, as an error of the runtime.
fn failed(device: &str, call: &'static str) -> impl FnOnce(vk::Result) -> Error {
    move |code| match code {
        vk::Result::ERROR_DEVICE_LOST => Error::DeviceLost { device: device.into(), call, code: format!("{code:?}") },
        _ => Error::Driver { device: device.into(), call, code: format!("{code:?}"), log: String::new() },
    }
}

/// The one instance of the process. It is never destroyed, nor the loader unloaded: drivers leave threads and handlers
/// behind, and one at least (NVIDIA 580) hangs when several threads make and destroy instances.
struct Instance {
    raw: ash::Instance,
    /// Names for kernels in traces, where the loader carries them.
    debug: bool,
}

/// Held while a device is made or destroyed, for the same reason.
static DEVICES: Mutex<()> = Mutex::new(());

fn one_at_a_time() -> MutexGuard<'static, ()> {
    DEVICES.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Physical {
    raw: vk::PhysicalDevice,
    properties: Properties,
    extensions: BTreeSet<String>,
    features: BTreeSet<&'static str>,
}

pub(crate) struct Vulkan {
    instance: &'static Instance,
    physical: Vec<Physical>,
    devices: Vec<DeviceInfo>,
}

/// No device through the loader.
fn none(cause: String) -> Unavailable {
    let remedy = "install the GPU's Vulkan driver (NVIDIA containers: NVIDIA_DRIVER_CAPABILITIES=compute,graphics, and libX11 and libXext in the image; AMD, Intel \
                  and software: mesa-vulkan-drivers), or name its ICD file in VK_DRIVER_FILES";
    Unavailable { cause, remedy: remedy.into() }
}

fn instance() -> Result<&'static Instance, Unavailable> {
    static INSTANCE: OnceLock<Result<Instance, Unavailable>> = OnceLock::new();
    INSTANCE.get_or_init(create_instance).as_ref().map_err(Clone::clone)
}

fn create_instance() -> Result<Instance, Unavailable> {
    static LOADER: OnceLock<ash::Entry> = OnceLock::new();
    let name = std::env::var_os(LIBRARY_VARIABLE).unwrap_or_else(|| OsString::from(LIBRARY));
    // Safety: the library is the Vulkan loader by its name, or what the user named in its stead.
    let entry = unsafe { ash::Entry::load_from(&name) }.map_err(|e| Unavailable {
        cause: format!("no Vulkan loader ({e})"),
        remedy: "install libvulkan1 (Debian, Ubuntu) or vulkan-loader (Fedora)".into(),
    })?;
    let entry = LOADER.get_or_init(|| entry);
    // Safety: plain queries and creations, with structures that live through the calls.
    unsafe {
        let api = entry.try_enumerate_instance_version().ok().flatten().unwrap_or(vk::API_VERSION_1_0);
        if api < vk::API_VERSION_1_2 {
            return Err(none(format!("the Vulkan loader is of version {}, too old for 1.2", version(api))));
        }
        let extensions = entry.enumerate_instance_extension_properties(None).unwrap_or_default();
        let debug = extensions.iter().any(|e| e.extension_name_as_c_str() == Ok(ash::ext::debug_utils::NAME));
        let names: &[_] = if debug { &[ash::ext::debug_utils::NAME.as_ptr()] } else { &[] };
        let application = vk::ApplicationInfo::default().application_name(c"zml").engine_name(c"zml").api_version(api);
        let info = vk::InstanceCreateInfo::default().application_info(&application).enabled_extension_names(names);
        let raw = entry.create_instance(&info, None).map_err(|code| {
            none(match code {
                vk::Result::ERROR_INCOMPATIBLE_DRIVER => "the Vulkan loader found no driver".into(),
                _ => format!("the Vulkan loader failed: {code:?}"),
            })
        })?;
        Ok(Instance { raw, debug })
    }
}

impl Vulkan {
    pub fn open(spans: &Spans) -> Result<Self, Unavailable> {
        let instance = spans.time("vkCreateInstance", instance)?;
        // Safety: the instance is alive.
        let listed = spans.time("list devices", || unsafe { instance.raw.enumerate_physical_devices() });
        let handles = listed.map_err(|code| {
            none(match code {
                vk::Result::ERROR_INITIALIZATION_FAILED => "no Vulkan driver found a device".into(),
                _ => format!("Vulkan lists no devices: {code:?}"),
            })
        })?;
        if handles.is_empty() {
            return Err(none("no Vulkan driver found a device".into()));
        }
        // Safety: the handles are of this instance.
        unsafe {
            let physical: Vec<_> = handles.iter().map(|h| Physical::of(&instance.raw, *h)).collect();
            let devices = physical.iter().enumerate().map(|(i, p)| p.info(&instance.raw, i)).collect();
            Ok(Vulkan { instance, physical, devices })
        }
    }
}

impl Physical {
    /// Safety: `raw` is of `instance`.
    unsafe fn of(instance: &ash::Instance, raw: vk::PhysicalDevice) -> Self {
        let properties = Properties::of(instance, raw);
        // Safety: as the caller promises.
        let extensions = unsafe { instance.enumerate_device_extension_properties(raw) }.unwrap_or_default();
        let extensions = extensions.iter().filter_map(|e| e.extension_name_as_c_str().ok());
        let extensions = extensions.map(|e| e.to_string_lossy().into_owned()).collect();
        let features = Chain::of(instance, raw, properties.base.api_version, &extensions);
        Physical { raw, properties, extensions, features }
    }

    /// Safety: as for `of`.
    unsafe fn info(&self, instance: &ash::Instance, index: usize) -> DeviceInfo {
        let base = &self.properties.base;
        let text = |s: Result<&CStr, _>| s.map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        // Safety: as the caller promises.
        let memory = unsafe { instance.get_physical_device_memory_properties(self.raw) };
        let heaps = &memory.memory_heaps_as_slice();
        let own = heaps.iter().filter(|h| h.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
        let driver = self.properties.driver.map(|d| {
            let (name, info) = (text(d.driver_name_as_c_str()), text(d.driver_info_as_c_str()));
            format!("{name} {info}").trim().to_owned()
        });
        DeviceInfo {
            backend: Backend::Vulkan,
            index,
            name: text(base.device_name_as_c_str()),
            kind: match base.device_type {
                vk::PhysicalDeviceType::DISCRETE_GPU => DeviceKind::DiscreteGpu,
                vk::PhysicalDeviceType::INTEGRATED_GPU => DeviceKind::IntegratedGpu,
                vk::PhysicalDeviceType::VIRTUAL_GPU => DeviceKind::VirtualGpu,
                vk::PhysicalDeviceType::CPU => DeviceKind::Software,
                _ => DeviceKind::Other,
            },
            arch: version(base.api_version),
            driver: driver.unwrap_or_default(),
            memory: own.map(|h| h.size).sum(),
            bandwidth: None,
        }
    }
}

fn version(api: u32) -> String {
    format!("{}.{}", vk::api_version_major(api), vk::api_version_minor(api))
}

/// `1.3` as Vulkan counts.
fn parse_version(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once('.')?;
    Some(vk::make_api_version(0, major.parse().ok()?, minor.parse().ok()?, 0))
}

impl Platform for Vulkan {
    fn devices(&self) -> &[DeviceInfo] {
        &self.devices
    }

    fn unmet(&self, i: usize, requires: &Requires) -> Vec<String> {
        let d = &self.physical[i];
        let api = d.properties.base.api_version;
        let mut unmet = vec![];
        match parse_version(&requires.api) {
            Some(least) if api >= least.max(vk::API_VERSION_1_2) => {}
            Some(least) => unmet.push(format!(
                "its driver has Vulkan {}, and {} is needed: update it",
                version(api),
                version(least.max(vk::API_VERSION_1_2))
            )),
            None => unmet.push(format!("the Vulkan version `{}` is unknown to this runtime", requires.api)),
        }
        for f in &requires.features {
            if f.starts_with("VK_") {
                if !d.extensions.contains(f) {
                    unmet.push(format!("it has no {f}"));
                }
            } else if !features::is_known(f) {
                unmet.push(format!("the feature `{f}` is unknown to this runtime"));
            } else if !d.features.contains(f.as_str()) {
                unmet.push(format!("it has no {f}"));
            }
        }
        unmet.extend(requires.limits.iter().filter_map(|(name, least)| d.properties.unmet(name, *least)));
        unmet
    }

    fn open(&self, i: usize, requires: &Requires) -> Result<Arc<dyn Driver>> {
        let unified = matches!(self.devices[i].kind, DeviceKind::IntegratedGpu | DeviceKind::Software);
        Ok(self.open_as(i, requires, unified)?)
    }
}

impl Vulkan {
    /// `unified`: the host reaches all of the device's memory at full speed.
    fn open_as(&self, i: usize, requires: &Requires, unified: bool) -> Result<Arc<device::VulkanDevice>> {
        let (d, info) = (&self.physical[i], &self.devices[i]);
        let name = info.to_string();
        let (extensions, features): (Vec<&str>, Vec<&str>) =
            requires.features.iter().map(String::as_str).partition(|f| f.starts_with("VK_"));
        let subgroup = requires.limits.iter().find(|l| l.0 == "subgroupSize").map(|l| l.1);
        let subgroup = subgroup.filter(|s| *s != u64::from(d.properties.subgroup_size)).map(|s| s as u32);
        let mut features = features;
        if subgroup.is_some() {
            features.push("subgroupSizeControl");
        }
        let chain = Chain::enabling(&features, d.properties.base.api_version, &d.extensions);
        let extensions: BTreeSet<&str> =
            extensions.into_iter().chain(features.iter().filter_map(|f| features::extension_of(f))).collect();
        let extensions: Vec<CString> = extensions.iter().filter_map(|e| CString::new(*e).ok()).collect();
        // Safety: handles of this instance, and structures that live through the calls.
        unsafe {
            let families = self.instance.raw.get_physical_device_queue_family_properties(d.raw);
            let family = families.iter().position(|f| f.queue_flags.contains(vk::QueueFlags::COMPUTE));
            let family = family.ok_or_else(|| Error::Unsupported {
                device: name.clone(),
                why: "it has no queue for compute work".into(),
            })? as u32;
            let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
            let names: Vec<_> = extensions.iter().map(|e| e.as_ptr()).collect();
            let mut create =
                vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_extension_names(&names);
            create.p_next = chain.head();
            let lock = one_at_a_time();
            let raw = self.instance.raw.create_device(d.raw, &create, None).map_err(failed(&name, "vkCreateDevice"))?;
            drop(lock);
            let addresses = features.contains(&"bufferDeviceAddress");
            let opened = device::Opened { physical: d.raw, raw, family, unified, subgroup, addresses };
            device::VulkanDevice::new(self.instance, opened, d.properties, name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_they_are_printed() {
        for v in ["1.2", "1.3", "1.4"] {
            assert_eq!(version(parse_version(v).unwrap()), v);
        }
        assert!(parse_version("1").is_none() && parse_version("").is_none() && parse_version("a.b").is_none());
    }
}
