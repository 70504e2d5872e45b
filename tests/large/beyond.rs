//! Tensors of more than 4 GiB and of more than 2^32 elements: no machine here holds them, so what is looked at is that
//! indices are of 64 bits on every target.

use crate::common::{build, model, zmlc, zmlc_ok};
use std::path::Path;
use zml_runtime::Artifact;

const N: u64 = 5 << 30;

fn built(folder: &Path, program: &str, target: &str) -> Artifact {
    build(folder, &model(folder, program), target, &[])
}
/// Reverses 5 GiB of bytes: element i is element N - 1 - i, which 32 bits do not hold.
fn reverse() -> String {
    format!(
        "func.func @main(%x: tensor<{N}xi8>) -> tensor<{N}xi8> {{
  %0 = stablehlo.reverse %x, dims = [0] : tensor<{N}xi8>
  return %0 : tensor<{N}xi8>
}}"
    )
}

#[test]
fn vulkan_takes_addresses_and_integers_of_64_bits() {
    let folder = tempfile::tempdir().expect("a folder");
    for profile in ["vulkan1.3-nvidia", "vulkan1.3"] {
        let artifact = built(folder.path(), &reverse(), &format!("vulkan:{profile}"));
        let p = &artifact.manifest.profiles[0];
        assert_eq!((p.kernels.len(), &p.kernels[0].addresses[..]), (1, &[0, 1][..]));
        for feature in ["bufferDeviceAddress", "shaderInt64"] {
            assert!(p.requires.features.iter().any(|f| f == feature), "{profile}: {feature}");
        }
    }
}
/// A sum over elements that no memory holds: the positions alone are wide.
#[test]
fn positions_beyond_32_bits_without_a_large_buffer() {
    let program = |n: u64| {
        format!(
            "func.func @main(%x: tensor<i32>) -> tensor<i32> {{
  %i = stablehlo.iota dim = 0 : tensor<{n}xi32>
  %b = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<i32>) -> tensor<{n}xi32>
  %0 = stablehlo.xor %i, %b : tensor<{n}xi32>
  %z = stablehlo.constant dense<0> : tensor<i32>
  %s = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<{n}xi32>, tensor<i32>) -> tensor<i32>
  return %s : tensor<i32>
}}"
        )
    };
    let folder = tempfile::tempdir().expect("a folder");
    let wide = |n| {
        let artifact = built(folder.path(), &program(n), "vulkan:vulkan1.3");
        artifact.manifest.profiles[0].requires.features.iter().any(|f| f == "shaderInt64")
    };
    assert!(wide(9_000_000_000));
    assert!(!wide(1_000_000_000));
}
#[test]
fn pointers_are_indexed_in_64_bits() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = model(folder.path(), &reverse());
    for (target, pass) in [("cuda:sm_90a", "lower-to-nvvm"), ("rocm:gfx942", "lower-to-rocdl")] {
        let arguments = ["inspect-ir", file.to_str().expect("UTF-8"), "--target", target, "--pass", pass];
        let text = zmlc_ok(folder.path(), &arguments);
        assert!(text.contains(&format!("llvm.mlir.constant({} : index) : i64", N - 1)), "{target}: {text}");
        assert!(!text.contains(": index) : i32"), "{target}: {text}");
    }
}
/// What no grid holds is refused by name.
#[test]
fn more_than_a_device_starts_is_refused() {
    let n: u64 = 1 << 60;
    let program = format!(
        "func.func @main(%x: tensor<{n}xi8>) -> tensor<{n}xi8> {{
  %0 = stablehlo.not %x : tensor<{n}xi8>
  return %0 : tensor<{n}xi8>
}}"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let file = model(folder.path(), &program);
    let target = "vulkan:vulkan1.3";
    let arguments = ["build", file.to_str().expect("UTF-8"), "--target", target];
    let out = zmlc(folder.path(), &arguments);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(1) && said.contains("more workgroups than"), "{target}: {said}");
}
