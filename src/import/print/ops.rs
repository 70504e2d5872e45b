//! One op as text: its pretty form by the table that the reader uses, or the generic form.

use super::{
    Printer,
    attrs::{write_attr, write_conv, write_dict, write_string, write_symbol},
    types::{write_results, write_type, write_types},
};
use crate::{
    build::ints_of,
    text::forms::{Piece, Sig, form},
    tree::{Attr, Attrs, BinaryOp, Block, Op, OpKind, TensorType, Type, ValueId},
    unbuild,
};
use std::fmt::Write as _;

fn take(attrs: &mut Attrs, name: &str) -> Option<Attr> {
    let i = attrs.iter().position(|(n, _)| n == name)?;
    Some(attrs.remove(i).1)
}
fn bracketed(out: &mut String, list: &[i64]) {
    let _ = write!(out, "{list:?}");
}
fn word(a: &Attr) -> &str {
    match a {
        Attr::Enum(_, _, w) => w,
        _ => "",
    }
}

impl<'a> Printer<'a> {
    fn names_of(&self, out: &mut String, list: &[ValueId]) {
        for (i, v) in list.iter().enumerate() {
            let _ = write!(out, "{}{}", if i == 0 { "" } else { ", " }, self.name(*v));
        }
    }
    fn types(&self, list: &[ValueId]) -> Vec<Type> {
        list.iter().map(|v| self.f.ty(*v).clone()).collect()
    }
    fn signature(&self, out: &mut String, op: &Op) {
        out.push('(');
        write_types(out, &self.types(&op.operands));
        out.push_str(") -> ");
        write_results(out, &self.types(&op.results));
    }

    pub(super) fn op(&mut self, out: &mut String, op: &'a Op) {
        self.line(out);
        let group = self.results;
        match &op.results[..] {
            [] => {}
            [one] => {
                self.names[one.0 as usize] = format!("%{group}");
                let _ = write!(out, "%{group} = ");
                self.results += 1;
            }
            many => {
                for (i, v) in many.iter().enumerate() {
                    self.names[v.0 as usize] = format!("%{group}#{i}");
                }
                let _ = write!(out, "%{group}:{} = ", many.len());
                self.results += 1;
            }
        }
        let name = unbuild::name(&op.kind);
        let mut attrs = unbuild::attrs(op);
        match &op.kind {
            OpKind::Call { callee } => {
                // Inside of regions of other ops, `func` is not the dialect that goes without saying.
                out.push_str(if self.indent > 2 { "func.call " } else { "call " });
                write_symbol(out, callee);
                out.push('(');
                self.names_of(out, &op.operands);
                out.push(')');
                take(&mut attrs, "callee");
                self.dict(out, &attrs);
                out.push_str(" : ");
                self.signature(out, op);
            }
            OpKind::Constant(l) if l.ty.quant.is_none() => {
                out.push_str(&name);
                take(&mut attrs, "value");
                self.dict(out, &attrs);
                out.push(' ');
                write_attr(out, &Attr::Dense(l.clone()));
            }
            OpKind::Reduce { .. } => self.reduce(out, op, attrs),
            OpKind::While if self.one_type(op) => self.while_op(out, op, &attrs),
            _ => match form(&name).filter(|_| self.has_form(op)) {
                Some(pieces) => {
                    out.push_str(&name);
                    self.pieces(out, op, pieces, attrs);
                }
                None => self.generic(out, op, &name, attrs),
            },
        }
        out.push('\n');
    }

    /// Some ops leave the table's form in cases that it cannot say.
    fn has_form(&self, op: &Op) -> bool {
        match &op.kind {
            OpKind::Composite { .. } => op.regions.is_empty(),
            OpKind::Chlo(n) if n == "top_k" => matches!(op.attr("k"), Some(Attr::Int(..))),
            // The one form names the tuple's parts.
            OpKind::Tuple => {
                matches!(self.f.ty(op.results[0]), Type::Tuple(parts) if *parts == self.types(&op.operands))
            }
            OpKind::OptimizationBarrier => self.types(&op.operands) == self.types(&op.results),
            OpKind::Convolution(c) => c.padding.len() == c.window_strides.len(),
            _ => true,
        }
    }

