//! The way of a model's weights to the device: several threads read, hash and send, each through memory of its own that
//! the device copies from while the thread fills the other half.
//!
//! Memory is bounded by `WORKERS` and `LANE`, whatever the model. The first error in the order of the weights is the one
//! that is reported, however the threads run: a thread stops when a weight before its own has failed, and never for one
//! after.

use super::{Files, WeightPlaces, right, stream};
use crate::{
    drivers::{Driver, Lane, Region},
    error::{Error, Result},
};
use sha2::{Digest, Sha256};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};
use zml_format::{Artifact, Weight, WeightSource};

/// More read no faster than a disk or a bus gives.
const WORKERS: usize = 8;
/// Memory that a device copies from; each thread has two of them.
const LANE: usize = 8 << 20;
/// A thread is for this many bytes at least.
const SHARE: u64 = 32 << 20;
/// Pieces begin at multiples of this in a lane.
const STEP: usize = 64;
/// As much of a lane is left empty rather than filled with the begin of a piece.
const REST: usize = 64 << 10;

/// Whether the weights are so many that they are worth threads of their own.
pub(crate) fn is_large(artifact: &Artifact) -> bool {
    total(artifact) > LANE as u64
}

fn total(artifact: &Artifact) -> u64 {
    artifact.manifest.weights.iter().map(|w| w.tensor.bytes()).sum()
}

/// Uploads every weight of the artifact to its region.
pub(crate) fn upload(
    artifact: &Artifact,
    places: &WeightPlaces,
    driver: &Arc<dyn Driver>,
    regions: &[Region],
) -> Result<()> {
    let files = Files::of(artifact, places)?;
    if !is_large(artifact) {
        return one_by_one(artifact, &files, driver, regions);
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let workers = cores.min(WORKERS).min(total(artifact).div_ceil(SHARE) as usize);
    side_by_side(artifact, &files, driver, regions, (workers, LANE))
}

/// Without memory and threads of their own, which would take longer to make than these take to send.
fn one_by_one(artifact: &Artifact, files: &Files, driver: &Arc<dyn Driver>, regions: &[Region]) -> Result<()> {
    let mut piece = vec![];
    for (w, region) in artifact.manifest.weights.iter().zip(regions) {
        match &w.source {
            WeightSource::Embedded { blob } => driver.upload(*region, artifact.blob(*blob))?,
            WeightSource::External { file, key } => {
                let up = |at, piece: &[u8]| driver.upload(region.part(at, piece.len() as u64), piece);
                let hash = stream(files.get(file), key, w, &mut piece, up)?;
                right(&hash, file, key, w, &artifact.manifest.model.name)?;
            }
        }
    }
    Ok(())
}

fn side_by_side(
    artifact: &Artifact,
    files: &Files,
    driver: &Arc<dyn Driver>,
    regions: &[Region],
    (workers, lane): (usize, usize),
) -> Result<()> {
    let work = Work::new(artifact, files, driver, regions, lane);
    thread::scope(|s| {
        // What cannot be started is done by the others.
        for _ in 1..workers {
            let _ = thread::Builder::new().name("zml-weights".into()).spawn_scoped(s, || work.run());
        }
        work.run();
    });
    work.error.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), |(_, e)| Err(e))
}

/// What the threads share.
struct Work<'a> {
    artifact: &'a Artifact,
    files: &'a Files<'a>,
    driver: &'a Arc<dyn Driver>,
    regions: &'a [Region],
    lane: usize,
    /// The weight that the next idle thread takes.
    next: AtomicUsize,
    /// The first weight that failed, and how.
    failed: AtomicUsize,
    error: Mutex<Option<(usize, Error)>>,
}

impl<'a> Work<'a> {
    fn new(
        artifact: &'a Artifact,
        files: &'a Files<'a>,
        driver: &'a Arc<dyn Driver>,
        regions: &'a [Region],
        lane: usize,
    ) -> Self {
        let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
        Work { artifact, files, driver, regions, lane, next, failed, error: Mutex::new(None) }
    }

    fn run(&self) {
        let mut way = None;
        let mut last = 0;
        let sent = loop {
            let i = self.next.fetch_add(1, Ordering::Relaxed);
            if i >= self.regions.len() || self.is_over(i) {
                break way.map_or(Ok(()), Way::finish);
            }
            last = i;
            if self.regions[i].bytes == 0 {
                continue;
            }
            let sent = match &mut way {
                Some(way) => self.send(i, way),
                None => Way::new(self.driver, self.lane).and_then(|new| self.send(i, way.insert(new))),
            };
            if sent.is_err() {
                break sent;
            }
        };
        if let Err(e) = sent {
            self.fail(last, e);
        }
    }

