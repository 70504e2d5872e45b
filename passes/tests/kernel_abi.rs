//! kernel-abi: before and after as a snapshot, one broken fixture for each invariant.

use zmlc_passes::{
    context,
    kernel_abi::KernelAbi,
    pass::{Env, Pass, PassError},
    spec::DeviceSpec,
};

const SPEC: &str = r#"
name = "test"
covers = "nothing"
abi = "pointers"
subgroup = 32
max-block = 1024
max-grid = [65535, 65535, 65535]
shared-bytes = 32768
max-buffers = 8
max-buffer-bytes = 0
max-scalar-bytes = 64
vector-bytes = 16
parallel-blocks = 64
arithmetic = []
storage = ["i8", "f32", "bf16"]
[requires]
api = ""
arch = ""
features = []
limits = []
"#;

fn fixture(name: &str) -> String {
    let path = format!("{}/../fixtures/kernel_abi/{name}.mlir", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn before_and_after() {
    let (c, spec) = (context::context(), DeviceSpec::parse(SPEC).unwrap());
    let env = Env { spec: Some(&spec) };
    let mut module = context::parse(&c, &fixture("arguments")).unwrap();
    let before = context::print(&module);
    KernelAbi.run(&c, &mut module, env).unwrap();
    context::verify(&c, &module).unwrap();
    KernelAbi.verify(&c, &module, env).unwrap();
    let after = context::print(&module);
    assert_eq!(context::print(&context::parse(&c, &after).unwrap()), after);
    insta::with_settings!({snapshot_path => "../../snapshots/kernel_abi", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("arguments", format!("// before\n{before}// after\n{after}"));
    });
}

#[test]
fn each_invariant_is_checked() {
    let (c, spec) = (context::context(), DeviceSpec::parse(SPEC).unwrap());
    let env = Env { spec: Some(&spec) };
    for (name, says) in [
        ("bad_attributes", "lacks what kernel-abi puts on it"),
        ("bad_shape", "which is not flat"),
        ("bad_scalar", "scalar argument 0 is i64"),
        ("bad_order", "comes after a scalar"),
        ("bad_block", "known_block_size is not three extents"),
        ("bad_threads", "2048 threads a block"),
        ("bad_grid", "a grid of [1, 70000, 1]"),
        ("bad_workgroup", "400000 bytes of workgroup memory"),
    ] {
        let module = context::parse(&c, &fixture(name)).unwrap();
        match KernelAbi.verify(&c, &module, env) {
            Err(PassError::Bug(m)) => assert!(m.contains(says) && m.starts_with("kernel @k"), "{name}: {m}"),
            other => panic!("{name}: {other:?}"),
        }
    }
    let mut module = context::parse(&c, &fixture("bad_access")).unwrap();
    assert!(matches!(KernelAbi.run(&c, &mut module, env), Err(PassError::Bug(m)) if m.contains("no zml.access")));
    for (name, says) in
        [("refused_type", "test has no buffers of f8E4M3FN"), ("refused_value", "test has no values of f8E5M2")]
    {
        let module = context::parse(&c, &fixture(name)).unwrap();
        match KernelAbi.verify(&c, &module, env) {
            Err(PassError::Unsupported { what, .. }) => assert_eq!(what, says),
            other => panic!("{name}: {other:?}"),
        }
    }
}
