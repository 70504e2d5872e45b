//! Takes the libraries, their data and the licences out of a source, into the cache, under names of our choice. Nothing
//! in a source is trusted: names that leave the root, links, and more bytes than a source of its size can honestly hold
//! are errors, and nothing is written outside the cache.

use super::{Cache, Licence, cache, deb, folder, known, wheel};
use crate::{
    elf::{self, Machine},
    error::{At, PackageError},
    stage::Folder,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

/// What a source holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Unpacked {
    /// `nvidia-cublas-cu12`
    pub name: String,
    pub version: String,
    pub licence: Licence,
    pub libraries: Vec<Library>,
    /// Files that known libraries read, by the path under which they do.
    pub data: Vec<Extracted>,
    pub licences: Vec<Extracted>,
    #[serde(skip)]
    pub(super) root: PathBuf,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Library {
    /// Its soname, or its file name if it has none.
    pub name: String,
    /// The image spec's name of the machine: `amd64`.
    pub architecture: String,
    pub needed: Vec<String>,
    pub runpath: Option<String>,
    pub bytes: u64,
    pub sha256: String,
    /// In the folder of the unpacked source.
    file: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Extracted {
    pub name: String,
    pub bytes: u64,
    pub sha256: String,
    file: String,
}

/// A file of an unpacked source, its digest not compared yet.
pub(super) trait Kept {
    fn parts(&self) -> (&str, &str);
}
impl Kept for Library {
    fn parts(&self) -> (&str, &str) {
        (&self.file, &self.sha256)
    }
}
impl Kept for Extracted {
    fn parts(&self) -> (&str, &str) {
        (&self.file, &self.sha256)
    }
}

impl Unpacked {
    /// Where a file of it is, once its digest is right.
    pub(super) fn path(&self, kept: &impl Kept) -> Result<PathBuf, PackageError> {
        let (file, sha256) = kept.parts();
        let path = self.root.join(file);
        let found = cache::sha256(&path)?;
        if found == sha256 {
            Ok(path)
        } else {
            Err(PackageError::Digest { what: path.display().to_string(), expected: sha256.into(), found })
        }
    }
}

const INDEX: &str = "index.json";

/// Unpacks a source, or takes what an earlier run unpacked from the same bytes. `sha256`: the source's digest.
pub fn unpack(path: &Path, sha256: &str, cache: &Cache) -> Result<Unpacked, PackageError> {
    let root = cache.prepared("unpacked", sha256)?;
    if let Ok(text) = fs::read(root.join(INDEX))
        && let Ok(known) = serde_json::from_slice::<Unpacked>(&text)
    {
        return Ok(Unpacked { root, ..known });
    }
    let target = Folder::beside(&root)?;
    let mut out = Out::new(path, target.path())?;
    if path.is_dir() {
        folder::read(path, &mut out)?;
    } else if path.extension().is_some_and(|e| e == "whl") {
        wheel::read(path, &mut out)?;
    } else if path.extension().is_some_and(|e| e == "deb") {
        deb::read(path, &mut out)?;
    } else {
        return Err(out.bad("it is neither a wheel (.whl), a .deb nor a folder"));
    }
    let unpacked = out.finish(root)?;
    let index = target.path().join(INDEX);
    fs::write(&index, serde_json::to_vec(&unpacked).expect("strings and numbers")).at("write", index)?;
    target.publish(|_| true)?;
    Ok(unpacked)
}

/// Collects files of one source.
pub(super) struct Out<'a> {
    source: &'a Path,
    folder: &'a Path,
    /// Bytes that may still be written.
    left: u64,
    count: usize,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) licence: String,
    libraries: BTreeMap<(String, String), Library>,
    data: Vec<Extracted>,
    licences: Vec<Extracted>,
}

/// What even a small source may unpack to, and how many times its size a large one: zeros shrink a thousandfold, code
/// does not.
const FREE: u64 = 256 << 20;
const RATIO: u64 = 50;
/// Licence texts are short.
const LONGEST_TEXT: u64 = 4 << 20;

impl<'a> Out<'a> {
    fn new(source: &'a Path, folder: &'a Path) -> Result<Self, PackageError> {
        let size = if source.is_dir() { u64::MAX } else { fs::metadata(source).at("read", source)?.len() };
        Ok(Out {
            source,
            folder,
            left: size.saturating_mul(RATIO).saturating_add(FREE),
            count: 0,
            name: source.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            version: String::new(),
            licence: String::new(),
            libraries: BTreeMap::new(),
            data: vec![],
            licences: vec![],
        })
    }

    pub(super) fn bad(&self, reason: impl Into<String>) -> PackageError {
        PackageError::Source { what: self.source.display().to_string(), reason: reason.into() }
    }

    /// Refuses names that could leave the folder of the source.
    pub(super) fn check_name(&self, name: &str) -> Result<(), PackageError> {
        let leaves = name.starts_with('/') || name.contains('\\') || name.split('/').any(|p| p == "..");
        if leaves || name.contains('\0') {
            return Err(self.bad(format!("`{}` leaves its folder", name.escape_debug())));
        }
        Ok(())
    }

