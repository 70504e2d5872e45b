//! The capabilities and extensions that a module uses, and the Vulkan features that stand for them.
//!
//! A capability is needed by a type of some width, by an instruction or by a decoration. 8- and 16-bit types need no
//! arithmetic capability where all that happens to them is moving between storage buffers and wider values.

use super::{code, global, id};
use rspirv::{
    dr::{Instruction, Module, Operand},
    spirv::{Capability, ExecutionMode, Op, StorageClass, Word},
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What a capability asks of a device: extensions of SPIR-V, and features of Vulkan by the specification's names.
struct Known {
    capability: Capability,
    extensions: &'static [&'static str],
    features: &'static [&'static str],
}
const fn known(
    capability: Capability,
    extensions: &'static [&'static str],
    features: &'static [&'static str],
) -> Known {
    Known { capability, extensions, features }
}
const KNOWN: &[Known] = &[
    known(Capability::Shader, &[], &[]),
    known(Capability::Int8, &[], &["shaderInt8"]),
    known(Capability::Int16, &[], &["shaderInt16"]),
    known(Capability::Int64, &[], &["shaderInt64"]),
    known(Capability::Float16, &[], &["shaderFloat16"]),
    known(Capability::Float64, &[], &["shaderFloat64"]),
    known(Capability::StorageBuffer8BitAccess, &[], &["storageBuffer8BitAccess"]),
    known(Capability::StorageBuffer16BitAccess, &[], &["storageBuffer16BitAccess"]),
    known(Capability::SignedZeroInfNanPreserve, &[], &[]),
    known(Capability::DenormPreserve, &[], &[]),
    known(Capability::RoundingModeRTE, &[], &[]),
    known(Capability::GroupNonUniform, &[], &[]),
    known(Capability::GroupNonUniformVote, &[], &[]),
    known(Capability::GroupNonUniformBallot, &[], &[]),
    known(Capability::GroupNonUniformArithmetic, &[], &[]),
    known(Capability::GroupNonUniformShuffle, &[], &[]),
    known(Capability::GroupNonUniformShuffleRelative, &[], &[]),
    known(Capability::PhysicalStorageBufferAddresses, &[], &["bufferDeviceAddress"]),
    known(Capability::VulkanMemoryModel, &[], &["vulkanMemoryModel"]),
    known(
        Capability::CooperativeMatrixKHR,
        &["SPV_KHR_cooperative_matrix"],
        &["VK_KHR_cooperative_matrix", "cooperativeMatrix"],
    ),
    known(Capability::BFloat16TypeKHR, &["SPV_KHR_bfloat16"], &["VK_KHR_shader_bfloat16", "shaderBFloat16Type"]),
    known(Capability::BFloat16CooperativeMatrixKHR, &["SPV_KHR_bfloat16"], &["shaderBFloat16CooperativeMatrix"]),
    known(
        Capability::AtomicFloat32AddEXT,
        &["SPV_EXT_shader_atomic_float_add"],
        &["VK_EXT_shader_atomic_float", "shaderBufferFloat32AtomicAdd"],
    ),
];

/// The capabilities that the module uses, ascending; the name of one that has no entry here is the error.
pub fn used(module: &Module) -> Result<BTreeSet<Capability>, String> {
    let mut found = BTreeSet::from([Capability::Shader]);
    let instructions = module.types_global_values.iter().chain(&module.annotations).chain(&module.execution_modes);
    let instructions = instructions.chain(&module.memory_model);
    for i in instructions.chain(code(module)) {
        let mut needs = vec![i.class.capabilities.to_vec()];
        needs.extend(
            i.operands.iter().filter(|o| !matches!(o, Operand::Capability(_))).map(Operand::required_capabilities),
        );
        for any_of in needs {
            found.extend(pick(&any_of)?);
        }
    }
    if found.contains(&Capability::BFloat16TypeKHR) && multiplies_matrices(module) {
        found.insert(Capability::BFloat16CooperativeMatrixKHR);
    }
    let widths = Widths::of(module);
    for (width, arithmetic, storage) in [
        (8, Capability::Int8, Some(Capability::StorageBuffer8BitAccess)),
        (16, Capability::Int16, Some(Capability::StorageBuffer16BitAccess)),
        (64, Capability::Int64, None),
    ] {
        widths.need(module, &mut found, Op::TypeInt, width, arithmetic, storage);
    }
    for (width, arithmetic, storage) in
        [(16, Capability::Float16, Some(Capability::StorageBuffer16BitAccess)), (64, Capability::Float64, None)]
    {
        widths.need(module, &mut found, Op::TypeFloat, width, arithmetic, storage);
    }
    Ok(found)
}