    /// Whether a weight before this one has failed.
    fn is_over(&self, i: usize) -> bool {
        self.failed.load(Ordering::Acquire) < i
    }

    fn fail(&self, i: usize, e: Error) {
        let mut error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        if error.as_ref().is_none_or(|(first, _)| i < *first) {
            *error = Some((i, e));
            self.failed.store(i, Ordering::Release);
        }
    }

    /// Sends weight `i`, or as much of it as there is time for before another's failure.
    fn send(&self, i: usize, way: &mut Way) -> Result<()> {
        let (w, region) = (&self.artifact.manifest.weights[i], self.regions[i]);
        match &w.source {
            WeightSource::Embedded { blob } => {
                let bytes = self.artifact.blob(*blob);
                self.pieces(i, way, region, |at, to| {
                    to.copy_from_slice(&bytes[at as usize..at as usize + to.len()]);
                    Ok(())
                })?;
                Ok(())
            }
            WeightSource::External { file, key } => self.send_file(i, w, (file, key), way),
        }
    }

    fn send_file(&self, i: usize, w: &Weight, (file, key): (&str, &str), way: &mut Way) -> Result<()> {
        let open = self.files.get(file);
        let entry = open.check(key, &w.tensor).map_err(|e| Error::Weights(e.to_string()))?;
        let mut hash = Sha256::new();
        let whole = self.pieces(i, way, self.regions[i], |at, to| {
            open.read_at(entry, at, to).map_err(|e| Error::Weights(e.to_string()))?;
            hash.update(to);
            Ok(())
        })?;
        let hash: String = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
        if whole { right(&hash, file, key, w, &self.artifact.manifest.model.name) } else { Ok(()) }
    }

    /// Piece by piece, each filled by `fill`, which gets its place in the weight; false if it was given up.
    fn pieces(
        &self,
        i: usize,
        way: &mut Way,
        region: Region,
        mut fill: impl FnMut(u64, &mut [u8]) -> Result<()>,
    ) -> Result<bool> {
        let mut at = 0;
        while at < region.bytes {
            if self.is_over(i) {
                return Ok(false);
            }
            let room = way.room(region.bytes - at)?;
            let n = room.len() as u64;
            fill(at, room)?;
            way.send(region.part(at, n))?;
            at += n;
        }
        Ok(true)
    }
}

/// Two lanes in turn.
struct Way {
    lanes: [Box<dyn Lane>; 2],
    /// The lane that is filled, and how far.
    at: usize,
    filled: usize,
    bytes: usize,
}

impl Way {
    fn new(driver: &Arc<dyn Driver>, bytes: usize) -> Result<Self> {
        let lane = || driver.clone().lane(bytes);
        Ok(Way { lanes: [lane()?, lane()?], at: 0, filled: 0, bytes })
    }

    /// Memory for the next bytes, at least one and at most `most`.
    fn room(&mut self, most: u64) -> Result<&mut [u8]> {
        let left = (self.bytes - self.filled) as u64;
        if left == 0 || left < most.min(REST as u64) {
            self.lanes[self.at].flush()?;
            self.at = 1 - self.at;
            self.lanes[self.at].wait()?;
            self.filled = 0;
        }
        let end = (self.filled as u64 + most).min(self.bytes as u64) as usize;
        Ok(&mut self.lanes[self.at].memory()[self.filled..end])
    }

    /// What `room` gave last, or its begin.
    fn send(&mut self, to: Region) -> Result<()> {
        self.lanes[self.at].send(self.filled, to)?;
        self.filled = (self.filled + to.bytes as usize).next_multiple_of(STEP).min(self.bytes);
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        self.lanes[self.at].flush()?;
        self.lanes.iter_mut().try_for_each(|l| l.wait())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cache::Cache,
        drivers::{Executable, Job, KernelSet, Memory},
        tensor::{HostTensor, safetensors},
    };
    use zml_format::{DType, Manifest, Model, Profile, Tensor, Writer};

