//! Whole programs: StableHLO through legalize, simplify, fuse and emit, then every kernel run in the simulator; the
//! results must be those of the StableHLO interpreter.

use super::simulate::{
    Num,
    program::{Program, Tensor},
};
use half::{bf16, f16};
use std::path::{Path, PathBuf};
use zml_format::DType;
use zmlc_import::{Source, interp, read, tree};
use zmlc_passes::{
    context,
    emit::Emit,
    expand_special::ExpandSpecial,
    fuse::Fuse,
    ir::*,
    legalize::{self, ArgumentPlan, EntryPlan, ResultPlan, Role},
    pass::{self, Env, Pass, Run},
    simplify::Simplify,
    spec::DeviceSpec,
    split::Split,
};

fn plan(p: &tree::Program) -> EntryPlan {
    let f = p.main().expect("main");
    let argument = |i| ArgumentPlan { name: format!("a{i}"), role: Role::Input { donated: false } };
    let result = |i| ResultPlan { name: format!("r{i}"), state: None };
    EntryPlan {
        name: "main".into(),
        dims: vec![],
        arguments: (0..f.body.args.len()).map(argument).collect(),
        results: (0..f.result_types.len()).map(result).collect(),
    }
}
/// The module after fuse.
pub fn fused(p: &tree::Program, spec: &DeviceSpec) -> Result<String, String> {
    let c = context::context();
    let mut m = legalize::module(&c, "test", "1");
    let func = p.main().expect("main").name.clone();
    legalize::entry(&B::new(&c, body(&m)), p, &func, &plan(p))
        .map_err(|e| format!("legalize: {} of {}", e[0].op, e[0].dtype))?;
    pass::run(&c, &mut m, &[&ExpandSpecial, &Simplify, &Split, &Fuse], Env { spec: Some(spec) }, Run::default())
        .map_err(|e| e.to_string())?;
    Ok(context::print(&m))
}
/// Runs `p` in the simulator and compares with the interpreter.
pub fn same(p: &tree::Program, spec: &DeviceSpec, run: bool) -> Result<String, String> {
    same_as_fused(p, &fused(p, spec)?, spec, run)
}
/// The same with `text` for what is after fuse.
pub fn same_as_fused(p: &tree::Program, text: &str, spec: &DeviceSpec, run: bool) -> Result<String, String> {
    let c = context::context();
    let module = context::parse(&c, text).map_err(|e| e.to_string())?;
    let mut emitted = context::parse(&c, text).map_err(|e| e.to_string())?;
    Emit.run(&c, &mut emitted, Env { spec: Some(spec) }).map_err(|e| format!("emit: {e}"))?;
    let mut kernels = 0;
    for op in ops(body(&emitted)) {
        if name(op) == "gpu.module" {
            kernels += 1;
            let (ok, said) = context::with_diagnostics(&c, || op.verify());
            if !ok {
                return Err(format!("invalid: {}", said.join("\n")));
            }
        }
    }
    if !run {
        return Ok(format!("{kernels} kernels"));
    }
    let main = p.main().expect("main");
    let inputs: Vec<interp::Tensor> = main
        .body
        .args
        .iter()
        .enumerate()
        .map(|(i, a)| {
            let t = main.tensor(*a);
            random(t.dtype, &t.shape().expect("static"), i)
        })
        .collect();
    let expected = interp::eval(p, &main.name, inputs.clone()).map_err(|e| format!("interpreter: {e}"))?;
    let program = Program { fused: body(&module), emitted: body(&emitted) };
    let got = program.run("main", inputs.iter().map(numbers).collect())?;
    for (i, (x, y)) in got.iter().zip(&expected).enumerate() {
        compare(x, &numbers(y), y.dtype).map_err(|e| format!("result {i}: {e}"))?;
    }
    Ok(format!("{kernels} kernels, same"))
}
fn random(dtype: DType, shape: &[u64], seed: usize) -> interp::Tensor {
    let n = shape.iter().product::<u64>() as usize * if dtype.is_complex() { 2 } else { 1 };
    let real = if dtype.is_complex() { dtype.real() } else { dtype };
    let mut bytes = vec![];
    for i in 0..n {
        let r = (i * 7919 + seed * 104_729 + 13) % 4001;
        let x = r as f64 / 1024.0 - 2.0;
        match real {
            DType::F32 => bytes.extend((x as f32).to_le_bytes()),
            DType::F64 => bytes.extend(x.to_le_bytes()),
            DType::F16 => bytes.extend(f16::from_f64(x).to_le_bytes()),
            DType::BF16 => bytes.extend(bf16::from_f64(x).to_le_bytes()),
            DType::I1 => bytes.push((r % 2) as u8),
            _ => bytes.extend(&((r % 7) as u64).to_le_bytes()[..real.bytes()]),
        }
    }
    interp::Tensor::new(dtype, shape, bytes).expect("as many bytes as the shape takes")
}
fn numbers(t: &interp::Tensor) -> Tensor {
    let real = if t.dtype.is_complex() { t.dtype.real() } else { t.dtype };
    t.bytes
        .chunks_exact(real.bytes())
        .map(|b| {
            let mut wide = [0; 8];
            wide[..b.len()].copy_from_slice(b);
            let bits = u64::from_le_bytes(wide);
            Some(match real {
                DType::F32 => Num::Float(f64::from(f32::from_bits(bits as u32))),
                DType::F64 => Num::Float(f64::from_bits(bits)),
                DType::F16 => Num::Float(f16::from_bits(bits as u16).to_f64()),
                DType::BF16 => Num::Float(bf16::from_bits(bits as u16).to_f64()),
                DType::I1 => Num::Int(bits as i64),
                // The simulator keeps all integers sign-extended from their width.
                _ => {
                    let shift = 64 - 8 * b.len() as u32;
                    Num::Int((bits << shift) as i64 >> shift)
                }
            })
        })
        .collect()
}
fn compare(got: &Tensor, expected: &Tensor, dtype: DType) -> Result<(), String> {
    let tolerance = match dtype {
        DType::F64 => 1e-10,
        DType::F16 => 5e-3,
        DType::BF16 => 4e-2,
        _ => 2e-5,
    };
    if got.len() != expected.len() {
        return Err(format!("{} elements instead of {}", got.len(), expected.len()));
    }
    let scale = expected.iter().flatten().map(|x| if let Num::Float(x) = x { x.abs() } else { 0.0 });
    let scale = scale.filter(|x| x.is_finite()).fold(0.0, f64::max);
    for (i, (x, y)) in got.iter().zip(expected).enumerate() {
        let same = match (x, y) {
            (Some(Num::Float(x)), Some(Num::Float(y))) => {
                x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= tolerance * y.abs().max(scale)
            }
            (x, y) => x == y,
        };
        if !same {
            return Err(format!("element {i} is {x:?} instead of {y:?}"));
        }
    }
    Ok(())
}
fn load(path: &Path) -> tree::Program {
    prepared(&path.display().to_string(), std::fs::read(path).expect("readable"))
}
/// A program from the bytes of a file of this name.
pub fn prepared(name: &str, bytes: Vec<u8>) -> tree::Program {
    let p = read(Source::new(name, bytes)).unwrap_or_else(|e| panic!("{name}\n{e}"));
    let main = p.main().expect("main").name.clone();
    zmlc_import::prepare(p, &main, None).unwrap_or_else(|e| panic!("{name}: {e:?}"))
}

