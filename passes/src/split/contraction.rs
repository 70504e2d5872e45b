//! A contraction with fewer tiles than the device has room for, and a long sum: parts of the sum are tiles of their own.
//!
//! ```text
//! %r = linalg.generic ins(%a : tensor<32x1536xf32>, %b : tensor<1536x384xf32>)               12 tiles of 32x32
//! →  %p = linalg.generic ins(%a' : tensor<32x16x96xf32>, %b' : tensor<16x96x384xf32>)        192 tiles
//!    %r = %p[0] + %p[1] + .. %p[15]
//! ```
//!
//! The parts are a batch, of one loop of k: all its turns, or runs of them. Their sum is elementwise: whoever reads the
//! result adds them up.

use crate::{
    emit,
    fuse::{Contraction, Coordinate, contraction, coordinates},
    gemm::Gemm,
    ir::*,
    spec::DeviceSpec,
};
use melior::ir::{AffineExpr, AffineMap};

const MOST_PARTS: i64 = 32;
/// What runs of a loop are multiples of: a step of a tile along k.
const WHOLE: i64 = 16;
/// Elements along k of a part at least.
const LEAST_DEPTH: i64 = 64;
/// Clocks of a launch more.
const LAUNCH: f64 = 6000.0;
/// Bytes that one multiprocessor writes and reads in a clock.
const BYTES: f64 = 20.0;

/// Which loop of k becomes parts, and how many.
#[derive(Clone, Copy)]
struct Cut {
    along: usize,
    parts: i64,
    /// Turns of a part.
    turns: i64,
}

impl Cut {
    /// `None` where the sum is better left whole.
    fn of(g: &Generic, c: &Contraction, spec: &DeviceSpec) -> Option<Self> {
        let time = |parts: i64| emit::time_in_tiles([c.batch * parts, c.m, c.n, c.k / parts], 4, spec);
        let traffic = (c.batch * c.m * c.n * 4 * 2) as f64 / (BYTES * f64::from(spec.multiprocessors()));
        let bounds = g.bounds();
        let cuts = (0..bounds.len()).filter(|l| g.reduces[*l]).flat_map(|along| {
            let n = bounds[along];
            let all = (2..=MOST_PARTS.min(n)).filter(move |parts| n % parts == 0);
            all.map(move |parts| Cut { along, parts, turns: n / parts })
        });
        let possible = cuts.filter(|cut| c.k / cut.parts >= LEAST_DEPTH);
        let possible = possible.filter(|cut| match cut.turns {
            1 => !joins_neighbours(g, cut.along),
            turns => turns % WHOLE == 0 && is_alone(g, cut.along),
        });
        let timed: Vec<_> = possible.map(|cut| (time(cut.parts) + LAUNCH + traffic * cut.parts as f64, cut)).collect();
        let best = timed.iter().map(|t| t.0).reduce(f64::min).filter(|best| *best < time(1) * 0.75)?;
        // The fewest parts that take about as long: whoever reads the result adds them up.
        timed.into_iter().filter(|t| t.0 <= best * 1.1).map(|t| t.1).min_by_key(|cut| cut.parts)
    }
    /// Loop `l` where the parts are a loop before all others.
    fn moved(&self, l: usize) -> usize {
        match self.turns {
            1 if l == self.along => 0,
            1 if l > self.along => l,
            _ => l + 1,
        }
    }
    fn map<'c>(&self, b: &B<'c>, m: &AffineMap<'c>, loops: usize) -> AffineMap<'c> {
        let dim = |l: usize| AffineExpr::dim(b.c, self.moved(l));
        let results = coordinates(m).into_iter().flat_map(|c| match c {
            Coordinate::Loop(l) if l == self.along && self.turns > 1 => vec![AffineExpr::dim(b.c, 0), dim(l)],
            Coordinate::Loop(l) => vec![dim(l)],
            Coordinate::Sum(terms, constant) => {
                let start = AffineExpr::constant(b.c, constant);
                vec![terms.iter().fold(start, |sum, (l, f)| sum + dim(*l) * AffineExpr::constant(b.c, *f))]
            }
            Coordinate::Unknown => unreachable!("a contraction has none"),
        });
        AffineMap::new(b.c, loops, 0, &results.collect::<Vec<_>>())
    }
}

