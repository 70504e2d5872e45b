//! Attributes in text. StableHLO's own become `Attr::Enum` and `Attr::Struct`; other dialects' stay verbatim.

use super::{Parser, lexer::R};
use crate::{
    diag::Diagnostic,
    tree::{Attr, Attrs, DType, Span, Type},
};
use std::collections::HashSet;

impl<'a> Parser<'a> {
    pub(super) fn attr(&mut self) -> R<Attr> {
        self.deeper(Self::attr_inner)
    }

    fn attr_inner(&mut self) -> R<Attr> {
        let start = self.start();
        match self.c.peek() {
            b'"' => {
                let s = self.c.text_string()?;
                self.optional_type()?;
                return Ok(Attr::Str(s));
            }
            b'@' => return self.symbol().map(Attr::Symbol),
            b'[' => {
                self.c.pos += 1;
                let mut list = vec![];
                while !self.c.eat("]") {
                    if !list.is_empty() {
                        self.c.expect(",", "the array")?;
                    }
                    list.push(self.attr()?);
                }
                return Ok(Attr::Array(list));
            }
            b'{' => {
                let mut list: Attrs = self.dict()?.into_iter().map(|(n, a, _)| (n, a)).collect();
                list.sort_by(|a, b| a.0.cmp(&b.0));
                return Ok(Attr::Dict(list));
            }
            b'#' => {
                self.c.pos += 1;
                return self.dialect_attr(start);
            }
            b'-' | b'0'..=b'9' => return self.number(),
            b'!' | b'(' => return self.ty().map(Attr::Type),
            _ => {}
        }
        let Some(word) = self.c.word() else { return Err(self.c.expected("an attribute", "this place")) };
        match word {
            "true" => return Ok(Attr::Bool(true)),
            "false" => return Ok(Attr::Bool(false)),
            "unit" => return Ok(Attr::Unit),
            "dense" => return self.dense(start),
            "dense_resource" => return self.dense_resource().map(Attr::Dense),
            "array" => return self.dense_array(),
            "loc" => {
                self.c.pos = start;
                self.trailing_loc()?;
                return Ok(Attr::Raw(self.slice(start)));
            }
            "sparse" => {
                return Err(Box::new(
                    Diagnostic::error("E0602", self.c.span(start), "sparse constant")
                        .label("not supported")
                        .hint("export dense constants"),
                ));
            }
            "affine_map" | "affine_set" | "strided" | "distinct" | "opaque" => {
                if self.c.eat("<") || self.c.eat("[") {
                    self.c.skip_balanced("the attribute")?;
                }
                if word == "distinct" && self.c.eat("<") {
                    self.c.skip_balanced("the attribute")?;
                }
                return Ok(Attr::Raw(self.slice(start)));
            }
            _ => {}
        }
        self.c.pos = start;
        self.ty().map(Attr::Type)
    }

    /// `@name`, `@"name"`, `@a::@b`
    pub(super) fn symbol(&mut self) -> R<String> {
        self.c.expect("@", "the symbol")?;
        let mut name = if self.c.byte(0) == b'"' { self.c.text_string()? } else { self.c.suffix().to_string() };
        if name.is_empty() {
            return Err(self.c.expected("a symbol name", "the symbol"));
        }
        if self.c.byte(0) == b':' && self.c.byte(1) == b':' {
            self.c.pos += 2;
            name.push_str("::@");
            name.push_str(&self.symbol()?);
        }
        Ok(name)
    }

    fn optional_type(&mut self) -> R<Option<Type>> {
        if self.c.peek() == b':' && self.c.byte(1) != b':' {
            self.c.pos += 1;
            return self.ty().map(Some);
        }
        Ok(None)
    }

    /// `{a = 1 : i32, b, "c d" = "x"}` with the span of each value.
    pub(super) fn dict(&mut self) -> R<Vec<(String, Attr, Span)>> {
        self.c.expect("{", "the attributes")?;
        let mut list: Vec<(String, Attr, Span)> = vec![];
        let mut names = HashSet::new();
        while !self.c.eat("}") {
            if !list.is_empty() {
                self.c.expect(",", "the attributes")?;
            }
            let start = self.start();
            let name = if self.c.peek() == b'"' {
                self.c.text_string()?
            } else {
                match self.c.word() {
                    Some(w) => w.to_string(),
                    None => return Err(self.c.expected("an attribute name", "the attributes")),
                }
            };
            let name_span = self.c.span(start);
            if !names.insert(name.clone()) {
                return Err(given_twice(&name, name_span));
            }
            if self.c.eat("=") {
                let at = self.start();
                let value = self.attr()?;
                list.push((name, value, self.c.span(at)));
            } else {
                list.push((name, Attr::Unit, name_span));
            }
        }
        Ok(list)
    }

    /// `{...}` if it comes next, added to `attrs`.
    pub(super) fn optional_dict(&mut self, attrs: &mut Attrs, spans: &mut Vec<(String, Span)>) -> R<()> {
        if self.c.peek() == b'{' {
            for (name, value, span) in self.dict()? {
                if attrs.iter().any(|(n, _)| *n == name) {
                    return Err(given_twice(&name, span));
                }
                spans.push((name.clone(), span));
                attrs.push((name, value));
            }
        }
        Ok(())
    }

