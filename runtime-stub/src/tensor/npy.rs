//! Reads and writes .npy, versions 1 to 3 of the format, C order, little-endian.
//!
//! numpy has no names for the types that ml_dtypes adds; they are stored as it stores them: `<V2` for bf16, `|V1` for
//! 8-bit and smaller floats, `|i1` and `|u1` for narrow integers.

use super::{HostTensor, check_predicates, check_type, write_whole};
use crate::error::{Error, Result};
use std::{fs::File, io::Read, path::Path};
use zml_format::{DType, Tensor};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
const MOST_HEADER: usize = 1 << 16;

/// How a type is described when written, then what else is read as it.
fn descriptions(dtype: DType) -> &'static [&'static str] {
    use DType as D;
    match dtype {
        D::I1 => &["|b1", "?"],
        D::I8 => &["|i1", "<i1"],
        D::U8 => &["|u1", "<u1"],
        D::I2 | D::I4 => &["|i1", "<i1", "|V1", "<V1"],
        D::U2 | D::U4 => &["|u1", "<u1", "|V1", "<V1"],
        D::I16 => &["<i2"],
        D::I32 => &["<i4"],
        D::I64 => &["<i8"],
        D::U16 => &["<u2"],
        D::U32 => &["<u4"],
        D::U64 => &["<u8"],
        D::F16 => &["<f2"],
        D::BF16 => &["<V2", "|V2"],
        D::F32 => &["<f4"],
        D::F64 => &["<f8"],
        D::C64 => &["<c8"],
        D::C128 => &["<c16"],
        _ => &["|V1", "<V1", "|f1", "<f1"],
    }
}

fn bad(path: &Path, why: &str) -> Error {
    Error::Input(format!("{} is no valid .npy file: {why}", path.display()))
}
fn failed(path: &Path, e: &std::io::Error) -> Error {
    Error::Input(format!("cannot read {}: {e}", path.display()))
}

/// The header of a file, which is left at its values.
fn open(path: &Path) -> Result<(File, Header)> {
    let bad = |why: &str| bad(path, why);
    let mut file = File::open(path).map_err(|e| failed(path, &e))?;
    let mut start = [0; 8];
    file.read_exact(&mut start).map_err(|_| bad("it is shorter than 8 bytes"))?;
    if &start[..6] != MAGIC {
        return Err(bad("it does not start with \\x93NUMPY"));
    }
    let mut length = [0; 4];
    let width = if start[6] == 1 { 2 } else { 4 };
    if !(1..=3).contains(&start[6]) {
        return Err(bad(&format!("its version is {}", start[6])));
    }
    file.read_exact(&mut length[..width]).map_err(|_| bad("its header is cut"))?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MOST_HEADER {
        return Err(bad(&format!("its header would have {length} bytes")));
    }
    let mut header = vec![0; length];
    file.read_exact(&mut header).map_err(|_| bad("its header is cut"))?;
    let header = std::str::from_utf8(&header).map_err(|_| bad("its header is no text"))?;
    let header = Header::parse(header).map_err(|why| bad(&why))?;
    Ok((file, header))
}

/// The shape of the tensor in a file.
pub fn shape(path: &Path) -> Result<Vec<u64>> {
    Ok(open(path)?.1.shape)
}

/// The tensor in a file, which must be of the type of `expected`.
pub fn read(path: &Path, expected: &Tensor) -> Result<HostTensor> {
    let (file, h) = open(path)?;
    let what = path.display().to_string();
    check_type(&what, &h.description, &h.shape, descriptions(expected.dtype).contains(&&h.description[..]), expected)?;
    if h.fortran {
        return Err(bad(path, "its values are in Fortran order; save numpy.ascontiguousarray of it"));
    }
    let mut bytes = vec![];
    file.take(expected.bytes() + 1).read_to_end(&mut bytes).map_err(|e| failed(path, &e))?;
    if bytes.len() as u64 != expected.bytes() {
        return Err(bad(path, &format!("its values should have {} bytes", expected.bytes())));
    }
    check_predicates(&what, expected.dtype, &bytes)?;
    Ok(HostTensor { dtype: expected.dtype, shape: expected.shape.clone(), bytes })
}

