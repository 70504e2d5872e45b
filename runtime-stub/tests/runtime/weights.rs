//! Many weights: through pinned memory on CUDA and HIP, through whatever Vulkan has; every byte arrives, and whatever call
//! fails on the way is the one error, with nothing left behind.

use crate::{common::*, fakes};
use std::path::Path;
use zml_runtime::{
    WeightPlaces,
    format::*,
    tensor::{HostTensor, npy, safetensors},
};

/// More than a piece of pinned memory, and not a whole number of them.
const LARGE: u64 = (9 << 20) + 12_345;
const SMALL: u64 = 70_001;

fn values(n: u64, seed: u64) -> HostTensor {
    let bytes = (0..n).map(|i| (i * 31 + i / 4099 + seed) as u8).collect();
    HostTensor { dtype: DType::U8, shape: vec![n], bytes }
}

/// Copies a large weight of a file and a small one of the artifact to its results.
fn artifact(dir: &Path, targets: &[&str]) -> Vec<u8> {
    let (large, small) = (values(LARGE, 1), values(SMALL, 2));
    safetensors::write(&dir.join("w.safetensors"), &[("large", &large)]).unwrap();
    let mut m = builder(targets);
    let blob = m.writer.blob(&small.bytes);
    let weight = |name: &str, value: &HostTensor, source| Weight {
        tensor: tensor(name, DType::U8, &value.shape),
        sha256: sha256(&value.bytes),
        source,
    };
    let external = WeightSource::External { file: "w.safetensors".into(), key: "large".into() };
    m.manifest.weights =
        vec![weight("large", &large, external), weight("small", &small, WeightSource::Embedded { blob })];
    let whole = |buffer, bytes| slice(buffer, 0, bytes);
    let program = Program {
        arena_bytes: 0,
        buffers: vec![
            buffer(BufferKind::Argument(0), LARGE),
            buffer(BufferKind::Argument(1), SMALL),
            buffer(BufferKind::Result(0), LARGE),
            buffer(BufferKind::Result(1), SMALL),
        ],
        results: vec![2, 3],
        steps: vec![
            Step::Copy { from: whole(0, LARGE), to: whole(2, LARGE) },
            Step::Copy { from: whole(1, SMALL), to: whole(3, SMALL) },
        ],
    };
    let arguments = vec![Argument::Weight { weight: 0 }, Argument::Weight { weight: 1 }];
    let result = |name: &str, n| EntryResult { tensor: tensor(name, DType::U8, &[n]), state: None };
    m.entry("main", arguments, vec![result("a", LARGE), result("b", SMALL)], &program).bytes()
}

/// By the program of that name: the runtime's own sum is what is under test.
fn sha256(bytes: &[u8]) -> String {
    use std::{io::Write, process::*};
    let mut c = Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("coreutils");
    c.stdin.take().expect("piped").write_all(bytes).expect("it reads");
    let out = c.wait_with_output().expect("it ends").stdout;
    String::from_utf8(out).expect("text")[..64].into()
}

const CALL: &str = "--output 0=a.npy --output 1=b.npy";

#[test]
fn every_byte_arrives_through_pinned_memory() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (target, pinned, up) in
        [("cuda", "cuMemHostAlloc", "cuMemcpyHtoDAsync_v2"), ("rocm", "hipHostMalloc", "hipMemcpyHtoDAsync")]
    {
        std::fs::write(dir.join("m.zml"), artifact(dir, &[target])).unwrap();
        let (log, said) = fakes::run(dir, CALL, &[]);
        assert!(said.starts_with("0 "), "{said}");
        fakes::check_lifetimes(&log);
        for (file, value) in [("a.npy", values(LARGE, 1)), ("b.npy", values(SMALL, 2))] {
            let expected = tensor("t", DType::U8, &value.shape);
            assert!(npy::read(&dir.join(file), &expected).unwrap() == value, "{target}: {file}");
        }
        // Two pieces of the one and the other, each from pinned memory of eight MiB.
        assert_eq!(log.matches(&format!("{pinned}(8388608) ->")).count(), 2, "{log}");
        let copies: Vec<&str> = log.lines().filter(|l| l.starts_with(up)).collect();
        assert!(copies.len() == 3 && copies.iter().all(|c| c.contains(", h")), "{copies:?}");
    }
}

#[test]
fn a_call_that_fails_on_the_way_is_the_only_error() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("m.zml"), artifact(dir, &["cuda"])).unwrap();
    for (fault, why) in [
        ("cuMemHostAlloc#1=2", "is out of memory: 8388608 bytes for uploads"),
        ("cuMemHostAlloc#2=2", "is out of memory: 8388608 bytes for uploads"),
        ("cuStreamCreate#2=1", "cuStreamCreate failed: CUDA_ERROR_INVALID_VALUE: invalid argument"),
        ("cuMemcpyHtoDAsync_v2#1=1", "cuMemcpyHtoDAsync_v2 failed: CUDA_ERROR_INVALID_VALUE: invalid argument"),
        ("cuMemcpyHtoDAsync_v2#3=1", "cuMemcpyHtoDAsync_v2 failed: CUDA_ERROR_INVALID_VALUE: invalid argument"),
        ("cuStreamSynchronize#1=719", "was lost in cuStreamSynchronize: CUDA_ERROR_LAUNCH_FAILED"),
    ] {
        let (log, said) = fakes::run(dir, CALL, &[("ZML_FAKE_FAIL", fault)]);
        let errors: Vec<&str> = said.lines().filter(|l| l.starts_with("error: ")).collect();
        assert!(said.starts_with("1 ") && errors.len() == 1 && errors[0].contains(why), "{fault}: {said}");
        fakes::check_lifetimes(&log);
    }
    // Kernels that fail meanwhile are not what is said where the weights are wrong too.
    let path = dir.join("w.safetensors");
    let mut file = std::fs::read(&path).unwrap();
    *file.last_mut().unwrap() ^= 1;
    std::fs::write(&path, file).unwrap();
    let (log, said) = fakes::run(dir, CALL, &[("ZML_FAKE_FAIL", "cuModuleGetFunction#1=500")]);
    fakes::check_lifetimes(&log);
    let expected = "error: `large` of w.safetensors is not the weight that `test` was built with";
    assert!(said.lines().nth(1).unwrap().starts_with(expected), "{said}");
}

/// On whatever device there is.
#[test]
fn every_byte_arrives_on_the_device() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = artifact(dir.path(), &["vulkan", "cuda"]);
    let artifact = Artifact::from_bytes(bytes).unwrap();
    let Some(device) = device(&artifact) else { return };
    let places = WeightPlaces::only([dir.path().to_owned()]);
    let model = zml_runtime::Model::load(&artifact, &device, &places).unwrap();
    let mut session = zml_runtime::Session::new(&model).unwrap();
    session.call("main").unwrap();
    assert!(session.read("main", 0).unwrap() == values(LARGE, 1).bytes);
    assert!(session.read("main", 1).unwrap() == values(SMALL, 2).bytes);
}
