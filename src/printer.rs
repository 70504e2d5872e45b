//! The only place that writes to stdout and stderr: data on stdout, messages on stderr, progress on a terminal alone.

use crate::failure::Failure;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::{
    io::{ErrorKind, IsTerminal, Write},
    time::Duration,
};
use zmlc_import::diag::{Diagnostic, Diagnostics};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum MessageFormat {
    #[default]
    Human,
    /// One JSON object a line.
    Json,
}

#[derive(Clone, Copy)]
pub struct Printer {
    pub format: MessageFormat,
    pub quiet: bool,
}
impl Printer {
    /// The command's result.
    pub fn data(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            // A closed pipe (`| head`) ends the output, and that is what was asked for.
            Err(e) if e.kind() != ErrorKind::BrokenPipe => {
                say(&format!("error: cannot write to stdout: {e}\n"));
                std::process::exit(1);
            }
            _ => {}
        }
    }
    /// The command's result, as text for people or as JSON.
    pub fn result(&self, human: &str, json: &Value) {
        match self.format {
            MessageFormat::Human => self.data(human),
            MessageFormat::Json => self.data(&format!("{json}\n")),
        }
    }
    /// The command's result, as text for people or as one line of JSON for each element.
    pub fn list(&self, human: &str, json: &[Value]) {
        match self.format {
            MessageFormat::Human => self.data(human),
            MessageFormat::Json => self.data(&json.iter().map(|j| format!("{j}\n")).collect::<String>()),
        }
    }
    /// A remark, on stderr.
    pub fn note(&self, text: &str) {
        if !self.quiet && self.format == MessageFormat::Human {
            say(&format!("{text}\n"));
        }
    }
    pub fn diagnostics(&self, d: &Diagnostics) {
        match self.format {
            MessageFormat::Human => say(&d.to_string()),
            MessageFormat::Json => d.list.iter().for_each(|d| say(&format!("{}\n", as_json(d)))),
        }
    }
    /// Says why and gives the exit code.
    pub fn failure(&self, f: &Failure) -> u8 {
        match (f, self.format) {
            (Failure::Input(d), _) => {
                self.diagnostics(d);
                1
            }
            (Failure::Usage(m), MessageFormat::Human) => {
                say(&format!("error: {m}\n"));
                2
            }
            (Failure::Usage(m), MessageFormat::Json) => {
                say(&format!("{}\n", json!({"severity": "error", "code": "usage", "message": m})));
                2
            }
            (Failure::Bug { message, reproducer }, MessageFormat::Human) => {
                say(&format!("error: this is a bug in zmlc: {message}\n"));
                if let Some(path) = reproducer {
                    say(&format!("  = a file that shows it was written to {}\n", path.display()));
                }
                101
            }
            (Failure::Bug { message, reproducer }, MessageFormat::Json) => {
                let bug = json!({"severity": "error", "code": "bug", "message": message, "reproducer": reproducer});
                say(&format!("{bug}\n"));
                101
            }
        }
    }
    /// A spinner with a changing message, on a terminal; nothing elsewhere.
    pub fn progress(&self) -> ProgressBar {
        if self.quiet || self.format == MessageFormat::Json || !std::io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new_spinner();
        bar.set_style(ProgressStyle::with_template("{spinner} {msg}").expect("a valid template"));
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    }
}

/// A message, on stderr. Where that is closed or full nothing can be said, and the exit code stays what it is.
fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

fn as_json(d: &Diagnostic) -> Value {
    let at = d.position.as_ref().map(|p| json!({"line": p.line, "column": p.column}));
    json!({
        "severity": d.severity.to_string(), "code": d.code, "message": d.message, "label": d.label, "hint": d.hint,
        "file": d.file, "position": at,
    })
}
