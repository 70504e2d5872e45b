//! Reshapes as tensor.collapse_shape and tensor.expand_shape, which between them can say every one.

use super::{B, V, ValueLike, elem, shape};
use melior::ir::Attribute;

type Groups = Vec<Vec<usize>>;

impl<'c> B<'c> {
    /// `x` with other extents of the same product, not zero: collapses to the extents that both shapes share the factors of,
    /// then expands.
    pub fn reshape(&self, x: V<'c>, to: &[i64]) -> V<'c> {
        let from = shape(x.r#type());
        if from == to {
            return x;
        }
        let (from_groups, to_groups) = groups(&from, to);
        let merged: Vec<i64> = from_groups.iter().map(|g| g.iter().map(|i| from[*i]).product()).collect();
        let e = elem(x.r#type());
        let x = if merged.len() == from.len() {
            x
        } else {
            let attrs = [("reassociation", self.groups(&from_groups))];
            self.op1("tensor.collapse_shape", &[x], self.tensor(&merged, e), &attrs)
        };
        if merged.len() == to.len() {
            return x;
        }
        let attrs = [("reassociation", self.groups(&to_groups)), ("static_output_shape", self.i64s(to))];
        self.op1("tensor.expand_shape", &[x], self.tensor(to, e), &attrs)
    }
    fn groups(&self, groups: &Groups) -> Attribute<'c> {
        let of = |g: &Vec<usize>| self.array(&g.iter().map(|i| self.i64_attr(*i as i64)).collect::<Vec<_>>());
        self.array(&groups.iter().map(of).collect::<Vec<_>>())
    }
}

/// How many ops `B::reshape` writes: 0, 1 or 2.
pub fn reshape_steps(from: &[i64], to: &[i64]) -> usize {
    if from == to {
        return 0;
    }
    let shared = groups(from, to).0.len();
    usize::from(shared != from.len()) + usize::from(shared != to.len())
}

/// Splits both shapes into as many groups as possible, of equal products; dimensions of extent 1 join a neighbour. No group if
/// either has rank 0.
fn groups(from: &[i64], to: &[i64]) -> (Groups, Groups) {
    let (mut i, mut j) = (0, 0);
    let (mut left, mut right): (Groups, Groups) = (vec![], vec![]);
    while i < from.len() && j < to.len() {
        let (mut p, mut q) = (from[i], to[j]);
        let (mut g, mut h) = (vec![i], vec![j]);
        i += 1;
        j += 1;
        while p != q {
            if p < q {
                p *= from[i];
                g.push(i);
                i += 1;
            } else {
                q *= to[j];
                h.push(j);
                j += 1;
            }
        }
        left.push(g);
        right.push(h);
    }
    // What is left over has extent 1.
    if let (Some(g), Some(h)) = (left.last_mut(), right.last_mut()) {
        g.extend(i..from.len());
        h.extend(j..to.len());
    }
    (left, right)
}

#[cfg(test)]
mod tests {
    use super::groups;

    #[test]
    fn ones_join_a_neighbour_and_other_factors_split() {
        let pair = |l: &[&[usize]], r: &[&[usize]]| {
            let own = |x: &[&[usize]]| x.iter().map(|g| g.to_vec()).collect::<Vec<_>>();
            (own(l), own(r))
        };
        assert_eq!(groups(&[1, 64], &[64]), pair(&[&[0, 1]], &[&[0]]));
        assert_eq!(groups(&[64], &[1, 64, 1]), pair(&[&[0]], &[&[0, 1, 2]]));
        assert_eq!(groups(&[2, 1, 3], &[2, 3]), pair(&[&[0], &[1, 2]], &[&[0], &[1]]));
        assert_eq!(groups(&[4, 6], &[2, 12]), pair(&[&[0, 1]], &[&[0, 1]]));
        assert_eq!(groups(&[1, 1], &[]), pair(&[], &[]));
    }
}
