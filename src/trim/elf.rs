//! The ELF file around the fat binaries: finds sections, and leaves ranges of zeros out of the file by splitting the
//! loaded segments around them, so that the loader maps zero pages there. Symbols and debug information that are not
//! loaded go too. Addresses do not change.

use crate::bytes::{Ranges, u16_at, u32_at, u64_at, usize_at};
use std::ops::Range;

const EHDR: usize = 64;
const PHDR: usize = 56;
const SHDR: usize = 64;
const PT_NULL: u32 = 0;
const PT_LOAD: u32 = 1;
const PT_PHDR: u32 = 6;
const SHT_NOBITS: u32 = 8;
const SHF_ALLOC: u64 = 2;
/// Pages of the machines that these libraries run on have at most this size.
const PAGE_X86: usize = 4 << 10;
const PAGE_ARM: usize = 64 << 10;
/// Shorter ranges are not worth a mapping of their own.
const LEAST: usize = 64 << 10;

#[derive(Clone, Copy, Debug)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: usize,
    address: usize,
    in_file: usize,
    in_memory: usize,
    align: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) name: String,
    kind: u32,
    flags: u64,
    pub(crate) offset: usize,
    pub(crate) size: usize,
    align: usize,
}

impl Section {
    /// Symbols and debug information that no loader reads.
    fn is_for_debuggers(&self) -> bool {
        self.flags & SHF_ALLOC == 0
            && (self.name.starts_with(".debug_") || [".symtab", ".strtab"].contains(&self.name.as_str()))
    }
}

pub(crate) struct Elf {
    segments: Vec<Segment>,
    pub(crate) sections: Vec<Section>,
    /// Offset of the section headers.
    headers: usize,
    page: usize,
}

/// Bytes of the old file and where they go in the new one.
struct Chunk {
    old: Range<usize>,
    new: usize,
}

impl Elf {
    pub(crate) fn parse(file: &[u8]) -> Result<Elf, String> {
        let truncated = || "it is truncated or damaged".to_string();
        if !file.starts_with(b"\x7fELF") {
            return Err("not an ELF file".into());
        }
        if file.get(4..6) != Some(&[2, 1]) {
            return Err("not a 64-bit little-endian ELF file".into());
        }
        let page = match u16_at(file, 18) {
            Some(62) => PAGE_X86,
            Some(183) => PAGE_ARM,
            _ => return Err("neither for x86-64 nor for aarch64".into()),
        };
        let read = || {
            let (phoff, phnum) = (usize_at(file, 32)?, u16_at(file, 56)? as usize);
            let (shoff, shnum) = (usize_at(file, 40)?, u16_at(file, 60)? as usize);
            let segments: Option<Vec<Segment>> =
                (0..phnum).map(|i| segment(file, phoff.checked_add(i * PHDR)?)).collect();
            let mut sections = Vec::new();
            let names = if shnum > 0 {
                usize_at(file, shoff.checked_add(u16_at(file, 62)? as usize * SHDR)?.checked_add(24)?)?
            } else {
                0
            };
            for i in 0..shnum {
                sections.push(section(file, shoff.checked_add(i * SHDR)?, names)?);
            }
            Some(Elf { segments: segments?, sections, headers: shoff, page })
        };
        let elf = read().ok_or_else(truncated)?;
        // Each byte of a file is in one segment or section, pages shared at an edge apart.
        let loaded = elf.segments.iter().filter(|s| s.kind == PT_LOAD).map(|s| s.in_file as u128);
        let other = elf.sections.iter().filter(|s| s.kind != SHT_NOBITS && s.flags & SHF_ALLOC == 0);
        if loaded.chain(other.map(|s| s.size as u128)).sum::<u128>() > 2 * file.len() as u128 {
            return Err("its segments or sections overlap".into());
        }
        Ok(elf)
    }

