//! Random entries are planned, and the program is run on simulated memory against the entry's own meaning. Steps that no
//! barrier separates run in a random order, so a missing barrier, a shared byte or a missing copy shows as a wrong word.

use super::{arena, barriers, model::*, place, program};
use std::collections::HashMap;

/// A small generator of pseudo-random numbers.
struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        mix(self.0, 17)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}
fn mix(a: u64, b: u64) -> u64 {
    let x = (a ^ b.rotate_left(29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x ^ (x >> 31)
}

/// A value's bytes, eight to a word.
type Words = Vec<u64>;
fn words(bytes: u64) -> usize {
    bytes.div_ceil(8) as usize
}
/// What a kernel computes: every word of a result depends on every word that it reads. An update keeps the upper half.
fn kernel(name: &str, inputs: &[Words], old: Option<&Words>, result: usize, bytes: u64) -> Words {
    let mut h = name.bytes().fold(result as u64, |h, b| mix(h, u64::from(b)));
    for w in inputs.iter().flatten() {
        h = mix(h, *w);
    }
    let n = words(bytes);
    let half = |i: usize| old.filter(|_| i >= n / 2).map(|o| o[i]);
    (0..n).map(|i| half(i).unwrap_or_else(|| mix(h, i as u64))).collect()
}
const TURNS: usize = 3;
fn goes_on(predicate: &Words, turn: usize) -> bool {
    turn < TURNS && !predicate[0].is_multiple_of(5)
}
fn chosen(on: &Words, branches: usize) -> usize {
    (on[0] % branches as u64) as usize
}

// Making up entries.

struct Maker {
    r: Random,
    values: Vec<Value>,
    kernels: usize,
}
impl Maker {
    fn value(&mut self, bytes: u64, source: Source) -> Val {
        self.values.push(Value { bytes, source, name: format!("v{}", self.values.len()) });
        self.values.len() - 1
    }
    fn size(&mut self) -> u64 {
        *self.r.pick(&[8, 64, 256, 264, 1024])
    }
    fn kernel(&mut self) -> String {
        self.kernels += 1;
        format!("k{}", self.kernels)
    }
    /// A recent value more often than an old one.
    fn read(&mut self, visible: &[Val]) -> Val {
        let recent = self.r.below(3) > 0;
        let from = if recent { visible.len().saturating_sub(3) } else { 0 };
        visible[from + self.r.below(visible.len() - from)]
    }
    fn steps(&mut self, visible: &mut Vec<Val>, count: usize, depth: usize) -> Vec<Step> {
        (0..count)
            .map(|_| match self.r.below(10) {
                0 if depth < 2 => self.while_loop(visible, depth),
                1 if depth < 2 => self.branch(visible, depth),
                2..=5 => self.call(visible, true),
                _ => self.call(visible, false),
            })
            .collect()
    }
    fn call(&mut self, visible: &mut Vec<Val>, update: bool) -> Step {
        let mut arguments: Vec<Val> = (0..1 + self.r.below(3)).map(|_| self.read(visible)).collect();
        arguments.dedup();
        let (mut results, mut alias) = (vec![], vec![]);
        if update {
            let at = self.r.below(arguments.len());
            let bytes = self.values[arguments[at]].bytes;
            results.push(self.value(bytes, Source::Step));
            alias.push(Some(at));
        }
        if !update || self.r.below(3) == 0 {
            let bytes = self.size();
            results.push(self.value(bytes, Source::Step));
            alias.push(None);
        }
        visible.extend(&results);
        Step::Call { kernel: self.kernel(), arguments, results, alias }
    }
    fn while_loop(&mut self, visible: &mut Vec<Val>, depth: usize) -> Step {
        let inits: Vec<Val> = (0..1 + self.r.below(3)).map(|_| self.read(visible)).collect();
        let sizes: Vec<u64> = inits.iter().map(|v| self.values[*v].bytes).collect();
        let carried = |m: &mut Self| -> Vec<Val> { sizes.iter().map(|b| m.value(*b, Source::Step)).collect() };
        let before = carried(self);
        let mut inner = visible.clone();
        inner.extend(&before);
        let mut condition = self.steps(&mut inner, 1, 2);
        let predicate = self.value(8, Source::Step);
        let last = self.read(&inner);
        condition.push(Step::Call {
            kernel: self.kernel(),
            arguments: vec![last],
            results: vec![predicate],
            alias: vec![None],
        });
        let after = carried(self);
        let mut inner = visible.clone();
        inner.extend(&after);
        let count = 1 + self.r.below(3);
        let body = self.steps(&mut inner, count, depth + 1);
        let next = self.ends(&inner, &sizes);
        let results = carried(self);
        visible.extend(&results);
        Step::While { inits, before, condition, predicate, after, body, next, results, turns: None }
    }
    /// Visible values of these sizes.
    fn ends(&mut self, visible: &[Val], sizes: &[u64]) -> Vec<Val> {
        sizes
            .iter()
            .map(|b| {
                let fit: Vec<Val> = visible.iter().copied().filter(|v| self.values[*v].bytes == *b).collect();
                self.read(&fit)
            })
            .collect()
    }
    fn branch(&mut self, visible: &mut Vec<Val>, depth: usize) -> Step {
        let on = self.read(visible);
        let outs: Vec<Val> = (0..1 + self.r.below(2)).map(|_| self.read(visible)).collect();
        let sizes: Vec<u64> = outs.iter().map(|v| self.values[*v].bytes).collect();
        let branches = (0..2 + self.r.below(2))
            .map(|_| {
                let mut inner = visible.clone();
                let count = self.r.below(3);
                let steps = self.steps(&mut inner, count, depth + 1);
                let ends = self.ends(&inner, &sizes);
                (steps, ends)
            })
            .collect();
        let results: Vec<Val> = sizes.iter().map(|b| self.value(*b, Source::Step)).collect();
        visible.extend(&results);
        Step::Branch { on, case: true, branches, results }
    }
}

fn entry(seed: u64) -> Entry {
    let mut m = Maker { r: Random(seed), values: vec![], kernels: 0 };
    let mut visible = vec![];
    let count = 2 + m.r.below(3);
    for a in 0..count {
        let bytes = m.size();
        visible.push(m.value(bytes, Source::Argument(a)));
    }
    let bytes = m.size();
    visible.push(m.value(bytes, Source::Constant(0)));
    let steps = 3 + m.r.below(8);
    let steps = m.steps(&mut visible, steps, 0);
    let mut results: Vec<Val> = (0..1 + m.r.below(3)).map(|_| m.read(&visible)).collect();
    let arguments: Vec<Ownership> = (0..count)
        .map(|a| match m.r.below(3) {
            0 => Ownership::ReadOnly,
            1 => Ownership::Donated,
            _ => {
                // The next value of a state has its size.
                let next = m.ends(&visible, &[m.values[a].bytes])[0];
                results.push(next);
                Ownership::State(results.len() - 1)
            }
        })
        .collect();
    Entry { values: m.values, arguments, steps, results }
}

// What an entry means.

fn initial(source: Source, bytes: u64) -> Words {
    let tag = match source {
        Source::Argument(a) => a as u64 + 1,
        Source::Constant(c) => c as u64 + 1000,
        Source::Empty | Source::Step => unreachable!("has no first content"),
    };

    (0..words(bytes)).map(|i| mix(tag, i as u64)).collect()
}
fn meaning(e: &Entry) -> Vec<Words> {
    let mut known: HashMap<Val, Words> = HashMap::new();
    for (v, x) in e.values.iter().enumerate() {
        if matches!(x.source, Source::Argument(_) | Source::Constant(_)) {
            known.insert(v, initial(x.source, x.bytes));
        }
    }
    fn run(e: &Entry, steps: &[Step], known: &mut HashMap<Val, Words>) {
        let hand = |from: &[Val], to: &[Val], known: &mut HashMap<Val, Words>| {
            let all: Vec<Words> = from.iter().map(|v| known[v].clone()).collect();
            known.extend(to.iter().copied().zip(all));
        };
        for s in steps {
            match s {
                Step::Call { kernel: k, arguments, results, alias } => {
                    let free = arguments.iter().enumerate().filter(|(i, _)| !alias.contains(&Some(*i)));
                    let inputs: Vec<Words> = free.map(|(_, v)| known[v].clone()).collect();
                    for (i, (r, a)) in results.iter().zip(alias).enumerate() {
                        let old = a.map(|a| known[&arguments[a]].clone());
                        known.insert(*r, kernel(k, &inputs, old.as_ref(), i, e.values[*r].bytes));
                    }
                }
                Step::While { inits, before, condition, predicate, after, body, next, results, .. } => {
                    hand(inits, before, known);
                    for turn in 0.. {
                        run(e, condition, known);
                        if !goes_on(&known[predicate], turn) {
                            break;
                        }
                        hand(before, after, known);
                        run(e, body, known);
                        hand(next, before, known);
                    }
                    hand(before, results, known);
                }
                Step::Branch { on, branches, results, .. } => {
                    let (steps, ends) = &branches[chosen(&known[on], branches.len())];
                    run(e, steps, known);
                    hand(ends, results, known);
                }
            }
        }
    }
    run(e, &e.steps, &mut known);
    e.results.iter().map(|v| known[v].clone()).collect()
}

// Running a program.

struct Machine<'p> {
    p: &'p Program,
    memory: HashMap<(u8, usize), Words>,
    r: Random,
}
impl Machine<'_> {
    fn at(&self, buffer: usize) -> ((u8, usize), usize, usize) {
        let b = &self.p.buffers[buffer];
        let n = words(b.bytes);
        match b.place {
            Place::Argument(i) => ((0, i), 0, n),
            Place::Result(i) => ((1, i), 0, n),
            Place::Constant(i) => ((2, i), 0, n),
            Place::Arena(o) => ((3, 0), words(o), n),
        }
    }
    fn read(&self, buffer: usize) -> Words {
        let (m, from, n) = self.at(buffer);
        self.memory[&m][from..from + n].to_vec()
    }
    fn write(&mut self, buffer: usize, w: &[u64]) {
        let (m, from, n) = self.at(buffer);
        self.memory.get_mut(&m).expect("memory")[from..from + n].copy_from_slice(w);
    }
    fn run(&mut self, steps: &[Do]) {
        let mut batch: Vec<&Do> = vec![];
        for s in steps {
            match s {
                Do::Dispatch { .. } | Do::Copy { .. } => batch.push(s),
                Do::Barrier => self.flush(&mut batch),
                Do::While { predicate, condition, body, .. } => {
                    assert!(batch.is_empty(), "a loop begins with steps pending");
                    for turn in 0.. {
                        self.run(condition);
                        if !goes_on(&self.read(*predicate), turn) {
                            break;
                        }
                        self.run(body);
                    }
                }
                Do::Branch { on, branches, .. } => {
                    assert!(batch.is_empty(), "a branch begins with steps pending");
                    let i = chosen(&self.read(*on), branches.len());
                    self.run(&branches[i]);
                }
            }
        }
        self.flush(&mut batch);
    }
    /// Everything since the last barrier, in any order.
    fn flush(&mut self, batch: &mut Vec<&Do>) {
        while !batch.is_empty() {
            let i = self.r.below(batch.len());
            match batch.swap_remove(i) {
                Do::Copy { from, to, .. } => {
                    let w = self.read(*from);
                    self.write(*to, &w);
                }
                Do::Dispatch { kernel: k, reads, writes, updates } => {
                    let inputs: Vec<Words> = reads.iter().map(|b| self.read(*b)).collect();
                    for (i, (b, update)) in writes.iter().zip(updates).enumerate() {
                        let old = update.then(|| self.read(*b));
                        let w = kernel(k, &inputs, old.as_ref(), i, self.p.buffers[*b].bytes);
                        self.write(*b, &w);
                    }
                }
                _ => unreachable!("not in a batch"),
            }
        }
    }
}
fn results(e: &Entry, p: &Program, seed: u64) -> Vec<Words> {
    let mut memory: HashMap<(u8, usize), Words> = HashMap::new();
    memory.insert((3, 0), vec![0xDEAD; words(p.arena_bytes)]);
    for x in &e.values {
        match x.source {
            Source::Argument(a) => memory.insert((0, a), initial(x.source, x.bytes)),
            Source::Constant(c) => memory.insert((2, c), initial(x.source, x.bytes)),
            _ => None,
        };
    }
    for (i, v) in e.results.iter().enumerate() {
        memory.insert((1, i), vec![0xBEEF; words(e.values[*v].bytes)]);
    }
    let before = memory.clone();
    let mut m = Machine { p, memory, r: Random(seed) };
    m.run(&p.steps);
    for (a, o) in e.arguments.iter().enumerate() {
        assert!(*o != Ownership::ReadOnly || m.memory[&(0, a)] == before[&(0, a)], "argument {a} was written");
    }
    for (a, o) in e.arguments.iter().enumerate() {
        if let Ownership::State(r) = o {
            assert_eq!(p.buffers[p.results[*r]].place, Place::Argument(a), "a state lives elsewhere");
        }
    }
    p.results.iter().map(|b| m.read(*b)).collect()
}

