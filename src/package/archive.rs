//! The archive: runtime and artifact in a `.tar.zst` that runs where it is unpacked, as `bin/zml-run model/NAME.zml`.

use crate::{
    Weights,
    compress::{Compression, Encoder, Hashed, Stored},
    content::Model,
    elf,
    error::{At, PackageError},
    runtime::LICENCES,
    sbom::Sbom,
    stage,
    tar::{self, Content, Tree},
    vendor::Vendored,
};
use std::{
    io::Write,
    path::{Path, PathBuf},
};

/// Where an archive has its SBOM.
pub(crate) const SBOM: &str = "sbom.cdx.json";

/// Files from this size on are stored as they are: weights do not shrink, and are to be read back fast.
pub(crate) const STORE_FROM: u64 = 16 << 20;

#[derive(Clone, Debug)]
pub struct ArchivePlan {
    /// `zml-run`
    pub runtime: PathBuf,
    /// `NAME.zml`
    pub artifact: PathBuf,
    pub weights: Weights,
    /// Go to `lib/`.
    pub vendor: Vec<Vendored>,
    /// Licence texts: go to `LICENSES/` under their file names.
    pub licenses: Vec<PathBuf>,
    /// Seconds since 1970, for every entry; see [`crate::source_date_epoch`].
    pub mtime: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveReport {
    pub bytes: u64,
    /// Of the archive, lower-case hex.
    pub sha256: String,
    /// Bytes of the files in it.
    pub unpacked: u64,
    /// Paths in it, folders left out, sorted.
    pub files: Vec<String>,
}

/// Writes the archive. An existing file is replaced, in one step at the end.
pub fn archive(plan: &ArchivePlan, out: &Path) -> Result<ArchiveReport, PackageError> {
    let model = Model::open(&plan.artifact)?;
    elf::read(&plan.runtime)?;
    let mut tree = Tree::default();
    let mut stored = Tree::default();
    let mut sbom = Sbom::default();
    tree.executable("bin/zml-run", Content::file(&plan.runtime)?)?;
    sbom.runtime("bin/zml-run", &plan.runtime)?;
    for (name, text) in LICENCES {
        tree.file(&format!("LICENSES/zml-run/{name}"), Content::Bytes(text.into()))?;
    }
    tree.directory("lib")?;
    for vendored in &plan.vendor {
        for file in &vendored.files {
            let path = format!("lib/{}", file.name);
            tree.file(&path, Content::file(&file.path)?)?;
            sbom.vendored(&path, file);
        }
        for (name, path) in &vendored.licences {
            tree.file(&format!("LICENSES/{name}"), Content::file(path)?)?;
        }
    }
    for license in &plan.licenses {
        tree.file(&format!("LICENSES/{}", file_name(license)?), Content::file(license)?)?;
    }
    let artifact = format!("model/{}", model.file_name);
    tree.file(&artifact, Content::file(&model.path)?)?;
    sbom.model(&artifact, &model)?;
    for (name, path) in model.weights(&plan.weights)? {
        let inside = format!("model/{name}");
        sbom.weights(&inside, &path)?;
        let content = Content::file(path)?;
        let part = if content.bytes() < STORE_FROM { &mut tree } else { &mut stored };
        part.file_alone(&inside, content)?;
    }
    tree.file(SBOM, Content::Bytes(model.sbom(sbom, plan.mtime)))?;
    write(&tree, &stored, plan.mtime, out)
}

/// Writes `tree` compressed and `stored` as it is behind it.
pub(crate) fn write(tree: &Tree, stored: &Tree, mtime: u64, out: &Path) -> Result<ArchiveReport, PackageError> {
    let mut files: Vec<String> = tree.paths().chain(stored.paths()).map(String::from).collect();
    files.sort();
    let unpacked = tree.bytes() + stored.bytes();
    let (sha256, bytes) = stage::file(out, |file| {
        let mut encoder = Encoder::new(Compression::Zstd, Hashed::new(file)).at("write", out)?;
        tree.write_entries(mtime, &mut encoder, out)?;
        if stored.is_empty() {
            tar::finish(&mut encoder, out)?;
        }
        let mut hashed = encoder.finish().at("write", out)?;
        if !stored.is_empty() {
            let mut frame = Stored::new(hashed).at("write", out)?;
            stored.write(mtime, &mut frame, out)?;
            hashed = frame.finish().at("write", out)?;
        }
        hashed.flush().at("write", out)?;
        let (file, digest, bytes) = hashed.finish();
        Ok((file, (digest, bytes)))
    })?;
    Ok(ArchiveReport { bytes, sha256, unpacked, files })
}

pub(crate) fn file_name(path: &Path) -> Result<&str, PackageError> {
    path.file_name()
        .and_then(|n| n.to_str())
        .ok_or_else(|| PackageError::Path { path: path.display().to_string(), reason: "its name is not UTF-8" })
}
