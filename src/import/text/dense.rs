//! `dense<...>` and `dense_resource<...>`: element lists, splats and hex strings into bytes. The type stands behind the
//! elements, so the body is skipped first and read once its type is known.

use super::{
    Parser,
    lexer::{Cursor, R},
};
use crate::{
    diag::Diagnostic,
    literal::{from_storage, put_float, put_int},
    print,
    tree::{Attr, DType, Literal, Span, TensorType, Type},
};

/// Constants larger than this are refused: no device that we compile for holds them.
const LARGEST: u64 = 1 << 40;

impl<'a> Parser<'a> {
    /// Behind `dense`, which starts at `word`: `<body> : type`. Vectors are no values of StableHLO and stay text.
    pub(super) fn dense(&mut self, word: usize) -> R<Attr> {
        self.c.expect("<", "the dense constant")?;
        let start = self.c.pos;
        let mut string = None;
        loop {
            match self.c.src.get(self.c.pos) {
                Some(b'"') => string = Some(self.c.string_span()?),
                Some(b'>') => break,
                Some(_) => self.c.pos += 1,
                None => return Err(self.c.expected("`>`", "the dense constant")),
            }
        }
        let end = self.c.pos;
        self.c.pos += 1;
        let behind = self.c.pos;
        if self.c.eat(":") && self.c.eat_word("vector") && self.c.eat("<") {
            self.c.skip_balanced("a type")?;
            return Ok(Attr::Raw(self.slice(word)));
        }
        self.c.pos = behind;
        let ty = self.constant_type()?;
        self.elements(ty, start, end, string).map(Attr::Dense)
    }

    /// The body between two places, in which a string stands.
    fn elements(&self, ty: TensorType, start: usize, end: usize, string: Option<(usize, usize)>) -> R<Literal> {
        let mut body = Cursor { src: &self.c.src[..end], pos: start };
        if body.clone().eat_word("__elided__") {
            return Err(elided(Span { start: start as u32, end: end as u32 }));
        }
        let n = ty.elements().unwrap_or(0);
        let span = Span { start: start as u32, end: end as u32 };
        let mismatch = |found: String| {
            let (what, length) = (count(n), n * ty.dtype.bytes() as u64);
            let zero = if ty.dtype.is_float() { "0.0" } else { "0" };
            Diagnostic::error("E0105", span, format!("dense constant does not fit its type: {found}"))
                .label(format!("{what} of {} expected", ty.dtype))
                .hint(format!(
                    "{} has {what}, {length} bytes; one alone, `dense<{zero}>`, stands for all",
                    print::tensor(&ty)
                ))
        };
        if body.at_end() {
            return if n == 0 { Ok(Literal::new(ty, vec![])) } else { Err(Box::new(mismatch("it is empty".into()))) };
        }
        if let (b'"', Some((from, to))) = (body.peek(), string) {
            let data = hex(&body.src[from..to], Span { start: from as u32, end: to as u32 })?;
            let length = data.len();
            let data = from_storage(&ty, data).ok_or_else(|| mismatch(format!("{length} bytes of hex")))?;
            return Ok(Literal::new(ty, data));
        }
        let mut out = Vec::with_capacity((end - start).min(n as usize * ty.dtype.bytes()));
        if body.peek() != b'[' {
            element(&mut body, ty.dtype, &mut out)?;
            if !body.at_end() {
                return Err(body.expected("`>`", "the dense constant"));
            }
            return Ok(Literal::new(ty, out));
        }
        let shape = ty.shape().unwrap_or_default();
        if shape.is_empty() {
            return Err(Box::new(mismatch("a list for a scalar".into())));
        }
        list(&mut body, &shape, ty.dtype, &mut out)?;
        if !body.at_end() {
            return Err(body.expected("`>`", "the dense constant"));
        }
        Ok(Literal::new(ty, out))
    }

    /// Behind `dense_resource`: `<name> : type`.
    pub(super) fn dense_resource(&mut self) -> R<Literal> {
        self.c.expect("<", "the resource")?;
        let start = self.start();
        let name = if self.c.peek() == b'"' {
            self.c.text_string()?
        } else {
            match self.c.suffix() {
                "" => return Err(self.c.expected("a resource name", "dense_resource")),
                n => n.to_string(),
            }
        };
        let span = self.c.span(start);
        self.c.expect(">", "the resource")?;
        let ty = self.constant_type()?;
        if name == "__elided__" {
            return Err(elided(span));
        }
        let Some(&(from, to)) = self.resources.get(&name) else {
            return Err(Box::new(
                Diagnostic::error("E0106", span, format!("no resource `{name}` in this file"))
                    .label("not in the `{-# dialect_resources ... #-}` section")
                    .hint("a truncated copy? the section stands at the end of the file"),
            ));
        };
        let at = Span { start: from as u32, end: to as u32 };
        let mut data = hex(&self.c.src[from..to], at)?;
        // Four bytes of alignment come first.
        if data.len() < 4 {
            return Err(Box::new(
                Diagnostic::error("E0105", at, "resource shorter than its alignment field").label("here"),
            ));
        }
        data.drain(..4);
        let length = data.len();
        let data = from_storage(&ty, data).ok_or_else(|| {
            Diagnostic::error("E0105", span, format!("resource `{name}` does not fit its type")).label(format!(
                "{length} bytes for {} elements of {}",
                ty.elements().unwrap_or(0),
                ty.dtype
            ))
        })?;
        Ok(Literal::new(ty, data))
    }

