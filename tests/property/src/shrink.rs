//! From a graph that goes wrong to a small one that does too.

use crate::{
    check::interpret,
    graph::{Graph, Made, Value},
};

/// Tries, in this order and again until nothing helps: fewer results, ops replaced by their values as inputs, ops left out.
pub fn shrink(graph: &Graph, fails: &mut dyn FnMut(&Graph) -> bool) -> Graph {
    let mut best = graph.clone();
    loop {
        let before = (best.nodes.len(), best.results.len());
        for r in (0..best.results.len()).rev() {
            if best.results.len() > 1 {
                let mut g = best.clone();
                g.results.remove(r);
                keep(&mut best, &g, fails);
            }
        }
        // From the front: an op whose value becomes an input takes all above it with it.
        let mut v = best.nodes.len();
        while v > 0 {
            v -= 1;
            if v < best.nodes.len()
                && let Some(g) = cut(&best, v)
                && keep(&mut best, &g, fails)
            {
                v = v.min(best.nodes.len());
            }
        }
        let mut v = best.nodes.len();
        while v > 0 {
            v -= 1;
            if v < best.nodes.len()
                && let Some(g) = without(&best, v)
                && keep(&mut best, &g, fails)
            {
                v = v.min(best.nodes.len());
            }
        }
        if (best.nodes.len(), best.results.len()) == before {
            return best;
        }
    }
}

fn keep(best: &mut Graph, g: &Graph, fails: &mut dyn FnMut(&Graph) -> bool) -> bool {
    let g = g.pruned();
    let better = g.ops() > 0 && fails(&g);
    if better {
        *best = g;
    }
    better
}

/// The op's value by the interpreter as an input.
fn cut(g: &Graph, v: Value) -> Option<Graph> {
    if matches!(g.nodes[v].made, Made::Input(_)) || g.results.contains(&v) {
        return None;
    }
    let alone = Graph { results: vec![v], ..g.clone() }.pruned();
    let bytes = interpret(&alone).ok()?.pop()?;
    let mut next = g.clone();
    next.nodes[v].made = Made::Input(bytes);
    Some(next)
}

/// Readers of the op read one of its operands of the same type instead.
fn without(g: &Graph, v: Value) -> Option<Graph> {
    let Made::Op { operands, .. } = &g.nodes[v].made else { return None };
    let by = *operands
        .iter()
        .find(|o| g.nodes[**o].ty == g.nodes[v].ty && g.nodes[**o].num.error <= g.nodes[v].num.error)?;
    let mut next = g.clone();
    for n in &mut next.nodes {
        if let Made::Op { operands, .. } = &mut n.made {
            operands.iter_mut().filter(|o| **o == v).for_each(|o| *o = by);
        }
    }
    for r in &mut next.results {
        if *r == v {
            *r = by;
        }
    }
    if next.results.iter().any(|r| matches!(next.nodes[*r].made, Made::Input(_))) {
        return None;
    }
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Kind, graph};

    /// A fault of every `or`: what is left is one of them.
    #[test]
    fn one_op_is_left() {
        let has = |g: &Graph| {
            g.nodes.iter().any(|n| matches!(&n.made, Made::Op { text, .. } if text.starts_with("stablehlo.or ")))
        };
        let found = (0..).map(|seed| graph(seed, Kind::Predicates)).find(|g| has(g) && g.ops() > 8).expect("some seed");
        let small = shrink(&found, &mut |g| has(g));
        assert_eq!(small.ops(), 1, "{}", small.text());
        assert!(interpret(&small).is_ok());
    }
}
