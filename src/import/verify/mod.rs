//! The verifier: the constraints of the StableHLO specification, each with its tag, and the types that follow from the
//! operands. All errors of a program are found in one run; each points at the operand or attribute at fault.
//!
//! What it guarantees of a program without errors, and later stages rely on: types of operands and results agree with
//! their op, dimension numbers are in range, regions have the signatures of their ops, callees exist and fit.

mod chlo;
mod collective;
mod contract;
mod control;
mod dynamic;
mod elementwise;
mod index;
mod quant;
mod region;
mod shape;
mod window;

use crate::{
    diag::Diagnostic,
    print,
    tree::{Attr, Block, DType, Func, Literal, Op, OpKind, Program, Span, TensorType, Type, ValueId},
    unbuild,
};
use std::collections::HashMap;

/// Everything wrong with a program, in no particular order, not located: see [`crate::Diagnostics::locate`].
pub fn verify(program: &Program) -> Vec<Diagnostic> {
    let mut out = vec![];
    program.funcs.iter().filter(|f| !f.external).for_each(|f| signature(f, &mut out));
    bodies(program, None, &mut out);
    out
}

/// What else is wrong with what was read of a file with errors. Values of unknown types, and functions that are `unsure`,
/// agree with anything.
pub(crate) fn verify_rest(program: &Program, unsure: &dyn Fn(&str) -> bool) -> Vec<Diagnostic> {
    let mut out = vec![];
    bodies(program, Some(unsure), &mut out);
    out
}

fn bodies(program: &Program, unsure: Option<&dyn Fn(&str) -> bool>, out: &mut Vec<Diagnostic>) {
    let funcs: HashMap<&str, &Func> = program.funcs.iter().map(|f| (f.name.as_str(), f)).collect();
    for f in program.funcs.iter().filter(|f| !f.external) {
        sizes(f, out);
        let mut known = HashMap::new();
        constants(&f.body, &mut known);
        block(&Known { funcs: &funcs, constants: &known, unsure }, f, &f.body, out);
    }
    control::recursion(program, out);
}

/// Whether the types of an op, and of what its regions take and give, were read.
fn is_typed(f: &Func, op: &Op) -> bool {
    let regions = op.regions.iter().flat_map(|r| r.args.iter().chain(&r.results));
    !op.operands.iter().chain(&op.results).chain(regions).any(|v| f.ty(*v).is_unknown())
}

/// What a list of another length gets as its label.
fn expected_numbers(n: usize) -> String {
    format!("expected {n} number{}", if n == 1 { "" } else { "s" })
}

fn signature(f: &Func, out: &mut Vec<Diagnostic>) {
    let found: Vec<&Type> = f.body.results.iter().map(|v| f.ty(*v)).collect();
    if !f.result_types.iter().eq(found.iter().copied()) {
        out.push(
            Diagnostic::error("E0202", f.body.span, format!("`@{}` does not return what its type says", f.name))
                .label("values of other types"),
        );
    }
}

/// Every stage counts bytes in 63 bits.
fn sizes(f: &Func, out: &mut Vec<Diagnostic>) {
    for v in &f.values {
        let Type::Tensor(t) = &v.ty else { continue };
        let bytes =
            t.dims.iter().flatten().try_fold(t.dtype.bytes() as i64, |n, d| n.checked_mul(i64::try_from(*d).ok()?));
        if bytes.is_none() && !t.dims.contains(&Some(0)) {
            let d = Diagnostic::error("E0104", v.span, format!("`%{}` has more than 2^63 bytes", v.name));
            out.push(
                d.label(format!("this is {}", print::tensor(t))).hint("no device holds that; are its sizes right?"),
            );
        }
    }
}

/// Constants of at most a few elements, as shapes are.
fn constants<'a>(b: &'a Block, known: &mut HashMap<ValueId, &'a Literal>) {
    for op in &b.ops {
        if let OpKind::Constant(l) = &op.kind
            && l.elements() <= 64
        {
            known.insert(op.results[0], l);
        }
        op.regions.iter().for_each(|r| constants(r, known));
    }
}

/// What surrounds an op.
struct Known<'a> {
    funcs: &'a HashMap<&'a str, &'a Func>,
    constants: &'a HashMap<ValueId, &'a Literal>,
    /// Of a file with errors: functions that agree with any call.
    unsure: Option<&'a dyn Fn(&str) -> bool>,
}

fn block(known: &Known, f: &Func, b: &Block, out: &mut Vec<Diagnostic>) {
    for op in &b.ops {
        if known.unsure.is_none() || is_typed(f, op) {
            V { known, f, op, out }.op();
        }
        for r in &op.regions {
            block(known, f, r, out);
        }
    }
}

