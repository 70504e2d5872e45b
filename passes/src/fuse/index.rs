//! Indices as symbols, to tell at which element of a value an op reads it when it computes one element of its own.
//!
//! A context computes element `f` of some value, f in 0..N. A [`Ix::Digit`] is `f / div % modulus`; going through a
//! reshape turns digits into other digits without loss, so `own element` stays recognisable through any chain of
//! reshapes. What is no digit is interned: equal expressions are equal numbers. Nothing here knows of ops.

use std::collections::HashMap;

/// One coordinate of an index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Ix {
    /// Of an extent of 1, or a constant.
    Const(i64),
    /// `f / div % modulus`.
    Digit { div: i64, modulus: i64 },
    /// Anything else: an entry of the table.
    Other(usize),
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Expr {
    /// A loop of a reduction, or a value that is computed: equal only to itself.
    Fresh(usize),
    /// Sum of coordinates with factors, and a constant.
    Sum(Vec<(Ix, i64)>, i64),
    /// Row-major number of coordinates with their extents.
    Linear(Vec<(Ix, i64)>),
    /// `x / div % modulus`.
    Part(Ix, i64, i64),
}

/// Interned expressions, and on which loops of a reduction each depends.
#[derive(Default)]
pub struct Table {
    /// Rows are followed in orbits: of a concatenation only the part that a row lies in.
    pub orbits: bool,
    seen: HashMap<Expr, usize>,
    exprs: Vec<Expr>,
    /// Product of the extents of the fresh loops that an expression depends on, as a sorted list of them.
    loops: Vec<Vec<(usize, i64)>>,
    fresh: usize,
}

/// Digits of element `f` of a value with this shape.
pub fn own(shape: &[i64]) -> Vec<Ix> {
    let count: i64 = shape.iter().product();
    digits(1, count, shape)
}
/// Index into `shape` of the element that row `p` of an orbit has: the orbits' numbers make up the digits, as if the
/// elements of an orbit's other rows were left out. `orbit`: rows of an orbit, and how far apart they are; `tail`:
/// elements of a row; `unit`: what of them one element of `shape` stands for.
pub fn of_orbit(shape: &[i64], (count, apart): (i64, i64), p: i64, tail: i64, unit: i64, t: &mut Table) -> Vec<Ix> {
    let (inner_end, outer_start) = (apart * tail, count * apart * tail);
    let mut stride = shape.iter().product::<i64>() * unit;
    let mut index = vec![];
    for n in shape {
        if *n <= 1 {
            index.push(Ix::Const(0));
            continue;
        }
        stride /= n;
        let inner = if stride < inner_end { (*n).min(inner_end / stride) } else { 1 };
        let end = stride * n;
        let middle = if stride < outer_start && end > inner_end { count } else { 1 };
        let outer = n / (inner * middle);
        let mut terms = vec![];
        if inner > 1 {
            terms.push((Ix::Digit { div: stride, modulus: inner }, 1));
        }
        if outer > 1 {
            let above = (stride * inner * middle).max(outer_start) / count;
            terms.push((Ix::Digit { div: above, modulus: outer }, inner * middle));
        }
        let constant = if middle > 1 { p * inner } else { 0 };
        index.push(t.sum(&terms, constant));
    }
    index
}
fn digits(div: i64, count: i64, shape: &[i64]) -> Vec<Ix> {
    let mut stride = count;
    shape
        .iter()
        .map(|n| {
            if *n <= 1 {
                return Ix::Const(0);
            }
            stride /= n;
            Ix::Digit { div: div * stride, modulus: *n }
        })
        .collect()
}

