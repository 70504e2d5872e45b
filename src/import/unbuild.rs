//! From an op of the tree back to a name and attributes: what the printer and the bytecode writer share, the reverse of
//! `build`.

use crate::{
    raw::{BINARY, UNARY},
    tree::{
        Attr, Attrs, CompareType, Convolution, DType, Direction, GatherDims, Literal, Op, OpKind, ScatterDims,
        TensorType, Type,
    },
};

/// The full name of an op, `stablehlo.add`.
pub fn name(k: &OpKind) -> String {
    let short = match k {
        OpKind::Unary(u) => UNARY.iter().find(|x| x.0 == *u).expect("every unary op is in the table").1,
        OpKind::Binary(b) => BINARY.iter().find(|x| x.0 == *b).expect("every binary op is in the table").1,
        OpKind::Constant(_) => "constant",
        OpKind::Iota { .. } => "iota",
        OpKind::Compare { .. } => "compare",
        OpKind::Select => "select",
        OpKind::Clamp => "clamp",
        OpKind::Convert => "convert",
        OpKind::BitcastConvert => "bitcast_convert",
        OpKind::ReducePrecision { .. } => "reduce_precision",
        OpKind::BroadcastInDim { .. } => "broadcast_in_dim",
        OpKind::Reshape => "reshape",
        OpKind::Transpose { .. } => "transpose",
        OpKind::Slice { .. } => "slice",
        OpKind::Concatenate { .. } => "concatenate",
        OpKind::Pad { .. } => "pad",
        OpKind::Reverse { .. } => "reverse",
        OpKind::DynamicSlice { .. } => "dynamic_slice",
        OpKind::DynamicUpdateSlice => "dynamic_update_slice",
        OpKind::Gather { .. } => "gather",
        OpKind::Scatter { .. } => "scatter",
        OpKind::DotGeneral { .. } => "dot_general",
        OpKind::Convolution(_) => "convolution",
        OpKind::Reduce { .. } => "reduce",
        OpKind::ReduceWindow(_) => "reduce_window",
        OpKind::SelectAndScatter { .. } => "select_and_scatter",
        OpKind::Map { .. } => "map",
        OpKind::Sort { .. } => "sort",
        OpKind::While => "while",
        OpKind::If => "if",
        OpKind::Case => "case",
        OpKind::Call { .. } => return "func.call".into(),
        OpKind::Tuple => "tuple",
        OpKind::GetTupleElement { .. } => "get_tuple_element",
        OpKind::OptimizationBarrier => "optimization_barrier",
        OpKind::Cholesky { .. } => "cholesky",
        OpKind::TriangularSolve { .. } => "triangular_solve",
        OpKind::Fft { .. } => "fft",
        OpKind::RngBitGenerator { .. } => "rng_bit_generator",
        OpKind::Rng { .. } => "rng",
        OpKind::BatchNormInference { .. } => "batch_norm_inference",
        OpKind::BatchNormTraining { .. } => "batch_norm_training",
        OpKind::BatchNormGrad { .. } => "batch_norm_grad",
        OpKind::Composite { .. } => "composite",
        OpKind::CustomCall { .. } => "custom_call",
        OpKind::DynamicReshape => "dynamic_reshape",
        OpKind::DynamicIota { .. } => "dynamic_iota",
        OpKind::DynamicBroadcastInDim { .. } => "dynamic_broadcast_in_dim",
        OpKind::RealDynamicSlice => "real_dynamic_slice",
        OpKind::DynamicPad => "dynamic_pad",
        OpKind::DynamicGather { .. } => "dynamic_gather",
        OpKind::DynamicConv(_) => "dynamic_conv",
        OpKind::GetDimensionSize { .. } => "get_dimension_size",
        OpKind::SetDimensionSize { .. } => "set_dimension_size",
        OpKind::UniformQuantize => "uniform_quantize",
        OpKind::UniformDequantize => "uniform_dequantize",
        OpKind::Chlo(n) => return format!("chlo.{n}"),
        OpKind::Other(n) => return n.clone(),
    };
    format!("stablehlo.{short}")
}

