//! `zmlc check FILE...`: reads and verifies programs, and says what of them is not compiled; reports everything found in all
//! of them, warnings too.

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
        let source = Source::new(name.clone(), bytes);
        if let Some(program) = front::read(&source, &mut found) {
            found.list.extend(Diagnostics::from(zmlc_import::suspicious(&program)).locate(&source).list);
            let refused = front::uncompiled(&program, &source);
            if refused.has_errors() {
                found.list.extend(refused.list);
                continue;
            }
            let ops: usize = program.funcs.iter().map(|f| f.body.ops.len()).sum();
            printer.result(
                &format!("{name}: ok, {}, {}\n", count(program.funcs.len(), "function"), count(ops, "op")),
                &json!({"file": name, "functions": program.funcs.len(), "ops": ops}),
            );
        }
    }
    let denied = args.deny_warnings && !found.list.is_empty();
    if found.has_errors() || denied {
        return Err(Failure::Input(found));
    }
    printer.diagnostics(&found);
    Ok(())
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
