//! Runs emitted kernels on the CPU, so that numbers, bounds and races are tested where there is no device.
//!
//! The threads of a workgroup go through the ops in lockstep under masks. That order hides nothing, because accesses are
//! watched: between two barriers no element of workgroup memory may be written by one thread and touched by another, in a
//! whole launch none of a buffer; a barrier must be reached by all threads; every access lies inside its memory.
//! It knows the ops that emitters write and no others.

mod matrix;
mod number;
pub mod program;

pub use number::Num;
use number::{binary, compare, constant, convert, round, unary};
use std::collections::HashMap;
use zmlc_passes::ir::*;

/// Who touched an element since the last barrier (workgroup memory) or since the start (buffers).
#[derive(Clone, Copy, Default)]
struct Touched {
    writer: Option<u64>,
    reader: Option<u64>,
    readers: bool,
}
#[derive(Clone)]
pub struct Memory {
    pub data: Vec<Option<Num>>,
    /// How often each element was written.
    pub writes: Vec<u32>,
    touched: Vec<Touched>,
    name: String,
}
impl Memory {
    pub fn new(name: &str, data: Vec<Option<Num>>) -> Self {
        let n = data.len();
        Memory { data, writes: vec![0; n], touched: vec![Touched::default(); n], name: name.into() }
    }
    fn place(&self, at: i64) -> Result<usize, String> {
        let n = self.data.len();
        usize::try_from(at).ok().filter(|i| *i < n).ok_or_else(|| format!("{}[{at}] is outside of {n}", self.name))
    }
    fn read(&mut self, at: i64, by: u64) -> Result<Num, String> {
        let i = self.place(at)?;
        let t = &mut self.touched[i];
        if t.writer.is_some_and(|w| w != by) {
            return Err(format!("{}[{at}] is written by one thread and read by another", self.name));
        }
        t.readers |= t.reader.is_some_and(|r| r != by);
        t.reader = Some(by);
        self.data[i].clone().ok_or_else(|| format!("{}[{at}] is read before it is written", self.name))
    }
    fn write(&mut self, at: i64, x: Num, by: u64) -> Result<(), String> {
        let i = self.place(at)?;
        let t = &mut self.touched[i];
        if t.writer.is_some_and(|w| w != by) || t.readers || t.reader.is_some_and(|r| r != by) {
            return Err(format!("{}[{at}] is written by one thread and touched by another", self.name));
        }
        t.writer = Some(by);
        self.writes[i] += 1;
        self.data[i] = Some(x);
        Ok(())
    }
}

#[derive(Clone)]
enum Value {
    One(Num),
    Many(Vec<Num>),
    Memory(usize),
    Fragment(std::rc::Rc<Vec<Num>>),
}
impl Value {
    fn int(&self) -> i64 {
        match self {
            Value::One(Num::Int(x)) => *x,
            _ => panic!("an integer"),
        }
    }
    fn num(&self) -> &Num {
        match self {
            Value::One(x) => x,
            _ => panic!("a scalar"),
        }
    }
    fn nums(&self) -> Vec<Num> {
        match self {
            Value::One(x) => vec![x.clone()],
            Value::Many(x) => x.clone(),
            Value::Memory(_) | Value::Fragment(_) => panic!("a number"),
        }
    }
}

struct Group<'m> {
    memory: &'m mut Vec<Memory>,
    /// First workgroup memory.
    shared: usize,
    values: HashMap<usize, Vec<Value>>,
    threads: usize,
    block: [i64; 3],
    first_thread: u64,
    barriers: u64,
    pending: matrix::Pending,
}

/// What a launch did besides its results.
#[derive(Debug, Default, PartialEq)]
pub struct Counts {
    pub groups: u64,
    pub threads: u64,
    pub barriers: u64,
}

