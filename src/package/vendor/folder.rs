//! A folder of libraries, for example what a vendor's installer leaves. Its digest is that of its files' names and
//! digests; times, owners and modes do not count. A link to a file in the folder is as good as absent, since libraries
//! are taken under their sonames; one that leads out of it is refused.

use super::{cache, unpack::Out};
use crate::{PackageError, error::At};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

pub(super) fn read(path: &Path, out: &mut Out) -> Result<(), PackageError> {
    for name in files(path)? {
        out.check_name(&name)?;
        if Out::wants(&name) {
            let from = path.join(&name);
            let mut file = File::open(&from).at("read", &from)?;
            let size = file.metadata().at("read", &from)?.len();
            out.file(&name, Some(size), &mut file)?;
        }
    }
    Ok(())
}

pub(super) fn digest(path: &Path) -> Result<String, PackageError> {
    let mut parts = vec![];
    for name in files(path)?.into_iter().filter(|n| Out::wants(n)) {
        parts.push(cache::sha256(&path.join(&name))?);
        parts.push(name);
    }
    Ok(cache::key(&parts.iter().map(String::as_str).collect::<Vec<_>>()))
}

/// Regular files in it and its folders, relative, sorted.
fn files(root: &Path) -> Result<Vec<String>, PackageError> {
    let bad = |reason: String| PackageError::Source { what: root.display().to_string(), reason };
    let real = root.canonicalize().at("read", root)?;
    let mut found = vec![];
    let mut open: Vec<PathBuf> = vec![PathBuf::new()];
    while let Some(at) = open.pop() {
        let folder = root.join(&at);
        for entry in fs::read_dir(&folder).at("read", &folder)? {
            let entry = entry.at("read", &folder)?;
            let name = at.join(entry.file_name());
            let shown = name.display();
            let kind = entry.file_type().at("read", entry.path())?;
            if kind.is_symlink() {
                let inside = entry.path().canonicalize().is_ok_and(|to| to.starts_with(&real));
                if !inside {
                    return Err(bad(format!("`{shown}` is a link that leads out of the folder")));
                }
            } else if kind.is_dir() {
                open.push(name);
            } else if kind.is_file() {
                found.push(name.to_str().ok_or_else(|| bad(format!("`{shown}` is not UTF-8")))?.to_string());
            }
        }
    }
    found.sort();
    Ok(found)
}
