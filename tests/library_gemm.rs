//! `gemm = "library"` in model.toml: which products become calls, and what stays a kernel.

mod common;

use common::*;
use std::{fs, path::Path};
use zml_format::{Artifact, DType, Gemm, Step};

/// The calls of a program with one entry, and its number of dispatches.
fn calls(dir: &Path, signature: &str, body: &str) -> (Vec<Gemm>, usize) {
    let program = format!("module @m {{ func.func @main({signature} {{\n{body}\n}} }}\n");
    model(dir, &program);
    let text = fs::read_to_string(dir.join("model.toml")).unwrap();
    fs::write(dir.join("model.toml"), format!("{text}\n[targets.cuda]\ngemm = \"library\"\n")).unwrap();
    zmlc_ok(dir, &["build", "model.toml", "--target", "cuda:sm_90a", "-o", "."]);
    let artifact = Artifact::open(&dir.join("m.zml")).unwrap();
    let steps = &artifact.manifest.profiles[0].programs[0].steps;
    let gemm = |s: &Step| if let Step::Library(g) = s { Some(g.clone()) } else { None };
    let dispatches = steps.iter().filter(|s| matches!(s, Step::Dispatch(_))).count();
    (steps.iter().filter_map(gemm).collect(), dispatches)
}

#[test]
fn products_by_type_and_layout() {
    let dir = tempfile::tempdir().unwrap();
    let (c, d) = calls(
        dir.path(),
        "%a: tensor<32x48xf32>, %b: tensor<48x64xf32>, %c: tensor<64xf32>) -> tensor<32x64xf32>",
        "%m = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<32x48xf32>, tensor<48x64xf32>) -> tensor<32x64xf32>
         %w = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<64xf32>) -> tensor<32x64xf32>
         %s = stablehlo.add %m, %w : tensor<32x64xf32>
         %r = stablehlo.tanh %s : tensor<32x64xf32>
         return %r : tensor<32x64xf32>",
    );
    // The epilogue is a kernel.
    assert_eq!((c.len(), d), (1, 1));
    assert_eq!((c[0].batch, c[0].m, c[0].n, c[0].k), (1, 32, 64, 48));
    assert_eq!((c[0].a.strides, c[0].b.strides, c[0].to.strides), ([0, 48, 1], [0, 64, 1], [0, 64, 1]));
    assert_eq!((c[0].a.dtype, c[0].workspace.bytes), (DType::F32, 32 << 20));

    assert!(!c[0].tf32);
    let (c, _) = calls(
        dir.path(),
        "%a: tensor<32x48xf32>, %b: tensor<64x48xf32>) -> tensor<64x32xf32>",
        "%m = stablehlo.dot_general %a, %b, contracting_dims = [1] x [1], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<32x48xf32>, tensor<64x48xf32>) -> tensor<32x64xf32>
         %t = stablehlo.transpose %m, dims = [1, 0] : (tensor<32x64xf32>) -> tensor<64x32xf32>
         return %t : tensor<64x32xf32>",
    );
    assert!(c.len() == 1 && c[0].tf32);

    // Attention's layout: batch between, the second by columns, seen through a reshape.
    let (c, d) = calls(
        dir.path(),
        "%a: tensor<16x4x8xbf16>, %b: tensor<16x32xbf16>) -> tensor<4x16x16xf32>",
        "%k = stablehlo.reshape %b : (tensor<16x32xbf16>) -> tensor<16x4x8xbf16>
         %m = stablehlo.dot_general %a, %k, batching_dims = [1] x [1], contracting_dims = [2] x [2] : (tensor<16x4x8xbf16>, tensor<16x4x8xbf16>) -> tensor<4x16x16xf32>
         return %m : tensor<4x16x16xf32>",
    );
    assert_eq!((c.len(), d), (1, 0));
    assert_eq!((c[0].batch, c[0].m, c[0].n, c[0].k), (4, 16, 16, 8));
    assert_eq!((c[0].a.strides, c[0].b.strides, c[0].to.strides), ([8, 32, 1], [8, 1, 32], [256, 16, 1]));
    assert_eq!((c[0].a.dtype, c[0].to.dtype), (DType::BF16, DType::F32));

    // Integers along k, and what is computed on the way in is written first.
    let (c, d) = calls(
        dir.path(),
        "%a: tensor<16x32xi8>, %b: tensor<48x32xi8>) -> tensor<16x48xi32>",
        "%n = stablehlo.negate %a : tensor<16x32xi8>
         %m = stablehlo.dot_general %n, %b, contracting_dims = [1] x [1] : (tensor<16x32xi8>, tensor<48x32xi8>) -> tensor<16x48xi32>
         return %m : tensor<16x48xi32>",
    );
    assert_eq!((c.len(), d), (1, 1));
    assert_eq!((c[0].a.dtype, c[0].to.dtype, c[0].b.strides), (DType::I8, DType::I32, [0, 1, 32]));

    // f8 along k.
    let (c, d) =
        calls(dir.path(), "%a: tensor<32x64xf8E4M3FN>, %b: tensor<48x64xf8E4M3FN>) -> tensor<32x48xf32>", &f8(64));
    assert_eq!((c.len(), d), (1, 0));
    assert_eq!((c[0].a.dtype, c[0].b.dtype, c[0].to.dtype), (DType::F8E4M3FN, DType::F8E4M3FN, DType::F32));
    assert_eq!((c[0].a.strides, c[0].b.strides), ([0, 64, 1], [0, 1, 64]));
}

