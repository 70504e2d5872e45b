//! Contractions by fragments in the simulator: numbers, bounds, races, single writes, for every way in which inputs can
//! lie in memory and for devices with and without copies beside the threads and teams.

use super::kernels::{Kernels, close, floats, ints, noise, spec};
use half::bf16;
use zmlc_passes::spec::{DeviceSpec, Matrix};

fn device(async_copy: bool, team: i64) -> DeviceSpec {
    let matrix =
        |factors: &str, sums: &str, k| Matrix { factors: factors.into(), sums: sums.into(), shape: [16, 16, k], team };
    DeviceSpec {
        subgroup: 8,
        max_block: 1024,
        large_shared_bytes: 232448,
        async_copy,
        matrices: vec![matrix("bf16", "f32", 16), matrix("i8", "i32", 32)],
        ..spec()
    }
}

/// x: [m, k] or [k, m]; w: [k, n] or [n, k]; a bias over n and a relu, in bf16.
fn program(m: usize, n: usize, k: usize, x_across: bool, w_across: bool) -> String {
    let (x, xm) = if x_across { (format!("{k}x{m}"), "k, m") } else { (format!("{m}x{k}"), "m, k") };
    let (w, wm) = if w_across { (format!("{k}x{n}"), "k, n") } else { (format!("{n}x{k}"), "n, k") };
    format!(
        r#"
func.func private @f(%x: tensor<{x}xbf16>, %w: tensor<{w}xbf16>, %bias: tensor<{n}xbf16>) -> tensor<{m}x{n}xbf16> attributes {{zml.dispatch, zml.hero = "matmul"}} {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<{m}x{n}xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %0 = linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> ({xm})>, affine_map<(m, n, k) -> ({wm})>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}} ins(%x, %w : tensor<{x}xbf16>, tensor<{w}xbf16>) outs(%i : tensor<{m}x{n}xf32>) {{
  ^bb0(%a: bf16, %b: bf16, %acc: f32):
    %p = arith.extf %a : bf16 to f32
    %q = arith.extf %b : bf16 to f32
    %t = arith.mulf %p, %q : f32
    %s = arith.addf %acc, %t : f32
    linalg.yield %s : f32
  }} -> tensor<{m}x{n}xf32>
  %o = tensor.empty() : tensor<{m}x{n}xbf16>
  %1 = linalg.generic {{indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]}} ins(%0, %bias : tensor<{m}x{n}xf32>, tensor<{n}xbf16>) outs(%o : tensor<{m}x{n}xbf16>) {{
  ^bb0(%a: f32, %b: bf16, %c: bf16):
    %q = arith.extf %b : bf16 to f32
    %s = arith.addf %a, %q : f32
    %r = arith.maximumf %s, %zero : f32
    %t = arith.truncf %r : f32 to bf16
    linalg.yield %t : bf16
  }} -> tensor<{m}x{n}xbf16>
  return %1 : tensor<{m}x{n}xbf16>
}}"#
    )
}
fn narrow(x: &[f64]) -> Vec<f64> {
    x.iter().map(|x| bf16::from_f64(*x).to_f64()).collect()
}

fn check(spec: &DeviceSpec, (m, n, k): (usize, usize, usize), x_across: bool, w_across: bool) -> Kernels {
    let (x, w, bias) = (narrow(&noise(m * k)), narrow(&noise(n * k + 31)[31..]), narrow(&noise(n)));
    let kernels = Kernels::emit_for(&program(m, n, k, x_across, w_across), spec);
    let out = kernels.run("f", &[floats(&x), floats(&w), floats(&bias)]);
    let element = |i: usize, j: usize| {
        let at = |v: &[f64], o: usize, l: usize, across: bool, extent: usize| {
            if across { v[l * extent + o] } else { v[o * k + l] }
        };
        let dot: f64 = (0..k).map(|l| at(&x, i, l, x_across, m) * at(&w, j, l, w_across, n)).sum();
        (dot + bias[j]).max(0.0)
    };
    let expected: Vec<f64> = (0..m * n).map(|i| element(i / n, i % n)).collect();
    close(&out[0], &expected, 1.0 / 128.0);
    kernels
}

