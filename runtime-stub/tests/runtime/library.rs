//! Products by the vendor's matrix library, against the recording one: what it is told, and what is said without it.

use crate::{common::*, fakes::library};
use std::{
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};
use zml_runtime::format::*;

fn matrix(slice: Slice, dtype: DType, strides: [u64; 3]) -> Matrix {
    Matrix { slice, dtype, strides }
}

/// `m.zml`: 2 x (3 x 4 by 4 x 5) in f32, the second matrix by columns, then 16 x 16 x 16 in i8.
fn model(dir: &Path, target: &str) {
    let m = builder(&[target]);
    let program = Program {
        arena_bytes: 8192,
        buffers: vec![
            buffer(BufferKind::Argument(0), 256),
            buffer(BufferKind::Result(0), 120),
            buffer(BufferKind::Arena(0), 4096),
            buffer(BufferKind::Arena(4096), 1024),
        ],
        results: vec![1],
        steps: vec![
            Step::Library(Gemm {
                batch: 2,
                m: 3,
                n: 5,
                k: 4,
                tf32: false,
                a: matrix(slice(0, 0, 96), DType::F32, [12, 4, 1]),
                b: matrix(slice(0, 0, 160), DType::F32, [20, 1, 4]),
                to: matrix(slice(1, 0, 120), DType::F32, [15, 5, 1]),
                workspace: slice(2, 0, 4096),
            }),
            Step::Library(Gemm {
                batch: 1,
                m: 16,
                n: 16,
                k: 16,
                tf32: false,
                a: matrix(slice(0, 0, 256), DType::I8, [0, 16, 1]),
                b: matrix(slice(0, 0, 256), DType::I8, [0, 1, 16]),
                to: matrix(slice(3, 0, 1024), DType::I32, [0, 16, 1]),
                workspace: slice(2, 0, 4096),
            }),
        ],
    };
    let bytes = m.entry("main", vec![input("x", 64)], vec![result("y", 30)], &program).bytes();
    std::fs::write(dir.join("m.zml"), bytes).unwrap();
}

fn run(dir: &Path, args: &str, settings: &[(&str, &str)]) -> (String, String) {
    let log = dir.join("log");
    let _ = std::fs::remove_file(&log);
    let mut c = Command::new(env!("CARGO_BIN_EXE_zml-run"));
    c.args(["m.zml", "--input", "all=random:1"])
        .args(args.split_whitespace())
        .current_dir(dir)
        .env("ZML_FAKE_LOG", &log);
    c.env("ZML_LIBCUDA", library()).env("ZML_LIBAMDHIP64", library()).envs(settings.iter().copied());
    let o = c.output().unwrap();
    let said = format!("{} {}", o.status.code().unwrap_or(-1), String::from_utf8(o.stderr).unwrap().trim());
    (std::fs::read_to_string(log).unwrap_or_default(), said)
}

fn package(dir: &Path, name: &str) -> PathBuf {
    let lib = dir.join("lib");
    std::fs::create_dir_all(&lib).unwrap();
    symlink(library(), lib.join(name)).unwrap();
    lib
}

