//! `sdy.manual_computation`, which JAX writes for `shard_map`: over a mesh of one device its body is the computation.

use std::collections::HashMap;

use super::{
    Parser,
    lexer::R,
    ops::{Draft, Results},
};
use crate::{
    diag::Diagnostic,
    print,
    tree::{Block, Loc, Op, Span, ValueId},
};

impl<'a> Parser<'a> {
    /// `(operands) in_shardings=[...] out_shardings=[...] manual_axes={...} (arguments) {...} : types`
    pub(super) fn manual_computation(&mut self, d: &mut Draft) -> R<()> {
        const PLACE: &str = "`sdy.manual_computation`";
        self.c.expect("(", PLACE)?;
        self.operands(d)?;
        self.c.expect(")", PLACE)?;
        for (word, open) in [("in_shardings", "["), ("out_shardings", "["), ("manual_axes", "{")] {
            self.c.expect_word(word, PLACE)?;
            self.c.expect("=", PLACE)?;
            self.c.expect(open, PLACE)?;
            self.c.skip_balanced(PLACE)?;
        }
        self.c.expect("(", PLACE)?;
        let mut args = vec![];
        while !self.c.eat(")") {
            if !args.is_empty() {
                self.c.expect(",", PLACE)?;
            }
            args.push(self.argument(PLACE)?);
        }
        let body = self.region(Some(args))?;
        d.regions.push(body);
        self.optional_dict(&mut d.attrs, &mut d.attr_spans)?;
        self.c.expect(":", PLACE)?;
        self.signature(d)
    }

    /// Appends the body with the operands for its arguments; what it returns gets the names of the results.
    pub(super) fn inline_manual(
        &mut self,
        mut d: Draft,
        results: &Results<'a>,
        loc: Loc,
        span: Span,
        block: &mut Block,
    ) -> R<()> {
        let [body] = &mut d.regions[..] else {
            return Err(Box::new(Diagnostic::error("E0204", d.name_span, "`sdy.manual_computation` has one region")));
        };
        let body = std::mem::take(body);
        self.check_whole(&d, &body)?;
        let names: HashMap<ValueId, ValueId> = body.args.iter().copied().zip(d.operands.iter().copied()).collect();
        let mut barrier = Draft::new("stablehlo.optimization_barrier", d.name_span);
        for mut op in body.ops {
            rename(&mut op, &names);
            block.ops.push(op);
        }
        barrier.operands = body.results;
        rename_list(&mut barrier.operands, &names);
        barrier.result_types = d.result_types;
        let op = self.finish(barrier, results, loc, span)?;
        block.ops.extend(op);
        Ok(())
    }

    /// Each value in the body is the whole one outside of it.
    fn check_whole(&self, d: &Draft, body: &Block) -> R<()> {
        let types = |list: &[ValueId]| list.iter().map(|v| self.values[v.0 as usize].ty.clone()).collect::<Vec<_>>();
        for (outer, inner, what) in
            [(&types(&d.operands), types(&body.args), "operand"), (&d.result_types, types(&body.results), "result")]
        {
            if outer.len() != inner.len() {
                let (n, m) = (outer.len(), inner.len());
                return Err(Box::new(
                    Diagnostic::error("E0204", d.types_span, format!("{n} {what}s for a body of {m}"))
                        .label(format!("expected {m}")),
                ));
            }
            if let Some((i, (whole, part))) = outer.iter().zip(&inner).enumerate().find(|(_, (a, b))| a != b) {
                return Err(Box::new(
                    Diagnostic::error("E0602", d.name_span, "`sdy.manual_computation` over several devices")
                        .label(format!("{what} {i} is {}, a device's part {}", print::ty(whole), print::ty(part)))
                        .hint("a program is compiled for one device; export it with a mesh of one"),
                ));
            }
        }
        Ok(())
    }
}

fn rename(op: &mut Op, names: &HashMap<ValueId, ValueId>) {
    rename_list(&mut op.operands, names);
    for r in &mut op.regions {
        r.ops.iter_mut().for_each(|op| rename(op, names));
        rename_list(&mut r.results, names);
    }
}

fn rename_list(list: &mut [ValueId], names: &HashMap<ValueId, ValueId>) {
    for v in list {
        *v = names.get(v).copied().unwrap_or(*v);
    }
}
