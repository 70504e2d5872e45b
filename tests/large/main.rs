//! Programs of any size: more workgroups than one dimension of a grid has, loops that the software Vulkan device would
//! end, more elements than n^2 forms could take, ranks and extents at the edges. Numbers from a device.

mod beyond;
#[path = "../common/mod.rs"]
mod common;
mod loops;
mod operands;
mod tensors;

use common::{build, bytes_of, call, floats_of, model, vulkan};

/// Builds and runs a program on the Vulkan device; none if there is no device.
fn run(program: &str, inputs: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
    let folder = tempfile::tempdir().expect("a folder");
    let artifact = build(folder.path(), &model(folder.path(), program), "vulkan", &[]);
    let device = vulkan(&artifact)?;
    Some(call(&artifact, &device, inputs).0)
}
fn ints_of(bytes: &[u8]) -> Vec<i32> {
    bytes.as_chunks().0.iter().map(|b| i32::from_le_bytes(*b)).collect()
}
fn ints(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}
/// Numbers that look random.
fn noise(n: usize, below: u32) -> Vec<i32> {
    let mut s = 12345_u32;
    (0..n)
        .map(|_| {
            s = s.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((s >> 8) % below) as i32
        })
        .collect()
}

/// 300 million elements that nothing holds in memory, in two steps of loops that are short enough.
#[test]
fn full_reduction_of_more_elements_than_a_loop_may_take() {
    let n: i64 = 300_000_001;
    let program = format!(
        "func.func @main(%x: tensor<i32>) -> (tensor<i32>, tensor<i32>) {{
  %i = stablehlo.iota dim = 0 : tensor<{n}xi32>
  %b = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<i32>) -> tensor<{n}xi32>
  %0 = stablehlo.xor %i, %b : tensor<{n}xi32>
  %z = stablehlo.constant dense<5> : tensor<i32>
  %s = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<{n}xi32>, tensor<i32>) -> tensor<i32>
  %m = stablehlo.reduce(%0 init: %z) applies stablehlo.maximum across dimensions = [0] : (tensor<{n}xi32>, tensor<i32>) -> tensor<i32>
  return %s, %m : tensor<i32>, tensor<i32>
}}"
    );
    let Some(out) = run(&program, &[&ints(&[3])]) else { return };
    let all = (0..n as i32).map(|i| i ^ 3);
    assert_eq!(ints_of(&out[0]), [all.clone().fold(5, i32::wrapping_add)]);
    assert_eq!(ints_of(&out[1]), [all.max().expect("some")]);
}
/// Each thread takes 16 elements, a workgroup 4096: more than 65,535 workgroups need a second dimension of the grid where
/// threads take one element each.
#[test]
fn more_workgroups_than_one_dimension_has() {
    let n = 20_000_003;
    let program = format!(
        "func.func @main(%x: tensor<{n}xi8>) -> tensor<{n}xi8> {{
  %0 = stablehlo.reverse %x, dims = [0] : tensor<{n}xi8>
  return %0 : tensor<{n}xi8>
}}"
    );
    let x: Vec<u8> = noise(n, 251).iter().map(|v| *v as u8).collect();
    let Some(out) = run(&program, &[&x]) else { return };
    assert!(x.iter().rev().eq(&out[0]), "reversed");
}
#[test]
fn sort_and_scatter_of_many() {
    let n = 1 << 17;
    let program = format!(
        "func.func @main(%x: tensor<{n}xi32>, %y: tensor<{n}xf32>) -> (tensor<{n}xi32>, tensor<{n}xf32>, tensor<{n}xf32>, tensor<5xf32>) {{
  %0:2 = \"stablehlo.sort\"(%x, %y) <{{dimension = 0 : i64, is_stable = true}}> ({{
  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<f32>):
    %p = stablehlo.compare LT, %a, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }}) : (tensor<{n}xi32>, tensor<{n}xf32>) -> (tensor<{n}xi32>, tensor<{n}xf32>)
  %i = stablehlo.reshape %x : (tensor<{n}xi32>) -> tensor<{n}x1xi32>
  %z = stablehlo.constant dense<0.0> : tensor<{n}xf32>
  %1 = \"stablehlo.scatter\"(%z, %i, %y) <{{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }}) : (tensor<{n}xf32>, tensor<{n}x1xi32>, tensor<{n}xf32>) -> tensor<{n}xf32>
  %five = stablehlo.constant dense<5> : tensor<{n}x1xi32>
  %j = stablehlo.remainder %i, %five : tensor<{n}x1xi32>
  %w = stablehlo.constant dense<0.0> : tensor<5xf32>
  %2 = \"stablehlo.scatter\"(%w, %j, %y) <{{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }}) : (tensor<5xf32>, tensor<{n}x1xi32>, tensor<{n}xf32>) -> tensor<5xf32>
  return %0#0, %0#1, %1, %2 : tensor<{n}xi32>, tensor<{n}xf32>, tensor<{n}xf32>, tensor<5xf32>
}}"
    );
    // Small whole numbers: every order of additions gives the same.
    let (x, y) = (noise(n, n as u32 / 2), noise(n + 7, 64));
    let y: Vec<f32> = y[7..].iter().map(|v| *v as f32).collect();
    let Some(out) = run(&program, &[&ints(&x), &bytes_of(&y)]) else { return };
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|i| x[*i]);
    assert!(ints_of(&out[0]).iter().eq(order.iter().map(|i| &x[*i])), "keys in order");
    assert!(floats_of(&out[1]).iter().eq(order.iter().map(|i| &y[*i])), "equals in their order");
    let (mut rows, mut few) = (vec![0.0; n], vec![0.0; 5]);
    for (i, v) in x.iter().zip(&y) {
        rows[*i as usize] += v;
        few[*i as usize % 5] += v;
    }
    assert_eq!(floats_of(&out[2]), rows);
    assert_eq!(floats_of(&out[3]), few);
}
#[test]
fn long_running_sums() {
    let n = 1_000_003;
    let program = format!(
        "func.func @main(%x: tensor<{n}xi32>) -> (tensor<{n}xi32>, tensor<{n}xi32>) {{
  %z = stablehlo.constant dense<0> : tensor<i32>
  %l = stablehlo.constant dense<-2147483648> : tensor<i32>
  %0 = \"stablehlo.reduce_window\"(%x, %z) <{{padding = dense<[[{m}, 0]]> : tensor<1x2xi64>, window_dimensions = array<i64: {n}>}}> ({{
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %s = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }}) : (tensor<{n}xi32>, tensor<i32>) -> tensor<{n}xi32>
  %1 = \"stablehlo.reduce_window\"(%x, %l) <{{padding = dense<[[0, {m}]]> : tensor<1x2xi64>, window_dimensions = array<i64: {n}>}}> ({{
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %s = stablehlo.maximum %a, %b : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }}) : (tensor<{n}xi32>, tensor<i32>) -> tensor<{n}xi32>
  return %0, %1 : tensor<{n}xi32>, tensor<{n}xi32>
}}",
        m = n - 1
    );
    let x = noise(n, 1000);
    let Some(out) = run(&program, &[&ints(&x)]) else { return };
    let sums: Vec<i32> = x.iter().scan(0, |s, v| Some((*s += v, *s).1)).collect();
    let mut most: Vec<i32> = x.iter().rev().scan(i32::MIN, |s, v| Some((*s = (*s).max(*v), *s).1)).collect();
    most.reverse();
    assert!(ints_of(&out[0]) == sums && ints_of(&out[1]) == most);
}
/// Ranks 0 and 9, and dimensions without elements, through moves and reductions.
#[test]
fn ranks_and_empty_dimensions() {
    let program = "func.func @main(%x: tensor<2x1x3x2x1x2x3x1x2xf32>, %e: tensor<0x4xf32>, %s: tensor<f32>) -> (tensor<2x3x1x2x1x2x3x1x2xf32>, tensor<2x3x2xf32>, tensor<4xf32>, tensor<3x4xf32>, tensor<f32>, tensor<0x4xf32>) {
  %0 = stablehlo.transpose %x, dims = [8, 6, 7, 5, 4, 3, 2, 1, 0] : (tensor<2x1x3x2x1x2x3x1x2xf32>) -> tensor<2x3x1x2x1x2x3x1x2xf32>
  %z = stablehlo.constant dense<1.0> : tensor<f32>
  %1 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1, 3, 4, 6, 7, 8] : (tensor<2x1x3x2x1x2x3x1x2xf32>, tensor<f32>) -> tensor<2x3x2xf32>
  %2 = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [0] : (tensor<0x4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = stablehlo.pad %e, %s, low = [1, 0], high = [2, 0], interior = [0, 0] : (tensor<0x4xf32>, tensor<f32>) -> tensor<3x4xf32>
  %4 = stablehlo.add %s, %z : tensor<f32>
  %5 = stablehlo.negate %e : tensor<0x4xf32>
  return %0, %1, %2, %3, %4, %5 : tensor<2x3x1x2x1x2x3x1x2xf32>, tensor<2x3x2xf32>, tensor<4xf32>, tensor<3x4xf32>, tensor<f32>, tensor<0x4xf32>
}";
    let x: Vec<f32> = noise(144, 99).iter().map(|v| *v as f32).collect();
    let Some(out) = run(program, &[&bytes_of(&x), &[], &bytes_of(&[2.5])]) else { return };
    let (from, to) = ([2, 1, 3, 2, 1, 2, 3, 1, 2], [2, 3, 1, 2, 1, 2, 3, 1, 2]);
    let order = [8, 6, 7, 5, 4, 3, 2, 1, 0];
    let index = |mut f: usize, extents: &[usize; 9]| {
        let mut at = [0; 9];
        for d in (0..9).rev() {
            at[d] = f % extents[d];
            f /= extents[d];
        }
        at
    };
    let transposed: Vec<f32> = (0..144)
        .map(|f| {
            let (at, mut source) = (index(f, &to), [0; 9]);
            (0..9).for_each(|d| source[order[d]] = at[d]);
            x[(0..9).fold(0, |p, d| p * from[d] + source[d])]
        })
        .collect();
    assert_eq!(floats_of(&out[0]), transposed);
    let mut sums = vec![1.0; 12];
    for (f, v) in x.iter().enumerate() {
        let at = index(f, &from);
        sums[at[0] * 6 + at[2] * 2 + at[5]] += v;
    }
    assert_eq!(floats_of(&out[1]), sums);
    assert_eq!((floats_of(&out[2]), floats_of(&out[3])), (vec![1.0; 4], vec![2.5; 12]));
    assert_eq!((floats_of(&out[4]), out[5].len()), (vec![3.5], 0));
}
/// The host asks nothing after each turn of a loop that counts to a constant: all of them are one submit.
#[test]
fn a_counted_loop_is_one_submit() {
    let program = "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<8xf32>
  cond {
    %n = stablehlo.constant dense<3000> : tensor<i32>
    %c = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    %f = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %b = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %z = stablehlo.subtract %b, %y : tensor<8xf32>
    stablehlo.return %next, %z : tensor<i32>, tensor<8xf32>
  }
  return %0#1 : tensor<8xf32>
}";
    let folder = tempfile::tempdir().expect("a folder");
    let artifact = build(folder.path(), &model(folder.path(), program), "vulkan", &[]);
    let Some(device) = vulkan(&artifact) else { return };
    let x: Vec<f32> = (0..8).map(|i| i as f32 / 4.0).collect();
    let (out, submits) = call(&artifact, &device, &[&bytes_of(&x)]);
    let want: Vec<f32> = x.iter().map(|x| (0..3000).fold(*x, |y, i| i as f32 - y)).collect();
    assert_eq!((floats_of(&out[0]), submits), (want, 1));
}
