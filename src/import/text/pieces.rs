//! Runs the table of pretty forms over the text of an op.

use super::{
    Parser,
    attrs::int,
    forms::{Piece, Sig},
    lexer::R,
    ops::Draft,
};
use crate::{
    diag::Diagnostic,
    tree::{Attr, Attrs, DType, Literal, Span, TensorType, Type},
};

impl<'a> Parser<'a> {
    pub(super) fn pieces(&mut self, d: &mut Draft, pieces: &'static [Piece]) -> R<()> {
        let place = format!("`{}`", d.name);
        let place = place.as_str();
        for piece in pieces {
            match *piece {
                Piece::Op => self.operand(d)?,
                Piece::Ops => self.operands(d)?,
                Piece::OpsComma => {
                    while self.c.peek() == b'%' {
                        self.operand(d)?;
                        self.c.expect(",", place)?;
                    }
                }
                Piece::Lit(s) => self.literal(s, place)?,
                Piece::Int(name, ty) => {
                    let start = self.start();
                    let v = self.c.integer(place)?;
                    if self.c.eat(": i64") {
                        // Some versions print the attribute's type.
                    }
                    let span = self.c.span(start);
                    d.set(name, Attr::Int(i128::from(v), ty.into()), span);
                }
                Piece::Ints(name) => {
                    let start = self.start();
                    let list = self.integers(place)?;
                    let span = self.c.span(start);
                    d.set(name, Attr::Ints(DType::I64, list), span);
                }
                Piece::Str(name) => {
                    let start = self.start();
                    let s = self.c.text_string()?;
                    let span = self.c.span(start);
                    d.set(name, Attr::Str(s), span);
                }
                Piece::Enum(name, kind) => self.enumerator(d, name, kind, place)?,
                Piece::OptEnum(name, kind) => {
                    if self.c.eat(",") {
                        self.enumerator(d, name, kind, place)?;
                    }
                }
                Piece::OptBool(s, name) => {
                    if self.c.peek() == b',' {
                        self.literal(s, place)?;
                        let start = self.start();
                        let v = self.boolean(place)?;
                        let span = self.c.span(start);
                        d.set(name, Attr::Bool(v), span);
                    }
                }
                Piece::Slice => self.slice_ranges(d, place)?,
                Piece::ConvDims => {
                    let start = self.start();
                    let fields = self.conv_dims()?;
                    let span = self.c.span(start);
                    d.set("dimension_numbers", Attr::Struct("stablehlo".into(), "conv".into(), fields), span);
                }
                Piece::Window => self.window(d, place)?,
                Piece::DotDims => self.dot_dims(d, place)?,
                Piece::Precision(algorithm) => self.precision(d, algorithm, place)?,
                Piece::ExpMant => {
                    let start = self.start();
                    let word = self.c.word().unwrap_or_default();
                    let parts = word.strip_prefix('e').and_then(|w| w.split_once('m'));
                    let Some((Ok(e), Ok(m))) = parts.map(|(e, m)| (e.parse::<i32>(), m.parse::<i32>())) else {
                        self.c.pos = start;
                        return Err(self.c.expected("a format like `e5m10`", place));
                    };
                    let span = self.c.span(start);
                    d.set("exponent_bits", Attr::Int(e.into(), "i32".into()), span);
                    d.set("mantissa_bits", Attr::Int(m.into(), "i32".into()), span);
                }
                Piece::Target => {
                    let start = self.start();
                    let s = self.symbol()?;
                    let span = self.c.span(start);
                    d.set("call_target_name", Attr::Str(s), span);
                }
                Piece::Dict => self.optional_dict(&mut d.attrs, &mut d.attr_spans)?,
                Piece::Types(sig) => self.types(d, sig, place)?,
            }
        }
        Ok(())
    }

    fn literal(&mut self, s: &str, place: &str) -> R<()> {
        for part in s.split(' ') {
            if part.as_bytes()[0].is_ascii_alphabetic() {
                self.c.expect_word(part, place)?;
            } else {
                // `)` and the like stand alone.
                self.c.expect(part, place)?;
            }
        }
        Ok(())
    }

    fn boolean(&mut self, place: &str) -> R<bool> {
        if self.c.eat_word("true") {
            Ok(true)
        } else if self.c.eat_word("false") {
            Ok(false)
        } else {
            Err(self.c.expected("`true` or `false`", place))
        }
    }

    /// `[1, 2]`; older versions print `dense<...>` or `array<...>`.
    fn integers(&mut self, place: &str) -> R<Vec<i64>> {
        if self.c.peek() != b'[' {
            let start = self.start();
            return match self.attr()? {
                Attr::Ints(_, v) => Ok(v),
                Attr::Dense(l) => l.to_i64s().ok_or_else(|| {
                    Diagnostic::error("E0302", self.c.span(start), "not a list of integers").label("here").into()
                }),
                _ => {
                    self.c.pos = start;
                    Err(self.c.expected("`[`", place))
                }
            };
        }
        self.c.pos += 1;
        let mut list = vec![];
        while !self.c.eat("]") {
            if !list.is_empty() {
                self.c.expect(",", place)?;
            }
            list.push(self.c.integer(place)?);
        }
        Ok(list)
    }

