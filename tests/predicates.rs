//! A predicate is one byte of 0 or 1, everywhere: through the whole pipeline, on a device, at lengths that no vector divides.

mod common;

use common::{build, bytes_of, call, floats_of, model, vulkan, zmlc};

const SIZES: [usize; 7] = [1, 3, 4, 5, 8, 13, 1023];

/// Values that compare both ways at every alignment.
fn values(n: usize, seed: u32) -> Vec<f32> {
    let mut s = seed;
    (0..n)
        .map(|_| {
            s = s.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (s >> 24) as f32 - 128.0
        })
        .collect()
}
fn bools(n: usize, seed: u32) -> Vec<u8> {
    values(n, seed).iter().map(|v| u8::from(*v > 0.0)).collect()
}
/// Builds and runs a program on the Vulkan device; none if there is no device.
fn run(program: &str, inputs: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
    let folder = tempfile::tempdir().expect("a folder");
    let artifact = build(folder.path(), &model(folder.path(), program), "vulkan", &[]);
    let device = vulkan(&artifact)?;
    Some(call(&artifact, &device, inputs).0)
}

#[test]
fn compare_gives_exactly_n_bytes_of_0_or_1() {
    for n in SIZES {
        let program = format!(
            "func.func @main(%a: tensor<{n}xf32>, %b: tensor<{n}xf32>) -> tensor<{n}xi1> {{
  %0 = stablehlo.compare LT, %a, %b, FLOAT : (tensor<{n}xf32>, tensor<{n}xf32>) -> tensor<{n}xi1>
  return %0 : tensor<{n}xi1>
}}"
        );
        let (a, b) = (values(n, 1), values(n, 2));
        let Some(out) = run(&program, &[&bytes_of(&a), &bytes_of(&b)]) else { return };
        let want: Vec<u8> = a.iter().zip(&b).map(|(x, y)| u8::from(x < y)).collect();
        assert_eq!(out[0], want, "N = {n}");
    }
}

#[test]
fn i1_inputs_choose() {
    for n in SIZES {
        let program = format!(
            "func.func @main(%p: tensor<{n}xi1>, %a: tensor<{n}xf32>, %b: tensor<{n}xf32>) -> tensor<{n}xf32> {{
  %0 = stablehlo.select %p, %a, %b : tensor<{n}xi1>, tensor<{n}xf32>
  return %0 : tensor<{n}xf32>
}}"
        );
        let (p, a, b) = (bools(n, 3), values(n, 4), values(n, 5));
        let Some(out) = run(&program, &[&p, &bytes_of(&a), &bytes_of(&b)]) else { return };
        let want: Vec<f32> = (0..n).map(|i| if p[i] == 1 { a[i] } else { b[i] }).collect();
        assert_eq!(floats_of(&out[0]), want, "N = {n}");
    }
}

#[test]
fn moves_at_odd_offsets() {
    let program = "func.func @main(%p: tensor<5x13xi1>, %q: tensor<5x3xi1>) -> (tensor<3x7xi1>, tensor<5x16xi1>, tensor<8x15xi1>, tensor<5x13xi1>, tensor<13x5xi1>) {
  %0 = stablehlo.slice %p [1:4, 3:10] : (tensor<5x13xi1>) -> tensor<3x7xi1>
  %1 = stablehlo.concatenate %q, %p, dim = 1 : (tensor<5x3xi1>, tensor<5x13xi1>) -> tensor<5x16xi1>
  %t = stablehlo.constant dense<true> : tensor<i1>
  %2 = stablehlo.pad %p, %t, low = [1, 1], high = [2, 1], interior = [0, 0] : (tensor<5x13xi1>, tensor<i1>) -> tensor<8x15xi1>
  %3 = stablehlo.reverse %p, dims = [0, 1] : tensor<5x13xi1>
  %4 = stablehlo.transpose %p, dims = [1, 0] : (tensor<5x13xi1>) -> tensor<13x5xi1>
  return %0, %1, %2, %3, %4 : tensor<3x7xi1>, tensor<5x16xi1>, tensor<8x15xi1>, tensor<5x13xi1>, tensor<13x5xi1>
}";
    let (p, q) = (bools(65, 6), bools(15, 7));
    let Some(out) = run(program, &[&p, &q]) else { return };
    let at = |i: usize, j: usize| p[i * 13 + j];
    let grid = |h: usize, w: usize, f: &dyn Fn(usize, usize) -> u8| -> Vec<u8> {
        (0..h).flat_map(|i| (0..w).map(move |j| (i, j))).map(|(i, j)| f(i, j)).collect()
    };
    assert_eq!(out[0], grid(3, 7, &|i, j| at(i + 1, j + 3)), "slice");
    assert_eq!(out[1], grid(5, 16, &|i, j| if j < 3 { q[i * 3 + j] } else { at(i, j - 3) }), "concatenate");
    let inside = |i: usize, j: usize| (1..6).contains(&i) && (1..14).contains(&j);
    assert_eq!(out[2], grid(8, 15, &|i, j| if inside(i, j) { at(i - 1, j - 1) } else { 1 }), "pad");
    assert_eq!(out[3], grid(5, 13, &|i, j| at(4 - i, 12 - j)), "reverse");
    assert_eq!(out[4], grid(13, 5, &|i, j| at(j, i)), "transpose");
}

