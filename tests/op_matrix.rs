//! Every elementwise, converting and moving op on every element type that the specification allows: built for all targets,
//! run on the Vulkan device, and compared with the interpreter; exactly where the op is exact, else in units in the last place.

mod common;

use common::{build, call, model, vulkan};
use zml_format::DType;
use zmlc_import::{
    Source,
    interp::{Tensor, eval},
    prepare, read,
};

const N: usize = 64;

/// What may differ from the interpreter.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Error {
    None,
    /// Values of the type in between.
    Steps(u64),
    /// Of the modulus.
    Relative(f64),
}

/// A program in the making: results with the error that each may have.
struct Matrix {
    d: DType,
    body: String,
    results: Vec<(String, DType, String, Error)>,
}
impl Matrix {
    fn new(d: DType) -> Self {
        Matrix { d, body: String::new(), results: vec![] }
    }
    /// `text` computes `$r` from `%x` and `%y`, both of type `$t`; the result has `shape` of `d`.
    fn push(&mut self, name: &str, text: &str, shape: &str, d: DType, error: Error) {
        let r = format!("%r{}", self.results.len());
        let t = format!("tensor<{N}x{}>", self.d);
        self.body += &format!("  {}\n", text.replace("$r", &r).replace("$t", &t).replace("$d", self.d.name()));
        self.results.push((name.into(), d, format!("tensor<{shape}x{d}>"), error));
    }
    fn unary(&mut self, ops: &[&str], error: Error) {
        for op in ops {
            self.push(op, &format!("$r = stablehlo.{op} %x : $t"), "64", self.d, error);
        }
    }
    fn binary(&mut self, ops: &[&str], error: Error) {
        for op in ops {
            self.push(op, &format!("$r = stablehlo.{op} %x, %y : $t"), "64", self.d, error);
        }
    }
    fn compare(&mut self, directions: &[&str], kind: &str) {
        for c in directions {
            let text = format!("$r = stablehlo.compare {c}, %x, %y, {kind} : ($t, $t) -> tensor<{N}xi1>");
            self.push(&format!("compare {c} {kind}"), &text, "64", DType::I1, Error::None);
        }
    }
    fn convert(&mut self, to: &[DType]) {
        for d in to {
            let text = format!("$r = stablehlo.convert %x : ($t) -> tensor<{N}x{d}>");
            self.push(&format!("convert to {d}"), &text, "64", *d, Error::None);
        }
    }
    /// What moves elements and does not look at them.
    fn moves(&mut self) {
        let d = self.d;
        let mut add = |name: &str, text: &str, shape: &str| self.push(name, text, shape, d, Error::None);
        add("reverse", "$r = stablehlo.reverse %x, dims = [0] : $t", "64");
        add("slice", "$r = stablehlo.slice %x [3:60:3] : ($t) -> tensor<19x$d>", "19");
        add("reshape", "$r = stablehlo.reshape %x : ($t) -> tensor<4x16x$d>", "4x16");
        add(
            "transpose",
            "%m = stablehlo.reshape %x : ($t) -> tensor<4x16x$d>\n  $r = stablehlo.transpose %m, dims = [1, 0] : (tensor<4x16x$d>) -> tensor<16x4x$d>",
            "16x4",
        );
        add("concatenate", "$r = stablehlo.concatenate %x, %y, dim = 0 : ($t, $t) -> tensor<128x$d>", "128");
        add(
            "pad",
            "%s = stablehlo.slice %y [5:6] : ($t) -> tensor<1x$d>\n  %z = stablehlo.reshape %s : (tensor<1x$d>) -> tensor<$d>\n  $r = stablehlo.pad %x, %z, low = [-3], high = [2], interior = [1] : ($t, tensor<$d>) -> tensor<126x$d>",
            "126",
        );
        add("broadcast", "$r = stablehlo.broadcast_in_dim %x, dims = [1] : ($t) -> tensor<3x64x$d>", "3x64");
        add(
            "dynamic_slice",
            "%at = stablehlo.constant dense<60> : tensor<ui8>\n  $r = stablehlo.dynamic_slice %x, %at, sizes = [9] : ($t, tensor<ui8>) -> tensor<9x$d>",
            "9",
        );
        add(
            "dynamic_update_slice",
            "%u = stablehlo.slice %y [0:7] : ($t) -> tensor<7x$d>\n  %to = stablehlo.constant dense<-2> : tensor<i64>\n  $r = stablehlo.dynamic_update_slice %x, %u, %to : ($t, tensor<7x$d>, tensor<i64>) -> $t",
            "64",
        );
        add(
            "gather",
            "%i = stablehlo.constant dense<[[5], [63], [-4], [99], [0]]> : tensor<5x1xi32>\n  $r = \"stablehlo.gather\"(%x, %i) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>} : ($t, tensor<5x1xi32>) -> tensor<5x$d>",
            "5",
        );
        add(
            "select",
            "%p = stablehlo.constant dense<[true, false, false, true]> : tensor<4xi1>\n  %pp = stablehlo.broadcast_in_dim %p, dims = [0] : (tensor<4xi1>) -> tensor<4x16xi1>\n  %q = stablehlo.reshape %pp : (tensor<4x16xi1>) -> tensor<64xi1>\n  $r = stablehlo.select %q, %x, %y : tensor<64xi1>, $t",
            "64",
        );
    }
    fn program(&self) -> String {
        let t = format!("tensor<{N}x{}>", self.d);
        let types: Vec<_> = self.results.iter().map(|r| r.2.as_str()).collect();
        let names: Vec<_> = (0..self.results.len()).map(|i| format!("%r{i}")).collect();
        let (types, names) = (types.join(", "), names.join(", "));
        format!("func.func @main(%x: {t}, %y: {t}) -> ({types}) {{\n{}  return {names} : {types}\n}}\n", self.body)
    }
    /// Builds for all targets, runs on the Vulkan device if there is one, and compares.
    fn check(&self) {
        let folder = tempfile::tempdir().expect("a folder");
        let text = self.program();
        let path = model(folder.path(), &text);
        let artifact = build(folder.path(), &path, "vulkan,cuda:generic,rocm:gfx942", &[]);
        let Some(device) = vulkan(&artifact) else { return };
        let inputs = [values(self.d, 1), values(self.d, 2)];
        let program = read(Source::new("matrix", text)).expect("the test's own program");
        let program = prepare(program, "main", None).expect("static");
        let arguments = inputs.iter().map(|b| Tensor::new(self.d, &[N as u64], b.clone()).expect("sized"));
        let expected = eval(&program, "main", arguments.collect()).expect("the interpreter knows every op");
        let (found, _) = call(&artifact, &device, &[&inputs[0], &inputs[1]]);
        let mut wrong = vec![];
        for ((name, d, _, error), (found, expected)) in self.results.iter().zip(found.iter().zip(&expected)) {
            if let Some(what) = difference(*d, found, &expected.bytes, *error) {
                wrong.push(format!("{name} of {}: {what}", self.d));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// Numbers of every kind: all patterns of a byte, else edges and pseudo-random ones of everyday size.
fn values(d: DType, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        state >> 32
    };
    let bits = d.bits();
    let mut bytes = vec![];
    for i in 0..N as u64 * if d.is_complex() { 2 } else { 1 } {
        let r = next();
        let everyday = (r as f64 / f64::from(1u32 << 31) - 1.0) * 8.0;
        let edge = i % 4 == 0;
        match d.real() {
            DType::I1 => bytes.push((r & 1) as u8),
            d if d.is_int() && bits < 8 => {
                let low = (r as u8) << (8 - bits);
                bytes.push(if d.is_signed_int() { (low as i8 >> (8 - bits)) as u8 } else { low >> (8 - bits) });
            }
            // Every byte is a number; of types below 8 bits the low bits are.
            d if d.bits() <= 8 => bytes.push((i * 4 + seed) as u8 & (0xff >> (8 - d.bits()))),
            d if d.is_int() => {
                let edges = [0, 1, u64::MAX, 1 << (bits - 1), (1 << (bits - 1)) - 1, 7, 31, 64];
                let v = if edge { edges[(r % 8) as usize] } else { r.wrapping_mul(r) >> (r % 40) };
                bytes.extend(&v.to_le_bytes()[..d.bytes()]);
            }
            DType::F64 => {
                let edges = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e300, 5e-324, 2.5];
                bytes.extend((if edge { edges[(r % 8) as usize] } else { everyday }).to_le_bytes());
            }
            DType::F32 => {
                let edges = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e38, 1e-45, -2.5];
                bytes.extend((if edge { edges[(r % 8) as usize] } else { everyday as f32 }).to_le_bytes());
            }
            _ => {
                let edges = [0, 0x8000, 0x7f80, 0xff80, 0x7fff, 0x7c00, 1, 0x3f80];
                let everyday = 0x3c00 | (r & 0x83ff) as u16;
                bytes.extend((if edge { edges[(r % 8) as usize] } else { everyday }).to_le_bytes());
            }
        }
    }
    bytes
}

/// Where two tensors of a type differ by more than `error`.
fn difference(d: DType, found: &[u8], expected: &[u8], error: Error) -> Option<String> {
    let (f, e) = (numbers(d, found), numbers(d, expected));
    let parts = if d.is_complex() { 2 } else { 1 };
    let size = d.bytes();
    for i in 0..expected.len() / size {
        let (bits_f, bits_e) = (&found[i * size..][..size], &expected[i * size..][..size]);
        if bits_f == bits_e {
            continue;
        }
        let at = |v: &[f64]| v[i * parts..][..parts].to_vec();
        let (x, y) = (at(&f), at(&e));
        let nan = |v: &[f64]| v.iter().any(|x| x.is_nan());
        if nan(&x) && nan(&y) {
            continue;
        }
        let close = match error {
            Error::None => false,
            Error::Steps(n) => {
                let code = |b: &[u8]| b.iter().rev().fold(0u64, |v, b| v << 8 | u64::from(*b));
                !nan(&x) && !nan(&y) && code(bits_f).abs_diff(code(bits_e)) <= n || x == y
            }
            Error::Relative(r) => {
                let size = y.iter().map(|v| v * v).sum::<f64>().sqrt();
                let off = x.iter().zip(&y).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                off <= r * size || !size.is_finite()
            }
        };
        if !close {
            return Some(format!("[{i}] is {x:?}, expected {y:?} ({bits_f:x?}, {bits_e:x?})"));
        }
    }
    None
}
/// The numbers of a tensor, complex ones part by part.
fn numbers(d: DType, bytes: &[u8]) -> Vec<f64> {
    let real = d.real();
    let n = bytes.len() / real.bytes();
    let text = format!(
        "func.func @main(%x: tensor<{n}x{real}>) -> tensor<{n}xf64> {{\n  %y = stablehlo.convert %x : (tensor<{n}x{real}>) -> tensor<{n}xf64>\n  return %y : tensor<{n}xf64>\n}}"
    );
    let program = read(Source::new("convert", text)).expect("the test's own program");
    let x = Tensor::new(real, &[n as u64], bytes.to_vec()).expect("sized");
    let y = eval(&program, "main", vec![x]).expect("converts");
    y[0].bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().expect("8 bytes"))).collect()
}

const INTEGERS: [DType; 12] = [
    DType::I2,
    DType::I4,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U2,
    DType::U4,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
];
const SMALL_FLOATS: [DType; 11] = [
    DType::F4E2M1FN,
    DType::F6E2M3FN,
    DType::F6E3M2FN,
    DType::F8E3M4,
    DType::F8E4M3,
    DType::F8E4M3B11FNUZ,
    DType::F8E4M3FN,
    DType::F8E4M3FNUZ,
    DType::F8E5M2,
    DType::F8E5M2FNUZ,
    DType::F8E8M0FNU,
];
const FLOATS: [DType; 4] = [DType::BF16, DType::F16, DType::F32, DType::F64];
const DIRECTIONS: [&str; 6] = ["EQ", "NE", "LT", "LE", "GT", "GE"];

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
            // Without the one that has powers of two alone: below its least the specification names no value.
            m.convert(&SMALL_FLOATS[..SMALL_FLOATS.len() - 1]);
        }
        m.check();
    }
}
