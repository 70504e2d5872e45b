//! Walks the tree: values by number, blocks, inlined calls, and one table from op kind to lowering. The lowerings
//! themselves are in a file for each family.

use super::{
    batch_norm, bitcast, contract, control, data, elementwise,
    error::{LegalizeError, Refusal, dtypes},
    fft, index, pad, reduce, rng, shape, solve, special,
    value::{Val, extents, is_scalar, location, part_types, scalar_literal, zeros},
    window,
};
use crate::ir::{B, V};
use std::collections::HashMap;
use zmlc_import::{
    op_name,
    tree::{Block, DType, Func, Op, OpKind, Program, TensorType, Type, ValueId},
};

/// Calls nest no deeper than this.
const MAX_DEPTH: usize = 64;

pub(super) struct Lower<'p, 'c> {
    pub program: &'p Program,
    pub errors: Vec<LegalizeError>,
    context: std::marker::PhantomData<&'c ()>,
}

/// The values of one call of a function.
pub(super) struct Frame<'p, 'c> {
    pub func: &'p Func,
    values: HashMap<ValueId, Val<'c>>,
    depth: usize,
    /// Inside a region that works on elements: values are scalars.
    pub scalar: bool,
}
impl<'p, 'c> Frame<'p, 'c> {
    pub fn new(func: &'p Func) -> Self {
        Frame { func, values: HashMap::new(), depth: 0, scalar: false }
    }
    pub fn set(&mut self, id: ValueId, v: Val<'c>) {
        self.values.insert(id, v);
    }
    /// A value; in scalar code, a tensor from outside the region is read.
    pub fn get(&self, b: &B<'c>, id: ValueId) -> Val<'c> {
        let v = self.values.get(&id).expect("the verifier checked definitions").clone();
        match v {
            Val::One(_) | Val::Complex(..) if self.scalar => {
                v.each(|v| if is_scalar(v) { v } else { b.extract(v, &[]) })
            }
            v => v,
        }
    }
}

/// One op that is being lowered.
pub(super) struct Cx<'a, 'p, 'c> {
    pub lower: &'a mut Lower<'p, 'c>,
    pub frame: &'a mut Frame<'p, 'c>,
    pub b: B<'c>,
    pub op: &'p Op,
}
impl<'p, 'c> Cx<'_, 'p, 'c> {
    pub fn arg(&self, i: usize) -> Val<'c> {
        self.frame.get(&self.b, self.op.operands[i])
    }
    pub fn args(&self) -> Vec<Val<'c>> {
        (0..self.op.operands.len()).map(|i| self.arg(i)).collect()
    }
    pub fn ty(&self, i: usize) -> &'p TensorType {
        self.frame.func.tensor(self.op.operands[i])
    }
    pub fn out(&self, i: usize) -> &'p TensorType {
        self.frame.func.tensor(self.op.results[i])
    }
    pub fn dtype(&self, i: usize) -> DType {
        self.ty(i).dtype
    }
    pub fn shape(&self, i: usize) -> Vec<i64> {
        extents(self.ty(i))
    }
    pub fn out_shape(&self) -> Vec<i64> {
        extents(self.out(0))
    }
    /// The region as scalar code: its results for these arguments.
    pub fn scalar_region(&mut self, b: &B<'c>, region: usize, args: &[Val<'c>]) -> Vec<Val<'c>> {
        let block = &self.op.regions[region];
        let outer = std::mem::replace(&mut self.frame.scalar, true);
        for (id, v) in block.args.iter().zip(args) {
            self.frame.set(*id, v.clone());
        }
        let results = self.lower.block(self.frame, b, block);
        self.frame.scalar = outer;
        results
    }
}

