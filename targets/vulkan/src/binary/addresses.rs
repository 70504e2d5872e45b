//! Buffers that are found by address: storage buffers of the descriptor sets from [`SET`] on, which exist in no pipeline,
//! become pointers of the class PhysicalStorageBuffer, read at the kernel's start from a table that is one more storage
//! buffer of set 0.
//!
//! ```text
//! %x = OpVariable %ptr_StorageBuffer_struct StorageBuffer       // set SET + k, binding NEAR
//! %p = OpAccessChain %ptr_StorageBuffer_float %x %zero %i
//! %v = OpLoad %float %p
//! ```
//! becomes
//! ```text
//! %e = OpAccessChain %ptr_StorageBuffer_ptr %table %k
//! %x = OpLoad %ptr_PhysicalStorageBuffer_struct %e
//! %p = OpAccessChain %ptr_PhysicalStorageBuffer_float %x %zero %i
//! %v = OpLoad %float %p Aligned 4
//! ```
//! The table is a struct of pointers, so an address need not be a number and asks for no 64-bit integers. But drivers
//! compute the offsets of an access chain in 32 bits, whatever the width of `%i` (NVIDIA 580: byte 2^32 was byte 0), so of
//! a buffer that is larger than that allows, binding FAR, the addresses of elements are computed here:
//! ```text
//! %n = OpConvertPtrToU %ulong %x
//! %p = OpConvertUToPtr %ptr_PhysicalStorageBuffer_float (%n + 4 * %i)
//! ```

use super::{code, correct::decorate, global, id, reflect};
use rspirv::{
    dr::{Instruction, Module, Operand},
    spirv::{AddressingModel, Decoration, MemoryAccess, Op, StorageClass, Word},
};
use std::collections::HashMap;
use zml_format::Access;

/// The set of the first buffer to find by address; each has one of its own.
pub const SET: u32 = 1;
/// The binding of one whose offsets fit in 31 bits.
pub const NEAR: u32 = 0;
/// The binding of a larger one.
pub const FAR: u32 = 1;

/// A buffer to find by address.
pub struct Addressed {
    pub variable: Word,
    pub access: Access,
    pub far: bool,
}

/// `buffers` in the order of the table, which gets binding `table` of set 0.
pub fn apply(module: &mut Module, buffers: &[Addressed], table: u32) -> Result<(), String> {
    if buffers.is_empty() {
        return Ok(());
    }
    let mut m = Editor { module };
    let word = m.once(Op::TypeInt, vec![Operand::LiteralBit32(32), Operand::LiteralBit32(0)]);
    let numbers: Vec<Word> = (0..buffers.len()).map(|k| m.number(word, k as u32)).collect();
    let mut pointers = vec![];
    for b in buffers {
        let block = m.block(b.variable, b.access)?;
        pointers.push(m.pointer(StorageClass::PhysicalStorageBuffer, block));
        m.forget(b.variable);
    }
    let table = m.table(&pointers, table);
    let (mut start, mut bases) = (vec![], HashMap::new());
    for (b, (pointer, number)) in buffers.iter().zip(pointers.into_iter().zip(&numbers)) {
        let entry = m.pointer(StorageClass::StorageBuffer, pointer);
        let (at, base) = (m.fresh(), m.fresh());
        let chain = vec![Operand::IdRef(table), Operand::IdRef(*number)];
        start.push(Instruction::new(Op::AccessChain, Some(entry), Some(at), chain));
        start.push(Instruction::new(Op::Load, Some(pointer), Some(base), vec![Operand::IdRef(at)]));
        let base = if b.far {
            let (long, address) = (m.long(), m.fresh());
            let operands = vec![Operand::IdRef(base)];
            start.push(Instruction::new(Op::ConvertPtrToU, Some(long), Some(address), operands));
            Base::Number(address)
        } else {
            Base::Pointer(base)
        };
        bases.insert(b.variable, base);
    }
    m.rewrite(&bases, numbers[0])?;
    m.begin(start)?;
    if let Some(model) = m.module.memory_model.as_mut().and_then(|i| i.operands.first_mut()) {
        *model = Operand::AddressingModel(AddressingModel::PhysicalStorageBuffer64);
    }
    Ok(())
}

/// What stands for a buffer.
#[derive(Clone, Copy)]
enum Base {
    Pointer(Word),
    /// Its address.
    Number(Word),
}

