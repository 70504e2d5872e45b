//! lower-to-spirv: each `gpu.module` gets a `spirv.module` inside, by MLIR's conversion.
//!
//! The kernels are converted in a module of their own (the conversion works on whole modules and this one holds the host
//! program as well), then put back under their names. An index is 32 bits, and 64 where spirv-values marked the kernel as
//! wide. Buffers that are found by address get descriptor sets of their own here, from which [`crate::binary`] takes them.
//!
//! What MLIR's conversion leaves wrong and the serialised form can say is put right in [`crate::binary`]. Here: the
//! version (update-vce writes the least one that the ops need, which does not allow storage buffers in an entry
//! point's interface) and the semantics of atomics, which name no storage class.
//!
//! Invariants: every `gpu.module` holds one `spirv.module` with one entry point, of the same name.

use crate::binary::addresses;
use crate::loops;
use crate::values::{FACTORS, FAR, WIDE, kernels};
use melior::{
    Context,
    ir::{Attribute, Location, Module},
};
use zmlc_passes::{
    context::run_pipeline,
    ir::{
        B, BlockLike, O, ValueLike, args, array, attr, block, body, dict_get, name, ops, read,
        rewrite::{clone_mapped, erase, move_to_end, remove_attr, set_attr},
        walk,
    },
    pass::{Env, Pass, PassError},
    spec::DeviceSpec,
};

pub struct LowerToSpirv;

impl Pass for LowerToSpirv {
    fn name(&self) -> &'static str {
        "lower-to-spirv"
    }
    fn about(&self) -> &'static str {
        "gpu, scf, arith, math and memref to the spirv dialect"
    }
    fn run<'c>(&self, context: &'c Context, module: &mut Module<'c>, env: Env) -> Result<(), PassError> {
        let all = kernels(module);
        let (wide, narrow): (Vec<O>, Vec<O>) = all.into_iter().partition(|g| read::has_attr(*g, WIDE));
        for (group, bits) in [(narrow, 32), (wide, 64)] {
            if !group.is_empty() {
                convert(context, &group, env.spec(), bits)?;
            }
        }
        Ok(())
    }
    fn verify<'c>(&self, _context: &'c Context, module: &Module<'c>, _env: Env) -> Result<(), PassError> {
        for g in kernels(module) {
            let symbol = read::str_attr(g, "sym_name").unwrap_or_default();
            let inner = ops(block(g, 0));
            let entries: Vec<_> = inner
                .iter()
                .flat_map(|m| if name(*m) == "spirv.module" { ops(block(*m, 0)) } else { vec![] })
                .filter(|op| name(*op) == "spirv.EntryPoint")
                .map(|op| read::symbol_attr(op, "fn"))
                .collect();
            if inner.len() != 1 || entries != [Some(symbol)] {
                return Err(PassError::Bug(format!("kernel {symbol} is not one spirv.module with that entry point")));
            }
        }
        Ok(())
    }
}

fn convert<'c>(c: &'c Context, group: &[O<'c>], spec: &DeviceSpec, index: u32) -> Result<(), PassError> {
    let mut scratch = Module::new(Location::unknown(c));
    let home = body(&scratch);
    let b = B::new(c, home);
    let environment = environment(&b, spec)?;
    set_attr(read::module_op(&scratch), "spirv.target_env", environment);
    set_attr(read::module_op(&scratch), "gpu.container_module", b.unit());
    for g in group {
        subgroups(*g, spec)?;
        let copy = clone_mapped(&b, *g, &mut Default::default());
        for f in ops(block(copy, 0)).into_iter().filter(|f| name(*f) == "gpu.func") {
            abi(&b, f)?;
        }
    }
    let wide = if index == 64 { "{use-64bit-index=true}" } else { "" };
    run_pipeline(
        c,
        &mut scratch,
        &format!(
            "builtin.module(convert-math-to-spirv,convert-gpu-to-spirv{wide},spirv.module(spirv-lower-abi-attrs,spirv-update-vce))"
        ),
    )?;
    let made: Vec<O> = ops(body(&scratch)).into_iter().filter(|op| name(*op) == "spirv.module").collect();
    if made.len() != group.len() {
        return Err(PassError::Bug(format!("{} kernels became {} spirv modules", group.len(), made.len())));
    }
    for (g, m) in group.iter().zip(made) {
        loops::initialise(&b, m)?;
        put_right(&b, m, spec)?;
        if let Some(factor) = read::str_attr(*g, FACTORS) {
            factors(&b, m, factor);
        }
        for old in ops(block(*g, 0)).into_iter().rev() {
            erase(old);
        }
        remove_attr(m, "sym_name");
        move_to_end(m, block(*g, 0));
        set_attr(*g, "targets", b.array(&[environment]));
    }
    Ok(())
}

/// A kernel may look at its subgroup only where the profile fixes the size of one.
fn subgroups(g: O, spec: &DeviceSpec) -> Result<(), PassError> {
    let of_subgroups = |op: &O| name(*op) == "gpu.shuffle" || name(*op).starts_with("gpu.subgroup");
    match walk(g).into_iter().find(of_subgroups) {
        Some(op) if spec.subgroup == 0 => Err(PassError::Unsupported {
            what: format!(
                "kernel {} has `{}`, and the profile {} does not fix the size of a subgroup",
                read::str_attr(g, "sym_name").unwrap_or_default(),
                name(op),
                spec.name
            ),
            hint: "build for a profile whose `subgroup` is not 0".into(),
        }),
        _ => Ok(()),
    }
}

