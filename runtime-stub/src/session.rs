//! A conversation with a model: its own state, scratch memory, inputs and outputs.

use crate::{
    choose::find_entry,
    counters::{Counters, Tally},
    drivers::{Executable, Job, Region},
    error::{Error, Result},
    memory::Owned,
    model::{Loaded, Model},
    moves::{self, Outcome},
    spans::{FIRST_CALL, Span, Spans},
    tensor::type_text,
    timing::StepTime,
};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};
use zml_format::{Argument, Buffer, BufferKind, EntryResult};

/// Several sessions of one model, also on several threads, do not see each other's state.
///
/// Entries are given by their [`id`](zml_format::Entry::id); the name alone will do where there is one specialisation.
///
/// Everything is allocated on creation and on the first call of an entry; later calls allocate nothing.
pub struct Session {
    // Executables go before the memory that they use.
    entries: Vec<Option<Ready>>,
    state: Vec<Region>,
    arena: Region,
    deadline: Option<Duration>,
    timed: bool,
    /// A call failed: the device may still be at it, or be lost.
    broken: bool,
    tally: Arc<Tally>,
    spans: Spans,
    memory: Owned,
    model: Arc<Loaded>,
}

/// An entry that was prepared for calls.
struct Ready {
    executable: Box<dyn Executable>,
    /// For each input that a caller supplies, whether it is there.
    supplied: Vec<bool>,
    called: bool,
    /// It was never called.
    fresh: bool,
}

impl Session {
    /// Allocates state, as zeros, and scratch memory for every entry.
    pub fn new(model: &Model) -> Result<Session> {
        Session::of(model, false)
    }

    /// A session that reads the device's clock around each step: slower, for [`Session::times`].
    pub fn timed(model: &Model) -> Result<Session> {
        Session::of(model, true)
    }

    fn of(model: &Model, timed: bool) -> Result<Session> {
        let model = model.0.clone();
        let driver = &model.device.driver;
        let tally = Arc::<Tally>::default();
        let mut memory = Owned::new(driver);
        let sizes: Vec<u64> = model.manifest.state.iter().map(|s| s.tensor.bytes()).collect();
        let arena = model.profile().programs.iter().map(|p| p.arena_bytes).max().unwrap_or(0);
        let spans = Spans::default();
        let (state, arena) = spans.time("allocate the state", || {
            Ok::<_, Error>((memory.pack(&sizes, "state", &tally)?, memory.pack(&[arena], "the arena", &tally)?[0]))
        })?;
        let entries = model.manifest.entries.iter().map(|_| None).collect();
        let session =
            Session { entries, state, arena, deadline: None, timed, broken: false, tally, spans, memory, model };
        session.spans.time("clear the state", || session.clear())?;
        Ok(session)
    }

    /// Sets every state to zeros.
    pub fn reset(&mut self) -> Result<()> {
        self.clear()
    }

    fn clear(&self) -> Result<()> {
        self.model.device.driver.clear(&self.state)
    }

    /// Calls that take longer end with [`Error::Deadline`]. Dropping the session afterwards waits for the device; a program
    /// that does not want to has to end.
    pub fn set_deadline(&mut self, deadline: Option<Duration>) {
        self.deadline = deadline;
    }

    /// Supplies input `i` (as [`Entry::inputs`] counts) of an entry, for the next call and, unless it is donated, all
    /// later ones. `bytes` is row-major; predicates are bytes of 0 or 1.
    pub fn write(&mut self, entry: &str, i: usize, bytes: &[u8]) -> Result<()> {
        let e = self.index(entry)?;
        let model = self.model.clone();
        let Some((_, tensor)) = model.manifest.entries[e].inputs().nth(i) else {
            return Err(Error::Input(format!("entry `{entry}` has no input {i}")));
        };
        if bytes.len() as u64 != tensor.bytes() {
            let (name, has) = (&tensor.name, type_text(tensor.dtype, &tensor.shape));
            let wrong = format!("input {i} `{name}` is {has}, {} bytes; {} were given", tensor.bytes(), bytes.len());
            return Err(Error::Input(wrong));
        }
        let ready = self.ready(e)?;
        ready.executable.write(i, bytes);
        ready.supplied[i] = true;
        Ok(())
    }

    /// Runs an entry to its end.
    ///
    /// After an error of the device the session is of no further use; a new one is, and after [`Error::DeviceLost`] one on
    /// a device that is opened again, once everything that held the lost one is dropped.
    pub fn call(&mut self, entry: &str) -> Result<()> {
        self.repeat(entry, 1)
    }