fn f8(k: i64) -> String {
    format!(
        "%m = stablehlo.dot_general %a, %b, contracting_dims = [1] x [1] : (tensor<32x{k}xf8E4M3FN>, tensor<48x{k}xf8E4M3FN>) -> tensor<32x48xf32>
         return %m : tensor<32x48xf32>"
    )
}

#[test]
fn what_stays_a_kernel() {
    let dir = tempfile::tempdir().unwrap();
    // One row; integers across k; a constant operand; f8 in no whole pieces of 16.
    let ragged = f8(56);
    for (signature, body) in [
        ("%a: tensor<32x56xf8E4M3FN>, %b: tensor<48x56xf8E4M3FN>) -> tensor<32x48xf32>", ragged.as_str()),
        (
            "%a: tensor<1x48xf32>, %b: tensor<48x64xf32>) -> tensor<1x64xf32>",
            "%m = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<1x48xf32>, tensor<48x64xf32>) -> tensor<1x64xf32>
             return %m : tensor<1x64xf32>",
        ),
        (
            "%a: tensor<16x32xi8>, %b: tensor<32x48xi8>) -> tensor<16x48xi32>",
            "%m = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<16x32xi8>, tensor<32x48xi8>) -> tensor<16x48xi32>
             return %m : tensor<16x48xi32>",
        ),
        (
            "%a: tensor<16x32xf32>) -> tensor<16x48xf32>",
            "%b = stablehlo.constant dense<0.5> : tensor<32x48xf32>
             %m = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<16x32xf32>, tensor<32x48xf32>) -> tensor<16x48xf32>
             return %m : tensor<16x48xf32>",
        ),
    ] {
        let (c, d) = calls(dir.path(), signature, body);
        assert_eq!((c.len(), d), (0, 1), "{signature}");
    }
}

#[test]
fn targets_without_a_library_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    model(
        dir.path(),
        "module @m { func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> } }\n",
    );
    let text = fs::read_to_string(dir.path().join("model.toml")).unwrap();
    fs::write(dir.path().join("model.toml"), format!("{text}\n[targets.vulkan]\ngemm = \"library\"\n")).unwrap();
    let out = zmlc(dir.path(), &["build", "model.toml", "--target", "cuda"]);
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.code() == Some(1) && err.contains("vulkan has no matrix library"), "{err}");
}
