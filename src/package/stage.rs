//! Output that appears under its final name complete or not at all: written beside it under a temporary name, synced,
//! and renamed. A killed run leaves at most a hidden `.NAME.*.tmp`, which a later run for the same name removes.

use crate::error::{At, PackageError};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use std::{
    ffi::OsString,
    fs::{self, File, Permissions},
    io::{self, BufWriter, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(p) if p != Path::new("") => p,
        _ => Path::new("."),
    }
}

/// The folder that something is written into, which has to be there.
fn folder_of(path: &Path) -> Result<&Path, PackageError> {
    let folder = parent(path);
    fs::metadata(folder).at("write to", folder)?;
    Ok(folder)
}

fn prefix(path: &Path) -> OsString {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".");
    name
}

/// How old something temporary is before it is taken for left: it is not locked at once when it is made.
const LEFT_AFTER: Duration = Duration::from_secs(60);

/// Removes what killed runs left beside `path`: nobody holds a lock on that any more.
fn sweep(path: &Path) {
    let prefix = prefix(path);
    for entry in fs::read_dir(parent(path)).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if !name.as_encoded_bytes().starts_with(prefix.as_encoded_bytes())
            || !name.as_encoded_bytes().ends_with(b".tmp")
        {
            continue;
        }
        let is_old = |e: &fs::DirEntry| e.metadata().ok()?.modified().ok()?.elapsed().ok().map(|age| age > LEFT_AFTER);
        if is_old(&entry) == Some(true) && File::open(entry.path()).is_ok_and(|f| lock(&f)) {
            // What cannot be removed stays; the next run tries again.
            let _ =
                if entry.path().is_dir() { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
        }
    }
}

/// Locks until the file is closed. False if it is locked, or the file system knows no locks.
fn lock(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Writes a file through `fill`; an existing file is replaced in one step.
pub(crate) fn file<T>(
    path: &Path,
    fill: impl FnOnce(BufWriter<File>) -> Result<(BufWriter<File>, T), PackageError>,
) -> Result<T, PackageError> {
    let folder = folder_of(path)?;
    sweep(path);
    let temporary = tempfile::Builder::new()
        .prefix(&prefix(path))
        .suffix(".tmp")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .at("write beside", path)?;
    lock(temporary.as_file());
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
    /// Open, so that it is not taken for left.
    _locked: File,
}
impl Folder {
    pub(crate) fn beside(target: &Path) -> Result<Self, PackageError> {
        let folder = folder_of(target)?;
        sweep(target);
        let temporary = tempfile::Builder::new()
            .prefix(&prefix(target))
            .suffix(".tmp")
            .permissions(Permissions::from_mode(0o777))
            .tempdir_in(folder)
            .at("write beside", target)?;
        let locked = File::open(temporary.path()).at("write beside", target)?;
        lock(&locked);
        Ok(Folder { temporary, target: target.into(), _locked: locked })
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
    fn a_folder_that_is_not_there_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let absent = dir.path().join("absent");
        let said = Folder::beside(&absent.join("d")).err().unwrap().to_string();
        let why = fs::metadata(&absent).unwrap_err();
        assert_eq!(said, format!("cannot write to {}: {why}", absent.display()));
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

    #[test]
    fn what_killed_runs_left_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("d");
        let old = std::time::SystemTime::now() - 2 * LEFT_AFTER;
        let mut kept = vec![];
        for name in [".d.left.tmp", ".d.file.tmp", ".d.held.tmp", ".d.young.tmp", ".e.left.tmp", ".d.other"] {
            let path = dir.path().join(name);
            if name == ".d.file.tmp" {
                fs::write(&path, b"x").unwrap();
            } else {
                fs::create_dir(&path).unwrap();
            }
            let file = File::open(&path).unwrap();
            if name != ".d.young.tmp" {
                file.set_modified(old).unwrap();
            }
            if name == ".d.held.tmp" {
                assert!(lock(&file));
                kept.push(file);
            }
        }
        Folder::beside(&target).unwrap().publish(|_| false).unwrap();
        let mut left = names(dir.path());
        left.sort();
        assert_eq!(left, [".d.held.tmp", ".d.other", ".d.young.tmp", ".e.left.tmp", "d"]);
    }
}
