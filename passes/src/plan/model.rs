//! An entry as the planner sees it: values with sizes, and a tree of steps that read and write them; and the program that
//! it makes of it. Plain data without MLIR, so that tests can make up entries.

/// Number of a value of the entry.
pub type Val = usize;

/// What holds a value before any step has run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    Argument(usize),
    /// Index into the entry's constants.
    Constant(usize),
    /// A buffer with undefined content.
    Empty,
    /// A step computes it.
    Step,
}

#[derive(Clone, Debug)]
pub struct Value {
    pub bytes: u64,
    pub source: Source,
    /// For messages: the argument's name, or the kernel that makes it.
    pub name: String,
}

/// May the program write into an argument?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ownership {
    ReadOnly,
    /// The caller has given it away.
    Donated,
    /// State whose next value is result `.0`.
    State(usize),
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub values: Vec<Value>,
    pub arguments: Vec<Ownership>,
    pub steps: Vec<Step>,
    /// The value of each result.
    pub results: Vec<Val>,
}

#[derive(Clone, Debug)]
pub enum Step {
    Call {
        kernel: String,
        arguments: Vec<Val>,
        results: Vec<Val>,
        alias: Vec<Option<usize>>,
    },
    /// Carried values have one name in both regions' arguments and the results.
    While {
        inits: Vec<Val>,
        before: Vec<Val>,
        condition: Vec<Step>,
        predicate: Val,
        after: Vec<Val>,
        body: Vec<Step>,
        next: Vec<Val>,
        results: Vec<Val>,
        /// How often the body runs, if that is known.
        turns: Option<i64>,
    },
    /// `if`: two branches and a predicate; `case`: any number and an i32.
    Branch {
        on: Val,
        case: bool,
        branches: Vec<(Vec<Step>, Vec<Val>)>,
        results: Vec<Val>,
    },
}

/// What holds a buffer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    Argument(usize),
    Result(usize),
    Constant(usize),
    /// Offset in bytes.
    Arena(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer {
    pub place: Place,
    pub bytes: u64,
}

/// A planned program. Buffers are always used whole.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub arena_bytes: u64,
    pub buffers: Vec<Buffer>,
    pub steps: Vec<Do>,
    /// Buffer of each result.
    pub results: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Do {
    /// Buffers in the kernel's order; the last `writes` of them are results, `updates` says which of those are also read.
    Dispatch {
        kernel: String,
        reads: Vec<usize>,
        writes: Vec<usize>,
        updates: Vec<bool>,
    },
    Copy {
        from: usize,
        to: usize,
        why: String,
    },
    Barrier,
    While {
        predicate: usize,
        condition: Vec<Do>,
        body: Vec<Do>,
        turns: Option<i64>,
    },
    Branch {
        on: usize,
        case: bool,
        branches: Vec<Vec<Do>>,
    },
}
