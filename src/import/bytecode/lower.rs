//! From StableHLO's attributes to VHLO's: structures taken apart, defaults written out. The reverse of `vhlo::to_stablehlo`.

use super::vhlo::OPS;
use crate::tree::{Attr, Attrs, DType, Literal, TensorType, Type};

const ENUMS: &[(&str, u64, &[&str])] = &[
    ("comparison_direction", 3, &["EQ", "NE", "GE", "GT", "LE", "LT"]),
    ("comparison_type", 4, &["NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"]),
    ("custom_call_api_version", 5, &["0", "1", "2", "3", "4"]),
    ("fft_type", 7, &["FFT", "IFFT", "RFFT", "IRFFT"]),
    ("precision", 11, &["DEFAULT", "HIGH", "HIGHEST"]),
    ("rng_algorithm", 12, &["DEFAULT", "THREE_FRY", "PHILOX"]),
    ("rng_distribution", 13, &["", "UNIFORM", "NORMAL"]),
    ("transpose", 16, &["TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]),
    ("result_accuracy_mode", 19, &["DEFAULT", "HIGHEST", "TOLERANCE"]),
];

/// The code of an enumeration and the number of a word of it.
pub(crate) fn enumerator(kind: &str, word: &str) -> Option<(u64, u64)> {
    let (_, code, words) = ENUMS.iter().find(|e| e.0 == kind)?;
    Some((*code, words.iter().position(|w| *w == word)? as u64))
}

const TYPES: &[(&str, u64)] = &[
    ("i1", 0),
    ("bf16", 2),
    ("f16", 3),
    ("f32", 4),
    ("f64", 5),
    ("f8E4M3FN", 6),
    ("f8E5M2", 7),
    ("index", 9),
    ("i4", 10),
    ("i8", 11),
    ("i16", 12),
    ("i32", 13),
    ("i64", 14),
    ("ui4", 15),
    ("ui8", 16),
    ("ui16", 17),
    ("ui32", 18),
    ("ui64", 19),
    ("f8E4M3FNUZ", 27),
    ("f8E5M2FNUZ", 28),
    ("f8E4M3B11FNUZ", 29),
    ("i2", 31),
    ("ui2", 32),
    ("none", 33),
    ("tf32", 34),
    ("f8E4M3", 35),
    ("f8E3M4", 36),
    ("f4E2M1FN", 37),
    ("f6E2M3FN", 38),
    ("f6E3M2FN", 39),
    ("f8E8M0FNU", 40),
];

/// The code of a scalar type.
pub(crate) fn type_code(name: &str) -> Option<u64> {
    TYPES.iter().find(|t| t.0 == name).map(|t| t.1)
}

/// The op of a version by its name in StableHLO.
pub(crate) fn op_of(short: &str, version: (u32, u32)) -> Option<&'static str> {
    let number = |s: &str| -> (u32, u32) {
        let (a, b) = s.split_once('.').unwrap_or((s, "0"));
        (a.parse().unwrap_or(0), b.parse().unwrap_or(0))
    };
    let has = |range: &str| match range.split_once('-') {
        Some((from, to)) => (number(from)..=number(to)).contains(&version),
        None => number(range) <= version,
    };
    OPS.iter().find(|o| has(o.1) && o.0.rsplit_once("_v").is_some_and(|(s, _)| s == short)).map(|o| o.0)
}

/// The version that brought a type, if it was not there from the start.
pub(crate) fn type_since(name: &str) -> (u32, u32) {
    match name {
        "i2" | "ui2" => (1, 2),
        "f8E4M3" | "f8E3M4" => (1, 7),
        "f4E2M1FN" | "f6E2M3FN" | "f6E3M2FN" | "f8E8M0FNU" => (1, 8),
        _ => (0, 9),
    }
}

fn ints(v: &[i64]) -> Attr {
    Attr::Ints(DType::I64, v.to_vec())
}
fn i64(v: i64) -> Attr {
    Attr::Int(i128::from(v), "i64".into())
}

/// Structures become single attributes, by VHLO's names.
pub(crate) fn from_stablehlo(op: &str, attrs: &mut Attrs) {
    let mut flat: Attrs = vec![];
    attrs.retain(|(_, a)| {
        let Attr::Struct(_, kind, fields) = a else { return true };
        match kind.as_str() {
            "gather" | "scatter" | "conv" | "dot" => {
                // Dimension lists are tensors, single dimensions integers. Absent lists are empty.
                let names: &[&str] = match kind.as_str() {
                    "gather" => &[
                        "offset_dims",
                        "collapsed_slice_dims",
                        "operand_batching_dims",
                        "start_indices_batching_dims",
                        "start_index_map",
                    ],
                    "scatter" => &[
                        "update_window_dims",
                        "inserted_window_dims",
                        "input_batching_dims",
                        "scatter_indices_batching_dims",
                        "scatter_dims_to_operand_dims",
                    ],
                    "dot" => &[
                        "lhs_batching_dimensions",
                        "rhs_batching_dimensions",
                        "lhs_contracting_dimensions",
                        "rhs_contracting_dimensions",
                    ],
                    _ => &["input_spatial_dimensions", "kernel_spatial_dimensions", "output_spatial_dimensions"],
                };
                for n in names {
                    let v = fields
                        .iter()
                        .find(|(k, _)| k == n)
                        .and_then(|(_, a)| crate::build::ints_of(a))
                        .unwrap_or_default();
                    flat.push(((*n).to_string(), ints(&v)));
                }
                flat.extend(fields.iter().filter(|(_, a)| matches!(a, Attr::Int(..))).cloned());
                false
            }
            "dot_algorithm" => {
                flat.extend(fields.iter().cloned());
                false
            }
            "channel_handle" => {
                for (from, to) in [("handle", "channel_id"), ("type", "channel_type")] {
                    if let Some((_, a)) = fields.iter().find(|(k, _)| k == from)
                        && (to == "channel_id" || matches!(op, "send" | "recv"))
                    {
                        flat.push((to.into(), a.clone()));
                    }
                }
                false
            }
            _ => true,
        }
    });
    attrs.extend(flat);
    for (n, a) in attrs.iter_mut() {
        match (n.as_str(), &*a) {
            ("use_global_device_ids" | "has_dynamic_root", Attr::Unit) => *a = Attr::Bool(true),
            ("api_version", Attr::Int(v, _)) => {
                *a = Attr::Enum("stablehlo".into(), "custom_call_api_version".into(), v.to_string());
            }
            _ => {}
        }
    }
}

/// What an attribute is where the program does not have it.
pub(crate) fn default(op: &str, name: &str) -> Option<Attr> {
    let word = |kind: &str, w: &str| Attr::Enum("stablehlo".into(), kind.into(), w.into());
    let none = || Attr::Type(Type::Other("none".into()));
    Some(match name {
        "result_accuracy" => Attr::Struct("stablehlo".into(), "result_accuracy".into(), vec![]),
        "precision_config"
        | "layout"
        | "called_computations"
        | "operand_layouts"
        | "result_layouts"
        | "output_operand_aliases"
        | "result_tilings" => Attr::Array(vec![]),
        "compare_type" => word("comparison_type", "NOTYPE"),
        "channel_id" | "channel_type" => i64(0),
        "use_global_device_ids" | "has_dynamic_root" | "is_host_transfer" | "has_side_effect" => Attr::Bool(false),
        "infeed_config" | "outfeed_config" | "backend_config" => Attr::Str(String::new()),
        "api_version" => word("custom_call_api_version", "1"),
        "known_expanding_dimensions" | "known_nonexpanding_dimensions" => ints(&[]),
        "source_target_pairs" => Attr::Dense(Literal::new(TensorType::new(DType::I64, &[0, 2]), vec![])),
        "composite_attributes" => Attr::Dict(vec![]),
        "version" => Attr::Int(0, "i32".into()),
        "lhs_precision_type"
        | "rhs_precision_type"
        | "accumulation_type"
        | "lhs_component_count"
        | "rhs_component_count"
        | "num_primitive_operations"
        | "allow_imprecise_accumulation"
            if op == "dot_general" =>
        {
            none()
        }
        _ => return None,
    })
}
