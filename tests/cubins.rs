//! `--ptxas`: cubins beside the PTX, the same bytes every time, and what is said where there is no ptxas; what an artifact
//! says of the files that it was built from.

mod common;

use common::{build, model, ptxas, zmlc, zmlc_ok};
use std::{fs, os::unix::fs::PermissionsExt, path::Path};
use zml_format::{Manifest, Writer};

const PROGRAM: &str = "func.func @main(%x: tensor<4xf32> loc(\"x\")) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
";

fn says(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let out = zmlc(folder, arguments);
    (out.status.code().unwrap_or(-1), String::from_utf8_lossy(&out.stderr).into_owned())
}
fn script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).expect("writable");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("ours");
}

#[test]
fn profiles_of_one_architecture_carry_a_cubin() {
    let Some(ptxas) = ptxas() else { return };
    let ptxas = ptxas.to_str().expect("UTF-8");
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let toml = model(folder, PROGRAM);
    let artifact = build(folder, &toml, "cuda:sm_90a,cuda:sm_80,cuda:generic", &["--ptxas", ptxas]);
    let m = &artifact.manifest;
    for (p, has) in m.profiles.iter().zip([true, true, false]) {
        assert!(artifact.blob(p.kernels[0].blob).starts_with(b"//"), "PTX stays: {}", p.name);
        assert_eq!(p.native.is_some(), has, "{}", p.name);
        let Some(n) = &p.native else { continue };
        assert!(artifact.blob(n.blobs[0]).starts_with(b"\x7fELF"), "{}", p.name);
        assert!(n.producer.starts_with("ptxas ") && n.requires.arch == p.name, "{n:?}");
    }
    // Of PATH, from another folder and of other places: the same bytes.
    let again = tempfile::tempdir().expect("a folder");
    let beside = Path::new(ptxas).parent().expect("it lies somewhere");
    let mut c = std::process::Command::new(env!("CARGO_BIN_EXE_zmlc"));
    c.current_dir(&again).env("PATH", beside).arg("build").arg(&toml);
    let targets = "cuda:sm_90a,cuda:sm_80,cuda:generic";
    assert!(c.args(["--target", targets, "-q", "--ptxas"]).status().expect("zmlc starts").success());
    let bytes = |path: &Path| fs::read(path).expect("built");
    assert!(bytes(&folder.join("out/m.zml")) == bytes(&again.path().join("m.zml")));

    let shown = zmlc_ok(folder, &["inspect", "out/m.zml"]);
    for line in ["  needs CUDA 12.0 (NVIDIA driver 525), sm_90a\n", "  needs CUDA 11.0 (NVIDIA driver 450), sm_80+\n"] {
        assert!(shown.contains(line), "{shown}");
    }
    assert_eq!(shown.matches(" by ptxas ").count(), 2, "{shown}");
    let said = zmlc_ok(folder, &["verify", "out/m.zml", "--rebuild", "model.toml", "--ptxas", ptxas]);
    assert!(said.trim_end().ends_with("ok, and built again"), "{said}");

    // PTX where the cubin should be.
    let mut writer = Writer::new();
    let mut forged = Manifest { blobs: vec![], ..m.clone() };
    (0..m.blobs.len()).for_each(|i| assert_eq!(writer.blob(artifact.blob(i)), i));
    forged.profiles[0].native.as_mut().expect("it has one").blobs = vec![m.profiles[0].kernels[0].blob];
    fs::write(folder.join("forged.zml"), writer.finish(forged)).expect("writable");
    let (code, said) = says(folder, &["verify", "forged.zml"]);
    assert!(
        code == 1 && said.contains("E1101") && said.contains("of cuda:sm_90a: its machine code is no cubin"),
        "{said}"
    );
}