/// The corpus folder, as in the tests of the importer: `ZMLC_CORPUS` or `../shared/corpus` beside the workspace.
fn corpus() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the workspace");
    let candidates = [
        std::env::var_os("ZMLC_CORPUS").map(PathBuf::from),
        root.parent().map(|p| p.join("shared/corpus")),
        root.ancestors().nth(2).map(|p| p.join("shared/corpus")),
    ];
    let found = candidates.into_iter().flatten().find(|p| p.is_dir());
    if found.is_none() {
        eprintln!("skipped: no corpus (set ZMLC_CORPUS)");
    }
    found
}
/// Runs `names` and says everything that is wrong with any of them.
fn all_same(names: &[&str], run: bool) {
    let Some(corpus) = corpus() else { return };
    let mut wrong = vec![];
    for n in names {
        let program = load(&corpus.join(n).join("program.mlir"));
        if let Err(e) = same(&program, &super::kernels::spec(), run) {
            wrong.push(format!("{n}: {e}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn tensor_programs() {
    all_same(
        &[
            "argminmax",
            "big_constants",
            "bool_int_constants",
            "broadcast_transpose_reshape",
            "chlo_special",
            "complex_math",
            "composite_attr",
            "convert_matrix",
            "cumulative",
            "donated_unaliased",
            "donated_update",
            "dot_general_forms",
            "dynamic_slice_update",
            "f16_bf16_mix",
            "float64_math",
            "float8_convert_dot",
            "gather_forms",
            "int4_matmul",
            "int8_dot_requant",
            "int64_uint64",
            "int_arith",
            "layernorm_softmax_gelu",
            "pad_concat_slice",
            "predicates",
            "private_calls",
            "raw_dense_resource",
            "raw_dot_algorithm",
            "raw_dynamic_ops_static",
            "raw_gather_batching",
            "raw_map_reduce_multi",
            "raw_splat_and_hex",
            "reduce_variety",
            "reduce_window_forms",
            "remat_barrier",
            "scatter_forms",
            "sort_multi",
            "threefry_uniform_normal",
            "uint4_shift",
            "unary_math",
            "zero_size_and_rank0",
        ],
        true,
    );
}
#[test]
fn control_flow() {
    all_same(&["cond_switch", "raw_while_if_case_pretty", "scan_lstm", "while_newton_sqrt"], true);
}
#[test]
fn models() {
    all_same(&["causal_attention", "mnist_mlp_b1"], true);
}
/// More elements than a workgroup keeps: maximum and sum in one reading where the rows fill the device, else of parts; then
/// what is made of them. A row of minus infinities, one that begins with NaN, and one that begins with the largest.
#[test]
fn softmax_of_long_rows() {
    let text = "module @m {
  func.func @main(%given: tensor<3x40960xf32>) -> (tensor<3x40960xf32>, tensor<3xf32>) {
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %special = stablehlo.constant dense<[0xFF800000, 0x7FC00000, 9.0]> : tensor<3xf32>
    %rows = stablehlo.broadcast_in_dim %special, dims = [0] : (tensor<3xf32>) -> tensor<3x40960xf32>
    %at = stablehlo.iota dim = 1 : tensor<3x40960xi32>
    %first = stablehlo.constant dense<1> : tensor<3x40960xi32>
    %is_first = stablehlo.compare LT, %at, %first : (tensor<3x40960xi32>, tensor<3x40960xi32>) -> tensor<3x40960xi1>
    %row = stablehlo.iota dim = 0 : tensor<3x40960xi32>
    %is_top = stablehlo.compare LT, %row, %first : (tensor<3x40960xi32>, tensor<3x40960xi32>) -> tensor<3x40960xi1>
    %is_special = stablehlo.or %is_first, %is_top : tensor<3x40960xi1>
    %x = stablehlo.select %is_special, %rows, %given : tensor<3x40960xi1>, tensor<3x40960xf32>
    %m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<3x40960xf32>, tensor<f32>) -> tensor<3xf32>
    %mb = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<3xf32>) -> tensor<3x40960xf32>
    %d = stablehlo.subtract %x, %mb : tensor<3x40960xf32>
    %e = stablehlo.exponential %d : tensor<3x40960xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<3x40960xf32>, tensor<f32>) -> tensor<3xf32>
    %sb = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<3xf32>) -> tensor<3x40960xf32>
    %p = stablehlo.divide %e, %sb : tensor<3x40960xf32>
    return %p, %s : tensor<3x40960xf32>, tensor<3xf32>
  }
}";
    let p = prepared("softmax.mlir", text.into());
    for (parallel_blocks, kernels, holds) in [(12, 1, "zml.online_softmax"), (16, 2, "3x10x4096xf32")] {
        let spec = DeviceSpec { subgroup: 8, parallel_blocks, ..super::kernels::spec() };
        let said = same(&p, &spec, true).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(said, format!("{kernels} kernels, same"));
        let text = fused(&p, &spec).expect("just done");
        assert!(text.contains(holds), "{text}");
    }
}
/// NaN goes through the sum of a softmax; where what is read does not go through it, through the maximum.
#[test]
fn softmax_of_nan() {
    let program = |init: &str, by: &str, results: &str| {
        format!(
            "module @m {{
  func.func @main(%given: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {{
    %at = stablehlo.iota dim = 0 : tensor<16xi32>
    %sixth = stablehlo.constant dense<6> : tensor<16xi32>
    %is = stablehlo.compare EQ, %at, %sixth : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi1>
    %mask = stablehlo.reshape %is : (tensor<16xi1>) -> tensor<4x4xi1>
    %nan = stablehlo.constant dense<0x7FC00000> : tensor<4x4xf32>
    %x = stablehlo.select %mask, %nan, %given : tensor<4x4xi1>, tensor<4x4xf32>
    %low = stablehlo.constant dense<{init}> : tensor<f32>
    %m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
    %mb = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<4xf32>) -> tensor<4x4xf32>
    %d = stablehlo.subtract %x, %mb : tensor<4x4xf32>
    %e = stablehlo.exponential %d : tensor<4x4xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
    %sb = stablehlo.broadcast_in_dim %s, dims = [{by}] : (tensor<4xf32>) -> tensor<4x4xf32>
    %p = stablehlo.divide %e, %sb : tensor<4x4xf32>
    return {results} : tensor<4x4xf32>, tensor<4x4xf32>
  }}
}}"
        )
    };
    let cases = [("0xFF800000", "0", "%p, %p", true), ("0xFF800000", "1", "%p, %p", false)];
    let more = [("0xFF800000", "0", "%p, %e", false), ("0x7FC00000", "0", "%p, %p", false)];
    for (init, by, results, of_numbers) in cases.into_iter().chain(more) {
        let p = prepared("softmax.mlir", program(init, by, results).into());
        let spec = super::kernels::spec();
        same(&p, &spec, true).unwrap_or_else(|e| panic!("{init} {by} {results}: {e}"));
        let text = fused(&p, &spec).expect("just done");
        assert_eq!(text.contains("maxnumf"), of_numbers, "{init} {by} {results}: {text}");
    }
}
/// What a pad reads of a row beyond its edge it reads at a row of no orbit, and leaves it out.
#[test]
fn rows_beyond_a_padding() {
    let text = "module @m {
  func.func @main(%x: tensor<1x2xi1>, %i: tensor<6x1xi32>, %u: tensor<6x2xi1>, %p: tensor<i1>) -> tensor<4x1xi1> {
    %s = \"stablehlo.scatter\"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<i1>, %b: tensor<i1>):
      %o = stablehlo.or %a, %b : tensor<i1>
      stablehlo.return %o : tensor<i1>
    }) : (tensor<1x2xi1>, tensor<6x1xi32>, tensor<6x2xi1>) -> tensor<1x2xi1>
    %y = stablehlo.pad %s, %p, low = [1, 0], high = [2, -1], interior = [2, 0] : (tensor<1x2xi1>, tensor<i1>) -> tensor<4x1xi1>
    return %y : tensor<4x1xi1>
  }
}";
    let p = prepared("scatter_pad.mlir", text.into());
    assert_eq!(same(&p, &super::kernels::spec(), true).unwrap_or_else(|e| panic!("{e}")), "1 kernels, same");
}
/// Too large for the simulator: their kernels are valid IR.
#[test]
fn large_models_emit() {
    all_same(
        &[
            "mnist_cnn_b8",
            "resnet50_b1_f32",
            "tinyllama_f32_prefill",
            "tinyllama_f32_decode",
            "llama1b_decode_kv2048_bf16",
            "llama1b_prefill512_bf16",
            "minilm_b4_s64",
            "select_and_scatter",
            "top_k",
            "train_step_mlp",
            "unet_micro",
            "vit_tiny_patch16_b1",
        ],
        false,
    );
}
