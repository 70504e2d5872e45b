//! `zmlc build`: model.toml to NAME.zml.

use crate::{
    args::Build,
    artifact::{self, Lowered, ptxas_failure},
    bind, codes,
    failure::Failure,
    front,
    metadata::{self, WeightInfo},
    model::Model,
    pipeline::{self, Fusion, Options},
    printer::Printer,
    targets::{self, Selected},
    weights::{self, WeightFile},
};
use melior::ir::Module;
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    time::Instant,
};
use zmlc_import::{
    diag::{Diagnostic, Diagnostics},
    tree::Span,
};
use zmlc_passes::{context, pass::Times};
use zmlc_target_cuda::Ptxas;

pub fn run(args: &Build, printer: Printer) -> Result<(), Failure> {
    let begin = Instant::now();
    let model = args.model.as_deref().map(Model::read).transpose()?;
    let files = model.as_ref().map(weights::open).transpose()?.unwrap_or_default();
    let bar = printer.progress();
    let without: Vec<&str> = args.without.iter().map(String::as_str).collect();
    let fusion = if args.unfused { Fusion::Off } else { Fusion::On };
    let mut options = Options { without: &without, fusion, ..Options::default() };

    let ptxas = args.ptxas.as_deref().map(Ptxas::open).transpose().map_err(|e| ptxas_failure(&e))?;

    bar.set_message("reading");
    let source = match &args.from {
        Some(from) => resume(&from[0], Path::new(&from[1]), args, model.as_ref(), &mut options)?,
        None => {
            let model = model.as_ref().expect("required without --from");
            let selected = select(args, Some(model))?;
            let (text, times) = simplified(model, &files, options, printer)?;
            Start { text, selected, times, after: None }
        }
    };
    for s in &source.selected {
        printer.note(&format!("{:<18} {}", s.id(), s.spec.covers));
    }
    let device = Options { after: source.after, ..options };
    bar.set_message(format!("compiling for {}", ids(&source.selected)));
    let results = pipeline::each(&source.selected, |s| {
        let lowered = pipeline::lower(&source.text, s, device, None, |m, b| artifact::collect(m, &b, s));
        let (mut lowered, mut times) =
            lowered.map_err(|e| with_reproducer(e, &source.text, s, device, &args.output))?;
        if let Some(ptxas) = &ptxas {
            let begin = Instant::now();
            lowered.assemble(ptxas, &s.spec)?;
            times.push(("ptxas", begin.elapsed()));
        }
        Ok((lowered, times))
    });
    bar.finish_and_clear();
    let (lowered, times) = settle(results, &source.selected)?;
    if ptxas.is_some() && lowered.iter().all(|l| l.profile.native.is_none()) {
        printer.note("--ptxas has nothing to do: none of these is a CUDA profile of one architecture");
    }

    let name = lowered[0].model.name.clone();
    let external: Vec<WeightInfo> = lowered[0].weights.iter().filter(|w| !w.embed).cloned().collect();
    let bytes = artifact::assemble(lowered, |w| embedded(w, &files))?;
    let path = args.output.join(format!("{name}.zml"));
    place_weights(&external, &files, &args.output)?;
    artifact::write_file(&path, &bytes)?;

    if args.timings {
        print_times(&source.times, &times, &source.selected, printer);
    }
    printer.note(&format!(
        "{}: {} bytes, {} in {:.2} s",
        path.display(),
        bytes.len(),
        ids(&source.selected),
        begin.elapsed().as_secs_f64()
    ));
    if printer.format == crate::printer::MessageFormat::Json {
        let targets: Vec<String> = source.selected.iter().map(Selected::id).collect();
        printer.data(&format!("{}\n", json!({"artifact": path, "bytes": bytes.len(), "targets": targets})));
    }
    Ok(())
}

/// Where the passes of the device profiles begin.
struct Start<'a> {
    text: String,
    selected: Vec<Selected>,
    times: Times,
    after: Option<&'a str>,
}