#[test]
fn a_ptxas_that_is_none_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    model(folder, PROGRAM);
    let build =
        |target: &str, ptxas: &str| says(folder, &["build", "model.toml", "--target", target, "--ptxas", ptxas]);
    let (code, said) = build("cuda", "./absent");
    assert!(code == 1 && said.contains("error[E0906]: ptxas at ./absent cannot be run: No such file"), "{said}");
    assert!(said.contains("hint: give the path of ptxas"), "{said}");
    script(&folder.join("other"), "echo hello");
    let (code, said) = build("cuda", "./other");
    assert!(code == 1 && said.contains("error[E0906]: ./other is no ptxas: to --version it says `hello`"), "{said}");
    let version = "[ \"$1\" = --version ] && echo 'ptxas: it
Cuda compilation tools, release 12.8, V12.8.93' && exit";
    script(&folder.join("failing"), &format!("{version}\necho 'ptxas fatal: no'; exit 255"));
    let (code, said) = build("cuda", "./failing");
    let expected =
        "error[E0906]: cuda:sm_90a: ptxas 12.8.93 makes no cubin for sm_90a: ptxas fatal: no\n  = hint: give a newer";
    assert!(code == 1 && said.contains(expected), "{said}");
    script(&folder.join("idle"), &format!("{version}\necho hello > kernels.cubin"));
    let (code, said) = build("cuda", "./idle");
    assert!(code == 1 && said.contains("what it wrote is no ELF file"), "{said}");
    assert!(!folder.join("m.zml").exists(), "nothing is built without what was asked for");
    let (code, said) = build("vulkan,cuda:generic,rocm", "./failing");
    assert!(code == 0 && said.contains("--ptxas has nothing to do"), "{said}");
}

#[test]
fn what_it_was_built_from_is_said_and_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let toml = model(folder, PROGRAM);
    let header = br#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let weights = |value: f32| {
        let length = (header.len() as u64).to_le_bytes();
        fs::write(folder.join("w.safetensors"), [&length[..], header, &value.to_le_bytes()].concat())
            .expect("writable");
    };
    weights(1.0);
    let text = fs::read_to_string(&toml).expect("written") + "\n[weights]\nfiles = [\"w.safetensors\"]\n";
    fs::write(&toml, &text).expect("writable");
    let artifact = build(folder, &toml, "cuda:generic", &[]);
    let sources = artifact.manifest.sources.as_ref().expect("recorded");
    let names = |list: &[zml_format::Source]| list.iter().map(|s| s.name.clone()).collect::<Vec<_>>();
    assert_eq!(
        (names(&sources.programs), names(&sources.weights)),
        (vec!["main".into()], vec!["w.safetensors".into()])
    );
    let against = || zmlc_ok(folder, &["inspect", "out/m.zml", "--against", "model.toml"]);
    assert!(against().contains("\n  all of them are as they were; of weights"));

    let elsewhere = text.replace("\"program.mlir\"", "\"./program.mlir\" # the same");
    fs::write(&toml, format!("# a remark\n{elsewhere}\n[package.labels]\nx = \"y\"\n")).expect("writable");
    assert!(against().contains("\n  all of them are as they were; of weights"));
    fs::write(&toml, text.replace("name = \"m\"", "name = \"m\"\nversion = \"2\"")).expect("writable");
    fs::write(folder.join("program.mlir"), PROGRAM.replace("stablehlo.add", "stablehlo.multiply")).expect("writable");
    let shown = against();
    for line in ["  model.toml says something else\n", "  the program of entry `main` is another file\n"] {
        assert!(shown.contains(line), "{shown}");
    }
    let (code, said) = says(folder, &["verify", "out/m.zml", "--rebuild", "model.toml"]);
    let expected =
        "model.toml says something else; the program of entry `main` is another file; the model's name, entries";
    assert!(code == 1 && said.contains("E1102") && said.contains(expected), "{said}");
    let old = common::fixture("artifacts/counter-v4.zml");
    let (code, said) = says(folder, &["inspect", old.to_str().expect("UTF-8"), "--against", "model.toml"]);
    assert!(code == 1 && said.contains("E1101") && said.contains("does not say what it was built from"), "{said}");
}
