//! dot_general in all its forms.

use crate::{
    FLOATS, INTEGERS, SMALL_FLOATS,
    matrix::{Error, Matrix, small, tensor, values},
};
use zml_format::DType;

/// Extents of both factors, their dimensions, extents of the result.
const FORMS: &[(&str, &str, &str, &str, &str)] = &[
    ("vectors", "64", "64", "contracting_dims = [0] x [0]", ""),
    ("few rows", "4x16", "16x4", "contracting_dims = [1] x [0]", "4x4"),
    ("tiles", "8x8", "8x8", "contracting_dims = [1] x [0]", "8x8"),
    ("both transposed", "8x8", "8x8", "contracting_dims = [0] x [1]", "8x8"),
    ("a long sum", "2x32", "2x32", "contracting_dims = [1] x [1]", "2x2"),
    ("a batch", "4x4x4", "4x4x4", "batching_dims = [0] x [0], contracting_dims = [2] x [1]", "4x4x4"),
    ("a batch inside", "4x4x4", "4x4x4", "batching_dims = [1] x [2], contracting_dims = [0] x [0]", "4x4x4"),
    ("two batches", "2x4x8", "4x2x8", "batching_dims = [0, 1] x [1, 0], contracting_dims = [2] x [2]", "2x4"),
    ("two sums", "4x4x4", "4x4x4", "contracting_dims = [1, 2] x [2, 0]", "4x4"),
    ("nothing summed", "64", "64", "contracting_dims = [] x []", "64x64"),
];

fn forms(m: &mut Matrix, out: DType) {
    for (name, lhs, rhs, dims, shape) in FORMS {
        let (x, y, r) = (tensor(lhs, m.d), tensor(rhs, m.d), tensor(shape, out));
        let text = format!(
            "%a$n = stablehlo.reshape %x : ($t) -> {x}
  %b$n = stablehlo.reshape %y : ($t) -> {y}
  $r = stablehlo.dot_general %a$n, %b$n, {dims} : ({x}, {y}) -> {r}"
        );
        // Where nothing is summed, the sign of zero is that of the product or of what sums begin with.
        let error = if out.is_int() { Error::None } else { Error::Steps(0) };
        m.push(&format!("dot_general to {out}, {name}"), &text, shape, out, error);
    }
}
/// Whole numbers, so that the order of the sum does not matter.
fn whole(d: DType, most: i64) -> Matrix {
    Matrix::of(d, [small(d, 3, most), small(d, 4, most)])
}

#[test]
fn integers() {
    for d in INTEGERS {
        let mut m = Matrix::of(d, [values(d, 1), values(d, 2)]);
        forms(&mut m, d);
        if d.bits() <= 8 {
            forms(&mut m, if d.is_signed_int() { DType::I32 } else { DType::U32 });
        }
        m.check();
    }
}
#[test]
fn floats() {
    for d in FLOATS {
        let mut m = whole(d, 2);
        forms(&mut m, d);
        match d.bits() {
            16 => forms(&mut m, DType::F32),
            32 => forms(&mut m, DType::F64),
            _ => {}
        }
        m.check();
    }
}
#[test]
fn small_floats() {
    for d in SMALL_FLOATS.into_iter().filter(|d| *d != DType::F8E8M0FNU) {
        let mut m = whole(d, 1);
        forms(&mut m, DType::F32);
        forms(&mut m, d);
        m.check();
    }
}
#[test]
fn complex_numbers() {
    for d in [DType::C64, DType::C128] {
        let mut m = whole(d, 3);
        forms(&mut m, d);
        m.check();
    }
}
