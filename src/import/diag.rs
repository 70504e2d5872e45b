//! What is wrong with an input, and where: diagnostics with a code, a position, a caret and a hint, rendered as text or
//! serialised. Every stage and every command reports through this; nothing here prints or exits.

use crate::tree::Span;
use serde::Serialize;
use std::{
    borrow::Cow,
    fmt::{self, Write as _},
};

/// A file that was read: the name that messages show, and its bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Source {
    pub name: String,
    pub bytes: Vec<u8>,
}
impl Source {
    pub fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Source { name: name.into(), bytes: bytes.into() }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
}
impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        })
    }
}

/// One finding. `message` says what is wrong, `label` (under the caret) what was found or expected there, `hint` what to
/// do about it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Diagnostic {
    /// Stable, `E0101`; see [`CODES`].
    pub code: &'static str,
    pub severity: Severity,
    /// Byte range in the source; `Span::NONE` if there is no text to point at.
    pub span: Span,
    pub message: String,
    pub label: String,
    pub hint: Option<String>,
    /// The whole op that the span is a part of, if it is one; shown when it starts on another line.
    pub within: Span,
    /// Filled by [`Diagnostics::locate`].
    pub file: String,
    pub position: Option<Position>,
    /// The line on which `within` starts, if that is another one. Filled with `position`.
    pub within_line: Option<u32>,
}
/// Where a span lies in a text.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Position {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// The source line, cut to a window around the span if it is long.
    pub text: String,
    /// Characters of `text` before the caret, and under it.
    pub caret: (u32, u32),
}

impl Diagnostic {
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Diagnostic {
            code,
            severity: Severity::Error,
            span,
            message: message.into(),
            label: String::new(),
            hint: None,
            within: Span::NONE,
            file: String::new(),
            position: None,
            within_line: None,
        }
    }
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Diagnostic { severity: Severity::Warning, ..Self::error(code, span, message) }
    }
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }
    /// Says which op the span is a part of.
    #[must_use]
    pub fn within(mut self, op: Span) -> Self {
        self.within = op;
        self
    }
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let shown = |s: &str| printable(s).into_owned();
        writeln!(f, "{}[{}]: {}", self.severity, self.code, shown(&self.message))?;
        match &self.position {
            Some(p) => {
                let number = p.line.to_string();
                let pad = " ".repeat(number.len());
                writeln!(f, "{pad}--> {}:{}:{}", shown(&self.file), p.line, p.column)?;
                writeln!(f, "{pad} |")?;
                writeln!(f, "{number} | {}", p.text)?;
                let (before, under) = p.caret;
                write!(f, "{pad} | {}{}", " ".repeat(before as usize), "^".repeat(under.max(1) as usize))?;
                if !self.label.is_empty() {
                    write!(f, " {}", shown(&self.label))?;
                }
                writeln!(f)?;
                if let Some(line) = self.within_line {
                    writeln!(f, "{pad} = in the op that starts on line {line}")?;
                }
                if let Some(h) = &self.hint {
                    writeln!(f, "{pad} = hint: {}", indented(h, pad.len() + 3))?;
                }
            }
            None => {
                if !self.file.is_empty() {
                    writeln!(f, " --> {}", shown(&self.file))?;
                }
                if !self.label.is_empty() {
                    writeln!(f, "  = {}", shown(&self.label))?;
                }
                if let Some(h) = &self.hint {
                    writeln!(f, "  = hint: {}", indented(h, 4))?;
                }
            }
        }
        Ok(())
    }
}

