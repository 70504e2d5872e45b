//! The shared object as a file: sections, where they lie in memory and in the file, segments, and the tables of both.
//! The layout is lld's: constants, code and `.dynamic` in three segments, each at the offset in its page that it has in
//! the file, so that nothing is padded there.

use super::elf::{self, ALLOC, EXECUTE, WRITE};

/// What segments are aligned to.
const PAGE: u64 = 0x1000;
const HEADER: u64 = 64;
const SEGMENT: u64 = 56;
const SEGMENTS: usize = 8;
const SYMBOL: usize = 24;

/// A section.
#[derive(Default)]
pub struct Out {
    name: &'static str,
    kind: u32,
    flags: u64,
    pub align: u64,
    /// Bytes of an entry, if it is a table.
    entry: u64,
    /// The section that its numbers are about.
    link: u32,
    /// Of symbols: how many are local.
    pub info: u32,
    pub data: Vec<u8>,
    /// In memory, if it is loaded.
    pub address: u64,
    /// In the file.
    at: u64,
    /// As `data` is, but for padding.
    bytes: u64,
}

/// Numbers of the sections, in [`sections`].
pub const NOTE: usize = 1;
pub const DYNSYM: usize = 2;
pub const GNU_HASH: usize = 3;
pub const HASH: usize = 4;
pub const DYNSTR: usize = 5;
pub const RODATA: usize = 6;
pub const TEXT: usize = 7;
pub const DYNAMIC: usize = 8;
const PADDING: usize = 9;
pub const SYMTAB: usize = 10;
const SHSTRTAB: usize = 11;
pub const STRTAB: usize = 12;

/// All sections, without content.
pub fn sections() -> Vec<Out> {
    let out = |name, kind, flags, align, entry: usize, link: usize| Out {
        name,
        kind,
        flags,
        align,
        entry: entry as u64,
        link: link as u32,
        ..Out::default()
    };
    vec![
        out("", elf::NULL, 0, 0, 0, 0),
        out(".note", elf::NOTE, ALLOC, 4, 0, 0),
        out(".dynsym", elf::DYNSYM, ALLOC, 8, SYMBOL, DYNSTR),
        out(".gnu.hash", elf::GNU_HASH, ALLOC, 8, 0, DYNSYM),
        out(".hash", elf::HASH, ALLOC, 4, 4, DYNSYM),
        out(".dynstr", elf::STRTAB, ALLOC, 1, 0, 0),
        out(".rodata", elf::PROGBITS, ALLOC, 1, 0, 0),
        out(".text", elf::PROGBITS, ALLOC | EXECUTE, 1, 0, 0),
        out(".dynamic", elf::DYNAMIC, ALLOC | WRITE, 8, 16, DYNSTR),
        // What is made unwritable ends with a page.
        out(".relro_padding", elf::NOBITS, ALLOC | WRITE, 1, 0, 0),
        out(".symtab", elf::SYMTAB, 0, 8, SYMBOL, STRTAB),
        out(".shstrtab", elf::STRTAB, 0, 1, 0, 0),
        out(".strtab", elf::STRTAB, 0, 1, 0, 0),
    ]
}

/// Gives every section that is loaded its address and its place in the file; `data` has its final length.
pub fn place(out: &mut [Out]) {
    let start = HEADER + SEGMENT * SEGMENTS as u64;
    let (mut address, mut at) = (start, start);
    for (i, o) in out.iter_mut().enumerate().take(PADDING + 1).skip(1) {
        let first = i == TEXT || i == DYNAMIC;
        if first {
            // A segment with other rights, on a page of its own.
            address = address.next_multiple_of(PAGE) + address % PAGE;
        }
        address = address.next_multiple_of(o.align);
        at = if first { at + (address - at) % PAGE } else { at.next_multiple_of(o.align) };
        o.bytes = if i == PADDING { address.next_multiple_of(PAGE) - address } else { o.data.len() as u64 };
        (o.address, o.at) = (address, at);
        address += o.bytes;
        at += o.data.len() as u64;
    }
}

