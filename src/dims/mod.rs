//! The sizes that a program with dynamic dimensions is built for: the names of its dimensions, what model.toml chooses for
//! them, and the shapes of the arguments that follow. It must not look at weights or at what the program computes.

mod expr;

use crate::{
    codes,
    model::{EntrySection, Table},
};
use expr::Expr;
use std::collections::BTreeMap;
use zml_format::{Dim, sizes};
use zmlc_import::{
    DynamicDim,
    diag::{Diagnostic, Diagnostics, Source, did_you_mean},
    dynamic_dims,
    tree::{Program, Span, TensorType, Type},
};

/// Combinations of sizes that one entry is built for at most: each is compiled by itself.
const MOST: usize = 64;

/// One choice of sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    pub dims: Vec<Dim>,
    /// Of the arguments; none where the program says them.
    pub shapes: Option<Vec<Vec<u64>>>,
}

/// A dynamic dimension by the name that it has.
pub struct Named {
    pub argument: usize,
    pub axis: usize,
    /// None where neither the exporter nor model.toml names it.
    pub name: Option<String>,
}

/// The dynamic dimensions of the entry's arguments, named by `[entry.shapes]` or else by the exporter.
pub fn named(program: &Program, function: &str, arguments: &[String], section: &EntrySection) -> Vec<Named> {
    let name = |d: DynamicDim| {
        let own = arguments.get(d.argument).and_then(|a| section.shapes.get(a.as_str()));
        let own = own.and_then(|s| s.as_ref().as_array()?.get(d.dim)?.as_str().map(str::to_string));
        Named { argument: d.argument, axis: d.dim, name: own.or(d.name) }
    };
    dynamic_dims(program, function).into_iter().map(name).collect()
}

/// The names to choose sizes for, in order of appearance.
pub fn names(dims: &[Named]) -> Vec<String> {
    let parsed: Vec<Expr> = dims.iter().filter_map(|d| Expr::parse(d.name.as_deref()?)).collect();
    let mut list = vec![];
    parsed.iter().for_each(|e| e.names(&mut list));
    list.into_iter().map(str::to_string).collect()
}

/// Every choice of sizes that an entry is built for: one without sizes if the program is static. `toml` and `source` are
/// where findings are shown.
pub fn choices(
    section: &EntrySection,
    program: &Program,
    function: &str,
    arguments: &[String],
    toml: &Source,
    source: &Source,
) -> Result<Vec<Choice>, Diagnostics> {
    let mut c = Chooser { section, program, function, arguments, found: vec![] };
    c.shapes();
    if !c.found.is_empty() {
        return Err(Diagnostics::from(c.found).locate(toml));
    }
    let dims = named(program, function, arguments, section);
    let exprs = c.exprs(&dims);
    if !c.found.is_empty() {
        return Err(Diagnostics::from(c.found).locate(source));
    }
    let names = names(&dims);
    let lists = c.lists(&names);
    if !c.found.is_empty() {
        return Err(Diagnostics::from(c.found).locate(toml));
    }
    if dims.is_empty() {
        return Ok(vec![Choice { dims: vec![], shapes: None }]);
    }
    let all = c.combinations(&names, &lists, &dims, &exprs);
    if c.found.is_empty() { Ok(all) } else { Err(Diagnostics::from(c.found).locate(toml)) }
}

