//! `zml-run` as a program: what it prints, which files it takes and writes, and its exit codes.

use crate::common::*;
use sha2::{Digest, Sha256};
use std::{
    path::Path,
    process::{Command, Output},
};
use zml_runtime::{
    Device, DeviceRequest,
    format::*,
    tensor::{HostTensor, npy, safetensors},
};

/// `main(x) = x + w`, `w` kept outside in `w.safetensors`; `flag(p) = p`, a predicate.
fn model(dir: &Path) {
    let weight = f32s(&[10.0, 20.0, 30.0]);
    let mut m = builder(&["vulkan"]);
    m.manifest.weights = vec![Weight {
        tensor: tensor("w", DType::F32, &[3]),
        sha256: Sha256::digest(&weight).iter().map(|b| format!("{b:02x}")).collect(),
        source: WeightSource::External { file: "w.safetensors".into(), key: "layer.w".into() },
    }];
    let a = BufferKind::Argument;
    let add = Program {
        arena_bytes: 0,
        buffers: vec![buffer(a(0), 12), buffer(a(1), 12), buffer(BufferKind::Result(0), 12)],
        results: vec![2],
        steps: vec![dispatch("add", &[slice(0, 0, 12), slice(1, 0, 12), slice(2, 0, 12)], 3, 0)],
    };
    let pass = Program { arena_bytes: 0, buffers: vec![buffer(a(0), 2)], results: vec![0], steps: vec![] };
    let p = || tensor("p", DType::I1, &[2]);
    let bytes = m
        .entry("main", vec![input("x", 3), Argument::Weight { weight: 0 }], vec![result("y", 3)], &add)
        .entry(
            "flag",
            vec![Argument::Input { tensor: p(), donated: false }],
            vec![EntryResult { tensor: p(), state: None }],
            &pass,
        )
        .bytes();
    std::fs::write(dir.join("m.zml"), bytes).unwrap();
    let w = HostTensor { dtype: DType::F32, shape: vec![3], bytes: weight };
    safetensors::write(&dir.join("w.safetensors"), &[("layer.w", &w)]).unwrap();
}

fn run(dir: &Path, args: &str) -> Output {
    let args = args.split_whitespace();
    let mut c = Command::new(env!("CARGO_BIN_EXE_zml-run"));
    c.args(args).current_dir(dir).env_remove("ZML_WEIGHTS").output().unwrap()
}

/// Exit code, stdout and stderr, without what differs from machine to machine.
fn text(o: &Output) -> String {
    let utf8 = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
    let err = utf8(&o.stderr);
    let lines = err.lines().map(|l| if l.starts_with("device: ") { "device: ..." } else { l });
    let err: String = lines.map(|l| format!("! {l}\n")).collect();
    format!("{}\n{}{err}", o.status.code().unwrap_or(-1), utf8(&o.stdout))
}

fn device(dir: &Path) -> bool {
    let found = Device::open(DeviceRequest::Auto, &Artifact::open(&dir.join("m.zml")).unwrap());
    found.map_err(|e| skipped(&e.to_string())).is_ok()
}

#[test]
fn a_bare_run_lists_inputs() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path());
    insta::assert_snapshot!("listing", text(&run(dir.path(), "m.zml")));
    insta::assert_snapshot!("listing_json", text(&run(dir.path(), "m.zml --entry flag --message-format json")));
}

#[test]
fn files_in_and_out() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    model(dir);
    if !device(dir) {
        return;
    }
    let x = HostTensor { dtype: DType::F32, shape: vec![3], bytes: f32s(&[1.0, 2.0, 3.0]) };
    let y = HostTensor { bytes: f32s(&[11.0, 22.0, 33.0]), ..x.clone() };
    npy::write(&dir.join("x.npy"), &x).unwrap();
    safetensors::write(&dir.join("one.safetensors"), &[("other", &x)]).unwrap();
    safetensors::write(&dir.join("two.safetensors"), &[("other", &y), ("x", &x)]).unwrap();
    let expected = tensor("y", DType::F32, &[3]);
    for input in ["x=x.npy", "0=x.npy", "x=one.safetensors", "0=two.safetensors", "all=two.safetensors"] {
        let o = run(dir, &format!("m.zml --entry main --input {input} --output y=y.npy --output all=y.safetensors"));
        assert_eq!(text(&o), "0\n! device: ...\n", "{input}");
        assert_eq!(npy::read(&dir.join("y.npy"), &expected).unwrap(), y);
        let file = safetensors::SafeTensors::open(&dir.join("y.safetensors")).unwrap();
        assert_eq!(file.read("y", &expected).unwrap(), y);
    }
    let left: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 7, "no part files are left: {left:?}");
    insta::assert_snapshot!("printed_outputs", text(&run(dir, "m.zml --entry main --input x=x.npy")));
    insta::assert_snapshot!("printed_random", text(&run(dir, "m.zml --entry flag --input all=random:5")));
    let again = run(dir, "m.zml --entry flag --input p=random:5");
    assert_eq!(text(&run(dir, "m.zml --entry flag --input all=random:5")), text(&again));
}

