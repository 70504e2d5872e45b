//! Compressors with fixed bytes, and the hash of what goes through a writer.
//!
//! zstd runs at level 3 with at least one worker: its multi-threaded path gives the same bytes for any number of
//! workers, but others than the single-threaded one.

use sha2::{Digest, Sha256};
use std::io::{self, Write};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compression {
    #[default]
    Zstd,
    Gzip,
    None,
}

const LEVEL: i32 = 3;
const MAX_WORKERS: usize = 4;

pub(crate) enum Encoder<W: Write> {
    Zstd(zstd::Encoder<'static, W>),
    Gzip(flate2::write::GzEncoder<W>),
    Plain(W),
}
impl<W: Write> Encoder<W> {
    pub(crate) fn new(kind: Compression, out: W) -> io::Result<Self> {
        Ok(match kind {
            Compression::Zstd => {
                let mut e = zstd::Encoder::new(out, LEVEL)?;
                e.include_checksum(true)?;
                e.multithread(workers())?;
                Encoder::Zstd(e)
            }
            // GzBuilder's defaults: no name, time 0.
            Compression::Gzip => Encoder::Gzip(flate2::GzBuilder::new().write(out, flate2::Compression::new(6))),
            Compression::None => Encoder::Plain(out),
        })
    }
    pub(crate) fn finish(self) -> io::Result<W> {
        match self {
            Encoder::Zstd(e) => e.finish(),
            Encoder::Gzip(e) => e.finish(),
            Encoder::Plain(w) => Ok(w),
        }
    }
}
impl<W: Write> Write for Encoder<W> {
    fn write(&mut self, b: &[u8]) -> io::Result<usize> {
        match self {
            Encoder::Zstd(e) => e.write(b),
            Encoder::Gzip(e) => e.write(b),
            Encoder::Plain(w) => w.write(b),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Encoder::Zstd(e) => e.flush(),
            Encoder::Gzip(e) => e.flush(),
            Encoder::Plain(w) => w.flush(),
        }
    }
}

fn workers() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get().min(MAX_WORKERS)) as u32
}

/// Passes bytes on, counts and hashes them.
pub(crate) struct Hashed<W> {
    out: W,
    hash: Sha256,
    bytes: u64,
}
impl<W: Write> Hashed<W> {
    pub(crate) fn new(out: W) -> Self {
        Hashed { out, hash: Sha256::new(), bytes: 0 }
    }
    /// The writer, SHA-256 in lower-case hex, and bytes.
    pub(crate) fn finish(self) -> (W, String, u64) {
        (self.out, hex(&self.hash.finalize()), self.bytes)
    }
}
impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, b: &[u8]) -> io::Result<usize> {
        let n = self.out.write(b)?;
        self.hash.update(&b[..n]);
        self.bytes += n as u64;
        Ok(n)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

pub(crate) fn hex(b: &[u8]) -> String {
    use std::fmt::Write;
    b.iter().fold(String::new(), |mut s, x| {
        let _ = write!(s, "{x:02x}");
        s
    })
}

/// A zstd frame of raw blocks (RFC 8878, 3.1.1): for large weights, which do not shrink and are to be read back at the
/// speed of a copy. It may follow another frame in the same file.
pub(crate) struct Stored<W: Write> {
    out: W,
    block: Vec<u8>,
}
const BLOCK: usize = 128 << 10;
impl<W: Write> Stored<W> {
    pub(crate) fn new(mut out: W) -> io::Result<Self> {
        // Magic; descriptor 0: no content size, no checksum, a window descriptor follows; window 128 KiB = 2^(10 + 7).
        out.write_all(&[0x28, 0xB5, 0x2F, 0xFD, 0x00, 7 << 3])?;
        Ok(Stored { out, block: Vec::with_capacity(BLOCK) })
    }
    fn emit(&mut self, last: bool) -> io::Result<()> {
        // Block header: bit 0 last, bits 1-2 type 0 (raw), then the size.
        let header = (self.block.len() as u32) << 3 | u32::from(last);
        self.out.write_all(&header.to_le_bytes()[..3])?;
        self.out.write_all(&self.block)?;
        self.block.clear();
        Ok(())
    }
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.emit(true)?;
        Ok(self.out)
    }
}
impl<W: Write> Write for Stored<W> {
    fn write(&mut self, b: &[u8]) -> io::Result<usize> {
        if self.block.len() == BLOCK {
            self.emit(false)?;
        }
        let n = b.len().min(BLOCK - self.block.len());
        self.block.extend_from_slice(&b[..n]);
        Ok(n)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_frames_follow_compressed_ones() {
        let data: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
        for n in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, data.len()] {
            let mut first = Encoder::new(Compression::Zstd, Vec::new()).unwrap();
            first.write_all(b"first").unwrap();
            let mut second = Stored::new(first.finish().unwrap()).unwrap();
            second.write_all(&data[..n]).unwrap();
            let bytes = second.finish().unwrap();
            let expected = [b"first", &data[..n]].concat();
            assert_eq!(zstd::decode_all(&bytes[..]).unwrap(), expected, "{n} bytes");
        }
    }

    #[test]
    fn workers_do_not_change_the_bytes() {
        let data: Vec<u8> = (0..4_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 27) as u8).collect();
        let with = |n| {
            let mut e = zstd::Encoder::new(Vec::new(), LEVEL).unwrap();
            e.include_checksum(true).unwrap();
            e.multithread(n).unwrap();
            e.write_all(&data).unwrap();
            e.finish().unwrap()
        };
        let one = with(1);
        assert!(one == with(2) && one == with(4));
        let mut e = Encoder::new(Compression::Zstd, Vec::new()).unwrap();
        e.write_all(&data).unwrap();
        assert!(one == e.finish().unwrap());
    }

    #[test]
    fn hashes_what_passes() {
        let mut h = Hashed::new(Vec::new());
        h.write_all(b"abc").unwrap();
        let (out, digest, bytes) = h.finish();
        // FIPS 180-2, appendix B.1.
        assert_eq!(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!((out.as_slice(), bytes), (&b"abc"[..], 3));
    }
}
