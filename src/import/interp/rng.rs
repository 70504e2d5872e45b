//! Random bits: Threefry-2x32 with XLA's way of counting, and Philox-4x32.

use super::{R, Tensor, unsupported};
use crate::tree::{DType, TensorType};

/// Threefry-2x32, 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3").
fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let ks = [key[0], key[1], key[0] ^ key[1] ^ 0x1BD1_1BDA];
    let mut x = [counter[0].wrapping_add(ks[0]), counter[1].wrapping_add(ks[1])];
    for round in 0..5 {
        for r in ROTATIONS[round % 2] {
            x[0] = x[0].wrapping_add(x[1]);
            x[1] = x[1].rotate_left(r) ^ x[0];
        }
        x[0] = x[0].wrapping_add(ks[(round + 1) % 3]);
        x[1] = x[1].wrapping_add(ks[(round + 2) % 3]).wrapping_add(round as u32 + 1);
    }
    x
}

/// Philox-4x32, 10 rounds (same paper).
fn philox(mut key: [u32; 2], mut c: [u32; 4]) -> [u32; 4] {
    for _ in 0..10 {
        let p0 = u64::from(c[0]) * 0xD251_1F53;
        let p1 = u64::from(c[2]) * 0xCD9E_8D57;
        c = [(p1 >> 32) as u32 ^ c[1] ^ key[0], p1 as u32, (p0 >> 32) as u32 ^ c[3] ^ key[1], p0 as u32];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    c
}

fn halves(x: u64) -> [u32; 2] {
    [x as u32, (x >> 32) as u32]
}

/// New state and output.
pub(super) fn bit_generator(state: &Tensor, out: &TensorType, algorithm: &str) -> R<Vec<Tensor>> {
    let Some(shape) = out.shape() else { return unsupported("random bits of a dynamic shape") };
    let words: Vec<u64> =
        state.bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("8 bytes"))).collect();
    let bytes = out.dtype.bytes();
    let (new_state, data) = match (algorithm, words.len()) {
        ("THREE_FRY" | "DEFAULT", 2) => threefry_bits(words[0], words[1], &shape, bytes),
        ("PHILOX", 2 | 3) | ("DEFAULT", 3) => philox_bits(&words, &shape, bytes),
        _ => return unsupported(format!("random bits by {algorithm} from a state of {} words", words.len())),
    };
    if matches!(out.dtype, DType::I1) || out.dtype.bits() < 8 {
        return unsupported(format!("random bits of type {}", out.dtype));
    }
    let state_bytes = new_state.iter().flat_map(|w| w.to_le_bytes()).collect();
    Ok(vec![
        Tensor { dtype: state.dtype, shape: state.shape.clone(), bytes: state_bytes },
        Tensor { dtype: out.dtype, shape, bytes: data },
    ])
}

/// XLA's scheme: for values of up to 32 bits, both words of a block go to neighbours along one dimension; a value of 64 bits
/// takes a block for itself.
fn threefry_bits(key: u64, counter: u64, shape: &[u64], bytes: usize) -> (Vec<u64>, Vec<u8>) {
    let key = halves(key);
    let n: u64 = shape.iter().product();
    let mut out = vec![0u8; n as usize * bytes];
    if bytes == 8 {
        for i in 0..n {
            let x = threefry(key, halves(counter.wrapping_add(i)));
            out[i as usize * 8..][..4].copy_from_slice(&x[0].to_le_bytes());
            out[i as usize * 8 + 4..][..4].copy_from_slice(&x[1].to_le_bytes());
        }
        return (vec![pack(key), counter.wrapping_add(n)], out);
    }
    // The first even dimension, or else the largest.
    let split = shape.iter().position(|d| d % 2 == 0).or_else(|| {
        let largest = shape.iter().max()?;
        shape.iter().position(|d| d == largest)
    });
    let (outer, size, inner) = match split {
        Some(s) => (shape[..s].iter().product::<u64>(), shape[s], shape[s + 1..].iter().product::<u64>()),
        None => (1, 1, 1),
    };
    let half = size.div_ceil(2);
    for o in 0..outer {
        for h in 0..half {
            for i in 0..inner {
                let c = counter.wrapping_add((o * half + h) * inner + i);
                let x = threefry(key, halves(c));
                for (k, word) in x.into_iter().enumerate() {
                    let at = h * 2 + k as u64;
                    if at < size {
                        let place = ((o * size + at) * inner + i) as usize * bytes;
                        out[place..place + bytes].copy_from_slice(&word.to_le_bytes()[..bytes]);
                    }
                }
            }
        }
    }
    (vec![pack(key), counter.wrapping_add(outer * half * inner)], out)
}

fn pack(x: [u32; 2]) -> u64 {
    u64::from(x[0]) | u64::from(x[1]) << 32
}

fn philox_bits(state: &[u64], shape: &[u64], bytes: usize) -> (Vec<u64>, Vec<u8>) {
    let n = shape.iter().product::<u64>() as usize;
    let key = halves(state[0]);
    let mut counter = u128::from(state[1]) | u128::from(state.get(2).copied().unwrap_or(0)) << 64;
    let mut stream = vec![];
    let words = if bytes == 8 { 2 } else { 1 };
    while stream.len() < n * words {
        let c = [halves(counter as u64), halves((counter >> 64) as u64)].concat();
        stream.extend(philox(key, c.try_into().expect("four words")));
        counter = counter.wrapping_add(1);
    }
    let mut out = vec![];
    for v in stream.chunks_exact(words).take(n) {
        let whole: Vec<u8> = v.iter().flat_map(|w| w.to_le_bytes()).collect();
        out.extend_from_slice(&whole[..bytes]);
    }
    let mut new_state = vec![state[0], counter as u64];
    if state.len() == 3 {
        new_state.push((counter >> 64) as u64);
    }
    (new_state, out)
}
