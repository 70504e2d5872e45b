//! Modules and functions in text, pretty and generic.

use super::{Parser, lexer::R};
use crate::{
    diag::Diagnostic,
    tree::{Attr, Attrs, Block, Func, Loc, Span, Type},
};

/// An argument or result of a function: type, attributes, and for an argument its name and where it stands.
#[derive(Default)]
struct Parameter<'a> {
    name: &'a str,
    span: Span,
    ty: Option<Type>,
    attrs: Attrs,
    loc: Option<Loc>,
}

impl<'a> Parser<'a> {
    pub(super) fn file(&mut self) -> R<()> {
        let mut module = false;
        while !self.c.at_end() {
            let start = self.start();
            match self.top_level_noise() {
                Ok(true) => continue,
                Ok(false) => {}
                Err(e) => {
                    self.skip_item(start, e)?;
                    continue;
                }
            }
            if self.lost && self.c.eat("}") {
                continue;
            }
            if module && !self.lost {
                return Err(Box::new(
                    Diagnostic::error(
                        "E0602",
                        Span { start: start as u32, end: start as u32 + 1 },
                        "more than one module in the file",
                    )
                    .label("second one")
                    .hint("split the file"),
                ));
            }
            let read = if self.c.eat_word("module") || self.c.eat_word("builtin.module") {
                module = true;
                self.module()
            } else if self.c.eat("\"builtin.module\"") {
                module = true;
                self.generic_module()
            } else {
                self.item_or_recover()
            };
            if let Err(e) = read {
                self.lost = true;
                self.skip_item(start, e)?;
            }
        }
        if self.program.funcs.is_empty() && self.errors.is_empty() {
            let end = self.c.src.len() as u32;
            return Err(Box::new(
                Diagnostic::error("E0101", Span { start: 0, end: end.min(1) }, "no function in the file")
                    .label("expected `module` or `func.func`")
                    .hint("export the program with `jax.jit(f).lower(...).as_text()` or `jax.export`"),
            ));
        }
        Ok(())
    }

