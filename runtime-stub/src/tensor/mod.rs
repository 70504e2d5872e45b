//! Tensors in host memory, and the two file formats that carry them.
//!
//! Values are as on the device: row-major, little-endian, no value shares a byte with another, `i1` is a byte of 0 or 1.

pub mod npy;
pub mod safetensors;
mod values;

pub use values::{json, random, show};

use crate::error::{Error, Result};
use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
};
use zml_format::{DType, Tensor};

/// A tensor with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    pub dtype: DType,
    pub shape: Vec<u64>,
    pub bytes: Vec<u8>,
}

/// `f32 [2, 3]`, and `f32` for a scalar.
pub fn type_text(dtype: DType, shape: &[u64]) -> String {
    if shape.is_empty() { dtype.to_string() } else { format!("{dtype} {shape:?}") }
}

/// Refuses values that are not of the type of `expected`; `what` names them.
pub(crate) fn check_type(what: &str, dtype: &str, shape: &[u64], fits: bool, expected: &Tensor) -> Result<()> {
    if fits && shape == expected.shape {
        return Ok(());
    }
    let wanted = type_text(expected.dtype, &expected.shape);
    Err(Error::Input(format!("{what} is {dtype} {shape:?}, and `{}` is {wanted}", expected.name)))
}

/// Every predicate is 0 or 1: kernels rely on it.
pub(crate) fn check_predicates(what: &str, dtype: DType, bytes: &[u8]) -> Result<()> {
    match bytes.iter().position(|b| *b > 1) {
        Some(at) if dtype == DType::I1 => {
            Err(Error::Input(format!("{what} has the byte {} at {at}, and a predicate is 0 or 1", bytes[at])))
        }
        _ => Ok(()),
    }
}

/// Writes a file under another name first, so that nothing half-written stands under the final one.
pub(crate) fn write_whole(path: &Path, parts: &[&[u8]]) -> Result<()> {
    let failed = |e: std::io::Error| Error::Input(format!("cannot write {}: {e}", path.display()));
    let mut name = path.file_name().map(std::ffi::OsStr::to_owned).unwrap_or_default();
    name.push(format!(".{}.part", std::process::id()));
    let part: PathBuf = path.with_file_name(name);
    let write = || {
        let mut f = File::create(&part)?;
        parts.iter().try_for_each(|p| f.write_all(p))?;
        f.sync_all()?;
        std::fs::rename(&part, path)
    };
    write().map_err(|e| {
        let _ = std::fs::remove_file(&part);
        failed(e)
    })
}
