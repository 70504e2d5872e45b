//! The artifact that is packaged, and the weights beside it, checked against the hashes that the artifact states: a
//! package with other weights than those it was built for would run and give wrong numbers.

use crate::{
    compress::hex,
    error::{At, PackageError},
    sbom::Sbom,
};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};
use zml_format::{Artifact, Weight, WeightSource};

/// Whether the weights that lie beside the artifact go into the package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Weights {
    External,
    /// Looked for beside the artifact, then in these folders.
    Include {
        folders: Vec<PathBuf>,
    },
}

/// A safetensors header longer than this is refused (the format's own limit).
const MAX_HEADER: u64 = 100_000_000;

/// The artifact's file name, which it keeps in the package.
pub fn artifact_name(path: &Path) -> Result<String, PackageError> {
    match path.file_name().and_then(|n| n.to_str()) {
        Some(n) if n.ends_with(".zml") => Ok(n.into()),
        _ => Err(PackageError::Path { path: path.display().to_string(), reason: "an artifact is called NAME.zml" }),
    }
}

pub(crate) struct Model {
    /// `mnist.zml`
    pub(crate) file_name: String,
    pub(crate) path: PathBuf,
    pub(crate) artifact: Artifact,
}
impl Model {
    pub(crate) fn open(path: &Path) -> Result<Self, PackageError> {
        let artifact = Artifact::open(path).map_err(|source| PackageError::Artifact { path: path.into(), source })?;
        Ok(Model { file_name: artifact_name(path)?, path: path.into(), artifact })
    }
    /// The document about a package of this model.
    pub(crate) fn sbom(&self, components: Sbom, mtime: u64) -> Vec<u8> {
        let m = &self.artifact.manifest.model;
        components.document(&m.name, &m.version, mtime)
    }
    pub(crate) fn has_target(&self, target: &str) -> bool {
        self.artifact.manifest.profiles.iter().any(|p| p.target == target)
    }

    /// File name and path of each weights file to include, its tensors' hashes checked.
    pub(crate) fn weights(&self, choice: &Weights) -> Result<Vec<(String, PathBuf)>, PackageError> {
        let Weights::Include { folders } = choice else { return Ok(vec![]) };
        let mut by_file: BTreeMap<&str, Vec<(&str, &Weight)>> = BTreeMap::new();
        for w in &self.artifact.manifest.weights {
            if let WeightSource::External { file, key } = &w.source {
                by_file.entry(file).or_default().push((key, w));
            }
        }
        let beside = match self.path.parent() {
            Some(p) if p != Path::new("") => p.to_path_buf(),
            _ => ".".into(),
        };
        let mut found = Vec::new();
        for (file, tensors) in by_file {
            if file.contains('/') || file == ".." {
                return Err(PackageError::Path { path: file.into(), reason: "weights are named without folders" });
            }
            let tried: Vec<_> = std::iter::once(&beside).chain(folders).map(|f| f.join(file)).collect();
            let Some(path) = tried.iter().find(|p| p.is_file()).cloned() else {
                return Err(PackageError::WeightsMissing { file: file.into(), tried });
            };
            check(&path, &tensors)?;
            found.push((file.to_string(), path));
        }
        Ok(found)
    }
}

/// Compares tensors of a safetensors file with the sizes and hashes that the artifact states.
fn check(path: &Path, tensors: &[(&str, &Weight)]) -> Result<(), PackageError> {
    let bad = |reason: String| PackageError::Weights { path: path.into(), reason };
    let mut file = File::open(path).at("read", path)?;
    let mut length = [0; 8];
    file.read_exact(&mut length).at("read", path)?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER {
        return Err(bad("not a safetensors file (its header would be too long)".into()));
    }
    let mut header = vec![0; length as usize];
    file.read_exact(&mut header).at("read", path)?;
    let header: serde_json::Value =
        serde_json::from_slice(&header).map_err(|e| bad(format!("not a safetensors file: {e}")))?;
    for (key, weight) in tensors {
        let offsets = &header[key]["data_offsets"];
        let (Some(from), Some(to)) = (offsets[0].as_u64(), offsets[1].as_u64()) else {
            return Err(bad(format!("no tensor `{key}`")));
        };
        if to.checked_sub(from) != Some(weight.tensor.bytes()) {
            return Err(bad(format!("tensor `{key}` has another size than the artifact states")));
        }
        let start = from.checked_add(8 + length).ok_or_else(|| bad(format!("tensor `{key}` is out of the file")))?;
        file.seek(SeekFrom::Start(start)).at("read", path)?;
        let mut hash = Sha256::new();
        let copied = std::io::copy(&mut (&mut file).take(to - from), &mut hash).at("read", path)?;
        if copied != to - from {
            return Err(bad(format!("tensor `{key}` is out of the file")));
        }
        if hex(&hash.finalize()) != weight.sha256 {
            return Err(bad(format!("tensor `{key}` has other values than the artifact was built with")));
        }
    }
    Ok(())
}
