//! Elementwise, converting and moving ops.

use crate::{
    DIRECTIONS, FLOATS, INTEGERS, SMALL_FLOATS,
    matrix::{Error, Matrix, N},
};
use zml_format::DType;

#[test]
fn integers() {
    for d in INTEGERS {
        let mut m = Matrix::new(d);
        m.unary(&["not", "negate", "popcnt", "count_leading_zeros"], Error::None);
        if d.is_signed_int() {
            m.unary(&["abs", "sign"], Error::None);
        }
        m.binary(&["add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum"], Error::None);
        m.binary(&["and", "or", "xor"], Error::None);
        m.binary(&["shift_left", "shift_right_logical", "shift_right_arithmetic"], Error::None);
        m.compare(&DIRECTIONS, if d.is_signed_int() { "SIGNED" } else { "UNSIGNED" });
        m.moves();
        m.check();
    }
}
#[test]
fn predicates() {
    let mut m = Matrix::new(DType::I1);
    m.unary(&["not"], Error::None);
    m.binary(&["and", "or", "xor", "add", "multiply", "maximum", "minimum"], Error::None);
    m.compare(&DIRECTIONS, "UNSIGNED");
    m.moves();
    m.check();
}
#[test]
fn floats() {
    for d in FLOATS {
        let mut m = Matrix::new(d);
        m.unary(&["abs", "negate", "sign", "floor", "ceil", "round_nearest_afz", "round_nearest_even"], Error::None);
        m.binary(&["add", "subtract", "multiply", "maximum", "minimum", "remainder"], Error::None);
        m.binary(&["divide"], Error::Steps(1));
        let rows = "%a$n = stablehlo.reshape %x : ($t) -> tensor<8x8x$d>
  %b$n = stablehlo.slice %y [0:8] : ($t) -> tensor<8x$d>
  %c$n = stablehlo.broadcast_in_dim %b$n, dims = [0] : (tensor<8x$d>) -> tensor<8x8x$d>
  $r = stablehlo.divide %a$n, %c$n : tensor<8x8x$d>";
        m.push("divide rows", rows, "8x8", d, Error::Steps(1));
        let few = Error::Steps(if d.bits() == 16 { 1 } else { 4 });
        m.unary(&["exponential", "exponential_minus_one", "log", "log_plus_one", "logistic"], few);
        m.unary(&["sine", "cosine", "tan", "tanh", "sqrt", "rsqrt", "cbrt"], few);
        m.binary(&["atan2", "power"], few);
        m.compare(&DIRECTIONS, "FLOAT");
        m.compare(&DIRECTIONS, "TOTALORDER");
        let finite = format!("$r = stablehlo.is_finite %x : ($t) -> tensor<{N}xi1>");
        m.push("is_finite", &finite, "64", DType::I1, Error::None);
        m.push("reduce_precision", "$r = stablehlo.reduce_precision %x, format = e5m2 : $t", "64", d, Error::None);
        m.moves();
        m.check();
    }
}
#[test]
fn small_floats() {
    for d in SMALL_FLOATS {
        let mut m = Matrix::new(d);
        m.moves();
        m.convert(&FLOATS);
        if d != DType::F8E8M0FNU {
            m.compare(&DIRECTIONS, "FLOAT");
            m.unary(&["abs", "negate"], Error::None);
            m.binary(&["add", "multiply", "maximum"], Error::None);
        }
        m.check();
    }
}
#[test]
fn complex_numbers() {
    for (d, close) in [(DType::C64, 1e-6), (DType::C128, 1e-14)] {
        let close = Error::Relative(close);
        let mut m = Matrix::new(d);
        m.unary(&["negate"], Error::None);
        m.binary(&["add", "subtract"], Error::None);
        m.binary(&["multiply", "divide"], close);
        m.unary(&["exponential", "log", "sqrt", "rsqrt", "sine", "cosine"], close);
        for op in ["real", "imag", "abs"] {
            let r = d.real();
            let text = format!("$r = stablehlo.{op} %x : ($t) -> tensor<{N}x{r}>");
            m.push(op, &text, "64", r, if op == "abs" { close } else { Error::None });
        }
        m.moves();
        m.check();
    }
}
#[test]
fn conversions_of_integers_and_floats() {
    for d in INTEGERS.into_iter().chain(FLOATS).chain([DType::I1]) {
        let mut m = Matrix::new(d);
        if d.is_int() {
            m.convert(&INTEGERS);
        }
        m.convert(&FLOATS);
        m.convert(&[DType::I1]);
        if d.is_float() {
            m.convert(&SMALL_FLOATS);
        }
        m.check();
    }
}
