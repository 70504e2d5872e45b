//! What drivers' compilers make of kernels is kept between runs, for the same device, driver and code alone, and no fault
//! of the folder is one of the call.

use crate::{common::*, fakes};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use zml_runtime::format::*;

const CALL: &str = "--input x=x.npy --device cuda -v";

fn kept(dir: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(dir.join("cache")).into_iter().flatten();
    let mut all: Vec<PathBuf> = files.map(|f| f.unwrap().path()).collect();
    all.sort();
    all
}
fn compiled(log: &str) -> usize {
    log.matches("cuLinkComplete(").count()
}

#[test]
fn ptx_is_compiled_once() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fakes::model(dir, "cuda");
    let (cold, said) = fakes::run(dir, CALL, &[]);
    assert_eq!((compiled(&cold), said.lines().count()), (1, 1), "{said}");
    let files = kept(dir);
    assert_eq!(files.len(), 1, "{files:?}");

    let (warm, said) = fakes::run_again(dir, CALL, &[]);
    fakes::check_lifetimes(&warm);
    assert_eq!((compiled(&warm), said.lines().count()), (0, 1), "{said}");
    let loads = warm.matches("cuModuleLoadDataEx(add scale below)").count();
    assert_eq!((loads, warm.contains("cuLink")), (1, false), "{warm}");
    assert_eq!(kept(dir), files);

    // Another driver compiles for itself, and so does another chip.
    for other in [("ZML_FAKE_VERSION", "12090"), ("ZML_FAKE_CAPABILITY", "10.0")] {
        assert_eq!(compiled(&fakes::run_again(dir, CALL, &[other]).0), 1);
    }
    assert_eq!(kept(dir).len(), 3);
    // And the first still has its own.
    assert_eq!(compiled(&fakes::run_again(dir, CALL, &[]).0), 0);
}

#[test]
fn what_is_damaged_is_compiled_again_and_said() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fakes::model(dir, "cuda");
    fakes::run(dir, CALL, &[]);
    let file = kept(dir).remove(0);
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, bytes).unwrap();
    let (log, said) = fakes::run_again(dir, CALL, &[]);
    assert_eq!(compiled(&log), 1);
    let note = format!("cache: {} is ignored: it is damaged", file.display());
    assert_eq!(said.lines().last(), Some(note.as_str()), "{said}");
    assert!(said.starts_with("0 "), "{said}");
    let (log, said) = fakes::run_again(dir, CALL, &[]);
    assert_eq!((compiled(&log), said.lines().count()), (0, 1), "it was replaced");

    // A driver that does not take what it made itself.
    let (log, said) = fakes::run_again(dir, CALL, &[("ZML_FAKE_FAIL", "cuModuleLoadDataEx#1=200")]);
    fakes::check_lifetimes(&log);
    assert_eq!(compiled(&log), 1);
    assert!(said.starts_with("0 ") && said.contains("cache: the driver does not take its own code"), "{said}");
    // Without -v nothing is said of it.
    let quiet = CALL.replace(" -v", "");
    let (_, said) = fakes::run_again(dir, &quiet, &[("ZML_FAKE_FAIL", "cuModuleLoadDataEx#1=200")]);
    assert_eq!(said, "0 device: cuda:0 Fake GPU (GPU), profile generic");
}

#[test]
fn a_folder_that_cannot_be_used_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fakes::model(dir, "cuda");
    fs::write(dir.join("file"), "").unwrap();
    let in_a_file = dir.join("file").join("zml");
    let (log, said) = fakes::run_again(dir, CALL, &[("ZML_CACHE_DIR", in_a_file.to_str().unwrap())]);
    fakes::check_lifetimes(&log);
    assert_eq!(compiled(&log), 1);
    assert!(said.starts_with("0 ") && said.contains("cache: nothing is kept at"), "{said}");

    let (log, said) = fakes::run_again(dir, &format!("{CALL} --no-cache"), &[]);
    assert_eq!((log.contains("cuLink"), kept(dir).len(), said.lines().count()), (false, 0, 1), "{said}");
}

/// `ZML_CACHE_DIR`, else the user's cache folder, else none.
#[test]
fn where_the_folder_is() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fakes::model(dir, "cuda");
    let run = |settings: &[(&str, PathBuf)]| {
        let mut c = Command::new(env!("CARGO_BIN_EXE_zml-run"));
        c.arg("m.zml").args(CALL.split_whitespace()).current_dir(dir).env("ZML_LIBCUDA", fakes::library());
        for variable in ["ZML_CACHE_DIR", "XDG_CACHE_HOME", "HOME"] {
            c.env_remove(variable);
        }
        let o = c.envs(settings.iter().map(|s| (s.0, s.1.as_os_str()))).output().unwrap();
        assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
        String::from_utf8(o.stderr).unwrap()
    };
    let (named, user, home) = (dir.join("named"), dir.join("user"), dir.join("home"));
    let variables = [("HOME", home.clone()), ("XDG_CACHE_HOME", user.clone()), ("ZML_CACHE_DIR", named.clone())];
    for (n, folder) in [home.join(".cache/zml"), user.join("zml"), named].iter().enumerate() {
        assert!(!folder.exists());
        run(&variables[..=n]);
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "{}", folder.display());
    }
    // What is relative is not the user's folder.
    let said = run(&[("XDG_CACHE_HOME", "relative".into()), ("ZML_CACHE_DIR", "".into())]);
    assert!(said.contains("cache: neither ZML_CACHE_DIR, XDG_CACHE_HOME nor HOME is set"), "{said}");
    assert!(!dir.join("relative").exists());
}

/// Whatever Vulkan device there is takes its own pipelines back, and says no more than without.
#[test]
fn pipelines_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let program = Program {
        arena_bytes: 0,
        buffers: vec![buffer(BufferKind::Argument(0), 16), buffer(BufferKind::Result(0), 16)],
        results: vec![1],
        steps: vec![dispatch("scale", &[slice(0, 0, 16), slice(1, 0, 16)], 4, 3)],
    };
    let m = builder(&["vulkan"]).entry("main", vec![input("x", 4)], vec![result("y", 4)], &program);
    if device(&Artifact::from_bytes(m.bytes()).unwrap()).is_none() {
        return;
    }
    let m = builder(&["vulkan"]).entry("main", vec![input("x", 4)], vec![result("y", 4)], &program);
    fs::write(dir.join("m.zml"), m.bytes()).unwrap();
    let run = || {
        let mut c = Command::new(env!("CARGO_BIN_EXE_zml-run"));
        c.args(["m.zml", "--input", "x=random:1", "-v"]).current_dir(dir).env("ZML_CACHE_DIR", dir.join("cache"));
        let o = c.output().unwrap();
        assert!(o.status.success());
        (String::from_utf8(o.stdout).unwrap(), String::from_utf8(o.stderr).unwrap())
    };
    let (cold, said) = run();
    let files = kept(dir);
    assert_eq!((files.len(), said.contains("cache:")), (1, false), "{said}");
    let first = fs::read(&files[0]).unwrap();
    let (warm, said) = run();
    assert_eq!((&warm, kept(dir), said.contains("cache:")), (&cold, files.clone(), false), "{said}");
    assert_eq!(fs::read(&files[0]).unwrap(), first, "nothing new was compiled");
    fs::write(&files[0], &first[..first.len() / 2]).unwrap();
    let (again, said) = run();
    assert_eq!((&again, said.contains("is ignored: it is")), (&cold, true), "{said}");
    assert_eq!(fs::read(&files[0]).unwrap().len(), first.len());
}
