//! One op in text: its results, then the generic form or a pretty one, its location, and what to do when it fails.

use super::{
    Parser, forms,
    lexer::{Fail, R},
};
use crate::{
    build,
    diag::{Diagnostic, did_you_mean},
    print,
    raw::{RawOp, drop_shardings},
    tree::{Attr, Attrs, Block, Loc, Span, Type, Value, ValueId},
};

/// An op on its way from text.
pub(super) struct Draft {
    pub name: String,
    pub name_span: Span,
    pub operands: Vec<ValueId>,
    pub operand_spans: Vec<Span>,
    pub attrs: Attrs,
    pub attr_spans: Vec<(String, Span)>,
    pub regions: Vec<Block>,
    pub operand_types: Vec<Type>,
    pub result_types: Vec<Type>,
    pub types_span: Span,
    /// Of an op that ends in a region and has its location before it.
    pub loc: Option<Loc>,
}
impl Draft {
    pub fn new(name: &str, name_span: Span) -> Self {
        Draft {
            name: name.into(),
            name_span,
            operands: vec![],
            operand_spans: vec![],
            attrs: vec![],
            attr_spans: vec![],
            regions: vec![],
            operand_types: vec![],
            result_types: vec![],
            types_span: Span::NONE,
            loc: None,
        }
    }
    pub fn set(&mut self, name: &str, value: Attr, span: Span) {
        self.attr_spans.push((name.into(), span));
        self.attrs.push((name.into(), value));
    }
}

/// Names on the left of `=`.
pub(super) type Results<'a> = Vec<(&'a str, u32, Span)>;

impl<'a> Parser<'a> {
    /// Reads an op into `block`; true if it was the terminator. An op that fails is reported and skipped.
    pub(super) fn op_or_recover(&mut self, block: &mut Block) -> R<bool> {
        let start = self.start();
        let mut results = vec![];
        let depth = self.depth;
        let mark = self.shadowed.len();
        match self.op(start, &mut results, block) {
            Ok(ended) => Ok(ended),
            Err(e) => {
                self.depth = depth;
                self.leave_scope(mark);
                self.recover_op(start, e, results)
            }
        }
    }

    fn op(&mut self, start: usize, results: &mut Results<'a>, block: &mut Block) -> R<bool> {
        while self.c.eat("%") {
            let at = self.c.pos - 1;
            let name = self.c.value_suffix();
            if name.is_empty() {
                return Err(self.c.expected("a name behind `%`", "the op"));
            }
            let span = self.c.span(at);
            let mut n = 1;
            if self.c.peek() == b':' {
                self.c.pos += 1;
                n = self.c.integer("the number of results")?;
                if !(1..=100_000).contains(&n) {
                    return Err(Box::new(
                        Diagnostic::error("E0204", self.c.span(at), format!("{n} results"))
                            .label("expected at least one"),
                    ));
                }
            }
            results.push((name, n as u32, span));
            if !self.c.eat(",") {
                self.c.expect("=", "the op")?;
                break;
            }
        }
        let name_start = self.start();
        let draft = if self.c.peek() == b'"' {
            let name = self.c.text_string()?;
            let mut d = Draft::new(&name, self.c.span(name_start));
            self.generic(&mut d)?;
            d
        } else {
            let Some(word) = self.c.word() else { return Err(self.c.unexpected("an op", "the region")) };
            let name = match word {
                "call" => "func.call",
                "return" => "func.return",
                "constant" => "func.constant",
                w => w,
            };
            let mut d = Draft::new(name, self.c.span(name_start));
            self.pretty(&mut d)?;
            d
        };
        self.place(draft, start, results, block)
    }

