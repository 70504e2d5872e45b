//! Weights: safetensors files mapped into memory, tensors looked up by name and hashed.

use crate::{codes, failure::Failure, model::Model};
use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors};
use sha2::{Digest, Sha256};
use std::{
    fs::File,
    ops::Range,
    path::{Path, PathBuf},
};
use zml_format::DType;
use zmlc_import::{diag::Diagnostic, tree::Span};

/// An open weights file.
pub struct WeightFile {
    pub path: PathBuf,
    map: Mmap,
    /// By name.
    tensors: Vec<Stored>,
}
struct Stored {
    name: String,
    /// None if StableHLO has no such type.
    dtype: Option<DType>,
    shape: Vec<u64>,
    /// In `map`.
    range: Range<usize>,
}

impl WeightFile {
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let file = File::open(path).map_err(|e| Failure::file(path, "read", &e))?;
        // Sound as long as nobody truncates the file meanwhile, which no compiler that maps its inputs can exclude.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| Failure::file(path, "read", &e))?;
        let base = map.as_ptr() as usize;
        let read = SafeTensors::deserialize(&map).map_err(|e| {
            Failure::from(
                Diagnostic::error(
                    codes::WEIGHTS,
                    Span::NONE,
                    format!("{} is not a safetensors file: {e}", path.display()),
                )
                .hint("weights are read from .safetensors files; convert others with the safetensors Python package"),
            )
        })?;
        let mut tensors: Vec<_> = read
            .iter()
            .map(|(name, view)| {
                let start = view.data().as_ptr() as usize - base;
                let shape = view.shape().iter().map(|d| *d as u64).collect();
                let range = start..start + view.data().len();
                Stored { name: name.to_string(), dtype: dtype(view.dtype()), shape, range }
            })
            .collect();
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(WeightFile { path: path.to_path_buf(), map, tensors })
    }
    /// Without folders.
    pub fn name(&self) -> String {
        self.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
    }
    /// All that comes before the values.
    pub fn header(&self) -> &[u8] {
        let length = self.map.first_chunk().map_or(0, |n| u64::from_le_bytes(*n));
        usize::try_from(length).ok().and_then(|n| self.map.get(..n.checked_add(8)?)).unwrap_or(&self.map)
    }
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.iter().map(|t| t.name.as_str())
    }
    pub fn find(&self, key: &str) -> Option<(Option<DType>, &[u64], &[u8])> {
        let i = self.tensors.binary_search_by(|t| t.name.as_str().cmp(key)).ok()?;
        let t = &self.tensors[i];
        Some((t.dtype, &t.shape, &self.map[t.range.clone()]))
    }
}

/// All weights files of a model.
pub fn open(model: &Model) -> Result<Vec<WeightFile>, Failure> {
    let Some(section) = &model.file.weights else { return Ok(vec![]) };
    section.files.iter().map(|f| WeightFile::open(&model.locate(f))).collect()
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

fn dtype(d: Dtype) -> Option<DType> {
    Some(match d {
        Dtype::BOOL => DType::I1,
        Dtype::U8 => DType::U8,
        Dtype::I8 => DType::I8,
        Dtype::F8_E5M2 => DType::F8E5M2,
        Dtype::F8_E4M3 => DType::F8E4M3FN,
        Dtype::I16 => DType::I16,
        Dtype::U16 => DType::U16,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::I32 => DType::I32,
        Dtype::U32 => DType::U32,
        Dtype::F32 => DType::F32,
        Dtype::F64 => DType::F64,
        Dtype::I64 => DType::I64,
        Dtype::U64 => DType::U64,
        Dtype::C64 => DType::C64,
        _ => return None,
    })
}
