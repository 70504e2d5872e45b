//! Output that appears under its final name complete or not at all: written beside it under a temporary name, synced,
//! and renamed. A killed run leaves at most a hidden `.NAME.*.tmp`.

use crate::error::{At, PackageError};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::{
    ffi::OsString,
    fs::{self, File, Permissions},
    io::{self, BufWriter, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(p) if p != Path::new("") => p,
        _ => Path::new("."),
    }
}

fn prefix(path: &Path) -> OsString {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".");
    name
}

/// Writes a file through `fill`; an existing file is replaced in one step.
pub(crate) fn file<T>(
    path: &Path,
    fill: impl FnOnce(BufWriter<File>) -> Result<(BufWriter<File>, T), PackageError>,
) -> Result<T, PackageError> {
    let temporary = tempfile::Builder::new()
        .prefix(&prefix(path))
        .suffix(".tmp")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(parent(path))
        .at("write beside", path)?;
    let (mut out, value) = fill(BufWriter::with_capacity(1 << 20, temporary.as_file().try_clone().at("write", path)?))?;
    out.flush().at("write", path)?;
    out.get_ref().sync_all().at("write", path)?;
    temporary.persist(path).map_err(|e| e.error).at("write", path)?;
    Ok(value)
}

/// A folder under construction beside its final place; removed when dropped before [`Folder::publish`].
pub(crate) struct Folder {
    temporary: tempfile::TempDir,
    target: PathBuf,
}
impl Folder {
    pub(crate) fn beside(target: &Path) -> Result<Self, PackageError> {
        let temporary = tempfile::Builder::new()
            .prefix(&prefix(target))
            .suffix(".tmp")
            .permissions(Permissions::from_mode(0o777))
            .tempdir_in(parent(target))
            .at("write beside", target)?;
        Ok(Folder { temporary, target: target.into() })
    }
    pub(crate) fn path(&self) -> &Path {
        self.temporary.path()
    }
    /// Puts the folder in its place. What `may_replace` accepts there is swapped out in one step and then removed.
    pub(crate) fn publish(self, may_replace: impl FnOnce(&Path) -> bool) -> Result<(), PackageError> {
        let from = self.temporary.path();
        let rename = |flags| renameat_with(CWD, from, CWD, &self.target, flags).map_err(io::Error::from);
        match rename(RenameFlags::NOREPLACE) {
            Ok(()) => {
                // Nothing is left under the temporary name.
                let _ = self.temporary.keep();
                Ok(())
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                if !may_replace(&self.target) {
                    return Err(PackageError::NotOurs(self.target.clone()));
                }
                rename(RenameFlags::EXCHANGE).at("write", &self.target)?;
                // The temporary name now holds the old content.
                self.temporary.close().at("remove the old content of", &self.target)
            }
            Err(e) => Err(e).at("write", &self.target),
        }
    }
}

/// Whether a folder is empty.
pub(crate) fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut d| d.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, b"old").unwrap();
        let failed = file::<()>(&path, |mut w| {
            w.write_all(b"half").unwrap();
            Err(PackageError::NoImage)
        });
        assert!(failed.is_err());
        assert_eq!((fs::read(&path).unwrap(), names(dir.path())), (b"old".to_vec(), vec!["x".to_string()]));
    }

    #[test]
    fn folders_are_swapped_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("d");
        for (content, allowed) in [("first", false), ("second", true), ("third", false)] {
            let f = Folder::beside(&target).unwrap();
            fs::write(f.path().join("f"), content).unwrap();
            let result = f.publish(|_| allowed);
            assert_eq!(result.is_ok(), content != "third");
        }
        assert_eq!(fs::read_to_string(target.join("f")).unwrap(), "second");
        assert_eq!(names(dir.path()), ["d"]);
    }
}
