//! What grouping takes, in places that it follows.

use super::{
    assign, entries,
    group::{Grouper, Hero},
    view::View,
};
use crate::{
    context,
    ir::{block, body},
};

const SUM: &str = "indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, \
                   affine_map<(d0, d1) -> (d0, d1)>], iterator_types = [\"parallel\", \"parallel\"]";

/// The entry `(x: tensor<ROWSx16xf32>) -> ..` of these lines, grouped.
fn grouped<T>(rows: usize, lines: &str, result: &str, shape: &str, look: impl FnOnce(&Grouper) -> T) -> T {
    let text = format!(
        "func.func @main(%u0: tensor<{rows}x16xf32>) -> tensor<{shape}xf32> {{\n{lines}  return {result} : tensor<{shape}xf32>\n}}"
    );
    let c = context::context();
    let module = context::parse(&c, &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let view = View::of(block(entries(body(&module))[0], 0));
    let mut f = Grouper::new(&view, 32);
    assign::assign(&mut f);
    look(&f)
}
/// `name = x + y`, of this shape.
fn sum(name: &str, shape: &str, x: &str, y: &str) -> String {
    pairs("addf", name, shape, x, y)
}
fn pairs(op: &str, name: &str, shape: &str, x: &str, y: &str) -> String {
    format!(
        "  {name}e = tensor.empty() : tensor<{shape}xf32>
  {name} = linalg.generic {{{SUM}}} ins({x}, {y} : tensor<{shape}xf32>, tensor<{shape}xf32>) outs({name}e : tensor<{shape}xf32>) {{
  ^bb0(%a: f32, %b: f32, %c: f32):
    %s = arith.{op} %a, %b : f32
    linalg.yield %s : f32
  }} -> tensor<{shape}xf32>\n"
    )
}

/// Steps that each add to every element its neighbour and what was there two steps before.
fn steps(n: usize) -> String {
    let mut all = String::new();
    for i in 0..n {
        let before = i.saturating_sub(1);
        all += &format!(
            "  %h{i} = tensor.extract_slice %u{i}[1, 0] [63, 16] [1, 1] : tensor<64x16xf32> to tensor<63x16xf32>
  %t{i} = tensor.extract_slice %u{i}[0, 0] [1, 16] [1, 1] : tensor<64x16xf32> to tensor<1x16xf32>
  %r{i} = tensor.concat dim(0) %h{i}, %t{i} : (tensor<63x16xf32>, tensor<1x16xf32>) -> tensor<64x16xf32>\n"
        );
        all += &sum(&format!("%v{i}"), "64x16", &format!("%u{i}"), &format!("%r{i}"));
        all += &sum(&format!("%u{}", i + 1), "64x16", &format!("%v{i}"), &format!("%u{before}"));
    }
    all
}

#[test]
fn twice_as_many_steps_of_a_stencil_take_less_than_three_times_as_much() {
    let followed =
        |n: usize| grouped(64, &steps(n), &format!("%u{n}"), "64x16", |f| (f.followed.get(), f.view.nodes.len()));
    let (short, _) = followed(40);
    let (long, nodes) = followed(80);
    assert!(long < 3 * short, "{short}, then {long}");
    // Twice what a kernel may compute for each op, at most.
    assert!(long < 1200 * nodes, "{long} of {nodes} ops");
}

/// The exponential of each element, then sums of neighbours until one row is left: every result needs all of them.
#[test]
fn dear_ops_that_one_kernel_would_compute_at_many_places_are_computed_once() {
    let mut lines = String::from(
        "  %e = tensor.empty() : tensor<32x16xf32>
  %s0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = [\"parallel\", \"parallel\"]} ins(%u0 : tensor<32x16xf32>) outs(%e : tensor<32x16xf32>) {
  ^bb0(%a: f32, %c: f32):
    %s = math.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<32x16xf32>\n",
    );
    let mut rows = 32;
    for i in 0..5 {
        for (half, offset) in [("l", 0), ("r", 1)] {
            lines += &format!(
                "  %{half}{i} = tensor.extract_slice %s{i}[{offset}, 0] [{}, 16] [2, 1] : tensor<{rows}x16xf32> to tensor<{}x16xf32>\n",
                rows / 2,
                rows / 2
            );
        }
        rows /= 2;
        lines += &sum(&format!("%s{}", i + 1), &format!("{rows}x16"), &format!("%l{i}"), &format!("%r{i}"));
    }
    let written = grouped(32, &lines, "%s5", "1x16", |f| {
        let loops = f.groups.iter().filter(|g| g.hero == Hero::Loop);
        loops.flat_map(|g| &g.members).map(|n| f.view.elements(*n)).collect::<Vec<_>>()
    });
    assert_eq!(written, [32 * 16, 16]);
}

/// `u - u / c` again and again, whose links each read the last one twice, and products with the end of the chain.
#[test]
fn chains_of_differences_and_quotients_are_no_attention_and_soon_seen_to_be_none() {
    let mut lines = String::new();
    for i in 0..48 {
        lines += &pairs("divf", &format!("%q{i}"), "64x16", &format!("%u{i}"), "%u0");
        lines += &pairs("subf", &format!("%u{}", i + 1), "64x16", &format!("%u{i}"), &format!("%q{i}"));
    }
    lines += "  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x64xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<64x64xf32>) -> tensor<64x64xf32>
  %o = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = [\"parallel\", \"parallel\", \"reduction\"]} ins(%u48, %u0 : tensor<64x16xf32>, tensor<64x16xf32>) outs(%i : tensor<64x64xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<64x64xf32>\n";
    let heroes = grouped(64, &lines, "%o", "64x64", |f| f.groups.iter().map(|g| g.hero).collect::<Vec<_>>());
    assert!(heroes.contains(&Hero::Matmul), "{heroes:?}");
}
