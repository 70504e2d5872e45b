//! The door for programs: recognises what a file is and gives it to its reader.

use crate::{
    bytecode,
    diag::{Diagnostic, Diagnostics, Source},
    exported, kind, text,
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
        return refuse(
            Diagnostic::error("E0107", Span::NONE, "the file is empty")
                .hint("did its export or download fail? write it again, with JAX by `jax.jit(f).lower(x).as_text()`"),
        );
    }
    if source.bytes.starts_with(bytecode::MAGIC) {
        return bytecode::read(source);
    }
    match exported::module(&source.bytes) {
        Some(Ok(module)) => return bytecode::read(&Source::new(source.name.clone(), module)),
        Some(Err(d)) => return refuse(d),
        None => {}
    }
    if looks_binary(&source.bytes) {
        if let Some(k) = kind::binary(&source.bytes) {
            let m = format!("the file is {}, not a program", k.what);
            return refuse(Diagnostic::error("E0603", Span::NONE, m).hint(k.hint));
        }
        return refuse(
            Diagnostic::error("E0107", Span::NONE, "the file is neither StableHLO text nor MLIR bytecode").hint(
                "bytecode starts with the bytes `ML\\xefR`; text starts with `module`, `func.func`, `#`, `!` or `//`",
            ),
        );
    }
    text::read(source)
}

/// The length of the mark that some editors put before UTF-8.
pub(crate) fn byte_order_mark(bytes: &[u8]) -> usize {
    if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 }
}

/// Control characters among the first bytes, comments aside: those may hold any.
fn looks_binary(bytes: &[u8]) -> bool {
    let words = ["module", "func.func", "builtin.module", "\"builtin.module\"", "\"func.func\""];
    let start = bytes[byte_order_mark(bytes)..].trim_ascii_start();
    if words.iter().any(|w| start.starts_with(w.as_bytes())) {
        return false;
    }
    let first = &bytes[..bytes.len().min(512)];
    first.split(|b| *b == b'\n').any(|line| {
        let comment = line.windows(2).position(|w| w == b"//").unwrap_or(line.len());
        line[..comment].iter().any(|b| text::is_control(*b))
    })
}
