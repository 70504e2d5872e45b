//! spirv.modules to binaries: MLIR's serializer, then corrections, then a look at the result as a driver sees it.

use crate::{
    binary::{
        self,
        addresses::{self, Addressed},
        capabilities, correct, reflect,
    },
    values::kernels,
};
use melior::{
    Context,
    ir::{Location, Module, attribute::ArrayAttribute},
};
use mlir_sys::{mlirAttributeIsAGPUObjectAttr, mlirGPUObjectAttrGetObject};
use zml_format::Access;
use zmlc_passes::{
    context::run_pipeline,
    ir::{AttributeLike, B, attr, body, name, ops, read, rewrite::clone_mapped, rewrite::set_attr},
    kernels::{self as facts, KernelInfo},
    pass::PassError,
    spec::DeviceSpec,
    target::Binary,
};

pub fn serialize<'c>(c: &'c Context, module: &Module<'c>, spec: &DeviceSpec) -> Result<Vec<Binary>, PassError> {
    let plan = facts::read(module).ok_or_else(|| PassError::Bug("no zml.kernels: an ABI pass comes first".into()))?;
    let mut scratch = Module::new(Location::unknown(c));
    let b = B::new(c, body(&scratch));
    set_attr(read::module_op(&scratch), "gpu.container_module", b.unit());
    for g in kernels(module) {
        clone_mapped(&b, g, &mut Default::default());
    }
    run_pipeline(c, &mut scratch, "builtin.module(gpu-module-to-binary{format=isa})")?;
    let binaries: Vec<_> = ops(body(&scratch)).into_iter().filter(|op| name(*op) == "gpu.binary").collect();
    if binaries.len() != plan.len() {
        return Err(PassError::Bug(format!("{} binaries for {} kernels", binaries.len(), plan.len())));
    }
    let mut made = vec![];
    for (op, kernel) in binaries.into_iter().zip(&plan) {
        let symbol = read::str_attr(op, "sym_name").unwrap_or_default();
        let bug = |what: String| PassError::Bug(format!("kernel {}: {what}", kernel.name));
        if symbol != kernel.name {
            return Err(bug(format!("the binary in its place is {symbol}'s")));
        }
        let words = object(op).ok_or_else(|| bug("no object".into()))?;
        let bytes = finish(&words, kernel, spec).map_err(|e| match e {
            PassError::Bug(what) => bug(what),
            e => e,
        })?;
        made.push(Binary { kernel: kernel.name.clone(), symbol: kernel.name.clone(), bytes, shared_bytes: 0 });
    }
    Ok(made)
}

/// The bytes of the only object of a `gpu.binary`.
fn object(op: zmlc_passes::ir::O) -> Option<Vec<u8>> {
    let objects: ArrayAttribute = attr(op, "objects")?.try_into().ok()?;
    let first = objects.element(0).ok()?.to_raw();
    // Sound: the kind is asked first, and the bytes live in the context while they are copied.
    unsafe {
        mlirAttributeIsAGPUObjectAttr(first).then(|| {
            let bytes = mlirGPUObjectAttrGetObject(first);
            std::slice::from_raw_parts(bytes.data.cast::<u8>(), bytes.length).to_vec()
        })
    }
}

fn finish(words: &[u8], kernel: &KernelInfo, spec: &DeviceSpec) -> Result<Vec<u8>, PassError> {
    let mut m = binary::load(words)?;
    let seen = reflect::interface(&m).map_err(PassError::Bug)?;
    agree(&seen, kernel).map_err(PassError::Bug)?;
    if seen.shared_bytes > spec.shared_bytes {
        return Err(PassError::Unsupported {
            what: format!(
                "kernel {} needs {} bytes of workgroup memory, more than the {} of the profile {}",
                kernel.name, seen.shared_bytes, spec.shared_bytes, spec.name
            ),
            hint: "build for a profile with a larger maxComputeSharedMemorySize".into(),
        });
    }
    correct::no_contraction(&mut m);
    correct::powers_of_two(&mut m);
    let (bound, addressed) = places(kernel);
    let (bindings, pointers) = seen.bindings.split_at(bound.len());
    correct::buffers(&mut m, bindings, &bound);
    let addressed: Vec<_> = pointers
        .iter()
        .zip(addressed)
        .map(|(b, access)| Addressed { variable: b.variable, access, far: b.binding == addresses::FAR })
        .collect();
    addresses::apply(&mut m, &addressed, bound.len() as u32).map_err(PassError::Bug)?;
    if seen.bindings.iter().any(|b| b.reads && b.writes) {
        correct::barriers(&mut m);
    }
    correct::memory_model(&mut m);
    let offered = |name: &str| spec.requires.limits.iter().find(|l| l.0 == name).map_or(0, |l| l.1);
    correct::float_controls(&mut m, |property| offered(property) > 0);
    correct::declare(&mut m).map_err(|c| PassError::Bug(format!("it needs a capability that is not known: {c}")))?;
    let features = capabilities::features(&m).into_iter().filter(|f| !spec.requires.features.iter().any(|k| k == f));
    let properties = capabilities::properties(&m).into_iter().filter(|(name, bits)| bits & !offered(name) != 0);
    let lacking = features.map(str::to_string).chain(properties.map(|(name, bits)| format!("{name} {bits:#x}"))).next();
    if let Some(what) = lacking {
        return Err(PassError::Unsupported {
            what: format!("kernel {} needs {what}, which the profile {} does not offer", kernel.name, spec.name),
            hint: "build for a profile that requires it".into(),
        });
    }
    Ok(binary::bytes(&m))
}

/// Accesses to the buffers that are bound, and to those that are found by address.
fn places(kernel: &KernelInfo) -> (Vec<Access>, Vec<Access>) {
    let all = kernel.buffers.iter().enumerate();
    let (addressed, bound): (Vec<_>, Vec<_>) = all.partition(|(i, _)| kernel.addresses.contains(&(*i as u32)));
    let accesses = |list: Vec<(usize, &Access)>| list.into_iter().map(|(_, access)| *access).collect();
    (accesses(bound), accesses(addressed))
}

/// What the binary binds and takes against what the host program will bind and pass.
fn agree(seen: &reflect::Interface, kernel: &KernelInfo) -> Result<(), String> {
    if seen.entry != kernel.name {
        return Err(format!("its entry point is {}", seen.entry));
    }
    if seen.workgroup != kernel.block {
        return Err(format!("its workgroup is {:?}, planned {:?}", seen.workgroup, kernel.block));
    }
    let (bound, addressed) = places(kernel);
    let numbers: Vec<_> =
        seen.bindings.iter().map(|b| (b.set, if b.set < addresses::SET { b.binding } else { 0 })).collect();
    let planned = (0..bound.len() as u32).map(|i| (0, i));
    let planned: Vec<_> = planned.chain((0..addressed.len() as u32).map(|k| (addresses::SET + k, 0))).collect();
    if numbers != planned {
        return Err(format!("its bindings are {numbers:?}, planned {planned:?}"));
    }
    for (b, access) in seen.bindings.iter().zip(bound.iter().chain(&addressed)) {
        if (b.reads && !access.reads()) || (b.writes && !access.writes()) {
            return Err(format!("binding {} is planned {access:?} and is used otherwise", b.binding));
        }
    }
    if seen.scalar_bytes != kernel.scalar_bytes {
        return Err(format!("it takes {} bytes of push constants, planned {}", seen.scalar_bytes, kernel.scalar_bytes));
    }
    Ok(())
}
