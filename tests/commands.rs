//! What commands hand to other programs: one JSON object a line on stdout, whatever the command, and usage that names what
//! is missing.

mod common;

use common::{build, bytes_of, model, vulkan, zmlc, zmlc_ok};
use serde_json::Value;
use std::path::Path;
use zml_format::Artifact;
use zml_runtime::{Model, Session, WeightPlaces};

const PROGRAM: &str = "func.func @main(%x: tensor<4xf32> loc(\"x\")) -> tensor<4xf32> {
  %0 = stablehlo.constant dense<1.0e-7> : tensor<4xf32>
  %1 = stablehlo.multiply %x, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
";

fn lines(text: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(text);
    text.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect()
}
fn objects(folder: &Path, arguments: &[&str]) -> Vec<Value> {
    let out = zmlc(folder, arguments);
    let all = lines(&out.stdout);
    lines(&out.stderr);
    assert!(!all.is_empty() && all.iter().all(Value::is_object), "{arguments:?}");
    all
}

#[test]
fn json_is_one_object_a_line_from_every_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let toml = model(folder, PROGRAM);
    let artifact = build(folder, &toml, "vulkan", &[]);
    let json = |arguments: &[&str]| objects(folder, &[&["--message-format", "json"], arguments].concat());
    assert!(json(&["targets"]).iter().all(|o| o["profile"].is_string()));
    assert!(json(&["inspect-ir", "model.toml", "--list"]).len() >= 9);
    let stages = json(&["inspect-ir", "model.toml", "--all"]);
    assert!(stages.len() >= 9 && stages.iter().all(|o| o["text"].is_string()));
    for command in [
        &["init", "program.mlir", "-o", "new", "--name", "n"][..],
        &["check", "program.mlir"],
        &["convert", "program.mlir", "-o", "p.mlirbc"],
        &["build", "model.toml", "--target", "vulkan", "-o", "again"],
        &["inspect", "out/m.zml"],
        &["verify", "out/m.zml"],
        &["explain", "E0901"],
        &["doctor"],
    ] {
        assert_eq!(json(command).len(), 1, "{command:?}");
    }
    // Before the command or after it, and without inputs.
    for arguments in
        [&["--message-format", "json", "run", "out/m.zml"][..], &["run", "out/m.zml", "--message-format", "json"]]
    {
        let entries = objects(folder, arguments);
        assert_eq!((&entries[0]["reason"], &entries[0]["dims"]), (&"entry".into(), &serde_json::json!({})));
    }
    for usage in [&["build"][..], &["frobnicate"], &["run", "out/m.zml", "--frobnicate"]] {
        let out = zmlc(folder, &[&["--message-format=json"], usage].concat());
        let said = lines(&out.stderr);
        assert_eq!((out.status.code(), said.len(), &said[0]["code"]), (Some(2), 1, &"usage".into()), "{said:?}");
    }
    if vulkan(&artifact).is_none() {
        return;
    }
    std::fs::write(folder.join("x.safetensors"), safetensors("x", &[1.0, 0.0, f32::NAN, 3.0])).expect("writable");
    let said = json(&["run", "out/m.zml", "--input", "x=x.safetensors"]);
    let output = said.iter().find(|o| o["reason"] == "output").expect("an output");
    assert_eq!(output["first"].to_string(), "[1e-7,0,\"NaN\",3e-7]");
    let text = zmlc_ok(folder, &["run", "out/m.zml", "--input", "x=x.safetensors"]);
    assert!(text.ends_with("= [1e-7, 0, NaN, 3e-7]\n"), "{text}");
}

/// A file with one tensor, as its own format's library would write it.
fn safetensors(name: &str, values: &[f32]) -> Vec<u8> {
    let header = format!(
        "{{\"{name}\":{{\"dtype\":\"F32\",\"shape\":[{}],\"data_offsets\":[0,{}]}}}}",
        values.len(),
        values.len() * 4
    );
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &bytes_of(values)].concat()
}

#[test]
fn usage_names_what_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = zmlc(folder.path(), &["package", "m.zml"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2));
    assert!(said.contains("--archive") && said.contains("--oci"), "{said}");
    for command in [&["run", "."][..], &["inspect", "."]] {
        let out = zmlc(folder.path(), command);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert!(said.contains("this is a folder; give the .zml file in it"), "{said}");
    }
}

