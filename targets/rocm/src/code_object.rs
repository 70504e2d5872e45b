//! Reads an AMDGPU code object: what `inspect-ir` disassembles and tests look at. Written against "Code Object" and
//! "Kernel Descriptor" of LLVM's User Guide for AMDGPU Backend. Every offset in the file is checked.

use crate::bytes::{bytes_at, text_at, u16_at, u32_at, u64_at};
use std::collections::BTreeMap;

/// What a code object says of itself.
#[derive(Debug)]
pub struct CodeObject<'a> {
    file: &'a [u8],
    /// `EF_AMDGPU_MACH` of the ELF flags: which chip.
    pub machine: u32,
    /// 3 in the ELF header means code object version 5.
    pub abi_version: u8,
    pub kernels: Vec<Kernel>,
    /// Names of symbols that are used and not defined.
    pub undefined: Vec<String>,
}

/// One kernel: its metadata, and the kernel descriptor in memory that the packet processor reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    pub name: String,
    /// The descriptor's symbol, `NAME.kd`.
    pub symbol: String,
    pub args: Vec<Arg>,
    pub kernarg_bytes: u64,
    /// Static workgroup memory (LDS) in bytes.
    pub group_bytes: u64,
    /// Scratch of one thread in bytes.
    pub private_bytes: u64,
    pub wavefront: u64,
    pub max_block: u64,
    pub vgprs: u64,
    pub vgpr_spills: u64,
    /// From the descriptor's KERNEL_CODE_PROPERTIES: waves of 32.
    pub wave32: bool,
    code: std::ops::Range<usize>,
}
#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    pub kind: String,
    /// Of the kernarg segment, in bytes.
    pub offset: u64,
    pub bytes: u64,
    /// `global` for buffers.
    pub space: Option<String>,
}

struct Section {
    kind: u32,
    address: u64,
    at: usize,
    bytes: usize,
    link: usize,
}
struct Symbol {
    name: String,
    section: u16,
    value: u64,
    bytes: u64,
}

impl<'a> CodeObject<'a> {
    /// Reads, or says what is wrong with the bytes.
    pub fn read(file: &'a [u8]) -> Result<Self, String> {
        if file.get(..6) != Some(b"\x7fELF\x02\x01") || u16_at(file, 18)? != 224 {
            return Err("not an AMDGPU code object".into());
        }
        let sections = sections(file)?;
        let symbols = symbols(file, &sections)?;
        let undefined =
            symbols.iter().filter(|s| s.section == 0 && !s.name.is_empty()).map(|s| s.name.clone()).collect();
        let note = metadata(file, &sections)?;
        let list = note.get("amdhsa.kernels").and_then(Value::list).ok_or("no amdhsa.kernels in the metadata")?;
        let kernels = list.iter().map(|k| kernel(file, &sections, &symbols, k)).collect::<Result<_, _>>()?;
        Ok(CodeObject { file, machine: u32_at(file, 48)? & 0xff, abi_version: file[8], kernels, undefined })
    }
    /// Machine code of a kernel.
    pub fn code(&self, kernel: &Kernel) -> &'a [u8] {
        &self.file[kernel.code.clone()]
    }
}

fn kernel(file: &[u8], sections: &[Section], symbols: &[Symbol], k: &Value) -> Result<Kernel, String> {
    let text = |key| k.get(key).and_then(Value::text).map(str::to_string).ok_or(format!("a kernel without {key}"));
    let number = |key| k.get(key).and_then(Value::number).ok_or(format!("a kernel without {key}"));
    let (name, symbol) = (text(".name")?, text(".symbol")?);
    let find = |name: &str| symbols.iter().find(|s| s.name == name).ok_or(format!("no symbol {name}"));
    let place = |s: &Symbol| {
        let home = sections.get(s.section as usize).ok_or(format!("{} is in no section", s.name))?;
        let at = s.value.checked_sub(home.address).filter(|o| o + s.bytes <= home.bytes as u64);
        let at = home.at + at.ok_or(format!("{} is outside its section", s.name))? as usize;
        Ok::<_, String>(at..at + s.bytes as usize)
    };
    let descriptor = place(find(&symbol)?)?;
    if descriptor.len() != 64 {
        return Err(format!("{symbol} is not a kernel descriptor of 64 bytes"));
    }
    let entry = find(&symbol)?.value.wrapping_add(u64_at(file, descriptor.start + 16)?);
    if find(&name)?.value != entry {
        return Err(format!("{symbol} does not start at {name}"));
    }
    let args = k.get(".args").and_then(Value::list).unwrap_or_default().iter().map(|a| {
        let number = |key| a.get(key).and_then(Value::number).ok_or(format!("{name}: an argument without {key}"));
        let text = |key| a.get(key).and_then(Value::text).map(str::to_string);
        Ok::<_, String>(Arg {
            kind: text(".value_kind").unwrap_or_default(),
            offset: number(".offset")?,
            bytes: number(".size")?,
            space: text(".address_space"),
        })
    });
    Ok(Kernel {
        args: args.collect::<Result<_, _>>()?,
        kernarg_bytes: number(".kernarg_segment_size")?,
        group_bytes: number(".group_segment_fixed_size")?,
        private_bytes: number(".private_segment_fixed_size")?,
        wavefront: number(".wavefront_size")?,
        max_block: number(".max_flat_workgroup_size")?,
        vgprs: number(".vgpr_count")?,
        vgpr_spills: k.get(".vgpr_spill_count").and_then(Value::number).unwrap_or(0),
        wave32: u16_at(file, descriptor.start + 56)? >> 10 & 1 == 1,
        code: place(find(&name)?)?,
        name,
        symbol,
    })
}