#[test]
fn programs_mean_what_their_entries_do() {
    for seed in 0..3000 {
        let e = entry(seed);
        let p = program(&e);
        let expected = meaning(&e);
        for order in 0..3 {
            assert_eq!(results(&e, &p, order), expected, "seed {seed}, order {order}\n{e:#?}\n{p:#?}");
        }
    }
}

/// The simulator sees what it is for: without barriers, and with every arena buffer at offset 0, results come out wrong.
#[test]
fn the_simulator_sees_missing_barriers_and_overlaps() {
    let (mut unseparated, mut overlapping) = (0, 0);
    for seed in 0..300 {
        let e = entry(seed);
        let expected = meaning(&e);
        let whole = |p: &Program| !p.steps.iter().any(|s| matches!(s, Do::While { .. } | Do::Branch { .. }));
        let mut p = place::place(&e);
        arena::pack(&mut p);
        if whole(&p) {
            unseparated += usize::from((0..4).any(|order| results(&e, &p, order) != expected));
        }
        for b in &mut p.buffers {
            if matches!(b.place, Place::Arena(_)) {
                b.place = Place::Arena(0);
            }
        }
        barriers::separate(&mut p);
        overlapping += usize::from(results(&e, &p, 0) != expected);
    }
    assert!(unseparated > 20 && overlapping > 50, "{unseparated} and {overlapping} of 300");
}

/// The arena stays near what is alive at once.
#[test]
fn the_arena_is_near_the_peak() {
    let (mut arena_bytes, mut peak) = (0, 0);
    for seed in 0..500 {
        let p = program(&entry(seed));
        arena_bytes += p.arena_bytes;
        peak += arena::peak(&p);
    }
    assert!(arena_bytes * 100 <= peak * 105, "{arena_bytes} for {peak}");
}