/// Refused before anything is read or written.
#[test]
fn packages_that_cannot_be_meant() {
    let folder = tempfile::tempdir().expect("a folder");
    let package = |more: &[&str]| {
        let out = zmlc(folder.path(), &[&["package", "m.zml", "--runtime", "/bin/echo"], more].concat());
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    for (arguments, why) in [
        (&["--archive", "m.zml"][..], "NAME.tar.zst"),
        (&["--archive", "m.tar.gz"], "NAME.tar.zst"),
        (&["--archive", "m.tar.zst", "--compression", "gzip"], "--oci"),
        (&["--archive", "m.tar.zst", "--label", "a=b"], "--oci"),
        (&["--oci", "image", "--label", "=b"], "before its `=`"),
        (&["--oci", "image", "--runtime", "/bin/echo"], "given twice"),
    ] {
        let (code, said) = package(arguments);
        assert!(code == Some(2) && said.contains(why), "{arguments:?}: {said}");
    }
    let (code, said) = package(&["--oci", "docker://ghcr.io/Owner/m:1"]);
    assert!(code == Some(1) && said.contains("E1215"), "{said}");
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_zmlc"))
        .args(["package", "m.zml", "--oci", "image", "--runtime", "/bin/echo"])
        .env("SOURCE_DATE_EPOCH", "18446744073709551615")
        .current_dir(folder.path())
        .output()
        .expect("zmlc starts");
    assert!(String::from_utf8_lossy(&out.stderr).contains("E1210"), "{out:?}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 0);
}

/// `push` adds to the state, `get` only reads it.
const STATEFUL: &str = "func.func public @push(%s: tensor<4xf32> loc(\"s\"), %x: tensor<4xf32> loc(\"x\")) -> (tensor<4xf32> {jax.result_info = \"s\"}) {
  %0 = stablehlo.add %s, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func public @get(%s: tensor<4xf32> loc(\"s\")) -> (tensor<2xf32> {jax.result_info = \"y\"}) {
  %0 = stablehlo.slice %s [1:3] : (tensor<4xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
";

#[test]
fn an_entry_may_only_read_a_state() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("program.mlir"), STATEFUL).expect("writable");
    let entry =
        |name: &str| format!("[[entry]]\nname = \"{name}\"\nprogram = \"program.mlir\"\nfunction = \"{name}\"\n");
    let write = |entries: &str, state: &str| {
        let text = format!("[model]\nname = \"m\"\n{entries}[[state]]\nname = \"s\"\nargument = \"s\"\n{state}");
        std::fs::write(folder.join("model.toml"), text).expect("writable");
    };
    write(&(entry("push") + &entry("get")), "");
    zmlc_ok(folder, &["build", "model.toml", "--target", "vulkan", "-o", "out"]);
    let artifact = Artifact::open(&folder.join("out/m.zml")).expect("readable");
    if let Some(device) = vulkan(&artifact) {
        let model = Model::load(&artifact, &device, &WeightPlaces::of(&artifact, None)).expect("loads");
        let mut session = Session::new(&model).expect("a session");
        session.write("push", 0, &bytes_of(&[1.0, 2.0, 3.0, 4.0])).expect("an input");
        session.call("push").expect("runs");
        session.call("push").expect("runs");
        for _ in 0..2 {
            session.call("get").expect("runs");
            assert_eq!(session.read("get", 0).expect("an output"), bytes_of(&[4.0, 6.0]));
        }
    }
    // A state that nothing writes would stay zeros.
    write(&entry("get"), "");
    let out = zmlc(folder, &["build", "model.toml", "--target", "vulkan", "-o", "none"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(1));
    assert!(said.contains("state `s`: no result of any entry is its next value"), "{said}");
    // An entry whose result has the state's type is pointed out when that result has another name.
    let other = STATEFUL.replace("jax.result_info = \"s\"", "jax.result_info = \"t\"").replace("[1:3]", "[0:4]");
    let other = other
        .replace("tensor<4xf32>) -> tensor<2xf32>", "tensor<4xf32>) -> tensor<4xf32>")
        .replace("tensor<2xf32>", "tensor<4xf32>");
    std::fs::write(folder.join("program.mlir"), other).expect("writable");
    write(&(entry("push") + &entry("get")), "result = \"t\"\n");
    let out = zmlc(folder, &["build", "model.toml", "--target", "vulkan", "-o", "warned"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(said.contains("entry `get` reads state `s` and does not change it; results of its type are `y`"), "{said}");
}
