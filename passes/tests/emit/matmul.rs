//! The matmul emitter: kernels as text, and their numbers, bounds, races and single writes in the simulator.

use super::kernels::{Kernels, close, floats, ints, noise};
use half::bf16;

const FIXTURE: &str = include_str!("../../../fixtures/emit/matmul.mlir");

#[test]
fn snapshot() {
    insta::with_settings!({snapshot_path => "../../../snapshots/emit", prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("matmul", Kernels::text(FIXTURE));
    });
}

#[test]
fn edges_and_epilogue() {
    let (x, w, bias) = (noise(37 * 19), noise(19 * 45 + 9)[9..].to_vec(), noise(45));
    let out = Kernels::emit(FIXTURE).run("bias_relu", &[floats(&x), floats(&w), floats(&bias)]);
    let element = |m: usize, n: usize| {
        let dot: f64 = (0..19).map(|k| x[m * 19 + k] * w[k * 45 + n]).sum();
        (dot + bias[n]).max(0.0)
    };
    let expected: Vec<f64> = (0..37 * 45).map(|i| element(i / 45, i % 45)).collect();
    close(&out[0], &expected, 1e-5);
}

#[test]
fn not_a_number_beyond_the_edge_of_k_is_not_read_in() {
    // A NaN in the last row of x spoils its own results only.
    let (mut x, w, bias) = (noise(37 * 19), noise(19 * 45), vec![0.0; 45]);
    x[36 * 19 + 18] = f64::NAN;
    let out = Kernels::emit(FIXTURE).run("bias_relu", &[floats(&x), floats(&w), floats(&bias)]);
    for (i, y) in out[0].iter().enumerate() {
        assert_eq!(y.float().is_nan(), i / 45 == 36, "element {i}");
    }
}

#[test]
fn whole_tiles() {
    let (x, w) = (noise(64 * 96), noise(64 * 96 + 7)[7..].to_vec());
    let out = Kernels::emit(FIXTURE).run("square", &[floats(&x), floats(&w)]);
    let element = |m: usize, n: usize| (0..96).map(|k| x[m * 96 + k] * w[k * 64 + n]).sum();
    let expected: Vec<f64> = (0..64 * 64).map(|i| element(i / 64, i % 64)).collect();
    close(&out[0], &expected, 2e-5);
}

#[test]
fn heads_between() {
    let round = |x: &[f64]| -> Vec<f64> { x.iter().map(|x| bf16::from_f64(*x).to_f64()).collect() };
    let (q, k) = (round(&noise(960)), round(&noise(1200)[48..]));
    let out = Kernels::emit(FIXTURE).run("scores", &[floats(&q), floats(&k)]);
    let mut expected = vec![];
    for (b, h) in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)] {
        for (m, n) in (0..10).flat_map(|m| (0..12).map(move |n| (m, n))) {
            let dot: f64 =
                (0..16).map(|d| q[((b * 10 + m) * 3 + h) * 16 + d] * k[((b * 12 + n) * 3 + h) * 16 + d]).sum();
            expected.push(dot * 0.25);
        }
    }
    close(&out[0], &expected, 1.0 / 256.0);
}

#[test]
fn bytes() {
    let x: Vec<i64> = (0..180).map(|i| i * 37 % 256 - 128).collect();
    let w: Vec<i64> = (0..240).map(|i| i * 91 % 256 - 128).collect();
    let out = Kernels::emit(FIXTURE).run("bytes", &[ints(&x), ints(&w)]);
    let element = |m: usize, n: usize| (0..20).map(|k| x[k * 9 + m] * w[n * 20 + k]).sum();
    let expected: Vec<i64> = (0..9 * 12).map(|i| element(i / 12, i % 12)).collect();
    assert_eq!(out[0], ints(&expected));
}
