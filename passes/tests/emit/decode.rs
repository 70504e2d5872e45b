//! What a decode step is made of: matrices times a vector with what comes before and after, and attention.

use super::kernels::{Kernels, close, floats, noise, spec};
use half::bf16;
use zmlc_passes::spec::DeviceSpec;

const FIXTURE: &str = include_str!("../../../fixtures/emit/decode.mlir");

/// Threads that cannot exchange, subgroups of 8 and of 32, workgroups of one round and of many.
fn devices() -> Vec<DeviceSpec> {
    let mut all = vec![spec()];
    for (subgroup, most, fill) in [(8, 256, 1), (32, 1024, 500), (32, 64, 2), (0, 64, 3)] {
        let mut s = spec();
        (s.subgroup, s.max_block, s.parallel_blocks) = (subgroup, most, fill);
        all.push(s);
    }
    all
}
fn rounded(x: Vec<f64>) -> Vec<f64> {
    x.into_iter().map(|x| bf16::from_f64(x).to_f64()).collect()
}

#[test]
fn rows_of_two_matrices_after_a_norm() {
    let (x, c) = (noise(64), noise(8));
    let (w, v) = (rounded(noise(64 * 64)), rounded(noise(32 * 64)));
    let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
    let times = |m: &[f64]| -> Vec<f64> {
        m.chunks(64).map(|row| row.iter().zip(&x).map(|(w, x)| w * x / norm).sum()).collect()
    };
    let (q, k) = (times(&w), times(&v));
    let turned: Vec<f64> = (0..64)
        .map(|i| {
            let (head, d) = (i / 16 * 16, i % 16);
            let (low, high, c) = (q[head + d % 8], q[head + 8 + d % 8], c[d % 8]);
            if d < 8 { low * c - high } else { high * c + low }
        })
        .collect();
    let more: Vec<f64> = k.iter().map(|k| k + 1.0).collect();
    for device in devices() {
        let kernels = Kernels::emit_for(FIXTURE, &device);
        let out = kernels.run("turned", &[floats(&x), floats(&w), floats(&v), floats(&c)]);
        close(&out[0], &turned, 1e-5);
        close(&out[1], &more, 1e-5);
    }
}

#[test]
fn rows_that_are_neighbours() {
    let (x, w) = (rounded(noise(64)), rounded(noise(64 * 96)));
    let expected: Vec<f64> = (0..96).map(|n| (0..64).map(|k| x[k] * w[k * 96 + n]).sum()).collect();
    for device in devices() {
        let out = Kernels::emit_for(FIXTURE, &device).run("columns", &[floats(&x), floats(&w)]);
        close(&out[0], &expected, 1e-5);
    }
}

fn attention(mask: &[f64]) {
    let (q, k, v) = (noise(2 * 3 * 16), noise(37 * 2 * 16), noise(37 * 2 * 16));
    let mut expected = vec![0.0; 2 * 16 * 3];
    for h in 0..2 {
        for i in 0..3 {
            let dot = |t: usize| (0..16).map(|d| q[(h * 3 + i) * 16 + d] * k[(t * 2 + h) * 16 + d]).sum::<f64>();
            let s: Vec<f64> = (0..37).map(|t| dot(t) + mask[i * 37 + t]).collect();
            let max = s.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let e: Vec<f64> = s.iter().map(|s| (s - max).exp()).collect();
            let sum: f64 = e.iter().sum();
            for d in 0..16 {
                expected[(h * 16 + d) * 3 + i] = (0..37).map(|t| e[t] / sum * v[(t * 2 + h) * 16 + d]).sum();
            }
        }
    }
    for device in devices() {
        let kernels = Kernels::emit_for(FIXTURE, &device);
        let out = kernels.run("attention", &[floats(&q), floats(&k), floats(&v), floats(mask)]);
        close(&out[0], &expected, 1e-4);
    }
}
#[test]
fn attention_over_all_positions() {
    attention(&noise(3 * 37));
}
/// The first positions are masked out: a group of threads may see nothing else.
#[test]
fn attention_over_few_positions() {
    let mask: Vec<f64> = (0..3 * 37).map(|i| if i % 37 < 30 + i / 37 { f64::NEG_INFINITY } else { 0.0 }).collect();
    attention(&mask);
}
