//! The CPU interpreter: runs a program as the specification reads, simple and slow. It is the project's oracle and the
//! evaluator for constants and shapes. Floats are computed in f64 and rounded once to their type, integers wrap.
//!
//! Programs must have passed `verify`; on others an evaluation may panic.

mod check;
mod chlo;
mod complex;
mod control;
mod convert;
mod dot;
mod elementwise;
mod gather;
mod linalg;
mod quant;
mod reduce;
mod rng;
mod shape;
mod special;
mod tensor;
mod window;

use crate::tree::{Block, Func, Loc, Op, OpKind, Program, Span, Type, Value, ValueId};
use std::fmt;
pub use tensor::Tensor;

/// What a value is while a program runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Val {
    Tensor(Tensor),
    Token,
    Tuple(Vec<Val>),
}

/// Why a program could not be evaluated.
#[derive(Clone, Debug, PartialEq)]
pub enum EvalError {
    /// The program has no such function.
    NoFunction(String),
    /// The arguments are not those that the function takes.
    Arguments(String),
    /// The interpreter does not have this op, or not for these types.
    Unsupported(String),
    /// The program itself fails: an assertion, an index that its types allow but its values do not.
    Program(String),
}
impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            EvalError::NoFunction(n) => write!(f, "no function `@{n}`"),
            EvalError::Arguments(s) | EvalError::Program(s) => f.write_str(s),
            EvalError::Unsupported(s) => write!(f, "the interpreter does not have {s}"),
        }
    }
}
impl std::error::Error for EvalError {}
pub(crate) type R<T> = Result<T, EvalError>;

pub(crate) fn unsupported<T>(what: impl Into<String>) -> R<T> {
    Err(EvalError::Unsupported(what.into()))
}

/// Runs function `func` on tensors in the order of its arguments.
pub fn eval(program: &Program, func: &str, args: Vec<Tensor>) -> Result<Vec<Tensor>, EvalError> {
    let f = program.func(func).ok_or_else(|| EvalError::NoFunction(func.into()))?;
    if args.len() != f.body.args.len() {
        return Err(EvalError::Arguments(format!(
            "`@{func}` takes {} arguments, {} were given",
            f.body.args.len(),
            args.len()
        )));
    }
    for (i, (a, v)) in args.iter().zip(&f.body.args).enumerate() {
        let fits = match f.ty(*v) {
            Type::Tensor(t) => {
                t.dtype == a.dtype
                    && t.rank() == a.shape.len()
                    && t.dims.iter().zip(&a.shape).all(|(d, s)| d.is_none_or(|d| d == *s))
            }
            _ => false,
        };
        if !fits {
            let found = crate::print::tensor(&a.ty());
            return Err(EvalError::Arguments(format!(
                "argument {i} of `@{func}` is {}, {found} was given",
                crate::print::ty(f.ty(*v))
            )));
        }
    }
    let results = call(program, f, args.into_iter().map(Val::Tensor).collect())?;
    results
        .into_iter()
        .map(|v| match v {
            Val::Tensor(t) => Ok(t),
            _ => Err(EvalError::Unsupported("results other than tensors".into())),
        })
        .collect()
}

pub(crate) fn call(program: &Program, f: &Func, args: Vec<Val>) -> R<Vec<Val>> {
    let mut run = Run { program, func: f, values: vec![None; f.values.len()] };
    run.block(&f.body, args)
}

/// A function of nothing but values of these types, for ops outside of a program.
pub(crate) fn scratch(types: impl IntoIterator<Item = Type>) -> Func {
    let value = |ty| Value { ty, name: String::new(), loc: Loc::Unknown, span: Span::NONE };
    Func {
        name: String::new(),
        public: false,
        external: false,
        values: types.into_iter().map(value).collect(),
        body: Block::default(),
        arg_attrs: vec![],
        result_types: vec![],
        result_attrs: vec![],
        attrs: vec![],
        loc: Loc::Unknown,
        span: Span::NONE,
    }
}

/// One op without regions on given operands, outside of its program: for folding. `f` gives the types of the results.
pub(crate) fn one(f: &Func, op: &Op, operands: Vec<Tensor>) -> R<Vec<Tensor>> {
    let n = operands.len();
    let types = op.operands.iter().chain(&op.results).map(|v| f.ty(*v).clone());
    let g = scratch(types);
    let ids = |from: usize, n: usize| (from..from + n).map(|i| ValueId(i as u32)).collect::<Vec<_>>();
    let small = Op { extra: op.extra.clone(), ..Op::new(op.kind.clone(), ids(0, n), ids(n, op.results.len())) };
    let empty = Program::default();
    let mut run = Run { program: &empty, func: &g, values: vec![None; g.values.len()] };
    for (v, t) in small.operands.iter().zip(operands) {
        run.set(*v, t);
    }
    run.op(&small)?;
    small.results.iter().map(|r| run.tensor(*r).cloned()).collect()
}

/// A function that is running.
pub(crate) struct Run<'a> {
    program: &'a Program,
    func: &'a Func,
    values: Vec<Option<Val>>,
}

impl<'a> Run<'a> {
    fn get(&self, v: ValueId) -> &Val {
        self.values[v.0 as usize].as_ref().expect("values are defined before their uses")
    }
    fn tensor(&self, v: ValueId) -> R<&Tensor> {
        match self.get(v) {
            Val::Tensor(t) => Ok(t),
            _ => unsupported("an op on a token or tuple here"),
        }
    }
    fn set(&mut self, v: ValueId, t: Tensor) {
        self.values[v.0 as usize] = Some(Val::Tensor(t));
    }

