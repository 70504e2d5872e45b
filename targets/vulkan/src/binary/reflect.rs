//! What a driver sees of a kernel: entry point, workgroup size, bindings and the accesses to them, push constants.

use super::{code, global, id};
use rspirv::{
    dr::{Module, Operand},
    spirv::{Decoration, ExecutionMode, Op, StorageClass, Word},
};
use std::collections::{BTreeMap, HashMap};

/// A storage buffer of the interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The variable's id.
    pub variable: Word,
    pub set: u32,
    pub binding: u32,
    /// Loaded from or stored to anywhere in the code.
    pub reads: bool,
    pub writes: bool,
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub entry: String,
    pub workgroup: [u32; 3],
    /// By set and binding.
    pub bindings: Vec<Binding>,
    /// Bytes of the push-constant block, up to its last member.
    pub scalar_bytes: u32,
    /// Bytes of workgroup memory.
    pub shared_bytes: u32,
}

/// Reads a module of one entry point; says what it lacks otherwise.
pub fn interface(module: &Module) -> Result<Interface, String> {
    let [entry] = &module.entry_points[..] else {
        return Err(format!("{} entry points", module.entry_points.len()));
    };
    let symbol = entry.operands.iter().find_map(|o| match o {
        Operand::LiteralString(s) => Some(s.clone()),
        _ => None,
    });
    let workgroup = module.execution_modes.iter().find_map(|m| match m.operands[..] {
        [
            _,
            Operand::ExecutionMode(ExecutionMode::LocalSize),
            Operand::LiteralBit32(x),
            Operand::LiteralBit32(y),
            Operand::LiteralBit32(z),
        ] => Some([x, y, z]),
        _ => None,
    });
    let touched = accesses(module);
    let mut bindings = vec![];
    let (mut scalar_bytes, mut shared_bytes) = (0, 0);
    for v in module.types_global_values.iter().filter(|i| i.class.opcode == Op::Variable) {
        let variable = v.result_id.ok_or("a variable without an id")?;
        let pointee = v.result_type.and_then(|t| global(module, t)).and_then(|t| t.operands.get(1)).and_then(id);
        match v.operands.first() {
            Some(Operand::StorageClass(StorageClass::StorageBuffer)) => {
                let number = |d| decoration(module, variable, d).ok_or(format!("a buffer without {d:?}"));
                let (reads, writes) = touched.get(&variable).copied().unwrap_or_default();
                bindings.push(Binding {
                    variable,
                    set: number(Decoration::DescriptorSet)?,
                    binding: number(Decoration::Binding)?,
                    reads,
                    writes,
                });
            }
            Some(Operand::StorageClass(StorageClass::PushConstant)) => {
                scalar_bytes = pointee.map_or(0, |t| block_bytes(module, t));
            }
            Some(Operand::StorageClass(StorageClass::Workgroup)) => {
                shared_bytes += pointee.and_then(|t| size(module, t)).ok_or("workgroup memory of unknown size")?;
            }
            _ => {}
        }
    }
    bindings.sort_by_key(|b| (b.set, b.binding));
    Ok(Interface {
        entry: symbol.ok_or("an entry point without a name")?,
        workgroup: workgroup.ok_or("no LocalSize")?,
        bindings,
        scalar_bytes,
        shared_bytes,
    })
}

fn decoration(module: &Module, target: Word, wanted: Decoration) -> Option<u32> {
    module.annotations.iter().find_map(|a| match a.operands[..] {
        [Operand::IdRef(t), Operand::Decoration(d), Operand::LiteralBit32(x)] if t == target && d == wanted => Some(x),
        _ => None,
    })
}
/// Reads and writes of each variable, through access chains.
fn accesses(module: &Module) -> BTreeMap<Word, (bool, bool)> {
    let mut root: HashMap<Word, Word> = HashMap::new();
    let mut found: BTreeMap<Word, (bool, bool)> = BTreeMap::new();
    for i in code(module) {
        let base = i.operands.first().and_then(id).map(|p| root.get(&p).copied().unwrap_or(p));
        let (Some(base), op) = (base, i.class.opcode) else { continue };
        match op {
            Op::AccessChain | Op::InBoundsAccessChain | Op::CopyObject => {
                root.extend(i.result_id.map(|r| (r, base)));
            }
            Op::Load => found.entry(base).or_default().0 = true,
            Op::Store => found.entry(base).or_default().1 = true,
            _ if format!("{op:?}").starts_with("Atomic") => *found.entry(base).or_default() = (true, true),
            _ => {}
        }
    }
    found
}
/// End of the last member of a block of 4-byte members.
fn block_bytes(module: &Module, block: Word) -> u32 {
    let offsets = module.annotations.iter().filter_map(|a| match a.operands[..] {
        [Operand::IdRef(t), _, Operand::Decoration(Decoration::Offset), Operand::LiteralBit32(x)] if t == block => {
            Some(x)
        }
        _ => None,
    });
    offsets.max().map_or(0, |x| x + 4)
}
/// Bytes of a type without layout decorations.
pub(super) fn size(module: &Module, t: Word) -> Option<u32> {
    let i = global(module, t)?;
    let inner = || i.operands.first().and_then(id).and_then(|t| size(module, t));
    match (i.class.opcode, &i.operands[..]) {
        (Op::TypeInt | Op::TypeFloat, [Operand::LiteralBit32(bits), ..]) => Some(bits / 8),
        (Op::TypeVector, [_, Operand::LiteralBit32(n)]) => Some(inner()? * n),
        (Op::TypeArray, [_, Operand::IdRef(n)]) => match global(module, *n)?.operands.first()? {
            Operand::LiteralBit32(n) => Some(inner()? * n),
            _ => None,
        },
        (Op::TypeStruct, members) => members.iter().filter_map(id).map(|m| size(module, m)).sum(),
        _ => None,
    }
}
