//! The copies of vendor libraries that go into a package: each finds its neighbours, and holds code for the package's
//! GPUs alone where its licence, or the user against it, allows that. Made once: the cache keeps them by the digest of
//! what they were made from and how.

use super::{Cache, Closure, Library, Root, Unpacked, cache, closure, known, runpath};
use crate::{
    error::{At, PackageError},
    stage::Folder,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};
use zml_trim::Arch;

/// What is wanted of the sources, for one target.
#[derive(Clone, Debug)]
pub struct Selection<'a> {
    /// `cuda`
    pub target: &'a str,
    pub libraries: &'a [Root],
    /// Of the runtime: `amd64`.
    pub architecture: &'a str,
    /// `sm_90a`, `sm_80+`, `gfx942`: what the artifact's profiles run on.
    pub archs: &'a [String],
    /// Whether to cut at all.
    pub trim: bool,
    /// Also what a licence forbids to change.
    pub trim_proprietary: bool,
}

/// What a package gets.
#[derive(Clone, Debug, Default)]
pub struct Vendored {
    pub target: String,
    /// By name.
    pub files: Vec<VendoredFile>,
    /// Path below the licences' folder, and where it is.
    pub licences: Vec<(String, PathBuf)>,
    /// C and C++ runtimes that the libraries name.
    pub system: BTreeSet<String>,
    /// What the host's driver brings.
    pub driver: BTreeSet<String>,
    /// What the user has to know.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct VendoredFile {
    /// Path in the package's `lib/`.
    pub name: String,
    pub path: PathBuf,
    pub bytes: u64,
    pub sha256: String,
    /// Name, version, licence of the source.
    pub source: (String, String, String),
    pub original_bytes: u64,
    pub original_sha256: String,
    pub changes: Changes,
    /// Its licence forbids that.
    pub against_licence: bool,
}

/// How a copy differs from its original.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    pub runpath: bool,
    pub cut: Option<Cut>,
}
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    pub archs: Vec<String>,
    /// Parts of fat binaries.
    pub kept: u64,
    pub dropped: u64,
}
impl Changes {
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Chooses, cuts and places. Everything missing is named in one error.
pub fn prepare(sources: &[Unpacked], selection: &Selection, cache: &Cache) -> Result<Vendored, PackageError> {
    let closure = closure(sources, selection.libraries, selection.architecture);
    if !closure.missing.is_empty() {
        return Err(PackageError::VendorMissing { target: selection.target.into(), missing: closure.missing });
    }
    let mut out = Vendored { target: selection.target.into(), ..Vendored::default() };
    let mut used: Vec<&Unpacked> = vec![];
    for (source, library) in closure.libraries.values() {
        out.add(source, library, &closure, selection, cache)?;
        if !used.iter().any(|u| std::ptr::eq(*u, *source)) {
            used.push(source);
        }
    }
    for source in used {
        for l in &source.licences {
            let folder = [&*source.name, &*source.version].join("-");
            out.licences.push((format!("{}/{}", folder.replace('/', "-"), l.name), source.path(l)?));
        }
    }
    out.files.sort_by(|a, b| a.name.cmp(&b.name));
    out.licences.sort();
    out.system = closure.system;
    out.driver = closure.driver;
    Ok(out)
}

impl Vendored {
    /// What the libraries need of the system and a machine may lack on which the runtime starts. An image brings it.
    pub fn needs_installed(&self) -> impl Iterator<Item = &str> {
        self.system.iter().map(String::as_str).filter(|n| !known::is_everywhere(n))
    }

    fn add(
        &mut self,
        source: &Unpacked,
        library: &Library,
        closure: &Closure,
        selection: &Selection,
        cache: &Cache,
    ) -> Result<(), PackageError> {
        let free = source.licence.may_be_changed;
        let allowed = free || selection.trim_proprietary;
        let neighbours = library.needed.iter().any(|n| closure.libraries.contains_key(n.as_str()));
        let lost = neighbours && !runpath::is_beside(library.runpath.as_deref());
        let archs: Vec<Arch> = selection.archs.iter().filter_map(|a| a.parse().ok()).collect();
        let cut = selection.trim && !archs.is_empty();
        let wish = Wish { runpath: lost && allowed, archs: if cut && allowed { selection.archs } else { &[] } };
        let made = wish.make(&source.path(library)?, library, cache)?;
        let name = &library.name;
        let licence = if source.licence.name.is_empty() { "its licence" } else { &source.licence.name };
        if !allowed && cut {
            self.notes.push(format!(
                "{name} goes in whole, {} bytes: {licence} forbids to change it (`trim-proprietary = true` cuts it all the same)",
                made.bytes
            ));
        }
        if !allowed && lost {
            self.notes.push(format!(
                "{name} does not look beside itself for what it needs, and {licence} forbids to change that: set LD_LIBRARY_PATH to the package's lib/"
            ));
        }
        if !free && !made.changes.is_none() {
            self.notes.push(format!(
                "{name} is changed although {licence} forbids it, because of `trim-proprietary = true`: {} bytes, from {}",
                made.bytes, library.bytes
            ));
        }
        let identity = (source.name.clone(), source.version.clone(), source.licence.name.clone());
        self.files.push(VendoredFile {
            name: name.clone(),
            against_licence: !free && !made.changes.is_none(),
            path: made.path,
            bytes: made.bytes,
            sha256: made.sha256,
            source: identity.clone(),
            original_bytes: library.bytes,
            original_sha256: library.sha256.clone(),
            changes: made.changes,
        });
        // Which of a library's own files a package holds is no change of any of them.
        let Some(folder) = known::data(name) else { return Ok(()) };
        for d in source.data.iter().filter(|d| d.name.starts_with(folder)) {
            if selection.trim && !serves(&d.name, selection.archs) {
                continue;
            }
            self.files.push(VendoredFile {
                name: d.name.clone(),
                path: source.path(d)?,
                bytes: d.bytes,
                sha256: d.sha256.clone(),
                source: identity.clone(),
                original_bytes: d.bytes,
                original_sha256: d.sha256.clone(),
                changes: Changes::default(),
                against_licence: false,
            });
        }
        Ok(())
    }
}

/// Whether a data file is for one of these GPUs: one that names another is not.
fn serves(file: &str, archs: &[String]) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    let Some(at) = name.find("gfx") else { return true };
    let named: String = name[at..].chars().take_while(char::is_ascii_alphanumeric).collect();
    archs.is_empty() || archs.contains(&named)
}

