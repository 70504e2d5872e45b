//! Unpacks a tar of test programs, whichever of the usual ways it is compressed in.

use anyhow::{Context, Result, bail};
use std::{
    fs::File,
    io::{BufReader, Read, Seek},
    path::Path,
};

/// Writes the regular files of an archive below `into`. Links and paths that lead out of it are refused or left out.
pub fn unpack(path: &Path, into: &Path) -> Result<()> {
    let reader = open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut archive = tar::Archive::new(reader);
    archive.set_preserve_permissions(false);
    for entry in archive.entries().with_context(|| format!("{} is not a tar", path.display()))? {
        let mut entry = entry.with_context(|| format!("{} is damaged", path.display()))?;
        if entry.header().entry_type().is_file() || entry.header().entry_type().is_dir() {
            entry.unpack_in(into).with_context(|| format!("cannot unpack {}", path.display()))?;
        }
    }
    Ok(())
}

/// By what the file begins with: names may say anything.
fn open(path: &Path) -> Result<Box<dyn Read>> {
    let mut file = File::open(path)?;
    let mut head = [0; 262];
    let mut n = 0;
    while n < head.len() {
        match file.read(&mut head[n..])? {
            0 => break,
            more => n += more,
        }
    }
    file.rewind()?;
    let file = BufReader::new(file);
    Ok(match &head[..n] {
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Box::new(lzma_rust2::XzReader::new(file, true)),
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(file)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::Decoder::new(file)?),
        h if h.get(257..262) == Some(b"ustar") => Box::new(file),
        _ => bail!("neither a tar nor a compressed one (gzip, xz, zstd)"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn tarball() -> Vec<u8> {
        let mut b = tar::Builder::new(vec![]);
        let mut h = tar::Header::new_gnu();
        h.set_size(3);
        h.set_mode(0o644);
        b.append_data(&mut h, "suite/a.mlir", &b"abc"[..]).unwrap();
        let mut h = tar::Header::new_gnu();
        h.set_entry_type(tar::EntryType::Symlink);
        h.set_size(0);
        b.append_link(&mut h, "suite/link", "/etc/passwd").unwrap();
        b.into_inner().unwrap()
    }

    #[test]
    fn every_compression_and_no_links() {
        let plain = tarball();
        let mut gz = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        gz.write_all(&plain).unwrap();
        let mut xz = lzma_rust2::XzWriter::new(vec![], lzma_rust2::XzOptions::with_preset(1)).unwrap();
        xz.write_all(&plain).unwrap();
        let zst = zstd::encode_all(&plain[..], 1).unwrap();
        for (i, bytes) in [plain, gz.finish().unwrap(), xz.finish().unwrap(), zst].into_iter().enumerate() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("t");
            std::fs::write(&path, bytes).unwrap();
            let out = dir.path().join("out");
            std::fs::create_dir(&out).unwrap();
            unpack(&path, &out).unwrap_or_else(|e| panic!("{i}: {e:#}"));
            assert_eq!(std::fs::read(out.join("suite/a.mlir")).unwrap(), b"abc", "{i}");
            assert!(!out.join("suite/link").exists());
        }
    }

    #[test]
    fn what_is_no_archive_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        std::fs::write(&path, "hello").unwrap();
        assert!(format!("{:#}", unpack(&path, dir.path()).unwrap_err()).contains("neither a tar"));
    }
}
