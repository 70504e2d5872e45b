//! `zmlc package ARTIFACT`: an archive that runs where it is unpacked, an OCI image layout whose entrypoint runs the model.

use super::push::push;
use crate::{
    args::{LayerCompression, Package, WeightsChoice},
    failure::Failure,
    model::Model,
    printer::Printer,
    vendor,
};
use serde_json::json;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use zml_format::Artifact;
use zmlc_import::{diag::Diagnostic, tree::Span};
use zmlc_package::{
    ArchivePlan, Base, Compression, Credentials, ImagePlan, PackageError, Reference, Search, Weights, vendor::Vendored,
};

pub fn run(args: &Package, printer: Printer) -> Result<(), Failure> {
    let runtimes = runtimes(args)?;
    let weights = match args.weights {
        WeightsChoice::Include => Weights::Include { folders: args.weights_dir.clone() },
        WeightsChoice::External => Weights::External,
    };
    let model = args.model.as_deref().map(Model::read).transpose()?;
    let mtime = zmlc_package::source_date_epoch().map_err(|e| failure(&e))?;
    if let Some(out) = &args.archive {
        let [(runtime, architecture)] = &runtimes[..] else {
            return Err(Failure::Usage("an archive is for one platform: give one with --platform".into()));
        };
        let plan = ArchivePlan {
            runtime: runtime.clone(),
            artifact: args.artifact.clone(),
            weights: weights.clone(),
            vendor: vendored(args, model.as_ref(), architecture, printer)?,
            licenses: args.license.clone(),
            mtime,
        };
        let report = zmlc_package::archive(&plan, out).map_err(|e| failure(&e))?;
        printer.result(
            &format!("{}: {} bytes, {} unpacked\n", out.display(), report.bytes, report.unpacked),
            &json!({"archive": out, "bytes": report.bytes, "unpacked": report.unpacked, "files": report.files}),
        );
    }
    if let Some(to) = &args.oci {
        let scratch = tempfile::tempdir().map_err(|e| Failure::file(&std::env::temp_dir(), "write", &e))?;
        let section = model.as_ref().map(|m| &m.file.package);
        let mut labels: BTreeMap<String, String> = section.map(|s| s.labels.clone()).unwrap_or_default();
        labels.extend(args.label.iter().cloned());
        let mut plans = vec![];
        for (runtime, architecture) in &runtimes {
            plans.push(ImagePlan {
                runtime: runtime.clone(),
                artifact: args.artifact.clone(),
                weights: weights.clone(),
                vendor: vendored(args, model.as_ref(), architecture, printer)?,
                base: base(args, model.as_ref(), architecture, scratch.path())?,
                software_vulkan: args.software_vulkan,
                compression: match args.compression {
                    LayerCompression::Zstd => Compression::Zstd,
                    LayerCompression::Gzip => Compression::Gzip,
                    LayerCompression::None => Compression::None,
                },
                reference: Some("latest".into()),
                labels: labels.clone(),
                annotations: Default::default(),
                licenses: args.license.clone(),
                mtime,
            });
        }
        match in_registry(to) {
            None => layout(&plans, to, printer)?,
            Some(reference) => {
                let dir = scratch.path().join("image");
                layout(&plans, &dir, printer)?;
                push(&dir, reference, printer)?;
            }
        }
    }
    Ok(())
}

/// The image spec's name of the machine that zmlc itself is for.
const OWN: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };

/// The runtime for each platform, and the platform's architecture.
fn runtimes(args: &Package) -> Result<Vec<(PathBuf, String)>, Failure> {
    let wanted = args.platform.iter().map(|p| match p.strip_prefix("linux/") {
        Some(a) if ["amd64", "arm64"].contains(&a) => Ok(a),
        _ => Err(Failure::Usage(format!("there is no platform `{p}`; it is linux/amd64 or linux/arm64"))),
    });
    let wanted: Vec<&str> = wanted.collect::<Result<_, _>>()?;
    let files = if !args.runtime.is_empty() {
        args.runtime.clone()
    } else if wanted.is_empty() {
        vec![beside(OWN)?]
    } else {
        wanted.iter().map(|a| beside(a)).collect::<Result<_, _>>()?
    };
    let mut found: Vec<(PathBuf, String)> = vec![];
    for file in files {
        let architecture = zmlc_package::architecture(&file).map_err(|e| failure(&e))?;
        if wanted.is_empty() || wanted.contains(&architecture) {
            found.push((file, architecture.into()));
        }
    }
    match wanted.iter().find(|w| !found.iter().any(|(_, a)| a == *w)) {
        Some(missing) => Err(Failure::Usage(format!("no --runtime is for linux/{missing}"))),
        None => Ok(found),
    }
}