#[test]
fn wrong_inputs_are_named_before_a_device_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    model(dir);
    let write = |name: &str, dtype, shape: &[u64], bytes: &[u8]| {
        npy::write(&dir.join(name), &HostTensor { dtype, shape: shape.to_vec(), bytes: bytes.to_vec() }).unwrap();
    };
    write("i32.npy", DType::I32, &[3], &[0; 12]);
    write("shape.npy", DType::F32, &[1, 3], &[0; 12]);
    write("two.npy", DType::I1, &[2], &[1, 2]);
    write("x.npy", DType::F32, &[3], &[0; 12]);
    std::fs::write(dir.join("cut.npy"), &std::fs::read(dir.join("x.npy")).unwrap()[..130]).unwrap();
    std::fs::write(dir.join("x.txt"), "1 2 3").unwrap();
    let t = HostTensor { dtype: DType::F64, shape: vec![3], bytes: vec![0; 24] };
    safetensors::write(&dir.join("a.safetensors"), &[("a", &t), ("b", &t)]).unwrap();
    let said: String = [
        "--input x=i32.npy",
        "--input x=shape.npy",
        "--input x=cut.npy",
        "--input x=x.txt",
        "--input x=none.npy",
        "--input z=x.npy",
        "--input 1=x.npy",
        "--input x.npy",
        "--input x=a.safetensors",
        "--input all=a.safetensors",
        "--input all=x.npy",
        "--input x=random:y",
        "--input x=x.npy --input 0=x.npy",
        "--input x=x.npy --output y=y.txt",
        "--input x=x.npy --output z=y.npy",
        "--entry flag --input p=two.npy",
        "--entry g --input x=x.npy",
        "--device cuda --input x=x.npy",
    ]
    .iter()
    .map(|args| {
        let entry = if args.contains("--entry") { "" } else { "--entry main " };
        let o = run(dir, &format!("m.zml {entry}{args}"));
        let err = String::from_utf8(o.stderr).unwrap();
        format!("{args}\n  {} {}\n", o.status.code().unwrap_or(-1), err.trim())
    })
    .collect();
    insta::assert_snapshot!("wrong_inputs", said);
    assert_eq!(
        text(&run(dir, "m.zml --frobnicate")),
        "2\n! error: unknown option --frobnicate\n! see zml-run --help\n"
    );
}

#[test]
fn absent_and_wrong_weights_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    model(dir);
    if !device(dir) {
        return;
    }
    std::fs::create_dir_all(dir.join("elsewhere")).unwrap();
    let args = "m.zml --entry main --input all=random:1 --weights elsewhere";
    std::fs::rename(dir.join("w.safetensors"), dir.join("kept")).unwrap();
    let mut c = Command::new(env!("CARGO_BIN_EXE_zml-run"));
    let o = c.args(args.split(' ')).current_dir(dir).env("ZML_WEIGHTS", "third").output().unwrap();
    insta::assert_snapshot!("weights_absent", text(&o));

    std::fs::rename(dir.join("kept"), dir.join("elsewhere/w.safetensors")).unwrap();
    assert!(run(dir, args).status.success());

    let w = |shape: &[u64], bytes: &[f32]| HostTensor { dtype: DType::F32, shape: shape.to_vec(), bytes: f32s(bytes) };
    let beside = dir.join("w.safetensors");
    safetensors::write(&beside, &[("layer.w", &w(&[3], &[0.0; 3]))]).unwrap();
    insta::assert_snapshot!("weights_wrong_hash", text(&run(dir, args)));
    safetensors::write(&beside, &[("layer.w", &w(&[1], &[0.0; 1]))]).unwrap();
    insta::assert_snapshot!("weights_wrong_shape", text(&run(dir, args)));
    safetensors::write(&beside, &[("layer.v", &w(&[3], &[0.0; 3]))]).unwrap();
    insta::assert_snapshot!("weights_wrong_name", text(&run(dir, args)));
}

#[test]
fn files_that_are_no_artifact_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("x.zml"), "hello").unwrap();
    insta::assert_snapshot!("no_artifact", text(&run(dir, "x.zml")));
    insta::assert_snapshot!("no_file_json", text(&run(dir, "none.zml --message-format json")));
}

#[test]
fn a_loader_without_drivers_says_what_to_install() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    model(dir);
    let mut c = Command::new(env!("CARGO_BIN_EXE_zml-run"));
    c.args("m.zml --entry flag --input all=random:1".split(' ')).current_dir(dir);
    let o = c.env("VK_DRIVER_FILES", "/absent.json").env("VK_ICD_FILENAMES", "/absent.json").output().unwrap();
    let said = text(&o);
    if said.contains("no Vulkan loader") {
        return skipped(&said);
    }
    insta::assert_snapshot!("no_driver", said);
}

/// `make build` makes it; every image carries it.
#[test]
fn the_shipped_runtime_is_small() {
    let target = Path::new(env!("CARGO_BIN_EXE_zml-run")).parent().and_then(Path::parent).unwrap();
    match std::fs::metadata(target.join("stub/zml-run")) {
        Ok(m) => assert!(m.len() <= 3_000_000, "{} bytes", m.len()),
        Err(_) => skipped("there is no stub/zml-run, as `make build` makes it"),
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_stdout_does_not_take_is_an_error() {
    let full = std::fs::File::create("/dev/full").unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_zml-run")).arg("--help").stdout(full).output().unwrap();
    assert_eq!(ran.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ran.stderr).starts_with("error: cannot write to stdout"), "{ran:?}");
}
