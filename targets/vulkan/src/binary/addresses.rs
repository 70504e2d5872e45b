//! Buffers that are found by address: storage buffers of the descriptor set [`ADDRESSED`], which exists in no pipeline,
//! become pointers of the class PhysicalStorageBuffer, read at the kernel's start from a table that is one more storage
//! buffer of set 0.
//!
//! ```text
//! %x = OpVariable %ptr_StorageBuffer_struct StorageBuffer       // set ADDRESSED, binding k
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
//! The table is a struct of pointers, so no address is ever a number and no 64-bit integers are needed. Offsets from an
//! address are computed in 64 bits by the driver, whatever the width of `%i`.

use super::{correct::decorate, global, id, reflect};
use rspirv::{
    dr::{Instruction, Module, Operand},
    spirv::{AddressingModel, Decoration, MemoryAccess, Op, StorageClass, Word},
};
use std::collections::HashMap;
use zml_format::Access;

/// The set of the buffers to find by address, their bindings counting from 0.
pub const ADDRESSED: u32 = 1;

/// `variables` with their accesses, in the order of the table, which gets binding `table` of set 0.
pub fn apply(module: &mut Module, variables: &[(Word, Access)], table: u32) -> Result<(), String> {
    if variables.is_empty() {
        return Ok(());
    }
    let mut m = Editor { module };
    let word = m.find(Op::TypeInt, |i| i.operands.first() == Some(&Operand::LiteralBit32(32)));
    let word = word.ok_or("no integers of 32 bits")?;
    let numbers: Vec<Word> = (0..variables.len()).map(|k| m.number(word, k as u32)).collect();
    let mut pointers = vec![];
    for (variable, access) in variables {
        let block = m.block(*variable, *access)?;
        pointers.push(m.pointer(StorageClass::PhysicalStorageBuffer, block));
        m.forget(*variable);
    }
    let table = m.table(&pointers, table);
    let (mut start, mut bases) = (vec![], HashMap::new());
    for ((variable, _), (pointer, number)) in variables.iter().zip(pointers.into_iter().zip(&numbers)) {
        let entry = m.pointer(StorageClass::StorageBuffer, pointer);
        let (at, base) = (m.fresh(), m.fresh());
        let chain = vec![Operand::IdRef(table), Operand::IdRef(*number)];
        start.push(Instruction::new(Op::AccessChain, Some(entry), Some(at), chain));
        start.push(Instruction::new(Op::Load, Some(pointer), Some(base), vec![Operand::IdRef(at)]));
        bases.insert(*variable, base);
    }
    m.rewrite(&bases, numbers[0])?;
    m.begin(start)?;
    if let Some(model) = m.module.memory_model.as_mut().and_then(|i| i.operands.first_mut()) {
        *model = Operand::AddressingModel(AddressingModel::PhysicalStorageBuffer64);
    }
    Ok(())
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
    fn find(&self, op: Op, is: impl Fn(&Instruction) -> bool) -> Option<Word> {
        self.module.types_global_values.iter().find(|i| i.class.opcode == op && is(i)).and_then(|i| i.result_id)
    }
    fn add(&mut self, op: Op, t: Option<Word>, operands: Vec<Operand>) -> Word {
        let id = self.fresh();
        self.module.types_global_values.push(Instruction::new(op, t, Some(id), operands));
        id
    }
    /// A type of which a module may have one.
    fn once(&mut self, op: Op, operands: Vec<Operand>) -> Word {
        self.find(op, |i| i.operands == operands).unwrap_or_else(|| self.add(op, None, operands))
    }
    fn pointer(&mut self, class: StorageClass, to: Word) -> Word {
        self.once(Op::TypePointer, vec![Operand::StorageClass(class), Operand::IdRef(to)])
    }
    fn number(&mut self, word: Word, value: u32) -> Word {
        let operands = vec![Operand::LiteralBit32(value)];
        let known = self.find(Op::Constant, |i| i.result_type == Some(word) && i.operands == operands);
        known.unwrap_or_else(|| self.add(Op::Constant, Some(word), operands))
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
    /// Accesses to variables through the pointers that stand for them. `zero`: the number of a block's only member.
    fn rewrite(&mut self, bases: &HashMap<Word, Word>, zero: Word) -> Result<(), String> {
        let mut functions = std::mem::take(&mut self.module.functions);
        // Pointers that came from the bases, with the bytes that they point at.
        let mut pointers: HashMap<Word, u32> = HashMap::new();
        for i in functions.iter_mut().flat_map(|f| &mut f.blocks).flat_map(|b| &mut b.instructions) {
            let first = i.operands.first().and_then(id);
            match i.class.opcode {
                Op::AccessChain if let Some(base) = first.and_then(|v| bases.get(&v)) => {
                    i.operands[0] = Operand::IdRef(*base);
                    i.operands[1] = Operand::IdRef(zero);
                    let to = i.result_type.and_then(|t| global(self.module, t)?.operands.get(1).and_then(id));
                    let to = to.ok_or("an access chain to nothing")?;
                    let bytes = reflect::size(self.module, to).ok_or("a pointer to something of unknown size")?;
                    i.result_type = Some(self.pointer(StorageClass::PhysicalStorageBuffer, to));
                    pointers.extend(i.result_id.map(|p| (p, bytes)));
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
        }
        self.module.functions = functions;
        Ok(())
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
