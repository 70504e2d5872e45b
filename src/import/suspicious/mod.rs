//! Warnings: what is legal StableHLO and almost certainly not what was meant. Each points at the operand or attribute, says
//! what happens, and what to write instead. Runs on verified programs; says nothing of what it is not sure of.

mod indices;
mod loops;

use crate::{
    diag::Diagnostic,
    float,
    literal::get_int,
    print,
    tree::{BinaryOp, Block, CompareType, DType, Direction, Func, Literal, Op, OpKind, Program, Span, Type, ValueId},
    unbuild,
};
use std::collections::{HashMap, HashSet};

/// Constants that are looked into element by element have at most this many.
const FEW: usize = 4096;

/// Every warning of a program, not located: see [`crate::Diagnostics::locate`].
pub fn suspicious(program: &Program) -> Vec<Diagnostic> {
    let mut out = vec![];
    for f in program.funcs.iter().filter(|f| !f.external) {
        let mut w = Watch { f, constants: HashMap::new(), used: HashSet::new(), out: &mut out };
        w.collect(&f.body);
        w.used.extend(&f.body.results);
        if f.public {
            w.arguments();
        }
        w.block(&f.body);
    }
    out
}

struct Watch<'a> {
    f: &'a Func,
    /// Constants, and what broadcasts and reshapes of one-valued constants hold.
    constants: HashMap<ValueId, &'a Literal>,
    used: HashSet<ValueId>,
    out: &'a mut Vec<Diagnostic>,
}

impl<'a> Watch<'a> {
    fn collect(&mut self, b: &'a Block) {
        for op in &b.ops {
            self.used.extend(&op.operands);
            match &op.kind {
                OpKind::Constant(l) => {
                    self.constants.insert(op.results[0], l);
                }
                OpKind::BroadcastInDim { .. } | OpKind::Reshape => {
                    if let Some(l) = self.constants.get(&op.operands[0]).copied()
                        && uniform(l)
                    {
                        self.constants.insert(op.results[0], l);
                    }
                }
                _ => {}
            }
            for r in &op.regions {
                self.used.extend(&r.results);
                self.collect(r);
            }
        }
    }

    fn block(&mut self, b: &'a Block) {
        for op in &b.ops {
            self.op(op);
            op.regions.iter().for_each(|r| self.block(r));
        }
    }

    fn op(&mut self, op: &'a Op) {
        match &op.kind {
            OpKind::Compare { direction, ty } => self.compare(op, *direction, *ty),
            OpKind::Binary(k @ (BinaryOp::Divide | BinaryOp::Remainder)) => self.divisor(op, *k),
            OpKind::Clamp => self.clamp(op),
            OpKind::Convert => self.convert(op),
            OpKind::Reduce { .. } | OpKind::ReduceWindow(_) => self.init(op),
            OpKind::DynamicSlice { .. } | OpKind::DynamicUpdateSlice => self.starts(op),
            OpKind::Gather { dims, slice_sizes, indices_are_sorted } => {
                self.gather(op, dims, slice_sizes, *indices_are_sorted);
            }
            OpKind::Scatter { dims, indices_are_sorted, unique_indices } => {
                self.scatter(op, dims, *indices_are_sorted, *unique_indices);
            }
            OpKind::While => self.endless(op),
            OpKind::Case => self.branch(op),
            _ => {}
        }
        self.dead(op);
    }

