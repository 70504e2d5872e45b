//! Spells out what later stages do not know, on static programs: quantized arithmetic as floats with explicit scales, as the
//! specification's section "Quantization computations" says, chlo's broadcasting ops, and `rng`.

mod random;

use crate::{
    build::ints_of,
    diag::Diagnostic,
    literal::put_float,
    raw::BINARY,
    text::full_range,
    tree::{
        Attr, BinaryOp, Block, CompareType, DType, Direction, Func, Literal, Loc, Op, OpKind, Program, Quant, Span,
        TensorType, Type, UnaryOp, Value, ValueId,
    },
    unbuild,
};

/// Rewrites every function. Afterwards no type is quantized. Fails on regions over quantized elements.
pub(crate) fn spell_out(p: &mut Program) -> Vec<Diagnostic> {
    let mut errors = vec![];
    let mut random = 0;
    for f in &mut p.funcs {
        let mut body = std::mem::take(&mut f.body);
        let mut s = Spell { f, all: true, errors: &mut errors, random };
        s.block(&mut body);
        random = s.random;
        f.body = body;
        for v in &mut f.values {
            plain(&mut v.ty);
        }
        f.result_types.iter_mut().for_each(plain);
    }
    errors
}

/// Rewrites chlo's broadcasting ops alone, those of static shapes.
pub(crate) fn spell_out_broadcasts(p: &mut Program) {
    for f in &mut p.funcs {
        let mut body = std::mem::take(&mut f.body);
        Spell { f, all: false, errors: &mut vec![], random: 0 }.block(&mut body);
        f.body = body;
    }
}

/// The type in storage.
fn plain(t: &mut Type) {
    match t {
        Type::Tensor(t) => t.quant = None,
        Type::Tuple(parts) => parts.iter_mut().for_each(plain),
        _ => {}
    }
}

struct Spell<'a> {
    f: &'a mut Func,
    /// Whether everything is spelled out, or chlo's broadcasting ops alone.
    all: bool,
    errors: &'a mut Vec<Diagnostic>,
    /// `rng` ops so far.
    random: u64,
}

/// Ops before and after the one that is spelled out, and where that stands.
struct Out<'a> {
    ops: &'a mut Vec<Op>,
    loc: Loc,
    span: Span,
}

