//! From an op as the source has it to an op of the tree: attributes get their types, defaults are filled in, old ops
//! become the ones that replaced them. Every error of the op is found. Both readers end here.

mod ops;
mod take;

use crate::{
    diag::{Diagnostic, did_you_mean},
    raw::{BINARY, RawOp, UNARY},
    tree::{Op, OpKind, Type, Value},
};
use take::Take;
pub(crate) use take::ints_of;

/// How many operands, results and regions an op has.
struct Arity {
    name: &'static str,
    operands: Count,
    results: Count,
    regions: Count,
}
#[derive(Clone, Copy)]
enum Count {
    Exactly(usize),
    AtLeast(usize),
}
use Count::{AtLeast, Exactly};

const fn arity(name: &'static str, operands: Count, results: Count, regions: usize) -> Arity {
    Arity { name, operands, results, regions: Exactly(regions) }
}

/// Ops of StableHLO other than unary and binary ones.
const STABLEHLO: &[Arity] = &[
    arity("after_all", AtLeast(0), Exactly(1), 0),
    arity("all_gather", AtLeast(1), AtLeast(1), 0),
    arity("all_reduce", AtLeast(1), AtLeast(1), 1),
    arity("all_to_all", AtLeast(1), AtLeast(1), 0),
    arity("async_done", Exactly(1), AtLeast(0), 0),
    arity("async_start", AtLeast(0), Exactly(1), 1),
    arity("batch_norm_grad", Exactly(5), Exactly(3), 0),
    arity("batch_norm_inference", Exactly(5), Exactly(1), 0),
    arity("batch_norm_training", Exactly(3), Exactly(3), 0),
    arity("bitcast_convert", Exactly(1), Exactly(1), 0),
    arity("broadcast", Exactly(1), Exactly(1), 0),
    arity("broadcast_in_dim", Exactly(1), Exactly(1), 0),
    Arity { name: "case", operands: Exactly(1), results: AtLeast(0), regions: AtLeast(1) },
    arity("cholesky", Exactly(1), Exactly(1), 0),
    arity("clamp", Exactly(3), Exactly(1), 0),
    arity("collective_broadcast", AtLeast(1), AtLeast(1), 0),
    arity("collective_permute", Exactly(1), Exactly(1), 0),
    arity("collective_reduce", AtLeast(1), AtLeast(1), 1),
    arity("compare", Exactly(2), Exactly(1), 0),
    Arity { name: "composite", operands: AtLeast(0), results: AtLeast(0), regions: AtLeast(0) },
    arity("concatenate", AtLeast(1), Exactly(1), 0),
    arity("constant", Exactly(0), Exactly(1), 0),
    arity("convert", Exactly(1), Exactly(1), 0),
    arity("convolution", Exactly(2), Exactly(1), 0),
    arity("create_token", Exactly(0), Exactly(1), 0),
    arity("cross-replica-sum", Exactly(1), Exactly(1), 0),
    arity("custom_call", AtLeast(0), AtLeast(0), 0),
    arity("dot", Exactly(2), Exactly(1), 0),
    arity("dot_general", Exactly(2), Exactly(1), 0),
    arity("dynamic_broadcast_in_dim", Exactly(2), Exactly(1), 0),
    arity("dynamic_conv", Exactly(3), Exactly(1), 0),
    arity("dynamic_gather", Exactly(3), Exactly(1), 0),
    arity("dynamic_iota", Exactly(1), Exactly(1), 0),
    arity("dynamic_pad", Exactly(5), Exactly(1), 0),
    arity("dynamic_reshape", Exactly(2), Exactly(1), 0),
    arity("dynamic_slice", AtLeast(1), Exactly(1), 0),
    arity("dynamic_update_slice", AtLeast(2), Exactly(1), 0),
    arity("einsum", Exactly(2), Exactly(1), 0),
    arity("fft", Exactly(1), Exactly(1), 0),
    arity("gather", Exactly(2), Exactly(1), 0),
    arity("get_dimension_size", Exactly(1), Exactly(1), 0),
    arity("get_tuple_element", Exactly(1), Exactly(1), 0),
    arity("if", Exactly(1), AtLeast(0), 2),
    arity("infeed", Exactly(1), AtLeast(1), 0),
    arity("iota", Exactly(0), Exactly(1), 0),
    arity("map", AtLeast(1), Exactly(1), 1),
    arity("optimization_barrier", AtLeast(0), AtLeast(0), 0),
    arity("outfeed", AtLeast(1), Exactly(1), 0),
    arity("pad", Exactly(2), Exactly(1), 0),
    arity("partition_id", Exactly(0), Exactly(1), 0),
    arity("real_dynamic_slice", Exactly(4), Exactly(1), 0),
    arity("recv", Exactly(1), AtLeast(1), 0),
    arity("reduce", AtLeast(2), AtLeast(1), 1),
    arity("reduce_precision", Exactly(1), Exactly(1), 0),
    arity("reduce_scatter", Exactly(1), Exactly(1), 1),
    arity("reduce_window", AtLeast(2), AtLeast(1), 1),
    arity("replica_id", Exactly(0), Exactly(1), 0),
    arity("reshape", Exactly(1), Exactly(1), 0),
    arity("reverse", Exactly(1), Exactly(1), 0),
    arity("rng", Exactly(3), Exactly(1), 0),
    arity("rng_bit_generator", Exactly(1), Exactly(2), 0),
    arity("scatter", AtLeast(3), AtLeast(1), 1),
    arity("select", Exactly(3), Exactly(1), 0),
    arity("select_and_scatter", Exactly(3), Exactly(1), 2),
    arity("send", AtLeast(1), Exactly(1), 0),
    arity("set_dimension_size", Exactly(2), Exactly(1), 0),
    arity("slice", Exactly(1), Exactly(1), 0),
    arity("sort", AtLeast(1), AtLeast(1), 1),
    arity("torch_index_select", Exactly(2), Exactly(1), 0),
    arity("transpose", Exactly(1), Exactly(1), 0),
    arity("triangular_solve", Exactly(2), Exactly(1), 0),
    arity("tuple", AtLeast(0), Exactly(1), 0),
    arity("unary_einsum", Exactly(1), Exactly(1), 0),
    arity("uniform_dequantize", Exactly(1), Exactly(1), 0),
    arity("uniform_quantize", Exactly(1), Exactly(1), 0),
    arity("while", AtLeast(0), AtLeast(0), 2),
];

