//! What CUDA and HIP share: devices, programs as captured graphs, and the table of functions behind them.
//!
//! `cuda.rs` and `hip.rs` beside this folder have what differs, as a [`Vendor`].

pub(super) mod api;
mod device;
mod gemm;
mod lane;
mod program;
mod timer;

pub(super) use device::StreamDevice;
pub(super) use gemm::locate;

use crate::{
    cache::Cache,
    error::{Error, Result},
};
use api::{Api, Call, Code, Events, Flavor, Module};

/// What CUDA and HIP do each in its own way.
pub(super) trait Vendor: Send + Sync {
    fn api(&self) -> &Api;
    fn flavor(&self) -> Flavor;
    /// Or the function that the driver lacks.
    fn events(&self) -> Result<&Events, &'static str>;
    /// Makes the device current for the calling thread. The first call opens it.
    fn bind(&self) -> Result<(), Failed>;
    /// Undoes what `bind` opened. Last of all.
    fn close(&self);
    /// `image` ends with a zero byte; what is compiled of it is kept in `cache`. What the library's own compiler had to
    /// say comes with the failure.
    fn load(&self, image: &[u8], cache: &Cache) -> Result<Module, (Failed, String)>;
    /// Lets a kernel use this much dynamic shared memory.
    fn allow_shared(&self, function: api::Function, bytes: u32) -> Result<(), Failed>;
    /// Launches a kernel that waits by itself for those before it, as early as the device can.
    ///
    /// Safety: as [`api::Launch::plain`].
    unsafe fn launch_early(&self, l: &api::Launch) -> Result<(), Failed> {
        // Safety: as the caller promises.
        unsafe { l.plain(self.api()) }
    }
    /// `CUDA_ERROR_OUT_OF_MEMORY: out of memory`
    fn describe(&self, code: Code) -> String;
}

/// A call that returned something else than success.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failed {
    pub call: &'static str,
    pub code: Code,
}

pub(super) fn check(call: &'static str, code: Code) -> Result<(), Failed> {
    if code == 0 { Ok(()) } else { Err(Failed { call, code }) }
}

impl<F> Call<F> {
    /// Calls with arguments that `with` supplies.
    pub(super) fn with(&self, with: impl FnOnce(&F) -> Code) -> Result<(), Failed> {
        check(self.name, with(&self.raw))
    }
}

/// Codes with the same meaning in both libraries.
const NOT_READY: Code = 600;
const OUT_OF_MEMORY: Code = 2;
/// Illegal address, launch timeout, launch failure and the like: the context is lost with all that it holds.
const LOST: [Code; 9] = [46, 214, 220, 700, 702, 714, 715, 716, 719];

impl Failed {
    fn error(self, vendor: &dyn Vendor, device: &str, log: String) -> Error {
        let Failed { call, code } = self;
        let device = device.into();
        let text = gemm::describe(call, code).unwrap_or_else(|| vendor.describe(code));
        if LOST.contains(&code) {
            Error::DeviceLost { device, call, code: text }
        } else {
            Error::Driver { device, call, code: text, log }
        }
    }

    fn allocating(self, vendor: &dyn Vendor, device: &str, what: &str, bytes: u64) -> Error {
        if self.code == OUT_OF_MEMORY {
            Error::OutOfMemory { device: device.into(), what: what.into(), bytes }
        } else {
            self.error(vendor, device, String::new())
        }
    }
}
