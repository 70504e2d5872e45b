//! Level 1 on the host: runs entry functions on tensors, before fuse or after it, one op after the other as it reads. It is
//! the reference for kernels and passes: it shares nothing with emitters and targets, is simple, and slow.
//!
//! After fuse every call of a dispatch is shown to a watcher with its inputs and results.

mod body;
mod moves;
mod number;
mod special;
mod structured;
mod tensor;

pub use number::Kind;
pub use tensor::Tensor;

use crate::ir::*;
use std::{collections::HashMap, rc::Rc};

pub type Shared = Rc<Tensor>;
/// By [`key`].
type Values = HashMap<usize, Shared>;

/// A call of a dispatch that has ended.
pub struct Called<'a, 'c> {
    /// The `func.call`.
    pub call: O<'c>,
    /// The dispatch function.
    pub function: O<'c>,
    pub inputs: &'a [Shared],
    pub results: &'a [Shared],
}
/// Sees every call; an error of it ends the evaluation.
pub type Watch<'w, 'c> = &'w mut dyn FnMut(&Called<'_, 'c>) -> Result<(), String>;

/// Results of function `entry` of a module (`top` is its body) for these arguments.
pub fn run<'c>(top: Blk<'c>, entry: &str, inputs: Vec<Tensor>, watch: Watch<'_, 'c>) -> Result<Vec<Tensor>, String> {
    let function = find(top, entry).ok_or_else(|| format!("there is no function {entry}"))?;
    let mut e = Evaluator { top, values: HashMap::new(), watch };
    let results = e.function(function, inputs.into_iter().map(Rc::new).collect())?;
    Ok(results.into_iter().map(Rc::unwrap_or_clone).collect())
}

struct Evaluator<'c, 'w> {
    top: Blk<'c>,
    values: Values,
    watch: Watch<'w, 'c>,
}
impl<'c> Evaluator<'c, '_> {
    fn get(&self, v: V<'c>) -> Result<Shared, String> {
        self.values.get(&key(v)).cloned().ok_or_else(|| format!("{v} has no value"))
    }
    fn function(&mut self, f: O<'c>, inputs: Vec<Shared>) -> Result<Vec<Shared>, String> {
        self.block(block(f, 0), inputs)
    }
    /// What the terminator of a block hands on.
    fn block(&mut self, b: Blk<'c>, inputs: Vec<Shared>) -> Result<Vec<Shared>, String> {
        for (a, t) in args(b).into_iter().zip(inputs) {
            self.values.insert(key(a), t);
        }
        let all = ops(b);
        let (last, rest) = all.split_last().ok_or("a block without a terminator")?;
        for op in rest {
            let found = self.op(*op)?;
            for (r, t) in results(*op).into_iter().zip(found) {
                self.values.insert(key(r), t);
            }
        }
        operands(*last).into_iter().map(|v| self.get(v)).collect()
    }
    fn op(&mut self, op: O<'c>) -> Result<Vec<Shared>, String> {
        match name(op) {
            "arith.constant" => {
                let value = attr(op, "value").ok_or("a constant without a value")?;
                Ok(vec![Rc::new(Tensor::constant(value, result(op, 0).r#type())?)])
            }
            "tensor.empty" => Ok(vec![Rc::new(Tensor::zeros(result(op, 0).r#type())?)]),
            "linalg.generic" => self.generic(op),
            "linalg.reduce" => self.reduce(op),
            "linalg.fill" => self.fill(op),
            "tensor.expand_shape" | "tensor.collapse_shape" | "tensor.cast" => self.reshape(op),
            "tensor.extract_slice" => self.slice(op),
            "tensor.pad" => self.pad(op),
            "tensor.concat" => self.concat(op),
            "tensor.extract" => self.extract(op),
            "tensor.from_elements" => self.elements(op),
            "zml.dynamic_update_slice" => self.update_slice(op),
            "zml.sort" => self.sort(op),
            "zml.scatter" => self.scatter(op),
            "zml.scan" => self.scan(op),
            "func.call" => self.call(op),
            "scf.if" => {
                let region = usize::from(self.get(operand(op, 0))?.words[0] == 0);
                self.block(block(op, region), vec![])
            }
            "scf.index_switch" => {
                let x = self.get(operand(op, 0))?.words[0] as i64;
                let case = i64s_attr(op, "cases").unwrap_or_default().iter().position(|c| *c == x);
                self.block(block(op, case.map_or(0, |i| i + 1)), vec![])
            }
            "scf.while" => {
                let mut carried = operands(op).into_iter().map(|v| self.get(v)).collect::<Result<Vec<_>, _>>()?;
                loop {
                    let mut end = self.block(block(op, 0), carried)?;
                    if end.remove(0).words[0] == 0 {
                        return Ok(end);
                    }
                    carried = self.block(block(op, 1), end)?;
                }
            }
            _ => self.scalar(op),
        }
    }
    fn call(&mut self, op: O<'c>) -> Result<Vec<Shared>, String> {
        let callee = symbol_attr(op, "callee").ok_or("a call without a callee")?;
        let function = find(self.top, callee).ok_or_else(|| format!("there is no function {callee}"))?;
        let inputs = operands(op).into_iter().map(|v| self.get(v)).collect::<Result<Vec<_>, _>>()?;
        let results = self.function(function, inputs.clone()).map_err(|e| format!("{callee}: {e}"))?;
        (self.watch)(&Called { call: op, function, inputs: &inputs, results: &results })?;
        Ok(results)
    }
    fn extract(&mut self, op: O<'c>) -> Result<Vec<Shared>, String> {
        let from = self.get(operand(op, 0))?;
        let mut place = 0;
        for (d, v) in operands(op)[1..].iter().enumerate() {
            place = place * from.shape[d] + self.get(*v)?.words[0] as i64;
        }
        let word = from.words.get(place as usize).ok_or("tensor.extract outside of its tensor")?;
        Ok(vec![Rc::new(Tensor::scalar(from.kind, *word))])
    }
    fn elements(&mut self, op: O<'c>) -> Result<Vec<Shared>, String> {
        let mut out = Tensor::zeros(result(op, 0).r#type())?;
        for (i, v) in operands(op).into_iter().enumerate() {
            out.words[i] = self.get(v)?.words[0];
        }
        Ok(vec![Rc::new(out)])
    }
    /// Ops of arith on the scalars between dispatches.
    fn scalar(&mut self, op: O<'c>) -> Result<Vec<Shared>, String> {
        let f = body::scalar_function(op)?;
        let x = operands(op).into_iter().map(|v| Ok(self.get(v)?.words[0])).collect::<Result<Vec<_>, String>>()?;
        let kind = |i: usize| Kind::of(result(op, i).r#type());
        let words = match (f, &x[..]) {
            (number::Fun::One(f), [a]) => vec![f(*a)],
            (number::Fun::Two(f), [a, b]) => vec![f(*a, *b)],
            (number::Fun::Three(f), [a, b, c]) => vec![f(*a, *b, *c)],
            (number::Fun::Pair(f), [a, b]) => f(*a, *b).to_vec(),
            _ => return Err(format!("no evaluation of {}", name(op))),
        };
        words.into_iter().enumerate().map(|(i, w)| Ok(Rc::new(Tensor::scalar(kind(i)?, w)))).collect()
    }
}
