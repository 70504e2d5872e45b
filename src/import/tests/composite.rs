//! Ops of chlo in portable artifacts: composites whose functions compute what the op does, and which are read as the op.

use zmlc_import::{
    Source, difference,
    interp::{Tensor, eval},
    op_name, print, read, resolve_calls,
    tree::DType,
    verify, without_chlo, write_artifact,
};

const POINTS: &[f64] = &[
    0.0,
    -0.0,
    1e-6,
    -0.3,
    0.25,
    0.5,
    -0.75,
    0.999,
    1.0,
    -1.0,
    1.5,
    -1.7,
    2.0,
    2.5,
    -2.25,
    3.0,
    4.75,
    -5.5,
    8.5,
    20.0,
    31.5,
    -45.0,
    1e8,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

fn vector(d: DType, list: &[f64]) -> Tensor {
    let bytes: Vec<u8> = list
        .iter()
        .flat_map(|x| match d {
            DType::F64 | DType::C128 => x.to_le_bytes().to_vec(),
            DType::F32 | DType::C64 => (*x as f32).to_le_bytes().to_vec(),
            DType::F16 => half::f16::from_f64(*x).to_le_bytes().to_vec(),
            DType::BF16 => half::bf16::from_f64(*x).to_le_bytes().to_vec(),
            DType::I64 | DType::U64 => (*x as i128 as u64).to_le_bytes().to_vec(),
            DType::I32 => (*x as i32).to_le_bytes().to_vec(),
            DType::I8 => (*x as i8).to_le_bytes().to_vec(),
            _ => unreachable!("no case has it"),
        })
        .collect();
    let n = list.len() / if d.is_complex() { 2 } else { 1 };
    Tensor::new(d, &[n as u64], bytes).expect("the bytes fit")
}
fn numbers(t: &Tensor) -> Vec<f64> {
    let two = |b: &[u8]| u16::from_le_bytes(b.try_into().expect("2 bytes"));
    let b = &t.bytes;
    match t.dtype {
        DType::F64 | DType::C128 => b.chunks(8).map(|b| f64::from_le_bytes(b.try_into().expect("8 bytes"))).collect(),
        DType::F32 | DType::C64 => {
            b.chunks(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().expect("4 bytes")))).collect()
        }
        DType::F16 => b.chunks(2).map(|b| half::f16::from_bits(two(b)).to_f64()).collect(),
        DType::BF16 => b.chunks(2).map(|b| half::bf16::from_bits(two(b)).to_f64()).collect(),
        _ => b.iter().map(|b| f64::from(*b)).collect(),
    }
}

/// The op's own values and those of its function, from the artifact.
fn both(text: &str, args: &[Tensor]) -> (Vec<Tensor>, Vec<Tensor>) {
    let p = read(Source::new("op.mlir", text)).unwrap_or_else(|e| panic!("{text}\n{e}"));
    assert!(verify(&p).is_empty(), "{:?}", verify(&p));
    let bytes = write_artifact(&p, (1, 10)).unwrap_or_else(|e| panic!("{text}\n{e:?}"));
    let mut q = read(Source::new("op.mlirbc", bytes)).unwrap_or_else(|e| panic!("{text}\n{e}"));
    assert!(verify(&q).is_empty(), "{:?}\n{}", verify(&q), print(&q));
    let without = without_chlo(&p).expect("written before");
    assert_eq!(difference(&without, &q), None);
    let run = |p| eval(p, "main", args.to_vec()).unwrap_or_else(|e| panic!("{text}\n{e:?}"));
    let found = (run(&p), run(&q));
    // And back to the op.
    assert!(resolve_calls(&mut q).is_empty());
    assert_eq!(difference(&p, &q), None, "{}", print(&q));
    found
}

#[track_caller]
fn close(what: &str, (want, found): (&[Tensor], &[Tensor]), tolerance: f64) {
    // Next to their zeros these have few digits.
    let least = if what.contains("gamma") { 1.0 } else { 1e-3 };
    for (w, f) in want.iter().zip(found) {
        assert_eq!((w.dtype, &w.shape), (f.dtype, &f.shape));
        for (i, (w, f)) in numbers(w).into_iter().zip(numbers(f)).enumerate() {
            let near = (w - f).abs() <= tolerance * w.abs().max(least);
            assert!(near || w == f || (w.is_nan() && f.is_nan()), "{what}: element {i} is {f}, expected {w}");
        }
    }
}

#[test]
fn functions_of_one_number() {
    let names = [
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "bessel_i1e",
        "cosh",
        "digamma",
        "erf",
        "erf_inv",
        "erfc",
        "is_inf",
        "is_neg_inf",
        "is_pos_inf",
        "lgamma",
        "sinh",
        "square",
    ];
    for name in names {
        for (t, d, tolerance) in [
            ("f32", DType::F32, 2e-5),
            ("f64", DType::F64, 1e-12),
            ("f16", DType::F16, 2e-3),
            ("bf16", DType::BF16, 2e-2),
        ] {
            let result = if name.starts_with("is_") { "i1" } else { t };
            let n = POINTS.len();
            let text = format!(
                "func.func @main(%x: tensor<{n}x{t}>) -> tensor<{n}x{result}> {{\n  %0 = \"chlo.{name}\"(%x) : (tensor<{n}x{t}>) -> tensor<{n}x{result}>\n  return %0 : tensor<{n}x{result}>\n}}"
            );
            let (want, found) = both(&text, &[vector(d, POINTS)]);
            close(&format!("{name} of {t}"), (&want, &found), tolerance);
        }
    }
}