/// An op being verified.
struct V<'a> {
    known: &'a Known<'a>,
    f: &'a Func,
    op: &'a Op,
    out: &'a mut Vec<Diagnostic>,
}

type Dims = Vec<Option<u64>>;

impl<'a> V<'a> {
    fn op(&mut self) {
        let tensors = self.op.operands.iter().chain(&self.op.results);
        let all_tensors = tensors.clone().all(|v| matches!(self.f.ty(*v), Type::Tensor(_)));
        for v in tensors {
            if let Type::Tensor(t) = self.f.ty(*v) {
                self.quant_type(t);
            }
        }
        self.result_accuracy();
        match &self.op.kind {
            OpKind::Other(_) => return self.collective(),
            OpKind::While
            | OpKind::If
            | OpKind::Case
            | OpKind::Call { .. }
            | OpKind::Composite { .. }
            | OpKind::CustomCall { .. }
            | OpKind::Tuple
            | OpKind::GetTupleElement { .. }
            | OpKind::OptimizationBarrier => return self.control(),
            _ => {}
        }
        if !all_tensors {
            let bad = self.op.operands.iter().position(|v| !matches!(self.f.ty(*v), Type::Tensor(_)));
            let span = bad.map_or(self.here(), |i| self.at(i));
            return self.fail(span, "", "operands and results must be tensors", "expected a tensor");
        }
        self.per_axis();
        match &self.op.kind {
            OpKind::Unary(k) => self.unary(*k),
            OpKind::Binary(k) => self.binary(*k),
            OpKind::Compare { ty, .. } => self.compare(*ty),
            OpKind::Select => self.select(),
            OpKind::Clamp => self.clamp(),
            OpKind::Convert => self.convert(),
            OpKind::BitcastConvert => self.bitcast(),
            OpKind::ReducePrecision { exponent_bits, mantissa_bits } => {
                self.reduce_precision(*exponent_bits, *mantissa_bits);
            }
            OpKind::Constant(_) => {}
            OpKind::Iota { dim } => self.iota(*dim),
            OpKind::BroadcastInDim { dims } => self.broadcast(dims, false),
            OpKind::Reshape => self.reshape(),
            OpKind::Transpose { permutation } => self.transpose(permutation),
            OpKind::Slice { start, limit, strides } => self.slice(start, limit, strides),
            OpKind::Concatenate { dim } => self.concatenate(*dim),
            OpKind::Pad { low, high, interior } => self.pad(low, high, interior),
            OpKind::Reverse { dims } => self.reverse(dims),
            OpKind::DynamicSlice { sizes } => self.dynamic_slice(sizes),
            OpKind::DynamicUpdateSlice => self.dynamic_update_slice(),
            OpKind::Gather { dims, slice_sizes, .. } => self.gather(dims, Some(slice_sizes)),
            OpKind::DynamicGather { dims, .. } => self.gather(dims, None),
            OpKind::Scatter { dims, .. } => self.scatter(dims),
            OpKind::DotGeneral { dims, precision, algorithm } => self.dot_general(dims, precision, algorithm.as_ref()),
            OpKind::Convolution(c) | OpKind::DynamicConv(c) => self.convolution(c),
            OpKind::Reduce { dims } => self.reduce(dims),
            OpKind::ReduceWindow(w) => self.reduce_window(w),
            OpKind::SelectAndScatter { window_dimensions, window_strides, padding } => {
                self.select_and_scatter(window_dimensions, window_strides, padding);
            }
            OpKind::Map { dims } => self.map(dims),
            OpKind::Sort { dim, .. } => self.sort(*dim),
            OpKind::Cholesky { .. } => self.cholesky(),
            OpKind::TriangularSolve { left_side, .. } => self.triangular_solve(*left_side),
            OpKind::Fft { kind, length } => self.fft(kind, length),
            OpKind::RngBitGenerator { algorithm } => self.rng_bit_generator(algorithm),
            OpKind::Rng { distribution } => self.rng(distribution),
            OpKind::BatchNormInference { feature_index, .. } => self.batch_norm(*feature_index, &[1, 2, 3, 4], &[]),
            OpKind::BatchNormTraining { feature_index, .. } => self.batch_norm(*feature_index, &[1, 2], &[1, 2]),
            OpKind::BatchNormGrad { feature_index, .. } => self.batch_norm(*feature_index, &[1, 2, 3], &[1, 2]),
            OpKind::DynamicReshape => self.dynamic_reshape(),
            OpKind::DynamicIota { dim } => self.dynamic_iota(*dim),
            OpKind::DynamicBroadcastInDim { dims } => self.broadcast(dims, true),
            OpKind::RealDynamicSlice => self.real_dynamic_slice(),
            OpKind::DynamicPad => self.dynamic_pad(),
            OpKind::GetDimensionSize { dim } => self.get_dimension_size(*dim),
            OpKind::SetDimensionSize { dim } => self.set_dimension_size(*dim),
            OpKind::UniformQuantize => self.uniform_quantize(),
            OpKind::UniformDequantize => self.uniform_dequantize(),
            OpKind::Chlo(name) => self.chlo(name),
            _ => {}
        }
    }

