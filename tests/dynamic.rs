//! A program with dynamic dimensions from model.toml to results: one specialisation for each choice of sizes, weights and
//! equal kernels once, the inputs' shapes as the choice, and what is said of everything that does not fit.

mod common;

use common::{bytes_of, fixture, floats_of, vulkan, zmlc, zmlc_ok};
use std::{collections::BTreeSet, path::Path};
use zml_format::{Artifact, DType, Manifest, Step, sizes};
use zml_runtime::{
    Model, Session, WeightPlaces,
    tensor::{HostTensor, npy, safetensors},
};

const ENTRY: &str = "[model]\nname = \"m\"\n\n[[entry]]\nname = \"main\"\nprogram = \"program.mlir\"\n";
const WEIGHTS: &str = "\n[weights]\nfiles = [\"w.safetensors\"]\n";

fn weight() -> Vec<f32> {
    (0..32).map(|i| (i as f32 - 11.0) / 16.0).collect()
}
fn input(batch: usize, seq: usize) -> Vec<f32> {
    (0..batch * seq * 8).map(|i| (i % 13) as f32 / 4.0 - 1.0).collect()
}
/// What the program computes, in double precision.
fn expected(batch: usize, seq: usize) -> Vec<f32> {
    let (x, w) = (input(batch, seq), weight());
    let mut y = vec![];
    for b in 0..batch {
        for c in 0..4 {
            let product = |s: usize, k: usize| f64::from(x[(b * seq + s) * 8 + k]) * f64::from(w[k * 4 + c]);
            let sum: f64 = (0..seq * 8).map(|i| product(i / 8, i % 8)).sum();
            let norm: f64 = (0..8).map(|k| f64::from(w[k * 4 + c]).powi(2)).sum();
            y.push((sum / seq as f64 * norm) as f32);
        }
    }
    y
}
fn host(shape: &[u64], values: &[f32]) -> HostTensor {
    HostTensor { dtype: DType::F32, shape: shape.to_vec(), bytes: bytes_of(values) }
}
/// The fixture with weights and a model.toml that has `tables` in its entry.
fn model(folder: &Path, tables: &str) {
    std::fs::copy(fixture("dynamic/program.mlir"), folder.join("program.mlir")).expect("writable");
    safetensors::write(&folder.join("w.safetensors"), &[("w", &host(&[8, 4], &weight()))]).expect("writable");
    std::fs::write(folder.join("model.toml"), format!("{ENTRY}{tables}{WEIGHTS}")).expect("writable");
}
fn built(folder: &Path, target: &str) -> (Artifact, Vec<u8>) {
    zmlc_ok(folder, &["build", "model.toml", "--target", target, "-o", "out"]);
    let bytes = std::fs::read(folder.join("out/m.zml")).expect("built");
    (Artifact::open(&folder.join("out/m.zml")).expect("readable"), bytes)
}
/// Exit code and stderr, without the paths of this machine.
fn says(folder: &Path, arguments: &[&str]) -> String {
    let out = zmlc(folder, arguments);
    let text = String::from_utf8_lossy(&out.stderr).replace(folder.to_str().expect("UTF-8"), "FOLDER");
    let lines = text.lines().map(|l| if l.starts_with("device: ") { "device: ..." } else { l });
    let text: String = lines.map(|l| format!("{l}\n")).collect();
    format!("exit {}\n{text}", out.status.code().expect("no signal"))
}
fn snapshot(name: &str, text: &str) {
    insta::with_settings!({snapshot_path => "../snapshots/dynamic", prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!(name, text);
    });
}
const SIZES: &str = "\n[entry.dims]\nbatch = [1, 3]\nseq = [2, 5]\n";

