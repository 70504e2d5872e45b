//! CUDA through the driver library alone: libcuda.so.1, opened at run time, on the device's primary context.

use super::{
    Driver, Platform, Unavailable,
    stream::{
        Failed, StreamDevice, Vendor,
        api::{Api, Code, Events, Flavor, Function, Launch, Module, Opened, Source, Stream},
        check,
    },
};
use crate::{
    cache::Cache,
    device::{Backend, DeviceInfo, DeviceKind},
    error::Result,
    spans::Spans,
};
use sha2::{Digest, Sha256};
use std::{
    ffi::{CStr, c_char, c_uint, c_void},
    ptr::{null, null_mut},
    sync::{Arc, OnceLock},
};
use zml_format::{Requires, cuda_version};

const SOURCE: Source = Source {
    flavor: Flavor::Cuda,
    variable: "ZML_LIBCUDA",
    library: "libcuda.so.1",
    install: "install the NVIDIA driver (in a container: run it with --gpus all or the nvidia runtime)",
    update: "update the NVIDIA driver to 535 or newer",
};

/// A context of the library.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Context(*mut c_void);
// Safety: contexts may be made current on any thread.
unsafe impl Send for Context {}
// Safety: as above.
unsafe impl Sync for Context {}

/// The driver's compiler, from PTX to a cubin. `CUlinkState`
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Linker(*mut c_void);

/// `CU_JIT_INPUT_PTX`
const INPUT_PTX: i32 = 1;

/// The functions that HIP has in another form.
struct Own {
    attribute: unsafe extern "C" fn(*mut i32, i32, i32) -> Code,
    context_retain: unsafe extern "C" fn(*mut Context, i32) -> Code,
    context_release: unsafe extern "C" fn(i32) -> Code,
    context_set: unsafe extern "C" fn(Context) -> Code,
    module_load: unsafe extern "C" fn(*mut Module, *const c_void, c_uint, *mut i32, *mut *mut c_void) -> Code,
    link_create: unsafe extern "C" fn(c_uint, *mut i32, *mut *mut c_void, *mut Linker) -> Code,
    link_add: LinkAdd,
    link_complete: unsafe extern "C" fn(Linker, *mut *mut c_void, *mut usize) -> Code,
    link_destroy: unsafe extern "C" fn(Linker) -> Code,
    function_attribute: unsafe extern "C" fn(Function, i32, i32) -> Code,
    /// Not in drivers before 11.8.
    launch: Option<unsafe extern "C" fn(*const LaunchConfig, Function, *mut *mut c_void, *mut *mut c_void) -> Code>,
    error_name: unsafe extern "C" fn(Code, *mut *const c_char) -> Code,
    error_text: unsafe extern "C" fn(Code, *mut *const c_char) -> Code,
}

/// State, kind of input, bytes and their number, name, options.
type LinkAdd =
    unsafe extern "C" fn(Linker, i32, *mut c_void, usize, *const c_char, c_uint, *mut i32, *mut *mut c_void) -> Code;

/// `CUlaunchAttribute`
#[repr(C)]
struct LaunchAttribute {
    id: i32,
    _pad: i32,
    value: i32,
    _rest: [i32; 15],
}
/// `CUlaunchConfig`
#[repr(C)]
struct LaunchConfig {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    stream: Stream,
    attributes: *mut LaunchAttribute,
    count: c_uint,
}
/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`
const PROGRAMMATIC_SERIALIZATION: i32 = 6;

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
            // Safety: the library is libcuda, which declares the function so.
            *unsafe { opened.library.get($name.as_bytes()) }.map_err(|_| SOURCE.too_old($name))?
        };
    }
    let own = Own {
        attribute: get!("cuDeviceGetAttribute"),
        context_retain: get!("cuDevicePrimaryCtxRetain"),
        context_release: get!("cuDevicePrimaryCtxRelease_v2"),
        context_set: get!("cuCtxSetCurrent"),
        module_load: get!("cuModuleLoadDataEx"),
        link_create: get!("cuLinkCreate_v2"),
        link_add: get!("cuLinkAddData_v2"),
        link_complete: get!("cuLinkComplete"),
        link_destroy: get!("cuLinkDestroy"),
        function_attribute: get!("cuFuncSetAttribute"),
        // Safety: as above.
        launch: unsafe { opened.library.get(b"cuLaunchKernelEx") }.ok().map(|f| *f),
        error_name: get!("cuGetErrorName"),
        error_text: get!("cuGetErrorString"),
    };
    Ok(Library { opened, own })
}

impl Library {
    fn describe(&self, code: Code) -> String {
        let text = |f: unsafe extern "C" fn(Code, *mut *const c_char) -> Code| {
            let mut at = null();
            // Safety: the texts are constants of the library.
            unsafe { (f(code, &raw mut at) == 0 && !at.is_null()).then(|| CStr::from_ptr(at).to_string_lossy()) }
        };
        match (text(self.own.error_name), text(self.own.error_text)) {
            (Some(name), Some(text)) => format!("{name}: {text}"),
            _ => format!("error {code}"),
        }
    }
}

/// `CU_DEVICE_ATTRIBUTE_...`
const INTEGRATED: i32 = 18;
/// In kHz.
const MEMORY_CLOCK: i32 = 36;
/// In bits.
const BUS_WIDTH: i32 = 37;
const CAPABILITY_MAJOR: i32 = 75;
const CAPABILITY_MINOR: i32 = 76;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`
const MAX_DYNAMIC_SHARED: i32 = 8;
/// What a kernel may use without asking.
const DEFAULT_SHARED: u32 = 48 << 10;

