//! Hand-made artifacts for tests: a few kernels assembled as SPIR-V, and short ways to write manifests.

use crate::kernels;
use std::{io::Write, path::PathBuf};
use zml_runtime::{Artifact, Device, DeviceRequest, Error, Model, Session, WeightPlaces, format::*};

pub fn tensor(name: &str, dtype: DType, shape: &[u64]) -> Tensor {
    Tensor { name: name.into(), dtype, shape: shape.to_vec() }
}
pub fn input(name: &str, n: u64) -> Argument {
    Argument::Input { tensor: tensor(name, DType::F32, &[n]), donated: false }
}
pub fn donated(name: &str, n: u64) -> Argument {
    Argument::Input { tensor: tensor(name, DType::F32, &[n]), donated: true }
}
pub fn result(name: &str, n: u64) -> EntryResult {
    EntryResult { tensor: tensor(name, DType::F32, &[n]), state: None }
}
pub fn buffer(kind: BufferKind, bytes: u64) -> Buffer {
    Buffer { kind, bytes }
}
pub fn slice(buffer: usize, offset: u64, bytes: u64) -> Slice {
    Slice { buffer, offset, bytes }
}

/// An artifact under construction, with one profile of one target.
pub struct Model1 {
    pub writer: Writer,
    pub manifest: Manifest,
}

impl Model1 {
    /// `kernels` all live in one module.
    pub fn new(profile: Profile) -> Self {
        let manifest = Manifest {
            producer: "test".into(),
            model: zml_runtime::format::Model { name: "test".into(), version: "1".into() },
            weights: vec![],
            state: vec![],
            entries: vec![],
            profiles: vec![profile],
            blobs: vec![],
        };
        Model1 { writer: Writer::new(), manifest }
    }
    pub fn entry(mut self, name: &str, arguments: Vec<Argument>, results: Vec<EntryResult>, program: Program) -> Self {
        self.manifest.entries.push(Entry { name: name.into(), arguments, results });
        self.manifest.profiles[0].programs.push(program);
        self
    }
    pub fn bytes(self) -> Vec<u8> {
        self.writer.finish(self.manifest)
    }
    pub fn artifact(self) -> Artifact {
        Artifact::from_bytes(self.bytes()).expect("a valid artifact")
    }
}

/// The Vulkan profile that the kernels of `kernels` need, for lavapipe.
pub fn vulkan() -> Model1 {
    let mut m = Model1::new(Profile {
        target: "vulkan".into(),
        name: "vulkan1.2".into(),
        requires: Requires {
            api: "1.2".into(),
            features: ["shaderInt8", "storageBuffer8BitAccess"].map(String::from).to_vec(),
            limits: vec![("maxPerStageDescriptorStorageBuffers".into(), 4)],
            ..Requires::default()
        },
        kernels: vec![],
        programs: vec![],
    });
    let blob = m.writer.blob(&kernels::module());
    let access = |s: &str| s.chars().map(|c| if c == 'r' { Access::Read } else { Access::Write }).collect();
    for (symbol, accesses) in kernels::KERNELS {
        m.manifest.profiles[0].kernels.push(Kernel {
            symbol: (*symbol).into(),
            blob,
            block: [64, 1, 1],
            shared_bytes: 0,
            buffers: access(accesses),
            scalar_bytes: 8,
            label: format!("test_{symbol}"),
        });
    }
    m
}

/// A dispatch of the kernel `symbol` over `n` elements.
pub fn dispatch(symbol: &str, buffers: &[Slice], n: u32, scalar: u32) -> Step {
    let kernel = kernels::KERNELS.iter().position(|k| k.0 == symbol).expect("a kernel of the module");
    Step::Dispatch(Dispatch {
        kernel,
        grid: [n.div_ceil(64), 1, 1],
        buffers: buffers.to_vec(),
        scalars: vec![n, scalar],
    })
}

/// The device that `auto` picks. Without a Vulkan driver the test says so and is skipped.
pub fn open(artifact: &Artifact) -> Option<(Model, Session)> {
    let device = match Device::open(DeviceRequest::Auto, artifact) {
        Ok(d) => d,
        Err(Error::NoDevice(why)) => {
            skipped(&why);
            return None;
        }
        Err(e) => panic!("{e}"),
    };
    let model = Model::load(artifact, &device, &WeightPlaces::only([PathBuf::new()])).expect("the model loads");
    let session = Session::new(&model).expect("a session");
    Some((model, session))
}

/// Past the test harness, which hides what passing tests print.
pub fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {}: {why}", std::thread::current().name().unwrap_or_default());
}

pub fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}
pub fn read(session: &Session, entry: &str, i: usize) -> Vec<f32> {
    let bytes = session.read(entry, i).expect("an output");
    bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}
