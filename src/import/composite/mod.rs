//! chlo's ops as composites of StableHLO: portable artifacts have no form for them. Each becomes `stablehlo.composite
//! "chlo.erf"` with a private function that computes it, as StableHLO's own writer does; readers that know the name take the
//! op, others the function.

mod math;
mod special;

use crate::{
    builder::Builder,
    diag::Diagnostic,
    spell,
    tree::{
        Attr, BinaryOp, Block, CompareType, DType, Direction, Func, Op, OpKind, Program, TensorType, Type, ValueId,
    },
    unbuild,
};
use math::X;
use std::{borrow::Cow, cell::RefCell};

/// The program with a composite in place of each op of chlo. Fails on ops of dynamic shapes, and on those that have regions
/// or dimension numbers.
pub fn without_chlo(p: &Program) -> Result<Cow<'_, Program>, Vec<Diagnostic>> {
    if !p.funcs.iter().any(|f| has_chlo(&f.body)) {
        return Ok(Cow::Borrowed(p));
    }
    let mut p = p.clone();
    spell::spell_out_broadcasts(&mut p);
    let taken: Vec<String> = p.funcs.iter().map(|f| f.name.clone()).collect();
    let mut all = Rewrite { taken, made: vec![], errors: vec![] };
    for f in &mut p.funcs {
        let mut body = std::mem::take(&mut f.body);
        all.block(f, &mut body);
        f.body = body;
    }
    p.funcs.extend(all.made.into_iter().map(|(_, f)| f));
    if all.errors.is_empty() { Ok(Cow::Owned(p)) } else { Err(all.errors) }
}

fn has_chlo(b: &Block) -> bool {
    b.ops.iter().any(|op| matches!(op.kind, OpKind::Chlo(_)) || op.regions.iter().any(has_chlo))
}

/// The op's name, types of its operands, and its own attributes.
type Key = (String, Vec<TensorType>, Vec<(String, Attr)>);

struct Rewrite {
    taken: Vec<String>,
    made: Vec<(Key, Func)>,
    errors: Vec<Diagnostic>,
}

impl Rewrite {
    fn block(&mut self, f: &Func, b: &mut Block) {
        for op in &mut b.ops {
            op.regions.iter_mut().for_each(|r| self.block(f, r));
            let OpKind::Chlo(name) = &op.kind else { continue };
            let name = name.clone();
            let types: Vec<TensorType> = op.operands.iter().map(|v| f.tensor(*v).clone()).collect();
            let (own, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut op.extra).into_iter().partition(|(n, _)| n == "k");
            let key = (name.clone(), types, own.clone());
            let known = self.made.iter().find(|(k, _)| *k == key).map(|(_, g)| g.name.clone());
            let Some(decomposition) = known.or_else(|| self.function(key, f, op)) else {
                let what = unbuild::name(&op.kind);
                let d = Diagnostic::error("E0602", op.span, format!("`{what}` has no form in portable artifacts"));
                self.errors.push(d.label("here, of these types").hint("write the program as text"));
                continue;
            };
            op.extra = rest;
            op.kind = OpKind::Composite { name: format!("chlo.{name}"), decomposition, version: 1, attributes: own };
        }
    }

    /// The name of the function that computes an op.
    fn function(&mut self, key: Key, f: &Func, op: &Op) -> Option<String> {
        let base = format!("chlo.{}.impl", key.0);
        let name = std::iter::once(base.clone())
            .chain((0..).map(|i| format!("{base}_{i}")))
            .find(|n| !self.taken.contains(n))
            .expect("some number is free");
        let results: Vec<TensorType> = op.results.iter().map(|v| f.tensor(*v).clone()).collect();
        let plain = |t: &TensorType| t.is_static() && t.quant.is_none();
        if !key.1.iter().chain(&results).all(plain) {
            return None;
        }
        let mut b = Builder::new();
        let args: Vec<ValueId> =
            key.1.iter().map(|t| b.argument(t.dtype, &t.shape().expect("checked to be static"))).collect();
        let out = if key.0 == "top_k" {
            top_k(&mut b, args[0], &results[0])
        } else {
            vec![elementwise(&mut b, &key.0, &args)?]
        };
        let g = b.finish(name.clone(), out);
        if !g.result_types.iter().eq(results.into_iter().map(Type::Tensor).collect::<Vec<_>>().iter()) {
            return None;
        }
        self.taken.push(name.clone());
        self.made.push((key, g));
        Some(name)
    }
}

/// The largest along the last dimension, and where they stand.
fn top_k(b: &mut Builder, x: ValueId, result: &TensorType) -> Vec<ValueId> {
    let shape = b.shape(x);
    let last = shape.len() - 1;
    let places = b.iota(&shape, last as u64);
    let order = if b.dtype(x).is_float() { CompareType::TotalOrder } else { CompareType::Default };
    let (values, places) = b.sort_by(Direction::Gt, order, x, places);
    let k = result.dims[last].expect("static");
    [values, places].map(|v| b.slice(v, last, 0, k)).to_vec()
}