#[test]
fn specialisations_share_weights_and_kernels() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    model(folder, SIZES);
    let (artifact, bytes) = built(folder, "vulkan,cuda:sm_90a");
    let m = &artifact.manifest;
    let all: Vec<String> = m.entries.iter().map(|e| sizes(&e.dims)).collect();
    assert_eq!(all, ["batch=1,seq=2", "batch=1,seq=5", "batch=3,seq=2", "batch=3,seq=5"]);
    assert_eq!(m.weights.len(), 1);
    let w = bytes_of(&weight());
    assert_eq!(bytes.windows(w.len()).filter(|p| *p == w).count(), 1, "the weight is stored once");
    for p in &m.profiles {
        let used: Vec<BTreeSet<usize>> = p
            .programs
            .iter()
            .map(|p| {
                p.steps.iter().filter_map(|s| if let Step::Dispatch(d) = s { Some(d.kernel) } else { None }).collect()
            })
            .collect();
        // What comes after the mean depends on the batch alone.
        for (a, b) in [(0, 1), (2, 3)] {
            assert!(used[a].intersection(&used[b]).next().is_some(), "{}: {used:?}", p.name);
        }
        let mut kernels: Vec<(&str, usize)> = p.kernels.iter().map(|k| (k.symbol.as_str(), k.blob)).collect();
        let count = kernels.len();
        kernels.sort_unstable();
        kernels.dedup();
        assert_eq!(kernels.len(), count, "{}: a kernel is stored twice", p.name);
        assert!(count < used.iter().map(BTreeSet::len).sum(), "{}: {count} kernels", p.name);
    }
    snapshot(
        "inspect",
        &zmlc_ok(folder, &["inspect", "out/m.zml"])
            .lines()
            .skip_while(|l| !l.starts_with("entry"))
            .take(6)
            .collect::<Vec<_>>()
            .join("\n"),
    );

    let Some(device) = vulkan(&artifact) else { return };
    let model = Model::load(&artifact, &device, &WeightPlaces::of(&artifact, None)).expect("loads");
    let mut session = Session::new(&model).expect("a session");
    for (batch, seq) in [(3, 5), (1, 2), (1, 5), (3, 2), (3, 5)] {
        let entry = model.choose(None, &[&[batch, seq, 8]]).expect("one of those built").id();
        let (batch, seq) = (batch as usize, seq as usize);
        session.write(&entry, 0, &bytes_of(&input(batch, seq))).expect("an input");
        session.call(&entry).expect("runs");
        let y = floats_of(session.read(&entry, 0).expect("an output"));
        let far = y.iter().zip(expected(batch, seq)).find(|(a, b)| (**a - b).abs() > 1e-5 * b.abs().max(1.0));
        assert!(far.is_none() && y.len() == batch * 4, "{entry}: {y:?}");
        assert_eq!(session.read(&entry, 1).expect("an output"), ((batch * seq) as i32).to_le_bytes());
    }
    let why = model.choose(None, &[&[2, 5, 8]]).expect_err("not built").to_string();
    assert!(why.contains("was built for batch=1,seq=2; batch=1,seq=5; batch=3,seq=2; batch=3,seq=5"), "{why}");
}

#[test]
fn bytecode_gives_the_same_artifact_and_every_stage_resumes() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    model(folder, SIZES);
    let (text, from_text) = built(folder, "vulkan:vulkan1.3");
    for stage in ["legalize", "simplify", "fuse", "plan", "emit"] {
        let ir = zmlc_ok(folder, &["inspect-ir", "model.toml", "--target", "vulkan:vulkan1.3", "--pass", stage]);
        std::fs::write(folder.join("stage.mlir"), ir).expect("writable");
        zmlc_ok(
            folder,
            &["build", "model.toml", "--from", stage, "stage.mlir", "--target", "vulkan:vulkan1.3", "-o", "again"],
        );
        assert!(std::fs::read(folder.join("again/m.zml")).expect("built") == from_text, "resumed after {stage}");
    }
    zmlc_ok(folder, &["check", "program.mlir"]);
    zmlc_ok(folder, &["convert", "program.mlir", "-o", "program.mlirbc"]);
    let toml = std::fs::read_to_string(folder.join("model.toml")).expect("written");
    std::fs::write(folder.join("model.toml"), toml.replace("program.mlir", "program.mlirbc")).expect("writable");
    let (bytecode, _) = built(folder, "vulkan:vulkan1.3");
    assert_ne!(bytecode.manifest.sources, text.manifest.sources);
    let apart_from_files = |a: &Artifact| Manifest { sources: None, ..a.manifest.clone() };
    assert_eq!(apart_from_files(&bytecode), apart_from_files(&text));
}