fn sections(file: &[u8]) -> Result<Vec<Section>, String> {
    let (table, each, count) = (u64_at(file, 40)? as usize, usize::from(u16_at(file, 58)?), u16_at(file, 60)?);
    (0..usize::from(count))
        .map(|i| {
            let at = table.checked_add(i * each).ok_or("a section table outside the file")?;
            let s = Section {
                kind: u32_at(file, at + 4)?,
                address: u64_at(file, at + 16)?,
                at: u64_at(file, at + 24)? as usize,
                bytes: u64_at(file, at + 32)? as usize,
                link: u32_at(file, at + 40)? as usize,
            };
            const NOBITS: u32 = 8;
            if s.kind != NOBITS {
                bytes_at(file, s.at, s.bytes)?;
            }
            Ok(s)
        })
        .collect()
}

fn symbols(file: &[u8], sections: &[Section]) -> Result<Vec<Symbol>, String> {
    const DYNSYM: u32 = 11;
    let table = sections.iter().find(|s| s.kind == DYNSYM).ok_or("no dynamic symbols")?;
    let names = sections.get(table.link).ok_or("dynamic symbols without names")?;
    (0..table.bytes / 24)
        .map(|i| {
            let at = table.at + i * 24;
            Ok(Symbol {
                name: text_at(file, names.at + u32_at(file, at)? as usize)?,
                section: u16_at(file, at + 6)?,
                value: u64_at(file, at + 8)?,
                bytes: u64_at(file, at + 16)?,
            })
        })
        .collect()
}

/// The note NT_AMDGPU_METADATA.
fn metadata(file: &[u8], sections: &[Section]) -> Result<Value, String> {
    const NOTE: u32 = 7;
    const METADATA: u32 = 32;
    for s in sections.iter().filter(|s| s.kind == NOTE) {
        let mut at = s.at;
        while at + 12 <= s.at + s.bytes {
            let (name, size) = (u32_at(file, at)? as usize, u32_at(file, at + 4)? as usize);
            let start = at + 12 + name.next_multiple_of(4);
            if u32_at(file, at + 8)? == METADATA && bytes_at(file, at + 12, name)? == b"AMDGPU\0" {
                return Value::read(bytes_at(file, start, size)?, 0).map(|(v, _)| v);
            }
            at = start + size.next_multiple_of(4);
        }
    }
    Err("no AMDGPU metadata note".into())
}

/// The part of msgpack that the metadata uses.
#[derive(Debug)]
enum Value {
    Number(u64),
    Text(String),
    List(Vec<Value>),
    Map(BTreeMap<String, Value>),
    Other,
}
impl Value {
    fn get(&self, key: &str) -> Option<&Value> {
        if let Value::Map(m) = self { m.get(key) } else { None }
    }
    fn text(&self) -> Option<&str> {
        if let Value::Text(t) = self { Some(t) } else { None }
    }
    fn number(&self) -> Option<u64> {
        if let Value::Number(n) = self { Some(*n) } else { None }
    }
    fn list(&self) -> Option<&[Value]> {
        if let Value::List(l) = self { Some(l) } else { None }
    }
    /// A value and where the next begins. `depth` is bounded, so that no input overflows the stack.
    fn read(b: &[u8], depth: u32) -> Result<(Value, &[u8]), String> {
        let end = || "the metadata ends early".to_string();
        if depth > 16 {
            return Err("the metadata is nested too deep".into());
        }
        let (&tag, rest) = b.split_first().ok_or_else(end)?;
        let number = |n: usize| {
            let bytes = rest.get(..n).ok_or_else(end)?;
            Ok::<_, String>((bytes.iter().fold(0u64, |x, b| x << 8 | u64::from(*b)), &rest[n..]))
        };
        match tag {
            0..=0x7f => Ok((Value::Number(u64::from(tag)), rest)),
            0xcc..=0xcf => number(1 << (tag - 0xcc)).map(|(n, r)| (Value::Number(n), r)),
            0xa0..=0xbf => Value::string(rest, usize::from(tag & 31)),
            0xd9..=0xdb => number(1 << (tag - 0xd9)).and_then(|(n, r)| Value::string(r, n as usize)),
            0x90..=0x9f => Value::items(rest, u64::from(tag & 15), depth),
            0xdc | 0xdd => number(2 << (tag - 0xdc)).and_then(|(n, r)| Value::items(r, n, depth)),
            0x80..=0x8f => Value::entries(rest, u64::from(tag & 15), depth),
            0xde | 0xdf => number(2 << (tag - 0xde)).and_then(|(n, r)| Value::entries(r, n, depth)),
            0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => Ok((Value::Other, rest)),
            _ => Err(format!("the metadata holds a value of kind 0x{tag:02x}")),
        }
    }
    fn string(b: &[u8], n: usize) -> Result<(Value, &[u8]), String> {
        let text = b.get(..n).ok_or("the metadata ends early")?;
        Ok((Value::Text(String::from_utf8_lossy(text).into_owned()), &b[n..]))
    }
    fn items(mut b: &[u8], n: u64, depth: u32) -> Result<(Value, &[u8]), String> {
        let mut list = vec![];
        for _ in 0..n {
            let (v, rest) = Value::read(b, depth + 1)?;
            list.push(v);
            b = rest;
        }
        Ok((Value::List(list), b))
    }
    fn entries(mut b: &[u8], n: u64, depth: u32) -> Result<(Value, &[u8]), String> {
        let mut map = BTreeMap::new();
        for _ in 0..n {
            let (key, rest) = Value::read(b, depth + 1)?;
            let (v, rest) = Value::read(rest, depth + 1)?;
            map.insert(key.text().ok_or("a key of the metadata is no text")?.to_string(), v);
            b = rest;
        }
        Ok((Value::Map(map), b))
    }
}
