//! Where an attention has its rows and positions: what it takes to cut it along the positions, and which rows read the
//! same values.

use super::{Attention, Weights, find, reduction};
use crate::{
    fuse::{
        group::Grouper,
        index::{Ix, Table, own},
        view::{Coordinate, Val, View, coordinates},
    },
    ir::*,
};

/// Rows that a thread takes together at most.
const MOST_TOGETHER: i64 = 8;

pub struct Layout<'c> {
    /// The weighted sum.
    pub out: Generic<'c>,
    /// Which operand of `out` is the weights.
    pub weights: usize,
    pub scores: V<'c>,
    /// Dimension of the scores along which the positions are, and of the weights and the values.
    pub along: usize,
    pub weights_along: usize,
    pub values_along: usize,
    /// Weights after the division, as many as the scores and in their order.
    pub divided: V<'c>,
    /// Of the scores without positions: extents, and the loop of `out` that each follows.
    pub rows: Vec<(i64, usize)>,
    /// Rows that read the same values: how many, and how far apart they are.
    pub shared: (i64, i64),
}

impl<'c> Layout<'c> {
    /// `None` for spellings that are not cut: several dimensions of positions, rows in another order.
    pub fn of(view: &View<'c>, a: &Attention) -> Option<Self> {
        let out = Generic::of(view.nodes[a.out].op)?;
        let dims_of = |i: usize| coordinates(&out.in_map(i));
        let (bounds, w) = (out.bounds(), value_of(view, a, a.weights)?);
        let mut along = (0..bounds.len()).filter(|l| out.reduces[*l] && bounds[*l] > 1);
        let k = along.next().filter(|_| along.next().is_none())?;
        let dim = |i: usize| dims_of(i).iter().position(|c| *c == Coordinate::Loop(k));
        let (weights_along, values_along) = (dim(a.weights)?, dim(1 - a.weights)?);

        let (scores, max_dims) = reduction(view, a.max, "arith.maximumf")?;
        let extents = &view.values[scores].shape;
        let [along] = max_dims[..] else { return None };
        let along = along as usize;
        let mut t = Table::default();
        let mine = own(&view.values[w].shape);
        let at = Weights::of(view, w, mine.clone(), &mut t)?.at;
        if at[along] != mine[weights_along] {
            return None;
        }
        // Which loop of the sum a dimension of the weights follows.
        let follows = |d: usize| match dims_of(a.weights).get(d) {
            Some(Coordinate::Loop(l)) => Some(*l),
            _ => None,
        };
        let dims: Vec<usize> = (0..extents.len()).filter(|d| *d != along && extents[*d] > 1).collect();
        let alike = dims.iter().map(|d| {
            let j = mine.iter().position(|x| *x == at[*d])?;
            Some((extents[*d], follows(j)?))
        });
        let rows: Option<Vec<(i64, usize)>> = alike.collect();
        let rows = match rows {
            Some(rows) => rows,
            None => {
                // The same order, in other dimensions.
                let shape = &view.values[w].shape;
                let others: Vec<usize> = (0..shape.len()).filter(|d| *d != weights_along && shape[*d] > 1).collect();
                let pick = |t: &mut Table, at: &[Ix], shape: &[i64], dims: &[usize]| {
                    let at: Vec<Ix> = dims.iter().map(|d| at[*d]).collect();
                    t.flat(&at, &dims.iter().map(|d| shape[*d]).collect::<Vec<_>>())
                };
                let same = pick(&mut t, &at, extents, &dims) == pick(&mut t, &mine, shape, &others);
                let rows = others.iter().map(|d| Some((shape[*d], follows(*d)?)));
                rows.collect::<Option<Vec<_>>>().filter(|_| same)?
            }
        };
        let divided = divided(view, w)?;
        let mut t = Table::default();
        let whole = own(&view.values[divided].shape);
        let at = Weights::of(view, divided, whole.clone(), &mut t)?.at;
        if t.flat(&at, extents) != t.flat(&whole, &view.values[divided].shape) {
            return None;
        }
        let shared = shared(view, a);
        Some(Layout {
            weights: a.weights,
            scores: view.values[scores].value,
            along,
            weights_along,
            values_along,
            divided: view.values[divided].value,
            rows,
            shared,
            out,
        })
    }
}

