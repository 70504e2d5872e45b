//! An opened CUDA or HIP device: allocations, uploads, and the kernels loaded on it.

use super::{
    Failed, Vendor,
    api::{Address, Api, Function, Module, Stream},
    gemm::Blas,
    lane::StreamLane,
    program::StreamProgram,
};
use crate::{
    cache::Cache,
    drivers::{Driver, Executable, Job, KernelSet, Lane, Memory, Region, slab::Slab},
    error::{Error, Result},
};
use std::{
    ffi::CString,
    sync::{Arc, Mutex},
};
use zml_format::{Artifact, Profile, calls_library};

pub(crate) struct StreamDevice {
    pub vendor: Box<dyn Vendor>,
    pub name: String,
    memory: Slab<Address>,
    kernels: Slab<Kernels>,
    /// For work outside of programs.
    stream: Mutex<Stream>,
    /// Stands for slices without bytes: kernels get an address that is theirs all the same.
    nothing: Address,
}

/// Functions of one profile.
pub(super) struct Kernels {
    pub functions: Vec<Function>,
    /// If a program calls it.
    pub blas: Option<Blas>,
    modules: Vec<Module>,
}

/// Does not wait for, nor hold up, the default stream.
const NON_BLOCKING: u32 = 1;

impl StreamDevice {
    pub fn new(vendor: Box<dyn Vendor>, name: String) -> Result<Arc<Self>> {
        let mut device = StreamDevice {
            vendor,
            name,
            memory: Slab::new(),
            kernels: Slab::new(),
            stream: Mutex::new(Stream::NULL),
            nothing: 0,
        };
        device.bind()?;
        *device.stream.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner) = device.new_stream()?;
        device.nothing = device.allocate_bytes(256, "empty buffers")?;
        Ok(Arc::new(device))
    }

    pub fn api(&self) -> &Api {
        self.vendor.api()
    }
    /// Before any other call: another thread may have made another device current.
    pub fn bind(&self) -> Result<()> {
        self.vendor.bind().map_err(|f| self.error(f))
    }
    pub fn error(&self, f: Failed) -> Error {
        f.error(&*self.vendor, &self.name, String::new())
    }
    pub fn exhausted(&self, f: Failed, what: &str, bytes: u64) -> Error {
        f.allocating(&*self.vendor, &self.name, what, bytes)
    }

    pub fn new_stream(&self) -> Result<Stream> {
        let mut stream = Stream::NULL;
        // Safety: the device is current, and the handle is written before it is read.
        self.api().stream_create.with(|f| unsafe { f(&raw mut stream, NON_BLOCKING) }).map_err(|f| self.error(f))?;
        Ok(stream)
    }

    pub fn address(&self, r: Region) -> Address {
        match r.memory {
            Some(m) => *self.memory.get(m.0).expect("a region outlived its memory") + r.offset,
            None => self.nothing,
        }
    }
    pub(super) fn kernels(&self, k: KernelSet) -> Arc<Kernels> {
        self.kernels.get(k.0).expect("a program outlived its kernels")
    }

    fn allocate_bytes(&self, bytes: u64, what: &str) -> Result<Address> {
        let mut at = 0;
        // Safety: as for `new_stream`.
        let done = self.api().allocate.with(|f| unsafe { f(&raw mut at, bytes as usize) });
        done.map_err(|f| self.exhausted(f, what, bytes))?;
        Ok(at)
    }

    /// Runs `work` on the device's own stream and waits for it.
    fn wait(&self, work: impl FnOnce(&Api, Stream) -> Result<(), Failed>) -> Result<()> {
        self.bind()?;
        let stream = self.stream.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let done = work(self.api(), *stream);
        // Safety: the stream is this device's.
        done.and_then(|()| self.api().stream_wait.with(|f| unsafe { f(*stream) })).map_err(|f| self.error(f))
    }

    fn fill_set(&self, set: &mut Kernels, profile: &Profile, artifact: &Artifact, cache: &Cache) -> Result<()> {
        if profile.programs.iter().any(|p| calls_library(&p.steps)) {
            set.blas = Some(Blas::open(self.vendor.flavor(), &self.name)?);
        }
        let mut loaded: Vec<(usize, Module)> = vec![];
        for k in &profile.kernels {
            let module = match loaded.iter().find(|m| m.0 == k.blob) {
                Some(m) => m.1,
                None => {
                    // PTX is text that ends with a zero; the other forms do not mind one.
                    let image = [artifact.blob(k.blob), &[0]].concat();
                    let m = self.vendor.load(&image, cache);
                    let m = m.map_err(|(f, log)| f.error(&*self.vendor, &self.name, log))?;
                    set.modules.push(m);
                    loaded.push((k.blob, m));
                    m
                }
            };
            let symbol = CString::new(k.symbol.as_str())
                .map_err(|_| Error::Bug(format!("kernel {:?} has a zero in its name", k.symbol)))?;
            let mut function = Function::NULL;
            // Safety: the module was just loaded, and the name lives through the call.
            let done = self.api().module_function.with(|f| unsafe { f(&raw mut function, module, symbol.as_ptr()) });
            done.map_err(|f| f.error(&*self.vendor, &self.name, format!("no kernel {} in its module", k.symbol)))?;
            self.vendor.allow_shared(function, k.shared_bytes).map_err(|f| {
                f.error(
                    &*self.vendor,
                    &self.name,
                    format!("{} wants {} bytes of shared memory", k.symbol, k.shared_bytes),
                )
            })?;
            set.functions.push(function);
        }
        Ok(())
    }

    fn unload_set(&self, set: &Kernels) {
        for m in &set.modules {
            // Safety: nothing that runs uses the module. A failure at the end has nobody to tell.
            let _ = self.api().module_unload.with(|f| unsafe { f(*m) });
        }
    }

    fn free_address(&self, at: Address) {
        // Safety: it was allocated here, and the caller gives it up. A failure has nobody to tell.
        let _ = self.api().free.with(|f| unsafe { f(at) });
    }
}

