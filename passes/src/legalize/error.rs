//! What legalize refuses. An error names the op, its element type, the reason and a hint; the driver makes the diagnostic
//! of it, with the place in the source.

use std::fmt;
use zmlc_import::tree::{Loc, Span, Type};

/// One op, or an entry's interface, that has no lowering.
#[derive(Clone, Debug, PartialEq)]
pub struct LegalizeError {
    /// `E0801` op, `E0802` element type, `E0803` dynamic shape, `E0804` form of an op, `E0805` entry.
    pub code: &'static str,
    /// `stablehlo.fft`, or the entry's name for `E0805`.
    pub op: String,
    /// Types of the operands and results, as StableHLO writes the elements: `f8E4M3`.
    pub dtype: String,
    /// Op, types and reason in one sentence.
    pub message: String,
    pub hint: String,
    pub span: Span,
    pub loc: Loc,
}
impl fmt::Display for LegalizeError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {} ({})", self.code, self.message, self.hint)
    }
}
impl std::error::Error for LegalizeError {}

/// A refusal before it knows which op it is about.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub code: &'static str,
    pub why: String,
    pub hint: &'static str,
}
impl Refusal {
    pub fn op(why: impl Into<String>) -> Self {
        let hint = "rewrite the model without this op, or lower it before export";
        Refusal { code: "E0801", why: why.into(), hint }
    }
    pub fn devices() -> Self {
        let why = "a program is compiled for one device, and this op exchanges values between several";
        Refusal { code: "E0801", why: why.into(), hint: "export the program for one device, without a mesh" }
    }
    pub fn dtype(why: impl Into<String>) -> Self {
        Refusal { code: "E0802", why: why.into(), hint: "convert to another element type around this op" }
    }
    pub fn dynamic(why: impl Into<String>) -> Self {
        Refusal { code: "E0803", why: why.into(), hint: "export the program with static shapes" }
    }
    pub fn form(why: impl Into<String>) -> Self {
        Refusal { code: "E0804", why: why.into(), hint: "export the op in another form" }
    }
}

/// The distinct element types among some types, in order.
pub(super) fn dtypes<'a>(types: impl Iterator<Item = &'a Type>) -> String {
    let mut names: Vec<&str> = vec![];
    for t in types {
        let name = match t {
            Type::Tensor(t) => t.dtype.name(),
            Type::Token => "token",
            Type::Tuple(_) => "tuple",
            Type::Function(..) => "function",
            Type::Other(s) => s,
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}
