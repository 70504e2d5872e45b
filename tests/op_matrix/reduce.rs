//! Reductions of every element type: over either dimension, both and none; by windows, running, and of several operands.

use crate::{
    FLOATS, INTEGERS, SMALL_FLOATS,
    matrix::{Error, Matrix, small, tensor, values},
};
use zml_format::DType;

fn reductions(m: &mut Matrix, ops: &[&str]) {
    let d = m.d;
    for op in ops {
        for (dims, shape) in [("0", "16"), ("1", "4"), ("0, 1", ""), ("", "4x16")] {
            let r = tensor(shape, d);
            let text = format!(
                "%m$n = stablehlo.reshape %x : ($t) -> tensor<4x16x$d>
  %s$n = stablehlo.slice %y [5:6] : ($t) -> tensor<1x$d>
  %z$n = stablehlo.reshape %s$n : (tensor<1x$d>) -> tensor<$d>
  $r = stablehlo.reduce(%m$n init: %z$n) applies stablehlo.{op} across dimensions = [{dims}] : (tensor<4x16x$d>, tensor<$d>) -> {r}"
            );
            m.push(&format!("reduce {op} over [{dims}]"), &text, shape, d, Error::None);
        }
    }
}
/// Windows of three with a step of two, and all up to each element.
fn windows(m: &mut Matrix, ops: &[&str]) {
    let d = m.d;
    for op in ops {
        // How often the initial value counts is open but where it changes nothing, as any value of a maximum.
        let neutral = match (*op, d.is_int() || d == DType::I1, d.is_complex()) {
            ("add", true, _) => Some("0"),
            ("add", _, true) => Some("(0.0, 0.0)"),
            ("add", ..) => Some("0.0"),
            ("multiply", ..) => Some("1.0"),
            _ => None,
        };
        let init = match neutral {
            Some(v) => format!("%z$n = stablehlo.constant dense<{v}> : tensor<$d>"),
            None => "%s$n = stablehlo.slice %y [5:6] : ($t) -> tensor<1x$d>
  %z$n = stablehlo.reshape %s$n : (tensor<1x$d>) -> tensor<$d>"
                .to_string(),
        };
        for (name, shape, attributes) in [
            (
                "window",
                "32",
                "padding = dense<[[1, 0]]> : tensor<1x2xi64>, window_dimensions = array<i64: 3>, window_strides = array<i64: 2>",
            ),
            ("running", "64", "padding = dense<[[63, 0]]> : tensor<1x2xi64>, window_dimensions = array<i64: 64>"),
        ] {
            let r = tensor(shape, d);
            let text = format!(
                "{init}
  $r = \"stablehlo.reduce_window\"(%x, %z$n) <{{{attributes}}}> ({{
  ^bb0(%p: tensor<$d>, %q: tensor<$d>):
    %v = stablehlo.{op} %p, %q : tensor<$d>
    stablehlo.return %v : tensor<$d>
  }}) : ($t, tensor<$d>) -> {r}"
            );
            m.push(&format!("{name} {op}"), &text, shape, d, Error::None);
        }
    }
}
/// The greatest element of each row and its place, the first of several.
fn greatest(m: &mut Matrix, kind: &str) {
    for (result, d) in [(0, m.d), (1, DType::I32)] {
        let (all, r) = (tensor("4x16", m.d), tensor("4", d));
        let text = format!(
            "%m$n = stablehlo.reshape %x : ($t) -> {all}
  %i$n = stablehlo.iota dim = 1 : tensor<4x16xi32>
  %s$n = stablehlo.slice %x [0:1] : ($t) -> tensor<1x$d>
  %z$n = stablehlo.reshape %s$n : (tensor<1x$d>) -> tensor<$d>
  %o$n = stablehlo.constant dense<0> : tensor<i32>
  %g$n:2 = \"stablehlo.reduce\"(%m$n, %i$n, %z$n, %o$n) <{{dimensions = array<i64: 1>}}> ({{
  ^bb0(%p: tensor<$d>, %u: tensor<i32>, %q: tensor<$d>, %v: tensor<i32>):
    %more = stablehlo.compare GT, %p, %q, {kind} : (tensor<$d>, tensor<$d>) -> tensor<i1>
    %same = stablehlo.compare EQ, %p, %q, {kind} : (tensor<$d>, tensor<$d>) -> tensor<i1>
    %before = stablehlo.compare LT, %u, %v, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %tie = stablehlo.and %same, %before : tensor<i1>
    %first = stablehlo.or %more, %tie : tensor<i1>
    %a = stablehlo.select %first, %p, %q : tensor<i1>, tensor<$d>
    %b = stablehlo.select %first, %u, %v : tensor<i1>, tensor<i32>
    stablehlo.return %a, %b : tensor<$d>, tensor<i32>
  }}) : ({all}, tensor<4x16xi32>, tensor<$d>, tensor<i32>) -> (tensor<4x$d>, tensor<4xi32>)
  $r = stablehlo.reverse %g$n#{result}, dims = [0] : {r}"
        );
        m.push(&format!("the greatest, result {result}"), &text, "4", d, Error::None);
    }
}

#[test]
fn integers() {
    for d in INTEGERS {
        let mut m = Matrix::of(d, [values(d, 1), values(d, 2)]);
        reductions(&mut m, &["add", "multiply", "maximum", "minimum", "and", "or", "xor"]);
        windows(&mut m, &["add", "maximum"]);
        greatest(&mut m, if d.is_signed_int() { "SIGNED" } else { "UNSIGNED" });
        m.check();
    }
}
#[test]
fn predicates() {
    let mut m = Matrix::new(DType::I1);
    reductions(&mut m, &["and", "or", "xor", "maximum", "minimum"]);
    windows(&mut m, &["or", "and"]);
    greatest(&mut m, "UNSIGNED");
    m.check();
}
/// Whole numbers, so that the order of a sum does not matter.
#[test]
fn floats() {
    for d in FLOATS {
        let mut m = Matrix::of(d, [small(d, 3, 2), small(d, 4, 2)]);
        reductions(&mut m, &["add", "maximum", "minimum"]);
        windows(&mut m, &["add", "maximum", "multiply"]);
        greatest(&mut m, "FLOAT");
        m.check();
        // NaN, infinities and zeros of both signs.
        let mut m = Matrix::new(d);
        reductions(&mut m, &["maximum", "minimum"]);
        windows(&mut m, &["maximum"]);
        m.check();
    }
}
#[test]
fn small_floats() {
    for d in SMALL_FLOATS.into_iter().filter(|d| *d != DType::F8E8M0FNU) {
        let mut m = Matrix::of(d, [small(d, 3, 1), small(d, 4, 1)]);
        reductions(&mut m, &["maximum", "minimum"]);
        windows(&mut m, &["maximum"]);
        greatest(&mut m, "FLOAT");
        m.check();
    }
}
#[test]
fn complex_numbers() {
    for d in [DType::C64, DType::C128] {
        let mut m = Matrix::of(d, [small(d, 3, 2), small(d, 4, 2)]);
        reductions(&mut m, &["add"]);
        windows(&mut m, &["add"]);
        m.check();
    }
}
