//! Gives a shared library `$ORIGIN` as its search path, so that it finds what it needs beside itself.
//!
//! Nothing that is there moves: a new loaded segment at the end holds the program headers, the dynamic table with the
//! new entry, and a copy of its strings with the new one behind them.

const ORIGIN: &str = "$ORIGIN";
/// Pages of the machines that libraries run on have at most this size.
const PAGE: u64 = 64 << 10;
const PHDR: usize = 56;
const SHDR: usize = 64;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_PHDR: u32 = 6;
const READ_WRITE: u32 = 6;
const SHT_STRTAB: u32 = 3;
const SHT_DYNAMIC: u32 = 6;
const DT_NULL: u64 = 0;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

/// Whether a search path already begins beside the library.
pub(super) fn is_beside(runpath: Option<&str>) -> bool {
    runpath.is_some_and(|r| r.split(':').next().is_some_and(|p| p == ORIGIN || p == "${ORIGIN}"))
}

struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    in_file: u64,
    in_memory: u64,
    align: u64,
}

fn u16_at(b: &[u8], at: usize) -> Option<u64> {
    Some(u16::from_le_bytes(*b.get(at..)?.first_chunk()?).into())
}
fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*b.get(at..)?.first_chunk()?))
}
fn u64_at(b: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*b.get(at..)?.first_chunk()?))
}
fn part(b: &[u8], at: u64, bytes: u64) -> Option<&[u8]> {
    b.get(usize::try_from(at).ok()?..usize::try_from(at.checked_add(bytes)?).ok()?)
}

