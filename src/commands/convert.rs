//! `zmlc convert`: a program from one form to another, text or portable artifact.

use crate::{args::Convert, artifact, failure::Failure, front, printer::Printer};
use serde_json::json;
use zmlc_import::{
    PORTABLE_VERSION,
    diag::{Diagnostics, Source},
    print, write_artifact,
};

pub fn run(args: &Convert, printer: Printer) -> Result<(), Failure> {
    let bytes = std::fs::read(&args.program).map_err(|e| Failure::file(&args.program, "read", &e))?;
    let source = Source::new(args.program.display().to_string(), bytes);
    let mut found = Diagnostics::default();
    let Some(program) = front::read(&source, &mut found) else { return Err(Failure::Input(found)) };
    printer.diagnostics(&found);
    let bytecode = args.output.extension().is_some_and(|e| e == "mlirbc" || e == "bc");
    let written = if bytecode {
        let version = args.artifact_version.unwrap_or(PORTABLE_VERSION);
        write_artifact(&program, version).map_err(|d| Diagnostics::from(d).locate(&source))?
    } else if args.artifact_version.is_some() {
        return Err(Failure::Usage("--artifact-version goes with an output called .mlirbc or .bc".into()));
    } else {
        print(&program).into_bytes()
    };
    artifact::write_file(&args.output, &written)?;
    printer.result(
        &format!("{}: {} bytes\n", args.output.display(), written.len()),
        &json!({"file": args.output, "bytes": written.len()}),
    );
    Ok(())
}
