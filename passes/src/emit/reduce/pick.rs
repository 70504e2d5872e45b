//! The largest or smallest element of a row and its position, as an argmax computes them, chunk by chunk: a thread keeps
//! the best value and the number of the chunk that has it, and the row's best chunk is read again to find the element.
//!
//! That costs a comparison an element, where the reduction's own body costs one for each of its ops, and since positions
//! decide between equal values threads may take chunks in any order.
//!
//! The best is NaN if any element is, else the largest (or smallest); of several the one that comes first.

use super::{
    super::{
        build::Em,
        commute::{Sample, run},
        index::Ix,
        nest::Nest,
    },
    element,
    plan::{Heavy, Plan},
};
use crate::ir::*;
use melior::ir::{Type, attribute::FloatAttribute};

pub struct Pick {
    /// The input that is compared; the other one counts along the row.
    value: usize,
    /// Whether the largest is wanted.
    largest: bool,
}

impl Pick {
    /// `None` if `nest` does something else.
    pub fn of(nest: &Nest) -> Option<Pick> {
        if name(nest.op) != "linalg.reduce" || nest.ins.len() != 2 || nest.reduction_extent() > i64::from(i32::MAX) {
            return None;
        }
        let value = (0..2).find(|i| counts(nest, 1 - i))?;
        let t = elem(nest.ins[value].r#type());
        if !(is_float(t) && bits(t) <= 32) || elem(nest.outs[value].r#type()) != t {
            return None;
        }
        [true, false].into_iter().map(|largest| Pick { value, largest }).find(|p| p.is_meant_by(nest.body))
    }
    /// Whether the body does the same with every two elements, of which the second comes later in the row.
    fn is_meant_by(&self, body: Blk) -> bool {
        use Sample::{Nan, Number};
        let values = [Number(0), Number(1), Nan];
        values.iter().flat_map(|x| values.map(|y| (*x, y))).all(|(x, y)| {
            let order = |v: [Sample; 2]| if self.value == 0 { v } else { [v[1], v[0]] };
            let (x, y) = (order([x, Number(0)]), order([y, Number(1)]));
            let better = match (y[self.value], x[self.value]) {
                (_, Nan) => false,
                (Nan, _) => true,
                (Number(later), Number(first)) => {
                    if self.largest {
                        later > first
                    } else {
                        later < first
                    }
                }
                _ => false,
            };
            // The accumulators come last.
            run(body, &[y, x].concat()).is_some_and(|found| found == if better { y } else { x })
        })
    }
    /// Types of what is carried: the best value, as f32, and its chunk.
    pub fn types<'c>(&self, b: &B<'c>) -> [Type<'c>; 2] {
        [b.f32(), b.i(32)]
    }
    /// Before the first chunk.
    pub fn start<'c>(&self, em: &mut Em<'c>, b: &B<'c>, chunk: Ix) -> Vec<V<'c>> {
        let worst = if self.largest { f64::NEG_INFINITY } else { f64::INFINITY };
        let worst = em.constant(FloatAttribute::new(b.c, b.f32(), worst).into(), b.f32());
        vec![worst, number(em, b, chunk)]
    }
    /// Takes in the chunk at `loops`.
    pub fn step<'c>(
        &self,
        em: &mut Em<'c>,
        b: &B<'c>,
        nest: &Nest<'c>,
        (loops, chunk): (&[Ix], Ix),
        carried: &[V<'c>],
    ) -> Vec<V<'c>> {
        let mut all: Vec<V> = em.body_input(b, nest, self.value, loops).expect("a pick compares its values");
        all.iter_mut().for_each(|x| *x = widen(b, *x));
        let is_nan = all
            .chunks(2)
            .map(|pair| b.cmpf("uno", pair[0], pair[pair.len() - 1]))
            .reduce(|x, y| b.same("arith.ori", &[x, y]))
            .expect("a chunk has an element");
        while all.len() > 1 {
            all = all.chunks(2).map(|p| if p.len() == 2 { self.larger(b, p[0], p[1]) } else { p[0] }).collect();
        }
        let nan = em.constant(FloatAttribute::new(b.c, b.f32(), f64::NAN).into(), b.f32());
        let best = b.select(is_nan, nan, all[0]);
        let better = self.beats(b, best, carried[0]);
        let chunk = number(em, b, chunk);
        vec![b.select(better, best, carried[0]), b.select(better, chunk, carried[1])]
    }
    /// Of two numbers.
    fn larger<'c>(&self, b: &B<'c>, x: V<'c>, y: V<'c>) -> V<'c> {
        number_of(b, if self.largest { "arith.maxnumf" } else { "arith.minnumf" }, x, y)
    }
    /// Whether `x` is better than `y`, not only as good.
    fn beats<'c>(&self, b: &B<'c>, x: V<'c>, y: V<'c>) -> V<'c> {
        // Unordered, so that NaN beats numbers.
        let above = b.cmpf(if self.largest { "ugt" } else { "ult" }, x, y);
        b.same("arith.andi", &[above, b.cmpf("ord", y, y)])
    }
    /// Two bests with their chunks, in any order.
    pub fn join<'c>(&self, b: &B<'c>, x: &[V<'c>], y: &[V<'c>]) -> Vec<V<'c>> {
        let (first, second) = (self.beats(b, x[0], y[0]), self.beats(b, y[0], x[0]));
        let (earlier, no) = (b.cmpi("slt", x[1], y[1]), b.constant(b.attr("false"), b.i1()));
        let taken = b.same("arith.ori", &[first, b.select(second, no, earlier)]);
        vec![b.select(taken, x[0], y[0]), b.select(taken, x[1], y[1])]
    }
    /// The element of a row whose best and whose best's chunk are `joined`, by input.
    pub fn found<'c>(
        &self,
        em: &mut Em<'c>,
        b: &B<'c>,
        (h, plan): (&Heavy<'c>, &Plan),
        row: Ix,
        joined: &[V<'c>],
    ) -> Vec<V<'c>> {
        let chunks = h.nest.reduction_extent() / plan.lanes_along();
        let chunk = b.op1("arith.index_cast", &[joined[1]], b.index(), &[]);
        let chunk = em.ix.value(chunk, (0, chunks - 1));
        let loops = element(em, h, plan, row, chunk);
        let inputs: Vec<Vec<V>> = em.body_inputs(b, &h.nest, &loops).into_iter().flatten().collect();
        let lane = |i: usize, k: usize| if inputs[i].len() == 1 { inputs[i][0] } else { inputs[i][k] };
        let last = plan.lanes_along() as usize - 1;
        let mut found = vec![lane(0, last), lane(1, last)];
        for k in (0..last).rev() {
            let x = widen(b, lane(self.value, k));
            // If the best is a number, no element of the chunk is NaN.
            let hit = b.same("arith.ori", &[b.cmpf("oeq", x, joined[0]), b.cmpf("uno", x, x)]);
            found = found.iter().enumerate().map(|(i, y)| b.select(hit, lane(i, k), *y)).collect();
        }
        found
    }
}