    /// Runs an entry `times` times, each handed to the device without waiting for the one before. Donated inputs are what
    /// the run before left in them. Where the host has to decide how a run goes on, it waits there.
    pub fn repeat(&mut self, entry: &str, times: u32) -> Result<()> {
        if self.broken {
            return Err(Error::Input("an earlier call of this session failed: make a new session".into()));
        }
        let e = self.index(entry)?;
        self.ready(e)?;
        let entry = &self.model.manifest.entries[e];
        let Some(ready) = &mut self.entries[e] else { return Ok(()) };
        if let Some(i) = ready.supplied.iter().position(|s| !s) {
            let (_, t) = entry.inputs().nth(i).expect("as many as were counted");
            let (name, has) = (&t.name, type_text(t.dtype, &t.shape));
            return Err(Error::Input(format!("input {i} `{name}` of entry `{}` is not supplied: {has}", entry.name)));
        }
        ready.called = false;
        let deadline = self.deadline.map(|d| Instant::now() + d);
        let executable = &mut ready.executable;
        let done = match std::mem::take(&mut ready.fresh) {
            true => self.spans.time(FIRST_CALL, || executable.run(times, deadline)),
            false => executable.run(times, deadline),
        };
        done.inspect_err(|_| self.broken = true)?;
        ready.called = true;
        for (supplied, (a, _)) in ready.supplied.iter_mut().zip(entry.inputs()) {
            *supplied = !matches!(entry.arguments[a], Argument::Input { donated: true, .. });
        }
        Ok(())
    }

    /// Output `i` (as [`Entry::outputs`] counts) of the last call of an entry.
    pub fn read(&self, entry: &str, i: usize) -> Result<&[u8]> {
        let e = self.index(entry)?;
        let ready = self.entries[e].as_ref().filter(|r| r.called);
        let ready = ready.ok_or_else(|| Error::Input(format!("entry `{entry}` was not called yet")))?;
        if self.model.manifest.entries[e].outputs().nth(i).is_none() {
            return Err(Error::Input(format!("entry `{entry}` has no output {i}")));
        }
        Ok(ready.executable.read(i))
    }

    /// What each step of an entry took on the device, in all calls so far of a session that is [`timed`](Session::timed).
    pub fn times(&self, entry: &str) -> Result<&[StepTime]> {
        let e = self.index(entry)?;
        Ok(self.entries[e].as_ref().map_or(&[], |r| r.executable.times()))
    }

    pub fn counters(&self) -> Counters {
        self.tally.now()
    }

    /// What making it and preparing its entries took.
    pub fn spans(&self) -> Vec<Span> {
        self.spans.all()
    }

    fn index(&self, entry: &str) -> Result<usize> {
        match self.model.ids.iter().position(|id| id == entry) {
            Some(i) => Ok(i),
            // The name alone is enough where there is one specialisation, and else an error that lists them.
            None => {
                let id = find_entry(&self.model.manifest, Some(entry))?.id();
                Ok(self.model.ids.iter().position(|i| *i == id).expect("it was found"))
            }
        }
    }

    fn ready(&mut self, e: usize) -> Result<&mut Ready> {
        if self.entries[e].is_none() {
            self.entries[e] = Some(self.prepare(e)?);
        }
        Ok(self.entries[e].as_mut().expect("it was just made"))
    }

    fn prepare(&mut self, e: usize) -> Result<Ready> {
        let model = self.model.clone();
        let (entry, program) = (&model.manifest.entries[e], &model.profile().programs[e]);

        let sizes: Vec<u64> = entry.inputs().map(|(_, t)| t.bytes()).collect();
        let inputs = self.memory.pack(&sizes, "inputs", &self.tally)?;
        let has_memory = |r| program.buffers.iter().any(|b| b.kind == BufferKind::Result(r));
        let size = |(r, result): (usize, &EntryResult)| if has_memory(r) { result.tensor.bytes() } else { 0 };
        let sizes: Vec<u64> = entry.results.iter().enumerate().map(size).collect();
        let results = self.memory.pack(&sizes, "results", &self.tally)?;

        let mut next_input = inputs.iter();
        let arguments: Vec<Region> = entry
            .arguments
            .iter()
            .map(|a| match a {
                Argument::Input { .. } => *next_input.next().expect("one for each input"),
                Argument::Weight { weight } => model.weights[*weight],
                Argument::State { state } => self.state[*state],
            })
            .collect();
        let region = |b: &Buffer| match b.kind {
            BufferKind::Argument(a) => arguments[a].part(0, b.bytes),
            BufferKind::Result(r) => results[r].part(0, b.bytes),
            BufferKind::Constant(blob) => model.constants[&blob].part(0, b.bytes),
            BufferKind::Arena(offset) => self.arena.part(offset, b.bytes),
        };
        let mut buffers: Vec<Region> = program.buffers.iter().map(region).collect();

        let outcomes: Vec<Outcome> = entry
            .results
            .iter()
            .zip(&program.results)
            .map(|(r, b)| Outcome { at: buffers[*b], state: r.state.map(|s| self.state[s]) })
            .collect();
        let saved = self.memory.pack(&moves::to_save(&outcomes), "results", &self.tally)?;
        let moves = moves::plan(&outcomes, &saved, buffers.len());
        buffers.extend(&moves.buffers);
        let steps = [&program.steps[..], &moves.steps].concat();
        let job = Job {
            kernels: model.kernels,
            profile: model.profile(),
            steps: &steps,
            buffers: &buffers,
            inputs: &inputs,
            outputs: &moves.outputs,
            tally: &self.tally,
            timed: self.timed,
        };
        let executable = self.spans.time("prepare the entry", || model.device.driver.clone().build(&job))?;
        Ok(Ready { executable, supplied: vec![false; inputs.len()], called: false, fresh: true })
    }
}
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Session({} on {})", self.model.manifest.model.name, self.model.device)
    }
}