    fn dict(&self, out: &mut String, attrs: &Attrs) {
        if !attrs.is_empty() {
            out.push(' ');
            write_dict(out, attrs);
        }
    }

    fn generic(&mut self, out: &mut String, op: &'a Op, name: &str, attrs: Attrs) {
        write_string(out, name);
        out.push('(');
        self.names_of(out, &op.operands);
        out.push(')');
        // Attributes of other dialects have a dot in their name and are no properties of the op.
        let (foreign, own): (Attrs, Attrs) = attrs.into_iter().partition(|(n, _)| n.contains('.'));
        if !own.is_empty() {
            out.push_str(" <");
            write_dict(out, &own);
            out.push('>');
        }
        for (i, r) in op.regions.iter().enumerate() {
            out.push_str(if i == 0 { " (" } else { ", " });
            self.region(out, r, true);
            if i + 1 == op.regions.len() {
                out.push(')');
            }
        }
        self.dict(out, &foreign);
        out.push_str(" : ");
        self.signature(out, op);
    }

    fn region(&mut self, out: &mut String, b: &'a Block, label: bool) {
        out.push_str("{\n");
        if label && !b.args.is_empty() {
            self.line(out);
            out.push_str("^bb0(");
            for (i, v) in b.args.iter().enumerate() {
                self.name_argument(*v);
                let _ = write!(out, "{}{}: ", if i == 0 { "" } else { ", " }, self.name(*v));
                self.value_type(out, *v);
            }
            out.push_str("):\n");
        }
        self.body(out, b, "stablehlo.return");
        self.line(out);
        out.push('}');
    }

    fn reduce(&mut self, out: &mut String, op: &'a Op, mut attrs: Attrs) {
        let n = op.operands.len() / 2;
        out.push_str("stablehlo.reduce");
        for i in 0..n {
            let _ = write!(
                out,
                "{}({} init: {})",
                if i == 0 { "" } else { ", " },
                self.name(op.operands[i]),
                self.name(op.operands[n + i])
            );
        }
        let body = &op.regions[0];
        let applied = self.applied(op, body);
        if let Some(name) = &applied {
            let _ = write!(out, " applies {name}");
        }
        out.push_str(" across dimensions = ");
        bracketed(out, &take(&mut attrs, "dimensions").as_ref().and_then(ints_of).unwrap_or_default());
        self.dict(out, &attrs);
        out.push_str(" : ");
        self.signature(out, op);
        if applied.is_some() {
            return;
        }
        out.push('\n');
        self.line(out);
        out.push_str(" reducer");
        body.args.iter().for_each(|v| self.name_argument(*v));
        for i in 0..n {
            for (v, (before, after)) in [body.args[i], body.args[n + i]].into_iter().zip([("(", ", "), ("", ") ")]) {
                let _ = write!(out, "{before}{}: ", self.name(v));
                self.value_type(out, v);
                out.push_str(after);
            }
        }
        self.region(out, body, false);
    }

    /// The one commutative op that a reduction's region is, if it is no more than that.
    fn applied(&self, op: &Op, b: &Block) -> Option<String> {
        let ([inner], [lhs, rhs]) = (&b.ops[..], &b.args[..]) else { return None };
        let OpKind::Binary(k) = inner.kind else { return None };
        use BinaryOp::{Add, And, Maximum, Minimum, Multiply, Or, Xor};
        let plain = matches!(k, Add | And | Maximum | Minimum | Multiply | Or | Xor)
            && inner.operands == [*lhs, *rhs]
            && b.results == inner.results
            && inner.extra.is_empty();
        let input = match self.f.ty(op.operands[0]) {
            Type::Tensor(t) => Type::Tensor(TensorType { dims: vec![], bounds: vec![], ..t.clone() }),
            _ => return None,
        };
        let one_type = [*lhs, *rhs, inner.results[0]].into_iter().all(|v| *self.f.ty(v) == input);
        (plain && one_type).then(|| unbuild::name(&inner.kind))
    }

    /// Whether a loop's values have one type each, inside and outside: the pretty form says it once.
    fn one_type(&self, op: &Op) -> bool {
        let types = self.types(&op.operands);
        types == self.types(&op.results) && op.regions.iter().all(|r| types == self.types(&r.args))
    }

