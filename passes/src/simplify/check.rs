//! Proves of a module at level 1, after legalize and after simplify:
//!
//! 1. It has `zml.model` with a name and a version, and holds nothing but public functions without calls.
//! 2. Each entry argument has a name, an element type and a role (weights and states an index), each result a name and an
//!    element type.
//! 3. Tensors are ranked and static, of i1, i8, i16, i32, i64, f16, bf16, f32 or f64.
//! 4. Tensor code holds only the ops of ARCHITECTURE.md's table; arith works on tensors in constants alone.
//! 5. In a generic of parallel loops every result is in loop order and reads no accumulator; with reductions, the results'
//!    maps are the parallel loops in order.
//! 6. A generic's inputs are read at loop indices or constants, or at sums of loop indices if it reduces.
//! 7. Bodies hold scalar arith, math and scf, `linalg.index`, and `tensor.extract`.
//! 8. A pad's value is a constant.

use crate::{ir::*, pass::PassError};
use melior::ir::{AffineExpr, AffineMap, Module, Type};

/// Ops that work on tensors, beside constants.
const TENSOR: &[&str] = &[
    "linalg.generic",
    "linalg.reduce",
    "linalg.fill",
    "tensor.empty",
    "tensor.expand_shape",
    "tensor.collapse_shape",
    "tensor.extract_slice",
    "tensor.pad",
    "tensor.concat",
    "zml.dynamic_update_slice",
    "zml.sort",
    "zml.scatter",
    "zml.scan",
];
/// Control flow over tensors, with what takes a predicate or an index out of one.
const CONTROL: &[&str] = &[
    "scf.while",
    "scf.if",
    "scf.index_switch",
    "scf.condition",
    "scf.yield",
    "tensor.extract",
    "arith.index_cast",
    "func.return",
];

/// The invariants; MLIR's own verifier has run before.
pub fn level1(module: &Module) -> Result<(), PassError> {
    match find_fault(module) {
        None => Ok(()),
        Some(fault) => Err(PassError::Bug(format!("not level 1: {fault}"))),
    }
}
fn find_fault(module: &Module) -> Option<String> {
    let model = attr(module_op(module), "zml.model");
    if !["name", "version"].iter().all(|k| model.is_some_and(|m| dict_get(m, k).is_some())) {
        return Some("1: the module has no zml.model with name and version".into());
    }
    for func in ops(body(module)) {
        let symbol = str_attr(func, "sym_name").unwrap_or_default();
        if name(func) != "func.func" || str_attr(func, "sym_visibility").is_some_and(|v| v != "public") {
            return Some(format!("1: {} {symbol} beside the entries", name(func)));
        }
        if let Some(fault) = boundary(func).or_else(|| tensor_code(block(func, 0))) {
            return Some(format!("{fault}, in {symbol}"));
        }
    }
    None
}
fn boundary(func: O) -> Option<String> {
    let dicts = |name| attr(func, name).map(array).unwrap_or_default();
    let (arguments, results) = (dicts("arg_attrs"), dicts("res_attrs"));
    if arguments.len() != args(block(func, 0)).len() {
        return Some("2: an argument without attributes".into());
    }
    for (i, a) in arguments.iter().enumerate() {
        let has = |k: &str| dict_get(*a, k).is_some();
        let role = dict_get(*a, "zml.role").map(|r| r.to_string()).unwrap_or_default();
        if !has("zml.name") || !has("zml.dtype") || role.is_empty() || (role != "\"input\"" && !has("zml.index")) {
            return Some(format!("2: argument {i} lacks a name, an element type, a role or its index"));
        }
    }
    let lacking =
        results.iter().position(|r| dict_get(*r, "zml.name").is_none() || dict_get(*r, "zml.dtype").is_none());
    lacking.map(|i| format!("2: result {i} lacks a name or an element type"))
}
fn element_fault(t: Type) -> Option<String> {
    let known = matches!(int_bits(t), Some(1 | 8 | 16 | 32 | 64)) || (is_float(t) && bits(t) >= 16);
    (!known && !is_index(t)).then(|| format!("3: element type {t}"))
}
fn type_fault(t: Type) -> Option<String> {
    if !is_tensor(t) {
        return element_fault(t);
    }
    if shape(t).iter().any(|d| *d < 0) {
        return Some(format!("3: dynamic tensor {t}"));
    }
    element_fault(elem(t))
}
fn tensor_code(block: Blk) -> Option<String> {
    args(block).into_iter().find_map(|v| type_fault(v.r#type())).or_else(|| ops(block).into_iter().find_map(tensor_op))
}
fn tensor_op(op: O) -> Option<String> {
    let n = name(op);
    if let Some(fault) = results(op).into_iter().find_map(|v| type_fault(v.r#type())) {
        return Some(format!("{fault} of {n}"));
    }
    match n {
        "arith.constant" => None,
        "linalg.generic" => generic(op).or_else(|| scalar_region(op)),
        "tensor.pad" => {
            let all = ops(block(op, 0));
            let constant = all.len() == 1 && def(operand(all[0], 0)).is_some_and(|d| name(d) == "arith.constant");
            (!constant).then(|| "8: a pad whose value is not a constant".into())
        }
        n if n.starts_with("scf.") && CONTROL.contains(&n) => {
            (0..op.region_count()).find_map(|r| tensor_code(block(op, r)))
        }
        n if TENSOR.contains(&n) => scalar_region(op),
        n if CONTROL.contains(&n) => None,
        n => Some(format!("4: {n} in tensor code")),
    }
}
fn loops_of(m: &AffineMap) -> Option<Vec<usize>> {
    let results = (0..m.result_count()).map(|i| m.result(i).expect("in range"));
    results.map(|e| e.is_dim().then(|| e.dim_position())).collect()
}
fn generic(op: O) -> Option<String> {
    let g = Generic::of(op).expect("a generic");
    let parallel: Vec<usize> = (0..g.loops()).filter(|i| !g.reduces[*i]).collect();
    if (0..g.outs.len()).any(|i| loops_of(&g.out_map(i)).as_ref() != Some(&parallel)) {
        return Some("5: a generic whose results are not in loop order".into());
    }
    if g.is_parallel() && (0..g.outs.len()).any(|i| !uses(arg(g.body, g.ins.len() + i)).is_empty()) {
        return Some("5: an accumulator is read without a reduction".into());
    }
    let projects = |i: usize| {
        let m = g.in_map(i);
        let at: Vec<_> = (0..m.result_count()).map(|j| m.result(j).expect("in range")).collect();
        let mut loops: Vec<usize> = at.iter().filter(|e| e.is_dim()).map(AffineExpr::dim_position).collect();
        if at.iter().any(|e| !e.is_dim() && !e.is_constant()) {
            return false;
        }
        loops.sort_unstable();
        loops.windows(2).all(|w| w[0] != w[1])
    };
    (g.is_parallel() && !(0..g.ins.len()).all(projects)).then(|| "6: an input that is not read by a projection".into())
}
/// The regions of an op that works on elements.
fn scalar_region(op: O) -> Option<String> {
    walk(op).into_iter().skip(1).find_map(|inner| {
        let n = name(inner);
        let known = n.starts_with("arith.")
            || n.starts_with("math.")
            || n.starts_with("scf.")
            || matches!(n, "linalg.yield" | "linalg.index" | "tensor.extract" | "tensor.yield" | "zml.yield");
        if !known {
            return Some(format!("7: {n} in the body of {}", name(op)));
        }
        let tensor = results(inner).into_iter().any(|v| is_tensor(v.r#type()));
        tensor.then(|| format!("7: {n} makes a tensor in the body of {}", name(op)))
    })
}
