//! rng_bit_generator: Threefry-2x32 with XLA's way of counting and Philox-4x32 (Salmon et al., "Parallel random numbers: as
//! easy as 1, 2, 3"), a generic whose body computes one block.

use super::{
    error::Refusal,
    lower::Cx,
    scalar::of_bits,
    shape::slice_static,
    value::{Val, element},
};
use crate::ir::{B, V};

/// Arithmetic modulo 2^32.
struct Words<'a, 'c>(&'a B<'c>);
impl<'c> Words<'_, 'c> {
    fn c(&self, x: u32) -> V<'c> {
        self.0.cint(self.0.i(32), i64::from(x as i32))
    }
    fn add(&self, x: V<'c>, y: V<'c>) -> V<'c> {
        self.0.addi(x, y)
    }
    fn xor(&self, x: V<'c>, y: V<'c>) -> V<'c> {
        self.0.same("arith.xori", &[x, y])
    }
    fn rotate(&self, x: V<'c>, by: u32) -> V<'c> {
        let left = self.0.same("arith.shli", &[x, self.c(by)]);
        self.0.same("arith.ori", &[left, self.0.same("arith.shrui", &[x, self.c(32 - by)])])
    }
    /// Low and high half of a 64-bit word.
    fn halves(&self, x: V<'c>) -> [V<'c>; 2] {
        let b = self.0;
        let high = b.same("arith.shrui", &[x, b.cint(b.i(64), 32)]);
        [x, high].map(|w| b.op1("arith.trunci", &[w], b.i(32), &[]))
    }
    fn join(&self, low: V<'c>, high: V<'c>) -> V<'c> {
        let b = self.0;
        let [low, high] = [low, high].map(|w| b.op1("arith.extui", &[w], b.i(64), &[]));
        b.same("arith.ori", &[low, b.same("arith.shli", &[high, b.cint(b.i(64), 32)])])
    }
    fn threefry(&self, key: [V<'c>; 2], counter: [V<'c>; 2]) -> [V<'c>; 2] {
        const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
        let parity = self.xor(self.xor(key[0], key[1]), self.c(0x1BD1_1BDA));
        let ks = [key[0], key[1], parity];
        let mut x = [self.add(counter[0], ks[0]), self.add(counter[1], ks[1])];
        for round in 0..5 {
            for r in ROTATIONS[round % 2] {
                x[0] = self.add(x[0], x[1]);
                x[1] = self.xor(self.rotate(x[1], r), x[0]);
            }
            x[0] = self.add(x[0], ks[(round + 1) % 3]);
            x[1] = self.add(self.add(x[1], ks[(round + 2) % 3]), self.c(round as u32 + 1));
        }
        x
    }
    fn philox(&self, mut key: [V<'c>; 2], mut c: [V<'c>; 4]) -> [V<'c>; 4] {
        let b = self.0;
        let wide = |x: V<'c>, by: u32| {
            let t = b.i(32);
            let both = b.op("arith.mului_extended", &[x, self.c(by)], &[t, t], &[], vec![]);
            [crate::ir::result(both, 0), crate::ir::result(both, 1)]
        };
        for _ in 0..10 {
            let (p0, p1) = (wide(c[0], 0xD251_1F53), wide(c[2], 0xCD9E_8D57));
            let first = self.xor(self.xor(p1[1], c[1]), key[0]);
            let third = self.xor(self.xor(p0[1], c[3]), key[1]);
            c = [first, p1[0], third, p0[0]];
            key = [self.add(key[0], self.c(0x9E37_79B9)), self.add(key[1], self.c(0xBB67_AE85))];
        }
        c
    }
}