pub(crate) struct Cuda {
    library: &'static Library,
    /// As `cuDriverGetVersion` counts: 12080 is 12.8.
    version: i32,
    devices: Vec<DeviceInfo>,
    capabilities: Vec<(u32, u32)>,
}

impl Cuda {
    pub fn open(spans: &Spans) -> Result<Self, Unavailable> {
        let library = spans.time("open libcuda", library)?;
        let api = &library.opened.api;
        let mut version = 0;
        let mut count = 0;
        // Safety: each value is written before it is read.
        let counted = unsafe {
            (spans.time("cuInit", || api.init.with(|f| f(0))))
                .and_then(|()| api.driver_version.with(|f| f(&raw mut version)))
                .and_then(|()| api.device_count.with(|f| f(&raw mut count)))
        };
        counted.map_err(|f| Unavailable {
            cause: format!("{} failed: {}", f.call, library.describe(f.code)),
            remedy: "see that nvidia-smi lists a GPU (in a container: run it with --gpus all)".into(),
        })?;
        let mut cuda = Cuda { library, version, devices: vec![], capabilities: vec![] };
        for i in 0..count {
            cuda.add(i).map_err(|f| Unavailable {
                cause: format!("{} failed: {}", f.call, library.describe(f.code)),
                remedy: SOURCE.update.into(),
            })?;
        }
        if count == 0 {
            let remedy = "see that nvidia-smi lists one, and that CUDA_VISIBLE_DEVICES does not hide it";
            return Err(Unavailable { cause: "the driver lists no GPU".into(), remedy: remedy.into() });
        }
        Ok(cuda)
    }

    fn add(&mut self, index: i32) -> Result<(), Failed> {
        let (api, own) = (&self.library.opened.api, &self.library.own);
        let (mut device, mut name, mut memory) = (0, [0 as c_char; 256], 0usize);
        // Safety: each value is written before it is read; the name ends within its buffer.
        unsafe {
            api.device_get.with(|f| f(&raw mut device, index))?;
            api.device_name.with(|f| f(name.as_mut_ptr(), name.len() as i32 - 1, device))?;
            api.device_memory.with(|f| f(&raw mut memory, device))?;
            let attribute = |which| {
                let mut value = 0;
                check("cuDeviceGetAttribute", (own.attribute)(&raw mut value, which, device)).map(|()| value)
            };
            let (major, minor) = (attribute(CAPABILITY_MAJOR)? as u32, attribute(CAPABILITY_MINOR)? as u32);
            let integrated = attribute(INTEGRATED)? != 0;
            // Two transfers a clock.
            let (clock, width) = (attribute(MEMORY_CLOCK)? as u64 * 1000, attribute(BUS_WIDTH)? as u64 / 8);
            self.capabilities.push((major, minor));
            self.devices.push(DeviceInfo {
                backend: Backend::Cuda,
                index: index as usize,
                name: CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned(),
                kind: if integrated { DeviceKind::IntegratedGpu } else { DeviceKind::DiscreteGpu },
                arch: format!("sm_{major}{minor}"),
                driver: format!("CUDA {}", version_text(self.version)),
                memory: memory as u64,
                bandwidth: Some(2 * clock * width).filter(|b| *b > 0),
            });
        }
        Ok(())
    }
}

