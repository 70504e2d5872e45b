//! `zmlc`: dispatch of commands, and exit codes.

mod args;
mod artifact;
mod bind;
mod bisect;
mod codes;
mod commands;
mod dims;
mod failure;
mod front;
mod metadata;
mod model;
mod names;
mod pipeline;
mod printer;
mod sources;
mod targets;
mod vendor;
mod weights;

use args::{Cli, Command};
use clap::Parser;
use printer::Printer;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|e| wrong_usage(&e));
    let command = std::thread::Builder::new().stack_size(pipeline::STACK).spawn(|| run(cli)).expect("a thread starts");
    command.join().unwrap_or_else(|_| {
        eprintln!("error: this is a bug in zmlc: the panic above");
        ExitCode::from(101)
    })
}

/// Help and version too, which are on stdout and no error.
fn wrong_usage(e: &clap::Error) -> ! {
    let args: Vec<String> = std::env::args().collect();
    let json = args.iter().any(|a| a == "--message-format=json")
        || args.windows(2).any(|a| a[0] == "--message-format" && a[1] == "json");
    if e.use_stderr() && json {
        let text = e.to_string();
        // The paragraphs below the first are advice for people.
        let first = text.split("\n\n").next().unwrap_or_default();
        let message: Vec<&str> = first.trim_start_matches("error: ").lines().map(str::trim).collect();
        Printer { format: printer::MessageFormat::Json, quiet: true }
            .failure(&failure::Failure::Usage(message.join(" ")));
        std::process::exit(2);
    }
    e.exit()
}

fn run(cli: Cli) -> ExitCode {
    let printer = Printer { format: cli.message_format, quiet: cli.quiet };
    let done = match cli.command {
        Command::Init(a) => commands::init::run(&a, printer),
        Command::Check(a) => commands::check::run(&a, printer),
        Command::Convert(a) => commands::convert::run(&a, printer),
        Command::Build(a) => commands::build::run(&a, printer),
        Command::Run(a) => return commands::run::run(&a, printer),
        Command::Bench(a) => return commands::bench::run(&a, printer),
        Command::Bisect(a) => commands::bisect::run(&a, printer),
        Command::Inspect(a) => commands::inspect::run(&a, printer),
        Command::InspectIr(a) => commands::inspect_ir::run(&a, printer),
        Command::Package(a) => commands::package::run(&a, printer),
        Command::Push(a) => commands::push::run(&a, printer),
        Command::Vendor(a) => commands::vendor::run(&a, printer),
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