/// Reads, legalizes and simplifies a model; the text goes to every device profile.
pub fn simplified(
    model: &Model,
    files: &[WeightFile],
    options: Options,
    printer: Printer,
) -> Result<(String, Times), Failure> {
    let begin = Instant::now();
    let (loaded, warnings) = front::load(model)?;
    printer.diagnostics(&warnings);
    let bound = bind::bind(model, &loaded, files)?;
    printer.diagnostics(&bound.warnings);
    let read = begin.elapsed();
    let context = context::context();
    let begin = Instant::now();
    let mut module = front::legalize(&context, model, &loaded, &bound)?;
    let mut times = vec![("read", read), (pipeline::LEGALIZE, begin.elapsed())];
    times.extend(pipeline::simplify(&context, &mut module, options, None)?);
    Ok((context::print(&module), times))
}

fn select(args: &Build, model: Option<&Model>) -> Result<Vec<Selected>, Failure> {
    let listed: Vec<&str> = model.map(|m| m.file.targets.keys().map(String::as_str).collect()).unwrap_or_default();
    let all = || targets::all().iter().map(|t| t.name()).collect::<Vec<_>>().join(",");
    let list = match &args.target {
        Some(t) => t.clone(),
        None if !listed.is_empty() => listed.join(","),
        None => all(),
    };
    targets::select(&list, model)
}

/// IR that inspect-ir printed after `pass`: the rest of the common passes runs here, what follows runs per device.
fn resume<'a>(
    pass: &'a str,
    path: &Path,
    args: &Build,
    model: Option<&Model>,
    options: &mut Options<'a>,
) -> Result<Start<'a>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| Failure::file(path, "read", &e))?;
    if let Some(stage) = text.lines().next().and_then(|l| l.strip_prefix(pipeline::STAGE_MARK))
        && stage != pass
    {
        return Err(Failure::Usage(format!("{} is IR from after {stage}, not after {pass}", path.display())));
    }
    let context = context::context();
    let mut module = context::parse(&context, &text)?;
    if metadata::model(&module).is_none() || metadata::weights(&module).is_none() {
        let d = Diagnostic::error(codes::IR, Span::NONE, format!("{} is not IR of this pipeline", path.display()));
        return Err(d.hint("--from takes what `zmlc inspect-ir --pass PASS` printed").into());
    }
    if let Some(id) = metadata::profile(&module) {
        let selected = targets::of_id(&id)?;
        if args.target.as_ref().is_some_and(|t| *t != id && *t != selected.target.name()) {
            return Err(Failure::Usage(format!("{} is IR for {id}; --target says otherwise", path.display())));
        }
        let passes = pipeline::device(&selected, Fusion::On);
        if !passes.iter().any(|p| p.name() == pass) {
            let names: Vec<&str> = passes.iter().map(|p| p.name()).collect();
            return Err(Failure::Usage(format!("for {id} --from takes one of {}", names.join(", "))));
        }
        return Ok(Start { text, selected: vec![selected], times: vec![], after: Some(pass) });
    }
    options.after = Some(pass);
    let times = pipeline::simplify(&context, &mut module, *options, None)?;
    Ok(Start { text: context::print(&module), selected: select(args, model)?, times, after: None })
}

/// All results, or everything that went wrong, each with its profile's name.
#[allow(clippy::type_complexity)]
fn settle(
    results: Vec<Result<(Lowered, Times), Failure>>,
    selected: &[Selected],
) -> Result<(Vec<Lowered>, Vec<Times>), Failure> {
    let (mut lowered, mut times, mut found) = (vec![], vec![], Diagnostics::default());
    for (result, s) in results.into_iter().zip(selected) {
        match result {
            Ok((l, t)) => {
                lowered.push(l);
                times.push(t);
            }
            Err(Failure::Input(d)) => found.list.extend(d.list.into_iter().map(|mut d| {
                d.message = format!("{}: {}", s.id(), d.message);
                d
            })),
            Err(Failure::Bug { message, reproducer }) => {
                return Err(Failure::Bug { message: format!("{}: {message}", s.id()), reproducer });
            }
            Err(f) => return Err(f),
        }
    }
    if found.has_errors() { Err(Failure::Input(found)) } else { Ok((lowered, times)) }
}

