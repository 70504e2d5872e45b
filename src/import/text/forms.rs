//! How each op of StableHLO and chlo is spelled in pretty form, as data that the parser and the printer share. Ops that
//! are not here have the generic form only; constant, reduce and while have parsers of their own.

/// A piece of an op's text, in order.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Piece {
    /// One operand.
    Op,
    /// The remaining operands, separated by commas.
    Ops,
    /// The remaining operands, each followed by a comma.
    OpsComma,
    /// Words and punctuation, separated by blanks.
    Lit(&'static str),
    /// An integer attribute: name, type.
    Int(&'static str, &'static str),
    /// A bracketed list of integers: name.
    Ints(&'static str),
    /// A string.
    Str(&'static str),
    /// A bare word for `#stablehlo<kind WORD>`: name, kind.
    Enum(&'static str, &'static str),
    /// As `Enum` behind a comma, or nothing.
    OptEnum(&'static str, &'static str),
    /// The literal and a boolean, or nothing: literal, name.
    OptBool(&'static str, &'static str),
    /// `[start:limit:stride, ...]`
    Slice,
    /// `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`
    ConvDims,
    /// `stride = [1, 1], pad = [[0, 0], [0, 0]], ...`
    Window,
    /// `batching_dims = [0] x [0], contracting_dims = [1] x [0]`
    DotDims,
    /// `, precision = [...]` and, if true, `, algorithm = <...>`; each optional.
    Precision(bool),
    /// `e5m10`
    ExpMant,
    /// `@target`
    Target,
    /// `{...}`, or nothing.
    Dict,
    /// `:` and the types.
    Types(Sig),
}

/// How the types of operands and results are written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Sig {
    /// `(A, B) -> C`
    Function,
    /// One type for all, or a function type.
    Same,
    /// The result's.
    Result,
    /// The tuple that results.
    Tuple,
    /// Predicate and result, or a function type.
    Select,
    /// One type for each operand and its result.
    Pairwise,
    /// The complex type that results, or a function type.
    Complex,
    /// `A, B -> C`
    Arrow,
}

/// How an op of this form may look, behind its name.
pub(crate) fn example(pieces: &[Piece]) -> String {
    let mut s = String::new();
    let mut operands = 0;
    let mut operand = || {
        operands += 1;
        ["%x", "%y", "%z", "%w"][(operands - 1) % 4]
    };
    for p in pieces {
        let word = match *p {
            Op => operand().to_string(),
            Ops => format!("{}, {}", operand(), operand()),
            OpsComma => format!("{}, {},", operand(), operand()),
            Lit(s) => s.to_string(),
            Piece::Int(..) => "0".into(),
            Piece::Ints(_) => "[0, 1]".into(),
            Piece::Str(_) => "\"name\"".into(),
            Piece::Enum("comparison_direction", _) => "EQ".into(),
            Piece::Enum(_, kind) => kind.to_uppercase(),
            Piece::Slice => "[0:4, 0:8:2]".into(),
            Piece::ConvDims => "dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]".into(),
            Piece::Window => "window = {stride = [1, 1]}".into(),
            Piece::DotDims => "contracting_dims = [1] x [0]".into(),
            Piece::ExpMant => "e5m10".into(),
            Piece::Target => "@name".into(),
            Piece::Types(Sig::Function) => ": (tensor<...>) -> tensor<...>".into(),
            Piece::Types(Sig::Arrow) => ": tensor<...> -> tensor<...>".into(),
            Piece::Types(Sig::Select) => ": tensor<...xi1>, tensor<...>".into(),
            Piece::Types(_) => ": tensor<...>".into(),
            Piece::OptEnum(..) | Piece::OptBool(..) | Piece::Precision(_) | Dict => continue,
        };
        if !s.is_empty() && !word.starts_with([',', ')']) && !s.ends_with('(') {
            s.push(' ');
        }
        s.push_str(&word);
    }
    s
}

use Piece::{Dict, Lit, Op, Ops, OpsComma};

const fn int64(name: &'static str) -> Piece {
    Piece::Int(name, "i64")
}
const FN: Piece = Piece::Types(Sig::Function);
const SAME: Piece = Piece::Types(Sig::Same);
const RESULT: Piece = Piece::Types(Sig::Result);
const ARROW: Piece = Piece::Types(Sig::Arrow);
const COMMA: Piece = Lit(",");

const UNARY: &[Piece] = &[Op, Dict, SAME];
const BINARY: &[Piece] = &[Ops, Dict, SAME];
const PLAIN: &[Piece] = &[Ops, Dict, FN];
const NULLARY: &[Piece] = &[Dict, RESULT];
const CHLO: &[Piece] = &[Ops, Dict, ARROW];
const CHLO_PAREN: &[Piece] = PLAIN;

const STABLEHLO: &[(&str, &[Piece])] = &[
    ("after_all", BINARY),
    ("bitcast_convert", PLAIN),
    ("broadcast", &[Op, Lit(", sizes ="), Piece::Ints("broadcast_sizes"), Dict, FN]),
    ("broadcast_in_dim", &[Op, Lit(", dims ="), Piece::Ints("broadcast_dimensions"), Dict, FN]),
    ("cholesky", &[Op, Piece::OptBool(", lower =", "lower"), Dict, SAME]),
    ("clamp", BINARY),
    (
        "compare",
        &[
            Piece::Enum("comparison_direction", "comparison_direction"),
            COMMA,
            Op,
            COMMA,
            Op,
            Piece::OptEnum("compare_type", "comparison_type"),
            Dict,
            FN,
        ],
    ),
    ("complex", &[Ops, Dict, Piece::Types(Sig::Complex)]),
    ("composite", &[Piece::Str("name"), Ops, Dict, FN]),
    ("concatenate", &[OpsComma, Lit("dim ="), int64("dimension"), Dict, FN]),
    ("convert", UNARY),
    (
        "convolution",
        &[
            Lit("("),
            Ops,
            Lit(") dim_numbers ="),
            Piece::ConvDims,
            Lit(", window = {"),
            Piece::Window,
            Lit("}"),
            Dict,
            FN,
        ],
    ),
    ("create_token", NULLARY),
    ("custom_call", &[Piece::Target, Lit("("), Ops, Lit(")"), Dict, FN]),
    ("dot", &[Op, COMMA, Op, Piece::Precision(false), Dict, FN]),
    ("dot_general", &[Op, COMMA, Op, COMMA, Piece::DotDims, Piece::Precision(true), Dict, FN]),
    ("dynamic_broadcast_in_dim", &[Op, COMMA, Op, Lit(", dims ="), Piece::Ints("broadcast_dimensions"), Dict, FN]),
    ("dynamic_iota", &[Op, Lit(", dim ="), int64("iota_dimension"), Dict, FN]),
    ("dynamic_pad", PLAIN),
    ("dynamic_reshape", PLAIN),
    ("dynamic_slice", &[OpsComma, Lit("sizes ="), Piece::Ints("slice_sizes"), Dict, FN]),
    ("dynamic_update_slice", PLAIN),
    ("einsum", &[Op, COMMA, Op, Lit(", config ="), Piece::Str("einsum_config"), Dict, FN]),
    (
        "fft",
        &[
            Op,
            Lit(", type ="),
            Piece::Enum("fft_type", "fft_type"),
            Lit(", length ="),
            Piece::Ints("fft_length"),
            Dict,
            FN,
        ],
    ),
    ("get_dimension_size", &[Op, Lit(", dim ="), int64("dimension"), Dict, FN]),
    ("get_tuple_element", &[Op, Lit("["), Piece::Int("index", "i32"), Lit("]"), Dict, FN]),
    ("iota", &[Lit("dim ="), int64("iota_dimension"), Dict, RESULT]),
    ("is_finite", PLAIN),
    ("optimization_barrier", &[Dict, Ops, Piece::Types(Sig::Pairwise)]),
    (
        "pad",
        &[
            Op,
            COMMA,
            Op,
            Lit(", low ="),
            Piece::Ints("edge_padding_low"),
            Lit(", high ="),
            Piece::Ints("edge_padding_high"),
            Lit(", interior ="),
            Piece::Ints("interior_padding"),
            Dict,
            FN,
        ],
    ),
    ("partition_id", NULLARY),
    ("real_dynamic_slice", PLAIN),
    ("reduce_precision", &[Op, Lit(", format ="), Piece::ExpMant, Dict, SAME]),
    ("replica_id", NULLARY),
    ("reshape", PLAIN),
    ("reverse", &[Op, Lit(", dims ="), Piece::Ints("dimensions"), Dict, SAME]),
    (
        "rng",
        &[
            Op,
            COMMA,
            Op,
            COMMA,
            Op,
            Lit(", distribution ="),
            Piece::Enum("rng_distribution", "rng_distribution"),
            Dict,
            FN,
        ],
    ),
    ("rng_bit_generator", &[Op, Lit(", algorithm ="), Piece::Enum("rng_algorithm", "rng_algorithm"), Dict, FN]),
    ("select", &[Ops, Dict, Piece::Types(Sig::Select)]),
    ("set_dimension_size", &[Op, COMMA, Op, Lit(", dim ="), int64("dimension"), Dict, FN]),
    ("slice", &[Op, Piece::Slice, Dict, FN]),
    ("transpose", &[Op, Lit(", dims ="), Piece::Ints("permutation"), Dict, FN]),
    ("tuple", &[Ops, Dict, Piece::Types(Sig::Tuple)]),
    ("unary_einsum", &[Op, Lit(", config ="), Piece::Str("einsum_config"), Dict, FN]),
    ("uniform_dequantize", UNARY),
    ("uniform_quantize", UNARY),
];

const CHLO_OPS: &[(&str, &[Piece])] = &[
    ("acos", CHLO),
    ("acosh", CHLO),
    ("asin", CHLO),
    ("asinh", CHLO),
    ("atan", CHLO),
    ("atanh", CHLO),
    ("_asin_acos_kernel", CHLO),
    ("bessel_i1e", CHLO),
    ("conj", CHLO),
    ("cosh", CHLO),
    ("digamma", CHLO),
    ("erf", CHLO),
    ("erf_inv", CHLO),
    ("erfc", CHLO),
    ("is_inf", CHLO),
    ("is_neg_inf", CHLO),
    ("is_pos_inf", CHLO),
    ("lgamma", CHLO),
    ("mulhi", CHLO),
    ("next_after", CHLO),
    ("polygamma", CHLO),
    ("sinh", CHLO),
    ("square", CHLO),
    ("tan", CHLO),
    ("zeta", CHLO),
    ("broadcast_add", CHLO_PAREN),
    ("broadcast_and", CHLO_PAREN),
    ("broadcast_atan2", CHLO_PAREN),
    ("broadcast_compare", CHLO_PAREN),
    ("broadcast_complex", CHLO_PAREN),
    ("broadcast_divide", CHLO_PAREN),
    ("broadcast_maximum", CHLO_PAREN),
    ("broadcast_minimum", CHLO_PAREN),
    ("broadcast_multiply", CHLO_PAREN),
    ("broadcast_next_after", CHLO_PAREN),
    ("broadcast_or", CHLO_PAREN),
    ("broadcast_polygamma", CHLO_PAREN),
    ("broadcast_power", CHLO_PAREN),
    ("broadcast_remainder", CHLO_PAREN),
    ("broadcast_select", CHLO_PAREN),
    ("broadcast_shift_left", CHLO_PAREN),
    ("broadcast_shift_right_arithmetic", CHLO_PAREN),
    ("broadcast_shift_right_logical", CHLO_PAREN),
    ("broadcast_subtract", CHLO_PAREN),
    ("broadcast_xor", CHLO_PAREN),
    ("broadcast_zeta", CHLO_PAREN),
    (
        "top_k",
        &[Lit("("), Op, Lit(", k ="), int64("k"), Piece::OptBool(", is_stable =", "is_stable"), Lit(")"), Dict, ARROW],
    ),
];

/// The pieces of an op by its full name.
pub(crate) fn form(name: &str) -> Option<&'static [Piece]> {
    let (dialect, op) = name.split_once('.')?;
    let table = match dialect {
        "stablehlo" => {
            if crate::raw::UNARY.iter().any(|(_, n)| *n == op && *n != "is_finite") {
                return Some(UNARY);
            }
            if crate::raw::BINARY.iter().any(|(_, n)| *n == op && *n != "complex") {
                return Some(BINARY);
            }
            STABLEHLO
        }
        "chlo" => CHLO_OPS,
        _ => return None,
    };
    table.iter().find(|(n, _)| *n == op).map(|(_, p)| *p)
}
