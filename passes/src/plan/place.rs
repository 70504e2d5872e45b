//! Which buffer each value lives in. Values that follow one another in one buffer (an update in place, a carried value of
//! a loop) share a slot; where sharing would destroy a value that is still read, a copy comes before. Results are put
//! where the caller looks for them. Offsets in the arena are `arena`'s, barriers are `barriers`'.

use super::model::*;
use std::collections::BTreeMap;

/// A buffer in the making.
struct Slot {
    bytes: u64,
    /// Where it must be; otherwise in the arena.
    pinned: Option<Place>,
    /// The slot that it has become part of.
    same: Option<usize>,
    /// The block that made it, and the position there.
    home: usize,
    born: usize,
}

/// Uses of values, by block: positions count steps in program order, nested ones included.
struct Uses {
    /// For each value, the block that defines it.
    home: Vec<usize>,
    /// The last position in its home block at which something reads it: twice the step's number, and one more if a block
    /// inside the step reads it. A read by the block's own end counts as `END`.
    last: Vec<usize>,
}
const END: usize = usize::MAX;

/// Slots as buffers, all of the arena at offset 0 yet.
pub fn place(entry: &Entry) -> Program {
    let mut p = Placer {
        entry,
        uses: uses(entry),
        slots: vec![],
        slot_of: vec![None; entry.values.len()],
        clock: 0,
        blocks: 0,
        constants: BTreeMap::new(),
    };
    for (v, value) in entry.values.iter().enumerate() {
        if let Source::Argument(a) = value.source {
            let s = p.slot(value.bytes, Some(Place::Argument(a)), 0);
            p.slot_of[v] = Some(s);
        }
    }
    let mut steps = vec![];
    p.block(&entry.steps, 0, &mut steps);
    let results = p.results(&mut steps);
    p.finish(steps, results)
}

fn uses(entry: &Entry) -> Uses {
    let mut u = Uses { home: vec![0; entry.values.len()], last: vec![0; entry.values.len()] };
    let mut blocks = 1;
    // Blocks from the entry to the current one, with the position of the step that holds the next.
    fn walk(steps: &[Step], path: &mut Vec<(usize, usize)>, clock: &mut usize, blocks: &mut usize, u: &mut Uses) {
        fn read(v: Val, at: usize, path: &[(usize, usize)], u: &mut Uses) {
            let depth = path.iter().position(|p| p.0 == u.home[v]).expect("a value is read where it is visible");
            let at = if depth + 1 == path.len() { at } else { path[depth].1 + 1 };
            u.last[v] = u.last[v].max(at);
        }
        fn define(vs: &[Val], path: &[(usize, usize)], u: &mut Uses) {
            vs.iter().for_each(|v| u.home[*v] = path.last().expect("inside a block").0);
        }
        for s in steps {
            *clock += 2;
            let at = *clock;
            path.last_mut().expect("inside a block").1 = at;
            let inner = |steps: &[Step],
                         args: &[Val],
                         ends: &[Val],
                         path: &mut Vec<(usize, usize)>,
                         clock: &mut usize,
                         blocks: &mut usize,
                         u: &mut Uses| {
                path.push((*blocks, 0));
                *blocks += 1;
                define(args, path, u);
                walk(steps, path, clock, blocks, u);
                for v in ends {
                    read(*v, END, path, u);
                }
                path.pop();
            };
            match s {
                Step::Call { arguments, results, .. } => {
                    arguments.iter().for_each(|v| read(*v, at, path, u));
                    define(results, path, u);
                }
                Step::While { inits, before, condition, predicate, after, body, next, results, .. } => {
                    inits.iter().for_each(|v| read(*v, at, path, u));
                    let mut ends = before.clone();
                    ends.push(*predicate);
                    inner(condition, before, &ends, path, clock, blocks, u);
                    inner(body, after, next, path, clock, blocks, u);
                    define(results, path, u);
                }
                Step::Branch { on, branches, results, .. } => {
                    read(*on, at, path, u);
                    for (steps, ends) in branches {
                        inner(steps, &[], ends, path, clock, blocks, u);
                    }
                    define(results, path, u);
                }
            }
        }
    }
    let mut path = vec![(0, 0)];
    walk(&entry.steps, &mut path, &mut 0, &mut blocks, &mut u);
    for v in &entry.results {
        u.last[*v] = END;
    }
    u
}