    /// The values of operand `i`, if it is a constant of integers.
    fn constant(&self, i: usize) -> Option<Vec<i64>> {
        self.known.constants.get(self.op.operands.get(i)?)?.to_i64s()
    }
    /// Tolerances stand beside the mode that they are for.
    fn result_accuracy(&mut self) {
        let Some(Attr::Struct(_, _, fields)) = self.op.attr("result_accuracy") else { return };
        let tolerance = fields.iter().any(|(n, a)| n == "mode" && matches!(a, Attr::Enum(_, _, w) if w == "TOLERANCE"));
        let span = self.attr_at("result_accuracy");
        let negative = fields
            .iter()
            .any(|(_, a)| matches!(a, Attr::Float(v, _) if *v < 0.0) || matches!(a, Attr::Int(v, _) if *v < 0));
        self.need(
            tolerance || fields.len() <= 1,
            span,
            "",
            "tolerances with a result accuracy mode that has none",
            "expected mode TOLERANCE",
        );
        self.need(!negative, span, "", "a negative tolerance", "expected numbers from 0");
    }
    /// Per-axis quantization is for the ops that say so.
    fn per_axis(&mut self) {
        let allowed = matches!(
            self.op.kind,
            OpKind::Constant(_)
                | OpKind::Binary(crate::tree::BinaryOp::Add)
                | OpKind::BitcastConvert
                | OpKind::BroadcastInDim { .. }
                | OpKind::DynamicBroadcastInDim { .. }
                | OpKind::DynamicReshape
                | OpKind::GetDimensionSize { .. }
                | OpKind::Reshape
                | OpKind::Transpose { .. }
                | OpKind::UniformQuantize
                | OpKind::UniformDequantize
        );
        let right = matches!(self.op.kind, OpKind::DotGeneral { .. } | OpKind::Convolution(_) | OpKind::DynamicConv(_));
        if allowed {
            return;
        }
        for (i, v) in self.op.operands.iter().enumerate() {
            if let Type::Tensor(t) = self.f.ty(*v)
                && t.quant.as_ref().is_some_and(|q| q.axis.is_some())
                && !(right && i == 1)
            {
                let span = self.at(i);
                return self.fail(
                    span,
                    &format!("I{}", i + 1),
                    format!("operand {}", print::tensor(t)),
                    "expected quantization per tensor",
                );
            }
        }
    }

