//! Which Debian package a file belongs to, from dpkg's own files. A system without them has no owners.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) package: String,
    pub(crate) version: String,
    pub(crate) architecture: String,
    /// `debian`: `ID` of os-release.
    pub(crate) distribution: String,
    /// Licence and authors, as the package states them.
    pub(crate) copyright: Option<PathBuf>,
    /// Their names as the package gives them; where it gives a text without names, where that lies.
    pub(crate) licences: Vec<String>,
}

/// Files that no package lists: made by one when it is installed.
const MADE: [(&str, &str); 1] = [("etc/ssl/certs/ca-certificates.crt", "ca-certificates")];

/// Owner of each path (relative to `root`) that has one.
pub(crate) fn owners<'a>(root: &Path, paths: impl Iterator<Item = &'a str>) -> BTreeMap<String, Owner> {
    // Since /lib is a link to /usr/lib, a file is listed under either.
    let mut wanted: BTreeMap<String, &str> = BTreeMap::new();
    for p in paths {
        let bare = p.strip_prefix("usr/").unwrap_or(p);
        wanted.insert(format!("/{bare}"), p);
        wanted.insert(format!("/usr/{bare}"), p);
    }
    let distribution = id(root);
    let versions = versions(root);
    let owner = |package: &str, architecture: &str, version: &str| {
        let inside = format!("usr/share/doc/{package}/copyright");
        let copyright = Some(root.join(&inside)).filter(|c| c.is_file());
        Owner {
            package: package.into(),
            version: version.into(),
            architecture: architecture.into(),
            distribution: distribution.clone(),
            licences: copyright.as_deref().map(|c| licences(c, &inside)).unwrap_or_default(),
            copyright,
        }
    };
    let mut found = BTreeMap::new();
    for (path, package) in MADE {
        let wanted = wanted.get(&format!("/{path}"));
        let installed = versions.iter().find(|(p, _, _)| p == package);
        if let Some((path, (_, architecture, version))) = wanted.zip(installed) {
            found.insert((*path).to_string(), owner(package, architecture, version));
        }
    }
    let Ok(lists) = fs::read_dir(root.join("var/lib/dpkg/info")) else { return found };
    let mut lists: Vec<_> =
        lists.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "list")).collect();
    lists.sort();
    for list in lists {
        // `libc6:amd64.list`
        let stem = list.file_stem().unwrap_or_default().to_string_lossy();
        let (package, qualifier) = stem.split_once(':').map_or((&*stem, None), |(p, a)| (p, Some(a)));
        let owned = versions.iter().find(|(p, a, _)| p == package && qualifier.is_none_or(|q| q == a));
        let Some((_, architecture, version)) = owned else { continue };
        for line in fs::read_to_string(&list).unwrap_or_default().lines() {
            if let Some(path) = wanted.get(line) {
                found.insert((*path).to_string(), owner(package, architecture, version));
            }
        }
    }
    found
}

/// The records by which [`owners`] finds these files again, and scanners the packages: path and text of each.
pub(crate) fn records<'a>(owned: impl Iterator<Item = (&'a str, &'a Owner)>) -> Vec<(String, String)> {
    let mut packages: BTreeMap<(&str, &str), (&Owner, Vec<&str>)> = BTreeMap::new();
    for (path, owner) in owned {
        packages.entry((&owner.package, &owner.architecture)).or_insert((owner, vec![])).1.push(path);
    }
    let mut status = String::new();
    let mut records = vec![];
    for ((package, architecture), (owner, mut paths)) in packages {
        status.push_str(&format!(
            "Package: {package}\nStatus: install ok installed\nArchitecture: {architecture}\nVersion: {}\n\n",
            owner.version
        ));
        paths.sort_unstable();
        let list: String = paths.iter().map(|p| format!("/{p}\n")).collect();
        records.push((format!("var/lib/dpkg/info/{package}:{architecture}.list"), list));
    }
    records.push(("var/lib/dpkg/status".into(), status));
    records
}

/// The licences that a `copyright` file names, or where it lies.
fn licences(copyright: &Path, inside: &str) -> Vec<String> {
    let names = licence_names(&fs::read_to_string(copyright).unwrap_or_default());
    if names.is_empty() { vec![format!("see {inside}")] } else { names.into_iter().collect() }
}