struct Editor<'m> {
    module: &'m mut Module,
}
impl Editor<'_> {
    fn fresh(&mut self) -> Word {
        let header = self.module.header.as_mut().expect("a serialised module has a header");
        header.bound += 1;
        header.bound - 1
    }
    fn add(&mut self, op: Op, t: Option<Word>, operands: Vec<Operand>) -> Word {
        let id = self.fresh();
        self.module.types_global_values.push(Instruction::new(op, t, Some(id), operands));
        id
    }
    /// What a module has once: the one that is there, or a new one.
    fn once_of(&mut self, op: Op, t: Option<Word>, operands: Vec<Operand>) -> Word {
        let mut all = self.module.types_global_values.iter();
        let known = all.find(|i| i.class.opcode == op && i.result_type == t && i.operands == operands);
        known.and_then(|i| i.result_id).unwrap_or_else(|| self.add(op, t, operands))
    }
    fn once(&mut self, op: Op, operands: Vec<Operand>) -> Word {
        self.once_of(op, None, operands)
    }
    fn pointer(&mut self, class: StorageClass, to: Word) -> Word {
        self.once(Op::TypePointer, vec![Operand::StorageClass(class), Operand::IdRef(to)])
    }
    fn number(&mut self, word: Word, value: u32) -> Word {
        self.once_of(Op::Constant, Some(word), vec![Operand::LiteralBit32(value)])
    }
    fn decorate_with(&mut self, target: Word, decoration: Decoration, value: u32) {
        let operands = vec![Operand::IdRef(target), Operand::Decoration(decoration), Operand::LiteralBit32(value)];
        self.module.annotations.push(Instruction::new(Op::Decorate, None, None, operands));
    }
    fn decorate_member(&mut self, target: Word, member: u32, decoration: Decoration, value: Option<u32>) {
        let mut operands = vec![Operand::IdRef(target), Operand::LiteralBit32(member), Operand::Decoration(decoration)];
        operands.extend(value.map(Operand::LiteralBit32));
        self.module.annotations.push(Instruction::new(Op::MemberDecorate, None, None, operands));
    }
    /// The buffer with the table: one pointer of each type, 8 bytes apart.
    fn table(&mut self, pointers: &[Word], binding: u32) -> Word {
        let block = self.add(Op::TypeStruct, None, pointers.iter().copied().map(Operand::IdRef).collect());
        decorate(self.module, block, Decoration::Block);
        for k in 0..pointers.len() as u32 {
            self.decorate_member(block, k, Decoration::Offset, Some(8 * k));
        }
        let pointer = self.pointer(StorageClass::StorageBuffer, block);
        let table = self.add(Op::Variable, Some(pointer), vec![Operand::StorageClass(StorageClass::StorageBuffer)]);
        self.decorate_with(table, Decoration::DescriptorSet, 0);
        self.decorate_with(table, Decoration::Binding, binding);
        decorate(self.module, table, Decoration::Restrict);
        decorate(self.module, table, Decoration::NonWritable);
        self.module.entry_points.iter_mut().for_each(|e| e.operands.push(Operand::IdRef(table)));
        table
    }
    /// The struct that `variable` holds, one of its own, so that its member can say how it is accessed.
    fn block(&mut self, variable: Word, access: Access) -> Result<Word, String> {
        let array = global(self.module, variable)
            .and_then(|v| global(self.module, v.result_type?))
            .and_then(|pointer| global(self.module, pointer.operands.get(1).and_then(id)?))
            .and_then(|block| block.operands.first().and_then(id));
        let array = array.ok_or("a buffer that is no struct around an array")?;
        let block = self.add(Op::TypeStruct, None, vec![Operand::IdRef(array)]);
        decorate(self.module, block, Decoration::Block);
        self.decorate_member(block, 0, Decoration::Offset, Some(0));
        if !access.writes() {
            self.decorate_member(block, 0, Decoration::NonWritable, None);
        }
        if !access.reads() {
            self.decorate_member(block, 0, Decoration::NonReadable, None);
        }
        Ok(block)
    }
    fn forget(&mut self, variable: Word) {
        let names = |i: &Instruction| i.operands.first().and_then(id) == Some(variable);
        self.module.types_global_values.retain(|i| i.result_id != Some(variable));
        self.module.annotations.retain(|i| !names(i));
        self.module.debug_names.retain(|i| !names(i));
        let interface = self.module.entry_points.iter_mut();
        interface.for_each(|e| e.operands.retain(|o| *o != Operand::IdRef(variable)));
    }
    fn long(&mut self) -> Word {
        self.once(Op::TypeInt, vec![Operand::LiteralBit32(64), Operand::LiteralBit32(0)])
    }
    /// Accesses to variables through what stands for them. `zero`: the number of a block's only member.
    fn rewrite(&mut self, bases: &HashMap<Word, Base>, zero: Word) -> Result<(), String> {
        let types = code(self.module).chain(&self.module.types_global_values);
        let types: HashMap<Word, Word> = types.filter_map(|i| Some((i.result_id?, i.result_type?))).collect();
        let mut functions = std::mem::take(&mut self.module.functions);
        // Pointers that came from the bases, with the bytes that they point at.
        let mut pointers: HashMap<Word, u32> = HashMap::new();
        for block in functions.iter_mut().flat_map(|f| &mut f.blocks) {
            let mut all = vec![];
            for mut i in std::mem::take(&mut block.instructions) {
                let first = i.operands.first().and_then(id);
                match i.class.opcode {
                    Op::AccessChain if let Some(base) = first.and_then(|v| bases.get(&v)) => {
                        let to = i.result_type.and_then(|t| global(self.module, t)?.operands.get(1).and_then(id));
                        let to = to.ok_or("an access chain to nothing")?;
                        let bytes = reflect::size(self.module, to).ok_or("a pointer to something of unknown size")?;
                        i.result_type = Some(self.pointer(StorageClass::PhysicalStorageBuffer, to));
                        pointers.extend(i.result_id.map(|p| (p, bytes)));
                        match base {
                            Base::Pointer(base) => {
                                i.operands[0] = Operand::IdRef(*base);
                                i.operands[1] = Operand::IdRef(zero);
                            }
                            Base::Number(address) => {
                                let [_, _, Operand::IdRef(index)] = i.operands[..] else {
                                    return Err("an access chain to a part of an element".into());
                                };
                                let index_type = *types.get(&index).ok_or("an index without a type")?;
                                let at = self.element(&mut all, *address, (index, index_type), bytes);
                                i = Instruction::new(
                                    Op::ConvertUToPtr,
                                    i.result_type,
                                    i.result_id,
                                    vec![Operand::IdRef(at)],
                                );
                            }
                        }
                    }
                    op @ (Op::Load | Op::Store) if let Some(bytes) = first.and_then(|p| pointers.get(&p)) => {
                        i.operands.truncate(if op == Op::Load { 1 } else { 2 });
                        i.operands.push(Operand::MemoryAccess(MemoryAccess::ALIGNED));
                        i.operands.push(Operand::LiteralBit32(*bytes));
                    }
                    op => {
                        let direct = i.operands.iter().filter_map(id).any(|v| bases.contains_key(&v));
                        let inner = i.operands.iter().filter_map(id).any(|v| pointers.contains_key(&v));
                        if direct || (inner && !format!("{op:?}").starts_with("Atomic")) {
                            return Err(format!("{op:?} on a buffer that is found by address"));
                        }
                    }
                }
                all.push(i);
            }
            block.instructions = all;
        }
        self.module.functions = functions;
        Ok(())
    }
    /// The address of an element of `bytes` bytes, written to `code`. Indices are not negative.
    fn element(
        &mut self,
        code: &mut Vec<Instruction>,
        address: Word,
        (index, index_type): (Word, Word),
        bytes: u32,
    ) -> Word {
        let long = self.long();
        let mut make = |op: Op, id: Word, operands: &[Word]| {
            let operands = operands.iter().copied().map(Operand::IdRef).collect();
            code.push(Instruction::new(op, Some(long), Some(id), operands));
            id
        };
        let index = if index_type == long { index } else { make(Op::UConvert, self.fresh(), &[index]) };
        let size = self.once_of(Op::Constant, Some(long), vec![Operand::LiteralBit64(bytes.into())]);
        let offset = make(Op::IMul, self.fresh(), &[index, size]);
        make(Op::IAdd, self.fresh(), &[address, offset])
    }
    /// Puts `start` behind the variables of the kernel's first block.
    fn begin(&mut self, start: Vec<Instruction>) -> Result<(), String> {
        let entry = self.module.entry_points.first().and_then(|e| e.operands.iter().find_map(id));
        let function = self.module.functions.iter_mut().find(|f| f.def.as_ref().and_then(|d| d.result_id) == entry);
        let block = function.and_then(|f| f.blocks.first_mut()).ok_or("no entry point")?;
        let at = block.instructions.iter().position(|i| i.class.opcode != Op::Variable).unwrap_or(0);
        block.instructions.splice(at..at, start);
        Ok(())
    }
}
