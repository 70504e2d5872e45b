//! Where in the arena each buffer lies: two buffers share bytes only if no step needs both. Largest first, each into the
//! smallest gap that holds it. Bytes and times only; what the buffers hold is no concern of it.

use super::model::*;
use std::collections::BTreeMap;

/// Offsets are multiples of this many bytes: what every device wants of a binding at most.
pub const ALIGN: u64 = 256;

/// From the first to the last position at which a buffer must keep its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Life {
    pub from: usize,
    pub to: usize,
}
impl Life {
    fn meets(self, other: Life) -> bool {
        self.from <= other.to && other.from <= self.to
    }
}

/// Gives every arena buffer its offset and the arena its size.
pub fn pack(p: &mut Program) {
    let lives = lives(p);
    let mut order: Vec<usize> = lives.keys().copied().collect();
    order.sort_by_key(|b| (std::cmp::Reverse(p.buffers[*b].bytes), lives[b].from, *b));
    let mut placed: Vec<(u64, u64, Life)> = vec![];
    for b in order {
        let bytes = p.buffers[b].bytes.max(1).next_multiple_of(ALIGN);
        let mut taken: Vec<(u64, u64)> = placed.iter().filter(|x| x.2.meets(lives[&b])).map(|x| (x.0, x.1)).collect();
        taken.sort_unstable();
        let offset = best_gap(&taken, bytes);
        placed.push((offset, offset + bytes, lives[&b]));
        p.buffers[b].place = Place::Arena(offset);
        p.arena_bytes = p.arena_bytes.max(offset + bytes);
    }
}
/// Start of the smallest gap between `taken` ranges, sorted, that holds `bytes`; after the last if none does.
fn best_gap(taken: &[(u64, u64)], bytes: u64) -> u64 {
    let (mut end, mut best): (u64, Option<(u64, u64)>) = (0, None);
    for (from, to) in taken {
        if *from >= end + bytes && best.is_none_or(|b| from - end < b.0) {
            best = Some((from - end, end));
        }
        end = end.max(*to);
    }
    best.map_or(end, |b| b.1)
}
/// The least that any arena could be: the most bytes alive at once.
#[cfg(test)]
pub fn peak(p: &Program) -> u64 {
    let lives = lives(p);
    let times: std::collections::BTreeSet<usize> = lives.values().map(|l| l.from).collect();
    let at = |t: usize| {
        let alive = lives.iter().filter(|(_, l)| l.from <= t && t <= l.to);
        alive.map(|(b, _)| p.buffers[*b].bytes.max(1).next_multiple_of(ALIGN)).sum()
    };
    times.into_iter().map(at).max().unwrap_or(0)
}

/// The life of every arena buffer. Inside a loop a buffer that begins with a full write lives within one turn; any other
/// lives through the whole loop.
pub fn lives(p: &Program) -> BTreeMap<usize, Life> {
    let mut uses: BTreeMap<usize, Vec<Use>> = BTreeMap::new();
    let mut path = vec![];
    collect(&p.steps, &mut 0, &mut path, &mut uses);
    let ends: BTreeMap<usize, usize> = {
        let mut ends = BTreeMap::new();
        spans(&p.steps, &mut 0, &mut ends);
        ends
    };
    let arena = uses.into_iter().filter(|(b, _)| matches!(p.buffers[*b].place, Place::Arena(_)));
    arena.map(|(b, uses)| (b, life(&uses, &ends))).collect()
}
struct Use {
    at: usize,
    /// It writes the whole buffer and reads none of it.
    fills: bool,
    /// The holding steps from the outside in: position, which of its blocks, and whether it is a loop.
    path: Vec<(usize, usize, bool)>,
}
fn life(uses: &[Use], ends: &BTreeMap<usize, usize>) -> Life {
    let mut depth = uses[0].path.len();
    for u in uses {
        let common = u.path.iter().zip(&uses[0].path).take_while(|(a, b)| a == b).count();
        depth = depth.min(common);
    }
    // Not filled anew in each turn: it lives as long as the outermost loop around it.
    if !uses[0].fills
        && let Some(outer) = uses[0].path[..depth].iter().position(|x| x.2)
    {
        depth = outer;
    }
    let span = |u: &Use| match u.path.get(depth) {
        Some(step) => (step.0, ends[&step.0]),
        None => (u.at, u.at),
    };
    Life {
        from: uses.iter().map(|u| span(u).0).min().expect("a use"),
        to: uses.iter().map(|u| span(u).1).max().expect("a use"),
    }
}
fn collect(
    steps: &[Do],
    clock: &mut usize,
    path: &mut Vec<(usize, usize, bool)>,
    uses: &mut BTreeMap<usize, Vec<Use>>,
) {
    for s in steps {
        *clock += 1;
        let at = *clock;
        let mut note = |b: usize, fills: bool, at: usize, path: &[(usize, usize, bool)]| {
            uses.entry(b).or_default().push(Use { at, fills, path: path.to_vec() });
        };
        match s {
            Do::Dispatch { reads, writes, updates, .. } => {
                reads.iter().for_each(|b| note(*b, false, at, path));
                writes.iter().zip(updates).for_each(|(b, u)| note(*b, !u, at, path));
            }
            Do::Copy { from, to, .. } => {
                note(*from, false, at, path);
                note(*to, true, at, path);
            }
            Do::Barrier => {}
            Do::While { predicate, condition, body, .. } => {
                for (i, block) in [condition, body].into_iter().enumerate() {
                    path.push((at, i, true));
                    collect(block, clock, path, uses);
                    path.pop();
                }
                // The predicate is read after each turn of the condition: it lives as long as the loop.
                uses.entry(*predicate).or_default().push(Use { at, fills: true, path: path.clone() });
            }
            Do::Branch { on, branches, .. } => {
                note(*on, false, at, path);
                for (i, block) in branches.iter().enumerate() {
                    path.push((at, i, false));
                    collect(block, clock, path, uses);
                    path.pop();
                }
            }
        }
    }
}
/// Position of the last step inside each step that holds others.
fn spans(steps: &[Do], clock: &mut usize, ends: &mut BTreeMap<usize, usize>) {
    for s in steps {
        *clock += 1;
        let at = *clock;
        match s {
            Do::While { condition, body, .. } => {
                spans(condition, clock, ends);
                spans(body, clock, ends);
            }
            Do::Branch { branches, .. } => branches.iter().for_each(|b| spans(b, clock, ends)),
            _ => continue,
        }
        ends.insert(at, *clock);
    }
}
