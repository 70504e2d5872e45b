//! What stands in the IR and in the binaries: snapshots, capabilities, decorations, requirements, refusals.

use crate::support::{Built, build, fixture, spec, with_subgroups};
use std::collections::BTreeSet;
use zml_format::{Access, Requires};
use zmlc_passes::{
    context,
    pass::{Env, Pass, PassError},
    spec::DeviceSpec,
    target::Target,
};
use zmlc_target_vulkan::{SpirvValues, Vulkan, required_features};

/// A kernel that loads `from`, does `body` (`%y` from `%x`) and stores `to`.
fn kernel(from: &str, to: &str, body: &str) -> Built {
    let text = format!(
        r#"gpu.module @k {{
  gpu.func @k(%a: memref<64x{from}> {{zml.access = "read"}}, %r: memref<64x{to}> {{zml.access = "write"}}) kernel
      attributes {{known_block_size = array<i32: 64, 1, 1>, zml.grid = array<i32: 1, 1, 1>}} {{
    %i = gpu.thread_id x
    %x = memref.load %a[%i] : memref<64x{from}>
    {body}
    memref.store %y, %r[%i] : memref<64x{to}>
    gpu.return
  }}
}}"#
    );
    build(&text, &spec()).unwrap_or_else(|e| panic!("{body}: {e}"))
}
fn capabilities(built: &Built) -> Vec<String> {
    let text = built.text(0);
    text.lines().filter_map(|l| l.trim().strip_prefix("OpCapability ")).map(str::to_string).collect()
}
fn unsupported<T>(result: Result<T, PassError>) -> String {
    match result {
        Err(PassError::Unsupported { what, .. }) => what,
        Err(e) => panic!("{e}"),
        Ok(_) => panic!("it was accepted"),
    }
}

#[test]
fn profiles_are_valid_and_the_defaults_among_them() {
    let names: Vec<_> = Vulkan.specs().into_iter().map(|s| s.name).collect();
    assert!(Vulkan.defaults().iter().all(|d| names.iter().any(|n| n == d)));
    for s in Vulkan.specs() {
        assert!(s.requires.features.is_sorted(), "{}", s.name);
        let limit = |name: &str| s.requires.limits.iter().find(|l| l.0 == name).map(|l| l.1);
        assert_eq!(limit("maxStorageBufferRange"), Some(s.max_buffer_bytes));
        assert_eq!(limit("maxPerStageDescriptorStorageBuffers"), Some(s.max_buffers.into()));
        assert_eq!(limit("maxPushConstantsSize"), Some(s.max_scalar_bytes.into()));
        assert_eq!(limit("maxComputeSharedMemorySize"), Some(s.shared_bytes.into()));
        assert_eq!(limit("maxComputeWorkGroupInvocations"), Some(s.max_block.into()));
    }
}

