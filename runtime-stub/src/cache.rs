//! What drivers' compilers made of kernels, kept on disk between runs: pipeline caches of Vulkan, cubins of NVIDIA's JIT.
//!
//! Code for a device comes out of these files, so one is read only where nobody but this user can have put it, and
//! believed only if it names what is asked for and its digest holds. It is written under another name and renamed, so
//! that processes may share the folder. Nothing here is an error: without the cache all works, slower, and a note says why.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | `ZMLCACHE` |
//! | 8 | 32 | SHA-256 of the key |
//! | 40 | 32 | SHA-256 of what follows |
//! | 72 | | what a driver gave |

use sha2::{Digest, Sha256};
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

/// Names the folder; empty is the same as not set.
pub const VARIABLE: &str = "ZML_CACHE_DIR";

const MAGIC: &[u8; 8] = b"ZMLCACHE";
const HEADER: usize = 72;
/// A larger file is none of ours.
const MOST_FILE: u64 = 256 << 20;
/// Of all files together; the oldest go first.
const MOST_TOTAL: u64 = 1 << 30;
const SUFFIX: &str = ".zmlcache";

static NAMED: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Names the folder for what drivers' compilers make of kernels, or with `None` keeps nothing and reads nothing. Once,
/// before the first model is loaded; without it the folder is `ZML_CACHE_DIR`, else `zml` in the user's cache folder.
pub fn use_cache(folder: Option<&Path>) {
    let _ = NAMED.set(folder.map(Path::to_owned));
}

fn set(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|v| !v.is_empty()).map(PathBuf::from)
}

unsafe extern "C" {
    safe fn geteuid() -> u32;
}

/// One folder, or none.
pub(crate) struct Cache {
    folder: Option<PathBuf>,
    notes: Mutex<Vec<String>>,
}

impl Cache {
    pub fn of_user() -> Cache {
        if let Some(named) = NAMED.get() {
            return Cache::of(named.clone());
        }
        // What is relative depends on where a program is started: the specification of these folders says to ignore it.
        let user = set("XDG_CACHE_HOME").filter(|p| p.is_absolute()).or_else(|| Some(set("HOME")?.join(".cache")));
        let cache = Cache::of(set(VARIABLE).or_else(|| Some(user?.join("zml"))));
        if cache.folder.is_none() {
            cache.note(&format!("neither {VARIABLE}, XDG_CACHE_HOME nor HOME is set, so nothing is kept"));
        }
        cache
    }

    pub fn of(folder: Option<PathBuf>) -> Cache {
        Cache { folder, notes: Mutex::default() }
    }

    /// Whether anything can come of asking.
    pub fn is_on(&self) -> bool {
        self.folder.is_some()
    }

    /// What was kept for the key. `kind` is the beginning of the file's name.
    pub fn read(&self, kind: &str, key: &str) -> Option<Vec<u8>> {
        let path = self.path(kind, key)?;
        match read(&path, &digest(key)) {
            Ok(content) => Some(content),
            Err(Refused::Absent) => None,
            Err(Refused::Because(why)) => {
                self.note(&format!("{} is ignored: {why}", path.display()));
                None
            }
        }
    }

    pub fn write(&self, kind: &str, key: &str, content: &[u8]) {
        let (Some(path), Some(folder)) = (self.path(kind, key), &self.folder) else { return };
        match write(folder, &path, &digest(key), content) {
            Ok(()) => prune(folder),
            Err(e) => self.note(&format!("nothing is kept at {}: {e}", path.display())),
        }
    }

    fn path(&self, kind: &str, key: &str) -> Option<PathBuf> {
        let name: String = digest(key)[..16].iter().map(|b| format!("{b:02x}")).collect();
        Some(self.folder.as_ref()?.join(format!("{kind}-{name}{SUFFIX}")))
    }

    pub fn note(&self, line: &str) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(format!("cache: {line}"));
    }

    /// What there was to say since the last time.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn digest(bytes: impl AsRef<[u8]>) -> [u8; 32] {
    Sha256::digest(bytes.as_ref()).into()
}

enum Refused {
    Absent,
    Because(String),
}
impl From<io::Error> for Refused {
    fn from(e: io::Error) -> Self {
        if e.kind() == io::ErrorKind::NotFound { Refused::Absent } else { Refused::Because(e.to_string()) }
    }
}

fn read(path: &Path, key: &[u8; 32]) -> Result<Vec<u8>, Refused> {
    let because = |why: &str| Err(Refused::Because(why.into()));
    let mut file = File::open(path)?;
    let (meta, folder) = (file.metadata()?, fs::metadata(path.parent().unwrap_or(Path::new("/")))?);
    if !meta.is_file() || meta.len() > MOST_FILE {
        return because("it is no file of this cache");
    }
    if [&meta, &folder].iter().any(|m| m.uid() != geteuid() || m.mode() & 0o022 != 0) {
        return because("others than this user may have written it");
    }
    let mut bytes = Vec::with_capacity(meta.len() as usize);
    file.read_to_end(&mut bytes)?;
    let Some((header, content)) = bytes.split_at_checked(HEADER).filter(|(h, _)| h.starts_with(MAGIC)) else {
        return because("it is no file of this cache");
    };
    if header[8..40] != key[..] {
        return because("it is for something else");
    }
    if header[40..] != digest(content) {
        return because("it is damaged");
    }
    bytes.drain(..HEADER);
    Ok(bytes)
}

