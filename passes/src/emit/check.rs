//! Whether a dispatch function holds only what the emitters know; everything after may rely on it.

use super::kernel::Dispatch;
use crate::{ir::*, pass::PassError};
use mlir_sys::mlirDenseElementsAttrIsSplat;

/// Tensor-level ops that the elemental engine evaluates.
const TENSOR_OPS: [&str; 15] = [
    "linalg.generic",
    "linalg.reduce",
    "linalg.fill",
    "arith.constant",
    "tensor.empty",
    "tensor.splat",
    "tensor.from_elements",
    "tensor.expand_shape",
    "tensor.collapse_shape",
    "tensor.extract_slice",
    "tensor.insert_slice",
    "tensor.pad",
    "tensor.concat",
    "zml.dynamic_update_slice",
    "zml.scan",
];
/// Dialects whose ops are rebuilt as they are in bodies.
const SCALAR_DIALECTS: [&str; 3] = ["arith.", "math.", "scf."];
const SCALAR_OPS: [&str; 5] = ["linalg.index", "linalg.yield", "tensor.extract", "tensor.yield", "zml.yield"];

pub fn check(d: &Dispatch) -> Result<(), PassError> {
    for op in &d.ops {
        let tensor = results(*op).iter().any(|r| is_tensor(r.r#type()));
        if !tensor {
            scalar(d, *op)?;
            continue;
        }
        if !TENSOR_OPS.contains(&name(*op)) {
            return Err(unknown(d, name(*op)));
        }
        if name(*op) == "tensor.from_elements" && elements(result(*op, 0).r#type()) != 1 {
            return Err(unknown(d, "tensor.from_elements of several"));
        }
        if let Some(value) = attr(*op, "value").filter(|_| name(*op) == "arith.constant")
            && !unsafe { mlirDenseElementsAttrIsSplat(value.to_raw()) }
        {
            return Err(PassError::Bug(format!("{}: a constant with data is an argument of its dispatch", d.name)));
        }
        for inner in &walk(*op)[1..] {
            scalar(d, *inner)?;
        }
    }
    for v in d.args.iter().chain(&d.results) {
        if !is_tensor(v.r#type()) {
            return Err(PassError::Bug(format!("{}: {} is no tensor", d.name, v.r#type())));
        }
    }
    let types =
        d.args.iter().map(ValueLike::r#type).chain(d.ops.iter().flat_map(|op| results(*op)).map(|v| v.r#type()));
    for t in types {
        let e = elem(t);
        if !(is_float(e) || int_bits(e).is_some() || is_index(e)) {
            return Err(PassError::Unsupported {
                what: format!("{}: elements of type {e}", d.name),
                hint: String::new(),
            });
        }
    }
    Ok(())
}
fn scalar(d: &Dispatch, op: O) -> Result<(), PassError> {
    let n = name(op);
    if SCALAR_OPS.contains(&n) || SCALAR_DIALECTS.iter().any(|dialect| n.starts_with(dialect)) {
        return Ok(());
    }
    Err(unknown(d, n))
}
fn unknown(d: &Dispatch, op: &str) -> PassError {
    PassError::Unsupported { what: format!("{}: no kernel form for {op}", d.name), hint: String::new() }
}
