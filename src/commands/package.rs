//! `zmlc package ARTIFACT`: an archive that runs where it is unpacked, an OCI image layout whose entrypoint runs the model.

use crate::{
    args::{Package, WeightsChoice},
    failure::Failure,
    printer::Printer,
};
use serde_json::json;
use std::path::PathBuf;
use zmlc_import::{diag::Diagnostic, tree::Span};
use zmlc_package::{ArchivePlan, Base, Compression, ImagePlan, PackageError, Search, Weights};

pub fn run(args: &Package, printer: Printer) -> Result<(), Failure> {
    let runtime = match &args.runtime {
        Some(r) => r.clone(),
        None => beside()?,
    };
    let weights = match args.weights {
        WeightsChoice::Include => Weights::Include { folders: vec![] },
        WeightsChoice::External => Weights::External,
    };
    let mtime = zmlc_package::source_date_epoch().map_err(|e| failure(&e))?;
    if let Some(out) = &args.archive {
        let plan = ArchivePlan {
            runtime: runtime.clone(),
            artifact: args.artifact.clone(),
            weights: weights.clone(),
            libraries: vec![],
            licenses: vec![],
            mtime,
        };
        let report = zmlc_package::archive(&plan, out).map_err(|e| failure(&e))?;
        printer.result(
            &format!("{}: {} bytes, {} unpacked\n", out.display(), report.bytes, report.unpacked),
            &json!({"archive": out, "bytes": report.bytes, "unpacked": report.unpacked, "files": report.files}),
        );
    }
    if let Some(dir) = &args.oci {
        let plan = ImagePlan {
            runtime,
            artifact: args.artifact.clone(),
            weights,
            base: args.base.clone().map_or_else(|| Base::Files(Search::host()), Base::Layout),
            compression: Compression::default(),
            reference: Some("latest".into()),
            labels: args.label.iter().cloned().collect(),
            annotations: Default::default(),
            licenses: vec![],
            mtime,
        };
        let report = zmlc_package::oci(&plan, dir).map_err(|e| failure(&e))?;
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
            &json!({"layout": dir, "digest": report.digest, "platform": report.platform, "layers": layers}),
        );
    }
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
fn failure(e: &PackageError) -> Failure {
    Diagnostic::error(e.code(), Span::NONE, e.to_string()).hint(e.remedy()).into()
}
