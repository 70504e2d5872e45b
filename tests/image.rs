//! The packages run: an archive where it is unpacked; an OCI image in podman, on the software Vulkan device that it brings,
//! after a registry had it.

mod common;

use common::{bytes_of, fixture, ok, registry::Registry, zmlc_ok};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Where Debian puts the software Vulkan device.
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

/// podman with a store of its own, in `folder`.
struct Podman<'a>(&'a Path);
impl Podman<'_> {
    fn run(&self, arguments: &[&str]) -> String {
        let out = Command::new("podman")
            .arg("--root")
            .arg(self.0.join("store"))
            .arg("--runroot")
            .arg(self.0.join("run"))
            .args(["--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--runtime", "runc"])
            .args(arguments)
            .current_dir(self.0)
            .output()
            .expect("podman starts");
        ok(&out, &format!("podman {arguments:?}"));
        String::from_utf8_lossy(&out.stdout).trim().to_string()
    }
    /// The image's id.
    fn pull(&self, from: &str) -> String {
        let said = self.run(&["pull", "--tls-verify=false", from]);
        said.lines().last().expect("podman prints the image's id").to_string()
    }
    /// With the folder as `/data`, and without a network.
    fn zml_run(&self, image: &str, arguments: &[&str]) -> String {
        let data = format!("{}:/data", self.0.display());
        let limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"];
        self.run(&[&["run", "--rm", "--network", "none", "-v", &data][..], &limits, &[image], arguments].concat())
    }
}

/// Nothing of the host's is mounted in: the device lies in the image, in a layer of its own.
#[test]
fn what_was_pushed_is_pulled_and_runs_in_podman() {
    if !has("skopeo") || !has("podman") || !Path::new(ICD).exists() {
        return;
    }
    let Some(registry) = Registry::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let label = prepare(folder);
    let runtime = runtime();
    let runtime = runtime.to_str().expect("UTF-8");
    let package = ["package", "mnist_mlp.zml", "--oci", "layout", "--runtime", runtime, "--software-vulkan"];
    let said = zmlc_ok(folder, &package);
    let digest = said.split_whitespace().nth(2).expect("its digest").to_string();
    assert!(said.contains("\n  software vulkan "), "{said}");

    let skopeo = |from: &str, to: &str| {
        let copy = ["copy", "--insecure-policy", "--src-tls-verify=false", "--dest-tls-verify=false", from, to];
        ok(&Command::new("skopeo").args(copy).current_dir(folder).output().expect("skopeo starts"), "skopeo copy");
    };
    let there = format!("docker://{}/skopeo:1", registry.address);
    skopeo("oci:layout:latest", &there);
    skopeo(&there, "oci:back:latest");
    let back = zmlc_ok(folder, &["verify", "back"]);
    assert!(back.contains(&digest), "{digest} came back as {back}");

    let pushed = format!("{}/team/mnist:1", registry.address);
    let first = zmlc_ok(folder, &["push", "layout", &pushed]);
    assert!(first.starts_with(&format!("{pushed}: {digest}\n")) && !first.contains("  0 blobs sent"), "{first}");
    let second = zmlc_ok(folder, &["push", "layout", &pushed]);
    assert!(second.contains("\n  0 blobs sent, 0 bytes; "), "{second}");

    let podman = Podman(folder);
    let image = podman.pull(&pushed);
    assert_eq!(podman.pull("oci:layout:latest"), image, "one image, whichever way it came");
    let calls =
        ["--entry", "b1", "--device", "vulkan", "--input", "0=/data/digit.npy", "--output", "0=/data/scores.npy"];
    podman.zml_run(&image, &calls);
    assert_eq!(predicted(&folder.join("scores.npy")), label);
}
