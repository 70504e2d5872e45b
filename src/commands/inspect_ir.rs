//! `zmlc inspect-ir`: the IR after each pass, as text that `zmlc build --from` resumes.

use crate::{
    args::InspectIr,
    artifact, bind,
    failure::Failure,
    front,
    model::Model,
    pipeline::{self, Options},
    printer::Printer,
    targets::{self, Selected},
    weights,
};
use melior::ir::Module;
use serde_json::json;
use similar::TextDiff;
use std::fmt::Write;
use zmlc_passes::{context, ir, target::Binary};

/// A stage's name and text.
type Stage = (&'static str, String);

pub fn run(args: &InspectIr, printer: Printer) -> Result<(), Failure> {
    let model = Model::read(&args.model)?;
    let selected = targets::select(&args.target, Some(&model))?.swap_remove(0);
    if args.list {
        let stages = pipeline::stages(&selected);
        let mut text = String::new();
        for (name, about) in &stages {
            let _ = writeln!(text, "{name:<20} {about}");
        }
        let list: Vec<_> = stages.iter().map(|(name, about)| json!({"pass": name, "about": about})).collect();
        printer.list(&text, &list);
        return Ok(());
    }
    let names: Vec<&str> = pipeline::stages(&selected).iter().map(|s| s.0).collect();
    if let Some(p) = &args.pass
        && !names.contains(&p.as_str())
    {
        return Err(Failure::Usage(format!(
            "there is no pass `{p}` for {}; the passes are {}",
            selected.id(),
            names.join(", ")
        )));
    }
    let all = stages(args, &model, &selected, printer)?;
    if let Some(k) = &args.kernel
        && !all.iter().any(|(_, text)| text.contains(&format!("@{k} ")) || text.contains(&format!("@{k}(")))
    {
        return Err(Failure::Usage(format!("there is no kernel `{k}`; `zmlc inspect` lists them")));
    }
    let wanted = |i: usize| match &args.pass {
        Some(p) => all[i].0 == p.as_str(),
        None => args.all || args.dump_to.is_some() || args.diff || i + 1 == all.len(),
    };
    let several = args.all || args.diff;
    let (mut text, mut list) = (String::new(), vec![]);
    for i in (0..all.len()).filter(|i| wanted(*i)) {
        let (name, ir) = &all[i];
        let shown = if args.diff { diff(i.checked_sub(1).map(|p| &all[p]), &all[i]) } else { ir.clone() };
        match &args.dump_to {
            Some(folder) => {
                let path = folder.join(format!("{i:02}.{name}.{}", extension(name, &selected)));
                artifact::write_file(&path, resumable(name, &shown).as_bytes())?;
                printer.note(&path.display().to_string());
                list.push(json!({"pass": name, "file": path}));
                continue;
            }
            None if several => {
                let _ = writeln!(text, "// ---- after {name} ----\n{shown}");
            }
            None => text.push_str(&resumable(name, &shown)),
        }
        list.push(json!({"pass": name, "text": resumable(name, &shown)}));
    }
    printer.list(&text, &list);
    Ok(())
}

/// Every stage up to the one asked for.
fn stages(args: &InspectIr, model: &Model, selected: &Selected, printer: Printer) -> Result<Vec<Stage>, Failure> {
    let without: Vec<&str> = args.without.iter().map(String::as_str).collect();
    let options = Options { without: &without, ..Options::default() };
    let until = |name: &str| args.pass.as_deref() == Some(name);
    let files = weights::open(model)?;
    let mut all: Vec<Stage> = vec![];

    let (loaded, warnings) = front::load(model)?;
    printer.diagnostics(&warnings);
    let bound = bind::bind(model, &loaded, &files)?;
    printer.diagnostics(&bound.warnings);
    let context = context::context();
    let mut module = front::legalize(&context, model, &loaded, &bound)?;
    all.push((pipeline::LEGALIZE, show(&module, args.kernel.as_deref())));
    if until(pipeline::LEGALIZE) {
        return Ok(all);
    }
    let mut observe = |name: &'static str, m: &Module| all.push((name, show(m, args.kernel.as_deref())));
    pipeline::simplify(&context, &mut module, options, Some(&mut observe))?;
    if pipeline::common().iter().any(|p| until(p.name())) {
        return Ok(all);
    }
    let text = context::print(&module);
    let mut observe = |name: &'static str, m: &Module| all.push((name, show(m, args.kernel.as_deref())));
    let binaries = |_: &Module, b: Vec<Binary>| disassembly(&b, selected, args.kernel.as_deref());
    let until = args.pass.as_deref().filter(|p| *p != pipeline::SERIALIZE);
    let (text, _) = pipeline::lower(&text, selected, Options { until, ..options }, Some(&mut observe), binaries)?;
    if until.is_none() {
        all.push((pipeline::SERIALIZE, text));
    }
    Ok(all)
}

/// With the stage that left the IR, which `build --from` holds against what it is told.
fn resumable(stage: &str, text: &str) -> String {
    if stage == pipeline::SERIALIZE { text.into() } else { format!("{}{stage}\n{text}", pipeline::STAGE_MARK) }
}

fn show(module: &Module, kernel: Option<&str>) -> String {
    match kernel.and_then(|k| ir::find(ir::body(module), k)) {
        Some(op) => format!("{op}\n"),
        None => context::print(module),
    }
}
fn disassembly(binaries: &[Binary], selected: &Selected, kernel: Option<&str>) -> Result<String, Failure> {
    let mut text = String::new();
    let mut seen: Vec<&[u8]> = vec![];
    for b in binaries.iter().filter(|b| kernel.is_none_or(|k| b.kernel == k)) {
        if !seen.contains(&b.bytes.as_slice()) {
            seen.push(&b.bytes);
            text.push_str(&selected.target.disassemble(&b.bytes, &selected.spec)?);
            text.push('\n');
        }
    }
    Ok(text)
}
fn diff(before: Option<&Stage>, after: &Stage) -> String {
    let empty = ("nothing", String::new());
    let before = before.unwrap_or(&empty);
    TextDiff::from_lines(&before.1, &after.1).unified_diff().header(before.0, after.0).to_string()
}
fn extension(stage: &str, selected: &Selected) -> &'static str {
    match (stage, selected.target.name()) {
        (pipeline::SERIALIZE, "cuda") => "ptx",
        (pipeline::SERIALIZE, "vulkan") => "spvasm",
        (pipeline::SERIALIZE, _) => "s",
        _ => "mlir",
    }
}