pub(super) fn bit_generator<'c>(cx: &Cx<'_, '_, 'c>, algorithm: &str) -> Result<Vec<Val<'c>>, Refusal> {
    let b = &cx.b;
    let (state, words) = (cx.arg(0).one(), cx.shape(0));
    let (out, d) = (super::value::extents(cx.out(1)), cx.out(1).dtype);
    let philox = match (algorithm, &words[..]) {
        ("THREE_FRY" | "DEFAULT", [2]) => false,
        ("PHILOX", [2 | 3]) | ("DEFAULT", [3]) => true,
        _ => return Err(Refusal::form(format!("{algorithm} from a state of shape {words:?}"))),
    };
    if cx.dtype(0).bits() != 64 || d.bits() < 8 || d.is_complex() {
        return Err(Refusal::dtype(format!("random bits of type {d} from a state of {}", cx.dtype(0))));
    }
    let word = |k: i64| b.reshape(slice_static(b, state, &[k], &[1], &[1]), &[]);
    let ins: Vec<(V, &[usize])> = (0..words[0]).map(|k| (word(k), &[][..])).collect();
    let wide = d.bits() == 64;
    let blocks = if philox { philox_blocks(&out, wide) } else { threefry_blocks(&out, wide) };
    let bits = b.map(&out, element(b, d), &ins, |b, a| {
        let w = Words(b);
        let raw = if philox { philox_at(&w, &out, &a[..ins.len()], wide) } else { threefry_at(&w, &out, a, wide) };
        of_bits(b, d, raw)
    });
    let next = b.map(&words, b.i(64), &[(state, &[0])], |b, a| {
        let i = b.loop_index(0);
        let by = b.cint(b.i(64), blocks);
        let low = b.addi(a[0], by);
        let first = b.cmpi("eq", i, b.cidx(1));
        if words[0] == 2 {
            return b.select(first, low, a[0]);
        }
        // The carry into the third word.
        let before = b.extract(state, &[b.cidx(1)]);
        let overflows = b.cmpi("ult", b.addi(before, by), by);
        let high = b.addi(a[0], b.op1("arith.extui", &[overflows], b.i(64), &[]));
        b.select(first, low, b.select(b.cmpi("eq", i, b.cidx(2)), high, a[0]))
    });
    Ok(vec![Val::One(next), Val::One(bits)])
}

/// The place in row-major order among the dimensions `dims`, as an index.
fn linear<'c>(b: &B<'c>, out: &[i64], dims: std::ops::Range<usize>) -> V<'c> {
    dims.fold(b.cidx(0), |sum, d| b.addi(b.muli(sum, b.cidx(out[d])), b.loop_index(d as i64)))
}
fn to_64<'c>(b: &B<'c>, i: V<'c>) -> V<'c> {
    b.op1("arith.index_cast", &[i], b.i(64), &[])
}
/// The dimension along which both words of a block go to neighbours: the first even one, or else the largest.
fn split(out: &[i64]) -> Option<usize> {
    let largest = out.iter().max();
    out.iter().position(|d| d % 2 == 0).or_else(|| out.iter().position(|d| Some(d) == largest))
}
fn threefry_blocks(out: &[i64], wide: bool) -> i64 {
    match split(out).filter(|_| !wide) {
        Some(s) => out.iter().product::<i64>() / out[s] * ((out[s] + 1) / 2),
        None => out.iter().product(),
    }
}
fn threefry_at<'c>(w: &Words<'_, 'c>, out: &[i64], state: &[V<'c>], wide: bool) -> V<'c> {
    let b = w.0;
    let key = w.halves(state[0]);
    let block = |at: V<'c>| w.threefry(key, w.halves(b.addi(state[1], to_64(b, at))));
    if wide {
        let [low, high] = block(linear(b, out, 0..out.len()));
        return w.join(low, high);
    }
    let Some(s) = split(out) else { return block(b.cidx(0))[0] };
    let at = b.loop_index(s as i64);
    let (h, second) = (b.same("arith.divui", &[at, b.cidx(2)]), b.same("arith.remui", &[at, b.cidx(2)]));
    let half = (out[s] + 1) / 2;
    let inner: i64 = out[s + 1..].iter().product();
    let row = b.addi(b.muli(linear(b, out, 0..s), b.cidx(half)), h);
    let place = b.addi(b.muli(row, b.cidx(inner)), linear(b, out, s + 1..out.len()));
    let x = block(place);
    b.select(b.cmpi("eq", second, b.cidx(0)), x[0], x[1])
}
fn philox_blocks(out: &[i64], wide: bool) -> i64 {
    let words = out.iter().product::<i64>() * if wide { 2 } else { 1 };
    (words + 3) / 4
}
fn philox_at<'c>(w: &Words<'_, 'c>, out: &[i64], state: &[V<'c>], wide: bool) -> V<'c> {
    let b = w.0;
    let per = b.cidx(if wide { 2 } else { 4 });
    let at = linear(b, out, 0..out.len());
    let (block, part) = (b.same("arith.divui", &[at, per]), b.same("arith.remui", &[at, per]));
    let low = b.addi(state[1], to_64(b, block));
    let high = state.get(2).copied().unwrap_or_else(|| b.cint(b.i(64), 0));
    let carry = b.op1("arith.extui", &[b.cmpi("ult", low, state[1])], b.i(64), &[]);
    let (c, d) = (w.halves(low), w.halves(b.addi(high, carry)));
    let x = w.philox(w.halves(state[0]), [c[0], c[1], d[0], d[1]]);
    let is = |k: i64| b.cmpi("eq", part, b.cidx(k));
    if wide {
        let first = is(0);
        return w.join(b.select(first, x[0], x[2]), b.select(first, x[1], x[3]));
    }
    b.select(is(0), x[0], b.select(is(1), x[1], b.select(is(2), x[2], x[3])))
}