    /// What is parsed, into `block`; true if it is the terminator.
    fn place(&mut self, mut draft: Draft, start: usize, results: &Results<'a>, block: &mut Block) -> R<bool> {
        let loc = match draft.loc.take() {
            Some(l) => l,
            None => self.trailing_loc()?,
        };
        let span = self.c.span(start);
        let fits = self.check_operands(&mut draft);
        if matches!(draft.name.as_str(), "func.return" | "stablehlo.return" | "sdy.return") {
            self.bad_return = !fits;
            block.results = draft.operands;
            block.span = span;
            return Ok(true);
        }
        if draft.name == "sdy.manual_computation" {
            self.inline_manual(draft, results, loc, span, block)?;
        } else {
            let op = self.finish(draft, results, loc, span)?;
            block.ops.extend(op);
        }
        Ok(false)
    }

    pub(super) fn finish(
        &mut self,
        mut d: Draft,
        results: &Results<'a>,
        loc: Loc,
        span: Span,
    ) -> R<Option<crate::tree::Op>> {
        let named: u32 = results.iter().map(|r| r.1).sum();
        if !results.is_empty() && named as usize != d.result_types.len() {
            let at = results[0].2;
            return Err(Box::new(
                Diagnostic::error(
                    "E0204",
                    at,
                    format!("{named} names for the {} results of `{}`", d.result_types.len(), d.name),
                )
                .label(format!("expected {}", d.result_types.len()))
                .hint("a name for each result, `%0, %1 = ...`, or one for all, `%0:2 = ...`"),
            ));
        }
        if d.name == "sdy.sharding_constraint" {
            // A hint for distribution over devices; on one device the result is the operand.
            if let ([v], [(name, _, _)]) = (&d.operands[..], &results[..]) {
                let old = self.scope.insert(name, (v.0, 1));
                self.shadowed.push((name, old));
            }
            return Ok(None);
        }
        let mut ids = vec![];
        let mut types = d.result_types.into_iter();
        if results.is_empty() {
            let rest: Vec<_> = types.map(|t| (t, loc.clone())).collect();
            ids = self.define("", d.name_span, rest);
        } else {
            for (name, n, at) in results {
                let some: Vec<_> = types.by_ref().take(*n as usize).map(|t| (t, loc.clone())).collect();
                ids.extend(self.define(name, *at, some));
            }
        }
        if d.name == "func.call"
            && let Some((_, Attr::Symbol(callee))) = d.attrs.iter().find(|(n, _)| n == "callee")
        {
            let at = d.attr_spans.iter().find(|(n, _)| n == "callee").map_or(d.name_span, |(_, s)| *s);
            self.calls.push((callee.clone(), at));
        }
        drop_shardings(&mut d.attrs);
        let raw = RawOp {
            name: d.name,
            name_span: d.name_span,
            operands: d.operands,
            operand_spans: d.operand_spans,
            results: ids,
            attrs: d.attrs,
            attr_spans: d.attr_spans,
            regions: d.regions,
            loc,
            span,
        };
        match build::op(raw, &self.values) {
            Ok(op) => Ok(Some(op)),
            Err(list) => {
                self.errors.extend(list);
                Ok(None)
            }
        }
    }

    /// Types written at the op against those of the definitions. Operands at fault agree with any type from here on.
    fn check_operands(&mut self, d: &mut Draft) -> bool {
        if d.operands.len() != d.operand_types.len() {
            let (n, m) = (d.operands.len(), d.operand_types.len());
            self.report(
                Diagnostic::error(
                    "E0204",
                    d.types_span,
                    format!("`{}` has {} and {}", d.name, counted(n, "operand"), counted(m, "operand type")),
                )
                .label(format!("expected {n} types"))
                .hint("one type for each operand, in their order"),
            );
            d.operands = d.operand_spans.iter().map(|at| self.placeholder(*at)).collect();
            return false;
        }
        // One type that stands for several operands is one fault.
        let mut said: Vec<(Type, &Type)> = vec![];
        for ((v, at), want) in d.operands.iter_mut().zip(&d.operand_spans).zip(&d.operand_types) {
            let value = &self.values[v.0 as usize];
            if value.ty == *want || value.ty.is_unknown() || want.is_unknown() {
                continue;
            }
            let is = value.ty.clone();
            if !said.iter().any(|(t, w)| *t == is && *w == want) {
                let (found, wanted) = (print::ty(&is), print::ty(want));
                let hint = format!(
                    "`%{}` is defined at {}; the types behind an op repeat those of the definitions",
                    value.name,
                    self.position(value.span)
                );
                let d = Diagnostic::error("E0202", *at, format!("`%{}` is {found}, used as {wanted}", value.name))
                    .label(format!("this is {found}"))
                    .hint(hint);
                self.errors.push(d);
                said.push((is, want));
            }
            *v = self.placeholder(*at);
        }
        said.is_empty()
    }

