//! Numbers of the ELF format that reading and writing share.

pub const NULL: u32 = 0;
pub const PROGBITS: u32 = 1;
pub const SYMTAB: u32 = 2;
pub const STRTAB: u32 = 3;
pub const RELA: u32 = 4;
pub const HASH: u32 = 5;
pub const DYNAMIC: u32 = 6;
pub const NOTE: u32 = 7;
pub const NOBITS: u32 = 8;
pub const DYNSYM: u32 = 11;
pub const GNU_HASH: u32 = 0x6fff_fff6;

/// Section flags.
pub const WRITE: u64 = 1;
pub const ALLOC: u64 = 2;
pub const EXECUTE: u64 = 4;

/// Section numbers of symbols that are in no section.
pub const UNDEFINED: u16 = 0;
pub const ABSOLUTE: u16 = 0xfff1;

pub const LOCAL: u8 = 0;
pub const SECTION_SYMBOL: u8 = 3;
pub const HIDDEN: u8 = 2;

/// Relocations, by LLVM's User Guide for AMDGPU Backend, "Relocation Records".
pub const REL32: u32 = 4;
pub const REL64: u32 = 5;
pub const REL32_LO: u32 = 10;
pub const REL32_HI: u32 = 11;

/// `e_machine` of code for AMD GPUs.
pub const AMDGPU: u16 = 224;