/// Whether both inputs follow loop `l` along one dimension each, which no other loop moves along.
fn is_alone(g: &Generic, l: usize) -> bool {
    (0..2).all(|i| {
        let all = coordinates(&g.in_map(i));
        let alone = all.iter().filter(|c| **c == Coordinate::Loop(l)).count();
        let within = all.iter().any(|c| matches!(c, Coordinate::Sum(terms, _) if terms.iter().any(|t| t.0 == l)));
        alone == 1 && !within
    })
}

/// Whether loop `l` moves along the last dimension of an input.
fn joins_neighbours(g: &Generic, l: usize) -> bool {
    (0..2).any(|i| match coordinates(&g.in_map(i)).pop() {
        Some(Coordinate::Loop(last)) => last == l,
        Some(Coordinate::Sum(terms, _)) => terms.iter().any(|t| t.0 == l),
        _ => false,
    })
}

pub fn split<'c>(b: &B<'c>, op: O<'c>, spec: &DeviceSpec) {
    let Some(g) = Generic::of(op) else { return };
    let Some(c) = contraction(&g).filter(|c| c.is_tiled() && !c.is_part) else { return };
    let f32s = g.ins.iter().chain(&g.outs).all(|v| is_float(elem(v.r#type())) && bits(elem(v.r#type())) == 32);
    if !f32s || (spec.library_gemm && Gemm::of(op).is_ok()) {
        return;
    }
    let Some(cut) = Cut::of(&g, &c, spec) else { return };
    let b = &b.labelled(str_attr(op, "zml.op").unwrap_or_default());
    let loops = g.loops() + usize::from(cut.turns > 1);
    let ins: Vec<_> = (0..2)
        .map(|i| {
            let mut extents = shape(g.ins[i].r#type());
            if cut.turns > 1 {
                let all = coordinates(&g.in_map(i));
                let d = all.iter().position(|c| *c == Coordinate::Loop(cut.along)).expect("it is alone there");
                extents.splice(d..=d, [cut.parts, cut.turns]);
            }
            (b.reshape(g.ins[i], &extents), cut.map(b, &g.in_map(i), loops))
        })
        .collect();
    let f = elem(g.outs[0].r#type());
    let extents = shape(g.outs[0].r#type());
    let mut of_parts = extents.clone();
    of_parts.insert(0, cut.parts);
    let whole = coordinates(&cut.map(b, &g.out_map(0), loops));
    let own = whole.iter().map(|c| if let Coordinate::Loop(l) = c { *l } else { unreachable!("loops in order") });
    let out = b.projection(loops, &std::iter::once(0).chain(own).collect::<Vec<_>>());
    let mut kinds = vec!["r"; loops];
    (0..g.loops()).filter(|l| !g.reduces[*l]).for_each(|l| kinds[cut.moved(l)] = "p");
    kinds[0] = "p";
    let init = b.fill(b.zero(f), &of_parts);
    let parts = b.generic(&kinds.concat(), &ins, &[(init, out)], |b, a| rewrite::yielded(b, g.body, a));
    rewrite::set_attr(parts, "zml.partial", b.unit());
    let n = extents.len();
    let part = |i: i64| {
        let own = (0..n).map(|d| AffineExpr::dim(b.c, d));
        let all: Vec<_> = std::iter::once(AffineExpr::constant(b.c, i)).chain(own).collect();
        (result(parts, 0), AffineMap::new(b.c, n, 0, &all))
    };
    let all: Vec<_> = (0..cut.parts).map(part).collect();
    let to = (b.empty(&extents, f), b.projection(n, &(0..n).collect::<Vec<_>>()));
    let sum = b.generic(&"p".repeat(n), &all, &[to], |b, a| {
        let (first, rest) = a[..a.len() - 1].split_first().expect("two parts or more");
        vec![rest.iter().fold(*first, |sum, x| b.addf(sum, *x))]
    });
    rewrite::replace_uses(result(op, 0), result(sum, 0));
    rewrite::erase(op);
}
