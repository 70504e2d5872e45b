//! Fragments, products of them, and copies beside the threads, in the simulator. A subgroup here has eight threads.
//!
//! Copies land when a wait says that they have, not before. What a team's product reads is touched again when it is
//! waited for: until then nobody may write there.

use super::{Group, Num, Value};
use std::rc::Rc;
use zmlc_passes::ir::*;

pub const SUBGROUP: usize = 8;

/// A copy that was started: memory, place, element, thread.
type Copy = (usize, i64, Num, u64);

#[derive(Default)]
pub struct Pending {
    open: Vec<Copy>,
    closed: Vec<Vec<Copy>>,
    /// Reads of each product that was not waited for.
    products: Vec<Vec<(usize, i64, u64)>>,
}

/// Whether `op` is done for all threads at once.
pub fn is_collective(op: &str) -> bool {
    op.starts_with("zml.") && op != "zml.copy_async"
}

impl Group<'_> {
    pub fn collective(&mut self, op: O, active: &[usize]) -> Result<(), String> {
        if active.len() != self.threads {
            return Err(format!("{} that not all threads reach", name(op)));
        }
        match name(op) {
            "zml.async_commit" => {
                let open = std::mem::take(&mut self.pending.open);
                self.pending.closed.push(open);
            }
            "zml.async_wait" => {
                let kept = int_attr(op, "pending").expect("pending") as usize;
                let n = self.pending.closed.len().saturating_sub(kept);
                for (memory, at, x, by) in self.pending.closed.drain(..n).flatten() {
                    self.memory[memory].write(at, x, by)?;
                }
            }
            "zml.team_mma" => self.team(op)?,
            "zml.team_wait" => {
                let kept = int_attr(op, "pending").expect("pending") as usize;
                let n = self.pending.products.len().saturating_sub(kept);
                for (memory, at, by) in self.pending.products.drain(..n).flatten() {
                    self.memory[memory].read(at, by)?;
                }
                self.pass(&operands(op), &results(op), &vec![true; self.threads]);
            }
            _ => {
                for first in (0..self.threads).step_by(SUBGROUP) {
                    self.of_subgroup(op, first)?;
                }
            }
        }
        Ok(())
    }
    fn share(&mut self, v: V, first: usize, x: Vec<Num>) {
        let x = Rc::new(x);
        (first..first + SUBGROUP).for_each(|t| self.set(v, t, Value::Fragment(x.clone())));
    }
    fn elements(&self, v: V, t: usize) -> Rc<Vec<Num>> {
        match self.get(v, t) {
            Value::Fragment(x) => x.clone(),
            _ => panic!("a fragment"),
        }
    }
    /// An index that all threads of the subgroup agree on.
    fn common(&self, v: V, first: usize) -> Result<i64, String> {
        let at = self.get(v, first).int();
        let same = (first..first + SUBGROUP).all(|t| self.get(v, t).int() == at);
        same.then_some(at).ok_or_else(|| "threads of a subgroup disagree where a fragment is".into())
    }
    fn of_subgroup(&mut self, op: O, first: usize) -> Result<(), String> {
        let by = self.first_thread + first as u64;
        match name(op) {
            "zml.fragment_fill" => {
                let f = Fragment::of(result(op, 0)).expect("a fragment");
                let x = self.get(operand(op, 0), first).num().clone();
                self.share(result(op, 0), first, vec![x; (f.rows * f.columns) as usize]);
            }
            "zml.fragment_load" => {
                let f = Fragment::of(result(op, 0)).expect("a fragment");
                let memory = self.memory_of(operand(op, 0), first);
                let at = self.common(operand(op, 1), first)?;
                let stride = int_attr(op, "stride").expect("a stride");
                let transposed = has_attr(op, "transposed");
                let place = |r: i64, c: i64| at + if transposed { c * stride + r } else { r * stride + c };
                let all = (0..f.rows).flat_map(|r| (0..f.columns).map(move |c| place(r, c)));
                let x = all.map(|i| self.memory[memory].read(i, by)).collect::<Result<_, _>>()?;
                self.share(result(op, 0), first, x);
            }
            "zml.fragment_store" => {
                let f = Fragment::of(operand(op, 0)).expect("a fragment");
                let memory = self.memory_of(operand(op, 1), first);
                let (at, stride) = (self.common(operand(op, 2), first)?, int_attr(op, "stride").expect("a stride"));
                for (i, x) in self.elements(operand(op, 0), first).iter().enumerate() {
                    let (r, c) = (i as i64 / f.columns, i as i64 % f.columns);
                    self.memory[memory].write(at + r * stride + c, x.clone(), by)?;
                }
            }
            "zml.mma" => {
                let [a, b, c] = [0, 1, 2].map(|i| self.elements(operand(op, i), first));
                let [fa, fc] = [0, 2].map(|i| Fragment::of(operand(op, i)).expect("a fragment"));
                let x = (0..fc.rows * fc.columns).map(|i| {
                    let (r, col) = (i / fc.columns, i % fc.columns);
                    let pairs = (0..fa.columns)
                        .map(|k| (&a[(r * fa.columns + k) as usize], &b[(k * fc.columns + col) as usize]));
                    dot(pairs, &c[i as usize])
                });
                self.share(result(op, 0), first, x.collect());
            }
            other => return Err(format!("no simulation of {other}")),
        }
        Ok(())
    }
    fn team(&mut self, op: O) -> Result<(), String> {
        let number = |key| int_attr(op, key).expect("a number");
        let depth = number("depth");
        let bytes = elem_bytes(operand(op, 0).r#type());
        let (length, piece) = (128 / bytes, 16 / bytes);
        // Place of (k, o) of a factor, from its first element on.
        let place = |lines: i64, across: bool, k: i64, o: i64| {
            let (line, along) = if across { (k, o) } else { (o, k) };
            let (block, within) = (along / length, along % length);
            block * lines * length + line * length + ((within / piece) ^ (line % 8)) * piece + within % piece
        };
        let fragments = results(op).len() as i64;
        let mut reads = vec![];
        for first in (0..self.threads).step_by(SUBGROUP) {
            let by = self.first_thread + first as u64;
            let row = (first / SUBGROUP % 4) as i64 * 16;
            let mut read = |group: &mut Self, i: usize, k: i64, o: i64| {
                let memory = group.memory_of(operand(op, i), first);
                let (lines, across) =
                    if i == 0 { (number("a_rows"), "a_across") } else { (number("b_rows"), "b_across") };
                let at = group.common(operand(op, i + 1), first)? + place(lines, has_attr(op, across), k, o);
                reads.push((memory, at, by));
                group.memory[memory].read(at, by)
            };
            let mut a = vec![];
            for (r, k) in (0..16).flat_map(|r| (0..depth).map(move |k| (r, k))) {
                a.push(read(self, 0, k, row + r)?);
            }
            for f in 0..fragments {
                let mut b = vec![];
                for (c, k) in (0..16).flat_map(|c| (0..depth).map(move |k| (c, k))) {
                    b.push(read(self, 2, k, f * 16 + c)?);
                }
                let old = self.elements(operand(op, 4 + f as usize), first);
                let x = (0..256).map(|i| {
                    let (r, c) = (i as i64 / 16, i as i64 % 16);
                    let pairs = (0..depth).map(|k| (&a[(r * depth + k) as usize], &b[(c * depth + k) as usize]));
                    dot(pairs, &old[i])
                });
                self.share(result(op, f as usize), first, x.collect());
            }
        }
        self.pending.products.push(reads);
        Ok(())
    }
    /// One thread's copy.
    pub fn copy(&mut self, op: O, t: usize) -> Result<(), String> {
        let by = self.first_thread + t as u64;
        let n = int_attr(op, "elements").expect("a length");
        let [from, to] = [0, 2].map(|i| (self.memory_of(operand(op, i), t), self.get(operand(op, i + 1), t).int()));
        let e = elem(operand(op, 0).r#type());
        if n * elem_bytes(e) != 16 || from.1 % n != 0 || to.1 % n != 0 {
            return Err(format!("a copy of {n} from {} to {} is not one of 16 aligned bytes", from.1, to.1));
        }
        let on = op.operand_count() == 4 || self.get(operand(op, 4), t).int() != 0;
        for k in 0..n {
            let zero = if is_float(e) { Num::Float(0.0) } else { Num::Int(0) };
            let x = if on { self.memory[from.0].read(from.1 + k, by)? } else { zero };
            self.pending.open.push((to.0, to.1 + k, x, by));
        }
        Ok(())
    }
}
/// Sums in f32 or i32, rounded once.
fn dot<'a>(pairs: impl Iterator<Item = (&'a Num, &'a Num)>, c: &Num) -> Num {
    match c {
        Num::Int(c) => {
            Num::Int(i64::from(pairs.fold(*c as i32, |s, (x, y)| s.wrapping_add((x.int() * y.int()) as i32))))
        }
        Num::Float(c) => Num::Float(f64::from(pairs.fold(*c, |s, (x, y)| s + x.float() * y.float()) as f32)),
    }
}