#[test]
fn the_command_line_chooses_by_shapes_or_dims() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    model(folder, SIZES);
    let (artifact, _) = built(folder, "vulkan");
    let write = |name: &str, batch: usize, seq: usize| {
        npy::write(&folder.join(name), &host(&[batch as u64, seq as u64, 8], &input(batch, seq))).expect("writable");
    };
    write("x35.npy", 3, 5);
    write("x25.npy", 2, 5);
    npy::write(&folder.join("flat.npy"), &host(&[8], &[0.0; 8])).expect("writable");
    let listing = zmlc(folder, &["run", "out/m.zml"]);
    let listed = String::from_utf8_lossy(&listing.stdout).lines().skip(1).collect::<Vec<_>>().join("\n");
    snapshot("listing", &format!("{listed}\n{}", String::from_utf8_lossy(&listing.stderr)));
    let json = zmlc(folder, &["run", "out/m.zml", "--message-format", "json"]);
    let lines: Vec<serde_json::Value> =
        String::from_utf8_lossy(&json.stdout).lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[3]["dims"], serde_json::json!({"batch": 3, "seq": 5}));
    assert_eq!(lines[3]["inputs"][0]["shape"], serde_json::json!([3, 5, 8]));

    let wrong: String = [
        "--input x=x25.npy",
        "--input x=flat.npy",
        "--input x=random:1",
        "--input x=random:1 --dims batch=3",
        "--input x=random:1 --dims batch=2",
        "--input x=random:1 --dims bach=3",
        "--input x=x35.npy --dims batch=1",
        "--entry main[batch=9] --input x=x35.npy",
    ]
    .iter()
    .map(|args| {
        let all: Vec<&str> = ["run", "out/m.zml"].into_iter().chain(args.split(' ')).collect();
        format!("{args}\n{}", says(folder, &all))
    })
    .collect();
    snapshot("run_errors", &wrong);

    if vulkan(&artifact).is_none() {
        return;
    }
    for args in
        ["--input x=x35.npy", "--input x=x35.npy --dims batch=3", "--entry main[batch=3,seq=5] --input x=x35.npy"]
    {
        let all: Vec<&str> = ["run", "out/m.zml"].into_iter().chain(args.split(' ')).collect();
        zmlc_ok(folder, &[&all[..], &["--output", "y=y.npy"]].concat());
        let shape = zml_format::Tensor { name: "y".into(), dtype: DType::F32, shape: vec![3, 4] };
        let y = floats_of(&npy::read(&folder.join("y.npy"), &shape).expect("written").bytes);
        assert!(y.iter().zip(expected(3, 5)).all(|(a, b)| (a - b).abs() < 1e-5 * b.abs().max(1.0)), "{args}: {y:?}");
        std::fs::remove_file(folder.join("y.npy")).expect("written");
    }
    zmlc_ok(folder, &["run", "out/m.zml", "--input", "all=random:1", "--dims", "batch=1,seq=5"]);
}

#[test]
fn sizes_that_do_not_fit() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let many = (1..=9).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let many = format!("\n[entry.dims]\nbatch = [{many}]\nseq = [2, 3, 4, 5, 6, 7, 8, 9]\n");
    for (name, tables) in [
        ("none", ""),
        ("missing", "\n[entry.dims]\nbatch = [1, 8]\n"),
        ("unknown", "\n[entry.dims]\nbatch = [1, 8]\nsequ = [2]\n"),
        ("zero", "\n[entry.dims]\nbatch = [0]\nseq = [2]\n"),
        ("no_integers", "\n[entry.dims]\nbatch = [1.5, \"a\", -1]\nseq = 2\n"),
        ("empty_list", "\n[entry.dims]\nbatch = []\nseq = [2]\n"),
        ("twice", "\n[entry.dims]\nbatch = [1, 1]\nseq = [2]\n"),
        ("key_twice", "\n[entry.dims]\nbatch = [1]\nbatch = [2]\nseq = [2]\n"),
        ("assertion", "\n[entry.dims]\nbatch = [1]\nseq = [1, 2]\n"),
        ("too_many", many.as_str()),
        ("shapes", "\n[entry.shapes]\ny = [\"a\"]\nx = [\"a\", \"b\", 9]\n"),
    ] {
        model(folder, tables);
        snapshot(&format!("build_{name}"), &says(folder, &["build", "model.toml", "--target", "vulkan", "-o", "out"]));
        assert!(!folder.join("out").exists(), "{name}: nothing is written");
    }
}

/// `y = x + z`, whose dimensions have no names.
const UNNAMED: &str =
    "func.func @main(%x: tensor<?x4xf32> loc(\"x\"), %z: tensor<?x4xf32> loc(\"z\")) -> tensor<?x4xf32> {
  %0 = stablehlo.add %x, %z : tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
";

