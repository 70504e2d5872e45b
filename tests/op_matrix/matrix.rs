//! A program of many ops on one element type: its arguments, and what of its results may differ from the interpreter's.

use crate::common::{build, call, model, vulkan};
use zml_format::DType;
use zmlc_import::{
    Source,
    interp::{Tensor, eval},
    prepare, read,
};

/// Elements of an argument.
pub const N: usize = 64;

/// What may differ from the interpreter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Error {
    None,
    /// Values of the type in between.
    Steps(u64),
    /// Of the modulus.
    Relative(f64),
    /// Of the modulus or of 1, whichever is larger.
    Close(f64),
    /// Of each part, in values of the type; the signs of zero and of infinity are compared.
    Parts(u64),
}

/// The type of a tensor, by its extents as they are written.
pub fn tensor(shape: &str, d: DType) -> String {
    if shape.is_empty() { format!("tensor<{d}>") } else { format!("tensor<{shape}x{d}>") }
}

/// A program in the making: results with the error that each may have.
pub struct Matrix {
    pub d: DType,
    body: String,
    results: Vec<(String, DType, String, Error)>,
    arguments: [Vec<u8>; 2],
}
impl Matrix {
    /// On numbers of every kind.
    pub fn new(d: DType) -> Self {
        Matrix::of(d, [values(d, 1), values(d, 2)])
    }
    pub fn of(d: DType, arguments: [Vec<u8>; 2]) -> Self {
        Matrix { d, body: String::new(), results: vec![], arguments }
    }
    /// `text` computes `$r` from `%x` and `%y`, both of type `$t` with elements of type `$d`; `$n` makes other names unique. The
    /// result has `shape` of `d`.
    pub fn push(&mut self, name: &str, text: &str, shape: &str, d: DType, error: Error) {
        let n = self.results.len().to_string();
        let text = text.replace("$r", "%r$n").replace("$n", &n);
        self.body += &format!("  {}\n", text.replace("$t", &tensor("64", self.d)).replace("$d", self.d.name()));
        self.results.push((name.into(), d, tensor(shape, d), error));
    }
    pub fn unary(&mut self, ops: &[&str], error: Error) {
        for op in ops {
            self.push(op, &format!("$r = stablehlo.{op} %x : $t"), "64", self.d, error);
        }
    }
    pub fn binary(&mut self, ops: &[&str], error: Error) {
        for op in ops {
            self.push(op, &format!("$r = stablehlo.{op} %x, %y : $t"), "64", self.d, error);
        }
    }
    pub fn compare(&mut self, directions: &[&str], kind: &str) {
        for c in directions {
            let text = format!("$r = stablehlo.compare {c}, %x, %y, {kind} : ($t, $t) -> tensor<{N}xi1>");
            self.push(&format!("compare {c} {kind}"), &text, "64", DType::I1, Error::None);
        }
    }
    pub fn convert(&mut self, to: &[DType]) {
        for d in to {
            let text = format!("$r = stablehlo.convert %x : ($t) -> tensor<{N}x{d}>");
            self.push(&format!("convert to {d}"), &text, "64", *d, Error::None);
        }
    }
    /// What moves elements and does not look at them.
    pub fn moves(&mut self) {
        let d = self.d;
        let mut add = |name: &str, text: &str, shape: &str| self.push(name, text, shape, d, Error::None);
        add("reverse", "$r = stablehlo.reverse %x, dims = [0] : $t", "64");
        add("slice", "$r = stablehlo.slice %x [3:60:3] : ($t) -> tensor<19x$d>", "19");
        add("reshape", "$r = stablehlo.reshape %x : ($t) -> tensor<4x16x$d>", "4x16");
        add(
            "transpose",
            "%m$n = stablehlo.reshape %x : ($t) -> tensor<4x16x$d>\n  $r = stablehlo.transpose %m$n, dims = [1, 0] : (tensor<4x16x$d>) -> tensor<16x4x$d>",
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
    pub fn check(&self) {
        self.check_on("vulkan,cuda:generic,rocm:gfx942");
    }
    /// The same for these targets.
    pub fn check_on(&self, targets: &str) {
        let folder = tempfile::tempdir().expect("a folder");
        let text = self.program();
        let path = model(folder.path(), &text);
        let artifact = build(folder.path(), &path, targets, &[]);
        let Some(device) = vulkan(&artifact) else { return };
        let program = read(Source::new("matrix", text)).expect("the test's own program");
        let program = prepare(program, "main", None).expect("static");
        let arguments = self.arguments.iter().map(|b| Tensor::new(self.d, &[N as u64], b.clone()).expect("sized"));
        let expected = eval(&program, "main", arguments.collect()).expect("the interpreter knows every op");
        let (found, _) = call(&artifact, &device, &[&self.arguments[0], &self.arguments[1]]);
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
pub fn values(d: DType, seed: u64) -> Vec<u8> {
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
                // The last is just above the middle between two bf16.
                let edges = [0, 1, u64::MAX, 1 << (bits - 1), (1 << (bits - 1)) - 1, 7, 31, 64, 0x0101_0001];
                let v = if edge { edges[r as usize % edges.len()] } else { r.wrapping_mul(r) >> (r % 40) };
                bytes.extend(&v.to_le_bytes()[..d.bytes()]);
            }
            DType::F64 => {
                let edges = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e300, 5e-324, 2.5];
                // Above the middle between two f16, two bf16, two powers of two by less than f32 tells.
                let near = [2f64.powi(-11), 2f64.powi(-8), 0.5].map(|half| 1.0 + half + 1e-12);
                let edges = [&edges[..], &near[..]].concat();
                bytes.extend((if edge { edges[r as usize % edges.len()] } else { everyday }).to_le_bytes());
            }
            DType::F32 => {
                let mut edges = vec![0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e38, 1e-45, -2.5];
                // Between the two least powers of two that a type of exponents alone has.
                edges.extend([1.4f32, 1.5, 1.6].map(|x| x * f32::MIN_POSITIVE / 2.0));
                bytes.extend((if edge { edges[r as usize % edges.len()] } else { everyday as f32 }).to_le_bytes());
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

/// Whole numbers up to `most`, of both signs where the type has them: sums and products of a few are exact in most types.
pub fn small(d: DType, seed: u64, most: i64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let real = d.real();
    let signed = (real.is_signed_int() || !real.is_int()) && real != DType::F8E8M0FNU && real != DType::I1;
    let n = if d.is_complex() { 2 * N } else { N };
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let r = (state >> 33) as i64;
        if signed { r % (2 * most + 1) - most } else { r % (most + 1) }
    };
    let integers: Vec<u8> = (0..n).flat_map(|_| next().to_le_bytes()).collect();
    converted(DType::I64, &integers, real)
}
/// Real elements in another type, by the interpreter.
fn converted(from: DType, bytes: &[u8], to: DType) -> Vec<u8> {
    let n = bytes.len() / from.bytes();
    let (t, u) = (tensor(&n.to_string(), from), tensor(&n.to_string(), to));
    let text = format!(
        "func.func @main(%x: {t}) -> {u} {{\n  %y = stablehlo.convert %x : ({t}) -> {u}\n  return %y : {u}\n}}"
    );
    let program = read(Source::new("convert", text)).expect("the test's own program");
    let x = Tensor::new(from, &[n as u64], bytes.to_vec()).expect("sized");
    eval(&program, "main", vec![x]).expect("converts").remove(0).bytes
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
        if nan(&x) && nan(&y) && !matches!(error, Error::Parts(_)) {
            continue;
        }
        let close = match error {
            Error::None => false,
            Error::Steps(n) => {
                let code = |b: &[u8]| b.iter().rev().fold(0u64, |v, b| v << 8 | u64::from(*b));
                !nan(&x) && !nan(&y) && code(bits_f).abs_diff(code(bits_e)) <= n || x == y
            }
            Error::Relative(r) | Error::Close(r) => {
                let size = y.iter().map(|v| v * v).sum::<f64>().sqrt();
                let off = x.iter().zip(&y).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                let of = if error == Error::Relative(r) { size } else { size.max(1.0) };
                off <= r * of || !size.is_finite()
            }
            Error::Parts(n) => bits_f.chunks(size / parts).zip(bits_e.chunks(size / parts)).zip(x.iter().zip(&y)).all(
                |((f, e), (x, y))| {
                    let code = |b: &[u8]| b.iter().rev().fold(0u64, |v, b| v << 8 | u64::from(*b));
                    (x.is_nan() && y.is_nan())
                        || x.is_sign_negative() == y.is_sign_negative() && code(f).abs_diff(code(e)) <= n
                },
            ),
        };
        if !close {
            return Some(format!("[{i}] is {x:?}, expected {y:?} ({bits_f:x?}, {bits_e:x?})"));
        }
    }
    None
}
/// The numbers of a tensor, complex ones part by part.
fn numbers(d: DType, bytes: &[u8]) -> Vec<f64> {
    let wide = converted(d.real(), bytes, DType::F64);
    wide.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect()
}
