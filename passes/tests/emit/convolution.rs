//! Convolutions as contractions in tiles, from StableHLO to kernels: layouts, strides, dilations, padding on both sides of
//! zero, groups, in f32 and by fragments. The numbers are the interpreter's.

use super::{
    kernels::spec,
    programs::{fused, prepared, same_as_fused},
};
use zmlc_passes::spec::{DeviceSpec, Matrix};

#[derive(Clone, Copy)]
struct Case {
    /// Dimensions of image, filter and result, as StableHLO prints them.
    dims: &'static str,
    image: &'static [i64],
    filter: &'static [i64],
    result: &'static [i64],
    window: &'static str,
    /// Groups of features, of batches.
    groups: (i64, i64),
    element: &'static str,
    /// A maximum before, a sum behind.
    between: bool,
}

const NHWC: Case = Case {
    dims: "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
    image: &[2, 5, 4, 12],
    filter: &[3, 3, 12, 20],
    result: &[2, 5, 4, 20],
    window: "pad = [[1, 1], [1, 1]]",
    groups: (1, 1),
    element: "f32",
    between: true,
};
const NCHW: Case = Case {
    dims: "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]",
    image: &[2, 12, 5, 4],
    filter: &[20, 12, 3, 3],
    result: &[2, 20, 5, 4],
    ..NHWC
};

impl Case {
    fn text(&self) -> String {
        let tensor = |shape: &[i64]| {
            let extents: String = shape.iter().map(|n| format!("{n}x")).collect();
            format!("tensor<{extents}{}>", self.element)
        };
        let [x, w, y] = [self.image, self.filter, self.result].map(tensor);
        let Case { dims, window, groups: (features, batches), .. } = self;
        let (before, after) = if self.between {
            (
                format!("%z = stablehlo.constant dense<0.0> : {x}\n%a = stablehlo.maximum %x, %z : {x}"),
                format!("%r = stablehlo.add %c, %y : {y}"),
            )
        } else {
            (format!("%a = stablehlo.negate %x : {x}"), format!("%r = stablehlo.negate %c : {y}"))
        };
        let added = if self.between { format!(", %y: {y}") } else { String::new() };
        format!(
            "func.func @main(%x: {x}, %w: {w}{added}) -> {y} {{
{before}
%c = stablehlo.convolution(%a, %w) dim_numbers = {dims}, window = {{{window}}} \
             {{batch_group_count = {batches} : i64, feature_group_count = {features} : i64}} : ({x}, {w}) -> {y}
{after}
return %r : {y}
}}"
        )
    }
    fn fused(&self, spec: &DeviceSpec) -> String {
        fused(&prepared("convolution.mlir", self.text().into_bytes()), spec).expect("fuses")
    }
    /// The numbers are right in tiles, however small they are.
    fn check(&self, spec: &DeviceSpec) {
        let program = prepared("convolution.mlir", self.text().into_bytes());
        let text = fused(&program, spec).expect("fuses");
        let tiles = text.replace("zml.hero = \"loop\"", "zml.hero = \"matmul\"");
        assert_eq!(tiles.matches("zml.hero").count(), 1, "{text}");
        same_as_fused(&program, &tiles, spec, true).unwrap_or_else(|e| panic!("{e}\n{}", self.text()));
    }
}

fn fragments(async_copy: bool) -> DeviceSpec {
    let matrix = |factors: &str| Matrix { factors: factors.into(), sums: "f32".into(), shape: [16, 16, 16], team: 0 };
    DeviceSpec {
        subgroup: 8,
        max_block: 1024,
        large_shared_bytes: 232_448,
        async_copy,
        matrices: vec![matrix("f16"), matrix("bf16")],
        ..spec()
    }
}

#[test]
fn layouts() {
    NHWC.check(&spec());
    NCHW.check(&spec());
    Case { between: false, ..NHWC }.check(&spec());
    Case { element: "f16", ..NHWC }.check(&spec());
    Case { element: "bf16", ..NCHW }.check(&spec());
    // Features between the spatial dimensions, windows last in the filter, batches innermost in the result.
    let mixed = Case {
        dims: "[0, f, 1, b]x[i, 0, o, 1]->[f, 0, 1, b]",
        image: &[5, 12, 4, 2],
        filter: &[12, 3, 20, 3],
        result: &[20, 5, 4, 2],
        ..NHWC
    };
    mixed.check(&spec());
}