struct Placer<'e> {
    entry: &'e Entry,
    uses: Uses,
    slots: Vec<Slot>,
    slot_of: Vec<Option<usize>>,
    clock: usize,
    /// Blocks entered, numbered as in `uses`.
    blocks: usize,
    constants: BTreeMap<usize, usize>,
}

impl Placer<'_> {
    fn slot(&mut self, bytes: u64, pinned: Option<Place>, home: usize) -> usize {
        self.slots.push(Slot { bytes, pinned, same: None, home, born: self.clock });
        self.slots.len() - 1
    }
    fn root(&self, mut s: usize) -> usize {
        while let Some(t) = self.slots[s].same {
            s = t;
        }
        s
    }
    /// The slot of a value that exists.
    fn of(&mut self, v: Val) -> usize {
        let value = &self.entry.values[v];
        let bytes = value.bytes;
        match (self.slot_of[v], value.source) {
            (Some(s), _) => self.root(s),
            (None, Source::Constant(c)) => {
                if let Some(s) = self.constants.get(&c) {
                    return *s;
                }
                let s = self.slot(bytes, Some(Place::Constant(c)), 0);
                self.constants.insert(c, s);
                s
            }
            (None, Source::Empty) => {
                let s = self.slot(bytes, None, self.uses.home[v]);
                self.slot_of[v] = Some(s);
                s
            }
            (None, _) => unreachable!("a value is computed before it is read"),
        }
    }
    /// Whether a slot's buffer may be written.
    fn writable(&self, s: usize) -> Result<(), String> {
        match self.slots[s].pinned {
            Some(Place::Argument(a)) => match self.entry.arguments[a] {
                Ownership::ReadOnly => Err("it is an argument that is not donated".into()),
                _ => Ok(()),
            },
            Some(Place::Constant(_)) => Err("it is a constant".into()),
            _ => Ok(()),
        }
    }
    /// Whether nothing needs the value after the step at `at` of block `home`, so that its buffer may be overwritten.
    fn ends(&self, v: Val, at: usize, home: usize) -> Result<(), String> {
        if self.uses.home[v] != home {
            return Err("it comes from outside of the loop or branch".into());
        }
        if self.uses.last[v] > at { Err("it is read later".into()) } else { Ok(()) }
    }

    fn block(&mut self, steps: &[Step], home: usize, out: &mut Vec<Do>) {
        for s in steps {
            self.clock += 2;
            match s {
                Step::Call { kernel, arguments, results, alias } => {
                    self.call(kernel, arguments, results, alias, home, out);
                }
                Step::While { .. } => self.while_loop(s, home, out),
                Step::Branch { .. } => self.branch(s, home, out),
            }
        }
    }
    fn name(&self, v: Val) -> &str {
        &self.entry.values[v].name
    }

    fn call(
        &mut self,
        kernel: &str,
        arguments: &[Val],
        results: &[Val],
        alias: &[Option<usize>],
        home: usize,
        out: &mut Vec<Do>,
    ) {
        let at = self.clock;
        let (mut reads, mut writes, mut updates) = (vec![], vec![], vec![]);
        for (i, v) in arguments.iter().enumerate() {
            if !alias.contains(&Some(i)) {
                reads.push(self.of(*v));
            }
        }
        for (r, a) in results.iter().zip(alias) {
            let bytes = self.entry.values[*r].bytes;
            let s = match a.map(|a| arguments[a]) {
                None => self.slot(bytes, None, home),
                Some(old) => {
                    let from = self.of(old);
                    let once = arguments.iter().filter(|x| **x == old).count() == 1
                        && !reads.contains(&from)
                        && !writes.contains(&from);
                    let in_place = self.writable(from).and_then(|()| self.ends(old, at, home));
                    let in_place =
                        in_place.and_then(|()| if once { Ok(()) } else { Err("it is read by the same kernel".into()) });
                    match in_place {
                        Ok(()) => from,
                        Err(why) => {
                            let s = self.slot(bytes, None, home);
                            if self.entry.values[old].source != Source::Empty {
                                let why = format!("{} is updated, but {why}", self.name(old));
                                out.push(Do::Copy { from, to: s, why });
                            }
                            s
                        }
                    }
                }
            };
            self.slot_of[*r] = Some(s);
            writes.push(s);
            updates.push(a.is_some());
        }
        if results.iter().any(|r| self.entry.values[*r].bytes > 0) {
            out.push(Do::Dispatch { kernel: kernel.into(), reads, writes, updates });
        }
    }

    fn region(&mut self, steps: &[Step], out: &mut Vec<Do>) -> usize {
        self.blocks += 1;
        let number = self.blocks;
        self.block(steps, number, out);
        number
    }
    fn while_loop(&mut self, step: &Step, home: usize, out: &mut Vec<Do>) {
        let Step::While { inits, before, condition, predicate, after, body, next, results, turns } = step else {
            return;
        };
        let at = self.clock;
        let mut carried: Vec<usize> = vec![];
        for init in inits {
            let from = self.of(*init);
            let alone = inits.iter().filter(|v| *v == init).count() == 1 && !carried.contains(&from);
            let reuse = self.writable(from).and_then(|()| self.ends(*init, at, home));
            let s = match reuse {
                Ok(()) if alone => from,
                _ => {
                    let s = self.slot(self.entry.values[*init].bytes, None, home);
                    let why = format!("{} starts a loop-carried value", self.name(*init));
                    out.push(Do::Copy { from, to: s, why });
                    s
                }
            };
            carried.push(s);
        }
        for vs in [before, after, results] {
            for (v, s) in vs.iter().zip(&carried) {
                self.slot_of[*v] = Some(*s);
            }
        }
        let (mut first, mut second) = (vec![], vec![]);
        self.region(condition, &mut first);
        let inner = self.region(body, &mut second);
        self.hand_on(next, &carried, inner, "goes into the next turn", &mut second);
        let predicate = self.of(*predicate);
        out.push(Do::While { predicate, condition: first, body: second, turns: *turns });
    }

    fn branch(&mut self, step: &Step, home: usize, out: &mut Vec<Do>) {
        let Step::Branch { on, case, branches, results } = step else { return };
        let on = self.of(*on);
        let targets: Vec<usize> = results.iter().map(|r| self.slot(self.entry.values[*r].bytes, None, home)).collect();
        let mut inner = vec![];
        for (steps, ends) in branches {
            let mut block = vec![];
            let region = self.region(steps, &mut block);
            self.hand_on(ends, &targets, region, "is the result of a branch", &mut block);
            inner.push(block);
        }
        for (r, s) in results.iter().zip(&targets) {
            self.slot_of[*r] = Some(*s);
        }
        out.push(Do::Branch { on, case: *case, branches: inner });
    }

    /// At the end of a block, brings `values` into `targets`: by computing them there, or by copies.
    fn hand_on(&mut self, values: &[Val], targets: &[usize], home: usize, why: &str, out: &mut Vec<Do>) {
        let mut moves: Vec<(usize, usize, String)> = vec![];
        for (i, (v, target)) in values.iter().zip(targets).enumerate() {
            let from = self.of(*v);
            let target = self.root(*target);
            if from == target {
                continue;
            }
            let slot = &self.slots[from];
            let mine = slot.pinned.is_none()
                && slot.home == home
                && values.iter().filter(|x| self.peek(**x) == Some(from)).count() == 1;
            // The target must be free from when the slot is first written.
            let holders =
                (0..self.slot_of.len()).filter(|x| self.peek(*x) == Some(target) && self.uses.home[*x] == home);
            let free = holders.into_iter().all(|x| self.uses.last[x] < slot.born)
                && !values.iter().any(|x| self.peek(*x) == Some(target));
            if mine && free {
                self.slots[from].same = Some(target);
            } else {
                moves.push((from, target, format!("{} {why}", self.name(values[i]))));
            }
        }
        // A source that another move overwrites is saved first.
        for i in 0..moves.len() {
            let from = moves[i].0;
            if moves.iter().enumerate().any(|(j, m)| j != i && m.1 == from) {
                let s = self.slot(self.slots[from].bytes, None, home);
                out.push(Do::Copy { from, to: s, why: format!("{}, and its buffer is overwritten", moves[i].2) });
                moves[i].0 = s;
            }
        }
        out.extend(moves.into_iter().map(|(from, to, why)| Do::Copy { from, to, why }));
    }
    fn peek(&self, v: Val) -> Option<usize> {
        self.slot_of[v].map(|s| self.root(s))
    }

    /// Puts each result where it belongs; the slot of each.
    fn results(&mut self, out: &mut Vec<Do>) -> Vec<usize> {
        let mut slots: Vec<usize> = vec![];
        let states: Vec<Option<usize>> = (0..self.entry.results.len())
            .map(|r| self.entry.arguments.iter().position(|o| *o == Ownership::State(r)))
            .collect();
        let mut late: Vec<(usize, usize, String)> = vec![];
        for (i, v) in self.entry.results.iter().enumerate() {
            let from = self.of(*v);
            let bytes = self.entry.values[*v].bytes;
            let own = states[i].map(|a| self.argument(a));
            let taken = slots.contains(&from);
            let s = match (own, self.slots[from].pinned) {
                (Some(own), _) if own == from => own,
                // Written into the state's buffer right away, if all that read the old value are done by then.
                (Some(own), None) if !taken && self.free_since(own, self.slots[from].born) => {
                    self.slots[from].same = Some(own);
                    own
                }
                (Some(own), _) => {
                    late.push((
                        from,
                        own,
                        format!("{} is the next value of a state, whose buffer is in use", self.name(*v)),
                    ));
                    own
                }
                (None, None) if !taken => {
                    self.slots[from].pinned = Some(Place::Result(i));
                    from
                }
                (None, Some(Place::Argument(a)))
                    if !taken
                        && self.entry.arguments[a] == Ownership::Donated
                        && self.entry.values[*v].source == Source::Step =>
                {
                    from
                }
                (None, _) => {
                    let s = self.slot(bytes, Some(Place::Result(i)), 0);
                    let what = match self.entry.values[*v].source {
                        _ if taken => "is returned twice",
                        Source::Step => "is in the buffer of a state, and is another result",
                        _ => "is returned unchanged",
                    };
                    late.push((from, s, format!("{} {what}", self.name(*v))));
                    s
                }
            };
            slots.push(s);
        }
        // Copies out of a state's buffer come before copies into it.
        let into: Vec<usize> = late.iter().map(|m| m.1).collect();
        for m in &mut late {
            if into.contains(&m.0) {
                let s = self.slot(self.slots[m.0].bytes, None, 0);
                out.push(Do::Copy { from: m.0, to: s, why: format!("{}, and its buffer is overwritten", m.2) });
                m.0 = s;
            }
        }
        out.extend(late.into_iter().map(|(from, to, why)| Do::Copy { from, to, why }));
        slots
    }
    /// The slot of an argument, used or not.
    fn argument(&mut self, a: usize) -> usize {
        let v =
            self.entry.values.iter().position(|v| v.source == Source::Argument(a)).expect("every argument is a value");
        self.of(v)
    }
    /// Whether all values in a slot are read for the last time before `born`.
    fn free_since(&self, slot: usize, born: usize) -> bool {
        (0..self.slot_of.len()).filter(|v| self.peek(*v) == Some(slot)).all(|v| self.uses.last[v] < born)
    }

    fn finish(&self, mut steps: Vec<Do>, results: Vec<usize>) -> Program {
        let mut number: BTreeMap<usize, usize> = BTreeMap::new();
        let mut buffers: Vec<Buffer> = vec![];
        let mut used: Vec<usize> = vec![];
        each(&mut steps, &mut |s| used.push(*s));
        used.extend(&results);
        let mut roots: Vec<usize> = vec![];
        for s in used {
            let r = self.root(s);
            if !roots.contains(&r) {
                roots.push(r);
            }
        }
        let order = |r: &usize| match self.slots[*r].pinned {
            Some(Place::Argument(i)) => (0, i),
            Some(Place::Result(i)) => (1, i),
            Some(Place::Constant(i)) => (2, i),
            _ => (3, 0),
        };
        roots.sort_by_key(order);
        for r in roots {
            number.insert(r, buffers.len());
            let slot = &self.slots[r];
            buffers.push(Buffer { place: slot.pinned.unwrap_or(Place::Arena(0)), bytes: slot.bytes });
        }
        each(&mut steps, &mut |s| *s = number[&self.root(*s)]);
        let results = results.into_iter().map(|r| number[&self.root(r)]).collect();
        Program { arena_bytes: 0, buffers, steps, results }
    }
}

/// Every buffer that steps name, in order.
pub fn each(steps: &mut [Do], f: &mut impl FnMut(&mut usize)) {
    for s in steps {
        match s {
            Do::Dispatch { reads, writes, .. } => reads.iter_mut().chain(writes).for_each(&mut *f),
            Do::Copy { from, to, .. } => {
                f(from);
                f(to);
            }
            Do::Barrier => {}
            Do::While { predicate, condition, body, .. } => {
                each(condition, f);
                f(predicate);
                each(body, f);
            }
            Do::Branch { on, branches, .. } => {
                f(on);
                branches.iter_mut().for_each(|b| each(b, f));
            }
        }
    }
}
