//! Tensors that every row of a workgroup reads: computed once by all threads together, kept in workgroup memory.
//!
//! Floats below 32 bits are kept as f32, so that they are widened once and not by every row. A run of lanes that is
//! wider than one access is kept in stripes: the first accesses of all runs, then the second ones. Neighbouring threads
//! that read neighbouring runs then read neighbouring words.

use super::{
    build::{Em, Lanes},
    index::Ix,
    kernel::Frame,
};
use crate::ir::*;
use melior::ir::Type;

/// Runs that a thread computes one after the other in straight code.
const UNROLL: i64 = 8;
/// Neighbours that come with a single element which others follow.
const ACROSS: i64 = 4;

#[derive(Clone)]
pub struct Staged<'c> {
    memory: V<'c>,
    /// The tensor's element type.
    element: Type<'c>,
    count: i64,
    /// Elements of a run, and of one access.
    run: i64,
    width: i64,
}

/// A tensor to be kept.
pub struct Stage<'c> {
    pub value: V<'c>,
    pub run: i64,
}
impl<'c> Stage<'c> {
    pub fn count(&self) -> i64 {
        elements(self.value.r#type())
    }
    /// The tensors in memory that it is computed from.
    pub fn sources(&self) -> Vec<V<'c>> {
        let (mut next, mut seen, mut found) = (vec![self.value], std::collections::HashSet::new(), vec![]);
        while let Some(v) = next.pop() {
            if !is_tensor(v.r#type()) || !seen.insert(key(v)) {
                continue;
            }
            match def(v) {
                None => found.push(v),
                Some(op) => next.extend(reads(op).into_iter().chain(operands(op))),
            }
        }
        found
    }
    /// The type in which elements are kept.
    pub fn kept(&self, b: &B<'c>) -> Type<'c> {
        let e = elem(self.value.r#type());
        if is_float(e) && bits(e) < 32 { b.f32() } else { e }
    }
    pub fn bytes(&self) -> i64 {
        let e = elem(self.value.r#type());
        self.count() * if is_float(e) { elem_bytes(e).max(4) } else { elem_bytes(e) }
    }
    /// Writes all elements, by all threads, into `memory`; to be read after a barrier.
    pub fn fill(&self, em: &mut Em<'c>, b: &B<'c>, frame: &Frame<'c>, block: i64, memory: V<'c>) -> Staged<'c> {
        let element = elem(self.value.r#type());
        let count = self.count();
        let run = if count % self.run == 0 { self.run } else { 1 };
        let width = run.min((16 / elem_bytes(elem(memory.r#type()))).max(1));
        let staged = Staged { memory, element, count, run, width };
        let runs = count / run;
        let rounds = (runs + block - 1) / block;
        em.vectors_across = Some(ACROSS);
        if rounds <= UNROLL && runs % block == 0 {
            // All loads before the first use.
            let numbers: Vec<Ix> = (0..rounds).map(|i| em.ix.add_constant(frame.thread, i * block)).collect();
            for number in &numbers {
                let index = self.index(em, *number, run);
                em.fetch(b, self.value, &index);
            }
            for number in numbers {
                self.put(em, b, &staged, number);
            }
        } else {
            em.for_each(b, rounds, &[], |em, b, i, _| {
                let i = em.ix.scale(i, block);
                let number = em.ix.add(i, frame.thread);
                em.if_below(b, number, runs, |em, b| self.put(em, b, &staged, number));
                vec![]
            });
        }
        em.vectors_across = None;
        staged
    }
    /// The elements of a run.
    fn index(&self, em: &mut Em<'c>, number: Ix, run: i64) -> Vec<Ix> {
        let at = em.ix.scale(number, run);
        let lane = em.ix.lane(run);
        let at = em.ix.add(at, lane);
        em.ix.delinear(at, &shape(self.value.r#type()))
    }
    fn put(&self, em: &mut Em<'c>, b: &B<'c>, staged: &Staged<'c>, number: Ix) {
        let index = self.index(em, number, staged.run);
        let lanes = em.eval(b, self.value, &index);
        staged.store(em, b, number, &lanes);
    }
}

impl<'c> Staged<'c> {
    fn stripe(&self) -> i64 {
        self.count / self.run * self.width
    }
    fn is_wider(&self) -> bool {
        elem(self.memory.r#type()) != self.element
    }
    fn store(&self, em: &mut Em<'c>, b: &B<'c>, number: Ix, lanes: &Lanes<'c>) {
        let t = elem(self.memory.r#type());
        let wide: Vec<V> = (0..self.run as usize)
            .map(|k| lanes[if lanes.len() == 1 { 0 } else { k }])
            .map(|x| {
                if !self.is_wider() {
                    return x;
                }
                em.exact.get(&key(x)).copied().unwrap_or_else(|| b.op1("arith.extf", &[x], t, &[]))
            })
            .collect();
        for (s, part) in wide.chunks(self.width as usize).enumerate() {
            let at = em.ix.scale(number, self.width);
            let at = em.ix.add_constant(at, s as i64 * self.stripe());
            let at = em.ssa(b, at);
            if let [x] = part {
                b.op("memref.store", &[*x, self.memory, at], &[], &[], vec![]);
                continue;
            }
            let v = b.op1("vector.from_elements", part, b.vector(self.width, t), &[]);
            let alignment = b.i64_attr(self.width * elem_bytes(t));
            b.op("vector.store", &[v, self.memory, at], &[], &[("alignment", alignment)], vec![]);
        }
    }
    /// The elements at flat position `at`.
    pub fn load(&self, em: &mut Em<'c>, b: &B<'c>, at: Ix) -> Lanes<'c> {
        let t = elem(self.memory.r#type());
        let n = em.ix.lanes(at);
        let wide: Lanes = match em.ix.aligned_run(at).filter(|_| n > 1 && n % self.width == 0 && self.run % n == 0) {
            Some(first) if self.width > 1 => (0..n / self.width)
                .flat_map(|s| {
                    let first = em.ix.add_constant(first, s * self.width);
                    let place = self.place(em, first);
                    let place = em.ssa(b, place);
                    let alignment = b.i64_attr(self.width * elem_bytes(t));
                    let v = b.op1(
                        "vector.load",
                        &[self.memory, place],
                        b.vector(self.width, t),
                        &[("alignment", alignment)],
                    );
                    (0..self.width).map(move |k| b.op1("vector.extract", &[v], t, &[("static_position", b.i64s(&[k]))]))
                })
                .collect(),
            _ => (0..n)
                .map(|k| {
                    let at = em.ix.at_lane(at, k);
                    let place = self.place(em, at);
                    let place = em.ssa(b, place);
                    b.op1("memref.load", &[self.memory, place], t, &[])
                })
                .collect(),
        };
        if !self.is_wider() {
            return wide;
        }
        wide.into_iter()
            .map(|x| {
                let narrow = b.op1("arith.truncf", &[x], self.element, &[]);
                em.exact.insert(key(narrow), x);
                em.narrowed.push(narrow);
                narrow
            })
            .collect()
    }
    /// Where element `e` is.
    fn place(&self, em: &mut Em<'c>, e: Ix) -> Ix {
        let (number, within) = (em.ix.div(e, self.run), em.ix.rem(e, self.run));
        let (stripe, lane) = (em.ix.div(within, self.width), em.ix.rem(within, self.width));
        let stripe = em.ix.scale(stripe, self.stripe());
        let number = em.ix.scale(number, self.width);
        let place = em.ix.add(stripe, number);
        em.ix.add(place, lane)
    }
}

impl<'c> Em<'c> {
    /// Erases narrowed values that were only read in f32.
    pub fn drop_unread(&mut self) {
        for narrow in std::mem::take(&mut self.narrowed) {
            if uses(narrow).is_empty()
                && let Some(op) = def(narrow)
            {
                rewrite::erase(op);
            }
        }
    }
}