/// The library of these bytes with the search path, or nothing if they are no sound 64-bit little-endian library.
pub(super) fn set(file: &[u8]) -> Option<Vec<u8>> {
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (phoff, phnum) = (u64_at(file, 32)?, u16_at(file, 56)?);
    let mut segments = vec![];
    for h in part(file, phoff, phnum * PHDR as u64)?.chunks_exact(PHDR) {
        segments.push(Segment {
            kind: u32_at(h, 0)?,
            flags: u32_at(h, 4)?,
            offset: u64_at(h, 8)?,
            address: u64_at(h, 16)?,
            in_file: u64_at(h, 32)?,
            in_memory: u64_at(h, 40)?,
            align: u64_at(h, 48)?,
        });
    }
    let table = segments.iter().find(|s| s.kind == PT_DYNAMIC)?;
    let (old_dynamic, mut dynamic) = (table.address, vec![]);
    for d in part(file, table.offset, table.in_file)?.chunks_exact(16) {
        match (u64_at(d, 0)?, u64_at(d, 8)?) {
            (DT_NULL, _) => break,
            entry => dynamic.push(entry),
        }
    }
    let value = |tag| dynamic.iter().find(|d| d.0 == tag).map(|d| d.1);
    let (old_strings, size) = (value(DT_STRTAB)?, value(DT_STRSZ)?);
    let loads = || segments.iter().filter(|s| s.kind == PT_LOAD);
    let home = loads().find(|s| {
        let from = old_strings.checked_sub(s.address);
        from.and_then(|f| f.checked_add(size)).is_some_and(|to| to <= s.in_file)
    })?;
    let mut strings = part(file, home.offset + (old_strings - home.address), size)?.to_vec();
    let runpath = strings.len() as u64;
    strings.extend(ORIGIN.as_bytes());
    strings.push(0);

    let mut out = file.to_vec();
    out.resize(out.len().next_multiple_of(PAGE as usize), 0);
    let offset = out.len() as u64;
    let end = loads().map(|s| s.address.checked_add(s.in_memory)).collect::<Option<Vec<_>>>()?;
    let address = end.into_iter().max()?.checked_next_multiple_of(PAGE)?;
    dynamic.retain(|d| !matches!(d.0, DT_RPATH | DT_RUNPATH));
    dynamic.push((DT_RUNPATH, runpath));
    let headers = (phnum + 1) * PHDR as u64;
    let new_dynamic = address + headers.next_multiple_of(16);
    let dynamic_bytes = (dynamic.len() as u64 + 1) * 16;
    let new_strings = new_dynamic + dynamic_bytes;
    let bytes = new_strings + strings.len() as u64 - address;
    for d in &mut dynamic {
        match d.0 {
            DT_STRTAB => d.1 = new_strings,
            DT_STRSZ => d.1 = strings.len() as u64,
            _ => {}
        }
    }
    for s in &mut segments {
        let moved = match s.kind {
            PT_DYNAMIC => (new_dynamic, dynamic_bytes),
            PT_PHDR => (address, headers),
            _ => continue,
        };
        (s.address, s.offset) = (moved.0, moved.0 - address + offset);
        (s.in_file, s.in_memory) = (moved.1, moved.1);
    }
    // Loaded segments are in the order of their addresses.
    let last = segments.iter().rposition(|s| s.kind == PT_LOAD)?;
    let load =
        Segment { kind: PT_LOAD, flags: READ_WRITE, offset, address, in_file: bytes, in_memory: bytes, align: PAGE };
    segments.insert(last + 1, load);
    for s in &segments {
        out.extend(s.kind.to_le_bytes());
        out.extend(s.flags.to_le_bytes());
        out.extend([s.offset, s.address, s.address, s.in_file, s.in_memory, s.align].map(u64::to_le_bytes).concat());
    }
    let at = |address_of: u64| (offset + (address_of - address)) as usize;
    out.resize(at(new_dynamic), 0);
    for d in dynamic.iter().chain([&(DT_NULL, 0)]) {
        out.extend(d.0.to_le_bytes());
        out.extend(d.1.to_le_bytes());
    }
    out.extend(&strings);
    out[32..40].copy_from_slice(&offset.to_le_bytes());
    out[56..58].copy_from_slice(&(u16::try_from(segments.len()).ok()?).to_le_bytes());
    // For tools that read sections.
    let (shoff, shnum) = (u64_at(file, 40)?, u16_at(file, 60)?);
    for i in 0..shnum {
        let header = usize::try_from(shoff.checked_add(i * SHDR as u64)?).ok()?;
        let (kind, from) = (u32_at(file, header + 4)?, u64_at(file, header + 16)?);
        let (to, size) = match kind {
            SHT_STRTAB if from == old_strings => (new_strings, strings.len() as u64),
            SHT_DYNAMIC if from == old_dynamic => (new_dynamic, dynamic_bytes),
            _ => continue,
        };
        for (field, value) in [(16, to), (24, at(to) as u64), (32, size)] {
            out.get_mut(header + field..header + field + 8)?.copy_from_slice(&value.to_le_bytes());
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, path::Path, process::Command};

    /// Whether there is a C compiler.
    fn cc(dir: &Path, name: &str, source: &str, flags: &[&str]) -> bool {
        let file = dir.join(format!("{name}.c"));
        fs::write(&file, source).unwrap();
        let Ok(out) = Command::new("cc").current_dir(dir).arg(&file).arg("-o").arg(name).args(flags).output() else {
            eprintln!("skipped: there is no C compiler");
            return false;
        };
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        true
    }

    #[test]
    fn a_library_finds_its_neighbour() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let outer = "extern int inner(void); static __thread int t = 2; int (*f)(void) = inner;
                     int outer(void) { return f() + t; }";
        let ask = r#"
            #include <dlfcn.h>
            #include <stdio.h>
            int main(int n, char **a) {
                void *l = dlopen(a[1], RTLD_NOW);
                if (!l) { puts(dlerror()); return 1; }
                printf("%d\n", ((int (*)(void)) dlsym(l, "outer"))());
            }"#;
        let shared = ["-shared", "-fPIC"];
        for more in [&[][..], &["-Wl,-rpath,/nowhere"], &["-Wl,-z,noseparate-code", "-Wl,--hash-style=gnu"]] {
            let flags = [&shared[..], &["libinner.so"], more].concat();
            if !(cc(dir, "libinner.so", "int inner(void) { return 40; }", &shared)
                && cc(dir, "libouter.so", outer, &flags)
                && cc(dir, "ask", ask, &["-ldl"]))
            {
                return;
            }
            let said = || {
                let out = Command::new(dir.join("ask")).arg(dir.join("libouter.so")).output().unwrap();
                String::from_utf8(out.stdout).unwrap()
            };
            assert!(said().contains("libinner.so"), "{}", said());
            let path = dir.join("libouter.so");
            let new = set(&fs::read(&path).unwrap()).unwrap();
            fs::remove_file(&path).unwrap();
            fs::write(&path, &new).unwrap();
            assert_eq!(said(), "42\n");
            let elf = crate::elf::read(&path).unwrap();
            assert_eq!((elf.runpath.as_deref(), elf.needed[0].as_str()), (Some(ORIGIN), "libinner.so"));
            // Again: the same answer from a file that was rewritten before.
            fs::write(&path, set(&new).unwrap()).unwrap();
            assert_eq!(said(), "42\n");
            for at in (0..64).chain((0..new.len()).step_by(97)) {
                let mut bad = new.clone();
                bad[at] ^= 0xff;
                let _ = set(&bad);
                let _ = set(&new[..at]);
            }
        }
    }

    #[test]
    fn search_paths_that_begin_beside_the_library() {
        assert!(is_beside(Some("$ORIGIN:/x")) && is_beside(Some("${ORIGIN}")));
        assert!(!is_beside(None) && !is_beside(Some("/x:$ORIGIN")) && !is_beside(Some("$ORIGIN/../x")));
    }
}
