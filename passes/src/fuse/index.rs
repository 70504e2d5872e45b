//! Indices as symbols, to tell at which element of a value an op reads it when it computes one element of its own.
//!
//! A context computes element `f` of some value, f in 0..N. A [`Ix::Digit`] is `f / div % modulus`; going through a
//! reshape turns digits into other digits without loss, so `own element` stays recognisable through any chain of
//! reshapes. What is no digit is interned: equal expressions are equal numbers. Nothing here knows of ops.

use std::collections::HashMap;

/// One coordinate of an index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
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
        for (x, factor) in terms {
            match x {
                Ix::Const(c) => constant += c * factor,
                _ if *factor == 0 => {}
                _ => rest.push((*x, *factor)),
            }
        }
        match rest[..] {
            [] => Ix::Const(constant),
            [(x, 1)] if constant == 0 => x,
            _ => self.intern(Expr::Sum(rest, constant)),
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
        match parts[..] {
            [] => Ix::Const(0),
            [(x, _)] => x,
            _ if parts.iter().all(|p| p.0 == Ix::Const(0)) => Ix::Const(0),
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
                if let Expr::Linear(parts) = self.exprs[i].clone()
                    && let Some(index) = self.regroup(x, &parts, shape)
                {
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
