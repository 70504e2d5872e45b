//! Barriers where a step touches bytes that an earlier step since the last barrier touched, one of them writing.
//! Independent steps stay unseparated. It must not move a step.

use super::model::*;

/// Bytes that a step touches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touch {
    /// What holds the bytes; arena buffers are all of one memory.
    memory: (u8, usize),
    from: u64,
    to: u64,
    writes: bool,
}
impl Touch {
    pub fn of(buffer: &Buffer, writes: bool) -> Touch {
        let (memory, from) = match buffer.place {
            Place::Argument(i) => ((0, i), 0),
            Place::Result(i) => ((1, i), 0),
            Place::Constant(i) => ((2, i), 0),
            Place::Arena(offset) => ((3, 0), offset),
        };
        Touch { memory, from, to: from + buffer.bytes, writes }
    }
    /// Read after write, write after read, or write after write.
    pub fn clashes(self, other: Touch) -> bool {
        (self.writes || other.writes) && self.memory == other.memory && self.from < other.to && other.from < self.to
    }
}
/// What a dispatch or copy touches.
pub fn touches(step: &Do, buffers: &[Buffer]) -> Vec<Touch> {
    match step {
        Do::Dispatch { reads, writes, .. } => {
            let read = reads.iter().map(|b| Touch::of(&buffers[*b], false));
            read.chain(writes.iter().map(|b| Touch::of(&buffers[*b], true))).collect()
        }
        Do::Copy { from, to, .. } => vec![Touch::of(&buffers[*from], false), Touch::of(&buffers[*to], true)],
        _ => vec![],
    }
}

pub fn separate(p: &mut Program) {
    let steps = std::mem::take(&mut p.steps);
    let mut pending = vec![];
    p.steps = block(steps, &p.buffers, &mut pending);
}
/// Steps with barriers between; `pending` is what was touched since the last one.
fn block(steps: Vec<Do>, buffers: &[Buffer], pending: &mut Vec<Touch>) -> Vec<Do> {
    let mut out = vec![];
    for mut s in steps {
        let now = touches(&s, buffers);
        let holds = matches!(s, Do::While { .. } | Do::Branch { .. });
        if (holds && !pending.is_empty()) || now.iter().any(|t| pending.iter().any(|p| t.clashes(*p))) {
            out.push(Do::Barrier);
            pending.clear();
        }
        // A block begins and ends with nothing pending: what runs before and after it is known at run time only.
        let whole = |steps: &mut Vec<Do>| {
            let mut inner = vec![];
            *steps = block(std::mem::take(steps), buffers, &mut inner);
            if !inner.is_empty() {
                steps.push(Do::Barrier);
            }
        };
        match &mut s {
            Do::While { condition, body, .. } => {
                whole(condition);
                whole(body);
            }
            Do::Branch { branches, .. } => branches.iter_mut().for_each(whole),
            _ => pending.extend(now),
        }
        out.push(s);
    }
    out
}
