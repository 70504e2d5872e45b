//! The last step to a code object: the shared object that drivers load, from LLVM's relocatable one, in this process.
//!
//! It does what `ld.lld -shared --no-undefined` does, for the objects that LLVM makes of our kernels and no others: what
//! it has no place for is an error. What is loaded is byte for byte what lld writes (`tests/hsaco.rs`), so drivers see
//! nothing new; lld's `.comment` and the names of its own that the assembler left are not there.

mod elf;
mod hash;
mod object;
mod output;

use elf::{ABSOLUTE, ALLOC, EXECUTE, LOCAL, UNDEFINED, WRITE};
use object::{Object, Symbol};
use output::{DYNAMIC, DYNSTR, DYNSYM, GNU_HASH, HASH, NOTE, Out, RODATA, STRTAB, SYMTAB, Strings, TEXT};
use std::collections::BTreeMap;
use zmlc_passes::pass::PassError;

/// Links; a symbol that is used and not defined is an error here, and not on a device.
pub fn link(object: &[u8]) -> Result<Vec<u8>, PassError> {
    let linked = Object::read(object).and_then(|o| shared(&o));
    linked.map_err(|e| PassError::Bug(format!("linking a code object: {e}")))
}

fn shared(object: &Object) -> Result<Vec<u8>, String> {
    let mut out = output::sections();
    let places = collect(object, &mut out)?;
    let (locals, exported) = symbols(object, &places)?;
    let mut dynstr = Strings::default();
    let mut dynamic: Vec<(&Symbol, u32)> = exported.iter().map(|s| (s, dynstr.add(&s.name))).collect();
    let buckets = hash::buckets(dynamic.len());
    dynamic.sort_by_key(|(s, name)| (hash::gnu(&s.name) % buckets, *name));
    let names: Vec<&str> = dynamic.iter().map(|(s, _)| s.name.as_str()).collect();
    (out[GNU_HASH].data, out[HASH].data) = (hash::gnu_table(&names), hash::sysv_table(&names));
    (out[DYNSTR].data, out[DYNSYM].info) = (dynstr.0, 1);
    // Their lengths decide where everything is, their content is known after that.
    out[DYNSYM].data = table(&dynamic, &out);
    out[DYNAMIC].data = output::dynamic(&out);
    output::place(&mut out);
    out[DYNSYM].data = table(&dynamic, &out);
    out[DYNAMIC].data = output::dynamic(&out);

    let this = Symbol {
        name: "_DYNAMIC".into(),
        info: LOCAL << 4,
        other: elf::HIDDEN,
        section: DYNAMIC as u16,
        value: 0,
        bytes: 0,
    };
    let mut strtab = Strings::default();
    let all: Vec<_> = locals.iter().chain([&this]).chain(&exported).map(|s| (s, strtab.add(&s.name))).collect();
    out[SYMTAB].data = table(&all, &out);
    // The empty symbol and `_DYNAMIC` are local too.
    out[SYMTAB].info = locals.len() as u32 + 2;
    out[STRTAB].data = strtab.0;
    for (section, at, bytes) in relocate(object, &places, &out)? {
        out[section].data[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    Ok(output::file(object.ident, object.flags, out))
}

/// Where a section of the object went: section of the output, and offset in it.
type Places = BTreeMap<usize, (usize, u64)>;

/// Puts what is to be loaded behind each other, by kind.
fn collect(object: &Object, out: &mut [Out]) -> Result<Places, String> {
    let mut places = Places::new();
    for (i, s) in object.sections.iter().enumerate().filter(|(_, s)| s.flags & ALLOC != 0) {
        let to = match (s.kind, s.flags & (WRITE | EXECUTE)) {
            (elf::NOTE, 0) => NOTE,
            (elf::PROGBITS, 0) => RODATA,
            (elf::PROGBITS, EXECUTE) => TEXT,
            _ => return Err(format!("section {} is none of code, constants and notes", s.name)),
        };
        let o = &mut out[to];
        o.align = o.align.max(s.align);
        o.data.resize(o.data.len().next_multiple_of(s.align as usize), 0);
        places.insert(i, (to, o.data.len() as u64));
        o.data.extend(s.bytes);
    }
    Ok(places)
}

/// Local and exported symbols in the object's order, at their places in the output.
fn symbols(object: &Object, places: &Places) -> Result<(Vec<Symbol>, Vec<Symbol>), String> {
    let (mut locals, mut hidden, mut exported) = (vec![], vec![], vec![]);
    for s in &object.symbols {
        // Names that begin with .L are the assembler's own.
        let unnamed = s.name.is_empty() || s.name.starts_with(".L") || s.info & 15 == elf::SECTION_SYMBOL;
        if unnamed || s.section == UNDEFINED {
            continue;
        }
        let mut s = s.clone();
        if s.section != ABSOLUTE {
            let (section, offset) = places.get(&usize::from(s.section)).ok_or_else(|| not_loaded(&s))?;
            (s.section, s.value) = (*section as u16, s.value + offset);
        }
        match (s.info >> 4, s.other & 3) {
            (LOCAL, _) => locals.push(s),
            (_, elf::HIDDEN) => hidden.push(Symbol { info: LOCAL << 4 | s.info & 15, ..s }),
            _ => exported.push(s),
        }
    }
    locals.extend(hidden);
    Ok((locals, exported))
}
fn not_loaded(s: &Symbol) -> String {
    format!("symbol {} is in no section that is loaded", s.name)
}

/// The bytes that relocations put into sections of the output, and where.
fn relocate(object: &Object, places: &Places, out: &[Out]) -> Result<Vec<(usize, usize, Vec<u8>)>, String> {
    let mut patches = vec![];
    for (i, s) in object.sections.iter().enumerate() {
        let Some((section, offset)) = places.get(&i) else { continue };
        for r in &s.relocations {
            let symbol = &object.symbols[r.symbol];
            let target = match symbol.section {
                ABSOLUTE => symbol.value,
                UNDEFINED => return Err(format!("undefined symbol {}", symbol.name)),
                n => {
                    let (home, at) = places.get(&usize::from(n)).ok_or_else(|| not_loaded(symbol))?;
                    out[*home].address + at + symbol.value
                }
            };
            let at = offset + r.at;
            let value = target.wrapping_add_signed(r.addend).wrapping_sub(out[*section].address + at);
            let bytes = match r.kind {
                elf::REL64 => value.to_le_bytes().to_vec(),
                elf::REL32 | elf::REL32_LO => (value as u32).to_le_bytes().to_vec(),
                elf::REL32_HI => ((value >> 32) as u32).to_le_bytes().to_vec(),
                other => return Err(format!("a relocation of kind {other} against {}", symbol.name)),
            };
            if at as usize + bytes.len() > out[*section].data.len() {
                return Err(format!("a relocation outside section {}", s.name));
            }
            patches.push((*section, at as usize, bytes));
        }
    }
    Ok(patches)
}

/// A table of symbols, each with the offset of its name; the first is the empty one.
fn table(symbols: &[(&Symbol, u32)], out: &[Out]) -> Vec<u8> {
    let mut bytes = vec![0; 24];
    for (s, name) in symbols {
        let home = if s.section == ABSOLUTE { 0 } else { out[usize::from(s.section)].address };
        bytes.extend(name.to_le_bytes());
        bytes.extend([s.info, s.other]);
        bytes.extend(s.section.to_le_bytes());
        bytes.extend((home + s.value).to_le_bytes());
        bytes.extend(s.bytes.to_le_bytes());
    }
    bytes
}