#[test]
fn what_the_library_is_told() {
    for (target, name, product, operations) in [
        ("cuda", "libcublasLt.so.13", "cublasLtMatmul(", ["3=1 4=0", "compute 72 scale 10 3=1 4=0", "5=2 6="]),
        ("rocm", "libhipblaslt.so.0", "hipblasLtMatmul(", ["0=112 1=111", "compute 9 scale 10 0=112 1=111", "0=2 1="]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        model(dir.path(), target);
        package(dir.path(), name);
        let (log, said) = run(dir.path(), "--libraries lib", &[]);
        assert!(said.starts_with("0 "), "{said}\n{log}");
        assert!(!log.contains("!!"), "{log}");
        let calls: Vec<&str> = log.lines().filter(|l| l.starts_with(product)).collect();
        assert_eq!(calls.len(), 2, "{log}");
        // Columns first: the second matrix comes first, transposed because it lies by columns.
        let [plain, integer, batch] = operations;
        assert!(calls[0].contains(plain) && calls[1].contains(integer), "{calls:?}");
        for part in [
            format!("type 0 4x5 lead 4 {batch}20"),
            format!("type 0 4x3 lead 4 {batch}12"),
            format!("type 0 5x3 lead 5 {batch}15"),
        ] {
            assert!(calls[0].contains(&part), "{part} in {}", calls[0]);
        }
        assert!(
            calls[1].contains("type 3 16x16 lead 16") && calls[1].contains("type 10 16x16 lead 16"),
            "{}",
            calls[1]
        );
        // Within the capture: one graph for all.
        let at = |what: &str| log.lines().position(|l| l.contains(what)).unwrap_or_else(|| panic!("{what}: {log}"));
        assert!(at("BeginCapture") < at(product) && at(product) < at("EndCapture"));
    }
}

#[test]
fn a_library_that_is_not_there_or_does_not_serve() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path(), "cuda");
    // The system's, or one that is found by name alone, is not taken.
    package(dir.path(), "libcublasLt.so.13");
    let elsewhere = dir.path().join("lib").display().to_string();
    let (_, said) = run(dir.path(), "", &[("LD_LIBRARY_PATH", &elsewhere)]);
    assert!(said.starts_with("1 ") && said.contains("multiplies with libcublasLt, which is not in "), "{said}");
    assert!(said.contains("[package.vendor]") && said.contains("--libraries DIR"), "{said}");
    let (_, said) = run(dir.path(), "--libraries lib", &[("ZML_FAKE_FAIL", "cublasLtCreate#1=1")]);
    assert!(
        said.contains("cublasLtCreate fails on cuda:0 Fake GPU (GPU) with status 1: it may have no code"),
        "{said}"
    );
    for call in ["cublasLtMatmul", "cublasLtMatmulAlgoGetHeuristic"] {
        let (log, said) = run(dir.path(), "--libraries lib", &[("ZML_FAKE_FAIL", &format!("{call}#1=15"))]);
        assert!(said.starts_with("1 ") && said.contains(&format!("{call} failed: status 15")), "{said}");
        assert!(!log.contains("!!"), "{log}");
    }
    std::fs::remove_file(dir.path().join("lib/libcublasLt.so.13")).unwrap();
    std::fs::write(dir.path().join("lib/libcublasLt.so.13"), b"not a library").unwrap();
    let (_, said) = run(dir.path(), "--libraries lib", &[]);
    assert!(said.starts_with("1 ") && said.contains("libcublasLt.so.13: "), "{said}");
}

#[test]
fn doctor_says_what_of_a_package_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path(), "cuda");
    let doctor = |args: &str, settings: &[(&str, &str)]| {
        let mut c = Command::new(env!("CARGO_BIN_EXE_zml-run"));
        c.args(["m.zml", "doctor"]).args(args.split_whitespace()).current_dir(dir.path());
        c.env("ZML_LIBCUDA", library()).env("ZML_LIBVULKAN", "libabsent.so").envs(settings.iter().copied());
        let o = c.output().unwrap();
        (o.status.code().unwrap_or(-1), String::from_utf8(o.stdout).unwrap())
    };
    let lib = package(dir.path(), "libcublasLt.so.13");
    let (code, text) = doctor("--libraries lib", &[]);
    let (first, rest) = text.split_once('\n').unwrap();
    assert_eq!((code, first), (0, "test 1"), "{text}");
    let lines: Vec<&str> = rest.lines().collect();
    assert_eq!(lines.len(), 2, "nothing of backends that it was not built for: {text}");
    assert!(lines[0].starts_with("  cuda            ok  cuda:0 Fake GPU (GPU), driver CUDA 12.8, profile"), "{text}");
    assert!(lines[1].starts_with("  cuda libraries  ok  lib/libcublasLt.so.13"), "{text}");
    std::fs::remove_dir_all(lib).unwrap();
    let (code, text) = doctor("--message-format json", &[("ZML_FAKE_CAPABILITY", "7.5")]);
    let rows: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!((code, rows.len()), (1, 2), "{text}");
    for (row, what) in rows.iter().zip(["cuda", "cuda libraries"]) {
        assert_eq!((&row["what"], &row["ok"]), (&what.into(), &false.into()), "{row}");
        assert!(!row["cause"].as_str().unwrap().is_empty() && !row["remedy"].as_str().unwrap().is_empty(), "{row}");
    }
    assert!(rows[0]["cause"].as_str().unwrap().contains("it is sm_75"), "{}", rows[0]);
    assert!(rows[0]["remedy"].as_str().unwrap().contains("build for sm_75"), "{}", rows[0]);
}
