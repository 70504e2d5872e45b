//! Dynamic programs made static: the sizes chosen, the shapes that follow, and what cannot be.

mod common;

use zmlc_import::{
    Source, dynamic_dims,
    interp::{Tensor, eval},
    read, specialise,
    tree::{DType, OpKind, Program},
    verify,
};

fn load(name: &str, text: impl Into<Vec<u8>>) -> Program {
    read(Source::new(name, text)).unwrap_or_else(|e| panic!("{e}"))
}
fn is_static(p: &Program) -> bool {
    p.funcs
        .iter()
        .all(|f| f.values.iter().all(|v| matches!(&v.ty, zmlc_import::tree::Type::Tensor(t) if t.is_static())))
}

#[test]
fn jax_export_with_a_symbolic_batch() {
    let Some(corpus) = common::corpus() else { return };
    let p = load("b", std::fs::read(corpus.join("_odd_text/jax_export_symbolic_batch.mlir")).expect("readable"));
    let dims = dynamic_dims(&p, "main");
    assert_eq!(dims.len(), 1);
    assert_eq!((dims[0].argument, dims[0].dim, dims[0].name.as_deref()), (0, 0, Some("b")));
    let s = specialise(&p, "main", &[vec![3, 4]]).unwrap_or_else(|e| panic!("{e:?}"));
    assert!(is_static(&s));
    assert!(verify(&s).is_empty(), "{:?}", verify(&s));
    // The sum of all elements, and x^T x.
    let x: Vec<u8> = (0..12).flat_map(|v| (v as f32).to_le_bytes()).collect();
    let out = eval(&s, "main", vec![Tensor::new(DType::F32, &[3, 4], x).unwrap()]).unwrap();
    assert_eq!(out[0].bytes, 66f32.to_le_bytes());
    assert_eq!(out[1].shape, [4, 4]);
    assert_eq!(out[1].bytes[..4], (0f32 * 0. + 4. * 4. + 8. * 8.).to_le_bytes());
    // The program asserts that the batch has at least one element.
    let e = specialise(&p, "main", &[vec![0, 4]]).unwrap_err();
    assert!(e[0].message.contains("Expected value >= 1 for dimension variable 'b'"), "{}", e[0].message);
    assert!(specialise(&p, "main", &[vec![3, 5]]).is_err());
}

#[test]
fn jax_export_with_constraints() {
    let Some(corpus) = common::corpus() else { return };
    let p = load("c", std::fs::read(corpus.join("_odd_text/jax_export_symbolic_constraints.mlir")).expect("readable"));
    let dims = dynamic_dims(&p, "main");
    assert!(!dims.is_empty());
    let shapes: Vec<Vec<u64>> = p
        .func("main")
        .unwrap()
        .body
        .args
        .iter()
        .map(|a| p.func("main").unwrap().tensor(*a).dims.iter().map(|d| d.unwrap_or(16)).collect())
        .collect();
    let s = specialise(&p, "main", &shapes).unwrap_or_else(|e| panic!("{e:?}"));
    assert!(is_static(&s));
    assert!(verify(&s).is_empty(), "{:?}", verify(&s));
}

#[test]
fn dynamic_ops_on_static_shapes_become_static_ops() {
    let Some(corpus) = common::corpus() else { return };
    let p = load("d", std::fs::read(corpus.join("raw_dynamic_ops_static/program.mlir")).expect("readable"));
    let s = specialise(&p, "main", &[vec![3, 1], vec![2, 3]]).unwrap_or_else(|e| panic!("{e:?}"));
    let dynamic = |k: &OpKind| {
        matches!(
            k,
            OpKind::DynamicReshape
                | OpKind::DynamicIota { .. }
                | OpKind::DynamicBroadcastInDim { .. }
                | OpKind::GetDimensionSize { .. }
        )
    };
    assert!(!s.funcs[0].body.ops.iter().any(|o| dynamic(&o.kind)));
    assert!(verify(&s).is_empty());
}

#[test]
fn a_shape_that_depends_on_data_is_refused() {
    let p = load(
        "data.mlir",
        "func.func @main(%x: tensor<4xf32>, %n: tensor<1xi32>) -> tensor<?xf32> {
           %0 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
           return %0 : tensor<?xf32>
         }",
    );
    let e = specialise(&p, "main", &[vec![4], vec![1]]).unwrap_err();
    assert_eq!(e[0].code, "E0701");
}

#[test]
fn branches_on_sizes_are_chosen() {
    let p = load(
        "branch.mlir",
        "func.func @main(%x: tensor<?xf32>) -> tensor<i32> {
           %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
           %c = stablehlo.constant dense<8> : tensor<i32>
           %p = stablehlo.compare GT, %n, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
           %r = \"stablehlo.if\"(%p) ({
             %a = stablehlo.constant dense<1> : tensor<i32>
             stablehlo.return %a : tensor<i32>
           }, {
             stablehlo.return %n : tensor<i32>
           }) : (tensor<i1>) -> tensor<i32>
           return %r : tensor<i32>
         }",
    );
    for (n, want) in [(9u64, 1i32), (5, 5)] {
        let s = specialise(&p, "main", &[vec![n]]).unwrap();
        let x = Tensor::new(DType::F32, &[n], vec![0; n as usize * 4]).unwrap();
        assert_eq!(eval(&s, "main", vec![x]).unwrap()[0].bytes, want.to_le_bytes());
        assert!(!s.funcs[0].body.ops.iter().any(|o| o.kind == OpKind::If));
    }
}
