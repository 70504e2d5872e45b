//! Contractions that a vendor's library computes: which they are, and the values that it has to find in memory. Reshapes
//! move nothing, so it looks through them.

use super::view::{Kind, Node, Val, View};
use crate::{
    gemm::{Gemm, is_f8},
    ir::*,
    spec::DeviceSpec,
};

pub fn is_reshape(op: O) -> bool {
    matches!(name(op), "tensor.expand_shape" | "tensor.collapse_shape")
}

/// The values behind both operands, if the device's library does this contraction.
pub fn operands(view: &View, node: Node, spec: &DeviceSpec) -> Option<[Val; 2]> {
    let op = view.nodes[node].op;
    let gemm = Gemm::of(op).ok()?;
    let f8 = gemm.dtypes.into_iter().find(|d| is_f8(*d));
    let multiplied = match f8 {
        Some(d) => spec.library_f8.contains(d.name()),
        // Few rows are left to a kernel of our own.
        None => view.nodes[node].kind == Kind::Contraction,
    };
    if !multiplied {
        return None;
    }
    let behind = |i: usize| {
        let wanted = key(operand(op, i));
        let mut at = view.nodes[node].reads.iter().copied().find(|v| key(view.values[*v].value) == wanted)?;
        while let Some(d) = view.values[at].def.filter(|d| is_reshape(view.nodes[*d].op)) {
            at = *view.nodes[d].reads.first()?;
        }
        // A constant is made anew by each reader, and a library reads memory.
        let constant = view.values[at].def.is_some_and(|d| view.nodes[d].kind == Kind::Constant);
        (!constant).then_some(at)
    };
    Some([behind(0)?, behind(1)?])
}
