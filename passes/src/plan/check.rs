//! Proves of every `zml.program`, from its text and the dispatch functions alone:
//!
//! 1. No two buffers are the same argument, result or constant; each is as large as what holds it, and arena buffers end
//!    within the arena.
//! 2. A dispatch binds as many buffers as its function asks for, each of the right size and within its buffer; a copy is
//!    between two buffers and stays within both.
//! 3. Nothing writes to a constant, or to an argument that is neither donated nor a state with a next value.
//! 4. Between two steps that touch the same bytes, one of them writing, there is a barrier. Blocks of control flow begin
//!    and end with nothing pending.
//! 5. What is read was written before through the same buffer, and no other buffer's write lies between: no two values
//!    that are alive share bytes.
//! 6. Every result lies in its own result buffer, a donated argument or, for the next value of a state, that state's
//!    buffer; no two in one; each is written.

use super::entry::{dict_int, dict_string};
use crate::{ir::*, pass::PassError};
use std::collections::{BTreeSet, HashMap};
use zml_format::DType;

pub fn check(top: Blk) -> Result<(), PassError> {
    for p in ops(top).into_iter().filter(|o| name(*o) == "zml.program") {
        let symbol = str_attr(p, "sym_name").unwrap_or_default();
        Checker::of(p, top).and_then(|c| c.check()).map_err(|e| PassError::Bug(format!("program {symbol}: {e}")))?;
    }
    Ok(())
}
fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Memory {
    Argument(i64),
    Result(i64),
    Constant(i64),
    Arena,
}
struct Buffer {
    memory: Memory,
    /// Within the memory.
    from: i64,
    bytes: i64,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Read,
    Write,
    /// Writes a part and keeps the rest.
    Update,
}
#[derive(Clone, Copy)]
struct Touch {
    buffer: usize,
    from: i64,
    to: i64,
    mode: Mode,
}
/// What a buffer holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Content {
    Valid,
    Nothing,
    /// Another buffer was written over it.
    Lost,
}

struct Checker<'c> {
    top: Blk<'c>,
    program: O<'c>,
    numbers: HashMap<usize, usize>,
    buffers: Vec<Buffer>,
    /// Bytes of each argument and whether it may be written.
    arguments: Vec<(i64, bool)>,
    /// Bytes of each result and the argument that is its state.
    results: Vec<(i64, Option<i64>)>,
}

