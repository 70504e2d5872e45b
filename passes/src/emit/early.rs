//! Which arguments of a dispatch no dispatch, copy or fill ever writes: what a kernel may read before earlier kernels have
//! ended.

use super::kernel::Dispatch;
use crate::ir::*;
use std::collections::{HashMap, HashSet};

/// For each kernel, its buffers that something writes.
pub struct Written<'c> {
    by_kernel: HashMap<&'c str, HashSet<usize>>,
    /// Whether there are host programs at all; without them nothing is known.
    known: bool,
}

impl<'c> Written<'c> {
    pub fn of(top: Blk<'c>) -> Self {
        // How many results a kernel has: they are its last buffers.
        let results: HashMap<&str, usize> =
            ops(top).into_iter().filter_map(Dispatch::of).map(|d| (d.name, d.results.len())).collect();
        let mut found = Written { by_kernel: HashMap::new(), known: false };
        for program in ops(top).into_iter().filter(|op| name(*op) == "zml.program") {
            found.known = true;
            let steps = walk(program);
            let mut written: HashSet<usize> = HashSet::new();
            for op in &steps {
                match name(*op) {
                    "zml.dispatch" => {
                        let all = operands(*op);
                        let n = symbol_attr(*op, "kernel").and_then(|k| results.get(k)).copied().unwrap_or(all.len());
                        written.extend(all[all.len() - n..].iter().map(|v| key(*v)));
                    }
                    "zml.copy" => {
                        written.insert(key(operand(*op, 1)));
                    }
                    "zml.fill" => {
                        written.insert(key(operand(*op, 0)));
                    }
                    _ => {}
                }
            }
            // Arena buffers may share memory.
            let fixed = |v: V| def(v).is_some_and(|b| str_attr(b, "kind").is_some_and(|k| k != "arena"));
            for op in steps.iter().filter(|op| name(**op) == "zml.dispatch") {
                let Some(kernel) = symbol_attr(*op, "kernel") else { continue };
                let mine = found.by_kernel.entry(kernel).or_default();
                let all = operands(*op).into_iter().enumerate();
                mine.extend(all.filter(|(_, v)| written.contains(&key(*v)) || !fixed(*v)).map(|(i, _)| i));
            }
        }
        found
    }
    /// One for each argument of the dispatch.
    pub fn constants(&self, d: &Dispatch) -> Vec<bool> {
        let written = self.by_kernel.get(d.name).filter(|_| self.known);
        let mut position = 0;
        (0..d.args.len())
            .map(|i| {
                if d.alias.contains(&Some(i)) {
                    return false;
                }
                position += 1;
                written.is_some_and(|w| !w.contains(&(position - 1)))
            })
            .collect()
    }
}
