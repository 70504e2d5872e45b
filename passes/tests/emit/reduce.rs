//! The reduce emitter: kernels as text, and their numbers, bounds, races and single writes in the simulator.

use super::kernels::{Kernels, close, floats, ints, noise, spec};
use half::bf16;
use zmlc_passes::spec::DeviceSpec;

const FIXTURE: &str = include_str!("../../../fixtures/emit/reduce.mlir");

/// The kernels for a device whose subgroups are not known, for one with subgroups of 8, and for one that takes many
/// threads to fill.
fn devices() -> Vec<Kernels> {
    let mut exchanging = spec();
    exchanging.subgroup = 8;
    [spec(), exchanging, wide()].iter().map(|s| Kernels::emit_for(FIXTURE, s)).collect()
}

fn wide() -> DeviceSpec {
    let mut wide = spec();
    (wide.subgroup, wide.max_block, wide.parallel_blocks) = (32, 1024, 500);
    wide
}

#[test]
fn snapshot() {
    insta::with_settings!({snapshot_path => "../../../snapshots/emit", prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("reduce", Kernels::text(FIXTURE));
    });
}

/// The place of the greatest of a hash: each round reads the one before twice, and is walked through once.
#[test]
fn a_chain_that_reads_itself_twice_is_evaluated_once() {
    const ROUNDS: usize = 64;
    let mut rounds = String::new();
    for i in 0..ROUNDS {
        rounds += &format!(
            "  %h{} = linalg.generic {{indexing_maps = [#id2, #id2, #id2], iterator_types = [\"parallel\", \"parallel\"]}} \
             ins(%h{i}, %h{i} : tensor<5x37xi32>, tensor<5x37xi32>) outs(%e : tensor<5x37xi32>) {{
  ^bb0(%x: i32, %y: i32, %o: i32):
    %s = arith.addi %x, %y : i32
    linalg.yield %s : i32
  }} -> tensor<5x37xi32>\n",
            i + 1
        );
    }
    let text = format!(
        "#id2 = affine_map<(d0, d1) -> (d0, d1)>
func.func private @place(%h0: tensor<5x37xi32>, %n: tensor<5x37xi32>) -> (tensor<5xi32>, tensor<5xi32>) attributes {{zml.dispatch, zml.hero = \"reduce\", zml.rows = 5 : i64, zml.label = \"place\"}} {{
  %low = arith.constant -2147483648 : i32
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<5x37xi32>
  %e5 = tensor.empty() : tensor<5xi32>
{rounds}  %i0 = linalg.fill ins(%low : i32) outs(%e5 : tensor<5xi32>) -> tensor<5xi32>
  %i1 = linalg.fill ins(%zero : i32) outs(%e5 : tensor<5xi32>) -> tensor<5xi32>
  %m:2 = linalg.reduce ins(%h{ROUNDS}, %n : tensor<5x37xi32>, tensor<5x37xi32>) outs(%i0, %i1 : tensor<5xi32>, tensor<5xi32>) dimensions = [1] (%x: i32, %j: i32, %a: i32, %k: i32) {{
    %g = arith.cmpi sgt, %x, %a : i32
    %same = arith.cmpi eq, %x, %a : i32
    %first = arith.cmpi slt, %j, %k : i32
    %tie = arith.andi %same, %first : i1
    %take = arith.ori %g, %tie : i1
    %v = arith.select %take, %x, %a : i32
    %p = arith.select %take, %j, %k : i32
    linalg.yield %v, %p : i32, i32
  }}
  return %m#0, %m#1 : tensor<5xi32>, tensor<5xi32>
}}"
    );
    for device in [spec(), wide()] {
        let kernels = Kernels::emit_for(&text, &device);
        let sums = kernels.count("place", "arith.addi");
        assert!((ROUNDS..ROUNDS * 16).contains(&sums), "{sums} sums");
    }
}

#[test]
fn softmax() {
    let a = noise(6 * 256);
    for kernels in devices() {
        let out = kernels.run("softmax", &[floats(&a)]);
        let expected: Vec<f64> = a
            .chunks(256)
            .flat_map(|row| {
                let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
                row.iter().map(move |x| (x - max).exp() / sum).collect::<Vec<_>>()
            })
            .collect();
        close(&out[0], &expected, 1e-6);
    }
}

