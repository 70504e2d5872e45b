//! What inspect-ir prints after any pass can be resumed, to the same bytes; and two builds give the same bytes.

mod common;

use common::{fixture, zmlc_ok};
use std::{path::Path, process::Command};

fn model(folder: &Path) -> String {
    let program = fixture("corpus/mnist_mlp_b1/program_loc.mlir");
    zmlc_ok(folder, &["init", program.to_str().expect("UTF-8"), "-o", "model", "--name", "m"]);
    folder.join("model/model.toml").to_str().expect("UTF-8").to_string()
}

#[test]
fn every_stage_resumes_to_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let toml = model(folder.path());
    for target in ["vulkan:vulkan1.3", "cuda:sm_90a", "rocm:gfx942"] {
        zmlc_ok(folder.path(), &["build", &toml, "--target", target, "-o", "whole"]);
        let whole = std::fs::read(folder.path().join("whole/m.zml")).expect("built");
        let list = zmlc_ok(folder.path(), &["inspect-ir", &toml, "--target", target, "--list"]);
        let stages: Vec<&str> = list.lines().filter_map(|l| l.split_whitespace().next()).collect();
        assert!(stages.len() >= 9, "{list}");
        for stage in &stages[..stages.len() - 1] {
            let ir = zmlc_ok(folder.path(), &["inspect-ir", &toml, "--target", target, "--pass", stage]);
            std::fs::write(folder.path().join("stage.mlir"), &ir).expect("writable");
            zmlc_ok(folder.path(), &["build", "--from", stage, "stage.mlir", "--target", target, "-o", "resumed"]);
            let resumed = std::fs::read(folder.path().join("resumed/m.zml")).expect("built");
            assert!(whole == resumed, "{target}, resumed after {stage}: other bytes");
        }
    }
}

#[test]
fn builds_are_reproducible() {
    let (a, b) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let build = |folder: &Path, umask: &str, tz: &str| {
        let toml = model(folder);
        let script = format!("umask {umask}; exec {} build {toml} -o out", env!("CARGO_BIN_EXE_zmlc"));
        let out = Command::new("sh").args(["-c", &script]).env("TZ", tz).current_dir(folder).output().expect("sh runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        std::fs::read(folder.join("out/m.zml")).expect("built")
    };
    let first = build(a.path(), "022", "UTC");
    let second = build(b.path(), "077", "Asia/Tokyo");
    assert!(first == second, "the same model gives the same bytes anywhere");
}
