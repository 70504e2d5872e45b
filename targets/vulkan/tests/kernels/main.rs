//! Kernels as emit leaves them, to SPIR-V: valid, with the capabilities that they use and no others, bound as planned,
//! and right numbers on a device.

mod addresses;
mod numbers;
mod rounds;
mod structure;
mod support;

use support::{build, fixture, root, validator, with_subgroups};

/// Every fixture that holds kernels of the common form.
fn fixtures() -> Vec<(String, String)> {
    let mut found = vec![];
    for folder in ["emit", "kernels", "spirv", "spirv_values"] {
        let Ok(entries) = std::fs::read_dir(root().join("fixtures").join(folder)) else { continue };
        for f in entries {
            let name = f.expect("listed").file_name().into_string().expect("a plain name");
            if name.starts_with("bad_") {
                continue;
            }
            found.push((name.clone(), fixture(&format!("{folder}/{name}"))));
        }
    }
    for name in ["widen_predicates/mask.mlir", "widen_predicates/workgroup.mlir", "assign_descriptors/bind.mlir"] {
        found.push((name.into(), fixture(name)));
    }
    found.sort();
    found
}

#[test]
fn every_fixture_validates() {
    let tool = validator();
    for (name, text) in fixtures() {
        let subgroups = with_subgroups(if name == "shuffle.mlir" { 8 } else { 32 });
        let built = build(&text, &subgroups).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(!built.binaries.is_empty(), "{name}");
        for b in &built.binaries {
            if let Some(tool) = &tool {
                tool.check(&b.bytes).unwrap_or_else(|said| panic!("{name}: {}: {said}", b.kernel));
            }
        }
    }
}

#[test]
fn a_broken_module_does_not_validate() {
    let Some(tool) = validator() else { return };
    let good = build(&fixture("assign_descriptors/bind.mlir"), &with_subgroups(32)).expect("builds");
    let mut words = good.binaries[0].bytes.clone();
    // The bound of ids, the fourth word of the header.
    words[12..16].copy_from_slice(&1u32.to_le_bytes());
    assert!(tool.check(&words).is_err_and(|said| said.contains("bound")));
}