    /// `%name`, which is the first of several results, or `%name#1`.
    pub(super) fn operand(&mut self, d: &mut Draft) -> R<()> {
        let start = self.start();
        self.c.expect("%", "the operands")?;
        let name = self.c.value_suffix();
        if name.is_empty() {
            return Err(self.c.expected("a name behind `%`", "the operands"));
        }
        let mut index = None;
        if self.c.byte(0) == b'#' {
            self.c.pos += 1;
            index = Some(self.c.integer("the operand")?);
        }
        let span = self.c.span(start);
        let id = match self.scope.get(name) {
            Some((first, n)) => match index {
                None => ValueId(*first),
                Some(i) if i >= 0 && i < i64::from(*n) => ValueId(first + i as u32),
                _ => {
                    let at = if *n == 1 {
                        Diagnostic::error("E0201", span, format!("`%{name}` is one value"))
                            .label(format!("expected `%{name}`"))
                            .hint("`#` and a number choose a result of an op that has several")
                    } else {
                        Diagnostic::error("E0201", span, format!("`%{name}` has {n} results"))
                            .label(format!("expected `#0` to `#{}`", n - 1))
                            .hint(format!("`%{name}#0` is the first, `%{name}#{}` the last", n - 1))
                    };
                    self.report(at);
                    self.placeholder(span)
                }
            },
            None => {
                if !self.undefined.contains_key(name) {
                    self.undefined.insert(name, self.errors.len());
                    let hint = self.near.hint("%", name, self.scope.keys().copied(), "defined here:");
                    self.report(
                        Diagnostic::error("E0201", span, format!("`%{name}` is not defined before this use"))
                            .label("not defined")
                            .hint(hint),
                    );
                }
                self.placeholder(span)
            }
        };
        d.operands.push(id);
        d.operand_spans.push(span);
        Ok(())
    }

    /// A value of unknown type in place of one that is not there.
    pub(super) fn placeholder(&mut self, span: Span) -> ValueId {
        self.values.push(Value { ty: Type::unknown(), name: String::new(), loc: Loc::Unknown, span });
        ValueId(self.values.len() as u32 - 1)
    }

    /// Operands separated by commas, perhaps none.
    pub(super) fn operands(&mut self, d: &mut Draft) -> R<()> {
        while self.c.peek() == b'%' {
            self.operand(d)?;
            let here = self.c.pos;
            if !self.c.eat(",") {
                break;
            }
            if self.c.peek() != b'%' {
                self.c.pos = here;
                break;
            }
        }
        Ok(())
    }

    /// Behind `"name"`: `(operands) <{properties}> (regions) {attributes} : type`.
    fn generic(&mut self, d: &mut Draft) -> R<()> {
        let place = format!("`{}`", d.name);
        self.c.expect("(", &place)?;
        self.operands(d)?;
        self.c.expect(")", &place)?;
        if self.c.eat("[") {
            self.c.skip_balanced("the successors")?;
        }
        for (name, value, span) in self.properties()? {
            d.set(&name, value, span);
        }
        if self.c.eat("(") {
            loop {
                if self.c.eat("{") {
                    self.c.pos -= 1;
                    let here = self.c.pos;
                    // An empty region has no block.
                    self.c.pos += 1;
                    if self.c.eat("}") {
                        d.regions.push(Block::default());
                    } else {
                        self.c.pos = here;
                        let r = self.region(None)?;
                        d.regions.push(r);
                    }
                } else {
                    return Err(self.c.expected("a region", &place));
                }
                if self.c.eat(")") {
                    break;
                }
                self.c.expect(",", &place)?;
            }
        }
        self.optional_dict(&mut d.attrs, &mut d.attr_spans)?;
        self.c.expect(":", &place)?;
        self.signature(d)
    }

