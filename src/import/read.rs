//! The door for programs: recognises what a file is and gives it to its reader.

use crate::{
    bytecode,
    diag::{Diagnostic, Diagnostics, Source},
    text,
    tree::{Program, Span},
};

/// Reads StableHLO text or a portable artifact. All errors of the file are returned, located.
#[allow(clippy::needless_pass_by_value)]
pub fn read(source: Source) -> Result<Program, Diagnostics> {
    read_ref(&source)
}

/// As [`read`], for a caller who needs the source afterwards, as `verify`'s findings do.
pub fn read_ref(source: &Source) -> Result<Program, Diagnostics> {
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
