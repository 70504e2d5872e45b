//! One arm for each op: which attributes it takes and what they become.

use super::{NOTHING, take::Take};
use crate::{
    raw::{BINARY, UNARY},
    tree::{
        Attr, CompareType, Convolution, Direction, DotAlgorithm, DotDims, GatherDims, OpKind, ScatterDims, Type, Window,
    },
};

pub(super) fn kind(t: &mut Take) -> OpKind {
    let full = t.raw.name.clone();
    let (dialect, name) = full.split_once('.').unwrap_or(("", &full));
    match dialect {
        "chlo" => return chlo(t, name),
        "func" => return OpKind::Call { callee: t.string_or("callee", None) },
        "stablehlo" => {}
        _ => return OpKind::Other(full),
    }
    if let Some((k, _)) = UNARY.iter().find(|x| x.1 == name) {
        return OpKind::Unary(*k);
    }
    if let Some((k, _)) = BINARY.iter().find(|x| x.1 == name) {
        return OpKind::Binary(*k);
    }
    match name {
        "constant" => constant(t),
        "iota" => OpKind::Iota { dim: t.dim("iota_dimension") },
        "compare" => compare(t),
        "select" => OpKind::Select,
        "clamp" => OpKind::Clamp,
        "convert" => OpKind::Convert,
        "bitcast_convert" => OpKind::BitcastConvert,
        "reduce_precision" => OpKind::ReducePrecision {
            exponent_bits: t.int("exponent_bits") as i32,
            mantissa_bits: t.int("mantissa_bits") as i32,
        },
        "broadcast_in_dim" => OpKind::BroadcastInDim { dims: t.dims("broadcast_dimensions") },
        "broadcast" => broadcast(t),
        "reshape" => OpKind::Reshape,
        "transpose" => OpKind::Transpose { permutation: t.dims("permutation") },
        "slice" => {
            OpKind::Slice { start: t.ints("start_indices"), limit: t.ints("limit_indices"), strides: t.ints("strides") }
        }
        "concatenate" => OpKind::Concatenate { dim: t.dim("dimension") },
        "pad" => OpKind::Pad {
            low: t.ints("edge_padding_low"),
            high: t.ints("edge_padding_high"),
            interior: t.ints("interior_padding"),
        },
        "reverse" => OpKind::Reverse { dims: t.dims("dimensions") },
        "dynamic_slice" => OpKind::DynamicSlice { sizes: t.ints("slice_sizes") },
        "dynamic_update_slice" => OpKind::DynamicUpdateSlice,
        "gather" => OpKind::Gather {
            dims: gather_dims(t),
            slice_sizes: t.ints("slice_sizes"),
            indices_are_sorted: t.bool_or("indices_are_sorted", false),
        },
        "dynamic_gather" => {
            OpKind::DynamicGather { dims: gather_dims(t), indices_are_sorted: t.bool_or("indices_are_sorted", false) }
        }
        "scatter" => OpKind::Scatter {
            dims: scatter_dims(t),
            indices_are_sorted: t.bool_or("indices_are_sorted", false),
            unique_indices: t.bool_or("unique_indices", false),
        },
        "dot_general" => OpKind::DotGeneral { dims: dot_dims(t), precision: t.precision(), algorithm: algorithm(t) },
        // Of quantized operands, dot asks less than dot_general; it stays and is not compiled.
        "dot" if t.is_quantized(0) || t.is_quantized(1) => OpKind::Other(full),
        "dot" => dot(t),
        "convolution" | "dynamic_conv" => {
            let c = Box::new(convolution(t, name == "dynamic_conv"));
            if name == "convolution" { OpKind::Convolution(c) } else { OpKind::DynamicConv(c) }
        }
        "reduce" => OpKind::Reduce { dims: t.dims("dimensions") },
        "reduce_window" => OpKind::ReduceWindow(Box::new(window(t))),
        "select_and_scatter" => {
            let n = t.operand_rank(0).unwrap_or(0);
            OpKind::SelectAndScatter {
                window_dimensions: t.ints_or("window_dimensions", Vec::new),
                window_strides: t.ints_or("window_strides", || vec![1; n]),
                padding: t.pairs_or("padding", n),
            }
        }
        "map" => OpKind::Map { dims: t.dims("dimensions") },
        "sort" => OpKind::Sort { dim: t.int_or("dimension", -1), is_stable: t.bool_or("is_stable", false) },
        "while" => OpKind::While,
        "if" => OpKind::If,
        "case" => OpKind::Case,
        "tuple" => OpKind::Tuple,
        "get_tuple_element" => OpKind::GetTupleElement { index: t.dim("index").min(i32::MAX as u64) as i32 },
        "optimization_barrier" => OpKind::OptimizationBarrier,
        "cholesky" => OpKind::Cholesky { lower: t.bool_or("lower", false) },
        "triangular_solve" => OpKind::TriangularSolve {
            left_side: t.boolean("left_side"),
            lower: t.boolean("lower"),
            unit_diagonal: t.boolean("unit_diagonal"),
            transpose_a: t.required_word("transpose_a", &["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]),
        },
        "fft" => OpKind::Fft {
            kind: t.required_word("fft_type", &["FFT", "IFFT", "RFFT", "IRFFT"]),
            length: t.ints("fft_length"),
        },
        "rng_bit_generator" => {
            OpKind::RngBitGenerator { algorithm: t.required_word("rng_algorithm", &["DEFAULT", "THREE_FRY", "PHILOX"]) }
        }
        "rng" => OpKind::Rng { distribution: t.required_word("rng_distribution", &["UNIFORM", "NORMAL"]) },
        "batch_norm_inference" => {
            OpKind::BatchNormInference { epsilon: t.f32("epsilon"), feature_index: t.dim("feature_index") as i64 }
        }
        "batch_norm_training" => {
            OpKind::BatchNormTraining { epsilon: t.f32("epsilon"), feature_index: t.dim("feature_index") as i64 }
        }
        "batch_norm_grad" => {
            OpKind::BatchNormGrad { epsilon: t.f32("epsilon"), feature_index: t.dim("feature_index") as i64 }
        }
        "composite" => composite(t),
        "custom_call" => custom_call(t),
        "dynamic_reshape" => OpKind::DynamicReshape,
        "dynamic_iota" => OpKind::DynamicIota { dim: t.dim("iota_dimension") },
        "dynamic_broadcast_in_dim" => OpKind::DynamicBroadcastInDim { dims: t.dims("broadcast_dimensions") },
        "real_dynamic_slice" => OpKind::RealDynamicSlice,
        "dynamic_pad" => OpKind::DynamicPad,
        "get_dimension_size" => OpKind::GetDimensionSize { dim: t.dim("dimension") },
        "set_dimension_size" => OpKind::SetDimensionSize { dim: t.dim("dimension") },
        "uniform_quantize" => OpKind::UniformQuantize,
        "uniform_dequantize" => OpKind::UniformDequantize,
        // The token without operands, by its old name.
        "create_token" => OpKind::Other("stablehlo.after_all".into()),
        _ => OpKind::Other(full),
    }
}

fn chlo(t: &mut Take, name: &str) -> OpKind {
    match name {
        "constant" => constant(t),
        "tan" => OpKind::Unary(crate::tree::UnaryOp::Tan),
        _ => OpKind::Chlo(name.into()),
    }
}

fn constant(t: &mut Take) -> OpKind {
    match t.take("value") {
        Some(Attr::Dense(l)) => {
            if let Some(Type::Tensor(r)) = t.result_type(0)
                && (r.dims != l.ty.dims || r.dtype != l.ty.dtype)
            {
                let m =
                    format!("constant of {} with a result of {}", crate::print::tensor(&l.ty), crate::print::tensor(r));
                t.error("E0402", "value", m, "the types differ");
                return NOTHING;
            }
            // A quantized constant's value is written in its storage type.
            let mut l = l;
            if let Some(Type::Tensor(r)) = t.result_type(0) {
                l.ty = r.clone();
            }
            OpKind::Constant(l)
        }
        Some(_) => {
            t.error(
                "E0302",
                "value",
                "attribute `value` of the constant is not `dense<...>`".into(),
                "expected `dense<...>`",
            );
            NOTHING
        }
        None => {
            t.error(
                "E0301",
                "value",
                format!("`{}` lacks its attribute `value`", t.raw.name.clone()),
                "`value` is required",
            );
            NOTHING
        }
    }
}

fn compare(t: &mut Take) -> OpKind {
    let direction = match t.required_word("comparison_direction", &["EQ", "NE", "GE", "GT", "LE", "LT"]).as_str() {
        "NE" => Direction::Ne,
        "GE" => Direction::Ge,
        "GT" => Direction::Gt,
        "LE" => Direction::Le,
        "LT" => Direction::Lt,
        _ => Direction::Eq,
    };
    let ty = match t.word("compare_type").as_deref() {
        None | Some("NOTYPE") => CompareType::Default,
        Some("FLOAT") => CompareType::Float,
        Some("TOTALORDER") => CompareType::TotalOrder,
        Some("SIGNED") => CompareType::Signed,
        Some("UNSIGNED") => CompareType::Unsigned,
        Some(w) => {
            let m = format!("unknown comparison type `{w}`");
            t.error("E0302", "compare_type", m, "expected FLOAT, TOTALORDER, SIGNED or UNSIGNED");
            CompareType::Default
        }
    };
    OpKind::Compare { direction, ty }
}

/// `broadcast` prepends dimensions; `broadcast_in_dim` says the same with the operand's dimensions last.
fn broadcast(t: &mut Take) -> OpKind {
    let sizes = t.ints("broadcast_sizes");
    let n = sizes.len();
    let rank = t.operand_rank(0).unwrap_or(0);
    if let Some(Type::Tensor(r)) = t.result_type(0) {
        let prefix = r.dims.iter().take(n);
        let agrees =
            r.rank() == n + rank && prefix.zip(&sizes).all(|(d, s)| d.is_none_or(|d| i64::try_from(d) == Ok(*s)));
        if !agrees && t.operand_rank(0).is_some() {
            let m = format!("result {} of a broadcast by {sizes:?}", crate::print::tensor(r));
            t.error("E0402", "broadcast_sizes", m, "the result's first dimensions must be these");
        }
    }
    OpKind::BroadcastInDim { dims: (n..n + rank).map(|d| d as u64).collect() }
}

/// `dot` multiplies vectors and matrices; `dot_general` says the same with dimension numbers.
fn dot(t: &mut Take) -> OpKind {
    let lhs = t.operand_rank(0).unwrap_or(1);
    let rhs = t.operand_rank(1).unwrap_or(1);
    if !(1..=2).contains(&lhs) || !(1..=2).contains(&rhs) {
        let m = format!("`stablehlo.dot` of operands of rank {lhs} and {rhs}");
        t.error("E0401", "", m, "expected vectors or matrices");
    }
    let dims = DotDims { lhs_contracting: vec![lhs.max(1) as u64 - 1], rhs_contracting: vec![0], ..DotDims::default() };
    OpKind::DotGeneral { dims, precision: t.precision(), algorithm: None }
}

fn dot_dims(t: &mut Take) -> DotDims {
    let f = t.fields("dot_dimension_numbers", "dot");
    DotDims {
        lhs_batching: f.dims("lhs_batching_dimensions"),
        rhs_batching: f.dims("rhs_batching_dimensions"),
        lhs_contracting: f.dims("lhs_contracting_dimensions"),
        rhs_contracting: f.dims("rhs_contracting_dimensions"),
    }
}

fn algorithm(t: &mut Take) -> Option<DotAlgorithm> {
    if !t.raw.attrs.iter().any(|(n, _)| n == "algorithm") {
        return None;
    }
    let f = t.fields("algorithm", "dot_algorithm");
    let ty = |name: &str| match f.get(name) {
        Some(Attr::Type(Type::Other(s))) => s.clone(),
        _ => String::new(),
    };
    Some(DotAlgorithm {
        lhs_precision: ty("lhs_precision_type"),
        rhs_precision: ty("rhs_precision_type"),
        accumulation: ty("accumulation_type"),
        lhs_components: f.int("lhs_component_count"),
        rhs_components: f.int("rhs_component_count"),
        primitive_operations: f.int("num_primitive_operations"),
        allow_imprecise_accumulation: f.boolean("allow_imprecise_accumulation"),
    })
}

fn gather_dims(t: &mut Take) -> GatherDims {
    let f = t.fields("dimension_numbers", "gather");
    GatherDims {
        offset_dims: f.dims("offset_dims"),
        collapsed_slice_dims: f.dims("collapsed_slice_dims"),
        operand_batching_dims: f.dims("operand_batching_dims"),
        start_indices_batching_dims: f.dims("start_indices_batching_dims"),
        start_index_map: f.dims("start_index_map"),
        index_vector_dim: f.int("index_vector_dim") as u64,
    }
}

fn scatter_dims(t: &mut Take) -> ScatterDims {
    let f = t.fields("scatter_dimension_numbers", "scatter");
    ScatterDims {
        update_window_dims: f.dims("update_window_dims"),
        inserted_window_dims: f.dims("inserted_window_dims"),
        input_batching_dims: f.dims("input_batching_dims"),
        scatter_indices_batching_dims: f.dims("scatter_indices_batching_dims"),
        scatter_dims_to_operand_dims: f.dims("scatter_dims_to_operand_dims"),
        index_vector_dim: f.int("index_vector_dim") as u64,
    }
}

fn convolution(t: &mut Take, dynamic: bool) -> Convolution {
    let f = t.fields("dimension_numbers", "conv");
    let input_spatial = f.dims("input_spatial_dimensions");
    let n = input_spatial.len();
    let reversal = t.ints_or("window_reversal", || vec![0; n]);
    Convolution {
        window_strides: t.ints_or("window_strides", || vec![1; n]),
        padding: if dynamic { vec![] } else { t.pairs_or("padding", n) },
        lhs_dilation: t.ints_or("lhs_dilation", || vec![1; n]),
        rhs_dilation: t.ints_or("rhs_dilation", || vec![1; n]),
        window_reversal: reversal.into_iter().map(|v| v != 0).collect(),
        input_batch: f.int("input_batch_dimension") as u64,
        input_feature: f.int("input_feature_dimension") as u64,
        input_spatial,
        kernel_input_feature: f.int("kernel_input_feature_dimension") as u64,
        kernel_output_feature: f.int("kernel_output_feature_dimension") as u64,
        kernel_spatial: f.dims("kernel_spatial_dimensions"),
        output_batch: f.int("output_batch_dimension") as u64,
        output_feature: f.int("output_feature_dimension") as u64,
        output_spatial: f.dims("output_spatial_dimensions"),
        feature_group_count: t.int("feature_group_count"),
        batch_group_count: t.int("batch_group_count"),
        precision: t.precision(),
    }
}

fn window(t: &mut Take) -> Window {
    let dimensions = t.ints("window_dimensions");
    let n = dimensions.len();
    Window {
        dimensions,
        strides: t.ints_or("window_strides", || vec![1; n]),
        base_dilations: t.ints_or("base_dilations", || vec![1; n]),
        window_dilations: t.ints_or("window_dilations", || vec![1; n]),
        padding: t.pairs_or("padding", n),
    }
}

fn composite(t: &mut Take) -> OpKind {
    let attributes = match t.take("composite_attributes") {
        Some(Attr::Dict(d)) => d,
        None => vec![],
        Some(_) => {
            t.error(
                "E0302",
                "composite_attributes",
                "attribute `composite_attributes` is not a dictionary".into(),
                "expected `{...}`",
            );
            vec![]
        }
    };
    OpKind::Composite {
        name: t.string_or("name", None),
        decomposition: t.string_or("decomposition", None),
        version: t.int_or("version", 0),
        attributes,
    }
}

fn custom_call(t: &mut Take) -> OpKind {
    let called = match t.take("called_computations") {
        Some(Attr::Array(list)) => list
            .into_iter()
            .filter_map(|a| match a {
                Attr::Symbol(s) => Some(s),
                _ => None,
            })
            .collect(),
        _ => vec![],
    };
    let api_version = t.int_or("api_version", 1);
    // The typed interface has a dictionary where the older ones have a string.
    let none = if api_version == 4 { Attr::Dict(vec![]) } else { Attr::Str(String::new()) };
    OpKind::CustomCall {
        target: t.string_or("call_target_name", None),
        api_version,
        backend_config: t.take("backend_config").filter(|a| *a != Attr::Str(String::new())).unwrap_or(none),
        called,
        has_side_effect: t.bool_or("has_side_effect", false),
    }
}
