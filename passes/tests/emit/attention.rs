//! Attention as exporters spell it, from StableHLO to kernels: row by row, cut along the positions, and by tiles of
//! fragments. The numbers are the interpreter's.

use super::{
    kernels::spec,
    programs::{fused, prepared, same},
};
use zmlc_passes::spec::{DeviceSpec, Matrix};

/// What is put on the scores.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Mask {
    None,
    /// A query sees the positions up to its own, which starts at an argument: the lowest finite number elsewhere.
    Causal,
    /// The same with minus infinity.
    Infinite,
    /// An argument is added.
    Added,
}
#[derive(Clone, Copy, Debug)]
struct Case {
    /// Heads of keys and values, queries' heads of each.
    heads: i64,
    group: i64,
    queries: i64,
    positions: i64,
    size: i64,
    mask: Mask,
    element: &'static str,
    /// Keys and values are repeated for each of the queries' heads, rather than these grouped.
    repeated: bool,
}
impl Case {
    fn decode(positions: i64) -> Self {
        Case {
            heads: 2,
            group: 2,
            queries: 1,
            positions,
            size: 16,
            mask: Mask::Causal,
            element: "f32",
            repeated: false,
        }
    }
    fn text(&self) -> String {
        let Case { heads: h, group: g, queries: i, positions: t, size: d, element: e, .. } = *self;
        let scores = if self.repeated { format!("{}x{i}x{t}", h * g) } else { format!("{h}x{g}x{i}x{t}") };
        let rows = if self.repeated { format!("{}x{i}", h * g) } else { format!("{h}x{g}x{i}") };
        let (all, last) = if self.repeated { ("0, 1", 2) } else { ("0, 1, 2", 3) };
        let (s, r, dims) = (format!("tensor<{scores}xf32>"), format!("tensor<{rows}xf32>"), [last - 1, last]);
        let hg = h * g;
        let products = if self.repeated {
            format!(
                r#"
    %kb = stablehlo.broadcast_in_dim %k, dims = [0, 1, 3] : (tensor<{t}x{h}x{d}x{e}>) -> tensor<{t}x{h}x{g}x{d}x{e}>
    %kr = stablehlo.reshape %kb : (tensor<{t}x{h}x{g}x{d}x{e}>) -> tensor<{t}x{hg}x{d}x{e}>
    %s0 = stablehlo.dot_general %q, %kr, batching_dims = [1] x [1], contracting_dims = [2] x [2] : (tensor<{i}x{hg}x{d}x{e}>, tensor<{t}x{hg}x{d}x{e}>) -> {s}"#
            )
        } else {
            format!(
                r#"
    %qg = stablehlo.reshape %q : (tensor<{i}x{hg}x{d}x{e}>) -> tensor<{i}x{h}x{g}x{d}x{e}>
    %st = stablehlo.dot_general %k, %qg, batching_dims = [1] x [1], contracting_dims = [2] x [3] : (tensor<{t}x{h}x{d}x{e}>, tensor<{i}x{h}x{g}x{d}x{e}>) -> tensor<{h}x{t}x{i}x{g}xf32>
    %s0 = stablehlo.transpose %st, dims = [0, 3, 2, 1] : (tensor<{h}x{t}x{i}x{g}xf32>) -> {s}"#
            )
        };
        let low = if self.mask == Mask::Infinite { "0xFF800000" } else { "-3.40282347E+38" };
        let masked = match self.mask {
            Mask::None => "\n    %s2 = stablehlo.abs %s1 : ".to_string() + &s,
            Mask::Added => format!(
                r#"
    %mb = stablehlo.broadcast_in_dim %mask, dims = {dims:?} : (tensor<{i}x{t}xf32>) -> {s}
    %s2 = stablehlo.add %s1, %mb : {s}"#
            ),
            Mask::Causal | Mask::Infinite => format!(
                r#"
    %it = stablehlo.iota dim = 1 : tensor<{i}x{t}xi32>
    %ii = stablehlo.iota dim = 0 : tensor<{i}x{t}xi32>
    %pb = stablehlo.broadcast_in_dim %pos, dims = [] : (tensor<i32>) -> tensor<{i}x{t}xi32>
    %last = stablehlo.add %ii, %pb : tensor<{i}x{t}xi32>
    %keep = stablehlo.compare LE, %it, %last, SIGNED : (tensor<{i}x{t}xi32>, tensor<{i}x{t}xi32>) -> tensor<{i}x{t}xi1>
    %keepb = stablehlo.broadcast_in_dim %keep, dims = {dims:?} : (tensor<{i}x{t}xi1>) -> tensor<{scores}xi1>
    %low = stablehlo.constant dense<{low}> : {s}
    %s2 = stablehlo.select %keepb, %s1, %low : tensor<{scores}xi1>, {s}"#
            ),
        };
        let sums = if self.repeated {
            format!(
                r#"
    %vb = stablehlo.broadcast_in_dim %v, dims = [0, 1, 3] : (tensor<{t}x{h}x{d}x{e}>) -> tensor<{t}x{h}x{g}x{d}x{e}>
    %vr = stablehlo.reshape %vb : (tensor<{t}x{h}x{g}x{d}x{e}>) -> tensor<{t}x{hg}x{d}x{e}>
    %o = stablehlo.dot_general %pe, %vr, batching_dims = [0] x [1], contracting_dims = [2] x [0] : (tensor<{scores}x{e}>, tensor<{t}x{hg}x{d}x{e}>) -> tensor<{hg}x{i}x{d}x{e}>
    return %o : tensor<{hg}x{i}x{d}x{e}>"#
            )
        } else {
            format!(
                r#"
    %o = stablehlo.dot_general %v, %pe, batching_dims = [1] x [0], contracting_dims = [0] x [3] : (tensor<{t}x{h}x{d}x{e}>, tensor<{scores}x{e}>) -> tensor<{h}x{d}x{g}x{i}x{e}>
    return %o : tensor<{h}x{d}x{g}x{i}x{e}>"#
            )
        };
        let result =
            if self.repeated { format!("tensor<{hg}x{i}x{d}x{e}>") } else { format!("tensor<{h}x{d}x{g}x{i}x{e}>") };
        format!(
            r#"module @m {{
  func.func public @main(%q: tensor<{i}x{hg}x{d}x{e}>, %k: tensor<{t}x{h}x{d}x{e}>, %v: tensor<{t}x{h}x{d}x{e}>, %pos: tensor<i32>, %mask: tensor<{i}x{t}xf32>) -> {result} {{{products}
    %scale = stablehlo.constant dense<2.500000e-01> : {s}
    %s1 = stablehlo.multiply %s0, %scale : {s}{masked}
    %ninf = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %max = stablehlo.reduce(%s2 init: %ninf) applies stablehlo.maximum across dimensions = [{last}] : ({s}, tensor<f32>) -> {r}
    %maxb = stablehlo.broadcast_in_dim %max, dims = [{all}] : ({r}) -> {s}
    %diff = stablehlo.subtract %s2, %maxb : {s}
    %exp = stablehlo.exponential %diff : {s}
    %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %sum = stablehlo.reduce(%exp init: %zero) applies stablehlo.add across dimensions = [{last}] : ({s}, tensor<f32>) -> {r}
    %sumb = stablehlo.broadcast_in_dim %sum, dims = [{all}] : ({r}) -> {s}
    %p = stablehlo.divide %exp, %sumb : {s}
    %pe = stablehlo.convert %p : ({s}) -> tensor<{scores}x{e}>{sums}
  }}
}}
"#
        )
    }
    /// Runs it and says of which heroes it is.
    fn check(&self, spec: &DeviceSpec) -> Vec<String> {
        let p = prepared("attention.mlir", self.text().into_bytes());
        same(&p, spec, true).unwrap_or_else(|e| panic!("{self:?}: {e}"));
        let text = fused(&p, spec).expect("just done");
        let heroes = text.split("zml.hero = \"").skip(1);
        let mut heroes: Vec<String> = heroes.map(|h| h.split('"').next().expect("quoted").to_string()).collect();
        heroes.sort_unstable();
        heroes
    }
}
/// With subgroups of 8 or without, workgroups to fill it, and 16x16 matrices or none.
fn device(subgroup: u32, fill: u32, matrices: bool) -> DeviceSpec {
    let matrix = |factors: &str| Matrix { factors: factors.into(), sums: "f32".into(), shape: [16, 16, 16], team: 0 };
    let all = if matrices { vec![matrix("bf16"), matrix("f16")] } else { vec![] };
    DeviceSpec { subgroup, parallel_blocks: fill, large_shared_bytes: 65536, matrices: all, ..spec() }
}

