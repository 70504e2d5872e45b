//! Where the elements of results go: each to its own place, or, for an update in an argument's buffer, into the window.

use super::{
    build::{Em, Lanes},
    index::Ix,
    kernel::{Dispatch, Frame},
};
use crate::ir::*;

/// What of a result is written.
pub struct Item<'c> {
    pub result: usize,
    /// Of the result, or of the update if only that is written.
    pub shape: Vec<i64>,
    /// The `zml.dynamic_update_slice` into the buffer of an argument.
    update: Option<O<'c>>,
}
impl Item<'_> {
    /// Whether only a window of an argument's buffer is written.
    pub fn is_update(&self) -> bool {
        self.update.is_some()
    }
    pub fn elements(&self) -> i64 {
        self.shape.iter().product()
    }
}

pub fn items<'c>(d: &Dispatch<'c>) -> Vec<Item<'c>> {
    (0..d.results.len())
        .map(|i| {
            let update = in_place(d, i);
            let written = update.map_or(d.results[i], |op| operand(op, 1));
            Item { result: i, shape: shape(written.r#type()), update }
        })
        .collect()
}
fn in_place<'c>(d: &Dispatch<'c>, i: usize) -> Option<O<'c>> {
    let op = def(d.results[i]).filter(|op| name(*op) == "zml.dynamic_update_slice")?;
    (key(d.args[d.alias[i]?]) == key(operand(op, 0))).then_some(op)
}
/// The elements of `items` at flat position `at`: all are computed before the first is stored, since a result may lie in
/// the buffer of an argument.
pub fn write<'c>(em: &mut Em<'c>, b: &B<'c>, d: &Dispatch<'c>, frame: &Frame<'c>, items: &[&Item<'c>], at: Ix) {
    let all: Vec<(usize, Ix, Lanes)> = items
        .iter()
        .map(|item| {
            let index = em.ix.delinear(at, &item.shape);
            let result = d.results[item.result];
            let Some(op) = item.update else { return (item.result, at, em.eval(b, result, &index)) };
            let lanes = em.eval(b, operand(op, 1), &index);
            let starts = em.update_starts(b, op);
            let to: Vec<Ix> = starts.iter().zip(&index).map(|(s, i)| em.ix.add(*s, *i)).collect();
            (item.result, em.ix.linear(&to, &shape(result.r#type())), lanes)
        })
        .collect();
    for (i, at, lanes) in all {
        em.store(b, frame.outs[i], at, &lanes);
    }
}
