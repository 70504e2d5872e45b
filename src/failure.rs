//! Why a command ends: whose fault, and with which exit code.

use crate::codes;
use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};
use zmlc_import::{
    diag::{Diagnostic, Diagnostics},
    tree::Span,
};
use zmlc_passes::pass::PassError;

#[derive(Debug)]
pub enum Failure {
    /// The user's input: exit code 1.
    Input(Diagnostics),
    /// Arguments that make no sense together: exit code 2.
    Usage(String),
    /// Ours: exit code 101. `reproducer`: a file with the IR that shows it.
    Bug { message: String, reproducer: Option<PathBuf> },
}
impl Failure {
    /// `what`: "read", "write".
    pub fn file(path: &Path, what: &str, e: &std::io::Error) -> Self {
        let d = Diagnostic::error(codes::FILE, Span::NONE, format!("cannot {what} {}: {e}", path.display()));
        match e.kind() {
            ErrorKind::IsADirectory if path.join("saved_model.pb").exists() => d.hint(
                "this is a TensorFlow SavedModel: export StableHLO from it with `tf_to_stablehlo`, or rebuild the model in JAX or PyTorch",
            ),
            ErrorKind::IsADirectory => d.hint("name a file in this folder"),
            _ => d,
        }
        .into()
    }
    pub fn input(code: &'static str, message: impl Into<String>) -> Self {
        Diagnostic::error(code, Span::NONE, message).into()
    }
    pub fn bug(message: impl Into<String>) -> Self {
        Failure::Bug { message: message.into(), reproducer: None }
    }
}
impl From<Diagnostic> for Failure {
    fn from(d: Diagnostic) -> Self {
        Failure::Input(d.into())
    }
}
impl From<Diagnostics> for Failure {
    fn from(d: Diagnostics) -> Self {
        Failure::Input(d)
    }
}
impl From<PassError> for Failure {
    fn from(e: PassError) -> Self {
        match e {
            PassError::Input(m) => Failure::input(codes::IR, m),
            PassError::Unsupported { what, hint } => {
                Diagnostic::error(codes::TARGET_CANNOT, Span::NONE, what).hint(hint).into()
            }
            PassError::Bug(message) => Failure::bug(message),
        }
    }
}