#[test]
fn reductions_and_arithmetic() {
    let program = "func.func @main(%p: tensor<5x13xi1>, %q: tensor<5x13xi1>) -> (tensor<5xi1>, tensor<13xi1>, tensor<i1>, tensor<5x13xi1>, tensor<5x13xi1>, tensor<5x13xi1>) {
  %t = stablehlo.constant dense<true> : tensor<i1>
  %f = stablehlo.constant dense<false> : tensor<i1>
  %0 = stablehlo.reduce(%p init: %t) applies stablehlo.and across dimensions = [1] : (tensor<5x13xi1>, tensor<i1>) -> tensor<5xi1>
  %1 = stablehlo.reduce(%p init: %f) applies stablehlo.or across dimensions = [0] : (tensor<5x13xi1>, tensor<i1>) -> tensor<13xi1>
  %2 = stablehlo.reduce(%p init: %f) applies stablehlo.or across dimensions = [0, 1] : (tensor<5x13xi1>, tensor<i1>) -> tensor<i1>
  %3 = stablehlo.add %p, %q : tensor<5x13xi1>
  %4 = stablehlo.multiply %p, %q : tensor<5x13xi1>
  %5 = stablehlo.not %p : tensor<5x13xi1>
  return %0, %1, %2, %3, %4, %5 : tensor<5xi1>, tensor<13xi1>, tensor<i1>, tensor<5x13xi1>, tensor<5x13xi1>, tensor<5x13xi1>
}";
    let mut p = bools(65, 8);
    p[26..39].fill(1);
    for i in 0..5 {
        p[i * 13 + 4] = 0;
    }
    p[2 * 13 + 4] = 1;
    let q = bools(65, 9);
    let Some(out) = run(program, &[&p, &q]) else { return };
    let want: Vec<u8> = p.chunks(13).map(|r| u8::from(r.iter().all(|x| *x == 1))).collect();
    assert_eq!(out[0], want, "reduce and");
    let want: Vec<u8> = (0..13).map(|j| u8::from((0..5).any(|i| p[i * 13 + j] == 1))).collect();
    assert_eq!(out[1], want, "reduce or");
    assert_eq!(out[2], [1], "reduce or of everything");
    assert_eq!(out[3], p.iter().zip(&q).map(|(a, b)| a | b).collect::<Vec<_>>(), "add is or");
    assert_eq!(out[4], p.iter().zip(&q).map(|(a, b)| a & b).collect::<Vec<_>>(), "multiply is and");
    assert_eq!(out[5], p.iter().map(|a| 1 - a).collect::<Vec<_>>(), "not");
}

/// A causal mask that goes through memory: computed by one entry's result and chosen with in the same program.
const MASK: &str = "func.func @main(%x: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xi1>) {
  %r = stablehlo.iota dim = 0 : tensor<16x16xi32>
  %c = stablehlo.iota dim = 1 : tensor<16x16xi32>
  %m = stablehlo.compare GE, %r, %c, SIGNED : (tensor<16x16xi32>, tensor<16x16xi32>) -> tensor<16x16xi1>
  %n = stablehlo.constant dense<-1.0> : tensor<16x16xf32>
  %0 = stablehlo.select %m, %x, %n : tensor<16x16xi1>, tensor<16x16xf32>
  return %0, %m : tensor<16x16xf32>, tensor<16x16xi1>
}";

#[test]
fn the_causal_mask_is_right() {
    let x = values(256, 10);
    let Some(out) = run(MASK, &[&bytes_of(&x)]) else { return };
    let want: Vec<u8> = (0..256).map(|i| u8::from(i / 16 >= i % 16)).collect();
    assert_eq!(out[1], want);
    let chosen: Vec<f32> = (0..256).map(|i| if want[i] == 1 { x[i] } else { -1.0 }).collect();
    assert_eq!(floats_of(&out[0]), chosen);
}

/// What widen-predicates is for: before it the kernels access `vector<Nxi1>`; without it its verifier refuses; without both,
/// nothing crashes and the mask is wrong.
#[test]
fn without_the_pass_the_mask_is_silently_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = model(folder.path(), MASK);
    let toml = path.to_str().expect("UTF-8");
    let before = common::zmlc_ok(folder.path(), &["inspect-ir", toml, "--pass", "emit"]);
    assert!(before.contains("vector.store") && before.contains("xi1>"), "predicates are vectorised:\n{before}");
    let after = common::zmlc_ok(folder.path(), &["inspect-ir", toml, "--pass", "widen-predicates"]);
    assert!(!after.lines().any(|l| l.contains("memref<") && l.contains("xi1>") && l.contains("vector.store")));

    let refused = zmlc(
        folder.path(),
        &["build", toml, "--target", "vulkan", "--without", "widen-predicates:run", "-o", "refused"],
    );
    assert_eq!(refused.status.code(), Some(101), "the verifier finds i1 memory");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("widen-predicates"));

    let artifact = build(folder.path(), &path, "vulkan", &["--without", "widen-predicates"]);
    let Some(device) = vulkan(&artifact) else { return };
    let out = call(&artifact, &device, &[&bytes_of(&values(256, 10))]).0;
    let right: Vec<u8> = (0..256).map(|i| u8::from(i / 16 >= i % 16)).collect();
    assert_ne!(out[1], right, "packed bits where bytes were promised");
}
