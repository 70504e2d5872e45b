//! What the command line says: bad input is one clear message each and exit code 1, wrong usage 2; snapshots of the texts.

mod common;

use common::{fixture, zmlc, zmlc_ok};
use std::{
    path::Path,
    process::{Command, Stdio},
};

/// Exit code and stderr, without the paths of this machine.
fn says(folder: &Path, arguments: &[&str]) -> String {
    let out = zmlc(folder, arguments);
    let stderr = String::from_utf8_lossy(&out.stderr);
    let text = stderr.replace(folder.to_str().expect("UTF-8"), "FOLDER").replace(common::ROOT, "ROOT");
    format!("exit {}\n{text}", out.status.code().map_or("signal".into(), |c| c.to_string()))
}
fn snapshot(name: &str, text: &str) {
    insta::with_settings!({snapshot_path => "../snapshots/cli", prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!(name, text);
    });
}
const GOOD: &str = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
";

#[test]
fn programs_that_are_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [
        ("empty", ""),
        ("cut", &GOOD[..60]),
        ("undefined", "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %y : tensor<4xf32>\n}\n"),
        (
            "types",
            "func.func @main(%x: tensor<4xf32>, %y: tensor<5xf32>) -> tensor<4xf32> {\n  %0 = stablehlo.add %x, %y : (tensor<4xf32>, tensor<5xf32>) -> tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n",
        ),
        (
            "dialect",
            "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = mhlo.add %x, %x : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n",
        ),
        (
            "literal",
            "func.func @main() -> tensor<i8> {\n  %0 = stablehlo.constant dense<256> : tensor<i8>\n  return %0 : tensor<i8>\n}\n",
        ),
        (
            "float",
            "func.func @main() -> tensor<f32> {\n  %0 = stablehlo.constant dense<256> : tensor<f32>\n  return %0 : tensor<f32>\n}\n",
        ),
        ("twice", &[GOOD, GOOD].concat()),
        ("braces", &"{".repeat(100_000)),
    ] {
        std::fs::write(folder.path().join("p.mlir"), text).expect("writable");
        snapshot(&format!("check_{name}"), &says(folder.path(), &["check", "p.mlir"]));
    }
    for (name, bytes) in [
        ("noise", &[0u8, 200, 3, 77, 255, 0, 1][..]),
        ("magic", b"ML\xefX\x0dStableHLO_v1.0.0\0"),
        ("zero", b"ML\xefR"),
        ("future", b"ML\xefR\x0dStableHLO_v9.9.9\0"),
    ] {
        std::fs::write(folder.path().join(name), bytes).expect("writable");
        snapshot(&format!("check_{name}"), &says(folder.path(), &["check", name]));
    }
    snapshot("check_absent", &says(folder.path(), &["check", "absent.mlir"]));
    snapshot("check_folder", &says(folder.path(), &["check", "."]));
}

/// What `build` refuses for reasons of the program alone, `check` refuses too, at its place.
#[test]
fn programs_that_are_not_compiled() {
    let folder = tempfile::tempdir().expect("a folder");
    let pass = |ty: &str| format!("func.func @main(%x: {ty}) -> {ty} {{\n  return %x : {ty}\n}}\n");
    let pair = "tuple<tensor<4xf32>, tensor<4xf32>>";
    for (name, text) in [
        ("tuple", format!("func.func @main(%x: tensor<4xf32>) -> {pair} {{\n  %0 = stablehlo.tuple %x, %x : {pair}\n  return %0 : {pair}\n}}\n")),
        ("memref", pass("memref<4xf32>")),
        ("scalar", pass("si8")),
        ("token", pass("!stablehlo.token")),
        ("custom_call", "func.func @main(%t: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = \"stablehlo.replica_id\"() : () -> tensor<ui32>\n  %1 = stablehlo.custom_call @mine(%t) : (tensor<4xf32>) -> tensor<4xf32>\n  return %1 : tensor<4xf32>\n}\n".into()),
    ] {
        std::fs::write(folder.path().join("p.mlir"), text).expect("writable");
        snapshot(&format!("check_uncompiled_{name}"), &says(folder.path(), &["check", "p.mlir"]));
    }
}

/// Cut anywhere, text and bytecode are refused with one message.
#[test]
fn programs_that_are_cut() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("good.mlir"), GOOD).expect("writable");
    zmlc_ok(folder.path(), &["convert", "good.mlir", "-o", "good.mlirbc"]);
    for (whole, last) in [("good.mlir", 2), ("good.mlirbc", 1)] {
        let bytes = std::fs::read(folder.path().join(whole)).expect("readable");
        let mut names = vec![];
        // The last byte of the text is the end of its line; a signature alone is a declaration.
        for n in (0..=bytes.len() - last).filter(|n| whole != "good.mlir" || !(34..54).contains(n)) {
            std::fs::write(folder.path().join(format!("{n}")), &bytes[..n]).expect("writable");
            names.push(format!("{n}"));
        }
        let arguments: Vec<&str> =
            ["check", "--message-format", "json"].into_iter().chain(names.iter().map(String::as_str)).collect();
        let out = zmlc(folder.path(), &arguments);
        assert_eq!(out.status.code(), Some(1), "{whole}: {}", String::from_utf8_lossy(&out.stderr));
        let said = [out.stdout, out.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        for name in &names {
            let errors = said.lines().filter(|l| l.contains(&format!("\"file\":\"{name}\""))).count();
            assert_eq!(errors, 1, "{whole} cut at {name}\n{said}");
        }
    }
}

