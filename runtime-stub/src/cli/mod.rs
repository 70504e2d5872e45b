//! `zml-run`, as a function: `zmlc run` calls the same.
//!
//! Results go to stdout, messages to stderr. This is the only part of the crate that prints.

mod args;
mod bench;
mod doctor;
mod start;
mod values;

use crate::{
    choose::{by_sizes, specialisations},
    device::Device,
    error::{Error, Result},
    model::Model,
    session::Session,
    spans::Spans,
    tensor::{self, show, type_text},
    weights::WeightPlaces,
};
use args::{Command, Run};
pub use doctor::report;
use serde_json::{Value, json};
use std::{io::Write, process::ExitCode};
pub use values::{choose, inputs};
use zml_format::{Artifact, Entry, Manifest, Tensor, sizes};

/// Runs the command line `args`, which do not have the program's name; `program` is what help calls it.
///
/// Exit codes: 0, 1 (the input or the machine), 2 (usage), 101 (a bug of zmlc).
pub fn run(program: &str, args: &[String]) -> ExitCode {
    match args::parse(args) {
        Ok(Command::Help) => say(&args::HELP.replace("zml-run", program)),
        Ok(Command::Version) => say(&format!("{program} {}\n", env!("CARGO_PKG_VERSION"))),
        Ok(Command::Doctor { artifact: None, run }) => say(&report(run.json)),
        Ok(Command::Doctor { artifact: Some(path), run }) => match Artifact::open(&path) {
            Ok(artifact) => {
                run.libraries.iter().for_each(|l| crate::use_libraries(l));
                let (text, serves) = doctor::of_model(&artifact, run.weights.as_deref(), run.json);
                say(&text);
                return ExitCode::from(u8::from(!serves));
            }
            Err(e) => {
                complain(run.json, "artifact", &format!("{}: {e}", path.display()));
                return ExitCode::FAILURE;
            }
        },
        Ok(Command::Run(run)) => return with_artifact(&run, call),
        Ok(Command::Bench(run)) => return with_artifact(&run, bench::bench),
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

fn with_artifact(run: &Run, work: impl FnOnce(&Run, &mut Artifact, &Spans) -> Result<ExitCode>) -> ExitCode {
    if run.no_cache {
        crate::use_cache(None);
    }
    let spans = Spans::default();
    let done = match spans.time("read the artifact", || Artifact::open(&run.artifact)) {
        Ok(mut artifact) => work(run, &mut artifact, &spans).map_err(|e| (e.to_string(), e)),
        Err(e) => Err((format!("{}: {e}", run.artifact.display()), e.into())),
    };
    done.unwrap_or_else(|(message, e)| {
        complain(run.json, e.code(), &message);
        ExitCode::from(e.exit_code())
    })
}

/// The program ends here if a call did not within its deadline: what holds the device would be waited for otherwise.
fn in_time(run: &Run, done: Result<()>) -> Result<()> {
    if let Err(e @ Error::Deadline { .. }) = &done {
        complain(run.json, e.code(), &e.to_string());
        std::process::exit(e.exit_code().into());
    }
    done
}

/// On stdout. A closed pipe ends the output alone; what cannot be written otherwise ends the program.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            complain(false, "output", &format!("cannot write to stdout: {e}"));
            std::process::exit(1);
        }
        _ => {}
    }
}

fn complain(json: bool, code: &str, message: &str) {
    if json {
        eprintln!("{}", json!({"severity": "error", "code": code, "message": message}));
    } else {
        eprintln!("error: {message}");
    }
}

