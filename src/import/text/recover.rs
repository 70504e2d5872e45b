//! Going on behind an error: where the next op or function starts, and what the author may have meant.

use super::{MOST_ERRORS, Parser, lexer::R};
use crate::{
    diag::{Diagnostic, did_you_mean},
    tree::{Loc, Span, Type},
};

/// Letters that all suggestions of a run may compare, so that a file of errors is not read in the square of its size.
const MOST_COMPARED: usize = 30_000_000;
/// Names that a hint lists.
const MOST_LISTED: usize = 6;

/// Finds what a name was meant to be.
#[derive(Default)]
pub(super) struct Near {
    compared: usize,
}
impl Near {
    /// `did you mean ...`, or what there is.
    pub fn hint<'n>(
        &mut self,
        sigil: &str,
        name: &str,
        names: impl Iterator<Item = &'n str>,
        there_is: &str,
    ) -> String {
        let mut names: Vec<&str> = if self.compared > MOST_COMPARED { vec![] } else { names.collect() };
        let letters: usize = names.iter().map(|n| n.len().min(100)).sum();
        self.compared += letters.saturating_mul(name.len().clamp(1, 100));
        if self.compared > MOST_COMPARED {
            return "is it spelled as where it is defined?".into();
        }
        // Of names of one or two letters everything is near.
        if let Some(n) = did_you_mean(name, names.iter().copied().filter(|n| n.len() > 2)) {
            return format!("did you mean `{sigil}{n}`?");
        }
        if names.is_empty() {
            return "nothing is defined here that could be meant".into();
        }
        names.sort_unstable_by_key(|n| (n.len(), *n));
        let more = names.len().saturating_sub(MOST_LISTED);
        let list: Vec<String> = names.iter().take(MOST_LISTED).map(|n| format!("`{sigil}{n}`")).collect();
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        format!("{there_is} {}{more}", list.join(", "))
    }
}

