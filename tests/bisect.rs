//! `zmlc bisect` over artifacts that were broken on purpose: it has to name the kernel, the element and the source op, and to
//! find nothing in those that were not.

mod common;

use common::{build, model, vulkan, zmlc, zmlc_ok};
use std::path::{Path, PathBuf};
use zml_format::{Artifact, Writer};

/// Three kernels: a product of matrices reads what the first computes, and a sum of rows what the second does.
const CHAIN: &str = "func.func @main(%x: tensor<6x7xf32>, %w: tensor<7x9xf32>) -> (tensor<6x9xf32>, tensor<6xf32>) {
  %three = stablehlo.constant dense<3.0> : tensor<6x7xf32>
  %0 = stablehlo.multiply %x, %three : tensor<6x7xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<6x7xf32>, tensor<7x9xf32>) -> tensor<6x9xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = stablehlo.reduce(%1 init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<6x9xf32>, tensor<f32>) -> tensor<6xf32>
  %seven = stablehlo.constant dense<7.25> : tensor<6xf32>
  %4 = stablehlo.multiply %3, %seven : tensor<6xf32>
  return %1, %4 : tensor<6x9xf32>, tensor<6xf32>
}";

const MASK: &str = "func.func @main(%x: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xi1>) {
  %r = stablehlo.iota dim = 0 : tensor<16x16xi32>
  %c = stablehlo.iota dim = 1 : tensor<16x16xi32>
  %m = stablehlo.compare GE, %r, %c, SIGNED : (tensor<16x16xi32>, tensor<16x16xi32>) -> tensor<16x16xi1>
  %n = stablehlo.constant dense<-1.0> : tensor<16x16xf32>
  %0 = stablehlo.select %m, %x, %n : tensor<16x16xi1>, tensor<16x16xf32>
  return %0, %m : tensor<16x16xf32>, tensor<16x16xi1>
}";

/// A folder with the program built into `out/m.zml`; none without a Vulkan device.
fn built(program: &str, more: &[&str]) -> Option<(tempfile::TempDir, PathBuf, Artifact)> {
    let folder = tempfile::tempdir().expect("a folder");
    let artifact = build(folder.path(), &model(folder.path(), program), "vulkan", more);
    vulkan(&artifact)?;
    let path = folder.path().join("out/m.zml");
    Some((folder, path, artifact))
}
fn bisect(folder: &Path, artifact: &Path) -> (Option<i32>, String) {
    let path = artifact.to_str().expect("UTF-8");
    let out = zmlc(folder, &["bisect", path, "--model", "model.toml", "--input", "all=random:3", "--device", "vulkan"]);
    (out.status.code(), String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned())
}
/// The artifact again with other bytes of code.
fn rewrite(artifact: &Artifact, to: &Path, change: impl Fn(&[u8]) -> Vec<u8>) {
    let mut writer = Writer::new();
    let m = &artifact.manifest;
    let at: Vec<usize> = (0..m.blobs.len()).map(|i| writer.blob(&change(artifact.blob(i)))).collect();
    let mut manifest = zml_format::Manifest { blobs: vec![], ..m.clone() };
    for k in manifest.profiles.iter_mut().flat_map(|p| &mut p.kernels) {
        k.blob = at[k.blob];
    }
    std::fs::write(to, writer.finish(manifest)).expect("writable");
}

#[test]
fn a_right_artifact_is_right() {
    let Some((folder, path, _)) = built(CHAIN, &[]) else { return };
    let (code, said) = bisect(folder.path(), &path);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("dispatches are right on vulkan"), "{said}");
}

/// The constant 7.25 of the last kernel becomes 7.5: that kernel is named, and not those before it.
#[test]
fn another_constant_in_the_code() {
    let Some((folder, path, artifact)) = built(CHAIN, &[]) else { return };
    let (from, to) = (7.25f32.to_le_bytes(), 7.5f32.to_le_bytes());
    let swapped = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        for i in (0..bytes.len().saturating_sub(3)).step_by(4) {
            if bytes[i..i + 4] == from {
                bytes[i..i + 4].copy_from_slice(&to);
            }
        }
        bytes
    };
    rewrite(&artifact, &path, swapped);
    let (code, said) = bisect(folder.path(), &path);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("error[E1302]") && said.contains("multiply"), "{said}");
    assert!(said.contains("program.mlir:8:") && said.contains("stablehlo.multiply: result"), "{said}");
    assert!(said.contains("at [0] is") && said.contains("is not what this zmlc makes"), "{said}");
}

/// Predicates packed to bits where bytes were promised.
#[test]
fn a_pass_that_was_left_out() {
    let Some((folder, path, _)) = built(MASK, &["--without", "widen-predicates"]) else { return };
    let (code, said) = bisect(folder.path(), &path);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("error[E1302]") && said.contains("stablehlo.compare: result"), "{said}");
    assert!(said.contains("program.mlir:4:"), "{said}");
}

#[test]
fn another_program_is_no_bisection() {
    let Some((folder, path, _)) = built(MASK, &[]) else { return };
    model(folder.path(), &MASK.replace("GE", "GT").replace("16x16", "8x32"));
    let (code, said) = bisect(folder.path(), &path);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("is not what this zmlc makes of the model"), "{said}");
}

/// A folder for each kernel, with everything that an emulator needs.
#[test]
fn kernels_are_dumped() {
    let folder = tempfile::tempdir().expect("a folder");
    let toml = model(folder.path(), MASK);
    build(folder.path(), &toml, "rocm:gfx942", &[]);
    let said = zmlc_ok(
        folder.path(),
        &[
            "bisect",
            "out/m.zml",
            "--model",
            "model.toml",
            "--input",
            "all=random:1",
            "--target",
            "rocm:gfx942",
            "--dump",
            "d",
        ],
    );
    assert!(said.contains("1 kernels of rocm:gfx942"), "{said}");
    let kernel =
        std::fs::read_dir(folder.path().join("d")).expect("written").next().expect("one").expect("readable").path();
    let text = std::fs::read_to_string(kernel.join("kernel.json")).expect("text");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["args"].as_array().expect("a list").len(), 3, "{text}");
    for a in json["args"].as_array().expect("a list") {
        assert!(kernel.join(a["file"].as_str().expect("a name")).is_file());
        let written = a["access"] != "read";
        assert_eq!(a["expected"].as_str().is_some_and(|f| kernel.join(f).is_file()), written, "{text}");
    }
    assert!(kernel.join("kernel.hsaco").is_file());
}
