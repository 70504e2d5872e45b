//! Dynamic programs made static: the sizes chosen, the shapes that follow, and what cannot be.

mod common;

use zmlc_import::{
    Source, dynamic_dims,
    interp::{Tensor, eval},
    prepare, read, specialise,
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

/// Each function calls the next one twice.
fn doubling(functions: usize) -> Program {
    let mut text = String::new();
    for i in 0..functions {
        let (visibility, name) = if i == 0 { ("public", "main".into()) } else { ("private", format!("f{i}")) };
        let op = |from: &str| match i + 1 == functions {
            true => format!("stablehlo.negate {from} : tensor<f32>"),
            false => format!("call @f{}({from}) : (tensor<f32>) -> tensor<f32>", i + 1),
        };
        text += &format!("func.func {visibility} @{name}(%x: tensor<f32>) -> tensor<f32> {{\n");
        text += &format!("  %0 = {}\n  %1 = {}\n  return %1 : tensor<f32>\n}}\n", op("%x"), op("%0"));
    }
    load("doubling", text)
}

#[test]
fn calls_that_double_the_program_are_refused_before_they_are_inlined() {
    assert!(prepare(doubling(12), "main", None).is_ok());
    let e = prepare(doubling(60), "main", None).unwrap_err();
    assert_eq!(e.len(), 1);
    assert!(e[0].code == "E0602" && e[0].message.contains("once its calls are inlined"), "{e:?}");
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

/// The exporter's paths are not the numbers of the arguments: static ones are left out, trees are taken apart.
#[test]
fn names_of_dimensions_and_arguments() {
    let p = load(
        "names.mlir",
        "func.func public @main(%p: tensor<4xf32>, %x: tensor<?x?x4xf32>, %m: tensor<?xi1>) -> tensor<?x?x4xf32> {
           %ok = stablehlo.constant dense<true> : tensor<i1>
           stablehlo.custom_call @shape_assertion(%ok) {error_message = \"Using the following polymorphic shapes specifications: args[1]['x'][0].shape = (b, max(s, 2), 4),kwargs['m'].shape = (b,). Obtained dimension variables: 'b' = {1} from specification 'b' for dimension args[1].shape[0].\", has_side_effect = true} : (tensor<i1>) -> ()
           %r = call @inner(%x, %p) : (tensor<?x?x4xf32>, tensor<4xf32>) -> tensor<?x?x4xf32>
           return %r : tensor<?x?x4xf32>
         }
         func.func private @inner(%a: tensor<?x?x4xf32> loc(\"batch['x'][0]\"), %b: tensor<4xf32> loc(\"p\")) -> tensor<?x?x4xf32> {
           return %a : tensor<?x?x4xf32>
         }",
    );
    let dims: Vec<_> = dynamic_dims(&p, "main").into_iter().map(|d| (d.argument, d.dim, d.name.unwrap())).collect();
    assert_eq!(dims, [(1, 0, "b".into()), (1, 1, "max(s, 2)".into()), (2, 0, "b".to_string())]);
    let names = zmlc_import::argument_names(&p, "main");
    assert_eq!(names, [Some("p".into()), Some("batch['x'][0]".to_string()), None]);
}

#[test]
fn sizes_that_disagree_are_found_before_lowering() {
    let p = load(
        "sum.mlir",
        "func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
           %0 = stablehlo.add %x, %y : tensor<?xf32>
           return %0 : tensor<?xf32>
         }",
    );
    assert!(prepare(p.clone(), "main", Some(&[vec![3], vec![3]])).is_ok());
    let e = prepare(p, "main", Some(&[vec![3], vec![4]])).unwrap_err();
    assert!(e[0].message.contains("tensor<4xf32>"), "{e:?}");
}

/// The custom calls that `jax.export` writes where attributes are values: a cumulative sum, the largest, random bits.
#[test]
fn custom_calls_with_attributes_as_operands() {
    let p = load(
        "calls.mlir",
        "func.func public @main(%x: tensor<?xf32>, %key: tensor<2xui64>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xi32>, tensor<?xui32>, tensor<?x4xui8>) {
           %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
           %one = stablehlo.constant dense<1> : tensor<1xi32>
           %zero = stablehlo.constant dense<0> : tensor<1xi32>
           %two = stablehlo.constant dense<2> : tensor<i32>
           %init = stablehlo.constant dense<0.0> : tensor<f32>
           %n1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
           %low = stablehlo.subtract %n1, %one : tensor<1xi32>
           %pad = stablehlo.concatenate %low, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
           %pads = stablehlo.reshape %pad : (tensor<2xi32>) -> tensor<1x2xi32>
           %sum = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %init, %n1, %one, %one, %one, %pads) {called_computations = [@add]} : (tensor<?xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1x2xi32>) -> tensor<?xf32>
           %top:2 = stablehlo.custom_call @stablehlo.dynamic_top_k(%x, %two) : (tensor<?xf32>, tensor<i32>) -> (tensor<?xf32>, tensor<?xi32>)
           %bits:2 = stablehlo.custom_call @stablehlo.dynamic_rng_bit_generator(%key, %n1) {rng_algorithm = #stablehlo<rng_algorithm DEFAULT>} : (tensor<2xui64>, tensor<1xi32>) -> (tensor<2xui64>, tensor<?xui32>)
           %bytes = stablehlo.bitcast_convert %bits#1 : (tensor<?xui32>) -> tensor<?x4xui8>
           return %sum, %top#0, %top#1, %bits#1, %bytes : tensor<?xf32>, tensor<?xf32>, tensor<?xi32>, tensor<?xui32>, tensor<?x4xui8>
         }
         func.func private @add(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
           %0 = stablehlo.add %a, %b : tensor<f32>
           return %0 : tensor<f32>
         }",
    );
    let p = prepare(p, "main", Some(&[vec![3], vec![2]])).unwrap_or_else(|e| panic!("{e:?}"));
    assert!(is_static(&p));
    assert!(verify(&p).is_empty(), "{:?}", verify(&p));
    let f32s = |v: &[f32]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let x = Tensor::new(DType::F32, &[3], f32s(&[1.0, 5.0, 2.0])).unwrap();
    let key = Tensor::new(DType::U64, &[2], vec![7; 16]).unwrap();
    let out = eval(&p, "main", vec![x, key]).unwrap();
    assert_eq!(out[0].bytes, f32s(&[1.0, 6.0, 8.0]));
    assert_eq!(out[1].bytes, f32s(&[5.0, 2.0]));
    assert_eq!((&out[3].shape[..], &out[4].shape[..]), (&[3u64][..], &[3u64, 4][..]));
}

/// JAX's Cholesky on the CPU, with a batch that is not known: the info of each matrix has the batch's shape.
#[test]
fn routines_wait_for_shapes() {
    let p = load(
        "potrf.mlir",
        "func.func @main(%x: tensor<?x2x2xf32>) -> (tensor<?x2x2xf32>, tensor<?xi32>) {
           %0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%x) {api_version = 4 : i32, mhlo.backend_config = {uplo = 76 : ui8}} : (tensor<?x2x2xf32>) -> (tensor<?x2x2xf32>, tensor<?xi32>)
           return %0#0, %0#1 : tensor<?x2x2xf32>, tensor<?xi32>
         }",
    );
    let p = prepare(p, "main", Some(&[vec![3, 2, 2]])).unwrap_or_else(|e| panic!("{e:?}"));
    let f = p.func("main").unwrap();
    assert!(f.body.ops.iter().any(|o| matches!(o.kind, OpKind::Cholesky { lower: true })));
    assert_eq!(f.tensor(f.body.results[1]).shape(), Some(vec![3]));
}