/// Runs the kernel in `module` (a gpu.module) over its grid. `buffers` are its arguments; results lie in them after.
pub fn launch(module: O, buffers: &mut Vec<Memory>) -> Result<Counts, String> {
    let function = ops(block(module, 0))[0];
    let grid = i32s_attr(function, "zml.grid").expect("a grid");
    let threads = i32s_attr(function, "known_block_size").expect("a block size")[0] as usize;
    let body = block(function, 0);
    let arguments = args(body);
    let attributions = int_attr(function, "workgroup_attributions").unwrap_or(0) as usize;
    let shared = arguments.len() - attributions;
    assert_eq!(buffers.len(), shared, "one buffer an argument");
    let mut counts = Counts::default();
    for z in 0..grid[2] {
        for y in 0..grid[1] {
            for x in 0..grid[0] {
                buffers.truncate(shared);
                for (i, a) in arguments[shared..].iter().enumerate() {
                    buffers.push(Memory::new(&format!("shared{i}"), vec![None; elements(a.r#type()) as usize]));
                }
                let values = arguments.iter().enumerate().map(|(i, a)| (key(*a), vec![Value::Memory(i); threads]));
                let mut group = Group {
                    values: values.collect(),
                    memory: buffers,
                    shared,
                    threads,
                    block: [x, y, z].map(i64::from),
                    first_thread: counts.threads,
                    barriers: 0,
                    pending: Default::default(),
                };
                group.block(body, &vec![true; threads])?;
                counts.barriers += group.barriers;
                counts.groups += 1;
                counts.threads += threads as u64;
            }
        }
    }
    buffers.truncate(shared);
    Ok(counts)
}

impl Group<'_> {
    fn get(&self, v: V, t: usize) -> &Value {
        &self.values[&key(v)][t]
    }
    fn set(&mut self, v: V, t: usize, x: Value) {
        let threads = self.threads;
        self.values.entry(key(v)).or_insert_with(|| vec![Value::One(Num::Int(0)); threads])[t] = x;
    }
    /// Runs a block for the threads in `mask` and returns its terminator.
    fn block<'c>(&mut self, block: Blk<'c>, mask: &[bool]) -> Result<O<'c>, String> {
        let all = ops(block);
        let (last, rest) = all.split_last().expect("a terminator");
        for op in rest {
            self.op(*op, mask)?;
        }
        Ok(*last)
    }
    fn op(&mut self, op: O, mask: &[bool]) -> Result<(), String> {
        let active: Vec<usize> = (0..self.threads).filter(|t| mask[*t]).collect();
        match name(op) {
            "gpu.barrier" => {
                if active.len() != self.threads {
                    return Err("a barrier that not all threads reach".into());
                }
                self.barriers += 1;
                for m in &mut self.memory[self.shared..] {
                    m.touched.fill(Touched::default());
                }
            }
            "scf.if" => {
                let (mut yes, mut no) = (vec![false; self.threads], vec![false; self.threads]);
                for t in active {
                    let c = self.get(operand(op, 0), t).int() != 0;
                    (if c { &mut yes } else { &mut no })[t] = true;
                }
                self.branch(op, 0, &yes)?;
                self.branch(op, 1, &no)?;
            }
            "scf.for" => self.for_loop(op, mask)?,
            "scf.while" => self.while_loop(op, mask)?,
            "gpu.shuffle" => self.shuffle(op, &active)?,
            n if matrix::is_collective(n) => self.collective(op, &active)?,
            _ => {
                for t in active {
                    self.simple(op, t)?;
                }
            }
        }
        Ok(())
    }
    fn branch(&mut self, op: O, region: usize, mask: &[bool]) -> Result<(), String> {
        if !mask.contains(&true) || (region == 1 && op.result_count() == 0 && is_empty(op, 1)) {
            return Ok(());
        }
        let end = self.block(block(op, region), mask)?;
        self.pass(&operands(end), &results(op), mask);
        Ok(())
    }
    /// Copies values all at once, as a terminator hands them over.
    fn pass(&mut self, from: &[V], to: &[V], mask: &[bool]) {
        for t in (0..self.threads).filter(|t| mask[*t]) {
            let values: Vec<Value> = from.iter().map(|v| self.get(*v, t).clone()).collect();
            for (v, x) in to.iter().zip(values) {
                self.set(*v, t, x);
            }
        }
    }
    fn for_loop(&mut self, op: O, mask: &[bool]) -> Result<(), String> {
        let body = block(op, 0);
        let inits = &operands(op)[3..];
        let carried = &args(body)[1..];
        self.pass(inits, &results(op), mask);
        self.pass(inits, carried, mask);
        let mut at: Vec<i64> =
            (0..self.threads).map(|t| if mask[t] { self.get(operand(op, 0), t).int() } else { 0 }).collect();
        loop {
            let on: Vec<bool> =
                (0..self.threads).map(|t| mask[t] && at[t] < self.get(operand(op, 1), t).int()).collect();
            if !on.contains(&true) {
                return Ok(());
            }
            for t in (0..self.threads).filter(|t| on[*t]) {
                self.set(arg(body, 0), t, Value::One(Num::Int(at[t])));
                at[t] += self.get(operand(op, 2), t).int();
            }
            let end = self.block(body, &on)?;
            self.pass(&operands(end), &results(op), &on);
            self.pass(&operands(end), carried, &on);
        }
    }
    fn while_loop(&mut self, op: O, mask: &[bool]) -> Result<(), String> {
        let (before, after) = (block(op, 0), block(op, 1));
        let mut on = mask.to_vec();
        self.pass(&operands(op), &args(before), &on);
        loop {
            let end = self.block(before, &on)?;
            self.pass(&operands(end)[1..], &results(op), &on);
            for (t, on) in on.iter_mut().enumerate() {
                *on = *on && self.get(operand(end, 0), t).int() != 0;
            }
            if !on.contains(&true) {
                return Ok(());
            }
            self.pass(&operands(end)[1..], &args(after), &on);
            let end = self.block(after, &on)?;
            self.pass(&operands(end), &args(before), &on);
        }
    }
    /// Modes xor and down with width = a subgroup that divides the workgroup.
    fn shuffle(&mut self, op: O, active: &[usize]) -> Result<(), String> {
        if active.len() != self.threads {
            return Err("a shuffle that not all threads reach".into());
        }
        let mode = attr(op, "mode").expect("a mode").to_string();
        let old: Vec<Value> = active.iter().map(|t| self.get(operand(op, 0), *t).clone()).collect();
        for t in active {
            let width = self.get(operand(op, 2), *t).int() as usize;
            let offset = self.get(operand(op, 1), *t).int() as usize;
            let lane = t % width;
            let from = match mode.as_str() {
                "#gpu<shuffle_mode xor>" => lane ^ offset,
                "#gpu<shuffle_mode down>" => lane + offset,
                "#gpu<shuffle_mode idx>" => offset,
                other => return Err(format!("shuffle {other}")),
            };
            let valid = from < width;
            let x = if valid { old[t - lane + from].clone() } else { old[*t].clone() };
            self.set(result(op, 0), *t, x);
            self.set(result(op, 1), *t, Value::One(Num::Int(i64::from(valid))));
        }
        Ok(())
    }
    fn memory_of(&self, v: V, t: usize) -> usize {
        match self.get(v, t) {
            Value::Memory(m) => *m,
            _ => panic!("a memref"),
        }
    }
    fn simple(&mut self, op: O, t: usize) -> Result<(), String> {
        let by = self.first_thread + t as u64;
        let dimension = || match attr(op, "dimension").expect("a dimension").to_string().as_str() {
            "#gpu<dim x>" => 0,
            "#gpu<dim y>" => 1,
            _ => 2,
        };
        let value = match name(op) {
            "gpu.thread_id" => Value::One(Num::Int(if dimension() == 0 { t as i64 } else { 0 })),
            "gpu.block_id" => Value::One(Num::Int(self.block[dimension()])),
            "arith.constant" => constant_value(op),
            "memref.load" => {
                let (m, at) = (self.memory_of(operand(op, 0), t), self.get(operand(op, 1), t).int());
                Value::One(self.memory[m].read(at, by)?)
            }
            "memref.store" => {
                let x = self.get(operand(op, 0), t).num().clone();
                let (m, at) = (self.memory_of(operand(op, 1), t), self.get(operand(op, 2), t).int());
                return self.memory[m].write(at, x, by);
            }
            "zml.copy_async" => return self.copy(op, t),
            "vector.load" => {
                let (m, at) = (self.memory_of(operand(op, 0), t), self.get(operand(op, 1), t).int());
                let n = elements(result(op, 0).r#type());
                aligned(op, at, n)?;
                Value::Many((0..n).map(|k| self.memory[m].read(at + k, by)).collect::<Result<_, _>>()?)
            }
            "vector.store" => {
                let x = self.get(operand(op, 0), t).nums();
                let (m, at) = (self.memory_of(operand(op, 1), t), self.get(operand(op, 2), t).int());
                aligned(op, at, x.len() as i64)?;
                for (k, x) in x.into_iter().enumerate() {
                    self.memory[m].write(at + k as i64, x, by)?;
                }
                return Ok(());
            }
            "vector.extract" => {
                let at = i64s_attr(op, "static_position").expect("a static position")[0] as usize;
                Value::One(self.get(operand(op, 0), t).nums()[at].clone())
            }
            "vector.from_elements" => Value::Many(operands(op).iter().map(|v| self.get(*v, t).num().clone()).collect()),
            _ => self.arithmetic(op, t)?,
        };
        self.set(result(op, 0), t, value);
        Ok(())
    }
    fn arithmetic(&self, op: O, t: usize) -> Result<Value, String> {
        let to = elem(result(op, 0).r#type());
        let all: Vec<Vec<Num>> = operands(op).iter().map(|v| self.get(*v, t).nums()).collect();
        let n = all.iter().map(Vec::len).max().unwrap_or(1);
        let from = elem(operand(op, 0).r#type());
        let mut lanes = vec![];
        for k in 0..n {
            let x: Vec<&Num> = all.iter().map(|x| if x.len() == 1 { &x[0] } else { &x[k] }).collect();
            let y = match (name(op), &x[..]) {
                ("arith.select", [c, a, b]) => (if **c == Num::Int(0) { *b } else { *a }).clone(),
                ("arith.cmpi" | "arith.cmpf", [a, b]) => {
                    compare(name(op), int_attr(op, "predicate").expect("a predicate"), from, a, b)
                }
                ("math.fma", [a, b, c]) => round(a.float().mul_add(b.float(), c.float()), to),
                (n, [a, b]) => binary(n, to, a, b).ok_or_else(|| format!("no simulation of {n}"))?,
                (n, [a]) => convert(n, from, to, a)
                    .or_else(|| unary(n, to, a))
                    .ok_or_else(|| format!("no simulation of {n}"))?,
                (n, _) => return Err(format!("no simulation of {n}")),
            };
            lanes.push(y);
        }
        Ok(if vector_len(result(op, 0).r#type()).is_some() { Value::Many(lanes) } else { Value::One(lanes.remove(0)) })
    }
}
fn is_empty(op: O, region: usize) -> bool {
    op.region_count() <= region
        || op.region(region).is_ok_and(|r| {
            use melior::ir::RegionLike;
            r.first_block().is_none()
        })
}
fn constant_value(op: O) -> Value {
    let t = result(op, 0).r#type();
    let x = constant(attr(op, "value").expect("a value"), elem(t));
    match vector_len(t) {
        Some(n) => Value::Many(vec![x; n as usize]),
        None => Value::One(x),
    }
}
fn aligned(op: O, at: i64, n: i64) -> Result<(), String> {
    let bytes = int_attr(op, "alignment").ok_or("a vector access without alignment")?;
    let size = elem_bytes(if name(op) == "vector.store" { operand(op, 0) } else { result(op, 0) }.r#type());
    if bytes != n * size || (at * size) % bytes != 0 {
        return Err(format!("{} of {n} at {at} is not aligned", name(op)));
    }
    Ok(())
}