/// Whether the module has cooperative matrices.
pub fn multiplies_matrices(module: &Module) -> bool {
    module.types_global_values.iter().any(|i| i.class.opcode == Op::TypeCooperativeMatrixKHR)
}

/// One of several capabilities that each would do: none if Shader is among them, else the first that is known.
fn pick(any_of: &[Capability]) -> Result<Option<Capability>, String> {
    if any_of.is_empty() || any_of.contains(&Capability::Shader) || any_of.contains(&Capability::Matrix) {
        return Ok(None);
    }
    let found = any_of.iter().find(|c| KNOWN.iter().any(|k| k.capability == **c));
    found.copied().map(Some).ok_or_else(|| format!("{any_of:?}"))
}

/// Which scalar each id is made of, by the type's opcode and width.
struct Widths {
    /// Of types, to a scalar: through pointers, arrays, structs and vectors.
    scalars: HashMap<Word, BTreeSet<(u32, u32)>>,
    /// The type of each value.
    types: HashMap<Word, Word>,
}
impl Widths {
    fn of(module: &Module) -> Self {
        let mut scalars: HashMap<Word, BTreeSet<(u32, u32)>> = HashMap::new();
        let mut types = HashMap::new();
        for i in module.types_global_values.iter().chain(code(module)) {
            let Some(result) = i.result_id else { continue };
            if let Some(t) = i.result_type {
                types.insert(result, t);
            }
            match (i.class.opcode, i.operands.first()) {
                (op @ (Op::TypeInt | Op::TypeFloat), Some(Operand::LiteralBit32(width))) => {
                    scalars.insert(result, BTreeSet::from([(op as u32, *width)]));
                }
                (Op::TypePointer | Op::TypeVector | Op::TypeArray | Op::TypeRuntimeArray | Op::TypeStruct, _) => {
                    let inner = i.operands.iter().filter_map(id).filter_map(|t| scalars.get(&t)).flatten().copied();
                    let inner = inner.collect();
                    scalars.insert(result, inner);
                }
                _ => {}
            }
        }
        Widths { scalars, types }
    }
    fn holds(&self, t: Word, scalar: (u32, u32)) -> bool {
        self.scalars.get(&t).is_some_and(|s| s.contains(&scalar))
    }
    /// Adds what a scalar type of this width needs.
    fn need(
        &self,
        module: &Module,
        found: &mut BTreeSet<Capability>,
        op: Op,
        width: u32,
        arithmetic: Capability,
        storage: Option<Capability>,
    ) {
        let scalar = (op as u32, width);
        let touches = |i: &Instruction| {
            let of = |id: &Word| self.types.get(id).is_some_and(|t| self.holds(*t, scalar));
            i.result_type.is_some_and(|t| self.holds(t, scalar)) || i.operands.iter().filter_map(id).any(|id| of(&id))
        };
        let Some(storage) = storage else {
            if module.types_global_values.iter().any(|i| i.result_id.is_some_and(|t| self.holds(t, scalar))) {
                found.insert(arithmetic);
            }
            return;
        };
        for i in &module.types_global_values {
            match (i.class.opcode, i.operands.first()) {
                (Op::Variable, Some(Operand::StorageClass(StorageClass::StorageBuffer))) if touches(i) => {
                    found.insert(storage);
                }
                (Op::TypePointer, Some(Operand::StorageClass(StorageClass::PhysicalStorageBuffer)))
                    if i.result_id.is_some_and(|t| self.holds(t, scalar)) =>
                {
                    found.insert(storage);
                }
                (Op::Variable | Op::Constant | Op::ConstantComposite | Op::ConstantNull | Op::Undef, _)
                    if touches(i) =>
                {
                    found.insert(arithmetic);
                }
                _ => {}
            }
        }
        let moves = [
            Op::Load,
            Op::Store,
            Op::AccessChain,
            Op::UConvert,
            Op::SConvert,
            Op::FConvert,
            Op::ConvertPtrToU,
            Op::ConvertUToPtr,
        ];
        if code(module).any(|i| touches(i) && !moves.contains(&i.class.opcode)) {
            found.insert(arithmetic);
        }
    }
}

/// The extensions that capabilities bring, ascending.
pub fn extensions(used: &BTreeSet<Capability>) -> BTreeSet<&'static str> {
    KNOWN.iter().filter(|k| used.contains(&k.capability)).flat_map(|k| k.extensions).copied().collect()
}

