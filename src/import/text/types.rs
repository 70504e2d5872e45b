//! Types in text: tensors with dynamic and bounded dimensions, quantised elements, tuples, tokens, functions.

use super::{Parser, lexer::R};
use crate::{
    diag::{Diagnostic, did_you_mean},
    tree::{DType, Quant, Span, TensorType, Type},
};
use std::sync::Arc;

impl<'a> Parser<'a> {
    pub(super) fn ty(&mut self) -> R<Type> {
        self.deeper(Self::ty_inner)
    }

    fn ty_inner(&mut self) -> R<Type> {
        let start = self.start();
        match self.c.peek() {
            b'(' => return self.function_type(),
            b'!' => {
                self.c.pos += 1;
                return self.dialect_type(start);
            }
            _ => {}
        }
        let Some(word) = self.c.word() else { return Err(self.c.expected("a type", "this place")) };
        match word {
            "tensor" => Ok(Type::Tensor(self.tensor_body()?)),
            "tuple" => {
                self.c.expect("<", "the tuple type")?;
                let mut parts = vec![];
                if !self.c.eat(">") {
                    loop {
                        parts.push(self.ty()?);
                        if self.c.eat(">") {
                            break;
                        }
                        self.c.expect(",", "the tuple type")?;
                    }
                }
                Ok(Type::Tuple(parts))
            }
            _ if is_scalar(word) && self.c.byte(0) == b'[' => {
                let sizes = self.c.pos + 1;
                let rest = &self.c.src[sizes..];
                let n = rest.iter().take(200).position(|b| *b == b']').unwrap_or(0);
                let list = String::from_utf8_lossy(&rest[..n]).replace(',', "x");
                self.c.pos = sizes + n + 1;
                let x = if list.is_empty() { "" } else { "x" };
                Err(Box::new(
                    Diagnostic::error("E0108", self.c.span(start), format!("`{}` is a type of HLO", self.slice(start)))
                        .label("expected a type of StableHLO")
                        .hint(format!(
                            "write `tensor<{list}{x}{word}>`; JAX prints StableHLO by `jax.jit(f).lower(x).as_text()`"
                        )),
                ))
            }
            _ => {
                let has_body = matches!(word, "complex" | "memref" | "vector");
                if has_body && self.c.byte(0) == b'<' {
                    self.c.pos += 1;
                    self.c.skip_balanced("a type")?;
                } else if has_body || !is_scalar(word) {
                    let d = Diagnostic::error("E0108", self.c.span(start), format!("no type `{word}`"));
                    let d = d.label("expected a type, `tensor<4xf32>`");
                    return Err(Box::new(match did_you_mean(word, ["tensor", "tuple"]) {
                        Some(n) => d.hint(format!("did you mean `{n}`?")),
                        None => d.hint("types are `tensor<4x8xf32>`, `tuple<...>` and `!stablehlo.token`"),
                    }));
                }
                Ok(Type::Other(self.slice(start)))
            }
        }
    }

    /// `(A, B) -> C`, `(A) -> (B, C)`
    pub(super) fn function_type(&mut self) -> R<Type> {
        self.c.expect("(", "the function type")?;
        let inputs = self.types_until(")")?;
        self.c.expect("->", "the function type")?;
        let results = if self.c.eat("(") { self.types_until(")")? } else { vec![self.ty()?] };
        Ok(Type::Function(inputs, results))
    }

    pub(super) fn types_until(&mut self, close: &str) -> R<Vec<Type>> {
        let mut list = vec![];
        if self.c.eat(close) {
            return Ok(list);
        }
        loop {
            list.push(self.ty()?);
            if self.c.eat(close) {
                return Ok(list);
            }
            self.c.expect(",", "the list of types")?;
        }
    }