#[test]
fn softmax_of_nan_is_nan_in_its_row_only() {
    let mut a = noise(6 * 256);
    a[300] = f64::NAN;
    for kernels in devices() {
        let out = kernels.run("softmax", &[floats(&a)]);
        for (row, x) in out[0].chunks(256).enumerate() {
            assert!(x.iter().all(|x| x.float().is_nan() == (row == 1)), "row {row}");
        }
    }
}

/// Rows of 37 are read one by one, rows of 36 in vectors.
#[test]
fn argmax_takes_the_first_of_equals() {
    for n in [37, 36] {
        let text = FIXTURE.replace("5x37", &format!("5x{n}"));
        let mut a = noise(5 * n);
        a[n + 5] = 9.0;
        a[n + 30] = 9.0;
        let mut places = vec![];
        for row in a.chunks(n) {
            let best = (0..n).rev().max_by(|i, j| row[*i].total_cmp(&row[*j])).expect("not empty");
            places.push(best as i64);
        }
        assert_eq!(places[1], 5);
        let values: Vec<f64> = places.iter().enumerate().map(|(r, p)| a[r * n + *p as usize]).collect();
        let kernels = Kernels::emit(&text);
        assert_eq!(kernels.count("argmax", "vector.load") > 0, n == 36);
        let out = kernels.run("argmax", &[floats(&a)]);
        assert_eq!(out[1], ints(&places));
        assert_eq!(out[0], floats(&values));
    }
}

/// As jax writes it: NaN above all numbers, and of several the first.
#[test]
fn argmax_of_rows_with_nan() {
    let body = "%gt = arith.cmpf ogt, %x, %ax : f32";
    let text = FIXTURE.replace(
        body,
        "%above = arith.cmpf ogt, %x, %ax : f32
    %known = arith.cmpf oeq, %ax, %ax : f32
    %nan = arith.cmpf une, %x, %x : f32
    %new = arith.andi %nan, %known : i1
    %gt = arith.ori %above, %new : i1",
    );
    assert!(text != FIXTURE);
    for n in [37, 36, 1000] {
        let text = text.replace("5x37", &format!("5x{n}"));
        let mut a = noise(5 * n);
        for at in [n - 1, 2 * n - 9, 2 * n - 3, 3 * n, 3 * n + 20] {
            a[at] = f64::NAN;
        }
        a[4 * n..].fill(f64::NEG_INFINITY);
        let places: Vec<i64> = a.chunks(n).map(|row| first_best(row) as i64).collect();
        assert_eq!(places[1..2], [n as i64 - 9]);
        for device in [spec(), wide()] {
            let kernels = Kernels::emit_for(&text, &device);
            assert_eq!(kernels.run("argmax", &[floats(&a)])[1], ints(&places), "rows of {n}");
        }
    }
}
fn first_best(row: &[f64]) -> usize {
    let better = |x: f64, y: f64| x > y || (x.is_nan() && !y.is_nan());
    (1..row.len()).fold(0, |best, i| if better(row[i], row[best]) { i } else { best })
}

/// Rows of one, some and many chunks a thread, the last of which may have fewer.
#[test]
fn a_body_keeps_the_order_of_elements() {
    for n in [1, 2, 36, 37, 1000] {
        let text = FIXTURE.replace("7x37", &format!("7x{n}"));
        let mut a = vec![0; 7 * n];
        let mut expected = vec![];
        for (r, row) in a.chunks_mut(n).enumerate() {
            // Two candidates, close together and far apart.
            let (x, y) = (r * n / 9, n - 1 - r * n / 20);
            row[x.max(y)] = 2;
            row[x.min(y)] = 1;
            expected.push(1);
        }
        for device in [spec(), wide()] {
            assert_eq!(Kernels::emit_for(&text, &device).run("first", &[ints(&a)])[0], ints(&expected), "rows of {n}");
        }
    }
}

