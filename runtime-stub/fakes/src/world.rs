//! What exists behind the fake API, and the log of what was done to it. Nothing here knows of CUDA or HIP.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fmt::Write as _,
    fs::OpenOptions,
    io::Write as _,
    sync::{Mutex, MutexGuard},
};

pub type Code = i32;
pub const INVALID_VALUE: Code = 1;
pub const INVALID_IMAGE: Code = 200;
pub const INVALID_CONTEXT: Code = 201;
pub const INVALID_PTX: Code = 218;
pub const NOT_FOUND: Code = 500;
pub const NOT_READY: Code = 600;
pub const ILLEGAL_ADDRESS: Code = 700;

/// Memory that was handed out. Freed memory stays, so that its addresses are never used again.
pub struct Block {
    pub name: String,
    pub bytes: Vec<u8>,
    pub live: bool,
}

/// What a stream does, now or when its graph is launched. Addresses are real.
#[derive(Clone)]
pub enum Op {
    Copy { from: u64, to: u64, bytes: usize },
    Fill { to: u64, byte: u8, bytes: usize },
    Launch,
}

#[derive(Default)]
pub struct World {
    pub blocks: BTreeMap<u64, Block>,
    /// Parameters by entry, for each module that is loaded; none when it was unloaded.
    pub modules: Vec<Option<Entries>>,
    /// Module and position in it.
    pub functions: Vec<(usize, usize)>,
    /// The capture under way, for each stream that is alive.
    pub streams: Vec<Option<Option<Vec<Op>>>>,
    pub graphs: Vec<Option<Vec<Op>>>,
    pub executables: Vec<Option<Vec<Op>>>,
    pub events: Vec<Option<()>>,
    pub linkers: Vec<Option<Linker>>,
    /// Times that a stream was asked whether it is done.
    pub queries: usize,
    calls: BTreeMap<String, usize>,
    names: [usize; 2],
}

/// A compilation under way.
pub struct Linker {
    /// Where it writes what it has to say, and how much room there is.
    pub log: (usize, usize),
    pub cubin: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Parameter {
    Address,
    Word,
}

/// Names and parameters of the kernels of a module.
pub type Entries = Vec<(String, Vec<Parameter>)>;

static WORLD: Mutex<World> = Mutex::new(World {
    blocks: BTreeMap::new(),
    modules: vec![],
    functions: vec![],
    streams: vec![],
    graphs: vec![],
    executables: vec![],
    events: vec![],
    linkers: vec![],
    queries: 0,
    calls: BTreeMap::new(),
    names: [0; 2],
});

thread_local! {
    /// Whether this thread has a current device.
    pub static CURRENT: Cell<bool> = const { Cell::new(false) };
}

pub fn world() -> MutexGuard<'static, World> {
    WORLD.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

pub fn variable(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.into())
}

pub fn log(line: &str) {
    if let Some(path) = std::env::var_os("ZML_FAKE_LOG")
        && let Ok(mut f) = OpenOptions::new().append(true).create(true).open(path)
    {
        let _ = writeln!(f, "{line}");
    }
}

impl World {
    /// Counts a call; the code with which it has to fail, if it does.
    pub fn called(&mut self, name: &str) -> Option<Code> {
        let n = self.calls.entry(name.into()).or_default();
        *n += 1;
        let fail = variable("ZML_FAKE_FAIL", "");
        let (which, code) = fail.split_once('=')?;
        let (fails, at) = which.split_once('#')?;
        (fails == name && at.parse() == Ok(*n)).then(|| code.parse().unwrap_or(999))
    }

    pub fn allocate(&mut self, bytes: usize, pinned: bool) -> u64 {
        let kind = usize::from(pinned);
        let name = format!("{}{}", ["d", "h"][kind], self.names[kind]);
        self.names[kind] += 1;
        // Something that is not zero: the runtime must not count on zeros.
        let mut bytes = vec![0xcd; bytes.max(1)];
        let at = bytes.as_mut_ptr() as u64;
        self.blocks.insert(at, Block { name, bytes, live: true });
        at
    }

    /// `d3+256`, or what is wrong with the address.
    pub fn address(&self, at: u64, bytes: usize) -> Result<String, String> {
        let Some((base, block)) = self.blocks.range(..=at).next_back().filter(|(b, k)| at - **b < k.bytes.len() as u64)
        else {
            return Err(format!("!! unknown address {at:#x}"));
        };
        let offset = (at - base) as usize;
        let name = if offset == 0 { block.name.clone() } else { format!("{}+{offset}", block.name) };
        if !block.live {
            return Err(format!("!! {name} was freed"));
        }
        if offset + bytes > block.bytes.len() {
            return Err(format!("!! {name} and {bytes} bytes end past {}", block.bytes.len()));
        }
        Ok(name)
    }

    /// The first bytes as hex.
    pub fn bytes(&self, at: u64, bytes: usize) -> String {
        let mut text = String::from("[");
        for i in 0..bytes.min(16) {
            // Safety: the caller passed memory of that length to the API.
            let _ = write!(text, "{}{:02x}", if i == 0 { "" } else { " " }, unsafe { *((at as *const u8).add(i)) });
        }
        text + if bytes > 16 { " ..]" } else { "]" }
    }

    pub fn run(ops: &[Op]) {
        for op in ops {
            // Safety: addresses were checked when the op was recorded; blocks are never given back.
            unsafe {
                match *op {
                    Op::Copy { from, to, bytes } => std::ptr::copy(from as *const u8, to as *mut u8, bytes),
                    Op::Fill { to, byte, bytes } => std::ptr::write_bytes(to as *mut u8, byte, bytes),
                    Op::Launch => {}
                }
            }
        }
    }

    /// Now, or when the graph is launched that the stream is recording; false if there is no such stream.
    pub fn enqueue(&mut self, stream: usize, op: Op) -> bool {
        match self.streams.get_mut(stream) {
            Some(Some(Some(capture))) => capture.push(op),
            Some(Some(None)) => World::run(&[op]),
            _ => return false,
        }
        true
    }

    /// Entries of a module's text.
    pub fn entries(image: &str) -> Entries {
        image
            .split(".entry ")
            .skip(1)
            .filter_map(|e| {
                let (name, rest) = e.split_once('(')?;
                let parameters = rest.split_once(')')?.0.split(".param").skip(1);
                let kind = |p: &str| if p.contains(".u32") { Parameter::Word } else { Parameter::Address };
                Some((name.trim().to_owned(), parameters.map(kind).collect()))
            })
            .collect()
    }

    /// What is alive, for the end of the log.
    pub fn left(&self) -> String {
        let blocks = |kind| self.blocks.values().filter(|b| b.live && b.name.starts_with(kind)).count();
        format!(
            "{} device, {} pinned, {} modules, {} streams, {} graphs, {} executable graphs left",
            blocks('d'),
            blocks('h'),
            self.modules.iter().flatten().count(),
            self.streams.iter().flatten().count(),
            self.graphs.iter().flatten().count(),
            self.executables.iter().flatten().count()
        )
    }
}
