//! Reads tar archives that others wrote, and trusts nothing in them: names that leave the root, sizes without end and
//! broken headers are errors. Nothing is unpacked.

use crate::compress::hex;
use sha2::{Digest, Sha256};
use std::io::{self, Read};

/// Names longer than this are refused.
const MAX_NAME: u64 = 64 << 10;
/// An archive that unpacks to more than this is refused.
const MAX_UNPACKED: u64 = 1 << 40;

struct Counted<R> {
    inner: R,
    hash: Sha256,
    bytes: u64,
}
impl<R: Read> Read for Counted<R> {
    fn read(&mut self, b: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(b)?;
        self.hash.update(&b[..n]);
        self.bytes += n as u64;
        if self.bytes > MAX_UNPACKED {
            return Err(io::Error::other("unpacks to more than 1 TiB"));
        }
        Ok(n)
    }
}

/// An entry of an archive.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    /// A link, a device, a pipe.
    Other,
}

/// Reads a tar to its end, checks its names, shows each entry with its content to `visit`, and returns the SHA-256 of
/// it all.
pub(crate) fn walk(
    reader: impl Read,
    visit: &mut dyn FnMut(&Entry, &mut dyn Read) -> Result<(), String>,
) -> Result<String, String> {
    let mut r = Counted { inner: reader, hash: Sha256::new(), bytes: 0 };
    let (mut long_name, mut long_target) = (None, None);
    let mut pax_size = None;
    loop {
        let mut h = [0; 512];
        r.read_exact(&mut h).map_err(|e| format!("a tar that ends too early ({e})"))?;
        if h == [0; 512] {
            break;
        }
        let sum: u64 =
            h.iter().enumerate().map(|(i, b)| if (148..156).contains(&i) { 32 } else { u64::from(*b) }).sum();
        if number(&h[148..156]) != Some(sum) {
            return Err("a tar header with a wrong checksum".into());
        }
        let size = pax_size.take().or_else(|| number(&h[124..136])).ok_or("a tar header without a size")?;
        let kind = h[156];
        if matches!(kind, b'x' | b'g' | b'L' | b'K') {
            if size > MAX_NAME {
                return Err("a tar entry with a name that is too long".into());
            }
            let mut body = vec![0; size.next_multiple_of(512) as usize];
            r.read_exact(&mut body).map_err(|e| e.to_string())?;
            body.truncate(size as usize);
            match kind {
                b'L' => long_name = Some(text(&body)),
                b'K' => long_target = Some(text(&body)),
                b'x' => {
                    for (key, value) in pax(&body)? {
                        match key.as_str() {
                            "path" => long_name = Some(value),
                            "size" => pax_size = Some(value.parse().map_err(|_| "a pax size that is no number")?),
                            "linkpath" => long_target = Some(value),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
            continue;
        }
        let name = long_name.take().unwrap_or_else(|| {
            let (prefix, name) = (text(&h[345..500]), text(&h[..100]));
            if prefix.is_empty() || &h[257..263] != b"ustar\0" { name } else { format!("{prefix}/{name}") }
        });
        check_name(&name)?;
        // A hard link's target is a path in the archive; a symbolic link is followed inside the container alone.
        let target = long_target.take().unwrap_or_else(|| text(&h[157..257]));
        if kind == b'1' {
            check_name(&target)?;
        }
        // Links, devices and folders have no content, whatever their size field says.
        if !matches!(kind, b'1'..=b'6') {
            let padded = size.checked_next_multiple_of(512).ok_or("a tar entry of an absurd size")?;
            let before = r.bytes;
            let kind = if matches!(kind, b'0' | 0 | b'7') { Kind::File } else { Kind::Other };
            visit(&Entry { name: name.clone(), kind }, &mut (&mut r).take(size))?;
            let left = padded - (r.bytes - before);
            let skipped = io::copy(&mut (&mut r).take(left), &mut io::sink()).map_err(|e| e.to_string())?;
            if skipped != left {
                return Err(format!("`{name}` ends too early"));
            }
        } else {
            let kind = if kind == b'5' { Kind::Directory } else { Kind::Other };
            visit(&Entry { name, kind }, &mut io::empty())?;
        }
    }
    io::copy(&mut r, &mut io::sink()).map_err(|e| e.to_string())?;
    Ok(hex(&r.hash.finalize()))
}

/// The bytes before the first NUL.
fn text(field: &[u8]) -> String {
    let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

/// Octal, or big-endian with the top bit set (GNU).
fn number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        let (high, low) = field.split_at(field.len() - 8);
        let high_is_zero = high[0] & 0x7f == 0 && high[1..].iter().all(|b| *b == 0);
        return high_is_zero.then(|| u64::from_be_bytes(low.try_into().expect("8 bytes")));
    }
    let s = text(field);
    let s = s.trim();
    if s.is_empty() { Some(0) } else { u64::from_str_radix(s, 8).ok() }
}

fn pax(body: &[u8]) -> Result<Vec<(String, String)>, String> {
    let mut records = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        let bad = "a malformed pax header";
        let space = rest.iter().position(|b| *b == b' ').ok_or(bad)?;
        let length: usize = std::str::from_utf8(&rest[..space]).ok().and_then(|s| s.parse().ok()).ok_or(bad)?;
        if length <= space + 1 || length > rest.len() {
            return Err(bad.into());
        }
        let record = String::from_utf8_lossy(&rest[space + 1..length - 1]).into_owned();
        let (key, value) = record.split_once('=').ok_or(bad)?;
        records.push((key.to_string(), value.to_string()));
        rest = &rest[length..];
    }
    Ok(records)
}

fn check_name(name: &str) -> Result<(), String> {
    if name.split('/').any(|part| part == "..") {
        return Err(format!("`{}` leaves the root", name.escape_debug()));
    }
    Ok(())
}
