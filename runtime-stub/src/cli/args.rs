//! The command line, read by hand: the runtime is shipped in every image and stays small.

use crate::{choose::built_for, device::DeviceRequest};
use std::{path::PathBuf, time::Duration};
use zml_format::{Dim, Entry, Tensor, symbolic};

/// What `--help` prints; `zml-run` is replaced by the name of the command.
pub const HELP: &str = "\
Runs a .zml model on Vulkan, CUDA or ROCm.

Usage: zml-run MODEL.zml [OPTIONS]
       zml-run bench MODEL.zml [OPTIONS]
       zml-run [MODEL.zml] doctor [--message-format json]

Options:
  --entry NAME            Entry to call, if the model has several
  --dims NAME=SIZE,...    Sizes of dynamic dimensions, where the shapes of the inputs do not tell them
  --device DEVICE         auto (default), vulkan[:N], cuda[:N] or rocm[:N]; a named device is used or it is an error
  --input WHICH=FILE      Value of an input, by name or index, from a .npy or .safetensors file (there the tensor of the
                          input's name, or the only one). WHICH=random:SEED makes it up.
                          all=FILE.safetensors takes every input by name, all=random:SEED makes every one up
  --output WHICH=FILE     Where an output goes: .npy or .safetensors; all=FILE.safetensors takes every one by name.
                          Without any, shapes and first values are printed
  --weights DIR           Folder with the weights that the model keeps outside, after the model's own folder and before
                          the one that ZML_WEIGHTS names
  --libraries DIR         Folder with the vendor libraries that the model calls; default: lib beside the program's folder
  --deadline SECONDS      End with an error if a call takes longer
  --no-cache              Neither read nor keep what drivers make of kernels
  --timings               Say what the start and the first call take, part by part, on stderr
  --verbose, -v           Say on stderr what of the cache was ignored, and why
  --message-format FORMAT human (default) or json: one object a line, results on stdout, errors on stderr
  --help, --version

Without inputs, a model that has some lists them with their types and ends with exit code 2.

bench times calls, from the host and on the device kernel by kernel. Inputs that are not given are made up.
  --calls N               Calls to measure, instead of as many as a second holds (5 to 1000)

doctor lists the devices of this machine; with a model, which of them would run it, or why none does, and whether its
weights and libraries are there. Exit code 1: it would not run.

Environment:
  ZML_WEIGHTS             Folder with weights
  ZML_CACHE_DIR           Folder for what drivers make of kernels; default: zml in the user's cache folder (XDG_CACHE_HOME,
                          else ~/.cache). A file there is used for the same device, driver and model alone
  ZML_LIBVULKAN, ZML_LIBCUDA, ZML_LIBAMDHIP64
                          Library to open instead of libvulkan.so.1, libcuda.so.1, libamdhip64.so

Exit codes: 0 success, 1 the model, its inputs or the machine are at fault, 2 wrong usage, 101 a bug of zmlc.
";

#[derive(Debug, PartialEq)]
pub enum Command {
    Help,
    Version,
    Doctor { artifact: Option<PathBuf>, run: Run },
    Run(Run),
    Bench(Run),
}

#[derive(Debug, Default, PartialEq)]
pub struct Run {
    pub artifact: PathBuf,
    pub entry: Option<String>,
    pub dims: Vec<Dim>,
    pub device: DeviceRequest,
    /// As given, `WHICH=FILE`: which it is, only the model's names tell.
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    pub weights: Option<PathBuf>,
    pub libraries: Option<PathBuf>,
    pub deadline: Option<Duration>,
    /// Of `bench`.
    pub calls: Option<u32>,
    pub no_cache: bool,
    pub timings: bool,
    pub verbose: bool,
    pub json: bool,
}