    /// Behind `!`.
    fn dialect_type(&mut self, start: usize) -> R<Type> {
        let name = self.c.suffix();
        if name == "stablehlo.future" {
            self.c.expect("<", "the future")?;
            let parts = self.types_until(">")?;
            if !parts.iter().all(|t| matches!(t, Type::Tensor(_))) {
                return Err(Box::new(
                    Diagnostic::error("E0108", self.c.span(start), "future of something else than tensors")
                        .label("expected tensors"),
                ));
            }
            let mut s = String::from("!stablehlo.future<");
            crate::print::write_types(&mut s, &parts);
            s.push('>');
            return Ok(Type::Other(s));
        }
        if name.starts_with("stablehlo.") && name != "stablehlo.token" {
            return Err(Box::new(
                Diagnostic::error("E0108", self.c.span(start), format!("no type `!{name}`"))
                    .label("not a type of StableHLO")
                    .hint("its types are `tensor<...>`, `tuple<...>`, `!stablehlo.token` and `!stablehlo.future<...>`"),
            ));
        }
        if self.c.byte(0) == b'<' {
            self.c.pos += 1;
            self.c.skip_balanced("a type")?;
            return Ok(Type::Other(self.slice(start)));
        }
        match name {
            "stablehlo.token" | "mhlo.token" => return Ok(Type::Token),
            _ if name.contains('.') => return Ok(Type::Other(self.slice(start))),
            _ => {}
        }
        let span = Span { start: start as u32, end: self.c.pos as u32 };
        let t = match self.type_aliases.get(name) {
            Some(t) => t.clone(),
            None => {
                let t = self.at_alias(&format!("!{name}"), span, Self::ty)?;
                self.type_aliases.insert(name, t.clone());
                t
            }
        };
        self.repeat_type(&t, span)?;
        Ok(t)
    }

    /// Behind `tensor`.
    fn tensor_body(&mut self) -> R<TensorType> {
        self.c.expect("<", "the tensor type")?;
        let mut dims = vec![];
        let dtype;
        let quant;
        loop {
            let start = self.start();
            match self.c.peek() {
                b'?' => {
                    self.c.pos += 1;
                    dims.push(None);
                }
                b'0'..=b'9' => {
                    let digits = self.c.take(|b| b.is_ascii_digit());
                    let n = digits.parse::<u64>().ok().filter(|n| *n <= i64::MAX as u64).ok_or_else(|| {
                        Diagnostic::error("E0104", self.c.span(start), "dimension out of range")
                            .label("does not fit into 63 bits")
                            .hint("a size that is not known is written `?`")
                    })?;
                    dims.push(Some(n));
                }
                b'*' => {
                    self.c.pos += 1;
                    return Err(Box::new(
                        Diagnostic::error("E0108", self.c.span(start), "unranked tensor")
                            .label("StableHLO tensors have a rank")
                            .hint("export with the rank known; single dimensions may stay dynamic (`?`)"),
                    ));
                }
                _ => {
                    (dtype, quant) = self.element()?;
                    break;
                }
            }
            if self.c.byte(0) != b'x' {
                let e = self.c.expected("`x` and the next dimension or the element type", "the tensor type");
                return Err(Box::new(e.hint("sizes and element type have an `x` between them, `tensor<4x8xf32>`")));
            }
            self.c.pos += 1;
            if dims.len() > 64 {
                return Err(Box::new(
                    Diagnostic::error("E0108", self.c.span(start), "tensor with more than 64 dimensions").label("here"),
                ));
            }
        }
        let mut bounds = vec![];
        if self.c.eat(",") {
            bounds = self.encoding(&dims)?;
        }
        self.c.expect(">", "the tensor type")?;
        Ok(TensorType { dtype, dims, bounds, quant })
    }