    fn while_op(&mut self, out: &mut String, op: &'a Op, attrs: &Attrs) {
        let (cond, body) = (&op.regions[0], &op.regions[1]);
        // One name serves both regions.
        for (a, b) in cond.args.iter().zip(&body.args) {
            self.name_argument(*a);
            self.names[b.0 as usize] = self.names[a.0 as usize].clone();
        }
        out.push_str("stablehlo.while(");
        for (i, (a, v)) in cond.args.iter().zip(&op.operands).enumerate() {
            let _ = write!(out, "{}{} = {}", if i == 0 { "" } else { ", " }, self.name(*a), self.name(*v));
        }
        out.push(')');
        if !op.operands.is_empty() {
            out.push_str(" : ");
            write_types(out, &self.types(&op.operands));
        }
        if !attrs.is_empty() {
            out.push_str(" attributes ");
            write_dict(out, attrs);
        }
        out.push('\n');
        self.line(out);
        out.push_str(" cond ");
        self.region(out, cond, false);
        out.push_str(" do ");
        self.region(out, body, false);
    }

    fn pieces(&mut self, out: &mut String, op: &'a Op, pieces: &[Piece], mut attrs: Attrs) {
        let mut operands = op.operands.iter().copied();
        // A blank stands before every word that does not follow an opening bracket.
        let mut glue = false;
        for (i, piece) in pieces.iter().enumerate() {
            let blank = |out: &mut String, glue: bool| {
                if !glue {
                    out.push(' ');
                }
            };
            match *piece {
                Piece::Op => {
                    blank(out, glue);
                    let v = operands.next().expect("arity was checked");
                    out.push_str(self.name(v));
                }
                Piece::Ops | Piece::OpsComma => {
                    let rest: Vec<ValueId> = operands.by_ref().collect();
                    if !rest.is_empty() {
                        blank(out, glue);
                        self.names_of(out, &rest);
                        if *piece == Piece::OpsComma {
                            out.push(',');
                        }
                    }
                }
                Piece::Lit(s) => {
                    let tight = s.starts_with(',')
                        || s.starts_with(')')
                        || s.starts_with('[')
                        || s.starts_with(']')
                        || s.starts_with('(')
                        || s.starts_with('}');
                    if !tight {
                        blank(out, glue);
                    }
                    out.push_str(s);
                    glue = s.ends_with('(') || s.ends_with('[') || s.ends_with('{');
                    continue;
                }
                Piece::Int(name, _) => {
                    blank(out, glue);
                    if let Some(Attr::Int(v, _)) = take(&mut attrs, name) {
                        let _ = write!(out, "{v}");
                    }
                }
                Piece::Ints(name) => {
                    blank(out, glue);
                    bracketed(out, &take(&mut attrs, name).as_ref().and_then(ints_of).unwrap_or_default());
                }
                Piece::Str(name) => {
                    blank(out, glue);
                    if let Some(Attr::Str(s)) = take(&mut attrs, name) {
                        write_string(out, &s);
                    }
                }
                Piece::Enum(name, _) => {
                    blank(out, glue);
                    out.push_str(take(&mut attrs, name).as_ref().map_or("", word));
                }
                Piece::OptEnum(name, _) => {
                    if let Some(a) = take(&mut attrs, name) {
                        let _ = write!(out, ", {}", word(&a));
                    }
                }
                Piece::OptBool(lit, name) => {
                    if let Some(Attr::Bool(b)) = take(&mut attrs, name) {
                        let _ = write!(out, "{lit} {b}");
                    }
                }
                Piece::Slice => {
                    let mut list = |n| take(&mut attrs, n).as_ref().and_then(ints_of).unwrap_or_default();
                    let (from, to, step) = (list("start_indices"), list("limit_indices"), list("strides"));
                    out.push_str(" [");
                    for (i, ((a, b), s)) in from.iter().zip(&to).zip(&step).enumerate() {
                        let _ = write!(out, "{}{a}:{b}", if i == 0 { "" } else { ", " });
                        if *s != 1 {
                            let _ = write!(out, ":{s}");
                        }
                    }
                    out.push(']');
                }
                Piece::ConvDims => {
                    out.push(' ');
                    if let Some(Attr::Struct(_, _, fields)) = take(&mut attrs, "dimension_numbers") {
                        write_conv(out, &fields);
                    }
                }
                Piece::Window => self.window(out, op, &mut attrs),
                Piece::DotDims => {
                    take(&mut attrs, "dot_dimension_numbers");
                    if let OpKind::DotGeneral { dims, .. } = &op.kind {
                        if !dims.lhs_batching.is_empty() || !dims.rhs_batching.is_empty() {
                            let _ = write!(out, " batching_dims = {:?} x {:?},", dims.lhs_batching, dims.rhs_batching);
                        }
                        let _ =
                            write!(out, " contracting_dims = {:?} x {:?}", dims.lhs_contracting, dims.rhs_contracting);
                    }
                }
                Piece::Precision(_) => {
                    if let Some(Attr::Array(list)) = take(&mut attrs, "precision_config") {
                        let words: Vec<&str> = list.iter().map(word).collect();
                        let _ = write!(out, ", precision = [{}]", words.join(", "));
                    }
                    if let Some(a) = take(&mut attrs, "algorithm") {
                        let text = super::attr(&a);
                        let fields = text.trim_start_matches("#stablehlo.dot_algorithm");
                        let _ = write!(out, ", algorithm = {fields}");
                    }
                }
                Piece::ExpMant => {
                    if let OpKind::ReducePrecision { exponent_bits, mantissa_bits } = &op.kind {
                        take(&mut attrs, "exponent_bits");
                        take(&mut attrs, "mantissa_bits");
                        let _ = write!(out, " e{exponent_bits}m{mantissa_bits}");
                    }
                }
                Piece::Target => {
                    out.push(' ');
                    if let Some(Attr::Str(s)) = take(&mut attrs, "call_target_name") {
                        write_symbol(out, &s);
                    }
                }
                Piece::Dict => {
                    // What later pieces take is not among the rest.
                    debug_assert!(pieces[i + 1..].iter().all(|p| matches!(p, Piece::Types(_) | Piece::Ops)));
                    self.dict(out, &attrs);
                }
                Piece::Types(sig) => self.write_signature(out, op, sig),
            }
            glue = false;
        }
    }

