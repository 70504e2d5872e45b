//! How many ops a program has once its calls are inlined, counted before anything is: a few functions that call each other
//! twice may stand for more than any memory holds.

use crate::{
    diag::Diagnostic,
    tree::{Block, OpKind, Program, Span},
};
use std::collections::HashMap;

/// Ops that an entry may have with all its calls inlined.
const MOST: u64 = 1 << 20;

/// An error if `func`, with all it calls, is too large. Runs on verified programs, in which no function calls itself.
pub(crate) fn too_large(p: &Program, func: &str) -> Option<Diagnostic> {
    let index: HashMap<&str, usize> = p.funcs.iter().enumerate().map(|(i, f)| (f.name.as_str(), i)).collect();
    let bodies: Vec<Body> = p.funcs.iter().map(|f| Body::new(&f.body, &index)).collect();
    let mut sizes: Vec<Option<u64>> = vec![None; bodies.len()];
    // A stack of its own, as chains of calls may be long: functions, and which of their calls comes next.
    let mut stack = vec![(*index.get(func)?, 0)];
    while let Some((f, next)) = stack.pop() {
        let body = &bodies[f];
        if let Some((g, _)) = body.calls.get(next) {
            stack.push((f, next + 1));
            if sizes[*g].is_none() {
                stack.push((*g, 0));
            }
            continue;
        }
        let mut size = body.ops;
        for (g, span) in &body.calls {
            size += sizes[*g].unwrap_or_default();
            if size > MOST {
                let m = format!("`@{}` is more than {MOST} ops once its calls are inlined", p.funcs[f].name);
                let d = Diagnostic::error("E0602", *span, m).label("with this call");
                return Some(d.hint("a call is compiled anew at each place; write what repeats as a loop"));
            }
        }
        sizes[f] = Some(size);
    }
    None
}

/// Ops, those of regions included, and the functions that they call, with where.
#[derive(Default)]
struct Body {
    ops: u64,
    calls: Vec<(usize, Span)>,
}
impl Body {
    fn new(b: &Block, index: &HashMap<&str, usize>) -> Self {
        let mut body = Body::default();
        body.add(b, index);
        body
    }
    fn add(&mut self, b: &Block, index: &HashMap<&str, usize>) {
        for op in &b.ops {
            self.ops += 1;
            if let OpKind::Call { callee } | OpKind::Composite { decomposition: callee, .. } = &op.kind
                && let Some(g) = index.get(callee.as_str())
            {
                self.calls.push((*g, op.span));
            }
            op.regions.iter().for_each(|r| self.add(r, index));
        }
    }
}
