//! Runs .zml artifacts from the command line; all of it is `zml_runtime::cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Result<Vec<String>, _> = std::env::args_os().skip(1).map(std::ffi::OsString::into_string).collect();
    match args {
        Ok(args) => zml_runtime::cli::run("zml-run", &args),
        Err(bad) => {
            eprintln!("error: the argument {} is not UTF-8", bad.display());
            ExitCode::from(2)
        }
    }
}