    fn enumerator(&mut self, d: &mut Draft, name: &str, kind: &str, place: &str) -> R<()> {
        let start = self.start();
        let value = if self.c.peek() == b'#' {
            self.attr()?
        } else {
            match self.c.word() {
                Some(w) => Attr::Enum("stablehlo".into(), kind.into(), w.into()),
                None => return Err(self.c.expected(&format!("a {}", kind.replace('_', " ")), place)),
            }
        };
        let span = self.c.span(start);
        d.set(name, value, span);
        Ok(())
    }

    fn slice_ranges(&mut self, d: &mut Draft, place: &str) -> R<()> {
        let start = self.start();
        self.c.expect("[", place)?;
        let (mut from, mut to, mut step) = (vec![], vec![], vec![]);
        while !self.c.eat("]") {
            if !from.is_empty() {
                self.c.expect(",", place)?;
            }
            from.push(self.c.integer(place)?);
            self.c.expect(":", place)?;
            to.push(self.c.integer(place)?);
            step.push(if self.c.eat(":") { self.c.integer(place)? } else { 1 });
        }
        let span = self.c.span(start);
        for (name, list) in [("start_indices", from), ("limit_indices", to), ("strides", step)] {
            d.set(name, Attr::Ints(DType::I64, list), span);
        }
        Ok(())
    }

    /// Up to the closing brace, which stays.
    fn window(&mut self, d: &mut Draft, place: &str) -> R<()> {
        let mut first = true;
        while self.c.peek() != b'}' {
            if !first {
                self.c.expect(",", place)?;
            }
            first = false;
            let start = self.start();
            let Some(word) = self.c.word() else {
                return Err(self.c.expected("`stride`, `pad`, `lhs_dilate`, `rhs_dilate` or `reverse`", place));
            };
            self.c.expect("=", place)?;
            let value_start = self.start();
            let (name, value) = match word {
                "stride" => ("window_strides", Attr::Ints(DType::I64, self.integers(place)?)),
                "lhs_dilate" => ("lhs_dilation", Attr::Ints(DType::I64, self.integers(place)?)),
                "rhs_dilate" => ("rhs_dilation", Attr::Ints(DType::I64, self.integers(place)?)),
                "reverse" => {
                    self.c.expect("[", place)?;
                    let mut list = vec![];
                    while !self.c.eat("]") {
                        if !list.is_empty() {
                            self.c.expect(",", place)?;
                        }
                        list.push(if self.c.peek().is_ascii_digit() {
                            self.c.integer(place)?
                        } else {
                            i64::from(self.boolean(place)?)
                        });
                    }
                    ("window_reversal", Attr::Ints(DType::I1, list))
                }
                "pad" => {
                    self.c.expect("[", place)?;
                    let mut data = vec![];
                    let mut rows = 0;
                    while !self.c.eat("]") {
                        if rows > 0 {
                            self.c.expect(",", place)?;
                        }
                        let at = self.start();
                        let pair = self.integers(place)?;
                        if pair.len() != 2 {
                            return Err(Box::new(
                                Diagnostic::error("E0302", self.c.span(at), "padding that is not a pair")
                                    .label("expected `[low, high]`"),
                            ));
                        }
                        data.extend(pair.iter().flat_map(|v| v.to_le_bytes()));
                        rows += 1;
                    }
                    ("padding", Attr::Dense(Literal::new(TensorType::new(DType::I64, &[rows, 2]), data)))
                }
                _ => {
                    self.c.pos = start;
                    return Err(self.c.expected("`stride`, `pad`, `lhs_dilate`, `rhs_dilate` or `reverse`", place));
                }
            };
            let span = self.c.span(value_start);
            if d.attrs.iter().any(|(n, _)| n == name) {
                return Err(Box::new(
                    Diagnostic::error("E0203", self.c.span(start), format!("`{word}` is given twice"))
                        .label("second value"),
                ));
            }
            d.set(name, value, span);
        }
        Ok(())
    }

    fn dot_dims(&mut self, d: &mut Draft, place: &str) -> R<()> {
        let start = self.start();
        let mut fields: Attrs = vec![];
        let mut pair = |p: &mut Self, kind: &str| -> R<()> {
            p.c.expect("=", place)?;
            let lhs = p.integers(place)?;
            p.c.expect("x", place)?;
            let rhs = p.integers(place)?;
            for (side, list) in [("lhs", lhs), ("rhs", rhs)] {
                fields.push((format!("{side}_{kind}_dimensions"), Attr::Array(list.into_iter().map(int).collect())));
            }
            Ok(())
        };
        if self.c.eat_word("batching_dims") {
            pair(self, "batching")?;
            self.c.expect(",", place)?;
        }
        self.c.expect_word("contracting_dims", place)?;
        pair(self, "contracting")?;
        let span = self.c.span(start);
        d.set("dot_dimension_numbers", Attr::Struct("stablehlo".into(), "dot".into(), fields), span);
        Ok(())
    }

