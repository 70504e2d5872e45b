//! Runs .zml artifacts from the command line; all of it is `zml_runtime::cli`.

use std::process::ExitCode;

/// Read by the CUDA driver when it makes a context. A call is one graph on one stream, so one queue of work serves as well
/// as the usual eight, and there is less to make.
const QUEUES: (&str, &str) = ("CUDA_DEVICE_MAX_CONNECTIONS", "1");

fn main() -> ExitCode {
    if std::env::var_os(QUEUES.0).is_none() {
        // Safety: this program has no other thread yet.
        unsafe { std::env::set_var(QUEUES.0, QUEUES.1) };
    }
    let args: Result<Vec<String>, _> = std::env::args_os().skip(1).map(std::ffi::OsString::into_string).collect();
    match args {
        Ok(args) => zml_runtime::cli::run("zml-run", &args),
        Err(bad) => {
            eprintln!("error: the argument {} is not UTF-8", bad.display());
            ExitCode::from(2)
        }
    }
}
