//! assign-descriptors: snapshot of a module before and after, the budget, one broken fixture for each invariant.

use zml_format::Access;
use zmlc_passes::{
    assign_descriptors::AssignDescriptors,
    context, kernels,
    pass::{Env, Pass, PassError},
    spec::DeviceSpec,
};

fn fixture(name: &str) -> String {
    let path = format!("{}/../fixtures/assign_descriptors/{name}.mlir", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}
fn spec() -> DeviceSpec {
    DeviceSpec::parse(
        r#"
        name = "small"
        covers = "a device for tests"
        abi = "descriptors"
        subgroup = 0
        max-block = 64
        max-grid = [65535, 65535, 65535]
        shared-bytes = 16384
        max-buffers = 3
        max-buffer-bytes = 256
        max-scalar-bytes = 8
        vector-bytes = 16
        parallel-blocks = 1
        arithmetic = []
        storage = []
        requires = { api = "1.3", arch = "", features = [], limits = [] }
        "#,
    )
    .expect("valid")
}
fn refused(name: &str) -> String {
    let (c, spec) = (context::context(), DeviceSpec { addresses: true, ..spec() });
    let module = context::parse(&c, &fixture(name)).expect("parses");
    match AssignDescriptors.verify(&c, &module, Env { spec: Some(&spec) }) {
        Err(PassError::Bug(m)) => m,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn bind() {
    let (c, spec) = (context::context(), spec());
    let env = Env { spec: Some(&spec) };
    let mut module = context::parse(&c, &fixture("bind")).expect("parses");
    let before = context::print(&module);
    AssignDescriptors.run(&c, &mut module, env).expect("fits");
    context::verify(&c, &module).expect("valid");
    AssignDescriptors.verify(&c, &module, env).expect("invariants hold");
    let after = context::print(&module);
    let again = context::parse(&c, &after).expect("parses again");
    assert_eq!(context::print(&again), after);
    let known = kernels::read(&module).expect("recorded");
    assert_eq!(known[0].buffers, [Access::Read, Access::ReadWrite, Access::Write]);
    assert_eq!((known[0].scalar_bytes, known[0].block), (8, [64, 1, 1]));
    assert_eq!(known[1].buffers, [Access::Read, Access::Write], "found from the uses");
    insta::with_settings!({snapshot_path => "../../snapshots/assign_descriptors", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("bind", format!("// before\n{before}// after\n{after}"));
    });
}
#[test]
fn budget() {
    let c = context::context();
    let shrink: [fn(&mut DeviceSpec); 3] =
        [|s| s.max_buffers = 2, |s| s.max_buffer_bytes = 255, |s| s.max_scalar_bytes = 4];
    let said: Vec<_> = shrink
        .into_iter()
        .map(|shrink| {
            let mut spec = spec();
            shrink(&mut spec);
            let mut module = context::parse(&c, &fixture("bind")).expect("parses");
            match AssignDescriptors.run(&c, &mut module, Env { spec: Some(&spec) }) {
                Err(PassError::Unsupported { what, .. }) => what,
                other => panic!("{other:?}"),
            }
        })
        .collect();
    insta::assert_snapshot!(said.join("\n"), @r"
    kernel scale binds 3 buffers, more than the 2 of the profile small
    kernel scale needs 256 bytes in buffer 0, more than the 255 of the profile small
    kernel scale takes 8 bytes of scalars, more than the 4 of the profile small
    ");
}
/// What is larger than a binding has an address; of too many the last have, and their table is one binding more.
#[test]
fn addresses() {
    let c = context::context();
    let placed = |max_buffers, max_buffer_bytes| -> Vec<u32> {
        let spec = DeviceSpec { addresses: true, max_buffers, max_buffer_bytes, ..spec() };
        let env = Env { spec: Some(&spec) };
        let mut module = context::parse(&c, &fixture("bind")).expect("parses");
        AssignDescriptors.run(&c, &mut module, env).expect("fits");
        AssignDescriptors.verify(&c, &module, env).expect("invariants hold");
        kernels::read(&module).expect("recorded").swap_remove(0).addresses
    };
    assert_eq!(placed(3, 256), [0_u32; 0]);
    assert_eq!(placed(2, 256), [1, 2]);
    assert_eq!(placed(1, 256), [0, 1, 2]);
    assert_eq!(placed(3, 255), [0, 1, 2]);
    assert_eq!(placed(0, 0), [0_u32; 0]);
}
#[test]
fn broken_kernels_are_refused() {
    let messages: Vec<_> = ["bad_binding", "bad_access", "bad_offset", "bad_address"].map(refused).into();
    insta::assert_snapshot!(messages.join("\n"), @r"
    kernel k: buffer 1 is not bound to set 0, binding 1
    kernel k: buffer 0 is declared Read and the kernel does Write
    kernel k: scalar 1 is not at offset 4
    kernel k: buffer 1 has not address 1
    ");
}
