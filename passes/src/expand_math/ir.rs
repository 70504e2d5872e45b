//! The machine that writes an expansion as ops of arith, math and scf, on one format or on vectors of it.

use super::{format::Format, machine::Machine};
use crate::ir::{B, V};
use melior::ir::{Type, ValueLike};
use std::marker::PhantomData;

/// Ops go where `b` inserts; values are vectors of `lanes`, or scalars.
pub struct Ir<'c, R> {
    pub b: B<'c>,
    pub lanes: Option<i64>,
    /// As in the device's profile.
    exp2_unit: bool,
    short: bool,
    format: PhantomData<R>,
}

impl<'c, R: Format> Ir<'c, R> {
    pub fn new(b: B<'c>, lanes: Option<i64>, exp2_unit: bool) -> Self {
        Ir { b, lanes, exp2_unit, short: false, format: PhantomData }
    }
    /// The same, for results that are rounded to bf16 if `short`.
    pub fn short(self, short: bool) -> Self {
        Ir { short, ..self }
    }
    /// The same without lanes.
    pub fn scalar(&self) -> Self {
        Ir::new(self.b, None, self.exp2_unit).short(self.short)
    }
    fn of(&self, scalar: Type<'c>) -> Type<'c> {
        self.lanes.map_or(scalar, |n| self.b.vector(n, scalar))
    }
    fn float_type(&self) -> Type<'c> {
        self.of(self.b.ty(&format!("f{}", R::WIDTH)))
    }
    fn int_type(&self) -> Type<'c> {
        self.of(self.b.i(R::WIDTH as u32))
    }
    fn splat(&self, scalar: &str, t: Type<'c>) -> V<'c> {
        let value = if self.lanes.is_some() { format!("dense<{scalar}> : {t}") } else { format!("{scalar} : {t}") };
        self.b.constant(self.b.attr(&value), t)
    }
}

impl<'c, R: Format> Machine for Ir<'c, R> {
    type Real = R;
    type F = V<'c>;
    type I = V<'c>;
    type P = V<'c>;

