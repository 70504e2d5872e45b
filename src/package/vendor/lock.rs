//! `zmlc.lock`, beside model.toml: which bytes each source is. It is meant to be kept under version control.

use super::Source;
use crate::{
    error::{At, PackageError},
    stage,
};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

const VERSION: u32 = 1;

/// Sources in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    version: u32,
    #[serde(default, rename = "source", skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Locked>,
}

/// One source as it was when it was locked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Locked {
    /// As in model.toml.
    pub from: String,
    /// Of a wheel or a .deb: what it calls itself.
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// File name, or the folder's.
    pub file: String,
    /// Of the file; of a folder: of its list of paths and digests.
    pub sha256: String,
}

impl Default for Lock {
    fn default() -> Self {
        Lock { version: VERSION, sources: vec![] }
    }
}

impl Lock {
    /// Where the lock of a model.toml is.
    pub fn beside(model: &Path) -> PathBuf {
        model.with_file_name("zmlc.lock")
    }

    /// Empty if there is no file.
    pub fn read(path: &Path) -> Result<Self, PackageError> {
        let bad = |reason: String| PackageError::Lock { path: path.into(), reason };
        let text = match fs::read_to_string(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Lock::default()),
            text => text.at("read", path)?,
        };
        let lock: Lock = toml::from_str(&text).map_err(|e| bad(e.to_string()))?;
        if lock.version != VERSION {
            return Err(bad(format!("it has version {}, and this zmlc reads version {VERSION}", lock.version)));
        }
        for s in &lock.sources {
            let hex = s.sha256.len() == 64 && s.sha256.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            if !hex {
                return Err(bad(format!("`{}` has no SHA-256", s.from)));
            }
            if s.file.is_empty() || s.file.contains('/') || s.file == ".." || s.file == "." {
                return Err(bad(format!("`{}` has a file that is no name", s.from)));
            }
        }
        Ok(lock)
    }

    pub fn write(&self, path: &Path) -> Result<(), PackageError> {
        let mut sorted = self.clone();
        sorted.sources.sort();
        let text = toml::to_string(&sorted).expect("strings and numbers");
        stage::file(path, |mut out| {
            let text = format!("# Written by `zmlc vendor`. It pins what [package.vendor] names.\n{text}");
            out.write_all(text.as_bytes()).at("write", path)?;
            Ok((out, ()))
        })
    }

    pub fn find(&self, from: &Source) -> Option<&Locked> {
        let from = from.to_string();
        self.sources.iter().find(|s| s.from == from)
    }

    /// Adds a source, or puts it in the place of its earlier state.
    pub fn put(&mut self, locked: Locked) {
        self.sources.retain(|s| s.from != locked.from);
        self.sources.push(locked);
    }
}
