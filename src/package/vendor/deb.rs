//! Debian packages (`deb(5)`): an `ar` file with `control.tar` and `data.tar`, each perhaps compressed.

use super::unpack::Out;
use crate::{
    error::{At, PackageError},
    untar::{Kind, walk},
};
use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

const MAGIC: &[u8] = b"!<arch>\n";
const HEADER: usize = 60;
const LONGEST_CONTROL: u64 = 1 << 20;

pub(super) fn read(path: &Path, out: &mut Out) -> Result<(), PackageError> {
    let mut file = File::open(path).at("read", path)?;
    let mut magic = [0; 8];
    if file.read_exact(&mut magic).is_err() || magic != MAGIC {
        return Err(out.bad("not a .deb"));
    }
    let mut has_data = false;
    loop {
        let mut header = [0; HEADER];
        match file.read(&mut header).at("read", path)? {
            0 => break,
            n => file.read_exact(&mut header[n..]).map_err(|_| out.bad("it ends too early"))?,
        }
        let field = |r: std::ops::Range<usize>| String::from_utf8_lossy(&header[r]).trim().to_string();
        let name = field(0..16).trim_end_matches('/').to_string();
        let size: u64 = field(48..58).parse().map_err(|_| out.bad("a member without a size"))?;
        let start = file.stream_position().at("read", path)?;
        let member = Read::take(&mut file, size);
        if let Some(kind) = name.strip_prefix("control.tar") {
            control(&mut *decoder(kind, member).map_err(|e| out.bad(e))?, out)?;
        } else if let Some(kind) = name.strip_prefix("data.tar") {
            has_data = true;
            data(&mut *decoder(kind, member).map_err(|e| out.bad(e))?, out)?;
        }
        // Members start at even offsets.
        let next = start.checked_add(size).and_then(|e| e.checked_next_multiple_of(2));
        file.seek(SeekFrom::Start(next.ok_or_else(|| out.bad("a member of an absurd size"))?)).at("read", path)?;
    }
    if has_data { Ok(()) } else { Err(out.bad("it has no data.tar")) }
}

fn decoder<'a>(kind: &str, member: impl Read + 'a) -> Result<Box<dyn Read + 'a>, String> {
    Ok(match kind {
        "" => Box::new(member),
        ".gz" => Box::new(flate2::read::MultiGzDecoder::new(member)),
        ".zst" => Box::new(zstd::Decoder::new(member).map_err(|e| e.to_string())?),
        ".xz" => Box::new(liblzma::read::XzDecoder::new_multi_decoder(member)),
        other => return Err(format!("a member compressed as `{other}`, which is not known")),
    })
}

fn control(tar: &mut dyn Read, out: &mut Out) -> Result<(), PackageError> {
    let mut text = String::new();
    let read = walk(tar, &mut |entry, content| {
        if entry.name.trim_start_matches("./") == "control" {
            content.take(LONGEST_CONTROL).read_to_string(&mut text).map_err(|e| e.to_string())?;
        }
        Ok(())
    });
    read.map_err(|e| out.bad(format!("control.tar: {e}")))?;
    let field = |key: &str| text.lines().filter_map(|l| l.split_once(": ")).find(|(k, _)| *k == key).map(|(_, v)| v);
    out.name = field("Package").ok_or_else(|| out.bad("its control file has no Package"))?.trim().into();
    out.version = field("Version").unwrap_or_default().trim().into();
    Ok(())
}

/// Links are left out: a library is taken under its soname.
fn data(tar: &mut dyn Read, out: &mut Out) -> Result<(), PackageError> {
    let mut failed = None;
    let read = walk(tar, &mut |entry, content| {
        let name = entry.name.strip_prefix("./").unwrap_or(&entry.name);
        if entry.kind == Kind::File && Out::wants(name) {
            let done = out.check_name(name).and_then(|()| out.file(name, None, content));
            return done.map_err(|e| {
                failed = Some(e);
                String::new()
            });
        }
        Ok(())
    });
    match (failed, read) {
        (Some(e), _) => Err(e),
        (None, Err(e)) => Err(out.bad(format!("data.tar: {e}"))),
        (None, Ok(_)) => Ok(()),
    }
}
