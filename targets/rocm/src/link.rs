//! The last step to a code object: a shared object from the relocatable one, by lld as a program of its own.

use std::{
    path::{Path, PathBuf},
    process::Command,
};
use zmlc_passes::pass::PassError;

/// Where Debian's `lld-22` is; after it, `PATH` is searched.
const LLD: &str = "/usr/lib/llvm-22/bin/ld.lld";

/// Links with undefined symbols refused: lld lets them through otherwise, and a device finds out.
pub fn link(object: &[u8]) -> Result<Vec<u8>, PassError> {
    let lld = find().ok_or_else(|| PassError::Unsupported {
        what: "code for AMD GPUs needs the linker ld.lld, which was not found".into(),
        hint: format!("install lld-22; looked for {LLD}, then in PATH"),
    })?;
    let io = |what: &str, e: &std::io::Error| PassError::Bug(format!("{what} of a code object: {e}"));
    let folder = tempfile::tempdir().map_err(|e| io("temporary folder", &e))?;
    let (from, to) = (folder.path().join("kernels.o"), folder.path().join("kernels.hsaco"));
    std::fs::write(&from, object).map_err(|e| io("writing the object", &e))?;
    let ran = Command::new(lld).args(["-shared", "--no-undefined", "-o"]).arg(&to).arg(&from).output();
    let ran = ran.map_err(|e| io("running the linker", &e))?;
    if !ran.status.success() {
        return Err(PassError::Bug(format!("ld.lld: {}", String::from_utf8_lossy(&ran.stderr).trim())));
    }
    std::fs::read(&to).map_err(|e| io("reading the linker's output", &e))
}

fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).map(|p| p.join("ld.lld")).collect();
    std::iter::once(Path::new(LLD).to_path_buf()).chain(folders).find(|p| p.is_file())
}
