//! The door for programs: recognises what a file is and gives it to its reader.

use crate::{
    bytecode,
    diag::{Diagnostic, Diagnostics, Source},
    exported, text,
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
    match exported::module(&source.bytes) {
        Some(Ok(module)) => return bytecode::read(&Source::new(source.name.clone(), module)),
        Some(Err(d)) => return refuse(d),
        None => {}
    }
    if looks_binary(&source.bytes) {
        if let Some((what, hint)) = container(&source.bytes) {
            return refuse(
                Diagnostic::error("E0603", Span::NONE, format!("the file is {what}, not a program")).hint(hint),
            );
        }
        return refuse(
            Diagnostic::error("E0107", Span::NONE, "the file is neither StableHLO text nor MLIR bytecode").hint(
                "bytecode starts with the bytes `ML\\xefR`; text starts with `module`, `func.func`, `#`, `!` or `//`",
            ),
        );
    }
    text::read(source)
}

/// Files that people mistake for programs, and what to do with them.
fn container(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    let zip = bytes.starts_with(b"PK\x03\x04");
    if zip && bytes.windows(8).take(4096).any(|w| w == b"data.pkl" || w == b"archive/" || w == b".data/ve") {
        return Some((
            "a PyTorch archive",
            "export it: `torchax.export.exported_program_to_stablehlo(torch.export.export(model, args))[1].mlir_module()`",
        ));
    }
    if zip {
        return Some(("a zip archive", "unpack it and name the program inside"));
    }
    if bytes.starts_with(b"\x1f\x8b") {
        return Some(("compressed with gzip", "unpack it with `gunzip`"));
    }
    if bytes.starts_with(b"\x28\xb5\x2f\xfd") {
        return Some(("compressed with zstd", "unpack it with `unzstd`"));
    }
    if bytes.get(8..9) == Some(b"{") && bytes.get(4..8) == Some(&[0; 4]) {
        return Some(("a safetensors file", "weights are named in model.toml; the program is another file"));
    }
    None
}

/// The length of the mark that some editors put before UTF-8.
pub(crate) fn byte_order_mark(bytes: &[u8]) -> usize {
    if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 }
}

/// Control characters among the first bytes, comments aside: those may hold any.
fn looks_binary(bytes: &[u8]) -> bool {
    let first = &bytes[..bytes.len().min(512)];
    first.split(|b| *b == b'\n').any(|line| {
        let comment = line.windows(2).position(|w| w == b"//").unwrap_or(line.len());
        line[..comment].iter().any(|b| text::is_control(*b))
    })
}