/// Findings of one run, in the order of their positions.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Diagnostics {
    pub list: Vec<Diagnostic>,
}
impl Diagnostics {
    pub fn push(&mut self, d: Diagnostic) {
        self.list.push(d);
    }
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|d| d.severity == Severity::Error)
    }
    pub fn count(&self, s: Severity) -> usize {
        self.list.iter().filter(|d| d.severity == s).count()
    }
    /// Sorts by position and fills `file` and `position` of those that have none yet.
    #[must_use]
    pub fn locate(mut self, source: &Source) -> Self {
        self.list.sort_by_key(|d| (d.span.start, d.span.end));
        self.list.dedup_by(|a, b| a.code == b.code && a.span == b.span && a.message == b.message);
        let mut lines = Lines::new(&source.bytes);
        for d in self.list.iter_mut().filter(|d| d.file.is_empty()) {
            d.file.clone_from(&source.name);
            if d.span != Span::NONE {
                d.position = Some(lines.position(d.span));
            }
        }
        // In a pass of its own: these spans ascend too, so each pass reads the text once.
        let mut starts: Vec<(usize, Span)> =
            self.list.iter().enumerate().filter(|(_, d)| d.within != Span::NONE).map(|(i, d)| (i, d.within)).collect();
        starts.sort_by_key(|(_, s)| s.start);
        let mut lines = Lines::new(&source.bytes);
        for (i, span) in starts {
            let line = lines.position(Span { start: span.start, end: span.start + 1 }).line;
            let d = &mut self.list[i];
            d.within_line = d.position.as_ref().is_some_and(|p| p.line != line).then_some(line);
        }
        self
    }
}
impl From<Vec<Diagnostic>> for Diagnostics {
    fn from(list: Vec<Diagnostic>) -> Self {
        Diagnostics { list }
    }
}
impl From<Diagnostic> for Diagnostics {
    fn from(d: Diagnostic) -> Self {
        Diagnostics { list: vec![d] }
    }
}
impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (i, d) in self.list.iter().take(SHOWN).enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            d.fmt(f)?;
        }
        let rest = &self.list[SHOWN.min(self.list.len())..];
        if !rest.is_empty() {
            writeln!(f, "\nand {} more; `--message-format json` lists all", count(rest))?;
        }
        if self.list.len() > 1 {
            writeln!(f, "\n{}", count(&self.list))?;
        }
        Ok(())
    }
}
impl std::error::Error for Diagnostics {}

/// Findings that are written as text; the others are counted.
const SHOWN: usize = 100;

/// `2 errors, 1 warning`
fn count(list: &[Diagnostic]) -> String {
    let of = |s: Severity| {
        let n = list.iter().filter(|d| d.severity == s).count();
        (n > 0).then(|| format!("{n} {s}{}", if n == 1 { "" } else { "s" }))
    };
    let parts: Vec<String> = [Severity::Error, Severity::Warning].into_iter().filter_map(of).collect();
    parts.join(", ")
}

/// Characters that a terminal obeys instead of showing them, or that turn the order of others around.
fn obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The lines of a hint.
fn indented(hint: &str, by: usize) -> String {
    hint.lines().map(printable).collect::<Vec<_>>().join(&format!("\n{}", " ".repeat(by)))
}

/// Text from a file or its name, with what a terminal would obey as escapes.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(obeyed) {
        return text.into();
    }
    text.chars().map(|c| if obeyed(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// Longest part of a source line that a message shows, in characters.
const WINDOW: usize = 160;

/// Walks a text once, for spans in ascending order.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Of the line: where it starts, its number, and its characters before `at`.
    start: usize,
    number: u32,
    before: u32,
}
impl<'a> Lines<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let start = crate::read::byte_order_mark(bytes);
        Lines { bytes, at: start, start, number: 1, before: 0 }
    }
    fn position(&mut self, span: Span) -> Position {
        let to = (span.start as usize).min(self.bytes.len());
        if to < self.at {
            *self = Self::new(self.bytes);
        }
        let to = to.max(self.at);
        let mut from = self.at;
        for i in self.at..to {
            if self.bytes[i] == b'\n' {
                self.number += 1;
                (self.start, self.before) = (i + 1, 0);
                from = i + 1;
            }
        }
        self.before += String::from_utf8_lossy(&self.bytes[from..to]).chars().count() as u32;
        self.at = to;
        // Only a window of the line is decoded: a line may hold megabytes of hex.
        let from = to.saturating_sub(4 * WINDOW).max(self.start);
        let end = self.bytes[to..].iter().take(4 * WINDOW).position(|b| *b == b'\n');
        let end = to + end.unwrap_or_else(|| (self.bytes.len() - to).min(4 * WINDOW));
        let shown = |b: &[u8]| -> Vec<char> {
            let text = String::from_utf8_lossy(b);
            text.chars().map(|c| if obeyed(c) { ' ' } else { c }).collect()
        };
        let before = shown(&self.bytes[from..to]);
        let after = shown(&self.bytes[to..end]);
        let under = shown(&self.bytes[to..end.min(span.end as usize).max(to)]).len();
        let column = self.before + 1;
        let cut = if before.len() + after.len() <= WINDOW { 0 } else { before.len().saturating_sub(WINDOW / 2) };
        let mut text = String::new();
        let mut caret = before.len() - cut;
        if cut > 0 || from > self.start {
            text.push('…');
            caret += 1;
        }
        let room = WINDOW - (before.len() - cut).min(WINDOW);
        text.extend(&before[cut..]);
        text.extend(after.iter().take(room));
        if after.len() > room {
            text.push('…');
        }
        Position { line: self.number, column, text, caret: (caret as u32, under.min(room) as u32) }
    }
}

