//! From the text of a test file to cases: each function that asserts is split into inputs, what is compiled, and expected
//! values.

use anyhow::{Result, bail};
use serde_json::{Value, json};
use zmlc_import::{
    Source,
    interp::{self, eval},
    op_name, print, read,
    tree::{Attr, Func, Op, OpKind, Program, Type, ValueId},
};

pub enum Case {
    Runs(Box<Converted>),
    /// The text cannot be read: the compiler is to say why.
    Unread(String),
    /// It cannot be run in parts.
    Skip(String),
}

pub struct Converted {
    pub program: String,
    pub inputs: Vec<interp::Tensor>,
    /// Value and how it is compared.
    pub expected: Vec<(interp::Tensor, Value)>,
    /// The op that the test is of, and its element type.
    pub op: String,
    pub dtype: String,
}

/// The cases of one file, whose parts `// -----` separates.
pub fn split(stem: &str, text: &str) -> Vec<(String, Case)> {
    let mut cases = Vec::new();
    let parts: Vec<&str> = text.split("// -----\n").collect();
    for (i, part) in parts.iter().enumerate().filter(|(_, p)| p.contains("check.expect")) {
        let name = |func: &str| match (parts.len(), func) {
            (1, "main") => stem.to_string(),
            (1, f) => format!("{stem}.{f}"),
            (_, f) => format!("{stem}.{i}.{f}"),
        };
        if part.contains("interpreter.run_parallel") {
            cases.push((name("main"), Case::Skip("it runs programs on several devices at once".into())));
            continue;
        }
        let source = Source::new(format!("{stem}.mlir"), plain(part).into_bytes());
        let Ok(program) = read(&source) else {
            cases.push((name("main"), Case::Unread((*part).to_string())));
            continue;
        };
        for f in program.funcs.iter().filter(|f| f.body.ops.iter().any(is_check)) {
            let case = one(&program, f, stem).unwrap_or_else(|e| Case::Skip(format!("{e:#}")));
            cases.push((name(&f.name), case));
        }
    }
    cases
}

/// Without the reference interpreter's own ops: a print does nothing, a probe gives what it takes, and what it wrote to a file
/// is the value by the reference.
fn plain(part: &str) -> String {
    let without_id = |l: &str, op: &str, by: &dyn Fn(&str) -> String| {
        let (before, rest) = l.split_once(op)?;
        let (operand, rest) = rest.split_once(", probe_id")?;
        let ty = &rest[rest.rfind(" : ")?..];
        Some(format!("{before}{}{ty}", by(operand.trim())))
    };
    let line = |l: &str| {
        without_id(l, "interpreter.probe", &|x| format!("stablehlo.optimization_barrier {x}"))
            .or_else(|| without_id(l, "check.expect_serialized_eq", &|x| format!("check.expect_eq {x}, {x}")))
            .unwrap_or_else(|| l.to_string())
    };
    let kept = part.lines().filter(|l| !l.trim_start().starts_with("interpreter.print"));
    kept.map(|l| line(l) + "\n").collect()
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

fn one(program: &Program, f: &Func, stem: &str) -> Result<Case> {
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

    let (op, dtype) = subject(f, &computed, stem);
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
    Ok(Case::Runs(Box::new(Converted { program: print(&p), inputs, expected, op, dtype })))
}

/// What a test is of: the op that the file is called after, else the last one that computes something. Its element type is
/// that of its first operand.
fn subject(f: &Func, ops: &[&Op], stem: &str) -> (String, String) {
    const GLUE: [&str; 5] = ["reshape", "broadcast_in_dim", "convert", "constant", "call"];
    let short = |op: &Op| {
        let name = match &op.kind {
            OpKind::Composite { name, .. } => name.clone(),
            k => op_name(k),
        };
        name.rsplit('.').next().unwrap_or_default().to_string()
    };
    let named = |op: &&&Op| stem.rsplit('.').next().is_some_and(|s| s.starts_with(&short(op)));
    let telling = |op: &&&Op| !GLUE.contains(&short(op).as_str());
    let longest = ops.iter().filter(named).max_by_key(|op| short(op).len());
    let op = longest.or_else(|| ops.iter().rfind(telling)).or_else(|| ops.last());
    let Some(op) = op else { return ("constant".into(), String::new()) };
    let dtype = op.operands.first().or(op.results.first()).map(|v| match f.ty(*v) {
        Type::Tensor(t) if t.quant.is_some() => "quantized".into(),
        Type::Tensor(t) => t.dtype.name().to_string(),
        _ => String::new(),
    });
    (short(op), dtype.unwrap_or_default())
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
        Some("expect_close") => json!({
            "kind": "close",
            "ulp": number("max_ulp_difference", 3.0) as u64,
            "least": number("min_ulp_difference", 0.0) as u64,
        }),
        other => bail!("`check.{}` is not known", other.unwrap_or_default()),
    })
}
