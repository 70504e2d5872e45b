//! `zml-trim LIBRARY -o OUT --arch sm_90`: see the library's documentation for what it does.

use clap::Parser;
use std::{path::PathBuf, process::ExitCode};
use zml_trim::{Arch, trim};

/// Cut a CUDA or ROCm library to the GPU architectures that it is to run on
///
/// A licence may forbid this: ask before you pass the result on.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// For example libcublasLt.so.12
    library: PathBuf,
    /// What is written
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Architectures to keep, for example sm_80,sm_90 or gfx942
    #[arg(long, value_delimiter = ',', required = true)]
    arch: Vec<Arch>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match trim(&args.library, &args.output, &args.arch) {
        Ok(r) => {
            let (kept, dropped) = (r.kept, r.dropped);
            println!(
                "{}: {} bytes, from {}; {kept} parts kept, {dropped} cut",
                args.output.display(),
                r.bytes_after,
                r.bytes_before
            );
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}
