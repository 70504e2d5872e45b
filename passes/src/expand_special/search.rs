//! Loops inside bodies that search: bisection over a range of positions.

use crate::ir::*;

/// Rounds that a bisection over `n` positions takes: it ends in one of n + 1 places.
pub fn rounds(n: i64) -> i64 {
    i64::from(64 - n.max(0).leading_zeros())
}

/// The first position in `from .. to` at which `before` does not hold, or `to`; it must hold up to some position and
/// not from there on. `rounds` is an index, at least as many as the range takes. `before` gets a position and whether
/// the search is still open; if it is not, what it says does not matter, but what it reads must be there.
pub fn bisect<'c>(
    b: &B<'c>,
    from: V<'c>,
    to: V<'c>,
    rounds: V<'c>,
    before: impl Fn(&B<'c>, V<'c>, V<'c>) -> V<'c>,
) -> V<'c> {
    b.for_loop(b.cidx(0), rounds, b.cidx(1), &[from, to], |b, _, range| {
        let [low, high] = range else { unreachable!("two values are carried") };
        let open = b.cmpi("ult", *low, *high);
        let middle = b.same("arith.shrui", &[b.addi(*low, *high), b.cidx(1)]);
        let right = before(b, middle, open);
        let left = b.same("arith.xori", &[right, b.cint(b.i1(), 1)]);
        let (right, left) = (b.same("arith.andi", &[open, right]), b.same("arith.andi", &[open, left]));
        vec![b.select(right, b.addi(middle, b.cidx(1)), *low), b.select(left, middle, *high)]
    })[0]
}
