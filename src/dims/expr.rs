//! What exporters write for a dimension: `batch`, `2*b + 1`, `floordiv(s, 2)`, `max(b, 3)`.

use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    Size(i64),
    Name(String),
    Op(Op, Box<Expr>, Box<Expr>),
}
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    Add,
    Subtract,
    Multiply,
    Power,
    FloorDivide,
    Modulo,
    Max,
    Min,
}

impl Expr {
    /// None for what is no expression of this kind.
    pub fn parse(text: &str) -> Option<Expr> {
        let mut p = Parser { rest: text.trim(), depth: 0 };
        let e = p.sum()?;
        p.rest.is_empty().then_some(e)
    }
    /// The names in it, in order of appearance.
    pub fn names<'a>(&'a self, list: &mut Vec<&'a str>) {
        match self {
            Expr::Size(_) => {}
            Expr::Name(n) if list.contains(&n.as_str()) => {}
            Expr::Name(n) => list.push(n),
            Expr::Op(_, a, b) => {
                a.names(list);
                b.names(list);
            }
        }
    }
    /// None if a name has no size, or if the value has no 64-bit integer.
    pub fn eval(&self, sizes: &BTreeMap<&str, u64>) -> Option<i64> {
        match self {
            Expr::Size(n) => Some(*n),
            Expr::Name(n) => i64::try_from(*sizes.get(n.as_str())?).ok(),
            Expr::Op(op, a, b) => {
                let (a, b) = (a.eval(sizes)?, b.eval(sizes)?);
                match op {
                    Op::Add => a.checked_add(b),
                    Op::Subtract => a.checked_sub(b),
                    Op::Multiply => a.checked_mul(b),
                    Op::Power => a.checked_pow(u32::try_from(b).ok()?),
                    // As Python's: rounded down, the remainder with the sign of the divisor.
                    Op::FloorDivide => Some(a.checked_div(b)? - i64::from(a % b != 0 && (a < 0) != (b < 0))),
                    Op::Modulo => {
                        let r = a.checked_rem(b)?;
                        Some(if r != 0 && (r < 0) != (b < 0) { r + b } else { r })
                    }
                    Op::Max => Some(a.max(b)),
                    Op::Min => Some(a.min(b)),
                }
            }
        }
    }
}

/// Brackets and calls inside of each other.
const DEEPEST: u32 = 64;

struct Parser<'a> {
    rest: &'a str,
    depth: u32,
}
impl Parser<'_> {
    fn takes(&mut self, c: char) -> bool {
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }
    fn word(&mut self, fits: impl Fn(char) -> bool) -> Option<String> {
        let end = self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        (!word.is_empty()).then(|| word.to_string())
    }
    fn sum(&mut self) -> Option<Expr> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let mut e =
            if self.takes('-') { binary(Op::Subtract, Expr::Size(0), self.product()?) } else { self.product()? };
        loop {
            if self.takes('+') {
                e = binary(Op::Add, e, self.product()?);
            } else if self.takes('-') {
                e = binary(Op::Subtract, e, self.product()?);
            } else {
                self.depth -= 1;
                return Some(e);
            }
        }
    }
    fn product(&mut self) -> Option<Expr> {
        let mut e = self.power()?;
        while self.takes('*') {
            e = binary(Op::Multiply, e, self.power()?);
        }
        Some(e)
    }
    fn power(&mut self) -> Option<Expr> {
        let e = self.atom()?;
        if self.takes('^') { Some(binary(Op::Power, e, self.atom()?)) } else { Some(e) }
    }
    fn atom(&mut self) -> Option<Expr> {
        if self.takes('(') {
            let e = self.sum()?;
            return self.takes(')').then_some(e);
        }
        if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            return Some(Expr::Size(self.word(|c| c.is_ascii_digit())?.parse().ok()?));
        }
        let name = self.word(|c| c.is_alphanumeric() || c == '_')?;
        if !self.takes('(') {
            return Some(Expr::Name(name));
        }
        let op = match name.as_str() {
            "floordiv" => Op::FloorDivide,
            "mod" => Op::Modulo,
            "max" => Op::Max,
            "min" => Op::Min,
            _ => return None,
        };
        let first = self.sum()?;
        let second = if self.takes(',') { self.sum()? } else { return None };
        self.takes(')').then(|| binary(op, first, second))
    }
}
fn binary(op: Op, a: Expr, b: Expr) -> Expr {
    Expr::Op(op, Box::new(a), Box::new(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_as_exporters_write_them() {
        let sizes = BTreeMap::from([("b", 5), ("s", 8), ("_n0", 2)]);
        for (text, value) in [
            ("b", Some(5)),
            ("_n0", Some(2)),
            ("b*s - b + 1", Some(36)),
            ("2*b^2", Some(50)),
            ("-b + 2*s", Some(11)),
            ("floordiv(b, 2)", Some(2)),
            ("floordiv(-b, 2)", Some(-3)),
            ("mod(-b, 3)", Some(1)),
            ("max(b, 3) + min(b, 3)", Some(8)),
            ("(b + 1)*2", Some(12)),
            ("floordiv(b, 0)", None),
            ("9223372036854775807 + b", None),
            ("other", None),
        ] {
            assert_eq!(Expr::parse(text).expect(text).eval(&sizes), value, "{text}");
        }
        let e = Expr::parse("s + b*s").expect("an expression");
        let mut names = vec![];
        e.names(&mut names);
        assert_eq!(names, ["s", "b"]);
    }

    #[test]
    fn what_is_no_expression() {
        let deep = "(".repeat(100_000);
        for text in ["", "2 b", "b +", "f(b, 2)", "max(b)", "b)", "99999999999999999999", "x.0", &deep] {
            assert_eq!(Expr::parse(text), None, "{text}");
        }
    }
}
