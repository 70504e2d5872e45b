//! The capabilities and extensions that a module uses, and the Vulkan features that stand for them.
//!
//! A capability is needed by a type of some width, by an instruction or by a decoration. 8- and 16-bit types need no
//! arithmetic capability where all that happens to them is moving between storage buffers and wider values.

use super::{code, global, id};
use rspirv::{
    dr::{Instruction, Module, Operand},
    spirv::{Capability, Op, StorageClass, Word},
};
use std::collections::{BTreeSet, HashMap};

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
/// Subgroup operations are no features but bits of the property `subgroupSupportedOperations`.
const KNOWN: &[Known] = &[
    known(Capability::Shader, &[], &[]),
    known(Capability::Int8, &[], &["shaderInt8"]),
    known(Capability::Int16, &[], &["shaderInt16"]),
    known(Capability::Int64, &[], &["shaderInt64"]),
    known(Capability::Float16, &[], &["shaderFloat16"]),
    known(Capability::Float64, &[], &["shaderFloat64"]),
    known(Capability::StorageBuffer8BitAccess, &[], &["storageBuffer8BitAccess"]),
    known(Capability::StorageBuffer16BitAccess, &[], &["storageBuffer16BitAccess"]),
    known(Capability::GroupNonUniform, &[], &[]),
    known(Capability::GroupNonUniformVote, &[], &[]),
    known(Capability::GroupNonUniformBallot, &[], &[]),
    known(Capability::GroupNonUniformArithmetic, &[], &[]),
    known(Capability::GroupNonUniformShuffle, &[], &[]),
    known(Capability::GroupNonUniformShuffleRelative, &[], &[]),
    known(
        Capability::AtomicFloat32AddEXT,
        &["SPV_EXT_shader_atomic_float_add"],
        &["VK_EXT_shader_atomic_float", "shaderBufferFloat32AtomicAdd"],
    ),
];

/// The capabilities that the module uses, ascending; the name of one that has no entry here is the error.
pub fn used(module: &Module) -> Result<BTreeSet<Capability>, String> {
    let mut found = BTreeSet::from([Capability::Shader]);
    let instructions = || module.types_global_values.iter().chain(&module.annotations).chain(code(module));
    for i in instructions() {
        let mut needs = vec![i.class.capabilities.to_vec()];
        needs.extend(
            i.operands.iter().filter(|o| !matches!(o, Operand::Capability(_))).map(Operand::required_capabilities),
        );
        for any_of in needs {
            found.extend(pick(&any_of)?);
        }
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
                (Op::Variable | Op::Constant | Op::ConstantComposite | Op::ConstantNull | Op::Undef, _)
                    if touches(i) =>
                {
                    found.insert(arithmetic);
                }
                _ => {}
            }
        }
        let moves = [Op::Load, Op::Store, Op::AccessChain, Op::UConvert, Op::SConvert, Op::FConvert];
        if code(module).any(|i| touches(i) && !moves.contains(&i.class.opcode)) {
            found.insert(arithmetic);
        }
    }
}

/// The extensions that capabilities bring, ascending.
pub fn extensions(used: &BTreeSet<Capability>) -> BTreeSet<&'static str> {
    KNOWN.iter().filter(|k| used.contains(&k.capability)).flat_map(|k| k.extensions).copied().collect()
}

/// The Vulkan features and extensions, by the specification's names, that a module's declared capabilities and float
/// controls need. Ascending.
pub fn features(module: &Module) -> BTreeSet<&'static str> {
    let declared =
        |c: Capability| module.capabilities.iter().flat_map(|i| &i.operands).any(|o| *o == Operand::Capability(c));
    let mut found: BTreeSet<&str> =
        KNOWN.iter().filter(|k| declared(k.capability)).flat_map(|k| k.features).copied().collect();
    let floats_are_shared = || {
        code(module)
            .filter(|i| i.class.opcode == Op::AtomicFAddEXT)
            .filter_map(|i| i.operands.first().and_then(id))
            .any(|pointer| storage_class(module, pointer) == Some(StorageClass::Workgroup))
    };
    if declared(Capability::AtomicFloat32AddEXT) && floats_are_shared() {
        found.insert("shaderSharedFloat32AtomicAdd");
    }
    found
}
fn storage_class(module: &Module, pointer: Word) -> Option<StorageClass> {
    let made = code(module).chain(&module.types_global_values).find(|i| i.result_id == Some(pointer))?;
    match global(module, made.result_type?)?.operands.first()? {
        Operand::StorageClass(class) => Some(*class),
        _ => None,
    }
}
