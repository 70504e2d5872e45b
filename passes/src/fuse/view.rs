//! A block of tensor ops, read once into plain data: what kind each op is, what it reads and at which index, what it
//! costs. The decisions in `group` are made on this alone. It must not decide anything.

use super::index::{Ix, Table, own};
use crate::ir::*;
use melior::ir::AffineExpr;
use std::collections::HashMap;

/// Number of a value in [`View::values`].
pub type Val = usize;
/// Number of an op in [`View::nodes`].
pub type Node = usize;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Splat or scalar constant, `tensor.empty`, fill: free wherever it is needed.
    Constant,
    /// Elementwise, reshape, slice, pad, concatenate: may be computed again in every reader.
    Map,
    /// A reduction over loops of its own, one value for each element of the result.
    Reduce,
    /// A multiply-add contraction that has m and n loops.
    Contraction,
    /// A reduction with other index maps (small or depthwise convolution, pooling), or a search.
    Window,
    /// A running reduction, `zml.scan`.
    Scan,
    /// `zml.dynamic_update_slice`
    Update,
    /// Any other op on tensors: a dispatch of its own.
    Special,
    /// Stays where it is: control flow, its glue, the terminator, non-splat constants, a `tensor.empty` to be filled in place.
    Host,
}
impl Kind {
    /// Has loops of its own, so is never computed twice.
    pub fn heavy(self) -> bool {
        matches!(self, Kind::Reduce | Kind::Contraction | Kind::Window | Kind::Scan)
    }
}

/// One coordinate of an indexing map over loops.
#[derive(Clone, PartialEq, Debug)]
pub enum Coordinate {
    Loop(usize),
    /// Sum of loops with factors, and a constant.
    Sum(Vec<(usize, i64)>, i64),
    Unknown,
}

enum Form {
    /// Nothing that can be followed; every read may be anywhere.
    Opaque,
    /// Loops, the loop of each result dimension, and operands with their maps. Captured tensors are read anywhere.
    Loops {
        extents: Vec<i64>,
        reduces: Vec<bool>,
        out: Vec<usize>,
        operands: Vec<(Val, Vec<Coordinate>)>,
        captured: Vec<Val>,
    },
    Reshape(Val),
    Slice {
        from: Val,
        offsets: Vec<i64>,
        strides: Vec<i64>,
    },
    Pad {
        from: Val,
        low: Vec<i64>,
    },
    Concat {
        dim: usize,
        parts: Vec<Val>,
    },
    /// Seen from an element of the update.
    Update {
        update: Val,
        starts: Vec<Val>,
    },
}

pub struct Op<'c> {
    pub op: O<'c>,
    pub kind: Kind,
    pub results: Vec<Val>,
    /// Values of the block that it or anything in it reads, once each.
    pub reads: Vec<Val>,
    form: Form,
    /// Rough scalar operations for one element, or for one turn of its reduction.
    pub cost: u64,
    /// m, n of a contraction.
    pub tile: (i64, i64),
    /// StableHLO name.
    pub label: &'c str,
}

pub struct Value<'c> {
    pub value: V<'c>,
    pub shape: Vec<i64>,
    pub def: Option<Node>,
    pub readers: Vec<Node>,
}
impl Value<'_> {
    pub fn elements(&self) -> i64 {
        self.shape.iter().product()
    }
}

pub struct View<'c> {
    pub nodes: Vec<Op<'c>>,
    pub values: Vec<Value<'c>>,
}