fn ints(v: &[i64]) -> Attr {
    Attr::Ints(DType::I64, v.to_vec())
}
fn dims(v: &[u64]) -> Attr {
    Attr::Ints(DType::I64, v.iter().map(|d| *d as i64).collect())
}
fn i64(v: i64) -> Attr {
    Attr::Int(i128::from(v), "i64".into())
}
fn i32(v: i64) -> Attr {
    Attr::Int(i128::from(v), "i32".into())
}
fn dim(v: u64) -> Attr {
    i64(v as i64)
}
fn word(kind: &str, w: &str) -> Attr {
    Attr::Enum("stablehlo".into(), kind.into(), w.into())
}
fn list(v: &[u64]) -> Attr {
    Attr::Array(v.iter().map(|d| dim(*d)).collect())
}
fn pairs(v: &[(i64, i64)]) -> Attr {
    let data = v.iter().flat_map(|(a, b)| [*a, *b]).flat_map(i64::to_le_bytes).collect();
    Attr::Dense(Literal::new(TensorType::new(DType::I64, &[v.len() as u64, 2]), data))
}
fn precision(v: &[String]) -> Option<Attr> {
    (!v.is_empty()).then(|| Attr::Array(v.iter().map(|w| word("precision", w)).collect()))
}
/// Fields without empty lists, which the printer of StableHLO leaves out.
fn fields(name: &str, f: Vec<(&str, Attr)>) -> Attr {
    let kept = f.into_iter().filter(|(_, a)| !matches!(a, Attr::Array(l) if l.is_empty()));
    Attr::Struct("stablehlo".into(), name.into(), kept.map(|(n, a)| (n.to_string(), a)).collect())
}
fn gather(d: &GatherDims) -> Attr {
    fields(
        "gather",
        vec![
            ("offset_dims", list(&d.offset_dims)),
            ("collapsed_slice_dims", list(&d.collapsed_slice_dims)),
            ("operand_batching_dims", list(&d.operand_batching_dims)),
            ("start_indices_batching_dims", list(&d.start_indices_batching_dims)),
            ("start_index_map", list(&d.start_index_map)),
            ("index_vector_dim", dim(d.index_vector_dim)),
        ],
    )
}
fn scatter(d: &ScatterDims) -> Attr {
    fields(
        "scatter",
        vec![
            ("update_window_dims", list(&d.update_window_dims)),
            ("inserted_window_dims", list(&d.inserted_window_dims)),
            ("input_batching_dims", list(&d.input_batching_dims)),
            ("scatter_indices_batching_dims", list(&d.scatter_indices_batching_dims)),
            ("scatter_dims_to_operand_dims", list(&d.scatter_dims_to_operand_dims)),
            ("index_vector_dim", dim(d.index_vector_dim)),
        ],
    )
}
fn conv(c: &Convolution) -> Attr {
    let f = [
        ("input_batch_dimension", dim(c.input_batch)),
        ("input_feature_dimension", dim(c.input_feature)),
        ("input_spatial_dimensions", list(&c.input_spatial)),
        ("kernel_input_feature_dimension", dim(c.kernel_input_feature)),
        ("kernel_output_feature_dimension", dim(c.kernel_output_feature)),
        ("kernel_spatial_dimensions", list(&c.kernel_spatial)),
        ("output_batch_dimension", dim(c.output_batch)),
        ("output_feature_dimension", dim(c.output_feature)),
        ("output_spatial_dimensions", list(&c.output_spatial)),
    ];
    Attr::Struct("stablehlo".into(), "conv".into(), f.into_iter().map(|(n, a)| (n.to_string(), a)).collect())
}
pub(crate) fn direction(d: Direction) -> &'static str {
    match d {
        Direction::Eq => "EQ",
        Direction::Ne => "NE",
        Direction::Ge => "GE",
        Direction::Gt => "GT",
        Direction::Le => "LE",
        Direction::Lt => "LT",
    }
}
fn compare_type(t: CompareType) -> Option<&'static str> {
    match t {
        CompareType::Default => None,
        CompareType::Float => Some("FLOAT"),
        CompareType::TotalOrder => Some("TOTALORDER"),
        CompareType::Signed => Some("SIGNED"),
        CompareType::Unsigned => Some("UNSIGNED"),
    }
}

