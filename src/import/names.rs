//! Names that the exporter left in a program.

use crate::tree::{Func, OpKind, Program, ValueId};

/// Functions that hand an argument on before one that names it.
const DEEPEST: u32 = 8;

/// Of each argument of a function: its own name, or else that which a function has for it that it is handed on to.
/// `jax.export` wraps the function that has the names in one that has none.
pub fn argument_names(p: &Program, func: &str) -> Vec<Option<String>> {
    let Some(f) = p.func(func) else { return vec![] };
    f.body.args.iter().map(|a| name(p, f, *a, DEEPEST).map(str::to_string)).collect()
}

fn name<'p>(p: &'p Program, f: &'p Func, v: ValueId, depth: u32) -> Option<&'p str> {
    if let Some(own) = f.values[v.0 as usize].loc.name() {
        return Some(own);
    }
    if depth == 0 {
        return None;
    }
    f.body.ops.iter().find_map(|op| {
        let OpKind::Call { callee } = &op.kind else { return None };
        let g = p.func(callee)?;
        let at = op.operands.iter().position(|o| *o == v)?;
        name(p, g, *g.body.args.get(at)?, depth - 1)
    })
}
