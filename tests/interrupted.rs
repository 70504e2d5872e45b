//! Killed at any point, or on a full disk, a command leaves nothing half-written under the final name.

mod common;

use common::registry::Registry;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::sleep,
    time::Instant,
};

/// Points at which a command is killed, evenly over the time that a whole run takes.
const POINTS: u32 = 6;

fn zmlc(dir: &Path, args: &[&str]) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_zmlc"));
    c.args(args).current_dir(dir).stdout(Stdio::null()).stderr(Stdio::null());
    c
}

/// A model whose weights make its artifact a few MiB large, and a library of as much for the package.
fn model(dir: &Path) {
    let n = 1 << 20;
    let program = format!(
        "module @m {{ func.func @main(%x: tensor<{n}xf32>, %w: tensor<{n}xf32>) -> tensor<{n}xf32> {{\n\
         %y = stablehlo.add %x, %w : tensor<{n}xf32>\n return %y : tensor<{n}xf32>\n}} }}\n"
    );
    fs::write(dir.join("m.mlir"), program).unwrap();
    let header = format!("{{\"w\":{{\"dtype\":\"F32\",\"shape\":[{n}],\"data_offsets\":[0,{}]}}}}", 4 * n);
    // Numbers that do not compress to nothing.
    let data = (0..n as u32).flat_map(|i| (1.0 + (i.wrapping_mul(2_654_435_761) >> 9) as f32).to_le_bytes());
    let bytes: Vec<u8> = (header.len() as u64).to_le_bytes().into_iter().chain(header.bytes()).chain(data).collect();
    fs::write(dir.join("w.safetensors"), bytes).unwrap();
    let text = "[model]\nname = \"m\"\n[[entry]]\nname = \"main\"\nprogram = \"m.mlir\"\narguments = [\"x\", \"w\"]\n\
                [weights]\nfiles = [\"w.safetensors\"]\n";
    fs::write(dir.join("model.toml"), text).unwrap();
}

fn names(dir: &Path) -> Vec<String> {
    let mut all: Vec<String> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    all.sort();
    all
}

/// Kills the command at each point, first without an older output, then over one. What is there has to verify.
fn killed(dir: &Path, args: &[&str], out: &Path) {
    let begin = Instant::now();
    assert!(zmlc(dir, args).status().unwrap().success(), "{args:?}");
    let whole = begin.elapsed();
    let verify = || zmlc(dir, &["verify", out.to_str().unwrap()]).status().unwrap().success();
    assert!(verify());
    for old in [false, true] {
        assert!(!old || zmlc(dir, args).status().unwrap().success());
        for i in 1..=POINTS {
            if !old {
                let _ = fs::remove_file(out);
                let _ = fs::remove_dir_all(out);
            }
            let mut child = zmlc(dir, args).spawn().unwrap();
            sleep(whole * i / (POINTS + 1));
            let _ = child.kill();
            let _ = child.wait();
            assert!(!old || out.exists(), "{args:?}: the old output is gone at {i}");
            assert!(!out.exists() || verify(), "{args:?}: half an output at {i} of {POINTS}");
        }
    }
    // What a killed run left behind is hidden, and the next run is not disturbed by it.
    let left: Vec<String> = names(dir).into_iter().filter(|n| !n.starts_with('.')).collect();
    assert!(left.iter().all(|n| !n.contains("tmp")), "{left:?}");
    assert!(zmlc(dir, args).status().unwrap().success() && verify(), "{args:?}");
}

#[test]
fn sigkill_leaves_no_half_output() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    model(dir);
    killed(dir, &["build", "model.toml", "--target", "cuda:sm_90a", "-o", "."], &dir.join("m.zml"));
    let package = ["package", "m.zml", "--runtime", "/bin/echo", "--archive", "m.tar.zst"];
    killed(dir, &package, &dir.join("m.tar.zst"));
    let image = ["package", "m.zml", "--runtime", "/bin/echo", "--oci", "image"];
    killed(dir, &image, &dir.join("image"));
}

/// Killed while it sends, push leaves no tag over half an image, and the next one sends what is missing.
#[test]
fn sigkill_of_push_leaves_no_half_image() {
    let Some(registry) = Registry::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    model(dir);
    assert!(zmlc(dir, &["build", "model.toml", "--target", "cuda:sm_90a", "-o", "."]).status().unwrap().success());
    // Enough bytes that a kill finds some of them on the way.
    let large: Vec<u8> = (0..8u32 << 20).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    fs::write(dir.join("notes"), large).unwrap();
    let package = ["package", "m.zml", "--runtime", "/bin/echo", "--license", "notes", "--oci", "image"];
    assert!(zmlc(dir, &package).status().unwrap().success());
    let to = |tag: &str| format!("{}/m{tag}:1", registry.address);
    let begin = Instant::now();
    assert!(zmlc(dir, &["push", "image", &to("")]).status().unwrap().success());
    let whole = begin.elapsed();
    let mut unfinished = 0;
    for i in 1..=POINTS {
        // A name of its own each time, so that no blob is there already.
        let name = to(&format!("/{i}"));
        let mut child = zmlc(dir, &["push", "image", &name]).spawn().unwrap();
        sleep(whole * i / (POINTS + 1));
        let _ = child.kill();
        let _ = child.wait();
        // What answers to the tag is whole: everything that it names can be fetched, and has its digest.
        let from = format!("docker://{name}");
        let on_it = ["package", "m.zml", "--runtime", "/bin/echo", "--base", &from, "--oci", "on it"];
        let whole = zmlc(dir, &on_it).output().unwrap().status.success();
        unfinished += u32::from(!whole);
        assert!(zmlc(dir, &["push", "image", &name]).status().unwrap().success(), "{i} of {POINTS}");
        assert!(zmlc(dir, &on_it).output().unwrap().status.success(), "{i} of {POINTS}");
    }
    assert!(unfinished > 0, "no push was killed before its end");
}

/// A file system of 3 MiB, unmounted in the end.
struct Small(PathBuf);
impl Small {
    fn mount(at: PathBuf) -> Option<Self> {
        fs::create_dir(&at).unwrap();
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", "size=3m", "none"]).arg(&at).output();
        if done.is_ok_and(|o| o.status.success()) {
            return Some(Small(at));
        }
        eprintln!("skipped: cannot mount a small file system");
        None
    }
}
impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_said_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    model(dir);
    let Some(small) = Small::mount(dir.join("small")) else { return };
    let build = ["build", "model.toml", "--target", "cuda:sm_90a", "-o"];
    assert!(zmlc(dir, &[&build[..], &["."]].concat()).status().unwrap().success());
    let package = ["package", "m.zml", "--runtime", "/bin/echo"];
    for args in [
        [&build[..], &["small"]].concat(),
        [&package[..], &["--archive", "small/m.tar.zst"]].concat(),
        [&package[..], &["--oci", "small/image"]].concat(),
    ] {
        let out = zmlc(dir, &args).stderr(Stdio::piped()).output().unwrap();
        let err = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(1) && err.contains("No space left on device"), "{args:?}: {err}");
        assert_eq!(names(&small.0), Vec::<String>::new(), "{args:?}");
    }
}
