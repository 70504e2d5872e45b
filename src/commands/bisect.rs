//! `zmlc bisect`: the first kernel, element and source op at which an artifact is wrong. How: `crate::bisect`.

use crate::{
    args::Bisect,
    bisect::{self, Difference, Dump, Fused, Probe, Recipe, Source, Tolerance, difference},
    codes,
    failure::Failure,
    model::Model,
    printer::Printer,
    targets, weights,
    weights::WeightFile,
};
use serde_json::json;
use std::path::{Path, PathBuf};
use zml_format::{Argument, Artifact, Dispatch, Manifest, Profile};
use zml_runtime::{Device, DeviceRequest, Session, WeightPlaces, cli, specialisations, tensor::HostTensor};
use zmlc_import::{
    diag::{Diagnostic, Diagnostics},
    interp,
    tree::Span,
};
use zmlc_passes::{
    context,
    evaluate::{Called, Tensor},
    ir,
};

pub fn run(args: &Bisect, printer: Printer) -> Result<(), Failure> {
    // What was kept of an earlier run may be what is wrong.
    zml_runtime::use_cache(None);
    let path = args.artifact.display().to_string();
    let artifact = Artifact::open(&args.artifact)
        .map_err(|e| Failure::input(codes::ARTIFACT, format!("cannot read {path}: {e}")))?;
    let model = Model::read(&model_file(args)?)?;
    let manifest = &artifact.manifest;
    let named = specialisations(manifest, args.entry.as_deref()).map_err(|e| refused(&e))?;
    let entry = cli::choose(&named, &args.input).map_err(|e| refused(&e))?;
    let e = manifest.entries.iter().position(|x| x.id() == entry.id()).expect("it was found there");
    let inputs = cli::inputs(entry, &args.input).map_err(|e| refused(&e))?;

    let (device, profile) = match &args.target {
        Some(t) => (None, named_profile(manifest, t)?),
        None => {
            let d = Device::open(args.device, &artifact).map_err(|e| refused(&e))?;
            let profile = d.profile();
            (Some(d), profile)
        }
    };
    let p = &manifest.profiles[profile];
    let selected = targets::select(&format!("{}:{}", p.target, p.name), Some(&model))?.swap_remove(0);
    let files = weights::open(&model)?;
    let bar = printer.progress();
    bar.set_message("compiling");
    let recipe = Recipe::new(&model, &files, &selected)?;
    recipe.check(&artifact, profile, &path)?;
    let given = arguments(manifest, e, &inputs, &recipe, &files)?;
    let tolerance = Tolerance { relative: args.rtol, absolute: args.atol };
    let work = Work { artifact: &artifact, recipe: &recipe, profile, e, given: &given, tolerance };

    let Some(device) = device else {
        let folder = args.dump.clone().expect("clap asks for it beside --target");
        let count = work.dump(&folder)?;
        printer.result(
            &format!("{}: {count} kernels of {}:{}\n", folder.display(), p.target, p.name),
            &json!({"dump": folder, "kernels": count}),
        );
        return Ok(());
    };
    bar.set_message("running each dispatch");
    let (dispatches, reference) = work.kernels(&device)?;
    bar.set_message("interpreting");
    let missing = work.passes(&reference)?;
    bar.set_message("running the whole entry");
    work.whole(&device, &reference)?;
    bar.finish_and_clear();
    let note = missing.map_or(String::new(), |why| format!("; the passes were not checked: {why}"));
    printer.result(
        &format!("{path}: all {dispatches} dispatches are right on {device}{note}\n"),
        &json!({"artifact": path, "dispatches": dispatches, "device": device.to_string()}),
    );
    Ok(())
}

fn refused(e: &zml_runtime::Error) -> Failure {
    Failure::input(codes::RUNTIME, e.to_string())
}

/// What --model names, or model.toml beside the artifact.
fn model_file(args: &Bisect) -> Result<PathBuf, Failure> {
    if let Some(m) = &args.model {
        return Ok(m.clone());
    }
    let beside = args.artifact.parent().unwrap_or(Path::new("")).join("model.toml");
    if beside.is_file() {
        return Ok(beside);
    }
    Err(Failure::Usage(format!("there is no {}: name the artifact's model.toml with --model", beside.display())))
}

