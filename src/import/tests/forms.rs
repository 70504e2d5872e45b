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
