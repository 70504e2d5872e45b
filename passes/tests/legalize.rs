//! legalize and simplify, family by family: each fixture is snapshot before and after simplify, and both forms run on the CPU
//! and are compared with the interpreter.

mod support;

use melior::ir::operation::{OperationLike, OperationPrintingFlags};
use support::{fixture, plan, run, values};
use zmlc_import::interp;
use zmlc_passes::{
    context,
    expand_special::ExpandSpecial,
    ir::{self, B},
    legalize::{self, ArgumentPlan, Role},
    pass::{Env, Pass},
};

/// f32 against the interpreter's f64.
const TOLERANCE: f64 = 2e-5;

/// What is shown; the rest differs only in element types.
const SHOWN: &[&str] = &[
    "elementwise_float",
    "elementwise_i8",
    "elementwise_i4",
    "predicates",
    "compare_float",
    "convert_f32",
    "bitcast",
    "movement",
    "dot_general",
    "convolution",
    "reduce",
    "reduce_window",
    "indexed",
    "control",
    "sort",
    "scatter",
    "select_and_scatter",
    "batch_norm",
];

fn check(name: &str, special: bool) {
    let p = fixture(name);
    let f = p.main().unwrap();
    let args: Vec<_> =
        f.body.args.iter().enumerate().map(|(i, a)| values::tensor(f.tensor(*a), i as u64, special)).collect();
    let want = interp::eval(&p, &f.name, args.clone()).unwrap();
    for simplified in [false, true] {
        let got = run::run(&p, &f.name, &args, simplified);
        for (i, (g, w)) in got.iter().zip(&want).enumerate() {
            if let Some(d) = values::difference(g, w, TOLERANCE) {
                panic!("{name}, simplified: {simplified}, result {i} {d}");
            }
        }
    }
    if special || !SHOWN.contains(&name) {
        return;
    }
    for stage in ["legalize", "simplify", "expand-special"] {
        let c = context::context();
        let mut m = run::level1(&c, &p, &f.name, stage == "simplify");
        if stage == "expand-special" {
            if !context::print(&m).contains("= zml.s") {
                continue;
            }
            ExpandSpecial.run(&c, &mut m, Env { spec: None }).unwrap();
            ExpandSpecial.verify(&c, &m, Env { spec: None }).unwrap();
        }
        let text = context::print(&m);
        insta::with_settings!({snapshot_path => "../../snapshots/legalize", prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!(format!("{name}.{stage}"), text);
        });
    }
}

macro_rules! families {
    ($($name:ident $(, $special:literal)?;)*) => {$(
        #[test]
        fn $name() {
            check(stringify!($name), false);
            $(assert!($special); check(stringify!($name), true);)?
        }
    )*};
}
families! {
    elementwise_float, true;
    elementwise_math;
    elementwise_i8;
    elementwise_ui8;
    elementwise_i32;
    elementwise_ui64;
    elementwise_i4;
    elementwise_ui4;
    elementwise_power;
    predicates;
    compare_float, true;
    convert_f32, true;
    convert_bf16, true;
    convert_i32;
    convert_ui8;
    convert_i64;
    convert_ui64;
    convert_i1;
    convert_i4;
    bitcast;
    complex;
    chlo;
    movement;
    dot_general;
    convolution;
    reduce;
    reduce_window;
    indexed;
    control;
    sort;
    sort_long;
    scatter;
    scatter_rows;
    scatter_outside;
    select_and_scatter;
    batch_norm;
    random;
    fft;
    linear_algebra;
}

/// Names, roles and the places of ops in the source come through.
#[test]
fn interface() {
    let p = fixture("interface");
    let mut plan = plan(&p, "main");
    plan.arguments[0] = ArgumentPlan { name: "w".into(), role: Role::Weight(3) };
    plan.arguments[1] = ArgumentPlan { name: "cache".into(), role: Role::State(0) };
    plan.arguments[2].role = Role::Input { donated: true };
    plan.results[0].state = Some(0);
    let c = context::context();
    let m = legalize::module(&c, "test", "1");
    legalize::entry(&B::new(&c, ir::body(&m)), &p, "main", &plan).unwrap();
    context::verify(&c, &m).unwrap();
    insta::with_settings!({snapshot_path => "../../snapshots/legalize", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("interface", m.as_operation().to_string_with_flags(OperationPrintingFlags::new().enable_debug_info(true, false)).unwrap());
    });
}
#[test]
fn every_unsupported_op_is_named_once() {
    let p = fixture("unsupported");
    let c = context::context();
    let m = legalize::module(&c, "test", "1");
    let errors = legalize::entry(&B::new(&c, ir::body(&m)), &p, "main", &plan(&p, "main")).unwrap_err();
    let said: Vec<_> = errors.iter().map(|e| (e.code, e.op.as_str(), e.dtype.as_str())).collect();
    let named = ["stablehlo.partition_id", "stablehlo.custom_call", "stablehlo.collective_permute"];
    assert_eq!(said, [("E0801", named[0], "ui32"), ("E0801", named[1], "f32"), ("E0801", named[2], "f32")]);
    assert!(errors[2].message.contains("one device"), "{}", errors[2]);
    assert!(errors.iter().all(|e| e.span.end > e.span.start));
}
#[test]
fn an_entry_must_name_every_argument() {
    let p = fixture("interface");
    let mut plan = plan(&p, "main");
    plan.arguments.pop();
    let c = context::context();
    let m = legalize::module(&c, "test", "1");
    let errors = legalize::entry(&B::new(&c, ir::body(&m)), &p, "main", &plan).unwrap_err();
    assert_eq!((errors.len(), errors[0].code), (1, "E0805"));
    let errors = legalize::entry(&B::new(&c, ir::body(&m)), &p, "absent", &plan).unwrap_err();
    assert_eq!(errors[0].code, "E0805");
}
