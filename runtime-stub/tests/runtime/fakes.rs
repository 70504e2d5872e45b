//! The CUDA and HIP drivers against recording libraries: order of calls, argument bytes, lifetimes, failures.

use crate::common::*;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};
use zml_runtime::format::*;

/// Built as a dependency of this test, beside it.
pub fn library() -> PathBuf {
    let me = std::env::current_exe().unwrap();
    let path = me.with_file_name("libzml_fakes.so");
    assert!(path.exists(), "{} is absent", path.display());
    path
}

/// Runs `m.zml` in `dir` on the fake, with nothing kept of an earlier run; the log and what was printed.
pub fn run(dir: &Path, args: &str, settings: &[(&str, &str)]) -> (String, String) {
    let _ = std::fs::remove_dir_all(dir.join("cache"));
    run_again(dir, args, settings)
}

/// The same with what was kept.
pub fn run_again(dir: &Path, args: &str, settings: &[(&str, &str)]) -> (String, String) {
    let log = dir.join("log");
    let _ = std::fs::remove_file(&log);
    let mut c = Command::new(env!("CARGO_BIN_EXE_zml-run"));
    c.arg("m.zml").args(args.split_whitespace()).current_dir(dir).env("ZML_FAKE_LOG", &log);
    c.env("ZML_LIBCUDA", library()).env("ZML_LIBAMDHIP64", library()).env("ZML_CACHE_DIR", dir.join("cache"));
    let o = c.envs(settings.iter().copied()).output().unwrap();
    let err = String::from_utf8(o.stderr).unwrap();
    let said = format!("{} {}", o.status.code().unwrap_or(-1), err.trim());
    (std::fs::read_to_string(log).unwrap_or_default(), said)
}

/// `y = x + w * 3`, then `s = s + y` into a result of its own; the loop ends when it is first asked.
pub fn model(dir: &Path, target: &str) {
    let mut m = builder(&[target]);
    let weight = m.writer.blob(&f32s(&[1.0, 2.0, 3.0, 4.0]));
    let constant = m.writer.blob(&f32s(&[9.0; 4]));
    m.manifest.weights = vec![Weight {
        tensor: tensor("w", DType::F32, &[4]),
        sha256: String::new(),
        source: WeightSource::Embedded { blob: weight },
    }];
    m.manifest.state = vec![State { tensor: tensor("s", DType::F32, &[4]) }];
    let a = BufferKind::Argument;
    let program = Program {
        arena_bytes: 512,
        buffers: vec![
            buffer(a(0), 16),
            buffer(a(1), 16),
            buffer(a(2), 16),
            buffer(BufferKind::Result(0), 16),
            buffer(BufferKind::Result(1), 16),
            buffer(BufferKind::Arena(0), 16),
            buffer(BufferKind::Arena(256), 1),
            buffer(BufferKind::Constant(constant), 16),
        ],
        results: vec![3, 4],
        steps: vec![
            dispatch("scale", &[slice(1, 0, 16), slice(5, 0, 16)], 4, 3),
            Step::Barrier,
            dispatch("add", &[slice(0, 0, 16), slice(5, 0, 16), slice(3, 0, 16)], 4, 0),
            dispatch("add", &[slice(2, 0, 16), slice(3, 4, 12), slice(4, 0, 16)], 3, 0),
            Step::Copy { from: slice(7, 0, 16), to: slice(3, 0, 16) },
            Step::Fill { to: slice(6, 0, 1), byte: 0 },
            Step::While {
                condition: vec![],
                predicate: slice(6, 0, 1),
                body: vec![dispatch("scale", &[slice(0, 0, 0), slice(5, 0, 0)], 0, 0)],
                turns: None,
            },
        ],
    };
    let arguments = vec![input("x", 4), Argument::Weight { weight: 0 }, Argument::State { state: 0 }];
    let results = vec![result("y", 4), EntryResult { state: Some(0), ..result("s", 4) }];
    std::fs::write(dir.join("m.zml"), m.entry("main", arguments, results, &program).bytes()).unwrap();
    let x = zml_runtime::tensor::HostTensor { dtype: DType::F32, shape: vec![4], bytes: f32s(&[1.0, 2.0, 3.0, 4.0]) };
    zml_runtime::tensor::npy::write(&dir.join("x.npy"), &x).unwrap();
}