/// Everything that a kernel may use. What it does use is declared in the binary and held against the profile there: a
/// capability left out here makes MLIR store 8- and 16-bit elements as something else without a word.
fn environment<'c>(b: &B<'c>, spec: &DeviceSpec) -> Result<Attribute<'c>, PassError> {
    const CAPABILITIES: &str = "Shader, Int8, Int16, Int64, Float16, Float64, StorageBuffer8BitAccess, \
        StorageBuffer16BitAccess, GroupNonUniform, GroupNonUniformVote, GroupNonUniformBallot, \
        GroupNonUniformArithmetic, GroupNonUniformShuffle, GroupNonUniformShuffleRelative, AtomicFloat32AddEXT";
    const EXTENSIONS: &str = "SPV_EXT_shader_atomic_float_add";
    // MLIR takes cooperative matrices from SPIR-V 1.6 on.
    let (capabilities, extensions) = if spec.matrices.is_empty() {
        ("", "")
    } else {
        (
            ", CooperativeMatrixKHR, VulkanMemoryModel, BFloat16TypeKHR, BFloat16CooperativeMatrixKHR",
            ", SPV_KHR_cooperative_matrix, SPV_KHR_bfloat16",
        )
    };
    let limits = if spec.subgroup > 0 { format!("subgroup_size = {}", spec.subgroup) } else { String::new() };
    let text = format!(
        "#spirv.target_env<#spirv.vce<v{}, [{CAPABILITIES}{capabilities}], [{EXTENSIONS}{extensions}]>, #spirv.resource_limits<{limits}>>",
        version(spec)?
    );
    Ok(b.attr(&text))
}
/// The profile's option `spirv`: `1.5`.
pub fn version(spec: &DeviceSpec) -> Result<&str, PassError> {
    let v = spec.options.get("spirv").map_or("", String::as_str);
    match v {
        "1.4" | "1.5" | "1.6" => Ok(v),
        _ => Err(PassError::Bug(format!("profile {}: the option spirv is `{v}`, not 1.4, 1.5 or 1.6", spec.name))),
    }
}

/// Workgroup size and bindings, in the attributes that MLIR reads.
fn abi<'c>(b: &B<'c>, f: O<'c>) -> Result<(), PassError> {
    let symbol = read::str_attr(f, "sym_name").unwrap_or_default();
    let bug = |what: &str| PassError::Bug(format!("kernel {symbol}: {what}"));
    let size = read::i32s_attr(f, "known_block_size").ok_or_else(|| bug("no known_block_size"))?;
    let sizes: Vec<String> = size.iter().map(ToString::to_string).collect();
    let entry = b.attr(&format!("#spirv.entry_point_abi<workgroup_size = [{}]>", sizes.join(", ")));
    set_attr(f, "spirv.entry_point_abi", entry);
    let old = attr(f, "arg_attrs").map(array).unwrap_or_default();
    let mut new = vec![];
    for i in 0..block(f, 0).argument_count() {
        let number = |key| old.get(i).and_then(|a| dict_get(*a, key)).and_then(read::int);
        let far = old.get(i).is_some_and(|a| dict_get(*a, FAR).is_some());
        let reach = i64::from(if far { addresses::FAR } else { addresses::NEAR });
        let address = number("zml.address").map(|at| (i64::from(addresses::SET) + at, reach));
        let Some((set, binding)) = address.or_else(|| number("zml.set").zip(number("zml.binding"))) else {
            return Err(bug("a buffer without a place: assign-descriptors comes first"));
        };
        let at = b.attr(&format!("#spirv.interface_var_abi<({set}, {binding})>"));
        new.push(b.dict(&[("spirv.interface_var_abi", at)]));
    }
    set_attr(f, "arg_attrs", b.array(&new));
    Ok(())
}

/// The factors' cooperative matrices hold `element`, under whatever name they were converted.
fn factors<'c>(b: &B<'c>, m: O<'c>, element: &str) {
    for op in walk(m) {
        let arguments = read::blocks(op).into_iter().flat_map(args);
        for v in read::results(op).into_iter().chain(arguments) {
            let t = v.r#type().to_string();
            if t.starts_with("!spirv.coopmatrix<") && (t.contains("MatrixA") || t.contains("MatrixB")) {
                v.set_type(b.ty(&t.replace("xf16,", &format!("x{element},"))));
            }
        }
    }
}

fn put_right<'c>(b: &B<'c>, m: O<'c>, spec: &DeviceSpec) -> Result<(), PassError> {
    let vce = attr(m, "vce_triple").map(|a| a.to_string()).unwrap_or_default();
    let rest = vce.split_once(',').map(|(_, rest)| rest).ok_or_else(|| PassError::Bug(format!("vce `{vce}`")))?;
    set_attr(m, "vce_triple", b.attr(&format!("#spirv.vce<v{},{rest}", version(spec)?)));
    for op in walk(m) {
        if name(op).starts_with("spirv.Atomic") || name(op).starts_with("spirv.EXT.Atomic") {
            for semantics in ["semantics", "equal_semantics", "unequal_semantics"] {
                if read::has_attr(op, semantics) {
                    set_attr(op, semantics, b.attr("#spirv.memory_semantics<None>"));
                }
            }
        }
    }
    Ok(())
}
