//! Random programs from seeds, run fused and unfused on a device and by the interpreter. A difference is shrunk to a small
//! program and written to a file.

mod check;
mod generate;
mod graph;
mod random;
mod shrink;

use anyhow::{Context, Result, ensure};
use check::{Checker, Form};
use clap::Parser;
use generate::Kind;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};
use zml_runtime::DeviceRequest;

/// Compare random programs with the interpreter.
#[derive(Parser, Clone)]
struct Args {
    /// Programs
    #[arg(long, default_value_t = 10_000)]
    count: u64,
    /// The first one's seed; the others count up from it
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// What they are of; by default one in four is of predicates
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// Programs in one artifact
    #[arg(long, default_value_t = 50)]
    batch: u64,
    /// Batches at a time [default: number of cores]
    #[arg(long)]
    jobs: Option<usize>,
    /// auto, vulkan[:N], cuda[:N], rocm[:N]
    #[arg(long, default_value = "vulkan")]
    device: DeviceRequest,
    /// What to build for, as `zmlc build` takes it [default: the device's usual profiles]
    #[arg(long)]
    target: Option<String>,
    /// Leave out the unfused form
    #[arg(long)]
    fused_only: bool,
    /// Seconds for a batch
    #[arg(long, default_value_t = 600)]
    time_limit: u64,
    /// Where shrunk programs are written
    #[arg(long, value_name = "DIR", default_value = "target/property")]
    out: PathBuf,
    /// [default: beside this program]
    #[arg(long, value_name = "PATH")]
    zmlc: Option<PathBuf>,
    /// Print the program of --seed and stop
    #[arg(long)]
    print: bool,
    /// Run one batch in this process: what this program starts itself for
    #[arg(long, hide = true)]
    worker: bool,
}

/// In what zmlc says of a program that is right and that the target does not do.
const REFUSED: &str = "error[E08";

/// A program that went wrong, or was refused.
#[derive(Debug, Serialize, Deserialize)]
struct Finding {
    seed: u64,
    kind: String,
    form: String,
    why: String,
    /// As small as it still goes wrong.
    program: String,
}

