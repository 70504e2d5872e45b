//! A program as data: inputs with values, ops in order, one result; and its text.

use std::fmt::Write;
use zml_format::DType;

/// A static tensor type.
#[derive(Clone, Debug, PartialEq)]
pub struct Ty {
    pub dtype: DType,
    pub shape: Vec<usize>,
}
impl Ty {
    pub fn new(dtype: DType, shape: &[usize]) -> Self {
        Ty { dtype, shape: shape.to_vec() }
    }
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }
    pub fn text(&self) -> String {
        let dims: String = self.shape.iter().map(|d| format!("{d}x")).collect();
        format!("tensor<{dims}{}>", self.dtype)
    }
}

/// What is known of the numbers of a float value, so that two right implementations are told from a wrong one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Num {
    pub low: f64,
    pub high: f64,
    /// Every number is a multiple of this; 0 if there is no such.
    pub step: f64,
    /// How far two right implementations may be apart; 0 if they may not.
    pub error: f64,
}
impl Num {
    /// Of integers and predicates, which are exact and wrap.
    pub const INT: Num = Num { low: f64::NEG_INFINITY, high: f64::INFINITY, step: 1.0, error: 0.0 };
    pub fn bound(&self) -> f64 {
        self.low.abs().max(self.high.abs())
    }
}

pub type Value = usize;

#[derive(Clone, Debug)]
pub enum Made {
    /// An argument, with the bytes that it gets.
    Input(Vec<u8>),
    /// `$0`, `$1` in the text are the operands, `@` a name of the op's own; `#2 ` before it means the second of two results.
    Op { text: String, operands: Vec<Value> },
}

#[derive(Clone, Debug)]
pub struct Node {
    pub ty: Ty,
    pub num: Num,
    pub made: Made,
}

/// Nodes in an order in which each comes after its operands; the results are the values that are compared.
#[derive(Clone, Debug)]
pub struct Graph {
    pub nodes: Vec<Node>,
    pub results: Vec<Value>,
}

impl Graph {
    pub fn inputs(&self) -> impl Iterator<Item = (Value, &[u8])> {
        self.nodes.iter().enumerate().filter_map(|(i, n)| match &n.made {
            Made::Input(bytes) => Some((i, &bytes[..])),
            Made::Op { .. } => None,
        })
    }
    pub fn ops(&self) -> usize {
        self.nodes.iter().filter(|n| matches!(n.made, Made::Op { .. })).count()
    }
    /// As StableHLO.
    pub fn text(&self) -> String {
        let arguments: Vec<String> =
            self.inputs().map(|(v, _)| format!("%v{v}: {}", self.nodes[v].ty.text())).collect();
        let types: Vec<String> = self.results.iter().map(|v| self.nodes[*v].ty.text()).collect();
        let mut text = format!("func.func @main({}) -> ({}) {{\n", arguments.join(", "), types.join(", "));
        for (i, n) in self.nodes.iter().enumerate() {
            if let Made::Op { text: op, operands } = &n.made {
                // A mark of ops with two results, of which the second is meant.
                let (names, op) = match op.strip_prefix("#2 ") {
                    Some(op) => (format!("%v{i}_first, %v{i}"), op),
                    None => (format!("%v{i}"), &op[..]),
                };
                let _ = writeln!(text, "  {names} = {}", filled(op, operands, i));
            }
        }
        let names: Vec<String> = self.results.iter().map(|v| format!("%v{v}")).collect();
        let _ = writeln!(text, "  return {} : {}\n}}", names.join(", "), types.join(", "));
        text
    }
    /// Without what no result needs.
    pub fn pruned(&self) -> Graph {
        let mut needed = vec![false; self.nodes.len()];
        self.results.iter().for_each(|v| needed[*v] = true);
        for i in (0..self.nodes.len()).rev() {
            if let (true, Made::Op { operands, .. }) = (needed[i], &self.nodes[i].made) {
                operands.iter().for_each(|o| needed[*o] = true);
            }
        }
        let mut number = vec![usize::MAX; self.nodes.len()];
        let mut nodes = vec![];
        for (i, n) in self.nodes.iter().enumerate().filter(|(i, _)| needed[*i]) {
            number[i] = nodes.len();
            let mut n = n.clone();
            if let Made::Op { operands, .. } = &mut n.made {
                operands.iter_mut().for_each(|o| *o = number[*o]);
            }
            nodes.push(n);
        }
        Graph { nodes, results: self.results.iter().map(|v| number[*v]).collect() }
    }
}
/// The op's text with its operands' names. Operands are looked for from the last: `$1` is a part of `$12`.
fn filled(op: &str, operands: &[Value], i: Value) -> String {
    let mut text = op.replace('@', &format!("n{i}"));
    for (k, v) in operands.iter().enumerate().rev() {
        text = text.replace(&format!("${k}"), &format!("%v{v}"));
    }
    text
}
