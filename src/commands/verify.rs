//! `zmlc verify FILE|DIR`: checks every digest of an artifact, an archive or an OCI image layout, what an artifact's
//! kernels say of themselves, and whether it comes out of its model.toml again.

use super::{build, package::failure};
use crate::{
    args::{Build, Verify},
    codes,
    failure::Failure,
    printer::{MessageFormat, Printer},
    targets,
};
use serde_json::json;
use std::path::Path;
use zml_format::{Artifact, Manifest, Profile};
use zmlc_import::{
    diag::{Diagnostic, Diagnostics},
    tree::Span,
};
use zmlc_package::PackageError;

pub fn run(args: &Verify, printer: Printer) -> Result<(), Failure> {
    let path = &args.path;
    let shown = path.display();
    let is_artifact = path.extension().is_some_and(|e| e == "zml") && !path.is_dir();
    if args.rebuild.is_some() && !is_artifact {
        return Err(Failure::Usage("--rebuild is for an artifact, NAME.zml".into()));
    }
    if path.is_dir() {
        let images = zmlc_package::check_layout(path).map_err(|e| failure(&e))?.images;
        let mut text = String::new();
        for (digest, platform, layers, bytes) in &images {
            text.push_str(&format!("{shown}: {platform} {digest}, {layers} layers, {bytes} bytes: ok\n"));
        }
        let images: Vec<_> =
            images.iter().map(|(d, p, n, b)| json!({"digest": d, "platform": p, "layers": n, "bytes": b})).collect();
        printer.result(&text, &json!({"layout": path, "images": images}));
    } else if is_artifact {
        let artifact = open(path)?;
        kernels(&artifact, &shown.to_string())?;
        let digest = artifact.digest();
        let again = args.rebuild.as_deref().map(|model| rebuild(&artifact, args, model)).transpose()?;
        let how = if again.is_some() { "ok, and built again" } else { "ok" };
        printer.result(
            &format!("{shown}: sha256:{digest}: {how}\n"),
            &json!({"artifact": path, "sha256": digest, "rebuilt": again.is_some()}),
        );
    } else {
        let files = zmlc_package::check_archive(path).map_err(|e| failure(&e))?;
        let mut text = String::new();
        for (name, digest) in &files {
            text.push_str(&format!("  {digest}  {name}\n"));
        }
        printer
            .result(&format!("{shown}: {} files: ok\n{text}", files.len()), &json!({"archive": path, "files": files}));
    }
    Ok(())
}

/// Holds every kernel of the profiles that this zmlc knows against the manifest.
fn kernels(artifact: &Artifact, shown: &str) -> Result<(), Failure> {
    let mut found = Diagnostics::default();
    for p in &artifact.manifest.profiles {
        let Ok(selected) = targets::of_id(&format!("{}:{}", p.target, p.name)) else { continue };
        for (i, k) in p.kernels.iter().enumerate() {
            let portable = selected.target.inspect(k, artifact.blob(k.blob), &selected.spec);
            let native = p.native.as_ref().map(|n| artifact.blob(n.blobs[i]));
            let native = native.map_or(Ok(()), |cubin| zmlc_target_cuda::inspect_cubin(cubin, &k.symbol));
            if let Err(why) = portable.and(native) {
                let message = format!("{shown}: kernel {} of {}: {why}", k.symbol, selected.id());
                found.push(Diagnostic::error(codes::ARTIFACT, Span::NONE, message));
            }
        }
    }
    if found.has_errors() { Err(Failure::Input(found)) } else { Ok(()) }
}

fn open(path: &Path) -> Result<Artifact, Failure> {
    Artifact::open(path).map_err(|source| failure(&PackageError::Artifact { path: path.into(), source }))
}

/// Builds the artifact's profiles again. An error says in what the two differ.
fn rebuild(artifact: &Artifact, verify: &Verify, model: &Path) -> Result<(), Failure> {
    let old = &artifact.manifest;
    let has_cubins = old.profiles.iter().any(|p| p.native.is_some());
    let scratch = tempfile::tempdir().map_err(|e| Failure::file(&std::env::temp_dir(), "write", &e))?;
    let profiles: Vec<String> = old.profiles.iter().map(|p| format!("{}:{}", p.target, p.name)).collect();
    let args = Build {
        model: Some(model.into()),
        target: Some(profiles.join(",")),
        output: scratch.path().into(),
        ptxas: has_cubins.then(|| verify.ptxas.clone().unwrap_or_else(|| "ptxas".into())),
        from: None,
        timings: false,
        unfused: false,
        without: vec![],
    };
    build::run(&args, Printer { format: MessageFormat::Human, quiet: true })?;
    let built = std::fs::read_dir(scratch.path()).map_err(|e| Failure::file(scratch.path(), "read", &e))?;
    let built = built.flatten().map(|e| e.path()).find(|p| p.extension().is_some_and(|e| e == "zml"));
    let again = open(&built.ok_or_else(|| Failure::bug("a build that wrote no artifact"))?)?;
    if again.digest() == artifact.digest() {
        return Ok(());
    }
    let differs = differences(old, &again.manifest);
    let message = format!(
        "{} is not what {} gives: sha256:{} when built again; {}",
        verify.path.display(),
        model.display(),
        again.digest(),
        if differs.is_empty() { "the bytes differ".into() } else { differs.join("; ") }
    );
    let d = Diagnostic::error(codes::REBUILD, Span::NONE, message);
    Err(d.hint("compare programs, weights and model.toml with those of the first build, and `zmlc --version`").into())
}

/// In which parts two manifests differ, for people.
fn differences(old: &Manifest, new: &Manifest) -> Vec<String> {
    let mut found = vec![];
    if old.producer != new.producer {
        found.push(format!("it was built by {}, this is {}", old.producer, new.producer));
    }
    if let (Some(a), Some(b)) = (&old.sources, &new.sources) {
        found.extend(a.differences(b));
    }
    for w in &old.weights {
        match new.weights.iter().find(|n| n.tensor.name == w.tensor.name) {
            None => found.push(format!("there is no weight `{}` any more", w.tensor.name)),
            Some(n) if n.sha256 != w.sha256 => found.push(format!("weight `{}` has other values", w.tensor.name)),
            Some(_) => {}
        }
    }
    if (&old.model, &old.entries, &old.state) != (&new.model, &new.entries, &new.state) {
        found.push("the model's name, entries or states are others".into());
    }
    let code = |m: &Manifest, p: &Profile| p.kernels.iter().map(|k| m.blobs[k.blob].sha256.clone()).collect::<Vec<_>>();
    for (a, b) in old.profiles.iter().zip(&new.profiles) {
        if code(old, a) != code(new, b) || a.programs != b.programs {
            found.push(format!("the code for {}:{} is other code", a.target, a.name));
        }
        if let (Some(a), Some(b)) = (&a.native, &b.native)
            && a.producer != b.producer
        {
            found.push(format!("its cubins were made by {}, this is {}", a.producer, b.producer));
        }
    }
    found
}