    fn name(&self) -> String {
        unbuild::name(&self.op.kind)
    }
    /// Operand `i`, a tensor.
    fn x(&self, i: usize) -> &'a TensorType {
        self.f.tensor(self.op.operands[i])
    }
    /// Result `i`, a tensor.
    fn r(&self, i: usize) -> &'a TensorType {
        self.f.tensor(self.op.results[i])
    }
    fn inputs(&self) -> Vec<&'a TensorType> {
        self.op.operands.iter().map(|v| self.f.tensor(*v)).collect()
    }
    fn types(&self, list: &[ValueId]) -> Vec<&'a Type> {
        list.iter().map(|v| self.f.ty(*v)).collect()
    }

    /// Where the op stands.
    fn here(&self) -> Span {
        self.op.span
    }
    /// Where operand `i` stands.
    fn at(&self, i: usize) -> Span {
        self.op.operand_spans.get(i).copied().unwrap_or(self.op.span)
    }
    /// Where an attribute's value stands.
    fn attr_at(&self, name: &str) -> Span {
        self.op.attr_spans.iter().find(|(n, _)| n == name).map_or(self.op.span, |(_, s)| *s)
    }

    fn fail(&mut self, span: Span, tag: &str, message: impl AsRef<str>, label: impl Into<String>) {
        let tag = if tag.is_empty() { String::new() } else { format!(" ({tag})") };
        let m = format!("`{}`{tag}: {}", self.name(), message.as_ref());
        let d = Diagnostic::error("E0401", span, m).label(label).within(self.op.span);
        self.out.push(d.hint(see(&self.name())));
    }
    /// Says better what to do about the last finding.
    fn hint(&mut self, hint: impl Into<String>) {
        if let Some(d) = self.out.last_mut() {
            d.hint = Some(hint.into());
        }
    }
    /// Reports if `ok` is false; returns it.
    fn need(&mut self, ok: bool, span: Span, tag: &str, message: impl AsRef<str>, label: impl Into<String>) -> bool {
        if !ok {
            self.fail(span, tag, message, label);
        }
        ok
    }
    /// The result's type must be of this shape.
    fn result_shape(&mut self, i: usize, tag: &str, want: &Dims) {
        let r = self.r(i);
        if !compatible(&r.dims, want) {
            let expected = print::tensor(&TensorType { dims: want.clone(), bounds: vec![], ..r.clone() });
            let m = format!(
                "`{}` ({tag}): result {} has another shape than follows from the operands",
                self.name(),
                print::tensor(r)
            );
            let d = Diagnostic::error("E0402", self.here(), m).label(format!("expected {expected}"));
            self.out.push(d.hint(see(&self.name())));
        }
    }
    /// The result must be of this element type, quantization parameters aside.
    fn result_element(&mut self, i: usize, tag: &str, want: &TensorType) {
        let r = self.r(i);
        if !same_element(r, want) {
            let m = format!("`{}` ({tag}): result of element type {} for {}", self.name(), element(r), element(want));
            let d = Diagnostic::error("E0402", self.here(), m).label(format!("expected {}", element(want)));
            self.out.push(d.hint("convert it with `stablehlo.convert`, or make the types equal"));
        }
    }
    /// Both of the above.
    fn result_like(&mut self, i: usize, tag: &str, want: &TensorType) {
        self.result_element(i, tag, want);
        self.result_shape(i, tag, &want.dims);
    }
    /// Dimension numbers in `0..rank`, each once.
    fn dims_in(&mut self, list: &[u64], rank: usize, attr: &str, tags: (&str, &str)) -> bool {
        let span = self.attr_at(attr);
        let in_range = list.iter().all(|d| *d < rank as u64);
        let a = self.need(
            in_range,
            span,
            tags.0,
            format!("{attr} = {list:?} for rank {rank}"),
            format!("expected numbers below {rank}"),
        );
        let b = self.need(
            unique(list),
            span,
            tags.1,
            format!("{attr} = {list:?} repeats a dimension"),
            "expected each once",
        );
        a && b
    }
}

/// Where the rules of an op stand.
pub(crate) fn see(op: &str) -> String {
    match op.split_once('.') {
        Some(("stablehlo", name)) => format!("its rules: https://openxla.org/stablehlo/spec#{name}"),
        Some(("chlo", _)) => "its rules: https://openxla.org/stablehlo/generated/chlo".into(),
        Some(("func", _)) => "a call repeats the types of the function's signature".into(),
        _ => "the ops are listed at https://openxla.org/stablehlo/spec".into(),
    }
}

fn unique(list: &[u64]) -> bool {
    let mut s = list.to_vec();
    s.sort_unstable();
    s.windows(2).all(|w| w[0] != w[1])
}
fn ascending(list: &[u64]) -> bool {
    list.windows(2).all(|w| w[0] <= w[1])
}
/// Equal, where a dynamic dimension may be any size.
fn compatible(a: &Dims, b: &Dims) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| agrees(*x, *y))
}
fn agrees(a: Option<u64>, b: Option<u64>) -> bool {
    match (a, b) {
        (Some(x), Some(y)) => x == y,
        _ => true,
    }
}
/// Equal element types, whatever the quantization's scales.
fn same_element(a: &TensorType, b: &TensorType) -> bool {
    match (&a.quant, &b.quant) {
        (None, None) => a.dtype == b.dtype,
        (Some(p), Some(q)) => a.dtype == b.dtype && p.expressed == q.expressed,
        _ => false,
    }
}
/// The element type as the program writes it.
fn element(t: &TensorType) -> String {
    let s = print::tensor(&TensorType { dims: vec![], bounds: vec![], ..t.clone() });
    s.trim_start_matches("tensor<").trim_end_matches('>').to_string()
}
/// Whether a reduction may compute in `to` for elements of `from`: the same kind, and no narrower.
fn promotable(from: &TensorType, to: &TensorType) -> bool {
    match (&from.quant, &to.quant) {
        (None, None) => {}
        (Some(p), Some(q)) => return p.expressed == q.expressed && from.dtype.bits() <= to.dtype.bits(),
        _ => return false,
    }
    let kind = |d: DType| (d == DType::I1, d.is_signed_int(), d.is_unsigned_int(), d.is_float(), d.is_complex());
    kind(from.dtype) == kind(to.dtype) && from.dtype.bits() <= to.dtype.bits()
}
