//! What can go wrong while packaging, whose fault it is, and what to do about it.

use std::{io, path::PathBuf};

/// Who has to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// What the user gave.
    Input,
    /// The machine: a full disk, a missing right, a registry that is down.
    Environment,
}

#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    #[error("cannot {doing} {}: {source}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    Artifact { path: PathBuf, source: zml_format::ArtifactError },
    #[error("weights file `{file}` not found; looked in {}", list(tried))]
    WeightsMissing { file: String, tried: Vec<PathBuf> },
    #[error("{}: {reason}", path.display())]
    Weights { path: PathBuf, reason: String },
    #[error("{}: not an ELF executable or library ({reason})", path.display())]
    NotElf { path: PathBuf, reason: String },
    #[error("`{name}`, needed by {}, not found; looked in {}", needed_by.display(), list(searched))]
    LibraryMissing { name: String, needed_by: PathBuf, searched: Vec<PathBuf> },
    #[error("`{path}` cannot be a path in a package: {reason}")]
    Path { path: String, reason: &'static str },
    #[error("two different files for `{0}` in one package")]
    Twice(String),
    #[error("{} changed while it was read: {expected} bytes before, {found} now", path.display())]
    Changed { path: PathBuf, expected: u64, found: u64 },
    #[error("SOURCE_DATE_EPOCH is `{0}`, not a number of seconds from 1970 to the year 9999")]
    Epoch(String),
    #[error("{} exists and is not an OCI layout", .0.display())]
    NotOurs(PathBuf),
    #[error("{}: not a valid OCI layout: {reason}", path.display())]
    Layout { path: PathBuf, reason: String },
    #[error("{}: no image for {wanted}; it has {found}", path.display())]
    NoPlatform { path: PathBuf, wanted: String, found: String },
    #[error("no image to write")]
    NoImage,
    #[error("`{text}` is not the name of an image: {reason}")]
    Reference { text: String, reason: &'static str },
    #[error("cannot {doing} {image}: {reason}")]
    Registry { image: String, doing: &'static str, reason: String },
    #[error("{}: {reason}", path.display())]
    Credentials { path: PathBuf, reason: String },
    #[error("{}: {reason}", path.display())]
    Archive { path: PathBuf, reason: String },
    #[error("{what}: {reason}")]
    Source { what: String, reason: String },
    #[error("`{0}` is not in zmlc.lock")]
    Unlocked(String),
    #[error("{what} has SHA-256 {found}, not {expected}")]
    Digest { what: String, expected: String, found: String },
    #[error("cannot fetch {what}: {reason}")]
    Fetch { what: String, reason: String },
    #[error("{}: {reason}", path.display())]
    Lock { path: PathBuf, reason: String },
    #[error("no source in [package.vendor.{target}] has {}", missing.iter().map(|m| format!("`{}`, needed by {}", m.name, m.needed_by)).collect::<Vec<_>>().join("; "))]
    VendorMissing { target: String, missing: Vec<crate::vendor::Missing> },
    #[error("{library} cannot be cut: {reason}")]
    Trim { library: String, reason: zml_trim::TrimError },
    #[error("no folder for the cache: neither ZMLC_CACHE, XDG_CACHE_HOME nor HOME is set")]
    NoCache,
    #[error("{what}: access denied{}{reason}", if reason.is_empty() { "" } else { ": " })]
    Denied { what: String, reason: String },
}

/// Code and explanation of every [`PackageError`].
pub const CODES: &[(&str, &str)] = &[
    ("E1201", "A file or folder cannot be read or written while packaging. Nothing is left under the final name."),
    ("E1202", "The .zml file is not an artifact that this version reads, or it is damaged."),
    ("E1203", "The artifact names a weights file that is in none of the folders where it was looked for."),
    (
        "E1204",
        "A weights file has other tensors or values than the artifact was built with: a package of both would give wrong numbers.",
    ),
    ("E1205", "A file that has to be an executable or library for Linux is not one."),
    ("E1206", "A library that the runtime or another library needs is not on the machine that packages."),
    (
        "E1207",
        "A path cannot stand in a package: it would leave the folder that the package is unpacked in, or tools unpack it differently.",
    ),
    ("E1208", "Two different files have the same path in a package, or two images the same platform."),
    ("E1209", "A file changed while it was packaged."),
    ("E1210", "SOURCE_DATE_EPOCH is not a number of seconds since 1970, or one after the year 9999."),
    ("E1211", "The folder that a layout is to be written to has something else in it, which is left alone."),
    ("E1212", "An OCI layout breaks a rule of the image spec, or a blob has another digest than its name."),
    ("E1213", "An image has no variant for the platform that the runtime was built for."),
    ("E1214", "There is no image to write."),
    ("E1215", "The name of an image in a registry is malformed."),
    ("E1216", "A registry does not answer, or answers with an error, also after several attempts."),
    ("E1217", "The file with logins for registries cannot be used."),
    ("E1218", "A registry does not accept the login, or there is none."),
    ("E1219", "An archive is damaged, or has other files than its SBOM says."),
    (
        "E1220",
        "A source of vendor libraries is malformed, or holds what it must not: a path that leaves it, a link, a bomb.",
    ),
    ("E1221", "A source of vendor libraries is not in the lock file, so nothing says which bytes it has to be."),
    ("E1222", "A file has another SHA-256 than the lock file or the cache says."),
    ("E1223", "A wheel cannot be downloaded."),
    ("E1224", "The lock file cannot be read."),
    ("E1225", "A vendor library needs, or opens while it runs, one that no source has and that is not the host's."),
    ("E1226", "A vendor library has no code for any GPU that the artifact is for, or cannot be cut."),
    ("E1227", "There is no folder for downloaded and trimmed libraries."),
];

/// How what is done starts where an image is fetched from a registry, not sent there.
const PULLING: [&str; 3] = ["fetch", "find an image", "read an image"];

impl PackageError {
    /// Stable, for scripts and documentation.
    pub fn code(&self) -> &'static str {
        use PackageError as E;
        match self {
            E::Io { .. } => "E1201",
            E::Artifact { .. } => "E1202",
            E::WeightsMissing { .. } => "E1203",
            E::Weights { .. } => "E1204",
            E::NotElf { .. } => "E1205",
            E::LibraryMissing { .. } => "E1206",
            E::Path { .. } => "E1207",
            E::Twice(_) => "E1208",
            E::Changed { .. } => "E1209",
            E::Epoch(_) => "E1210",
            E::NotOurs(_) => "E1211",
            E::Layout { .. } => "E1212",
            E::NoPlatform { .. } => "E1213",
            E::NoImage => "E1214",
            E::Reference { .. } => "E1215",
            E::Registry { .. } => "E1216",
            E::Credentials { .. } => "E1217",
            E::Denied { .. } => "E1218",
            E::Archive { .. } => "E1219",
            E::Source { .. } => "E1220",
            E::Unlocked(_) => "E1221",
            E::Digest { .. } => "E1222",
            E::Fetch { .. } => "E1223",
            E::Lock { .. } => "E1224",
            E::VendorMissing { .. } => "E1225",
            E::Trim { .. } => "E1226",
            E::NoCache => "E1227",
        }
    }

    pub fn fault(&self) -> Fault {
        match self {
            PackageError::Io { source, .. } if source.kind() != io::ErrorKind::NotFound => Fault::Environment,
            PackageError::Changed { .. } | PackageError::Registry { .. } | PackageError::Fetch { .. } => {
                Fault::Environment
            }
            _ => Fault::Input,
        }
    }

    /// What to do about it, in one line.
    pub fn remedy(&self) -> &'static str {
        use PackageError as E;
        match self {
            E::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free some space and run it again; nothing was left under the final name"
            }
            E::Io { .. } => "check the path and its access rights; nothing was left under the final name",
            E::Artifact { .. } => "build the artifact again with `zmlc build`",
            E::WeightsMissing { .. } => "pass `--weights-dir DIR`, or `--weights external` to leave them out",
            E::Weights { .. } => "use the weights file that the artifact was built with, or build the artifact again",
            E::NotElf { .. } => "pass the `zml-run` that was built for Linux",
            E::LibraryMissing { .. } => "install the package that has this library, or pass `--base DIR`",
            E::Path { .. } => "rename the file: short names without `..`, leading `/` or control characters",
            E::Twice(_) => "give each file a name of its own",
            E::Changed { .. } => "run it again when nothing writes to that file",
            E::Epoch(_) => "unset it, or set it to a whole number, as `git log -1 --format=%ct` prints it",
            E::NotOurs(_) => "choose another folder, or remove this one first",
            E::Layout { .. } => "copy the image again, for example with `skopeo copy docker://IMAGE oci:DIR`",
            E::NoPlatform { .. } => "choose a base that has this platform",
            E::NoImage => "give at least one platform",
            E::Reference { .. } => "write it as REGISTRY/NAME:TAG, for example ghcr.io/owner/model:1",
            E::Registry { doing, .. } if PULLING.iter().any(|d| doing.starts_with(d)) => {
                "check name and tag, and run it again; `skopeo copy docker://IMAGE oci:DIR` makes a layout of any image"
            }
            E::Registry { .. } => "run it again: blobs that arrived are not sent again",
            E::Credentials { .. } => "log in again with `docker login` or `podman login`",
            E::Archive { .. } => "fetch the archive again, or package the artifact again",
            E::Source { .. } => "give pypi:NAME==VERSION, a .whl, a .deb or a folder, from whom you trust",
            E::Unlocked(_) => "run `zmlc vendor update MODEL.toml`, and keep zmlc.lock under version control",
            E::Digest { .. } => {
                "if the change is meant, run `zmlc vendor update MODEL.toml`; if the file is in the cache, remove it"
            }
            E::Fetch { .. } => "see that `python3 -m pip download NAME==VERSION` works, or give the wheel's file",
            E::Lock { .. } => "restore zmlc.lock, or remove it and run `zmlc vendor update MODEL.toml`",
            E::VendorMissing { .. } => "add the source that has it with `zmlc vendor add MODEL.toml SOURCE`",
            E::Trim { .. } => "use a version of the library that is for these GPUs, or `trim = false`",
            E::NoCache => "set ZMLC_CACHE to a folder",
            E::Denied { .. } => "log in with `docker login REGISTRY`, and check that the account may write there",
        }
    }
}

/// Adds what was being done and to which file.
pub(crate) trait At<T> {
    fn at(self, doing: &'static str, path: impl Into<PathBuf>) -> Result<T, PackageError>;
}
impl<T> At<T> for io::Result<T> {
    fn at(self, doing: &'static str, path: impl Into<PathBuf>) -> Result<T, PackageError> {
        self.map_err(|source| PackageError::Io { doing, path: path.into(), source })
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_explained_once() {
        let mut codes: Vec<_> = CODES.iter().map(|c| c.0).collect();
        assert!(codes.contains(&PackageError::NoImage.code()));
        assert!(codes.contains(&PackageError::Denied { what: "x".into(), reason: String::new() }.code()));
        codes.dedup();
        assert_eq!(codes.len(), CODES.len());
        assert!(codes.is_sorted());
    }
}