    fn warn(&mut self, code: &'static str, span: Span, op: &Op, message: &str, label: String, hint: &str) {
        let m = format!("`{}`: {message}", unbuild::name(&op.kind));
        self.out.push(Diagnostic::warning(code, span, m).label(label).within(op.span).hint(hint));
    }
    fn at(op: &Op, i: usize) -> Span {
        op.operand_spans.get(i).copied().unwrap_or(op.span)
    }
    fn dtype(&self, v: ValueId) -> DType {
        self.f.tensor(v).dtype
    }
    /// The elements of a constant of integers.
    fn integers(&self, v: ValueId) -> Option<Vec<i128>> {
        let l = self.constants.get(&v)?;
        let d = l.ty.dtype;
        if !(d.is_int() || d == DType::I1) || l.ty.quant.is_some() {
            return None;
        }
        let n = if l.splat { l.elements().min(1) } else { l.elements() };
        (n <= FEW).then(|| (0..n).map(|i| get_int(d, l.element(i))).collect())
    }
    /// The elements of a constant of floats.
    fn floats(&self, v: ValueId) -> Option<Vec<f64>> {
        let l = self.constants.get(&v)?;
        let d = l.ty.dtype;
        if !d.is_float() || l.ty.quant.is_some() {
            return None;
        }
        let n = if l.splat { l.elements().min(1) } else { l.elements() };
        (n <= FEW).then(|| (0..n).map(|i| decode(d, l.element(i))).collect())
    }
    /// An integer constant of one value.
    fn integer(&self, v: ValueId) -> Option<i128> {
        let list = self.integers(v)?;
        list.first().copied().filter(|x| list.iter().all(|y| y == x))
    }

    fn arguments(&mut self) {
        let f = self.f;
        for (i, v) in f.body.args.iter().enumerate() {
            let value = &f.values[v.0 as usize];
            if self.used.contains(v) || matches!(value.ty, Type::Token) || value.span == Span::NONE {
                continue;
            }
            let name = value.loc.name().map_or_else(|| format!("argument {i}"), |n| format!("argument {i}, `{n}`,"));
            self.out.push(
                Diagnostic::warning("W0101", value.span, format!("{name} of `@{}` is never read", f.name))
                    .label("not read")
                    .hint("callers must still give it; drop it from the exported function (JAX: `keep_unused=False`)"),
            );
        }
    }

    fn compare(&mut self, op: &'a Op, direction: Direction, ty: CompareType) {
        let outcome = if direction == Direction::Ne { "true" } else { "false" };
        for i in 0..2 {
            let v = op.operands[i];
            if ty != CompareType::TotalOrder
                && self.floats(v).is_some_and(|l| !l.is_empty() && l.iter().all(|x| x.is_nan()))
            {
                let label = format!("NaN: the result is always {outcome}");
                self.warn(
                    "W0201",
                    Self::at(op, i),
                    op,
                    "comparison with NaN",
                    label,
                    "compare the value with itself: x != x is true for NaN alone",
                );
            }
        }
    }

    fn divisor(&mut self, op: &'a Op, k: BinaryOp) {
        if self.integers(op.operands[1]).is_some_and(|l| l.contains(&0)) {
            let gives = if k == BinaryOp::Divide { "all bits set" } else { "the dividend" };
            let label = format!("0 is among the divisors: {gives} on some devices, something else on others");
            self.warn(
                "W0202",
                Self::at(op, 1),
                op,
                "integer division by zero",
                label,
                "divide by another number, or select around the division",
            );
        }
    }

    fn clamp(&mut self, op: &'a Op) {
        let (low, high) = (op.operands[0], op.operands[2]);
        let crossed = match (self.integer(low), self.integer(high)) {
            (Some(a), Some(b)) => a > b,
            _ => match (self.floats(low).as_deref(), self.floats(high).as_deref()) {
                (Some([a]), Some([b])) => a > b,
                _ => false,
            },
        };
        if crossed {
            self.warn(
                "W0203",
                Self::at(op, 0),
                op,
                "the lower bound is above the upper one",
                "every element becomes the upper bound".into(),
                "are min and max swapped?",
            );
        }
    }

    fn convert(&mut self, op: &'a Op) {
        let (from, to) = (self.dtype(op.operands[0]), self.dtype(op.results[0]));
        if !to.is_int() || self.f.tensor(op.results[0]).quant.is_some() {
            return;
        }
        let (low, high) = crate::text::full_range(to);
        let (low, high) = match to {
            DType::U64 => (0, i128::from(u64::MAX)),
            _ => (i128::from(low), i128::from(high)),
        };
        let lost = if from.is_float() {
            let list = self.floats(op.operands[0]).unwrap_or_default();
            list.into_iter().find(|x| !(*x > low as f64 - 1.0 && *x < high as f64 + 1.0)).map(|x| x.to_string())
        } else {
            let list = self.integers(op.operands[0]).unwrap_or_default();
            list.into_iter().find(|x| *x < low || *x > high).map(|x| x.to_string())
        };
        if let Some(x) = lost {
            let label = format!("{x} is not a value of {to}");
            self.warn(
                "W0204",
                Self::at(op, 0),
                op,
                "a constant does not survive the conversion",
                label,
                "write the constant in the type that it is used in",
            );
        }
    }

