//! What the integration tests share: running zmlc, folders of their own, the corpus and the device if they are there.
#![allow(dead_code)] // each test binary uses a part

pub mod registry;

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};
use zml_runtime::{Artifact, Device, DeviceRequest, Model, Session, WeightPlaces};

pub const ROOT: &str = env!("CARGO_MANIFEST_DIR");

pub fn fixture(path: &str) -> PathBuf {
    Path::new(ROOT).join("fixtures").join(path)
}
/// A folder of the corpus, or none after saying so.
pub fn corpus(case: &str) -> Option<PathBuf> {
    let root = std::env::var_os("ZMLC_CORPUS").map_or_else(|| Path::new(ROOT).join("../shared/corpus"), PathBuf::from);
    let case = root.join(case);
    if case.exists() {
        return Some(case);
    }
    eprintln!("skipped: no corpus at {}", case.display());
    None
}
/// NVIDIA's assembler: `ZMLC_PTXAS`, or the `nvidia-cuda-nvcc` wheel in `.venv`; none after saying so.
pub fn ptxas() -> Option<PathBuf> {
    let given = std::env::var_os("ZMLC_PTXAS").map(PathBuf::from);
    let pythons = std::fs::read_dir(Path::new(ROOT).join(".venv/lib")).into_iter().flatten().flatten();
    let wheels =
        pythons.filter_map(|p| std::fs::read_dir(p.path().join("site-packages/nvidia")).ok()).flatten().flatten();
    let found = given.or_else(|| wheels.map(|d| d.path().join("bin/ptxas")).filter(|p| p.is_file()).max());
    if found.is_none() {
        eprintln!("skipped: no ptxas (ZMLC_PTXAS, .venv)");
    }
    found
}
/// Runs zmlc in `folder`.
pub fn zmlc(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zmlc")).current_dir(folder).args(arguments).output().expect("zmlc starts")
}
/// The same, and it must succeed; stdout.
pub fn zmlc_ok(folder: &Path, arguments: &[&str]) -> String {
    let out = zmlc(folder, arguments);
    assert!(out.status.success(), "zmlc {arguments:?}: {}\n{}", out.status, String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("text")
}
/// A program that must have succeeded; its stdout.
pub fn ok(out: &Output, what: &str) -> String {
    assert!(
        out.status.success(),
        "{what}: {}\n{}\n{}",
        out.status,
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8_lossy(&out.stdout).into_owned()
}
/// Writes a program and a model.toml for it into `folder`.
pub fn model(folder: &Path, program: &str) -> PathBuf {
    std::fs::write(folder.join("program.mlir"), program).expect("writable");
    let text = "[model]\nname = \"m\"\n\n[[entry]]\nname = \"main\"\nprogram = \"program.mlir\"\n";
    std::fs::write(folder.join("model.toml"), text).expect("writable");
    folder.join("model.toml")
}
/// Builds for Vulkan and returns the artifact.
pub fn build(folder: &Path, model: &Path, target: &str, more: &[&str]) -> Artifact {
    let out = folder.join("out");
    let mut arguments =
        vec!["build", model.to_str().expect("UTF-8"), "--target", target, "-o", out.to_str().expect("UTF-8")];
    arguments.extend(more);
    zmlc_ok(folder, &arguments);
    let name = std::fs::read_dir(&out)
        .expect("the output folder")
        .map(|e| e.expect("readable").path())
        .find(|p| p.extension().is_some_and(|e| e == "zml"))
        .expect("an artifact");
    Artifact::open(&name).expect("readable")
}
/// A Vulkan device, the software one counts; none after saying so.
pub fn vulkan(artifact: &Artifact) -> Option<Device> {
    match Device::open(DeviceRequest::Auto, artifact) {
        Ok(d) => Some(d),
        Err(e) => {
            assert!(std::env::var_os("CI").is_none(), "CI has the software Vulkan device: {e}");
            eprintln!("skipped: {e}");
            None
        }
    }
}
/// Runs the only entry; outputs as bytes, and the submits that the call took.
pub fn call(artifact: &Artifact, device: &Device, inputs: &[&[u8]]) -> (Vec<Vec<u8>>, u64) {
    let model = Model::load(artifact, device, &WeightPlaces::of(artifact, None)).expect("loads");
    let entry = model.entry(None).expect("one entry").clone();
    let mut session = Session::new(&model).expect("a session");
    for (i, bytes) in inputs.iter().enumerate() {
        session.write(&entry.name, i, bytes).expect("an input of the right size");
    }
    session.call(&entry.name).expect("runs");
    let outputs = (0..entry.outputs().count()).map(|i| session.read(&entry.name, i).expect("an output").to_vec());
    (outputs.collect(), session.counters().submits)
}
pub fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}
pub fn floats_of(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}
