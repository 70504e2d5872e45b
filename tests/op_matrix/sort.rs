//! Sorting by every order, stable, one operand and several, along either dimension; the largest elements.

use crate::{
    FLOATS, INTEGERS, SMALL_FLOATS,
    matrix::{Error, Matrix, small, tensor, values},
};
use zml_format::DType;

/// Sorts whole, by rows and by columns, rising and falling; and of a second operand, which tells the order of equal keys.
fn orders(m: &mut Matrix, kind: &str) {
    let d = m.d;
    let compare = |direction: &str| {
        format!(
            "%c = stablehlo.compare {direction}, %p, %q, {kind} : (tensor<{d}>, tensor<{d}>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>"
        )
    };
    for (direction, shape, dim) in [("LT", "64", 0), ("GT", "4x16", 0), ("LE", "4x16", 1)] {
        let t = tensor(shape, d);
        let text = format!(
            "%m$n = stablehlo.reshape %x : ($t) -> {t}
  $r = \"stablehlo.sort\"(%m$n) <{{dimension = {dim} : i64, is_stable = true}}> ({{
  ^bb0(%p: tensor<{d}>, %q: tensor<{d}>):
    {}
  }}) : ({t}) -> {t}",
            compare(direction)
        );
        m.push(&format!("sort {direction} {kind} of {shape} along {dim}"), &text, shape, d, Error::None);
    }
    let text = format!(
        "%i$n = stablehlo.iota dim = 0 : tensor<64xi32>
  %s$n:2 = \"stablehlo.sort\"(%y, %i$n) <{{dimension = 0 : i64, is_stable = true}}> ({{
  ^bb0(%p: tensor<{d}>, %q: tensor<{d}>, %u: tensor<i32>, %v: tensor<i32>):
    {}
  }}) : ($t, tensor<64xi32>) -> ($t, tensor<64xi32>)
  $r = stablehlo.reverse %s$n#1, dims = [0] : tensor<64xi32>",
        compare("GT")
    );
    m.push(&format!("stable sort {kind}"), &text, "64", DType::I32, Error::None);
}
fn top_k(m: &mut Matrix) {
    let d = m.d;
    let all = tensor("4x16", d);
    for (result, shape) in [(0, d), (1, DType::I32)] {
        let (t, r) = (tensor("4x5", d), tensor("4x5", shape));
        let text = format!(
            "%m$n = stablehlo.reshape %y : ($t) -> {all}
  %k$n:2 = chlo.top_k(%m$n, k = 5) : {all} -> ({t}, tensor<4x5xi32>)
  $r = stablehlo.reverse %k$n#{result}, dims = [1] : {r}"
        );
        m.push(&format!("top_k, result {result}"), &text, "4x5", shape, Error::None);
    }
}
/// The second argument has many equal elements.
fn ties(d: DType) -> Matrix {
    Matrix::of(d, [values(d, 1), small(d, 2, 1)])
}

#[test]
fn integers_and_predicates() {
    for d in INTEGERS.into_iter().chain([DType::I1]) {
        let mut m = ties(d);
        orders(&mut m, if d.is_signed_int() { "SIGNED" } else { "UNSIGNED" });
        if d != DType::I1 {
            top_k(&mut m);
        }
        m.check();
    }
}
#[test]
fn floats() {
    for d in FLOATS {
        let mut m = ties(d);
        orders(&mut m, "TOTALORDER");
        top_k(&mut m);
        m.check();
        // The order of numbers alone.
        let mut m = Matrix::of(d, [small(d, 5, 9), small(d, 6, 1)]);
        orders(&mut m, "FLOAT");
        m.check();
    }
}
#[test]
fn small_floats() {
    for d in SMALL_FLOATS.into_iter().filter(|d| *d != DType::F8E8M0FNU) {
        let mut m = Matrix::of(d, [small(d, 5, 4), small(d, 6, 1)]);
        orders(&mut m, "FLOAT");
        m.check();
    }
}