    /// Whether a file of this name is worth a look.
    pub(super) fn wants(name: &str) -> bool {
        is_library(name) || is_licence(name) || known::data_path(name).is_some()
    }

    /// A file whose name was checked. `stated`: its length, if the source says so.
    pub(super) fn file(&mut self, name: &str, stated: Option<u64>, content: &mut dyn Read) -> Result<(), PackageError> {
        if let Some(inside) = known::data_path(name) {
            let inside = inside.to_string();
            let file = self.write(name, stated, content)?;
            let kept = self.keep(inside, file)?;
            self.data.push(kept);
        } else if is_library(name) {
            self.library(name, stated, content)?;
        } else if is_licence(name) && stated.is_none_or(|n| n <= LONGEST_TEXT) {
            let flat = name.trim_start_matches("./").replace('/', "-");
            let file = self.write(name, stated, &mut content.take(LONGEST_TEXT))?;
            let kept = self.keep(flat, file)?;
            self.licences.push(kept);
        }
        Ok(())
    }

    fn write(&mut self, name: &str, stated: Option<u64>, content: &mut dyn Read) -> Result<String, PackageError> {
        let bomb = |this: &Self| this.bad(format!("`{}` unpacks to more than it can hold", name.escape_debug()));
        if stated.is_some_and(|n| n > self.left) {
            return Err(bomb(self));
        }
        self.count += 1;
        let file = self.count.to_string();
        let path = self.folder.join(&file);
        let mut out = File::create_new(&path).at("write", &path)?;
        let written = io::copy(&mut content.take(self.left.saturating_add(1)), &mut out).map_err(|e| {
            if e.kind() == io::ErrorKind::StorageFull || e.kind() == io::ErrorKind::FileTooLarge {
                return PackageError::Io { doing: "write", path: path.clone(), source: e };
            }
            self.bad(format!("`{}`: {e}", name.escape_debug()))
        })?;
        if written > self.left {
            return Err(bomb(self));
        }
        if stated.is_some_and(|n| n != written) {
            return Err(self.bad(format!("`{}` has another length than is stated", name.escape_debug())));
        }
        self.left -= written;
        Ok(file)
    }

    fn keep(&self, name: String, file: String) -> Result<Extracted, PackageError> {
        let path = self.folder.join(&file);
        let bytes = fs::metadata(&path).at("read", &path)?.len();
        Ok(Extracted { name, bytes, sha256: cache::sha256(&path)?, file })
    }

    fn library(&mut self, name: &str, stated: Option<u64>, content: &mut dyn Read) -> Result<(), PackageError> {
        let file = self.write(name, stated, content)?;
        let path = self.folder.join(&file);
        // Linker scripts are called like libraries.
        let Ok(elf) = elf::read(&path) else { return fs::remove_file(&path).at("remove", path) };
        let own = name.rsplit('/').next().unwrap_or(name);
        let soname = elf.soname.unwrap_or_else(|| own.into());
        if soname.contains('/') || soname.is_empty() || soname == ".." {
            return Err(self.bad(format!("`{name}` has the soname `{}`", soname.escape_debug())));
        }
        let kept = self.keep(soname, file)?;
        let library = Library {
            name: kept.name,
            architecture: elf.machine.oci().into(),
            needed: elf.needed,
            runpath: elf.runpath,
            bytes: kept.bytes,
            sha256: kept.sha256,
            file: kept.file,
        };
        let key = (library.name.clone(), library.architecture.clone());
        match self.libraries.get(&key) {
            Some(other) if other.sha256 != library.sha256 => {
                Err(self.bad(format!("two different libraries in it are called {}", library.name)))
            }
            _ => {
                self.libraries.insert(key, library);
                Ok(())
            }
        }
    }

    fn finish(mut self, root: PathBuf) -> Result<Unpacked, PackageError> {
        self.data.sort_by(|a, b| a.name.cmp(&b.name));
        self.licences.sort_by(|a, b| a.name.cmp(&b.name));
        let mut texts = vec![];
        for l in &self.licences {
            let path = self.folder.join(&l.file);
            texts.push(String::from_utf8_lossy(&fs::read(&path).at("read", &path)?).into_owned());
        }
        Ok(Unpacked {
            licence: Licence::of(&self.licence, &texts),
            name: self.name,
            version: self.version,
            libraries: self.libraries.into_values().collect(),
            data: self.data,
            licences: self.licences,
            root,
        })
    }
}

/// `libx.so`, `libx.so.1.2`
fn is_library(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    let Some((stem, version)) = file.split_once(".so") else { return false };
    stem.starts_with("lib")
        && (version.is_empty() || version.starts_with('.'))
        && version.chars().all(|c| c == '.' || c.is_ascii_digit())
}

fn is_licence(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    let stem = file.split('.').next().unwrap_or(&file);
    let ending = file.rsplit_once('.').map_or("", |(_, e)| e);
    ["license", "licence", "copying", "copyright", "eula", "notice"].iter().any(|s| stem.starts_with(s))
        && ["", "txt", "md", "rst"].contains(&ending)
}

impl Machine {
    pub(super) fn named(oci: &str) -> Option<Self> {
        [Machine::X86_64, Machine::Aarch64].into_iter().find(|m| m.oci() == oci)
    }
}
