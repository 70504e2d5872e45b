//! Machine code beside the kernels of a profile: loaded where the device is the one that it is for, said where it is not,
//! and never replaced in silence where the driver refuses it.

use crate::{common::*, fakes, ptx};
use std::path::Path;
use zml_runtime::format::*;

const CALL: &str = "--input x=random:1 --device cuda";

/// A model for `sm_90a` with PTX, and `code` as its machine code.
fn model(dir: &Path, code: &[u8]) {
    let mut m = builder(&["cuda"]);
    let blob = m.writer.blob(code);
    let p = &mut m.manifest.profiles[0];
    (p.name, p.requires.arch, p.requires.api) = ("sm_90a".into(), "sm_90a".into(), "12000".into());
    let requires = Requires { api: "13000".into(), arch: "sm_90a".into(), ..Requires::default() };
    p.native = Some(Native { producer: "ptxas 13.0.88".into(), requires, blobs: vec![blob; p.kernels.len()] });
    let program = Program {
        arena_bytes: 0,
        buffers: vec![buffer(BufferKind::Argument(0), 16), buffer(BufferKind::Result(0), 16)],
        results: vec![1],
        steps: vec![dispatch("scale", &[slice(0, 0, 16), slice(1, 0, 16)], 4, 3)],
    };
    let bytes = m.entry("main", vec![input("x", 4)], vec![result("y", 4)], &program).bytes();
    std::fs::write(dir.join("m.zml"), bytes).unwrap();
}

/// The fake takes a cubin for what it holds behind its magic number.
fn cubin() -> Vec<u8> {
    [b"\x7fELF", ptx::module().as_bytes()].concat()
}

#[test]
fn it_is_loaded_where_the_device_is_the_one() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path(), &cubin());
    let (log, said) = fakes::run(dir.path(), CALL, &[("ZML_FAKE_VERSION", "13000")]);
    fakes::check_lifetimes(&log);
    assert_eq!(said, "0 device: cuda:0 Fake GPU (GPU), profile sm_90a, machine code by ptxas 13.0.88");
    assert!(!log.contains("cuLink") && log.matches("cuModuleLoadDataEx(").count() == 1, "{log}");
}

#[test]
fn an_older_driver_compiles_the_kernels_and_that_is_said() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path(), &cubin());
    let (log, said) = fakes::run(dir.path(), CALL, &[("ZML_FAKE_VERSION", "12080")]);
    fakes::check_lifetimes(&log);
    let expected = "0 device: cuda:0 Fake GPU (GPU), profile sm_90a\n  machine code by ptxas 13.0.88: its driver has CUDA \
                    12.8, and CUDA 13.0 (NVIDIA driver 580) is needed; the driver compiles the kernels of the profile \
                    instead";
    assert_eq!(said, expected);
    assert_eq!(log.matches("cuLinkComplete(").count(), 1, "{log}");
}

#[test]
fn what_the_driver_refuses_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path(), &cubin());
    for (settings, why) in [
        (
            "cuModuleLoadDataEx#1=200",
            "cuModuleLoadDataEx failed: CUDA_ERROR_INVALID_IMAGE: device kernel image is invalid",
        ),
        ("cuModuleGetFunction#1=500", "cuModuleGetFunction failed: CUDA_ERROR_NOT_FOUND: named symbol not found"),
    ] {
        let settings = [("ZML_FAKE_VERSION", "13000"), ("ZML_FAKE_FAIL", settings)];
        let (log, said) = fakes::run(dir.path(), CALL, &settings);
        fakes::check_lifetimes(&log);
        let said = said.lines().nth(1).unwrap();
        let begin = format!(
            "error: cuda:0 Fake GPU (GPU) does not load the machine code that the artifact has from ptxas 13.0.88: {why}"
        );
        assert!(said.starts_with(&begin) && said.contains("; update the driver, or build again"), "{said}");
        assert!(!log.contains("cuLink"), "no other code is tried: {log}");
        let (_, json) = fakes::run(dir.path(), &format!("{CALL} --message-format json"), &settings);
        assert!(json.contains("\"code\":\"native-code\""), "{json}");
    }
}

#[test]
fn text_in_its_place_is_not_compiled() {
    let dir = tempfile::tempdir().unwrap();
    model(dir.path(), &[ptx::module().as_bytes(), b" "].concat());
    let (log, said) = fakes::run(dir.path(), CALL, &[("ZML_FAKE_VERSION", "13000")]);
    fakes::check_lifetimes(&log);
    assert!(said.contains("from ptxas 13.0.88: it is no ELF file; "), "{said}");
    assert!(!log.contains("cuModuleLoad") && !log.contains("cuLink"), "{log}");
}