impl<'c> Checker<'c> {
    fn of(program: O<'c>, top: Blk<'c>) -> Result<Self, String> {
        let list = |name: &str| attr(program, name).map(array).unwrap_or_default();
        let (arguments, results) = (list("arguments"), list("results"));
        let bytes = |d| -> Result<i64, String> {
            let dtype: DType = dict_string(d, "dtype").ok_or("a boundary without a dtype")?.parse()?;
            let shape = dict_get(d, "shape").and_then(i64s).ok_or("a boundary without a shape")?;
            Ok(shape.iter().product::<i64>() * dtype.bytes() as i64)
        };
        let state = |d| (dict_string(d, "role").as_deref() == Some("state")).then(|| dict_int(d, "index")).flatten();
        let next: Vec<Option<i64>> = results.iter().map(|d| dict_int(*d, "state")).collect();
        let writable = |d| dict_get(d, "donated").is_some() || state(d).is_some_and(|s| next.contains(&Some(s)));
        let home = |s: Option<i64>| {
            let s = s?;
            arguments.iter().position(|d| state(*d) == Some(s)).map(|a| a as i64)
        };
        let mut c = Checker {
            top,
            program,
            numbers: HashMap::new(),
            buffers: vec![],
            arguments: arguments.iter().map(|d| Ok((bytes(*d)?, writable(*d)))).collect::<Result<_, String>>()?,
            results: results
                .iter()
                .zip(&next)
                .map(|(d, s)| Ok((bytes(*d)?, home(*s))))
                .collect::<Result<_, String>>()?,
        };
        c.read_buffers()?;
        Ok(c)
    }
    fn read_buffers(&mut self) -> Result<(), String> {
        let arena = int_attr(self.program, "arena_bytes").unwrap_or(0);
        let mut seen = BTreeSet::new();
        for op in ops(block(self.program, 0)).into_iter().filter(|o| name(*o) == "zml.buffer") {
            let (index, bytes) = (int_attr(op, "index").unwrap_or(-1), int_attr(op, "bytes").unwrap_or(-1));
            let n = self.buffers.len();
            let at = usize::try_from(index).map_err(|_| format!("buffer {n} has a negative index"))?;
            let (memory, holds) = match str_attr(op, "kind").unwrap_or_default() {
                "argument" => (Memory::Argument(index), self.arguments.get(at).map(|a| a.0)),
                "result" => (Memory::Result(index), self.results.get(at).map(|r| r.0)),
                "constant" => {
                    let value = attr(op, "value").and_then(dense_bytes).map(|b| b.len() as i64);
                    (Memory::Constant(index), value)
                }
                "arena" => (Memory::Arena, (index + bytes <= arena).then_some(bytes)),
                other => return Err(format!("buffer {n} is a {other}")),
            };
            ensure(memory == Memory::Arena || seen.insert(memory), || format!("two buffers are {memory:?}"))?;
            ensure(holds == Some(bytes), || format!("buffer {n} is not as large as what holds it"))?;
            let from = if memory == Memory::Arena { index } else { 0 };
            self.numbers.insert(key(result(op, 0)), n);
            self.buffers.push(Buffer { memory, from, bytes });
        }
        Ok(())
    }
    fn check(&self) -> Result<(), String> {
        let body = block(self.program, 0);
        let end = ops(body).pop().filter(|o| name(*o) == "zml.results").ok_or("has no zml.results")?;
        self.hazards(body)?;
        let initial = |b: &Buffer| match b.memory {
            Memory::Argument(_) | Memory::Constant(_) => Content::Valid,
            _ => Content::Nothing,
        };
        let mut contents: Vec<Content> = self.buffers.iter().map(initial).collect();
        self.run(body, &mut contents)?;
        self.check_results(&operands(end), &contents)
    }
    fn check_results(&self, values: &[V<'c>], contents: &[Content]) -> Result<(), String> {
        ensure(values.len() == self.results.len(), || format!("{} results for {}", values.len(), self.results.len()))?;
        let mut seen = BTreeSet::new();
        for (i, (v, (bytes, state))) in values.iter().zip(&self.results).enumerate() {
            let n = self.number(*v)?;
            let b = &self.buffers[n];
            let placed = match (state, b.memory) {
                (Some(a), m) => m == Memory::Argument(*a),
                (None, Memory::Result(r)) => r == i as i64,
                (None, Memory::Argument(a)) => self.arguments[a as usize].1,
                _ => false,
            };
            ensure(placed && b.bytes == *bytes, || format!("result {i} is not where it belongs"))?;
            ensure(seen.insert(n), || format!("result {i} lies in the buffer of another"))?;
            ensure(*bytes == 0 || contents[n] == Content::Valid, || format!("result {i} is not written"))?;
        }
        Ok(())
    }
    fn number(&self, v: V) -> Result<usize, String> {
        self.numbers.get(&key(v)).copied().ok_or_else(|| "an unknown buffer".into())
    }
    fn touch(&self, v: V, from: i64, bytes: i64, mode: Mode, what: &str) -> Result<Touch, String> {
        let buffer = self.number(v)?;
        let b = &self.buffers[buffer];
        ensure(from >= 0 && bytes >= 0 && from + bytes <= b.bytes, || format!("{what} leaves buffer {buffer}"))?;
        let may = match b.memory {
            Memory::Constant(_) => false,
            Memory::Argument(a) => self.arguments[a as usize].1,
            _ => true,
        };
        ensure(mode == Mode::Read || may, || format!("{what} writes buffer {buffer}, which may only be read"))?;
        Ok(Touch { buffer, from: b.from + from, to: b.from + from + bytes, mode })
    }

    /// What a step touches, if it is no control flow.
    fn touches(&self, op: O<'c>) -> Result<Vec<Touch>, String> {
        let int = |name: &str| int_attr(op, name).unwrap_or(-1);
        match name(op) {
            "zml.dispatch" => self.dispatch(op),
            "zml.copy" => {
                let (from, to) = (operand(op, 0), operand(op, 1));
                ensure(self.number(from)? != self.number(to)?, || "a copy onto itself".into())?;
                Ok(vec![
                    self.touch(from, int("from_offset"), int("bytes"), Mode::Read, "a copy")?,
                    self.touch(to, int("to_offset"), int("bytes"), Mode::Write, "a copy")?,
                ])
            }
            "zml.library_call" => {
                let sizes = i64s_attr(op, "sizes").filter(|s| s.len() == 4).ok_or("a library call without sizes")?;
                let modes = [Mode::Read, Mode::Read, Mode::Write, Mode::Write];
                let each = operands(op).into_iter().zip(sizes).zip(modes);
                each.map(|((v, bytes), mode)| self.touch(v, 0, bytes, mode, "a library call")).collect()
            }
            "zml.fill" => Ok(vec![self.touch(operand(op, 0), int("offset"), int("bytes"), Mode::Write, "a fill")?]),
            "zml.while" | "zml.if" => {
                Ok(vec![self.touch(operand(op, 0), int("offset"), 1, Mode::Read, "a predicate")?])
            }
            "zml.case" => Ok(vec![self.touch(operand(op, 0), int("offset"), 4, Mode::Read, "an index")?]),
            _ => Ok(vec![]),
        }
    }
    fn dispatch(&self, op: O<'c>) -> Result<Vec<Touch>, String> {
        let kernel = symbol_attr(op, "kernel").unwrap_or_default();
        let func = find(self.top, kernel).ok_or_else(|| format!("there is no dispatch {kernel}"))?;
        let body = block(func, 0);
        let alias = i64s_attr(func, "zml.alias").unwrap_or_default();
        let free = args(body).into_iter().enumerate().filter(|(i, _)| !alias.contains(&(*i as i64)));
        let mut wanted: Vec<(V, Mode)> = free.map(|(_, a)| (a, Mode::Read)).collect();
        let returned = ops(body).pop().map(operands).unwrap_or_default();
        wanted.extend(returned.iter().zip(&alias).map(|(v, a)| (*v, if *a < 0 { Mode::Write } else { Mode::Update })));
        let (offsets, sizes) =
            (i64s_attr(op, "offsets").unwrap_or_default(), i64s_attr(op, "sizes").unwrap_or_default());
        let given = operands(op);
        let agree = given.len() == wanted.len() && offsets.len() == wanted.len() && sizes.len() == wanted.len();
        ensure(agree, || format!("dispatch of {kernel} binds {} buffers for {}", given.len(), wanted.len()))?;
        let mut touches = vec![];
        for (i, (v, (t, mode))) in given.into_iter().zip(wanted).enumerate() {
            let bytes = super::entry::bytes(t) as i64;
            ensure(sizes[i] == bytes, || format!("dispatch of {kernel} binds {} bytes for {bytes}", sizes[i]))?;
            touches.push(self.touch(v, offsets[i], sizes[i], mode, &format!("dispatch of {kernel}"))?);
        }
        Ok(touches)
    }

    fn hazards(&self, b: Blk<'c>) -> Result<(), String> {
        let mut pending: Vec<Touch> = vec![];
        for op in ops(b) {
            if name(op) == "zml.barrier" {
                pending.clear();
                continue;
            }
            let now = self.touches(op)?;
            if op.region_count() > 0 {
                ensure(pending.is_empty(), || format!("no barrier before {}", name(op)))?;
                for inner in blocks(op) {
                    self.hazards(inner)?;
                }
                continue;
            }
            let clash = |a: &Touch, b: &Touch| {
                (a.mode != Mode::Read || b.mode != Mode::Read)
                    && self.buffers[a.buffer].memory == self.buffers[b.buffer].memory
                    && a.from < b.to
                    && b.from < a.to
            };
            let clashes = now
                .iter()
                .enumerate()
                .any(|(i, a)| pending.iter().any(|p| clash(a, p)) || now[i + 1..].iter().any(|o| clash(a, o)));
            ensure(!clashes, || format!("a hazard without a barrier before {}", describe(op)))?;
            pending.extend(now);
        }
        let inner = b.parent_operation().is_some_and(|o| o.name().as_string_ref().as_str() != Ok("zml.program"));
        ensure(!inner || pending.is_empty(), || "a block of control flow ends without a barrier".into())
    }

    /// Follows what every buffer holds. A loop is run twice, branches are joined.
    fn run(&self, b: Blk<'c>, contents: &mut Vec<Content>) -> Result<(), String> {
        for op in ops(b) {
            match name(op) {
                "zml.while" => {
                    for _ in 0..2 {
                        self.run(block(op, 0), contents)?;
                        self.apply(op, contents)?;
                        self.run(block(op, 1), contents)?;
                    }
                    self.run(block(op, 0), contents)?;
                    self.apply(op, contents)?;
                }
                "zml.if" | "zml.case" => {
                    self.apply(op, contents)?;
                    let before = contents.clone();
                    let mut joined: Option<Vec<Content>> = None;
                    for inner in blocks(op) {
                        let mut now = before.clone();
                        self.run(inner, &mut now)?;
                        joined = Some(match joined {
                            None => now,
                            Some(j) => j.into_iter().zip(now).map(|(a, b)| a.max(b)).collect(),
                        });
                    }
                    *contents = joined.unwrap_or(before);
                }
                _ => self.apply(op, contents)?,
            }
        }
        Ok(())
    }
    fn apply(&self, op: O<'c>, contents: &mut [Content]) -> Result<(), String> {
        let touches = self.touches(op)?;
        for t in touches.iter().filter(|t| t.from < t.to) {
            let content = contents[t.buffer];
            let fine = content == Content::Valid
                || t.mode == Mode::Write
                || (t.mode == Mode::Update && content == Content::Nothing);
            let why = if content == Content::Lost { "overwritten" } else { "never written" };
            ensure(fine, || format!("{} reads buffer {}, which is {why}", describe(op), t.buffer))?;
        }
        for t in touches.iter().filter(|t| t.mode != Mode::Read) {
            for (i, b) in self.buffers.iter().enumerate() {
                let shares = b.memory == self.buffers[t.buffer].memory && b.from < t.to && t.from < b.from + b.bytes;
                if i != t.buffer && shares && contents[i] == Content::Valid {
                    contents[i] = Content::Lost;
                }
            }
            contents[t.buffer] = Content::Valid;
        }
        Ok(())
    }
}
fn describe(op: O) -> String {
    symbol_attr(op, "kernel").map_or_else(|| name(op).to_string(), |k| format!("dispatch of {k}"))
}
