//! Corrections of what MLIR serialises, and what only the binary can say.
//!
//! - Capabilities and extensions: exactly those that the code uses.
//! - 2^x is `Exp2`, for which MLIR has no op: `Exp`, which nothing else uses, stands for it.
//! - Float additions, subtractions and multiplications are `NoContraction`: an implementation must not fuse what the
//!   program did not write as `math.fma`.
//! - Buffers are `NonWritable` or `NonReadable` where the plan says so, and `Restrict`: plan gives a kernel's buffers
//!   disjoint bytes unless none of them is written.
//! - A barrier orders storage buffers too where one is both read and written.
//! - A module with cooperative matrices is in the Vulkan memory model: its workgroup memory is shared, not private, and
//!   barriers make it available and visible.
//! - Float controls that the profile requires of a device are asked for where floats of that width are computed.

use super::{capabilities, code, global, id, reflect::Binding};
use rspirv::{
    dr::{Instruction, Module, Operand},
    spirv::{
        Capability, CooperativeMatrixOperands, Decoration, GlslStd450Op, MemoryAccess, MemoryModel, MemorySemantics,
        Op, StorageClass, Word,
    },
};
use zml_format::Access;

/// Declares what is used and no more. The error names a capability that is not known here.
pub fn declare(module: &mut Module) -> Result<(), String> {
    let used = capabilities::used(module)?;
    let capability = |c: &Capability| Instruction::new(Op::Capability, None, None, vec![Operand::Capability(*c)]);
    module.capabilities = used.iter().map(capability).collect();
    module.extensions = capabilities::extensions(&used)
        .into_iter()
        .map(|e| Instruction::new(Op::Extension, None, None, vec![Operand::LiteralString(e.into())]))
        .collect();
    Ok(())
}

/// Makes `Exp2` of every `Exp`.
pub fn powers_of_two(module: &mut Module) {
    for i in module.all_inst_iter_mut().filter(|i| i.class.opcode == Op::ExtInst) {
        if let Some(Operand::LiteralExtInstInteger(n)) = i.operands.get_mut(1)
            && *n == GlslStd450Op::Exp as u32
        {
            *n = GlslStd450Op::Exp2 as u32;
        }
    }
}

pub fn no_contraction(module: &mut Module) {
    let results: Vec<Word> = code(module)
        .filter(|i| matches!(i.class.opcode, Op::FAdd | Op::FSub | Op::FMul))
        .filter_map(|i| i.result_id)
        .collect();
    for r in results {
        decorate(module, r, Decoration::NoContraction);
    }
}

/// `plan[i]` is the access to `bindings[i]`.
pub fn buffers(module: &mut Module, bindings: &[Binding], plan: &[Access]) {
    for (b, access) in bindings.iter().zip(plan) {
        decorate(module, b.variable, Decoration::Restrict);
        if !access.writes() {
            decorate(module, b.variable, Decoration::NonWritable);
        }
        if !access.reads() {
            decorate(module, b.variable, Decoration::NonReadable);
        }
    }
}

/// Asks for the float controls that `offered` has, by the names of their properties.
pub fn float_controls(module: &mut Module, offered: impl Fn(&str) -> bool) {
    let Some(entry) = module.entry_points.first().and_then(|e| e.operands.iter().find_map(id)) else { return };
    for (mode, width, property) in capabilities::FLOAT_CONTROLS {
        if offered(property) && capabilities::computes_floats(module, *width) {
            let operands = vec![Operand::IdRef(entry), Operand::ExecutionMode(*mode), Operand::LiteralBit32(*width)];
            module.execution_modes.push(Instruction::new(Op::ExecutionMode, None, None, operands));
        }
    }
}

