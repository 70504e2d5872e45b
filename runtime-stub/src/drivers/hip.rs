//! ROCm through HIP: libamdhip64.so, opened at run time.

use super::{
    Driver, Platform, Unavailable,
    stream::{
        Failed, StreamDevice, Vendor,
        api::{Api, Code, Events, Flavor, Function, Module, Opened, Source},
        check,
    },
};
use crate::{
    cache::Cache,
    device::{Backend, DeviceInfo, DeviceKind},
    error::Result,
    spans::Spans,
};
use std::{
    ffi::{CStr, c_char, c_void},
    sync::{Arc, OnceLock},
};
use zml_format::Requires;

const SOURCE: Source = Source {
    flavor: Flavor::Hip,
    variable: "ZML_LIBAMDHIP64",
    library: "libamdhip64.so",
    install: "install ROCm's HIP runtime (in a container: pass /dev/kfd and /dev/dri, and have libamdhip64 in the image)",
    update: "update ROCm to 6.0 or newer",
};

/// The functions that CUDA has in another form.
struct Own {
    set_device: unsafe extern "C" fn(i32) -> Code,
    properties: unsafe extern "C" fn(*mut c_void, i32) -> Code,
    module_load: unsafe extern "C" fn(*mut Module, *const c_void) -> Code,
    error_name: unsafe extern "C" fn(Code) -> *const c_char,
    error_text: unsafe extern "C" fn(Code) -> *const c_char,
}

struct Library {
    opened: Opened,
    own: Own,
}

fn library() -> Result<&'static Library, Unavailable> {
    static LIBRARY: OnceLock<Result<Library, Unavailable>> = OnceLock::new();
    LIBRARY.get_or_init(load).as_ref().map_err(Clone::clone)
}

fn load() -> Result<Library, Unavailable> {
    let opened = SOURCE.open()?;
    macro_rules! get {
        ($name:literal) => {
            // Safety: the library is libamdhip64, which declares the function so.
            *unsafe { opened.library.get($name.as_bytes()) }.map_err(|_| SOURCE.too_old($name))?
        };
    }
    let own = Own {
        set_device: get!("hipSetDevice"),
        properties: get!("hipGetDevicePropertiesR0600"),
        module_load: get!("hipModuleLoadData"),
        error_name: get!("hipGetErrorName"),
        error_text: get!("hipGetErrorString"),
    };
    Ok(Library { opened, own })
}

impl Library {
    fn describe(&self, code: Code) -> String {
        let text = |f: unsafe extern "C" fn(Code) -> *const c_char| {
            // Safety: the texts are constants of the library.
            unsafe {
                let at = f(code);
                (!at.is_null()).then(|| CStr::from_ptr(at).to_string_lossy())
            }
        };
        match (text(self.own.error_name), text(self.own.error_text)) {
            (Some(name), Some(text)) => format!("{name}: {text}"),
            _ => format!("error {code}"),
        }
    }
}

/// More than `hipDeviceProp_t` has in any version.
const PROPERTIES: usize = 8 << 10;

/// The chip's name in the properties, `gfx942`, without its settings (`:sramecc+`).
///
/// Its place differs between versions of the structure, and nothing else there begins so: the text is looked for.
fn chip_name(properties: &[u8]) -> Option<String> {
    let at = properties.windows(4).position(|w| &w[..3] == b"gfx" && w[3].is_ascii_digit())?;
    let name = properties[at..].iter().take_while(|b| b.is_ascii_alphanumeric());
    Some(name.map(|b| char::from(*b)).collect())
}

/// `6.2` of what `hipDriverGetVersion` counts.
fn version_text(version: i32) -> String {
    format!("{}.{}", version / 10_000_000, version / 100_000 % 100)
}

/// The first version of HIP that loads code objects of a version; files before format version 5 do not say which they have.
fn least_hip(code_object: &str) -> Option<i32> {
    match code_object {
        "" => Some(0),
        "4" => Some(40_100_000),
        "5" => Some(50_200_000),
        _ => None,
    }
}

pub(crate) struct Hip {
    library: &'static Library,
    /// As `hipDriverGetVersion` counts: 60_200_000 and a patch is 6.2.
    version: i32,
    devices: Vec<DeviceInfo>,
}

impl Hip {
    pub fn open(spans: &Spans) -> Result<Self, Unavailable> {
        let library = spans.time("open libamdhip64", library)?;
        let api = &library.opened.api;
        let mut version = 0;
        let mut count = 0;
        // Safety: each value is written before it is read.
        let counted = unsafe {
            (spans.time("hipInit", || api.init.with(|f| f(0))))
                .and_then(|()| api.driver_version.with(|f| f(&raw mut version)))
                .and_then(|()| api.device_count.with(|f| f(&raw mut count)))
        };
        let no_gpu = |cause| Unavailable {
            cause,
            remedy: "see that rocminfo lists a GPU and that this user may open /dev/kfd (group render)".into(),
        };
        counted.map_err(|f| no_gpu(format!("{} failed: {}", f.call, library.describe(f.code))))?;
        if count == 0 {
            return Err(no_gpu("the driver lists no GPU".into()));
        }
        let mut hip = Hip { library, version, devices: vec![] };
        for i in 0..count {
            hip.add(i).map_err(|f| no_gpu(format!("{} failed: {}", f.call, library.describe(f.code))))?;
        }
        Ok(hip)
    }