#[test]
fn strides_and_dilations() {
    let window = "stride = [2, 1], pad = [[2, 1], [0, 3]], rhs_dilate = [1, 2]";
    Case { window, image: &[2, 9, 5, 12], ..NHWC }.check(&spec());
    Case { window, image: &[2, 12, 9, 5], ..NCHW }.check(&spec());
    // A transposed convolution.
    let window = "pad = [[1, 2], [2, 1]], lhs_dilate = [2, 2]";
    Case { window, image: &[2, 3, 2, 12], result: &[2, 6, 4, 20], ..NHWC }.check(&spec());
    Case { window, image: &[2, 12, 3, 2], result: &[2, 20, 6, 4], ..NCHW }.check(&spec());
}

#[test]
fn padding_that_cuts() {
    let window = "pad = [[-1, 2], [1, -2]]";
    Case { window, image: &[2, 6, 7, 12], ..NHWC }.check(&spec());
    Case { window, image: &[2, 12, 6, 7], ..NCHW }.check(&spec());
}

#[test]
fn windows_of_one() {
    let one = Case { filter: &[1, 1, 88, 20], image: &[2, 5, 4, 88], window: "", ..NHWC };
    one.check(&spec());
    Case { window: "stride = [2, 2]", image: &[2, 9, 8, 88], ..one }.check(&spec());
    Case { filter: &[20, 88, 1, 1], image: &[2, 88, 5, 4], window: "", ..NCHW }.check(&spec());
}

#[test]
fn groups() {
    Case { image: &[2, 5, 4, 24], groups: (2, 1), ..NHWC }.check(&spec());
    let features = Case { image: &[2, 36, 3, 3], filter: &[60, 12, 3, 3], result: &[2, 60, 3, 3], ..NCHW };
    Case { groups: (3, 1), ..features }.check(&spec());
    Case { image: &[4, 5, 4, 12], groups: (1, 2), ..NHWC }.check(&spec());
}

#[test]
fn one_and_three_dimensions() {
    let line = Case {
        dims: "[b, f, 0]x[o, i, 0]->[b, f, 0]",
        image: &[2, 12, 58],
        filter: &[20, 12, 5],
        result: &[2, 20, 29],
        window: "stride = [2], pad = [[2, 1]]",
        ..NHWC
    };
    line.check(&spec());
    let space = Case {
        dims: "[b, 0, 1, 2, f]x[0, 1, 2, i, o]->[b, 0, 1, 2, f]",
        image: &[1, 3, 6, 4, 8],
        filter: &[3, 1, 2, 8, 20],
        result: &[1, 3, 6, 4, 20],
        window: "pad = [[1, 1], [0, 0], [0, 1]]",
        ..NHWC
    };
    space.check(&spec());
}

#[test]
fn fragments_of_all_layouts() {
    for async_copy in [false, true] {
        for element in ["f16", "bf16"] {
            Case { element, ..NHWC }.check(&fragments(async_copy));
            Case { element, ..NCHW }.check(&fragments(async_copy));
        }
    }
    let strided = Case { element: "bf16", window: "stride = [2, 2]", filter: &[1, 1, 80, 24], ..NHWC };
    Case { image: &[2, 9, 7, 80], result: &[2, 5, 4, 24], ..strided }.check(&fragments(true));
}

#[test]
fn those_that_pay_are_matmuls() {
    let is_matmul = |case: Case| case.fused(&spec()).contains("zml.hero = \"matmul\"");
    let large = Case { image: &[1, 14, 14, 256], filter: &[3, 3, 256, 256], result: &[1, 14, 14, 256], ..NHWC };
    assert!(is_matmul(large));
    assert!(is_matmul(Case { element: "f16", ..large }));
    assert!(is_matmul(Case { image: &[1, 14, 14, 512], groups: (2, 1), ..large }));
    let one = Case { window: "", filter: &[1, 1, 256, 256], ..large };
    assert!(is_matmul(one));
    // Few elements of few turns; few features; one feature a group.
    assert!(!is_matmul(NHWC));
    assert!(!is_matmul(Case { filter: &[3, 3, 256, 4], result: &[1, 14, 14, 4], ..large }));
    assert!(!is_matmul(Case { filter: &[3, 3, 1, 256], groups: (256, 1), ..large }));
}