    /// A reduction may use its init value any number of times: it must change nothing.
    fn init(&mut self, op: &'a Op) {
        let n = op.operands.len() / 2;
        let Some(region) = op.regions.first() else { return };
        let [body] = &region.ops[..] else { return };
        let OpKind::Binary(k) = body.kind else { return };
        if n != 1 || region.results != body.results || !region.args.iter().all(|a| body.operands.contains(a)) {
            return;
        }
        let v = op.operands[1];
        let d = self.dtype(v);
        let (changes, neutral) = if let Some([x]) = self.floats(v).as_deref() {
            let lowest = -float_max(d);
            match k {
                BinaryOp::Add => (*x != 0.0, "0"),
                BinaryOp::Multiply => (*x != 1.0, "1"),
                BinaryOp::Maximum => (*x > lowest, "-inf"),
                BinaryOp::Minimum => (*x < -lowest, "inf"),
                _ => return,
            }
        } else if let Some([x]) = self.integers(v).as_deref() {
            let ones = if d.is_signed_int() { -1 } else { (1i128 << d.bits()) - 1 };
            let (low, high) =
                if d.is_signed_int() { (-(1i128 << (d.bits() - 1)), (1i128 << (d.bits() - 1)) - 1) } else { (0, ones) };
            match k {
                BinaryOp::Add if d != DType::I1 => (*x != 0, "0"),
                BinaryOp::Or | BinaryOp::Xor | BinaryOp::Add => (*x != 0, "0"),
                BinaryOp::Multiply => (*x != 1, "1"),
                BinaryOp::And => (*x != ones, "all bits set"),
                BinaryOp::Maximum => (*x != low, "the type's lowest value"),
                BinaryOp::Minimum => (*x != high, "the type's highest value"),
                _ => return,
            }
        } else {
            return;
        };
        if changes {
            let name = unbuild::name(&body.kind);
            let label = format!("{neutral} changes nothing under `{name}`");
            self.warn(
                "W0205",
                Self::at(op, 1),
                op,
                "the init value changes the result",
                label,
                "devices may apply it more than once: reduce with the neutral value and combine afterwards",
            );
        }
    }

    /// Work whose result nothing reads. Not reductions: differentiated programs have them for values that only the
    /// gradient was wanted of.
    fn dead(&mut self, op: &'a Op) {
        let costs = matches!(
            op.kind,
            OpKind::DotGeneral { .. }
                | OpKind::Convolution(_)
                | OpKind::Sort { .. }
                | OpKind::Scatter { .. }
                | OpKind::Fft { .. }
                | OpKind::Cholesky { .. }
                | OpKind::TriangularSolve { .. }
        );
        if costs && op.results.iter().all(|r| !self.used.contains(r)) {
            let ty = print::ty(self.f.ty(op.results[0]));
            self.warn(
                "W0301",
                op.span,
                op,
                "nothing reads the result",
                format!("{ty} is dropped"),
                "return it, or leave the op out",
            );
        }
    }
}

fn uniform(l: &Literal) -> bool {
    l.splat || l.elements() == 1
}
fn decode(d: DType, bytes: &[u8]) -> f64 {
    let mut raw = [0; 8];
    raw[..bytes.len()].copy_from_slice(bytes);
    float::decode(d, u64::from_le_bytes(raw))
}
/// The largest finite value; small types that have none to speak of give theirs too.
fn float_max(d: DType) -> f64 {
    match d {
        DType::F16 => 65504.0,
        DType::BF16 => 3.3895313892515355e38,
        DType::F32 => f64::from(f32::MAX),
        DType::F64 => f64::MAX,
        _ => 0.0,
    }
}