impl Spell<'_> {
    fn block(&mut self, b: &mut Block) {
        let mut out = Vec::with_capacity(b.ops.len());
        for mut op in std::mem::take(&mut b.ops) {
            for r in &mut op.regions {
                self.block(r);
            }
            self.op(op, &mut out);
        }
        b.ops = out;
    }

    fn quant(&self, v: ValueId) -> Option<std::sync::Arc<Quant>> {
        match self.f.ty(v) {
            Type::Tensor(t) => t.quant.clone(),
            _ => None,
        }
    }
    fn value(&mut self, ty: TensorType, loc: &Loc) -> ValueId {
        self.f.values.push(Value { ty: Type::Tensor(ty), name: String::new(), loc: loc.clone(), span: Span::NONE });
        ValueId(self.f.values.len() as u32 - 1)
    }
    fn emit(&mut self, out: &mut Out, kind: OpKind, operands: Vec<ValueId>, ty: TensorType) -> ValueId {
        let v = self.value(ty, &out.loc);
        out.ops.push(Op { loc: out.loc.clone(), span: out.span, ..Op::new(kind, operands, vec![v]) });
        v
    }
    /// One number for each element, or for each index along the quantized dimension.
    fn constant(&mut self, out: &mut Out, q: &Quant, ty: &TensorType, numbers: impl Iterator<Item = f64>) -> ValueId {
        let mut data = vec![];
        numbers.for_each(|x| put_float(ty.dtype, x, &mut data));
        match q.axis {
            None => self.emit(out, OpKind::Constant(Literal::new(ty.clone(), data)), vec![], ty.clone()),
            Some(axis) => {
                let row = TensorType { dims: vec![ty.dims[axis as usize]], ..ty.clone() };
                let c = self.emit(out, OpKind::Constant(Literal::new(row.clone(), data)), vec![], row);
                self.emit(out, OpKind::BroadcastInDim { dims: vec![u64::from(axis)] }, vec![c], ty.clone())
            }
        }
    }

    /// `(stored - zero_point) * scale`
    fn dequantize(&mut self, out: &mut Out, v: ValueId, q: &Quant) -> ValueId {
        let ty = TensorType { dtype: q.expressed, quant: None, ..self.f.tensor(v).clone() };
        let x = self.emit(out, OpKind::Convert, vec![v], ty.clone());
        let z = self.constant(out, q, &ty, q.zero_points.iter().map(|z| *z as f64));
        let s = self.constant(out, q, &ty, q.scales.iter().map(|s| f64::from_bits(*s)));
        let d = self.emit(out, OpKind::Binary(BinaryOp::Subtract), vec![x, z], ty.clone());
        self.emit(out, OpKind::Binary(BinaryOp::Multiply), vec![d, s], ty)
    }

    /// `clamp(round_nearest_even(x / scale) + zero_point)`, stored in `result`.
    fn quantize(&mut self, out: &mut Out, x: ValueId, q: &Quant, result: ValueId) {
        let stored = self.f.tensor(result).dtype;
        let ty = self.f.tensor(x).clone();
        let s = self.constant(out, q, &ty, q.scales.iter().map(|s| f64::from_bits(*s)));
        let z = self.constant(out, q, &ty, q.zero_points.iter().map(|z| *z as f64));
        let (low, high) = q.range.unwrap_or_else(|| full_range(stored));
        let scalar = TensorType::new(ty.dtype, &[]);
        let bound = |x: i64| {
            let mut data = vec![];
            put_float(ty.dtype, x as f64, &mut data);
            OpKind::Constant(Literal::new(scalar.clone(), data))
        };
        let a = self.emit(out, OpKind::Binary(BinaryOp::Divide), vec![x, s], ty.clone());
        let b = self.emit(out, OpKind::Unary(UnaryOp::RoundNearestEven), vec![a], ty.clone());
        let c = self.emit(out, OpKind::Binary(BinaryOp::Add), vec![b, z], ty.clone());
        let low = self.emit(out, bound(low), vec![], scalar.clone());
        let high = self.emit(out, bound(high), vec![], scalar.clone());
        let d = self.emit(out, OpKind::Clamp, vec![low, c, high], ty.clone());
        out.ops.push(Op { loc: out.loc.clone(), span: out.span, ..Op::new(OpKind::Convert, vec![d], vec![result]) });
    }

    fn op(&mut self, mut op: Op, ops: &mut Vec<Op>) {
        let touched = op.operands.iter().chain(&op.results).any(|v| self.quant(*v).is_some());
        if let OpKind::Constant(l) = &mut op.kind
            && self.all
        {
            l.ty.quant = None;
        }
        if let OpKind::Rng { distribution } = &op.kind
            && self.all
        {
            let normal = distribution == "NORMAL";
            return self.rng(normal, &op, ops);
        }
        if let OpKind::Chlo(name) = &op.kind
            && !touched
        {
            let name = name.clone();
            return self.chlo(&name, op, ops);
        }
        if !self.all {
            return ops.push(op);
        }
        let moves_types_only = matches!(
            op.kind,
            OpKind::Constant(_)
                | OpKind::BitcastConvert
                | OpKind::While
                | OpKind::If
                | OpKind::Case
                | OpKind::Call { .. }
                | OpKind::Tuple
                | OpKind::GetTupleElement { .. }
                | OpKind::OptimizationBarrier
        );
        if !touched || moves_types_only {
            ops.push(op);
            return;
        }
        if !op.regions.is_empty()
            || matches!(op.kind, OpKind::Other(_) | OpKind::CustomCall { .. } | OpKind::Composite { .. })
        {
            let m = format!("`{}` over quantized elements cannot be compiled", unbuild::name(&op.kind));
            let d = Diagnostic::error("E0602", op.span, m).label("quantized");
            self.errors.push(d.hint("dequantize before it and quantize after it"));
            ops.push(op);
            return;
        }
        let mut out = Out { ops, loc: op.loc.clone(), span: op.span };
        for v in &mut op.operands {
            if let Some(q) = self.quant(*v) {
                *v = self.dequantize(&mut out, *v, &q);
            }
        }
        let only = matches!(op.kind, OpKind::UniformQuantize | OpKind::UniformDequantize);
        let wanted: Vec<_> = op.results.iter().map(|r| (*r, self.quant(*r))).collect();
        if only {
            let (result, q) = wanted[0].clone();
            match q {
                Some(q) => self.quantize(&mut out, op.operands[0], &q, result),
                // The product is the result; a conversion to its own type gives it its name.
                None => out.ops.push(Op { kind: OpKind::Convert, ..op }),
            }
            return;
        }
        for (r, (_, q)) in op.results.iter_mut().zip(&wanted) {
            if let Some(q) = q {
                let ty = TensorType { dtype: q.expressed, quant: None, ..self.f.tensor(*r).clone() };
                *r = self.value(ty, &out.loc);
            }
        }
        let computed = op.results.clone();
        op.operand_spans.clear();
        out.ops.push(op);
        for (x, (result, q)) in computed.into_iter().zip(wanted) {
            if let Some(q) = q {
                self.quantize(&mut out, x, &q, result);
            }
        }
    }

    /// chlo's ops that broadcast like numpy, and constants of another value's shape.
    fn chlo(&mut self, name: &str, mut op: Op, ops: &mut Vec<Op>) {
        let Some(shape) = self.f.tensor(op.results[0]).shape() else { return ops.push(op) };
        if name == "constant_like" {
            let ty = self.f.tensor(op.results[0]).clone();
            let mut data = vec![];
            match op.attr("value") {
                Some(Attr::Float(v, _)) if ty.dtype.is_float() => put_float(ty.dtype, *v, &mut data),
                Some(Attr::Int(v, _)) if ty.dtype.is_int() => crate::literal::put_int(ty.dtype, *v, &mut data),
                _ => return ops.push(op),
            }
            op.kind = OpKind::Constant(Literal::new(ty, data));
            op.operands.clear();
            op.extra.clear();
            return ops.push(op);
        }
        let Some(base) = name.strip_prefix("broadcast_") else { return ops.push(op) };
        let kind = match base {
            "select" => OpKind::Select,
            "compare" => compare(&op),
            _ => match BINARY.iter().find(|b| b.1 == base) {
                Some((k, _)) => OpKind::Binary(*k),
                None => OpKind::Chlo(base.into()),
            },
        };
        let mut out = Out { ops, loc: op.loc.clone(), span: op.span };
        let rank = shape.len();
        let placed = op.attr("broadcast_dimensions").and_then(ints_of);
        for v in &mut op.operands {
            let t = self.f.tensor(*v).clone();
            let n = t.rank();
            let dims = match &placed {
                Some(d) if d.len() == n && n < rank => d.iter().map(|d| *d as u64).collect(),
                _ => ((rank - n) as u64..rank as u64).collect(),
            };
            let ty = TensorType::new(t.dtype, &shape);
            if t != ty {
                *v = self.emit(&mut out, OpKind::BroadcastInDim { dims }, vec![*v], ty);
            }
        }
        op.kind = kind;
        op.operand_spans.clear();
        op.extra
            .retain(|(n, _)| !matches!(n.as_str(), "broadcast_dimensions" | "comparison_direction" | "compare_type"));
        out.ops.push(op);
    }
}

