//! Python wheels (PEP 427): zip files with a `.dist-info/METADATA`.

use super::unpack::Out;
use crate::error::{At, PackageError};
use std::{fs::File, io::Read, path::Path};

/// `METADATA` with a description is seldom over 100 KB.
const LONGEST_METADATA: u64 = 4 << 20;

pub(super) fn read(path: &Path, out: &mut Out) -> Result<(), PackageError> {
    let file = File::open(path).at("read", path)?;
    let mut archive = zip::ZipArchive::new(file).map_err(|e| out.bad(format!("not a wheel: {e}")))?;
    // All names before the first byte is written.
    let mut wanted = vec![];
    for i in 0..archive.len() {
        let entry = archive.by_index_raw(i).map_err(|e| out.bad(e.to_string()))?;
        let name = entry.name().map_err(|e| out.bad(format!("not a wheel: {e}")))?.into_owned();
        out.check_name(&name)?;
        if entry.is_symlink() {
            return Err(out.bad(format!("`{}` is a link, which a wheel cannot have", name.escape_debug())));
        }
        if !entry.is_dir() && (Out::wants(&name) || is_metadata(&name)) {
            wanted.push((i, name));
        }
    }
    for (i, name) in wanted {
        let mut entry = archive.by_index(i).map_err(|e| out.bad(format!("`{}`: {e}", name.escape_debug())))?;
        if is_metadata(&name) {
            let mut text = String::new();
            let read = (&mut entry).take(LONGEST_METADATA).read_to_string(&mut text);
            read.map_err(|e| out.bad(format!("`{name}`: {e}")))?;
            let field = |key: &str| {
                let head = text.lines().take_while(|l| !l.is_empty());
                head.filter_map(|l| l.split_once(": ")).find(|(k, _)| *k == key).map(|(_, v)| v.trim().to_string())
            };
            out.name = field("Name").ok_or_else(|| out.bad("its METADATA has no Name"))?;
            out.version = field("Version").unwrap_or_default();
            out.licence = field("License-Expression").or_else(|| field("License")).unwrap_or_default();
        } else {
            let size = entry.size();
            out.file(&name, Some(size), &mut entry)?;
        }
    }
    Ok(())
}

fn is_metadata(name: &str) -> bool {
    name.strip_suffix("/METADATA").is_some_and(|d| d.ends_with(".dist-info") && !d.contains('/'))
}
