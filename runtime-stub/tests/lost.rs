//! A device that is lost, and one without room: errors by name, and what is opened afterwards works. On the recording
//! libraries, which take their settings from the environment: a test program of its own, with one test.

#[path = "runtime/common.rs"]
#[allow(dead_code, reason = "shared with the other test program")]
mod common;
#[path = "runtime/kernels.rs"]
mod kernels;
#[path = "runtime/ptx.rs"]
mod ptx;

use common::*;
use zml_runtime::{Device, DeviceRequest, Error, Model, Session, WeightPlaces, format::*};

fn set(name: &str, value: &str) {
    // Safety: this program has one test, and no other thread reads the environment.
    unsafe { std::env::set_var(name, value) };
}

#[test]
fn what_follows_a_lost_device_works() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let fake = std::env::current_exe().unwrap().with_file_name("libzml_fakes.so");
    set("ZML_LIBCUDA", fake.to_str().unwrap());
    set("ZML_FAKE_LOG", log.to_str().unwrap());
    let program = Program {
        arena_bytes: 0,
        buffers: vec![buffer(BufferKind::Argument(0), 16), buffer(BufferKind::Result(0), 16)],
        results: vec![1],
        steps: vec![Step::Copy { from: slice(0, 0, 16), to: slice(1, 0, 16) }],
    };
    let mut m = builder(&["cuda"]);
    m.manifest.state = vec![State { tensor: tensor("s", DType::F32, &[64]) }];
    let artifact = m.entry("main", vec![input("x", 4)], vec![result("y", 4)], &program).artifact();
    let load = || {
        let device = Device::open(DeviceRequest::Auto, &artifact).unwrap();
        Model::load(&artifact, &device, &WeightPlaces::only([])).unwrap()
    };
    let values = f32s(&[1.0, 2.0, 3.0, 4.0]);
    let works = |s: &mut Session| {
        s.write("main", 0, &values).unwrap();
        s.call("main").unwrap();
        assert_eq!(s.read("main", 0).unwrap(), values);
    };
    let next = |call: &str| {
        let seen = std::fs::read_to_string(&log).unwrap();
        format!("{call}#{}", 1 + seen.lines().filter(|l| l.starts_with(&format!("{call}("))).count())
    };

    let model = load();
    let mut s = Session::new(&model).unwrap();
    works(&mut s);
    set("ZML_FAKE_FAIL", &format!("{}=719", next("cuStreamSynchronize")));
    let e = s.call("main").unwrap_err();
    assert!(matches!(&e, Error::DeviceLost { device, .. } if device == "cuda:0 Fake GPU (GPU)"), "{e}");
    assert!(s.call("main").unwrap_err().to_string().contains("make a new session"));
    drop((s, model));

    let model = load();
    set("ZML_FAKE_FAIL", &format!("{}=2", next("cuMemAlloc_v2")));
    let e = Session::new(&model).unwrap_err();
    assert!(matches!(&e, Error::OutOfMemory { what, bytes: 256, .. } if what == "state"), "{e}");
    works(&mut Session::new(&model).unwrap());
    drop(model);
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(!log.contains("!!"), "misuse:\n{log}");
    assert!(
        log.trim_end().ends_with("0 device, 0 pinned, 0 modules, 0 streams, 0 graphs, 0 executable graphs left"),
        "{log}"
    );
}
