//! What the dynamic linker would read of an executable or library: machine, interpreter, soname, needed libraries.

use crate::error::{At, PackageError};
use object::{
    LittleEndian, ReadCache, elf,
    read::elf::{ElfFile64, FileHeader, ProgramHeader},
};
use std::{fs::File, path::Path};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    X86_64,
    Aarch64,
}
impl Machine {
    /// Where Debian keeps libraries of this machine.
    pub(crate) fn triplet(self) -> &'static str {
        match self {
            Machine::X86_64 => "x86_64-linux-gnu",
            Machine::Aarch64 => "aarch64-linux-gnu",
        }
    }
    /// The image spec's (Go's) name of the architecture.
    pub(crate) fn oci(self) -> &'static str {
        match self {
            Machine::X86_64 => "amd64",
            Machine::Aarch64 => "arm64",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Elf {
    pub(crate) machine: Machine,
    /// The dynamic linker's path, for an executable that has one.
    pub(crate) interpreter: Option<String>,
    pub(crate) needed: Vec<String>,
    pub(crate) soname: Option<String>,
    /// `DT_RUNPATH`, or else `DT_RPATH`.
    pub(crate) runpath: Option<String>,
}

pub(crate) fn read(path: &Path) -> Result<Elf, PackageError> {
    let bad = |reason: String| PackageError::NotElf { path: path.into(), reason };
    let cache = ReadCache::new(File::open(path).at("read", path)?);
    let file = ElfFile64::<LittleEndian, _>::parse(&cache).map_err(|e| bad(e.to_string()))?;
    let endian = file.endian();
    let machine = match file.elf_header().e_machine(endian) {
        elf::EM_X86_64 => Machine::X86_64,
        elf::EM_AARCH64 => Machine::Aarch64,
        other => return Err(bad(format!("for machine {other:?}; x86-64 and aarch64 are known"))),
    };
    let text = |b: &[u8]| String::from_utf8(b.to_vec()).map_err(|_| bad("a name that is not UTF-8".into()));
    let mut interpreter = None;
    for header in file.elf_program_headers() {
        if let Some(i) = header.interpreter(endian, &cache).map_err(|e| bad(e.to_string()))? {
            interpreter = Some(text(i)?);
        }
    }
    let table = file.elf_dynamic_table().map_err(|e| bad(e.to_string()))?;
    let strings = |tag| -> Result<Vec<String>, PackageError> {
        let entries = table.iter().filter(|e| e.tag == tag);
        entries.map(|e| text(table.string(e).map_err(|e| bad(e.to_string()))?)).collect()
    };
    let needed = strings(elf::DT_NEEDED)?;
    let soname = strings(elf::DT_SONAME)?.pop();
    let runpath = strings(elf::DT_RUNPATH)?.pop().map_or_else(|| Ok(strings(elf::DT_RPATH)?.pop()), |r| Ok(Some(r)))?;
    Ok(Elf { machine, interpreter, needed, soname, runpath })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_an_elf() {
        let e = read(&std::env::current_exe().unwrap()).unwrap();
        assert!(e.interpreter.unwrap().contains("ld-linux"));
        assert!(e.needed.iter().any(|n| n == "libc.so.6"), "{:?}", e.needed);
    }

    #[test]
    fn what_is_not_an_elf_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        for bytes in [&b""[..], b"#!/bin/sh\n", b"\x7fELF", &[0; 4096]] {
            let path = dir.path().join("f");
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(read(&path).unwrap_err().code(), "E1205");
        }
    }
}
