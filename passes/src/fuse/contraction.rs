//! Which `linalg.generic` is a multiply-add contraction, and its batch, m, n and k loops.

use super::view::{Coordinate, coordinates};
use crate::ir::*;

/// Extents of a contraction's loops, each the product over its loops.
#[derive(Clone, Debug, PartialEq)]
pub struct Contraction {
    pub batch: i64,
    pub m: i64,
    pub n: i64,
    pub k: i64,
}

/// The contraction that `g` is: two inputs by projected permutations, the result in loop order, a body that converts,
/// multiplies and adds to the accumulator, and for each loop one of the four roles.
pub fn of(g: &Generic) -> Option<Contraction> {
    if g.ins.len() != 2 || g.outs.len() != 1 || !multiplies_and_adds(g) {
        return None;
    }
    let loops = |m: &melior::ir::AffineMap| -> Option<Vec<usize>> {
        let loops: Option<Vec<usize>> =
            coordinates(m).into_iter().map(|c| if let Coordinate::Loop(i) = c { Some(i) } else { None }).collect();
        let mut sorted = loops.clone()?;
        sorted.sort_unstable();
        sorted.dedup();
        (Some(sorted.len()) == loops.as_ref().map(Vec::len)).then_some(loops?)
    };
    let (a, b, out) = (loops(&g.in_map(0))?, loops(&g.in_map(1))?, loops(&g.out_map(0))?);
    if !out.is_sorted() {
        return None;
    }
    let mut c = Contraction { batch: 1, m: 1, n: 1, k: 1 };
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
