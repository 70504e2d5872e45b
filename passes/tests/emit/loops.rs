//! The loop emitter: kernels as text, and their numbers, bounds and single writes in the simulator.

use super::kernels::{Kernels, floats, ints};

const FIXTURE: &str = include_str!("../../../fixtures/emit/loops.mlir");

#[test]
fn snapshot() {
    insta::with_settings!({snapshot_path => "../../../snapshots/emit", prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("loops", Kernels::text(FIXTURE));
    });
}

#[test]
fn predicates_and_tail() {
    let a: Vec<f64> = (0..13).map(f64::from).collect();
    let b: Vec<f64> = (0..13).map(|i| f64::from(12 - i)).collect();
    let out = Kernels::emit(FIXTURE).run("less", &[floats(&a), floats(&b)]);
    assert_eq!(out[0], ints(&[1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(out[1], floats(&[0., 1., 2., 3., 4., 5., 6., 5., 4., 3., 2., 1., 0.]));
}

#[test]
fn masks_broadcast_and_transpose() {
    let p: Vec<i64> = (0..48).map(|i| i64::from(i % 3 == 0)).collect();
    let r: Vec<f64> = (0..6).map(|i| f64::from(100 + i)).collect();
    let t: Vec<f64> = (0..48).map(f64::from).collect();
    let out = Kernels::emit(FIXTURE).run("mask", &[ints(&p), floats(&r), floats(&t)]);
    let expected: Vec<f64> = (0..48).map(|i| if i % 3 == 0 { r[i / 8] } else { t[(i % 8) * 6 + i / 8] }).collect();
    assert_eq!(out[0], floats(&expected));
}

#[test]
fn blocks_read_and_write_vectors() {
    let a: Vec<f64> = (0..64 * 256).map(f64::from).collect();
    let c: Vec<f64> = (0..64).map(|i| f64::from(i) * 0.5).collect();
    let kernels = Kernels::emit(FIXTURE);
    let out = kernels.run("transposed", &[floats(&a), floats(&c)]);
    let expected: Vec<f64> = (0..2 * 128 * 64).map(|i| a[i % 64 * 256 + i / 64] + c[i % 64]).collect();
    assert_eq!(out[0], floats(&expected));
    assert_eq!(kernels.count("transposed", "memref.load") + kernels.count("transposed", "memref.store"), 0);
}

#[test]
fn indices() {
    let out = Kernels::emit(FIXTURE).run("iota", &[]);
    assert_eq!(out[0], ints(&[0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24]));
}

#[test]
fn shapes() {
    let a: Vec<f64> = (0..24).map(f64::from).collect();
    let b: Vec<f64> = (0..16).map(|i| f64::from(100 + i)).collect();
    let out = Kernels::emit(FIXTURE).run("shapes", &[floats(&a), floats(&b)]);
    let mut expected = vec![7.0; 32];
    for (row, values) in [(1, [6., 8., 10.]), (2, [12., 14., 16.])] {
        expected[row * 8 + 2..row * 8 + 5].copy_from_slice(&values);
    }
    expected.extend(b);
    assert_eq!(out[0], floats(&expected));
}

#[test]
fn pieces_that_end_inside_a_run() {
    let a: Vec<i64> = vec![1, 2, 3];
    let c: Vec<i64> = (10..23).collect();
    let out = Kernels::emit(FIXTURE).run("uneven", &[ints(&a), ints(&[]), ints(&c)]);
    assert_eq!(out[0], ints(&[a, c].concat()));
}

#[test]
fn update_in_place_clamps_and_writes_only_the_row() {
    let cache: Vec<f64> = (0..32).map(f64::from).collect();
    let row = [90., 91., 92., 93., 94., 95., 96., 97.];
    for (at, lands) in [(2, 2), (9, 3), (-5, 0)] {
        let inputs = [floats(&cache), floats(&row), ints(&[at]), ints(&[0])];
        let out = Kernels::emit(FIXTURE).run("update_in_place", &inputs);
        let mut expected = cache.clone();
        expected[lands * 8..lands * 8 + 8].copy_from_slice(&row);
        assert_eq!(out[0], floats(&expected));
    }
}

#[test]
fn update_as_a_value() {
    let cache: Vec<f64> = (0..32).map(f64::from).collect();
    let inputs = [floats(&cache), floats(&[90., 91., 92., 93., 94.]), ints(&[1]), ints(&[7])];
    let out = Kernels::emit(FIXTURE).run("update_copy", &inputs);
    let mut expected = cache.clone();
    // The start column clamps to 8 - 5.
    expected[11..16].copy_from_slice(&[90., 91., 92., 93., 94.]);
    let expected: Vec<f64> = expected.iter().map(|x| x * 2.0).collect();
    assert_eq!(out[0], floats(&expected));
}

#[test]
fn gather_clamps() {
    let table: Vec<f64> = (0..20).map(f64::from).collect();
    let out = Kernels::emit(FIXTURE).run("gather", &[floats(&table), ints(&[3, -1, 7])]);
    assert_eq!(out[0], floats(&[12., 13., 14., 15., 0., 1., 2., 3., 16., 17., 18., 19.]));
}

#[test]
fn pooling() {
    let a: Vec<f64> = (0..144).map(|i| f64::from(i * 7919 % 1000)).collect();
    let out = Kernels::emit(FIXTURE).run("pool", &[floats(&a)]);
    let mut expected = vec![];
    for (y, x, c) in (0..3).flat_map(|y| (0..3).flat_map(move |x| (0..4).map(move |c| (y, x, c)))) {
        let window = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(v, u)| a[((y * 2 + v) * 6 + x * 2 + u) * 4 + c]);
        expected.push(window.into_iter().fold(f64::NEG_INFINITY, f64::max));
    }
    assert_eq!(out[0], floats(&expected));
}

#[test]
fn rank_0_and_empty() {
    let kernels = Kernels::emit(FIXTURE);
    assert_eq!(kernels.run("scalar", &[ints(&[1, 2, 3, 4, 5])])[0], ints(&[18]));
    assert_eq!(kernels.run("nothing", &[floats(&[])])[0], floats(&[]));
}