#[test]
fn float_controls_are_those_that_the_profile_requires() {
    let mut nvidia = Vulkan.specs().into_iter().find(|s| s.name == "vulkan1.3-nvidia").expect("it is there");
    let denormals = [16, 32].map(|bits| (format!("shaderDenormPreserveFloat{bits}"), 1));
    nvidia.requires.limits.extend(denormals);
    let built = build(&fixture("kernels/shuffle_max.mlir"), &nvidia).expect("builds");
    let modes: Vec<_> = built.text(0).lines().filter(|l| l.contains("Preserve 32")).map(str::to_string).collect();
    assert_eq!(modes.len(), 2, "{modes:?}");
    let requires = Vulkan.requires(&nvidia, &built.binaries);
    let least = |name: &str| requires.limits.iter().find(|l| l.0 == name).map(|l| l.1);
    assert_eq!(least("subgroupSupportedOperations"), Some(0x10));
    assert_eq!((least("shaderDenormPreserveFloat32"), least("shaderDenormPreserveFloat16")), (Some(1), None));
    assert_eq!(least("subgroupSize"), Some(32));
}
#[test]
fn values() {
    let built = build(&fixture("spirv_values/bf16.mlir"), &spec()).expect("builds");
    insta::with_settings!({snapshot_path => "../../../../snapshots/spirv_values", prepend_module_to_snapshot => false, omit_expression => true}, {
        let (before, after) = (built.stage("assign-descriptors"), built.stage("spirv-values"));
        insta::assert_snapshot!("bf16", format!("// before\n{before}// after\n{after}"));
    });
}
#[test]
fn spirv() {
    let built = build(&fixture("assign_descriptors/bind.mlir"), &spec()).expect("builds");
    insta::with_settings!({snapshot_path => "../../../../snapshots/lower_to_spirv", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("bind", built.stage("lower-to-spirv"));
        insta::assert_snapshot!("scale", built.text(0));
    });
}
#[test]
fn broken_values_are_refused() {
    let messages: Vec<_> = ["bad_scalar", "bad_vector", "bad_type", "bad_predicate"]
        .into_iter()
        .map(|name| {
            let c = context::context();
            let module = context::parse(&c, &fixture(&format!("spirv_values/{name}.mlir"))).expect("parses");
            match SpirvValues.verify(&c, &module, Env { spec: None }) {
                Err(PassError::Bug(m)) => m,
                other => panic!("{name}: {other:?}"),
            }
        })
        .collect();
    insta::assert_snapshot!(messages.join("\n"), @r"
    kernel k: `gpu.func` takes more than buffers
    kernel k: `arith.constant` makes a `vector<8xf32>`
    kernel k: `gpu.func` makes a `memref<8xbf16>`
    kernel k: `memref.alloca` makes a `memref<2xi1>`
    ");
}

#[test]
fn capabilities_are_those_used() {
    let shader = |more: &[&str], floats: bool| -> Vec<String> {
        let mut all = vec!["Shader"];
        all.extend(more);
        all.extend(floats.then_some("SignedZeroInfNanPreserve"));
        all.into_iter().map(str::to_string).collect()
    };
    let as_is = "%y = arith.bitcast %x : TYPE to TYPE";
    for (from, to, body, more) in [
        ("f32", "f32", "%y = arith.addf %x, %x : f32", vec![]),
        ("f64", "f64", "%y = arith.addf %x, %x : f64", vec!["Float64"]),
        ("i64", "i64", "%y = arith.addi %x, %x : i64", vec!["Int64"]),
        ("i8", "i8", "%y = arith.addi %x, %x : i8", vec!["Int8", "StorageBuffer8BitAccess"]),
        ("i16", "i16", "%y = arith.addi %x, %x : i16", vec!["Int16", "StorageBuffer16BitAccess"]),
        ("f16", "f16", "%y = arith.addf %x, %x : f16", vec!["Float16", "StorageBuffer16BitAccess"]),
        // Only moved or converted: storage alone.
        ("i8", "i8", as_is, vec!["StorageBuffer8BitAccess"]),
        ("i8", "i32", "%y = arith.extsi %x : i8 to i32", vec!["StorageBuffer8BitAccess"]),
        ("f16", "f32", "%y = arith.extf %x : f16 to f32", vec!["StorageBuffer16BitAccess"]),
        ("bf16", "f32", "%y = arith.extf %x : bf16 to f32", vec!["StorageBuffer16BitAccess"]),
        ("bf16", "bf16", "%y = arith.addf %x, %x : bf16", vec!["StorageBuffer16BitAccess"]),
    ] {
        let built = kernel(from, to, &body.replace("TYPE", from));
        let mut found = capabilities(&built);
        found.sort();
        let floats = body.contains("addf") || body.contains("extf %x : f16");
        let mut wanted = shader(&more, floats);
        wanted.sort();
        assert_eq!(found, wanted, "{body}");
    }
}

#[test]
fn an_artifact_requires_the_features_that_its_kernels_use() {
    let (plain, bytes) =
        (kernel("f32", "f32", "%y = arith.negf %x : f32"), kernel("i8", "i8", "%y = arith.addi %x, %x : i8"));
    assert_eq!(required_features(&plain.binaries[0].bytes), [""; 0]);
    assert_eq!(required_features(&bytes.binaries[0].bytes), ["shaderInt8", "storageBuffer8BitAccess"]);
    let all: Vec<_> = plain.binaries.iter().chain(&bytes.binaries).cloned().collect();
    let requires: Requires = Vulkan.requires(&spec(), &all);
    assert_eq!(requires.features, ["shaderInt8", "storageBuffer8BitAccess"]);
    // Of the float controls, the one for the width that they compute in.
    let controls: Vec<_> = requires.limits.iter().filter(|l| l.0.starts_with("shader")).collect();
    assert_eq!(controls, [&("shaderSignedZeroInfNanPreserveFloat32".to_string(), 1)]);
    let others = |r: &Requires| r.limits.iter().filter(|l| l.0.starts_with("max")).cloned().collect::<Vec<_>>();
    assert_eq!(others(&requires), others(&spec().requires));
    let shuffle = build(&fixture("spirv/shuffle.mlir"), &with_subgroups(8)).expect("builds");
    let requires = Vulkan.requires(&shuffle.spec, &shuffle.binaries);
    assert!(requires.limits.contains(&("subgroupSupportedOperations".into(), 0x10)));
}

#[test]
fn buffers_are_decorated_by_access() {
    let built = build(&fixture("assign_descriptors/bind.mlir"), &spec()).expect("builds");
    assert_eq!(built.facts[0].buffers, [Access::Read, Access::ReadWrite, Access::Write]);
    let text = built.text(0);
    let decorated = |what: &str| -> BTreeSet<&str> {
        let lines = text.lines().filter(|l| l.starts_with("OpDecorate") && l.ends_with(what));
        lines.filter_map(|l| l.split(' ').nth(1)).collect()
    };
    let bound = |i: u32| {
        let found = decorated(&format!("Binding {i}"));
        assert_eq!(found.len(), 1, "{text}");
        found.into_iter().next().expect("one")
    };
    assert_eq!(decorated("NonWritable"), BTreeSet::from([bound(0)]));
    assert_eq!(decorated("NonReadable"), BTreeSet::from([bound(2)]));
    assert_eq!(decorated("Restrict"), BTreeSet::from([bound(0), bound(1), bound(2)]));
    assert_eq!(decorated("NoContraction").len(), 1, "the one product");
    assert!(text.contains("OpEntryPoint GLCompute") && text.contains("\"scale\""), "{text}");
}

#[test]
fn what_a_profile_lacks_is_refused_by_name() {
    let without = |feature: &str| {
        let mut s = spec();
        s.requires.features.retain(|f| f != feature);
        s
    };
    let (choose, convert) = (fixture("kernels/predicate.mlir"), fixture("kernels/half.mlir"));
    let shuffle = fixture("spirv/shuffle.mlir");
    let f8 = fixture("spirv_values/bf16.mlir").replace("bf16", "f8E5M2");
    let rows = fixture("kernels/row_sum.mlir");
    let small = DeviceSpec { shared_bytes: 128, ..spec() };
    let said = [
        unsupported(build(&choose, &without("shaderFloat16"))),
        unsupported(build(&convert, &without("storageBuffer16BitAccess"))),
        unsupported(build(&shuffle, &spec())),
        unsupported(build(&f8, &spec())),
        unsupported(build(&rows, &small)),
    ];
    insta::assert_snapshot!(said.join("\n"), @r"
    kernel choose needs shaderFloat16, which the profile vulkan1.3 does not offer
    kernel convert needs storageBuffer16BitAccess, which the profile vulkan1.3 does not offer
    kernel swap has `gpu.shuffle`, and the profile vulkan1.3 does not fix the size of a subgroup
    kernel scale: `arith.mulf` on `f8E5M2` on this target
    kernel row_sum needs 256 bytes of workgroup memory, more than the 128 of the profile vulkan1.3
    ");
}

#[test]
fn a_buffer_beyond_32_bits_is_indexed_by_64() {
    let mut large = spec();
    large.max_buffer_bytes = u64::MAX;
    let text = fixture("assign_descriptors/bind.mlir").replace("64xf32", "3000000000xf32");
    let built = build(&text, &large).expect("builds");
    assert!(built.text(0).contains("OpCapability Int64"));
    let small = build(&fixture("assign_descriptors/bind.mlir"), &large).expect("builds");
    assert!(!small.text(0).contains("OpCapability Int64"));
}