    /// The file without those pages of `zeros` that lie in loaded segments, and without symbols for debuggers.
    pub(crate) fn without(&self, file: &[u8], zeros: &Ranges) -> Vec<u8> {
        let zeros: Vec<_> = zeros.sorted().into_iter().filter(|r| r.len() >= LEAST).collect();
        if zeros.is_empty() && !self.sections.iter().any(Section::is_for_debuggers) {
            return file.to_vec();
        }
        let mut out = Vec::new();
        let mut chunks = Vec::new();
        let mut table = Vec::new();
        for s in &self.segments {
            if s.kind == PT_LOAD {
                self.split(*s, &zeros, file, &mut out, &mut chunks, &mut table);
            } else {
                table.push(*s);
            }
        }
        let unloaded = |s: &&Section| s.flags & SHF_ALLOC == 0 && s.kind != SHT_NOBITS && !s.is_for_debuggers();
        for s in self.sections.iter().filter(unloaded) {
            out.resize(out.len().next_multiple_of(s.align.clamp(1, 64)), 0);
            chunks.push(Chunk { old: s.offset..s.offset + s.size, new: out.len() });
            out.extend_from_slice(&file[s.offset..s.offset + s.size]);
        }
        for s in &mut table {
            match s.kind {
                PT_LOAD => {}
                // The table is no longer in a loaded segment.
                PT_PHDR => s.kind = PT_NULL,
                _ => s.offset = place(&chunks, s.offset).unwrap_or(0),
            }
        }
        self.finish(file, out, &chunks, &table)
    }

    /// Writes a loaded segment as pieces between the zeros.
    fn split(
        &self,
        s: Segment,
        zeros: &[Range<usize>],
        file: &[u8],
        out: &mut Vec<u8>,
        chunks: &mut Vec<Chunk>,
        table: &mut Vec<Segment>,
    ) {
        let end = s.offset + s.in_file;
        let mut from = s.offset;
        // A piece starts at a page of memory, which is one of the file too: both differ by a multiple of the page size.
        let mut piece = |from: usize, to: usize, memory: usize| {
            let address = s.address + (from - s.offset);
            let behind = (address % self.page + self.page - out.len() % self.page) % self.page;
            out.resize(out.len() + behind, 0);
            chunks.push(Chunk { old: from..to, new: out.len() });
            table.push(Segment {
                offset: out.len(),
                address,
                in_file: to - from,
                in_memory: memory,
                align: self.page,
                ..s
            });
            out.extend_from_slice(&file[from..to]);
        };
        let shift = s.address.wrapping_sub(s.offset) % self.page;
        let page_up = |at: usize| (at + shift).next_multiple_of(self.page) - shift;
        let page_down = |at: usize| ((at + shift) / self.page * self.page).saturating_sub(shift);
        for z in zeros.iter().filter(|z| z.start > s.offset && z.end <= end) {
            let (a, b) = (page_up(z.start), page_down(z.end));
            if a > from && b > a && b < end {
                piece(from, a, b - from);
                from = b;
            }
        }
        piece(from, end, s.in_memory - (from - s.offset));
    }

    /// Adds the tables and the header.
    fn finish(&self, file: &[u8], mut out: Vec<u8>, chunks: &[Chunk], table: &[Segment]) -> Vec<u8> {
        out.resize(out.len().next_multiple_of(8), 0);
        let phoff = out.len() as u64;
        for s in table {
            out.extend(s.kind.to_le_bytes());
            out.extend(s.flags.to_le_bytes());
            for v in [s.offset, s.address, s.address, s.in_file, s.in_memory, s.align] {
                out.extend((v as u64).to_le_bytes());
            }
        }
        let shoff = out.len() as u64;
        for (i, s) in self.sections.iter().enumerate() {
            let at = self.headers + i * SHDR;
            let mut header = file[at..at + SHDR].to_vec();
            if s.is_for_debuggers() {
                out.extend([0; SHDR]);
                continue;
            }
            let whole = chunks.iter().find(|c| c.old.start <= s.offset && s.offset + s.size <= c.old.end);
            match whole {
                Some(c) => header[24..32].copy_from_slice(&((c.new + s.offset - c.old.start) as u64).to_le_bytes()),
                None if s.kind == SHT_NOBITS || s.size == 0 => {}
                // Parts of it are not in the file any more.
                None => {
                    header[4..8].copy_from_slice(&SHT_NOBITS.to_le_bytes());
                    let place = place(chunks, s.offset).unwrap_or(0);
                    header[24..32].copy_from_slice(&(place as u64).to_le_bytes());
                }
            }
            out.extend(header);
        }
        out[32..40].copy_from_slice(&phoff.to_le_bytes());
        out[40..48].copy_from_slice(&shoff.to_le_bytes());
        out[56..58].copy_from_slice(&(table.len() as u16).to_le_bytes());
        out
    }
}

