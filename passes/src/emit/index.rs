//! Index expressions as data: sums of atoms with constant factors, simplified with what is known of their ranges, and made
//! SSA only where a load, a store or a condition needs them.
//!
//! Why: a flat thread number taken apart into coordinates and put together again by reshapes, slices and maps must come
//! back as the thread number, both for speed and because only then is it visible that four lanes read four neighbours.
//! One atom is the *lane*: an index that contains it stands for n indices at once, lane = 0 .. n-1.
//! Nothing here touches IR.

use crate::ir::{V, key};
use std::collections::HashMap;

/// An interned expression: equal ids are equal expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ix(u32);

/// Position in the table of atoms.
pub type Atom = usize;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sum {
    /// (atom, factor), by atom, no factor 0.
    pub terms: Vec<(Atom, i64)>,
    pub constant: i64,
}

#[derive(Clone, Copy)]
pub enum Kind<'c> {
    Value(V<'c>),
    /// 0 .. lanes-1.
    Lane(i64),
    /// Floor division by a positive constant.
    Div(Ix, i64),
    /// Remainder by a positive constant, never negative.
    Rem(Ix, i64),
}

#[derive(PartialEq, Eq, Hash)]
enum KindKey {
    Value(usize, (i64, i64)),
    Lane(i64),
    Div(Ix, i64),
    Rem(Ix, i64),
}

struct Info<'c> {
    kind: Kind<'c>,
    /// Both ends are included.
    range: (i64, i64),
    /// Whether the range says something at both ends.
    known: bool,
    lanes: i64,
}

/// Bound of an index of which nothing is known; sums of a few of them still fit.
const FAR: i64 = 1 << 56;

#[derive(Default)]
pub struct Indices<'c> {
    sums: Vec<Sum>,
    ids: HashMap<Sum, Ix>,
    atoms: Vec<Info<'c>>,
    atom_ids: HashMap<KindKey, Atom>,
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.abs() } else { gcd(b, a % b) }
}

impl<'c> Indices<'c> {
    fn intern(&mut self, sum: Sum) -> Ix {
        if let Some(id) = self.ids.get(&sum) {
            return *id;
        }
        let id = Ix(u32::try_from(self.sums.len()).expect("fewer than 2^32 index expressions"));
        self.sums.push(sum.clone());
        self.ids.insert(sum, id);
        id
    }
    fn atom(&mut self, kind: Kind<'c>, range: (i64, i64)) -> Ix {
        let (k, lanes) = match kind {
            Kind::Value(v) => (KindKey::Value(key(v), range), 1),
            Kind::Lane(n) => (KindKey::Lane(n), n),
            Kind::Div(e, c) => (KindKey::Div(e, c), self.lanes(e)),
            Kind::Rem(e, c) => (KindKey::Rem(e, c), self.lanes(e)),
        };
        let known = match kind {
            Kind::Value(_) => -FAR < range.0 && range.1 < FAR,
            Kind::Div(e, _) => self.is_known(e),
            Kind::Lane(_) | Kind::Rem(..) => true,
        };
        let next = self.atoms.len();
        let atom = *self.atom_ids.entry(k).or_insert(next);
        if atom == next {
            self.atoms.push(Info { kind, range, known, lanes });
        }
        self.intern(Sum { terms: vec![(atom, 1)], constant: 0 })
    }