#[test]
fn columns_with_an_initial_value() {
    let a = noise(40 * 24);
    for kernels in devices() {
        let out = kernels.run("columns", &[floats(&a)]);
        let expected: Vec<f64> = (0..24).map(|c| 10.0 + (0..40).map(|r| a[r * 24 + c]).sum::<f64>()).collect();
        close(&out[0], &expected, 1e-5);
    }
}

#[test]
fn middle_dimension() {
    let a: Vec<i64> = (0..3 * 50 * 7).map(|i| (i * 7919 + 5) % 1009 - 500).collect();
    for kernels in devices() {
        let out = kernels.run("middle", &[ints(&a)]);
        let max = |i: usize, j: usize| (0..50).map(|k| a[(i * 50 + k) * 7 + j]).max().expect("not empty");
        let expected: Vec<i64> = (0..21).map(|r| max(r / 7, r % 7)).collect();
        assert_eq!(out[0], ints(&expected));
    }
}

#[test]
fn all_of_predicates() {
    for kernels in devices() {
        let mut a = vec![1; 9 * 33];
        assert_eq!(kernels.run("all", &[ints(&a)])[0], ints(&[1]));
        a[296] = 0;
        assert_eq!(kernels.run("all", &[ints(&a)])[0], ints(&[0]));
    }
}

#[test]
fn two_matvecs_share_a_loop() {
    let round = |x: &[f64]| -> Vec<f64> { x.iter().map(|x| bf16::from_f64(*x).to_f64()).collect() };
    let (x, g, u) = (round(&noise(512)), round(&noise(20 * 512)), round(&noise(20 * 700)[20 * 188..]));
    for kernels in devices() {
        let out = kernels.run("gate_up", &[floats(&x), floats(&g), floats(&u)]);
        let dot = |w: &[f64], r: usize| -> f64 { (0..512).map(|k| x[k] * w[r * 512 + k]).sum() };
        let expected: Vec<f64> = (0..20).map(|r| dot(&g, r) * dot(&u, r)).collect();
        close(&out[0], &expected, 1.0 / 256.0);
    }
}

#[test]
fn matvec_into_a_cache() {
    let (x, w, cache) = (noise(12), noise(96), noise(24));
    let inputs = [floats(&x), floats(&w), floats(&cache), ints(&[1]), ints(&[0])];
    for kernels in devices() {
        let out = kernels.run("project", &inputs);
        let mut expected = cache.clone();
        for n in 0..8 {
            expected[8 + n] = (0..12).map(|k| x[k] * w[k * 8 + n]).sum();
        }
        close(&out[0], &expected, 1e-5);
    }
}

#[test]
fn norm_and_its_mean() {
    let a = noise(3600);
    for kernels in devices() {
        let out = kernels.run("norm", &[floats(&a)]);
        let mut means = vec![];
        let mut normed = vec![];
        for row in a.chunks(12) {
            let mean = row.iter().sum::<f64>() / 12.0;
            let var: f64 = row.iter().map(|x| (x - mean) * (x - mean)).sum();
            normed.extend(row.iter().map(|x| (x - mean) / var.sqrt()));
            means.push(mean);
        }
        close(&out[0], &normed, 1e-5);
        close(&out[1], &means, 1e-5);
    }
}

#[test]
fn nothing_to_reduce() {
    for kernels in devices() {
        assert_eq!(kernels.run("empty", &[floats(&[])])[0], floats(&[1.0; 3]));
    }
}

#[test]
fn a_reduced_value_says_where_an_update_goes() {
    for kernels in devices() {
        for (x, at) in [([3, 1, 7, 0, 2, 7], 7), ([-4, -9, -3, -7, -5, -6], 0), ([3, 99, 12, 5, 6, 7], 8)] {
            let zeros = [0; 9 * 17];
            let out = kernels.run("put", &[ints(&x), ints(&[-100]), ints(&zeros), ints(&[5])]);
            let column = if at == 8 { 16 } else { at };
            let places: Vec<usize> = (0..9 * 17).filter(|i| out[0][*i].int() != 0).collect();
            assert_eq!(places, [at * 17 + column], "{x:?}");
        }
    }
}