/// Where an offset of the old file is in the new one.
fn place(chunks: &[Chunk], offset: usize) -> Option<usize> {
    let c = chunks.iter().find(|c| c.old.contains(&offset))?;
    Some(c.new + offset - c.old.start)
}

fn segment(file: &[u8], at: usize) -> Option<Segment> {
    let s = Segment {
        kind: u32_at(file, at)?,
        flags: u32_at(file, at + 4)?,
        offset: usize_at(file, at + 8)?,
        address: usize_at(file, at + 16)?,
        in_file: usize_at(file, at + 32)?,
        in_memory: usize_at(file, at + 40)?,
        align: usize_at(file, at + 48)?,
    };
    let fits = s.offset.checked_add(s.in_file)? <= file.len() && s.address.checked_add(s.in_memory).is_some();
    (fits && (s.kind != PT_LOAD || s.in_file <= s.in_memory)).then_some(s)
}

fn section(file: &[u8], at: usize, names: usize) -> Option<Section> {
    let name = file.get(names.checked_add(u32_at(file, at)? as usize)?..)?;
    let name = &name[..name.iter().position(|b| *b == 0)?];
    let s = Section {
        name: String::from_utf8_lossy(name).into_owned(),
        kind: u32_at(file, at + 4)?,
        flags: u64_at(file, at + 8)?,
        offset: usize_at(file, at + 24)?,
        size: usize_at(file, at + 32)?,
        align: usize_at(file, at + 48)?,
    };
    (s.kind == SHT_NOBITS || s.offset.checked_add(s.size)? <= file.len()).then_some(s)
}

/// Whether a loader makes the same memory of both files, header apart, which says where the tables are.
pub(crate) fn same_memory(old: &[u8], new: &[u8]) -> Result<(), &'static str> {
    let (Ok(a), Ok(b)) = (Elf::parse(old), Elf::parse(new)) else { return Err("it does not parse") };
    let loads = |e: &Elf| e.segments.iter().filter(|s| s.kind == PT_LOAD).copied().collect::<Vec<_>>();
    let (a, b) = (loads(&a), loads(&b));
    let mut pieces = b.iter().peekable();
    for s in a {
        let mut address = s.address;
        let end = s.address + s.in_memory;
        while address < end {
            let Some(p) = pieces.next() else { return Err("a segment is missing") };
            if p.address != address || p.flags != s.flags || p.address + p.in_memory > end {
                return Err("a segment is elsewhere");
            }
            if (p.address ^ p.offset) % p.align.max(1) != 0 {
                return Err("a segment is not aligned");
            }
            let at = |i: usize| -> &[u8] {
                let (from, to) = (i.min(s.in_file), (i + p.in_memory).min(s.in_file));
                &old[s.offset + from..s.offset + to]
            };
            let expected = at(address - s.address);
            let found = &new[p.offset..p.offset + p.in_file];
            let skip = if s.offset == 0 && address == s.address { EHDR.min(found.len()) } else { 0 };
            let (common, rest) = expected.split_at(found.len().min(expected.len()));
            if common[skip..] != found[skip..common.len()] || rest.iter().chain(&found[common.len()..]).any(|b| *b != 0)
            {
                return Err("bytes differ");
            }
            address += p.in_memory;
        }
    }
    if pieces.next().is_some() { Err("there is a segment too many") } else { Ok(()) }
}
