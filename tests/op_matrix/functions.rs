//! chlo's functions, and complex functions where they are special.

use crate::{
    FLOATS, INTEGERS,
    matrix::{Error, Matrix, N},
};
use zml_format::DType;

fn chlo(m: &mut Matrix, ops: &[&str], error: Error) {
    for op in ops {
        m.push(op, &format!("$r = chlo.{op} %x : $t -> $t"), "64", m.d, error);
    }
}
fn chlo_of_two(m: &mut Matrix, ops: &[&str], error: Error) {
    for op in ops {
        m.push(op, &format!("$r = chlo.{op} %x, %y : $t, $t -> $t"), "64", m.d, error);
    }
}

#[test]
fn floats() {
    for d in FLOATS {
        let mut m = Matrix::new(d);
        let few = Error::Steps(if d.bits() == 16 { 1 } else { 4 });
        chlo(&mut m, &["acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh", "tan", "erf", "erfc"], few);
        chlo(&mut m, &["square"], Error::None);
        // Zeros beside which the relative error has no bound.
        let close = Error::Close(match d {
            DType::F64 => 1e-11,
            DType::F32 => 1e-5,
            DType::F16 => 2e-3,
            _ => 2e-2,
        });
        chlo(&mut m, &["bessel_i1e", "digamma", "erf_inv", "lgamma"], close);
        chlo_of_two(&mut m, &["polygamma", "zeta"], close);
        chlo_of_two(&mut m, &["next_after"], Error::None);
        for op in ["is_inf", "is_pos_inf", "is_neg_inf"] {
            m.push(op, &format!("$r = chlo.{op} %x : $t -> tensor<{N}xi1>"), "64", DType::I1, Error::None);
        }
        m.check();
    }
}
#[test]
fn integers() {
    for d in INTEGERS.into_iter().filter(|d| d.bits() >= 8) {
        let mut m = Matrix::new(d);
        chlo_of_two(&mut m, &["mulhi"], Error::None);
        m.check();
    }
}
/// At every pair of special and everyday parts.
#[test]
fn complex_numbers() {
    for d in [DType::C64, DType::C128] {
        let parts = [0.0, -0.0, 0.5, -2.5, 1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        let bytes = |x: f64| if d == DType::C64 { (x as f32).to_le_bytes().to_vec() } else { x.to_le_bytes().to_vec() };
        let grid: Vec<u8> = (0..N).flat_map(|i| [bytes(parts[i / 8]), bytes(parts[i % 8])].concat()).collect();
        let mut m = Matrix::of(d, [grid.clone(), grid]);
        let few = Error::Parts(4);
        chlo(&mut m, &["acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh", "square"], few);
        m.unary(&["exponential", "log", "log_plus_one", "sqrt", "sine", "cosine", "tan", "tanh"], few);
        chlo(&mut m, &["conj"], Error::None);
        m.check();
    }
}
