//! Which `linalg.generic` is a multiply-add contraction, and its batch, m, n and k loops.
//!
//! A convolution is one: image `n, oh * stride + kh * dilation, ow * stride + kw * dilation, ic` times filter
//! `kh, kw, ic, oc` has m = n, oh, ow, has n = oc and k = kh, kw, ic, and groups of features are a batch.

use super::view::{Coordinate, coordinates};
use crate::ir::*;

/// m and n from which on a convolution is computed in tiles, and turns of k: below, a tile is mostly empty.
const LEAST_WINDOWS: i64 = 8;
const LEAST_DEPTH: i64 = 16;
/// Its products times k: threads that compute an element each wait k times for what they read, and only where that is long
/// or where they are many do tiles pay for meeting at every step.
const LEAST_WORK: i64 = 1 << 28;

/// Extents of a contraction's loops, each the product over its loops.
#[derive(Clone, Debug, PartialEq)]
pub struct Contraction {
    pub batch: i64,
    pub m: i64,
    pub n: i64,
    pub k: i64,
    /// Whether both inputs are read by projected permutations: every coordinate is a loop of its own.
    pub projects: bool,
    /// Whether it is parts of a sum, which `split` cut to have tiles of them.
    pub is_part: bool,
}
impl Contraction {
    /// Whether tiles pay, rather than a row or an element by itself.
    pub fn is_tiled(&self) -> bool {
        let [batch, m, n, k] = [self.batch, self.m, self.n, self.k];
        if self.projects || self.is_part {
            return m >= super::LEAST_TILE && n >= super::LEAST_TILE;
        }
        let work = [batch, m, n, k, k].into_iter().fold(1i64, i64::saturating_mul);
        m >= LEAST_WINDOWS && n >= LEAST_WINDOWS && k >= LEAST_DEPTH && work >= LEAST_WORK
    }
}

/// The contraction that `g` is: two inputs at sums of loops with factors, the result in loop order, a body that converts,
/// multiplies and adds to the accumulator, and for each loop one of the four roles.
pub fn of(g: &Generic) -> Option<Contraction> {
    if g.ins.len() != 2 || g.outs.len() != 1 || !multiplies_and_adds(g) {
        return None;
    }
    // The loops of a map, and whether each stands for itself and once.
    let loops = |m: &melior::ir::AffineMap| -> Option<(Vec<usize>, bool)> {
        let (mut loops, mut alone) = (vec![], true);
        for c in coordinates(m) {
            match c {
                Coordinate::Loop(i) => loops.push(i),
                Coordinate::Sum(terms, _) => {
                    alone = false;
                    loops.extend(terms.into_iter().map(|(i, _)| i));
                }
                Coordinate::Unknown => return None,
            }
        }
        let mut once = loops.clone();
        once.sort_unstable();
        once.dedup();
        alone &= once.len() == loops.len();
        Some((loops, alone))
    };
    let ((a, a_projects), (b, b_projects)) = (loops(&g.in_map(0))?, loops(&g.in_map(1))?);
    let (out, in_order) = loops(&g.out_map(0))?;
    if !in_order || !out.is_sorted() {
        return None;
    }
    let is_part = has_attr(g.op, "zml.partial");
    let mut c = Contraction { batch: 1, m: 1, n: 1, k: 1, projects: a_projects && b_projects, is_part };
    for (i, extent) in g.bounds().into_iter().enumerate() {
        match (a.contains(&i), b.contains(&i), out.contains(&i)) {
            (true, true, true) => c.batch *= extent,
            (true, false, true) => c.m *= extent,
            (false, true, true) => c.n *= extent,
            (true, true, false) if g.reduces[i] => c.k *= extent,
            _ if extent == 1 => {}
            _ => return None,
        }
    }
    Some(c)
}

/// The body yields accumulator + (converted first input) * (converted second input).
pub fn multiplies_and_adds(g: &Generic) -> bool {
    let through_converts = |mut v: V<'_>| {
        while let Some(d) = def(v)
            && matches!(name(d), "arith.extf" | "arith.extsi" | "arith.extui" | "arith.truncf")
        {
            v = operand(d, 0);
        }
        key(v)
    };
    let (inputs, accumulator) = ([key(arg(g.body, 0)), key(arg(g.body, 1))], key(arg(g.body, 2)));
    let last = ops(g.body).pop().map(|y| operand(y, 0));
    let Some(add) = last.and_then(def).filter(|o| matches!(name(*o), "arith.addf" | "arith.addi")) else {
        return false;
    };
    let product = match (key(operand(add, 0)), key(operand(add, 1))) {
        (x, _) if x == accumulator => operand(add, 1),
        (_, y) if y == accumulator => operand(add, 0),
        _ => return false,
    };
    let Some(mul) = def(product).filter(|o| matches!(name(*o), "arith.mulf" | "arith.muli")) else { return false };
    let factors = [through_converts(operand(mul, 0)), through_converts(operand(mul, 1))];
    factors == inputs || (factors[0] == inputs[1] && factors[1] == inputs[0])
}
