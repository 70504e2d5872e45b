//! Hand-made artifacts for tests: a few kernels assembled as SPIR-V, and short ways to write manifests.

use crate::{kernels, ptx};
use std::io::Write;
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

/// An artifact under construction.
pub struct Builder {
    pub writer: Writer,
    pub manifest: Manifest,
}

/// With a profile for each target: `vulkan`, `cuda`, `rocm`. The kernels are those of `kernels.rs`; for ROCm there is only
/// what the fake library reads.
pub fn builder(targets: &[&str]) -> Builder {
    let mut writer = Writer::new();
    let profiles = targets.iter().map(|t| profile(t, &mut writer)).collect();
    let model = zml_runtime::format::Model { name: "test".into(), version: "1".into() };
    let manifest = Manifest {
        producer: "test".into(),
        model,
        sources: None,
        weights: vec![],
        state: vec![],
        entries: vec![],
        profiles,
        blobs: vec![],
    };
    Builder { writer, manifest }
}

fn profile(target: &str, writer: &mut Writer) -> Profile {
    let (name, requires, blob) = match target {
        "vulkan" => {
            let requires = Requires {
                api: "1.2".into(),
                features: ["shaderInt8", "storageBuffer8BitAccess"].map(String::from).to_vec(),
                limits: vec![("maxPerStageDescriptorStorageBuffers".into(), 4)],
                ..Requires::default()
            };
            ("vulkan1.2", requires, writer.blob(&kernels::module()))
        }
        "cuda" => {
            let requires = Requires { api: "11010".into(), arch: "sm_80+".into(), ..Requires::default() };
            ("generic", requires, writer.blob(ptx::module().as_bytes()))
        }
        _ => {
            let requires = Requires { api: "5".into(), arch: "gfx942".into(), ..Requires::default() };
            ("gfx942", requires, writer.blob(ptx::module().as_bytes()))
        }
    };
    let access = |s: &str| s.chars().map(|c| if c == 'r' { Access::Read } else { Access::Write }).collect();
    let kernel = |(symbol, accesses): &(&str, &str)| Kernel {
        symbol: (*symbol).into(),
        blob,
        block: [64, 1, 1],
        shared_bytes: 0,
        buffers: access(accesses),
        addresses: vec![],
        scalar_bytes: 8,
        label: format!("test_{symbol}"),
        overlaps: false,
    };
    let kernels = kernels::KERNELS.iter().map(kernel).collect();
    Profile { target: target.into(), name: name.into(), requires, native: None, kernels, programs: vec![] }
}

impl Builder {
    pub fn entry(mut self, name: &str, arguments: Vec<Argument>, results: Vec<EntryResult>, program: &Program) -> Self {
        self.manifest.entries.push(Entry { name: name.into(), dims: vec![], arguments, results });
        self.manifest.profiles.iter_mut().for_each(|p| p.programs.push(program.clone()));
        self
    }
    pub fn bytes(self) -> Vec<u8> {
        self.writer.finish(self.manifest)
    }
    pub fn artifact(self) -> Artifact {
        Artifact::from_bytes(self.bytes()).expect("a valid artifact")
    }
}

/// For any device that a test may find.
pub fn any() -> Builder {
    builder(&["vulkan", "cuda"])
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

/// The device that `ZML_TEST_DEVICE` names, or that `auto` picks. Without any the test says so and is skipped.
pub fn device(artifact: &Artifact) -> Option<Device> {
    let request = std::env::var("ZML_TEST_DEVICE").map_or(DeviceRequest::Auto, |d| d.parse().expect("a device"));
    match Device::open(request, artifact) {
        Ok(d) => Some(d),
        Err(Error::NoDevice(why)) => {
            skipped(&why);
            None
        }
        Err(e) => panic!("{e}"),
    }
}
pub fn open(artifact: &Artifact) -> Option<(Model, Session)> {
    let device = device(artifact)?;
    let model = Model::load(artifact, &device, &WeightPlaces::only([])).expect("the model loads");
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
