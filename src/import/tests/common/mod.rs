//! Where the corpus of exported programs is, for the tests over it.

#![allow(dead_code)] // Each test uses a part of it.

use std::path::{Path, PathBuf};

/// The corpus folder: `ZMLC_CORPUS` or `../shared/corpus` beside the workspace. Says so if there is none.
pub fn corpus() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate is in src/import");
    let candidates = [
        std::env::var_os("ZMLC_CORPUS").map(PathBuf::from),
        root.parent().map(|p| p.join("shared/corpus")),
        root.ancestors().nth(2).map(|p| p.join("shared/corpus")),
    ];
    let found = candidates.into_iter().flatten().find(|p| p.is_dir());
    if found.is_none() {
        eprintln!("skipped: no corpus (set ZMLC_CORPUS)");
    }
    found
}

/// Folders of the corpus that hold a program, sorted.
pub fn cases(corpus: &Path) -> Vec<PathBuf> {
    let mut list: Vec<PathBuf> = std::fs::read_dir(corpus)
        .expect("the corpus is readable")
        .map(|e| e.expect("entry").path())
        .filter(|p| p.join("program.mlir").is_file())
        .collect();
    list.sort();
    assert!(!list.is_empty(), "no programs in {}", corpus.display());
    list
}
