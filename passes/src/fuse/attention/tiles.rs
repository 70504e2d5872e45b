//! Attention of many rows, where the device multiplies small matrices: which of it goes by tiles in one kernel.

use super::{super::group::Grouper, Attention};
use crate::{
    emit::fits_tiles,
    fuse::{
        contraction,
        index::{Ix, Table},
        view::{Coordinate, Kind, Node, Val, View, coordinates},
    },
    ir::*,
};

/// Whether an attention whose rows share keys and values `rows` by `rows` goes by tiles.
pub fn fits(f: &Grouper, a: &Attention, rows: i64, kept: i64) -> bool {
    !a.is_part && checked(f, a, rows, kept).is_some()
}
fn checked(f: &Grouper, a: &Attention, rows: i64, kept: i64) -> Option<()> {
    let view = f.view;
    let spec = f.spec?;
    let scores = a.inner.iter().copied().find(|n| *n != a.max && *n != a.sum && view.nodes[*n].kind.heavy())?;
    let (out, s) = (Generic::of(view.nodes[a.out].op)?, Generic::of(view.nodes[scores].op)?);
    let c = contraction::of(&s).filter(|c| c.projects)?;
    let factor = elem(s.ins[0].r#type());
    let alike = [&out, &s].iter().flat_map(|g| &g.ins).all(|v| elem(v.r#type()) == factor);
    if !alike || bits(factor) != 16 || !is_zero(s.outs[0]) || !fits_tiles(&factor.to_string(), rows, (c.k, kept), spec)
    {
        return None;
    }
    // Queries do not depend on the position, and all rows of a tile have the same keys.
    let mut t = Table::default();
    let mine = view.own(a.out);
    let operands = view.operands_at(a.out, &mine, &mut t);
    let (weights, at) = operands[a.weights].clone();
    let (_, values_at) = operands[1 - a.weights].clone();
    let at = index_of(view, weights, &at, view.nodes[scores].results[0], &mut t)?;
    let of_scores = view.operands_at(scores, &at, &mut t);
    let along = values_at.iter().flat_map(|x| t.loops_of(*x)).next()?;
    let moves: Vec<bool> =
        of_scores[..2].iter().map(|(_, at)| at.iter().any(|x| t.loops_of(*x).contains(&along))).collect();
    let keys = match moves[..] {
        [true, false] => 0,
        [false, true] => 1,
        _ => return None,
    };
    let values = coordinates(&out.in_map(1 - a.weights));
    let loops: Vec<usize> = (0..out.loops()).filter(|l| !out.reduces[*l]).collect();
    let own_rows = (0..loops.len()).filter(|i| !values.contains(&Coordinate::Loop(loops[*i]))).map(|i| mine[i]);
    let overlaps = |x: Ix, y: Ix| match (x, y) {
        (Ix::Digit { div: a, modulus: m }, Ix::Digit { div: b, modulus: n }) => a < b * n && b < a * m,
        _ => false,
    };
    let own_rows: Vec<Ix> = own_rows.collect();
    let needed: Vec<Ix> = of_scores[keys].1.iter().flat_map(|x| t.digits_of(*x)).collect();
    needed.iter().all(|x| !own_rows.iter().any(|y| overlaps(*x, *y))).then_some(())
}
fn is_zero(v: V) -> bool {
    let fill = def(v).filter(|op| name(*op) == "linalg.fill").map(|op| operand(op, 0));
    fill.is_some_and(|x| super::is_constant(x, 0.0))
}
/// Where `v` at `at` needs `target`, through elementwise ops.
fn index_of(view: &View, v: Val, at: &[Ix], target: Val, t: &mut Table) -> Option<Vec<Ix>> {
    if v == target {
        return Some(at.to_vec());
    }
    let n: Node = view.values[v].def.filter(|n| view.nodes[*n].kind == Kind::Map)?;
    let operands = view.operands_at(n, at, t);
    operands.into_iter().find_map(|(v, at)| index_of(view, v, &at, target, t))
}
