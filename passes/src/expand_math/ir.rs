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
    format: PhantomData<R>,
}

impl<'c, R: Format> Ir<'c, R> {
    pub fn new(b: B<'c>, lanes: Option<i64>, exp2_unit: bool) -> Self {
        Ir { b, lanes, exp2_unit, format: PhantomData }
    }
    /// The same without lanes.
    pub fn scalar(&self) -> Self {
        Ir::new(self.b, None, self.exp2_unit)
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
    /// x = (k + f) ln 2, k an integer between -126 and 127 and |f| <= 1/2 where that is enough; beyond, 2^f is 0 or
    /// infinity by itself. The sum with 1.5 2^23 + 127 has k + 127 in its lowest bits. log2 e is split in two.
    fn exp_by_unit(&self, x: V<'c>) -> Option<V<'c>> {
        if !self.exp2_unit || R::WIDTH != 32 {
            return None;
        }
        const MAGIC: f64 = 12_582_912.0 + 127.0;
        const LOG2_E: f64 = std::f32::consts::LOG2_E as f64;
        let sum = self.fma(x, self.c(LOG2_E), self.c(MAGIC));
        // Either operand will do where x is NaN, which f brings in again.
        let any = [("fastmath", self.b.attr("#arith.fastmath<nnan>"))];
        let limited = |op, sum: V<'c>, limit| self.b.op1(op, &[sum, self.c(limit)], sum.r#type(), &any);
        let sum = limited("arith.maxnumf", sum, MAGIC - 126.0);
        let sum = limited("arith.minnumf", sum, MAGIC + 127.0);
        let k = self.sub(sum, self.c(MAGIC));
        let f = self.fma(x, self.c(LOG2_E), self.neg(k));
        let f = self.fma(x, self.c(std::f64::consts::LOG2_E - LOG2_E), f);
        let power = self.float(self.shl(self.bits(sum), self.n(23)));
        let quick = [("fastmath", self.b.attr("#arith.fastmath<afn>"))];
        Some(self.mul(self.b.op1("math.exp2", &[f], f.r#type(), &quick), power))
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
