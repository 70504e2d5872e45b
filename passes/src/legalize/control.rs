//! Control flow: while, if and case as scf over tensors (or over scalars, inside a region that works on elements). A branch
//! or body reads the values of its parents directly.

use super::{
    error::Refusal,
    lower::Cx,
    value::{Val, is_scalar, part_types},
};
use crate::ir::{B, O, V, results};
use melior::ir::{Region, Type as MlirType};
use zmlc_import::tree::Type;

impl<'p, 'c> Cx<'_, 'p, 'c> {
    /// Types of the values that this code handles for some StableHLO types.
    fn flat_types(&self, types: &[Type]) -> Vec<MlirType<'c>> {
        let all = types.iter().flat_map(|t| part_types(&self.b, t));
        if self.frame.scalar { all.map(crate::ir::elem).collect() } else { all.collect() }
    }
    fn result_types(&self) -> Vec<Type> {
        self.op.results.iter().map(|id| self.frame.func.ty(*id).clone()).collect()
    }
    /// A region of an op with results: a block that ends in scf.yield.
    fn branch(&mut self, region: usize) -> Region<'c> {
        let block = &self.op.regions[region];
        let b = self.b;
        b.region(&[], |b, _| {
            let values = self.lower.block(self.frame, b, block);
            b.op("scf.yield", &flatten(&values), &[], &[], vec![]);
        })
    }
    fn rebuilt(&self, op: O<'c>) -> Vec<Val<'c>> {
        rebuild(&self.result_types(), &results(op))
    }
}
fn flatten<'c>(values: &[Val<'c>]) -> Vec<V<'c>> {
    values.iter().flat_map(Val::parts).collect()
}
fn rebuild<'c>(types: &[Type], flat: &[V<'c>]) -> Vec<Val<'c>> {
    let mut parts = flat.iter().copied();
    types.iter().map(|t| Val::rebuild(t, &mut parts)).collect()
}
/// The element of a rank-0 tensor; scalars stay.
fn scalar_of<'c>(b: &B<'c>, v: V<'c>) -> V<'c> {
    if is_scalar(v) { v } else { b.extract(v, &[]) }
}

pub(super) fn if_<'c>(cx: &mut Cx<'_, '_, 'c>) -> Vec<Val<'c>> {
    let predicate = scalar_of(&cx.b, cx.arg(0).one());
    let regions = vec![cx.branch(0), cx.branch(1)];
    let types = cx.flat_types(&cx.result_types());
    let op = cx.b.op("scf.if", &[predicate], &types, &[], regions);
    cx.rebuilt(op)
}
/// An index out of range takes the last branch, which is the default of the switch.
pub(super) fn case<'c>(cx: &mut Cx<'_, '_, 'c>) -> Vec<Val<'c>> {
    let b = cx.b;
    let index = scalar_of(&b, cx.arg(0).one());
    let index = b.op1("arith.index_cast", &[index], b.index(), &[]);
    let last = cx.op.regions.len() - 1;
    let mut regions = vec![cx.branch(last)];
    regions.extend((0..last).map(|i| cx.branch(i)));
    let types = cx.flat_types(&cx.result_types());
    let cases: Vec<i64> = (0..last as i64).collect();
    let op = b.op("scf.index_switch", &[index], &types, &[("cases", b.i64s(&cases))], regions);
    cx.rebuilt(op)
}
pub(super) fn while_<'c>(cx: &mut Cx<'_, '_, 'c>) -> Result<Vec<Val<'c>>, Refusal> {
    let b = cx.b;
    let types = cx.result_types();
    let flat = cx.flat_types(&types);
    let init = flatten(&cx.args());
    let [condition, body] = &cx.op.regions[..] else {
        return Err(Refusal::form("a while without a condition and a body"));
    };
    let before = b.region(&flat, |b, args| {
        for (id, v) in condition.args.iter().zip(rebuild(&types, args)) {
            cx.frame.set(*id, v);
        }
        let predicate = cx.lower.block(cx.frame, b, condition)[0].one();
        let mut operands = vec![scalar_of(b, predicate)];
        operands.extend(args);
        b.op("scf.condition", &operands, &[], &[], vec![]);
    });
    let after = b.region(&flat, |b, args| {
        for (id, v) in body.args.iter().zip(rebuild(&types, args)) {
            cx.frame.set(*id, v);
        }
        let next = cx.lower.block(cx.frame, b, body);
        b.op("scf.yield", &flatten(&next), &[], &[], vec![]);
    });
    let op = b.op("scf.while", &init, &flat, &[], vec![before, after]);
    Ok(cx.rebuilt(op))
}
