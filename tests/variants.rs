//! Two layers of one transformer, as several people would write them (`tests/variants/make.py`), become as many launches.

mod common;

use common::{build, fixture, zmlc_ok};
use zml_format::Step;

/// A layer with queries, keys and values by one product: norm, product, attention, product and residual, norm, product and
/// activation, product and residual.
const FUSED: usize = 7;
/// With a product for each of them, which run side by side.
const APART: usize = FUSED + 2;
const LAYERS: usize = 2;

#[test]
fn every_spelling_of_a_layer_is_as_many_launches() {
    let apart = [
        "hand_f32",
        "hand_bf16",
        "grouped_f16",
        "one_head_f32",
        "added_mask_f32",
        "no_mask_bf16",
        "scan_f32",
        "scan_bf16",
        "flax_f32",
        "flax_bf16",
    ];
    let fused = ["fused_f32", "fused_bf16", "torch_f32", "torch_f16"];
    let expected = apart.iter().map(|name| (*name, APART)).chain(fused.iter().map(|name| (*name, FUSED)));
    let found: Vec<(&str, usize)> = expected.clone().map(|(name, _)| (name, launches(name))).collect();
    assert_eq!(found, expected.map(|(name, each)| (name, each * LAYERS)).collect::<Vec<_>>());
}

fn launches(name: &str) -> usize {
    let folder = tempfile::tempdir().expect("a folder");
    let program = fixture(&format!("variants/{name}.mlir"));
    zmlc_ok(folder.path(), &["init", program.to_str().expect("UTF-8"), "-o", "model", "--name", "m"]);
    let artifact = build(folder.path(), &folder.path().join("model/model.toml"), "cuda:sm_90a", &[]);
    let steps = &artifact.manifest.profiles[0].programs[0].steps;
    // Loops over layers are unrolled or not; here they are.
    assert!(!steps.iter().any(|s| matches!(s, Step::While { .. } | Step::Copy { .. })), "{name}: a loop or a copy");
    steps.iter().filter(|s| matches!(s, Step::Dispatch(_))).count()
}

/// Queries, keys and values of a step, turned by their position: their accumulators share the workgroup's memory.
#[test]
fn projections_of_several_lengths_fit_in_workgroup_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = fixture("variants/projections_bf16.mlir");
    zmlc_ok(folder.path(), &["init", program.to_str().expect("UTF-8"), "-o", "model", "--name", "m"]);
    let artifact = build(folder.path(), &folder.path().join("model/model.toml"), "vulkan:vulkan1.3-nvidia", &[]);
    let steps = &artifact.manifest.profiles[0].programs[0].steps;
    assert_eq!(steps.iter().filter(|s| matches!(s, Step::Dispatch(_))).count(), 1);
}