/// No misuse, and everything that was made was given back once.
pub fn check_lifetimes(log: &str) {
    assert!(!log.contains("!!"), "misuse:\n{log}");
    let made = ["Alloc", "Malloc", "LinkCreate", "ModuleLoad", "StreamCreate", "StreamEndCapture", "GraphInstantiate"];
    let given_back = ["Free", "LinkDestroy", "ModuleUnload", "StreamDestroy", "GraphDestroy", "GraphExecDestroy"];
    let mut open: BTreeMap<String, usize> = BTreeMap::new();
    for line in log.lines() {
        let (name, rest) = line.split_once('(').unwrap_or((line, ""));
        if made.iter().any(|m| name.contains(m)) && line.contains(" -> ") {
            let thing = line.rsplit(" -> ").next().unwrap().split(' ').next().unwrap();
            assert!(open.insert(thing.into(), 1).is_none(), "{line}");
        } else if given_back.iter().any(|g| name.contains(g)) {
            let thing = rest.split(')').next().unwrap();
            assert!(open.remove(thing).is_some(), "{line}");
        }
    }
    assert!(open.is_empty(), "left: {open:?}\n{log}");
}

#[test]
fn a_call_on_cuda() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path(), "cuda");
    let (log, said) = run(dir.path(), "--input x=x.npy --device cuda", &[]);
    assert_eq!(said, "0 device: cuda:0 Fake GPU (GPU), profile generic");
    check_lifetimes(&log);
    insta::assert_snapshot!("cuda_call", log);
}

/// The program asks the driver for one queue, unless its user says otherwise.
#[test]
fn queues_are_few_or_as_the_user_says() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path(), "cuda");
    for (settings, queues) in [(&[][..], "1 queues"), (&[("CUDA_DEVICE_MAX_CONNECTIONS", "4")], "4 queues")] {
        let (log, _) = run(dir.path(), "--input x=x.npy", settings);
        assert_eq!(log.lines().next(), Some(&format!("cuInit(0) -> {queues}")[..]));
    }
}

#[test]
fn a_call_on_rocm() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path(), "rocm");
    let (log, said) = run(dir.path(), "--input x=x.npy --device rocm:0", &[]);
    assert_eq!(said, "0 device: rocm:0 Fake GPU (GPU), profile gfx942");
    check_lifetimes(&log);
    insta::assert_snapshot!("rocm_call", log);
}

/// Two specialisations of one entry: their weight is uploaded once, and the one called is captured alone.
#[test]
fn specialisations_share_the_weight() {
    let dir = tempfile::tempdir().unwrap();
    let mut m = builder(&["cuda"]);
    let weight = m.writer.blob(&f32s(&[1.0, 2.0, 3.0, 4.0]));
    m.manifest.weights = vec![Weight {
        tensor: tensor("w", DType::F32, &[4]),
        sha256: String::new(),
        source: WeightSource::Embedded { blob: weight },
    }];
    let a = BufferKind::Argument;
    for n in [2, 4] {
        let bytes = 4 * n;
        let program = Program {
            arena_bytes: 0,
            buffers: vec![buffer(a(0), bytes), buffer(a(1), 16), buffer(BufferKind::Result(0), bytes)],
            results: vec![2],
            steps: vec![dispatch("add", &[slice(0, 0, bytes), slice(1, 0, bytes), slice(2, 0, bytes)], n as u32, 0)],
        };
        m = m.entry("main", vec![input("x", n), Argument::Weight { weight: 0 }], vec![result("y", n)], &program);
        m.manifest.entries.last_mut().unwrap().dims = vec![Dim { name: "n".into(), size: n }];
    }
    std::fs::write(dir.path().join("m.zml"), m.bytes()).unwrap();
    for (n, kernels) in [(2, "u32 2"), (4, "u32 4")] {
        let (log, said) = run(dir.path(), &format!("--input x=random:1 --dims n={n}"), &[]);
        assert!(said.starts_with("0 "), "{said}");
        check_lifetimes(&log);
        let uploads = log.matches("host [00 00 80 3f 00 00 00 40 00 00 40 40 00 00 80 40]").count();
        let launches: Vec<&str> = log.lines().filter(|l| l.starts_with("cuLaunchKernel")).collect();
        assert_eq!((uploads, launches.len()), (1, 1), "{log}");
        assert!(launches[0].contains(kernels), "{log}");
    }
    let (_, said) = run(dir.path(), "--input x=random:1", &[]);
    assert_eq!(said, "1 error: entry `main` was built for n=2; n=4: choose with --dims n=2");
}