/// The op where neither is NaN, and of NaN whatever a device makes of it: who takes it does not look at it then.
pub fn number_of<'c>(b: &B<'c>, op: &str, x: V<'c>, y: V<'c>) -> V<'c> {
    b.op1(op, &[x, y], x.r#type(), &[("fastmath", b.attr("#arith.fastmath<nnan>"))])
}
fn number<'c>(em: &mut Em<'c>, b: &B<'c>, chunk: Ix) -> V<'c> {
    let x = em.ssa(b, chunk);
    b.op1("arith.index_cast", &[x], b.i(32), &[])
}
fn widen<'c>(b: &B<'c>, x: V<'c>) -> V<'c> {
    if bits(x.r#type()) < 32 { b.op1("arith.extf", &[x], b.f32(), &[]) } else { x }
}

/// Whether input `i` is each element's place along the one dimension that is reduced.
fn counts(nest: &Nest, i: usize) -> bool {
    let dims: Vec<usize> = nest.reduction_loops().into_iter().filter(|d| nest.bounds[*d] > 1).collect();
    let [d] = dims[..] else { return false };
    let Some(along) = nest.input_dim(i, d) else { return false };
    let Some(made) = def(nest.ins[i]).filter(|op| name(*op) == "linalg.generic").and_then(Nest::of) else {
        return false;
    };
    let straight = made.is_parallel() && (0..made.bounds.len()).all(|d| made.output_dim(0, d) == Some(d));
    let [place, cast, end] = ops(made.body)[..] else { return false };
    straight
        && name(place) == "linalg.index"
        && int_attr(place, "dim") == i64::try_from(along).ok()
        && name(cast) == "arith.index_cast"
        && key(operand(cast, 0)) == key(result(place, 0))
        && key(operand(end, 0)) == key(result(cast, 0))
        && bits(result(cast, 0).r#type()) >= 32
}
