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
use zmlc_package::{ArchivePlan, Base, Compression, Credentials, ImagePlan, PackageError, Reference, Search, Weights};

pub fn run(args: &Package, printer: Printer) -> Result<(), Failure> {
    let runtime = match &args.runtime {
        Some(r) => r.clone(),
        None => beside()?,
    };
    let weights = match args.weights {
        WeightsChoice::Include => Weights::Include { folders: args.weights_dir.clone() },
        WeightsChoice::External => Weights::External,
    };
    let model = args.model.as_deref().map(Model::read).transpose()?;
    let vendor = match &model {
        None => vec![],
        Some(model) => {
            let open = |source| failure(&PackageError::Artifact { path: args.artifact.clone(), source });
            let artifact = Artifact::open(&args.artifact).map_err(open)?;
            let architecture = zmlc_package::architecture(&runtime).map_err(|e| failure(&e))?;
            vendor::of_package(model, &artifact.manifest, architecture, printer)?
        }
    };
    let mtime = zmlc_package::source_date_epoch().map_err(|e| failure(&e))?;
    if let Some(out) = &args.archive {
        let plan = ArchivePlan {
            runtime: runtime.clone(),
            artifact: args.artifact.clone(),
            weights: weights.clone(),
            vendor: vendor.clone(),
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
        let section = model.as_ref().map(|m| (m, &m.file.package));
        let base = args.base.clone().or_else(|| {
            let (model, section) = section?;
            let base = section.base.as_ref()?;
            Some(if in_registry(base).is_some() { base.clone() } else { model.locate(base) })
        });
        let mut labels: BTreeMap<String, String> = section.map(|(_, s)| s.labels.clone()).unwrap_or_default();
        labels.extend(args.label.iter().cloned());
        let base = match &base {
            None => Base::Files(Search::host()),
            Some(from) => match in_registry(from) {
                None => Base::Layout(from.clone()),
                Some(from) => {
                    let dir = scratch.path().join("base");
                    let from: Reference = from.parse().map_err(|e| failure(&e))?;
                    let architecture = zmlc_package::architecture(&runtime).map_err(|e| failure(&e))?;
                    zmlc_package::pull(&from, architecture, &Credentials::from_environment(), &dir)
                        .map_err(|e| failure(&e))?;
                    Base::Layout(dir)
                }
            },
        };
        let plan = ImagePlan {
            runtime,
            artifact: args.artifact.clone(),
            weights,
            vendor,
            base,
            compression: match args.compression {
                LayerCompression::Zstd => Compression::Zstd,
                LayerCompression::Gzip => Compression::Gzip,
                LayerCompression::None => Compression::None,
            },
            reference: Some("latest".into()),
            labels,
            annotations: Default::default(),
            licenses: args.license.clone(),
            mtime,
        };
        match in_registry(to) {
            None => layout(&plan, to, printer)?,
            Some(reference) => {
                let dir = scratch.path().join("image");
                layout(&plan, &dir, printer)?;
                push(&dir, reference, printer)?;
            }
        }
    }
    Ok(())
}

/// `docker://...`
fn in_registry(to: &Path) -> Option<&str> {
    to.to_str().filter(|t| t.starts_with("docker://"))
}

/// Writes the layout and says what is in it.
fn layout(plan: &ImagePlan, dir: &Path, printer: Printer) -> Result<(), Failure> {
    let report = zmlc_package::oci(plan, dir).map_err(|e| failure(&e))?;
    for w in &report.warnings {
        printer.note(&format!("warning: {w}"));
    }
    let mut text = format!("{}: {} {}\n", dir.display(), report.platform, report.digest);
    for l in &report.layers {
        text.push_str(&format!("  {:<16} {:>12} bytes, {:>12} unpacked  {}\n", l.title, l.bytes, l.unpacked, l.digest));
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
    Ok(())
}

/// `zml-run` in the folder that zmlc runs from.
fn beside() -> Result<PathBuf, Failure> {
    let me = std::env::current_exe().map_err(|e| Failure::bug(format!("no path to this program: {e}")))?;
    let found = me.with_file_name("zml-run");
    if found.is_file() {
        return Ok(found);
    }
    Err(Failure::Usage(format!("there is no {}; give the runtime with --runtime FILE", found.display())))
}
pub fn failure(e: &PackageError) -> Failure {
    Diagnostic::error(e.code(), Span::NONE, e.to_string()).hint(e.remedy()).into()
}