    /// Memory is a vector for each weight; sending to one of them fails.
    #[derive(Default)]
    struct Host {
        memory: Mutex<Vec<Vec<u8>>>,
        /// Bytes of each lane that was made.
        lanes: Mutex<Vec<usize>>,
        broken: Option<usize>,
    }
    struct HostLane {
        host: Arc<Host>,
        memory: Vec<u8>,
        /// Arrives when it is waited for: what is written over too early arrives wrong.
        sent: Vec<(usize, Region)>,
    }
    impl Lane for HostLane {
        fn memory(&mut self) -> &mut [u8] {
            &mut self.memory
        }
        fn send(&mut self, at: usize, to: Region) -> Result<()> {
            if to.memory.map(|m| m.0) == self.host.broken {
                return Err(Error::Bug("the device does not take it".into()));
            }
            self.sent.push((at, to));
            Ok(())
        }
        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
        fn wait(&mut self) -> Result<()> {
            let mut memory = self.host.memory.lock().unwrap();
            for (at, to) in self.sent.drain(..) {
                let (begin, n) = (to.offset as usize, to.bytes as usize);
                memory[to.memory.unwrap().0][begin..begin + n].copy_from_slice(&self.memory[at..at + n]);
            }
            Ok(())
        }
    }
    impl Driver for Host {
        fn allocate(&self, _: u64, _: &str) -> Result<Memory> {
            Err(Error::Bug("not in this test".into()))
        }
        fn free(&self, _: Memory) {}
        fn upload(&self, _: Region, _: &[u8]) -> Result<()> {
            Err(Error::Bug("not in this test".into()))
        }
        fn lane(self: Arc<Self>, bytes: usize) -> Result<Box<dyn Lane>> {
            self.lanes.lock().unwrap().push(bytes);
            Ok(Box::new(HostLane { host: self, memory: vec![0xee; bytes], sent: vec![] }))
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

    /// An artifact whose weights have these sizes, every third of them inside, the others in two files.
    struct Case {
        _dir: tempfile::TempDir,
        artifact: Artifact,
        places: WeightPlaces,
        values: Vec<Vec<u8>>,
        regions: Vec<Region>,
    }
    fn case(sizes: &[usize], damaged: &[usize]) -> Case {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::new();
        let value = |i: usize, n: &usize| (0..*n).map(|k| (k * 7 + i * 13 + k / 251) as u8).collect();
        let values: Vec<Vec<u8>> = sizes.iter().enumerate().map(|(i, n)| value(i, n)).collect();
        let names: Vec<String> = (0..sizes.len()).map(|i| format!("w{i}")).collect();
        let mut weights: Vec<Weight> = vec![];
        let mut stored: [Vec<(&str, HostTensor)>; 2] = [vec![], vec![]];
        for (i, bytes) in values.iter().enumerate() {
            let tensor = Tensor { name: names[i].clone(), dtype: DType::U8, shape: vec![bytes.len() as u64] };
            let source = if i % 3 == 0 {
                WeightSource::Embedded { blob: writer.blob(bytes) }
            } else {
                let mut bytes = bytes.clone();
                if damaged.contains(&i) {
                    bytes[0] ^= 1;
                }
                let shape = tensor.shape.clone();
                stored[i % 3 - 1].push((&names[i], HostTensor { dtype: DType::U8, shape, bytes }));
                WeightSource::External { file: format!("f{}.safetensors", i % 3), key: names[i].clone() }
            };
            let sha256 = Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect();
            weights.push(Weight { tensor, sha256, source });
        }
        for (f, tensors) in stored.iter().enumerate() {
            let tensors: Vec<_> = tensors.iter().map(|(name, t)| (*name, t)).collect();
            safetensors::write(&dir.path().join(format!("f{}.safetensors", f + 1)), &tensors).unwrap();
        }
        let manifest = Manifest {
            producer: "test".into(),
            model: Model { name: "m".into(), version: "1".into() },
            sources: None,
            weights,
            state: vec![],
            entries: vec![],
            profiles: vec![],
            blobs: vec![],
        };
        let region = |(i, n): (usize, &usize)| match n {
            0 => Region::EMPTY,
            n => Region { memory: Some(Memory(i)), offset: 256, bytes: *n as u64 },
        };
        Case {
            artifact: Artifact::from_bytes(writer.finish(manifest)).unwrap(),
            places: WeightPlaces::only([dir.path().to_owned()]),
            values,
            regions: sizes.iter().enumerate().map(region).collect(),
            _dir: dir,
        }
    }
    fn host_for(c: &Case, broken: Option<usize>) -> Arc<Host> {
        let memory = c.values.iter().map(|v| vec![0; v.len() + 256]).collect();
        Arc::new(Host { memory: Mutex::new(memory), broken, ..Host::default() })
    }
    fn run(c: &Case, broken: Option<usize>, workers: usize, lane: usize) -> (Arc<Host>, Result<()>) {
        let host = host_for(c, broken);
        let driver: Arc<dyn Driver> = host.clone();
        let files = Files::of(&c.artifact, &c.places).unwrap();
        (host, side_by_side(&c.artifact, &files, &driver, &c.regions, (workers, lane)))
    }

    #[test]
    fn bytes_arrive_as_they_are_through_bounded_memory() {
        // Larger than a lane, as large, a little less, none, and many small ones.
        let mut sizes = vec![300_000, 131_072, 131_071, 0, 65, 64, 200_001, 1];
        sizes.extend((0..60).map(|i| i * 37 % 5000 + 1));
        let c = case(&sizes, &[]);
        for (workers, lane) in [(1, 131_072), (4, 131_072), (3, 1 << 10), (8, 1 << 20)] {
            let (host, done) = run(&c, None, workers, lane);
            done.unwrap();
            for (i, (found, value)) in host.memory.lock().unwrap().iter().zip(&c.values).enumerate() {
                assert!(found[256..] == value[..], "weight {i} by {workers} threads and {lane} bytes");
                assert!(found[..256].iter().all(|b| *b == 0));
            }
            let lanes = host.lanes.lock().unwrap();
            assert!((2..=2 * workers).contains(&lanes.len()) && lanes.iter().all(|l| *l == lane), "{lanes:?}");
        }
    }

    /// Whatever thread comes first, the error is the one that a single thread would meet.
    #[test]
    fn the_first_weight_that_fails_is_the_error() {
        let sizes = [90_000, 80_000, 70_000, 60_000, 50_000, 40_000, 30_000, 20_000, 10_000];
        let c = case(&sizes, &[4, 5, 8]);
        for workers in [1, 2, 4, 8, 8, 8, 8] {
            let e = run(&c, None, workers, 4 << 10).1.unwrap_err().to_string();
            assert!(e.starts_with("`w4` of f1.safetensors is not the weight that `m` was built with"), "{e}");
            let e = run(&c, Some(3), workers, 4 << 10).1.unwrap_err().to_string();
            assert_eq!(e, "bug in zmlc: the device does not take it");
            let e = run(&c, Some(6), workers, 4 << 10).1.unwrap_err().to_string();
            assert!(e.starts_with("`w4` of "), "{e}");
        }
    }

    #[test]
    fn a_failure_stops_what_comes_after_it() {
        let c = case(&[50_000; 200], &[]);
        let host = host_for(&c, None);
        let driver: Arc<dyn Driver> = host.clone();
        let files = Files::of(&c.artifact, &c.places).unwrap();
        let work = Work::new(&c.artifact, &files, &driver, &c.regions, 4 << 10);
        work.fail(120, Error::Bug("of another thread".into()));
        work.run();
        let touched: Vec<bool> = host.memory.lock().unwrap().iter().map(|m| m.iter().any(|b| *b != 0)).collect();
        assert!(touched[..=120].iter().all(|t| *t), "the weights before may hold the first error");
        assert!(touched[121..].iter().all(|t| !*t), "the weights after are sent in vain");
    }

    #[test]
    fn a_failure_before_a_weight_ends_it_within_a_piece() {
        let c = case(&[50_000; 9], &[]);
        let driver: Arc<dyn Driver> = host_for(&c, None);
        let files = Files::of(&c.artifact, &c.places).unwrap();
        let work = Work::new(&c.artifact, &files, &driver, &c.regions, 4 << 10);
        let mut way = Way::new(&driver, 4 << 10).unwrap();
        let mut pieces = 0;
        let whole = work.pieces(5, &mut way, c.regions[5], |_, _| {
            pieces += 1;
            // One after its own is nothing to it.
            work.fail(if pieces == 1 { 7 } else { 3 }, Error::Bug("of another thread".into()));
            Ok(())
        });
        assert_eq!((whole.unwrap(), pieces), (false, 2));
    }
}
