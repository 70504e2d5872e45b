//! What a pass is, what can go wrong in one, and running a list of them with stops, prints, times and checks.

use crate::{context, spec::DeviceSpec};
use melior::{Context, ir::Module};
use std::time::{Duration, Instant};

/// Whose fault it is decides the exit code and what is written for the user.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// The program or the IR that was handed in.
    #[error("{0}")]
    Input(String),
    /// A capability that the target or this compiler lacks; `what` names it.
    #[error("{what}")]
    Unsupported { what: String, hint: String },
    /// Ours.
    #[error("{0}")]
    Bug(String),
}

/// What passes may ask for. `spec` is there from `fuse` on.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    pub spec: Option<&'a DeviceSpec>,
}
impl<'a> Env<'a> {
    pub fn spec(&self) -> &'a DeviceSpec {
        self.spec.expect("passes from fuse on run for a device")
    }
}

/// A step of the pipeline: module in, module out, in place.
pub trait Pass: Sync {
    /// As `--pass` and the snapshots name it: `widen-predicates`.
    fn name(&self) -> &'static str;
    /// One line for `inspect-ir --list`.
    fn about(&self) -> &'static str;
    fn run<'c>(&self, context: &'c Context, module: &mut Module<'c>, env: Env) -> Result<(), PassError>;
    /// The pass's own invariants, beyond what MLIR verifies. Called after `run` and when resuming after this pass.
    fn verify<'c>(&self, _context: &'c Context, _module: &Module<'c>, _env: Env) -> Result<(), PassError> {
        Ok(())
    }
}

/// Where to begin and end, and what to do in between.
#[derive(Default)]
pub struct Run<'a> {
    /// Skip everything up to and including this pass.
    pub after: Option<&'a str>,
    /// Stop after this pass.
    pub until: Option<&'a str>,
    /// Leave these passes out, with their verifiers, or `NAME:run` to keep the verifier: for the tests that show why a
    /// pass is there.
    pub without: &'a [&'a str],
    /// Called after each pass with its name and the module.
    #[allow(clippy::type_complexity)]
    pub observe: Option<&'a mut dyn FnMut(&'static str, &Module)>,
}

/// Time of each pass, in order.
pub type Times = Vec<(&'static str, Duration)>;

/// Runs `passes` over `module`; after each, MLIR's verifier and the pass's own.
pub fn run<'c>(
    context: &'c Context,
    module: &mut Module<'c>,
    passes: &[&dyn Pass],
    env: Env,
    mut how: Run,
) -> Result<Times, PassError> {
    let mut times = vec![];
    let start = match how.after {
        None => 0,
        Some(name) => 1 + passes.iter().position(|p| p.name() == name).ok_or_else(|| unknown(name, passes))?,
    };
    if let Some(name) = how.until
        && !passes.iter().any(|p| p.name() == name)
    {
        return Err(unknown(name, passes));
    }
    for p in &passes[start..] {
        if !how.without.contains(&p.name()) {
            let begin = Instant::now();
            if !how.without.iter().any(|w| w.strip_suffix(":run") == Some(p.name())) {
                p.run(context, module, env).map_err(|e| in_pass(e, p.name()))?;
            }
            context::verify(context, module).map_err(|e| in_pass(e, p.name()))?;
            p.verify(context, module, env).map_err(|e| in_pass(e, p.name()))?;
            times.push((p.name(), begin.elapsed()));
        }
        if let Some(observe) = &mut how.observe {
            observe(p.name(), module);
        }
        if how.until == Some(p.name()) {
            break;
        }
    }
    Ok(times)
}

fn unknown(name: &str, passes: &[&dyn Pass]) -> PassError {
    let names: Vec<_> = passes.iter().map(|p| p.name()).collect();
    PassError::Input(format!("there is no pass `{name}`; the passes are {}", names.join(", ")))
}
fn in_pass(e: PassError, name: &str) -> PassError {
    match e {
        PassError::Bug(m) => PassError::Bug(format!("pass {name}: {m}")),
        e => e,
    }
}
