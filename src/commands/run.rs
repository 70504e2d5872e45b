//! `zmlc run`: the runtime's own command line, so that both accept and say the same.

use crate::{
    args::Passthrough,
    printer::{MessageFormat, Printer},
};
use std::process::ExitCode;

/// Options of zmlc that stand before the command's own are passed on.
pub fn run(args: &Passthrough, printer: Printer) -> ExitCode {
    let mut arguments = args.arguments.clone();
    if printer.format == MessageFormat::Json {
        arguments.push("--message-format=json".into());
    }
    zml_runtime::cli::run("zmlc run", &arguments)
}