    fn number(&mut self) -> R<Attr> {
        let start = self.start();
        let negative = self.c.eat("-");
        if self.c.byte(0) == b'0' && self.c.byte(1) == b'x' {
            self.c.pos += 2;
            let digits = self.c.take(|b| b.is_ascii_hexdigit());
            let Ok(bits) = u64::from_str_radix(digits, 16) else {
                return Err(Box::new(
                    Diagnostic::error("E0104", self.c.span(start), "hexadecimal number out of range")
                        .label("more than 64 bits"),
                ));
            };
            let ty = self.optional_type()?;
            let name = type_name(ty.as_ref());
            if let Some(d) = name.parse::<DType>().ok().filter(|d| d.is_float()) {
                return Ok(Attr::Float(crate::float::decode(d, bits), name));
            }
            return Ok(Attr::Int(if negative { -i128::from(bits) } else { i128::from(bits) }, name));
        }
        self.c.take(|b| b.is_ascii_digit());
        if self.c.byte(0) == b'.' {
            self.c.pos = start;
            let v = self.float_text("the attribute")?;
            let ty = self.optional_type()?;
            let name = ty.map_or_else(|| "f64".to_string(), |t| type_name(Some(&t)));
            // A value has the precision of its type.
            let v = match name.parse::<DType>() {
                Ok(d) if d.is_float() => crate::float::decode(d, crate::float::encode(d, v)),
                _ => v,
            };
            return Ok(Attr::Float(v, name));
        }
        let text = self.slice(start);
        let Ok(v) = text.parse::<i128>() else {
            self.c.pos = start;
            return Err(self.c.expected("a number", "the attribute"));
        };
        let ty = self.optional_type()?;
        let name = type_name(ty.as_ref());
        if let Ok(d) = name.parse::<DType>() {
            if d.is_float() {
                return Err(Box::new(
                    Diagnostic::error("E0302", self.c.span(start), format!("integer literal for type {d}"))
                        .label(format!("expected `{text}.0`")),
                ));
            }
            let low = if d.is_unsigned_int() { 0 } else { -(1i128 << (d.bits() - 1)) };
            if v < low || v >= 1i128 << d.bits().min(64) {
                return Err(Box::new(
                    Diagnostic::error("E0104", self.c.span(start), format!("`{text}` does not fit into {d}"))
                        .label(format!("out of range for {d}")),
                ));
            }
            if d == DType::I1 {
                return Ok(Attr::Bool(v != 0));
            }
        }
        Ok(Attr::Int(v, name))
    }

    /// `array<i64: 1, 2>`, `array<i1: true>`, `array<i64>`
    fn dense_array(&mut self) -> R<Attr> {
        let start = self.c.pos;
        self.c.expect("<", "the array")?;
        let d = self.element_type()?;
        let mut list = vec![];
        if self.c.eat(":") {
            loop {
                if d.is_float() {
                    // No attribute that we read is an array of floats.
                    self.c.skip_balanced("the array")?;
                    return Ok(Attr::Raw(format!("array{}", self.slice(start))));
                }
                list.push(if self.c.eat_word("true") {
                    1
                } else if self.c.eat_word("false") {
                    0
                } else {
                    self.c.integer("the array")?
                });
                if !self.c.eat(",") {
                    break;
                }
            }
        }
        self.c.expect(">", "the array")?;
        Ok(Attr::Ints(d, list))
    }

    /// Behind `#`.
    fn dialect_attr(&mut self, start: usize) -> R<Attr> {
        let name = self.c.suffix();
        let has_body = self.c.byte(0) == b'<';
        let (dialect, mnemonic) = name.split_once('.').unwrap_or((name, ""));
        if matches!(dialect, "stablehlo" | "chlo" | "mhlo") && has_body {
            let body = self.c.pos;
            if mnemonic.is_empty() {
                self.c.pos += 1;
                // `#stablehlo<precision DEFAULT>`, or a pretty form with its name inside: `#stablehlo<conv ...>`.
                if let Some(kind) = self.c.word()
                    && let Some(value) = self.c.word()
                    && self.c.eat(">")
                {
                    return Ok(Attr::Enum(dialect.into(), kind.into(), value.into()));
                }
            } else if mnemonic == "conv" {
                self.c.pos += 1;
                let fields = self.conv_dims()?;
                self.c.expect(">", "the convolution's dimension numbers")?;
                return Ok(Attr::Struct(dialect.into(), mnemonic.into(), fields));
            } else if let Some(fields) = self.struct_fields()? {
                return Ok(fields.map_or_else(
                    |value| Attr::Enum(dialect.into(), mnemonic.into(), value),
                    |fields| Attr::Struct(dialect.into(), mnemonic.into(), fields),
                ));
            }
            self.c.pos = body;
        }
        if has_body {
            self.c.pos += 1;
            self.c.skip_balanced("the attribute")?;
            return Ok(Attr::Raw(self.slice(start)));
        }
        if name.contains('.') {
            return Ok(Attr::Raw(self.slice(start)));
        }
        let span = self.c.span(start);
        let a = match self.attr_aliases.get(name) {
            Some(a) => a.clone(),
            None => {
                let a = self.at_alias(&format!("#{name}"), span, Self::attr)?;
                self.attr_aliases.insert(name, a.clone());
                a
            }
        };
        self.repeat_attr(&a, span)?;
        Ok(a)
    }