    fn window(&self, out: &mut String, op: &Op, attrs: &mut Attrs) {
        let OpKind::Convolution(c) = &op.kind else { return };
        for n in ["window_strides", "padding", "lhs_dilation", "rhs_dilation", "window_reversal"] {
            take(attrs, n);
        }
        let pads: Vec<[i64; 2]> = c.padding.iter().map(|(a, b)| [*a, *b]).collect();
        let _ = write!(
            out,
            "stride = {:?}, pad = {pads:?}, lhs_dilate = {:?}, rhs_dilate = {:?}, reverse = {:?}",
            c.window_strides, c.lhs_dilation, c.rhs_dilation, c.window_reversal
        );
    }

    fn write_signature(&self, out: &mut String, op: &Op, sig: Sig) {
        let (inputs, results) = (self.types(&op.operands), self.types(&op.results));
        if sig == Sig::Pairwise && inputs.is_empty() {
            out.push_str(" ()");
            return;
        }
        out.push_str(" : ");
        let real = |t: &Type| match t {
            Type::Tensor(t) => Type::Tensor(TensorType { dtype: t.dtype.real(), ..t.clone() }),
            t => t.clone(),
        };
        let short = match sig {
            Sig::Function => false,
            Sig::Same => inputs.iter().all(|t| *t == results[0]),
            Sig::Select => inputs[1] == results[0] && inputs[2] == results[0],
            Sig::Complex => inputs.iter().all(|t| *t == real(&results[0])),
            Sig::Result | Sig::Tuple | Sig::Pairwise | Sig::Arrow => true,
        };
        match sig {
            _ if !short => self.signature(out, op),
            Sig::Select => write_types(out, &[inputs[0].clone(), results[0].clone()]),
            Sig::Pairwise => write_types(out, &inputs),
            Sig::Arrow => {
                write_types(out, &inputs);
                out.push_str(" -> ");
                write_results(out, &results);
            }
            _ => write_type(out, &results[0]),
        }
    }
}