    fn block(&mut self, b: &'a Block, args: Vec<Val>) -> R<Vec<Val>> {
        for (v, a) in b.args.iter().zip(args) {
            self.values[v.0 as usize] = Some(a);
        }
        for op in &b.ops {
            self.op_ref(op)?;
        }
        Ok(b.results.iter().map(|v| self.get(*v).clone()).collect())
    }
    /// A block on tensors that gives tensors.
    fn block_tensors(&mut self, b: &'a Block, args: impl IntoIterator<Item = Tensor>) -> R<Vec<Tensor>> {
        let results = self.block(b, args.into_iter().map(Val::Tensor).collect())?;
        results
            .into_iter()
            .map(|v| match v {
                Val::Tensor(t) => Ok(t),
                _ => unsupported("tokens and tuples in this region"),
            })
            .collect()
    }

    fn op_ref(&mut self, op: &'a Op) -> R<()> {
        if control::is_control(&op.kind) {
            return self.control(op);
        }
        if reduce::has_region(&op.kind) {
            return self.with_region(op);
        }
        self.op(op)
    }

    /// An op without regions or callees.
    fn op(&mut self, op: &Op) -> R<()> {
        let operands = op.operands.iter().map(|v| self.tensor(*v)).collect::<R<Vec<_>>>()?;
        let types = op
            .results
            .iter()
            .map(|r| match self.func.ty(*r) {
                Type::Tensor(t) => Ok(t),
                t => unsupported(format!("a result of type {}", crate::print::ty(t))),
            })
            .collect::<R<Vec<_>>>()?;
        let mut results = match &op.kind {
            OpKind::Constant(l) => vec![Tensor::from_literal(l)],
            k if quant::applies(k, &operands, &op.operands, &types, self.func) => {
                quant::op(k, &operands, &op.operands, &types, self.func)?
            }
            OpKind::Iota { dim } => vec![shape::iota(types[0], *dim as usize)?],
            OpKind::Unary(k) => vec![elementwise::unary(*k, operands[0], types[0].dtype)?],
            OpKind::Binary(k) => vec![elementwise::binary(*k, operands[0], operands[1])?],
            OpKind::Compare { direction, ty } => vec![elementwise::compare(*direction, *ty, operands[0], operands[1])],
            OpKind::Select => vec![elementwise::select(operands[0], operands[1], operands[2])],
            OpKind::Clamp => vec![elementwise::clamp(operands[0], operands[1], operands[2])?],
            OpKind::Convert => vec![convert::convert(operands[0], types[0].dtype)],
            OpKind::BitcastConvert => vec![convert::bitcast(operands[0], types[0])?],
            OpKind::ReducePrecision { exponent_bits, mantissa_bits } => {
                vec![convert::reduce_precision(operands[0], *exponent_bits, *mantissa_bits)]
            }
            OpKind::DotGeneral { dims, .. } => vec![dot::dot_general(operands[0], operands[1], dims, types[0].dtype)],
            OpKind::Convolution(c) => vec![dot::convolution(operands[0], operands[1], c, types[0].dtype)?],
            OpKind::DynamicConv(c) => {
                let pads = operands[2].ints();
                let mut c = (**c).clone();
                c.padding = pads.chunks_exact(2).map(|p| (p[0], p[1])).collect();
                vec![dot::convolution(operands[0], operands[1], &c, types[0].dtype)?]
            }
            OpKind::Gather { dims, slice_sizes, .. } => {
                vec![gather::gather(operands[0], operands[1], dims, slice_sizes)?]
            }
            OpKind::DynamicGather { dims, .. } => {
                vec![gather::gather(operands[0], operands[1], dims, &operands[2].ints())?]
            }
            OpKind::Cholesky { lower } => vec![linalg::cholesky(operands[0], *lower)],
            OpKind::TriangularSolve { left_side, lower, unit_diagonal, transpose_a } => {
                vec![linalg::triangular_solve(
                    operands[0],
                    operands[1],
                    *left_side,
                    *lower,
                    *unit_diagonal,
                    transpose_a,
                )]
            }
            OpKind::Fft { kind, length } => vec![linalg::fft(operands[0], kind, length, types[0].dtype)],
            OpKind::BatchNormInference { epsilon, feature_index } => {
                vec![linalg::batch_norm_inference(&operands, *epsilon, *feature_index as usize)]
            }
            OpKind::BatchNormTraining { epsilon, feature_index } => {
                linalg::batch_norm_training(&operands, *epsilon, *feature_index as usize)
            }
            OpKind::BatchNormGrad { epsilon, feature_index } => {
                linalg::batch_norm_grad(&operands, *epsilon, *feature_index as usize)
            }
            OpKind::RngBitGenerator { algorithm } => rng::bit_generator(operands[0], types[1], algorithm)?,
            OpKind::OptimizationBarrier => operands.iter().map(|t| (*t).clone()).collect(),
            OpKind::Chlo(name) => chlo::op(name, op, &operands, &types)?,
            k => match shape::op(k, &operands, types.first().copied())? {
                Some(t) => vec![t],
                None => return unsupported(format!("`{}`", crate::unbuild::name(k))),
            },
        };
        for r in op.results.iter().rev() {
            let t = results.pop().expect("one for each result");
            self.set(*r, t);
        }
        Ok(())
    }
}
