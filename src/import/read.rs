//! The door for programs: recognises what a file is and gives it to its reader.

use crate::{
    bytecode,
    diag::{Diagnostic, Diagnostics, Source},
    text,
    tree::{Program, Span},
};
use std::borrow::Borrow;

/// Reads StableHLO text or a portable artifact. All errors of the file are returned, located. The source may be given or
/// lent; who calls `verify` afterwards needs it to locate the findings.
pub fn read(source: impl Borrow<Source>) -> Result<Program, Diagnostics> {
    let source = source.borrow();
    let refuse = |d: Diagnostic| Err(Diagnostics::from(d).locate(source));
    if source.bytes.len() > u32::MAX as usize {
        return refuse(
            Diagnostic::error("E0107", Span::NONE, "the file is larger than 4 GiB")
                .hint("keep weights as arguments of the program, in safetensors"),
        );
    }
    if source.bytes.iter().all(u8::is_ascii_whitespace) {
        return refuse(Diagnostic::error("E0107", Span::NONE, "the file is empty"));
    }
    if source.bytes.starts_with(bytecode::MAGIC) {
        return bytecode::read(source);
    }
    if looks_binary(&source.bytes) {
        return refuse(
            Diagnostic::error("E0107", Span::NONE, "the file is neither StableHLO text nor MLIR bytecode").hint(
                "bytecode starts with the bytes `ML\\xefR`; text starts with `module`, `func.func`, `#`, `!` or `//`",
            ),
        );
    }
    text::read(source)
}

/// Control characters among the first bytes.
fn looks_binary(bytes: &[u8]) -> bool {
    bytes.iter().take(512).any(|b| *b < 9 || (*b > 13 && *b < 32))
}
