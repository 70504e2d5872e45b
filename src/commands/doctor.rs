//! `zmlc doctor`: what this machine can build for, and on which devices it can run.

use crate::{failure::Failure, pipeline, printer::Printer, targets};
use serde_json::{Value, json};
use std::{fmt::Write, path::PathBuf};
use zmlc_passes::context;

pub fn run(printer: Printer) -> Result<(), Failure> {
    let (mut text, mut list) = (String::from("build\n"), vec![]);
    for t in targets::all() {
        let selected = targets::select(t.name(), None)?.swap_remove(0);
        let verdict = try_build(&selected);
        let (mark, remark) = match &verdict {
            Ok(()) => ("ok", "a kernel compiles".to_string()),
            Err(e) => ("missing", e.clone()),
        };
        let _ = writeln!(text, "  {:<24} {mark:<8} {remark}", selected.id());
        list.push(json!({"target": selected.id(), "ok": verdict.is_ok(), "remark": remark}));
    }
    let runtime = std::env::current_exe().ok().map(|p| p.with_file_name("zml-run")).filter(|p| p.is_file());
    let at = runtime
        .as_ref()
        .map_or("not beside zmlc: package needs --runtime FILE".into(), |p: &PathBuf| p.display().to_string());
    let _ = writeln!(text, "  {:<24} {:<8} {at}", "runtime", if runtime.is_some() { "ok" } else { "missing" });

    text.push_str("run\n");
    zml_runtime::cli::report(false).lines().for_each(|l| text.push_str(&format!("  {l}\n")));
    let devices: Vec<Value> =
        zml_runtime::cli::report(true).lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
    printer.result(&text, &json!({"build": list, "runtime": runtime, "run": devices}));
    Ok(())
}

/// Compiles one kernel for a profile, which needs every tool that a build of it needs.
fn try_build(selected: &targets::Selected) -> Result<(), String> {
    const SMALL: &str = "module attributes {zml.model = {name = \"doctor\", version = \"1\"}, zml.weights = [], zml.states = []} {
  func.func @main(%x: tensor<4xf32> {zml.name = \"x\", zml.dtype = \"f32\", zml.role = \"input\"}) -> (tensor<4xf32> {zml.name = \"y\", zml.dtype = \"f32\"}) {
    %init = tensor.empty() : tensor<4xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = [\"parallel\"]} ins(%x : tensor<4xf32>) outs(%init : tensor<4xf32>) {
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %a : f32
      linalg.yield %s : f32
    } -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}";
    let text = {
        let context = context::context();
        let module = context::parse(&context, SMALL).map_err(|e| e.to_string())?;
        context::print(&module)
    };
    match pipeline::lower(&text, selected, pipeline::Options::default(), None, |_, _| Ok(())) {
        Ok(_) => Ok(()),
        Err(Failure::Input(d)) => Err(d.list.first().map(|d| d.message.clone()).unwrap_or_default()),
        Err(Failure::Usage(m) | Failure::Bug { message: m, .. }) => Err(m),
    }
}