fn elementwise(b: &mut Builder, name: &str, args: &[ValueId]) -> Option<ValueId> {
    let (first, shape) = (b.dtype(args[0]), b.shape(args[0]));
    if name == "mulhi" {
        return mulhi(b, args[0], args[1]);
    }
    if name == "square" {
        return Some(b.mul(args[0], args[0]));
    }
    if name == "conj" {
        return Some(b.conj(args[0]));
    }
    if !first.is_complex() && !first.is_float() {
        return None;
    }
    if name == "next_after" {
        return next_after(b, args[0], args[1]);
    }
    // Small floats are computed in f32.
    let wide = if first.is_float() && first.bits() < 32 { DType::F32 } else { first };
    let args: Vec<ValueId> = args.iter().map(|v| convert(b, *v, wide, &shape)).collect();
    let cell = RefCell::new(b);
    let x = X::new(&cell, args[0]);
    let y = args.get(1).map(|v| X::new(&cell, *v));
    let r = if first.is_complex() { math::complex(name, x)? } else { special::real(name, x, y)? };
    let r = r.value();
    let b = cell.into_inner();
    Some(if b.dtype(r) == wide { convert(b, r, first, &shape) } else { r })
}

fn convert(b: &mut Builder, v: ValueId, to: DType, shape: &[u64]) -> ValueId {
    if b.dtype(v) == to { v } else { b.emit(OpKind::Convert, vec![v], to, shape) }
}

/// The upper half of a product: of the product in 64 bits, or of products of halves.
fn mulhi(b: &mut Builder, x: ValueId, y: ValueId) -> Option<ValueId> {
    let (d, shape) = (b.dtype(x), b.shape(x));
    let signed = d.is_signed_int();
    let down = if signed { BinaryOp::ShiftRightArithmetic } else { BinaryOp::ShiftRightLogical };
    if !d.is_int() {
        return None;
    }
    if d.bits() < 64 {
        let wide = if signed { DType::I64 } else { DType::U64 };
        let (x, y) = (convert(b, x, wide, &shape), convert(b, y, wide, &shape));
        let product = b.mul(x, y);
        let bits = b.like(product, f64::from(d.bits()));
        let high = b.binary(down, product, bits);
        return Some(convert(b, high, d, &shape));
    }
    let (half, mask) = (b.like(x, 32.0), b.like(x, 4_294_967_295.0));
    let mut halves = |v: ValueId| (b.and(v, mask), b.binary(down, v, half));
    let ((xl, xh), (yl, yh)) = (halves(x), halves(y));
    let low = b.mul(xl, yl);
    let carried = b.binary(BinaryOp::ShiftRightLogical, low, half);
    let cross = b.mul(xh, yl);
    let cross = b.add(cross, carried);
    let (cross_low, cross_high) = (b.and(cross, mask), b.binary(down, cross, half));
    let other = b.mul(xl, yh);
    let other = b.add(other, cross_low);
    let other = b.binary(down, other, half);
    let top = b.mul(xh, yh);
    let top = b.add(top, cross_high);
    Some(b.add(top, other))
}

/// On the bits: one up away from zero, one down towards it.
fn next_after(b: &mut Builder, x: ValueId, y: ValueId) -> Option<ValueId> {
    let (d, shape) = (b.dtype(x), b.shape(x));
    let int = match d.bits() {
        16 => DType::I16,
        32 => DType::I32,
        64 => DType::I64,
        _ => return None,
    };
    let raw = b.emit(OpKind::BitcastConvert, vec![x], int, &shape);
    let (one, minus) = (b.like(raw, 1.0), b.like(raw, -1.0));
    let (zero, nan) = (b.like(x, 0.0), b.like(x, f64::NAN));
    let (below, positive) = (b.compare(Direction::Lt, x, y), b.compare(Direction::Gt, x, zero));
    let away = b.compare(Direction::Eq, below, positive);
    let step = b.select(away, one, minus);
    let stepped = b.add(raw, step);
    // From zero to the smallest number of y's sign.
    let sign = b.emit(OpKind::BitcastConvert, vec![y], int, &shape);
    let lowest = b.like(raw, -f64::from(int.bits() as i32 - 1).exp2());
    let sign = b.and(sign, lowest);
    let smallest = b.binary(BinaryOp::Or, sign, one);
    let none = b.compare(Direction::Eq, x, zero);
    let bits = b.select(none, smallest, stepped);
    let next = b.emit(OpKind::BitcastConvert, vec![bits], d, &shape);
    let same = b.compare(Direction::Eq, x, y);
    let next = b.select(same, y, next);
    let (xn, yn) = (b.compare(Direction::Ne, x, x), b.compare(Direction::Ne, y, y));
    let either = b.binary(BinaryOp::Or, xn, yn);
    Some(b.select(either, nan, next))
}
