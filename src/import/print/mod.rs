//! The printer: a program as StableHLO text, in pretty form where an op has one. What it prints, the reader takes back to
//! an equal tree.

mod attrs;
mod ops;
mod types;

pub(crate) use attrs::{attr, is_layouts};
pub use types::ty;
pub(crate) use types::{tensor, write_types};

use crate::tree::{Attrs, Block, Func, Program, ValueId};
use attrs::{write_dict, write_string, write_symbol};
use std::fmt::Write as _;
use types::{write_results, write_type};

/// A whole program.
pub fn print(p: &Program) -> String {
    let mut out = String::from("module");
    if let Some(name) = &p.name {
        out.push(' ');
        write_symbol(&mut out, name);
    }
    if !p.attrs.is_empty() {
        out.push_str(" attributes ");
        write_dict(&mut out, &p.attrs);
    }
    out.push_str(" {\n");
    for f in &p.funcs {
        Printer { f, names: vec![String::new(); f.values.len()], results: 0, arguments: 0, indent: 1 }.func(&mut out);
    }
    out.push_str("}\n");
    out
}

struct Printer<'a> {
    f: &'a Func,
    names: Vec<String>,
    results: usize,
    arguments: usize,
    indent: usize,
}

impl<'a> Printer<'a> {
    fn line(&self, out: &mut String) {
        out.extend(std::iter::repeat_n("  ", self.indent));
    }
    fn name_argument(&mut self, v: ValueId) {
        self.names[v.0 as usize] = format!("%arg{}", self.arguments);
        self.arguments += 1;
    }
    fn name(&self, v: ValueId) -> &str {
        &self.names[v.0 as usize]
    }
    fn value_type(&self, out: &mut String, v: ValueId) {
        write_type(out, self.f.ty(v));
    }

    fn func(mut self, out: &mut String) {
        let f = self.f;
        self.line(out);
        out.push_str(if f.public { "func.func public " } else { "func.func private " });
        write_symbol(out, &f.name);
        out.push('(');
        for (i, v) in f.body.args.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            if !f.external {
                self.name_argument(*v);
                let _ = write!(out, "{}: ", self.name(*v));
            }
            self.value_type(out, *v);
            if let Some(a) = f.arg_attrs.get(i).filter(|a| !a.is_empty()) {
                out.push(' ');
                write_dict(out, a);
            }
            if let Some(name) = f.values[v.0 as usize].loc.name() {
                out.push_str(" loc(");
                write_string(out, name);
                out.push(')');
            }
        }
        out.push(')');
        let plain = f.result_attrs.iter().all(Attrs::is_empty);
        if !f.result_types.is_empty() {
            out.push_str(" -> ");
            if plain {
                write_results(out, &f.result_types);
            } else {
                out.push('(');
                for (i, t) in f.result_types.iter().enumerate() {
                    if i > 0 {
                        out.push_str(", ");
                    }
                    write_type(out, t);
                    if let Some(a) = f.result_attrs.get(i).filter(|a| !a.is_empty()) {
                        out.push(' ');
                        write_dict(out, a);
                    }
                }
                out.push(')');
            }
        }
        if !f.attrs.is_empty() {
            out.push_str(" attributes ");
            write_dict(out, &f.attrs);
        }
        if f.external {
            out.push('\n');
            return;
        }
        out.push_str(" {\n");
        self.body(out, &f.body, "return");
        self.line(out);
        out.push_str("}\n");
    }

    /// Ops and terminator of a block, a level deeper.
    fn body(&mut self, out: &mut String, b: &'a Block, terminator: &str) {
        self.indent += 1;
        for op in &b.ops {
            self.op(out, op);
        }
        self.line(out);
        out.push_str(terminator);
        for (i, v) in b.results.iter().enumerate() {
            let _ = write!(out, "{}{}", if i == 0 { " " } else { ", " }, self.name(*v));
        }
        if !b.results.is_empty() {
            out.push_str(" : ");
            let types: Vec<_> = b.results.iter().map(|v| self.f.ty(*v).clone()).collect();
            write_types(out, &types);
        }
        out.push('\n');
        self.indent -= 1;
    }
}
