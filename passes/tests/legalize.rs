//! legalize on small programs: the module verifies, prints to text that parses to the same text, and keeps names, roles
//! and locations.

mod support;

use support::tree::Build;
use zml_format::DType::{self, F32};
use zmlc_import::tree::{BinaryOp, DotDims, OpKind, Program, UnaryOp};
use zmlc_passes::{
    context,
    ir::{self, B},
    legalize::{self, ArgumentPlan, EntryPlan, ResultPlan, Role},
};

/// Every argument an input `a0`, every result `r0`.
fn plan(p: &Program) -> EntryPlan {
    let f = p.main().unwrap();
    let argument = |i| ArgumentPlan { name: format!("a{i}"), role: Role::Input { donated: false } };
    let result = |i| ResultPlan { name: format!("r{i}"), state: None };
    EntryPlan {
        name: "main".into(),
        arguments: (0..f.body.args.len()).map(argument).collect(),
        results: (0..f.result_types.len()).map(result).collect(),
    }
}
fn text(p: &Program, plan: &EntryPlan) -> String {
    let c = context::context();
    let m = legalize::module(&c, "test", "1");
    legalize::entry(&B::new(&c, ir::body(&m)), p, "main", plan).unwrap();
    context::verify(&c, &m).unwrap();
    let text = context::print(&m);
    assert_eq!(context::print(&context::parse(&c, &text).unwrap()), text);
    text
}

/// relu(x w + b), then softmax.
fn mlp() -> Program {
    let mut t = Build::new();
    let (x, w, bias) = (t.arg(F32, &[2, 3]), t.arg(F32, &[3, 4]), t.arg(F32, &[4]));
    let dims = DotDims { lhs_contracting: vec![1], rhs_contracting: vec![0], ..DotDims::default() };
    let dot = OpKind::DotGeneral { dims, precision: vec![], algorithm: None };
    let y = t.op(dot, &[x, w], F32, &[2, 4]);
    let b1 = t.op(OpKind::BroadcastInDim { dims: vec![1] }, &[bias], F32, &[1, 4]);
    let b2 = t.op(OpKind::BroadcastInDim { dims: vec![0, 1] }, &[b1], F32, &[2, 4]);
    let y = t.op(OpKind::Binary(BinaryOp::Add), &[y, b2], F32, &[2, 4]);
    let zero = t.splat(0.0);
    let zeros = t.op(OpKind::BroadcastInDim { dims: vec![] }, &[zero], F32, &[2, 4]);
    let y = t.op(OpKind::Binary(BinaryOp::Maximum), &[y, zeros], F32, &[2, 4]);
    let least = t.splat(f32::NEG_INFINITY);
    let top = t.reduce(BinaryOp::Maximum, y, least, &[1], &[2]);
    let top = t.op(OpKind::BroadcastInDim { dims: vec![0] }, &[top], F32, &[2, 1]);
    let top = t.op(OpKind::BroadcastInDim { dims: vec![0, 1] }, &[top], F32, &[2, 4]);
    let y = t.op(OpKind::Binary(BinaryOp::Subtract), &[y, top], F32, &[2, 4]);
    let y = t.op(OpKind::Unary(UnaryOp::Exponential), &[y], F32, &[2, 4]);
    t.finish(&[y])
}

#[test]
fn mlp_snapshot() {
    let p = mlp();
    let mut plan = plan(&p);
    plan.arguments[1] = ArgumentPlan { name: "w".into(), role: Role::Weight(0) };
    plan.arguments[2].role = Role::Input { donated: true };
    insta::with_settings!({snapshot_path => "../../snapshots/legalize", prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!(text(&p, &plan));
    });
}
#[test]
fn every_unsupported_op_is_named() {
    let mut t = Build::new();
    let x = t.arg(DType::I1, &[4]);
    let y = t.op(OpKind::Unary(UnaryOp::Tanh), &[x], DType::I1, &[4]);
    let z = t.op(OpKind::Other("stablehlo.partition_id".into()), &[], DType::U32, &[]);
    let p = t.finish(&[y, z]);
    let c = context::context();
    let m = legalize::module(&c, "test", "1");
    let errors = legalize::entry(&B::new(&c, ir::body(&m)), &p, "main", &plan(&p)).unwrap_err();
    let said: Vec<_> = errors.iter().map(|e| (e.code, e.op.as_str(), e.dtype.as_str())).collect();
    assert_eq!(said, [("E0802", "stablehlo.tanh", "i1"), ("E0801", "stablehlo.partition_id", "ui32")]);
}
