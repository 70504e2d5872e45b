//! Which cases a run is of, and taking each through its steps.

use crate::{
    args::Args,
    build::{Builder, Built},
    case,
    dump::Dumper,
    progress::Progress,
    report::{Case, Status},
    resume::Log,
    run::Runner,
    testdata::{self, Named},
    work,
};
use anyhow::{Context, Result, bail, ensure};
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Names and folders, sorted, as far as the filter lets them through.
pub fn find(args: &Args, scratch: &Path) -> Result<Vec<Named>> {
    let mut cases = match (&args.dir, &args.run) {
        (Some(dir), None) if testdata::is_testdata(dir) => convert(args, dir, scratch)?,
        (Some(dir), None) => case::find(dir)?,
        (None, Some(out)) => built(out)?,
        _ => bail!("give a folder of cases, or --run OUT"),
    };
    if let Some(re) = &args.filter {
        cases.retain(|(name, _)| re.is_match(name));
        ensure!(!cases.is_empty(), "no case matches {re}");
    }
    cases.sort();
    Ok(cases)
}

fn convert(args: &Args, dir: &Path, scratch: &Path) -> Result<Vec<Named>> {
    let mut files = testdata::programs(dir, &scratch.join("archive"))?;
    // A case's name begins with its file's: what a filter for single cases leaves out is not read.
    if let Some(re) = &args.filter
        && files.iter().any(|(stem, _)| re.is_match(stem))
    {
        files.retain(|(stem, _)| re.is_match(stem));
    }
    let progress = Progress::new("reading", files.len());
    let limit = Duration::from_secs(args.time_limit);
    let found = work::each(files, args.jobs(), |(stem, file)| {
        let cases = testdata::converted(&stem, &file, &scratch.join("testdata").join(&stem), limit)?;
        progress.step(&stem);
        Ok(cases)
    })?;
    let cases: Vec<Named> = found.into_iter().flatten().collect();
    ensure!(!cases.is_empty(), "{} has no test program: none asserts with the check dialect", dir.display());
    Ok(cases)
}

fn built(out: &Path) -> Result<Vec<Named>> {
    let root = out.join("cases");
    let mut cases = Vec::new();
    for entry in fs::read_dir(&root).with_context(|| format!("cannot read {}", root.display()))? {
        let entry = entry?;
        cases.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
    }
    Ok(cases)
}

/// What is done with each case.
pub struct Steps {
    pub builder: Option<Builder>,
    pub runner: Option<Runner>,
    pub dumper: Option<Dumper>,
    /// Built cases go below this.
    pub out: PathBuf,
}

/// Takes all cases through the steps; those in the log are done already.
pub fn run(args: &Args, cases: Vec<Named>, steps: &Steps) -> Result<Vec<Case>> {
    let (log, mut ended) = match &args.resume {
        Some(path) => {
            let shown = |p: &Option<PathBuf>| p.as_ref().map(|p| p.display().to_string()).unwrap_or_default();
            let what = format!(
                "{} {} for {} on {}",
                if args.run.is_some() { "run" } else { "build" },
                [shown(&args.dir), shown(&args.run)].concat(),
                args.target.as_deref().unwrap_or("all targets"),
                args.device
            );
            let (log, ended) = Log::open(path, &what)?;
            (Some(log), ended)
        }
        None => (None, vec![]),
    };
    ended.retain(|c| cases.iter().any(|(n, _)| *n == c.name));
    let mut left = cases;
    left.retain(|(name, _)| !ended.iter().any(|c| c.name == *name));
    let progress = Progress::new("running", left.len());
    let done = work::each(left, args.jobs(), |(name, dir)| {
        let start = Instant::now();
        let (built, status, detail) = one(&name, &dir, steps)?;
        let rounded = |s: f64| (s * 1e3).round() / 1e3;
        let meta = case::read_meta(&dir).ok();
        let of = |f: fn(case::Meta) -> Option<String>| meta.clone().and_then(f).unwrap_or_default();
        let case = Case {
            status,
            detail,
            op: of(|m| m.op),
            dtype: of(|m| m.dtype),
            seconds: rounded(start.elapsed().as_secs_f64()),
            build_seconds: rounded(built.map_or(0.0, |b| b.seconds)),
            name,
        };
        log.as_ref().map_or(Ok(()), |l| l.add(&case))?;
        progress.step(&case.name);
        Ok(case)
    })?;
    ended.extend(done);
    Ok(ended)
}

/// Builds (if there is a builder) and runs (if there is a runner) one case.
fn one(name: &str, dir: &Path, steps: &Steps) -> Result<(Option<Built>, Status, String)> {
    let Some(builder) = &steps.builder else {
        let (status, detail) = steps.runner.as_ref().context("nothing to do")?.run(dir);
        return Ok((None, status, detail));
    };
    let folder = steps.out.join("cases").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot replace {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot write {}", folder.display()))?;
    let built = builder.build(dir, &folder)?;
    let (status, detail) = match (&steps.runner, &steps.dumper) {
        (Some(r), _) => r.run(&folder),
        (None, Some(d)) if built.status == Status::Passed => d.dump(name, &folder, &built)?,
        _ => (built.status, built.detail.clone()),
    };
    Ok((Some(built), status, detail))
}
