//! StableHLO's public test programs as cases: functions without arguments that compute inputs and expected values
//! themselves and assert with the `check` dialect. Each becomes a folder of the corpus form: what is constant becomes an
//! input, so that the compiler has something to compile, and what is asserted becomes an output.
//!
//! Inputs and expected values are evaluated by the project's interpreter.

use crate::tensors::{self, Tensor};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use zmlc_import::{
    Source,
    interp::{self, eval},
    print, read,
    tree::{Attr, Func, Op, OpKind, Program, Type, ValueId},
};

/// Whether `path` is of this form: an archive, a program, or a folder of programs.
pub fn is_testdata(path: &Path) -> bool {
    if path.is_dir() {
        return !path.join("meta.json").is_file() && programs(path).is_ok_and(|p| !p.is_empty());
    }
    path.is_file()
}

/// Writes cases to `into` and returns them with their folders, sorted by name.
pub fn convert(path: &Path, into: &Path) -> Result<Vec<(String, PathBuf)>> {
    let unpacked = tempfile::tempdir()?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let files = if path.is_dir() {
        programs(path)?
    } else if name.ends_with(".mlir") {
        vec![path.to_path_buf()]
    } else {
        let status = Command::new("tar").arg("-xf").arg(path).arg("-C").arg(unpacked.path()).status()?;
        ensure!(status.success(), "cannot unpack {}", path.display());
        programs_below(unpacked.path())?
    };
    let mut cases = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for (name, case) in split(&stem, &text) {
            let dir = into.join(&name);
            fs::create_dir_all(&dir).with_context(|| format!("cannot write {}", dir.display()))?;
            write(&dir, &case)?;
            cases.push((name, dir));
        }
    }
    cases.sort();
    Ok(cases)
}

fn programs(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = fs::read_dir(dir)
        .with_context(|| format!("cannot read {}", dir.display()))?
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "mlir"))
        .collect();
    found.sort();
    Ok(found)
}

fn programs_below(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = programs(dir)?;
    for e in fs::read_dir(dir)?.flatten() {
        // Links of an archive may lead anywhere.
        if e.file_type()?.is_dir() {
            found.extend(programs_below(&e.path())?);
        }
    }
    found.sort();
    Ok(found)
}

enum Case {
    Runs(Box<Converted>),
    /// The text cannot be read: the compiler is to say why.
    Unread(String),
    /// It cannot be run in parts.
    Skip(String),
}

struct Converted {
    program: String,
    inputs: Vec<interp::Tensor>,
    /// Value and how it is compared.
    expected: Vec<(interp::Tensor, Value)>,
}

/// The cases of one file, whose parts `// -----` separates.
fn split(stem: &str, text: &str) -> Vec<(String, Case)> {
    let mut cases = Vec::new();
    let parts: Vec<&str> = text.split("// -----\n").collect();
    for (i, part) in parts.iter().enumerate() {
        let name = |func: &str| match (parts.len(), func) {
            (1, "main") => stem.to_string(),
            (1, f) => format!("{stem}.{f}"),
            (_, f) => format!("{stem}.{i}.{f}"),
        };
        let source = Source::new(format!("{stem}.mlir"), part.as_bytes().to_vec());
        let Ok(program) = read(&source) else {
            cases.push((name("main"), Case::Unread((*part).to_string())));
            continue;
        };
        for f in program.funcs.iter().filter(|f| f.body.ops.iter().any(is_check)) {
            let case = one(&program, f).unwrap_or_else(|e| Case::Skip(format!("{e:#}")));
            cases.push((name(&f.name), case));
        }
    }
    cases
}

fn check_name(op: &Op) -> Option<&str> {
    let name = match &op.kind {
        OpKind::CustomCall { target, .. } => target,
        OpKind::Other(name) => name,
        _ => return None,
    };
    name.strip_prefix("check.")
}
fn is_check(op: &Op) -> bool {
    check_name(op).is_some_and(|n| n.starts_with("expect_"))
}

/// Ops whose operands are shapes and have to stay constants.
fn wants_constants(op: &Op) -> bool {
    matches!(
        op.kind,
        OpKind::DynamicReshape
            | OpKind::DynamicIota { .. }
            | OpKind::DynamicBroadcastInDim { .. }
            | OpKind::RealDynamicSlice
            | OpKind::DynamicPad
            | OpKind::DynamicGather { .. }
            | OpKind::DynamicConv(_)
    ) || !op.regions.is_empty() && op.regions.iter().any(|r| r.ops.iter().any(wants_constants))
}

