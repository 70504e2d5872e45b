//! Words of MLIR text: a cursor over the bytes that skips blanks and comments and reads names, numbers, strings and
//! punctuation. It knows no grammar.

use crate::{diag::Diagnostic, tree::Span};

pub(crate) type Fail = Box<Diagnostic>;
pub(crate) type R<T> = Result<T, Fail>;

#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    pub src: &'a [u8],
    pub pos: usize,
}

fn word_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'.')
}

/// How many bytes are surely inside of a string: strings of hex hold megabytes, so many are looked at together.
fn plain(s: &[u8]) -> usize {
    let special = |b: &u8| matches!(b, b'"' | b'\\' | b'\n');
    s.chunks_exact(64).take_while(|c| !c.iter().fold(false, |any, b| any | special(b))).count() * 64
}
/// Where a line ends, behind its end.
pub(crate) fn line_end(s: &[u8]) -> usize {
    let skipped = s.chunks_exact(64).take_while(|c| !c.iter().fold(false, |any, b| any | (*b == b'\n'))).count() * 64;
    s[skipped..].iter().position(|b| *b == b'\n').map_or(s.len(), |n| skipped + n + 1)
}

impl<'a> Cursor<'a> {
    pub fn new(src: &'a [u8]) -> Self {
        Cursor { src, pos: crate::read::byte_order_mark(src) }
    }
    /// Skips blanks and `//` comments.
    pub fn blank(&mut self) {
        while let Some(b) = self.src.get(self.pos) {
            match b {
                b' ' | b'\t' | b'\r' | b'\n' => self.pos += 1,
                b'/' if self.src.get(self.pos + 1) == Some(&b'/') => {
                    let rest = &self.src[self.pos..];
                    self.pos += rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
                }
                _ => break,
            }
        }
    }
    /// The next byte that is not blank, 0 at the end.
    pub fn peek(&mut self) -> u8 {
        self.blank();
        self.byte(0)
    }
    /// The byte at an offset from here, blank or not.
    pub fn byte(&self, ahead: usize) -> u8 {
        self.src.get(self.pos + ahead).copied().unwrap_or(0)
    }
    pub fn at_end(&mut self) -> bool {
        self.blank();
        self.pos >= self.src.len()
    }
    /// Takes this punctuation if it comes next.
    pub fn eat(&mut self, s: &str) -> bool {
        self.blank();
        let found = self.src[self.pos.min(self.src.len())..].starts_with(s.as_bytes());
        if found {
            self.pos += s.len();
        }
        found
    }
    /// Takes this word if it comes next, and whole.
    pub fn eat_word(&mut self, s: &str) -> bool {
        let start = self.pos;
        if self.eat(s) && !word_byte(self.byte(0)) {
            return true;
        }
        self.pos = start;
        false
    }
    pub fn expect(&mut self, s: &str, what: &str) -> R<()> {
        if self.eat(s) { Ok(()) } else { Err(self.expected(&format!("`{s}`"), what)) }
    }
    pub fn expect_word(&mut self, s: &str, what: &str) -> R<()> {
        if self.eat_word(s) { Ok(()) } else { Err(self.expected(&format!("`{s}`"), what)) }
    }
    /// A bare name: letters, digits, `_`, `$`, `.`, not starting with a digit.
    pub fn word(&mut self) -> Option<&'a str> {
        self.blank();
        let b = self.byte(0);
        if !(b.is_ascii_alphabetic() || b == b'_') {
            return None;
        }
        Some(self.suffix())
    }
    /// Name bytes from here on, perhaps none: what follows `%`, `#`, `!` or `@`.
    pub fn suffix(&mut self) -> &'a str {
        self.take(word_byte)
    }
    /// As `suffix`, for SSA names, which may hold `-` too.
    pub fn value_suffix(&mut self) -> &'a str {
        if self.byte(0).is_ascii_digit() {
            return self.take(|b| b.is_ascii_digit());
        }
        self.take(|b| word_byte(b) || b == b'-')
    }
    pub fn take(&mut self, f: impl Fn(u8) -> bool) -> &'a str {
        let start = self.pos;
        while self.src.get(self.pos).is_some_and(|b| f(*b)) {
            self.pos += 1;
        }
        std::str::from_utf8(&self.src[start..self.pos]).expect("only ASCII was taken")
    }
    /// A decimal integer with an optional sign.
    pub fn integer(&mut self, what: &str) -> R<i64> {
        self.blank();
        let start = self.pos;
        if self.byte(0) == b'-' {
            self.pos += 1;
        }
        let digits = self.take(|b| b.is_ascii_digit());
        if digits.is_empty() {
            self.pos = start;
            return Err(self.expected("an integer", what));
        }
        let text = std::str::from_utf8(&self.src[start..self.pos]).expect("ASCII");
        text.parse().map_err(|_| {
            let span = self.span(start);
            Box::new(
                Diagnostic::error("E0104", span, format!("integer out of range in {what}"))
                    .label("does not fit into 64 bits"),
            )
        })
    }
    /// A quoted string without its quotes, escapes decoded.
    pub fn string(&mut self) -> R<Vec<u8>> {
        let (from, to) = self.string_span()?;
        let s = &self.src[from..to];
        if !s.contains(&b'\\') {
            return Ok(s.to_vec());
        }
        let mut out = Vec::with_capacity(s.len());
        let mut i = 0;
        while i < s.len() {
            if s[i] != b'\\' {
                out.push(s[i]);
                i += 1;
                continue;
            }
            let hex = |k: usize| s.get(i + k).and_then(|b| (*b as char).to_digit(16));
            match (s.get(i + 1), hex(1), hex(2)) {
                (Some(b'n'), ..) => out.push(b'\n'),
                (Some(b't'), ..) => out.push(b'\t'),
                (Some(c @ (b'"' | b'\\')), ..) => out.push(*c),
                (_, Some(h), Some(l)) => {
                    out.push((h * 16 + l) as u8);
                    i += 1;
                }
                _ => {
                    let span = Span { start: (from + i) as u32, end: (from + i + 2) as u32 };
                    return Err(Box::new(
                        Diagnostic::error("E0101", span, "unknown escape in a string")
                            .hint("escapes are \\n, \\t, \\\", \\\\ and two hex digits"),
                    ));
                }
            }
            i += 2;
        }
        Ok(out)
    }
    /// Skips a quoted string; gives where its content stands.
    pub fn string_span(&mut self) -> R<(usize, usize)> {
        self.blank();
        let open = self.pos;
        if self.byte(0) != b'"' {
            return Err(self.expected("a string", "this place"));
        }
        self.pos += 1;
        loop {
            self.pos += plain(&self.src[self.pos..]);
            match self.src.get(self.pos) {
                Some(b'"') => {
                    self.pos += 1;
                    return Ok((open + 1, self.pos - 1));
                }
                Some(b'\\') => self.pos = (self.pos + 2).min(self.src.len()),
                Some(b'\n') | None => {
                    self.pos = self.pos.min(self.src.len());
                    let span = Span { start: open as u32, end: open as u32 + 1 };
                    return Err(Box::new(
                        Diagnostic::error("E0102", span, "string without its closing quote")
                            .label("opened here")
                            .hint("strings end on their line; a quote inside is written \\\""),
                    ));
                }
                Some(_) => self.pos += 1,
            }
        }
    }
    pub fn text_string(&mut self) -> R<String> {
        let bytes = self.string()?;
        // Strings are UTF-8 by convention only; another byte stands for itself.
        Ok(String::from_utf8(bytes).unwrap_or_else(|e| e.into_bytes().into_iter().map(char::from).collect()))
    }
    /// From `start` to here, without blanks at the end.
    pub fn span(&self, start: usize) -> Span {
        let text = self.src.get(start..self.pos).unwrap_or_default();
        let blanks = match text.trim_ascii_end().len() {
            0 => 0,
            n => text.len() - n,
        };
        Span { start: start as u32, end: (self.pos - blanks) as u32 }
    }
    /// An error at the next word, or at the end of the line where that comes first: `wanted` was expected in `place`.
    pub fn expected(&mut self, wanted: &str, place: &str) -> Fail {
        self.blank();
        let start = self.pos;
        if start < self.src.len() {
            // What is missing at the end of a line is missing there, not before the next line's first word.
            let mut last = start;
            while last > 0 && self.src[last - 1].is_ascii_whitespace() {
                last -= 1;
            }
            if last > 0 && self.src[last..start].contains(&b'\n') {
                let span = Span { start: last as u32 - 1, end: last as u32 };
                let m = format!("expected {wanted} in {place}, found the end of the line");
                return Box::new(Diagnostic::error("E0101", span, m).label(format!("expected {wanted} behind this")));
            }
        }
        self.unexpected(wanted, place)
    }
    /// An error at the next word: `wanted` was expected in `place`.
    pub fn unexpected(&mut self, wanted: &str, place: &str) -> Fail {
        self.blank();
        if self.pos >= self.src.len() {
            let at = self.src.len() as u32;
            let span = Span { start: at.saturating_sub(1), end: at };
            return Box::new(
                Diagnostic::error("E0102", span, format!("the file ends where {wanted} was expected in {place}"))
                    .label("end of file")
                    .hint("a truncated copy? compare the file's size with the original's"),
            );
        }
        let start = self.pos;
        if self.src[start..].starts_with(b"/*") {
            let span = Span { start: start as u32, end: start as u32 + 2 };
            let closed = self.src[start..].windows(2).any(|w| w == b"*/");
            // Behind one that is not closed nothing stands.
            let code = if closed { "E0101" } else { "E0102" };
            return Box::new(
                Diagnostic::error(code, span, "a comment of C")
                    .label("expected `//`")
                    .hint("comments are lines that start with `//`"),
            );
        }
        let mut end = start;
        while end < self.src.len() && end - start < 40 && word_byte(self.src[end]) {
            end += 1;
        }
        if end == start {
            // One whole character.
            end += 1;
            while self.src.get(end).is_some_and(|b| b & 0xc0 == 0x80) {
                end += 1;
            }
        }
        let found = String::from_utf8_lossy(&self.src[start..end]).into_owned();
        let span = Span { start: start as u32, end: end as u32 };
        Box::new(
            Diagnostic::error("E0101", span, format!("expected {wanted} in {place}, found `{found}`"))
                .label(format!("expected {wanted}")),
        )
    }
    /// Skips to behind the bracket that closes the one just before here, minding strings.
    pub fn skip_balanced(&mut self, what: &str) -> R<()> {
        let open = self.pos.saturating_sub(1);
        let mut depth = 1u32;
        while depth > 0 {
            match self.src.get(self.pos) {
                Some(b'"') => {
                    self.string_span()?;
                    continue;
                }
                // Comparisons, as sets have them.
                Some(b'<' | b'>') if self.src.get(self.pos + 1) == Some(&b'=') => {}
                Some(b'<' | b'(' | b'[' | b'{') => depth += 1,
                Some(b'>') if self.src[self.pos - 1] == b'-' => {}
                Some(b'>' | b')' | b']' | b'}') => depth -= 1,
                Some(_) => {}
                None => {
                    let span = Span { start: open as u32, end: open as u32 + 1 };
                    return Err(Box::new(
                        Diagnostic::error("E0102", span, format!("{what} is not closed")).label("opened here"),
                    ));
                }
            }
            self.pos += 1;
        }
        match self.src[open..self.pos].iter().position(|b| is_control(*b)) {
            None => Ok(()),
            Some(i) => {
                let at = (open + i) as u32;
                let span = Span { start: at, end: at + 1 };
                Err(Box::new(
                    Diagnostic::error("E0101", span, format!("a control character in {what}"))
                        .label(format!("this is byte {:#04x}", self.src[open + i])),
                ))
            }
        }
    }
}

/// Of no text: not a blank, not printed.
pub(crate) fn is_control(b: u8) -> bool {
    b < 9 || (b > 13 && b < 32)
}
