//! Our own programs, for machines without the corpus: printed as pinned, read back from text and artifact, and evaluated.

use zmlc_import::{
    Source, difference, fold,
    interp::{Tensor, eval},
    print, read,
    tree::DType,
    verify, write_artifact,
};

#[test]
fn every_form_is_read_printed_and_read_back() {
    let text = include_str!("data/forms.mlir");
    let p = read(Source::new("forms.mlir", text)).unwrap_or_else(|e| panic!("{e}"));
    assert!(verify(&p).is_empty(), "{:?}", verify(&p));
    let printed = print(&p);
    insta::assert_snapshot!(printed);
    let again = read(Source::new("printed", printed)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(difference(&p, &again), None);
    let artifact = write_artifact(&p, (1, 20)).unwrap_or_else(|e| panic!("{e:?}"));
    let again = read(Source::new("artifact", artifact)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(difference(&p, &again), None);
}

/// What MLIR allows and exporters write seldom, against its plain form.
#[test]
fn seldom_forms_are_read() {
    let seldom = r#"!e = f32
!t = tensor<2x!e>
!q = !quant.uniform<i8:f32, 5.000000e-01>
module attributes {a.map = affine_map<(d0, d1)[s0] -> (d0 floordiv 2, d1 + s0)>, a.set = affine_set<(d0) : (d0 - 1 >= 0, d0 == 0)>, a.vector = dense<[0, 1]> : vector<2xi32>, b.plain = #b.word, b.body = #b.pair<1, "x">, b.pretty = #b<dim x>, b.type = !b.handle<f32>} {
  ml_program.global private mutable @seed(dense<0> : tensor<i64>) : tensor<i64>
  func.func @main(%x: !t, %y: tensor<2x!q>) -> (tensor<2xf32>, tensor<2x!q>) attributes {a.vector = dense<0.5> : vector<2x2xf32>} {
    %0:2 = stablehlo.optimization_barrier %x, %y : !t, tensor<2x!q>
    %1 = stablehlo.negate %0 : tensor<2x!e>
    return %1, %0#1 : tensor<2x!e>, tensor<2x!q>
  }
}"#;
    let plain = seldom
        .replace("!e>", "f32>")
        .replace("!q>", "!quant.uniform<i8:f32, 5.000000e-01>>")
        .replace(": !t", ": tensor<2xf32>")
        .replace("%0 :", "%0#0 :");
    assert_eq!(plain.matches("!quant").count(), 5);
    let load = |t: &str| read(Source::new("seldom.mlir", t)).unwrap_or_else(|e| panic!("{e}"));
    let (p, q) = (load(seldom), load(&plain));
    assert!(verify(&p).is_empty(), "{:?}", verify(&p));
    assert_eq!(difference(&p, &q), None);
    assert_eq!(difference(&p, &load(&print(&p))), None);
}

/// Loops may forget a dimension of their values; the pretty form says one type for inside and outside.
#[test]
fn a_loop_whose_types_differ() {
    let text = "func.func @main(%x: tensor<4xf32>) -> tensor<?xf32> {
      %r = \"stablehlo.while\"(%x) ({
      ^bb0(%y: tensor<?xf32>):
        %p = stablehlo.constant dense<false> : tensor<i1>
        stablehlo.return %p : tensor<i1>
      }, {
      ^bb0(%y: tensor<?xf32>):
        stablehlo.return %y : tensor<?xf32>
      }) : (tensor<4xf32>) -> tensor<?xf32>
      return %r : tensor<?xf32>
    }";
    let p = read(Source::new("loop.mlir", text)).unwrap_or_else(|e| panic!("{e}"));
    assert!(verify(&p).is_empty(), "{:?}", verify(&p));
    let again = read(Source::new("printed", print(&p))).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(difference(&p, &again), None);
}

#[test]
fn folding_does_not_change_what_is_computed() {
    let p = read(Source::new("forms.mlir", include_str!("data/forms.mlir"))).unwrap_or_else(|e| panic!("{e}"));
    let mut q = p.clone();
    fold(&mut q);
    assert!(q.funcs[0].body.ops.len() < p.funcs[0].body.ops.len());
    let f32s = |shape: &[u64], v: &[f32]| {
        Tensor::new(DType::F32, shape, v.iter().flat_map(|x| x.to_le_bytes()).collect()).unwrap()
    };
    let args = vec![
        f32s(&[4], &[1.0, -2.0, 3.5, 0.0]),
        f32s(&[2, 4], &[0.5, 1.0, -1.0, 2.0, 9.0, -9.0, 4.0, 0.25]),
        Tensor::new(DType::I32, &[], 1i32.to_le_bytes().to_vec()).unwrap(),
    ];
    let found = eval(&p, "main", args.clone()).unwrap();
    assert_eq!(found, eval(&q, "main", args).unwrap());
    // x + x, and the row sums of the smaller of m and x: 0.5 + -2 + -1 + 0 and 1 + -9 + 3.5 + 0.
    assert_eq!(found[0], f32s(&[4], &[2.0, -4.0, 7.0, 0.0]));
    assert_eq!(found[1], f32s(&[2], &[-2.5, -4.5]));
}

const MANUAL: &str = "sdy.mesh @mesh = <[\"x\"=1]>
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r:2 = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{\"x\"}]>, <@mesh, [{\"x\"}]>] out_shardings=[<@mesh, [{\"x\"}]>, <@mesh, []>] manual_axes={\"x\"} (%a: tensor<4xf32>, %b: tensor<4xf32>) {
    %p = stablehlo.multiply %a, %b : tensor<4xf32>
    %s = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    sdy.return %p, %s : tensor<4xf32>, tensor<f32>
  } : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>)
  return %r#0, %r#1 : tensor<4xf32>, tensor<f32>
}";

#[test]
fn a_manual_computation_over_one_device_is_its_body() {
    let generic = MANUAL
        .replace("sdy.manual_computation(%x, %y) in_shardings", "\"sdy.manual_computation\"(%x, %y) <{in_shardings")
        .replace("in_shardings=[<", "in_shardings = #sdy.sharding_per_value<[<")
        .replace("] out_shardings=[<", "]>, out_shardings = #sdy.sharding_per_value<[<")
        .replace("] manual_axes={\"x\"} (", "]>, manual_axes = #sdy<manual_axes{\"x\"}>}> ({\n^bb0(")
        .replace("%b: tensor<4xf32>) {", "%b: tensor<4xf32>):")
        .replace("\n  } : ", "\n  }) : ");
    let body = "func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) {
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %p = stablehlo.multiply %x, %y : tensor<4xf32>
      %s = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
      %r:2 = stablehlo.optimization_barrier %p, %s : tensor<4xf32>, tensor<f32>
      return %r#0, %r#1 : tensor<4xf32>, tensor<f32>
    }";
    let body = read(Source::new("body.mlir", body)).unwrap_or_else(|e| panic!("{e}"));
    for text in [MANUAL, &generic] {
        let p = read(Source::new("manual.mlir", text)).unwrap_or_else(|e| panic!("{e}"));
        assert!(verify(&p).is_empty(), "{:?}", verify(&p));
        assert_eq!(difference(&p, &body), None);
    }
}

#[test]
fn a_manual_computation_over_two_devices_is_refused() {
    let text = MANUAL.replace("%b: tensor<4xf32>) {", "%b: tensor<2xf32>) {").replace("%a, %b :", "%a, %a :");
    let e = read(Source::new("manual.mlir", text)).expect_err("refused");
    insta::assert_snapshot!(e.to_string());
}
