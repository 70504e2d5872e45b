//! Reads and writes safetensors: 8 bytes of header length, a JSON header, then the values.
//!
//! Everything in a header is checked before it is believed. Types that the format has no name for are stored as the
//! integers of their bytes: `i4` as `I8`, `ui4` and the rarer 8-bit floats as `U8`, complex numbers as floats with a
//! last dimension of 2 (`C64` is read too).

use super::{HostTensor, check_predicates, check_type, write_whole};
use crate::error::{Error, Result};
use std::{
    collections::BTreeMap,
    fs::File,
    io::Read,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};
use zml_format::{DType, Tensor};

/// As in the format's own library.
const MOST_HEADER: u64 = 100_000_000;

/// An open file whose header was read and checked.
#[derive(Debug)]
pub struct SafeTensors {
    path: PathBuf,
    file: File,
    entries: BTreeMap<String, Entry>,
    data: u64,
}

/// One tensor of a file, in the file's own terms.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
pub struct Entry {
    pub dtype: String,
    pub shape: Vec<u64>,
    /// Begin and end in the data.
    data_offsets: [u64; 2],
}
impl Entry {
    pub fn bytes(&self) -> u64 {
        self.data_offsets[1] - self.data_offsets[0]
    }
    /// Whether the values are what `expected` means; shapes with a last dimension for complex numbers count as equal.
    fn is(&self, expected: &Tensor) -> bool {
        let (name, complex) = stored(expected.dtype);
        let native = expected.dtype == DType::C64 && self.dtype == "C64";
        let shape = if complex && !native { [&expected.shape[..], &[2]].concat() } else { expected.shape.clone() };
        (self.dtype == name || native) && self.shape == shape
    }
}

/// The format's name for a type, and whether it gets a last dimension of 2.
fn stored(dtype: DType) -> (&'static str, bool) {
    use DType as D;
    match dtype {
        D::I1 => ("BOOL", false),
        D::I2 | D::I4 | D::I8 => ("I8", false),
        D::I16 => ("I16", false),
        D::I32 => ("I32", false),
        D::I64 => ("I64", false),
        D::U16 => ("U16", false),
        D::U32 => ("U32", false),
        D::U64 => ("U64", false),
        D::F8E4M3FN => ("F8_E4M3", false),
        D::F8E5M2 => ("F8_E5M2", false),
        D::F8E8M0FNU => ("F8_E8M0", false),
        D::BF16 => ("BF16", false),
        D::F16 => ("F16", false),
        D::F32 => ("F32", false),
        D::F64 => ("F64", false),
        D::C64 => ("F32", true),
        D::C128 => ("F64", true),
        D::U2 | D::U4 | D::U8 | D::F4E2M1FN | D::F6E2M3FN | D::F6E3M2FN => ("U8", false),
        D::F8E3M4 | D::F8E4M3 | D::F8E4M3B11FNUZ | D::F8E4M3FNUZ | D::F8E5M2FNUZ => ("U8", false),
    }
}

/// Bytes of one value; none for types of which several share a byte.
fn width(dtype: &str) -> Option<u64> {
    Some(match dtype {
        "BOOL" | "U8" | "I8" | "F8_E4M3" | "F8_E5M2" | "F8_E8M0" => 1,
        "U16" | "I16" | "F16" | "BF16" => 2,
        "U32" | "I32" | "F32" => 4,
        "U64" | "I64" | "F64" | "C64" => 8,
        _ => return None,
    })
}

