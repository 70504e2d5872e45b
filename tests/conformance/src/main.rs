//! Runs programs with known outputs: each case is built by the `zmlc` binary and run by the `zml-run` binary as child
//! processes, and its outputs are compared here. Building and running can be done on different machines.

mod archive;
mod args;
mod build;
mod case;
mod cases;
mod child;
mod compare;
mod dump;
mod known;
mod progress;
mod report;
mod resume;
mod run;
mod serve;
mod tensors;
mod testdata;
mod work;

use anyhow::{Context, Result, ensure};
use args::Args;
use build::Builder;
use cases::Steps;
use clap::Parser;
use dump::Dumper;
use report::Report;
use run::Runner;
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match &args.convert {
        Some(c) => testdata::convert(&c[0], &c[1].to_string_lossy(), &c[2]).map(|()| true),
        None => match &args.serve {
            Some(device) => serve::serve(device),
            None => run_all(&args),
        },
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_all(args: &Args) -> Result<bool> {
    let limit = Duration::from_secs(args.time_limit);
    let scratch = tempfile::tempdir()?;
    let out = args.build_only.as_ref().or(args.run.as_ref()).map_or(scratch.path(), PathBuf::as_path);
    let dumper = match &args.dump_kernels {
        Some(folder) => Some(Dumper { zmlc: tool(args.zmlc.as_ref(), "zmlc", None)?, folder: folder.clone(), limit }),
        None => None,
    };
    let runner = if args.build_only.is_none() && dumper.is_none() {
        let zml_run = tool(args.zml_run.as_ref(), "zml-run", args.run.as_deref())?;
        Some(Runner {
            zml_run,
            device: args.device.clone(),
            repeat: args.repeat,
            validate: args.validate,
            pool: args.keep_device.then(serve::Pool::default),
            limit,
        })
    } else {
        None
    };
    let builder = match &args.run {
        None => Some(Builder {
            zmlc: tool(args.zmlc.as_ref(), "zmlc", None)?,
            target: args.target.clone(),
            program: args.program.clone(),
            weights: args.weights.clone(),
            model_weights: args.model_weights,
            inspect: args.inspect || dumper.is_some(),
            keep_model: dumper.is_some(),
            limit,
        }),
        Some(_) => None,
    };
    let found = cases::find(args, scratch.path())?;
    let steps = Steps { builder, runner, dumper, out: out.to_path_buf() };
    let report = Report::new(cases::run(args, found, &steps)?);
    print!("{}", report.table());
    if let Some(path) = &args.json {
        fs::write(path, serde_json::to_vec_pretty(&report)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let (Some(out), Some(_)) = (&args.build_only, &steps.builder) {
        copy_tools(args, out)?;
    }
    let known = args.known.as_deref().map(known::read).transpose()?.unwrap_or_default();
    Ok(known::judge(&report, &known))
}

/// A program that was named, or the one in `folder`, or the one beside this program.
fn tool(named: Option<&PathBuf>, name: &str, folder: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = named {
        ensure!(path.is_file(), "{} is not a file", path.display());
        return Ok(path.clone());
    }
    let exe = std::env::current_exe()?;
    let tried: Vec<_> = folder.into_iter().chain(exe.parent()).map(|f| f.join(name)).collect();
    let list = || tried.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(" or ");
    tried
        .iter()
        .find(|p| p.is_file())
        .cloned()
        .with_context(|| format!("no {name} at {}: build it, or give --{name} PATH", list()))
}

/// Puts `zml-run` and this program beside the cases, so that OUT is all that the other machine needs.
fn copy_tools(args: &Args, out: &Path) -> Result<()> {
    let mine = std::env::current_exe()?;
    for (from, name) in [(tool(args.zml_run.as_ref(), "zml-run", None)?, "zml-run"), (mine, "conformance")] {
        fs::copy(&from, out.join(name)).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    Ok(())
}