/// The attributes of an op, `extra` included, sorted by name.
pub(crate) fn attrs(op: &Op) -> Attrs {
    let mut out: Vec<(&str, Attr)> = vec![];
    match &op.kind {
        OpKind::Constant(l) => out.push(("value", Attr::Dense(l.clone()))),
        OpKind::Iota { dim: d } | OpKind::DynamicIota { dim: d } => out.push(("iota_dimension", dim(*d))),
        OpKind::Compare { direction: d, ty } => {
            out.push(("comparison_direction", word("comparison_direction", direction(*d))));
            out.extend(compare_type(*ty).map(|t| ("compare_type", word("comparison_type", t))));
        }
        OpKind::ReducePrecision { exponent_bits, mantissa_bits } => {
            out.push(("exponent_bits", i32(i64::from(*exponent_bits))));
            out.push(("mantissa_bits", i32(i64::from(*mantissa_bits))));
        }
        OpKind::BroadcastInDim { dims: d } | OpKind::DynamicBroadcastInDim { dims: d } => {
            out.push(("broadcast_dimensions", dims(d)));
        }
        OpKind::Transpose { permutation } => out.push(("permutation", dims(permutation))),
        OpKind::Slice { start, limit, strides } => {
            out.push(("start_indices", ints(start)));
            out.push(("limit_indices", ints(limit)));
            out.push(("strides", ints(strides)));
        }
        OpKind::Concatenate { dim: d } | OpKind::GetDimensionSize { dim: d } | OpKind::SetDimensionSize { dim: d } => {
            out.push(("dimension", dim(*d)));
        }
        OpKind::Pad { low, high, interior } => {
            out.push(("edge_padding_low", ints(low)));
            out.push(("edge_padding_high", ints(high)));
            out.push(("interior_padding", ints(interior)));
        }
        OpKind::Reverse { dims: d } | OpKind::Reduce { dims: d } | OpKind::Map { dims: d } => {
            out.push(("dimensions", dims(d)));
        }
        OpKind::DynamicSlice { sizes } => out.push(("slice_sizes", ints(sizes))),
        OpKind::Gather { dims: d, slice_sizes, indices_are_sorted } => {
            out.push(("dimension_numbers", gather(d)));
            out.push(("slice_sizes", ints(slice_sizes)));
            out.push(("indices_are_sorted", Attr::Bool(*indices_are_sorted)));
        }
        OpKind::DynamicGather { dims: d, indices_are_sorted } => {
            out.push(("dimension_numbers", gather(d)));
            out.push(("indices_are_sorted", Attr::Bool(*indices_are_sorted)));
        }
        OpKind::Scatter { dims: d, indices_are_sorted, unique_indices } => {
            out.push(("scatter_dimension_numbers", scatter(d)));
            out.push(("indices_are_sorted", Attr::Bool(*indices_are_sorted)));
            out.push(("unique_indices", Attr::Bool(*unique_indices)));
        }
        OpKind::DotGeneral { dims: d, precision: p, algorithm } => {
            let f = vec![
                ("lhs_batching_dimensions", list(&d.lhs_batching)),
                ("rhs_batching_dimensions", list(&d.rhs_batching)),
                ("lhs_contracting_dimensions", list(&d.lhs_contracting)),
                ("rhs_contracting_dimensions", list(&d.rhs_contracting)),
            ];
            out.push(("dot_dimension_numbers", fields("dot", f)));
            out.extend(precision(p).map(|a| ("precision_config", a)));
            if let Some(a) = algorithm {
                let ty = |s: &str| Attr::Type(Type::Other(s.into()));
                let f = vec![
                    ("lhs_precision_type", ty(&a.lhs_precision)),
                    ("rhs_precision_type", ty(&a.rhs_precision)),
                    ("accumulation_type", ty(&a.accumulation)),
                    ("lhs_component_count", i64(a.lhs_components)),
                    ("rhs_component_count", i64(a.rhs_components)),
                    ("num_primitive_operations", i64(a.primitive_operations)),
                    ("allow_imprecise_accumulation", Attr::Bool(a.allow_imprecise_accumulation)),
                ];
                out.push(("algorithm", fields("dot_algorithm", f)));
            }
        }
        OpKind::Convolution(c) | OpKind::DynamicConv(c) => {
            out.push(("dimension_numbers", conv(c)));
            out.push(("window_strides", ints(&c.window_strides)));
            if matches!(op.kind, OpKind::Convolution(_)) {
                out.push(("padding", pairs(&c.padding)));
            }
            out.push(("lhs_dilation", ints(&c.lhs_dilation)));
            out.push(("rhs_dilation", ints(&c.rhs_dilation)));
            let reversal = c.window_reversal.iter().map(|b| i64::from(*b)).collect();
            out.push(("window_reversal", Attr::Ints(DType::I1, reversal)));
            out.push(("feature_group_count", i64(c.feature_group_count)));
            out.push(("batch_group_count", i64(c.batch_group_count)));
            out.extend(precision(&c.precision).map(|a| ("precision_config", a)));
        }
        OpKind::ReduceWindow(w) => {
            out.push(("window_dimensions", ints(&w.dimensions)));
            out.push(("window_strides", ints(&w.strides)));
            out.push(("base_dilations", ints(&w.base_dilations)));
            out.push(("window_dilations", ints(&w.window_dilations)));
            out.push(("padding", pairs(&w.padding)));
        }
        OpKind::SelectAndScatter { window_dimensions, window_strides, padding } => {
            out.push(("window_dimensions", ints(window_dimensions)));
            out.push(("window_strides", ints(window_strides)));
            out.push(("padding", pairs(padding)));
        }
        OpKind::Sort { dim: d, is_stable } => {
            out.push(("dimension", i64(*d)));
            out.push(("is_stable", Attr::Bool(*is_stable)));
        }
        OpKind::Call { callee } => out.push(("callee", Attr::Symbol(callee.clone()))),
        OpKind::GetTupleElement { index } => out.push(("index", i32(i64::from(*index)))),
        OpKind::Cholesky { lower } => out.push(("lower", Attr::Bool(*lower))),
        OpKind::TriangularSolve { left_side, lower, unit_diagonal, transpose_a } => {
            out.push(("left_side", Attr::Bool(*left_side)));
            out.push(("lower", Attr::Bool(*lower)));
            out.push(("unit_diagonal", Attr::Bool(*unit_diagonal)));
            out.push(("transpose_a", word("transpose", transpose_a)));
        }
        OpKind::Fft { kind, length } => {
            out.push(("fft_type", word("fft_type", kind)));
            out.push(("fft_length", ints(length)));
        }
        OpKind::RngBitGenerator { algorithm } => out.push(("rng_algorithm", word("rng_algorithm", algorithm))),
        OpKind::Rng { distribution } => out.push(("rng_distribution", word("rng_distribution", distribution))),
        OpKind::BatchNormInference { epsilon, feature_index }
        | OpKind::BatchNormTraining { epsilon, feature_index }
        | OpKind::BatchNormGrad { epsilon, feature_index } => {
            out.push(("epsilon", Attr::Float(f64::from(*epsilon), "f32".into())));
            out.push(("feature_index", i64(*feature_index)));
        }
        OpKind::Composite { name, decomposition, version, attributes } => {
            out.push(("name", Attr::Str(name.clone())));
            out.push(("decomposition", Attr::Symbol(decomposition.clone())));
            if *version != 0 {
                out.push(("version", i32(*version)));
            }
            if !attributes.is_empty() {
                out.push(("composite_attributes", Attr::Dict(attributes.clone())));
            }
        }
        OpKind::CustomCall { target, api_version, backend_config, called, has_side_effect } => {
            out.push(("call_target_name", Attr::Str(target.clone())));
            if *api_version != 1 {
                out.push(("api_version", i32(*api_version)));
            }
            let none = *backend_config == Attr::Str(String::new()) || *backend_config == Attr::Dict(vec![]);
            if !none {
                out.push(("backend_config", backend_config.clone()));
            }
            if !called.is_empty() {
                out.push(("called_computations", Attr::Array(called.iter().cloned().map(Attr::Symbol).collect())));
            }
            if *has_side_effect {
                out.push(("has_side_effect", Attr::Bool(true)));
            }
        }
        _ => {}
    }
    let mut out: Attrs = out.into_iter().map(|(n, a)| (n.to_string(), a)).collect();
    out.extend(op.extra.iter().cloned());
    // A custom call with the layouts of one side needs those of the other, even if there are none.
    for (here, there) in [("operand_layouts", "result_layouts"), ("result_layouts", "operand_layouts")] {
        if op.attr(here).is_some() && op.attr(there).is_none() {
            out.push((there.into(), Attr::Array(vec![])));
        }
    }
    out.sort_by(|a, b| a.0.cmp(&b.0));
    out
}
