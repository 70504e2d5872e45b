//! The region of a structured op, read once into instructions over numbered registers and run for each element.

use super::{
    Values,
    number::{Fun, Kind, compare_floats, compare_ints, function},
    tensor::Tensor,
};
use crate::ir::*;
use std::{collections::HashMap, rc::Rc};

type Register = usize;

enum Instruction {
    /// Operands and results as the function has them.
    Apply {
        f: Fun,
        operands: [Register; 3],
        result: Register,
        second: Register,
    },
    /// Index of a loop.
    Index {
        dim: usize,
        result: Register,
    },
    /// An element of a tensor that the region captures.
    Extract {
        tensor: usize,
        at: Vec<Register>,
        result: Register,
    },
    If {
        condition: Register,
        then: Block,
        otherwise: Block,
        results: Vec<Register>,
    },
    /// Counts `at` from `from` to below `to`, signed.
    For {
        from: Register,
        to: Register,
        step: Register,
        inits: Vec<Register>,
        body: Block,
        results: Vec<Register>,
    },
    While {
        inits: Vec<Register>,
        before: Block,
        after: Block,
        results: Vec<Register>,
    },
}

struct Block {
    args: Vec<Register>,
    code: Vec<Instruction>,
    yields: Vec<Register>,
}

pub struct Body {
    block: Block,
    /// With the constants in place.
    registers: Vec<u64>,
    tensors: Vec<Rc<Tensor>>,
    scratch: Vec<u64>,
}

impl Body {
    /// Reads the only block of a region; `outer` are the values that it may capture.
    pub fn read<'c>(block: Blk<'c>, outer: &Values) -> Result<Body, String> {
        let mut reader =
            Reader { outer, known: HashMap::new(), registers: vec![], tensors: vec![], captured: HashMap::new() };
        let block = reader.block(block)?;
        Ok(Body { block, registers: reader.registers, tensors: reader.tensors, scratch: vec![] })
    }
    /// Runs for these arguments at these loop indices; the yielded words are in `out`.
    pub fn run(&mut self, args: &[u64], indices: &[i64], out: &mut Vec<u64>) -> Result<(), String> {
        for (r, a) in self.block.args.iter().zip(args) {
            self.registers[*r] = *a;
        }
        let mut machine =
            Machine { registers: &mut self.registers, tensors: &self.tensors, indices, scratch: &mut self.scratch };
        machine.code(&self.block.code)?;
        out.clear();
        out.extend(self.block.yields.iter().map(|r| self.registers[*r]));
        Ok(())
    }
}

struct Reader<'v> {
    outer: &'v Values,
    known: HashMap<usize, Register>,
    registers: Vec<u64>,
    tensors: Vec<Rc<Tensor>>,
    captured: HashMap<usize, usize>,
}
impl Reader<'_> {
    fn fresh(&mut self, v: V) -> Register {
        self.registers.push(0);
        self.known.insert(key(v), self.registers.len() - 1);
        self.registers.len() - 1
    }
    fn get(&mut self, v: V) -> Result<Register, String> {
        if let Some(r) = self.known.get(&key(v)) {
            return Ok(*r);
        }
        let t = self.outer.get(&key(v)).ok_or_else(|| format!("{v} is not known in this region"))?;
        let word = *t.words.first().filter(|_| t.shape.is_empty()).ok_or("a captured tensor is read as a scalar")?;
        let r = self.fresh(v);
        self.registers[r] = word;
        Ok(r)
    }
    fn all(&mut self, vs: &[V]) -> Result<Vec<Register>, String> {
        vs.iter().map(|v| self.get(*v)).collect()
    }
    fn block(&mut self, b: Blk) -> Result<Block, String> {
        let args = args(b).into_iter().map(|a| self.fresh(a)).collect();
        let mut code = vec![];
        let all = ops(b);
        let (last, rest) = all.split_last().ok_or("a region without a terminator")?;
        for op in rest {
            if let Some(i) = self.op(*op)? {
                code.push(i);
            }
        }
        Ok(Block { args, code, yields: self.all(&operands(*last))? })
    }
    fn op(&mut self, op: O) -> Result<Option<Instruction>, String> {
        let results = |r: &mut Self| -> Vec<Register> { results(op).into_iter().map(|v| r.fresh(v)).collect() };
        Ok(Some(match name(op) {
            "arith.constant" => {
                let v = result(op, 0);
                let t = Tensor::constant(attr(op, "value").ok_or("a constant without a value")?, v.r#type())?;
                let r = self.fresh(v);
                self.registers[r] = t.words[0];
                return Ok(None);
            }
            "linalg.index" => Instruction::Index {
                dim: int_attr(op, "dim").ok_or("an index without dim")? as usize,
                result: results(self)[0],
            },
            "tensor.extract" => {
                let (from, at) = (operand(op, 0), self.all(&operands(op)[1..])?);
                let tensor = self.tensor(from)?;
                Instruction::Extract { tensor, at, result: results(self)[0] }
            }
            "scf.if" => {
                let condition = self.get(operand(op, 0))?;
                let then = self.block(block(op, 0))?;
                let otherwise = match region_block(op, 1) {
                    Some(b) => self.block(b)?,
                    None => Block { args: vec![], code: vec![], yields: vec![] },
                };
                Instruction::If { condition, then, otherwise, results: results(self) }
            }
            "scf.for" => {
                let all = self.all(&operands(op))?;
                let body = self.block(block(op, 0))?;
                let (from, to, step) = (all[0], all[1], all[2]);
                Instruction::For { from, to, step, inits: all[3..].to_vec(), body, results: results(self) }
            }
            "scf.while" => {
                let inits = self.all(&operands(op))?;
                let (before, after) = (self.block(block(op, 0))?, self.block(block(op, 1))?);
                Instruction::While { inits, before, after, results: results(self) }
            }
            _ => self.scalar(op)?,
        }))
    }
    fn tensor(&mut self, v: V) -> Result<usize, String> {
        if let Some(i) = self.captured.get(&key(v)) {
            return Ok(*i);
        }
        let t = self.outer.get(&key(v)).ok_or_else(|| format!("{v} is not known in this region"))?;
        self.tensors.push(t.clone());
        self.captured.insert(key(v), self.tensors.len() - 1);
        Ok(self.tensors.len() - 1)
    }
    fn scalar(&mut self, op: O) -> Result<Instruction, String> {
        let regs = self.all(&operands(op))?;
        let f = scalar_function(op)?;
        let mut operands = [0; 3];
        operands[..regs.len().min(3)].copy_from_slice(&regs[..regs.len().min(3)]);
        let first = self.fresh(result(op, 0));
        let second = match f {
            Fun::Pair(_) => self.fresh(result(op, 1)),
            _ => first,
        };
        Ok(Instruction::Apply { f, operands, result: first, second })
    }
}

