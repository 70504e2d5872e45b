//! Device memory that goes with its owner, and regions packed into it.

use crate::{
    counters::{Counters, Tally},
    drivers::{ALIGN, Driver, Memory, Region},
    error::Result,
};
use std::sync::Arc;

/// Small regions share allocations of up to this many bytes: devices bound the number of allocations.
const SHARED_BYTES: u64 = 256 << 20;

/// Allocations of one owner.
pub(crate) struct Owned {
    driver: Arc<dyn Driver>,
    memory: Vec<Memory>,
}
impl Owned {
    pub fn new(driver: &Arc<dyn Driver>) -> Self {
        Owned { driver: driver.clone(), memory: vec![] }
    }

    /// One region for each size, each at a multiple of [`ALIGN`].
    pub fn pack(&mut self, sizes: &[u64], what: &str, tally: &Tally) -> Result<Vec<Region>> {
        let mut regions = vec![];
        let mut at = 0;
        while at < sizes.len() {
            // As many as fit, and at least one.
            let mut total = sizes[at].next_multiple_of(ALIGN);
            let mut end = at + 1;
            while end < sizes.len() && total + sizes[end].next_multiple_of(ALIGN) <= SHARED_BYTES {
                total += sizes[end].next_multiple_of(ALIGN);
                end += 1;
            }
            let group = &sizes[at..end];
            let mut offset = 0;
            let memory = if total > 0 { Some(self.allocate(total, what, tally)?) } else { None };
            for bytes in group {
                regions.push(match bytes {
                    0 => Region::EMPTY,
                    _ => Region { memory, offset, bytes: *bytes },
                });
                offset += bytes.next_multiple_of(ALIGN);
            }
            at = end;
        }
        Ok(regions)
    }

    fn allocate(&mut self, bytes: u64, what: &str, tally: &Tally) -> Result<Memory> {
        let m = self.driver.allocate(bytes, what)?;
        self.memory.push(m);
        tally.add(Counters { allocations: 1, ..Counters::default() });
        Ok(m)
    }
}
impl Drop for Owned {
    fn drop(&mut self) {
        self.memory.drain(..).for_each(|m| self.driver.free(m));
    }
}