#[test]
fn warnings_of_check() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = GOOD.replace("(%x: tensor<4xf32>)", "(%x: tensor<4xf32>, %y: tensor<4xf32>)");
    std::fs::write(folder.path().join("p.mlir"), text).expect("writable");
    snapshot("check_warning", &says(folder.path(), &["check", "p.mlir"]));
    snapshot("check_warning_denied", &says(folder.path(), &["check", "--deny-warnings", "p.mlir"]));
}

#[test]
fn models_that_are_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("p.mlir"), GOOD).expect("writable");
    std::fs::write(folder.path().join("private.mlir"), GOOD.replace("@main", "private @f")).expect("writable");
    let entry = "[[entry]]\nname = \"main\"\nprogram = \"p.mlir\"\n";
    for (name, text) in [
        ("syntax", "[model\nname = \"m\"\n".to_string()),
        ("unknown_key", format!("[model]\nname = \"m\"\n\n{entry}donate = [\"x\"]\n")),
        ("no_entry", "[model]\nname = \"m\"\n".to_string()),
        ("function", format!("[model]\nname = \"m\"\n\n{entry}function = \"mian\"\n")),
        ("private", "[model]\nname = \"m\"\n\n[[entry]]\nname = \"main\"\nprogram = \"private.mlir\"\n".to_string()),
        ("donated", format!("[model]\nname = \"m\"\n\n{entry}donated = [\"y\"]\n")),
        ("name", format!("[model]\nname = \"../m\"\n\n{entry}")),
        ("weights", format!("[model]\nname = \"m\"\n\n{entry}\n[weights]\nfiles = [\"w.safetensors\"]\n")),
    ] {
        std::fs::write(folder.path().join("model.toml"), text).expect("writable");
        snapshot(
            &format!("build_{name}"),
            &says(folder.path(), &["build", "model.toml", "--target", "vulkan", "-o", "out"]),
        );
        assert!(!folder.path().join("out").exists(), "{name}: nothing is written");
    }
}

/// A safetensors file of one tensor of `n` zeros.
fn weights(name: &str, n: usize) -> Vec<u8> {
    let header = format!(r#"{{"{name}":{{"dtype":"F32","shape":[{n}],"data_offsets":[0,{}]}}}}"#, 4 * n);
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; 4 * n]].concat()
}

#[test]
fn init_says_why_no_weight_has_the_name_of_an_argument() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("w.safetensors"), weights("w", 4)).expect("writable");
    let listed = |program: &str| {
        std::fs::write(folder.path().join("p.mlir"), program).expect("writable");
        zmlc_ok(folder.path(), &["init", "p.mlir", "-o", "m", "--name", "m", "--force", "--weights", "w.safetensors"])
    };
    let advice = "export it with them";
    assert!(listed(GOOD).contains(advice), "{}", listed(GOOD));
    let named = GOOD.replacen("tensor<4xf32>", "tensor<4xf32> loc(\"x\")", 1);
    assert!(listed(&named).contains("no argument has the name") && !listed(&named).contains(advice));
}

#[cfg(target_os = "linux")]
#[test]
fn the_exit_code_stays_where_stderr_takes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("p.mlir"), "").expect("writable");
    for arguments in [&["check", "p.mlir"][..], &["check", "p.mlir", "--message-format", "json"]] {
        let full = std::fs::File::create("/dev/full").expect("a device");
        let status = Command::new(env!("CARGO_BIN_EXE_zmlc"))
            .current_dir(folder.path())
            .args(arguments)
            .stderr(full)
            .status()
            .expect("zmlc starts");
        assert_eq!(status.code(), Some(1), "{arguments:?}");
    }
}

#[test]
fn targets_that_do_not_exist() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("p.mlir"), GOOD).expect("writable");
    zmlc_ok(folder.path(), &["init", "p.mlir", "-o", ".", "--name", "m"]);
    snapshot("target_unknown", &says(folder.path(), &["build", "model.toml", "--target", "vulcan,cuda:sm_99"]));
    snapshot("pass_unknown", &says(folder.path(), &["inspect-ir", "model.toml", "--pass", "fusion"]));
    snapshot("init_twice", &says(folder.path(), &["init", "p.mlir", "-o", "."]));
}