impl<'c> View<'c> {
    pub fn of(block: Blk<'c>) -> Self {
        let mut view = View { nodes: vec![], values: vec![] };
        let mut known: HashMap<usize, Val> = HashMap::new();
        let all = ops(block);
        for (node, op) in all.iter().enumerate() {
            let mut number = |view: &mut View<'c>, v: V<'c>| {
                *known.entry(key(v)).or_insert_with(|| {
                    view.values.push(Value { value: v, shape: shape(v.r#type()), def: None, readers: vec![] });
                    view.values.len() - 1
                })
            };
            let read = reads_outside(*op);
            let reads: Vec<Val> = read.iter().map(|v| number(&mut view, *v)).collect();
            let results: Vec<Val> = results(*op).into_iter().map(|v| number(&mut view, v)).collect();
            for r in &reads {
                view.values[*r].readers.push(node);
            }
            for r in &results {
                view.values[*r].def = Some(node);
            }
            let (kind, tile) = kind(*op);
            let form = form(*op, &mut |v| number(&mut view, v));
            view.nodes.push(Op {
                op: *op,
                kind,
                results,
                reads,
                form,
                cost: cost(*op),
                tile,
                label: str_attr(*op, "zml.op").unwrap_or_default(),
            });
        }
        for node in 0..view.nodes.len() {
            // A buffer that only in-place writes fill.
            let n = &view.nodes[node];
            if name(n.op) == "tensor.empty"
                && view.values[n.results[0]].readers.iter().any(|r| view.updates(*r) == Some(n.results[0]))
            {
                view.nodes[node].kind = Kind::Host;
            }
        }
        view
    }
    /// The operand that an update writes into.
    pub fn updates(&self, node: Node) -> Option<Val> {
        let n = &self.nodes[node];
        (n.kind == Kind::Update).then(|| n.reads[0])
    }
    /// The shape whose elements the op computes one by one: of the update for an update, else of its first result.
    pub fn space(&self, node: Node) -> &[i64] {
        match self.nodes[node].form {
            Form::Update { update, .. } => &self.values[update].shape,
            _ => &self.values[self.nodes[node].results[0]].shape,
        }
    }
    pub fn elements(&self, node: Node) -> i64 {
        self.space(node).iter().product()
    }
    /// What computing the op's element at `index` reads, and where.
    pub fn operands_at(&self, node: Node, index: &[Ix], t: &mut Table) -> Vec<(Val, Vec<Ix>)> {
        let n = &self.nodes[node];
        let anywhere = |v: Val, t: &mut Table| (v, self.values[v].shape.iter().map(|_| t.unknown()).collect());
        match &n.form {
            Form::Opaque => n.reads.iter().map(|v| anywhere(*v, t)).collect(),
            Form::Loops { extents, reduces, out, operands, captured } => {
                let mut at = vec![Ix::Const(0); extents.len()];
                for (i, extent) in extents.iter().enumerate() {
                    if reduces[i] {
                        at[i] = t.reduction(*extent);
                    }
                }
                for (i, x) in out.iter().zip(index) {
                    at[*i] = *x;
                }
                let mut found: Vec<(Val, Vec<Ix>)> = vec![];
                for (v, map) in operands {
                    let ix = map.iter().map(|c| match c {
                        Coordinate::Loop(i) => at[*i],
                        Coordinate::Sum(terms, c) => {
                            t.sum(&terms.iter().map(|(i, f)| (at[*i], *f)).collect::<Vec<_>>(), *c)
                        }
                        Coordinate::Unknown => t.unknown(),
                    });
                    let ix = ix.collect();
                    found.push((*v, ix));
                }
                found.extend(captured.iter().map(|v| anywhere(*v, t)));
                found
            }
            Form::Reshape(from) => {
                let flat = t.flat(index, &self.values[n.results[0]].shape);
                vec![(*from, t.unflat(flat, &self.values[*from].shape))]
            }
            Form::Slice { from, offsets, strides } => {
                vec![(
                    *from,
                    index.iter().zip(offsets.iter().zip(strides)).map(|(x, (o, s))| t.sum(&[(*x, *s)], *o)).collect(),
                )]
            }
            Form::Pad { from, low } => {
                vec![(*from, index.iter().zip(low).map(|(x, l)| t.sum(&[(*x, 1)], -l)).collect())]
            }
            Form::Concat { dim, parts } => {
                let mut offset = 0;
                let mut found = vec![];
                for v in parts {
                    let (first, n) = (offset, self.values[*v].shape[*dim]);
                    offset += n;
                    // Of a row of an orbit only the parts that it may lie in: its others need the rest.
                    if !t.orbits || t.range(index[*dim]).is_none_or(|(lo, hi)| lo < first + n && hi >= first) {
                        let mut ix = index.to_vec();
                        ix[*dim] = t.sum(&[(ix[*dim], 1)], -first);
                        found.push((*v, ix));
                    }
                }
                found
            }
            Form::Update { update, starts } => {
                let mut found = vec![(*update, index.to_vec())];
                found.extend(starts.iter().map(|v| (*v, vec![])));
                found
            }
        }
    }
    /// Whether an op reads everything at its own index.
    pub fn is_plain(&self, node: Node) -> bool {
        match &self.nodes[node].form {
            Form::Loops { reduces, operands, captured, .. } => {
                let own = |m: &[Coordinate]| m.iter().enumerate().all(|(i, c)| *c == Coordinate::Loop(i));
                captured.is_empty() && !reduces.contains(&true) && operands.iter().all(|(_, m)| own(m))
            }
            _ => false,
        }
    }
    /// Whether what an element is depends on where it is.
    pub fn branches(&self, node: Node) -> bool {
        matches!(self.nodes[node].form, Form::Pad { .. } | Form::Concat { .. })
    }
    /// Elements that one result of a heavy op is reduced from.
    pub fn turns(&self, node: Node) -> i64 {
        match &self.nodes[node].form {
            Form::Loops { extents, reduces, .. } => {
                extents.iter().zip(reduces).filter(|x| *x.1).fold(1, |n, x| n.saturating_mul(*x.0))
            }
            _ => 1,
        }
    }
    /// If the op takes one of several equal runs, or every n-th element, of a dimension of a value with `rows` elements:
    /// how many such parts there are, and how many elements apart they lie.
    pub fn part(&self, node: Node, rows: i64) -> Option<(i64, i64)> {
        let Form::Slice { from, strides, .. } = &self.nodes[node].form else { return None };
        let (whole, part) = (&self.values[*from].shape, &self.values[self.nodes[node].results[0]].shape);
        let d = (0..whole.len()).find(|d| whole[*d] != part[*d])?;
        let after: i64 = whole[d + 1..].iter().product();
        if part[d] == 0 || whole[d] % part[d] != 0 || whole.iter().product::<i64>() != rows {
            return None;
        }
        let apart = if strides[d] == 1 { part[d] * after } else { after };
        Some((whole[d] / part[d], apart))
    }
    /// Whether a reduction is a sum of products or the like: a generic, whose rows may read a vector in common.
    pub fn is_generic_reduction(&self, node: Node) -> bool {
        self.nodes[node].kind == Kind::Reduce && name(self.nodes[node].op) == "linalg.generic"
    }
    /// Whether a reduction has one accumulator and one op that joins.
    pub fn is_by_one_op(&self, node: Node) -> bool {
        let op = self.nodes[node].op;
        op.result_count() == 1 && name(op) == "linalg.reduce" && ops(block(op, 0)).len() == 2
    }
    pub fn is_sum_of_products(&self, node: Node) -> bool {
        Generic::of(self.nodes[node].op).is_some_and(|g| super::contraction::of(&g).is_some_and(|c| c.projects))
    }
    /// What a reduction reads at places that depend on its reduction loops alone, seen through reshapes.
    pub fn shared(&self, node: Node) -> Vec<Val> {
        let mut t = Table::default();
        let all = self.operands_at(node, &self.own(node), &mut t);
        let all =
            all.into_iter().filter(|(v, ix)| self.values[*v].elements() > 1 && ix.iter().all(|x| t.is_shared(*x)));
        all.map(|(v, _)| self.behind_reshapes(v)).collect()
    }
    /// Whether a reduction reads `v` only so.
    pub fn is_shared(&self, node: Node, v: Val) -> bool {
        let mut t = Table::default();
        let all = self.operands_at(node, &self.own(node), &mut t);
        all.iter().filter(|(w, _)| *w == v).all(|(_, ix)| ix.iter().all(|x| t.is_shared(*x)))
    }
    pub fn behind_reshapes(&self, v: Val) -> Val {
        match self.values[v].def.map(|d| &self.nodes[d].form) {
            Some(Form::Reshape(from)) => self.behind_reshapes(*from),
            _ => v,
        }
    }
    /// The index of the op's own element `f`.
    pub fn own(&self, node: Node) -> Vec<Ix> {
        own(self.space(node))
    }
}

/// Tensors and scalars from outside that the op or anything in it reads, the operands of the op itself first.
fn reads_outside<'c>(op: O<'c>) -> Vec<V<'c>> {
    let inside: std::collections::HashSet<usize> = walk(op)
        .into_iter()
        .flat_map(|o| {
            let mut own: Vec<usize> = results(o).iter().map(|v| key(*v)).collect();
            own.extend(blocks(o).into_iter().flat_map(args).map(key));
            own
        })
        .collect();
    let mut seen = std::collections::HashSet::new();
    let all = walk(op).into_iter().flat_map(operands);
    all.filter(|v| !inside.contains(&key(*v)) && seen.insert(key(*v))).collect()
}
/// What kind an op is by itself.
pub fn kind_of(op: O) -> Kind {
    kind(op).0
}
fn kind(op: O) -> (Kind, (i64, i64)) {
    let none = (0, 0);
    let k = match name(op) {
        "arith.constant" if is_splat(op) && !has_attr(op, "zml.position") => Kind::Constant,
        "tensor.empty" | "linalg.fill" | "complex.constant" => Kind::Constant,
        "tensor.expand_shape" | "tensor.collapse_shape" | "tensor.extract_slice" | "tensor.pad" | "tensor.concat" => {
            Kind::Map
        }
        "linalg.reduce" => Kind::Reduce,
        "linalg.generic" => {
            let g = Generic::of(op).expect("a generic");
            if g.is_parallel() {
                if searches(op) { Kind::Window } else { Kind::Map }
            } else if let Some(c) = super::contraction::of(&g).filter(super::contraction::Contraction::is_tiled) {
                return (Kind::Contraction, (c.m, c.n));
            } else if follows(&g) {
                Kind::Reduce
            } else {
                Kind::Window
            }
        }
        "zml.dynamic_update_slice" => Kind::Update,
        "zml.scan" => Kind::Scan,
        z if z.starts_with("scf.") || z.starts_with("func.") || z.starts_with("arith.") || z == "tensor.extract" => {
            Kind::Host
        }
        _ => Kind::Special,
    };
    (k, none)
}
/// Whether the body has loops of its own, as a search has.
fn searches(op: O) -> bool {
    walk(op).iter().any(|o| matches!(name(*o), "scf.for" | "scf.while"))
}
/// A constant that is one value everywhere.
fn is_splat(op: O) -> bool {
    let t = result(op, 0).r#type();
    !is_tensor(t) || attr(op, "value").is_some_and(|a| dense_is_splat(a))
}
/// Whether all maps are projections and the result is in loop order.
fn follows(g: &Generic) -> bool {
    let outs: Vec<_> = (0..g.outs.len()).map(|i| coordinates(&g.out_map(i))).collect();
    let ordered = |m: &[Coordinate]| {
        let loops: Vec<usize> =
            m.iter().filter_map(|c| if let Coordinate::Loop(i) = c { Some(*i) } else { None }).collect();
        loops.len() == m.len() && loops.is_sorted()
    };
    let projects =
        |m: &[Coordinate]| m.iter().all(|c| matches!(c, Coordinate::Loop(_)) || *c == Coordinate::Sum(vec![], 0));
    outs.iter().all(|m| ordered(m)) && (0..g.ins.len()).all(|i| projects(&coordinates(&g.in_map(i))))
}
/// The results of a map.
pub fn coordinates(m: &melior::ir::AffineMap) -> Vec<Coordinate> {
    (0..m.result_count()).map(|i| coordinate(m.result(i).expect("in range"))).collect()
}
fn coordinate(e: AffineExpr) -> Coordinate {
    fn add(e: AffineExpr, factor: i64, terms: &mut Vec<(usize, i64)>, constant: &mut i64) -> bool {
        if e.is_dim() {
            terms.push((e.dim_position(), factor));
        } else if e.is_constant() {
            *constant += factor * e.constant_value();
        } else if e.is_add() {
            return add(e.lhs(), factor, terms, constant) && add(e.rhs(), factor, terms, constant);
        } else if e.is_mul() && e.rhs().is_constant() {
            return add(e.lhs(), factor * e.rhs().constant_value(), terms, constant);
        } else {
            return false;
        }
        true
    }
    let (mut terms, mut constant) = (vec![], 0);
    if !add(e, 1, &mut terms, &mut constant) {
        return Coordinate::Unknown;
    }
    match terms[..] {
        [(i, 1)] if constant == 0 => Coordinate::Loop(i),
        _ => Coordinate::Sum(terms, constant),
    }
}

fn form<'c>(op: O<'c>, number: &mut dyn FnMut(V<'c>) -> Val) -> Form {
    let ranks_agree = |op: O<'c>| shape(operand(op, 0).r#type()).len() == shape(result(op, 0).r#type()).len();
    match name(op) {
        "linalg.generic" => {
            let g = Generic::of(op).expect("a generic");
            let out = coordinates(&g.out_map(0));
            let loops: Option<Vec<usize>> =
                out.iter().map(|c| if let Coordinate::Loop(i) = c { Some(*i) } else { None }).collect();
            let Some(out) = loops else { return Form::Opaque };
            let mut operands = vec![];
            for (i, v) in g.ins.iter().enumerate() {
                if is_tensor(v.r#type()) {
                    operands.push((number(*v), coordinates(&g.in_map(i))));
                }
            }
            for (i, v) in g.outs.iter().enumerate() {
                operands.push((number(*v), coordinates(&g.out_map(i))));
            }
            let direct: Vec<usize> = g.ins.iter().chain(&g.outs).map(|v| key(*v)).collect();
            let captured = reads_outside(op).into_iter().filter(|v| is_tensor(v.r#type()));
            // A tensor may be an operand and be captured too; the capture is what cannot be followed.
            let mut captured: Vec<Val> =
                captured.filter(|v| !direct.contains(&key(*v)) || extracted(op, *v)).map(&mut *number).collect();
            captured.dedup();
            Form::Loops { extents: g.bounds(), reduces: g.reduces.clone(), out, operands, captured }
        }
        "linalg.reduce" => {
            let n = op.operand_count() / 2;
            let extents = shape(operand(op, 0).r#type());
            let dims = i64s_attr(op, "dimensions").unwrap_or_default();
            let reduces: Vec<bool> = (0..extents.len()).map(|i| dims.contains(&(i as i64))).collect();
            let out: Vec<usize> = (0..extents.len()).filter(|i| !reduces[*i]).collect();
            let all: Vec<Coordinate> = (0..extents.len()).map(Coordinate::Loop).collect();
            let kept: Vec<Coordinate> = out.iter().map(|i| Coordinate::Loop(*i)).collect();
            let operands = operands(op).into_iter().enumerate();
            let operands = operands.map(|(i, v)| (number(v), if i < n { all.clone() } else { kept.clone() })).collect();
            Form::Loops { extents, reduces, out, operands, captured: vec![] }
        }
        "zml.scan" => {
            // Each element of an input is evaluated once, as if at the result's own.
            let all = operands(op);
            let (inputs, inits) = all.split_at(all.len() / 2);
            let extents = shape(inputs[0].r#type());
            let d = int_attr(op, "dimension").unwrap_or_default() as usize;
            let own: Vec<usize> = (0..extents.len()).collect();
            let at = |skip: Option<usize>| -> Vec<Coordinate> {
                own.iter().filter(|i| Some(**i) != skip).map(|i| Coordinate::Loop(*i)).collect()
            };
            let inputs = inputs.iter().map(|v| (*v, at(None)));
            let all: Vec<(V, Vec<Coordinate>)> = inputs.chain(inits.iter().map(|v| (*v, at(Some(d))))).collect();
            let operands = all.into_iter().map(|(v, at)| (number(v), at)).collect();
            let reduces = vec![false; extents.len()];
            Form::Loops { extents, reduces, out: own.clone(), operands, captured: vec![] }
        }
        "tensor.expand_shape" | "tensor.collapse_shape" => Form::Reshape(number(operand(op, 0))),
        "tensor.extract_slice" if ranks_agree(op) => Form::Slice {
            from: number(operand(op, 0)),
            offsets: i64s_attr(op, "static_offsets").unwrap_or_default(),
            strides: i64s_attr(op, "static_strides").unwrap_or_default(),
        },
        "tensor.pad" => {
            Form::Pad { from: number(operand(op, 0)), low: i64s_attr(op, "static_low").unwrap_or_default() }
        }
        "tensor.concat" => Form::Concat {
            dim: int_attr(op, "dim").unwrap_or_default() as usize,
            parts: operands(op).into_iter().map(number).collect(),
        },
        "zml.dynamic_update_slice" => Form::Update {
            update: number(operand(op, 1)),
            starts: operands(op)[2..].iter().map(|v| number(*v)).collect(),
        },
        _ => Form::Opaque,
    }
}
fn extracted<'c>(op: O<'c>, v: V<'c>) -> bool {
    walk(op).into_iter().any(|o| name(o) == "tensor.extract" && key(operand(o, 0)) == key(v))
}

/// Rough count of scalar operations in an op's regions; a copy costs nothing, but each further place of one tensor that is
/// read does, as in a sum of parts.
fn cost(op: O) -> u64 {
    const PLACE: u64 = 4;
    let all = walk(op);
    let body = all[1..].iter();
    body.map(|o| match name(*o) {
        "linalg.yield" | "linalg.index" | "tensor.yield" | "arith.constant" => 0,
        "arith.divf" | "arith.divsi" | "arith.divui" | "arith.remsi" | "arith.remui" | "math.sqrt" | "math.rsqrt" => 4,
        n if n.starts_with("math.")
            && !matches!(n, "math.absf" | "math.fma" | "math.copysign" | "math.floor" | "math.ceil") =>
        {
            16
        }
        n if n.starts_with("complex.") => 8,
        _ => 1,
    })
    .sum::<u64>()
        + further_places(op) * PLACE
}
/// Places at which a generic reads tensors beyond one of each.
fn further_places(op: O) -> u64 {
    let Some(g) = Generic::of(op) else { return 0 };
    let mut places: Vec<(usize, Vec<Coordinate>)> = vec![];
    for (i, v) in g.ins.iter().enumerate() {
        let place = (key(*v), coordinates(&g.in_map(i)));
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let tensors: std::collections::HashSet<usize> = places.iter().map(|p| p.0).collect();
    (places.len() - tensors.len()) as u64
}