#[derive(Debug, PartialEq)]
struct Header {
    description: String,
    fortran: bool,
    shape: Vec<u64>,
}

impl Header {
    /// A Python dictionary with the keys `descr`, `fortran_order` and `shape`, as numpy prints it.
    fn parse(text: &str) -> Result<Self, String> {
        let body =
            text.trim().strip_prefix('{').and_then(|t| t.strip_suffix('}')).ok_or("its header is no dictionary")?;
        let after = |key: &str| {
            let quoted = [format!("'{key}':"), format!("\"{key}\":")];
            let found = quoted.iter().find_map(|q| Some(body.split_once(q.as_str())?.1.trim_start()));
            found.ok_or_else(|| format!("its header has no `{key}`"))
        };
        let description = after("descr")?;
        let quote = description.chars().next().filter(|c| "'\"".contains(*c));
        let quote = quote.ok_or("its values are records, not numbers")?;
        let (description, _) = description[1..].split_once(quote).ok_or("its `descr` has no end")?;
        let fortran = after("fortran_order")?;
        let fortran = match (fortran.starts_with("True"), fortran.starts_with("False")) {
            (true, _) => true,
            (_, true) => false,
            _ => return Err("its `fortran_order` is neither True nor False".into()),
        };
        let shape = after("shape")?.strip_prefix('(').and_then(|t| t.split_once(')'));
        let (shape, _) = shape.ok_or("its `shape` is no tuple")?;
        let sizes = shape.split(',').map(str::trim).filter(|s| !s.is_empty());
        let shape: Result<Vec<u64>, _> = sizes.map(str::parse).collect();
        let shape = shape.map_err(|_| "its `shape` has something that is no size")?;
        Ok(Header { description: description.into(), fortran, shape })
    }
}

/// Writes version 1, which every numpy reads.
pub fn write(path: &Path, t: &HostTensor) -> Result<()> {
    let sizes: String = t.shape.iter().map(|d| format!("{d}, ")).collect();
    // Python's own way to print tuples: (2, 3), (2,), ().
    let shape = if t.shape.len() == 1 { sizes.trim_end() } else { sizes.trim_end_matches(", ") };
    let mut header =
        format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({shape}), }}", descriptions(t.dtype)[0]);
    // The values start at a multiple of 64; a newline ends the header.
    let before = MAGIC.len() + 4;
    let pad = (before + header.len() + 1).next_multiple_of(64) - before - header.len() - 1;
    header += &" ".repeat(pad);
    header.push('\n');
    let length = u16::try_from(header.len());
    let length = length.map_err(|_| Error::Input(format!("{} dimensions are too many for .npy", t.shape.len())))?;
    write_whole(path, &[MAGIC, &[1, 0], &length.to_le_bytes(), header.as_bytes(), &t.bytes])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_as_numpy_prints_them() {
        let h = |t: &str| Header::parse(t);
        let ok = h("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }    \n").unwrap();
        assert_eq!(ok, Header { description: "<f4".into(), fortran: false, shape: vec![2, 3] });
        assert_eq!(h("{'descr': '|b1', 'fortran_order': True, 'shape': (5,), }\n").unwrap().shape, [5]);
        assert_eq!(h("{\"shape\": (), \"descr\": \"<i8\", \"fortran_order\": False}").unwrap().shape, [0u64; 0]);
        for (text, why) in [
            ("", "no dictionary"),
            ("{}", "no `descr`"),
            ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", "records"),
            ("{'descr': '<f4, 'fortran_order': 0, 'shape': (2,)}", "neither True nor False"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (2,}", "no tuple"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", "no size"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "no size"),
        ] {
            assert!(h(text).unwrap_err().contains(why), "{text}");
        }
    }
}
