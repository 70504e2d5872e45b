//! What a package says where it cannot run: a line for each backend that it contains, with cause and remedy, nothing
//! about the others, and exit code 1.

use crate::{common::*, fakes::library};
use std::{path::Path, process::Command};
use zml_runtime::format::*;

/// Backend, what is wrong with the machine, and what the line has to say of it.
type Fault = (&'static str, &'static [(&'static str, &'static str)], &'static str);

const FAULTS: [Fault; 11] = [
    ("cuda", &[("ZML_LIBCUDA", "libabsent.so.1")], "install the NVIDIA driver"),
    ("cuda", &[("ZML_FAKE_DEVICES", "0")], "CUDA_VISIBLE_DEVICES"),
    ("cuda", &[("ZML_FAKE_VERSION", "10020")], "has CUDA 10.2, and CUDA 11.1 (NVIDIA driver 455) is needed; update"),
    ("cuda", &[("ZML_FAKE_CAPABILITY", "7.5")], "it is sm_75, and this is for sm_80+; build for sm_75"),
    ("rocm", &[("ZML_LIBAMDHIP64", "libabsent.so.6")], "install ROCm's HIP runtime"),
    ("rocm", &[("ZML_FAKE_DEVICES", "0")], "/dev/kfd"),
    ("rocm", &[("ZML_FAKE_CHIP", "gfx1100")], "it is gfx1100, and this is for gfx942; build for gfx1100"),
    (
        "rocm",
        &[("ZML_FAKE_VERSION", "50100000")],
        "has HIP 5.1, and 5.2 is needed for code objects of version 5; update",
    ),
    ("vulkan", &[("ZML_LIBVULKAN", "libabsent.so.1")], "install libvulkan1"),
    ("vulkan", &[("VK_DRIVER_FILES", "/nowhere.json"), ("VK_ICD_FILENAMES", "/nowhere.json")], "; "),
    ("cuda", &[("ZML_FAKE_FAIL", "cuInit#1=100")], "see that nvidia-smi lists a GPU"),
];

fn run(dir: &Path, settings: &[(&str, &str)], args: &[&str]) -> (i32, String) {
    let mut c = Command::new(env!("CARGO_BIN_EXE_zml-run"));
    c.arg("m.zml").args(args).current_dir(dir).env("ZML_LIBCUDA", library()).env("ZML_LIBAMDHIP64", library());
    let o = c.envs(settings.iter().copied()).output().unwrap();
    (o.status.code().unwrap_or(-1), String::from_utf8(if args.is_empty() { o.stderr } else { o.stdout }).unwrap())
}

#[test]
fn every_backend_of_the_package_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for contained in
        [&["cuda"][..], &["rocm"], &["vulkan"], &["vulkan", "cuda"], &["cuda", "rocm"], &["vulkan", "cuda", "rocm"]]
    {
        let empty = Program { arena_bytes: 0, buffers: vec![], results: vec![], steps: vec![] };
        let bytes = builder(contained).entry("main", vec![], vec![], &empty).bytes();
        std::fs::write(dir.join("m.zml"), bytes).unwrap();
        // For each backend one of its faults at a time, the others with their first.
        for (backend, fault, says) in FAULTS.iter().filter(|f| contained.contains(&f.0)) {
            let others = contained.iter().filter(|b| *b != backend);
            let first = others.map(|b| FAULTS.iter().find(|f| f.0 == *b).expect("each has one"));
            let settings: Vec<(&str, &str)> = first.flat_map(|f| f.1).chain(*fault).copied().collect();
            let (code, text) = run(dir, &settings, &[]);
            let lines: Vec<&str> = text.lines().skip(1).collect();
            assert_eq!((code, lines.len()), (1, contained.len()), "{contained:?} {settings:?}: {text}");
            for b in contained {
                let line =
                    lines.iter().find(|l| l.starts_with(&format!("  {b}: "))).unwrap_or_else(|| panic!("{text}"));
                assert!(line.contains("; "), "no remedy in {line}");
                assert!(b != backend || line.contains(says), "{says} not in {line}");
            }
            let (code, table) = run(dir, &settings, &["doctor"]);
            assert_eq!((code, table.lines().count()), (1, 1 + contained.len()), "{table}");
            let (code, json) = run(dir, &settings, &["doctor", "--message-format", "json"]);
            assert_eq!((code, json.lines().count()), (1, contained.len()), "{json}");
            for line in json.lines() {
                let row: serde_json::Value = serde_json::from_str(line).unwrap();
                assert!(contained.contains(&row["what"].as_str().unwrap()) && row["ok"] == false, "{row}");
                assert!(
                    !row["remedy"].as_str().unwrap().is_empty() && !row["cause"].as_str().unwrap().is_empty(),
                    "{row}"
                );
            }
        }
    }
}