/// On a bug of ours: runs again up to the pass that failed and writes the IR before it.
fn with_reproducer(e: Failure, text: &str, selected: &Selected, options: Options, output: &Path) -> Failure {
    let Failure::Bug { message, reproducer: None } = e else { return e };
    let mut last = text.to_string();
    let mut keep = |_: &'static str, m: &Module| last = context::print(m);
    let _ = pipeline::lower(text, selected, options, Some(&mut keep), |_, _| Ok(()));
    let path = output.join(format!("zmlc-bug-{}.mlir", &weights::sha256(last.as_bytes())[..12]));
    let reproducer = artifact::write_file(&path, last.as_bytes()).ok().map(|()| path);
    Failure::Bug { message, reproducer }
}

fn embedded(w: &WeightInfo, files: &[WeightFile]) -> Result<Vec<u8>, Failure> {
    let found = files.iter().find_map(|f| f.find(&w.key)).map(|(_, _, bytes)| bytes);
    match found {
        Some(bytes) if weights::sha256(bytes) == w.sha256 => Ok(bytes.to_vec()),
        Some(_) => Err(Failure::input(
            codes::WEIGHTS,
            format!("weight `{}` in {} is not the one that the IR was made with", w.key, w.file),
        )),
        None => Err(Diagnostic::error(
            codes::WEIGHTS,
            Span::NONE,
            format!("weight `{}` is to be embedded but is not there", w.key),
        )
        .hint("give model.toml beside --from")
        .into()),
    }
}

/// Puts the files of weights that stay outside beside the artifact: a hard link where the file system can, else a copy.
fn place_weights(external: &[WeightInfo], files: &[WeightFile], output: &Path) -> Result<(), Failure> {
    let wanted = |f: &&WeightFile| external.iter().any(|w| f.path.file_name().is_some_and(|n| *n == *w.file));
    for f in files.iter().filter(wanted) {
        let to: PathBuf = output.join(f.path.file_name().expect("filtered by it"));
        let failed = |e: std::io::Error| Failure::file(&to, "write", &e);
        std::fs::create_dir_all(output).map_err(failed)?;
        if let (Ok(a), Ok(b)) = (f.path.canonicalize(), to.canonicalize())
            && (a == b || same_file(&a, &b))
        {
            continue;
        }
        let staged = tempfile::Builder::new().prefix(".zmlc-").tempdir_in(output).map_err(failed)?;
        let part = staged.path().join("weights");
        if std::fs::hard_link(&f.path, &part).is_err() {
            std::fs::copy(&f.path, &part).map_err(failed)?;
        }
        std::fs::rename(&part, &to).map_err(failed)?;
    }
    Ok(())
}
fn same_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    matches!((a.metadata(), b.metadata()), (Ok(a), Ok(b)) if a.ino() == b.ino() && a.dev() == b.dev())
}

fn ids(selected: &[Selected]) -> String {
    selected.iter().map(Selected::id).collect::<Vec<_>>().join(", ")
}
fn print_times(common: &Times, device: &[Times], selected: &[Selected], printer: Printer) {
    let ms = |d: &std::time::Duration| d.as_secs_f64() * 1e3;
    for (name, d) in common {
        printer.note(&format!("{name:<20} {:>9.1} ms", ms(d)));
    }
    for (times, s) in device.iter().zip(selected) {
        printer.note(&s.id());
        for (name, d) in times {
            printer.note(&format!("  {name:<18} {:>9.1} ms", ms(d)));
        }
    }
}
