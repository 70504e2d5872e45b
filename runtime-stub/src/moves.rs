//! What follows a program's own steps: results that are the next value of a state go to where the state lives.
//!
//! Nothing is to do for a kernel that updates its state in place. Otherwise the new value is copied, as in a parallel
//! assignment: what a copy would overwrite and another result still needs is saved first.

use crate::drivers::Region;
use zml_format::{Slice, Step};

/// A result and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// Where the program leaves it.
    pub at: Region,
    /// Where the state lives whose next value it is; none for what the caller gets.
    pub state: Option<Region>,
}
impl Outcome {
    /// The state's memory, if it has to be written.
    fn written(&self) -> Option<Region> {
        self.state.filter(|s| *s != self.at)
    }
}

fn overlap(a: Region, b: Region) -> bool {
    a.memory.is_some() && a.memory == b.memory && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes
}

/// For each outcome, the bytes that it needs to be saved, or 0.
pub(crate) fn to_save(outcomes: &[Outcome]) -> Vec<u64> {
    let lost = |o: &Outcome| outcomes.iter().filter_map(Outcome::written).any(|w| overlap(o.at, w));
    outcomes.iter().map(|o| if lost(o) { o.at.bytes } else { 0 }).collect()
}

/// Steps to append, over buffers that come after the program's.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    pub steps: Vec<Step>,
    pub buffers: Vec<Region>,
    /// For each outcome that the caller gets.
    pub outputs: Vec<Region>,
}

/// `saved` has a region for each outcome, of the bytes that `to_save` asked for; `first` is the number of the next buffer.
pub(crate) fn plan(outcomes: &[Outcome], saved: &[Region], first: usize) -> Moves {
    let mut m = Moves::default();
    let copies = |m: &mut Moves, pairs: &[(Region, Region)]| {
        if !pairs.is_empty() {
            m.steps.push(Step::Barrier);
        }
        for (from, to) in pairs {
            let mut slice = |r: &Region| {
                m.buffers.push(*r);
                Slice { buffer: first + m.buffers.len() - 1, offset: 0, bytes: r.bytes }
            };
            let (from, to) = (slice(from), slice(to));
            m.steps.push(Step::Copy { from, to });
        }
    };
    let kept: Vec<Region> = outcomes.iter().zip(saved).map(|(o, s)| if s.bytes > 0 { *s } else { o.at }).collect();
    let save: Vec<_> = outcomes.iter().zip(saved).filter(|(_, s)| s.bytes > 0).map(|(o, s)| (o.at, *s)).collect();
    copies(&mut m, &save);
    let update: Vec<_> = outcomes.iter().zip(&kept).filter_map(|(o, k)| Some((*k, o.written()?))).collect();
    copies(&mut m, &update);
    m.outputs = outcomes.iter().zip(&kept).filter(|(o, _)| o.state.is_none()).map(|(_, k)| *k).collect();
    m
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drivers::Memory;

    fn region(offset: u64) -> Region {
        Region { memory: Some(Memory(0)), offset, bytes: 8 }
    }
    fn outcome(at: u64, state: Option<u64>) -> Outcome {
        Outcome { at: region(at), state: state.map(region) }
    }
    /// Pairs of offsets copied, `|` for a barrier, then the offsets of the outputs. Saved results lie at 1000 and on.
    fn text(outcomes: &[Outcome]) -> String {
        let saved: Vec<Region> = to_save(outcomes)
            .iter()
            .enumerate()
            .map(|(i, b)| if *b == 0 { Region::EMPTY } else { region(1000 + 8 * i as u64) })
            .collect();
        let m = plan(outcomes, &saved, 5);
        let at = |s: &Slice| m.buffers[s.buffer - 5].offset;
        let mut out = String::new();
        for s in &m.steps {
            out += &match s {
                Step::Copy { from, to } => format!("{}>{} ", at(from), at(to)),
                _ => "| ".into(),
            };
        }
        out + &format!("{:?}", m.outputs.iter().map(|r| r.offset).collect::<Vec<_>>())
    }

    #[test]
    fn in_place_updates_need_nothing() {
        assert_eq!(text(&[outcome(0, Some(0)), outcome(64, None)]), "[64]");
    }
    #[test]
    fn a_new_value_elsewhere_is_copied() {
        assert_eq!(text(&[outcome(64, Some(0)), outcome(128, None)]), "| 64>0 [128]");
    }
    #[test]
    fn states_may_be_exchanged() {
        assert_eq!(text(&[outcome(8, Some(0)), outcome(0, Some(8))]), "| 8>1000 0>1008 | 1000>0 1008>8 []");
    }
    #[test]
    fn an_output_that_is_the_old_state_is_saved() {
        assert_eq!(text(&[outcome(64, Some(0)), outcome(0, None)]), "| 0>1008 | 64>0 [1008]");
        assert_eq!(text(&[outcome(64, Some(0)), outcome(64, None)]), "| 64>0 [64]");
    }
}
