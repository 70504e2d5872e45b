//! Reads the relocatable object that LLVM makes of a module: sections, symbols, relocations (System V ABI, chapter 4).

use super::elf;
use crate::bytes::{bytes_at, text_at, u16_at, u32_at, u64_at};

pub struct Object<'a> {
    /// The start of the ELF header: class, byte order, ABI and its version.
    pub ident: &'a [u8],
    /// Of the ELF header: the chip.
    pub flags: u32,
    pub sections: Vec<Section<'a>>,
    pub symbols: Vec<Symbol>,
}
pub struct Section<'a> {
    pub name: String,
    pub kind: u32,
    pub flags: u64,
    pub align: u64,
    pub bytes: &'a [u8],
    pub relocations: Vec<Relocation>,
}
#[derive(Clone)]
pub struct Symbol {
    pub name: String,
    /// Binding and type.
    pub info: u8,
    /// Visibility.
    pub other: u8,
    /// Index of its section, or one of the reserved numbers.
    pub section: u16,
    /// In its section.
    pub value: u64,
    pub bytes: u64,
}
pub struct Relocation {
    /// In the section that it changes.
    pub at: u64,
    pub kind: u32,
    /// Index into [`Object::symbols`].
    pub symbol: usize,
    pub addend: i64,
}

impl<'a> Object<'a> {
    pub fn read(file: &'a [u8]) -> Result<Self, String> {
        const RELOCATABLE: u16 = 1;
        if file.get(..6) != Some(b"\x7fELF\x02\x01")
            || u16_at(file, 16)? != RELOCATABLE
            || u16_at(file, 18)? != elf::AMDGPU
        {
            return Err("not a relocatable object for AMD GPUs".into());
        }
        let header = |i: usize| -> Result<usize, String> {
            Ok((u64_at(file, 40)? as usize).saturating_add(i * usize::from(u16_at(file, 58)?)))
        };
        let count = usize::from(u16_at(file, 60)?);
        let content = |at: usize| bytes_at(file, u64_at(file, at + 24)? as usize, u64_at(file, at + 32)? as usize);
        let names = u64_at(file, header(usize::from(u16_at(file, 62)?))? + 24)? as usize;
        let (mut sections, mut symbols) = (Vec::new(), Vec::new());
        for i in 0..count {
            let at = header(i)?;
            let kind = u32_at(file, at + 4)?;
            let bytes = if matches!(kind, elf::NULL | elf::NOBITS) { &[][..] } else { content(at)? };
            if kind == elf::SYMTAB {
                let texts = u64_at(file, header(u32_at(file, at + 40)? as usize)? + 24)? as usize;
                for s in bytes.chunks_exact(24) {
                    symbols.push(Symbol {
                        name: text_at(file, texts + u32_at(s, 0)? as usize)?,
                        info: s[4],
                        other: s[5],
                        section: u16_at(s, 6)?,
                        value: u64_at(s, 8)?,
                        bytes: u64_at(s, 16)?,
                    });
                }
            }
            sections.push(Section {
                name: text_at(file, names + u32_at(file, at)? as usize)?,
                kind,
                flags: u64_at(file, at + 8)?,
                align: u64_at(file, at + 48)?.max(1),
                bytes,
                relocations: vec![],
            });
        }
        for i in 0..count {
            if sections[i].kind != elf::RELA {
                continue;
            }
            let target = u32_at(file, header(i)? + 44)? as usize;
            let mut relocations = Vec::new();
            for r in sections[i].bytes.chunks_exact(24) {
                let symbol = u32_at(r, 12)? as usize;
                if symbol >= symbols.len() {
                    return Err("a relocation against a symbol that is not there".into());
                }
                relocations.push(Relocation {
                    at: u64_at(r, 0)?,
                    kind: u32_at(r, 8)?,
                    symbol,
                    addend: u64_at(r, 16)? as i64,
                });
            }
            let target = sections.get_mut(target).ok_or("relocations of a section that is not there")?;
            target.relocations.extend(relocations);
        }
        Ok(Object { ident: &file[..16], flags: u32_at(file, 48)?, sections, symbols })
    }
}
