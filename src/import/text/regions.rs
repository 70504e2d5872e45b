//! The ops whose regions have a pretty form: reduce and while.

use super::{Parser, lexer::R, ops::Draft};
use crate::{
    build,
    diag::Diagnostic,
    raw::RawOp,
    tree::{Attr, Block, DType, Loc, Span, TensorType, Type},
};

impl<'a> Parser<'a> {
    /// `(%x init: %z), ... [applies stablehlo.add] across dimensions = [1] : types [reducer(...) {...}]`
    pub(super) fn reduce(&mut self, d: &mut Draft) -> R<()> {
        const PLACE: &str = "`stablehlo.reduce`";
        let mut inits = Draft::new("", Span::NONE);
        while self.c.eat("(") {
            self.operand(d)?;
            self.c.expect_word("init", PLACE)?;
            self.c.expect(":", PLACE)?;
            self.operand(&mut inits)?;
            self.c.expect(")", PLACE)?;
            if !self.c.eat(",") {
                break;
            }
        }
        d.operands.append(&mut inits.operands);
        d.operand_spans.append(&mut inits.operand_spans);
        let mut applied = None;
        if self.c.eat_word("applies") {
            let start = self.start();
            let Some(name) = self.c.word() else { return Err(self.c.expected("an op", PLACE)) };
            applied = Some((name, self.c.span(start)));
        }
        self.c.expect_word("across", PLACE)?;
        self.c.expect_word("dimensions", PLACE)?;
        self.c.expect("=", PLACE)?;
        let start = self.start();
        self.c.expect("[", PLACE)?;
        let mut dims = vec![];
        while !self.c.eat("]") {
            if !dims.is_empty() {
                self.c.expect(",", PLACE)?;
            }
            dims.push(self.c.integer(PLACE)?);
        }
        let span = self.c.span(start);
        d.set("dimensions", Attr::Ints(DType::I64, dims), span);
        self.optional_dict(&mut d.attrs, &mut d.attr_spans)?;
        self.c.expect(":", PLACE)?;
        self.signature(d)?;
        match applied {
            Some((name, at)) => {
                let loc = self.trailing_loc()?;
                let block = self.applied(d, name, at, &loc)?;
                d.regions.push(block);
                d.loc = Some(loc);
            }
            None => {
                let loc = self.trailing_loc()?;
                d.loc = Some(loc);
                self.c.expect_word("reducer", PLACE)?;
                let (mut first, mut second) = (vec![], vec![]);
                while self.c.eat("(") {
                    first.push(self.argument(PLACE)?);
                    self.c.expect(",", PLACE)?;
                    second.push(self.argument(PLACE)?);
                    self.c.expect(")", PLACE)?;
                }
                first.append(&mut second);
                let block = self.region(Some(first))?;
                d.regions.push(block);
                if self.c.peek() == b'l' {
                    d.loc = Some(self.trailing_loc()?);
                }
            }
        }
        Ok(())
    }

    pub(super) fn argument(&mut self, place: &str) -> R<(&'a str, Span, Type, Loc)> {
        let start = self.start();
        self.c.expect("%", place)?;
        let name = self.c.value_suffix();
        let span = self.c.span(start);
        self.c.expect(":", place)?;
        let ty = self.ty()?;
        let loc = self.trailing_loc()?;
        Ok((name, span, ty, loc))
    }

