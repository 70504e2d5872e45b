//! Attention, recognised by what is computed and not by how it is spelled:
//!
//! ```text
//! s = anything elementwise over (q · k)         scale, mask as predicate or as added float, or neither
//! m = max s along t,   e = exp(s - m),   l = sum e along t
//! o = sum along t of (e / l) · v
//! ```
//!
//! with reshapes, transposes, broadcasts and conversions anywhere between. The four reductions and what stands between
//! them become one group: its kernel goes along t once and keeps neither s nor e in memory.
//!
//! Where the maximum of a row is minus infinity the weights may be chosen to be zero instead.
//!
//! A part of one that is cut along t (`split`) leaves the division to what puts the parts together:
//! `e = exp(s - max(m, lowest finite))`, `o = sum along t of e · v`, and m and l are results too.

mod layout;
mod tiles;

pub use layout::{Layout, shared_rows};

use super::{
    contraction,
    group::Grouper,
    index::{Ix, Table},
    view::{Kind, Node, Val, View},
};
use crate::ir::*;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Elements of o that one thread may have to keep.
const MOST_KEPT: i64 = 128;
/// Pairs of a query and a position above which tiles serve better than rows.
const MOST_PAIRS: i64 = 1 << 18;
/// Rows that share keys and values from which on tiles serve better anyway.
const MANY_ROWS: i64 = 64;
/// Values that are followed from weights down to scores: chains of differences and quotients that read one value twice have
/// twice as many ways with every link.
const MOST_FOLLOWED: u32 = 128;

pub struct Attention {
    pub max: Node,
    pub sum: Node,
    pub out: Node,
    /// Which operand of `out` is made from the exponentials.
    pub weights: usize,
    /// Whether the weights are not divided by their sum, and others may read maximum and sum.
    pub is_part: bool,
    /// Whether its kernel goes by tiles of fragments.
    pub is_tiled: bool,
    /// Everything else of the group: ops that nobody else reads.
    pub inner: BTreeSet<Node>,
}

/// The maximum with the lowest finite f32: it keeps differences with a maximum over nothing from being no numbers.
const CLAMPED: &str = "clamped";

/// Whether it is minus infinity, or anything else.
const NOTHING: &str = "nothing";
const SOMETHING: &str = "something";
/// The second, but zero where the first is minus infinity.
const UNLESS_NOTHING: &str = "unless nothing";

