//! Tensors of more bytes than one binding may span, 128 MiB on the portable profile: kernels find them by address.
//! Inputs are zeros but for some places, so that making and comparing them takes no time.

use crate::common::{build, bytes_of, call, floats_of, model, vulkan};
use zml_runtime::Artifact;

const MIB: usize = 1 << 20;

/// Builds for the portable profile; the buffers that all its kernels find by address.
fn built(program: &str) -> (Artifact, usize, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let artifact = build(folder.path(), &model(folder.path(), program), "vulkan:vulkan1.3", &[]);
    let addresses = artifact.manifest.profiles[0].kernels.iter().map(|k| k.addresses.len()).sum();
    (artifact, addresses, folder)
}
/// `n` elements of `one`, but for those at `others`.
fn filled<const W: usize>(n: usize, one: [u8; W], others: &[(usize, [u8; W])]) -> Vec<u8> {
    let mut all = if one == [0; W] { vec![0; n * W] } else { one.repeat(n) };
    for (i, value) in others {
        all[i * W..][..W].copy_from_slice(value);
    }
    all
}
/// The first element that differs, for people; comparing whole outputs prints too much.
fn same(found: &[u8], wanted: &[u8], width: usize) {
    assert_eq!(found.len(), wanted.len());
    if found != wanted {
        let at = found.iter().zip(wanted).position(|(x, y)| x != y).expect("a difference") / width;
        panic!("element {at}: {:?} is not {:?}", &found[at * width..][..width], &wanted[at * width..][..width]);
    }
}

#[test]
fn elementwise_over_160_mib() {
    let n = 40 * MIB;
    let (artifact, addresses, _folder) = built(&format!(
        "func.func @main(%x: tensor<{n}xf32>, %y: tensor<f32>) -> tensor<{n}xf32> {{
  %b = stablehlo.broadcast_in_dim %y, dims = [] : (tensor<f32>) -> tensor<{n}xf32>
  %0 = stablehlo.multiply %x, %x : tensor<{n}xf32>
  %1 = stablehlo.add %0, %b : tensor<{n}xf32>
  return %1 : tensor<{n}xf32>
}}"
    ));
    assert_eq!(addresses, 2, "the input and the result");
    let Some(device) = vulkan(&artifact) else { return };
    let places = [0, 1, 33 * MIB - 1, 33 * MIB, 36 * MIB + 7, n - 1];
    let x: Vec<_> = places.iter().map(|i| (*i, (*i as f32).sqrt().to_le_bytes())).collect();
    let (out, submits) = call(&artifact, &device, &[&filled(n, [0; 4], &x), &bytes_of(&[0.5])]);
    let square = |b: [u8; 4]| f32::from_le_bytes(b) * f32::from_le_bytes(b) + 0.5;
    let wanted: Vec<_> = x.iter().map(|(i, b)| (*i, square(*b).to_le_bytes())).collect();
    same(&out[0], &filled(n, 0.5_f32.to_le_bytes(), &wanted), 4);
    assert_eq!(submits, 1);
}

/// A gather reads rows on both sides of the bound, and an update in place writes one behind it.
#[test]
fn rows_of_a_table_of_256_mib() {
    let (rows, width) = (65536, 1024);
    let (artifact, addresses, _folder) = built(&format!(
        "func.func @main(%t: tensor<{rows}x{width}xi32> {{tf.aliasing_output = 1 : i32}}, %i: tensor<5xi32>, %r: tensor<1x{width}xi32>) -> (tensor<5x{width}xi32>, tensor<{rows}x{width}xi32>) {{
  %0 = \"stablehlo.gather\"(%t, %i) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, {width}>}}> : (tensor<{rows}x{width}xi32>, tensor<5xi32>) -> tensor<5x{width}xi32>
  %at = stablehlo.constant dense<50000> : tensor<i32>
  %z = stablehlo.constant dense<0> : tensor<i32>
  %1 = stablehlo.dynamic_update_slice %t, %r, %at, %z : (tensor<{rows}x{width}xi32>, tensor<1x{width}xi32>, tensor<i32>, tensor<i32>) -> tensor<{rows}x{width}xi32>
  return %0, %1 : tensor<5x{width}xi32>, tensor<{rows}x{width}xi32>
}}"
    ));
    assert!(addresses >= 2, "the table, read and written");
    let Some(device) = vulkan(&artifact) else { return };
    // Beyond the end is the last row, before the start the first.
    let (chosen, found) = ([0, 40000, 70000, -1, 65534], [0, 40000, 65535, 0, 65534]);
    let row = |r: usize| -> Vec<u8> { (0..width).flat_map(|c| ((r * width + c) as u32).to_le_bytes()).collect() };
    let mut table = vec![0; rows * width * 4];
    found.iter().for_each(|r| table[r * width * 4..][..width * 4].copy_from_slice(&row(*r)));
    let indices: Vec<u8> = chosen.iter().flat_map(|i: &i32| i.to_le_bytes()).collect();
    let (out, _) = call(&artifact, &device, &[&table, &indices, &row(9)]);
    same(&out[0], &found.iter().flat_map(|r| row(*r)).collect::<Vec<_>>(), 4);
    table[50000 * width * 4..][..width * 4].copy_from_slice(&row(9));
    same(&out[1], &table, 4);
}