    fn precision(&mut self, d: &mut Draft, algorithm: bool, place: &str) -> R<()> {
        while self.c.peek() == b',' {
            self.c.pos += 1;
            if self.c.eat_word("precision") {
                self.c.expect("=", place)?;
                let start = self.start();
                self.c.expect("[", place)?;
                let mut list = vec![];
                while !self.c.eat("]") {
                    if !list.is_empty() {
                        self.c.expect(",", place)?;
                    }
                    let Some(w) = self.c.word() else { return Err(self.c.expected("a precision", place)) };
                    list.push(Attr::Enum("stablehlo".into(), "precision".into(), w.into()));
                }
                let span = self.c.span(start);
                d.set("precision_config", Attr::Array(list), span);
            } else if algorithm && self.c.eat_word("algorithm") {
                self.c.expect("=", place)?;
                let start = self.start();
                self.c.expect("<", place)?;
                let mut fields = vec![];
                while !self.c.eat(">") {
                    if !fields.is_empty() {
                        self.c.expect(",", place)?;
                    }
                    let Some(name) = self.c.word() else { return Err(self.c.expected("a field", place)) };
                    self.c.expect("=", place)?;
                    fields.push((name.to_string(), self.attr()?));
                }
                let span = self.c.span(start);
                d.set("algorithm", Attr::Struct("stablehlo".into(), "dot_algorithm".into(), fields), span);
            } else {
                return Err(self
                    .c
                    .expected(if algorithm { "`precision` or `algorithm`" } else { "`precision`" }, place));
            }
        }
        Ok(())
    }

    fn types(&mut self, d: &mut Draft, sig: Sig, place: &str) -> R<()> {
        if sig == Sig::Pairwise && self.c.peek() == b'(' && d.operands.is_empty() {
            // An op without operands: `()`.
            self.c.pos += 1;
            return self.c.expect(")", place);
        }
        self.c.expect(":", place)?;
        let start = self.start();
        let n = d.operands.len();
        if matches!(sig, Sig::Arrow | Sig::Function) {
            d.operand_types = if self.c.eat("(") { self.types_until(")")? } else { self.type_list()? };
            self.c.expect("->", place)?;
            d.result_types = if self.c.eat("(") { self.types_until(")")? } else { vec![self.ty()?] };
            d.types_span = self.c.span(start);
            return Ok(());
        }
        let list = self.type_list()?;
        let span = self.c.span(start);
        d.types_span = span;
        if let [Type::Function(inputs, results)] = &list[..] {
            (d.operand_types, d.result_types) = (inputs.clone(), results.clone());
            return Ok(());
        }
        let one = |list: &[Type]| match list {
            [t] => Ok(t.clone()),
            _ => Err(wrong_types(span, "expected one type")),
        };
        match sig {
            Sig::Same => {
                let t = one(&list)?;
                d.operand_types = vec![t.clone(); n];
                d.result_types = vec![t];
            }
            Sig::Result => d.result_types = vec![one(&list)?],
            Sig::Pairwise => {
                d.operand_types.clone_from(&list);
                if d.name.starts_with("stablehlo.") {
                    d.result_types = list;
                }
            }
            Sig::Select => {
                let [pred, t] = &list[..] else {
                    return Err(wrong_types(span, "expected the predicate's and the result's type"));
                };
                d.operand_types = vec![pred.clone(), t.clone(), t.clone()];
                d.result_types = vec![t.clone()];
            }
            Sig::Tuple => {
                let t = one(&list)?;
                let Type::Tuple(parts) = &t else { return Err(wrong_types(span, "expected a tuple type")) };
                d.operand_types.clone_from(parts);
                d.result_types = vec![t];
            }
            Sig::Complex => {
                let t = one(&list)?;
                let Type::Tensor(c) = &t else {
                    return Err(wrong_types(span, "expected a tensor of complex elements"));
                };
                if !c.dtype.is_complex() {
                    return Err(wrong_types(span, "expected a tensor of complex elements"));
                }
                let part = Type::Tensor(TensorType { dtype: c.dtype.real(), ..c.clone() });
                d.operand_types = vec![part; n];
                d.result_types = vec![t];
            }
            Sig::Arrow | Sig::Function => unreachable!("read above"),
        }
        Ok(())
    }
}

fn wrong_types(span: Span, what: &str) -> Box<Diagnostic> {
    Box::new(Diagnostic::error("E0204", span, format!("types of the op: {what}")).label(what))
}