fn one(program: &Program, f: &Func) -> Result<Case> {
    if !f.body.args.is_empty() {
        return Ok(Case::Skip("its test function takes arguments".into()));
    }
    let fixed = f.body.ops.iter().any(wants_constants);
    let is_data = |op: &Op| match &op.kind {
        OpKind::Constant(_) => !fixed,
        OpKind::Call { .. } => op.operands.is_empty(),
        _ => false,
    };
    let (checks, rest): (Vec<&Op>, Vec<&Op>) = f.body.ops.iter().partition(|op| is_check(op));
    let (data, computed): (Vec<&Op>, Vec<&Op>) = rest.into_iter().partition(|op| is_data(op));
    if checks.iter().any(|op| check_name(op).is_some_and(|n| n.contains("serialized"))) {
        return Ok(Case::Skip("it asserts over files".into()));
    }
    let outputs: Vec<ValueId> = checks.iter().map(|op| op.operands[0]).collect();
    let read_by_computed = reads(&computed);
    let data_values: Vec<ValueId> = data.iter().flat_map(|op| &op.results).copied().collect();
    let arguments: Vec<ValueId> =
        data_values.iter().copied().filter(|v| read_by_computed.contains(v) || outputs.contains(v)).collect();
    for v in arguments.iter().chain(&outputs) {
        match f.ty(*v) {
            Type::Tensor(t) if t.is_static() && t.quant.is_none() => {}
            _ => return Ok(Case::Skip("an input or output is not a plain static tensor".into())),
        }
    }

    // What the test computes without checking, for the values of inputs and expected results.
    let value_of = |values: Vec<ValueId>| -> Result<Vec<interp::Tensor>> {
        let mut whole = f.clone();
        whole.name = "main".into();
        whole.body.ops.retain(|op| !is_check(op));
        whole.result_types = values.iter().map(|v| f.ty(*v).clone()).collect();
        whole.result_attrs = vec![vec![]; values.len()];
        whole.body.results = values;
        let mut p = program.clone();
        p.funcs.retain(|g| g.name != f.name && g.name != "main");
        p.funcs.push(whole);
        Ok(eval(&p, "main", vec![])?)
    };
    let inputs = value_of(arguments.clone())?;
    let mut expected = Vec::new();
    for op in &checks {
        let value = match (op.operands.get(1), op.attr("value")) {
            (Some(v), _) => value_of(vec![*v])?.remove(0),
            (None, Some(Attr::Dense(l))) => interp::Tensor::from_literal(l),
            _ => bail!("a check without an expected value"),
        };
        expected.push((value, comparison(op)?));
    }

    let callees: Vec<&str> = data
        .iter()
        .filter_map(|op| if let OpKind::Call { callee } = &op.kind { Some(callee.as_str()) } else { None })
        .collect();
    let mut main = f.clone();
    main.name = "main".into();
    main.public = true;
    main.arg_attrs = vec![vec![]; arguments.len()];
    main.result_types = outputs.iter().map(|v| f.ty(*v).clone()).collect();
    main.result_attrs = vec![vec![]; outputs.len()];
    main.attrs.clear();
    main.body.args = arguments;
    main.body.results = outputs;
    main.body.ops = computed.into_iter().cloned().collect();
    let mut p = program.clone();
    p.funcs.retain(|g| {
        g.name != f.name && g.name != "main" && !callees.contains(&g.name.as_str()) && !g.body.ops.iter().any(is_check)
    });
    p.funcs.push(main);
    Ok(Case::Runs(Box::new(Converted { program: print(&p), inputs, expected })))
}

/// Values that ops read, regions included.
fn reads(ops: &[&Op]) -> Vec<ValueId> {
    let mut all = Vec::new();
    for op in ops {
        all.extend(&op.operands);
        for region in &op.regions {
            all.extend(&region.results);
            all.extend(reads(&region.ops.iter().collect::<Vec<_>>()));
        }
    }
    all
}

/// `check` of `meta.json`.
fn comparison(op: &Op) -> Result<Value> {
    let number = |name: &str, default: f64| match op.attr(name) {
        Some(Attr::Float(v, _)) => *v,
        Some(Attr::Int(v, _)) => *v as f64,
        _ => default,
    };
    Ok(match check_name(op) {
        Some("expect_eq" | "expect_eq_const") => json!({ "kind": "eq" }),
        // The defaults of the check dialect.
        Some("expect_almost_eq" | "expect_almost_eq_const") => {
            json!({ "kind": "almost_eq", "tolerance": number("tolerance", 1e-3) })
        }
        Some("expect_close") => json!({ "kind": "close", "ulp": number("max_ulp_difference", 3.0) as u64 }),
        other => bail!("`check.{}` is not known", other.unwrap_or_default()),
    })
}

fn write(dir: &Path, case: &Case) -> Result<()> {
    let empty = json!({ "args": [], "outputs": [] });
    let (program, meta, inputs, expected) = match case {
        Case::Unread(text) => (text.as_str(), empty, vec![], vec![]),
        Case::Skip(why) => ("", json!({ "args": [], "outputs": [], "skip": why }), vec![], vec![]),
        Case::Runs(c) => {
            let describe =
                |key: String, t: &interp::Tensor| json!({ "key": key, "dtype": t.dtype.name(), "shape": t.shape });
            let args: Vec<_> = c.inputs.iter().enumerate().map(|(i, t)| describe(format!("arg{i}"), t)).collect();
            let mut outputs = Vec::new();
            for (i, (t, check)) in c.expected.iter().enumerate() {
                let mut o = describe(format!("out{i}"), t);
                o["check"] = check.clone();
                outputs.push(o);
            }
            let values: Vec<&interp::Tensor> = c.expected.iter().map(|e| &e.0).collect();
            (c.program.as_str(), json!({ "args": args, "outputs": outputs }), c.inputs.iter().collect(), values)
        }
    };
    fs::write(dir.join("program.mlir"), program)?;
    fs::write(dir.join("meta.json"), serde_json::to_vec(&meta)?)?;
    for (file, prefix, values) in [("inputs.safetensors", "arg", inputs), ("expected.safetensors", "out", expected)] {
        let all: BTreeMap<String, Tensor> =
            values.into_iter().enumerate().map(|(i, t)| (format!("{prefix}{i}"), stored(t))).collect();
        tensors::write_all(&dir.join(file), &all)?;
    }
    Ok(())
}

