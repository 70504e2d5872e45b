//! The row spaces of a reduce dispatch, as attributes of its function.
//!
//! One space without orbits is `zml.rows = N : i64`. Several are `zml.rows = array<i64: N0, N1>`: each heavy op and each
//! result belongs to the space of as many rows that its reductions have, and workgroups are dealt out among the spaces.
//! `zml.orbits = array<i64: P0, B0, P1, B1>`: in space i, rows r, r + B, .., r + (P - 1) B, for r with
//! `r / B % P == 0`, are an orbit: what one row writes may need any row of its orbit, so one thread has them all.

use crate::ir::{B, O, attr, i64s, int, rewrite::set_attr};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    pub count: i64,
    /// Rows of an orbit, and how far apart they are.
    pub orbit: (i64, i64),
}

impl Rows {
    pub fn plain(count: i64) -> Self {
        Rows { count, orbit: (1, 1) }
    }
    pub fn orbits(&self) -> i64 {
        self.count / self.orbit.0
    }
    /// The spaces of a dispatch; `None` if it has none or they are malformed.
    pub fn of(func: O) -> Option<Vec<Rows>> {
        let a = attr(func, "zml.rows")?;
        let counts = int(a).map(|n| vec![n]).or_else(|| i64s(a))?;
        let Some(orbits) = attr(func, "zml.orbits") else {
            return Some(counts.into_iter().map(Rows::plain).collect());
        };
        let orbits = i64s(orbits).filter(|o| o.len() == 2 * counts.len())?;
        let found = counts.iter().zip(orbits.chunks(2)).map(|(n, o)| Rows { count: *n, orbit: (o[0], o[1]) });
        let found: Vec<Rows> = found.collect();
        let whole = |r: &Rows| r.orbit.0 >= 1 && r.orbit.1 >= 1 && r.count % (r.orbit.0 * r.orbit.1) == 0;
        found.iter().all(whole).then_some(found)
    }
    pub fn write<'c>(b: &B<'c>, func: O<'c>, spaces: &[Rows]) {
        let counts: Vec<i64> = spaces.iter().map(|r| r.count).collect();
        set_attr(func, "zml.rows", if let [n] = counts[..] { b.i64_attr(n) } else { b.i64s(&counts) });
        if spaces.iter().any(|r| r.orbit.0 > 1) {
            let orbits: Vec<i64> = spaces.iter().flat_map(|r| [r.orbit.0, r.orbit.1]).collect();
            set_attr(func, "zml.orbits", b.i64s(&orbits));
        }
    }
}