    /// Aliases and resources, which have been read before.
    fn top_level_noise(&mut self) -> R<bool> {
        match self.c.peek() {
            b'{' if self.c.eat("{-#") => {
                let rest = &self.c.src[self.c.pos..];
                let Some(n) = rest.windows(3).position(|w| w == b"#-}") else {
                    self.c.pos = self.c.src.len();
                    return Err(self.c.expected("`#-}`", "the resource section"));
                };
                self.c.pos += n + 3;
                Ok(true)
            }
            b @ (b'#' | b'!') => {
                self.c.pos += 1;
                let name = self.c.suffix();
                if name.is_empty() {
                    return Err(self.c.expected("a name", "the alias"));
                }
                self.c.expect("=", "the alias")?;
                // Read for its errors; uses read it again.
                if b == b'!' {
                    self.ty()?;
                } else if self.c.eat_word("loc") {
                    self.c.expect("(", "the location")?;
                    self.c.skip_balanced("the location")?;
                } else if self.loc_aliases.contains_key(name) {
                    // Its use has read it, as a location.
                    self.c.pos += super::lexer::line_end(&self.c.src[self.c.pos..]);
                } else {
                    self.attr()?;
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Behind `module`.
    fn module(&mut self) -> R<()> {
        if self.c.peek() == b'@' {
            self.program.name = Some(self.symbol()?);
        }
        if self.c.eat_word("attributes") {
            self.program.attrs = self.dict()?.into_iter().map(|(n, a, _)| (n, a)).collect();
        }
        let open = self.start();
        self.c.expect("{", "the module")?;
        while !self.c.eat("}") {
            if self.c.at_end() && self.lost {
                return Ok(());
            }
            if self.c.at_end() {
                return Err(Box::new(
                    Diagnostic::error(
                        "E0102",
                        Span { start: open as u32, end: open as u32 + 1 },
                        "the module is not closed",
                    )
                    .label("opened here")
                    .hint("a truncated copy? compare the file's size with the original's"),
                ));
            }
            if self.top_level_noise()? {
                continue;
            }
            self.item_or_recover()?;
        }
        self.trailing_loc()?;
        Ok(())
    }

    /// Behind `"builtin.module"`.
    fn generic_module(&mut self) -> R<()> {
        const PLACE: &str = "the module";
        self.c.expect("(", PLACE)?;
        self.c.expect(")", PLACE)?;
        let mut attrs = self.properties()?;
        self.c.expect("(", PLACE)?;
        self.c.expect("{", PLACE)?;
        if self.c.eat("^") {
            self.c.suffix();
            self.c.expect(":", PLACE)?;
        }
        while !self.c.eat("}") {
            if self.c.at_end() && self.lost {
                return Ok(());
            }
            if self.c.at_end() {
                return Err(self.c.expected("`}`", PLACE));
            }
            self.item_or_recover()?;
        }
        self.c.expect(")", PLACE)?;
        if self.c.peek() == b'{' {
            attrs.extend(self.dict()?);
        }
        self.c.expect(":", PLACE)?;
        self.function_type()?;
        self.trailing_loc()?;
        for (n, a, _) in attrs {
            match (n.as_str(), a) {
                ("sym_name", Attr::Str(s)) => self.program.name = Some(s),
                (_, a) => self.program.attrs.push((n, a)),
            }
        }
        Ok(())
    }

    pub(super) fn properties(&mut self) -> R<Vec<(String, Attr, Span)>> {
        if !self.c.eat("<{") {
            return Ok(vec![]);
        }
        self.c.pos -= 1;
        let list = self.dict()?;
        self.c.expect(">", "the properties")?;
        Ok(list)
    }

    /// One op of a module's body.
    pub(super) fn item(&mut self) -> R<()> {
        let start = self.start();
        if self.c.eat_word("func.func") || self.c.eat_word("func") {
            self.func(start)
        } else if self.c.eat("\"func.func\"") {
            self.generic_func(start)
        } else if self.c.eat_word("sdy.mesh") {
            // Devices are chosen when the program runs; a mesh names them for shardings, which are hints.
            self.symbol()?;
            self.c.expect("=", "the mesh")?;
            self.c.expect("<", "the mesh")?;
            self.c.skip_balanced("the mesh")?;
            self.optional_dict(&mut vec![], &mut vec![])?;
            self.trailing_loc().map(|_| ())
        } else if self.c.eat_word("ml_program.global") {
            self.global()
        } else if self.c.eat_word("module") {
            let d = Diagnostic::error("E0602", self.c.span(start), "module inside a module")
                .label("not supported")
                .hint("export one module");
            if self.c.peek() == b'@' {
                self.symbol()?;
            }
            if self.c.eat("{") {
                self.c.skip_balanced("the module")?;
            }
            self.report(d);
            self.nameless = true;
            Ok(())
        } else {
            Err(self.not_an_item(start))
        }
    }

    /// `private mutable @name(value) : type`. torch-mlir writes a seed into every program; ops that read it are refused.
    fn global(&mut self) -> R<()> {
        while self.c.peek() != b'@' && self.c.word().is_some() {}
        self.symbol()?;
        if self.c.eat("(") {
            self.c.skip_balanced("the global")?;
        }
        self.c.expect(":", "the global")?;
        self.ty()?;
        self.trailing_loc().map(|_| ())
    }

    fn not_an_item(&mut self, start: usize) -> Box<Diagnostic> {
        if self.c.peek() == b'%' {
            return Box::new(
                Diagnostic::error(
                    "E0101",
                    Span { start: start as u32, end: start as u32 + 1 },
                    "an op outside of a function",
                )
                .label("expected `func.func`")
                .hint("put it into a function: `func.func @main() -> tensor<4xf32> { ... return %0 : tensor<4xf32> }`"),
            );
        }
        let quoted = self.c.eat("\"");
        match self.c.word() {
            Some(w) if w.contains('.') || quoted => {
                let dialect = w.split('.').next().unwrap_or_default().to_string();
                Box::new(
                    Diagnostic::error(
                        "E0601",
                        self.c.span(start),
                        format!("`{w}` is of dialect `{dialect}`, not StableHLO"),
                    )
                    .label("expected `func.func`")
                    .hint(super::ops::other_dialect_hint(&dialect)),
                )
            }
            _ => {
                self.c.pos = start;
                let e = self.c.unexpected("`func.func`", "the module");
                if self.c.peek() == b'}' {
                    return Box::new(e.hint("a brace too many, here or in the function before"));
                }
                e
            }
        }
    }

    /// Behind `func.func`.
    fn func(&mut self, start: usize) -> R<()> {
        const PLACE: &str = "the function";
        let public = if self.c.eat_word("private") {
            false
        } else {
            let _ = self.c.eat_word("public") || self.c.eat_word("nested");
            true
        };
        let name_start = self.start();
        let name = self.symbol()?;
        let name_span = self.c.span(name_start);
        self.declare(&name, name_span);
        self.c.expect("(", PLACE)?;
        let arguments = self.parameters(true)?;
        let mut results = vec![];
        if self.c.eat("->") {
            if self.c.eat("(") {
                results = self.parameters(false)?;
            } else {
                results = vec![Parameter { ty: Some(self.ty()?), ..Default::default() }];
            }
        }
        let mut attrs = vec![];
        if self.c.eat_word("attributes") {
            attrs = self.dict()?.into_iter().map(|(n, a, _)| (n, a)).collect();
        }
        if self.c.peek() != b'{' {
            self.trailing_loc()?;
            let mut body = Block::default();
            for a in &arguments {
                let ty = a.ty.clone().unwrap_or(Type::Token);
                body.args.extend(self.define("", a.span, vec![(ty, Loc::Unknown)]));
            }
            let (result_types, result_attrs) =
                results.into_iter().map(|r| (r.ty.unwrap_or(Type::Token), r.attrs)).unzip();
            let arg_attrs = arguments.into_iter().map(|a| a.attrs).collect();
            let span = self.c.span(start);
            let values = std::mem::take(&mut self.values);
            let f = Func {
                name,
                public,
                external: true,
                values,
                body,
                arg_attrs,
                result_types,
                result_attrs,
                attrs,
                loc: Loc::Unknown,
                span,
            };
            self.finish_func(f, name_span);
            return Ok(());
        }
        let mut arg_attrs = vec![];
        let mut args = vec![];
        for a in arguments {
            args.push((a.name, a.span, a.ty.unwrap_or(Type::Token), a.loc.unwrap_or(Loc::Unknown)));
            arg_attrs.push(a.attrs);
        }
        let body = self.region(Some(args))?;
        let span = self.c.span(start);
        let loc = self.trailing_loc()?;
        let (result_types, result_attrs) = results.into_iter().map(|r| (r.ty.unwrap_or(Type::Token), r.attrs)).unzip();
        let f = Func {
            name,
            public,
            external: false,
            values: vec![],
            body,
            arg_attrs,
            result_types,
            result_attrs,
            attrs,
            loc,
            span,
        };
        self.complete(f, name_span);
        Ok(())
    }

    fn complete(&mut self, mut f: Func, name_span: Span) {
        self.name_undefined();
        let refused = std::mem::take(&mut self.bad_return) || f.body.span == Span::NONE;
        let found: Vec<&Type> = f.body.results.iter().map(|r| &self.values[r.0 as usize].ty).collect();
        if refused {
            // Its return was reported.
        } else if found.len() != f.result_types.len() {
            let d = Diagnostic::error(
                "E0204",
                f.body.span,
                format!(
                    "`@{}` returns {}, its type says {}",
                    f.name,
                    values(found.len()),
                    values(f.result_types.len())
                ),
            )
            .label(format!("expected {}", values(f.result_types.len())))
            .hint(format!("the signature at {} and the return must agree", self.position(name_span)));
            self.report(d);
        } else {
            for (i, (t, want)) in found.iter().zip(&f.result_types).enumerate() {
                if *t != want && !t.is_unknown() {
                    let d = Diagnostic::error(
                        "E0202",
                        f.body.span,
                        format!(
                            "result {i} of `@{}` is {}, its type says {}",
                            f.name,
                            crate::print::ty(t),
                            crate::print::ty(want)
                        ),
                    )
                    .label(format!("expected {}", crate::print::ty(want)))
                    .hint(format!("the signature at {} and the return must agree", self.position(name_span)));
                    self.errors.push(d);
                }
            }
        }
        f.values = std::mem::take(&mut self.values);
        self.finish_func(f, name_span);
    }

    /// `%a: type {attrs} loc(...)` or `type {attrs}`, up to the closing bracket.
    fn parameters(&mut self, named: bool) -> R<Vec<Parameter<'a>>> {
        const PLACE: &str = "the function's signature";
        let mut list = vec![];
        while !self.c.eat(")") {
            if !list.is_empty() {
                self.c.expect(",", PLACE)?;
            }
            let mut p = Parameter::default();
            let start = self.start();
            if named && self.c.eat("%") {
                p.name = self.c.value_suffix();
                p.span = self.c.span(start);
                self.c.expect(":", PLACE)?;
            }
            p.ty = Some(self.ty()?);
            self.optional_dict(&mut p.attrs, &mut vec![])?;
            if named {
                p.loc = Some(self.trailing_loc()?);
            }
            list.push(p);
        }
        Ok(list)
    }

    /// Behind `"func.func"`.
    fn generic_func(&mut self, start: usize) -> R<()> {
        const PLACE: &str = "the function";
        let name_span = self.c.span(start);
        self.c.expect("(", PLACE)?;
        self.c.expect(")", PLACE)?;
        let mut list = self.properties()?;
        self.c.expect("(", PLACE)?;
        self.c.expect("{", PLACE)?;
        self.c.pos -= 1;
        let body = self.region(None)?;
        self.c.expect(")", PLACE)?;
        if self.c.peek() == b'{' {
            list.extend(self.dict()?);
        }
        self.c.expect(":", PLACE)?;
        self.function_type()?;
        let span = self.c.span(start);
        let loc = self.trailing_loc()?;
        let mut f = Func {
            name: String::new(),
            public: true,
            external: false,
            values: vec![],
            arg_attrs: vec![vec![]; body.args.len()],
            body,
            result_types: vec![],
            result_attrs: vec![],
            attrs: vec![],
            loc,
            span,
        };
        for (n, a, at) in list {
            match (n.as_str(), a) {
                ("sym_name", Attr::Str(s)) => f.name = s,
                ("sym_visibility", Attr::Str(s)) => f.public = s != "private",
                ("function_type", Attr::Type(Type::Function(inputs, results))) => {
                    let found: Vec<Type> = f.body.args.iter().map(|a| self.values[a.0 as usize].ty.clone()).collect();
                    if found != inputs {
                        self.report(
                            Diagnostic::error("E0204", at, "the function's type and its block's arguments differ")
                                .label("here"),
                        );
                    }
                    f.result_types = results;
                }
                ("arg_attrs", Attr::Array(l)) => f.arg_attrs = dictionaries(l),
                ("res_attrs", Attr::Array(l)) => f.result_attrs = dictionaries(l),
                (_, a) => f.attrs.push((n, a)),
            }
        }
        if !f.name.is_empty() {
            self.declare(&f.name, name_span);
        }
        f.arg_attrs.resize(f.body.args.len(), vec![]);
        f.result_attrs.resize(f.result_types.len(), vec![]);
        self.complete(f, name_span);
        Ok(())
    }

    /// `{ ops }`; the arguments come from outside or from a label. In a region of an op they are a scope of their own.
    pub(super) fn region(&mut self, args: Option<Vec<(&'a str, Span, Type, Loc)>>) -> R<Block> {
        self.deeper(|p| p.region_inner(args))
    }

    fn region_inner(&mut self, args: Option<Vec<(&'a str, Span, Type, Loc)>>) -> R<Block> {
        const PLACE: &str = "the region";
        let mark = self.shadowed.len();
        let skipped = std::mem::take(&mut self.skipped);
        let open = self.start();
        self.c.expect("{", PLACE)?;
        let mut block = Block::default();
        let mut args = args.unwrap_or_default();
        if self.c.eat("^") {
            self.c.suffix();
            if self.c.eat("(") {
                while !self.c.eat(")") {
                    if !args.is_empty() {
                        self.c.expect(",", PLACE)?;
                    }
                    let start = self.start();
                    self.c.expect("%", PLACE)?;
                    let name = self.c.value_suffix();
                    let span = self.c.span(start);
                    self.c.expect(":", PLACE)?;
                    let ty = self.ty()?;
                    let loc = self.trailing_loc()?;
                    args.push((name, span, ty, loc));
                }
            }
            self.c.expect(":", PLACE)?;
        }
        for (name, span, ty, loc) in args {
            block.args.extend(self.define(name, span, vec![(ty, loc)]));
        }
        let mut ended = false;
        loop {
            if self.c.eat("}") {
                break;
            }
            if self.c.at_end() {
                return Err(Box::new(
                    Diagnostic::error(
                        "E0102",
                        Span { start: open as u32, end: open as u32 + 1 },
                        "the region is not closed",
                    )
                    .label("opened here")
                    .hint("a truncated copy? compare the file's size with the original's"),
                ));
            }
            let start = self.start();
            if self.c.peek() == b'^' {
                return Err(Box::new(
                    Diagnostic::error(
                        "E0602",
                        Span { start: start as u32, end: start as u32 + 1 },
                        "a second block in a region",
                    )
                    .label("StableHLO's regions have one block")
                    .hint("control flow is written with while, if and case"),
                ));
            }
            if ended {
                return Err(self.c.unexpected("`}` behind the return", PLACE));
            }
            ended = self.op_or_recover(&mut block)?;
        }
        let skipped = std::mem::replace(&mut self.skipped, skipped) > 0;
        if !ended && !skipped {
            let at = self.c.pos as u32;
            self.report(
                Diagnostic::error("E0101", Span { start: at - 1, end: at }, "the region does not end in a return")
                    .label("expected `stablehlo.return` or `return`")
                    .hint("a function ends in `return %x : type`, a region of an op in `stablehlo.return %x : type`"),
            );
        }
        if block.span == Span::NONE {
            // What it returns is not known.
            block.results = vec![self.placeholder(Span { start: open as u32, end: open as u32 + 1 })];
        }
        self.leave_scope(mark);
        Ok(block)
    }
}

fn dictionaries(list: Vec<Attr>) -> Vec<Attrs> {
    list.into_iter()
        .map(|a| match a {
            Attr::Dict(d) => d,
            _ => vec![],
        })
        .collect()
}

fn values(n: usize) -> String {
    format!("{n} value{}", if n == 1 { "" } else { "s" })
}
