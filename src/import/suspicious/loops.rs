//! Warnings of control flow that is decided before the program runs: loops that never run or never end, branches that are
//! chosen by an index out of range.

use super::Watch;
use crate::tree::{Block, Direction, Op, OpKind, ValueId};
use std::collections::HashSet;

impl<'a> Watch<'a> {
    pub(super) fn endless(&mut self, op: &'a Op) {
        let [cond, body] = &op.regions[..] else { return };
        let [verdict] = cond.results[..] else { return };
        let (never, ever) = ("the loop never runs", "the loop never ends");
        if let Some(p) = self.integer(verdict) {
            let m = if p == 0 { never } else { ever };
            let span = cond.span;
            return self.warn(
                "W0208",
                span,
                op,
                m,
                format!("the condition is always {}", p != 0),
                "let the condition read the loop's values",
            );
        }
        // Of the loop's values, the condition reads none that changes.
        let mut reads = HashSet::new();
        reached(cond, verdict, &mut reads);
        let changes = |i: usize| {
            let same = body.results[i] == body.args[i];
            reads.contains(&cond.args[i]) && !same
        };
        let effects = cond.ops.iter().any(|o| {
            matches!(
                o.kind,
                OpKind::Call { .. }
                    | OpKind::CustomCall { .. }
                    | OpKind::Rng { .. }
                    | OpKind::Other(_)
                    | OpKind::Composite { .. }
            )
        });
        if !effects && !(0..cond.args.len()).any(changes) {
            return self.warn(
                "W0208",
                cond.span,
                op,
                "the condition never changes",
                "reads no value that the body changes".into(),
                "the loop runs not at all or for ever: let its condition read a value that the body changes",
            );
        }
        // A comparison of one value with a constant fails for the value that the loop starts with.
        let Some(compare) = cond.ops.iter().find(|o| o.results.first() == Some(&verdict)) else { return };
        let OpKind::Compare { direction, .. } = compare.kind else { return };
        let start = |v: ValueId| match cond.args.iter().position(|a| *a == v) {
            Some(i) => self.integer(op.operands[i]),
            None => self.integer(v),
        };
        let (Some(x), Some(y)) = (start(compare.operands[0]), start(compare.operands[1])) else { return };
        let runs = match direction {
            Direction::Eq => x == y,
            Direction::Ne => x != y,
            Direction::Ge => x >= y,
            Direction::Gt => x > y,
            Direction::Le => x <= y,
            Direction::Lt => x < y,
        };
        if !runs {
            self.warn(
                "W0208",
                compare.span,
                op,
                never,
                format!("compares {x} and {y} at the start"),
                "is the comparison the right way round?",
            );
        }
    }

    pub(super) fn branch(&mut self, op: &'a Op) {
        let n = op.regions.len() as i128;
        if let Some(i) = self.integer(op.operands[0])
            && !(0..n).contains(&i)
        {
            let m = format!("branch {i} of {n}");
            self.warn(
                "W0209",
                Self::at(op, 0),
                op,
                &m,
                format!("takes branch {}, the last", n - 1),
                "indices out of range choose the last branch",
            );
        }
    }
}

/// What `v` is computed from, inside of a block and of the regions of its ops.
fn reached(b: &Block, v: ValueId, out: &mut HashSet<ValueId>) {
    out.insert(v);
    for op in b.ops.iter().rev() {
        if op.results.iter().any(|r| out.contains(r)) {
            out.extend(&op.operands);
            op.regions.iter().for_each(|r| everything(r, out));
        }
    }
}
fn everything(b: &Block, out: &mut HashSet<ValueId>) {
    out.extend(&b.results);
    for op in &b.ops {
        out.extend(&op.operands);
        op.regions.iter().for_each(|r| everything(r, out));
    }
}