fn named_profile(m: &Manifest, target: &str) -> Result<usize, Failure> {
    let fits = |p: &Profile| target == p.target || target == format!("{}:{}", p.target, p.name);
    m.profiles.iter().position(fits).ok_or_else(|| {
        let all: Vec<_> = m.profiles.iter().map(|p| format!("{}:{}", p.target, p.name)).collect();
        Failure::Usage(format!("the artifact was not built for {target}, only for {}", all.join(", ")))
    })
}

/// The entry's arguments: inputs as given, weights from their files, states as zeros.
fn arguments(
    m: &Manifest,
    e: usize,
    inputs: &[HostTensor],
    recipe: &Recipe,
    files: &[WeightFile],
) -> Result<Vec<interp::Tensor>, Failure> {
    let mut next = inputs.iter();
    let one = |a: &Argument| {
        let t = m.argument(a);
        let bytes = match a {
            Argument::Input { .. } => next.next().expect("one for each input").bytes.clone(),
            Argument::State { .. } => vec![0; t.bytes() as usize],
            Argument::Weight { weight } => {
                let key = &recipe.bound.weights[*weight].key;
                let found = files.iter().find_map(|f| f.find(key)).map(|(_, _, bytes)| bytes.to_vec());
                found.ok_or_else(|| Failure::input(codes::WEIGHTS, format!("no weights file has `{key}`")))?
            }
        };
        interp::Tensor::new(t.dtype, &t.shape, bytes).map_err(|e| Failure::bug(e.to_string()))
    };
    m.entries[e].arguments.iter().map(one).collect()
}

struct Work<'a> {
    artifact: &'a Artifact,
    recipe: &'a Recipe,
    profile: usize,
    /// Number of the entry.
    e: usize,
    given: &'a [interp::Tensor],
    tolerance: Tolerance,
}

