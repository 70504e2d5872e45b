//! Pinned memory and a stream of its own, for one thread that uploads.

use super::{api::Stream, device::StreamDevice};
use crate::{
    drivers::{Lane, Region},
    error::Result,
};
use std::{
    ffi::c_void,
    ptr::{NonNull, null_mut},
    slice,
    sync::Arc,
};

pub(super) struct StreamLane {
    device: Arc<StreamDevice>,
    stream: Stream,
    memory: Option<NonNull<c_void>>,
    bytes: usize,
}
// Safety: the memory is this lane's alone, and pinned memory is reached from any thread.
unsafe impl Send for StreamLane {}

impl StreamLane {
    pub fn new(device: &Arc<StreamDevice>, bytes: usize) -> Result<Self> {
        device.bind()?;
        let stream = device.new_stream()?;
        // From here on a failure gives back what was made.
        let mut lane = StreamLane { device: device.clone(), stream, memory: None, bytes: 0 };
        let mut at = null_mut();
        // Safety: the pointer is written before it is read.
        let done = device.api().allocate_host.with(|f| unsafe { f(&raw mut at, bytes, 0) });
        done.map_err(|f| device.exhausted(f, "uploads", bytes as u64))?;
        lane.memory = NonNull::new(at);
        lane.bytes = if at.is_null() { 0 } else { bytes };
        Ok(lane)
    }
}

impl Lane for StreamLane {
    fn memory(&mut self) -> &mut [u8] {
        let Some(at) = self.memory else { return &mut [] };
        // Safety: the allocation has as many bytes; what the device still reads of it, the caller does not write.
        unsafe { slice::from_raw_parts_mut(at.cast().as_ptr(), self.bytes) }
    }

    fn send(&mut self, at: usize, to: Region) -> Result<()> {
        let address = self.device.address(to);
        let from = self.memory()[at..at + to.bytes as usize].as_ptr();
        self.device.bind()?;
        let copy = self.device.api().copy_up.with(|f| {
            // Safety: both have as many bytes, and the memory lives until the stream was waited for.
            unsafe { f(address, from.cast(), to.bytes as usize, self.stream) }
        });
        copy.map_err(|f| self.device.error(f))
    }

    /// Each copy is under way already.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        self.device.bind()?;
        // Safety: the stream is this lane's.
        let done = self.device.api().stream_wait.with(|f| unsafe { f(self.stream) });
        done.map_err(|f| self.device.error(f))
    }
}

impl Drop for StreamLane {
    fn drop(&mut self) {
        if self.device.bind().is_err() {
            return;
        }
        let api = self.device.api();
        // Safety: both are this lane's, and nothing reads the memory after the wait. Failures have nobody to tell.
        unsafe {
            let _ = api.stream_wait.with(|f| f(self.stream));
            let _ = api.stream_destroy.with(|f| f(self.stream));
            if let Some(at) = self.memory {
                let _ = api.free_host.with(|f| f(at.as_ptr()));
            }
        }
    }
}
