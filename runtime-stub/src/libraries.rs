//! Where the vendor libraries of a package are: the folder that the caller names, else `../lib` beside the program.
//! Never the system's: what runs is what was packaged.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

static NAMED: OnceLock<PathBuf> = OnceLock::new();

/// Names the folder, once, before the first model is loaded.
pub fn use_libraries(folder: &Path) {
    let _ = NAMED.set(folder.into());
}

pub(crate) fn folders() -> Vec<PathBuf> {
    if let Some(folder) = NAMED.get() {
        return vec![folder.clone()];
    }
    let program = std::env::current_exe().ok();
    let beside = program.as_deref().and_then(Path::parent).and_then(Path::parent).map(|p| p.join("lib"));
    beside.into_iter().collect()
}