/// Every call that can fail, failing: a named error, and nothing left or used after its end.
#[test]
fn failures_are_named_and_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut said = String::new();
    for target in ["cuda", "rocm"] {
        model(dir.path(), target);
        let (whole, _) = run(dir.path(), "--input x=x.npy", &[]);
        let mut calls: Vec<&str> = whole.lines().filter_map(|l| l.split_once('(')).map(|l| l.0).collect();
        calls.sort_unstable();
        calls.dedup();
        // What gives back has nobody to tell of a failure; what was not logged cannot be failed.
        let quiet = ["Free", "Unload", "Destroy", "Release", "CtxSetCurrent", "hipSetDevice"];
        for name in calls.into_iter().filter(|c| !quiet.iter().any(|q| c.contains(q))) {
            let code = match name {
                n if n.to_lowercase().contains("alloc") => 2,
                n if n.contains("Synchronize") || n.contains("GraphLaunch") => 719,
                _ => 1,
            };
            let (log, text) = run(dir.path(), "--input x=x.npy", &[("ZML_FAKE_FAIL", &format!("{name}#1={code}"))]);
            assert!(text.starts_with("1 "), "{name}: {text}\n{log}");
            check_lifetimes(&log);
            said += &format!("{name}\n{}\n", text.replace("1 device: ", "1 "));
        }
    }
    insta::assert_snapshot!("failures", said);
}

#[test]
fn machines_that_cannot_run_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut said = String::new();
    let mut say = |target: &str, settings: &[(&str, &str)]| {
        model(dir.path(), target);
        said += &format!("{target} {settings:?}\n  {}\n", run(dir.path(), "--input x=x.npy", settings).1);
    };
    say("cuda", &[("ZML_LIBCUDA", "libabsent.so.1")]);
    say("cuda", &[("ZML_FAKE_FAIL", "cuInit#1=100")]);
    say("cuda", &[("ZML_FAKE_DEVICES", "0")]);
    say("cuda", &[("ZML_FAKE_VERSION", "10020")]);
    say("cuda", &[("ZML_FAKE_CAPABILITY", "7.5")]);
    say("rocm", &[("ZML_LIBAMDHIP64", "libabsent.so.6")]);
    say("rocm", &[("ZML_FAKE_FAIL", "hipInit#1=100")]);
    say("rocm", &[("ZML_FAKE_DEVICES", "0")]);
    say("rocm", &[("ZML_FAKE_CHIP", "gfx1100")]);
    say("rocm", &[("ZML_FAKE_VERSION", "50100000")]);
    insta::assert_snapshot!("machines", said);
}

/// A module that the driver cannot compile: its own words are in the error.
#[test]
fn a_module_that_does_not_compile() {
    let dir = tempfile::tempdir().unwrap();
    let mut m = builder(&["cuda"]);
    let bad = m.writer.blob(b"no kernels here");
    m.manifest.profiles[0].kernels.iter_mut().for_each(|k| k.blob = bad);
    std::fs::write(
        dir.path().join("m.zml"),
        m.entry("main", vec![], vec![], &Program { arena_bytes: 0, buffers: vec![], results: vec![], steps: vec![] })
            .bytes(),
    )
    .unwrap();
    let (log, said) = run(dir.path(), "", &[]);
    check_lifetimes(&log);
    insta::assert_snapshot!("module_does_not_compile", said);
}

/// `auto` goes on to the next backend and says why.
#[test]
fn auto_goes_from_cuda_to_vulkan() {
    let dir = tempfile::tempdir().unwrap();
    let both = builder(&["vulkan", "cuda"]);
    let program = Program { arena_bytes: 0, buffers: vec![], results: vec![], steps: vec![] };
    std::fs::write(dir.path().join("m.zml"), both.entry("main", vec![], vec![], &program).bytes()).unwrap();
    let (_, said) = run(dir.path(), "", &[]);
    assert_eq!(said, "0 device: cuda:0 Fake GPU (GPU), profile generic\n  vulkan: not needed, cuda comes first");
    let absent = [("ZML_FAKE_DEVICES", "0"), ("ZML_LIBVULKAN", "libabsent.so.1")];
    insta::assert_snapshot!("no_backend_serves", run(dir.path(), "", &absent).1);
}
