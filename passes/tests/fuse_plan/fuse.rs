//! Snapshots of fuse over its fixtures, and modules that its verifier must refuse.

use crate::common::{fixtures, run, snapshot, spec};
use zmlc_passes::{context, fuse::Fuse, pass::Pass};

#[test]
fn fixtures_fuse() {
    for (name, text) in fixtures("fuse") {
        let after = run(&text, &[&Fuse], &spec(if name == "wide_concat" { 8 } else { 32 })).expect(&name);
        snapshot("fuse", &name, &after);
    }
}

#[test]
fn the_verifier_names_what_is_wrong() {
    for (name, text) in fixtures("fuse/bad") {
        let c = context::context();
        let module = context::parse(&c, &text).expect(&name);
        context::verify(&c, &module).expect(&name);
        let spec = spec(4);
        let env = zmlc_passes::pass::Env { spec: Some(&spec) };
        let error = Fuse.verify(&c, &module, env).expect_err(&name).to_string();
        let expected = text.lines().next().and_then(|l| l.strip_prefix("// ")).expect("an expected error");
        assert!(error.contains(expected), "{name}: {error}");
    }
}

/// Each round reads the last one twice, as hashes do: 40 operations, not 2^20.
#[test]
fn rounds_are_computed_where_they_are_read() {
    let one = "affine_map<(d0) -> (d0)>";
    let round = |k: usize| {
        let op = |result: String, ins: String, operands: &str, body: &str| {
            let maps = vec![one; 2 + ins.matches(',').count()].join(", ");
            let types = vec!["tensor<4xi32>"; 1 + ins.matches(',').count()].join(", ");
            format!(
                "{result} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [\"parallel\"]}} \
                 ins({ins} : {types}) outs(%e : tensor<4xi32>) {{\n^bb0({operands}, %o: i32):\n{body}\n\
                 linalg.yield %z : i32\n}} -> tensor<4xi32>\n"
            )
        };
        let shifted = op(format!("%a{k}"), format!("%y{k}"), "%i: i32", "%z = arith.shli %i, %five : i32");
        let mixed =
            op(format!("%y{}", k + 1), format!("%a{k}, %y{k}"), "%i: i32, %j: i32", "%z = arith.xori %i, %j : i32");
        shifted + &mixed
    };
    let rounds: String = (0..20).map(round).collect();
    let text = format!(
        "module attributes {{zml.model = {{name = \"rounds\", version = \"1\"}}}} {{\n\
         func.func @main(%y0: tensor<4xi32> {{zml.name = \"y\", zml.dtype = \"ui32\", zml.role = \"input\"}}, \
         %x: tensor<64x4xi32> {{zml.name = \"x\", zml.dtype = \"ui32\", zml.role = \"input\"}}) -> \
         (tensor<64x4xi32> {{zml.name = \"z\", zml.dtype = \"ui32\"}}) {{\n\
         %five = arith.constant 5 : i32\n%e = tensor.empty() : tensor<4xi32>\n{rounds}\
         %f = tensor.empty() : tensor<64x4xi32>\n\
         %r = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>, \
         affine_map<(d0, d1) -> (d0, d1)>], iterator_types = [\"parallel\", \"parallel\"]}} \
         ins(%y20, %x : tensor<4xi32>, tensor<64x4xi32>) outs(%f : tensor<64x4xi32>) {{\n\
         ^bb0(%i: i32, %j: i32, %o: i32):\n%z = arith.addi %i, %j : i32\nlinalg.yield %z : i32\n}} \
         -> tensor<64x4xi32>\nreturn %r : tensor<64x4xi32>\n}}\n}}\n"
    );
    let after = run(&text, &[&Fuse], &spec(32)).expect("fuses");
    assert_eq!(after.matches("zml.dispatch,").count(), 1, "{after}");
}