    /// `<a = 1, b = [2]>` as fields or `<WORD>` as that word; `None` if the text has another form.
    #[allow(clippy::type_complexity)]
    fn struct_fields(&mut self) -> R<Option<Result<Attrs, String>>> {
        self.c.expect("<", "the attribute")?;
        let mut fields = vec![];
        while !self.c.eat(">") {
            if !fields.is_empty() && !self.c.eat(",") {
                return Ok(None);
            }
            // A comma may stand behind the last field.
            if !fields.is_empty() && self.c.eat(">") {
                break;
            }
            let Some(name) = self.c.word() else { return Ok(None) };
            if fields.is_empty() && self.c.eat(">") {
                return Ok(Some(Err(name.into())));
            }
            if !self.c.eat("=") {
                return Ok(None);
            }
            let before = self.c.pos;
            match self.attr() {
                Ok(a) => fields.push((name.to_string(), a)),
                Err(e) if e.code == "E0103" => return Err(e),
                Err(_) => {
                    self.c.pos = before;
                    return Ok(None);
                }
            }
        }
        Ok(Some(Ok(fields)))
    }

    /// `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`, or the raw form `raw input_batch_dimension = 0, ...`.
    pub(super) fn conv_dims(&mut self) -> R<Attrs> {
        const PLACE: &str = "the convolution's dimension numbers";
        if self.c.eat_word("raw") {
            let mut fields = vec![];
            while self.c.peek() != b'>' {
                if !fields.is_empty() {
                    self.c.expect(",", PLACE)?;
                }
                let Some(name) = self.c.word() else { return Err(self.c.expected("a field", PLACE)) };
                self.c.expect("=", PLACE)?;
                let value = self.attr()?;
                fields.push((name.to_string(), value));
            }
            return Ok(fields);
        }
        let parts = [
            ("input", [("b", "batch"), ("f", "feature")], ""),
            ("kernel", [("i", "input_feature"), ("o", "output_feature")], "x"),
            ("output", [("b", "batch"), ("f", "feature")], "->"),
        ];
        let mut fields = vec![];
        for (side, letters, before) in parts {
            if !before.is_empty() {
                self.c.expect(before, PLACE)?;
            }
            let start = self.start();
            self.c.expect("[", PLACE)?;
            let mut named = [None; 2];
            let mut spatial: Vec<(i64, i64)> = vec![];
            let mut at = 0i64;
            while !self.c.eat("]") {
                if at > 0 {
                    self.c.expect(",", PLACE)?;
                }
                if self.c.eat("?") {
                    at += 1;
                    continue;
                }
                match letters.iter().position(|(l, _)| self.c.eat_word(l)) {
                    Some(k) => {
                        if named[k].replace(at).is_some() {
                            return Err(Box::new(
                                Diagnostic::error(
                                    "E0302",
                                    self.c.span(start),
                                    format!("`{}` stands twice in {PLACE}", letters[k].0),
                                )
                                .label("here"),
                            ));
                        }
                    }
                    None => {
                        let n = self.c.integer(PLACE)?;
                        spatial.push((n, at));
                    }
                }
                at += 1;
            }
            for (k, (letter, name)) in letters.iter().enumerate() {
                let Some(p) = named[k] else {
                    return Err(Box::new(
                        Diagnostic::error("E0302", self.c.span(start), format!("no `{letter}` in {PLACE}"))
                            .label("here"),
                    ));
                };
                fields.push((format!("{side}_{name}_dimension"), int(p)));
            }
            spatial.sort_unstable();
            if spatial.iter().enumerate().any(|(i, (n, _))| *n != i as i64) {
                return Err(Box::new(
                    Diagnostic::error(
                        "E0302",
                        self.c.span(start),
                        format!("spatial dimensions are not 0, 1, ... in {PLACE}"),
                    )
                    .label("here"),
                ));
            }
            fields.push((
                format!("{side}_spatial_dimensions"),
                Attr::Array(spatial.iter().map(|(_, p)| int(*p)).collect()),
            ));
        }
        Ok(fields)
    }
}

pub(crate) fn int(v: i64) -> Attr {
    Attr::Int(i128::from(v), "i64".into())
}

fn given_twice(name: &str, second: Span) -> Box<Diagnostic> {
    Box::new(
        Diagnostic::error("E0203", second, format!("attribute `{name}` is given twice"))
            .label("a second time")
            .hint("take out one of them"),
    )
}
fn type_name(t: Option<&Type>) -> String {
    match t {
        None => "i64".into(),
        Some(Type::Other(s)) => s.clone(),
        Some(_) => "i64".into(),
    }
}