impl<'a> Parser<'a> {
    /// `3:14`, line and column.
    pub(super) fn position(&self, span: Span) -> String {
        let lines = self.lines.get_or_init(|| {
            let ends = self.c.src.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i as u32 + 1);
            std::iter::once(crate::read::byte_order_mark(self.c.src) as u32).chain(ends).collect()
        });
        let line = lines.partition_point(|start| *start <= span.start).max(1);
        let text = &self.c.src[(lines[line - 1] as usize).min(span.start as usize)..span.start as usize];
        format!("{line}:{}", String::from_utf8_lossy(text).chars().count() + 1)
    }

    /// Reads one op of a module's body; one that fails is reported and skipped.
    pub(super) fn item_or_recover(&mut self) -> R<()> {
        let start = self.start();
        let declared = (self.declared.len(), self.unsure.len());
        let result = self.item();
        self.name_undefined();
        self.leave_scope(0);
        self.values.clear();
        match result {
            Err(e) => {
                self.nameless |= declared == (self.declared.len(), self.unsure.len());
                self.skip_item(start, e)
            }
            Ok(()) => Ok(()),
        }
    }

    /// To the next line that starts with a function, an alias or a module, or to the end of the file.
    pub(super) fn skip_item(&mut self, start: usize, e: Box<Diagnostic>) -> R<()> {
        if self.is_last(&e) {
            return Err(e);
        }
        self.depth = 0;
        self.c.pos = start.max(e.span.start as usize);
        self.report(e);
        let src = self.c.src;
        loop {
            self.c.pos += super::lexer::line_end(&src[self.c.pos..]);
            if self.c.pos >= src.len() {
                self.lost = true;
                return Ok(());
            }
            if self.starts_item() {
                return Ok(());
            }
        }
    }
    fn starts_item(&self) -> bool {
        let mut c = self.c.clone();
        c.take(|b| matches!(b, b' ' | b'\t'));
        if matches!(c.byte(0), b'#' | b'!') {
            c.pos += 1;
            return !c.suffix().is_empty() && c.eat("=");
        }
        c.byte(0) == b'{' && c.eat("{-#")
            || ["func.func", "func", "sdy.mesh", "module"].iter().any(|w| c.clone().eat_word(w))
            || c.eat("\"func.func\"")
    }
    /// Whether nothing can be read behind an error.
    pub(super) fn is_last(&self, e: &Diagnostic) -> bool {
        matches!(e.code, "E0102" | "E0103") || self.errors.len() >= MOST_ERRORS
    }

    /// Says of values that nothing defined before their use where they are defined, or what is called nearly so.
    pub(super) fn name_undefined(&mut self) {
        if self.undefined.is_empty() {
            return;
        }
        let undefined = std::mem::take(&mut self.undefined);
        let mut found = vec![];
        for v in &self.values {
            if let Some((name, at)) = undefined.get_key_value(v.name.split('#').next().unwrap_or_default()) {
                found.push((*name, *at, v.span));
            }
        }
        for (name, at, span) in found {
            let place = self.position(span);
            let e = &mut self.errors[at];
            e.hint = Some(if span.start > e.span.start {
                format!("`%{name}` is defined at {place}, behind this use")
            } else {
                format!("`%{name}`, defined at {place}, is of a region that ends before this use")
            });
        }
    }

    /// Goes on behind an op that failed. True if it was a return.
    pub(super) fn recover_op(&mut self, start: usize, e: Box<Diagnostic>, results: super::ops::Results<'a>) -> R<bool> {
        if self.is_last(&e) {
            return Err(e);
        }
        let at = e.span.start as usize;
        self.report(e);
        self.skipped += 1;
        let ended = self.skip_op(start, at);
        for (name, n, span) in results {
            self.define(name, span, vec![(Type::unknown(), Loc::Unknown); n as usize]);
        }
        Ok(ended)
    }

    /// Whether the next line is an op with results, or a return.
    fn starts_op(&self) -> bool {
        let mut c = self.c.clone();
        c.blank();
        if c.eat("%") {
            return !c.value_suffix().is_empty() && (c.eat("=") || c.eat(":"));
        }
        ["return", "func.return", "stablehlo.return"].iter().any(|w| c.eat_word(w))
    }

    /// From the start of an op that failed at `at` to its end: a line break outside of all brackets. True if it was a
    /// return.
    fn skip_op(&mut self, start: usize, at: usize) -> bool {
        self.c.pos = start;
        let ended = self.c.eat_word("return")
            || self.c.eat_word("func.return")
            || self.c.eat_word("stablehlo.return")
            || self.c.eat_word("sdy.return");
        // A bracket that is never closed must not swallow the ops behind it.
        let (mut braces, mut brackets) = (0u32, 0u32);
        loop {
            match self.c.byte(0) {
                0 if self.c.pos >= self.c.src.len() => break,
                b'"' => {
                    if self.c.string_span().is_err() {
                        self.c.pos += 1;
                    }
                    continue;
                }
                b'(' | b'[' => brackets += 1,
                b')' | b']' => brackets = brackets.saturating_sub(1),
                b'{' => braces += 1,
                b'}' if braces == 0 => break,
                b'}' => braces -= 1,
                b'/' if self.c.byte(1) == b'/' => {
                    self.c.blank();
                    continue;
                }
                b'/' if self.c.byte(1) == b'*' => {
                    let rest = &self.c.src[self.c.pos..];
                    self.c.pos += rest.windows(2).position(|w| w == b"*/").map_or(rest.len(), |n| n + 2);
                    continue;
                }
                b'\n' if braces == 0 && self.c.pos >= at => {
                    let mut next = self.c.clone();
                    let more = ["reducer", "cond", "do", "{", "("].iter().any(|w| next.eat(w));
                    if (brackets == 0 && !more) || self.starts_op() {
                        break;
                    }
                }
                _ => {}
            }
            self.c.pos += 1;
        }
        ended
    }
}