impl<'p, 'c> Lower<'p, 'c> {
    pub fn new(program: &'p Program) -> Self {
        Lower { program, errors: vec![], context: std::marker::PhantomData }
    }
    /// Lowers a block whose arguments are set; its results.
    pub fn block(&mut self, frame: &mut Frame<'p, 'c>, b: &B<'c>, block: &'p Block) -> Vec<Val<'c>> {
        for op in &block.ops {
            self.op(frame, b, op);
        }
        block.results.iter().map(|id| frame.get(b, *id)).collect()
    }
    fn op(&mut self, frame: &mut Frame<'p, 'c>, b: &B<'c>, op: &'p Op) {
        let b = b.with_loc(location(b, &op.loc));
        let b = if frame.scalar { b } else { b.labelled(label(&op_name(&op.kind))) };
        let lowered = check_types(frame, op).and_then(|()| {
            let mut cx = Cx { lower: self, frame, b, op };
            if empty_results(&cx) { Ok(empties(&cx)) } else { lower_op(&mut cx) }
        });
        let values = lowered.unwrap_or_else(|refusal| {
            self.report(frame, op, &refusal);
            placeholders(frame, &b, op)
        });
        for (id, v) in op.results.iter().zip(values) {
            frame.set(*id, v);
        }
    }
    fn report(&mut self, frame: &Frame, op: &Op, r: &Refusal) {
        let types = op.operands.iter().chain(&op.results).map(|id| frame.func.ty(*id));
        let (name, dtype) = (op_name(&op.kind), dtypes(types));
        let e = LegalizeError {
            code: r.code,
            message: format!("`{name}` ({dtype}): {}", r.why),
            op: name,
            dtype,
            hint: r.hint.into(),
            span: op.span,
            loc: op.loc.clone(),
        };
        // A function that is called twice is lowered twice.
        if !self.errors.contains(&e) {
            self.errors.push(e);
        }
    }
    /// Inlines a function: its results for these arguments.
    pub fn call(
        &mut self,
        caller: &Frame<'p, 'c>,
        b: &B<'c>,
        callee: &str,
        args: Vec<Val<'c>>,
    ) -> Result<Vec<Val<'c>>, Refusal> {
        let func = self.program.func(callee).ok_or_else(|| Refusal::op(format!("there is no function `{callee}`")))?;
        if caller.depth >= MAX_DEPTH {
            return Err(Refusal::form(format!("calls nest deeper than {MAX_DEPTH}")));
        }
        let mut frame = Frame { depth: caller.depth + 1, scalar: caller.scalar, ..Frame::new(func) };
        for (id, v) in func.body.args.iter().zip(args) {
            frame.set(*id, v);
        }
        Ok(self.block(&mut frame, b, &func.body))
    }
}

/// `dot_general` of `stablehlo.dot_general`.
fn label(name: &str) -> &str {
    name.split_once('.').map_or(name, |(_, short)| short)
}
/// Static shapes and no quantised types from here on.
fn check_types(frame: &Frame, op: &Op) -> Result<(), Refusal> {
    fn check(t: &Type) -> Result<(), Refusal> {
        match t {
            Type::Tensor(t) if t.quant.is_some() => Err(Refusal::dtype("quantised tensors are not supported")),
            Type::Tensor(t) if !t.is_static() => Err(Refusal::dynamic("a dimension is not known at build time")),
            Type::Tensor(_) | Type::Token => Ok(()),
            Type::Tuple(all) => all.iter().try_for_each(check),
            t => Err(Refusal::dtype(format!("a value of type {t:?} has no lowering"))),
        }
    }
    op.operands.iter().chain(&op.results).try_for_each(|id| check(frame.func.ty(*id)))
}
/// Whether every result is a tensor without elements, so that there is nothing to compute.
fn empty_results(cx: &Cx) -> bool {
    let empty = |id: &ValueId| matches!(cx.frame.func.ty(*id), Type::Tensor(t) if extents(t).contains(&0));
    !cx.op.results.is_empty() && cx.op.results.iter().all(empty)
}
fn empties<'c>(cx: &Cx<'_, '_, 'c>) -> Vec<Val<'c>> {
    (0..cx.op.results.len())
        .map(|i| {
            let parts = if cx.out(i).dtype.is_complex() { 2 } else { 1 };
            Val::of(&vec![zeros(&cx.b, &extents(cx.out(i)), cx.out(i).dtype); parts])
        })
        .collect()
}
/// What stands for the results of a refused op, so that the rest of the program is looked at.
fn placeholders<'c>(frame: &Frame<'_, 'c>, b: &B<'c>, op: &Op) -> Vec<Val<'c>> {
    let value = |id: &ValueId| {
        let ty = static_type(frame.func.ty(*id));
        let parts: Vec<V> = part_types(b, &ty)
            .into_iter()
            .map(|t| {
                if frame.scalar {
                    super::value::zero(b, crate::ir::elem(t))
                } else {
                    b.empty(&crate::ir::shape(t), crate::ir::elem(t))
                }
            })
            .collect();
        Val::rebuild(&ty, &mut parts.into_iter())
    };
    op.results.iter().map(value).collect()
}
fn static_type(t: &Type) -> Type {
    match t {
        Type::Tensor(t) => {
            let dims: Vec<u64> = t.dims.iter().map(|d| d.unwrap_or(1)).collect();
            Type::Tensor(TensorType::new(t.dtype, &dims))
        }
        Type::Tuple(all) => Type::Tuple(all.iter().map(static_type).collect()),
        _ => Type::Token,
    }
}

