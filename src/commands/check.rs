//! `zmlc check FILE...`: reads and verifies programs, reports everything found in all of them.

use crate::{args::Check, failure::Failure, front, printer::Printer};
use serde_json::json;
use zmlc_import::diag::{Diagnostics, Source};

pub fn run(args: &Check, printer: Printer) -> Result<(), Failure> {
    let mut found = Diagnostics::default();
    for path in &args.files {
        let bytes = match std::fs::read(path) {
            Ok(b) => b,
            Err(e) => match Failure::file(path, "read", &e) {
                Failure::Input(d) => {
                    found.list.extend(d.list);
                    continue;
                }
                f => return Err(f),
            },
        };
        let name = path.display().to_string();
        if let Some(program) = front::read(&Source::new(name.clone(), bytes), &mut found) {
            let ops: usize = program.funcs.iter().map(|f| f.body.ops.len()).sum();
            printer.result(
                &format!("{name}: ok, {} functions, {ops} ops\n", program.funcs.len()),
                &json!({"file": name, "functions": program.funcs.len(), "ops": ops}),
            );
        }
    }
    if found.has_errors() {
        return Err(Failure::Input(found));
    }
    printer.diagnostics(&found);
    Ok(())
}