    fn constant_type(&mut self) -> R<TensorType> {
        self.c.expect(":", "the dense constant")?;
        let start = self.start();
        let Type::Tensor(ty) = self.ty()? else {
            return Err(Box::new(
                Diagnostic::error("E0108", self.c.span(start), "constant of another type than a tensor")
                    .label("expected a tensor type"),
            ));
        };
        match ty.elements() {
            Some(n) if n <= LARGEST => Ok(ty),
            Some(_) => Err(Box::new(
                Diagnostic::error("E0104", self.c.span(start), "constant with more than 2^40 elements").label("here"),
            )),
            None => Err(Box::new(
                Diagnostic::error("E0105", self.c.span(start), "constant of a dynamic shape, or of too many elements")
                    .label("expected a static shape")
                    .hint("a constant has as many elements as it has; make it dynamic by `stablehlo.dynamic_broadcast_in_dim`"),
            )),
        }
    }
}

/// Decodes `0x...`.
fn hex(s: &[u8], span: Span) -> R<Vec<u8>> {
    let bad = |what: &str| {
        let d = Diagnostic::error("E0105", span, format!("invalid hex string: {what}")).label("here");
        Box::new(d.hint("`\"0x0000803F\"` is one element of f32, 1.0: two digits for each byte, the lowest first"))
    };
    let digits = s.strip_prefix(b"0x").ok_or_else(|| bad("it does not start with `0x`"))?;
    if digits.len() % 2 != 0 {
        return Err(bad("an odd number of digits"));
    }
    const INVALID: u8 = 0xff;
    static TABLE: [u8; 256] = {
        let mut t = [INVALID; 256];
        let mut i = 0;
        while i < 10 {
            t[b'0' as usize + i] = i as u8;
            i += 1;
        }
        i = 0;
        while i < 6 {
            t[b'a' as usize + i] = 10 + i as u8;
            t[b'A' as usize + i] = 10 + i as u8;
            i += 1;
        }
        t
    };
    let mut out = vec![0; digits.len() / 2];
    let mut seen = 0;
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        let (h, l) = (TABLE[pair[0] as usize], TABLE[pair[1] as usize]);
        seen |= h | l;
        *byte = h << 4 | (l & 15);
    }
    // Digits are below 16.
    if seen > 15 { Err(bad("a character that is not a hex digit")) } else { Ok(out) }
}

/// A constant that a printer left out.
fn elided(span: Span) -> Box<Diagnostic> {
    let d = Diagnostic::error("E0106", span, "the program was printed with its large constants left out");
    Box::new(d.label("a constant stood here").hint(
        "print it whole: JAX by `lowered.as_text()`, MLIR's Python by `str(module)` or `get_asm(large_elements_limit=None)`, MLIR's tools without `--mlir-elide-elementsattrs-if-larger`",
    ))
}

fn count(n: u64) -> String {
    format!("{n} element{}", if n == 1 { "" } else { "s" })
}

/// Which integers, or how many bits, a type holds.
fn range(d: DType) -> String {
    if d.is_float() {
        return format!("bits of {d} are {} hexadecimal digits at most", d.bits().div_ceil(4));
    }
    let low = if d.is_signed_int() { -(1i128 << (d.bits() - 1)) } else { 0 };
    let high = (1i128 << if d.is_signed_int() { d.bits() - 1 } else { d.bits() }) - 1;
    format!("{d} holds {low} to {high}; is another type meant?")
}

