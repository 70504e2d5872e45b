//! The portable artifact inside of what `jax.export` serializes: a flatbuffer whose root is a table of type `Exported`. It
//! is filled from its end and the function's name goes in first, so a file that holds the name is whole.

use crate::{bytecode::MAGIC, diag::Diagnostic, tree::Span};

/// Fields of `Exported` by their places in the schema.
const FUNCTION_NAME: usize = 1;
const MODULE: usize = 13;

/// `None` for a file that is no such container, an error for one that is cut.
pub(crate) fn module(bytes: &[u8]) -> Option<Result<&[u8], Diagnostic>> {
    let root = u32_at(bytes, 0)? as usize;
    let vtable = usize::try_from(root as i64 - i64::from(u32_at(bytes, root)? as i32)).ok()?;
    let field = |i: usize| {
        let known = usize::from(u16_at(bytes, vtable)?) >= 6 + 2 * i;
        let at = root + usize::from(u16_at(bytes, vtable + 4 + 2 * i).filter(|o| known && *o > 0)?);
        Some(at + u32_at(bytes, at)? as usize)
    };
    let (name, module) = (field(FUNCTION_NAME)?, field(MODULE)?);
    // A cut may leave less of the artifact than its first bytes.
    let start = bytes.get(module + 4..).unwrap_or_default();
    if !MAGIC.starts_with(&start[..start.len().min(MAGIC.len())]) {
        return None;
    }
    let whole = |at: usize, more: usize| {
        let end = at.checked_add(4)?.checked_add(u32_at(bytes, at)? as usize)?;
        (end.checked_add(more)?.next_multiple_of(4) <= bytes.len()).then_some(at + 4..end)
    };
    // A zero byte ends a string.
    Some(match whole(module, 0).zip(whole(name, 1)) {
        Some((module, _)) => Ok(&bytes[module]),
        None => {
            let d = Diagnostic::error("E0501", Span::NONE, "the file of `jax.export` ends early");
            Err(d.hint("a truncated copy? compare the file's size with the original's"))
        }
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..)?.first_chunk().copied()?))
}
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..)?.first_chunk().copied()?))
}
