//! Runs programs with known outputs: each case is built by the `zmlc` binary and run by the `zml-run` binary as child
//! processes, and its outputs are compared here. Building and running can be done on different machines.

mod build;
mod case;
mod child;
mod compare;
mod known;
mod report;
mod run;
mod tensors;
mod testdata;

use anyhow::{Context, Result, bail, ensure};
use build::Builder;
use clap::Parser;
use regex::Regex;
use report::{Case, Report, Status};
use run::Runner;
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Mutex,
    time::{Duration, Instant},
};

/// Build and run folders of programs with expected outputs.
#[derive(Parser)]
struct Args {
    /// A folder of cases, or one case: program.mlir, inputs.safetensors, expected.safetensors, meta.json.
    /// Or StableHLO's public test programs, which assert with the check dialect: a folder, a file or a tar
    dir: Option<PathBuf>,
    /// Build DIR into OUT with everything that --run needs, and run nothing
    #[arg(long, value_name = "OUT", requires = "dir", conflicts_with = "run")]
    build_only: Option<PathBuf>,
    /// Run what --build-only left in OUT; needs no compiler
    #[arg(long, value_name = "OUT", conflicts_with = "dir")]
    run: Option<PathBuf>,
    /// auto, vulkan[:N], cuda[:N], rocm[:N]
    #[arg(long, default_value = "auto")]
    device: String,
    /// What to build for, as `zmlc build` takes it
    #[arg(long)]
    target: Option<String>,
    /// Which of a case's programs to build
    #[arg(long, default_value = "program.mlir", value_parser = ["program.mlir", "program_loc.mlir", "program.mlirbc"])]
    program: String,
    /// Write {"cases": [{"name", "status", "detail", "seconds"}]}
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only cases whose name this regular expression finds
    #[arg(long, value_name = "RE")]
    filter: Option<Regex>,
    /// Cases at a time [default: number of cores]
    #[arg(long)]
    jobs: Option<usize>,
    /// Folder of weights files that are not in the cases' own; may be given again
    #[arg(long, value_name = "DIR")]
    weights: Vec<PathBuf>,
    /// Arguments with a weights file become weights of the model instead of inputs
    #[arg(long)]
    model_weights: bool,
    /// Lines `NAME: why` of cases that are known to fail: they do not fail the run, and one that passes does
    #[arg(long, value_name = "FILE")]
    known: Option<PathBuf>,
    /// Seconds for the build and for the run of one case
    #[arg(long, default_value_t = 120)]
    time_limit: u64,
    /// [default: beside this program]
    #[arg(long, value_name = "PATH")]
    zmlc: Option<PathBuf>,
    /// [default: in OUT, or beside this program]
    #[arg(long, value_name = "PATH")]
    zml_run: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run_all(&Args::parse()) {
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
    let kept = args.build_only.as_ref().or(args.run.as_ref());
    let scratch = tempfile::tempdir()?;
    let out = kept.map_or(scratch.path(), PathBuf::as_path);

    let runner = if args.build_only.is_none() {
        let zml_run = tool(args.zml_run.as_ref(), "zml-run", args.run.as_deref())?;
        Some(Runner { zml_run, device: args.device.clone(), limit })
    } else {
        None
    };
    let (mut cases, builder) = match (&args.dir, &args.run) {
        (Some(dir), None) => {
            let builder = Builder {
                zmlc: tool(args.zmlc.as_ref(), "zmlc", None)?,
                target: args.target.clone(),
                program: args.program.clone(),
                weights: args.weights.clone(),
                model_weights: args.model_weights,
                limit,
            };
            let found = if testdata::is_testdata(dir) {
                testdata::convert(dir, &scratch.path().join("testdata"))?
            } else {
                case::find(dir)?
            };
            (found, Some(builder))
        }
        (None, Some(out)) => (built_cases(out)?, None),
        _ => bail!("give a folder of cases, or --run OUT"),
    };
    if let Some(re) = &args.filter {
        cases.retain(|(name, _)| re.is_match(name));
        ensure!(!cases.is_empty(), "no case matches {re}");
    }

    let next = Mutex::new(cases.into_iter());
    let done = Mutex::new(Vec::new());
    let jobs = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).max(1);
    let work = || -> Result<()> {
        loop {
            let Some((name, dir)) = next.lock().expect("no panic while held").next() else { return Ok(()) };
            let start = Instant::now();
            let (status, detail) = one(&name, &dir, out, builder.as_ref(), runner.as_ref())?;
            let seconds = (start.elapsed().as_secs_f64() * 1e3).round() / 1e3;
            done.lock().expect("no panic while held").push(Case { name, status, detail, seconds });
        }
    };
    std::thread::scope(|s| {
        let threads: Vec<_> = (0..jobs).map(|_| s.spawn(work)).collect();
        threads.into_iter().try_for_each(|t| t.join().expect("a case's failure is an error, not a panic"))
    })?;

    let mut cases = done.into_inner().expect("all threads have ended");
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    let report = Report { cases };
    print!("{}", report.table());
    if let Some(path) = &args.json {
        fs::write(path, serde_json::to_vec_pretty(&report)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let (Some(out), Some(_)) = (&args.build_only, &builder) {
        copy_tools(args, out)?;
    }
    let known = args.known.as_deref().map(known::read).transpose()?.unwrap_or_default();
    Ok(known::judge(&report, &known))
}

/// Builds (if there is a builder) and runs (if there is a runner) one case.
fn one(
    name: &str,
    dir: &Path,
    out: &Path,
    builder: Option<&Builder>,
    runner: Option<&Runner>,
) -> Result<(Status, String)> {
    let Some(builder) = builder else {
        return Ok(runner.context("nothing to do")?.run(dir));
    };
    let folder = out.join("cases").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot replace {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot write {}", folder.display()))?;
    let built = builder.build(dir, &folder)?;
    Ok(match runner {
        Some(r) => r.run(&folder),
        None => (built.status, built.detail),
    })
}

fn built_cases(out: &Path) -> Result<Vec<(String, PathBuf)>> {
    let root = out.join("cases");
    let mut cases = Vec::new();
    for entry in fs::read_dir(&root).with_context(|| format!("cannot read {}", root.display()))? {
        let entry = entry?;
        cases.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
    }
    cases.sort();
    Ok(cases)
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
