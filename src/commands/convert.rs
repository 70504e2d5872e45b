//! `zmlc convert`: a program from one form to another, text or portable artifact.

use crate::{
    args::{Convert, Emit},
    artifact,
    failure::Failure,
    front,
    printer::Printer,
};
use serde_json::json;
use std::path::Path;
use zmlc_import::{
    PORTABLE_VERSION,
    diag::{Diagnostics, Source},
    print, write_artifact,
};

pub fn run(args: &Convert, printer: Printer) -> Result<(), Failure> {
    let emit = args.emit.map_or_else(|| by_name(&args.output), Ok)?;
    if emit == Emit::Text && args.artifact_version.is_some() {
        return Err(Failure::Usage("--artifact-version goes with an artifact, .mlirbc, .bc or --emit artifact".into()));
    }
    let bytes = std::fs::read(&args.program).map_err(|e| Failure::file(&args.program, "read", &e))?;
    let source = Source::new(args.program.display().to_string(), bytes);
    let mut found = Diagnostics::default();
    let Some(program) = front::read(&source, &mut found) else { return Err(Failure::Input(found)) };
    printer.diagnostics(&found);
    let written = match emit {
        Emit::Artifact => {
            let version = args.artifact_version.unwrap_or(PORTABLE_VERSION);
            write_artifact(&program, version).map_err(|d| Diagnostics::from(d).locate(&source))?
        }
        Emit::Text => print(&program).into_bytes(),
    };
    artifact::write_file(&args.output, &written)?;
    printer.result(
        &format!("{}: {} bytes\n", args.output.display(), written.len()),
        &json!({"file": args.output, "bytes": written.len()}),
    );
    Ok(())
}

fn by_name(output: &Path) -> Result<Emit, Failure> {
    match output.extension().and_then(|e| e.to_str()) {
        Some("mlir") => Ok(Emit::Text),
        Some("mlirbc" | "bc") => Ok(Emit::Artifact),
        _ => Err(Failure::Usage(format!(
            "{}: text goes to .mlir, an artifact to .mlirbc or .bc; for another name say --emit text or --emit artifact",
            output.display()
        ))),
    }
}
