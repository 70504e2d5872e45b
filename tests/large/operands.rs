//! One op with more operands than a device binds buffers: the portable profile has 32 bindings.

use crate::{
    common::{build, call, model, vulkan},
    ints, ints_of, noise,
};

fn list(n: usize, each: impl Fn(usize) -> String) -> String {
    (0..n).map(each).collect::<Vec<_>>().join(", ")
}
/// Builds and runs a program of i32 tensors on the Vulkan device; none if there is no device. `least`: buffers that some
/// kernel finds by address.
fn run(program: &str, inputs: &[Vec<i32>], least: usize) -> Option<Vec<Vec<i32>>> {
    let folder = tempfile::tempdir().expect("a folder");
    let artifact = build(folder.path(), &model(folder.path(), program), "vulkan:vulkan1.3", &[]);
    let most = artifact.manifest.profiles[0].kernels.iter().map(|k| k.addresses.len()).max();
    assert!(most >= Some(least), "{most:?} buffers by address");
    let device = vulkan(&artifact)?;
    let inputs: Vec<Vec<u8>> = inputs.iter().map(|v| ints(v)).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    Some(call(&artifact, &device, &inputs).0.iter().map(|b| ints_of(b)).collect())
}
fn made(count: usize, n: usize) -> Vec<Vec<i32>> {
    noise(count * n, 100).chunks(n).map(<[i32]>::to_vec).collect()
}

#[test]
fn concatenation_of_51() {
    let program = format!(
        "func.func @main({}) -> tensor<306xi32> {{
  %0 = stablehlo.concatenate {}, dim = 0 : ({}) -> tensor<306xi32>
  return %0 : tensor<306xi32>
}}",
        list(51, |i| format!("%a{i}: tensor<6xi32>")),
        list(51, |i| format!("%a{i}")),
        list(51, |_| "tensor<6xi32>".into())
    );
    let inputs = made(51, 6);
    let Some(out) = run(&program, &inputs, 0) else { return };
    assert_eq!(out[0], inputs.concat());
}

/// 20 inputs, 20 initial values and 20 results: of each row the column whose first operand is least.
#[test]
fn reduction_of_20_operands() {
    let n = 20;
    let program = format!(
        "func.func @main({}, {}) -> ({}) {{
  %0:{n} = \"stablehlo.reduce\"({}, {}) <{{dimensions = array<i64: 1>}}> ({{
  ^bb0({}, {}):
    %p = stablehlo.compare LT, %a0, %b0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    {}
    \"stablehlo.return\"({}) : ({}) -> ()
  }}) : ({}, {}) -> ({})
  return {} : {}
}}",
        list(n, |i| format!("%x{i}: tensor<3x5xi32>")),
        list(n, |i| format!("%z{i}: tensor<i32>")),
        list(n, |_| "tensor<3xi32>".into()),
        list(n, |i| format!("%x{i}")),
        list(n, |i| format!("%z{i}")),
        list(n, |i| format!("%a{i}: tensor<i32>")),
        list(n, |i| format!("%b{i}: tensor<i32>")),
        (0..n)
            .map(|i| format!("%s{i} = stablehlo.select %p, %a{i}, %b{i} : tensor<i1>, tensor<i32>\n"))
            .collect::<String>(),
        list(n, |i| format!("%s{i}")),
        list(n, |_| "tensor<i32>".into()),
        list(n, |_| "tensor<3x5xi32>".into()),
        list(n, |_| "tensor<i32>".into()),
        list(n, |_| "tensor<3xi32>".into()),
        list(n, |i| format!("%0#{i}")),
        list(n, |_| "tensor<3xi32>".into()),
    );
    let mut x = made(n, 15);
    // No two of a row are equal, and the initial value is not among them.
    x[0] = (0..15).map(|i| i * 7 % 15).collect();
    let z = vec![vec![1000]; n];
    let Some(out) = run(&program, &[x.clone(), z].concat(), 29) else { return };
    for row in 0..3 {
        let least = (row * 5..row * 5 + 5).min_by_key(|i| x[0][*i]).expect("five");
        assert!(out.iter().zip(&x).all(|(o, x)| o[row] == x[least]), "row {row}");
    }
}

#[test]
fn sort_of_20_operands() {
    let (count, n) = (20, 33);
    let program = format!(
        "func.func @main({}) -> ({}) {{
  %0:{count} = \"stablehlo.sort\"({}) <{{dimension = 0 : i64, is_stable = true}}> ({{
  ^bb0({}):
    %p = stablehlo.compare LT, %a0, %b0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }}) : ({}) -> ({})
  return {} : {}
}}",
        list(count, |i| format!("%x{i}: tensor<{n}xi32>")),
        list(count, |_| format!("tensor<{n}xi32>")),
        list(count, |i| format!("%x{i}")),
        list(count, |i| format!("%a{i}: tensor<i32>, %b{i}: tensor<i32>")),
        list(count, |_| format!("tensor<{n}xi32>")),
        list(count, |_| format!("tensor<{n}xi32>")),
        list(count, |i| format!("%0#{i}")),
        list(count, |_| format!("tensor<{n}xi32>")),
    );
    let x = made(count, n);
    let Some(out) = run(&program, &x, 1) else { return };
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|i| x[0][*i]);
    for (found, x) in out.iter().zip(&x) {
        assert!(found.iter().eq(order.iter().map(|i| &x[*i])));
    }
}
