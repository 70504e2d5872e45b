//! The packages run: an archive where it is unpacked, an OCI image in podman on the software Vulkan device.

mod common;

use common::{bytes_of, fixture, zmlc_ok};
use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Where Debian puts the software Vulkan device.
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";
const ICD: &str = "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json";

fn runtime() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_zmlc")).with_file_name("zml-run");
    assert!(path.is_file(), "build the workspace first: {} is missing", path.display());
    path
}
/// The MNIST artifact, and one digit with its label.
fn prepare(folder: &Path) -> i32 {
    let toml = fixture("mnist_mlp/model.toml");
    zmlc_ok(folder, &["build", toml.to_str().expect("UTF-8"), "--target", "vulkan,cuda,rocm", "-o", "."]);
    let file = std::fs::read(fixture("mnist_mlp/test256.safetensors")).expect("readable");
    let tensors = safetensors::SafeTensors::deserialize(&file).expect("safetensors");
    let images = tensors.tensor("images").expect("images").data()[..784 * 4].to_vec();
    let labels = tensors.tensor("labels").expect("labels").data()[..4].to_vec();
    npy(&folder.join("digit.npy"), &images);
    i32::from_le_bytes(labels.try_into().expect("4 bytes"))
}
/// A (1, 784) f32 array, as numpy writes it.
fn npy(path: &Path, data: &[u8]) {
    let mut header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 784), }".to_string();
    while !(10 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    std::fs::write(path, bytes).expect("writable");
}
/// The class with the highest score in a (1, 10) f32 .npy.
fn predicted(path: &Path) -> i32 {
    let bytes = std::fs::read(path).expect("an output");
    let scores = common::floats_of(&bytes[bytes.len() - 40..]);
    assert_ne!(bytes_of(&scores), vec![0; 40]);
    (0..10).fold(0, |best, i| if scores[i] > scores[best] { i } else { best }) as i32
}
fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok_and(|o| o.status.success());
    if !found {
        assert!(std::env::var_os("CI").is_none(), "CI installs {tool}");
        eprintln!("skipped: no {tool}");
    }
    found
}
fn ok(out: &Output, what: &str) {
    assert!(
        out.status.success(),
        "{what}: {}\n{}\n{}",
        out.status,
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
}

#[test]
fn the_archive_runs_where_it_is_unpacked() {
    let folder = tempfile::tempdir().expect("a folder");
    let label = prepare(folder.path());
    let runtime = runtime();
    let runtime = runtime.to_str().expect("UTF-8");
    zmlc_ok(folder.path(), &["package", "mnist_mlp.zml", "--archive", "m.tar.zst", "--runtime", runtime]);
    std::fs::create_dir(folder.path().join("there")).expect("writable");
    let out =
        Command::new("tar").args(["--zstd", "-xf", "../m.tar.zst"]).current_dir(folder.path().join("there")).output();
    let Ok(out) = out else {
        eprintln!("skipped: no tar");
        return;
    };
    ok(&out, "tar");
    let out = Command::new("./bin/zml-run")
        .args([
            "model/mnist_mlp.zml",
            "--entry",
            "b1",
            "--device",
            "vulkan",
            "--input",
            "0=../digit.npy",
            "--output",
            "0=../scores.npy",
        ])
        .current_dir(folder.path().join("there"))
        .env("VK_DRIVER_FILES", ICD)
        .output()
        .expect("it starts");
    ok(&out, "zml-run");
    assert_eq!(predicted(&folder.path().join("scores.npy")), label);
}

#[test]
fn the_image_runs_in_podman() {
    if !has("skopeo") || !has("podman") || !Path::new(ICD).exists() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let label = prepare(folder.path());
    let runtime = runtime();
    let runtime = runtime.to_str().expect("UTF-8");
    zmlc_ok(folder.path(), &["package", "mnist_mlp.zml", "--oci", "layout", "--runtime", runtime]);
    let skopeo = Command::new("skopeo")
        .args(["copy", "--insecure-policy", "oci:layout:latest", "oci:copied:latest"])
        .current_dir(folder.path())
        .output()
        .expect("skopeo starts");
    ok(&skopeo, "skopeo copy");

    let (store, run) = (folder.path().join("store"), folder.path().join("run"));
    let podman = |arguments: &[&str]| {
        let out = Command::new("podman")
            .args(["--root", store.to_str().expect("UTF-8"), "--runroot", run.to_str().expect("UTF-8")])
            .args(["--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--runtime", "runc"])
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .expect("podman starts");
        ok(&out, &format!("podman {arguments:?}"));
        String::from_utf8_lossy(&out.stdout).trim().to_string()
    };
    let pulled = podman(&["pull", "oci:layout:latest"]);
    let image = pulled.lines().last().expect("podman prints the image's id").to_string();
    let data = format!("{}:/data", folder.path().display());
    let libraries = format!("{LIBRARIES}:/host:ro");
    // Debian's own ICD file names the library by its path on the host.
    let icd = r#"{"file_format_version": "1.0.0", "ICD": {"library_path": "/host/libvulkan_lvp.so", "api_version": "1.3.0"}}"#;
    std::fs::write(folder.path().join("lvp.json"), icd).expect("writable");
    podman(&[
        "run",
        "--rm",
        "--network",
        "none",
        "--ulimit",
        "nofile=1024:1024",
        "--ulimit",
        "nproc=4096:4096",
        "-v",
        &data,
        "-v",
        &libraries,
        "-e",
        "LD_LIBRARY_PATH=/host",
        "-e",
        "VK_DRIVER_FILES=/data/lvp.json",
        &image,
        "--entry",
        "b1",
        "--device",
        "vulkan",
        "--input",
        "0=/data/digit.npy",
        "--output",
        "0=/data/scores.npy",
    ]);
    assert_eq!(predicted(&folder.path().join("scores.npy")), label);
}