#[test]
fn dimensions_without_names_get_them_in_model_toml() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("program.mlir"), UNNAMED).expect("writable");
    let build = |tables: &str| {
        std::fs::write(folder.join("model.toml"), format!("{ENTRY}{tables}")).expect("writable");
        says(folder, &["build", "model.toml", "--target", "vulkan", "-o", "out", "-q"])
    };
    snapshot("unnamed", &build(""));
    snapshot("unequal", &build("shapes = { x = [\"a\", 4], z = [\"b\", 4] }\ndims = { a = [2], b = [3] }\n"));
    assert_eq!(build("shapes = { x = [\"n\", 4], z = [\"n\", 4] }\ndims = { n = [2, 3] }\n"), "exit 0\n");
    let artifact = Artifact::open(&folder.join("out/m.zml")).expect("readable");
    let shapes: Vec<_> = artifact.manifest.entries.iter().map(|e| e.results[0].tensor.shape.clone()).collect();
    assert_eq!(shapes, [[2, 4], [3, 4]]);
    assert_eq!(build("shapes = { x = [\"n\", 4], z = [\"2*n - 2\", 4] }\ndims = { n = [2] }\n"), "exit 0\n");
}

#[test]
fn init_leaves_the_sizes_to_choose() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    model(folder, "");
    let listed = zmlc_ok(folder, &["init", "program.mlir", "--weights", "w.safetensors", "-o", "named", "--name", "m"]);
    std::fs::write(folder.join("unnamed.mlir"), UNNAMED).expect("writable");
    zmlc_ok(folder, &["init", "unnamed.mlir", "-o", "unnamed", "--name", "m"]);
    let toml = |name: &str| std::fs::read_to_string(folder.join(name).join("model.toml")).expect("written");
    snapshot("init", &format!("{listed}\n{}\n----\n{}", toml("named"), toml("unnamed")));
    // What it wrote builds once the examples are taken.
    for name in ["named", "unnamed"] {
        let filled =
            toml(name).replace("# d", "d").replace("# batch", "batch").replace("# seq = [1, 8]", "seq = [2, 8]");
        let filled = filled.replace("d1 = [1, 8]", "").replace("\"d1\"", "\"d0\"");
        std::fs::write(folder.join(name).join("model.toml"), filled).expect("writable");
        zmlc_ok(folder, &["build", &format!("{name}/model.toml"), "--target", "vulkan", "-o", "out"]);
    }
}

#[test]
fn a_state_has_one_shape() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let program = "func.func @main(%s: tensor<?x4xf32> loc(\"s\"), %x: tensor<?x4xf32> loc(\"x\")) -> (tensor<?x4xf32> {jax.result_info = \"s\"}) {
      %0 = stablehlo.add %s, %x : tensor<?x4xf32>
      return %0 : tensor<?x4xf32>
    }";
    std::fs::write(folder.join("program.mlir"), program).expect("writable");
    let build = |list: &str| {
        let tables = format!("shapes = {{ s = [\"n\", 4], x = [\"n\", 4] }}\ndims = {{ n = {list} }}\n");
        let state = "\n[[state]]\nname = \"s\"\nargument = \"s\"\n";
        std::fs::write(folder.join("model.toml"), format!("{ENTRY}{tables}{state}")).expect("writable");
        says(folder, &["build", "model.toml", "--target", "vulkan", "-o", "out", "-q"])
    };
    snapshot("state", &build("[1, 8]"));
    assert_eq!(build("[8]"), "exit 0\n");
}

/// The lines of a hint are TOML that says what was missing: followed, they lead to the next question and then to an artifact.
#[test]
fn hints_can_be_pasted() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let program = "func.func @main(%a: tensor<?x?xf32>, %b: tensor<?x4xf32>) -> (tensor<?x?xf32>, tensor<?x4xf32>) {\n  \
                   return %a, %b : tensor<?x?xf32>, tensor<?x4xf32>\n}\n";
    std::fs::write(folder.join("program.mlir"), program).expect("writable");
    let mut toml = ENTRY.to_string();
    for step in ["shapes", "dims"] {
        std::fs::write(folder.join("model.toml"), &toml).expect("writable");
        let said = says(folder, &["build", "model.toml", "--target", "cuda:sm_90a", "-o", "out"]);
        let pasted: Vec<&str> = said
            .lines()
            .skip_while(|l| !l.contains("= hint: "))
            .filter(|l| l.trim_start().starts_with('[') || l.ends_with(']'))
            .map(str::trim)
            .collect();
        let lines = pasted.join("\n");
        let parsed: toml::Table = toml::from_str(&lines).unwrap_or_else(|e| panic!("{e}\n{said}"));
        assert!(parsed["entry"][step].is_table(), "{said}");
        toml = format!("{toml}\n{lines}\n");
    }
    std::fs::write(folder.join("model.toml"), &toml).expect("writable");
    zmlc_ok(folder, &["build", "model.toml", "--target", "cuda:sm_90a", "-o", "out"]);
}
