//! widen-predicates: before and after as a snapshot, one broken fixture for each invariant.

use zmlc_passes::{
    context,
    pass::{Env, Pass, PassError},
    widen_predicates::WidenPredicates,
};

fn fixture(name: &str) -> String {
    let path = format!("{}/../fixtures/widen_predicates/{name}.mlir", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}
/// The text before and after the pass, both checked by MLIR's verifier and by reading them again.
fn before_after(name: &str) -> (String, String) {
    let c = context::context();
    let mut module = context::parse(&c, &fixture(name)).expect("parses");
    let before = context::print(&module);
    let env = Env { spec: None };
    WidenPredicates.run(&c, &mut module, env).expect("runs");
    context::verify(&c, &module).expect("valid");
    WidenPredicates.verify(&c, &module, env).expect("nothing left");
    let after = context::print(&module);
    let again = context::parse(&c, &after).expect("parses again");
    assert_eq!(context::print(&again), after);
    (before, after)
}
fn snapshot(name: &str) {
    let (before, after) = before_after(name);
    insta::with_settings!({snapshot_path => "../../snapshots/widen_predicates", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!(name, format!("// before\n{before}// after\n{after}"));
    });
}
fn refused(name: &str) -> String {
    let c = context::context();
    let module = context::parse(&c, &fixture(name)).expect("parses");
    match WidenPredicates.verify(&c, &module, Env { spec: None }) {
        Err(PassError::Bug(m)) => m,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn mask() {
    let (before, after) = before_after("mask");
    assert!(before.contains("memref<64xi1>, vector<8xi1>"), "the bug is there before the pass");
    assert!(!after.contains("xi1>,") && !after.contains(": memref<13xi1>"), "{after}");
    snapshot("mask");
}
#[test]
fn workgroup() {
    snapshot("workgroup");
}
#[test]
fn unwidened_kernels_are_refused() {
    let messages: Vec<_> = ["mask", "bad_argument", "bad_workgroup", "bad_alloca"].map(refused).into();
    insta::assert_snapshot!(messages.join("\n"), @r"
    kernel mask: `gpu.func` has predicates in memory, `memref<64xi1>`: a vector access to it would be bits
    kernel k: `gpu.func` has predicates in memory, `memref<8xi1>`: a vector access to it would be bits
    kernel k: `gpu.func` has predicates in memory, `memref<8xi1, #gpu.address_space<workgroup>>`: a vector access to it would be bits
    kernel k: `memref.alloca` has predicates in memory, `memref<2xvector<4xi1>>`: a vector access to it would be bits
    ");
}
#[test]
fn an_access_without_a_rule_is_an_error() {
    let c = context::context();
    let mut module = context::parse(&c, &fixture("unknown_op")).expect("parses");
    let e = WidenPredicates.run(&c, &mut module, Env { spec: None }).expect_err("no rule");
    assert!(e.to_string().contains("vector.maskedload"), "{e}");
}
