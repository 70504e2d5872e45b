//! What every emitter writes kernels with: constants once a kernel at its start, index arithmetic and values once a scope,
//! regions that open a scope, loads and stores that become vectors where the lanes of an index are neighbours.
//!
//! A value may be used where it dominates: [`Em`] keeps one memo for each open region and looks through all of them, so
//! that nothing is computed twice on a path and nothing escapes from a branch.

use super::{
    attention::Split,
    index::{Indices, Ix, Kind},
    stage::Staged,
};
use crate::ir::*;
use melior::{
    Context,
    ir::{Attribute, Type, attribute::IntegerAttribute},
};
use std::collections::HashMap;

/// Bytes of the widest load.
const WIDEST: i64 = 16;

/// One value for each lane, or one for all of them.
pub type Lanes<'c> = Vec<V<'c>>;

#[derive(Default)]
struct Scope<'c> {
    values: HashMap<(usize, Vec<Ix>), Lanes<'c>>,
    /// The same of what is only fetched: stand-ins, kept so that nothing is walked through twice.
    fetched: HashMap<(usize, Vec<Ix>), Lanes<'c>>,
    indices: HashMap<Ix, V<'c>>,
    /// Vectors of a memref at a multiple of their length.
    vectors: HashMap<(usize, Ix), V<'c>>,
    /// Integers by what makes them: equal ones are one value, so that indices made from them are equal.
    integers: HashMap<(&'c str, Vec<usize>), V<'c>>,
}