#[test]
fn few_rows_in_parts() {
    // In 2 parts, put together by what writes the result.
    let parts = ["attention", "loop"];
    assert_eq!(Case::decode(256).check(&device(0, 64, false)), parts);
    let device = device(8, 64, false);
    let repeated = Case { repeated: true, mask: Mask::Infinite, ..Case::decode(256) };
    assert_eq!(repeated.check(&device), parts);
    let added = Case { mask: Mask::Added, element: "f16", ..Case::decode(384) };
    assert_eq!(added.check(&device), parts);
    let without = Case { mask: Mask::None, element: "bf16", queries: 2, heads: 1, ..Case::decode(256) };
    assert_eq!(without.check(&device), parts);
}
#[test]
fn a_cache_of_thousands_of_positions() {
    let case = Case { heads: 1, size: 8, element: "bf16", ..Case::decode(2048) };
    // 8 parts.
    assert_eq!(case.check(&device(8, 32, false)), ["attention", "loop"]);
}
#[test]
fn short_caches_and_odd_ones_are_whole() {
    let device = device(8, 64, false);
    for positions in [1, 7, 64, 251] {
        let case = Case { heads: 3, group: 1, ..Case::decode(positions) };
        assert_eq!(case.check(&device), ["attention"], "{positions} positions");
    }
}
#[test]
fn many_rows_by_tiles() {
    for mask in [Mask::Causal, Mask::None, Mask::Added, Mask::Infinite] {
        let (element, repeated) = if mask == Mask::Causal { ("bf16", false) } else { ("f16", mask == Mask::Added) };
        // The last tile of rows and that of positions are not full.
        let case = Case { heads: 1, group: 2, queries: 37, positions: 50, size: 32, mask, element, repeated };
        let case = if repeated { Case { queries: 70, ..case } } else { case };
        assert_eq!(case.check(&device(8, 64, true)), ["tiled-attention"]);
    }
}
