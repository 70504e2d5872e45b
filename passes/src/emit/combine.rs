//! How two partial results of a reduction become one, read from its body.

use super::{
    body::{Scalar, Scalars},
    build::Em,
    nest::Nest,
    reduce::{ONLINE, Pick, number_of, online},
};
use crate::ir::*;
use melior::ir::Type;

pub enum Combiner {
    /// Each accumulator by one op of its own that has a neutral element.
    Ops(Vec<&'static str>),
    /// The body itself takes an accumulator in place of an input.
    Body {
        /// Whichever of two comes first.
        commutes: bool,
    },
    /// The best element with its place.
    Pick(Pick),
    /// The maximum and the sum of exponentials from it.
    Online,
    /// Only one element after the other.
    Serial,
}

/// Ops with a neutral element.
const NEUTRAL: [&str; 14] = [
    "arith.addf",
    "arith.mulf",
    "arith.maximumf",
    "arith.maxnumf",
    "arith.minimumf",
    "arith.addi",
    "arith.muli",
    "arith.maxsi",
    "arith.minsi",
    "arith.maxui",
    "arith.minui",
    "arith.andi",
    "arith.ori",
    "arith.xori",
];

impl Combiner {
    /// Of a linalg.reduce.
    pub fn of_reduce(op: O) -> Self {
        Nest::of(op).map_or(Combiner::Serial, |nest| Combiner::of(&nest))
    }
    pub fn of(nest: &Nest) -> Self {
        if has_attr(nest.op, ONLINE) {
            return Combiner::Online;
        }
        if let Some(ops) = (0..nest.outs.len()).map(|i| accumulating_op(nest, i)).collect() {
            return Combiner::Ops(ops);
        }
        let like = |(x, y): (&V, &V)| elem(x.r#type()) == elem(y.r#type());
        let read = (0..nest.ins.len()).all(|i| nest.reads_argument(i));
        if name(nest.op) == "linalg.reduce" && read && nest.ins.iter().zip(&nest.outs).all(like) {
            Combiner::Body { commutes: super::commute::commutes(nest) }
        } else {
            Combiner::Serial
        }
    }
    /// One accumulator for each of `a`, from two.
    pub fn combine<'c>(&self, em: &mut Em<'c>, b: &B<'c>, nest: &Nest<'c>, x: &[V<'c>], y: &[V<'c>]) -> Vec<V<'c>> {
        match self {
            Combiner::Ops(ops) => {
                let one =
                    |op: &str, x, y| if op == "arith.maxnumf" { number_of(b, op, x, y) } else { b.same(op, &[x, y]) };
                ops.iter().zip(x.iter().zip(y)).map(|(op, (x, y))| one(op, *x, *y)).collect()
            }
            Combiner::Body { .. } => body(em, b, nest, x, y),
            Combiner::Pick(pick) => pick.join(b, x, y),
            Combiner::Online => online::join(b, x, y),
            Combiner::Serial => unreachable!("a serial reduction has one part"),
        }
    }
}

/// The body of `nest` with `x` as accumulators and `y` in place of inputs.
pub fn body<'c>(em: &mut Em<'c>, b: &B<'c>, nest: &Nest<'c>, x: &[V<'c>], y: &[V<'c>]) -> Vec<V<'c>> {
    let mut map = Scalars::new();
    for (i, v) in y.iter().chain(x).enumerate() {
        map.insert(key(arg(nest.body, i)), Scalar::Value(*v));
    }
    em.body(b, nest.body, &mut map, &[]).1
}

/// The op of accumulator `i`, if the body is `op(accumulator, something else)` in this and no other respect.
fn accumulating_op(nest: &Nest, i: usize) -> Option<&'static str> {
    let accumulator = arg(nest.body, nest.ins.len() + i);
    let users = uses(accumulator);
    let [(op, _)] = users[..] else { return None };
    let found = NEUTRAL.iter().find(|n| **n == name(op))?;
    let end = *ops(nest.body).last()?;
    let [(user, at)] = uses(result(op, 0))[..] else { return None };
    (op_key(user) == op_key(end) && at == i).then_some(*found)
}

/// The value that changes nothing under `op`.
pub fn neutral<'c>(em: &mut Em<'c>, b: &B<'c>, op: &str, t: Type<'c>) -> V<'c> {
    if is_float(t) {
        let x = match op {
            "arith.addf" => -0.0,
            "arith.mulf" => 1.0,
            "arith.maximumf" | "arith.maxnumf" => f64::NEG_INFINITY,
            _ => f64::INFINITY,
        };
        let a = melior::ir::attribute::FloatAttribute::new(b.c, t, x).into();
        return em.constant(a, t);
    }
    let width = bits(t);
    let x = match op {
        "arith.muli" => 1,
        "arith.maxsi" => -1 << (width - 1),
        "arith.minsi" => !(-1 << (width - 1)),
        "arith.minui" | "arith.andi" => -1,
        _ => 0,
    };
    em.int(t, x)
}