fn vendored(
    args: &Package,
    model: Option<&Model>,
    architecture: &str,
    printer: Printer,
) -> Result<Vec<Vendored>, Failure> {
    let Some(model) = model else { return Ok(vec![]) };
    let open = |source| failure(&PackageError::Artifact { path: args.artifact.clone(), source });
    let artifact = Artifact::open(&args.artifact).map_err(open)?;
    vendor::of_package(model, &artifact.manifest, architecture, printer)
}

/// What the image for `architecture` lies on. An image from a registry is fetched into `scratch`.
fn base(args: &Package, model: Option<&Model>, architecture: &str, scratch: &Path) -> Result<Base, Failure> {
    let of_model = || {
        let model = model.filter(|_| !args.software_vulkan)?;
        let base = model.file.package.base.as_ref()?;
        Some(if in_registry(base).is_some() { base.clone() } else { model.locate(base) })
    };
    if let Some(from) = args.base.clone().or_else(of_model) {
        let Some(from) = in_registry(&from) else { return Ok(Base::Layout(from)) };
        let dir = scratch.join(format!("base-{architecture}"));
        let from: Reference = from.parse().map_err(|e| failure(&e))?;
        zmlc_package::pull(&from, architecture, &Credentials::from_environment(), &dir).map_err(|e| failure(&e))?;
        return Ok(Base::Layout(dir));
    }
    let given = args.sysroot.iter().find(|(a, _)| a == architecture);
    match given {
        Some((_, root)) => Ok(Base::Files(Search { root: root.into() })),
        None if architecture == OWN => Ok(Base::Files(Search::host())),
        None => Err(Failure::Usage(format!(
            "linux/{architecture} is not this machine: give its C library with --sysroot {architecture}=DIR, or an image with --base"
        ))),
    }
}

/// `docker://...`
fn in_registry(to: &Path) -> Option<&str> {
    to.to_str().filter(|t| t.starts_with("docker://"))
}

/// Writes the layout and says what is in it.
fn layout(plans: &[ImagePlan], dir: &Path, printer: Printer) -> Result<(), Failure> {
    let reports = match plans {
        [plan] => zmlc_package::oci(plan, dir).map(|r| vec![r]),
        plans => zmlc_package::oci_index(plans, dir),
    };
    for report in reports.map_err(|e| failure(&e))? {
        for w in &report.warnings {
            printer.note(&format!("warning: {w}"));
        }
        let mut text = format!("{}: {} {}\n", dir.display(), report.platform, report.digest);
        for l in &report.layers {
            text.push_str(&format!(
                "  {:<16} {:>12} bytes, {:>12} unpacked  {}\n",
                l.title, l.bytes, l.unpacked, l.digest
            ));
        }
        let layers: Vec<_> = report
            .layers
            .iter()
            .map(|l| json!({"title": l.title, "digest": l.digest, "bytes": l.bytes, "unpacked": l.unpacked}))
            .collect();
        printer.result(
            &text,
            &json!({
                "layout": dir, "digest": report.digest, "platform": report.platform, "layers": layers,
                "warnings": report.warnings,
            }),
        );
    }
    Ok(())
}

/// The runtime for a machine, in the folder that zmlc runs from.
fn beside(architecture: &str) -> Result<PathBuf, Failure> {
    let me = std::env::current_exe().map_err(|e| {
        Failure::Usage(format!("where zmlc is cannot be found out ({e}); give the runtime with --runtime FILE"))
    })?;
    let found = me.with_file_name(zmlc_package::runtime_name(architecture, OWN));
    if found.is_file() {
        return Ok(found);
    }
    Err(Failure::Usage(format!("there is no {}; give the runtime with --runtime FILE", found.display())))
}
pub fn failure(e: &PackageError) -> Failure {
    Diagnostic::error(e.code(), Span::NONE, e.to_string()).hint(e.remedy()).into()
}