    /// A function type as the types of operands and results.
    pub(super) fn signature(&mut self, d: &mut Draft) -> R<()> {
        let start = self.start();
        if let Type::Function(inputs, results) = self.function_type()? {
            (d.operand_types, d.result_types) = (inputs, results);
        }
        d.types_span = self.c.span(start);
        Ok(())
    }

    fn pretty(&mut self, d: &mut Draft) -> R<()> {
        match d.name.as_str() {
            "stablehlo.constant" | "chlo.constant" => self.constant(d),
            "stablehlo.reduce" => self.reduce(d),
            "stablehlo.while" => self.while_op(d),
            "stablehlo.return" | "func.return" | "sdy.return" => {
                self.operands(d)?;
                self.optional_dict(&mut d.attrs, &mut d.attr_spans)?;
                let start = self.start();
                if !d.operands.is_empty() {
                    self.c.expect(":", "the return")?;
                    d.operand_types = self.type_list()?;
                }
                d.types_span = self.c.span(start);
                Ok(())
            }
            "func.call" => {
                let start = self.start();
                let callee = self.symbol()?;
                let span = self.c.span(start);
                d.set("callee", Attr::Symbol(callee), span);
                self.c.expect("(", "the call")?;
                self.operands(d)?;
                self.c.expect(")", "the call")?;
                self.optional_dict(&mut d.attrs, &mut d.attr_spans)?;
                self.c.expect(":", "the call")?;
                self.signature(d)
            }
            "sdy.manual_computation" => self.manual_computation(d),
            "sdy.sharding_constraint" => {
                self.operands(d)?;
                let start = self.start();
                self.c.expect("<", "the sharding")?;
                self.c.skip_balanced("the sharding")?;
                let text = self.slice(start);
                let span = self.c.span(start);
                d.set("sharding", Attr::Raw(format!("#sdy.sharding{text}")), span);
                self.optional_dict(&mut d.attrs, &mut d.attr_spans)?;
                self.c.expect(":", "the sharding constraint")?;
                let t = self.ty()?;
                d.operand_types = vec![t.clone()];
                d.result_types = vec![t];
                Ok(())
            }
            "check.expect_eq_const" | "check.expect_almost_eq_const" => {
                self.operands(d)?;
                self.c.expect(",", "the check")?;
                let start = self.start();
                let value = self.attr()?;
                if let Attr::Dense(l) = &value {
                    d.operand_types = vec![Type::Tensor(l.ty.clone())];
                }
                let span = self.c.span(start);
                d.set("value", value, span);
                self.optional_dict(&mut d.attrs, &mut d.attr_spans)?;
                if self.c.eat(":") {
                    d.operand_types = self.type_list()?;
                }
                Ok(())
            }
            "check.expect_eq" | "check.expect_almost_eq" | "check.expect_close" => {
                self.operands(d)?;
                while self.c.eat(",") {
                    let start = self.start();
                    let Some(name) = self.c.word() else { return Err(self.c.expected("a tolerance", "the check")) };
                    self.c.expect("=", "the check")?;
                    let value = Attr::Float(self.float_text("the check")?, "f64".into());
                    let span = self.c.span(start);
                    d.set(name, value, span);
                }
                self.optional_dict(&mut d.attrs, &mut d.attr_spans)?;
                self.c.expect(":", "the check")?;
                d.operand_types = self.type_list()?;
                if let [one] = &d.operand_types[..] {
                    d.operand_types = vec![one.clone(); d.operands.len()];
                }
                Ok(())
            }
            "chlo.scan" => self.scan(d),
            name => match forms::form(name) {
                Some(pieces) => self.pieces(d, pieces).map_err(|mut e| {
                    if e.code == "E0101" && e.hint.is_none() {
                        e.hint = Some(format!("written as `{} {}`", d.name, forms::example(pieces)));
                    }
                    e
                }),
                None => Err(unknown_op(&d.name, d.name_span)),
            },
        }
    }