/// The licences that the text of a `copyright` file names, if it is in Debian's machine-readable form.
pub(crate) fn licence_names(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|_| text.starts_with("Format:"));
    let named = lines.filter_map(|l| l.strip_prefix("License:")).map(str::trim).filter(|l| !l.is_empty());
    named.map(String::from).collect()
}

fn id(root: &Path) -> String {
    let text = fs::read_to_string(root.join("etc/os-release")).unwrap_or_default();
    let id = text.lines().find_map(|l| l.strip_prefix("ID="));
    id.map_or_else(|| "debian".into(), |i| i.trim_matches('"').to_string())
}

/// Package, architecture, version.
fn versions(root: &Path) -> Vec<(String, String, String)> {
    let text = fs::read_to_string(root.join("var/lib/dpkg/status")).unwrap_or_default();
    text.split("\n\n")
        .filter_map(|stanza| {
            let field = |name: &str| stanza.lines().find_map(|l| l.strip_prefix(name)).map(|v| v.trim().to_string());
            Some((field("Package:")?, field("Architecture:")?, field("Version:")?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_of_a_file_listed_without_usr() {
        let root = tempfile::tempdir().unwrap();
        let info = root.path().join("var/lib/dpkg/info");
        fs::create_dir_all(&info).unwrap();
        fs::create_dir_all(root.path().join("etc")).unwrap();
        fs::write(root.path().join("etc/os-release"), "NAME=x\nID=\"debian\"\n").unwrap();
        fs::write(info.join("libx1:amd64.list"), "/.\n/lib/t/libx.so.1\n").unwrap();
        let status =
            "Package: libx1\nArchitecture: arm64\nVersion: 1\n\nPackage: libx1\nArchitecture: amd64\nVersion: 2-3\n";
        fs::write(root.path().join("var/lib/dpkg/status"), status).unwrap();
        let found = owners(root.path(), ["usr/lib/t/libx.so.1", "bin/other"].into_iter());
        assert_eq!(found.len(), 1);
        let o = &found["usr/lib/t/libx.so.1"];
        assert_eq!((o.package.as_str(), o.version.as_str(), o.architecture.as_str()), ("libx1", "2-3", "amd64"));
        assert_eq!((o.distribution.as_str(), &o.copyright, &o.licences), ("debian", &None, &vec![]));
        let copy = tempfile::tempdir().unwrap();
        fs::create_dir_all(copy.path().join("etc")).unwrap();
        fs::copy(root.path().join("etc/os-release"), copy.path().join("etc/os-release")).unwrap();
        for (path, text) in records(found.iter().map(|(p, o)| (p.as_str(), o))) {
            let path = copy.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        assert_eq!(owners(copy.path(), ["usr/lib/t/libx.so.1", "bin/other"].into_iter()), found);
        assert!(owners(&root.path().join("none"), ["a"].into_iter()).is_empty());
    }

    #[test]
    fn licences_and_files_that_no_list_has() {
        let root = tempfile::tempdir().unwrap();
        let doc = root.path().join("usr/share/doc/ca-certificates");
        fs::create_dir_all(&doc).unwrap();
        fs::create_dir_all(root.path().join("var/lib/dpkg/info")).unwrap();
        fs::write(root.path().join("var/lib/dpkg/status"), "Package: ca-certificates\nArchitecture: all\nVersion: 3\n")
            .unwrap();
        let licences = |text: &str| {
            fs::write(doc.join("copyright"), text).unwrap();
            let found = owners(root.path(), ["etc/ssl/certs/ca-certificates.crt"].into_iter());
            found["etc/ssl/certs/ca-certificates.crt"].licences.clone()
        };
        let stanzas =
            "Format: https://x\n\nFiles: *\nLicense: MPL-2.0\n\nFiles: a\nLicense: GPL-2+\n text\n\nLicense: MPL-2.0\n";
        assert_eq!(licences(stanzas), ["GPL-2+", "MPL-2.0"]);
        assert_eq!(licences("It is free.\nLicense: so\n"), ["see usr/share/doc/ca-certificates/copyright"]);
    }
}