impl Driver for StreamDevice {
    fn allocate(&self, bytes: u64, what: &str) -> Result<Memory> {
        self.bind()?;
        Ok(Memory(self.memory.put(self.allocate_bytes(bytes, what)?)))
    }

    fn free(&self, memory: Memory) {
        if let (Some(at), Ok(())) = (self.memory.take(memory.0), self.bind()) {
            self.free_address(*at);
        }
    }

    fn upload(&self, to: Region, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let at = self.address(to);
        // Safety: the region has as many bytes, and they live until the stream has been waited for.
        self.wait(|api, s| api.copy_up.with(|f| unsafe { f(at, bytes.as_ptr().cast(), bytes.len(), s) }))
    }

    fn lane(self: Arc<Self>, bytes: usize) -> Result<Box<dyn Lane>> {
        Ok(Box::new(StreamLane::new(&self, bytes)?))
    }

    fn clear(&self, regions: &[Region]) -> Result<()> {
        let mut regions = regions.iter().filter(|r| r.bytes > 0).peekable();
        if regions.peek().is_none() {
            return Ok(());
        }
        self.wait(|api, s| {
            regions.try_for_each(|r| {
                let at = self.address(*r);
                // Safety: within the region.
                api.fill.with(|f| unsafe { f(at, 0, r.bytes as usize, s) })
            })
        })
    }

    fn load(self: Arc<Self>, profile: &Profile, artifact: &Artifact, cache: &Arc<Cache>) -> Result<KernelSet> {
        self.bind()?;
        let mut set = Kernels { functions: vec![], blas: None, modules: vec![] };
        match self.fill_set(&mut set, profile, artifact, cache) {
            Ok(()) => Ok(KernelSet(self.kernels.put(set))),
            Err(e) => {
                self.unload_set(&set);
                Err(e)
            }
        }
    }

    fn unload(&self, kernels: KernelSet) {
        if let (Some(set), Ok(())) = (self.kernels.take(kernels.0), self.bind()) {
            self.unload_set(&set);
        }
    }

    fn build(self: Arc<Self>, job: &Job) -> Result<Box<dyn Executable>> {
        self.bind()?;
        Ok(Box::new(StreamProgram::new(&self, job)?))
    }
}

impl Drop for StreamDevice {
    fn drop(&mut self) {
        if self.vendor.bind().is_err() {
            return;
        }
        self.kernels.drain().iter().for_each(|k| self.unload_set(k));
        self.memory.drain().iter().for_each(|at| self.free_address(**at));
        if self.nothing != 0 {
            self.free_address(self.nothing);
        }
        let stream = *self.stream.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if stream != Stream::NULL {
            // Safety: every use of the stream was waited for.
            let _ = self.api().stream_destroy.with(|f| unsafe { f(stream) });
        }
        self.vendor.close();
    }
}
