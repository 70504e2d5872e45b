//! The command line, read by hand: the runtime is shipped in every image and stays small.

use crate::{device::DeviceRequest, tensor::type_text};
use std::path::PathBuf;
use zml_format::Entry;

/// What `--help` prints; `zml-run` is replaced by the name of the command.
pub const HELP: &str = "\
Runs a .zml model on Vulkan, CUDA or ROCm.

Usage: zml-run MODEL.zml [OPTIONS]
       zml-run doctor [--message-format json]

Options:
  --entry NAME            Entry to call, if the model has several
  --device DEVICE         auto (default), vulkan[:N], cuda[:N] or rocm[:N]; a named device is used or it is an error
  --input WHICH=FILE      Value of an input, by name or index, from a .npy or .safetensors file (there the tensor of the
                          input's name, or the only one). WHICH=random:SEED makes it up.
                          all=FILE.safetensors takes every input by name, all=random:SEED makes every one up
  --output WHICH=FILE     Where an output goes: .npy or .safetensors; all=FILE.safetensors takes every one by name.
                          Without any, shapes and first values are printed
  --weights DIR           Folder with the weights that the model keeps outside, after the model's own folder and before
                          the one that ZML_WEIGHTS names
  --message-format FORMAT human (default) or json: one object a line, results on stdout, errors on stderr
  --help, --version

Without inputs, a model that has some lists them with their types and ends with exit code 2.

doctor lists the devices of this machine.

Environment:
  ZML_WEIGHTS             Folder with weights
  ZML_LIBVULKAN, ZML_LIBCUDA, ZML_LIBAMDHIP64
                          Library to open instead of libvulkan.so.1, libcuda.so.1, libamdhip64.so

Exit codes: 0 success, 1 the model, its inputs or the machine are at fault, 2 wrong usage, 101 a bug of zmlc.
";

#[derive(Debug, PartialEq)]
pub enum Command {
    Help,
    Version,
    Doctor { json: bool },
    Run(Run),
}

#[derive(Debug, Default, PartialEq)]
pub struct Run {
    pub artifact: PathBuf,
    pub entry: Option<String>,
    pub device: DeviceRequest,
    /// As given, `WHICH=FILE`: which it is, only the model's names tell.
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    pub weights: Option<PathBuf>,
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
        if !["entry", "device", "input", "output", "weights", "message-format"].contains(&name) {
            return Err(format!("unknown option --{name}"));
        }
        let value = attached.or_else(|| rest.next()).ok_or_else(|| format!("--{name} needs a value"))?;
        match name {
            "entry" => run.entry = Some(value.into()),
            "device" => run.device = value.parse().map_err(|e: crate::Error| e.to_string())?,
            "input" => run.inputs.push(value.into()),
            "output" => run.outputs.push(value.into()),
            "weights" => run.weights = Some(value.into()),
            _ => {
                run.json = match value {
                    "json" => true,
                    "human" => false,
                    _ => return Err(format!("--message-format is human or json, not {value}")),
                }
            }
        }
    }
    match words[..] {
        ["doctor"] => Ok(Command::Doctor { json: run.json }),
        [artifact] => Ok(Command::Run(Run { artifact: artifact.into(), ..run })),
        [] => Err("no model given".into()),
        [_, extra, ..] => Err(format!("unexpected argument `{extra}`")),
    }
}

/// `WHICH=FILE` where `which` may itself have `=` in it: the longest name that fits wins.
pub fn split<'a>(argument: &'a str, names: impl Iterator<Item = &'a str>) -> Option<(&'a str, &'a str)> {
    let after = |name: &str| argument.strip_prefix(name)?.strip_prefix('=');
    let named = names.filter_map(|n| Some((n, after(n)?))).max_by_key(|(n, _)| n.len());
    named.or_else(|| argument.split_once('='))
}

/// Inputs and outputs of an entry, one a line.
pub fn listing(e: &Entry) -> String {
    let mut rows = vec![];
    for (i, (_, t)) in e.inputs().enumerate() {
        rows.push((format!("input {i}"), t));
    }
    for (i, (_, t)) in e.outputs().enumerate() {
        rows.push((format!("output {i}"), t));
    }
    let width = rows.iter().map(|(_, t)| t.name.chars().count()).max().unwrap_or(0);
    let line = |(what, t): &(String, &zml_format::Tensor)| {
        format!("  {what:<9} {:width$}  {}\n", t.name, type_text(t.dtype, &t.shape))
    };
    format!("entry {}\n{}", e.name, rows.iter().map(line).collect::<String>())
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
            device: DeviceRequest::Named(Backend::Cuda, Some(1)),
            inputs: vec!["x=a.npy".into(), "1=b=c.npy".into()],
            outputs: vec!["y=o.npy".into()],
            weights: Some("w".into()),
            json: true,
        };
        let line = "--entry f m.zml --device=cuda:1 --input x=a.npy --input=1=b=c.npy --output y=o.npy --weights w \
                    --message-format json";
        assert_eq!(of(line), Ok(Command::Run(run)));
        assert_eq!(of("doctor"), Ok(Command::Doctor { json: false }));
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
            ("a --device gpu", "no device `gpu`: give auto, vulkan[:N], cuda[:N] or rocm[:N]"),
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
