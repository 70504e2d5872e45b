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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cache::Cache,
        drivers::{Executable, Job, KernelSet, Lane},
        error::Error,
    };
    use std::sync::Mutex;
    use zml_format::{Artifact, Profile};

    /// Counts, and refuses allocations of more than a GiB.
    #[derive(Default)]
    struct Counting(Mutex<(Vec<u64>, usize)>);
    impl Driver for Counting {
        fn allocate(&self, bytes: u64, what: &str) -> Result<Memory> {
            if bytes > 1 << 30 {
                return Err(Error::OutOfMemory { device: "test".into(), what: what.into(), bytes });
            }
            let mut all = self.0.lock().unwrap();
            all.0.push(bytes);
            Ok(Memory(all.0.len() - 1))
        }
        fn free(&self, _: Memory) {
            self.0.lock().unwrap().1 += 1;
        }
        fn upload(&self, _: Region, _: &[u8]) -> Result<()> {
            Ok(())
        }
        fn lane(self: Arc<Self>, _: usize) -> Result<Box<dyn Lane>> {
            Err(Error::Bug("not in this test".into()))
        }
        fn clear(&self, _: &[Region]) -> Result<()> {
            Ok(())
        }
        fn load(self: Arc<Self>, _: &Profile, _: &Artifact, _: &Arc<Cache>) -> Result<KernelSet> {
            Ok(KernelSet(0))
        }
        fn unload(&self, _: KernelSet) {}
        fn build(self: Arc<Self>, _: &Job) -> Result<Box<dyn Executable>> {
            Err(Error::Bug("not in this test".into()))
        }
    }

    #[test]
    fn small_regions_share_an_allocation_and_large_ones_do_not() {
        let counting = Arc::new(Counting::default());
        let driver: Arc<dyn Driver> = counting.clone();
        let tally = Tally::default();
        let mut owned = Owned::new(&driver);
        let large = SHARED_BYTES + 1;
        let regions = owned.pack(&[0, 1, 256, 0, 300, large, 7, 0], "test", &tally).unwrap();
        let places: Vec<_> = regions.iter().map(|r| (r.memory.map(|m| m.0), r.offset, r.bytes)).collect();
        let some = |m, offset, bytes| (Some(m), offset, bytes);
        let none = (None, 0, 0);
        let expected =
            [none, some(0, 0, 1), some(0, 256, 256), none, some(0, 512, 300), some(1, 0, large), some(2, 0, 7), none];
        assert_eq!(places, expected);
        assert_eq!(counting.0.lock().unwrap().0, [1024, SHARED_BYTES + 256, 256]);
        assert_eq!(tally.now().allocations, 3);

        assert!(owned.pack(&[1 << 20, 1 << 31], "test", &tally).is_err());
        drop(owned);
        let all = counting.0.lock().unwrap();
        assert_eq!(all.1, all.0.len(), "what was allocated before the failure is freed as well");
    }
}
