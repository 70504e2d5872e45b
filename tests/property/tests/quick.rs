//! A few random programs, always the same: the rest is `cargo run -p property --release`.

use std::{path::Path, process::Command};

#[test]
fn a_few_programs_agree() {
    let program = Path::new(env!("CARGO_BIN_EXE_property"));
    let zmlc = program.with_file_name("zmlc");
    if !zmlc.is_file() {
        eprintln!("skipped: no zmlc at {}", zmlc.display());
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let run = Command::new(program)
        .args(["--count", "24", "--batch", "12", "--seed", "1000", "--out"])
        .arg(out.path())
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    if said.contains("no device can run") && std::env::var_os("CI").is_none() {
        eprintln!("skipped: no Vulkan device");
        return;
    }
    assert!(run.status.success(), "{said}");
}
