//! Debug locations: `loc("name"(#loc3))`, `loc("file":1:2 to :5)`, call sites, fused, aliases before or after their use.

use super::{Parser, lexer::R, ops::counted};
use crate::tree::{Loc, Span};
use std::sync::Arc;

/// Python stacks are deep; a chain longer than this is cut to `Unknown`.
const DEEPEST: u32 = 400;

impl<'a> Parser<'a> {
    /// `loc(...)` if it comes next.
    pub(super) fn trailing_loc(&mut self) -> R<Loc> {
        if self.c.peek() == b'l' && self.c.eat_word("loc") {
            self.c.expect("(", "the location")?;
            let l = self.loc(0)?;
            self.c.expect(")", "the location")?;
            return Ok(l);
        }
        Ok(Loc::Unknown)
    }

    /// Printers put the aliases of locations behind the module: a file that is cut lacks many at once, which is one fault.
    pub(super) fn check_locs(&mut self) {
        let Some((name, used)) = self.missing_locs.first() else { return };
        let text = self.c.src.trim_ascii_end();
        let word = text.iter().rposition(u8::is_ascii_whitespace).map_or(0, |n| n + 1);
        if self.errors.iter().any(|e| e.code == "E0102" || e.span.start as usize >= word) {
            return;
        }
        let mut d = self.no_alias(&format!("#{name}"), *used);
        if self.missing_locs.len() > 1 {
            d.message += &format!(", nor {} of its locations", counted(self.missing_locs.len() - 1, "other"));
            d.hint = Some("the lines that define them stand at the file's end; is it cut off?".into());
        }
        self.report(d);
    }

    fn loc(&mut self, depth: u32) -> R<Loc> {
        let start = self.start();
        match self.c.peek() {
            b'#' => {
                self.c.pos += 1;
                let name = self.c.suffix();
                if let Some(l) = self.loc_aliases.get(name) {
                    return Ok(l.clone());
                }
                if depth > DEEPEST {
                    return Ok(Loc::Unknown);
                }
                let span = self.c.span(start);
                let alias = format!("#{name}");
                if !self.aliases.contains_key(alias.as_str()) {
                    self.missing_locs.push((name, span));
                    self.loc_aliases.insert(name, Loc::Unknown);
                    return Ok(Loc::Unknown);
                }
                let l = self.at_alias(&alias, span, |p| {
                    let wrapped = p.c.eat_word("loc");
                    if wrapped {
                        p.c.expect("(", "the location")?;
                    }
                    p.loc(depth + 1)
                });
                // One that cannot be read is said once, not at each use.
                self.loc_aliases.insert(name, l.as_ref().map_or(Loc::Unknown, Loc::clone));
                l
            }
            b'"' => {
                let name: Arc<str> = self.c.text_string()?.into();
                if self.c.eat(":") {
                    let line = self.position_number()?;
                    let column = if self.c.eat(":") { self.position_number()? } else { 0 };
                    if self.c.eat_word("to") {
                        // `to :16`, `to 4:16`: the end of the range is not kept.
                        self.c.take(|b| b == b':' || b == b' ' || b.is_ascii_digit());
                    }
                    return Ok(Loc::File { file: name, line, column });
                }
                let mut child = Loc::Unknown;
                if self.c.eat("(") {
                    child = self.nested(depth)?;
                    self.c.expect(")", "the location")?;
                }
                Ok(Loc::Name { name, child: Arc::new(child) })
            }
            _ => {
                if self.c.eat_word("unknown") {
                    return Ok(Loc::Unknown);
                }
                if self.c.eat_word("callsite") {
                    self.c.expect("(", "the location")?;
                    let callee = self.nested(depth)?;
                    self.c.expect_word("at", "the location")?;
                    let caller = self.nested(depth)?;
                    self.c.expect(")", "the location")?;
                    return Ok(Loc::CallSite { callee: Arc::new(callee), caller: Arc::new(caller) });
                }
                if self.c.eat_word("fused") {
                    if self.c.eat("<") {
                        self.c.skip_balanced("the location")?;
                    }
                    self.c.expect("[", "the location")?;
                    let mut parts = vec![];
                    while !self.c.eat("]") {
                        if !parts.is_empty() {
                            self.c.expect(",", "the location")?;
                        }
                        parts.push(self.nested(depth)?);
                    }
                    return Ok(Loc::Fused(parts.into()));
                }
                // Locations of other dialects carry nothing that we show.
                if self.c.word().is_some() && self.c.eat("<") {
                    self.c.skip_balanced("the location")?;
                    return Ok(Loc::Unknown);
                }
                self.c.pos = start;
                Err(self.c.expected("a location", "`loc(...)`"))
            }
        }
    }

    /// A location inside another, which may be wrapped in `loc(...)` again.
    fn nested(&mut self, depth: u32) -> R<Loc> {
        if depth > DEEPEST {
            let start = self.start();
            self.c.pos += 1;
            let span: Span = self.c.span(start);
            return Err(Self::too_deep(span));
        }
        if self.c.eat_word("loc") {
            self.c.expect("(", "the location")?;
            let l = self.loc(depth + 1)?;
            self.c.expect(")", "the location")?;
            return Ok(l);
        }
        self.loc(depth + 1)
    }

    fn position_number(&mut self) -> R<u32> {
        Ok(self.c.integer("the location")?.clamp(0, i64::from(u32::MAX)) as u32)
    }
}