/// Writes `a, b or c`.
pub fn alternatives(list: &[&str]) -> String {
    let mut out = String::new();
    for (i, x) in list.iter().enumerate() {
        let between = match i {
            0 => "",
            _ if i + 1 == list.len() => " or ",
            _ => ", ",
        };
        let _ = write!(out, "{between}`{x}`");
    }
    out
}

/// The entry of `names` that `name` was probably meant to be: at most a third of it differs.
pub fn did_you_mean<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let a: Vec<char> = name.chars().take(100).collect();
    names
        .into_iter()
        .filter_map(|n| {
            let b: Vec<char> = n.chars().take(100).collect();
            // Changes to the letters so far, of this letter of the name and of the two before.
            let mut row: Vec<usize> = (0..=b.len()).collect();
            let (mut last, mut before) = (row.clone(), row.clone());
            for i in 0..a.len() {
                (before, last, row) = (last, row, before);
                row[0] = i + 1;
                for j in 0..b.len() {
                    let mut d = (last[j] + usize::from(a[i] != b[j])).min(row[j] + 1).min(last[j + 1] + 1);
                    if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                        d = d.min(before[j - 1] + 1);
                    }
                    row[j + 1] = d;
                }
            }
            let d = row[b.len()];
            (d <= a.len().max(3) / 3).then_some((d, n))
        })
        .min()
        .map(|(_, n)| n)
}

/// Every code of this crate with what it means: the text behind `zmlc explain`.
pub const CODES: &[(&str, &str)] = &[
    (
        "E0101",
        "The text is not StableHLO as the printer of any version writes it: a word, bracket or number is missing or out of place.",
    ),
    (
        "E0102",
        "Something that the program opens is not closed before the end of the file, which is often a truncated copy.",
    ),
    ("E0103", "The file nests deeper than any exporter writes. It is refused so that it cannot exhaust the stack."),
    ("E0104", "A number does not fit into the type that it is written for."),
    (
        "E0105",
        "The number of values in a dense constant, or the length of its hex string, does not agree with its type.",
    ),
    (
        "E0106",
        "An alias (`#name`, `!name`) or resource is used that the file does not define, or that is defined by itself.",
    ),
    ("E0107", "The file is neither StableHLO text nor MLIR bytecode."),
    ("E0108", "The element type or type is not one that StableHLO has."),
    ("E0201", "A value is used that nothing defines before it in this function."),
    ("E0202", "A value is used with another type than the one it was defined with."),
    ("E0203", "A name (value, function) is defined twice."),
    ("E0204", "The number of operands, results or types does not agree."),
    ("E0205", "A function is called that the program does not have."),
    ("E0301", "An op lacks an attribute that it must have."),
    ("E0302", "An attribute has another form than the op needs."),
    ("E0303", "The op does not exist in StableHLO or chlo."),
    ("E0304", "The op has another number of operands, results or regions than the specification says."),
    ("E0401", "A constraint of the StableHLO specification is violated; its tag is in the message."),
    ("E0402", "The result type differs from the one that follows from the operands."),
    ("E0501", "The bytecode is damaged: a length, offset or index points outside of the file or table."),
    ("E0502", "The bytecode is of a version that this build does not read."),
    ("E0503", "The bytecode is MLIR, but not a StableHLO portable artifact: it uses another dialect."),
    ("E0601", "The program is of another dialect. zmlc reads StableHLO."),
    ("E0602", "The program needs something that zmlc does not do; the message says what to do instead."),
    ("E0603", "The file is a container around a program; the message has the line that unpacks it."),
    ("E0701", "The program has dynamic dimensions for which no size was given, or the size contradicts the program."),
    ("W0101", "An argument of a public function is never read. Callers must still give it."),
    ("W0201", "A comparison with NaN has the same outcome for every input."),
    ("W0202", "Integers are divided by a constant that holds 0. StableHLO leaves the result open."),
    ("W0203", "The bounds of a clamp are constants in the wrong order."),
    ("W0204", "A constant is converted to an integer type that does not have its value."),
    (
        "W0205",
        "A reduction starts from a value that changes the result. StableHLO lets a device apply it any number of times.",
    ),
    ("W0206", "Constant indices lie outside of what they index. StableHLO clamps them in silence."),
    ("W0207", "Constant indices are not as sorted or unique as the op says they are."),
    ("W0208", "A loop never runs or never ends."),
    ("W0209", "A constant chooses a branch that a case does not have. StableHLO takes the last one."),
    (
        "W0301",
        "Costly work whose result nothing reads. It is not compiled. Reductions are not reported: differentiated programs have them.",
    ),
];