    /// The region that `applies stablehlo.add` stands for.
    fn applied(&mut self, d: &Draft, name: &str, at: Span, loc: &Loc) -> R<Block> {
        let known = name
            .strip_prefix("stablehlo.")
            .is_some_and(|n| matches!(n, "add" | "and" | "maximum" | "minimum" | "multiply" | "or" | "xor"));
        if !known {
            return Err(Box::new(
                Diagnostic::error("E0302", at, format!("`{name}` cannot be applied by a reduction"))
                    .label("expected add, and, maximum, minimum, multiply, or, xor of stablehlo")
                    .hint("write the computation as `reducer(...) { ... }`"),
            ));
        }
        let Some(Type::Tensor(t)) = d.operand_types.first() else {
            return Err(Box::new(
                Diagnostic::error("E0204", d.types_span, "reduction without an input").label("expected at least one"),
            ));
        };
        let scalar = Type::Tensor(TensorType { dims: vec![], bounds: vec![], ..t.clone() });
        let args = self.define("", at, vec![(scalar.clone(), loc.clone()), (scalar.clone(), loc.clone())]);
        let results = self.define("", at, vec![(scalar, loc.clone())]);
        let raw = RawOp {
            name: name.into(),
            name_span: at,
            operands: args.clone(),
            operand_spans: vec![at, at],
            results: results.clone(),
            attrs: vec![],
            attr_spans: vec![],
            regions: vec![],
            loc: loc.clone(),
            span: at,
        };
        let op = build::op(raw, &self.values).map_err(|mut list| Box::new(list.remove(0)))?;
        Ok(Block { args, ops: vec![op], results, span: at })
    }

    /// `(inputs) inits (carries) dimension = 0 attributes {...} {...} : types`
    pub(super) fn scan(&mut self, d: &mut Draft) -> R<()> {
        const PLACE: &str = "`chlo.scan`";
        self.c.expect("(", PLACE)?;
        self.operands(d)?;
        self.c.expect(")", PLACE)?;
        self.c.expect_word("inits", PLACE)?;
        self.c.expect("(", PLACE)?;
        let inputs = d.operands.len() as i64;
        self.operands(d)?;
        self.c.expect(")", PLACE)?;
        let inits = d.operands.len() as i64 - inputs;
        d.set("operandSegmentSizes", Attr::Ints(DType::I32, vec![inputs, inits]), Span::NONE);
        self.c.expect_word("dimension", PLACE)?;
        self.c.expect("=", PLACE)?;
        let start = self.start();
        let dim = self.c.integer(PLACE)?;
        let span = self.c.span(start);
        d.set("dimension", super::attrs::int(dim), span);
        if self.c.eat_word("attributes") {
            self.optional_dict(&mut d.attrs, &mut d.attr_spans)?;
        }
        let block = self.region(None)?;
        d.regions.push(block);
        self.c.expect(":", PLACE)?;
        self.signature(d)?;
        let outputs = (d.result_types.len() as i64 - inits).max(0);
        d.set("resultSegmentSizes", Attr::Ints(DType::I32, vec![outputs, inits]), Span::NONE);
        Ok(())
    }

    /// `(%i = %c, ...) : types attributes {...} cond {...} do {...}`
    pub(super) fn while_op(&mut self, d: &mut Draft) -> R<()> {
        const PLACE: &str = "`stablehlo.while`";
        self.c.expect("(", PLACE)?;
        let mut names = vec![];
        while !self.c.eat(")") {
            if !names.is_empty() {
                self.c.expect(",", PLACE)?;
            }
            let start = self.start();
            self.c.expect("%", PLACE)?;
            let name = self.c.value_suffix();
            names.push((name, self.c.span(start)));
            self.c.expect("=", PLACE)?;
            self.operand(d)?;
        }
        let start = self.start();
        if self.c.eat(":") {
            d.operand_types = self.type_list()?;
        }
        d.types_span = self.c.span(start);
        d.result_types.clone_from(&d.operand_types);
        if names.len() != d.operand_types.len() {
            return Err(Box::new(
                Diagnostic::error(
                    "E0204",
                    d.types_span,
                    format!("{} types for the {} values of the loop", d.operand_types.len(), names.len()),
                )
                .label(format!("expected {}", names.len())),
            ));
        }
        if self.c.eat_word("attributes") {
            self.optional_dict(&mut d.attrs, &mut d.attr_spans)?;
        }
        for word in ["cond", "do"] {
            self.c.expect_word(word, PLACE)?;
            let args =
                names.iter().zip(&d.operand_types).map(|((n, s), t)| (*n, *s, t.clone(), Loc::Unknown)).collect();
            let block = self.region(Some(args))?;
            d.regions.push(block);
        }
        Ok(())
    }
}
