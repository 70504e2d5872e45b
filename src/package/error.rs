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
    #[error("SOURCE_DATE_EPOCH is `{0}`, not a number of seconds")]
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
    #[error("cannot {doing} {host}: {reason}")]
    Registry { host: String, doing: &'static str, reason: String },
    #[error("{}: {reason}", path.display())]
    Credentials { path: PathBuf, reason: String },
    #[error("{what}: access denied{}{reason}", if reason.is_empty() { "" } else { ": " })]
    Denied { what: String, reason: String },
}

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
        }
    }

    pub fn fault(&self) -> Fault {
        match self {
            PackageError::Io { source, .. } if source.kind() != io::ErrorKind::NotFound => Fault::Environment,
            PackageError::Changed { .. } | PackageError::Registry { .. } => Fault::Environment,
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
            E::Registry { .. } => "run it again: blobs that arrived are not sent again",
            E::Credentials { .. } => "log in again with `docker login` or `podman login`",
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