#[test]
fn functions_of_two_numbers() {
    let orders: Vec<f64> = [0.0, 1.0, 2.0, 5.0].iter().flat_map(|n| [*n; 6]).collect();
    let places = [0.3, 1.0, 2.5, 7.75, 30.0, -1.5].repeat(4);
    let exponents: Vec<f64> = [1.5, 2.0, 4.0, 9.5].iter().flat_map(|n| [*n; 6]).collect();
    let (up, near) = ([1.0, -1.0, 0.0, -0.0, 2.0, 7.5].repeat(4), [2.0, 2.0, -1.0, 1.0, 2.0, f64::NAN].repeat(4));
    for (name, a, b) in [("polygamma", &orders, &places), ("zeta", &exponents, &places), ("next_after", &up, &near)] {
        for (t, d, tolerance) in [("f32", DType::F32, 1e-4), ("f64", DType::F64, 1e-11)] {
            let tolerance = if name == "next_after" { 0.0 } else { tolerance };
            let text = format!(
                "func.func @main(%x: tensor<24x{t}>, %y: tensor<24x{t}>) -> tensor<24x{t}> {{\n  %0 = \"chlo.{name}\"(%x, %y) : (tensor<24x{t}>, tensor<24x{t}>) -> tensor<24x{t}>\n  return %0 : tensor<24x{t}>\n}}"
            );
            let (want, found) = both(&text, &[vector(d, a), vector(d, b)]);
            close(&format!("{name} of {t}"), (&want, &found), tolerance);
        }
    }
}

#[test]
fn functions_of_complex_numbers() {
    let points = [0.5, 0.25, -0.75, 1.5, 2.0, -0.5, -1.25, -2.0, 0.1, 3.0, 1.0, 1.0];
    for name in ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh", "square"] {
        for (t, d, tolerance) in [("complex<f32>", DType::C64, 1e-4), ("complex<f64>", DType::C128, 1e-10)] {
            let text = format!(
                "func.func @main(%x: tensor<6x{t}>) -> tensor<6x{t}> {{\n  %0 = \"chlo.{name}\"(%x) : (tensor<6x{t}>) -> tensor<6x{t}>\n  return %0 : tensor<6x{t}>\n}}"
            );
            let (want, found) = both(&text, &[vector(d, &points)]);
            close(&format!("{name} of {t}"), (&want, &found), tolerance);
        }
    }
}

#[test]
fn upper_halves_of_products() {
    let wide = [3e18, -3e18, 5.0, -7.0, 9e18, -9.2e18, 0.0, 4_294_967_297.0];
    let other = [-2e18, -9e18, 6e17, 3.0, 9e18, 9e18, 1.0, -4_294_967_299.0];
    let small = [100.0, -100.0, 127.0, -128.0, 3.0, 0.0, 1.0, -1.0];
    for (t, d, a, b) in [
        ("i64", DType::I64, &wide, &other),
        ("ui64", DType::U64, &wide, &other),
        ("i32", DType::I32, &wide, &other),
        ("i8", DType::I8, &small, &small),
    ] {
        let text = format!(
            "func.func @main(%x: tensor<8x{t}>, %y: tensor<8x{t}>) -> tensor<8x{t}> {{\n  %0 = \"chlo.mulhi\"(%x, %y) : (tensor<8x{t}>, tensor<8x{t}>) -> tensor<8x{t}>\n  return %0 : tensor<8x{t}>\n}}"
        );
        let (want, found) = both(&text, &[vector(d, a), vector(d, b)]);
        assert_eq!(want[0].bytes, found[0].bytes, "{t}");
    }
}

#[test]
fn the_largest_and_where_they_stand() {
    let text = "func.func @main(%x: tensor<6xf32>) -> (tensor<3xf32>, tensor<3xi32>) {
      %v, %i = chlo.top_k(%x, k = 3) : tensor<6xf32> -> (tensor<3xf32>, tensor<3xi32>)
      return %v, %i : tensor<3xf32>, tensor<3xi32>
    }";
    let (want, found) = both(text, &[vector(DType::F32, &[2.0, 5.0, -1.0, 5.0, 3.0, 0.5])]);
    assert_eq!((&want[0].bytes, &want[1].bytes), (&found[0].bytes, &found[1].bytes));
}

#[test]
fn one_function_for_each_type_and_broadcasts_spelled_out() {
    let text = "func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>) -> tensor<2x3xf32> {
      %0 = chlo.erf %x : tensor<2x3xf32> -> tensor<2x3xf32>
      %1 = chlo.erf %0 : tensor<2x3xf32> -> tensor<2x3xf32>
      %2 = chlo.erf %y : tensor<3xf32> -> tensor<3xf32>
      %3 = chlo.broadcast_add %1, %2 : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
      return %3 : tensor<2x3xf32>
    }";
    let p = read(Source::new("erf.mlir", text)).unwrap_or_else(|e| panic!("{e}"));
    let q = without_chlo(&p).expect("all have a form");
    let names: Vec<&str> = q.funcs.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["main", "chlo.erf.impl", "chlo.erf.impl_0"]);
    let ops: Vec<String> = q.funcs[0].body.ops.iter().map(|op| op_name(&op.kind)).collect();
    let composite = "stablehlo.composite";
    assert_eq!(ops, [composite, composite, composite, "stablehlo.broadcast_in_dim", "stablehlo.add"]);
}

#[test]
fn dynamic_shapes_are_refused() {
    let text = "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
      %0 = chlo.erf %x : tensor<?xf32> -> tensor<?xf32>
      return %0 : tensor<?xf32>
    }";
    let p = read(Source::new("erf.mlir", text)).unwrap_or_else(|e| panic!("{e}"));
    let e = write_artifact(&p, (1, 20)).expect_err("no form");
    assert_eq!((e[0].code, e.len()), ("E0602", 1));
}
