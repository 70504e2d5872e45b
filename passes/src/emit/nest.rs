//! The two forms of structured ops, linalg.generic and linalg.reduce, as one: loops, operands with their index maps, a body.

use super::{build::Em, index::Ix};
use crate::{
    fuse::{Coordinate, coordinates},
    ir::*,
};
use melior::ir::{AffineExpr, AffineMap};

/// Which element of an operand the loops touch.
pub enum Access<'c> {
    Affine(AffineMap<'c>),
    Loops(Vec<usize>),
}

pub struct Nest<'c> {
    pub op: O<'c>,
    pub ins: Vec<V<'c>>,
    pub outs: Vec<V<'c>>,
    in_maps: Vec<Access<'c>>,
    out_maps: Vec<Access<'c>>,
    /// Extent of each loop.
    pub bounds: Vec<i64>,
    /// For each loop, whether it is a reduction.
    pub reduces: Vec<bool>,
    /// Arguments: one for each input, then one for each output (the accumulators).
    pub body: Blk<'c>,
}

impl<'c> Nest<'c> {
    pub fn of(op: O<'c>) -> Option<Self> {
        if let Some(g) = Generic::of(op) {
            return Some(Nest {
                op,
                in_maps: (0..g.ins.len()).map(|i| Access::Affine(g.in_map(i))).collect(),
                out_maps: (0..g.outs.len()).map(|i| Access::Affine(g.out_map(i))).collect(),
                bounds: g.bounds(),
                reduces: g.reduces,
                body: g.body,
                ins: g.ins,
                outs: g.outs,
            });
        }
        if name(op) != "linalg.reduce" {
            return None;
        }
        let all = operands(op);
        let (ins, outs) = all.split_at(all.len() / 2);
        let bounds = shape(ins[0].r#type());
        let dims = i64s_attr(op, "dimensions")?;
        let reduces: Vec<bool> = (0..bounds.len()).map(|d| dims.contains(&(d as i64))).collect();
        let kept: Vec<usize> = (0..bounds.len()).filter(|d| !reduces[*d]).collect();
        Some(Nest {
            op,
            ins: ins.to_vec(),
            outs: outs.to_vec(),
            in_maps: ins.iter().map(|_| Access::Loops((0..bounds.len()).collect())).collect(),
            out_maps: outs.iter().map(|_| Access::Loops(kept.clone())).collect(),
            bounds,
            reduces,
            body: block(op, 0),
        })
    }
    pub fn is_parallel(&self) -> bool {
        !self.reduces.contains(&true)
    }
    /// Whether every operand is read and written at the loops themselves, or is one scalar; the body asks for no index.
    pub fn is_identity(&self) -> bool {
        let same = |m: &Access| match m {
            Access::Affine(m) => m.result_count() == 0 || m.is_identity(),
            Access::Loops(_) => false,
        };
        let index = |op: &O| matches!(name(*op), "linalg.index" | "tensor.extract");
        self.in_maps.iter().chain(&self.out_maps).all(same) && !walk(self.op).iter().any(index)
    }
    /// The loops that reduce, outermost first.
    pub fn reduction_loops(&self) -> Vec<usize> {
        (0..self.reduces.len()).filter(|d| self.reduces[*d]).collect()
    }
    /// Turns of all reduction loops together.
    pub fn reduction_extent(&self) -> i64 {
        self.reduction_loops().iter().map(|d| self.bounds[*d]).product()
    }
    pub fn in_index(&self, em: &mut Em<'c>, i: usize, loops: &[Ix]) -> Vec<Ix> {
        apply(em, &self.in_maps[i], loops)
    }
    pub fn out_index(&self, em: &mut Em<'c>, i: usize, loops: &[Ix]) -> Vec<Ix> {
        apply(em, &self.out_maps[i], loops)
    }
    /// Dimension of input `i` that follows loop `d` alone, if there is one.
    pub fn input_dim(&self, i: usize, d: usize) -> Option<usize> {
        dim_of(&self.in_maps[i], d)
    }
    /// The first dimension of input `i` along which loop `d` moves, alone or not.
    pub fn moved_dim(&self, i: usize, d: usize) -> Option<usize> {
        match &self.in_maps[i] {
            Access::Loops(l) => l.iter().position(|x| *x == d),
            Access::Affine(m) => (0..m.result_count()).find(|j| depends(m.result(*j).expect("in range"), &|l| l == d)),
        }
    }
    /// The loops of some extent along which neighbours of input `i` lie, each with the neighbours that one turn passes:
    /// those of the last dimension of some extent. `None` if they are not seen.
    pub fn along(&self, i: usize) -> Option<Vec<(usize, i64)>> {
        let extents = shape(self.ins[i].r#type());
        let Some(last) = extents.iter().rposition(|n| *n > 1) else { return Some(vec![]) };
        let mut terms = match &self.in_maps[i] {
            Access::Loops(l) => vec![(l[last], 1)],
            Access::Affine(m) => match coordinates(m).swap_remove(last) {
                Coordinate::Loop(l) => vec![(l, 1)],
                Coordinate::Sum(terms, _) => terms,
                Coordinate::Unknown => return None,
            },
        };
        terms.retain(|(l, _)| self.bounds[*l] > 1);
        Some(terms)
    }
    /// Gives each of two inputs the place of the other. The body's arguments stay.
    pub fn exchange_inputs(&mut self) {
        self.ins.swap(0, 1);
        self.in_maps.swap(0, 1);
    }
    /// Dimension of output `i` that follows loop `d`.
    pub fn output_dim(&self, i: usize, d: usize) -> Option<usize> {
        dim_of(&self.out_maps[i], d)
    }
    /// The loops when output `i` is at `index`; a reduction loop has none.
    pub fn loops_at(&self, em: &mut Em<'c>, i: usize, index: &[Ix]) -> Vec<Option<Ix>> {
        (0..self.bounds.len())
            .map(|d| match dim_of(&self.out_maps[i], d) {
                Some(j) => Some(index[j]),
                None if !self.reduces[d] && self.bounds[d] == 1 => Some(em.ix.constant(0)),
                None => None,
            })
            .collect()
    }
    /// Whether input `i` is read at indices that depend on reduction loops alone.
    pub fn is_shared_by_rows(&self, i: usize) -> bool {
        let row = |d: usize| !self.reduces[d] && self.bounds[d] != 1;
        match &self.in_maps[i] {
            Access::Loops(l) => !l.iter().any(|d| row(*d)),
            Access::Affine(m) => (0..m.result_count()).all(|j| !depends(m.result(j).expect("in range"), &row)),
        }
    }
    /// Whether the body reads argument `i`.
    pub fn reads_argument(&self, i: usize) -> bool {
        !uses(arg(self.body, i)).is_empty()
    }
}

fn depends(e: AffineExpr, on: &dyn Fn(usize) -> bool) -> bool {
    if e.is_dim() {
        return on(e.dim_position());
    }
    !e.is_constant() && (depends(e.lhs(), on) || depends(e.rhs(), on))
}
fn dim_of(a: &Access, d: usize) -> Option<usize> {
    match a {
        Access::Loops(l) => l.iter().position(|x| *x == d),
        Access::Affine(m) => (0..m.result_count()).find(|j| {
            let e = m.result(*j).expect("in range");
            e.is_dim() && e.dim_position() == d
        }),
    }
}
fn apply<'c>(em: &mut Em<'c>, a: &Access<'c>, loops: &[Ix]) -> Vec<Ix> {
    match a {
        Access::Loops(l) => l.iter().map(|d| loops[*d]).collect(),
        Access::Affine(m) => (0..m.result_count()).map(|j| affine(em, m.result(j).expect("in range"), loops)).collect(),
    }
}
fn affine(em: &mut Em, e: AffineExpr, loops: &[Ix]) -> Ix {
    if e.is_dim() {
        return loops[e.dim_position()];
    }
    if e.is_constant() {
        return em.ix.constant(e.constant_value());
    }
    let a = affine(em, e.lhs(), loops);
    let b = affine(em, e.rhs(), loops);
    if e.is_add() {
        return em.ix.add(a, b);
    }
    // The rest has a constant on the right: affine expressions are kept in that form.
    let k = em.ix.as_constant(b).expect("a constant right operand");
    if e.is_mul() {
        em.ix.scale(a, k)
    } else if e.is_mod() {
        em.ix.rem(a, k)
    } else if e.is_floor_div() {
        em.ix.div(a, k)
    } else {
        let a = em.ix.add_constant(a, k - 1);
        em.ix.div(a, k)
    }
}
