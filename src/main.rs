//! `zmlc`: dispatch of commands, and exit codes.

mod args;
mod artifact;
mod codes;
mod commands;
mod failure;
mod front;
mod metadata;
mod model;
mod names;
mod pipeline;
mod printer;
mod targets;
mod weights;

use args::{Cli, Command};
use clap::Parser;
use printer::Printer;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let command = std::thread::Builder::new().stack_size(pipeline::STACK).spawn(|| run(cli)).expect("a thread starts");
    command.join().unwrap_or_else(|_| {
        eprintln!("error: this is a bug in zmlc: the panic above");
        ExitCode::from(101)
    })
}

fn run(cli: Cli) -> ExitCode {
    let printer = Printer { format: cli.message_format, quiet: cli.quiet };
    let done = match cli.command {
        Command::Init(a) => commands::init::run(&a, printer),
        Command::Check(a) => commands::check::run(&a, printer),
        Command::Convert(a) => commands::convert::run(&a, printer),
        Command::Build(a) => commands::build::run(&a, printer),
        Command::Run(a) => return commands::run::run(&a),
        Command::Inspect(a) => commands::inspect::run(&a, printer),
        Command::InspectIr(a) => commands::inspect_ir::run(&a, printer),
        Command::Package(a) => commands::package::run(&a, printer),
        Command::Push(a) => commands::push::run(&a, printer),
        Command::Verify(a) => commands::verify::run(&a, printer),
        Command::Targets(a) => commands::targets::run(&a, printer),
        Command::Doctor => commands::doctor::run(printer),
        Command::Explain { code } => commands::explain::run(&code, printer),
        Command::Completions { shell } => commands::completions::run(shell, printer),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(f) => ExitCode::from(printer.failure(&f)),
    }
}
