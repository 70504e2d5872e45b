//! `zmlc package ARTIFACT`: an archive that runs where it is unpacked, an OCI image layout whose entrypoint runs the model.

use super::push::push;
use crate::{
    args::{LayerCompression, Package, WeightsChoice},
    codes,
    failure::Failure,
    model::Model,
    printer::Printer,
    vendor,
};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};
use zml_format::Artifact;
use zmlc_import::{diag::Diagnostic, tree::Span};
use zmlc_package::{
    ArchivePlan, Base, Compression, Credentials, ImagePlan, PackageError, Reference, Search, Weights, vendor::Vendored,
};

pub fn run(args: &Package, printer: Printer) -> Result<(), Failure> {
    let runtimes = runtimes(args)?;
    let registry = args.oci.as_deref().and_then(in_registry).map(str::parse::<Reference>).transpose();
    let registry = registry.map_err(|e| failure(&e))?;
    let weights = match args.weights {
        WeightsChoice::Include => Weights::Include { folders: args.weights_dir.clone() },
        WeightsChoice::External => Weights::External,
    };
    let model = args.model.as_deref().map(Model::read).transpose()?;
    let mtime = zmlc_package::source_date_epoch().map_err(|e| failure(&e))?;
    let libraries = vendored(args, model.as_ref(), &runtimes, printer)?;
    if let Some(out) = &args.archive {
        let [(runtime, _)] = &runtimes[..] else {
            return Err(Failure::Usage("an archive is for one platform: give one with --platform".into()));
        };
        let plan = ArchivePlan {
            runtime: runtime.clone(),
            artifact: args.artifact.clone(),
            weights: weights.clone(),
            vendor: libraries[0].0.clone(),
            licenses: args.license.clone(),
            mtime,
        };
        let mut warnings = libraries[0].1.clone();
        let needed: BTreeSet<&str> = plan.vendor.iter().flat_map(Vendored::needs_installed).collect();
        if !needed.is_empty() {
            let names = needed.into_iter().collect::<Vec<_>>().join(", ");
            let message =
                format!("{names} must be on the machine that the archive runs on; an image has what it needs");
            printer.note(&format!("warning: {message}"));
            warnings.push(message);
        }
        let report = zmlc_package::archive(&plan, out).map_err(|e| failure(&e))?;
        printer.result(
            &format!("{}: {} bytes, {} unpacked\n", out.display(), report.bytes, report.unpacked),
            &json!({
                "archive": out, "bytes": report.bytes, "unpacked": report.unpacked, "files": report.files,
                "warnings": warnings,
            }),
        );
    }
    if let Some(to) = &args.oci {
        let scratch = tempfile::tempdir().map_err(|e| Failure::file(&std::env::temp_dir(), "write", &e))?;
        let section = model.as_ref().map(|m| &m.file.package);
        let mut labels: BTreeMap<String, String> = section.map(|s| s.labels.clone()).unwrap_or_default();
        labels.extend(args.label.iter().cloned());
        let mut plans = vec![];
        for ((runtime, architecture), (vendor, warnings)) in runtimes.iter().zip(libraries) {
            let plan = ImagePlan {
                runtime: runtime.clone(),
                artifact: args.artifact.clone(),
                weights: weights.clone(),
                vendor,
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
            };
            plans.push((plan, warnings));
        }
        match registry {
            None => layout(plans, to, to, printer)?,
            Some(registry) => {
                let dir = scratch.path().join("image");
                layout(plans, &dir, to, printer)?;
                push(&dir, &registry, printer)?;
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
            if found.iter().any(|(_, a)| a == architecture) {
                return Err(Failure::Usage(format!("linux/{architecture} is given twice; an image has one runtime")));
            }
            found.push((file, architecture.into()));
        }
    }
    match wanted.iter().find(|w| !found.iter().any(|(_, a)| a == *w)) {
        Some(missing) => Err(Failure::Usage(format!("no --runtime is for linux/{missing}"))),
        None => Ok(found),
    }
}

/// Vendor libraries, and what the user has to know of them.
type Libraries = (Vec<Vendored>, Vec<String>);

/// The vendor libraries for each runtime, in the same order.
fn vendored(
    args: &Package,
    model: Option<&Model>,
    runtimes: &[(PathBuf, String)],
    printer: Printer,
) -> Result<Vec<Libraries>, Failure> {
    let open = |source| failure(&PackageError::Artifact { path: args.artifact.clone(), source });
    let manifest = Artifact::open(&args.artifact).map_err(open)?.manifest;
    let mut all = vec![];
    for (_, architecture) in runtimes {
        let of_model = model.map(|m| vendor::of_package(m, &manifest, architecture, printer)).transpose()?;
        let libraries = of_model.unwrap_or_default();
        let mut warnings = vendor::lacking(&manifest, &libraries);
        warnings.extend(libraries.iter().flat_map(|l| l.notes.iter().cloned()));
        all.push((libraries, warnings));
    }
    let mut said = BTreeSet::new();
    for warning in all.iter().flat_map(|(_, warnings)| warnings).filter(|w| said.insert(*w)) {
        printer.note(&format!("warning: {warning}"));
    }
    Ok(all)
}

/// What the image for `architecture` lies on. An image from a registry is fetched into `scratch`.
fn base(args: &Package, model: Option<&Model>, architecture: &str, scratch: &Path) -> Result<Base, Failure> {
    let of_model = || {
        let model = model.filter(|_| !args.software_vulkan)?;
        let base = model.file.package.base.as_ref()?;
        Some(if in_registry(base).is_some() { base.clone() } else { model.locate(base) })
    };
    if let Some(from) = args.base.clone().or_else(of_model) {
        let Some(from) = in_registry(&from) else {
            if !from.exists() {
                let message = format!(
                    "the base {} is not there; an image in a registry is docker://REGISTRY/NAME:TAG",
                    from.display()
                );
                return Err(Failure::input(codes::FILE, message));
            }
            return Ok(Base::Layout(from));
        };
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

/// Writes the layout and says what is in it. `called`: what it is for the user, who asked for that and not for `dir`. With each
/// plan goes what was said of it already.
fn layout(plans: Vec<(ImagePlan, Vec<String>)>, dir: &Path, called: &Path, printer: Printer) -> Result<(), Failure> {
    let (plans, said): (Vec<_>, Vec<_>) = plans.into_iter().unzip();
    let reports = match &plans[..] {
        [plan] => zmlc_package::oci(plan, dir).map(|r| vec![r]),
        plans => zmlc_package::oci_index(plans, dir),
    };
    for (report, said) in reports.map_err(|e| failure(&e))?.into_iter().zip(said) {
        for w in &report.warnings {
            printer.note(&format!("warning: {w}"));
        }
        let warnings = [said, report.warnings].concat();
        let mut text = format!("{}: {} {}\n", called.display(), report.platform, report.digest);
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
                "layout": called, "digest": report.digest, "platform": report.platform, "layers": layers,
                "warnings": warnings,
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
