//! The files that an image needs below the runtime: dynamic linker, the C library, and what else executables and
//! libraries name, taken from the machine that packages (or from another root folder), and certificates. No shell.
//!
//! RPATHs are not followed: they name folders of the machine that linked, not of the image.

use crate::{
    dpkg::{self, Owner},
    elf::{self, Elf, Machine},
    error::PackageError,
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Where libraries are looked for.
#[derive(Clone, Debug)]
pub struct Search {
    /// `/`, or an unpacked root file system, for example of another architecture.
    pub root: PathBuf,
}
impl Search {
    pub fn host() -> Self {
        Search { root: "/".into() }
    }
    /// The dynamic linker's own folders, in its order, relative to the root.
    fn folders(machine: Machine) -> [String; 6] {
        let t = machine.triplet();
        [format!("lib/{t}"), format!("usr/lib/{t}"), "lib64".into(), "usr/lib64".into(), "lib".into(), "usr/lib".into()]
    }
    /// The first file of this name for this machine: its path in the image and here.
    fn find(&self, name: &str, machine: Machine, needed_by: &Path) -> Result<(String, PathBuf, Elf), PackageError> {
        let missing =
            |searched| PackageError::LibraryMissing { name: name.into(), needed_by: needed_by.into(), searched };
        if name.contains('/') {
            return Err(missing(vec![]));
        }
        let folders = Self::folders(machine);
        for folder in &folders {
            let path = self.root.join(folder).join(name);
            match elf::read(&path) {
                Ok(e) if e.machine == machine => return Ok((format!("{folder}/{name}"), path, e)),
                _ => {}
            }
        }
        Err(missing(folders.iter().map(|f| self.root.join(f)).collect()))
    }
}

/// Files by their path in the image, and where each comes from.
#[derive(Clone, Debug, Default)]
pub struct BaseFiles {
    files: BTreeMap<String, PathBuf>,
    names: Vec<String>,
    machine: Option<Machine>,
    interpreter: Option<String>,
    owners: BTreeMap<String, Owner>,
}

/// What a host's GPU driver needs from an image, whatever else is in it: the driver is mounted in, its C library is not.
const FOR_DRIVERS: [&str; 5] = ["libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"];

impl BaseFiles {
    /// Dynamic linker, C library and certificates for `executable`, with the closure of what it needs.
    pub fn for_executable(executable: &Path, search: &Search) -> Result<Self, PackageError> {
        let elf = elf::read(executable)?;
        let mut base = BaseFiles { machine: Some(elf.machine), ..Self::default() };
        if let Some(interpreter) = &elf.interpreter {
            let inside = interpreter.trim_start_matches('/').to_string();
            let here = search.root.join(&inside);
            elf::read(&here)?;
            base.names.push(inside.rsplit('/').next().unwrap_or_default().into());
            base.interpreter = Some(inside.clone());
            base.files.insert(inside, here);
            base.add_closure(FOR_DRIVERS.map(String::from).to_vec(), executable, search)?;
        }
        base.add_closure(elf.needed, executable, search)?;
        for (inside, candidates) in [
            (
                "etc/ssl/certs/ca-certificates.crt",
                &["etc/ssl/certs/ca-certificates.crt", "etc/pki/tls/certs/ca-bundle.crt"][..],
            ),
            ("etc/os-release", &["etc/os-release"]),
            // Decides where NVIDIA's container toolkit mounts the driver.
            ("etc/debian_version", &["etc/debian_version"]),
        ] {
            if let Some(here) = candidates.iter().map(|c| search.root.join(c)).find(|p| p.is_file()) {
                base.files.insert(inside.into(), here);
            }
        }
        base.add_owners(search);
        Ok(base)
    }

    /// Libraries by soname with the closure of what they need, less what is `below` already.
    pub fn libraries(
        names: &[&str],
        for_whom: &Path,
        below: &[&BaseFiles],
        search: &Search,
    ) -> Result<Self, PackageError> {
        let mut more = BaseFiles {
            names: below.iter().flat_map(|b| b.names.clone()).collect(),
            machine: below.iter().find_map(|b| b.machine),
            ..Self::default()
        };
        more.add_closure(names.iter().map(|n| (*n).to_string()).collect(), for_whom, search)?;
        more.add_owners(search);
        Ok(more)
    }

    /// Finds the packages that files come from, and adds what they say of their licences.
    fn add_owners(&mut self, search: &Search) {
        self.owners = dpkg::owners(&search.root, self.files.keys().map(String::as_str));
        for owner in self.owners.values() {
            if let Some(copyright) = &owner.copyright {
                self.files.insert(format!("usr/share/doc/{}/copyright", owner.package), copyright.clone());
            }
        }
    }

    /// Whether a library for this machine is where [`BaseFiles::libraries`] looks.
    pub(crate) fn has_library(&self, name: &str, search: &Search) -> bool {
        self.machine.is_some_and(|m| search.find(name, m, Path::new("")).is_ok())
    }

    fn add_closure(&mut self, names: Vec<String>, needed_by: &Path, search: &Search) -> Result<(), PackageError> {
        let machine = self.machine.expect("set by both constructors");
        let mut open: Vec<_> = names.into_iter().map(|n| (n, needed_by.to_path_buf())).collect();
        while let Some((name, by)) = open.pop() {
            if self.names.contains(&name) {
                continue;
            }
            let (inside, here, elf) = search.find(&name, machine, &by)?;
            open.extend(elf.needed.into_iter().map(|n| (n, here.clone())));
            self.files.insert(inside, here);
            self.names.push(name);
        }
        Ok(())
    }

    /// Adds what another executable of the same machine needs.
    pub(crate) fn join(&mut self, other: BaseFiles) {
        self.files.extend(other.files);
        self.names.extend(other.names);
        self.owners.extend(other.owners);
    }

    /// Paths in the image and the packages that they come from.
    pub(crate) fn owned(&self) -> impl Iterator<Item = (&str, &Owner)> {
        self.owners.iter().map(|(path, owner)| (path.as_str(), owner))
    }

    pub(crate) fn owner(&self, inside: &str) -> Option<&Owner> {
        self.owners.get(inside)
    }

    /// The dynamic linker is executed; libraries are only read.
    pub(crate) fn is_interpreter(&self, inside: &str) -> bool {
        self.interpreter.as_deref() == Some(inside)
    }

    /// Path in the image and path here, sorted.
    pub fn files(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.files.iter().map(|(a, b)| (a.as_str(), b.as_path()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closure_of_this_test() {
        let exe = std::env::current_exe().unwrap();
        let base = BaseFiles::for_executable(&exe, &Search::host()).unwrap();
        let names: Vec<_> = base.files().map(|(p, _)| p.rsplit('/').next().unwrap()).collect();
        for n in ["libc.so.6", "libm.so.6", "libgcc_s.so.1"] {
            assert_eq!(names.iter().filter(|x| **x == n).count(), 1, "{names:?}");
        }
        assert_eq!(names.iter().filter(|n| n.starts_with("ld-linux")).count(), 1, "{names:?}");
        assert!(!names.contains(&"sh"), "{names:?}");
    }

    #[test]
    fn a_missing_library_names_who_needs_it() {
        let exe = std::env::current_exe().unwrap();
        let base = BaseFiles::for_executable(&exe, &Search::host()).unwrap();
        let e = BaseFiles::libraries(&["libnothere.so.1"], Path::new("x"), &[&base], &Search::host()).unwrap_err();
        assert!(e.to_string().starts_with("`libnothere.so.1`, needed by x, not found; looked in /lib/"), "{e}");
        let empty = tempfile::tempdir().unwrap();
        let e = BaseFiles::for_executable(&exe, &Search { root: empty.path().into() }).unwrap_err();
        assert_eq!(e.code(), "E1201");
    }
}