impl Work<'_> {
    fn profile(&self) -> &Profile {
        &self.artifact.manifest.profiles[self.profile]
    }
    fn entry(&self) -> &zml_format::Entry {
        &self.artifact.manifest.entries[self.e]
    }

    fn dump(&self, folder: &Path) -> Result<usize, Failure> {
        let c = context::context();
        let module = context::parse(&c, &self.recipe.fused().text)?;
        let fused = Fused::new(&module, self.recipe, self.profile(), self.e)?;
        let mut dump = Dump::new(folder.to_path_buf(), self.artifact, self.profile());
        fused.run(self.given, &mut |at, called| dump.write(&fused.pairs[at], called))?;
        Ok(dump.count())
    }

    /// Every dispatch alone on the device: how many there were, and the entry's results by the evaluator.
    fn kernels(&self, device: &Device) -> Result<(usize, Vec<Tensor>), Failure> {
        let c = context::context();
        let module = context::parse(&c, &self.recipe.fused().text)?;
        let fused = Fused::new(&module, self.recipe, self.profile(), self.e)?;
        let request = DeviceRequest::Named(device.info().backend, Some(device.info().index));
        let mut probe = Probe::new(self.artifact, self.profile, request, &fused.pairs).map_err(|e| refused(&e))?;
        let mut count = 0;
        let results = fused.run(self.given, &mut |at, called| {
            let inputs: Vec<Vec<u8>> = called.inputs.iter().map(|t| t.to_bytes()).collect();
            let found = probe.run(at, &inputs, called.results.len()).map_err(|e| refused(&e))?;
            for (r, (bytes, want)) in found.iter().zip(called.results).enumerate() {
                let got = Tensor { words: want.kind.load(bytes), ..(**want).clone() };
                if let Some(d) = difference(&got, want, self.tolerance) {
                    return Err(self.wrong_kernel(count, &fused.pairs[at].dispatch, called, r, &d, device));
                }
            }
            count += 1;
            Ok(())
        })?;
        Ok((count, results))
    }
    fn wrong_kernel(
        &self,
        n: usize,
        dispatch: &Dispatch,
        called: &Called,
        r: usize,
        d: &Difference,
        device: &Device,
    ) -> Failure {
        let sources = &self.recipe.sources[self.e];
        let end = ir::ops(ir::block(called.function, 0)).pop().expect("a return");
        let op = ir::def(ir::operand(end, r));
        let location = op.map(|o| ir::location(o).to_string()).unwrap_or_default();
        let inside = ir::ops(ir::block(called.function, 0));
        let mut all: Vec<&Source> = inside.iter().flat_map(|o| sources.of(&ir::location(*o).to_string())).collect();
        all.sort_by_key(|s| (s.span.start, s.span.end));
        all.dedup_by_key(|s| s.span);
        let kernel = ir::str_attr(called.function, "sym_name").unwrap_or_default();
        let hero = ir::str_attr(called.function, "zml.hero").unwrap_or_default();
        let message = format!("kernel `{kernel}` is wrong on {device}: dispatch {n} of entry `{}`", self.entry().id());
        let names: Vec<_> = all.iter().map(|s| s.name.as_str()).collect();
        let made = if self.recipe.made(self.artifact, self.profile, dispatch.kernel) {
            ""
        } else {
            "; its code in the artifact is not what this zmlc makes of the model"
        };
        let hint = format!("the kernel is {} (emitter {hero}), given right inputs{made}", names.join(", "));
        self.report(message, sources.of(&location).first().copied(), r, d, &hint)
    }

    /// Holds what the passes made of the program against the interpreter; why not, if the interpreter cannot run it.
    fn passes(&self, reference: &[Tensor]) -> Result<Option<String>, Failure> {
        let loaded = &self.recipe.loaded[self.e];
        let want = match interp::eval(&loaded.program, &loaded.function, self.given.to_vec()) {
            Ok(want) => want,
            Err(why) => return Ok(Some(why.to_string())),
        };
        let Some((result, d)) = bisect::matches(reference, &want, self.tolerance) else { return Ok(None) };
        let Some(b) = bisect::blame(self.recipe, self.e, self.given, &want, self.tolerance)? else {
            return Err(self.report(
                "fuse changes the program".into(),
                None,
                result,
                &d,
                "every kernel does what it says",
            ));
        };
        let (source, shown) = match &b.op {
            Some((source, d)) => (Some(*source), d),
            None => (None, &b.difference),
        };
        let message = format!("pass `{}` is wrong: it changes what the program computes", b.stage);
        Err(self.report(message, source, b.result, shown, "every kernel does what its dispatch says"))
    }

    /// The whole artifact as any program runs it.
    fn whole(&self, device: &Device, reference: &[Tensor]) -> Result<(), Failure> {
        let entry = self.entry();
        let id = entry.id();
        let run = || -> zml_runtime::Result<Vec<Vec<u8>>> {
            let beside = self.recipe.weight_folders();
            let model = zml_runtime::Model::load(self.artifact, device, &WeightPlaces::only(beside))?;
            let mut session = Session::new(&model)?;
            let inputs = entry.arguments.iter().zip(self.given).filter(|(a, _)| matches!(a, Argument::Input { .. }));
            for (i, (_, t)) in inputs.enumerate() {
                session.write(&id, i, &t.bytes)?;
            }
            session.call(&id)?;
            (0..entry.outputs().count()).map(|i| Ok(session.read(&id, i)?.to_vec())).collect()
        };
        let found = run().map_err(|e| refused(&e))?;
        for ((r, _), bytes) in entry.outputs().zip(&found) {
            let want = &reference[r];
            let got = Tensor { words: want.kind.load(bytes), ..want.clone() };
            if let Some(d) = difference(&got, want, self.tolerance) {
                let message = format!("the host program of entry `{}` is wrong on {device}", entry.id());
                return Err(self.report(
                    message,
                    None,
                    r,
                    &d,
                    "every kernel alone is right: steps, buffers or barriers",
                ));
            }
        }
        Ok(())
    }

    fn report(&self, message: String, source: Option<&Source>, r: usize, d: &Difference, hint: &str) -> Failure {
        let at: Vec<String> = d.index.iter().map(ToString::to_string).collect();
        let mut what = format!(
            "result {r} at [{}] is {} instead of {}; {} of {} elements differ",
            at.join(", "),
            d.found,
            d.expected,
            d.wrong,
            d.elements
        );
        if let Some(s) = source {
            what = format!("{}: {what}", s.name);
        }
        let span = source.map_or(Span::NONE, |s| s.span);
        let from = source.and_then(Source::exported).map_or(String::new(), |f| format!("; the op comes from {f}"));
        let mut diagnostic = Diagnostic::error(codes::BISECT, span, message).hint(format!("{hint}{from}"));
        if span == Span::NONE {
            diagnostic.message = format!("{}: {what}", diagnostic.message);
        } else {
            diagnostic = diagnostic.label(what);
        }
        Failure::Input(Diagnostics::from(vec![diagnostic]).locate(&self.recipe.loaded[self.e].source))
    }
}
