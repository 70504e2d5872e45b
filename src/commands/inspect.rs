//! `zmlc inspect ARTIFACT`: what is in it.

use crate::{args::Inspect, codes, failure::Failure, model::Model, printer::Printer};
use serde_json::json;
use std::{collections::BTreeSet, fmt::Write, path::Path};
use zml_format::{
    Argument, Artifact, BufferKind, Entry, Manifest, Program, Step, Tensor, WeightSource, sizes, symbolic,
};
use zmlc_import::{diag::Diagnostic, tree::Span};

pub fn run(args: &Inspect, printer: Printer) -> Result<(), Failure> {
    let artifact = Artifact::open(&args.artifact).map_err(|e| {
        let mut d = Diagnostic::error(codes::ARTIFACT, Span::NONE, e.to_string());
        d.file = args.artifact.display().to_string();
        Failure::from(d)
    })?;
    let m = &artifact.manifest;
    let mut json = json!({"digest": artifact.digest(), "manifest": m});
    let mut text = format!("{} {}, by {}\nsha256 {}\n", m.model.name, m.model.version, m.producer, artifact.digest());
    let differ = args.against.as_deref().map(|model| against(m, model)).transpose()?;
    sources(m, differ.as_deref(), &mut text);
    entries(m, &mut text);
    weights(m, &mut text);
    for p in &m.profiles {
        let mut blobs: Vec<usize> = p.kernels.iter().map(|k| k.blob).collect();
        blobs.sort_unstable();
        blobs.dedup();
        let bytes: u64 = blobs.iter().map(|b| m.blobs[*b].bytes).sum();
        let _ = writeln!(text, "\n{}:{}  {} kernels, {bytes} bytes of code", p.target, p.name, p.kernels.len());
        let r = &p.requires;
        let mut needs = vec![r.driver(&p.target), r.arch.clone(), r.features.join(" ")];
        needs.retain(|n| !n.is_empty());
        let _ = writeln!(text, "  needs {}", needs.join(", "));
        if let Some(n) = &p.native {
            let bytes: u64 = n.blobs.iter().collect::<BTreeSet<_>>().iter().map(|b| m.blobs[**b].bytes).sum();
            let (arch, driver) = (&n.requires.arch, n.requires.driver(&p.target));
            let _ = writeln!(text, "  cubin of {bytes} bytes for {arch} by {}, needs {driver}", n.producer);
        }
        for (entry, program) in m.entries.iter().zip(&p.programs) {
            let c = Counts::of(&program.steps);
            let calls = if c.calls > 0 { format!("{} library calls, ", c.calls) } else { String::new() };
            let _ = writeln!(
                text,
                "  {}: {} dispatches, {calls}{} barriers, {} copies ({} bytes), arena {} bytes",
                entry.id(),
                c.dispatches,
                c.barriers,
                c.copies,
                c.copied,
                program.arena_bytes
            );
            if args.steps {
                steps(p, program, &program.steps, 4, &mut text);
            }
        }
        for k in &p.kernels {
            let _ =
                writeln!(text, "    {:<32} block {:?}, {} buffers  {}", k.symbol, k.block, k.buffers.len(), k.label);
        }
    }
    if let Some(list) = differ {
        json["differ"] = list.into();
    }
    printer.result(&text, &json);
    Ok(())
}

/// Which files of a model.toml are not those that the artifact was built from.
fn against(m: &Manifest, model: &Path) -> Result<Vec<String>, Failure> {
    let Some(old) = &m.sources else {
        let d = Diagnostic::error(codes::ARTIFACT, Span::NONE, "the artifact does not say what it was built from");
        return Err(d.hint("build it again with this zmlc, or compare with `zmlc verify --rebuild`").into());
    };
    Ok(old.differences(&crate::sources::read(&Model::read(model)?)?))
}
fn sources(m: &Manifest, differ: Option<&[String]>, text: &mut String) {
    let Some(s) = &m.sources else { return };
    let _ = writeln!(text, "\nbuilt from, by sha256\n  {}  model.toml", s.model);
    for p in &s.programs {
        let _ = writeln!(text, "  {}  program of entry {}", p.sha256, p.name);
    }
    for w in &s.weights {
        let _ = writeln!(text, "  {}  header of {}", w.sha256, w.name);
    }
    match differ {
        Some([]) if s.weights.is_empty() => text.push_str("  all of them are as they were\n"),
        Some([]) => {
            text.push_str(
                "  all of them are as they were; of weights that says names, types and shapes, their values are\n",
            );
            text.push_str("  compared by `zmlc verify --rebuild`\n");
        }
        Some(list) => list.iter().for_each(|d| text.push_str(&format!("  {d}\n"))),
        None => {}
    }
}

