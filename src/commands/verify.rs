//! `zmlc verify FILE|DIR`: checks every digest of an artifact, an archive or an OCI image layout, and what an artifact's
//! kernels say of themselves.

use super::package::failure;
use crate::{args::Verify, codes, failure::Failure, printer::Printer, targets};
use serde_json::json;
use zml_format::Artifact;
use zmlc_import::{
    diag::{Diagnostic, Diagnostics},
    tree::Span,
};
use zmlc_package::PackageError;

pub fn run(args: &Verify, printer: Printer) -> Result<(), Failure> {
    let path = &args.path;
    let shown = path.display();
    if path.is_dir() {
        let images = zmlc_package::check_layout(path).map_err(|e| failure(&e))?.images;
        let mut text = String::new();
        for (digest, platform, layers, bytes) in &images {
            text.push_str(&format!("{shown}: {platform} {digest}, {layers} layers, {bytes} bytes: ok\n"));
        }
        let images: Vec<_> =
            images.iter().map(|(d, p, n, b)| json!({"digest": d, "platform": p, "layers": n, "bytes": b})).collect();
        printer.result(&text, &json!({"layout": path, "images": images}));
    } else if path.extension().is_some_and(|e| e == "zml") {
        let artifact =
            Artifact::open(path).map_err(|source| failure(&PackageError::Artifact { path: path.clone(), source }))?;
        kernels(&artifact, &shown.to_string())?;
        let digest = artifact.digest();
        printer.result(&format!("{shown}: sha256:{digest}: ok\n"), &json!({"artifact": path, "sha256": digest}));
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
        for k in &p.kernels {
            if let Err(why) = selected.target.inspect(k, artifact.blob(k.blob), &selected.spec) {
                let message = format!("{shown}: kernel {} of {}: {why}", k.symbol, selected.id());
                found.push(Diagnostic::error(codes::ARTIFACT, Span::NONE, message));
            }
        }
    }
    if found.has_errors() { Err(Failure::Input(found)) } else { Ok(()) }
}