const CHLO: &[Arity] = &[
    arity("_asin_acos_kernel", Exactly(1), Exactly(1), 0),
    arity("acos", Exactly(1), Exactly(1), 0),
    arity("acosh", Exactly(1), Exactly(1), 0),
    arity("asin", Exactly(1), Exactly(1), 0),
    arity("asinh", Exactly(1), Exactly(1), 0),
    arity("atan", Exactly(1), Exactly(1), 0),
    arity("atanh", Exactly(1), Exactly(1), 0),
    arity("bessel_i1e", Exactly(1), Exactly(1), 0),
    arity("broadcast_add", Exactly(2), Exactly(1), 0),
    arity("broadcast_and", Exactly(2), Exactly(1), 0),
    arity("broadcast_atan2", Exactly(2), Exactly(1), 0),
    arity("broadcast_compare", Exactly(2), Exactly(1), 0),
    arity("broadcast_complex", Exactly(2), Exactly(1), 0),
    arity("broadcast_divide", Exactly(2), Exactly(1), 0),
    arity("broadcast_maximum", Exactly(2), Exactly(1), 0),
    arity("broadcast_minimum", Exactly(2), Exactly(1), 0),
    arity("broadcast_multiply", Exactly(2), Exactly(1), 0),
    arity("broadcast_next_after", Exactly(2), Exactly(1), 0),
    arity("broadcast_or", Exactly(2), Exactly(1), 0),
    arity("broadcast_polygamma", Exactly(2), Exactly(1), 0),
    arity("broadcast_power", Exactly(2), Exactly(1), 0),
    arity("broadcast_remainder", Exactly(2), Exactly(1), 0),
    arity("broadcast_select", Exactly(3), Exactly(1), 0),
    arity("broadcast_shift_left", Exactly(2), Exactly(1), 0),
    arity("broadcast_shift_right_arithmetic", Exactly(2), Exactly(1), 0),
    arity("broadcast_shift_right_logical", Exactly(2), Exactly(1), 0),
    arity("broadcast_subtract", Exactly(2), Exactly(1), 0),
    arity("broadcast_xor", Exactly(2), Exactly(1), 0),
    arity("broadcast_zeta", Exactly(2), Exactly(1), 0),
    arity("conj", Exactly(1), Exactly(1), 0),
    arity("constant", Exactly(0), Exactly(1), 0),
    arity("constant_like", Exactly(1), Exactly(1), 0),
    arity("cosh", Exactly(1), Exactly(1), 0),
    arity("digamma", Exactly(1), Exactly(1), 0),
    arity("erf", Exactly(1), Exactly(1), 0),
    arity("erf_inv", Exactly(1), Exactly(1), 0),
    arity("erfc", Exactly(1), Exactly(1), 0),
    arity("is_inf", Exactly(1), Exactly(1), 0),
    arity("is_neg_inf", Exactly(1), Exactly(1), 0),
    arity("is_pos_inf", Exactly(1), Exactly(1), 0),
    arity("lgamma", Exactly(1), Exactly(1), 0),
    arity("mulhi", Exactly(2), Exactly(1), 0),
    arity("next_after", Exactly(2), Exactly(1), 0),
    arity("polygamma", Exactly(2), Exactly(1), 0),
    arity("ragged_dot", Exactly(3), Exactly(1), 0),
    arity("scan", AtLeast(0), AtLeast(0), 1),
    arity("sinh", Exactly(1), Exactly(1), 0),
    arity("square", Exactly(1), Exactly(1), 0),
    arity("tan", Exactly(1), Exactly(1), 0),
    arity("top_k", Exactly(1), Exactly(2), 0),
    arity("zeta", Exactly(2), Exactly(1), 0),
];