fn write(folder: &Path, path: &Path, key: &[u8; 32], content: &[u8]) -> io::Result<()> {
    /// Threads of one process must not share a part file either.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let part = format!(".{}-{}.part", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let part = folder.join(part);
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part).and_then(|mut f| {
        f.write_all(MAGIC)?;
        f.write_all(key)?;
        f.write_all(&digest(content))?;
        f.write_all(content)
    });
    written.and_then(|()| fs::rename(&part, path)).inspect_err(|_| {
        let _ = fs::remove_file(&part);
    })
}

/// Removes the oldest files of this cache while there is more than `MOST_TOTAL`.
fn prune(folder: &Path) {
    let is_ours = |name: &std::ffi::OsStr| name.to_str().is_some_and(|n| n.ends_with(SUFFIX));
    let mut files: Vec<_> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|e| is_ours(&e.file_name()))
        .filter_map(|e| e.metadata().ok().map(|m| (m.mtime(), m.mtime_nsec(), m.len(), e.path())))
        .collect();
    files.sort();
    let mut total: u64 = files.iter().map(|f| f.2).sum();
    for (_, _, bytes, path) in files {
        if total <= MOST_TOTAL {
            break;
        }
        total -= bytes;
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn cache() -> (tempfile::TempDir, Cache, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::of(Some(dir.path().join("zml")));
        let path = cache.path("test", "key").unwrap();
        (dir, cache, path)
    }

    #[test]
    fn what_was_written_is_read_for_the_same_key_alone() {
        let (_dir, cache, path) = cache();
        assert_eq!(cache.read("test", "key"), None);
        for content in [&b"first"[..], b"", b"another"] {
            cache.write("test", "key", content);
            assert_eq!(cache.read("test", "key").unwrap(), content);
        }
        assert_eq!((cache.read("test", "other"), cache.read("toast", "key")), (None, None));
        let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(left, std::slice::from_ref(&path), "no part files");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        assert_eq!(cache.take_notes(), [""; 0]);
    }

    /// Every byte that is changed, and every length that is cut to, is noticed.
    #[test]
    fn damage_is_ignored_and_said() {
        let (_dir, cache, path) = cache();
        cache.write("test", "key", b"content");
        let whole = fs::read(&path).unwrap();
        for i in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[i] ^= 1;
            fs::write(&path, &bytes).unwrap();
            assert_eq!(cache.read("test", "key"), None, "byte {i}");
            fs::write(&path, &whole[..i]).unwrap();
            assert_eq!(cache.read("test", "key"), None, "cut to {i}");
        }
        let notes = cache.take_notes();
        assert_eq!(notes.len(), 2 * whole.len(), "one line each");
        let shown = path.display();
        assert_eq!(notes[0], format!("cache: {shown} is ignored: it is no file of this cache"));
        assert_eq!(notes[16], format!("cache: {shown} is ignored: it is for something else"));
        assert_eq!(notes[2 * whole.len() - 1], format!("cache: {shown} is ignored: it is damaged"));
        cache.write("test", "key", b"again");
        assert_eq!(cache.read("test", "key").unwrap(), b"again");
    }

    #[test]
    fn what_others_may_have_written_is_ignored() {
        let (_dir, cache, path) = cache();
        cache.write("test", "key", b"content");
        for (at, safe, unsafe_) in [(path.as_path(), 0o600, 0o622), (path.parent().unwrap(), 0o700, 0o770)] {
            fs::set_permissions(at, fs::Permissions::from_mode(unsafe_)).unwrap();
            assert_eq!(cache.read("test", "key"), None);
            let notes = cache.take_notes();
            assert!(notes[0].ends_with("others than this user may have written it"), "{notes:?}");
            fs::set_permissions(at, fs::Permissions::from_mode(safe)).unwrap();
            assert_eq!(cache.read("test", "key").unwrap(), b"content");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let cache = Cache::of(Some(file.join("zml")));
        cache.write("test", "key", b"content");
        assert_eq!(cache.read("test", "key"), None);
        let notes = cache.take_notes();
        assert!(notes.iter().all(|n| n.contains("Not a directory")), "{notes:?}");

        let none = Cache::of(None);
        none.write("test", "key", b"content");
        assert_eq!((none.read("test", "key"), none.take_notes().len()), (None, 0));
    }

    #[test]
    fn the_oldest_files_go() {
        let (_dir, cache, path) = cache();
        let folder = path.parent().unwrap();
        fs::create_dir(folder).unwrap();
        // Without content on disk: they only have a length.
        for (i, name) in ["c", "a", "b"].iter().enumerate() {
            let f = File::create(folder.join(format!("{name}{SUFFIX}"))).unwrap();
            f.set_len(MOST_TOTAL / 2).unwrap();
            f.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(i as u64)).unwrap();
        }
        fs::write(folder.join("not ours"), "").unwrap();
        cache.write("test", "key", b"content");
        let mut left: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        let ours = path.file_name().unwrap().to_owned();
        assert_eq!(left, [format!("b{SUFFIX}").into(), "not ours".into(), ours], "the oldest first, and no other's");
    }
}