/// A scalar as the ops between two tensors compute it.
enum Expr {
    /// An element of a value.
    Leaf(Val, Vec<Ix>),
    Op(&'static str, Vec<Expr>),
    Other,
}

/// All attentions of a block.
pub fn find(f: &Grouper) -> Vec<Attention> {
    (0..f.view.nodes.len()).filter_map(|out| of(f, out)).collect()
}

fn of(f: &Grouper, out: Node) -> Option<Attention> {
    let view = f.view;
    let n = &view.nodes[out];
    if !matches!(n.kind, Kind::Reduce | Kind::Contraction) {
        return None;
    }
    let generic = Generic::of(n.op)?;
    let c = contraction::of(&generic).filter(|c| c.projects)?;
    let e = elem(result(n.op, 0).r#type());
    if !is_float(e) || bits(e) != 32 {
        return None;
    }
    let mut t = Table::default();
    let operands = view.operands_at(out, &view.own(out), &mut t);
    (0..2).find_map(|p| {
        let (value, index) = operands[p].clone();
        let w = Weights::of(view, value, index, &mut t)?;
        let (max, sum) = (w.max, w.sum);
        placed(view, out, max, &w.at, &t)?;
        let (mine, kept) = if p == 0 { (c.m, c.n) } else { (c.n, c.m) };
        let pairs = view.elements(max) * view.turns(out);
        if c.batch * mine != view.elements(max) || kept == 0 {
            return None;
        }
        let inner = inner(f, &w, out)?;
        let a = Attention { max, sum, out, weights: p, is_part: w.is_part, is_tiled: false, inner };
        let is_few = kept <= MOST_KEPT && pairs <= MOST_PAIRS;
        let is_tiled = (mine >= MANY_ROWS || !is_few) && tiles::fits(f, &a, mine, kept);
        (is_few || is_tiled).then_some(Attention { is_tiled, ..a })
    })
}

/// What weights are made from.
struct Weights {
    max: Node,
    sum: Node,
    /// Where s is read.
    at: Vec<Ix>,
    is_part: bool,
}
impl Weights {
    /// Of a value at an index.
    fn of(view: &View, value: Val, index: Vec<Ix>, t: &mut Table) -> Option<Self> {
        let mut trace = Trace { view, t, visited: HashMap::new(), left: MOST_FOLLOWED };
        let expr = trace.expr(value, index, 64);
        let visited = trace.visited;
        let (expr, nothing) = match expr {
            Expr::Op(UNLESS_NOTHING, mut parts) => (parts.pop()?, parts.pop()),
            e => (e, None),
        };
        let (e, l) = match expr {
            Expr::Op("arith.divf", parts) => {
                let [e, Expr::Leaf(l, l_at)]: [Expr; 2] = parts.try_into().ok()? else { return None };
                (e, Some((l, l_at)))
            }
            e => (e, None),
        };
        let (s, s_at, m, m_at, clamped) = difference(e)?;
        if let Some(Expr::Leaf(of, at)) = nothing {
            (of == m && at == m_at).then_some(())?;
        }
        let max = view.values[m].def?;
        let (max_of, max_dims) = reduction(view, max, "arith.maximumf")?;
        if unwidened(view, max_of) != unwidened(view, s) || without(&s_at, &max_dims) != m_at {
            return None;
        }
        let sum = match &l {
            Some((l, l_at)) => {
                let sum = view.values[*l].def?;
                let (sum_of, dims) = reduction(view, sum, "arith.addf")?;
                (without(visited.get(&unwidened(view, sum_of))?, &dims) == *l_at).then_some(sum)?
            }
            None if clamped => exponentials(view, &visited, s, m)?,
            None => return None,
        };
        let (sum_of, sum_dims) = reduction(view, sum, "arith.addf")?;
        let sum_of = unwidened(view, sum_of);
        let e_at = visited.get(&sum_of)?;
        // The sum's elements are the maximum's, perhaps seen through a reshape.
        let same = *e_at == s_at && sum_dims == max_dims || view.values[sum_of].shape != view.values[s].shape;
        let agree = view.elements(max) == view.elements(sum) && view.turns(max) == view.turns(sum);
        (same && agree).then_some(Weights { max, sum, at: s_at, is_part: l.is_none() })
    }
}
/// From exp(s - m) or exp(s - max(m, lowest finite)): s and m with their indices, and whether it is the second.
#[allow(clippy::type_complexity)]
fn difference(e: Expr) -> Option<(Val, Vec<Ix>, Val, Vec<Ix>, bool)> {
    let Expr::Op("math.exp", parts) = e else { return None };
    let [Expr::Op("arith.subf", parts)]: [Expr; 1] = parts.try_into().ok()? else { return None };
    let [Expr::Leaf(s, s_at), m]: [Expr; 2] = parts.try_into().ok()? else { return None };
    match m {
        Expr::Leaf(m, m_at) => Some((s, s_at, m, m_at, false)),
        Expr::Op(CLAMPED, mut parts) => match parts.pop()? {
            Expr::Leaf(m, m_at) => Some((s, s_at, m, m_at, true)),
            _ => None,
        },
        _ => None,
    }
}
/// The sum over the exponentials of s against m, among all that reads a value on the way to the weights.
fn exponentials(view: &View, visited: &HashMap<Val, Vec<Ix>>, s: Val, m: Val) -> Option<Node> {
    let mut values: Vec<Val> = visited.keys().copied().collect();
    values.sort_unstable();
    let mut sums = values.iter().flat_map(|v| view.values[*v].readers.iter().map(move |r| (*v, *r)));
    sums.find_map(|(v, r)| {
        reduction(view, r, "arith.addf").filter(|x| x.0 == v)?;
        let mut t = Table::default();
        let mut trace = Trace { view, t: &mut t, visited: HashMap::new(), left: MOST_FOLLOWED };
        let expr = trace.expr(v, super::index::own(&view.values[v].shape), 64);
        difference(expr).filter(|(x, _, y, _, _)| *x == s && *y == m)?;
        Some(r)
    })
}
fn without(at: &[Ix], dims: &[i64]) -> Vec<Ix> {
    (0..at.len()).filter(|d| !dims.contains(&(*d as i64))).map(|d| at[d]).collect()
}
/// Operand and dimensions of a `linalg.reduce` by this one op.
fn reduction(view: &View, node: Node, by: &str) -> Option<(Val, Vec<i64>)> {
    let n = &view.nodes[node];
    if name(n.op) != "linalg.reduce" || n.results.len() != 1 || !is_float(elem(result(n.op, 0).r#type())) {
        return None;
    }
    let all = ops(block(n.op, 0));
    let [op, end] = all[..] else { return None };
    if name(op) != by || operands(end).len() != 1 || key(operand(end, 0)) != key(result(op, 0)) {
        return None;
    }
    let distinct = key(operand(op, 0)) != key(operand(op, 1));
    let given = operand(n.op, 0);
    let v = n.reads.iter().copied().find(|v| key(view.values[*v].value) == key(given))?;
    distinct.then_some((v, i64s_attr(n.op, "dimensions")?))
}
/// What `v` was widened from.
fn unwidened(view: &View, mut v: Val) -> Val {
    while let Some(from) = view.values[v].def.and_then(|n| widens(view, n)) {
        v = from;
    }
    v
}
fn widens(view: &View, node: Node) -> Option<Val> {
    let from = key(crate::ir::widens(view.nodes[node].op)?);
    view.nodes[node].reads.iter().copied().find(|v| key(view.values[*v].value) == from)
}
/// Whether a reduction by this op reads `v`, perhaps widened.
fn is_reduced(view: &View, v: Val, by: &str) -> bool {
    view.values[v].readers.iter().any(|r| {
        let read_there = reduction(view, *r, by).is_some_and(|x| x.0 == v);
        read_there || widens(view, *r) == Some(v) && is_reduced(view, view.nodes[*r].results[0], by)
    })
}
/// Whether s runs along t where the maximum is taken, and nowhere else.
fn placed(view: &View, out: Node, max: Node, s_at: &[Ix], t: &Table) -> Option<()> {
    let (_, dims) = reduction(view, max, "arith.maximumf")?;
    let extents = &view.values[view.nodes[max].reads[0]].shape;
    let mut covered = 1;
    let mut seen = HashSet::new();
    for (d, x) in s_at.iter().enumerate() {
        let along = dims.contains(&(d as i64));
        if !along {
            (t.turns(&[*x]) == 1).then_some(())?;
        } else if extents.get(d).copied().unwrap_or(0) > 1 {
            let whole = t.range(*x) == Some((0, extents[d] - 1)) && t.is_loop(*x) && seen.insert(*x);
            whole.then_some(())?;
            covered *= extents[d];
        }
    }
    (covered == view.turns(out) && covered == view.turns(max)).then_some(())
}

struct Trace<'t, 'v, 'c> {
    view: &'v View<'c>,
    t: &'t mut Table,
    /// Where each value on the way is read.
    visited: HashMap<Val, Vec<Ix>>,
    /// Values that may still be followed.
    left: u32,
}
impl Trace<'_, '_, '_> {
    fn expr(&mut self, v: Val, index: Vec<Ix>, depth: u32) -> Expr {
        let view = self.view;
        let Some(left) = self.left.checked_sub(1) else { return Expr::Other };
        self.left = left;
        self.visited.insert(v, index.clone());
        let is_scores = is_reduced(view, v, "arith.maximumf");
        let Some(def) = view.values[v].def.filter(|_| depth > 0 && !is_scores) else { return Expr::Leaf(v, index) };
        let n = &view.nodes[def];
        if n.kind != Kind::Map {
            return Expr::Leaf(v, index);
        }
        let reads = view.operands_at(def, &index, self.t);
        if matches!(name(n.op), "tensor.expand_shape" | "tensor.collapse_shape") {
            let (v, index) = reads.into_iter().next().expect("a reshape reads one value");
            return self.expr(v, index, depth - 1);
        }
        let Some(g) = Generic::of(n.op) else { return Expr::Other };
        let Some(end) = ops(g.body).pop().filter(|end| end.operand_count() == 1) else { return Expr::Other };
        self.scalar(&g, &reads, operand(end, 0), depth)
    }
    /// A value of a body, conversions between floats left out.
    fn scalar(&mut self, g: &Generic, reads: &[(Val, Vec<Ix>)], v: V, depth: u32) -> Expr {
        if v.is_block_argument() {
            let at = (0..g.ins.len()).find(|i| key(arg(g.body, *i)) == key(v));
            // Inputs that are no tensors are not among the reads.
            let tensors = g.ins.iter().all(|x| is_tensor(x.r#type()));
            return match at.filter(|_| tensors).and_then(|i| reads.get(i)) {
                Some((v, index)) => self.expr(*v, index.clone(), depth - 1),
                None => Expr::Other,
            };
        }
        let Some(op) = def(v) else { return Expr::Other };
        let parts = |which: &[usize], this: &mut Self| -> Vec<Expr> {
            which.iter().map(|i| this.scalar(g, reads, operand(op, *i), depth - 1)).collect()
        };
        if depth == 1 {
            return Expr::Other;
        }
        match name(op) {
            "arith.extf" | "arith.truncf" => parts(&[0], self).remove(0),
            "arith.divf" => Expr::Op("arith.divf", parts(&[0, 1], self)),
            "arith.subf" => Expr::Op("arith.subf", parts(&[0, 1], self)),
            "math.exp" => Expr::Op("math.exp", parts(&[0], self)),
            "arith.cmpf" if is_constant(operand(op, 1), f64::NEG_INFINITY) => match int_attr(op, "predicate") {
                Some(OEQ) => Expr::Op(NOTHING, parts(&[0], self)),
                Some(UNE) => Expr::Op(SOMETHING, parts(&[0], self)),
                _ => Expr::Other,
            },
            "arith.xori" if is_true(operand(op, 1)) => match parts(&[0], self).remove(0) {
                Expr::Op(NOTHING, m) => Expr::Op(SOMETHING, m),
                Expr::Op(SOMETHING, m) => Expr::Op(NOTHING, m),
                _ => Expr::Other,
            },
            "arith.select" => {
                let zero = |i| is_constant(operand(op, i), 0.0);
                let (of, weight) = match parts(&[0], self).remove(0) {
                    Expr::Op(NOTHING, m) if zero(1) => (m, 2),
                    Expr::Op(SOMETHING, m) if zero(2) => (m, 1),
                    _ => return Expr::Other,
                };
                Expr::Op(UNLESS_NOTHING, of.into_iter().chain(parts(&[weight], self)).collect())
            }
            // A maximum with minus infinity changes nothing.
            "arith.maximumf" if is_constant(operand(op, 0), f64::NEG_INFINITY) => parts(&[1], self).remove(0),
            "arith.maximumf" if is_constant(operand(op, 1), f64::NEG_INFINITY) => parts(&[0], self).remove(0),
            "arith.maximumf" if is_constant(operand(op, 1), f64::from(f32::MIN)) => {
                Expr::Op(CLAMPED, parts(&[0], self))
            }
            _ => Expr::Other,
        }
    }
}
fn is_true(v: V) -> bool {
    let value = def(v).filter(|d| name(*d) == "arith.constant").and_then(|d| bool_attr(d, "value"));
    value == Some(true)
}
fn is_constant(v: V, x: f64) -> bool {
    let value = def(v).filter(|d| name(*d) == "arith.constant").and_then(|d| attr(d, "value"));
    value.and_then(|a| melior::ir::attribute::FloatAttribute::try_from(a).ok()).is_some_and(|a| a.value() == x)
}

/// What stands between q, k, v and the result and is read by nobody else; `None` if something of it is.
fn inner(f: &Grouper, w: &Weights, out: Node) -> Option<BTreeSet<Node>> {
    let view = f.view;
    let (max, sum) = (w.max, w.sum);
    let mut inner = BTreeSet::from([max, sum]);
    // What the weights are made from, as long as it leads there alone.
    let mut next: Vec<Node> = view.nodes[out].reads.iter().filter_map(|v| view.values[*v].def).collect();
    next.extend([max, sum].iter().flat_map(|n| &view.nodes[*n].reads).filter_map(|v| view.values[*v].def));
    let mut seen = HashSet::new();
    let mut scores = 0;
    while let Some(n) = next.pop() {
        if !seen.insert(n) || n == max || n == sum {
            continue;
        }
        let kind = view.nodes[n].kind;
        let alone = view.nodes[n].results.iter().all(|v| leads_to(f, *v, &[max, sum, out]));
        let is_heavy = matches!(kind, Kind::Reduce | Kind::Contraction);
        if is_heavy && alone && view.is_sum_of_products(n) && reaches(view, n, max) {
            scores += 1;
            inner.insert(n);
        } else if kind == Kind::Map {
            if alone {
                inner.insert(n);
            }
            next.extend(view.nodes[n].reads.iter().filter_map(|v| view.values[*v].def));
        }
    }
    let alone = |n: &Node| view.nodes[*n].results.iter().all(|v| leads_to(f, *v, &[max, sum, out]));
    let exclusive = w.is_part || [max, sum].iter().all(alone);
    (exclusive && scores == 1).then_some(inner)
}
/// Whether all that reads `v` is, perhaps through elementwise ops, among `ends`.
fn leads_to(f: &Grouper, v: Val, ends: &[Node]) -> bool {
    let view = f.view;
    let (mut next, mut seen) = (vec![v], HashSet::new());
    while let Some(v) = next.pop() {
        if f.wanted[v] {
            return false;
        }
        for r in view.values[v].readers.iter().filter(|r| !ends.contains(r)) {
            if view.nodes[*r].kind != Kind::Map {
                return false;
            }
            if seen.insert(*r) {
                next.extend(&view.nodes[*r].results);
            }
        }
    }
    true
}
/// Whether elementwise ops lead from `from` to `to`.
fn reaches(view: &View, from: Node, to: Node) -> bool {
    let (mut next, mut seen) = (vec![from], HashSet::new());
    while let Some(n) = next.pop() {
        if n == to {
            return true;
        }
        if seen.insert(n) && (n == from || view.nodes[n].kind == Kind::Map) {
            next.extend(view.nodes[n].results.iter().flat_map(|v| view.values[*v].readers.iter().copied()));
        }
    }
    false
}
