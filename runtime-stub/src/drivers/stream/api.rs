//! The functions of libcuda and libamdhip64 that the runtime calls, as one table.
//!
//! The two libraries have the same functions under other names, with the same arguments; what differs in more than the
//! name is in `cuda.rs` and `hip.rs`.

use super::Failed;
use crate::drivers::Unavailable;
use libloading::Library;
use std::ffi::{OsString, c_char, c_void};

/// `CUresult`, `hipError_t`.
pub(crate) type Code = i32;
/// `CUdeviceptr`, `hipDeviceptr_t`.
pub(crate) type Address = u64;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        #[repr(transparent)]
        pub(crate) struct $name(pub *mut c_void);
        impl $name {
            pub const NULL: Self = Self(std::ptr::null_mut());
        }
        // Safety: handles of both libraries may be used from any thread.
        unsafe impl Send for $name {}
        // Safety: as above.
        unsafe impl Sync for $name {}
    )*};
}
handles! { Stream Module Function Graph GraphExec Event }

/// A function of the library, with the name that errors give it.
pub(crate) struct Call<F> {
    pub raw: F,
    pub name: &'static str,
}

/// Which of the two names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavor {
    Cuda,
    Hip,
}

macro_rules! table {
    ($(#[$doc:meta])* $table:ident $($field:ident($($argument:ty),*) $cuda:literal $hip:literal)*) => {
        $(#[$doc])*
        pub(crate) struct $table {
            $(pub $field: Call<unsafe extern "C" fn($($argument),*) -> Code>,)*
        }
        impl $table {
            /// Safety: the library must be what `flavor` says.
            unsafe fn of(library: &Library, flavor: Flavor) -> Result<Self, &'static str> {
                Ok($table {
                    $($field: {
                        let name = if flavor == Flavor::Cuda { $cuda } else { $hip };
                        // Safety: as the caller promises; both declare the function with these arguments.
                        let raw = unsafe { library.get(name.as_bytes()) }.map_err(|_| name)?;
                        Call { raw: *raw, name }
                    },)*
                })
            }
        }
    };
}

table! {
    Api
    init(u32) "cuInit" "hipInit"
    driver_version(*mut i32) "cuDriverGetVersion" "hipDriverGetVersion"
    device_count(*mut i32) "cuDeviceGetCount" "hipGetDeviceCount"
    device_get(*mut i32, i32) "cuDeviceGet" "hipDeviceGet"
    device_name(*mut c_char, i32, i32) "cuDeviceGetName" "hipDeviceGetName"
    device_memory(*mut usize, i32) "cuDeviceTotalMem_v2" "hipDeviceTotalMem"
    allocate(*mut Address, usize) "cuMemAlloc_v2" "hipMalloc"
    free(Address) "cuMemFree_v2" "hipFree"
    allocate_host(*mut *mut c_void, usize, u32) "cuMemHostAlloc" "hipHostMalloc"
    free_host(*mut c_void) "cuMemFreeHost" "hipHostFree"
    copy_up(Address, *const c_void, usize, Stream) "cuMemcpyHtoDAsync_v2" "hipMemcpyHtoDAsync"
    copy_down(*mut c_void, Address, usize, Stream) "cuMemcpyDtoHAsync_v2" "hipMemcpyDtoHAsync"
    copy(Address, Address, usize, Stream) "cuMemcpyDtoDAsync_v2" "hipMemcpyDtoDAsync"
    fill(Address, u8, usize, Stream) "cuMemsetD8Async" "hipMemsetD8Async"
    module_unload(Module) "cuModuleUnload" "hipModuleUnload"
    module_function(*mut Function, Module, *const c_char) "cuModuleGetFunction" "hipModuleGetFunction"
    launch(Function, u32, u32, u32, u32, u32, u32, u32, Stream, *mut *mut c_void, *mut *mut c_void) "cuLaunchKernel" "hipModuleLaunchKernel"
    stream_create(*mut Stream, u32) "cuStreamCreate" "hipStreamCreateWithFlags"
    stream_destroy(Stream) "cuStreamDestroy_v2" "hipStreamDestroy"
    stream_wait(Stream) "cuStreamSynchronize" "hipStreamSynchronize"
    stream_query(Stream) "cuStreamQuery" "hipStreamQuery"
    capture_begin(Stream, i32) "cuStreamBeginCapture_v2" "hipStreamBeginCapture"
    capture_end(Stream, *mut Graph) "cuStreamEndCapture" "hipStreamEndCapture"
    graph_instantiate(*mut GraphExec, Graph, u64) "cuGraphInstantiateWithFlags" "hipGraphInstantiateWithFlags"
    graph_launch(GraphExec, Stream) "cuGraphLaunch" "hipGraphLaunch"
    graph_exec_destroy(GraphExec) "cuGraphExecDestroy" "hipGraphExecDestroy"
    graph_destroy(Graph) "cuGraphDestroy" "hipGraphDestroy"
}

table! {
    /// What timing needs besides; old drivers lack some of it.
    Events
    create(*mut Event, u32) "cuEventCreate" "hipEventCreateWithFlags"
    record(Event, Stream, u32) "cuEventRecordWithFlags" "hipEventRecordWithFlags"
    elapsed(*mut f32, Event, Event) "cuEventElapsedTime" "hipEventElapsedTime"
    destroy(Event) "cuEventDestroy_v2" "hipEventDestroy"
}

/// A launch of a kernel.
pub(crate) struct Launch {
    pub function: Function,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub stream: Stream,
    /// Pointers to the arguments.
    pub arguments: *mut *mut c_void,
}
impl Launch {
    /// After everything before.
    ///
    /// Safety: the arguments are what the kernel declares.
    pub(in crate::drivers) unsafe fn plain(&self, api: &Api) -> Result<(), Failed> {
        let ([gx, gy, gz], [bx, by, bz]) = (self.grid, self.block);
        api.launch.with(|f| {
            // Safety: as the caller promises; they are read before the call returns.
            unsafe {
                f(self.function, gx, gy, gz, bx, by, bz, self.shared, self.stream, self.arguments, std::ptr::null_mut())
            }
        })
    }
}

/// A driver library, never unloaded: it leaves threads and handlers behind.
pub(crate) struct Opened {
    pub api: Api,
    /// Or the function that is not there.
    pub events: Result<Events, &'static str>,
    pub library: Library,
}

/// How a library is found, and what to say if it is not.
pub(crate) struct Source {
    pub flavor: Flavor,
    /// Names another library to open.
    pub variable: &'static str,
    pub library: &'static str,
    /// How to get the library.
    pub install: &'static str,
    /// How to get a newer one.
    pub update: &'static str,
}

impl Source {
    pub fn open(&self) -> Result<Opened, Unavailable> {
        let name = std::env::var_os(self.variable).unwrap_or_else(|| OsString::from(self.library));
        // Safety: the library is the driver's by its name, or what the user named in its stead.
        let library = unsafe { Library::new(&name) }
            .map_err(|e| Unavailable { cause: format!("no driver ({e})"), remedy: self.install.into() })?;
        // Safety: as above.
        let api = unsafe { Api::of(&library, self.flavor) }.map_err(|f| self.too_old(f))?;
        // Safety: as above.
        let events = unsafe { Events::of(&library, self.flavor) };
        Ok(Opened { api, events, library })
    }

    /// A function is not there.
    pub fn too_old(&self, function: &str) -> Unavailable {
        Unavailable { cause: format!("the driver is too old, it has no {function}"), remedy: self.update.into() }
    }
}
