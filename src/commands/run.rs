//! `zmlc run`: the runtime's own command line, so that both accept and say the same.

use crate::args::Passthrough;
use std::process::ExitCode;

pub fn run(args: &Passthrough) -> ExitCode {
    zml_runtime::cli::run("zmlc run", &args.arguments)
}
