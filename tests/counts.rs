//! What does not depend on the machine and must not grow unseen: kernels, dispatches, barriers, copies, arena bytes, submits.

mod common;

use common::{build, fixture, vulkan, zmlc_ok};
use std::path::Path;
use zml_format::{Artifact, Program, Step};

/// One line about each entry of a corpus program, for a target.
fn counts(case: &str, target: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let artifact = artifact(case, target, folder.path());
    let p = &artifact.manifest.profiles[0];
    let program = &p.programs[0];
    let count = |f: &dyn Fn(&Step) -> bool| program.steps.iter().filter(|s| f(s)).count();
    let copied: u64 = program.steps.iter().map(|s| if let Step::Copy { to, .. } = s { to.bytes } else { 0 }).sum();
    format!(
        "{case:<24}{target:<14}{:>4} kernels {:>4} dispatches {:>4} barriers {:>3} copies of {:>6} bytes {:>8} arena bytes",
        p.kernels.len(),
        count(&|s| matches!(s, Step::Dispatch(_))),
        count(&|s| matches!(s, Step::Barrier)),
        count(&|s| matches!(s, Step::Copy { .. })),
        copied,
        program.arena_bytes
    )
}
fn artifact(case: &str, target: &str, folder: &Path) -> Artifact {
    let program = fixture(&format!("corpus/{case}/program.mlir"));
    zmlc_ok(folder, &["init", program.to_str().expect("UTF-8"), "-o", "model", "--name", "m"]);
    build(folder, &folder.join("model/model.toml"), target, &[])
}

#[test]
fn sizes_of_host_programs() {
    let cases = [
        "mnist_mlp_b1",
        "mnist_cnn_b1",
        "mnist_cnn_b8",
        "causal_attention",
        "predicates",
        "tinyllama_f32_prefill",
        "tinyllama_f32_decode",
    ];
    let lines: Vec<String> = cases.iter().flat_map(|c| ["vulkan", "cuda:sm_90a"].map(|t| counts(c, t))).collect();
    insta::with_settings!({snapshot_path => "../snapshots", prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("counts", lines.join("\n"));
    });
}

#[test]
fn one_submit_a_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let artifact = artifact("mnist_cnn_b1", "vulkan", folder.path());
    let Some(device) = vulkan(&artifact) else { return };
    let inputs: Vec<Vec<u8>> =
        artifact.manifest.entries[0].inputs().map(|(_, t)| vec![0; t.bytes() as usize]).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    assert_eq!(common::call(&artifact, &device, &inputs).1, 1);
}

/// The cache of a decode step is two donated arguments and two results: updated in place, never copied.
#[test]
fn the_cache_is_updated_in_place() {
    for target in ["vulkan", "cuda:sm_90a", "rocm:gfx942"] {
        let folder = tempfile::tempdir().expect("a folder");
        let artifact = artifact("tinyllama_f32_decode", target, folder.path());
        let program: &Program = &artifact.manifest.profiles[0].programs[0];
        assert!(!program.steps.iter().any(|s| matches!(s, Step::Copy { .. })), "{target}: a copy");
        let donated: Vec<usize> = artifact.manifest.entries[0]
            .arguments
            .iter()
            .enumerate()
            .filter(|(_, a)| matches!(a, zml_format::Argument::Input { donated: true, .. }))
            .map(|(i, _)| i)
            .collect();
        assert_eq!(donated.len(), 2, "{target}: the exporter donated both caches");
        let homes: Vec<usize> = program
            .results
            .iter()
            .filter_map(|b| match program.buffers[*b].kind {
                zml_format::BufferKind::Argument(a) => Some(a),
                _ => None,
            })
            .collect();
        assert_eq!(homes, donated, "{target}: each cache result lives in its argument");
    }
}

/// A decode step of Llama-3.2-1B, layers written out or as a scan over stacked weights: five launches a layer and one for
/// the head, few kernels, no copy of the cache, and nothing that the host decides, so one graph launch or submit.
#[test]
fn a_llama_step_is_few_launches() {
    for program in ["decode", "decode_scan"] {
        for target in ["cuda:sm_90a", "vulkan:vulkan1.3-nvidia"] {
            let folder = tempfile::tempdir().expect("a folder");
            let file = fixture(&format!("llama1b/{program}.mlirbc"));
            zmlc_ok(folder.path(), &["init", file.to_str().expect("UTF-8"), "-o", "model", "--name", "m"]);
            let artifact = build(folder.path(), &folder.path().join("model/model.toml"), target, &[]);
            let profile = &artifact.manifest.profiles[0];
            let steps = &profile.programs[0].steps;
            let launches = steps.iter().filter(|s| matches!(s, Step::Dispatch(_))).count();
            let others = steps.iter().filter(|s| !matches!(s, Step::Dispatch(_) | Step::Barrier)).count();
            assert_eq!(others, 0, "{program} {target}: copies or decisions of the host");
            assert!(launches <= 100, "{program} {target}: {launches} launches");
            assert!(profile.kernels.len() <= 20, "{program} {target}: {} kernels", profile.kernels.len());
        }
    }
}
