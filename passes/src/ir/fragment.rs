//! `!zml.fragment` types read from their text: the C API has no reader for them.

use super::{B, V, ValueLike};
use melior::ir::Type;

/// What the type of a fragment says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// `a`, `b` or `c`.
    pub role: char,
    pub rows: i64,
    pub columns: i64,
    /// Element type as MLIR writes it: `bf16`.
    pub element: String,
}

impl Fragment {
    pub fn new(role: char, rows: i64, columns: i64, element: &str) -> Self {
        Fragment { role, rows, columns, element: element.into() }
    }
    pub fn of(v: V) -> Option<Self> {
        Self::of_type(v.r#type())
    }
    pub fn of_type(t: Type) -> Option<Self> {
        Self::parse(&t.to_string())
    }
    fn parse(text: &str) -> Option<Self> {
        let inner = text.strip_prefix("!zml.fragment<")?.strip_suffix('>')?;
        let parts: Vec<&str> = inner.split(", ").collect();
        let [role, rows, columns, element] = parts[..] else { return None };
        let role = role.trim_matches('"').chars().next()?;
        Some(Fragment::new(role, rows.parse().ok()?, columns.parse().ok()?, element))
    }
    pub fn ty<'c>(&self, b: &B<'c>) -> Type<'c> {
        b.ty(&format!("!zml.fragment<\"{}\", {}, {}, {}>", self.role, self.rows, self.columns, self.element))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let f = Fragment::new('a', 16, 32, "i8");
        assert_eq!(Fragment::parse("!zml.fragment<\"a\", 16, 32, i8>"), Some(f));
        assert_eq!(Fragment::parse("vector<4xf32>"), None);
    }
}