    pub(super) fn type_list(&mut self) -> R<Vec<Type>> {
        let mut list = vec![self.ty()?];
        while self.c.eat(",") {
            list.push(self.ty()?);
        }
        Ok(list)
    }

    /// `dense<...> : type`, perhaps with attributes before it, or the generic form without quotes.
    fn constant(&mut self, d: &mut Draft) -> R<()> {
        if self.c.peek() == b'(' {
            return self.generic(d);
        }
        self.optional_dict(&mut d.attrs, &mut d.attr_spans)?;
        let start = self.start();
        let value = self.attr()?;
        let span = self.c.span(start);
        if matches!(&value, Attr::Raw(s) if s.starts_with("dense")) {
            let d = Diagnostic::error("E0108", span, "constant of vector type");
            return Err(Box::new(d.label("expected a tensor type")));
        }
        let Attr::Dense(l) = &value else {
            return Err(Box::new(
                Diagnostic::error("E0302", span, "value of a constant that is not `dense<...>`")
                    .label("expected `dense<...> : tensor<...>`"),
            ));
        };
        d.result_types = vec![Type::Tensor(l.ty.clone())];
        d.set("value", value, span);
        Ok(())
    }
}

pub(super) fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// What to say of an op that has no form here.
fn unknown_op(name: &str, span: Span) -> Fail {
    let (dialect, op) = name.split_once('.').unwrap_or((name, ""));
    if dialect == "stablehlo" || dialect == "chlo" {
        let d =
            Diagnostic::error("E0303", span, format!("no op `{name}`, or it has no pretty form")).label("not known");
        let all = format!(
            "the ops are listed at https://openxla.org/stablehlo/{}",
            if dialect == "chlo" { "generated/chlo" } else { "spec" }
        );
        let names = build::names(dialect);
        return Box::new(match did_you_mean(op, names.iter().copied()) {
            Some(n) if n != op => d.hint(format!("did you mean `{dialect}.{n}`?")),
            Some(_) => d.hint(format!("write it as `\"{name}\"(...)`")),
            None => d.hint(all),
        });
    }
    if op.is_empty() {
        let d = Diagnostic::error("E0101", span, format!("expected an op, found `{name}`"))
            .label("expected an op, like `stablehlo.add`");
        return Box::new(match did_you_mean(name, build::names("stablehlo")) {
            Some(n) => d.hint(format!("did you mean `stablehlo.{n}`?")),
            None => d.hint("each op stands in a line of its own, its dialect before its name"),
        });
    }
    let meant = did_you_mean(dialect, ["stablehlo", "chlo"]).filter(|d| build::names(d).contains(&op));
    Box::new(
        Diagnostic::error("E0601", span, format!("`{name}` is of dialect `{dialect}`, not StableHLO"))
            .label("not a StableHLO op")
            .hint(meant.map_or_else(|| other_dialect_hint(dialect), |d| format!("did you mean `{d}.{op}`?"))),
    )
}

pub(crate) fn other_dialect_hint(dialect: &str) -> String {
    match dialect {
        "mhlo" => "convert it first: `mlir-hlo-opt --hlo-legalize-to-stablehlo`; JAX and PyTorch/XLA export StableHLO directly".into(),
        "vhlo" => "this is a portable artifact as text; keep it as bytecode, or convert it with `stablehlo-translate --deserialize`".into(),
        "tf" | "tf_executor" | "tfl" => "export the model with `tf.saved_model` and convert it to StableHLO with `tf_to_stablehlo`".into(),
        "torch" => "export StableHLO from PyTorch with torch_xla's `exported_program_to_stablehlo` or with torchax".into(),
        "linalg" | "arith" | "tensor" | "scf" | "tosa" | "affine" | "memref" => "this program is already lowered; export StableHLO instead".into(),
        "func" => "of this dialect there are `func.func`, `func.call` and `func.return`".into(),
        _ => "zmlc reads StableHLO and chlo".into(),
    }
}
