//! zmlc as it ships (`make dist`): on a bare Debian 12, where there is no LLVM, no linker and no C++ library, it builds
//! the same bytes as the build under test, and its image builds, packages and lists in podman.
//!
//! Skipped, and said to be, where `make dist` was not run on these sources.

mod common;

use common::{ROOT, fixture, ok, zmlc_ok};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// `target/dist`, if it was made of the sources that lie here.
fn dist() -> Option<PathBuf> {
    let dist = Path::new(ROOT).join("target/dist");
    let Ok(made_of) = std::fs::read_to_string(dist.join("sources")) else {
        eprintln!("skipped: no target/dist, `make dist` makes it");
        return None;
    };
    let here = Command::new(Path::new(ROOT).join("tools/sources.sh")).output().expect("the script starts");
    if made_of.as_bytes() != here.stdout {
        eprintln!("skipped: target/dist was made of other sources, `make dist` makes it anew");
        return None;
    }
    Some(dist)
}
/// MNIST for all targets, by the zmlc under test.
fn built_here(folder: &Path) -> Vec<u8> {
    let toml = fixture("mnist_mlp/model.toml");
    zmlc_ok(folder, &["build", toml.to_str().expect("UTF-8"), "--target", "vulkan,cuda,rocm", "-o", "here"]);
    std::fs::read(folder.join("here/mnist_mlp.zml")).expect("an artifact")
}
fn copy_model(to: &Path) {
    std::fs::create_dir_all(to).expect("writable");
    for f in std::fs::read_dir(fixture("mnist_mlp")).expect("the fixture").map(|f| f.expect("readable").path()) {
        std::fs::copy(&f, to.join(f.file_name().expect("a file"))).expect("copied");
    }
}

#[test]
fn it_builds_the_same_bytes_on_a_bare_debian() {
    let Some(dist) = dist() else { return };
    let root = dist.join("debian12");
    // What comes out of it lands in the root's own /tmp.
    let folder = tempfile::tempdir_in(root.join("tmp")).expect("a folder in the bare root");
    let archive = std::fs::read_dir(&dist).expect("target/dist").map(|e| e.expect("readable").path());
    let archive = archive.filter(|p| p.to_string_lossy().ends_with("-x86_64-linux.tar.zst")).collect::<Vec<_>>();
    assert_eq!(archive.len(), 1, "one archive in target/dist");
    zmlc_ok(folder.path(), &["verify", archive[0].to_str().expect("UTF-8")]);
    let unpack = Command::new("tar").arg("--zstd").arg("-xf").arg(&archive[0]).current_dir(folder.path()).output();
    ok(&unpack.expect("tar starts"), "tar");
    copy_model(&folder.path().join("model"));
    let inside = Path::new("/").join(folder.path().strip_prefix(&root).expect("inside"));
    let output = |program: &str, arguments: &[&str]| {
        let program = if program.starts_with('/') { program.into() } else { inside.join(program) };
        let mut command = Command::new("/usr/sbin/chroot");
        command.arg(&root).arg(program).args(arguments).env_clear().env("HOME", "/nowhere");
        command.output().expect("chroot starts")
    };
    let run = |program: &str, arguments: &[&str]| ok(&output(program, arguments), &format!("{arguments:?}"));
    let at = |p: &str| inside.join(p).to_str().expect("UTF-8").to_string();
    let (model, out, artifact) = (at("model/model.toml"), at("out"), at("out/mnist_mlp.zml"));
    let libraries = run("/lib64/ld-linux-x86-64.so.2", &["--list", &at("bin/zmlc")]);
    for line in libraries.lines() {
        let name = line.trim().rsplit('/').next().expect("a name").split(' ').next().expect("a name");
        let known =
            ["linux-vdso.so.1", "libm.so.6", "libc.so.6", "ld-linux-x86-64.so.2", "libdl.so.2", "libpthread.so.0"];
        assert!(known.contains(&name), "zmlc asks for {line}");
    }
    run("bin/zmlc", &["build", &model, "--target", "vulkan,cuda,rocm", "-o", &out]);
    let there = std::fs::read(folder.path().join("out/mnist_mlp.zml")).expect("an artifact");
    assert!(there == built_here(folder.path()), "another artifact than the build under test makes");
    run("bin/zmlc", &["verify", &artifact, "--rebuild", &model]);
    let listed = output("bin/zml-run", &[&artifact]);
    assert_eq!(listed.status.code(), Some(2), "inputs are missing");
    assert!(String::from_utf8_lossy(&listed.stdout).contains("input 0   x"), "{listed:?}");
    // Nothing is mounted there, /proc neither: it cannot look beside itself.
    run("bin/zmlc", &["package", &artifact, "--archive", &at("x.tar.zst"), "--runtime", &at("bin/zml-run")]);
    run("bin/zmlc", &["verify", &at("x.tar.zst")]);
}

#[test]
fn its_image_builds_and_packages() {
    let Some(dist) = dist() else { return };
    if !Command::new("podman").arg("--version").output().is_ok_and(|o| o.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "CI installs podman");
        eprintln!("skipped: no podman");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (store, run) = (folder.path().join("store"), folder.path().join("run"));
    let podman = |arguments: &[&str]| {
        let mut command = Command::new("podman");
        command.arg("--root").arg(&store).arg("--runroot").arg(&run);
        command.args(["--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--runtime", "runc"]).args(arguments);
        ok(&command.output().expect("podman starts"), &format!("podman {arguments:?}"))
    };
    let layout = dist.join("zmlc-image");
    zmlc_ok(folder.path(), &["verify", layout.to_str().expect("UTF-8")]);
    let pulled = podman(&["pull", &format!("oci:{}:{}", layout.display(), env!("CARGO_PKG_VERSION"))]);
    let image = pulled.trim().lines().last().expect("podman prints the image's id").to_string();
    copy_model(&folder.path().join("work/model"));
    let work = format!("{}:/workspace", folder.path().join("work").display());
    let limits = ["--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"];
    let zmlc = |before: &[&str], arguments: &[&str]| {
        podman(&[&["run", "--rm", "-v", &work][..], &limits, before, &[&image], arguments].concat())
    };
    zmlc(&[], &["build", "model/model.toml", "--target", "vulkan,cuda,rocm", "-o", "out"]);
    let there = std::fs::read(folder.path().join("work/out/mnist_mlp.zml")).expect("an artifact");
    assert!(there == built_here(folder.path()), "another artifact than the build under test makes");
    // A pipeline's shell, and a package whose files still have owners.
    let script = "zmlc package out/mnist_mlp.zml --oci image && ls image | grep -c index.json && id -u | base64";
    zmlc(&["--entrypoint", ""], &["sh", "-c", script]);
    zmlc_ok(folder.path(), &["verify", "work/image"]);
    let blobs = std::fs::read_dir(folder.path().join("work/image/blobs/sha256")).expect("blobs");
    let texts = blobs.filter_map(|b| std::fs::read_to_string(b.expect("readable").path()).ok());
    let sbom = texts.into_iter().find(|t| t.contains("CycloneDX")).expect("an SBOM");
    assert!(sbom.contains("pkg:deb/debian/libc6@") && sbom.contains("pkg:deb/debian/libvulkan1@"), "{sbom}");
}
