//! The scan emitter: numbers, bounds, races and single writes in the simulator, where subgroups are not known and where
//! registers are exchanged.

use super::kernels::{Kernels, close, floats, ints, noise, spec};

const FIXTURE: &str = include_str!("../../../fixtures/emit/scan.mlir");

fn devices() -> Vec<Kernels> {
    let mut exchanging = spec();
    exchanging.subgroup = 8;
    let mut small = spec();
    (small.subgroup, small.max_block) = (16, 64);
    [spec(), exchanging, small].iter().map(|s| Kernels::emit_for(FIXTURE, s)).collect()
}
fn sums(row: &[f64]) -> Vec<f64> {
    row.iter().scan(0.0, |sum, x| Some((*sum += x, *sum).1)).collect()
}
fn counts(n: usize) -> Vec<i64> {
    (0..n as i64).map(|i| i * 7919 % 101 - 50).collect()
}
fn same(kernels: &Kernels, name: &str, a: &[i64], expected: &[i64]) {
    let out = kernels.run(name, &[ints(a)]);
    let got: Vec<i64> = out[0].iter().map(super::simulate::Num::int).collect();
    assert_eq!(got, expected, "{name}");
}

#[test]
fn snapshot() {
    insta::with_settings!({snapshot_path => "../../../snapshots/emit", prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("scan", Kernels::text(FIXTURE));
    });
}
#[test]
fn sums_along_rows() {
    for kernels in devices() {
        let a = noise(6 * 256);
        let expected = a.chunks(256).flat_map(|r| sums(&r.iter().map(|x| x * x).collect::<Vec<_>>()));
        let expected: Vec<f64> = expected.map(|x| -x).collect();
        close(&kernels.run("rows", &[floats(&a)])[0], &expected, 1e-5);
        let a = noise(5 * 37);
        close(&kernels.run("odd", &[floats(&a)])[0], &a.chunks(37).flat_map(sums).collect::<Vec<_>>(), 1e-5);
        let a = vec![0.5; 3 * 64];
        close(&kernels.run("narrow", &[floats(&a)])[0], &a.chunks(64).flat_map(sums).collect::<Vec<_>>(), 1e-6);
    }
}
#[test]
fn tiles_of_a_row_carry_on() {
    for kernels in devices() {
        let a = counts(7500);
        let reversed = a.chunks(2500).flat_map(|row| {
            let mut sums: Vec<i64> = row.iter().rev().scan(7, |s, x| Some((*s += x, *s).1)).collect();
            sums.reverse();
            sums
        });
        same(&kernels, "long_reversed", &a, &reversed.collect::<Vec<_>>());
        let a = counts(5000);
        let exclusive = a.chunks(2500).flat_map(|row| row.iter().scan(-3, |m, x| Some((*m, *m = (*m).max(*x)).0)));
        same(&kernels, "long_exclusive", &a, &exclusive.collect::<Vec<_>>());
    }
}
#[test]
fn down_columns() {
    for kernels in devices() {
        let a = noise(48 * 12);
        let at = |i: usize, j: usize| (0..=i).map(|k| a[k * 12 + j]).sum::<f64>();
        let expected: Vec<f64> = (0..48 * 12).map(|f| at(f / 12, f % 12)).collect();
        close(&kernels.run("columns", &[floats(&a)])[0], &expected, 1e-5);
        let a = counts(24 * 12);
        let at = |i: usize, j: usize| 1 + (i + 1..24).map(|k| a[k * 12 + j]).sum::<i64>();
        let expected: Vec<i64> = (0..24 * 12).map(|f| at(f / 12, f % 12)).collect();
        same(&kernels, "columns_exclusive_reversed", &a, &expected);
    }
}
#[test]
fn of_equals_the_first_counts() {
    let a: Vec<f64> = counts(4 * 96).iter().map(|x| (x / 10) as f64).collect();
    let b: Vec<i64> = (0..4 * 96).collect();
    let expected: Vec<i64> = (0..4 * 96)
        .map(|f: usize| {
            let row = f / 96 * 96;
            (row..=f).fold(row, |best, k| if a[k] > a[best] { k } else { best }) as i64
        })
        .collect();
    for kernels in devices() {
        let out = kernels.run("pairs", &[floats(&a), ints(&b)]);
        let got: Vec<i64> = out[1].iter().map(super::simulate::Num::int).collect();
        assert_eq!(got, expected);
    }
}
