//! How much the uses of aliases repeat: each line of a few may double what it stands for.

use super::{Parser, R};
use crate::{
    diag::Diagnostic,
    tree::{Attr, Span, Type},
};

/// Parts that all uses of aliases together may repeat, and as many more for each byte of the file.
const MOST: usize = 1 << 16;
const MOST_A_BYTE: usize = 64;

impl Parser<'_> {
    pub(super) fn repeat_attr(&mut self, a: &Attr, used: Span) -> R<()> {
        self.repeat(attr(a), used)
    }
    pub(super) fn repeat_type(&mut self, t: &Type, used: Span) -> R<()> {
        self.repeat(ty(t), used)
    }
    fn repeat(&mut self, parts: usize, used: Span) -> R<()> {
        self.repeated += parts;
        if self.repeated <= MOST + MOST_A_BYTE * self.c.src.len() {
            return Ok(());
        }
        let d = Diagnostic::error("E0106", used, "the file's aliases stand for more than it could write out");
        Err(Box::new(d.label("here it is too much").hint("no exporter writes this; is the file damaged?")))
    }
}

fn attr(a: &Attr) -> usize {
    1 + match a {
        Attr::Array(l) => l.iter().map(attr).sum(),
        Attr::Dict(d) | Attr::Struct(_, _, d) => d.iter().map(|(_, a)| attr(a)).sum(),
        Attr::Type(t) => ty(t),
        _ => 0,
    }
}
fn ty(t: &Type) -> usize {
    1 + match t {
        Type::Tuple(l) => l.iter().map(ty).sum(),
        Type::Function(i, o) => i.iter().chain(o).map(ty).sum(),
        _ => 0,
    }
}
