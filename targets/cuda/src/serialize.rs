//! The lowered kernels as one PTX module.

use crate::{negate, shared};
use melior::{
    Context,
    ir::{AttributeLike, Module, attribute::ArrayAttribute},
};
use zmlc_passes::{
    context::run_pipeline,
    ir::{attr, block, body, int_attr, name, ops, str_attr},
    llvm,
    pass::PassError,
    target::Binary,
};

pub fn serialize<'c>(context: &'c Context, module: &Module<'c>) -> Result<Vec<Binary>, PassError> {
    let (mut merged, entries) = llvm::merge(context, module)?;
    if entries.is_empty() {
        return Ok(vec![]);
    }
    run_pipeline(context, &mut merged, "builtin.module(gpu-module-to-binary{format=isa})")?;
    let bytes = object(&merged).ok_or_else(|| PassError::Bug("gpu-module-to-binary left no object".into()))?;
    let text = String::from_utf8(bytes).map_err(|_| PassError::Bug("PTX that is not UTF-8".into()))?;
    // The text ends in NUL for the driver, which takes a C string; without it there is nothing to tell its length by.
    let bytes: Vec<u8> =
        negate::in_double_width(&text).into_bytes().into_iter().filter(|b| *b != 0).chain([0]).collect();
    let kernels: Vec<_> = llvm::gpu_modules(module).into_iter().flat_map(|g| ops(block(g, 0))).collect();
    let shared_bytes = |symbol: &str| {
        let kernel = kernels.iter().find(|f| str_attr(**f, "sym_name") == Some(symbol));
        kernel.and_then(|f| int_attr(*f, shared::BYTES)).map_or(0, |n| n as u32)
    };
    Ok(entries
        .into_iter()
        .map(|e| Binary {
            shared_bytes: shared_bytes(&e.symbol),
            kernel: e.kernel,
            symbol: e.symbol,
            bytes: bytes.clone(),
        })
        .collect())
}

fn object(module: &Module) -> Option<Vec<u8>> {
    let binary = ops(body(module)).into_iter().find(|op| name(*op) == "gpu.binary")?;
    let objects: ArrayAttribute = attr(binary, "objects")?.try_into().ok()?;
    let object = objects.element(0).ok()?.to_raw();
    // The attribute is a #gpu.object, which gpu-module-to-binary makes; its string lives as long as the context.
    let text = unsafe {
        if !mlir_sys::mlirAttributeIsAGPUObjectAttr(object) {
            return None;
        }
        let s = mlir_sys::mlirGPUObjectAttrGetObject(object);
        std::slice::from_raw_parts(s.data.cast::<u8>(), s.length)
    };
    Some(text.to_vec())
}
