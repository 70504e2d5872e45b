//! A chain of reshapes becomes the fewest that lead from its first shape to its last.

use crate::ir::{rewrite::*, *};

fn is_reshape(op: O) -> bool {
    matches!(name(op), "tensor.expand_shape" | "tensor.collapse_shape")
}

pub fn fold<'c>(b: &B<'c>, block: Blk<'c>) -> bool {
    let mut changed = false;
    for op in ops(block).into_iter().filter(|op| is_reshape(*op)) {
        let (mut source, mut length) = (operand(op, 0), 1);
        while let Some(d) = def(source).filter(|d| is_reshape(*d)) {
            source = operand(d, 0);
            length += 1;
        }
        let whole = result(op, 0).r#type();
        if length == 1 || reshape_steps(&shape(source.r#type()), &shape(whole)) >= length {
            continue;
        }
        let at = B::before(b.c, op);
        let new = at.reshape(source, &shape(whole));
        if let (Some(label), Some(d)) = (attr(op, "zml.op"), def(new).filter(|d| is_reshape(*d))) {
            set_attr(d, "zml.op", label);
        }
        replace_uses(result(op, 0), new);
        erase(op);
        changed = true;
    }
    changed
}
