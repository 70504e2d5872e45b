//! Programs that exporters write seldom: what is read, what is compiled, and what is refused and why.

mod common;

use std::path::Path;
use zmlc_import::{Diagnostics, Source, difference, dynamic_dims, prepare, print, read, verify};

/// How far each file gets. "read": is read and verified; "prepared": also ready to compile; otherwise the code of the refusal
/// and a word of it.
const TABLE: &[(&str, &str)] = &[
    ("approx_top_k.mlir", "E0602 approx_max_k"),
    ("big_iota_eye_linspace.mlir", "prepared"),
    ("custom_vjp_jvp_calls.mlir", "prepared"),
    ("debug_print.mlir", "E0602 callback"),
    ("exp_result_accuracy.mlir", "prepared"),
    ("jax_export_cuda.mlir", "prepared"),
    ("jax_export_multi_platform_cpu_cuda.mlir", "prepared"),
    ("jax_export_rocm.mlir", "prepared"),
    ("jax_export_static.jaxexport.bin", "prepared"),
    ("jax_export_static.mlir", "prepared"),
    ("jax_export_static.mlirbc", "prepared"),
    ("jax_export_symbolic_batch.mlir", "E0701 `b`"),
    ("jax_export_symbolic_constraints.mlir", "E0701 dimension"),
    ("layouts_memory_kind.mlir", "prepared"),
    ("linalg_eigh_qr_svd_lu_solve.mlir", "prepared"),
    ("named_scope_loc.mlir", "prepared"),
    ("optimization_barrier.mlir", "prepared"),
    ("pure_callback.mlir", "E0602 callback"),
    ("ragged_dot.mlir", "prepared"),
    ("raw_quantized_i8.mlir", "prepared"),
    ("shard_map_psum.mlir", "prepared"),
    ("sharded_mesh1.mlir", "prepared"),
];

fn outcome(path: &Path) -> Result<(), Diagnostics> {
    let source = Source::new(path.display().to_string(), std::fs::read(path).expect("readable"));
    let p = read(&source)?;
    let found = Diagnostics::from(verify(&p)).locate(&source);
    if found.has_errors() {
        return Err(found);
    }
    let main = p.main().expect("an entry").name.clone();
    prepare(p, &main, None).map(|_| ()).map_err(|e| Diagnostics::from(e).locate(&source))
}

#[test]
fn each_is_accepted_or_refused_as_its_nature_demands() {
    let Some(corpus) = common::corpus() else { return };
    let dir = corpus.join("_odd_text");
    let mut names: Vec<String> = std::fs::read_dir(&dir)
        .expect("readable")
        .map(|e| e.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, TABLE.iter().map(|t| t.0).collect::<Vec<_>>());
    let mut wrong = vec![];
    for (name, want) in TABLE {
        let found = match outcome(&dir.join(name)) {
            Ok(()) => "prepared".to_string(),
            Err(d) => d.to_string(),
        };
        let fits =
            want.split_once(' ').map_or(found == *want, |(code, word)| found.contains(code) && found.contains(word));
        if !fits {
            wrong.push(format!("{name}: expected {want}\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_exported_container_holds_its_artifact() {
    let Some(corpus) = common::corpus() else { return };
    let load = |n: &str| {
        read(Source::new(n, std::fs::read(corpus.join("_odd_text").join(n)).expect("readable")))
            .unwrap_or_else(|e| panic!("{e}"))
    };
    let a = load("jax_export_static.jaxexport.bin");
    assert!(dynamic_dims(&a, "main").is_empty());
    assert_eq!(difference(&a, &load("jax_export_static.mlirbc")), None);
}

/// Written by JAX 0.10.2: a Cholesky with the sharding rule of its custom call, an addition over a mesh of one device, a
/// product with a sharding constraint over two, a sine serialized with its gradient.
#[test]
fn exports_with_shardings_and_gradients_are_read() {
    let load = |name: &str, bytes: &[u8]| {
        let p = read(Source::new(name, bytes)).unwrap_or_else(|e| panic!("{e}"));
        let text = print(&p);
        let again = read(Source::new("again.mlir", text.clone())).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(difference(&p, &again), None);
        text
    };
    let cholesky = load("rule", include_bytes!("data/exported/sharding_rule.mlirbc"));
    assert!(cholesky.contains("lapack_spotrf") && !cholesky.contains("sharding_rule"), "{cholesky}");
    let sum = load("mesh", include_bytes!("data/exported/mesh_of_one.mlirbc"));
    assert!(sum.contains("stablehlo.add") && !sum.contains("sdy."), "{sum}");
    let constrained = load("constraint", include_bytes!("data/exported/sharding_constraint.mlirbc"));
    assert!(constrained.contains("stablehlo.dot_general") && !constrained.contains("sdy."), "{constrained}");
    let sine = load("gradient", include_bytes!("data/exported/with_gradient.jaxexport.bin"));
    assert!(sine.contains("stablehlo.sine") && !sine.contains("stablehlo.cosine"), "{sine}");
}

/// Written by JAX for a mesh of two devices.
#[test]
fn an_export_over_several_devices_is_refused_as_such() {
    let over_two = include_bytes!("data/exported/shard_map_over_two.mlirbc");
    let e = read(Source::new("two.mlirbc", over_two)).expect_err("not for one device").to_string();
    assert!(e.starts_with("error[E0602]") && e.contains("a mesh of one"), "{e}");
}

#[test]
fn a_container_that_is_cut_is_refused() {
    let whole = include_bytes!("data/exported/with_gradient.jaxexport.bin");
    let refuse = |n: usize| read(Source::new("cut", &whole[..n])).expect_err(&format!("cut at {n}")).to_string();
    for n in 0..whole.len() {
        assert!(
            refuse(n).contains(if n < 256 { "error" } else { "the file of `jax.export` ends early" }),
            "cut at {n}"
        );
    }
}

#[test]
fn other_containers_are_named() {
    let e = |b: &[u8]| read(Source::new("x", b)).unwrap_err().to_string();
    assert!(e(b"PK\x03\x04\0\0\0\0archive/data.pkl").contains("torch.export"));
    assert!(e(b"\x1f\x8b\x08\0\0\0").contains("gunzip"));
    assert!(e(b"\x20\0\0\0\0\0\0\0{\"a\": 1}").contains("safetensors"));
}
