//! Timestamps between the steps of a segment, and the times that they give.

use super::device::VulkanDevice;
use crate::{error::Result, timing::StepTime};
use ash::vk;
use std::sync::Arc;
use zml_format::Step;

/// The queries of all segments of a program.
pub(super) struct Timer {
    device: Arc<VulkanDevice>,
    segments: Vec<Segment>,
    pub steps: Vec<StepTime>,
}
struct Segment {
    pool: vk::QueryPool,
    stamps: Vec<u64>,
}

impl Timer {
    pub fn new(device: &Arc<VulkanDevice>) -> Result<Self> {
        if device.timestamp_bits == 0 {
            return Err(device.unsupported("its queue has no timestamps".into()));
        }
        Ok(Timer { device: device.clone(), segments: vec![], steps: vec![] })
    }

    /// Queries for the next segment.
    pub fn open(&mut self, steps: &[&Step]) -> Result<()> {
        let steps: Vec<StepTime> = steps.iter().filter_map(|s| StepTime::of(s)).collect();
        let count = steps.len() + 1;
        let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(count as u32);
        let d = &self.device;
        // Safety: a plain creation on a live device; `drop` destroys it.
        let pool = unsafe { d.raw.create_query_pool(&info, None).map_err(d.failed("vkCreateQueryPool"))? };
        self.segments.push(Segment { pool, stamps: vec![0; count] });
        self.steps.extend(steps);
        Ok(())
    }

    /// At the begin of the last segment's commands.
    pub fn begin(&self, c: vk::CommandBuffer) {
        let s = self.segments.last().expect("a segment is open");
        // Safety: `c` is being recorded.
        unsafe { self.device.raw.cmd_reset_query_pool(c, s.pool, 0, s.stamps.len() as u32) };
        self.mark(c, 0);
    }

    /// Stamp `i` of the last segment is when everything before is done.
    pub fn mark(&self, c: vk::CommandBuffer, i: usize) {
        let s = self.segments.last().expect("a segment is open");
        // Safety: `c` is being recorded, and the pool has as many queries.
        unsafe { self.device.raw.cmd_write_timestamp(c, vk::PipelineStageFlags::BOTTOM_OF_PIPE, s.pool, i as u32) };
    }

    /// Adds what a segment took, which has been waited for.
    pub fn collect(&mut self, segment: usize) -> Result<()> {
        let first: usize = self.segments[..segment].iter().map(|s| s.stamps.len() - 1).sum();
        let (d, s) = (&self.device, &mut self.segments[segment]);
        let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
        // Safety: as many results as the pool has queries.
        let done = unsafe { d.raw.get_query_pool_results(s.pool, 0, &mut s.stamps, flags) };
        done.map_err(d.failed("vkGetQueryPoolResults"))?;
        let mask = u64::MAX >> (64 - d.timestamp_bits.min(64));
        let tick = f64::from(d.properties.base.limits.timestamp_period);
        for (i, pair) in s.stamps.windows(2).enumerate() {
            self.steps[first + i].add((pair[1].wrapping_sub(pair[0]) & mask) as f64 * tick);
        }
        Ok(())
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // Safety: the program waited for everything that it submitted.
        self.segments.iter().for_each(|s| unsafe { self.device.raw.destroy_query_pool(s.pool, None) });
    }
}