/// Adds storage buffers to what barriers order.
pub fn barriers(module: &mut Module) {
    order(module, MemorySemantics::UNIFORM_MEMORY);
}
/// Adds to the semantics of barriers.
fn order(module: &mut Module, also: MemorySemantics) {
    let semantics: Vec<Word> = code(module)
        .filter(|i| i.class.opcode == Op::ControlBarrier)
        .filter_map(|i| i.operands.get(2).and_then(id_of_semantics))
        .collect();
    if semantics.is_empty() {
        return;
    }
    // The constant may serve elsewhere: barriers get one of their own.
    let Some(header) = module.header.as_mut() else { return };
    let new = header.bound;
    header.bound += 1;
    let Some(at) = module.types_global_values.iter().position(|i| i.result_id == Some(semantics[0])) else { return };
    let mut constant = module.types_global_values[at].clone();
    constant.result_id = Some(new);
    if let Some(Operand::LiteralBit32(bits)) = constant.operands.first_mut() {
        *bits |= also.bits();
    }
    module.types_global_values.insert(at + 1, constant);
    for i in module.functions.iter_mut().flat_map(|f| &mut f.blocks).flat_map(|b| &mut b.instructions) {
        if i.class.opcode == Op::ControlBarrier {
            i.operands[2] = Operand::IdMemorySemantics(new);
        }
    }
}
/// The memory model that cooperative matrices need, and the signs of their integers.
pub fn memory_model(module: &mut Module) {
    if !capabilities::multiplies_matrices(module) {
        return;
    }
    if let Some(model) = &mut module.memory_model
        && let Some(last) = model.operands.last_mut()
    {
        *last = Operand::MemoryModel(MemoryModel::Vulkan);
    }
    let accesses: Vec<Word> = code(module)
        .filter_map(|i| i.operands.first().and_then(id))
        .filter(|p| capabilities::storage_class(module, *p) == Some(StorageClass::Workgroup))
        .collect();
    let shared = |i: &Instruction| i.operands.first().and_then(id).is_some_and(|p| accesses.contains(&p));
    for i in module.functions.iter_mut().flat_map(|f| &mut f.blocks).flat_map(|b| &mut b.instructions) {
        let moves = [Op::Load, Op::Store, Op::CooperativeMatrixLoadKHR, Op::CooperativeMatrixStoreKHR];
        if moves.contains(&i.class.opcode) && shared(i) {
            i.operands.retain(|o| !matches!(o, Operand::MemoryAccess(_)));
            i.operands.push(Operand::MemoryAccess(MemoryAccess::NON_PRIVATE_POINTER));
        }
    }
    // Integers without a sign of their own: a product of cooperative matrices says what they are.
    let integers: Vec<Word> = module
        .types_global_values
        .iter()
        .filter(|t| t.class.opcode == Op::TypeCooperativeMatrixKHR)
        .filter(|t| {
            let component = t.operands.first().and_then(id).and_then(|c| global(module, c));
            component.is_some_and(|c| c.class.opcode == Op::TypeInt)
        })
        .filter_map(|t| t.result_id)
        .collect();
    let signed = CooperativeMatrixOperands::MATRIX_A_SIGNED_COMPONENTS_KHR
        | CooperativeMatrixOperands::MATRIX_B_SIGNED_COMPONENTS_KHR
        | CooperativeMatrixOperands::MATRIX_C_SIGNED_COMPONENTS_KHR
        | CooperativeMatrixOperands::MATRIX_RESULT_SIGNED_COMPONENTS_KHR;
    for i in module.functions.iter_mut().flat_map(|f| &mut f.blocks).flat_map(|b| &mut b.instructions) {
        let of_integers = i.result_type.is_some_and(|t| integers.contains(&t));
        if i.class.opcode == Op::CooperativeMatrixMulAddKHR && of_integers {
            i.operands.retain(|o| !matches!(o, Operand::CooperativeMatrixOperands(_)));
            i.operands.push(Operand::CooperativeMatrixOperands(signed));
        }
    }
    let also = MemorySemantics::MAKE_AVAILABLE | MemorySemantics::MAKE_VISIBLE;
    order(module, also);
}
fn id_of_semantics(o: &Operand) -> Option<Word> {
    match o {
        Operand::IdMemorySemantics(id) => Some(*id),
        o => id(o),
    }
}

pub(super) fn decorate(module: &mut Module, target: Word, decoration: Decoration) {
    let operands = vec![Operand::IdRef(target), Operand::Decoration(decoration)];
    module.annotations.push(Instruction::new(Op::Decorate, None, None, operands));
}
