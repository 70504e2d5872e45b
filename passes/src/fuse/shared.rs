//! What the rows of a matrix-vector product have in common, and what follows from it: reductions of one element under
//! the common vector (the sums of a norm) are done again by each workgroup instead of in a kernel of their own, and
//! products with one vector become one kernel, whatever their numbers of rows.

use super::{
    group::{Grouper, Hero},
    view::{Kind, Node, Val},
};
use crate::rows::Rows;
use std::collections::BTreeSet;

/// Rows that make a workgroup's repeated work worth it.
const LEAST_ROWS: i64 = 32;
/// Elements that a workgroup may go through before its rows.
const MOST_ELEMENTS: i64 = 1 << 14;

/// Marks the reductions that are done again by all their readers.
pub fn prologues(f: &mut Grouper) {
    for node in (0..f.view.nodes.len()).rev() {
        let view = f.view;
        if view.nodes[node].kind != Kind::Reduce || !view.is_by_one_op(node) {
            continue;
        }
        if view.elements(node) != 1 || view.turns(node) > MOST_ELEMENTS {
            continue;
        }
        let mut seen = BTreeSet::new();
        f.prologue[node] = view.nodes[node].results.iter().all(|v| serves(f, *v, &mut seen));
    }
}
/// Whether all that reads a value is, perhaps through elementwise ops, under the common vector of many rows.
fn serves(f: &Grouper, v: Val, seen: &mut BTreeSet<Node>) -> bool {
    let view = f.view;
    if f.wanted[v] {
        return false;
    }
    view.values[v].readers.iter().all(|r| match view.nodes[*r].kind {
        Kind::Map => !seen.insert(*r) || view.nodes[*r].results.iter().all(|v| serves(f, *v, seen)),
        Kind::Reduce if f.prologue[*r] => true,
        Kind::Reduce => {
            let many = view.elements(*r) >= LEAST_ROWS && view.is_generic_reduction(*r);
            many && view.values[v].elements() <= MOST_ELEMENTS && view.is_shared(*r, v)
        }
        _ => false,
    })
}

/// Products with one vector become one group.
pub fn merge(f: &mut Grouper) {
    for i in 0..f.groups.len() {
        let Some(mine) = vectors(f, i) else { continue };
        for j in i + 1..f.groups.len() {
            if !vectors(f, j).is_some_and(|v| !v.1.is_disjoint(&mine.1) && v.0 == mine.0) {
                continue;
            }
            let (a, b) = (&f.groups[i], &f.groups[j]);
            let differ =
                |s: &Rows, t: &Rows| s.count == t.count && s.orbit.0 > 1 && t.orbit.0 > 1 && s.orbit != t.orbit;
            let clash = a.spaces.iter().any(|s| b.spaces.iter().any(|t| differ(s, t)));
            let writes =
                |g: usize| f.groups[g].members.iter().filter_map(|n| f.view.updates(*n)).collect::<BTreeSet<Val>>();
            let clash = clash || !writes(i).is_disjoint(&b.inputs) || !writes(j).is_disjoint(&a.inputs);
            let buffers = a.inputs.union(&b.inputs).count() + a.members.len() + b.members.len();
            if clash || buffers > f.budget || f.reaches(i, j) || f.reaches(j, i) {
                continue;
            }
            f.absorb(i, j, "with rows of another number that read the same vector");
        }
    }
}
/// Of a group of matrix-vector products: elements of a row, and the vectors.
fn vectors(f: &Grouper, g: usize) -> Option<(i64, BTreeSet<Val>)> {
    let group = &f.groups[g];
    if group.hero != Hero::Reduce || group.members.is_empty() || group.spaces.iter().any(|s| s.count < LEAST_ROWS) {
        return None;
    }
    let heavies: Vec<Node> = f.heavies(g).collect();
    let length = f.view.turns(*heavies.first()?);
    let alike = heavies.iter().all(|h| f.view.is_generic_reduction(*h) && f.view.turns(*h) == length);
    let vectors: BTreeSet<Val> = heavies.iter().flat_map(|h| f.view.shared(*h)).collect();
    alike.then_some((length, vectors))
}
