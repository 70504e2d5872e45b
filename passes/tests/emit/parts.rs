//! Contractions whose sums are cut in parts, on a device with room for more tiles than there are. The numbers are the
//! interpreter's.

use super::{
    kernels::spec,
    programs::{fused, prepared, same},
};
use zmlc_passes::spec::DeviceSpec;

fn large() -> DeviceSpec {
    DeviceSpec { parallel_blocks: 512, ..spec() }
}
fn product(m: i64, n: i64, k: i64, element: &str) -> String {
    let t = |a: i64, b: i64| format!("tensor<{a}x{b}x{element}>");
    let (x, w, y) = (t(m, k), t(k, n), t(m, n));
    format!(
        "func.func @main(%x: {x}, %w: {w}, %y: {y}) -> {y} {{
%c = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({x}, {w}) -> {y}
%r = stablehlo.add %c, %y : {y}
return %r : {y}
}}"
    )
}
fn convolution(window: &str, image: &str, filter: &str, result: &str) -> String {
    let [x, w, y] = [image, filter, result].map(|s| format!("tensor<{s}xf32>"));
    format!(
        "func.func @main(%x: {x}, %w: {w}) -> {y} {{
%c = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {{{window}}} \
         {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : ({x}, {w}) -> {y}
%r = stablehlo.negate %c : {y}
return %r : {y}
}}"
    )
}
/// Whether the sum is cut in parts of this shape; the numbers are right.
fn check(text: &str, parts: Option<&str>) {
    let program = prepared("parts.mlir", text.as_bytes().to_vec());
    let fused = fused(&program, &large()).expect("fuses");
    match parts {
        Some(shape) => assert!(fused.contains("zml.partial") && fused.contains(shape), "{fused}"),
        None => assert!(!fused.contains("zml.partial"), "{fused}"),
    }
    same(&program, &large(), true).unwrap_or_else(|e| panic!("{e}\n{fused}"));
}

#[test]
fn few_tiles_of_long_sums() {
    check(&product(8, 16, 768, "f32"), Some("x8x16xf32>"));
    check(&product(13, 10, 512, "f32"), Some("x13x10xf32>"));
}

#[test]
fn windows() {
    // Along the features, and along a loop of the window as it is.
    check(&convolution("pad = [[1, 1], [1, 1]]", "1x4x2x240", "3x3x240x8", "1x4x2x8"), Some("x1x4x2x8xf32>"));
    check(&convolution("pad = [[8, 8], [0, 0]]", "1x8x7x18", "17x7x18x8", "1x8x1x8"), Some("tensor<17x1x8x1x8xf32>"));
}

#[test]
fn what_stays_whole() {
    // A short sum; enough tiles; another type.
    check(&product(16, 16, 64, "f32"), None);
    check(&product(8, 16, 768, "f64"), None);
    let many = prepared("parts.mlir", product(2048, 2048, 512, "f32").into_bytes());
    assert!(!fused(&many, &large()).expect("fuses").contains("zml.partial"));
}

#[test]
fn a_window_reads_the_sum_and_not_the_parts() {
    // Each element is read by nine places of the window, and by each tile of the features.
    let (t, w) = ("tensor<1x14x14x256xf32>", "tensor<3x3x256x256xf32>");
    let convolution = "dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} \
                       {batch_group_count = 1 : i64, feature_group_count = 1 : i64}";
    let text = format!(
        "func.func @main(%x: {t}, %w: {w}) -> {t} {{
%a = stablehlo.convolution(%x, %w) {convolution} : ({t}, {w}) -> {t}
%b = stablehlo.negate %a : {t}
%c = stablehlo.convolution(%b, %w) {convolution} : ({t}, {w}) -> {t}
return %c : {t}
}}"
    );
    let fused = fused(&prepared("parts.mlir", text.into_bytes()), &large()).expect("fuses");
    let heroes = ["matmul", "loop"].map(|h| fused.matches(&format!("zml.hero = \"{h}\"")).count());
    // Equal convolutions are one kernel; the loops are the two sums.
    assert_eq!(heroes, [1, 2], "{fused}");
}