    fn add(&mut self, index: i32) -> Result<(), Failed> {
        let api = &self.library.opened.api;
        let (mut device, mut name, mut memory) = (0, [0 as c_char; 256], 0usize);
        let mut properties = vec![0u64; PROPERTIES / 8];
        // Safety: each value is written before it is read; the properties have room for any version of the structure.
        let name = unsafe {
            api.device_get.with(|f| f(&raw mut device, index))?;
            api.device_name.with(|f| f(name.as_mut_ptr(), name.len() as i32 - 1, device))?;
            api.device_memory.with(|f| f(&raw mut memory, device))?;
            let code = (self.library.own.properties)(properties.as_mut_ptr().cast(), index);
            check("hipGetDevicePropertiesR0600", code)?;
            CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
        };
        let properties: Vec<u8> = properties.iter().flat_map(|w| w.to_ne_bytes()).collect();
        self.devices.push(DeviceInfo {
            backend: Backend::Rocm,
            index: index as usize,
            name,
            kind: DeviceKind::DiscreteGpu,
            arch: chip_name(&properties).unwrap_or_default(),
            driver: format!("HIP {}", version_text(self.version)),
            memory: memory as u64,
            bandwidth: None,
        });
        Ok(())
    }
}

impl Platform for Hip {
    fn devices(&self) -> &[DeviceInfo] {
        &self.devices
    }

    fn unmet(&self, i: usize, requires: &Requires) -> Vec<String> {
        let arch = &self.devices[i].arch;
        let mut unmet = vec![];
        if *arch != requires.arch {
            unmet.push(format!("it is {arch}, and this is for {}", requires.arch));
        }
        match least_hip(&requires.api) {
            Some(least) if self.version >= least => {}
            Some(least) => unmet.push(format!(
                "its driver has HIP {}, and {} is needed for code objects of version {}",
                version_text(self.version),
                version_text(least),
                requires.api
            )),
            None => unmet.push(format!("code objects of version {} are unknown to this runtime", requires.api)),
        }
        let more = requires.features.iter().chain(requires.limits.iter().map(|l| &l.0));
        unmet.extend(more.map(|name| format!("`{name}` is unknown to this runtime")));
        unmet
    }

    fn open(&self, i: usize, _: &Requires) -> Result<Arc<dyn Driver>> {
        let chip = Chip { library: self.library, device: i as i32 };
        Ok(StreamDevice::new(Box::new(chip), self.devices[i].to_string())?)
    }
}

/// One device.
struct Chip {
    library: &'static Library,
    device: i32,
}

impl Vendor for Chip {
    fn flavor(&self) -> Flavor {
        Flavor::Hip
    }

    fn api(&self) -> &Api {
        &self.library.opened.api
    }

    fn events(&self) -> Result<&Events, &'static str> {
        self.library.opened.events.as_ref().map_err(|f| *f)
    }

    fn bind(&self) -> Result<(), Failed> {
        // Safety: the device was counted.
        check("hipSetDevice", unsafe { (self.library.own.set_device)(self.device) })
    }

    /// HIP keeps its primary context.
    fn close(&self) {}

    fn load(&self, image: &[u8], _: &Cache) -> Result<Module, (Failed, String)> {
        let mut module = Module::NULL;
        // Safety: the image is an ELF file that knows its own length.
        let code = unsafe { (self.library.own.module_load)(&raw mut module, image.as_ptr().cast()) };
        check("hipModuleLoadData", code).map_err(|f| (f, String::new()))?;
        Ok(module)
    }

    /// Kernels may use all that there is.
    fn allow_shared(&self, _: Function, _: u32) -> Result<(), Failed> {
        Ok(())
    }

    fn describe(&self, code: Code) -> String {
        self.library.describe(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_objects_have_a_first_version_of_hip() {
        let least = |code_object| least_hip(code_object).map(version_text);
        assert_eq!((least("4").unwrap(), least("5").unwrap()), ("4.1".into(), "5.2".into()));
        assert_eq!((least_hip(""), least_hip("6"), least_hip("x")), (Some(0), None, None));
    }

    #[test]
    fn the_chip_is_found_anywhere_in_the_properties() {
        let mut p = b"AMD Instinct MI300X\0gfx".to_vec();
        assert_eq!(chip_name(&p), None);
        p.resize(1160, 0);
        p.extend(b"gfx942:sramecc+:xnack-\0\0\0");
        assert_eq!(chip_name(&p).unwrap(), "gfx942");
        assert_eq!(chip_name(b"gfx90a\0").unwrap(), "gfx90a");
    }
}
