//! `zml-run`, as a function: `zmlc run` calls the same.
//!
//! Results go to stdout, messages to stderr. This is the only part of the crate that prints.

mod args;
mod doctor;
mod values;

use crate::{
    device::Device,
    error::Result,
    model::{Model, find_entry},
    session::Session,
    tensor::{show, type_text},
    weights::WeightPlaces,
};
use args::{Command, Run};
pub use doctor::report;
use serde_json::{Value, json};
use std::{io::Write, process::ExitCode};
use zml_format::{Artifact, Entry, Manifest, Tensor};

/// Runs the command line `args`, which do not have the program's name; `program` is what help calls it.
///
/// Exit codes: 0, 1 (the input or the machine), 2 (usage), 101 (a bug of zmlc).
pub fn run(program: &str, args: &[String]) -> ExitCode {
    match args::parse(args) {
        Ok(Command::Help) => say(&args::HELP.replace("zml-run", program)),
        Ok(Command::Version) => say(&format!("{program} {}\n", env!("CARGO_PKG_VERSION"))),
        Ok(Command::Doctor { json }) => say(&report(json)),
        Ok(Command::Run(run)) => {
            let done = match Artifact::open(&run.artifact) {
                Ok(artifact) => call(&run, &artifact).map_err(|e| (e.to_string(), e)),
                Err(e) => Err((format!("{}: {e}", run.artifact.display()), e.into())),
            };
            return done.unwrap_or_else(|(message, e)| {
                complain(run.json, e.code(), &message);
                ExitCode::from(e.exit_code())
            });
        }
        Err(why) => {
            let json = args.iter().any(|a| a == "json" || a == "--message-format=json");
            complain(json, "usage", &why);
            if !json {
                eprintln!("see {program} --help");
            }
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// On stdout. A closed pipe ends the output, not the program with a panic.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn complain(json: bool, code: &str, message: &str) {
    if json {
        eprintln!("{}", json!({"severity": "error", "code": code, "message": message}));
    } else {
        eprintln!("error: {message}");
    }
}

fn call(run: &Run, artifact: &Artifact) -> Result<ExitCode> {
    let manifest = &artifact.manifest;
    if run.inputs.is_empty() && is_missing_inputs(manifest, run.entry.as_deref())? {
        return Ok(list(run, manifest));
    }
    let entry = find_entry(manifest, run.entry.as_deref())?;
    // Before the device is opened: what is wrong with the input should not take a second to say.
    let inputs = values::inputs(entry, &run.inputs)?;
    let outputs = values::Outputs::new(entry, &run.outputs)?;

    let device = Device::open(run.device, artifact)?;
    if run.json {
        say(&format!(
            "{}\n",
            json!({"reason": "device", "device": device.to_string(), "passed_over": device.passed_over()})
        ));
    } else {
        eprintln!("device: {device}");
        device.passed_over().iter().for_each(|line| eprintln!("  {line}"));
    }
    let model = Model::load(artifact, &device, &WeightPlaces::of(artifact, run.weights.as_deref()))?;
    let mut session = Session::new(&model)?;
    for (i, t) in inputs.iter().enumerate() {
        session.write(&entry.name, i, &t.bytes)?;
    }
    session.call(&entry.name)?;
    if run.outputs.is_empty() {
        print_outputs(run.json, entry, &session)?;
    } else {
        outputs.write(&session)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether the entry that is meant, or each that may be meant, has inputs.
fn is_missing_inputs(m: &Manifest, name: Option<&str>) -> Result<bool> {
    match name {
        None if m.entries.len() != 1 => Ok(true),
        name => Ok(find_entry(m, name)?.inputs().next().is_some()),
    }
}

fn list(run: &Run, m: &Manifest) -> ExitCode {
    let entries: Vec<&Entry> =
        m.entries.iter().filter(|e| run.entry.as_ref().is_none_or(|name| *name == e.name)).collect();
    if run.json {
        let tensor = |(_, t): (usize, &Tensor)| json!({"name": t.name, "dtype": t.dtype, "shape": t.shape});
        for e in entries {
            let inputs: Vec<Value> = e.inputs().map(tensor).collect();
            let outputs: Vec<Value> = e.outputs().map(tensor).collect();
            say(&format!("{}\n", json!({"reason": "entry", "entry": e.name, "inputs": inputs, "outputs": outputs})));
        }
    } else {
        let profiles: Vec<_> = m.profiles.iter().map(|p| format!("{}:{}", p.target, p.name)).collect();
        say(&format!("{} {} for {}\n", m.model.name, m.model.version, profiles.join(", ")));
        entries.iter().for_each(|e| say(&args::listing(e)));
        let entry = if entries.len() > 1 { "choose with --entry NAME, and " } else { "" };
        eprintln!(
            "{entry}supply inputs with --input NAME|INDEX=FILE (.npy or .safetensors), --input all=FILE.safetensors or --input all=random:SEED"
        );
    }
    ExitCode::from(2)
}

/// Values shown of each output.
const SHOWN: usize = 16;

fn print_outputs(json: bool, entry: &Entry, session: &Session) -> Result<()> {
    for (i, (_, t)) in entry.outputs().enumerate() {
        let values = show(t.dtype, session.read(&entry.name, i)?, SHOWN);
        say(&if json {
            let o = json!({"reason": "output", "index": i, "name": t.name, "dtype": t.dtype, "shape": t.shape, "first": values});
            format!("{o}\n")
        } else {
            format!("{}: {} = {values}\n", t.name, type_text(t.dtype, &t.shape))
        });
    }
    Ok(())
}
