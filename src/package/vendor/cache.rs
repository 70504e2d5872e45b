//! Where downloads, unpacked and trimmed libraries lie between runs: folders named by a digest of what made them.
//! Nothing in it is trusted: a file's digest is compared each time it is used.

use crate::{
    compress::hex,
    error::{At, PackageError},
};
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

#[derive(Clone, Debug)]
pub struct Cache(PathBuf);

impl Cache {
    /// `ZMLC_CACHE`, else `zmlc` in the user's cache folder.
    pub fn from_environment() -> Result<Self, PackageError> {
        let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let found = set("ZMLC_CACHE")
            .or_else(|| Some(set("XDG_CACHE_HOME")?.join("zmlc")))
            .or_else(|| Some(set("HOME")?.join(".cache/zmlc")));
        found.map(Cache).ok_or(PackageError::NoCache)
    }
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Cache(path.into())
    }

    /// The folder of `kind` for what `key` names; it may not exist.
    pub(super) fn folder(&self, kind: &str, key: &str) -> PathBuf {
        self.0.join(kind).join(key)
    }
    /// As [`Cache::folder`], its parents made.
    pub(super) fn prepared(&self, kind: &str, key: &str) -> Result<PathBuf, PackageError> {
        let folder = self.folder(kind, key);
        let parent = folder.parent().expect("it has a kind");
        fs::create_dir_all(parent).at("write", parent)?;
        Ok(folder)
    }
}

/// Of a file, lower-case hex.
pub(super) fn sha256(path: &Path) -> Result<String, PackageError> {
    let mut hash = Sha256::new();
    io::copy(&mut File::open(path).at("read", path)?, &mut hash).at("read", path)?;
    Ok(hex(&hash.finalize()))
}

/// Of parts that together name something, none of which can run into the next.
pub(super) fn key(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for p in parts {
        hash.update((p.len() as u64).to_le_bytes());
        hash.update(p);
    }
    hex(&hash.finalize())
}