impl Table {
    pub fn new(orbits: bool) -> Self {
        Table { orbits, ..Table::default() }
    }
    fn intern(&mut self, e: Expr) -> Ix {
        if let Some(i) = self.seen.get(&e) {
            return Ix::Other(*i);
        }
        let mut loops = vec![];
        match &e {
            Expr::Fresh(_) => {}
            Expr::Sum(xs, _) | Expr::Linear(xs) => xs.iter().for_each(|(x, _)| loops.extend(self.depends(*x))),
            Expr::Part(x, ..) => loops.extend(self.depends(*x)),
        }
        loops.sort_unstable();
        loops.dedup();
        self.exprs.push(e.clone());
        self.loops.push(loops);
        self.seen.insert(e, self.exprs.len() - 1);
        Ix::Other(self.exprs.len() - 1)
    }
    fn depends(&self, x: Ix) -> &[(usize, i64)] {
        match x {
            Ix::Other(i) => &self.loops[i],
            _ => &[],
        }
    }
    /// A new loop of a reduction with this extent.
    pub fn reduction(&mut self, extent: i64) -> Ix {
        if extent == 1 {
            return Ix::Const(0);
        }
        let x = self.unknown();
        if let Ix::Other(i) = x {
            self.loops[i] = vec![(i, extent)];
        }
        x
    }
    /// A coordinate that is read from memory or computed.
    pub fn unknown(&mut self) -> Ix {
        self.fresh += 1;
        self.intern(Expr::Fresh(self.fresh))
    }
    /// How often a thread evaluates something at this index in one element: the product of the reductions it depends on.
    pub fn turns(&self, index: &[Ix]) -> i64 {
        let mut loops: Vec<_> = index.iter().flat_map(|x| self.depends(*x)).collect();
        loops.sort_unstable();
        loops.dedup();
        loops.iter().fold(1, |n, l| n.saturating_mul(l.1))
    }
    pub fn sum(&mut self, terms: &[(Ix, i64)], constant: i64) -> Ix {
        let (mut rest, mut constant): (Vec<(Ix, i64)>, i64) = (vec![], constant);
        let mut add = |x: Ix, factor: i64| match rest.iter_mut().find(|r: &&mut (Ix, i64)| r.0 == x) {
            Some(r) => r.1 += factor,
            None => rest.push((x, factor)),
        };
        for (x, factor) in terms {
            match x {
                Ix::Const(c) => constant += c * factor,
                Ix::Other(i) if let Expr::Sum(inner, c) = &self.exprs[*i] => {
                    constant += c * factor;
                    inner.iter().for_each(|(x, f)| add(*x, f * factor));
                }
                _ => add(*x, *factor),
            }
        }
        rest.retain(|r| r.1 != 0);
        // A digit and the one above it are one.
        rest.sort_unstable_by_key(|r| (r.1, r.0));
        let mut i = 0;
        while i < rest.len() {
            let above = match rest[i] {
                (Ix::Digit { div, modulus }, f) => rest
                    .iter()
                    .position(|r| matches!(r.0, Ix::Digit { div: d, .. } if d == div * modulus) && r.1 == f * modulus),
                _ => None,
            };
            if let (Some(j), (Ix::Digit { div, modulus }, f)) = (above, rest[i])
                && let Ix::Digit { modulus: m, .. } = rest[j].0
            {
                rest[i] = (Ix::Digit { div, modulus: modulus * m }, f);
                rest.remove(j);
                i = 0;
                continue;
            }
            i += 1;
        }
        match rest[..] {
            [] => Ix::Const(constant),
            [(x, 1)] if constant == 0 => x,
            _ => self.intern(Expr::Sum(rest, constant)),
        }
    }
    /// Bounds of a coordinate, both included, where they are known.
    pub fn range(&self, x: Ix) -> Option<(i64, i64)> {
        match x {
            Ix::Const(c) => Some((c, c)),
            Ix::Digit { modulus, .. } => Some((0, modulus - 1)),
            Ix::Other(i) => match &self.exprs[i] {
                Expr::Sum(terms, c) => self.range_of(terms, *c),
                Expr::Linear(parts) => Some((0, parts.iter().map(|p| p.1).product::<i64>() - 1)),
                Expr::Part(_, _, n) => Some((0, n - 1)),
                Expr::Fresh(_) => match self.loops[i][..] {
                    [(own, extent)] if own == i => Some((0, extent - 1)),
                    _ => None,
                },
            },
        }
    }
    fn range_of(&self, terms: &[(Ix, i64)], constant: i64) -> Option<(i64, i64)> {
        terms.iter().try_fold((constant, constant), |(lo, hi), (x, f)| {
            let (a, b) = self.range(*x)?;
            Some((lo + (a * f).min(b * f), hi + (a * f).max(b * f)))
        })
    }
    /// Whether a coordinate is a loop of a reduction itself.
    pub fn is_loop(&self, x: Ix) -> bool {
        matches!(x, Ix::Other(i) if matches!(self.loops[i][..], [(own, _)] if own == i))
    }
    /// The loops of reductions that a coordinate depends on, by number.
    pub fn loops_of(&self, x: Ix) -> Vec<usize> {
        self.depends(x).iter().map(|l| l.0).collect()
    }
    /// The digits that a coordinate depends on.
    pub fn digits_of(&self, x: Ix) -> Vec<Ix> {
        match x {
            Ix::Const(_) => vec![],
            Ix::Digit { .. } => vec![x],
            Ix::Other(i) => match &self.exprs[i] {
                Expr::Fresh(_) => vec![],
                Expr::Sum(xs, _) | Expr::Linear(xs) => xs.iter().flat_map(|(x, _)| self.digits_of(*x)).collect(),
                Expr::Part(x, ..) => self.digits_of(*x),
            },
        }
    }
    /// Whether a coordinate is the same for all elements of the op that is computed.
    pub fn is_shared(&self, x: Ix) -> bool {
        match x {
            Ix::Const(_) => true,
            Ix::Digit { .. } => false,
            Ix::Other(i) => match &self.exprs[i] {
                Expr::Fresh(_) => !self.loops[i].is_empty(),
                Expr::Sum(xs, _) | Expr::Linear(xs) => xs.iter().all(|(x, _)| self.is_shared(*x)),
                Expr::Part(x, ..) => self.is_shared(*x),
            },
        }
    }
    /// Row-major number of an index into `shape`.
    pub fn flat(&mut self, index: &[Ix], shape: &[i64]) -> Ix {
        let mut parts: Vec<(Ix, i64)> = vec![];
        for (x, n) in index.iter().zip(shape) {
            if *n == 1 {
                continue;
            }
            // Two neighbouring digits are one.
            if let (Some((Ix::Digit { div, modulus }, extent)), Ix::Digit { div: d, modulus: m }) =
                (parts.last_mut(), x)
                && *div == d * m
                && m == n
                && modulus == extent
            {
                (*div, *modulus, *extent) = (*d, *modulus * m, *extent * n);
                continue;
            }
            parts.push((*x, *n));
        }
        // Numbers that do not fill their extents are only seen to be alike as sums.
        let is_sum = |(x, n): &(Ix, i64)| match x {
            Ix::Const(c) => *c != 0,
            Ix::Other(i) => matches!(self.exprs[*i], Expr::Sum(..)),
            Ix::Digit { modulus, .. } => modulus != n,
        };
        match parts[..] {
            [] => Ix::Const(0),
            [(x, _)] => x,
            _ if parts.iter().all(|p| p.0 == Ix::Const(0)) => Ix::Const(0),
            _ if parts.iter().any(is_sum) => {
                let mut stride = 1;
                let mut terms = vec![];
                for (x, n) in parts.iter().rev() {
                    terms.push((*x, stride));
                    stride *= n;
                }
                self.sum(&terms, 0)
            }
            _ => self.intern(Expr::Linear(parts)),
        }
    }
    /// The index into `shape` of row-major number `x`.
    pub fn unflat(&mut self, x: Ix, shape: &[i64]) -> Vec<Ix> {
        let count: i64 = shape.iter().product();
        match x {
            Ix::Const(0) => return vec![x; shape.len()],
            Ix::Digit { div, modulus } if modulus == count => return digits(div, count, shape),
            Ix::Other(i) => {
                let found = match self.exprs[i].clone() {
                    Expr::Linear(parts) => self.regroup(x, &parts, shape),
                    Expr::Sum(terms, constant) => self.divide(terms, constant, shape),
                    _ => None,
                };
                if let Some(index) = found {
                    return index;
                }
            }
            _ => {}
        }
        let mut stride = count;
        let mut index = vec![];
        for n in shape {
            if *n <= 1 {
                index.push(Ix::Const(0));
                continue;
            }
            stride /= n;
            index.push(if *n == count { x } else { self.intern(Expr::Part(x, stride, *n)) });
        }
        index
    }
    /// The coordinates of a sum, where its terms are whole multiples of the strides or small beside them.
    fn divide(&mut self, terms: Vec<(Ix, i64)>, constant: i64, shape: &[i64]) -> Option<Vec<Ix>> {
        let mut stride: i64 = shape.iter().product();
        let (mut terms, mut constant) = (terms, constant);
        let mut index = vec![];
        for n in shape {
            if *n <= 1 {
                index.push(Ix::Const(0));
                continue;
            }
            stride /= n;
            let mut split = vec![];
            for (x, f) in terms {
                match x {
                    // A digit that reaches over the stride is two.
                    Ix::Digit { div, modulus }
                        if f > 0
                            && stride % f == 0
                            && f < stride
                            && f * modulus > stride
                            && modulus % (stride / f) == 0 =>
                    {
                        let low = stride / f;
                        split.push((Ix::Digit { div: div * low, modulus: modulus / low }, stride));
                        split.push((Ix::Digit { div, modulus: low }, f));
                    }
                    Ix::Other(_) if f > 0 && stride % f == 0 && f < stride => {
                        let low = stride / f;
                        match self.range(x) {
                            Some((0, hi)) if hi >= low && (hi + 1) % low == 0 => {
                                split.push((self.intern(Expr::Part(x, low, (hi + 1) / low)), stride));
                                split.push((self.intern(Expr::Part(x, 1, low)), f));
                            }
                            _ => split.push((x, f)),
                        }
                    }
                    _ => split.push((x, f)),
                }
            }
            let (whole, small): (Vec<_>, Vec<_>) = split.into_iter().partition(|t| t.1 % stride == 0);
            let q = constant.div_euclid(stride);
            let rest = constant - q * stride;
            let (lo, hi) = self.range_of(&small, rest)?;
            if lo < 0 || hi >= stride {
                return None;
            }
            let whole: Vec<(Ix, i64)> = whole.into_iter().map(|(x, f)| (x, f / stride)).collect();
            index.push(self.sum(&whole, q));
            (terms, constant) = (small, rest);
        }
        Some(index)
    }
    /// The parts themselves, where runs of them make up the extents of `shape` or the other way round.
    fn regroup(&mut self, whole: Ix, parts: &[(Ix, i64)], shape: &[i64]) -> Option<Vec<Ix>> {
        let mut index = vec![Ix::Const(0); shape.len()];
        let dims: Vec<usize> = (0..shape.len()).filter(|i| shape[*i] != 1).collect();
        let (mut p, mut d) = (0, 0);
        while p < parts.len() && d < dims.len() {
            let (from, to, (mut have, mut want)) = (p, d, (parts[p].1, shape[dims[d]]));
            while have != want {
                if have < want {
                    p += 1;
                    have *= parts.get(p)?.1;
                } else {
                    d += 1;
                    want *= shape[*dims.get(d)?];
                }
            }
            let extents: Vec<i64> = parts[from..=p].iter().map(|x| x.1).collect();
            let xs: Vec<Ix> = parts[from..=p].iter().map(|x| x.0).collect();
            let number = self.flat(&xs, &extents);
            let group: Vec<i64> = dims[to..=d].iter().map(|i| shape[*i]).collect();
            let split = match group.len() {
                1 => vec![number],
                // One group of everything: nothing has become simpler.
                _ if number == whole => return None,
                _ => self.unflat(number, &group),
            };
            for (i, x) in dims[to..=d].iter().zip(split) {
                index[*i] = x;
            }
            (p, d) = (p + 1, d + 1);
        }
        (p == parts.len() && d == dims.len()).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reshapes_keep_the_own_element() {
        let mut t = Table::default();
        let x = own(&[4, 1, 6]);
        let f = t.flat(&x, &[4, 1, 6]);
        assert_eq!(f, Ix::Digit { div: 1, modulus: 24 });
        let y = t.unflat(f, &[2, 12]);
        assert_eq!(y, own(&[2, 12]));
        assert_eq!(t.flat(&y, &[2, 12]), f);
    }
    #[test]
    fn a_row_of_a_tail_is_its_own_digit() {
        let mut t = Table::default();
        let x = own(&[2, 4, 16]);
        assert_eq!(t.flat(&x[..2], &[2, 4]), Ix::Digit { div: 16, modulus: 8 });
    }
    /// Element j of the first half of a head of 64 meets element j of the second, through slices and reshapes.
    #[test]
    fn halves_of_an_orbit_meet() {
        let mut t = Table::default();
        let orbit = (2, 32);
        let first = of_orbit(&[8, 64], orbit, 0, 1, 1, &mut t);
        let second = of_orbit(&[8, 64], orbit, 1, 1, 1, &mut t);
        assert_eq!(t.range(second[1]), Some((32, 63)));
        let moved = t.sum(&[(first[1], 1)], 32);
        assert_eq!(moved, second[1]);
        let flat = t.flat(&[first[0], moved], &[8, 64]);
        let expected = of_orbit(&[512], orbit, 1, 1, 1, &mut t);
        assert_eq!(t.flat(&expected, &[512]), flat);
        let split = t.unflat(flat, &[2, 4, 64]);
        assert_eq!(split[2], second[1]);
        assert_eq!(t.flat(&split, &[2, 4, 64]), flat);
    }
    #[test]
    fn neighbours_of_an_orbit_meet() {
        let mut t = Table::default();
        let odd = of_orbit(&[4, 16], (2, 1), 1, 1, 1, &mut t);
        let flat = t.flat(&odd, &[4, 16]);
        assert_eq!(t.unflat(flat, &[4, 8, 2])[2], Ix::Const(1));
        let even = of_orbit(&[4, 16], (2, 1), 0, 1, 1, &mut t);
        let flat = t.flat(&even, &[4, 16]);
        assert_eq!(t.unflat(flat, &[4, 8, 2])[2], Ix::Const(0));
    }
    #[test]
    fn a_transposed_index_is_another_element() {
        let mut t = Table::default();
        let x = own(&[4, 6]);
        assert!(matches!(t.flat(&[x[1], x[0]], &[6, 4]), Ix::Other(_)));
    }
    #[test]
    fn parts_come_back_from_a_reshape() {
        let mut t = Table::default();
        let (k, d) = (t.reduction(8), own(&[3])[0]);
        let shifted = t.sum(&[(d, 1)], 5);
        let f = t.flat(&[k, shifted], &[8, 10]);
        assert_eq!(t.unflat(f, &[8, 1, 10]), [k, Ix::Const(0), shifted]);
        assert_eq!(t.turns(&[shifted]), 1);
        assert_eq!(t.turns(&[f, k]), 8);
        // No extent of (16, 5) ends where one of (8, 10) does: taken apart as a whole.
        assert_eq!(t.unflat(f, &[16, 5]).len(), 2);
        let halves = t.unflat(f, &[4, 2, 10]);
        assert_eq!(halves[2], shifted);
        assert_eq!(t.flat(&halves, &[4, 2, 10]), t.flat(&halves, &[4, 2, 10]));
    }
}
