//! Small tensors that cost much to compute and that many rows read in what hangs on them, sine and cosine of a position for
//! one: they are computed once by a workgroup, each element by a thread of its own, and kept in its memory.

use super::super::{kernel::Dispatch, nest::Nest, stage::Stage};
use crate::{ir::*, rows::Rows};
use std::collections::HashSet;

/// Elements that a table has at most.
const LARGEST: i64 = 1024;
/// Rows that read an element at least.
const READERS: i64 = 4;

/// What is kept as tables by a dispatch of these row spaces.
pub fn tables<'c>(d: &Dispatch<'c>, spaces: &[Rows]) -> Vec<Stage<'c>> {
    let (mut of_rows, mut dear) = (HashSet::new(), HashSet::new());
    let mut found: Vec<Stage> = vec![];
    let rows: i64 = spaces.iter().map(|s| s.count).sum();
    for op in &d.ops {
        let below = reads(*op);
        let heavy = Nest::of(*op).is_some_and(|n| !n.is_parallel());
        let all = || results(*op).into_iter().map(key);
        if !heavy && !below.iter().any(|v| of_rows.contains(&key(*v))) {
            if is_dear(*op) || below.iter().any(|v| dear.contains(&key(*v))) {
                dear.extend(all());
            }
            continue;
        }
        of_rows.extend(all());
        if heavy {
            continue;
        }
        for v in below.into_iter().filter(|v| dear.contains(&key(*v))) {
            let value = source(v);
            let (count, e) = (elements(value.r#type()), elem(value.r#type()));
            let fits = count > 1 && count <= LARGEST && count * READERS <= rows && !is_i1(e) && !is_index(e);
            if fits && !found.iter().any(|s| key(s.value) == key(value)) {
                found.push(Stage { value, run: 1 });
            }
        }
    }
    found
}
/// Whether an op's elements cost more than what workgroup memory takes to give them back.
fn is_dear(op: O) -> bool {
    const CHEAP: [&str; 7] =
        ["math.absf", "math.fma", "math.copysign", "math.floor", "math.ceil", "math.sqrt", "math.rsqrt"];
    name(op) == "linalg.generic" && walk(op).iter().any(|o| name(*o).starts_with("math.") && !CHEAP.contains(&name(*o)))
}
/// The tensor whose elements `v` repeats or has in another shape.
fn source(v: V) -> V {
    let mut v = v;
    while let Some(op) = def(v) {
        let repeats = Generic::of(op).is_some_and(|g| {
            let all = ops(g.body);
            g.is_parallel() && g.ins.len() == 1 && all.len() == 1 && key(operand(all[0], 0)) == key(arg(g.body, 0))
        });
        if !repeats && !matches!(name(op), "tensor.expand_shape" | "tensor.collapse_shape") {
            break;
        }
        v = operand(op, 0);
    }
    v
}