/// What is to be done to a library.
struct Wish<'a> {
    runpath: bool,
    archs: &'a [String],
}

struct Made {
    path: PathBuf,
    bytes: u64,
    sha256: String,
    changes: Changes,
}

#[derive(Serialize, Deserialize)]
struct Record {
    sha256: String,
    changes: Changes,
}

/// Of the way that copies are made: another number, another place in the cache.
const METHOD: &str = "2";
const RECORD: &str = "made.json";

impl Wish<'_> {
    fn make(&self, from: &Path, library: &Library, cache: &Cache) -> Result<Made, PackageError> {
        if !self.runpath && self.archs.is_empty() {
            let changes = Changes::default();
            return Ok(Made { path: from.into(), bytes: library.bytes, sha256: library.sha256.clone(), changes });
        }
        let mut archs = self.archs.to_vec();
        archs.sort();
        archs.dedup();
        let runpath = self.runpath.to_string();
        let key = cache::key(&[METHOD, &library.sha256, &runpath, &archs.join(",")]);
        let folder = cache.prepared("cut", &key)?;
        if let Some(made) = recall(&folder)? {
            return Ok(made);
        }
        let target = Folder::beside(&folder)?;
        let new = target.path().join("library");
        let mut changes = Changes { runpath: self.runpath, cut: None };
        if self.runpath {
            let bytes = fs::read(from).at("read", from)?;
            let reason = || "its search path cannot be set".to_string();
            let bytes =
                runpath::set(&bytes).ok_or_else(|| PackageError::NotElf { path: from.into(), reason: reason() })?;
            fs::write(&new, bytes).at("write", &new)?;
        }
        if !archs.is_empty() {
            let keep: Vec<Arch> = archs.iter().filter_map(|a| a.parse().ok()).collect();
            let from = if self.runpath { &new } else { from };
            let report = zml_trim::trim(from, &new, &keep)
                .map_err(|reason| PackageError::Trim { library: library.name.clone(), reason })?;
            if report.bytes_after < report.bytes_before {
                changes.cut = Some(Cut { archs, kept: report.kept, dropped: report.dropped });
            }
        }
        let record = Record { sha256: cache::sha256(&new)?, changes };
        let path = target.path().join(RECORD);
        fs::write(&path, serde_json::to_vec(&record).expect("strings and numbers")).at("write", path)?;
        let (sha256, changes) = (record.sha256, record.changes);
        let bytes = fs::metadata(&new).at("read", &new)?.len();
        target.publish(|_| true)?;
        Ok(Made { path: folder.join("library"), bytes, sha256, changes })
    }
}

/// What an earlier run made, if it is still what that run wrote.
fn recall(folder: &Path) -> Result<Option<Made>, PackageError> {
    let Some(record) = fs::read(folder.join(RECORD)).ok().and_then(|text| serde_json::from_slice::<Record>(&text).ok())
    else {
        return Ok(None);
    };
    let path = folder.join("library");
    let sha256 = cache::sha256(&path)?;
    if sha256 != record.sha256 {
        return Err(PackageError::Digest { what: path.display().to_string(), expected: record.sha256, found: sha256 });
    }
    let bytes = fs::metadata(&path).at("read", &path)?.len();
    Ok(Some(Made { path, bytes, sha256, changes: record.changes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_files_of_other_gpus_stay_out() {
        let archs = ["gfx942".to_string(), "gfx1100".to_string()];
        assert!(serves("hipblaslt/library/TensileLibrary_lazy_gfx942.dat", &archs));
        assert!(serves("hipblaslt/library/Kernels.so-000-gfx1100.hsaco", &archs));
        assert!(serves("rocblas/library/index.dat", &archs));
        assert!(!serves("hipblaslt/library/Kernels.so-000-gfx90a.hsaco", &archs));
        assert!(serves("hipblaslt/library/Kernels.so-000-gfx90a.hsaco", &[]));
    }
}
