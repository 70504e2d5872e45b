//! SPIR-V words after serialisation: what MLIR leaves wrong or open is put right ([`correct`]), buffers that are found by
//! address become pointers ([`addresses`]), the capabilities are those that the code uses ([`capabilities`]), and what a
//! driver will see is read back and held against the plan ([`reflect`]).

pub mod addresses;
pub mod capabilities;
pub mod correct;
pub mod reflect;

use rspirv::{
    binary::{Assemble, Disassemble},
    dr::{Instruction, Module, Operand},
    spirv::Word,
};
use zmlc_passes::pass::PassError;

/// Reads words; ours are the only ones that come here.
pub fn load(bytes: &[u8]) -> Result<Module, PassError> {
    rspirv::dr::load_bytes(bytes).map_err(|e| PassError::Bug(format!("SPIR-V that does not load: {e}")))
}
/// Little-endian words.
pub fn bytes(module: &Module) -> Vec<u8> {
    module.assemble().into_iter().flat_map(Word::to_le_bytes).collect()
}
/// The text of a module, one instruction a line.
pub fn text(bytes: &[u8]) -> Result<String, PassError> {
    let mut text = load(bytes)?.disassemble();
    text.push('\n');
    Ok(text)
}

/// The instruction that makes an id, among types, constants and variables.
fn global(module: &Module, id: Word) -> Option<&Instruction> {
    module.types_global_values.iter().find(|i| i.result_id == Some(id))
}
/// Every instruction in functions.
fn code(module: &Module) -> impl Iterator<Item = &Instruction> {
    module.functions.iter().flat_map(|f| &f.blocks).flat_map(|b| &b.instructions)
}
fn id(operand: &Operand) -> Option<Word> {
    match operand {
        Operand::IdRef(id) => Some(*id),
        _ => None,
    }
}