/// The command, or what is wrong with the arguments.
pub fn parse(args: &[String]) -> Result<Command, String> {
    let mut run = Run::default();
    let mut words: Vec<&str> = vec![];
    let mut rest = args.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        if matches!(word, "--help" | "-h" | "help") {
            return Ok(Command::Help);
        }
        if matches!(word, "--version" | "-V") {
            return Ok(Command::Version);
        }
        let flag = match word {
            "--no-cache" => Some(&mut run.no_cache),
            "--timings" => Some(&mut run.timings),
            "--verbose" | "-v" => Some(&mut run.verbose),
            _ => None,
        };
        if let Some(flag) = flag {
            *flag = true;
            continue;
        }
        let Some(option) = word.strip_prefix("--") else {
            if word.starts_with('-') {
                return Err(format!("unknown option {word}"));
            }
            words.push(word);
            continue;
        };
        let (name, attached) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        if ![
            "entry",
            "dims",
            "device",
            "input",
            "output",
            "weights",
            "libraries",
            "deadline",
            "calls",
            "message-format",
        ]
        .contains(&name)
        {
            return Err(format!("unknown option --{name}"));
        }
        let value = attached.or_else(|| rest.next()).ok_or_else(|| format!("--{name} needs a value"))?;
        match name {
            "entry" => run.entry = Some(value.into()),
            "dims" => sizes(value, &mut run.dims)?,
            "device" => run.device = value.parse().map_err(|e: crate::Error| e.to_string())?,
            "input" => run.inputs.push(value.into()),
            "output" => run.outputs.push(value.into()),
            "weights" => run.weights = Some(value.into()),
            "libraries" => run.libraries = Some(value.into()),
            "deadline" => {
                let seconds = value.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
                let wrong = || format!("--deadline is a number of seconds, not {value}");
                run.deadline = Some(seconds.filter(|d| !d.is_zero()).ok_or_else(wrong)?);
            }
            "calls" => {
                let calls = value.parse().ok().filter(|n| *n > 0);
                run.calls = Some(calls.ok_or_else(|| format!("--calls is a number from 1, not {value}"))?);
            }
            _ => {
                run.json = match value {
                    "json" => true,
                    "human" => false,
                    _ => return Err(format!("--message-format is human or json, not {value}")),
                }
            }
        }
    }
    if run.calls.is_some() && words.first() != Some(&"bench") {
        return Err("--calls is an option of bench".into());
    }
    match words[..] {
        ["bench"] => Err("no model given".into()),
        ["bench", artifact] if !run.outputs.is_empty() => Err(format!("bench of {artifact} writes no outputs")),
        ["bench", artifact] => Ok(Command::Bench(Run { artifact: artifact.into(), ..run })),
        ["doctor"] => Ok(Command::Doctor { artifact: None, run }),
        [artifact, "doctor"] => Ok(Command::Doctor { artifact: Some(artifact.into()), run }),
        [artifact] => Ok(Command::Run(Run { artifact: artifact.into(), ..run })),
        [] => Err("no model given".into()),
        [_, extra, ..] => Err(format!("unexpected argument `{extra}`")),
    }
}

/// `batch=8,seq=16`
fn sizes(list: &str, dims: &mut Vec<Dim>) -> Result<(), String> {
    for part in list.split(',') {
        let pair = part.rsplit_once('=').and_then(|(name, n)| Some((name.trim(), n.trim().parse().ok()?)));
        let Some((name, size)) = pair else { return Err(format!("--dims is NAME=SIZE,..., not {list}")) };
        if dims.iter().any(|d| d.name == name) {
            return Err(format!("--dims has `{name}` twice"));
        }
        dims.push(Dim { name: name.into(), size });
    }
    Ok(())
}

/// `WHICH=FILE` where `which` may itself have `=` in it: the longest name that fits wins.
pub fn split<'a>(argument: &'a str, names: impl Iterator<Item = &'a str>) -> Option<(&'a str, &'a str)> {
    let after = |name: &str| argument.strip_prefix(name)?.strip_prefix('=');
    let named = names.filter_map(|n| Some((n, after(n)?))).max_by_key(|(n, _)| n.len());
    named.or_else(|| argument.split_once('='))
}

