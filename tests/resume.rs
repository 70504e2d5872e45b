//! What inspect-ir prints after any pass can be resumed, to the same bytes; and two builds give the same bytes.

mod common;

use common::{fixture, zmlc_ok};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

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

/// Every file below a folder, by its path in it.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut all, mut open) = (BTreeMap::new(), vec![folder.to_path_buf()]);
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(at).expect("readable").map(|e| e.expect("readable").path()) {
            if entry.is_dir() {
                open.push(entry);
            } else {
                let inside = entry.strip_prefix(folder).expect("inside").to_path_buf();
                all.insert(inside, std::fs::read(&entry).expect("readable"));
            }
        }
    }
    all
}

#[test]
fn builds_and_packages_are_reproducible() {
    let scratch = tempfile::tempdir().expect("a folder");
    let make = |folder: &str, umask: &str, tz: &str, date: &str, processors: &str| {
        let folder = scratch.path().join(folder);
        std::fs::create_dir_all(&folder).expect("writable");
        model(&folder);
        // One processor or all of them decide how many threads there are.
        let script = format!(
            "umask {umask}; touch -d {date} model/*; zmlc() {{ {processors} '{}' \"$@\"; }}
             zmlc build model/model.toml -o out && touch -d {date} out/m.zml &&
             zmlc package out/m.zml --archive out/m.tar.zst --oci out/image --runtime /bin/echo",
            env!("CARGO_BIN_EXE_zmlc")
        );
        let mut sh = Command::new("sh");
        sh.args(["-c", &script]).env("TZ", tz).env("HOME", &folder).current_dir(&folder);
        let out = sh.output().expect("sh runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        files(&folder.join("out"))
    };
    let first = make("a", "022", "UTC", "2001-02-03", "");
    let second = make("b/of another/length", "077", "Asia/Tokyo", "2031-02-03", "taskset -c 0");
    assert!(first.len() > 8 && first.contains_key(Path::new("m.tar.zst")), "{:?}", first.keys());
    assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
    for (path, bytes) in &first {
        assert!(*bytes == second[path], "{}: other bytes elsewhere", path.display());
    }
}
