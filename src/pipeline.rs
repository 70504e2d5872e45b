//! The pipeline on one screen: which passes run, in which order, for whom; and running it for several device profiles at once.

use crate::{failure::Failure, metadata, targets::Selected};
use melior::{Context, ir::Module};
use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};
use zmlc_passes::{
    assign_descriptors::AssignDescriptors,
    context,
    count_loops::CountLoops,
    emit::Emit,
    expand_math::ExpandMath,
    expand_special::ExpandSpecial,
    fuse::{Fuse, Separate},
    ir::{B, body},
    kernel_abi::KernelAbi,
    pass::{self, Env, Pass, Run, Times},
    plan::Plan,
    simplify::Simplify,
    spec::Abi,
    split::Split,
    target::Binary,
    unroll::Unroll,
    widen_predicates::WidenPredicates,
};

/// First line of what `inspect-ir` prints, before the stage's name. A comment to MLIR.
pub const STAGE_MARK: &str = "// after ";

/// Passes recurse along chains of ops, which are as long as the program makes them.
pub const STACK: usize = 256 << 20;

/// The stage before the first pass: what it leaves behind is named like a pass.
pub const LEGALIZE: &str = "legalize";
/// The stage after the last: binaries, shown as disassembly.
pub const SERIALIZE: &str = "serialize";

/// For all devices alike.
pub fn common() -> Vec<&'static dyn Pass> {
    vec![&ExpandSpecial, &Simplify, &Unroll, &CountLoops]
}
/// Once for each device profile.
pub fn device(selected: &Selected, fusion: Fusion) -> Vec<&'static dyn Pass> {
    let abi: &'static dyn Pass = match selected.spec.abi {
        Abi::Descriptors => &AssignDescriptors,
        Abi::Pointers => &KernelAbi,
    };
    let fuse: &'static dyn Pass = match fusion {
        Fusion::On => &Fuse,
        Fusion::Off => &Separate,
    };
    let mut passes: Vec<&'static dyn Pass> = vec![&Split, fuse, &Plan, &Emit, &WidenPredicates, &ExpandMath, abi];
    passes.extend(selected.target.passes());
    passes
}
/// Every stage by name with a line about it, for `inspect-ir --list`.
pub fn stages(selected: &Selected) -> Vec<(&'static str, &'static str)> {
    let mut all = vec![(LEGALIZE, "StableHLO to linalg, tensor, arith, math, scf and zml")];
    all.extend(common().iter().chain(&device(selected, Fusion::On)).map(|p| (p.name(), p.about())));
    all.push((SERIALIZE, "machine code or its nearest text: SPIR-V, PTX, AMD assembly"));
    all
}

/// Called after each pass with its name and the module.
pub type Observer<'a> = &'a mut (dyn FnMut(&'static str, &Module) + 'a);

/// Whether ops share kernels.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Fusion {
    #[default]
    On,
    Off,
}

/// What a build does besides its passes.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// Passes that are left out, their verifiers too.
    pub without: &'a [&'a str],
    /// Start after this pass, on IR that it left behind.
    pub after: Option<&'a str>,
    /// Stop after this pass of a device profile: nothing is serialised.
    pub until: Option<&'a str>,
    pub fusion: Fusion,
}

/// Runs the common passes; the result is text because each device profile continues in a context of its own.
pub fn simplify<'a, 'c>(
    context: &'c Context,
    module: &mut Module<'c>,
    options: Options<'a>,
    observe: Option<Observer<'a>>,
) -> Result<Times, Failure> {
    let after = options.after.filter(|a| *a != LEGALIZE);
    let run = Run { after, without: options.without, observe, ..Run::default() };
    Ok(pass::run(context, module, &common(), Env { spec: None }, run)?)
}

/// Runs the passes of one device profile over the text of a module, and serialises. `done` sees the result while its context lives.
pub fn lower<'a, T>(
    text: &str,
    selected: &'a Selected,
    options: Options<'a>,
    observe: Option<Observer<'a>>,
    done: impl FnOnce(&Module, Vec<Binary>) -> Result<T, Failure>,
) -> Result<(T, Times), Failure> {
    let context = context::context();
    let mut module = context::parse(&context, text)?;
    metadata::set_profile(&B::new(&context, body(&module)), &module, &selected.id());
    let run = Run { after: options.after, until: options.until, without: options.without, observe };
    let times =
        pass::run(&context, &mut module, &device(selected, options.fusion), Env { spec: Some(&selected.spec) }, run)?;
    let binaries = match options.until {
        Some(_) => vec![],
        None => selected.target.serialize(&context, &module, &selected.spec)?,
    };
    Ok((done(&module, binaries)?, times))
}

/// `f` for every profile, on as many threads as there are cores; results in the order of `list`.
pub fn each<T: Send>(list: &[Selected], f: impl Fn(&Selected) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::new(vec![]);
    let workers = thread::available_parallelism().map_or(1, usize::from).min(list.len());
    thread::scope(|s| {
        for _ in 0..workers {
            let work = || {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(selected) = list.get(i) else { break };
                    let result = f(selected);
                    done.lock().expect("no worker panicked").push((i, result));
                }
            };
            thread::Builder::new().stack_size(STACK).spawn_scoped(s, work).expect("a thread starts");
        }
    });
    let mut done = done.into_inner().expect("no worker panicked");
    done.sort_by_key(|d| d.0);
    done.into_iter().map(|d| d.1).collect()
}