    /// By its bits, which print and parse exactly.
    fn f(&self, x: R) -> V<'c> {
        self.splat(&x.hex(), self.float_type())
    }
    fn i(&self, x: R::Bits) -> V<'c> {
        self.splat(&R::signed(x).to_string(), self.int_type())
    }
    fn add(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.b.addf(a, b)
    }
    fn sub(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.b.same("arith.subf", &[a, b])
    }
    fn mul(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.b.mulf(a, b)
    }
    fn div(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.b.same("arith.divf", &[a, b])
    }
    fn div_inside(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        if R::WIDTH != 32 {
            return self.div(a, b);
        }
        let flags = self.b.attr("#arith.fastmath<afn>");
        self.b.op1("arith.divf", &[a, b], a.r#type(), &[("fastmath", flags)])
    }
    fn has_unit(&self) -> bool {
        self.exp2_unit && R::WIDTH == 32
    }
    fn exp2_by_unit(&self, x: V<'c>) -> V<'c> {
        let quick = [("fastmath", self.b.attr("#arith.fastmath<afn>"))];
        self.b.op1("math.exp2", &[x], x.r#type(), &quick)
    }
    fn is_short(&self) -> bool {
        self.short
    }
    fn saturate(&self, a: V<'c>) -> V<'c> {
        let any = [("fastmath", self.b.attr("#arith.fastmath<nnan>"))];
        let limited = |op, a: V<'c>, limit| self.b.op1(op, &[a, self.c(limit)], a.r#type(), &any);
        limited("arith.minnumf", limited("arith.maxnumf", a, 0.0), 1.0)
    }
    fn fma(&self, a: V<'c>, b: V<'c>, c: V<'c>) -> V<'c> {
        self.b.same("math.fma", &[a, b, c])
    }
    fn neg(&self, a: V<'c>) -> V<'c> {
        self.b.same("arith.negf", &[a])
    }
    fn abs(&self, a: V<'c>) -> V<'c> {
        self.b.same("math.absf", &[a])
    }
    fn sqrt(&self, a: V<'c>) -> V<'c> {
        self.b.same("math.sqrt", &[a])
    }
    fn trunc(&self, a: V<'c>) -> V<'c> {
        self.b.same("math.trunc", &[a])
    }
    fn copysign(&self, a: V<'c>, sign: V<'c>) -> V<'c> {
        self.b.same("math.copysign", &[a, sign])
    }
    fn bits(&self, a: V<'c>) -> V<'c> {
        self.b.op1("arith.bitcast", &[a], self.int_type(), &[])
    }
    fn float(&self, a: V<'c>) -> V<'c> {
        self.b.op1("arith.bitcast", &[a], self.float_type(), &[])
    }
    fn to_int(&self, a: V<'c>) -> V<'c> {
        self.b.op1("arith.fptosi", &[a], self.int_type(), &[])
    }
    fn to_float(&self, a: V<'c>) -> V<'c> {
        self.b.op1("arith.sitofp", &[a], self.float_type(), &[])
    }
    fn iadd(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.b.addi(a, b)
    }
    fn isub(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.b.same("arith.subi", &[a, b])
    }
    fn imul(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.b.muli(a, b)
    }
    fn imul_wide(&self, a: V<'c>, b: V<'c>) -> (V<'c>, V<'c>) {
        let op = self.b.op("arith.mului_extended", &[a, b], &[self.int_type(); 2], &[], vec![]);
        (crate::ir::result(op, 0), crate::ir::result(op, 1))
    }
    fn urem(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.b.same("arith.remui", &[a, b])
    }
    fn and(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.b.same("arith.andi", &[a, b])
    }
    fn or(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.b.same("arith.ori", &[a, b])
    }
    fn xor(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.b.same("arith.xori", &[a, b])
    }
    fn shl(&self, a: V<'c>, by: V<'c>) -> V<'c> {
        self.b.same("arith.shli", &[a, by])
    }
    fn shr(&self, a: V<'c>, by: V<'c>) -> V<'c> {
        self.b.same("arith.shrui", &[a, by])
    }
    fn sar(&self, a: V<'c>, by: V<'c>) -> V<'c> {
        self.b.same("arith.shrsi", &[a, by])
    }
    fn lt(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.b.cmpf("olt", a, b)
    }
    fn le(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.b.cmpf("ole", a, b)
    }
    fn eq(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.b.cmpf("oeq", a, b)
    }
    fn is_nan(&self, a: V<'c>) -> V<'c> {
        self.b.cmpf("uno", a, a)
    }
    fn ieq(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.b.cmpi("eq", a, b)
    }
    fn ilt(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.b.cmpi("slt", a, b)
    }
    fn ult(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.b.cmpi("ult", a, b)
    }
    fn both(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.b.same("arith.andi", &[a, b])
    }
    fn either(&self, a: V<'c>, b: V<'c>) -> V<'c> {
        self.b.same("arith.ori", &[a, b])
    }
    fn not(&self, a: V<'c>) -> V<'c> {
        let value = if self.lanes.is_some() { format!("dense<true> : {}", a.r#type()) } else { "true".into() };
        let ones = self.b.constant(self.b.attr(&value), a.r#type());
        self.b.same("arith.xori", &[a, ones])
    }
    fn sel(&self, p: V<'c>, a: V<'c>, b: V<'c>) -> V<'c> {
        self.b.select(p, a, b)
    }
    fn isel(&self, p: V<'c>, a: V<'c>, b: V<'c>) -> V<'c> {
        self.b.select(p, a, b)
    }
    /// scf.for; the pass takes vectors apart before what needs it.
    fn repeat(&self, count: V<'c>, init: V<'c>, step: impl FnOnce(&Self, V<'c>) -> V<'c> + Clone) -> V<'c> {
        assert!(self.lanes.is_none(), "lanes would need a count each");
        let to = self.b.op1("arith.index_cast", &[count], self.b.index(), &[]);
        self.b.for_loop(self.b.cidx(0), to, self.b.cidx(1), &[init], |b, _, carried| {
            vec![step(&Ir::new(*b, None, self.exp2_unit), carried[0])]
        })[0]
    }
}
