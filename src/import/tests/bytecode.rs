//! Portable artifacts: the same trees as their texts, of every version, and clear refusals.

mod common;

use std::path::Path;
use zmlc_import::{
    Diagnostics, PORTABLE_VERSION, Source, difference, print, read, resolve_calls, tree::Program, without_chlo,
    write_artifact,
};

fn try_load(path: &Path) -> Result<Program, Diagnostics> {
    read(Source::new(path.display().to_string(), std::fs::read(path).expect("readable")))
}
fn load(path: &Path) -> Program {
    try_load(path).unwrap_or_else(|e| panic!("{}\n{e}", path.display()))
}

/// Programs whose artifact the exporter wrote after simplifying: chlo ops decomposed, common subexpressions merged, dead
/// ops dropped. Their artifacts are read, and are other programs than their texts.
const SIMPLIFIED: &[&str] = &[
    "chlo_special",
    "complex_math",
    "flax_cnn_infer",
    "layernorm_softmax_gelu",
    "minilm_b1_s32",
    "minilm_b4_s128",
    "minilm_b4_s64",
    "pad_concat_slice",
    "private_calls",
    "reduce_variety",
    "remat_barrier",
    "select_and_scatter",
    "threefry_uniform_normal",
    "torch_mlp",
    "torch_transformer",
    "unet_micro",
    "vit_micro_b2",
    "vit_tiny_patch16_b1",
];

#[test]
fn three_files_one_tree() {
    let Some(corpus) = common::corpus() else { return };
    let mut compared = 0;
    for dir in common::cases(&corpus) {
        let text = load(&dir.join("program.mlir"));
        let located = dir.join("program_loc.mlir");
        if located.is_file() {
            assert_eq!(difference(&text, &load(&located)), None, "{}", located.display());
        }
        let artifact = dir.join("program.mlirbc");
        if !artifact.is_file() {
            continue;
        }
        let (mut text, mut p) = (text, load(&artifact));
        // Artifacts have chlo's ops as composites.
        resolve_calls(&mut text);
        resolve_calls(&mut p);
        let name = dir.file_name().expect("a name").to_string_lossy().into_owned();
        let simplified = SIMPLIFIED.contains(&name.as_str());
        assert_eq!(difference(&text, &p).is_some(), simplified, "{name}: {:?}", difference(&text, &p));
        compared += 1;
    }
    eprintln!("{compared} artifacts");
}

#[test]
fn every_version_is_read_to_the_same_tree() {
    let Some(corpus) = common::corpus() else { return };
    let dir = corpus.join("_bytecode_versions");
    let mut names: Vec<_> = std::fs::read_dir(&dir).expect("readable").map(|e| e.expect("entry").file_name()).collect();
    names.sort();
    for name in names {
        let name = name.to_string_lossy().into_owned();
        let program = name.split(".v").next().expect("a name");
        let old: (u32, u32) = {
            let v: Vec<u32> =
                name.split(".v").nth(1).expect("a version").split('.').map_while(|p| p.parse().ok()).collect();
            (v[0], v[1])
        };
        if program == "gather_forms" && old < (1, 1) {
            // Gathers with batching dimensions came with 1.1; older artifacts spell them out.
            load(&dir.join(&name));
            continue;
        }
        let newest = load(&corpus.join(program).join("program.mlirbc"));
        assert_eq!(difference(&newest, &load(&dir.join(&name))), None, "{name}");
    }
}

#[test]
fn what_is_printed_is_read_back() {
    let Some(corpus) = common::corpus() else { return };
    for dir in common::cases(&corpus) {
        for file in ["program.mlir", "program_loc.mlir", "program.mlirbc"] {
            let path = dir.join(file);
            if !path.is_file() {
                continue;
            }
            let p = load(&path);
            let text = print(&p);
            let again = read(Source::new("printed", text)).unwrap_or_else(|e| panic!("{}\n{e}", path.display()));
            assert_eq!(difference(&p, &again), None, "{}", path.display());
        }
    }
}

#[test]
fn damage_is_refused_without_a_panic() {
    let Some(corpus) = common::corpus() else { return };
    let whole = std::fs::read(corpus.join("scan_lstm/program.mlirbc")).expect("readable");
    for n in 0..whole.len() {
        assert!(read(Source::new("cut", &whole[..n])).is_err(), "cut at {n}");
    }
    // Any byte may be wrong: the result is an error or another program.
    for i in 4..whole.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[i] ^= flip;
            let _ = read(Source::new("altered", bytes));
        }
    }
}

#[test]
fn a_version_of_the_future_names_both() {
    let mut bytes = b"ML\xefR\x0dStableHLO_v1.99.0\0".to_vec();
    bytes.push(0);
    let e = read(Source::new("new.mlirbc", bytes)).unwrap_err().to_string();
    assert!(e.contains("1.99.0") && e.contains("1.20.0") && e.contains("E0502"), "{e}");
}

#[test]
fn what_is_written_is_read_back() {
    let Some(corpus) = common::corpus() else { return };
    let mut written = 0;
    for dir in common::cases(&corpus) {
        for file in ["program.mlir", "program.mlirbc"] {
            let path = dir.join(file);
            if !path.is_file() {
                continue;
            }
            let p = load(&path);
            // As an artifact has it.
            let p = without_chlo(&p).unwrap_or_else(|e| panic!("{}: {e:?}", path.display()));
            for version in [(1, 20), PORTABLE_VERSION] {
                let bytes = write_artifact(&p, version).unwrap_or_else(|e| panic!("{}: {e:?}", path.display()));
                let again = read(Source::new("written", bytes)).unwrap_or_else(|e| panic!("{}\n{e}", path.display()));
                assert_eq!(difference(&p, &again), None, "{} {version:?}", path.display());
            }
            written += 1;
        }
    }
    assert!(written > 120, "{written}");
}

/// Found by fuzzing: what is read here and written differently is not what was read.
#[test]
fn attributes_that_have_no_text_are_refused() {
    let files: [(&[u8], &str); 6] = [
        (include_bytes!("data/attribute_twice.mlirbc"), "is given twice"),
        (include_bytes!("data/axis_of_a_mesh.mlirbc"), "the name of a mesh's axis is not a string"),
        (include_bytes!("data/integer_of_f32.mlirbc"), "an integer's type was expected"),
        (include_bytes!("data/sub_axis_alone.mlirbc"), "a sub-axis outside of an axis reference"),
        (include_bytes!("data/tolerance_nan.mlirbc"), "the tolerance atol of a result's accuracy is NaN"),
        (include_bytes!("data/shape_unopened.mlirbc"), "an attribute's text `#tf_type.shapeA2x3>`"),
    ];
    for (file, why) in files {
        let errors = read(Source::new("damaged", file.to_vec())).expect_err(why).to_string();
        assert!(errors.contains(why), "{errors}");
    }
}

/// Found by fuzzing: an attribute's values have no quantized type where they are text.
#[test]
fn values_of_quantized_types_are_those_of_their_storage() {
    let file: &[u8] = include_bytes!("data/quantized_attribute.mlirbc");
    let p = read(Source::new("read", file.to_vec())).unwrap_or_else(|e| panic!("{e}"));
    let written = write_artifact(&p, (1, 20)).expect("has a form");
    let again = read(Source::new("written", written)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(difference(&p, &again), None);
}