/// The value that is operand `i` of the weighted sum.
fn value_of(view: &View, a: &Attention, i: usize) -> Option<Val> {
    let given = operand(view.nodes[a.out].op, i);
    view.nodes[a.out].reads.iter().copied().find(|v| key(view.values[*v].value) == key(given))
}
/// The result of the division, seen from the weights.
fn divided(view: &View, weights: Val) -> Option<Val> {
    let mut v = weights;
    loop {
        let n = &view.nodes[view.values[v].def?];
        let divides = walk(n.op).into_iter().any(|op| name(op) == "arith.divf");
        match (Generic::of(n.op), name(n.op)) {
            (Some(_), _) if divides => return Some(v),
            (Some(g), _) if g.ins.len() == 1 && n.reads.len() <= 2 => {}
            (None, "tensor.expand_shape" | "tensor.collapse_shape") => {}
            _ => return None,
        }
        v = n.reads[0];
    }
}

/// Which rows read the same values: how many, and how far apart their numbers are.
fn shared(view: &View, a: &Attention) -> (i64, i64) {
    find_shared(view, a).unwrap_or((1, 1))
}
fn find_shared(view: &View, a: &Attention) -> Option<(i64, i64)> {
    let out = Generic::of(view.nodes[a.out].op)?;
    let mut t = Table::default();
    let mine = view.own(a.out);
    let (mut value, mut at) = view.operands_at(a.out, &mine, &mut t)[1 - a.weights].clone();
    while let Some(n) = view.values[value].def.filter(|n| moves(view.nodes[*n].op)) {
        (value, at) = view.operands_at(n, &at, &mut t).swap_remove(0);
    }
    let needed: Vec<Ix> = at.iter().flat_map(|x| t.digits_of(*x)).collect();
    // Loops of rows, outermost first, as digits of the result's number.
    let [of_weights, of_values] = [a.weights, 1 - a.weights].map(|i| coordinates(&out.in_map(i)));
    let loops: Vec<usize> = (0..out.loops()).filter(|l| !out.reduces[*l]).collect();
    let is_row = |l: usize| of_weights.contains(&Coordinate::Loop(l)) || !of_values.contains(&Coordinate::Loop(l));
    let (mut apart, mut best) = (1, (1, 1));
    for i in (0..loops.len()).rev().filter(|i| is_row(loops[*i])) {
        let Ix::Digit { div, modulus } = mine[i] else { continue };
        let end = div * modulus;
        // The values depend on the digit above this.
        let low = needed.iter().fold(modulus, |low, x| match *x {
            Ix::Digit { div: d, modulus: m } if d >= end || d * m <= div => low,
            Ix::Digit { div: d, modulus: m } if d >= div && d * m == end && d % div == 0 => low.min(d / div),
            _ => 1,
        });
        let count = (1..=MOST_TOGETHER.min(low)).rev().find(|n| low % n == 0).unwrap_or(1);
        if count > best.0 {
            best = (count, apart);
        }
        apart *= modulus;
    }
    Some(best)
}
/// Whether an op only moves the elements of its one operand.
fn moves(op: O) -> bool {
    match name(op) {
        "tensor.expand_shape" | "tensor.collapse_shape" => true,
        _ => Generic::of(op).is_some_and(|g| {
            let all = ops(g.body);
            g.is_parallel() && g.ins.len() == 1 && all.len() == 1 && key(operand(all[0], 0)) == key(arg(g.body, 0))
        }),
    }
}

/// The same for a dispatch that is an attention.
pub fn shared_rows(func: O) -> (i64, i64) {
    let view = View::of(block(func, 0));
    let f = Grouper::new(&view, usize::MAX);
    find(&f).first().map_or((1, 1), |a| shared(&view, a))
}