#[test]
fn every_stage_is_shown_by_name() {
    let toml = fixture("mnist_mlp/model.toml");
    let toml = toml.to_str().expect("UTF-8");
    let folder = tempfile::tempdir().expect("a folder");
    for target in ["vulkan", "cuda:sm_90a", "rocm:gfx1100"] {
        let list = zmlc_ok(folder.path(), &["inspect-ir", toml, "--target", target, "--list"]);
        let stages: Vec<&str> = list.lines().filter_map(|l| l.split_whitespace().next()).collect();
        let all = zmlc_ok(folder.path(), &["inspect-ir", toml, "--target", target, "--all"]);
        for s in &stages {
            assert!(all.contains(&format!("// ---- after {s} ----")), "{target}: {s} is not shown");
        }
        snapshot(&format!("stages_{}", target.replace(':', "_")), &list);
    }
}

#[test]
fn json_is_one_object_a_line() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("p.mlir"), "func.func @main() {").expect("writable");
    let out = zmlc(folder.path(), &["check", "p.mlir", "--message-format", "json"]);
    let text = String::from_utf8(out.stderr).expect("text");
    assert!(!text.is_empty());
    for line in text.lines() {
        let object: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert!(object["code"].is_string() && object["message"].is_string(), "{line}");
    }
}

#[test]
fn outputs_go_through_links_and_pipes() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let program = fixture("mnist_mlp/b1.mlir");
    let convert = |to: &str| zmlc_ok(folder.path(), &["convert", program.to_str().expect("UTF-8"), "-o", to]);
    std::fs::write(at("file.mlir"), "old").expect("writable");
    std::os::unix::fs::symlink("file.mlir", at("link.mlir")).expect("a link");
    convert("link.mlir");
    assert!(at("link.mlir").is_symlink());
    let text = std::fs::read_to_string(at("file.mlir")).expect("written");
    assert!(text.contains("func.func"), "{text}");

    assert!(Command::new("mkfifo").arg(at("pipe.mlir")).status().expect("mkfifo starts").success());
    let reader = Command::new("cat").arg(at("pipe.mlir")).stdout(Stdio::piped()).spawn().expect("cat starts");
    convert("pipe.mlir");
    assert_eq!(reader.wait_with_output().expect("cat ends").stdout, text.as_bytes());
}

#[test]
fn a_program_converts_there_and_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = fixture("corpus/mnist_cnn_b1/program.mlir");
    let program = program.to_str().expect("UTF-8");
    zmlc_ok(folder.path(), &["convert", program, "-o", "a.mlir"]);
    zmlc_ok(folder.path(), &["convert", program, "-o", "a.mlirbc"]);
    zmlc_ok(folder.path(), &["convert", "a.mlirbc", "-o", "b.mlir"]);
    let text = |f: &str| std::fs::read_to_string(folder.path().join(f)).expect("written");
    assert_eq!(text("a.mlir"), text("b.mlir"));
    assert!(std::fs::read(folder.path().join("a.mlirbc")).expect("written").starts_with(b"ML\xefR"));
    let out = zmlc(folder.path(), &["convert", program, "-o", "c.mlir", "--artifact-version", "1.10"]);
    assert_eq!(out.status.code(), Some(2));
    let out = zmlc(folder.path(), &["convert", program, "-o", "c.txt"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains(".mlirbc or .bc"), "{out:?}");
    assert!(!folder.path().join("c.txt").exists());
    zmlc_ok(folder.path(), &["convert", program, "-o", "c.txt", "--emit", "artifact"]);
    assert_eq!(
        std::fs::read(folder.path().join("c.txt")).expect("written"),
        std::fs::read(folder.path().join("a.mlirbc")).expect("written")
    );
}

const TWO: &str = "func.func @f(%x: tensor<2xf32> loc(\"params['w']\"), %y: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %x, %y : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func @g(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}
";

#[test]
fn init_makes_an_entry_of_each_public_function_and_says_what_does_not_fit() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("two.mlir"), TWO).expect("writable");
    std::fs::create_dir(at("w")).expect("a folder");
    let init = |more: &[&str]| says(folder.path(), &[&["init", "two.mlir", "-o", "m", "--name"], more].concat());
    let mut refused = init(&["a/b"]);
    refused += &init(&["m", "--weights", "w"]);
    assert!(!at("m").exists(), "nothing is made where nothing is written");
    // A tensor of another shape than the argument of its name.
    std::fs::write(at("w/part.safetensors"), weights("w", 3)).expect("writable");
    let listed = zmlc_ok(folder.path(), &["init", "two.mlir", "-o", "m", "--name", "m", "--weights", "w"]);
    let toml = std::fs::read_to_string(at("m/model.toml")).expect("written");
    snapshot("init_two", &format!("{refused}{listed}----\n{toml}"));
}