/// A loop's slice of a value with dynamic dimensions, as `jax.export` writes it: its start is known to the run alone.
#[test]
fn slices_of_known_size_may_start_anywhere() {
    let text = |limit: &str| {
        format!(
            "func.func @main(%x: tensor<?x3xi32>, %at: tensor<i32>) -> tensor<1x?xi32> {{
               %zero = stablehlo.constant dense<0> : tensor<1xi32>
               %sizes = stablehlo.constant dense<[1, 3]> : tensor<2xi32>
               %ones = stablehlo.constant dense<1> : tensor<2xi32>
               %at1 = stablehlo.reshape %at : (tensor<i32>) -> tensor<1xi32>
               %start = stablehlo.concatenate %at1, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
               %limit = stablehlo.add %start, %{limit} : tensor<2xi32>
               %r = stablehlo.real_dynamic_slice %x, %start, %limit, %ones : (tensor<?x3xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<1x?xi32>
               return %r : tensor<1x?xi32>
             }}"
        )
    };
    let shapes = [vec![4, 3], vec![]];
    let p = prepare(load("slice.mlir", text("sizes")), "main", Some(&shapes)).unwrap_or_else(|e| panic!("{e:?}"));
    assert!(is_static(&p) && verify(&p).is_empty());
    let ints = |v: &[i32]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let x = Tensor::new(DType::I32, &[4, 3], ints(&(0..12).collect::<Vec<_>>())).unwrap();
    let out = eval(&p, "main", vec![x, Tensor::new(DType::I32, &[], ints(&[2])).unwrap()]).unwrap();
    assert_eq!(out[0].bytes, ints(&[6, 7, 8]));
    // A size that is not known is still refused.
    let e = prepare(load("slice.mlir", text("start")), "main", Some(&shapes)).unwrap_err();
    assert_eq!(e[0].code, "E0701");
}
