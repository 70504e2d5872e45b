//! An artifact with a weight beside it, and a runtime to package.

use std::{fs, path::Path};
use zml_format::{DType, Manifest, Model, Profile, Requires, Tensor, Weight, WeightSource, Writer};
use zmlc_package::{Base, Compression, ImagePlan, Search, Weights};

/// A small dynamic ELF that says what it was started with.
pub const RUNTIME: &str = "/bin/echo";

/// SHA-256 of the four bytes `\0\0\x80?` (1.0f32), by `printf '\0\0\200?' | sha256sum`.
const ONE: &str = "e00e5eb9444182f352323374ef4e08ebcb784725fdd4fd612d7730540b3e0c8c";

pub fn manifest(targets: &[&str]) -> Manifest {
    Manifest {
        producer: "test".into(),
        model: Model { name: "tiny".into(), version: "2".into() },
        sources: None,
        weights: vec![],
        state: vec![],
        entries: vec![],
        profiles: targets
            .iter()
            .map(|t| Profile {
                target: (*t).into(),
                name: (*t).into(),
                requires: Requires::default(),
                native: None,
                kernels: vec![],
                programs: vec![],
            })
            .collect(),
        blobs: vec![],
    }
}

/// Writes `tiny.zml`.
pub fn artifact(dir: &Path, targets: &[&str]) -> std::path::PathBuf {
    let path = dir.join("tiny.zml");
    fs::write(&path, Writer::new().finish(manifest(targets))).unwrap();
    path
}

/// Writes `tiny.zml` and `w.safetensors`, whose tensor `k` is 1.0.
pub fn artifact_with_weights(dir: &Path, file: &str) -> std::path::PathBuf {
    let mut m = manifest(&["cuda"]);
    m.weights.push(Weight {
        tensor: Tensor { name: "k".into(), dtype: DType::F32, shape: vec![] },
        sha256: ONE.into(),
        source: WeightSource::External { file: file.into(), key: "k".into() },
    });
    let path = dir.join("tiny.zml");
    fs::write(&path, Writer::new().finish(m)).unwrap();
    path
}

pub fn safetensors(value: f32) -> Vec<u8> {
    let header = br#"{"k":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}"#;
    [&(header.len() as u64).to_le_bytes()[..], header, &value.to_le_bytes()].concat()
}

pub fn plan(artifact: &Path) -> ImagePlan {
    ImagePlan {
        runtime: RUNTIME.into(),
        artifact: artifact.into(),
        weights: Weights::Include { folders: vec![] },
        vendor: vec![],
        base: Base::Files(Search::host()),
        software_vulkan: false,
        compression: Compression::Zstd,
        reference: Some("latest".into()),
        labels: [("who".to_string(), "test".to_string())].into(),
        annotations: [].into(),
        licenses: vec![],
        mtime: 0,
    }
}
