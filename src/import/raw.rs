//! An op as the source has it, before its attributes get their types: what both readers produce, and the names that ops
//! of the tree have in StableHLO.

use crate::tree::{Attrs, BinaryOp, Block, Loc, Span, UnaryOp, ValueId};

/// Drops shardings and sharding rules of the dialect `sdy`. They are hints for several devices and refer to meshes, which the
/// tree does not have.
pub(crate) fn drop_shardings(attrs: &mut Attrs) {
    attrs.retain(|(name, _)| !name.starts_with("sdy."));
}

#[derive(Debug)]
pub(crate) struct RawOp {
    /// `stablehlo.add`
    pub name: String,
    pub name_span: Span,
    pub operands: Vec<ValueId>,
    pub operand_spans: Vec<Span>,
    pub results: Vec<ValueId>,
    pub attrs: Attrs,
    pub attr_spans: Vec<(String, Span)>,
    pub regions: Vec<Block>,
    pub loc: Loc,
    pub span: Span,
}

pub(crate) const UNARY: &[(UnaryOp, &str)] = &[
    (UnaryOp::Abs, "abs"),
    (UnaryOp::Cbrt, "cbrt"),
    (UnaryOp::Ceil, "ceil"),
    (UnaryOp::Clz, "count_leading_zeros"),
    (UnaryOp::Cosine, "cosine"),
    (UnaryOp::Exponential, "exponential"),
    (UnaryOp::ExponentialMinusOne, "exponential_minus_one"),
    (UnaryOp::Floor, "floor"),
    (UnaryOp::Imag, "imag"),
    (UnaryOp::IsFinite, "is_finite"),
    (UnaryOp::Log, "log"),
    (UnaryOp::LogPlusOne, "log_plus_one"),
    (UnaryOp::Logistic, "logistic"),
    (UnaryOp::Negate, "negate"),
    (UnaryOp::Not, "not"),
    (UnaryOp::Popcnt, "popcnt"),
    (UnaryOp::Real, "real"),
    (UnaryOp::RoundNearestAfz, "round_nearest_afz"),
    (UnaryOp::RoundNearestEven, "round_nearest_even"),
    (UnaryOp::Rsqrt, "rsqrt"),
    (UnaryOp::Sign, "sign"),
    (UnaryOp::Sine, "sine"),
    (UnaryOp::Sqrt, "sqrt"),
    (UnaryOp::Tan, "tan"),
    (UnaryOp::Tanh, "tanh"),
];

pub(crate) const BINARY: &[(BinaryOp, &str)] = &[
    (BinaryOp::Add, "add"),
    (BinaryOp::And, "and"),
    (BinaryOp::Atan2, "atan2"),
    (BinaryOp::Complex, "complex"),
    (BinaryOp::Divide, "divide"),
    (BinaryOp::Maximum, "maximum"),
    (BinaryOp::Minimum, "minimum"),
    (BinaryOp::Multiply, "multiply"),
    (BinaryOp::Or, "or"),
    (BinaryOp::Power, "power"),
    (BinaryOp::Remainder, "remainder"),
    (BinaryOp::ShiftLeft, "shift_left"),
    (BinaryOp::ShiftRightArithmetic, "shift_right_arithmetic"),
    (BinaryOp::ShiftRightLogical, "shift_right_logical"),
    (BinaryOp::Subtract, "subtract"),
    (BinaryOp::Xor, "xor"),
];