fn version_text(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// Whether code for `arch` runs on a chip of this compute capability; none if the name means nothing.
fn runs(arch: &str, (major, minor): (u32, u32)) -> Option<bool> {
    let name = arch.strip_prefix("sm_")?;
    let digits = name.trim_end_matches(['a', '+']);
    let number: u32 = digits.parse().ok()?;
    let wanted = (number / 10, number % 10);
    Some(match &name[digits.len()..] {
        // That chip alone.
        "a" => (major, minor) == wanted,
        // PTX: compiled for any newer one.
        "+" => (major, minor) >= wanted,
        // A cubin: the same major version.
        "" => major == wanted.0 && minor >= wanted.1,
        _ => return None,
    })
}

impl Platform for Cuda {
    fn devices(&self) -> &[DeviceInfo] {
        &self.devices
    }

    fn unmet(&self, i: usize, requires: &Requires) -> Vec<String> {
        let mut unmet = vec![];
        match runs(&requires.arch, self.capabilities[i]) {
            Some(true) => {}
            Some(false) => unmet.push(format!("it is {}, and this is for {}", self.devices[i].arch, requires.arch)),
            None => unmet.push(format!("the architecture `{}` is unknown to this runtime", requires.arch)),
        }
        match requires.api.parse::<i32>() {
            Ok(least) if self.version >= least => {}
            Ok(least) => unmet.push(format!(
                "its driver has CUDA {}, and {} is needed",
                version_text(self.version),
                cuda_version(least.unsigned_abs())
            )),
            Err(_) => unmet.push(format!("the driver version `{}` is unknown to this runtime", requires.api)),
        }
        let more = requires.features.iter().chain(requires.limits.iter().map(|l| &l.0));
        unmet.extend(more.map(|name| format!("`{name}` is unknown to this runtime")));
        unmet
    }

    fn open(&self, i: usize, _: &Requires) -> Result<Arc<dyn Driver>> {
        let d = &self.devices[i];
        let chip = Chip {
            library: self.library,
            device: i as i32,
            context: OnceLock::new(),
            compiler: format!("{} version {} driver {}", d.arch, self.version, driver_build()),
        };
        Ok(StreamDevice::new(Box::new(chip), self.devices[i].to_string())?)
    }
}

/// One device and its primary context.
struct Chip {
    library: &'static Library,
    device: i32,
    context: OnceLock<Context>,
    /// What decides the code that the driver makes of PTX.
    compiler: String,
}

/// The build of the driver, which `cuDriverGetVersion` does not tell: `580.159.03`. Nothing where it is not to be had.
fn driver_build() -> String {
    std::fs::read_to_string("/sys/module/nvidia/version").unwrap_or_default().trim().into()
}

/// Where the driver's compiler writes what it has to say, and the options that tell it so.
struct Log {
    text: Vec<u8>,
    options: [i32; 2],
}
impl Log {
    fn new() -> Self {
        // CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
        Log { text: vec![0; 8 << 10], options: [5, 6] }
    }
    fn values(&mut self) -> [*mut c_void; 2] {
        [self.text.as_mut_ptr().cast(), self.text.len() as *mut c_void]
    }
    fn said(&self, f: Failed) -> (Failed, String) {
        let end = self.text.iter().position(|b| *b == 0).unwrap_or(self.text.len());
        (f, String::from_utf8_lossy(&self.text[..end]).into_owned())
    }
}

const KIND: &str = "cuda";
/// What a cubin begins with.
const ELF: &[u8] = b"\x7fELF";

impl Chip {
    /// The cubin of a module of PTX, which ends with a zero.
    fn compile(&self, ptx: &[u8]) -> Result<Vec<u8>, (Failed, String)> {
        let own = &self.library.own;
        let mut log = Log::new();
        let (mut options, mut values) = (log.options, log.values());
        let mut linker = Linker(null_mut());
        // Safety: options and log live until the linker is destroyed; the cubin lives as long as the linker.
        unsafe {
            let code = (own.link_create)(2, options.as_mut_ptr(), values.as_mut_ptr(), &raw mut linker);
            check("cuLinkCreate_v2", code).map_err(|f| log.said(f))?;
            let (bytes, name) = (ptx.as_ptr().cast_mut().cast(), c"kernels".as_ptr());
            let code = (own.link_add)(linker, INPUT_PTX, bytes, ptx.len(), name, 0, null_mut(), null_mut());
            let (mut cubin, mut length) = (null_mut(), 0);
            let made = check("cuLinkAddData_v2", code)
                .and_then(|()| check("cuLinkComplete", (own.link_complete)(linker, &raw mut cubin, &raw mut length)))
                .map(|()| std::slice::from_raw_parts(cubin.cast::<u8>().cast_const(), length).to_vec());
            let destroyed = check("cuLinkDestroy", (own.link_destroy)(linker));
            made.and_then(|cubin| destroyed.map(|()| cubin)).map_err(|f| log.said(f))
        }
    }

    fn module(&self, image: &[u8]) -> Result<Module, (Failed, String)> {
        let mut log = Log::new();
        let (mut options, mut values) = (log.options, log.values());
        let mut module = Module::NULL;
        // Safety: the image is a cubin, or PTX that ends with a zero; the log is as long as it says.
        let code = unsafe {
            let image = image.as_ptr().cast();
            (self.library.own.module_load)(&raw mut module, image, 2, options.as_mut_ptr(), values.as_mut_ptr())
        };
        check("cuModuleLoadDataEx", code).map_err(|f| log.said(f))?;
        Ok(module)
    }

    /// The module of PTX by way of a cubin that is kept.
    fn kept(&self, ptx: &[u8], cache: &Cache) -> Result<Module, (Failed, String)> {
        let digest: String = Sha256::digest(ptx).iter().map(|b| format!("{b:02x}")).collect();
        let key = format!("{} ptx {digest}", self.compiler);
        if let Some(cubin) = cache.read(KIND, &key) {
            match self.module(&cubin) {
                Ok(module) => return Ok(module),
                Err((f, _)) => cache.note(&format!("the driver does not take its own code: {}", self.describe(f.code))),
            }
        }
        let cubin = self.compile(ptx)?;
        let module = self.module(&cubin)?;
        cache.write(KIND, &key, &cubin);
        Ok(module)
    }
}

impl Vendor for Chip {
    fn flavor(&self) -> Flavor {
        Flavor::Cuda
    }

    fn api(&self) -> &Api {
        &self.library.opened.api
    }

    fn events(&self) -> Result<&Events, &'static str> {
        self.library.opened.events.as_ref().map_err(|f| *f)
    }

    fn bind(&self) -> Result<(), Failed> {
        let own = &self.library.own;
        let context = match self.context.get() {
            Some(c) => *c,
            None => {
                let mut c = Context(null_mut());
                // Safety: the handle is written before it is read.
                check("cuDevicePrimaryCtxRetain", unsafe { (own.context_retain)(&raw mut c, self.device) })?;
                *self.context.get_or_init(|| c)
            }
        };
        // Safety: the context is retained until `close`.
        check("cuCtxSetCurrent", unsafe { (own.context_set)(context) })
    }

    fn close(&self) {
        if self.context.get().is_some() {
            // Safety: retained once, and all that was made in it is gone.
            unsafe { (self.library.own.context_release)(self.device) };
        }
    }

    fn load(&self, image: &[u8], cache: &Cache) -> Result<Module, (Failed, String)> {
        if image.starts_with(ELF) || !cache.is_on() { self.module(image) } else { self.kept(image, cache) }
    }

    fn allow_shared(&self, function: Function, bytes: u32) -> Result<(), Failed> {
        if bytes <= DEFAULT_SHARED {
            return Ok(());
        }
        // Safety: the function is of a loaded module.
        let code = unsafe { (self.library.own.function_attribute)(function, MAX_DYNAMIC_SHARED, bytes as i32) };
        check("cuFuncSetAttribute", code)
    }

    unsafe fn launch_early(&self, l: &Launch) -> Result<(), Failed> {
        let Some(launch) = self.library.own.launch else {
            // Safety: as the caller promises; an early start is only allowed, not needed.
            return unsafe { l.plain(self.api()) };
        };
        let mut attribute = LaunchAttribute { id: PROGRAMMATIC_SERIALIZATION, _pad: 0, value: 1, _rest: [0; 15] };
        let config = LaunchConfig {
            grid: l.grid,
            block: l.block,
            shared: l.shared,
            stream: l.stream,
            attributes: &raw mut attribute,
            count: 1,
        };
        // Safety: as the caller promises; the configuration is read before the call returns.
        check("cuLaunchKernelEx", unsafe { launch(&raw const config, l.function, l.arguments, null_mut()) })
    }

    fn describe(&self, code: Code) -> String {
        self.library.describe(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_runs_where_its_architecture_says() {
        let on = |arch, chip| runs(arch, chip);
        assert_eq!(
            (on("sm_90a", (9, 0)), on("sm_90a", (9, 1)), on("sm_90a", (10, 0))),
            (Some(true), Some(false), Some(false))
        );
        assert_eq!(
            (on("sm_80+", (7, 5)), on("sm_80+", (8, 0)), on("sm_80+", (12, 0))),
            (Some(false), Some(true), Some(true))
        );
        assert_eq!(
            (on("sm_86", (8, 9)), on("sm_86", (8, 0)), on("sm_86", (9, 0))),
            (Some(true), Some(false), Some(false))
        );
        assert_eq!(on("sm_120", (12, 0)), Some(true));
        assert_eq!(
            (on("gfx942", (9, 0)), on("sm_", (9, 0)), on("sm_90b", (9, 0)), on("sm_90a+", (9, 0))),
            (None, None, None, None)
        );
        assert_eq!(version_text(12080), "12.8");
    }
}
