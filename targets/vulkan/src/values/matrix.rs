//! Fragments as the cooperative matrices that MLIR's `gpu.subgroup_mma` ops convert to. Those know no bf16: it goes under
//! the name of f16, its `gpu.module` says so in [`FACTORS`], and the pass after the conversion gives the type back.
//!
//! Memory is in words of several elements, so places and strides count words here.

use super::{
    memory::quotient,
    rewrite::{Rewrite, held},
};
use melior::ir::Type;
use zmlc_passes::{
    ir::{B, Fragment, O, V, ValueLike, name, operand, read, result},
    pass::PassError,
};

/// On a `gpu.module`: the element type of factors, where it is not what their type says.
pub const FACTORS: &str = "zml.factors";

/// The type that a fragment is held in.
pub fn matrix<'c>(b: &B<'c>, f: &Fragment) -> Type<'c> {
    let role = f.role.to_ascii_uppercase();
    let element = match f.element.as_str() {
        "bf16" => "f16",
        "i8" => "si8",
        other => other,
    };
    b.ty(&format!("!gpu.mma_matrix<{}x{}x{element}, \"{role}Op\">", f.rows, f.columns))
}
pub fn op<'c>(r: &mut Rewrite<'c>, b: &B<'c>, op: O<'c>) -> Result<(), PassError> {
    let stride = |lanes: i64| {
        let stride = read::int_attr(op, "stride").unwrap_or(0) / lanes;
        ("leadDimension", b.attr(&format!("{stride} : index")))
    };
    match name(op) {
        "zml.fragment_fill" => {
            let t = held(b, result(op, 0).r#type());
            let y = b.op1("gpu.subgroup_mma_constant_matrix", &[r.one(operand(op, 0))], t, &[]);
            r.set(result(op, 0), vec![y]);
        }
        "zml.fragment_load" => {
            let (memory, index) = r.place(b, op, 0)?;
            let t = held(b, result(op, 0).r#type());
            let mut attributes = vec![stride(memory.lanes())];
            if read::has_attr(op, "transposed") {
                attributes.push(("transpose", b.unit()));
            }
            let at = quotient(b, index, memory.lanes());
            let y = b.op1("gpu.subgroup_mma_load_matrix", &[memory.value(), at], t, &attributes);
            r.set(result(op, 0), vec![y]);
        }
        "zml.fragment_store" => {
            let (memory, index) = r.place(b, op, 1)?;
            let at = quotient(b, index, memory.lanes());
            let operands = [r.one(operand(op, 0)), memory.value(), at];
            b.op("gpu.subgroup_mma_store_matrix", &operands, &[], &[stride(memory.lanes())], vec![]);
        }
        "zml.mma" => {
            let operands: Vec<V> = (0..3).map(|i| r.one(operand(op, i))).collect();
            let y = b.op1("gpu.subgroup_mma_compute", &operands, operands[2].r#type(), &[]);
            r.set(result(op, 0), vec![y]);
        }
        other => return Err(PassError::Bug(format!("`{other}` does not belong in a kernel"))),
    }
    Ok(())
}
