//! `zmlc explain CODE`: what an error code means.

use crate::{codes::all, failure::Failure, printer::Printer};
use serde_json::json;

pub fn run(code: &str, printer: Printer) -> Result<(), Failure> {
    match all().find(|(c, _)| c.eq_ignore_ascii_case(code)) {
        Some((c, text)) => {
            printer.result(&format!("{c}: {text}\n"), &json!({"code": c, "explanation": text}));
            Ok(())
        }
        None => {
            let codes: Vec<&str> = all().map(|(c, _)| *c).collect();
            Err(Failure::Usage(format!("there is no code `{code}`; the codes are {}", codes.join(", "))))
        }
    }
}