fn call(run: &Run, artifact: &mut Artifact, spans: &Spans) -> Result<ExitCode> {
    let manifest = &artifact.manifest;
    if run.inputs.is_empty() && is_missing_inputs(run, manifest)? {
        return Ok(list(run, manifest));
    }
    let entries = by_sizes(&specialisations(manifest, run.entry.as_deref())?, &run.dims)?;
    let entry = choose(&entries, &run.inputs)?;
    let id = entry.id();
    // Before the device is opened: what is wrong with the input should not take a second to say.
    let inputs = spans.time("read the inputs", || inputs(entry, &run.inputs))?;
    let outputs = values::Outputs::new(entry, &run.outputs)?;

    let model = load(run, artifact)?;
    let mut session = Session::new(&model)?;
    session.set_deadline(run.deadline);
    for (i, t) in inputs.iter().enumerate() {
        session.write(&id, i, &t.bytes)?;
    }
    in_time(run, session.call(&id))?;
    if run.timings {
        start::report(run.json, &[spans.all(), model.device().spans(), model.spans(), session.spans()].concat());
    }
    if run.outputs.is_empty() {
        print_outputs(run.json, entry, &session)?;
    } else {
        outputs.write(&session)?;
    }
    let device = model.device().clone();
    drop((session, model));
    // Last of all: what was compiled is kept when the model goes.
    if run.verbose {
        device.take_notes().iter().for_each(|line| eprintln!("{line}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens the device, says which, and loads the model.
fn load(run: &Run, artifact: &Artifact) -> Result<Model> {
    run.libraries.iter().for_each(|l| crate::use_libraries(l));
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
    Model::load(artifact, &device, &WeightPlaces::of(artifact, run.weights.as_deref()))
}

/// Whether the entry that is meant, or each that may be meant, has inputs.
fn is_missing_inputs(run: &Run, m: &Manifest) -> Result<bool> {
    if run.entry.is_none() && m.by_name().len() != 1 {
        return Ok(true);
    }
    let entries = by_sizes(&specialisations(m, run.entry.as_deref())?, &run.dims)?;
    Ok(entries.iter().any(|e| e.inputs().next().is_some()))
}

fn list(run: &Run, m: &Manifest) -> ExitCode {
    let mut groups = m.by_name();
    if let Some(name) = &run.entry {
        groups.iter_mut().for_each(|g| g.retain(|e| e.name == *name || e.id() == *name));
    }
    groups.retain(|g| !g.is_empty());
    if run.json {
        let typed = |(_, t): (usize, &Tensor)| json!({"name": t.name, "dtype": t.dtype, "shape": t.shape});
        for e in groups.into_iter().flatten() {
            let inputs: Vec<Value> = e.inputs().map(typed).collect();
            let outputs: Vec<Value> = e.outputs().map(typed).collect();
            let dims: serde_json::Map<String, Value> = e.dims.iter().map(|d| (d.name.clone(), d.size.into())).collect();
            let line = json!({"reason": "entry", "entry": e.name, "dims": dims, "inputs": inputs, "outputs": outputs});
            say(&format!("{line}\n"));
        }
    } else {
        let profiles: Vec<_> = m.profiles.iter().map(|p| format!("{}:{}", p.target, p.name)).collect();
        say(&format!("{} {} for {}\n", m.model.name, m.model.version, profiles.join(", ")));
        groups.iter().for_each(|g| say(&args::listing(g)));
        let entry = if groups.len() > 1 { "choose with --entry NAME, and " } else { "" };
        eprintln!(
            "{entry}supply inputs with --input NAME|INDEX=FILE (.npy or .safetensors), --input all=FILE.safetensors or --input all=random:SEED"
        );
        if let Some(e) = groups.iter().flatten().find(|e| !e.dims.is_empty()) {
            eprintln!("the shapes of the inputs choose the sizes; without files give them, --dims {}", sizes(&e.dims));
        }
    }
    ExitCode::from(2)
}

/// Values shown of each output.
const SHOWN: usize = 16;

fn print_outputs(json: bool, entry: &Entry, session: &Session) -> Result<()> {
    for (i, (_, t)) in entry.outputs().enumerate() {
        let bytes = session.read(&entry.id(), i)?;
        say(&if json {
            let first = tensor::json(t.dtype, bytes, SHOWN);
            let o = json!({"reason": "output", "index": i, "name": t.name, "dtype": t.dtype, "shape": t.shape, "first": first});
            format!("{o}\n")
        } else {
            format!("{}: {} = {}\n", t.name, type_text(t.dtype, &t.shape), show(t.dtype, bytes, SHOWN))
        });
    }
    Ok(())
}
