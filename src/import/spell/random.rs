//! `rng`, whose generator the specification leaves open: Threefry-2x32 from the zero counter, with the number of the op in
//! the program as key. The same op gives the same numbers each time it runs, and every op gives others.
//!
//! UNIFORM: of floats `a + (b - a) u`, u the leading bits of a word as a fraction in [0, 1), and `a` where that rounds to
//! `b`; of integers `a` plus 64 random bits modulo `b - a`. NORMAL: Box and Muller's transform of two words. f16 and bf16
//! are computed in f32 and rounded.

use super::{
    BinaryOp, CompareType, DType, Direction, Literal, Op, OpKind, Out, Spell, TensorType, UnaryOp, ValueId, put_float,
};
use crate::literal::put_int;

/// One op: its number and the shape that it fills.
struct Draw<'a> {
    number: u64,
    dims: &'a [u64],
}
impl Draw<'_> {
    fn of(&self, d: DType) -> TensorType {
        TensorType::new(d, self.dims)
    }
}

impl Spell<'_> {
    pub(super) fn rng(&mut self, normal: bool, op: &Op, ops: &mut Vec<Op>) {
        self.random += 1;
        let out = &mut Out { ops, loc: op.loc.clone(), span: op.span };
        let ty = self.f.tensor(op.results[0]).clone();
        let dims = ty.shape().expect("shapes are static here");
        let draw = &Draw { number: self.random, dims: &dims };
        let parameters = [op.operands[0], op.operands[1]];
        let value = match ty.dtype {
            d if d.is_float() => {
                let wide = if d.bits() < 32 { DType::F32 } else { d };
                let [a, b] = parameters.map(|v| self.filled(out, v, draw, wide));
                if normal { self.normal(out, draw, wide, a, b) } else { self.uniform(out, draw, wide, d, a, b) }
            }
            d => self.integers(out, draw, d, parameters),
        };
        out.ops.push(Op {
            loc: out.loc.clone(),
            span: out.span,
            ..Op::new(OpKind::Convert, vec![value], op.results.clone())
        });
    }

    fn binary(&mut self, out: &mut Out, op: BinaryOp, a: ValueId, b: ValueId) -> ValueId {
        let ty = self.f.tensor(a).clone();
        self.emit(out, OpKind::Binary(op), vec![a, b], ty)
    }
    fn unary(&mut self, out: &mut Out, op: UnaryOp, a: ValueId) -> ValueId {
        let ty = self.f.tensor(a).clone();
        self.emit(out, OpKind::Unary(op), vec![a], ty)
    }
    fn number(&mut self, out: &mut Out, draw: &Draw, d: DType, x: f64) -> ValueId {
        let mut data = vec![];
        if d.is_float() {
            put_float(d, x, &mut data);
        } else {
            put_int(d, x as i128, &mut data);
        }
        let scalar = TensorType::new(d, &[]);
        let c = self.emit(out, OpKind::Constant(Literal::new(scalar.clone(), data)), vec![], scalar);
        self.emit(out, OpKind::BroadcastInDim { dims: vec![] }, vec![c], draw.of(d))
    }
    /// A scalar as element type `d`, everywhere.
    fn filled(&mut self, out: &mut Out, v: ValueId, draw: &Draw, d: DType) -> ValueId {
        let v = if self.f.tensor(v).dtype == d {
            v
        } else {
            self.emit(out, OpKind::Convert, vec![v], TensorType::new(d, &[]))
        };
        self.emit(out, OpKind::BroadcastInDim { dims: vec![] }, vec![v], draw.of(d))
    }
    /// Random bits; `stream` tells apart what one op needs.
    fn bits(&mut self, out: &mut Out, draw: &Draw, stream: u64, d: DType) -> ValueId {
        let ty = TensorType::new(DType::U64, &[2]);
        let data = [draw.number << 8 | stream, 0].iter().flat_map(|w: &u64| w.to_le_bytes()).collect();
        let state = self.emit(out, OpKind::Constant(Literal::new(ty.clone(), data)), vec![], ty.clone());
        let results = vec![self.value(ty, &out.loc), self.value(draw.of(d), &out.loc)];
        let bits = results[1];
        let kind = OpKind::RngBitGenerator { algorithm: "THREE_FRY".into() };
        out.ops.push(Op { loc: out.loc.clone(), span: out.span, ..Op::new(kind, vec![state], results) });
        bits
    }
    /// As many leading bits as the mantissa holds, as a multiple of 2^-digits in [0, 1).
    fn fraction(&mut self, out: &mut Out, draw: &Draw, stream: u64, wide: DType) -> ValueId {
        let (word, digits) = if wide == DType::F64 { (DType::U64, 53) } else { (DType::U32, 24) };
        let bits = self.bits(out, draw, stream, word);
        let by = self.number(out, draw, word, f64::from(word.bits()) - f64::from(digits));
        let leading = self.binary(out, BinaryOp::ShiftRightLogical, bits, by);
        let x = self.emit(out, OpKind::Convert, vec![leading], draw.of(wide));
        let unit = self.number(out, draw, wide, 2f64.powi(-digits));
        self.binary(out, BinaryOp::Multiply, x, unit)
    }
    fn uniform(&mut self, out: &mut Out, draw: &Draw, wide: DType, narrow: DType, a: ValueId, b: ValueId) -> ValueId {
        let u = self.fraction(out, draw, 0, wide);
        let range = self.binary(out, BinaryOp::Subtract, b, a);
        let part = self.binary(out, BinaryOp::Multiply, range, u);
        let x = self.binary(out, BinaryOp::Add, a, part);
        let [x, a, b] = [x, a, b].map(|v| self.emit(out, OpKind::Convert, vec![v], draw.of(narrow)));
        let kind = OpKind::Compare { direction: Direction::Ge, ty: CompareType::Default };
        let end = self.emit(out, kind, vec![x, b], draw.of(DType::I1));
        self.emit(out, OpKind::Select, vec![end, a, x], draw.of(narrow))
    }
    /// a + b sqrt(-2 log(1 - u)) cos(2 pi v)
    fn normal(&mut self, out: &mut Out, draw: &Draw, wide: DType, a: ValueId, b: ValueId) -> ValueId {
        let [u, v] = [0, 1].map(|stream| self.fraction(out, draw, stream, wide));
        let one = self.number(out, draw, wide, 1.0);
        let rest = self.binary(out, BinaryOp::Subtract, one, u);
        let log = self.unary(out, UnaryOp::Log, rest);
        let minus_two = self.number(out, draw, wide, -2.0);
        let square = self.binary(out, BinaryOp::Multiply, log, minus_two);
        let radius = self.unary(out, UnaryOp::Sqrt, square);
        let turn = self.number(out, draw, wide, 2.0 * std::f64::consts::PI);
        let angle = self.binary(out, BinaryOp::Multiply, v, turn);
        let cosine = self.unary(out, UnaryOp::Cosine, angle);
        let x = self.binary(out, BinaryOp::Multiply, radius, cosine);
        let scaled = self.binary(out, BinaryOp::Multiply, b, x);
        self.binary(out, BinaryOp::Add, a, scaled)
    }
    /// In 64 bits without a sign, where sums wrap as those of every narrower integer do.
    fn integers(&mut self, out: &mut Out, draw: &Draw, d: DType, parameters: [ValueId; 2]) -> ValueId {
        let signed = if d == DType::I1 { DType::U8 } else { d };
        let wide = if signed.is_signed_int() { DType::I64 } else { DType::U64 };
        let [a, b] = parameters.map(|v| {
            let narrow = self.filled(out, v, draw, signed);
            let v = self.emit(out, OpKind::Convert, vec![narrow], draw.of(wide));
            self.emit(out, OpKind::BitcastConvert, vec![v], draw.of(DType::U64))
        });
        let bits = self.bits(out, draw, 0, DType::U64);
        let range = self.binary(out, BinaryOp::Subtract, b, a);
        let one = self.number(out, draw, DType::U64, 1.0);
        let range = self.binary(out, BinaryOp::Maximum, range, one);
        let part = self.binary(out, BinaryOp::Remainder, bits, range);
        let x = self.binary(out, BinaryOp::Add, a, part);
        self.emit(out, OpKind::BitcastConvert, vec![x], draw.of(wide))
    }
}