    /// `#stablehlo.bounds<4, ?>`, `#stablehlo.type_extensions<bounds = [4, ?]>`
    fn encoding(&mut self, dims: &[Option<u64>]) -> R<Vec<Option<u64>>> {
        let start = self.start();
        let name = if self.c.eat("#") { self.c.suffix() } else { "" };
        let list_form = match name {
            "stablehlo.bounds" => false,
            "stablehlo.type_extensions" | "mhlo.type_extensions" => true,
            _ => {
                let _ = self.c.eat("<") && self.c.skip_balanced("the encoding").is_ok();
                return Err(Box::new(
                    Diagnostic::error("E0602", self.c.span(start), "tensor encoding that is not a bound")
                        .label("sparse and other encodings are not supported")
                        .hint("export dense tensors"),
                ));
            }
        };
        self.c.expect("<", "the bounds")?;
        let close = if list_form {
            self.c.expect_word("bounds", "the bounds")?;
            self.c.expect("=", "the bounds")?;
            self.c.expect("[", "the bounds")?;
            "]"
        } else {
            ">"
        };
        let mut bounds = vec![];
        while !self.c.eat(close) {
            if !bounds.is_empty() {
                self.c.expect(",", "the bounds")?;
            }
            bounds.push(if self.c.eat("?") { None } else { Some(self.c.integer("the bounds")?.unsigned_abs()) });
        }
        if list_form {
            self.c.expect(">", "the bounds")?;
        }
        if bounds.len() != dims.len() {
            return Err(Box::new(
                Diagnostic::error("E0108", self.c.span(start), "bounds of another rank than the tensor's")
                    .label(format!("{} bounds for rank {}", bounds.len(), dims.len())),
            ));
        }
        for (i, (b, d)) in bounds.iter().zip(dims).enumerate() {
            if b.is_some() && d.is_some() {
                return Err(Box::new(
                    Diagnostic::error("E0108", self.c.span(start), format!("bound on dimension {i}, which is static"))
                        .label("only a dynamic dimension, `?`, can have a bound"),
                ));
            }
        }
        Ok(bounds)
    }

    /// An element type, an alias of one, or a quantized one with its storage type.
    fn element(&mut self) -> R<(DType, Option<Arc<Quant>>)> {
        let start = self.start();
        if self.c.peek() != b'!' {
            return Ok((self.element_type()?, None));
        }
        self.c.pos += 1;
        let name = self.c.suffix();
        if self.aliases.contains_key(format!("!{name}").as_str()) && self.c.byte(0) != b'<' {
            return self.at_alias(&format!("!{name}"), self.c.span(start), Self::element);
        }
        self.c.pos = start;
        let (storage, quant) = self.quant_type()?;
        Ok((storage, Some(Arc::new(quant))))
    }

    pub(super) fn element_type(&mut self) -> R<DType> {
        let start = self.start();
        let Some(word) = self.c.word() else { return Err(self.c.expected("an element type", "the type")) };
        if word == "complex" {
            self.c.expect("<", "the complex type")?;
            let part = self.element_type()?;
            self.c.expect(">", "the complex type")?;
            return match part {
                DType::F32 => Ok(DType::C64),
                DType::F64 => Ok(DType::C128),
                _ => Err(Box::new(
                    Diagnostic::error("E0108", self.c.span(start), format!("no element type `complex<{part}>`"))
                        .label("the parts are f32 or f64")
                        .hint("write `complex<f32>` or `complex<f64>`"),
                )),
            };
        }
        // On every machine that we compile for, `index` (sizes in dynamic shapes) is a 64-bit integer. `si` is MLIR's
        // explicitly signed integer, which StableHLO does not tell apart.
        let name = match word {
            "index" => "i64",
            _ => word.strip_prefix('s').filter(|w| w.starts_with('i')).unwrap_or(word),
        };
        name.parse::<DType>().map_err(|_| {
            let d = Diagnostic::error("E0108", self.c.span(start), format!("no element type `{word}`"))
                .label("not an element type of StableHLO");
            let near = elsewhere(word).or_else(|| did_you_mean(word, DType::all().map(DType::name)));
            Box::new(match near {
                Some(n) => d.hint(format!("did you mean `{n}`?")),
                None => d.hint(
                    "element types are i1, i2 to i64, ui2 to ui64, f4 to f64, bf16, complex<f32> and complex<f64>",
                ),
            })
        })
    }