/// As the corpus stores it: complex numbers as pairs.
fn stored(t: &interp::Tensor) -> Tensor {
    let mut shape = t.shape.clone();
    if t.dtype.is_complex() {
        shape.push(2);
    }
    Tensor { dtype: crate::case::storage(t.dtype).into(), shape, bytes: t.bytes.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIN: &str = r#"module {
  func.func public @main() -> (tensor<2xf32>) {
    %0:2 = call @inputs() : () -> (tensor<2xf32>, tensor<2xf32>)
    %1 = call @expected() : () -> tensor<2xf32>
    %2 = stablehlo.add %0#0, %0#1 : tensor<2xf32>
    stablehlo.custom_call @check.expect_close(%2, %1) {has_side_effect = true} : (tensor<2xf32>, tensor<2xf32>) -> ()
    return %2 : tensor<2xf32>
  }
  func.func private @inputs() -> (tensor<2xf32>, tensor<2xf32>) {
    %a = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %b = stablehlo.constant dense<[3.0, 4.0]> : tensor<2xf32>
    return %a, %b : tensor<2xf32>, tensor<2xf32>
  }
  func.func private @expected() -> (tensor<2xf32>) {
    %c = stablehlo.constant dense<[4.0, 6.0]> : tensor<2xf32>
    return %c : tensor<2xf32>
  }
}
"#;

    const PARTS: &str = r#"func.func @abs_i8() {
  %x = stablehlo.constant dense<[-2, 0]> : tensor<2xi8>
  %y = stablehlo.abs %x : tensor<2xi8>
  check.expect_eq_const %y, dense<[2, 0]> : tensor<2xi8>
  func.return
}
// -----
func.func @broken( {
"#;

    fn outline(dir: &Path) -> String {
        let inputs: Vec<_> =
            tensors::read(&dir.join("inputs.safetensors")).unwrap().into_iter().map(|(k, t)| (k, t.bytes)).collect();
        let expected: Vec<_> =
            tensors::read(&dir.join("expected.safetensors")).unwrap().into_iter().map(|(k, t)| (k, t.bytes)).collect();
        let text = |name| fs::read_to_string(dir.join(name)).unwrap();
        format!("{}{}\n{inputs:?}\n{expected:?}", text("program.mlir"), text("meta.json"))
    }

    #[test]
    fn a_main_with_inputs_and_expected_values() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("add.mlir"), MAIN).unwrap();
        assert!(is_testdata(dir.path()));
        let cases = convert(dir.path(), &dir.path().join("out")).unwrap();
        assert_eq!(cases.iter().map(|c| c.0.as_str()).collect::<Vec<_>>(), ["add"]);
        insta::assert_snapshot!(outline(&cases[0].1), @r##"
        module {
          func.func public @main(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
            %0 = stablehlo.add %arg0, %arg1 : tensor<2xf32>
            return %0 : tensor<2xf32>
          }
        }
        {"args":[{"dtype":"f32","key":"arg0","shape":[2]},{"dtype":"f32","key":"arg1","shape":[2]}],"outputs":[{"check":{"kind":"close","ulp":3},"dtype":"f32","key":"out0","shape":[2]}]}
        [("arg0", [0, 0, 128, 63, 0, 0, 0, 64]), ("arg1", [0, 0, 64, 64, 0, 0, 128, 64])]
        [("out0", [0, 0, 128, 64, 0, 0, 192, 64])]
        "##);
    }

    #[test]
    fn functions_in_parts_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("abs.mlir"), PARTS).unwrap();
        let cases = convert(&dir.path().join("abs.mlir"), &dir.path().join("out")).unwrap();
        assert_eq!(cases.iter().map(|c| c.0.as_str()).collect::<Vec<_>>(), ["abs.0.abs_i8", "abs.1.main"]);
        insta::assert_snapshot!(outline(&cases[0].1), @r##"
        module {
          func.func public @main(%arg0: tensor<2xi8>) -> tensor<2xi8> {
            %0 = stablehlo.abs %arg0 : tensor<2xi8>
            return %0 : tensor<2xi8>
          }
        }
        {"args":[{"dtype":"i8","key":"arg0","shape":[2]}],"outputs":[{"check":{"kind":"eq"},"dtype":"i8","key":"out0","shape":[2]}]}
        [("arg0", [254, 0])]
        [("out0", [2, 0])]
        "##);
        assert!(fs::read_to_string(cases[1].1.join("program.mlir")).unwrap().contains("@broken"));
    }
}
