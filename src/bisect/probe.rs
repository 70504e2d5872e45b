//! Single dispatches of an artifact on a device: its kernels in an artifact of their own, with an entry for each dispatch
//! that takes the kernel's inputs and gives its results. The runtime runs it as any other.

use super::fused::Pair;
use std::collections::BTreeMap;
use zml_format::{
    Argument, Artifact, Buffer, BufferKind, DType, Dispatch, Entry, EntryResult, Manifest, Program, Slice, Step,
    Tensor, Writer,
};
use zml_runtime::{Device, DeviceRequest, Model, Result, Session, WeightPlaces};

pub struct Probe {
    session: Session,
}

impl Probe {
    /// For profile `profile` of the artifact, on the device that suits it.
    pub fn new(artifact: &Artifact, profile: usize, request: DeviceRequest, pairs: &[Pair]) -> Result<Self> {
        let mut writer = Writer::new();
        let m = &artifact.manifest;
        let mut p = m.profiles[profile].clone();
        let mut blobs = BTreeMap::new();
        let code = p.kernels.iter_mut().map(|k| &mut k.blob);
        for blob in code.chain(p.native.iter_mut().flat_map(|n| &mut n.blobs)) {
            *blob = *blobs.entry(*blob).or_insert_with(|| writer.blob(artifact.blob(*blob)));
        }
        p.programs = pairs.iter().map(program).collect();
        let manifest = Manifest {
            weights: vec![],
            state: vec![],
            entries: pairs.iter().enumerate().map(|(i, p)| entry(i, p)).collect(),
            profiles: vec![p],
            blobs: vec![],
            ..m.clone()
        };
        let alone = Artifact::from_bytes(writer.finish(manifest))?;
        let device = Device::open(request, &alone)?;
        let model = Model::load(&alone, &device, &WeightPlaces::only([]))?;
        Ok(Probe { session: Session::new(&model)? })
    }
    /// Runs dispatch `i` on the bytes of its function's arguments; the bytes of its results.
    pub fn run(&mut self, i: usize, inputs: &[Vec<u8>], results: usize) -> Result<Vec<Vec<u8>>> {
        let name = name(i);
        for (k, bytes) in inputs.iter().enumerate() {
            self.session.write(&name, k, bytes)?;
        }
        self.session.call(&name)?;
        (0..results).map(|r| Ok(self.session.read(&name, r)?.to_vec())).collect()
    }
}

fn name(i: usize) -> String {
    format!("dispatch{i}")
}
fn bytes(name: String, n: u64) -> Tensor {
    Tensor { name, dtype: DType::U8, shape: vec![n] }
}
fn entry(i: usize, p: &Pair) -> Entry {
    let argument = |(a, n): (usize, &u64)| Argument::Input {
        tensor: bytes(format!("a{a}"), *n),
        donated: p.alias.contains(&Some(a)),
    };
    let result = |(r, n): (usize, &u64)| EntryResult { tensor: bytes(format!("r{r}"), *n), state: None };
    Entry {
        name: name(i),
        dims: vec![],
        arguments: p.inputs.iter().enumerate().map(argument).collect(),
        results: p.results.iter().enumerate().map(result).collect(),
    }
}
/// A kernel's buffers are the arguments that no result is written into, and then the results.
fn program(p: &Pair) -> Program {
    let argument = |(a, n): (usize, &u64)| Buffer { kind: BufferKind::Argument(a), bytes: *n };
    let mut buffers: Vec<Buffer> = p.inputs.iter().enumerate().map(argument).collect();
    let mut results = vec![];
    for (r, (n, alias)) in p.results.iter().zip(&p.alias).enumerate() {
        results.push(alias.unwrap_or(buffers.len()));
        if alias.is_none() {
            buffers.push(Buffer { kind: BufferKind::Result(r), bytes: *n });
        }
    }
    let whole = |b: usize| Slice { buffer: b, offset: 0, bytes: buffers[b].bytes };
    let read = (0..p.inputs.len()).filter(|a| !p.alias.contains(&Some(*a)));
    let dispatch = Dispatch { buffers: read.chain(results.iter().copied()).map(whole).collect(), ..p.dispatch.clone() };
    Program { arena_bytes: 0, steps: vec![Step::Dispatch(dispatch)], results, buffers }
}
