//! Events between the steps of a segment, and the times that they give.

use super::{
    Failed,
    api::{Event, Events, Stream},
    device::StreamDevice,
};
use crate::{
    error::{Error, Result},
    timing::StepTime,
};
use std::sync::Arc;
use zml_format::Step;

/// Recorded also while a graph is captured: as a node of its own, read by the host.
const EXTERNAL: u32 = 1;

/// The events of all segments of a program.
pub(super) struct Timer {
    device: Arc<StreamDevice>,
    /// One more than the segment has steps that do something.
    segments: Vec<Vec<Event>>,
    pub steps: Vec<StepTime>,
}

impl Timer {
    pub fn new(device: &Arc<StreamDevice>) -> Result<Self> {
        device.vendor.events().map_err(|function| Error::Unsupported {
            device: device.name.clone(),
            why: format!("its driver is too old to time kernels, it has no {function}"),
        })?;
        Ok(Timer { device: device.clone(), segments: vec![], steps: vec![] })
    }

    fn with<T>(&self, work: impl FnOnce(&Events) -> Result<T, Failed>) -> Result<T, Failed> {
        work(self.device.vendor.events().expect("`new` asked"))
    }

    /// Events for the next segment.
    pub fn open(&mut self, steps: &[&Step]) -> Result<()> {
        let steps: Vec<StepTime> = steps.iter().filter_map(|s| StepTime::of(s)).collect();
        let mut events = vec![];
        for _ in 0..=steps.len() {
            let mut event = Event::NULL;
            // Safety: the device is current, and the handle is written before it is read.
            let made = self.with(|e| e.create.with(|f| unsafe { f(&raw mut event, 0) }));
            made.map_err(|f| self.device.error(f))?;
            events.push(event);
        }
        self.segments.push(events);
        self.steps.extend(steps);
        Ok(())
    }

    /// Event `i` of the last segment happens when everything before is done.
    pub fn mark(&self, i: usize, stream: Stream) -> Result<(), Failed> {
        let event = self.segments.last().expect("a segment is open")[i];
        // Safety: both are this program's.
        self.with(|e| e.record.with(|f| unsafe { f(event, stream, EXTERNAL) }))
    }

    /// Adds what a segment took, which has been waited for.
    pub fn collect(&mut self, segment: usize) -> Result<(), Failed> {
        let first: usize = self.segments[..segment].iter().map(|s| s.len() - 1).sum();
        for (i, pair) in self.segments[segment].windows(2).enumerate() {
            let mut milliseconds = 0.0;
            // Safety: both events happened.
            self.with(|e| e.elapsed.with(|f| unsafe { f(&raw mut milliseconds, pair[0], pair[1]) }))?;
            self.steps[first + i].add(f64::from(milliseconds) * 1e6);
        }
        Ok(())
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        for event in self.segments.iter().flatten() {
            // Safety: nothing that runs uses it. A failure at the end has nobody to tell.
            let _ = self.with(|e| e.destroy.with(|f| unsafe { f(*event) }));
        }
    }
}