struct Chooser<'a> {
    section: &'a EntrySection,
    program: &'a Program,
    function: &'a str,
    arguments: &'a [String],
    found: Vec<Diagnostic>,
}
impl<'a> Chooser<'a> {
    fn report(&mut self, span: Span, message: &str, hint: String) {
        let message = format!("entry `{}`: {message}", self.section.name);
        self.found.push(Diagnostic::error(codes::DIMS, span, message).hint(hint));
    }
    fn types(&self) -> Vec<&'a Type> {
        let f = self.program.func(self.function).expect("looked up before");
        f.body.args.iter().map(|a| f.ty(*a)).collect()
    }

    /// `[entry.shapes]` fits the arguments.
    fn shapes(&mut self) {
        let types = self.types();
        let table: &Table = &self.section.shapes;
        for (name, value) in table {
            let span = span(value.span());
            let Some(at) = self.arguments.iter().position(|a| *a == *name.as_ref()) else {
                let key = name.as_ref();
                let hint = match did_you_mean(key, self.arguments.iter().map(String::as_str)) {
                    Some(n) => format!("did you mean `{n}`?"),
                    None => format!("the arguments are {}", self.arguments.join(", ")),
                };
                let key = key.clone();
                self.report(self::span(name.span()), &format!("`shapes` names `{key}`, which is no argument"), hint);
                continue;
            };
            let Type::Tensor(t) = types[at] else { continue };
            let form = form(t, at, &[]);
            let hint = "a list with a name or a size for each dimension, `[\"batch\", 784]`".to_string();
            let Some(list) = value.as_ref().as_array().filter(|l| l.len() == t.rank()) else {
                self.report(span, &format!("`shapes.{}` does not fit {form}", name.as_ref()), hint);
                continue;
            };
            for (v, d) in list.iter().zip(&t.dims) {
                let fits = match (v, d) {
                    (toml::Value::Integer(n), Some(d)) => u64::try_from(*n) == Ok(*d),
                    (toml::Value::String(s), None) => Expr::parse(s).is_some(),
                    _ => false,
                };
                if !fits {
                    self.report(span, &format!("{v} in `shapes.{}` does not fit {form}", name.as_ref()), hint.clone());
                }
            }
        }
    }

    fn exprs(&mut self, dims: &[Named]) -> Vec<Expr> {
        let mut list = vec![];
        let mut unnamed: Vec<usize> = vec![];
        for d in dims {
            let f = self.program.func(self.function).expect("looked up before");
            let span = f.values[f.body.args[d.argument].0 as usize].span;
            let argument = &self.arguments[d.argument];
            match d.name.as_deref().map(Expr::parse) {
                Some(Some(e)) => list.push(e),
                Some(None) => {
                    let name = d.name.as_deref().unwrap_or_default();
                    let message = format!("dimension {} of argument `{argument}`, `{name}`, is not understood", d.axis);
                    self.report(span, &message, "name it under `[entry.shapes]` in model.toml".into());
                }
                None if unnamed.contains(&d.argument) => {}
                None => {
                    unnamed.push(d.argument);
                    let sizes = &f.tensor(f.body.args[d.argument]).dims;
                    let name = |i: usize| format!("\"d{}_{i}\"", d.argument);
                    let shape: Vec<String> =
                        sizes.iter().enumerate().map(|(i, n)| n.map_or_else(|| name(i), |n| n.to_string())).collect();
                    let open: Vec<String> =
                        (0..sizes.len()).filter(|i| sizes[*i].is_none()).map(|i| i.to_string()).collect();
                    let (s, are, have) = if open.len() == 1 { ("", "is", "has") } else { ("s", "are", "have") };
                    let message = format!(
                        "dimension{s} {} of argument `{argument}` {are} dynamic and {have} no name",
                        open.join(", ")
                    );
                    let head =
                        if self.section.shapes.is_empty() && unnamed.len() == 1 { "[entry.shapes]\n" } else { "" };
                    let hint = format!(
                        "name what is dynamic under `[entry.shapes]` in model.toml, the same for dimensions that are always equal:\n{head}{} = [{}]",
                        key(argument),
                        shape.join(", ")
                    );
                    self.report(span, &message, hint);
                }
            }
        }
        list
    }

    /// The sizes of each name.
    fn lists(&mut self, names: &[String]) -> Vec<Vec<u64>> {
        for k in self.section.dims.keys().filter(|k| !names.contains(k.as_ref())) {
            let hint = match did_you_mean(k.as_ref(), names.iter().map(String::as_str)) {
                Some(n) => format!("did you mean `{n}`?"),
                None if names.is_empty() => "its program has no dynamic dimensions".into(),
                None => format!("its dynamic dimensions are {}", names.join(", ")),
            };
            self.report(span(k.span()), &format!("there is no dimension `{}`", k.as_ref()), hint);
        }
        let missing: Vec<&String> = names.iter().filter(|n| !self.section.dims.contains_key(n.as_str())).collect();
        if !missing.is_empty() {
            let (list, mut lines): (Vec<_>, Vec<_>) =
                missing.iter().map(|n| (format!("`{n}`"), format!("{} = [1, 8]", key(n)))).unzip();
            if self.section.dims.is_empty() {
                lines.insert(0, "[entry.dims]".into());
            }
            let message = format!(
                "no sizes for the dynamic dimension{} {}",
                if list.len() > 1 { "s" } else { "" },
                list.join(", ")
            );
            self.report(
                Span::NONE,
                &message,
                format!("choose them under `[entry.dims]` in model.toml:\n{}", lines.join("\n")),
            );
        }
        names
            .iter()
            .filter_map(|n| self.section.dims.get_key_value(n.as_str()))
            .map(|(n, v)| (n.as_ref().clone(), v))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|(n, v)| self.list(&n, v))
            .collect()
    }
    fn list(&mut self, name: &str, value: &toml::Spanned<toml::Value>) -> Vec<u64> {
        let span = span(value.span());
        let hint = || format!("a list of sizes from 1 up, each once: `{name} = [1, 8]`");
        let Some(values) = value.as_ref().as_array().filter(|v| !v.is_empty()) else {
            self.report(span, &format!("`dims.{name}` is {}", value.as_ref()), hint());
            return vec![];
        };
        let mut list = vec![];
        for v in values {
            match v.as_integer().and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0) {
                Some(n) if list.contains(&n) => self.report(span, &format!("`dims.{name}` has {n} twice"), hint()),
                Some(n) => list.push(n),
                None => self.report(span, &format!("`dims.{name}` has {v}, which is no size"), hint()),
            }
        }
        list
    }

    fn combinations(&mut self, names: &[String], lists: &[Vec<u64>], dims: &[Named], exprs: &[Expr]) -> Vec<Choice> {
        let count = lists.iter().fold(1usize, |n, l| n.saturating_mul(l.len()));
        if count > MOST {
            let factors: Vec<String> = lists.iter().map(|l| l.len().to_string()).collect();
            self.report(
                Span::NONE,
                &format!(
                    "`[entry.dims]` makes {} = {count} combinations of sizes; at most {MOST} are built",
                    factors.join(" x ")
                ),
                "name fewer sizes, or make a second [[entry]] of the same program for some of them".into(),
            );
            return vec![];
        }
        let own: Vec<Vec<u64>> = self
            .types()
            .iter()
            .map(|t| match t {
                Type::Tensor(t) => t.dims.iter().map(|d| d.unwrap_or(0)).collect(),
                _ => vec![],
            })
            .collect();
        let mut all = vec![];
        for i in 0..count {
            // The last name changes fastest.
            let mut rest = i;
            let mut chosen: Vec<Dim> = names
                .iter()
                .zip(lists)
                .rev()
                .map(|(name, list)| {
                    let size = list[rest % list.len()];
                    rest /= list.len();
                    Dim { name: name.clone(), size }
                })
                .collect();
            chosen.reverse();
            let by_name = chosen.iter().map(|d| (d.name.as_str(), d.size)).collect::<BTreeMap<_, _>>();
            let mut shapes = own.clone();
            for (d, e) in dims.iter().zip(exprs) {
                match e.eval(&by_name).and_then(|n| u64::try_from(n).ok()) {
                    Some(n) => shapes[d.argument][d.axis] = n,
                    None => {
                        let (argument, name) = (&self.arguments[d.argument], d.name.as_deref().unwrap_or_default());
                        self.report(
                            Span::NONE,
                            &format!(
                                "dimension {} of argument `{argument}`, `{name}`, is no size for {}",
                                d.axis,
                                sizes(&chosen)
                            ),
                            "choose sizes for which it is 0 or more".into(),
                        );
                    }
                }
            }
            all.push(Choice { dims: chosen.clone(), shapes: Some(shapes) });
        }
        all
    }
}

/// `tensor<batchx784xf32>`, with `?` for what has no name.
pub fn form(t: &TensorType, argument: usize, dims: &[Named]) -> String {
    let size = |(axis, d): (usize, &Option<u64>)| match d {
        Some(d) => d.to_string(),
        None => {
            let named = dims.iter().find(|n| (n.argument, n.axis) == (argument, axis));
            named.and_then(|n| n.name.clone()).unwrap_or("?".into())
        }
    };
    let sizes: String = t.dims.iter().enumerate().map(|d| size(d) + "x").collect();
    format!("tensor<{sizes}{}>", t.dtype)
}

fn span(range: std::ops::Range<usize>) -> Span {
    Span { start: range.start as u32, end: range.end as u32 }
}
/// A name as a key of TOML.
pub fn key(name: &str) -> String {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    if plain { name.into() } else { toml::Value::String(name.into()).to_string() }
}
