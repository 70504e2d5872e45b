//! Whether a combiner gives the same whichever of its arguments comes first. Only bodies that compare and choose are
//! looked at (an argmax): what such a body does depends on how each pair of arguments compares and on nothing else, so that
//! trying every way in which the pairs can compare proves it.

use super::nest::Nest;
use crate::ir::*;
use std::collections::HashMap;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sample {
    Number(i64),
    Nan,
    Truth(bool),
}
use Sample::{Nan, Number, Truth};

/// How two numbers can compare: as samples.
const INTEGERS: [(Sample, Sample); 3] = [(Number(0), Number(1)), (Number(1), Number(0)), (Number(1), Number(1))];
const FLOATS: [(Sample, Sample); 6] = [
    (Number(0), Number(1)),
    (Number(1), Number(0)),
    (Number(1), Number(1)),
    (Nan, Number(1)),
    (Number(1), Nan),
    (Nan, Nan),
];
/// More arguments are not tried.
const MOST: usize = 3;

pub fn commutes(nest: &Nest) -> bool {
    let n = nest.ins.len();
    if n > MOST || !signs_agree(nest.op) {
        return false;
    }
    let ways: Vec<&[(Sample, Sample)]> =
        (0..n).map(|i| if is_float(arg(nest.body, i).r#type()) { &FLOATS[..] } else { &INTEGERS[..] }).collect();
    let count: usize = ways.iter().map(|w| w.len()).product();
    (0..count).all(|mut k| {
        let mut pairs = vec![];
        for w in &ways {
            pairs.push(w[k % w.len()]);
            k /= w.len();
        }
        let forward: Vec<Sample> = pairs.iter().map(|p| p.0).chain(pairs.iter().map(|p| p.1)).collect();
        let backward: Vec<Sample> = pairs.iter().map(|p| p.1).chain(pairs.iter().map(|p| p.0)).collect();
        match (run(nest.body, &forward), run(nest.body, &backward)) {
            (Some(x), Some(y)) => x == y,
            _ => false,
        }
    })
}
/// Whether integers are compared as signed everywhere, or nowhere.
fn signs_agree(op: O) -> bool {
    let orders = walk(op).into_iter().filter(|o| name(*o) == "arith.cmpi").filter_map(|o| int_attr(o, "predicate"));
    let orders: Vec<i64> = orders.filter(|p| *p >= 2).collect();
    orders.iter().all(|p| *p < 6) || orders.iter().all(|p| *p >= 6)
}
/// What the body yields; `None` if it does anything but compare and choose.
pub fn run(body: Blk, arguments: &[Sample]) -> Option<Vec<Sample>> {
    let mut known: HashMap<usize, Sample> = HashMap::new();
    for (v, x) in args(body).into_iter().zip(arguments) {
        known.insert(key(v), *x);
    }
    for op in ops(body) {
        let of = |i: usize| known.get(&key(operand(op, i))).copied();
        if name(op) == "linalg.yield" {
            return (0..op.operand_count()).map(of).collect();
        }
        let value = match name(op) {
            "arith.cmpf" => Truth(float(int_attr(op, "predicate")?, of(0)?, of(1)?)?),
            "arith.cmpi" => Truth(integer(int_attr(op, "predicate")?, of(0)?, of(1)?)?),
            "arith.select" => match of(0)? {
                Truth(true) => of(1)?,
                Truth(false) => of(2)?,
                _ => return None,
            },
            // Widening keeps the order.
            "arith.extf" => of(0)?,
            "arith.constant" if is_i1(result(op, 0).r#type()) => Truth(int(attr(op, "value")?)? != 0),
            "arith.andi" | "arith.ori" | "arith.xori" => {
                let (Truth(x), Truth(y)) = (of(0)?, of(1)?) else { return None };
                Truth(match name(op) {
                    "arith.andi" => x & y,
                    "arith.ori" => x | y,
                    _ => x ^ y,
                })
            }
            _ => return None,
        };
        known.insert(key(result(op, 0)), value);
    }
    None
}
/// `eq ne slt sle sgt sge ult ule ugt uge`
fn integer(predicate: i64, x: Sample, y: Sample) -> Option<bool> {
    let (Number(x), Number(y)) = (x, y) else { return None };
    Some(match predicate {
        0 => x == y,
        1 => x != y,
        2 | 6 => x < y,
        3 | 7 => x <= y,
        4 | 8 => x > y,
        _ => x >= y,
    })
}
/// `false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true`
fn float(predicate: i64, x: Sample, y: Sample) -> Option<bool> {
    let (x, y) = match (x, y) {
        (Number(x), Number(y)) => (x, y),
        (Number(_) | Nan, Number(_) | Nan) => return Some(predicate >= 8),
        _ => return None,
    };
    Some(match predicate {
        0 | 14 => false,
        1 | 8 => x == y,
        2 | 9 => x > y,
        3 | 10 => x >= y,
        4 | 11 => x < y,
        5 | 12 => x <= y,
        6 | 13 => x != y,
        _ => true,
    })
}