#[test]
fn matvec_over_a_weight_of_192_mib() {
    let (m, k) = (12288, 4096);
    let (artifact, addresses, _folder) = built(&format!(
        "func.func @main(%w: tensor<{m}x{k}xf32>, %x: tensor<{k}xf32>) -> tensor<{m}xf32> {{
  %0 = stablehlo.dot_general %w, %x, contracting_dims = [1] x [0] : (tensor<{m}x{k}xf32>, tensor<{k}xf32>) -> tensor<{m}xf32>
  return %0 : tensor<{m}xf32>
}}"
    ));
    assert_eq!(addresses, 1);
    let Some(device) = vulkan(&artifact) else { return };
    let x: Vec<f32> = (0..k).map(|i| (i % 17) as f32).collect();
    let places = [(0, 1), (1, 4095), (8191, 5), (8192, 6), (8193, 16), (12287, 0), (12287, 4094)];
    let w: Vec<_> = places.iter().map(|(r, c)| (r * k + c, 3.0_f32.to_le_bytes())).collect();
    let (out, _) = call(&artifact, &device, &[&filled(m * k, [0; 4], &w), &bytes_of(&x)]);
    let mut wanted = vec![0.0; m];
    places.iter().for_each(|(r, c)| wanted[*r] += 3.0 * x[*c]);
    assert!(floats_of(&out[0]) == wanted);
}

/// A byte an element: predicates read, written and counted, and integers of 4 bits that wrap.
#[test]
fn predicates_and_small_integers_of_136_mib() {
    let n = 136 * MIB;
    let (artifact, addresses, _folder) = built(&format!(
        "func.func @main(%p: tensor<{n}xi1>, %x: tensor<{n}xi4>) -> (tensor<{n}xi1>, tensor<{n}xi4>, tensor<i32>) {{
  %0 = stablehlo.add %x, %x : tensor<{n}xi4>
  %z = stablehlo.constant dense<0> : tensor<{n}xi4>
  %1 = stablehlo.compare LT, %0, %z, SIGNED : (tensor<{n}xi4>, tensor<{n}xi4>) -> tensor<{n}xi1>
  %2 = stablehlo.xor %p, %1 : tensor<{n}xi1>
  %3 = stablehlo.convert %p : (tensor<{n}xi1>) -> tensor<{n}xi32>
  %i = stablehlo.constant dense<0> : tensor<i32>
  %4 = stablehlo.reduce(%3 init: %i) applies stablehlo.add across dimensions = [0] : (tensor<{n}xi32>, tensor<i32>) -> tensor<i32>
  return %2, %0, %4 : tensor<{n}xi1>, tensor<{n}xi4>, tensor<i32>
}}"
    ));
    assert!(addresses >= 5, "{addresses}");
    let Some(device) = vulkan(&artifact) else { return };
    let (far, last) = (130 * MIB + 1, n - 1);
    let p = filled(n, [1], &[(2, [0]), (far, [0]), (last, [0])]);
    let x = filled(n, [0], &[(3, [7]), (far, [4]), (last, [0xfc])]);
    let (out, _) = call(&artifact, &device, &[&p, &x]);
    // 7 + 7 is -2, 4 + 4 and -4 - 4 are -8.
    same(&out[0], &filled(n, [1], &[(2, [0]), (3, [0]), (far, [1]), (last, [1])]), 1);
    same(&out[1], &filled(n, [0], &[(3, [0xfe]), (far, [0xf8]), (last, [0xf8])]), 1);
    assert_eq!(out[2], (n as i32 - 3).to_le_bytes());
}