impl SafeTensors {
    pub fn open(path: &Path) -> Result<Self> {
        let read = |e: std::io::Error| Error::Input(format!("cannot read {}: {e}", path.display()));
        let bad = |why: &str| Error::Input(format!("{} is no valid safetensors file: {why}", path.display()));
        let mut file = File::open(path).map_err(read)?;
        let meta = file.metadata().map_err(read)?;
        if !meta.is_file() {
            return Err(bad("it is no regular file"));
        }
        let mut length = [0; 8];
        file.read_exact(&mut length).map_err(|_| bad("it is shorter than 8 bytes"))?;
        let length = u64::from_le_bytes(length);
        if length > MOST_HEADER || length > meta.len() - 8 {
            return Err(bad(&format!("its header would have {length} bytes")));
        }
        let mut header = vec![0; length as usize];
        file.read_exact(&mut header).map_err(read)?;
        let header: BTreeMap<String, serde_json::Value> =
            serde_json::from_slice(&header).map_err(|e| bad(&format!("its header is not JSON of that kind: {e}")))?;
        let available = meta.len() - 8 - length;
        let mut entries = BTreeMap::new();
        for (name, value) in header {
            if name == "__metadata__" {
                continue;
            }
            let e: Entry = serde_json::from_value(value).map_err(|e| bad(&format!("tensor `{name}`: {e}")))?;
            check_entry(&e, available).map_err(|why| bad(&format!("tensor `{name}`: {why}")))?;
            entries.insert(name, e);
        }
        Ok(SafeTensors { path: path.to_owned(), file, entries, data: 8 + length })
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }
    /// Fills `to` with bytes of a tensor from `offset` on.
    pub fn read_at(&self, e: &Entry, offset: u64, to: &mut [u8]) -> Result<()> {
        let at = self.data + e.data_offsets[0] + offset;
        self.file.read_exact_at(to, at).map_err(|e| Error::Input(format!("cannot read {}: {e}", self.path.display())))
    }
    /// The shape of a tensor, read as one of type `dtype`.
    pub fn shape(&self, key: &str, dtype: DType) -> Option<Vec<u64>> {
        let e = self.entry(key)?;
        let mut shape = e.shape.clone();
        if stored(dtype) == (&e.dtype[..], true) && shape.last() == Some(&2) {
            shape.pop();
        }
        Some(shape)
    }
    /// What is said of a tensor that is not there.
    pub fn absent(&self, key: &str) -> Error {
        let mut names: Vec<_> = self.names().take(20).collect();
        if self.entries.len() > names.len() {
            names.push("...");
        }
        let names = names.join(", ");
        Error::Input(format!("{} has no tensor `{key}`; it has: {names}", self.path.display()))
    }
    /// Whether the tensor has the type and shape of `expected`, or what it has.
    pub fn check(&self, key: &str, expected: &Tensor) -> Result<&Entry> {
        let e = self.entry(key).ok_or_else(|| self.absent(key))?;
        let what = format!("`{key}` of {}", self.path.display());
        let fits = e.is(expected);
        let shape = if fits { &expected.shape } else { &e.shape };
        check_type(&what, &e.dtype, shape, fits, expected)?;
        Ok(e)
    }
    /// The tensor `key`, which must be of the type of `expected`.
    pub fn read(&self, key: &str, expected: &Tensor) -> Result<HostTensor> {
        let e = self.check(key, expected)?;
        let mut bytes = vec![0; e.bytes() as usize];
        self.read_at(e, 0, &mut bytes)?;
        check_predicates(&format!("`{key}` of {}", self.path.display()), expected.dtype, &bytes)?;
        Ok(HostTensor { dtype: expected.dtype, shape: expected.shape.clone(), bytes })
    }
}

fn check_entry(e: &Entry, available: u64) -> Result<(), String> {
    let [begin, end] = e.data_offsets;
    if begin > end || end > available {
        return Err(format!("its bytes {begin} to {end} are not in the file, whose data has {available}"));
    }
    let elements = e.shape.iter().try_fold(1u64, |n, d| n.checked_mul(*d));
    if let Some(width) = width(&e.dtype)
        && elements.and_then(|n| n.checked_mul(width)) != Some(end - begin)
    {
        return Err(format!("{} {:?} does not take {} bytes", e.dtype, e.shape, end - begin));
    }
    Ok(())
}

/// Writes tensors under their names.
pub fn write(path: &Path, tensors: &[(&str, &HostTensor)]) -> Result<()> {
    let mut header = serde_json::Map::new();
    let mut at = 0;
    for (name, t) in tensors {
        let (dtype, complex) = stored(t.dtype);
        let shape = if complex { [&t.shape[..], &[2]].concat() } else { t.shape.clone() };
        let end = at + t.bytes.len();
        let entry = serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": [at, end]});
        if header.insert((*name).to_owned(), entry).is_some() {
            return Err(Error::Input(format!("two tensors for {} are called `{name}`", path.display())));
        }
        at = end;
    }
    let mut text = serde_json::Value::Object(header).to_string();
    // Values start at a multiple of 8, as the format's own library has it.
    text.push_str(&" ".repeat(text.len().next_multiple_of(8) - text.len()));
    let length = (text.len() as u64).to_le_bytes();
    let values = tensors.iter().map(|(_, t)| &t.bytes[..]);
    let parts: Vec<&[u8]> = [&length[..], text.as_bytes()].into_iter().chain(values).collect();
    write_whole(path, &parts)
}