/// `tensor<batchx784xf32>`, over all specialisations.
fn form(entries: &[&Entry], tensors: &[&Tensor]) -> String {
    let shape: String = symbolic(entries, tensors).iter().map(|d| format!("{d}x")).collect();
    format!("tensor<{shape}{}>", tensors[0].dtype)
}
fn entries(m: &Manifest, text: &mut String) {
    for group in m.by_name() {
        let e = group[0];
        let _ = writeln!(text, "\nentry {}", e.name);
        if !e.dims.is_empty() {
            let built: Vec<String> = group.iter().map(|e| sizes(&e.dims)).collect();
            let _ = writeln!(text, "  built for {}", built.join("; "));
        }
        for (i, a) in e.arguments.iter().enumerate() {
            let role = match a {
                Argument::Input { donated: true, .. } => "input, donated",
                Argument::Input { .. } => "input",
                Argument::Weight { .. } => "weight",
                Argument::State { .. } => "state",
            };
            let all: Vec<&Tensor> = group.iter().map(|e| m.argument(&e.arguments[i])).collect();
            let _ = writeln!(text, "  argument {i:>3}  {:<40} {:<28} {role}", all[0].name, form(&group, &all));
        }
        for (i, r) in e.results.iter().enumerate() {
            let role = if r.state.is_some() { "state" } else { "output" };
            let all: Vec<&Tensor> = group.iter().map(|e| &e.results[i].tensor).collect();
            let _ = writeln!(text, "  result   {i:>3}  {:<40} {:<28} {role}", r.tensor.name, form(&group, &all));
        }
    }
}
fn weights(m: &Manifest, text: &mut String) {
    let total: u64 = m.weights.iter().map(|w| w.tensor.bytes()).sum();
    let inside = m.weights.iter().filter(|w| matches!(w.source, WeightSource::Embedded { .. })).count();
    let _ = writeln!(text, "\n{} weights, {total} bytes, {inside} of them in the artifact", m.weights.len());
}

#[derive(Default)]
struct Counts {
    dispatches: usize,
    calls: usize,
    barriers: usize,
    copies: usize,
    copied: u64,
}
impl Counts {
    fn of(steps: &[Step]) -> Self {
        let mut c = Counts::default();
        c.add(steps);
        c
    }
    fn add(&mut self, steps: &[Step]) {
        for s in steps {
            match s {
                Step::Dispatch(_) => self.dispatches += 1,
                Step::Library(_) => self.calls += 1,
                Step::Barrier => self.barriers += 1,
                Step::Copy { to, .. } => {
                    self.copies += 1;
                    self.copied += to.bytes;
                }
                Step::Fill { .. } => {}
                Step::While { condition, body, .. } => {
                    self.add(condition);
                    self.add(body);
                }
                Step::If { then, otherwise, .. } => {
                    self.add(then);
                    self.add(otherwise);
                }
                Step::Case { branches, .. } => branches.iter().for_each(|b| self.add(b)),
            }
        }
    }
}

fn steps(p: &zml_format::Profile, program: &Program, list: &[Step], indent: usize, text: &mut String) {
    let pad = " ".repeat(indent);
    let slice = |s: &zml_format::Slice| {
        let kind = match program.buffers[s.buffer].kind {
            BufferKind::Argument(i) => format!("argument {i}"),
            BufferKind::Result(i) => format!("result {i}"),
            BufferKind::Constant(_) => "constant".into(),
            BufferKind::Arena(at) => format!("arena {at}"),
        };
        format!("{kind}[{}..{}]", s.offset, s.offset + s.bytes)
    };
    for s in list {
        let _ = match s {
            Step::Dispatch(d) => {
                let buffers: Vec<String> = d.buffers.iter().map(slice).collect();
                writeln!(text, "{pad}{} grid {:?} {}", p.kernels[d.kernel].symbol, d.grid, buffers.join(", "))
            }
            Step::Library(g) => {
                let (a, b, to) = (slice(&g.a.slice), slice(&g.b.slice), slice(&g.to.slice));
                let (batch, m, n, k) = (g.batch, g.m, g.n, g.k);
                let kind = if g.tf32 { "tf32" } else { g.a.dtype.name() };
                writeln!(text, "{pad}library call {batch} x {m} x {n} x {k} {kind} {a}, {b}, {to}")
            }
            Step::Barrier => writeln!(text, "{pad}barrier"),
            Step::Copy { from, to } => writeln!(text, "{pad}copy {} to {}", slice(from), slice(to)),
            Step::Fill { to, byte } => writeln!(text, "{pad}fill {} with {byte}", slice(to)),
            Step::While { turns: Some(n), body, .. } => {
                let _ = writeln!(text, "{pad}repeat {n} times");
                steps(p, program, body, indent + 2, text);
                Ok(())
            }
            Step::While { condition, predicate, body, turns: None } => {
                let _ = writeln!(text, "{pad}while {}", slice(predicate));
                steps(p, program, condition, indent + 2, text);
                let _ = writeln!(text, "{pad}do");
                steps(p, program, body, indent + 2, text);
                Ok(())
            }
            Step::If { predicate, then, otherwise } => {
                let _ = writeln!(text, "{pad}if {}", slice(predicate));
                steps(p, program, then, indent + 2, text);
                let _ = writeln!(text, "{pad}else");
                steps(p, program, otherwise, indent + 2, text);
                Ok(())
            }
            Step::Case { index, branches } => {
                for (i, b) in branches.iter().enumerate() {
                    let _ = writeln!(text, "{pad}case {} is {i}", slice(index));
                    steps(p, program, b, indent + 2, text);
                }
                Ok(())
            }
        };
    }
}
