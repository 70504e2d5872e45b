//! Programs with loops and branches, cut into segments that need no decision of the host.
//!
//! A segment is recorded once (a command buffer, a graph); between segments the host reads one predicate and decides.
//! This file knows steps only by whether they decide; drivers record and run the segments.

use crate::error::Result;
use zml_format::{Slice, Step};

/// What the host does, in order. Numbers are into [`Plan::segments`] and [`Plan::reads`].
#[derive(Debug, PartialEq)]
pub(crate) enum Node {
    Run(usize),
    While {
        condition: Vec<Node>,
        read: usize,
        body: Vec<Node>,
    },
    /// So many times.
    Repeat(u64, Vec<Node>),
    /// The last branch serves values out of range; the first one value 0.
    Branch {
        read: usize,
        branches: Vec<Vec<Node>>,
    },
}

/// A program as nodes over straight-line segments.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Plan<'a> {
    pub nodes: Vec<Node>,
    /// Never empty, free of `While`, `If` and `Case`.
    pub segments: Vec<Vec<&'a Step>>,
    /// Predicates (1 byte) and indices (4 bytes) that the host reads.
    pub reads: Vec<Slice>,
}

impl<'a> Plan<'a> {
    pub fn new(steps: &'a [Step]) -> Self {
        let mut plan = Plan::default();
        plan.nodes = plan.cut(steps);
        plan
    }

    fn cut(&mut self, steps: &'a [Step]) -> Vec<Node> {
        let mut nodes = vec![];
        let mut straight = vec![];
        for s in steps {
            let node = match s {
                Step::While { turns: Some(n), body, .. } => {
                    self.close(&mut straight, &mut nodes);
                    Node::Repeat(*n, self.cut(body))
                }
                Step::While { condition, predicate, body, turns: None } => {
                    self.close(&mut straight, &mut nodes);
                    let condition = self.cut(condition);
                    Node::While { condition, read: self.read(predicate), body: self.cut(body) }
                }
                Step::If { predicate, then, otherwise } => {
                    self.close(&mut straight, &mut nodes);
                    // A predicate of 0 takes the first branch, anything else the last.
                    Node::Branch { read: self.read(predicate), branches: vec![self.cut(otherwise), self.cut(then)] }
                }
                Step::Case { index, branches } => {
                    self.close(&mut straight, &mut nodes);
                    let read = self.read(index);
                    Node::Branch { read, branches: branches.iter().map(|b| self.cut(b)).collect() }
                }
                Step::Dispatch(_) | Step::Library(_) | Step::Barrier | Step::Copy { .. } | Step::Fill { .. } => {
                    straight.push(s);
                    continue;
                }
            };
            nodes.push(node);
        }
        self.close(&mut straight, &mut nodes);
        nodes
    }

    fn close(&mut self, straight: &mut Vec<&'a Step>, nodes: &mut Vec<Node>) {
        if !straight.is_empty() {
            nodes.push(Node::Run(self.segments.len()));
            self.segments.push(std::mem::take(straight));
        }
    }

    fn read(&mut self, s: &Slice) -> usize {
        self.reads.push(*s);
        self.reads.len() - 1
    }
}

/// What a driver does for [`walk`].
pub(crate) trait Machine {
    /// After everything that was enqueued before.
    fn enqueue(&mut self, segment: usize) -> Result<()>;
    /// Waits for everything that was enqueued. A predicate is 0 to 255, an index any i32.
    fn decide(&mut self, read: usize) -> Result<i32>;
}

/// Runs nodes to their end.
pub(crate) fn walk(nodes: &[Node], m: &mut impl Machine) -> Result<()> {
    for n in nodes {
        match n {
            Node::Run(segment) => m.enqueue(*segment)?,
            Node::While { condition, read, body } => loop {
                walk(condition, m)?;
                if m.decide(*read)? == 0 {
                    break;
                }
                walk(body, m)?;
            },
            Node::Repeat(n, body) => {
                for _ in 0..*n {
                    walk(body, m)?;
                }
            }
            Node::Branch { read, branches } => {
                let last = branches.len() - 1;
                let i = usize::try_from(m.decide(*read)?).map_or(last, |i| i.min(last));
                walk(&branches[i], m)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Slice = Slice { buffer: 0, offset: 0, bytes: 1 };

    fn fill(byte: u8) -> Step {
        Step::Fill { to: AT, byte }
    }

    /// Runs segments by noting their fills, and decides as told.
    struct Script {
        segments: Vec<Vec<u8>>,
        decisions: Vec<i32>,
        ran: Vec<u8>,
    }
    impl Machine for Script {
        fn enqueue(&mut self, segment: usize) -> Result<()> {
            self.ran.extend(&self.segments[segment]);
            Ok(())
        }
        fn decide(&mut self, _: usize) -> Result<i32> {
            Ok(self.decisions.remove(0))
        }
    }

    fn run(steps: &[Step], decisions: &[i32]) -> Vec<u8> {
        let plan = Plan::new(steps);
        let of = |s: &&Step| match s {
            Step::Fill { byte, .. } => Some(*byte),
            _ => None,
        };
        let segments = plan.segments.iter().map(|s| s.iter().filter_map(of).collect()).collect();
        let mut m = Script { segments, decisions: decisions.to_vec(), ran: vec![] };
        walk(&plan.nodes, &mut m).unwrap();
        assert!(m.decisions.is_empty(), "all decisions were asked for");
        m.ran
    }

    #[test]
    fn straight_steps_are_one_segment() {
        let steps = [fill(1), Step::Barrier, fill(2)];
        let plan = Plan::new(&steps);
        assert_eq!(plan.nodes, [Node::Run(0)]);
        assert_eq!(plan.segments[0].len(), 3);
        assert_eq!(Plan::new(&[]).nodes, []);
    }

    #[test]
    fn a_loop_tests_before_each_turn() {
        let steps = [
            fill(1),
            Step::While { condition: vec![fill(2)], predicate: AT, body: vec![fill(3)], turns: None },
            fill(4),
        ];
        assert_eq!(run(&steps, &[0]), [1, 2, 4]);
        assert_eq!(run(&steps, &[1, 255, 0]), [1, 2, 3, 2, 3, 2, 4]);
    }

    #[test]
    fn a_counted_loop_asks_nothing() {
        let counted = |n| Step::While { condition: vec![fill(2)], predicate: AT, body: vec![fill(3)], turns: Some(n) };
        assert_eq!(run(&[fill(1), counted(3), fill(4)], &[]), [1, 3, 3, 3, 4]);
        assert!(run(&[counted(0)], &[]).is_empty());
    }

    #[test]
    fn branches_by_predicate_and_by_index() {
        let either = [Step::If { predicate: AT, then: vec![fill(1)], otherwise: vec![fill(2)] }];
        assert_eq!([run(&either, &[0]), run(&either, &[1]), run(&either, &[255])], [[2], [1], [1]]);
        let case = [Step::Case { index: AT, branches: vec![vec![fill(1)], vec![], vec![fill(3)]] }];
        assert_eq!([run(&case, &[0]), run(&case, &[2]), run(&case, &[3]), run(&case, &[-1])], [[1], [3], [3], [3]]);
        assert!(run(&case, &[1]).is_empty());
    }

    #[test]
    fn loops_nest() {
        let inner = Step::While { condition: vec![], predicate: AT, body: vec![fill(2)], turns: None };
        let steps = [Step::While { condition: vec![], predicate: AT, body: vec![fill(1), inner], turns: None }];
        assert_eq!(run(&steps, &[1, 1, 0, 1, 0, 0]), [1, 2, 1]);
    }
}
