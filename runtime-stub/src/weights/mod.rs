//! Where weights that an artifact keeps outside are found, and whether they are the right ones.
//!
//! Each is read once, in pieces, hashed on the way, and refused if it is not the one that the artifact was built with.

mod upload;

pub(crate) use upload::{is_large, upload};

use crate::{
    error::{Error, Result},
    tensor::safetensors::SafeTensors,
};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    path::{Path, PathBuf},
};
use zml_format::{Artifact, Weight, WeightSource};

/// Names a folder with weights.
pub const VARIABLE: &str = "ZML_WEIGHTS";

/// Folders in which weight files are looked for, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WeightPlaces(Vec<PathBuf>);

impl WeightPlaces {
    /// Beside the artifact, then `folder` (`--weights`), then `ZML_WEIGHTS`.
    pub fn of(artifact: &Artifact, folder: Option<&Path>) -> Self {
        let beside = artifact.path().map(|p| match p.parent() {
            Some(dir) if dir != Path::new("") => dir.to_owned(),
            _ => PathBuf::from("."),
        });
        let variable = std::env::var_os(VARIABLE).filter(|v| !v.is_empty()).map(PathBuf::from);
        WeightPlaces(beside.into_iter().chain(folder.map(Path::to_owned)).chain(variable).collect())
    }
    /// These folders and no others.
    pub fn only(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        WeightPlaces(folders.into_iter().collect())
    }

    fn open(&self, file: &str, model: &str) -> Result<SafeTensors> {
        if Path::new(file).file_name() != Some(file.as_ref()) {
            return Err(Error::Weights(format!("the weight file `{file}` of `{model}` is no plain file name")));
        }
        let tried: Vec<PathBuf> = self.0.iter().map(|d| d.join(file)).collect();
        if let Some(found) = tried.iter().find(|p| p.exists()) {
            return SafeTensors::open(found).map_err(|e| Error::Weights(e.to_string()));
        }
        let places: Vec<String> = tried.iter().map(|p| format!("  not at {}", p.display())).collect();
        Err(Error::Weights(format!(
            "the weights of `{model}` are absent: no {file}\n{}\nput the file beside the artifact, or name its folder with --weights or {VARIABLE}",
            places.join("\n")
        )))
    }
}

/// The weight files of an artifact, open, by their names.
struct Files<'a>(BTreeMap<&'a str, SafeTensors>);

impl<'a> Files<'a> {
    fn of(artifact: &'a Artifact, places: &WeightPlaces) -> Result<Self> {
        let model = &artifact.manifest.model.name;
        let mut files = BTreeMap::new();
        for w in &artifact.manifest.weights {
            if let WeightSource::External { file, .. } = &w.source
                && let Entry::Vacant(place) = files.entry(file.as_str())
            {
                place.insert(places.open(file, model)?);
            }
        }
        Ok(Files(files))
    }

    /// One that a weight of the artifact names.
    fn get(&self, file: &str) -> &SafeTensors {
        &self.0[file]
    }
}

/// Whether all weights that the artifact keeps outside are there and the right ones; nothing if it keeps none outside.
pub(crate) fn find_all(artifact: &Artifact, places: &WeightPlaces) -> Option<Result<String>> {
    let outside = artifact.manifest.weights.iter().filter_map(|w| match &w.source {
        WeightSource::External { file, key } => Some((file.as_str(), key.as_str(), w)),
        WeightSource::Embedded { .. } => None,
    });
    let model = &artifact.manifest.model.name;
    let check = || -> Result<(usize, String)> {
        let files = Files::of(artifact, places)?;
        let (mut count, mut piece) = (0, vec![]);
        for (file, key, w) in outside {
            let hash = stream(files.get(file), key, w, &mut piece, |_, _| Ok(()))?;
            right(&hash, file, key, w, model)?;
            count += 1;
        }
        Ok((count, files.0.into_keys().collect::<Vec<_>>().join(", ")))
    };
    match check() {
        Ok((0, _)) => None,
        Ok((count, files)) => Some(Ok(format!("{count} tensors in {files}"))),
        Err(e) => Some(Err(e)),
    }
}

/// Whether a weight is the one that the artifact was built with.
fn right(hash: &str, file: &str, key: &str, w: &Weight, model: &str) -> Result<()> {
    if hash == w.sha256 {
        return Ok(());
    }
    Err(Error::Weights(format!(
        "`{key}` of {file} is not the weight that `{model}` was built with: its SHA-256 is {hash}, and should be {}; \
         find the file of that build, or build again with this one",
        w.sha256
    )))
}

/// Read and hashed at a time.
const PIECE: usize = 16 << 20;

/// The SHA-256 of the values, which `each` sees piece by piece.
fn stream(
    file: &SafeTensors,
    key: &str,
    w: &Weight,
    piece: &mut Vec<u8>,
    each: impl Fn(u64, &[u8]) -> Result<()>,
) -> Result<String> {
    let entry = file.check(key, &w.tensor).map_err(|e| Error::Weights(e.to_string()))?;
    let mut hash = Sha256::new();
    let mut at = 0;
    let bytes = w.tensor.bytes();
    while at < bytes {
        let n = (bytes - at).min(PIECE as u64);
        piece.resize(n as usize, 0);
        file.read_at(entry, at, piece).map_err(|e| Error::Weights(e.to_string()))?;
        hash.update(&piece[..]);
        each(at, piece)?;
        at += n;
    }
    Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}