fn compare(op: &Op) -> OpKind {
    let word = |n: &str| match op.attr(n) {
        Some(Attr::Enum(_, _, w)) => w.as_str(),
        _ => "",
    };
    let direction = match word("comparison_direction") {
        "NE" => Direction::Ne,
        "GE" => Direction::Ge,
        "GT" => Direction::Gt,
        "LE" => Direction::Le,
        "LT" => Direction::Lt,
        _ => Direction::Eq,
    };
    let ty = match word("compare_type") {
        "TOTALORDER" => CompareType::TotalOrder,
        _ => CompareType::Default,
    };
    OpKind::Compare { direction, ty }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Source,
        interp::{Tensor, eval},
        read, verify,
    };

    fn both(text: &str, args: &[Tensor]) {
        let p = read(Source::new("t.mlir", text)).unwrap_or_else(|e| panic!("{e}"));
        let mut q = p.clone();
        assert!(spell_out(&mut q).is_empty());
        assert!(verify(&q).is_empty(), "{:?}\n{}", verify(&q), crate::print(&q));
        assert!(!crate::print(&q).contains("quant"));
        assert_eq!(eval(&p, "main", args.to_vec()).unwrap(), eval(&q, "main", args.to_vec()).unwrap());
    }

    #[test]
    fn quantized_arithmetic_is_what_the_interpreter_computes() {
        let x =
            Tensor::new(DType::F32, &[2, 2], [0.1f32, -3.0, 2.24, 9.0].iter().flat_map(|v| v.to_le_bytes()).collect())
                .unwrap();
        both(
            "func.func @main(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xi8>) {
               %a = stablehlo.uniform_quantize %x : (tensor<2x2xf32>) -> tensor<2x2x!quant.uniform<i8:f32, 5.0e-2:-3>>
               %w = stablehlo.constant dense<[[3, -4], [50, 6]]> : tensor<2x2xi8>
               %q = stablehlo.bitcast_convert %w : (tensor<2x2xi8>) -> tensor<2x2x!quant.uniform<i8<-127:127>:f32:1, {0.1, 0.2}>>
               %d = stablehlo.dot_general %a, %q, contracting_dims = [1] x [0] : (tensor<2x2x!quant.uniform<i8:f32, 5.0e-2:-3>>, tensor<2x2x!quant.uniform<i8<-127:127>:f32:1, {0.1, 0.2}>>) -> tensor<2x2x!quant.uniform<i8:f32, 0.5>>
               %s = stablehlo.add %a, %a : tensor<2x2x!quant.uniform<i8:f32, 5.0e-2:-3>>
               %b = stablehlo.bitcast_convert %s : (tensor<2x2x!quant.uniform<i8:f32, 5.0e-2:-3>>) -> tensor<2x2xi8>
               %r = stablehlo.uniform_dequantize %d : (tensor<2x2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x2xf32>
               return %r, %b : tensor<2x2xf32>, tensor<2x2xi8>
             }",
            &[x],
        );
    }

    #[test]
    fn broadcasting_ops_of_chlo() {
        let x = Tensor::new(DType::F32, &[2], [1.5f32, -2.0].iter().flat_map(|v| v.to_le_bytes()).collect()).unwrap();
        both(
            "func.func @main(%x: tensor<2xf32>) -> (tensor<3x2xf32>, tensor<2xi1>) {
               %c = stablehlo.constant dense<[[1.0], [2.0], [3.0]]> : tensor<3x1xf32>
               %l = \"chlo.constant_like\"(%x) {value = 0.5 : f32} : (tensor<2xf32>) -> tensor<2xf32>
               %a = chlo.broadcast_add %c, %x : (tensor<3x1xf32>, tensor<2xf32>) -> tensor<3x2xf32>
               %p = chlo.broadcast_compare %x, %l {comparison_direction = #chlo<comparison_direction GT>} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
               return %a, %p : tensor<3x2xf32>, tensor<2xi1>
             }",
            &[x],
        );
    }

    #[test]
    fn random_numbers_have_their_range_and_moments() {
        let text = "func.func @main() -> (tensor<1000xf32>, tensor<1000xf64>, tensor<1000xi8>, tensor<1000xbf16>) {
               %n = stablehlo.constant dense<1000> : tensor<1xi64>
               %a = stablehlo.constant dense<-2.0> : tensor<f32>
               %b = stablehlo.constant dense<3.0> : tensor<f32>
               %u = stablehlo.rng %a, %b, %n, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<1000xf32>
               %mean = stablehlo.constant dense<1.0> : tensor<f64>
               %width = stablehlo.constant dense<2.0> : tensor<f64>
               %g = stablehlo.rng %mean, %width, %n, distribution = NORMAL : (tensor<f64>, tensor<f64>, tensor<1xi64>) -> tensor<1000xf64>
               %low = stablehlo.constant dense<-100> : tensor<i8>
               %high = stablehlo.constant dense<100> : tensor<i8>
               %i = stablehlo.rng %low, %high, %n, distribution = UNIFORM : (tensor<i8>, tensor<i8>, tensor<1xi64>) -> tensor<1000xi8>
               %zero = stablehlo.constant dense<0.0> : tensor<bf16>
               %one = stablehlo.constant dense<1.0> : tensor<bf16>
               %h = stablehlo.rng %zero, %one, %n, distribution = UNIFORM : (tensor<bf16>, tensor<bf16>, tensor<1xi64>) -> tensor<1000xbf16>
               return %u, %g, %i, %h : tensor<1000xf32>, tensor<1000xf64>, tensor<1000xi8>, tensor<1000xbf16>
             }";
        let mut p = read(Source::new("t.mlir", text)).unwrap_or_else(|e| panic!("{e}"));
        assert!(spell_out(&mut p).is_empty());
        assert!(verify(&p).is_empty(), "{:?}", verify(&p));
        let results = eval(&p, "main", vec![]).unwrap();
        let floats: Vec<f32> = results[0].bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        assert!(floats.iter().all(|x| (-2.0..3.0).contains(x)));
        let mean = floats.iter().sum::<f32>() / 1000.0;
        assert!((mean - 0.5).abs() < 0.2, "{mean}");
        let normal: Vec<f64> = results[1].bytes.chunks(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect();
        let mean = normal.iter().sum::<f64>() / 1000.0;
        let variance = normal.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1000.0;
        assert!((mean - 1.0).abs() < 0.3 && (variance - 4.0).abs() < 0.6, "{mean} {variance}");
        let bytes: std::collections::BTreeSet<i8> = results[2].bytes.iter().map(|b| *b as i8).collect();
        assert!(bytes.iter().all(|x| (-100..100).contains(x)) && bytes.len() > 180);
        // 1.0 in bf16 would be 0x3f80.
        assert!(results[3].bytes.chunks(2).all(|b| u16::from_le_bytes([b[0], b[1]]) < 0x3f80));
    }
}
