//! The runner against stand-ins for the compiler and the runtime: shell scripts that behave by the case's name.

use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{Mutex, MutexGuard, PoisonError},
};

fn safetensors(key: &str, values: &[f32]) -> Vec<u8> {
    let header = json!({ key: { "dtype": "F32", "shape": [values.len()], "data_offsets": [0, 4 * values.len()] } });
    let header = header.to_string();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &bytes].concat()
}

fn case(root: &Path, name: &str, expected: &[f32], tags: &[&str]) {
    let dir = root.join(name);
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("program.mlir"), "module {}").unwrap();
    fs::write(dir.join("inputs.safetensors"), safetensors("arg0", &[1.0, 2.0])).unwrap();
    fs::write(dir.join("expected.safetensors"), safetensors("out0", expected)).unwrap();
    let meta = json!({
        "args": [{ "key": "arg0", "name": "x", "dtype": "f32", "shape": [2] }],
        "outputs": [{ "key": "out0", "dtype": "f32", "shape": [2], "rtol": 1e-4, "atol": 1e-5 }],
        "donated": [], "tags": tags,
    });
    fs::write(dir.join("meta.json"), meta.to_string()).unwrap();
}

fn script(path: PathBuf, body: &str) -> PathBuf {
    fs::write(&path, format!("#!/bin/sh\n{body}")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A script must not be started while another thread forks with it still open for writing.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

struct Stage {
    _alone: MutexGuard<'static, ()>,
    dir: tempfile::TempDir,
    zmlc: PathBuf,
    zml_run: PathBuf,
}

/// Cases, and tools of which the runtime gives back its input 0 as output 0.
fn stage() -> Stage {
    let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let cases = dir.path().join("cases");
    case(&cases, "right", &[1.0, 2.0], &[]);
    case(&cases, "wrong", &[1.0, 2.5], &[]);
    for name in ["compiler_crash", "runtime_crash", "refused", "rejected"] {
        case(&cases, name, &[1.0, 2.0], &[]);
    }
    case(&cases, "untested", &[1.0, 2.0], &["mlir only"]);
    let zmlc = script(
        dir.path().join("zmlc"),
        r#"case "$2" in
            */compiler_crash/*) kill -SEGV $$ ;;
            */refused/*) echo "error[E0802]: the target has no f64" >&2; exit 1 ;;
            */rejected/*) echo "error[E0202]: type mismatch" >&2; exit 1 ;;
        esac
        grep -q '^program = "/' "$2" && echo artifact > "$4/case.zml""#,
    );
    let zml_run = script(
        dir.path().join("zml-run"),
        r#"case "$1" in */runtime_crash/*) kill -SEGV $$ ;; esac
        [ "$2 $3 $4 $5 $7" = "--device null --no-cache --input --output" ] || exit 9
        sed 's/arg0/out0/' "${6#0=}" > "${8#0=}""#,
    );
    Stage { _alone: alone, dir, zmlc, zml_run }
}

impl Stage {
    fn conformance(&self, args: &[&str]) -> (Output, Value) {
        let json = self.dir.path().join("report.json");
        let output = Command::new(env!("CARGO_BIN_EXE_conformance"))
            .args(args)
            .arg("--json")
            .arg(&json)
            .args(["--device", "null"])
            .arg("--zml-run")
            .arg(&self.zml_run)
            .output()
            .unwrap();
        let report = fs::read(json).ok().map_or(Value::Null, |b| serde_json::from_slice(&b).unwrap());
        (output, report)
    }
    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }
}

fn details(report: &Value) -> String {
    let cases = report["cases"].as_array().unwrap();
    cases.iter().map(|c| format!("{} {} {}\n", c["name"], c["status"], c["detail"])).collect()
}

#[test]
fn each_end_of_a_case() {
    let s = stage();
    let (cases, zmlc) = (s.path("cases"), s.zmlc.display().to_string());
    let (output, report) = s.conformance(&[&cases, "--zmlc", &zmlc, "--jobs", "2"]);
    insta::assert_snapshot!(details(&report), @r#"
    "compiler_crash" "failed" "build: killed by signal 11"
    "refused" "refused" "build: exit code 1: error[E0802]: the target has no f64"
    "rejected" "failed" "build: exit code 1: error[E0202]: type mismatch"
    "right" "passed" ""
    "runtime_crash" "failed" "run: killed by signal 11"
    "untested" "skipped" "has no expected outputs"
    "wrong" "failed" "out0 (f32): 1 of 2 differ: [1] is [2.0], expected [2.5], largest difference 5.000e-1"
    "#);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.ends_with("1 passed, 4 failed, 1 refused, 1 skipped\n"), "{said}");
    let (output, report) = s.conformance(&[&cases, "--zmlc", &zmlc, "--filter", "^(right|refused)$"]);
    assert_eq!((output.status.code(), report["cases"].as_array().unwrap().len()), (Some(0), 2));
}

#[test]
fn building_and_running_apart_give_the_same() {
    let s = stage();
    let (cases, out, zmlc) = (s.path("cases"), s.path("out"), s.zmlc.display().to_string());
    let (_, together) = s.conformance(&[&cases, "--zmlc", &zmlc]);
    s.conformance(&[&cases, "--zmlc", &zmlc, "--build-only", &out]);
    // Nothing but OUT is needed from here on.
    fs::remove_dir_all(&cases).unwrap();
    let moved = s.path("moved");
    fs::rename(&out, &moved).unwrap();
    let (output, apart) = s.conformance(&["--run", &moved]);
    assert_eq!(details(&together), details(&apart));
    assert_eq!(output.status.code(), Some(1));
    assert!(Path::new(&moved).join("conformance").is_file() && Path::new(&moved).join("zml-run").is_file());
}

#[test]
fn a_hang_is_one_failed_case() {
    let s = stage();
    script(s.zml_run.clone(), "sleep 100");
    let zmlc = s.zmlc.display().to_string();
    let (output, report) = s.conformance(&[&s.path("cases/right"), "--zmlc", &zmlc, "--time-limit", "1"]);
    assert_eq!(details(&report), "\"right\" \"failed\" \"run: over the time limit\"\n");
    assert_eq!(output.status.code(), Some(1));
}
