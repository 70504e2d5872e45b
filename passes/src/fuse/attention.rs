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
/// Pairs of a query and a position above which tiles of a contraction serve better than rows.
const MOST_PAIRS: i64 = 1 << 18;

pub struct Attention {
    pub max: Node,
    pub out: Node,
    /// Everything else of the group: ops that nobody else reads.
    pub inner: BTreeSet<Node>,
}

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
    let c = contraction::of(&generic)?;
    let e = elem(result(n.op, 0).r#type());
    if !is_float(e) || bits(e) != 32 {
        return None;
    }
    let mut t = Table::default();
    let operands = view.operands_at(out, &view.own(out), &mut t);
    (0..2).find_map(|p| {
        let (value, index) = operands[p].clone();
        let mut trace = Trace { view, t: &mut t, visited: HashMap::new() };
        let expr = trace.expr(value, index, 64);
        let (max, sum, s_at) = weights(view, expr, &trace.visited)?;
        placed(view, out, max, &s_at, &t)?;
        let (mine, kept) = if p == 0 { (c.m, c.n) } else { (c.n, c.m) };
        let pairs = view.elements(max) * view.turns(out);
        if c.batch * mine != view.elements(max) || kept == 0 || kept > MOST_KEPT || pairs > MOST_PAIRS {
            return None;
        }
        let inner = inner(f, max, sum, out)?;
        Some(Attention { max, out, inner })
    })
}

/// From e / l, the reductions and where s is read.
fn weights(view: &View, p: Expr, visited: &HashMap<Val, Vec<Ix>>) -> Option<(Node, Node, Vec<Ix>)> {
    let Expr::Op("arith.divf", parts) = p else { return None };
    let [e, Expr::Leaf(l, l_at)]: [Expr; 2] = parts.try_into().ok()? else { return None };
    let Expr::Op("math.exp", parts) = e else { return None };
    let [d]: [Expr; 1] = parts.try_into().ok()?;
    let Expr::Op("arith.subf", parts) = d else { return None };
    let [Expr::Leaf(s, s_at), Expr::Leaf(m, m_at)]: [Expr; 2] = parts.try_into().ok()? else { return None };
    let (max, sum) = (view.values[m].def?, view.values[l].def?);
    let (max_of, max_dims) = reduction(view, max, "arith.maximumf")?;
    let (sum_of, sum_dims) = reduction(view, sum, "arith.addf")?;
    let without = |at: &[Ix], dims: &[i64]| -> Vec<Ix> {
        (0..at.len()).filter(|d| !dims.contains(&(*d as i64))).map(|d| at[d]).collect()
    };
    let e_at = visited.get(&sum_of)?;
    let agree = max_of == s
        && without(&s_at, &max_dims) == m_at
        && without(e_at, &sum_dims) == l_at
        && view.elements(max) == view.elements(sum)
        && view.turns(max) == view.turns(sum);
    // The sum's elements are the maximum's, perhaps seen through a reshape.
    let same = *e_at == s_at || view.values[sum_of].shape != view.values[s].shape;
    (agree && same).then_some((max, sum, s_at))
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
}
impl Trace<'_, '_, '_> {
    fn expr(&mut self, v: Val, index: Vec<Ix>, depth: u32) -> Expr {
        let view = self.view;
        self.visited.insert(v, index.clone());
        let is_scores =
            view.values[v].readers.iter().any(|r| reduction(view, *r, "arith.maximumf").is_some_and(|x| x.0 == v));
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
            // A maximum with minus infinity changes nothing.
            "arith.maximumf" if is_lowest(operand(op, 0)) => parts(&[1], self).remove(0),
            "arith.maximumf" if is_lowest(operand(op, 1)) => parts(&[0], self).remove(0),
            _ => Expr::Other,
        }
    }
}
fn is_lowest(v: V) -> bool {
    let value = def(v).filter(|d| name(*d) == "arith.constant").and_then(|d| attr(d, "value"));
    value
        .and_then(|a| melior::ir::attribute::FloatAttribute::try_from(a).ok())
        .is_some_and(|a| a.value() == f64::NEG_INFINITY)
}

/// What stands between q, k, v and the result and is read by nobody else; `None` if something of it is.
fn inner(f: &Grouper, max: Node, sum: Node, out: Node) -> Option<BTreeSet<Node>> {
    let view = f.view;
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
    let exclusive = [max, sum].iter().all(|n| view.nodes[*n].results.iter().all(|v| leads_to(f, *v, &[max, sum, out])));
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