fn declared(module: &Module, c: Capability) -> bool {
    module.capabilities.iter().flat_map(|i| &i.operands).any(|o| *o == Operand::Capability(c))
}
/// The Vulkan features and extensions, by the specification's names, that a module's declared capabilities need. Ascending.
pub fn features(module: &Module) -> BTreeSet<&'static str> {
    let mut found: BTreeSet<&str> =
        KNOWN.iter().filter(|k| declared(module, k.capability)).flat_map(|k| k.features).copied().collect();
    let floats_are_shared = || {
        code(module)
            .filter(|i| i.class.opcode == Op::AtomicFAddEXT)
            .filter_map(|i| i.operands.first().and_then(id))
            .any(|pointer| storage_class(module, pointer) == Some(StorageClass::Workgroup))
    };
    if declared(module, Capability::AtomicFloat32AddEXT) && floats_are_shared() {
        found.insert("shaderSharedFloat32AtomicAdd");
    }
    found
}
/// Bits of the property `subgroupSupportedOperations`.
const SUBGROUP_OPERATIONS: &[(Capability, u64)] = &[
    (Capability::GroupNonUniformVote, 0x2),
    (Capability::GroupNonUniformArithmetic, 0x4),
    (Capability::GroupNonUniformBallot, 0x8),
    (Capability::GroupNonUniformShuffle, 0x10),
    (Capability::GroupNonUniformShuffleRelative, 0x20),
];
const SUBGROUP: &str = "subgroupSupportedOperations";
/// Float controls: the execution mode, the width in bits and the property that says a device has it.
pub const FLOAT_CONTROLS: &[(ExecutionMode, u32, &str)] = &[
    (ExecutionMode::SignedZeroInfNanPreserve, 16, "shaderSignedZeroInfNanPreserveFloat16"),
    (ExecutionMode::SignedZeroInfNanPreserve, 32, "shaderSignedZeroInfNanPreserveFloat32"),
    (ExecutionMode::SignedZeroInfNanPreserve, 64, "shaderSignedZeroInfNanPreserveFloat64"),
    (ExecutionMode::DenormPreserve, 16, "shaderDenormPreserveFloat16"),
    (ExecutionMode::DenormPreserve, 32, "shaderDenormPreserveFloat32"),
    (ExecutionMode::DenormPreserve, 64, "shaderDenormPreserveFloat64"),
    (ExecutionMode::RoundingModeRTE, 16, "shaderRoundingModeRTEFloat16"),
    (ExecutionMode::RoundingModeRTE, 32, "shaderRoundingModeRTEFloat32"),
    (ExecutionMode::RoundingModeRTE, 64, "shaderRoundingModeRTEFloat64"),
];
/// Whether a profile's limit is an offer to kernels, which an artifact requires only where it is used.
pub fn is_offer(limit: &str) -> bool {
    limit == SUBGROUP || FLOAT_CONTROLS.iter().any(|c| c.2 == limit)
}
/// The properties, by the specification's names, that a module needs and their least values: subgroup operations as bits,
/// float controls as 1. Ascending.
pub fn properties(module: &Module) -> BTreeMap<&'static str, u64> {
    let mut found = BTreeMap::new();
    let operations = SUBGROUP_OPERATIONS.iter().filter(|o| declared(module, o.0)).map(|o| o.1).sum();
    if operations > 0 {
        found.insert(SUBGROUP, operations);
    }
    for (mode, width, property) in FLOAT_CONTROLS {
        let operands = [Operand::ExecutionMode(*mode), Operand::LiteralBit32(*width)];
        if module.execution_modes.iter().any(|m| m.operands.ends_with(&operands)) {
            found.insert(*property, 1);
        }
    }
    found
}
/// Whether the code computes floats of this width.
pub fn computes_floats(module: &Module, width: u32) -> bool {
    let scalar = (Op::TypeFloat as u32, width);
    let widths = Widths::of(module);
    let moves = [Op::Load, Op::AccessChain, Op::CompositeExtract, Op::CompositeConstruct, Op::Bitcast, Op::Variable];
    code(module).any(|i| {
        let takes = i.operands.iter().filter_map(id).filter_map(|o| widths.types.get(&o));
        let mut types = takes.copied().chain(i.result_type);
        !moves.contains(&i.class.opcode) && i.class.opcode != Op::Store && types.any(|t| widths.holds(t, scalar))
    })
}
pub fn storage_class(module: &Module, pointer: Word) -> Option<StorageClass> {
    let made = code(module).chain(&module.types_global_values).find(|i| i.result_id == Some(pointer))?;
    match global(module, made.result_type?)?.operands.first()? {
        Operand::StorageClass(class) => Some(*class),
        _ => None,
    }
}
