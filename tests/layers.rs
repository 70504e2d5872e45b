//! Who may depend on whom: the table of ARCHITECTURE.md, held over `cargo metadata`.

use serde_json::Value;
use std::{collections::BTreeMap, process::Command};

/// Crate, and the crates of this workspace that it may depend on outside tests.
const MAY: &[(&str, &[&str])] = &[
    ("zml-format", &[]),
    ("zml-runtime", &["zml-format"]),
    ("zmlc-import", &["zml-format"]),
    ("zmlc-package", &["zml-format", "zml-trim"]),
    ("zml-trim", &[]),
    ("zmlc-passes", &["zml-format", "zmlc-import"]),
    ("zmlc-target-vulkan", &["zml-format", "zmlc-passes"]),
    ("zmlc-target-cuda", &["zml-format", "zmlc-passes"]),
    ("zmlc-target-rocm", &["zml-format", "zmlc-passes"]),
    ("zmlc-target-null", &["zml-format", "zmlc-passes"]),
];
/// What must stay out of the runtime, whoever asks for it.
const NOT_IN_RUNTIME: &[&str] =
    &["melior", "mlir-sys", "llvm-sys", "clap", "tokio", "reqwest", "ureq", "hyper", "regex", "zstd"];

fn metadata() -> Value {
    let out = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--offline",
            "--filter-platform",
            "x86_64-unknown-linux-gnu",
            "--manifest-path",
        ])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("metadata is JSON")
}

#[test]
fn crates_depend_only_on_what_their_layer_allows() {
    let metadata = metadata();
    let members: Vec<&str> =
        metadata["workspace_members"].as_array().unwrap().iter().map(|m| m.as_str().unwrap()).collect();
    let packages = metadata["packages"].as_array().unwrap();
    let ours: Vec<&Value> = packages.iter().filter(|p| members.contains(&p["id"].as_str().unwrap())).collect();
    let names: Vec<&str> = ours.iter().map(|p| p["name"].as_str().unwrap()).collect();
    for (name, allowed) in MAY {
        let package = ours.iter().find(|p| p["name"] == *name).unwrap_or_else(|| panic!("no crate {name}"));
        for d in package["dependencies"].as_array().unwrap().iter().filter(|d| d["kind"] != "dev") {
            let dependency = d["name"].as_str().unwrap();
            assert!(
                !names.contains(&dependency) || allowed.contains(&dependency),
                "{name} must not depend on {dependency}"
            );
        }
    }
}

#[test]
fn the_runtime_stays_small() {
    let metadata = metadata();
    let nodes: BTreeMap<&str, &Value> =
        metadata["resolve"]["nodes"].as_array().unwrap().iter().map(|n| (n["id"].as_str().unwrap(), n)).collect();
    let name_of = |id: &str| {
        let packages = metadata["packages"].as_array().unwrap();
        packages.iter().find(|p| p["id"] == id).unwrap()["name"].as_str().unwrap().to_string()
    };
    let root = nodes.keys().find(|id| name_of(id) == "zml-runtime").expect("in the workspace");
    let (mut open, mut seen) = (vec![*root], vec![]);
    while let Some(id) = open.pop() {
        if seen.contains(&id) {
            continue;
        }
        seen.push(id);
        for d in nodes[id]["deps"].as_array().unwrap() {
            if d["dep_kinds"].as_array().unwrap().iter().any(|k| k["kind"].is_null()) {
                open.push(d["pkg"].as_str().unwrap());
            }
        }
    }
    let names: Vec<String> = seen.iter().map(|id| name_of(id)).collect();
    for banned in NOT_IN_RUNTIME {
        assert!(!names.iter().any(|n| n == banned), "zml-runtime must not pull in {banned}");
    }
}
