//! `zmlc completions SHELL`.

use crate::{args::Cli, failure::Failure, printer::Printer};
use clap::CommandFactory;

pub fn run(shell: clap_complete::Shell, printer: Printer) -> Result<(), Failure> {
    let mut script = vec![];
    clap_complete::generate(shell, &mut Cli::command(), "zmlc", &mut script);
    printer.data(&String::from_utf8_lossy(&script));
    Ok(())
}