/// Names, each with a NUL behind it; the first is empty.
pub struct Strings(pub Vec<u8>);
impl Default for Strings {
    fn default() -> Self {
        Strings(vec![0])
    }
}
impl Strings {
    /// The name's offset.
    pub fn add(&mut self, text: &str) -> u32 {
        let at = self.0.len();
        self.0.extend(text.bytes().chain([0]));
        at as u32
    }
}

/// The content of `.dynamic`: where a loader finds the tables.
pub fn dynamic(out: &[Out]) -> Vec<u8> {
    let entries = [
        (6, out[DYNSYM].address),
        (11, SYMBOL as u64),
        (5, out[DYNSTR].address),
        (10, out[DYNSTR].data.len() as u64),
        (0x6fff_fef5, out[GNU_HASH].address),
        (4, out[HASH].address),
        (0, 0),
    ];
    entries.into_iter().flat_map(|(tag, value)| [tag, value]).flat_map(u64::to_le_bytes).collect()
}

/// Header, segments, sections, and the table of sections.
pub fn file(ident: &[u8], flags: u32, mut out: Vec<Out>) -> Vec<u8> {
    let mut names = Strings::default();
    let name_of: Vec<u32> = out.iter().map(|o| if o.name.is_empty() { 0 } else { names.add(o.name) }).collect();
    out[SHSTRTAB].data = names.0;
    let mut at = out[PADDING].at;
    for o in &mut out[SYMTAB..] {
        at = at.next_multiple_of(o.align);
        (o.at, o.bytes) = (at, o.data.len() as u64);
        at += o.bytes;
    }
    let table = at.next_multiple_of(8);
    const SHARED: u16 = 3;
    let mut file = Bytes(ident.to_vec());
    file.halves(&[SHARED, elf::AMDGPU]);
    file.words(&[1]);
    file.longs(&[0, HEADER, table]);
    file.words(&[flags]);
    file.halves(&[HEADER as u16, SEGMENT as u16, SEGMENTS as u16, 64, out.len() as u16, SHSTRTAB as u16]);
    for s in segments(&out) {
        file.words(&[s.kind, s.rights]);
        file.longs(&[s.at, s.address, s.address, s.bytes, s.memory, s.align]);
    }
    for o in &out {
        file.0.resize(file.0.len().max(o.at as usize), 0);
        file.0.extend(&o.data);
    }
    file.0.resize(table as usize, 0);
    for (o, name) in out.iter().zip(name_of) {
        file.words(&[name, o.kind]);
        file.longs(&[o.flags, o.address, o.at, o.bytes]);
        file.words(&[o.link, o.info]);
        file.longs(&[o.align, o.entry]);
    }
    file.0
}

struct Bytes(Vec<u8>);
impl Bytes {
    fn halves(&mut self, numbers: &[u16]) {
        self.0.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    }
    fn words(&mut self, numbers: &[u32]) {
        self.0.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    }
    fn longs(&mut self, numbers: &[u64]) {
        self.0.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    }
}

struct Segment {
    kind: u32,
    /// 1 execute, 2 write, 4 read.
    rights: u32,
    at: u64,
    address: u64,
    /// In the file.
    bytes: u64,
    /// `bytes`, and zeros behind them.
    memory: u64,
    align: u64,
}

fn segments(out: &[Out]) -> [Segment; SEGMENTS] {
    const LOAD: u32 = 1;
    let (constants, padding) = (&out[RODATA], out[PADDING].bytes);
    let part = |kind, rights, at, bytes, align| Segment { kind, rights, at, address: at, bytes, memory: bytes, align };
    let of = |kind, rights, section: usize, zeros, align| {
        let o = &out[section];
        Segment { kind, rights, at: o.at, address: o.address, bytes: o.bytes, memory: o.bytes + zeros, align }
    };
    [
        part(6, 4, HEADER, SEGMENT * SEGMENTS as u64, 8),
        part(LOAD, 4, 0, constants.at + constants.bytes, PAGE),
        of(LOAD, 5, TEXT, 0, PAGE),
        of(LOAD, 6, DYNAMIC, padding, PAGE),
        of(2, 6, DYNAMIC, 0, 8),
        of(0x6474_e552, 4, DYNAMIC, padding, 1),
        part(0x6474_e551, 6, 0, 0, 0),
        of(4, 4, NOTE, 0, 4),
    ]
}