/// A bracketed list of the given shape.
fn list(c: &mut Cursor, shape: &[u64], d: DType, out: &mut Vec<u8>) -> R<()> {
    let start = c.pos;
    c.expect("[", "the dense constant")?;
    let mut n = 0u64;
    if !c.eat("]") {
        loop {
            if shape.len() > 1 {
                list(c, &shape[1..], d, out)?;
            } else {
                element(c, d, out)?;
            }
            n += 1;
            if c.eat("]") {
                break;
            }
            c.expect(",", "the dense constant")?;
        }
    }
    if n != shape[0] {
        return Err(Box::new(
            Diagnostic::error("E0105", c.span(start), format!("{} where the type says {}", count(n), shape[0]))
                .label(format!("expected {}", shape[0]))
                .hint(format!(
                    "make the type say {n}, or give {}; one value without brackets stands for all",
                    shape[0]
                )),
        ));
    }
    Ok(())
}

/// One element: integer, float, hexadecimal bits, boolean or complex pair.
pub(super) fn element(c: &mut Cursor, d: DType, out: &mut Vec<u8>) -> R<()> {
    if d.is_complex() {
        c.expect("(", "the complex element")?;
        element(c, d.real(), out)?;
        c.expect(",", "the complex element")?;
        element(c, d.real(), out)?;
        return c.expect(")", "the complex element");
    }
    c.blank();
    let start = c.pos;
    let negative_zero = c.src[start..].starts_with(b"-0");
    let error = |c: &Cursor, code, message: String, label: String| {
        let e = Diagnostic::error(code, c.span(start), message).label(label);
        Err(Box::new(match code {
            "E0104" if negative_zero => e.hint("no integer is minus zero: write `0`"),
            "E0104" => e.hint(range(d)),
            _ => e.hint("constants of integer types are written as 1, of floats as 1.0, of predicates as true"),
        }))
    };
    if let Some(v) = if c.eat_word("true") {
        Some(1)
    } else if c.eat_word("false") {
        Some(0)
    } else {
        None
    } {
        if d != DType::I1 {
            return error(
                c,
                "E0302",
                format!("boolean for an element of type {d}"),
                format!("expected a value of {d}"),
            );
        }
        out.push(v);
        return Ok(());
    }
    let negative = c.byte(0) == b'-';
    if negative {
        c.pos += 1;
    }
    if c.byte(0) == b'0' && matches!(c.byte(1), b'x' | b'X') {
        c.pos += 2;
        let digits = c.take(|b| b.is_ascii_hexdigit());
        let bits = u64::from_str_radix(digits, 16).ok().filter(|b| {
            let width = (d.bytes() * 8) as u32;
            width >= 64 || b >> width == 0
        });
        let Some(bits) = bits else {
            return error(
                c,
                "E0104",
                format!("hexadecimal value out of range for {d}"),
                format!("does not fit into {} bits", d.bits()),
            );
        };
        if negative && d.is_float() {
            return error(c, "E0101", "sign before the bits of a float".into(), "write the sign bit".into());
        }
        if d.is_float() {
            out.extend_from_slice(&bits.to_le_bytes()[..d.bytes()]);
        } else {
            put_int(d, if negative { -i128::from(bits) } else { i128::from(bits) }, out);
        }
        return Ok(());
    }
    let digits = c.take(|b| b.is_ascii_digit());
    if digits.is_empty() {
        c.pos = start;
        return Err(c.expected(&format!("a value of {d}"), "the dense constant"));
    }
    let mut fraction = false;
    if c.byte(0) == b'.' {
        fraction = true;
        c.pos += 1;
        c.take(|b| b.is_ascii_digit());
        if matches!(c.byte(0), b'e' | b'E') {
            c.pos += 1;
            if matches!(c.byte(0), b'-' | b'+') {
                c.pos += 1;
            }
            c.take(|b| b.is_ascii_digit());
        }
    }
    let text = std::str::from_utf8(&c.src[start..c.pos]).expect("ASCII");
    if d.is_float() {
        if !fraction {
            return error(
                c,
                "E0302",
                format!("integer literal for an element of type {d}"),
                format!("expected a float, `{text}.0`"),
            );
        }
        let Ok(v) = text.parse::<f64>() else {
            return error(c, "E0101", format!("invalid number `{text}`"), "here".into());
        };
        put_float(d, v, out);
        return Ok(());
    }
    if fraction {
        return error(c, "E0302", format!("float literal for an element of type {d}"), "expected an integer".into());
    }
    let bits = d.bits();
    // As MLIR does: types other than unsigned take both the signed and the unsigned spelling of their bits; no integer is
    // minus zero.
    let fits = |v: i128| {
        let low = if d.is_unsigned_int() { 0 } else { -(1i128 << (bits - 1)) };
        v >= low && v < 1i128 << bits && !(negative && v == 0)
    };
    match text.parse::<i128>() {
        Ok(v) if fits(v) => put_int(d, v, out),
        _ => return error(c, "E0104", format!("`{text}` does not fit into {d}"), format!("out of range for {d}")),
    }
    Ok(())
}
