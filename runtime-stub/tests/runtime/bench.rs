//! `zml-run bench`: counts and rows, on the recording libraries and on whatever device there is. Times are not tested.

use crate::{common::*, fakes};
use std::{path::Path, process::Command};
use zml_runtime::{Session, Work, format::*};

fn lines(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {text}"))).collect()
}

fn bench(dir: &Path, settings: &[(&str, &str)]) -> (Vec<serde_json::Value>, String) {
    let log = dir.join("log");
    let mut c = Command::new(env!("CARGO_BIN_EXE_zml-run"));
    c.args(["bench", "m.zml", "--calls", "10", "--message-format", "json"]).current_dir(dir);
    c.env("ZML_FAKE_LOG", &log).env("ZML_LIBCUDA", fakes::library()).env("ZML_LIBAMDHIP64", fakes::library());
    let o = c.envs(settings.iter().copied()).output().unwrap();
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    (lines(&String::from_utf8(o.stdout).unwrap()), std::fs::read_to_string(log).unwrap())
}

#[test]
fn every_step_has_its_time() {
    for target in ["cuda", "rocm"] {
        let dir = tempfile::tempdir().unwrap();
        fakes::model(dir.path(), target);
        let (lines, log) = bench(dir.path(), &[]);
        fakes::check_lifetimes(&log);
        let b = &lines[1];
        let count = |what: &str| b[what].as_u64().unwrap();
        assert_eq!(["submits", "dispatches", "copies", "read_backs"].map(count), [2, 3, 3, 1]);
        assert_eq!(count("allocations"), 0, "after the first call");
        assert!(
            ["call", "write_and_call", "back_to_back"].iter().all(|row| b[*row]["min_us"].as_f64().unwrap() >= 0.0),
            "{b}"
        );
        // Each step takes the fake device a microsecond; the two runs of `add` and both copies are one row each.
        let mut rows: Vec<_> = lines[2..]
            .iter()
            .map(|r| (r["ops"].as_str().unwrap(), r["runs"].as_f64().unwrap(), r["bytes"].as_f64().unwrap()))
            .collect();
        rows.sort_by(|a, b| a.0.cmp(b.0));
        assert_eq!(rows, [("copy", 2.0, 64.0), ("fill", 1.0, 1.0), ("test_add", 2.0, 92.0), ("test_scale", 1.0, 32.0)]);
        assert!(lines[2..].iter().all(|r| r["us"].as_f64().unwrap() > 0.99 * r["runs"].as_f64().unwrap()), "{lines:?}");
    }
}

/// What a device cannot tell is said, and the rest is measured all the same.
#[test]
fn calls_are_timed_where_kernels_cannot_be() {
    let dir = tempfile::tempdir().unwrap();
    fakes::model(dir.path(), "cuda");
    let (lines, _) = bench(dir.path(), &[("ZML_FAKE_FAIL", "cuEventCreate#1=801")]);
    assert_eq!(lines.len(), 2, "no kernels");
    assert!(lines[1]["no_kernel_times"].as_str().unwrap().contains("cuEventCreate failed"), "{}", lines[1]);
}

#[test]
fn a_timed_session_computes_the_same() {
    let mut m = any();
    m.manifest.state = vec![];
    let program = Program {
        arena_bytes: 16,
        buffers: vec![
            buffer(BufferKind::Argument(0), 16),
            buffer(BufferKind::Arena(0), 16),
            buffer(BufferKind::Result(0), 16),
        ],
        results: vec![2],
        steps: vec![
            dispatch("scale", &[slice(0, 0, 16), slice(1, 0, 16)], 4, 3),
            Step::Barrier,
            dispatch("add", &[slice(0, 0, 16), slice(1, 0, 16), slice(2, 0, 16)], 4, 0),
        ],
    };
    let artifact = m.entry("main", vec![input("x", 4)], vec![result("y", 4)], &program).artifact();
    let Some((model, plain)) = open(&artifact) else { return };
    let mut timed = Session::timed(&model).unwrap();
    timed.write("main", 0, &f32s(&[1.0, 2.0, 3.0, 4.0])).unwrap();
    timed.repeat("main", 3).unwrap();
    assert_eq!(read(&timed, "main", 0), [4.0, 8.0, 12.0, 16.0]);
    let times = timed.times("main").unwrap();
    assert_eq!(
        times.iter().map(|t| (t.work, t.bytes, t.runs)).collect::<Vec<_>>(),
        [(Work::Kernel(1), 32, 3), (Work::Kernel(0), 48, 3)]
    );
    assert!(times.iter().all(|t| t.nanoseconds >= 0.0 && t.nanoseconds < 1e10), "{times:?}");
    assert!(plain.times("main").unwrap().is_empty());
}