/// Ops of a dialect, for suggestions.
pub(crate) fn names(dialect: &str) -> Vec<&'static str> {
    match dialect {
        "stablehlo" => {
            let elementwise = UNARY.iter().map(|x| x.1).chain(BINARY.iter().map(|x| x.1));
            STABLEHLO.iter().map(|a| a.name).chain(elementwise).collect()
        }
        _ => CHLO.iter().map(|a| a.name).collect(),
    }
}

/// Makes the op. `values` holds its operands and results.
pub(crate) fn op(raw: RawOp, values: &[Value]) -> Result<Op, Vec<Diagnostic>> {
    let (dialect, name) = raw.name.split_once('.').unwrap_or(("", &raw.name));
    let expected = match dialect {
        "stablehlo" if UNARY.iter().any(|x| x.1 == name) => Some((Exactly(1), Exactly(1), Exactly(0))),
        "stablehlo" if BINARY.iter().any(|x| x.1 == name) => Some((Exactly(2), Exactly(1), Exactly(0))),
        "stablehlo" | "chlo" => {
            let table = if dialect == "chlo" { CHLO } else { STABLEHLO };
            table.iter().find(|a| a.name == name).map(|a| (a.operands, a.results, a.regions))
        }
        "func" if name == "call" => Some((AtLeast(0), AtLeast(0), Exactly(0))),
        // StableHLO's test dialect, in its own test programs; the interpreter runs it, compilation refuses it.
        "check" => Some((AtLeast(0), AtLeast(0), Exactly(0))),
        _ => None,
    };
    let Some((operands, results, regions)) = expected else {
        let d = if matches!(dialect, "stablehlo" | "chlo") {
            let d = Diagnostic::error("E0303", raw.name_span, format!("no op `{}`", raw.name)).label("not known");
            match did_you_mean(name, names(dialect)) {
                Some(n) => d.hint(format!("did you mean `{dialect}.{n}`?")),
                None => d.hint(crate::verify::see("")),
            }
        } else {
            Diagnostic::error(
                "E0601",
                raw.name_span,
                format!("`{}` is of dialect `{dialect}`, not StableHLO", raw.name),
            )
            .label("not a StableHLO op")
            .hint(crate::text::other_dialect_hint(dialect))
        };
        return Err(vec![d]);
    };
    for (what, count, found) in [
        ("operand", operands, raw.operands.len()),
        ("result", results, raw.results.len()),
        ("region", regions, raw.regions.len()),
    ] {
        let (ok, wanted) = match count {
            Exactly(n) => (found == n, format!("{n}")),
            AtLeast(n) => (found >= n, format!("at least {n}")),
        };
        if !ok {
            let s = if found == 1 { "" } else { "s" };
            let d = Diagnostic::error("E0304", raw.name_span, format!("`{}` has {found} {what}{s}", raw.name))
                .label(format!("expected {wanted}"))
                .hint(crate::verify::see(&raw.name));
            return Err(vec![d]);
        }
    }
    let mut t = Take::new(raw, values);
    let kind = ops::kind(&mut t);
    t.finish(kind)
}

/// Rank of a value, if it is a tensor.
fn rank(values: &[Value], v: crate::tree::ValueId) -> Option<usize> {
    match &values[v.0 as usize].ty {
        Type::Tensor(t) => Some(t.rank()),
        _ => None,
    }
}

/// The kind that stands in for one that could not be made; the op is dropped with its errors.
const NOTHING: OpKind = OpKind::Select;