fn main() -> ExitCode {
    let args = Args::parse();
    // What is judged is what the driver makes of the kernels now.
    zml_runtime::use_cache(None);
    let done = if args.print {
        println!("{}", generate::graph(args.seed, kind(&args, args.seed)).text());
        Ok(true)
    } else if args.worker {
        worker(&args).map(|()| true)
    } else {
        run(&args)
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

fn kind(args: &Args, seed: u64) -> Kind {
    args.kind.unwrap_or(if seed.is_multiple_of(4) { Kind::Predicates } else { Kind::Mixed })
}

/// A batch: findings as lines of JSON on stdout.
fn worker(args: &Args) -> Result<()> {
    let zmlc = args.zmlc.clone().context("--zmlc")?;
    let checker = Checker { zmlc, device: args.device, target: args.target.clone() };
    let seeds: Vec<u64> = (args.seed..args.seed + args.count).collect();
    let graphs: Vec<_> = seeds.iter().map(|s| generate::graph(*s, kind(args, *s))).collect();
    let all: Vec<&_> = graphs.iter().collect();
    let forms: &[Form] = if args.fused_only { &[Form::Fused] } else { &[Form::Fused, Form::Unfused] };
    let mut wrong = vec![false; graphs.len()];
    for form in forms {
        for (i, why) in checker.check(&all, *form)?.into_iter().enumerate() {
            let Some(why) = why.filter(|_| !wrong[i]) else { continue };
            wrong[i] = true;
            let kind = format!("{:?}", kind(args, seeds[i]));
            if why.contains(REFUSED) {
                let f = Finding { seed: seeds[i], kind, form: REFUSED.into(), why, program: String::new() };
                println!("{}", serde_json::to_string(&f)?);
                continue;
            }
            let mut last = why.clone();
            let small = shrink::shrink(&graphs[i], &mut |g| match checker.check(&[g], *form) {
                Ok(found) => match found.into_iter().next().flatten() {
                    // A shrunk program that does not read is another fault, and ours.
                    Some(w) if !w.starts_with("the interpreter") => {
                        last = w;
                        true
                    }
                    _ => false,
                },
                Err(_) => false,
            });
            let finding = Finding { seed: seeds[i], kind, form: form.name().into(), why: last, program: small.text() };
            println!("{}", serde_json::to_string(&finding)?);
        }
    }
    Ok(())
}

fn run(args: &Args) -> Result<bool> {
    let exe = std::env::current_exe()?;
    let beside = exe.parent().unwrap_or(Path::new("")).join("zmlc");
    let zmlc = args.zmlc.clone().unwrap_or(beside);
    ensure!(zmlc.is_file(), "no zmlc at {}: build it, or give --zmlc PATH", zmlc.display());
    let args = Args { zmlc: Some(zmlc), ..args.clone() };
    let end = args.seed + args.count;
    let batches: VecDeque<(u64, u64)> =
        (args.seed..end).step_by(args.batch.max(1) as usize).map(|s| (s, args.batch.max(1).min(end - s))).collect();
    let (queue, found, done) = (Mutex::new(batches), Mutex::new(vec![]), Mutex::new(0));
    let refused: Mutex<BTreeMap<String, u64>> = Mutex::default();
    let work = || -> Result<()> {
        loop {
            let Some((seed, count)) = queue.lock().expect("no panic while held").pop_front() else { return Ok(()) };
            match batch(&exe, &args, seed, count)? {
                Ok(new) => {
                    for f in new {
                        if f.form == REFUSED {
                            *refused.lock().expect("no panic while held").entry(f.why).or_insert(0) += 1;
                            continue;
                        }
                        report(&args, &f)?;
                        found.lock().expect("no panic while held").push(f);
                    }
                    let mut done = done.lock().expect("no panic while held");
                    *done += count;
                    let wrong = found.lock().expect("no panic while held").len();
                    eprintln!("{done} of {} programs, {wrong} wrong", args.count);
                }
                // A crash or a hang: in halves, until it is one program's.
                Err(_) if count > 1 => {
                    let mut queue = queue.lock().expect("no panic while held");
                    queue.push_front((seed + count / 2, count - count / 2));
                    queue.push_front((seed, count / 2));
                }
                Err(why) => {
                    let k = kind(&args, seed);
                    let program = generate::graph(seed, k).text();
                    let f = Finding { seed, kind: format!("{k:?}"), form: String::new(), why, program };
                    report(&args, &f)?;
                    found.lock().expect("no panic while held").push(f);
                    *done.lock().expect("no panic while held") += 1;
                }
            }
        }
    };
    let jobs = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).max(1);
    std::thread::scope(|s| {
        let threads: Vec<_> = (0..jobs).map(|_| s.spawn(work)).collect();
        threads.into_iter().try_for_each(|t| t.join().expect("findings are no panics"))
    })?;
    let wrong = found.into_inner().expect("all threads have ended").len();
    let predicates = (args.seed..end).filter(|s| kind(&args, *s) == Kind::Predicates).count();
    let refused = refused.into_inner().expect("all threads have ended");
    for (why, count) in &refused {
        println!("{count} refused: {why}");
    }
    let refused: u64 = refused.values().sum();
    println!("{} programs, {predicates} of them of predicates: {wrong} wrong, {refused} refused", args.count);
    Ok(wrong == 0)
}

/// Findings of a batch in a process of its own, or how that process ended.
fn batch(exe: &Path, args: &Args, seed: u64, count: u64) -> Result<Result<Vec<Finding>, String>> {
    let out = tempfile::NamedTempFile::new()?;
    let mut command = Command::new(exe);
    command.args(["--worker", "--seed", &seed.to_string(), "--count", &count.to_string()]);
    command.args(["--device", &args.device.to_string()]).arg("--zmlc").arg(args.zmlc.as_ref().expect("set"));
    if let Some(k) = args.kind {
        command.args(["--kind", if k == Kind::Mixed { "mixed" } else { "predicates" }]);
    }
    if args.fused_only {
        command.arg("--fused-only");
    }
    if let Some(target) = &args.target {
        command.args(["--target", target]);
    }
    let mut child = command.stdin(Stdio::null()).stdout(out.reopen()?).spawn()?;
    let status = wait(&mut child, Duration::from_secs(args.time_limit))?;
    if let Err(why) = status {
        return Ok(Err(why));
    }
    let text = fs::read_to_string(out.path())?;
    Ok(Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?))
}
fn wait(child: &mut Child, limit: Duration) -> Result<Result<(), String>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(if status.success() { Ok(()) } else { Err(status.to_string()) });
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(Err("over the time limit".into()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn report(args: &Args, f: &Finding) -> Result<()> {
    fs::create_dir_all(&args.out).with_context(|| format!("cannot write {}", args.out.display()))?;
    let path = args.out.join(format!("{}.mlir", f.seed));
    let text = format!("// seed {}, {}, {}: {}\n{}", f.seed, f.kind, f.form, f.why, f.program);
    fs::write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}: {}\n{text}", f.seed, path.display());
    Ok(())
}