/// The state of one kernel's emission.
pub struct Em<'c> {
    pub ix: Indices<'c>,
    /// Inserts at the start of the kernel.
    head: B<'c>,
    constants: HashMap<(usize, usize), V<'c>>,
    scopes: Vec<Scope<'c>>,
    /// Flat memref of each tensor that lives in memory, by value.
    pub buffers: HashMap<usize, V<'c>>,
    /// Values that the emitter has computed itself and that are read only at the indices that go with them.
    pub heroes: HashMap<usize, Vec<(Vec<Ix>, Lanes<'c>)>>,
    /// Tensors of which the workgroup keeps all elements in its memory.
    pub staged: HashMap<usize, Staged<'c>>,
    /// What values of a narrow float type are in f32, where they are known to be exact.
    pub exact: HashMap<usize, V<'c>>,
    pub narrowed: Vec<V<'c>>,
    /// Where values were evaluated last, for those that are asked about.
    pub watched: HashMap<usize, Option<(Vec<Ix>, Lanes<'c>)>>,
    /// Vectors are loaded and nothing is computed from them yet.
    is_fetching: bool,
    /// A reduction that several threads do together.
    pub split: Option<Split<'c>>,
    /// Single elements are taken from vectors of this length where they can be: others will want the rest.
    pub vectors_across: Option<i64>,
    /// The largest magnitude of an index that was computed.
    pub farthest: i64,
}

impl<'c> Em<'c> {
    /// `first` is the first op of the kernel's body: constants go before it.
    pub fn new(c: &'c Context, first: O<'c>) -> Self {
        Em {
            ix: Indices::default(),
            head: B::before(c, first),
            constants: HashMap::new(),
            scopes: vec![Scope::default()],
            buffers: HashMap::new(),
            heroes: HashMap::new(),
            staged: HashMap::new(),
            exact: HashMap::new(),
            narrowed: vec![],
            watched: HashMap::new(),
            is_fetching: false,
            split: None,
            vectors_across: None,
            farthest: 0,
        }
    }
    /// What is known of `value` at `at`.
    pub fn recall(&mut self, value: V<'c>, at: &[Ix]) -> Option<Lanes<'c>> {
        if let Some(known) = self.heroes.get(&key(value)) {
            let (index, lanes) = match &known[..] {
                [one] => one.clone(),
                // Of the rows of an orbit, the one that is meant; what is padded may be read at another, in vain.
                all => all.iter().find(|(i, _)| i == at).cloned()?,
            };
            // A hero of many lanes may be asked for one of them.
            let lane = (lanes.len() > 1 && at.iter().all(|i| self.ix.lanes(*i) == 1)).then(|| {
                (0..lanes.len()).find(|k| index.iter().zip(at).all(|(i, j)| self.ix.at_lane(*i, *k as i64) == *j))
            });
            return Some(match lane.flatten() {
                Some(k) => vec![lanes[k]],
                None => lanes,
            });
        }
        self.remembered(value, at)
    }
    pub fn remembered(&self, value: V<'c>, at: &[Ix]) -> Option<Lanes<'c>> {
        let k = (key(value), at.to_vec());
        let held = |s: &Scope<'c>| {
            let fetched = || s.fetched.get(&k).filter(|_| self.is_fetching);
            s.values.get(&k).or_else(fetched).cloned()
        };
        self.scopes.iter().rev().find_map(held)
    }
    pub fn remember(&mut self, value: V<'c>, at: &[Ix], lanes: &Lanes<'c>) {
        if self.is_fetching {
            self.scope().fetched.insert((key(value), at.to_vec()), lanes.clone());
        } else {
            self.remember_always(value, at, lanes);
        }
    }
    pub fn remember_always(&mut self, value: V<'c>, at: &[Ix], lanes: &Lanes<'c>) {
        self.scope().values.insert((key(value), at.to_vec()), lanes.clone());
    }
    /// What was evaluated of these values is no longer so.
    pub fn forget(&mut self, values: &std::collections::HashSet<usize>) {
        for s in &mut self.scopes {
            s.values.retain(|(value, _), _| !values.contains(value));
        }
    }
    fn scope(&mut self) -> &mut Scope<'c> {
        self.scopes.last_mut().expect("the kernel's own scope stays")
    }
    /// What `f` emits goes into a region of its own.
    pub fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        self.scopes.push(Scope::default());
        let result = f(self);
        self.scopes.pop();
        result
    }

    /// The integer that `make` computes by op `name` from `operands`, once a scope.
    pub fn integer(&mut self, name: &'c str, operands: &[V<'c>], t: Type<'c>, make: impl FnOnce() -> V<'c>) -> V<'c> {
        let mut by: Vec<usize> = operands.iter().map(|v| key(*v)).collect();
        by.push(t.to_raw().ptr as usize);
        let known = (name, by);
        if let Some(v) = self.scopes.iter().rev().find_map(|s| s.integers.get(&known)) {
            return *v;
        }
        let v = make();
        self.scope().integers.insert(known, v);
        v
    }
    /// Loads the vectors of tensor `x` at `at`; what is made of them is computed where it is needed.
    pub fn fetch(&mut self, b: &B<'c>, x: V<'c>, at: &[Ix]) {
        self.is_fetching = true;
        self.eval(b, x, at);
        self.is_fetching = false;
        self.scopes.iter_mut().for_each(|s| s.fetched.clear());
    }

    pub fn constant(&mut self, a: Attribute<'c>, t: Type<'c>) -> V<'c> {
        let head = self.head;
        *self.constants.entry((a.to_raw().ptr as usize, t.to_raw().ptr as usize)).or_insert_with(|| head.constant(a, t))
    }
    pub fn int(&mut self, t: Type<'c>, x: i64) -> V<'c> {
        self.constant(IntegerAttribute::new(t, x).into(), t)
    }
    pub fn index(&mut self, x: i64) -> V<'c> {
        let t = self.head.index();
        self.int(t, x)
    }
    /// 0 of an integer or float type.
    pub fn zero(&mut self, t: Type<'c>) -> V<'c> {
        let a = self.head.attr(&if is_float(t) { format!("0.0 : {t}") } else { format!("0 : {t}") });
        self.constant(a, t)
    }

    /// The SSA form of an index expression of one lane.
    pub fn ssa(&mut self, b: &B<'c>, e: Ix) -> V<'c> {
        if let Some(k) = self.ix.as_constant(e) {
            return self.index(k);
        }
        if let Some(v) = self.scopes.iter().rev().find_map(|s| s.indices.get(&e)) {
            return *v;
        }
        self.farthest = self.farthest.max(self.ix.magnitude(e).unwrap_or(0));
        let sum = self.ix.sum(e).clone();
        let v = if sum.constant != 0 && !(sum.terms.len() == 1 && sum.terms[0].1 < 0) {
            let base = self.ix.add_constant(e, -sum.constant);
            let (base, k) = (self.ssa(b, base), self.index(sum.constant));
            b.addi(base, k)
        } else {
            let mut v: Option<V> = (sum.constant != 0).then(|| self.index(sum.constant));
            // Positive factors first: a negative one is then a subtraction.
            let (plus, minus): (Vec<_>, Vec<_>) = sum.terms.into_iter().partition(|t| t.1 > 0);
            for (atom, f) in plus.into_iter().chain(minus) {
                let x = self.atom(b, atom);
                let x = if f.abs() == 1 {
                    x
                } else {
                    let f = self.index(f.abs());
                    b.muli(x, f)
                };
                v = Some(match v {
                    None if f > 0 => x,
                    None => {
                        let zero = self.index(0);
                        b.same("arith.subi", &[zero, x])
                    }
                    Some(v) if f > 0 => b.addi(v, x),
                    Some(v) => b.same("arith.subi", &[v, x]),
                });
            }
            v.expect("no constant, so at least one term")
        };
        self.scope().indices.insert(e, v);
        v
    }
    fn atom(&mut self, b: &B<'c>, atom: super::index::Atom) -> V<'c> {
        let (op, e, c) = match self.ix.kind(atom) {
            Kind::Value(v) => return v,
            Kind::Lane(_) => unreachable!("an index of many lanes has no single SSA form"),
            Kind::Div(e, c) => ("arith.divui", e, c),
            Kind::Rem(e, c) => ("arith.remui", e, c),
        };
        let whole = match op {
            "arith.divui" => self.ix.div(e, c),
            _ => self.ix.rem(e, c),
        };
        if let Some(v) = self.scopes.iter().rev().find_map(|s| s.indices.get(&whole)) {
            return *v;
        }
        let (x, c) = (self.ssa(b, e), self.index(c));
        let v = b.same(op, &[x, c]);
        self.scope().indices.insert(whole, v);
        v
    }

    pub fn if_else(
        &mut self,
        b: &B<'c>,
        condition: V<'c>,
        types: &[Type<'c>],
        f: impl FnOnce(&mut Self, &B<'c>) -> Vec<V<'c>>,
        g: impl FnOnce(&mut Self, &B<'c>) -> Vec<V<'c>>,
    ) -> Vec<V<'c>> {
        let this = std::cell::RefCell::new(self);
        b.if_else(
            condition,
            types,
            |b| this.borrow_mut().scoped(|em| f(em, b)),
            |b| this.borrow_mut().scoped(|em| g(em, b)),
        )
    }
    pub fn if_then(&mut self, b: &B<'c>, condition: V<'c>, f: impl FnOnce(&mut Self, &B<'c>)) {
        b.if_then(condition, |b| self.scoped(|em| f(em, b)));
    }
    /// `f` under `e < bound`, without a condition where that is known.
    pub fn if_below(&mut self, b: &B<'c>, e: Ix, bound: i64, f: impl FnOnce(&mut Self, &B<'c>)) {
        if self.ix.range(e).1 < bound {
            return f(self, b);
        }
        let (x, n) = (self.ssa(b, e), self.index(bound));
        let condition = b.cmpi("ult", x, n);
        self.if_then(b, condition, f);
    }
    /// A loop over 0 .. bound-1 with carried values; none where there is one turn.
    pub fn for_each(
        &mut self,
        b: &B<'c>,
        bound: i64,
        init: &[V<'c>],
        f: impl FnOnce(&mut Self, &B<'c>, Ix, &[V<'c>]) -> Vec<V<'c>>,
    ) -> Vec<V<'c>> {
        if bound == 1 {
            let zero = self.ix.constant(0);
            return f(self, b, zero, init);
        }
        let (zero, one, n) = (self.index(0), self.index(1), self.index(bound));
        b.for_loop(zero, n, one, init, |b, i, carried| {
            self.scoped(|em| {
                let i = em.ix.value(i, (0, (bound - 1).max(0)));
                f(em, b, i, carried)
            })
        })
    }

    /// Elements of a flat memref: one load of a vector where the lanes are aligned neighbours.
    pub fn load(&mut self, b: &B<'c>, memory: V<'c>, at: Ix) -> Lanes<'c> {
        let n = self.ix.lanes(at);
        let e = elem(memory.r#type());
        if n > 1
            && let Some(first) = self.ix.aligned_run(at)
        {
            let v = self.vector(b, memory, first, n);
            if self.is_fetching {
                return vec![self.zero(e); n as usize];
            }
            return (0..n).map(|k| extract(b, v, k)).collect();
        }
        (0..n)
            .map(|k| {
                let at = self.ix.at_lane(at, k);
                let whole = |n: &i64| n * elem_bytes(e) <= WIDEST && elements(memory.r#type()) % n == 0;
                if let Some(n) = self.vectors_across.filter(whole)
                    && let Some((first, k)) = self.ix.aligned_part(at, n)
                {
                    let v = self.vector(b, memory, first, n);
                    return extract(b, v, k);
                }
                let at = self.ssa(b, at);
                b.op1("memref.load", &[memory, at], e, &[])
            })
            .collect()
    }
    fn vector(&mut self, b: &B<'c>, memory: V<'c>, first: Ix, n: i64) -> V<'c> {
        let known = (key(memory), first);
        if let Some(v) = self.scopes.iter().rev().find_map(|s| s.vectors.get(&known))
            && vector_len(v.r#type()) == Some(n)
        {
            return *v;
        }
        let e = elem(memory.r#type());
        let at = self.ssa(b, first);
        let alignment = b.i64_attr(n * elem_bytes(e));
        let v = b.op1("vector.load", &[memory, at], b.vector(n, e), &[("alignment", alignment)]);
        self.scope().vectors.insert(known, v);
        v
    }
    /// The counterpart of [`Em::load`]; every lane of `at` is written.
    pub fn store(&mut self, b: &B<'c>, memory: V<'c>, at: Ix, lanes: &Lanes<'c>) {
        let n = self.ix.lanes(at);
        let e = elem(memory.r#type());
        let lane = |k: i64| if lanes.len() == 1 { lanes[0] } else { lanes[k as usize] };
        if n > 1
            && let Some(first) = self.ix.aligned_run(at)
        {
            let first = self.ssa(b, first);
            let all: Vec<V> = (0..n).map(lane).collect();
            let v = b.op1("vector.from_elements", &all, b.vector(n, e), &[]);
            b.op("vector.store", &[v, memory, first], &[], &[("alignment", b.i64_attr(n * elem_bytes(e)))], vec![]);
            return;
        }
        for k in 0..n {
            let at = self.ix.at_lane(at, k);
            let at = self.ssa(b, at);
            b.op("memref.store", &[lane(k), memory, at], &[], &[], vec![]);
        }
    }
}
fn extract<'c>(b: &B<'c>, vector: V<'c>, k: i64) -> V<'c> {
    b.op1("vector.extract", &[vector], elem(vector.r#type()), &[("static_position", b.i64s(&[k]))])
}
