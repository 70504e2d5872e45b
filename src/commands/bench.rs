//! `zmlc bench`: the runtime's own, as `zml-run bench`.

use crate::{args::Passthrough, printer::Printer};
use std::process::ExitCode;

pub fn run(args: &Passthrough, printer: Printer) -> ExitCode {
    let arguments = ["bench".to_string()].into_iter().chain(args.arguments.iter().cloned()).collect();
    super::run::run(&Passthrough { arguments }, printer)
}