/// In scalar code only what works on single elements.
fn lower_op<'c>(cx: &mut Cx<'_, '_, 'c>) -> Result<Vec<Val<'c>>, Refusal> {
    if cx.frame.scalar {
        return lower_scalar(cx);
    }
    let b = cx.b;
    let one = match &cx.op.kind {
        OpKind::Constant(l) => super::value::literal(&b, l),
        OpKind::BitcastConvert => bitcast::lower(cx)?,
        OpKind::Iota { dim } => data::iota(cx, *dim),
        kind if elementwise::is(kind) => elementwise::lower(cx)?,
        OpKind::BroadcastInDim { dims } => shape::broadcast_in_dim(cx, dims),
        OpKind::Reshape => shape::reshape(cx),
        OpKind::Transpose { permutation } => shape::transpose(cx, permutation),
        OpKind::DotGeneral { dims, algorithm, .. } => contract::dot_general(cx, dims, algorithm.as_ref())?,
        OpKind::Slice { start, strides, .. } => shape::slice(cx, start, strides),
        OpKind::Concatenate { dim } => shape::concatenate(cx, *dim),
        OpKind::Pad { .. } => pad::lower(cx),
        OpKind::Reverse { dims } => index::reverse(cx, dims),
        OpKind::DynamicSlice { .. } => index::dynamic_slice(cx),
        OpKind::DynamicUpdateSlice => index::dynamic_update_slice(cx),
        OpKind::Gather { dims, slice_sizes, .. } => index::gather(cx, dims, slice_sizes),
        OpKind::Convolution(c) => window::convolution(cx, c)?,
        OpKind::ReduceWindow(w) => return window::reduce_window(cx, w),
        OpKind::Sort { dim, is_stable } => return special::sort(cx, *dim, *is_stable),
        OpKind::Scatter { dims, unique_indices, .. } => return special::scatter(cx, dims, *unique_indices),
        OpKind::SelectAndScatter { .. } => return special::select_and_scatter(cx),
        OpKind::Chlo(name) if name == "top_k" => return special::top_k(cx),
        OpKind::BatchNormInference { epsilon, feature_index } => {
            return Ok(batch_norm::inference(cx, *epsilon, *feature_index));
        }
        OpKind::BatchNormTraining { epsilon, feature_index } => {
            return Ok(batch_norm::training(cx, *epsilon, *feature_index));
        }
        OpKind::BatchNormGrad { epsilon, feature_index } => return Ok(batch_norm::grad(cx, *epsilon, *feature_index)),
        OpKind::RngBitGenerator { algorithm } => return rng::bit_generator(cx, algorithm),
        OpKind::Fft { kind, length } => fft::lower(cx, kind, length)?,
        OpKind::Cholesky { lower } => solve::cholesky(cx, *lower)?,
        OpKind::TriangularSolve { left_side, lower, unit_diagonal, transpose_a } => {
            solve::triangular(cx, *left_side, *lower, *unit_diagonal, transpose_a)?
        }
        OpKind::Map { .. } => elementwise::map_region(cx)?,
        OpKind::Reduce { dims } => return reduce::reduce(cx, dims),
        kind => return lower_either(cx, kind),
    };
    Ok(vec![one])
}
/// What is the same on tensors and on single elements.
fn lower_either<'c>(cx: &mut Cx<'_, '_, 'c>, kind: &OpKind) -> Result<Vec<Val<'c>>, Refusal> {
    let b = cx.b;
    match kind {
        OpKind::Call { callee } => cx.lower.call(cx.frame, &b, callee, cx.args()),
        OpKind::Composite { decomposition, .. } => cx.lower.call(cx.frame, &b, decomposition, cx.args()),
        OpKind::OptimizationBarrier => Ok(cx.args()),
        OpKind::Tuple => Ok(vec![Val::Tuple(cx.args())]),
        OpKind::GetTupleElement { index } => match cx.arg(0) {
            Val::Tuple(values) => Ok(vec![values[*index as usize].clone()]),
            _ => Err(Refusal::form("an element of what is not a tuple")),
        },
        OpKind::If => Ok(control::if_(cx)),
        OpKind::Case => Ok(control::case(cx)),
        OpKind::While => control::while_(cx),
        OpKind::Other(name) if is_between_devices(name) => Err(Refusal::devices()),
        _ => Err(Refusal::op("this op is not supported")),
    }
}
fn is_between_devices(op: &str) -> bool {
    matches!(
        op.strip_prefix("stablehlo.").unwrap_or_default(),
        "all_gather"
            | "all_reduce"
            | "all_to_all"
            | "collective_broadcast"
            | "collective_permute"
            | "collective_reduce"
            | "reduce_scatter"
    )
}
fn lower_scalar<'c>(cx: &mut Cx<'_, '_, 'c>) -> Result<Vec<Val<'c>>, Refusal> {
    let ranked = |id: &ValueId| matches!(cx.frame.func.ty(*id), Type::Tensor(t) if t.rank() > 0);
    if cx.op.operands.iter().chain(&cx.op.results).any(ranked) {
        return Err(Refusal::form("a tensor with dimensions inside the region of a reduction or the like"));
    }
    let b = cx.b;
    let one = match &cx.op.kind {
        OpKind::Constant(l) => scalar_literal(&b, l),
        kind if elementwise::is(kind) => elementwise::lower_scalar(cx)?,
        OpKind::BroadcastInDim { .. }
        | OpKind::Reshape
        | OpKind::Transpose { .. }
        | OpKind::Slice { .. }
        | OpKind::Pad { .. }
        | OpKind::Reverse { .. }
        | OpKind::DynamicSlice { .. } => cx.arg(0),
        OpKind::DynamicUpdateSlice => cx.arg(1),
        kind => return lower_either(cx, kind),
    };
    Ok(vec![one])
}
