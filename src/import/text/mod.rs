//! The reader of StableHLO text, pretty and generic, of any version: a recursive-descent parser without a token list.
//! It finds every error of a file in one run: an op that fails is skipped and its results stand in for any type, a
//! function whose signature fails is skipped, and what was read of a file with errors is verified too.

mod aliases;
mod attrs;
mod dense;
pub(crate) mod forms;
mod func;
mod hints;
mod lexer;
mod locs;
mod manual;
mod ops;
mod pieces;
mod recover;
mod regions;
mod types;

pub(crate) use lexer::is_control;
pub(crate) use ops::other_dialect_hint;
pub(crate) use types::full_range;

use crate::{
    diag::{Diagnostic, Diagnostics, Source, did_you_mean},
    tree::{Attr, Func, Loc, Program, Span, Type, Value, ValueId},
};
use lexer::{Cursor, Fail, R};
use std::{
    cell::OnceCell,
    collections::{HashMap, HashSet},
};

/// Types, attributes and regions inside each other.
const DEEPEST: u32 = 200;
/// Errors behind which the rest of a file is not read.
const MOST_ERRORS: usize = 100_000;

struct Parser<'a> {
    c: Cursor<'a>,
    depth: u32,
    errors: Vec<Diagnostic>,
    /// Where the text of each alias starts, by `#name` or `!name`; `None` while it is being read.
    aliases: HashMap<&'a str, Option<usize>>,
    attr_aliases: HashMap<&'a str, Attr>,
    type_aliases: HashMap<&'a str, Type>,
    loc_aliases: HashMap<&'a str, Loc>,
    /// Aliases of locations that nothing defines, each with its first use.
    missing_locs: Vec<(&'a str, Span)>,
    /// Parts of attributes and types that stand for aliases.
    repeated: usize,
    /// Where the hex text of each resource stands.
    resources: HashMap<String, (usize, usize)>,
    program: Program,
    /// Functions called, and where.
    calls: Vec<(String, Span)>,
    /// Functions by name, those too whose text could not be read to its end, and where the name stands.
    declared: HashMap<String, Span>,
    /// Functions whose signature is not certain: called, they agree with any types.
    unsure: HashSet<String>,
    /// A function was skipped of which not even the name was read.
    nameless: bool,
    /// The end of the module was skipped over.
    lost: bool,
    /// Ops skipped in the region being read.
    skipped: u32,
    /// The return of the function being read was refused.
    bad_return: bool,
    /// Values of the function being read that nothing defines, with the number of the error.
    undefined: HashMap<&'a str, usize>,
    near: recover::Near,
    /// Where each line starts, as soon as a message asks.
    lines: OnceCell<Vec<u32>>,
    /// Values of the function being read.
    values: Vec<Value>,
    scope: HashMap<&'a str, (u32, u32)>,
    /// What to restore when a region ends.
    shadowed: Vec<(&'a str, Option<(u32, u32)>)>,
}

/// Reads a whole file.
pub(crate) fn read(source: &Source) -> Result<Program, Diagnostics> {
    let mut p = Parser::new(&source.bytes);
    let read = p.definitions().and_then(|()| p.file());
    let whole = read.is_ok() && !p.nameless;
    p.errors.extend(read.err().map(|e| *e));
    // A file that is cut may lack functions that it had.
    if whole {
        p.check_calls();
    }
    p.check_locs();
    if p.errors.is_empty() {
        return Ok(p.program);
    }
    if p.declared.is_empty()
        && let Some(k) = crate::kind::text(&source.bytes)
    {
        let start = crate::read::byte_order_mark(&source.bytes);
        let start = start + source.bytes[start..].iter().take_while(|b| b.is_ascii_whitespace()).count();
        let end = start + source.bytes[start..].iter().take(40).take_while(|b| b.is_ascii_graphic()).count();
        let d = Diagnostic::error(
            "E0107",
            Span { start: start as u32, end: end as u32 },
            format!("the file is {}", k.what),
        );
        return Err(Diagnostics::from(d.label("expected `module` or `func.func`").hint(k.hint)).locate(source));
    }
    p.errors.iter_mut().filter(|e| e.hint.is_none()).for_each(|e| e.hint = hints::of(e).map(str::to_string));
    let read: HashSet<&str> = p.program.funcs.iter().map(|f| f.name.as_str()).collect();
    p.unsure.extend(p.declared.keys().filter(|n| !read.contains(n.as_str())).cloned());
    let found = crate::verify::verify_rest(&p.program, &|name| !whole || p.unsure.contains(name));
    p.errors.extend(found);
    // What is wrong with the last word of a file that is cut is that it is cut.
    if p.errors.iter().any(|e| e.code == "E0102") {
        let text = source.bytes.trim_ascii_end();
        let word = text.iter().rposition(u8::is_ascii_whitespace).map_or(0, |n| n + 1);
        let before = |e: &Diagnostic| text.get(e.span.end as usize..word).is_some_and(|t| !t.trim_ascii().is_empty());
        p.errors.retain(|e| e.code == "E0102" || before(e));
    }
    Err(Diagnostics::from(p.errors).locate(source))
}

/// An attribute alone, as bytecode holds those of some dialects.
pub(crate) fn parse_attr(text: &[u8]) -> Result<Attr, Fail> {
    alone(text, Parser::attr)
}
pub(crate) fn parse_type(text: &[u8]) -> Result<Type, Fail> {
    alone(text, Parser::ty)
}
fn alone<'a, T>(text: &'a [u8], f: impl FnOnce(&mut Parser<'a>) -> R<T>) -> Result<T, Fail> {
    let mut p = Parser::new(text);
    let value = f(&mut p)?;
    if p.c.at_end() { Ok(value) } else { Err(p.c.expected("the end", "this text")) }
}

impl<'a> Parser<'a> {
    fn new(text: &'a [u8]) -> Self {
        Parser {
            c: Cursor::new(text),
            depth: 0,
            errors: vec![],
            aliases: HashMap::new(),
            attr_aliases: HashMap::new(),
            type_aliases: HashMap::new(),
            loc_aliases: HashMap::new(),
            missing_locs: vec![],
            repeated: 0,
            resources: HashMap::new(),
            program: Program::default(),
            calls: vec![],
            declared: HashMap::new(),
            unsure: HashSet::new(),
            nameless: false,
            lost: false,
            skipped: 0,
            bad_return: false,
            undefined: HashMap::new(),
            near: recover::Near::default(),
            lines: OnceCell::new(),
            values: vec![],
            scope: HashMap::new(),
            shadowed: vec![],
        }
    }
    fn start(&mut self) -> usize {
        self.c.blank();
        self.c.pos
    }
    /// The text from `start` to here.
    fn slice(&self, start: usize) -> String {
        String::from_utf8_lossy(&self.c.src[start..self.c.pos]).into_owned()
    }
    fn report(&mut self, e: impl Into<Fail>) {
        self.errors.push(*e.into());
    }
    fn too_deep(span: Span) -> Fail {
        Box::new(
            Diagnostic::error("E0103", span, "nested too deeply")
                .label("here")
                .hint("no exporter writes this; is the file damaged?"),
        )
    }
    /// Runs `f` one level down.
    fn deeper<T>(&mut self, f: impl FnOnce(&mut Self) -> R<T>) -> R<T> {
        if self.depth >= DEEPEST {
            let start = self.start();
            return Err(Self::too_deep(Span { start: start as u32, end: start as u32 + 1 }));
        }
        self.depth += 1;
        let r = f(self);
        self.depth -= 1;
        r
    }
    fn no_alias(&self, name: &str, used: Span) -> Diagnostic {
        Diagnostic::error("E0106", used, format!("no alias `{name}` in this file")).label("not defined").hint(
            match did_you_mean(name, self.aliases.keys().copied()) {
                Some(n) => format!("did you mean `{n}`?"),
                None => format!(
                    "a line `{name} = ...` defines it, at the file's start or end; is a part of the file missing?"
                ),
            },
        )
    }
    /// Runs `f` at the text of an alias.
    fn at_alias<T>(&mut self, name: &str, used: Span, f: impl FnOnce(&mut Self) -> R<T>) -> R<T> {
        let Some((key, place)) = self.aliases.get_key_value(name).map(|(k, v)| (*k, *v)) else {
            return Err(Box::new(self.no_alias(name, used)));
        };
        let Some(place) = place else {
            return Err(Box::new(
                Diagnostic::error("E0106", used, format!("alias `{name}` is defined by itself"))
                    .label("here")
                    .hint("write out what it stands for"),
            ));
        };
        self.aliases.insert(key, None);
        let back = std::mem::replace(&mut self.c.pos, place);
        let r = self.deeper(f);
        self.c.pos = back;
        self.aliases.insert(key, Some(place));
        r
    }

    /// Finds the aliases and the resource section, which may stand behind their uses. Both start a line.
    fn definitions(&mut self) -> R<()> {
        let src = self.c.src;
        let mut at = self.c.pos;
        while at < src.len() {
            let line = at;
            while matches!(src.get(at), Some(b' ' | b'\t')) {
                at += 1;
            }
            match src.get(at) {
                Some(b'#' | b'!') => {
                    let mut c = Cursor { src, pos: at + 1 };
                    c.suffix();
                    let name = std::str::from_utf8(&src[at..c.pos]).expect("ASCII");
                    if c.pos > at + 1 && c.eat("=") {
                        self.aliases.insert(name, Some(c.pos));
                    }
                }
                Some(b'{') if src[at..].starts_with(b"{-#") => self.resource_section(at + 3)?,
                _ => {}
            }
            at = line + lexer::line_end(&src[line..]);
        }
        Ok(())
    }

    /// `dialect_resources: { builtin: { name: "0x..." } }, external_resources: {...}`
    fn resource_section(&mut self, at: usize) -> R<()> {
        const PLACE: &str = "the resource section";
        let mut c = Cursor { src: self.c.src, pos: at };
        while !c.eat("#-}") {
            let section = c.word().unwrap_or_default();
            c.expect(":", PLACE)?;
            c.expect("{", PLACE)?;
            if section != "dialect_resources" {
                c.skip_balanced(PLACE)?;
                c.eat(",");
                continue;
            }
            while !c.eat("}") {
                if c.word().is_none() {
                    return Err(c.expected("a dialect name", PLACE));
                }
                c.expect(":", PLACE)?;
                c.expect("{", PLACE)?;
                while !c.eat("}") {
                    let name = if c.peek() == b'"' { c.text_string()? } else { c.suffix().to_string() };
                    if name.is_empty() {
                        return Err(c.expected("a resource name", PLACE));
                    }
                    c.expect(":", PLACE)?;
                    self.resources.insert(name, c.string_span()?);
                    c.eat(",");
                }
                c.eat(",");
            }
            c.eat(",");
        }
        Ok(())
    }

    fn define(&mut self, name: &'a str, span: Span, types: Vec<(Type, Loc)>) -> Vec<ValueId> {
        let first = self.values.len() as u32;
        let n = types.len();
        for (i, (ty, loc)) in types.into_iter().enumerate() {
            let name = if n == 1 || name.is_empty() { name.to_string() } else { format!("{name}#{i}") };
            self.values.push(Value { ty, name, loc, span });
        }
        if !name.is_empty() {
            if let Some((earlier, _)) = self.scope.get(name) {
                let place = self.position(self.values[*earlier as usize].span);
                self.report(
                    Diagnostic::error("E0203", span, format!("value `%{name}` is defined twice"))
                        .label("second definition")
                        .hint(format!("the first is at {place}; give this one another name")),
                );
            }
            let old = self.scope.insert(name, (first, n as u32));
            self.shadowed.push((name, old));
        }
        (first..first + n as u32).map(ValueId).collect()
    }
    fn leave_scope(&mut self, mark: usize) {
        for (name, old) in self.shadowed.drain(mark..).rev() {
            match old {
                Some(o) => self.scope.insert(name, o),
                None => self.scope.remove(name),
            };
        }
    }

    fn check_calls(&mut self) {
        let calls = std::mem::take(&mut self.calls);
        for (callee, span) in calls {
            if !self.declared.contains_key(&callee) {
                let names = self.declared.keys().map(String::as_str);
                let hint = self.near.hint("@", &callee, names, "the functions of this file:");
                self.report(
                    Diagnostic::error("E0205", span, format!("no function `@{callee}`"))
                        .label("not defined in this file")
                        .hint(hint),
                );
            }
        }
    }
    /// Remembers a function's name; says where it stands already.
    fn declare(&mut self, name: &str, span: Span) {
        if let Some(first) = self.declared.get(name) {
            let place = self.position(*first);
            self.unsure.insert(name.into());
            self.report(
                Diagnostic::error("E0203", span, format!("function `@{name}` is defined twice"))
                    .label("second definition")
                    .hint(format!("the first is at {place}; give this one another name")),
            );
        } else {
            self.declared.insert(name.into(), span);
        }
    }
    fn finish_func(&mut self, mut f: Func, name_span: Span) {
        f.drop_shardings();
        if f.name.is_empty() {
            self.report(
                Diagnostic::error("E0301", name_span, "function without a name")
                    .label("expected a name")
                    .hint("`sym_name = \"main\"` among its properties"),
            );
        }
        self.program.funcs.push(f);
    }
}