/// Inputs and outputs of an entry, of all its specialisations at once, one a line.
pub fn listing(entries: &[&Entry]) -> String {
    let mut rows: Vec<(String, Vec<&Tensor>)> = vec![];
    for i in 0..entries[0].inputs().count() {
        rows.push((format!("input {i}"), entries.iter().filter_map(|e| Some(e.inputs().nth(i)?.1)).collect()));
    }
    for i in 0..entries[0].outputs().count() {
        rows.push((format!("output {i}"), entries.iter().filter_map(|e| Some(e.outputs().nth(i)?.1)).collect()));
    }
    let width = rows.iter().map(|(_, t)| t[0].name.chars().count()).max().unwrap_or(0);
    let line = |(what, tensors): &(String, Vec<&Tensor>)| {
        let (t, shape) = (tensors[0], symbolic(entries, tensors).join(", "));
        let form = if shape.is_empty() { t.dtype.to_string() } else { format!("{} [{shape}]", t.dtype) };
        format!("  {what:<9} {:width$}  {form}\n", t.name)
    };
    let built = if entries[0].dims.is_empty() { String::new() } else { format!(", which {}", built_for(entries)) };
    format!("entry {}{built}\n{}", entries[0].name, rows.iter().map(line).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Backend;

    fn of(line: &str) -> Result<Command, String> {
        parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn options_with_and_without_equals_sign() {
        let run = Run {
            artifact: "m.zml".into(),
            entry: Some("f".into()),
            dims: [("b", 8), ("s", 16)].map(|(name, size)| Dim { name: name.into(), size }).to_vec(),
            device: DeviceRequest::Named(Backend::Cuda, Some(1)),
            inputs: vec!["x=a.npy".into(), "1=b=c.npy".into()],
            outputs: vec!["y=o.npy".into()],
            weights: Some("w".into()),
            libraries: Some("l".into()),
            deadline: Some(Duration::from_millis(1500)),
            calls: None,
            no_cache: true,
            timings: true,
            verbose: true,
            json: true,
        };
        let line = "--entry f -v --dims b=8,s=16 m.zml --device=cuda:1 --input x=a.npy --input=1=b=c.npy --output y=o.npy --weights w --libraries l --deadline 1.5 \
                    --message-format json --timings --no-cache";
        assert_eq!(of(line), Ok(Command::Run(run)));
        let bench = Run { artifact: "m.zml".into(), calls: Some(9), ..Run::default() };
        assert_eq!(of("bench m.zml --calls 9"), Ok(Command::Bench(bench)));
        assert_eq!(of("doctor"), Ok(Command::Doctor { artifact: None, run: Run::default() }));
        let artifact = Some("m.zml".into());
        assert_eq!(of("m.zml doctor"), Ok(Command::Doctor { artifact, run: Run::default() }));
        assert_eq!((of("m.zml --help"), of("-V")), (Ok(Command::Help), Ok(Command::Version)));
    }

    #[test]
    fn wrong_usage_is_named() {
        for (line, why) in [
            ("", "no model given"),
            ("a b", "unexpected argument `b`"),
            ("a --input", "--input needs a value"),
            ("a --inputs=x", "unknown option --inputs"),
            ("a -x", "unknown option -x"),
            ("a --timings=1", "unknown option --timings"),
            ("a --dims b", "--dims is NAME=SIZE,..., not b"),
            ("a --dims b=-1", "--dims is NAME=SIZE,..., not b=-1"),
            ("a --dims b=1 --dims b=2", "--dims has `b` twice"),
            ("a --device gpu", "no device `gpu`: give auto, vulkan[:N], cuda[:N] or rocm[:N]"),
            ("a --deadline 0", "--deadline is a number of seconds, not 0"),
            ("a --deadline soon", "--deadline is a number of seconds, not soon"),
            ("a --calls 5", "--calls is an option of bench"),
            ("bench a --calls 0", "--calls is a number from 1, not 0"),
            ("bench a --output 0=y.npy", "bench of a writes no outputs"),
            ("bench", "no model given"),
            ("a --message-format xml", "--message-format is human or json, not xml"),
        ] {
            assert_eq!(of(line), Err(why.into()));
        }
    }

    #[test]
    fn names_may_hold_equals_signs() {
        let names = ["a", "a=b", "c"];
        let split = |s| split(s, names.into_iter());
        assert_eq!(split("a=b=f.npy"), Some(("a=b", "f.npy")));
        assert_eq!(split("a=f=g.npy"), Some(("a", "f=g.npy")));
        assert_eq!(split("0=f.npy"), Some(("0", "f.npy")));
        assert_eq!(split("f.npy"), None);
    }
}