/// The function of an op of arith or math on scalars.
pub fn scalar_function(op: O) -> Result<Fun, String> {
    let unknown = || format!("no evaluation of {}", name(op));
    if op.operand_count() == 0 || op.result_count() == 0 {
        return Err(unknown());
    }
    let from = Kind::of(operand(op, 0).r#type())?;
    let to = Kind::of(result(op, 0).r#type())?;
    let predicate = || int_attr(op, "predicate").ok_or("a comparison without a predicate");
    match name(op) {
        "arith.cmpi" => Ok(compare_ints(predicate()?, from)),
        "arith.cmpf" => Ok(compare_floats(predicate()?)),
        other => function(other, from, to).ok_or_else(unknown),
    }
}

struct Machine<'m> {
    registers: &'m mut Vec<u64>,
    tensors: &'m [Rc<Tensor>],
    indices: &'m [i64],
    scratch: &'m mut Vec<u64>,
}
impl Machine<'_> {
    /// Copies registers all at once, as a terminator hands values over.
    fn pass(&mut self, from: &[Register], to: &[Register]) {
        self.scratch.clear();
        self.scratch.extend(from.iter().map(|r| self.registers[*r]));
        for (r, x) in to.iter().zip(self.scratch.iter()) {
            self.registers[*r] = *x;
        }
    }
    fn code(&mut self, code: &[Instruction]) -> Result<(), String> {
        for i in code {
            match i {
                Instruction::Apply { f, operands: [a, b, c], result, second } => {
                    let r = &mut *self.registers;
                    match f {
                        Fun::One(f) => r[*result] = f(r[*a]),
                        Fun::Two(f) => r[*result] = f(r[*a], r[*b]),
                        Fun::Three(f) => r[*result] = f(r[*a], r[*b], r[*c]),
                        Fun::Pair(f) => [r[*result], r[*second]] = f(r[*a], r[*b]),
                    }
                }
                Instruction::Index { dim, result } => self.registers[*result] = self.indices[*dim] as u64,
                Instruction::Extract { tensor, at, result } => {
                    let t = &self.tensors[*tensor];
                    let mut place = 0;
                    for (r, extent) in at.iter().zip(&t.shape) {
                        let i = self.registers[*r] as i64;
                        if i < 0 || i >= *extent {
                            return Err(format!("tensor.extract at {i} of {extent}"));
                        }
                        place = place * extent + i;
                    }
                    self.registers[*result] = t.words[place as usize];
                }
                Instruction::If { condition, then, otherwise, results } => {
                    let taken = if self.registers[*condition] == 0 { otherwise } else { then };
                    self.code(&taken.code)?;
                    self.pass(&taken.yields, results);
                }
                Instruction::For { from, to, step, inits, body, results } => {
                    let (mut i, end) = (self.registers[*from] as i64, self.registers[*to] as i64);
                    self.pass(inits, results);
                    while i < end {
                        self.registers[body.args[0]] = i as u64;
                        self.pass(results, &body.args[1..]);
                        self.code(&body.code)?;
                        self.pass(&body.yields, results);
                        i += self.registers[*step] as i64;
                    }
                }
                Instruction::While { inits, before, after, results } => {
                    self.pass(inits, &before.args);
                    loop {
                        self.code(&before.code)?;
                        let goes_on = self.registers[before.yields[0]] != 0;
                        self.pass(&before.yields[1..], if goes_on { &after.args } else { results });
                        if !goes_on {
                            break;
                        }
                        self.code(&after.code)?;
                        self.pass(&after.yields, &before.args);
                    }
                }
            }
        }
        Ok(())
    }
}
