//! Loops of more than 65,535 rounds in one thread, after which Mesa's software device goes on behind them without a word.

use crate::{
    common::{build, call, model, vulkan, zmlc},
    ints, ints_of, noise,
};

/// Runs a program of i32 tensors for the portable profile on the Vulkan device; none if there is no device.
fn run(program: &str, inputs: &[&[i32]]) -> Option<Vec<i32>> {
    let folder = tempfile::tempdir().expect("a folder");
    let artifact = build(folder.path(), &model(folder.path(), program), "vulkan:vulkan1.3", &[]);
    let device = vulkan(&artifact)?;
    let inputs: Vec<Vec<u8>> = inputs.iter().map(|v| ints(v)).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    Some(ints_of(&call(&artifact, &device, &inputs).0[0]))
}
fn window(n: usize, size: usize) -> String {
    format!(
        "func.func @main(%x: tensor<{n}xi32>) -> tensor<{}xi32> {{
  %z = stablehlo.constant dense<0> : tensor<i32>
  %0 = \"stablehlo.reduce_window\"(%x, %z) <{{window_dimensions = array<i64: {size}>}}> ({{
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %s = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }}) : (tensor<{n}xi32>, tensor<i32>) -> tensor<{}xi32>
  return %0 : tensor<{}xi32>
}}",
        n - size + 1,
        n - size + 1,
        n - size + 1
    )
}

#[test]
fn windows_of_100_000() {
    let x = noise(100_002, 1000);
    let Some(out) = run(&window(x.len(), 100_000), &[&x]) else { return };
    assert_eq!(out, x.windows(100_000).map(|w| w.iter().sum()).collect::<Vec<i32>>());
}
#[test]
fn convolution_with_a_kernel_of_300_by_300() {
    let program = "func.func @main(%x: tensor<1x1x301x301xi32>, %k: tensor<1x1x300x300xi32>) -> tensor<1x1x2x2xi32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x301x301xi32>, tensor<1x1x300x300xi32>) -> tensor<1x1x2x2xi32>
  return %0 : tensor<1x1x2x2xi32>
}";
    let (x, k) = (noise(301 * 301, 50), noise(300 * 300, 40));
    let Some(out) = run(program, &[&x, &k]) else { return };
    let at = |r: usize, c: usize| -> i32 { (0..90_000).map(|i| x[(i / 300 + r) * 301 + i % 300 + c] * k[i]).sum() };
    assert_eq!(out, [at(0, 0), at(0, 1), at(1, 0), at(1, 1)]);
}
/// The region is not associative, so that the row takes its updates in one by one.
#[test]
fn scatter_of_100_000_updates_into_one_row() {
    let n = 100_000;
    let program = format!(
        "func.func @main(%z: tensor<3xi32>, %u: tensor<{n}xi32>) -> tensor<3xi32> {{
  %i = stablehlo.constant dense<1> : tensor<{n}x1xi32>
  %0 = \"stablehlo.scatter\"(%z, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}}> ({{
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %k = stablehlo.constant dense<3> : tensor<i32>
    %t = stablehlo.multiply %a, %k : tensor<i32>
    %s = stablehlo.add %t, %b : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }}) : (tensor<3xi32>, tensor<{n}x1xi32>, tensor<{n}xi32>) -> tensor<3xi32>
  return %0 : tensor<3xi32>
}}"
    );
    let u = noise(n, 1000);
    let Some(out) = run(&program, &[&[5, 6, 7], &u]) else { return };
    assert_eq!(out, [5, u.iter().fold(6_i32, |a, u| a.wrapping_mul(3).wrapping_add(*u)), 7]);
}
/// Tiles along k, each of which all threads load together.
#[test]
fn products_over_1_200_000() {
    let k = 1_200_000;
    let program = format!(
        "func.func @main(%x: tensor<8x{k}xi8>, %y: tensor<{k}x5xi8>) -> tensor<8x5xi32> {{
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<8x{k}xi8>, tensor<{k}x5xi8>) -> tensor<8x5xi32>
  return %0 : tensor<8x5xi32>
}}"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let artifact = build(folder.path(), &model(folder.path(), &program), "vulkan:vulkan1.3", &[]);
    let Some(device) = vulkan(&artifact) else { return };
    // Ones in one place of each 1000: products that a comparison of sums can tell.
    let (mut x, mut y) = (vec![0_u8; 8 * k], vec![0_u8; k * 5]);
    for i in (0..k).step_by(1000) {
        (0..8).for_each(|r| x[r * k + i] = (r + 1) as u8);
        (0..5).for_each(|c| y[i * 5 + c] = (c + i / 1000 % 3) as u8);
    }
    let out = ints_of(&call(&artifact, &device, &[&x, &y]).0[0]);
    let sum = |r: i32, c: i32| -> i32 { (0..1200).map(|i| (r + 1) * (c + i % 3)).sum() };
    assert_eq!(out, (0..40).map(|i| sum(i / 5, i % 5)).collect::<Vec<_>>());
}
#[test]
fn what_no_unrolling_helps_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = model(folder.path(), &window(20_000_001, 20_000_000));
    let out = zmlc(folder.path(), &["build", file.to_str().expect("UTF-8"), "--target", "vulkan:vulkan1.3"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(1) && said.contains("rounds of loops even at 64 turns each"), "{said}");
}