    /// `!quant.uniform<i8:f32, 0.5:-3>`, `<i8<-127:127>:f32:1, {0.1, 0.2:5}>`
    fn quant_type(&mut self) -> R<(DType, Quant)> {
        const PLACE: &str = "the quantized type";
        let start = self.start();
        if !self.c.eat("!quant.uniform<") {
            let _ = self.c.eat("!");
            self.c.suffix();
            return Err(Box::new(
                Diagnostic::error("E0108", self.c.span(start), "not an element type of StableHLO")
                    .label("expected `!quant.uniform<...>`"),
            ));
        }
        let storage_start = self.start();
        let word = self.c.word().unwrap_or_default();
        let name = match word.strip_prefix('u') {
            Some(bits) if !bits.starts_with('i') => format!("ui{bits}"),
            _ => word.to_string(),
        };
        let storage = name.parse::<DType>().ok().filter(|d| d.is_int()).ok_or_else(|| {
            Diagnostic::error("E0108", self.c.span(storage_start), format!("storage type `{word}` of a quantized type"))
                .label("expected an integer type, `i8` or `u8`")
        })?;
        let mut range = None;
        if self.c.eat("<") {
            let low = self.c.integer(PLACE)?;
            self.c.expect(":", PLACE)?;
            range = Some((low, self.c.integer(PLACE)?));
            self.c.expect(">", PLACE)?;
        }
        self.c.expect(":", PLACE)?;
        let expressed = self.element_type()?;
        let mut axis = None;
        if self.c.eat(":") {
            if self.c.peek() == b'{' {
                return Err(Box::new(
                    Diagnostic::error("E0602", self.c.span(start), "sub-channel quantization")
                        .label("not supported")
                        .hint("quantize per tensor or per axis"),
                ));
            }
            let at = self.start();
            let a = self.c.integer(PLACE)?;
            axis = Some(u32::try_from(a).map_err(|_| {
                Diagnostic::error("E0108", self.c.span(at), "quantized dimension out of range").label("here")
            })?);
        }
        self.c.expect(",", PLACE)?;
        let (mut scales, mut zero_points) = (vec![], vec![]);
        if axis.is_some() {
            self.c.expect("{", PLACE)?;
        }
        loop {
            let s = self.float_text(PLACE)?;
            scales.push(s.to_bits());
            zero_points.push(if self.c.eat(":") { self.c.integer(PLACE)? } else { 0 });
            if axis.is_none() || !self.c.eat(",") {
                break;
            }
        }
        if axis.is_some() {
            self.c.expect("}", PLACE)?;
        }
        self.c.expect(">", PLACE)?;
        let full = full_range(storage);
        Ok((storage, Quant { expressed, range: range.filter(|r| *r != full), axis, scales, zero_points }))
    }

    /// A decimal floating-point number or integer.
    pub(super) fn float_text(&mut self, place: &str) -> R<f64> {
        self.c.blank();
        let start = self.c.pos;
        if matches!(self.c.byte(0), b'-' | b'+') {
            self.c.pos += 1;
        }
        self.c.take(|b| b.is_ascii_digit() || b == b'.');
        if matches!(self.c.byte(0), b'e' | b'E') {
            self.c.pos += 1;
            if matches!(self.c.byte(0), b'-' | b'+') {
                self.c.pos += 1;
            }
            self.c.take(|b| b.is_ascii_digit());
        }
        match self.slice(start).parse() {
            Ok(x) => Ok(x),
            Err(_) => {
                self.c.pos = start;
                Err(self.c.expected("a number", place))
            }
        }
    }
}

/// What other languages call an element type.
fn elsewhere(word: &str) -> Option<&'static str> {
    Some(match word {
        "float" | "float32" | "fp32" | "single" => "f32",
        "double" | "float64" | "fp64" => "f64",
        "half" | "float16" | "fp16" => "f16",
        "bfloat16" | "bfloat" => "bf16",
        "int" | "int32" | "s32" => "i32",
        "long" | "int64" | "s64" => "i64",
        "short" | "int16" | "s16" => "i16",
        "int8" | "s8" | "char" => "i8",
        "uint8" | "u8" | "byte" => "ui8",
        "uint16" | "u16" => "ui16",
        "uint32" | "u32" | "uint" => "ui32",
        "uint64" | "u64" => "ui64",
        "bool" | "boolean" | "pred" => "i1",
        "complex64" | "c64" => "complex<f32>",
        "complex128" | "c128" => "complex<f64>",
        _ => return None,
    })
}

/// A builtin type of one word.
fn is_scalar(word: &str) -> bool {
    let integer = word.trim_start_matches(['s', 'u']).strip_prefix('i');
    matches!(word, "index" | "none" | "tf32" | "f80" | "f128")
        || integer.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        || word.parse::<DType>().is_ok()
}

/// Smallest and largest value of an integer type.
pub(crate) fn full_range(d: DType) -> (i64, i64) {
    let bits = d.bits();
    if d.is_signed_int() {
        (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits))
    } else {
        (0, (u64::MAX >> (64 - bits)).min(i64::MAX as u64) as i64)
    }
}