#[test]
fn every_layout() {
    for (x_across, w_across) in [(false, false), (false, true), (true, false), (true, true)] {
        for async_copy in [false, true] {
            let kernels = check(&device(async_copy, 0), (64, 48, 96), x_across, w_across);
            assert!(kernels.count("f", "zml.mma") > 0);
            assert_eq!(kernels.count("f", "zml.copy_async") > 0, async_copy);
        }
    }
}
#[test]
fn edges() {
    for size in [(37, 45, 19), (5, 8, 40), (130, 6, 200), (16, 264, 72)] {
        check(&device(true, 0), size, false, true);
        check(&device(true, 0), size, true, false);
    }
}
#[test]
fn teams() {
    for (x_across, w_across) in [(false, false), (false, true), (true, false), (true, true)] {
        let spec = DeviceSpec { parallel_blocks: 4, ..device(true, 4) };
        let kernels = check(&spec, (64, 80, 320), x_across, w_across);
        assert!(kernels.count("f", "zml.team_mma") > 0);
    }
    let kernels = check(&device(true, 4), (72, 72, 136), false, true);
    assert!(kernels.count("f", "zml.team_mma") > 0);
}
#[test]
fn several_pieces_of_sums() {
    check(&DeviceSpec { parallel_blocks: 4, ..device(true, 0) }, (128, 128, 64), false, true);
}
#[test]
fn not_a_number_stays_where_it_is() {
    let (m, n, k) = (40, 24, 40);
    let mut x = narrow(&noise(m * k));
    x[39 * k + 39] = f64::NAN;
    let kernels = Kernels::emit_for(&program(m, n, k, false, true), &device(true, 0));
    let out = kernels.run("f", &[floats(&x), floats(&narrow(&noise(n * k))), floats(&vec![0.0; n])]);
    for (i, y) in out[0].iter().enumerate() {
        assert_eq!(y.float().is_nan(), i / n == 39, "element {i}");
    }
}
#[test]
fn bytes() {
    const FIXTURE: &str = include_str!("../../../fixtures/emit/matmul.mlir");
    let x: Vec<i64> = (0..180).map(|i| i * 37 % 256 - 128).collect();
    let w: Vec<i64> = (0..240).map(|i| i * 91 % 256 - 128).collect();
    let kernels = Kernels::emit_for(FIXTURE, &device(true, 0));
    assert!(kernels.count("bytes", "zml.mma") > 0);
    let out = kernels.run("bytes", &[ints(&x), ints(&w)]);
    let element = |m: usize, n: usize| (0..20).map(|k| x[k * 9 + m] * w[n * 20 + k]).sum();
    let expected: Vec<i64> = (0..9 * 12).map(|i| element(i / 12, i % 12)).collect();
    assert_eq!(out[0], ints(&expected));
}

#[test]
fn what_takes_many_ops_is_computed_a_chunk_a_turn() {
    const SINES: usize = 8;
    let (m, n, k) = (21, 24, 75);
    let chain: String = (0..SINES).map(|i| format!("    %s{} = math.sin %s{i} : f32\n", i + 1)).collect();
    let sines = format!(
        r#"  %ex = tensor.empty() : tensor<{m}x{k}xbf16>
  %y = linalg.generic {{indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m, k)>], iterator_types = ["parallel", "parallel"]}} ins(%x : tensor<{m}x{k}xbf16>) outs(%ex : tensor<{m}x{k}xbf16>) {{
  ^bb0(%a: bf16, %o: bf16):
    %s0 = arith.extf %a : bf16 to f32
{chain}    %t = arith.truncf %s{SINES} : f32 to bf16
    linalg.yield %t : bf16
  }} -> tensor<{m}x{k}xbf16>
  %0 ="#
    );
    let text = program(m, n, k, false, true).replacen("  %0 =", &sines, 1).replace("ins(%x, %w", "ins(%y, %w");
    let (x, w) = (narrow(&noise(m * k)), narrow(&noise(n * k)));
    let y: Vec<f64> = x.iter().map(|x| (0..SINES).fold(*x as f32, |s, _| s.sin())).map(f64::from).collect();
    let y = narrow(&y);
    let dot = |i: usize, j: usize| (0..k).map(|l| y[i * k + l] * w[l * n + j]).sum::<f64>().max(0.0);
    let expected: Vec<f64> = (0..m * n).map(|i| dot(i / n, i % n)).collect();
    for spec in [device(false, 0), device(true, 0), device(true, 4)] {
        let kernels = Kernels::emit_for(&text, &spec);
        let out = kernels.run("f", &[floats(&x), floats(&w), floats(&vec![0.0; n])]);
        close(&out[0], &expected, 1.0 / 64.0);
        // Before the first turn for each stage on its way, and in the loop.
        assert!(kernels.count("f", "math.sin") <= 4 * SINES, "{}", kernels.count("f", "math.sin"));
    }
}