    pub fn sum(&self, e: Ix) -> &Sum {
        &self.sums[e.0 as usize]
    }
    pub fn kind(&self, a: Atom) -> Kind<'c> {
        self.atoms[a].kind
    }
    pub fn constant(&mut self, constant: i64) -> Ix {
        self.intern(Sum { terms: vec![], constant })
    }
    pub fn as_constant(&self, e: Ix) -> Option<i64> {
        let s = self.sum(e);
        s.terms.is_empty().then_some(s.constant)
    }
    /// An SSA index that lies in `range` (both ends included).
    pub fn value(&mut self, v: V<'c>, range: (i64, i64)) -> Ix {
        if range.0 == range.1 { self.constant(range.0) } else { self.atom(Kind::Value(v), range) }
    }
    pub fn unknown(&mut self, v: V<'c>) -> Ix {
        self.value(v, (-FAR, FAR))
    }
    /// The lane of a run of `n` indices.
    pub fn lane(&mut self, n: i64) -> Ix {
        if n == 1 { self.constant(0) } else { self.atom(Kind::Lane(n), (0, n - 1)) }
    }
    /// How many indices an expression stands for.
    pub fn lanes(&self, e: Ix) -> i64 {
        self.sum(e).terms.iter().map(|(a, _)| self.atoms[*a].lanes).max().unwrap_or(1)
    }
    pub fn range(&self, e: Ix) -> (i64, i64) {
        self.range_of(self.sum(e))
    }
    fn range_of(&self, s: &Sum) -> (i64, i64) {
        s.terms.iter().fold((s.constant, s.constant), |(lo, hi), (a, f)| {
            let (x, y) = self.atoms[*a].range;
            let (x, y) = (x.saturating_mul(*f), y.saturating_mul(*f));
            (lo.saturating_add(x.min(y)), hi.saturating_add(x.max(y)))
        })
    }
    fn is_known(&self, e: Ix) -> bool {
        self.sum(e).terms.iter().all(|(a, _)| self.atoms[*a].known)
    }
    /// The largest magnitude of `e` and of the sums on the way to it; none if too little is known of its parts.
    pub fn magnitude(&self, e: Ix) -> Option<i64> {
        let s = self.sum(e);
        self.is_known(e).then(|| {
            s.terms.iter().fold(s.constant.saturating_abs(), |sum, (a, f)| {
                let (x, y) = self.atoms[*a].range;
                sum.saturating_add(x.saturating_abs().max(y.saturating_abs()).saturating_mul(f.saturating_abs()))
            })
        })
    }
    pub fn within(&self, e: Ix, extent: i64) -> bool {
        let (lo, hi) = self.range(e);
        lo >= 0 && hi < extent
    }

    pub fn add(&mut self, a: Ix, b: Ix) -> Ix {
        let mut terms = self.sum(a).terms.clone();
        for (atom, f) in self.sum(b).terms.clone() {
            match terms.iter_mut().find(|t| t.0 == atom) {
                Some(t) => t.1 += f,
                None => terms.push((atom, f)),
            }
        }
        let constant = self.sum(a).constant + self.sum(b).constant;
        self.normal(terms, constant)
    }
    pub fn add_constant(&mut self, a: Ix, k: i64) -> Ix {
        let k = self.constant(k);
        self.add(a, k)
    }
    pub fn scale(&mut self, a: Ix, k: i64) -> Ix {
        let s = self.sum(a).clone();
        self.normal(s.terms.into_iter().map(|(a, f)| (a, f * k)).collect(), s.constant * k)
    }
    /// Sorts, drops zeros, and puts quotient and remainder of one expression together again: m*(e mod c) + m*c*(e div c)
    /// is m*e.
    fn normal(&mut self, mut terms: Vec<(Atom, i64)>, constant: i64) -> Ix {
        terms.retain(|t| t.1 != 0);
        terms.sort_unstable();
        for i in 0..terms.len() {
            let (atom, m) = terms[i];
            let Kind::Rem(e, c) = self.atoms[atom].kind else { continue };
            let quotient = self.div(e, c);
            let [(q, 1)] = self.sum(quotient).terms[..] else { continue };
            let Some(j) = terms.iter().position(|t| *t == (q, m * c)) else { continue };
            let rest: Vec<_> = (0..terms.len()).filter(|t| *t != i && *t != j).map(|t| terms[t]).collect();
            let rest = self.normal(rest, constant);
            let whole = self.scale(e, m);
            return self.add(whole, rest);
        }
        self.intern(Sum { terms, constant })
    }
    /// e = c * q + r: whole multiples of c go to q as far as r stays non-negative.
    fn split(&mut self, e: Ix, c: i64) -> (Ix, Sum) {
        let s = self.sum(e).clone();
        let (whole, rest): (Vec<_>, Vec<_>) = s.terms.iter().partition(|t| t.1 % c == 0);
        let k = s.constant.div_euclid(c);
        let r = Sum { terms: rest, constant: s.constant - k * c };
        if self.range_of(&r).0 < 0 {
            return (self.constant(0), s);
        }
        let q = self.normal(whole.into_iter().map(|(a, f)| (a, f / c)).collect(), k);
        (q, r)
    }
    /// For r = g * a + b with 0 <= b < g and g a divisor of c: (g, a, b). `None` if there is no such g.
    fn scaled(&mut self, r: &Sum, c: i64) -> Option<(i64, Ix, Ix)> {
        let mut terms = r.terms.clone();
        terms.sort_by_key(|t| (-t.1.abs(), t.0));
        for n in (1..=terms.len()).rev() {
            let (large, small) = terms.split_at(n);
            let g = large.iter().fold(c, |g, t| gcd(g, t.1));
            let k = r.constant.rem_euclid(g);
            let (lo, hi) = self.range_of(&Sum { terms: small.to_vec(), constant: k });
            if g > 1 && lo >= 0 && hi < g {
                let a = large.iter().map(|(a, f)| (*a, f / g)).collect();
                let a = self.normal(a, (r.constant - k) / g);
                let b = self.normal(small.to_vec(), k);
                return Some((g, a, b));
            }
        }
        None
    }
    /// Floor division by `c` > 0.
    pub fn div(&mut self, e: Ix, c: i64) -> Ix {
        let (q, r) = self.split(e, c);
        let (lo, hi) = self.range_of(&r);
        if lo >= 0 && hi < c {
            return q;
        }
        let rest = if let Some((g, a, _)) = self.scaled(&r, c) {
            self.div(a, c / g)
        } else {
            let e = self.normal(r.terms, r.constant);
            if let [(atom, 1)] = self.sum(e).terms[..]
                && self.sum(e).constant == 0
                && let Kind::Div(inner, d) = self.atoms[atom].kind
            {
                self.div(inner, d * c)
            } else {
                self.atom(Kind::Div(e, c), (lo.div_euclid(c), hi.div_euclid(c)))
            }
        };
        self.add(q, rest)
    }
    /// Remainder by `c` > 0, in 0 .. c-1.
    pub fn rem(&mut self, e: Ix, c: i64) -> Ix {
        let (_, r) = self.split(e, c);
        let (lo, hi) = self.range_of(&r);
        if lo >= 0 && hi < c {
            return self.normal(r.terms, r.constant);
        }
        if let Some((g, a, b)) = self.scaled(&r, c) {
            let a = self.rem(a, c / g);
            let a = self.scale(a, g);
            return self.add(a, b);
        }
        let e = self.normal(r.terms, r.constant);
        self.atom(Kind::Rem(e, c), (0, c - 1))
    }

    /// The expression at lane `k`.
    pub fn at_lane(&mut self, e: Ix, k: i64) -> Ix {
        if self.lanes(e) == 1 {
            return e;
        }
        let s = self.sum(e).clone();
        let mut sum = self.constant(s.constant);
        for (atom, f) in s.terms {
            let x = match self.atoms[atom].kind {
                Kind::Value(v) => self.value(v, self.atoms[atom].range),
                Kind::Lane(_) => self.constant(k),
                Kind::Div(e, c) => {
                    let e = self.at_lane(e, k);
                    self.div(e, c)
                }
                Kind::Rem(e, c) => {
                    let e = self.at_lane(e, k);
                    self.rem(e, c)
                }
            };
            let x = self.scale(x, f);
            sum = self.add(sum, x);
        }
        sum
    }
    /// If the lanes stand for n neighbours whose first is a multiple of n: that first.
    pub fn aligned_run(&mut self, e: Ix) -> Option<Ix> {
        let s = self.sum(e);
        let n = self.lanes(e);
        let mut direct = false;
        for (a, f) in &s.terms {
            match self.atoms[*a].kind {
                Kind::Lane(_) if *f == 1 => direct = true,
                _ if self.atoms[*a].lanes > 1 || f % n != 0 => return None,
                _ => {}
            }
        }
        (direct && s.constant % n == 0).then(|| self.at_lane(e, 0))
    }

    /// e = first + k with `first` a multiple of `n` and 0 <= k < n, if it is seen to be so.
    pub fn aligned_part(&mut self, e: Ix, n: i64) -> Option<(Ix, i64)> {
        let s = self.sum(e);
        let k = s.constant.rem_euclid(n);
        let aligned = s.terms.iter().all(|(a, f)| f % n == 0 && self.atoms[*a].lanes == 1);
        aligned.then(|| (self.add_constant(e, -k), k))
    }
    /// Row-major position of `index` in `shape`.
    pub fn linear(&mut self, index: &[Ix], shape: &[i64]) -> Ix {
        let mut at = self.constant(0);
        for (i, n) in index.iter().zip(shape) {
            at = self.scale(at, *n);
            at = self.add(at, *i);
        }
        at
    }
    /// Index in `shape` of the row-major position `at`, which lies inside.
    pub fn delinear(&mut self, at: Ix, shape: &[i64]) -> Vec<Ix> {
        let mut index = vec![];
        let mut at = at;
        for (d, n) in shape.iter().enumerate().rev() {
            if *n <= 1 {
                index.push(self.constant(0));
            } else if shape[..d].iter().all(|n| *n == 1) {
                index.push(at);
                at = self.constant(0);
            } else {
                index.push(self.rem(at, *n));
                at = self.div(at, *n);
            }
        }
        index.reverse();
        index
    }
}
