//! Whether two trees are the same program: equal but for spans, locations, value names, value numbers and where constants
//! stand. Writers of portable artifacts merge constants and move them to the front.

use crate::{
    print,
    tree::{Attr, Attrs, Block, Func, Literal, Op, OpKind, Program, TensorType, ValueId},
    unbuild,
};
use std::collections::HashMap;

/// True if the programs differ in nothing but how they were written down.
pub fn same(a: &Program, b: &Program) -> bool {
    difference(a, b).is_none()
}

/// The first difference, in words.
pub fn difference(a: &Program, b: &Program) -> Option<String> {
    if a.name != b.name {
        return Some(format!("module names {:?} and {:?}", a.name, b.name));
    }
    if !alike(&sorted(&a.attrs), &sorted(&b.attrs)) {
        return Some(format!("module attributes {:?} and {:?}", a.attrs, b.attrs));
    }
    if a.funcs.len() != b.funcs.len() {
        return Some(format!("{} and {} functions", a.funcs.len(), b.funcs.len()));
    }
    a.funcs.iter().zip(&b.funcs).find_map(|(f, g)| func(f, g).map(|d| format!("@{}: {d}", f.name)))
}

fn sorted(a: &Attrs) -> Attrs {
    let mut a = all_as_written(a);
    a.sort_by(|x, y| x.0.cmp(&y.0));
    a
}

/// Symbols as the strings that they are in portable artifacts, values of quantized types as those of their storage.
fn all_as_written(a: &Attrs) -> Attrs {
    a.iter().map(|(n, a)| (n.clone(), as_written(a))).collect()
}
fn as_written(a: &Attr) -> Attr {
    match a {
        Attr::Symbol(s) => Attr::Str(s.clone()),
        Attr::Dense(l) => Attr::Dense(Literal { ty: TensorType { quant: None, ..l.ty.clone() }, ..l.clone() }),
        Attr::Array(l) => Attr::Array(l.iter().map(as_written).collect()),
        Attr::Dict(d) => Attr::Dict(all_as_written(d)),
        Attr::Struct(dialect, name, fields) => Attr::Struct(dialect.clone(), name.clone(), all_as_written(fields)),
        other => other.clone(),
    }
}

struct Pair<'a> {
    f: &'a Func,
    g: &'a Func,
    /// Value of `g` by value of `f`.
    map: Vec<Option<ValueId>>,
    constants: [HashMap<ValueId, &'a Literal>; 2],
}

fn constant(op: &Op) -> Option<&Literal> {
    match &op.kind {
        OpKind::Constant(l) if op.extra.is_empty() => Some(l),
        _ => None,
    }
}
fn constants<'a>(b: &'a Block, into: &mut HashMap<ValueId, &'a Literal>) {
    for op in &b.ops {
        if let Some(l) = constant(op) {
            into.insert(op.results[0], l);
        }
        op.regions.iter().for_each(|r| constants(r, into));
    }
}

fn func<'a>(f: &'a Func, g: &'a Func) -> Option<String> {
    if (&f.name, f.public, f.external, &f.result_types) != (&g.name, g.public, g.external, &g.result_types) {
        return Some(format!("signature differs from @{}", g.name));
    }
    let dicts = |l: &Vec<Attrs>| l.iter().map(sorted).collect::<Vec<_>>();
    if !alike(&dicts(&f.arg_attrs), &dicts(&g.arg_attrs))
        || !alike(&dicts(&f.result_attrs), &dicts(&g.result_attrs))
        || !alike(&sorted(&f.attrs), &sorted(&g.attrs))
    {
        return Some("attributes of the function, its arguments or results".into());
    }
    let mut p = Pair { f, g, map: vec![None; f.values.len()], constants: Default::default() };
    constants(&f.body, &mut p.constants[0]);
    constants(&g.body, &mut p.constants[1]);
    p.block(&f.body, &g.body)
}

/// Equal, a number that is none being itself.
fn alike<T: PartialEq + std::fmt::Debug>(a: &T, b: &T) -> bool {
    a == b || format!("{a:?}") == format!("{b:?}")
}

fn alike_kinds(a: &OpKind, b: &OpKind) -> bool {
    let plain = |kind: &OpKind| {
        let mut kind = kind.clone();
        match &mut kind {
            OpKind::Composite { attributes, .. } => *attributes = all_as_written(attributes),
            OpKind::CustomCall { backend_config, .. } => *backend_config = as_written(backend_config),
            _ => {}
        }
        kind
    };
    a == b || alike(&plain(a), &plain(b))
}

/// Attributes without shardings, which portable artifacts keep as strings.
fn meaning(op: &Op) -> Attrs {
    let mut list = all_as_written(&op.extra);
    for (n, a) in &mut list {
        if let ("mhlo.frontend_attributes", Attr::Dict(d)) = (n.as_str(), a) {
            d.retain(|(n, _)| !n.starts_with("xla.sdy."));
        }
    }
    list.retain(|(_, a)| *a != Attr::Dict(vec![]));
    list
}

impl<'a> Pair<'a> {
    fn define(&mut self, a: &[ValueId], b: &[ValueId]) -> Option<String> {
        if a.len() != b.len() {
            return Some(format!("{} and {} values", a.len(), b.len()));
        }
        for (x, y) in a.iter().zip(b) {
            if self.f.ty(*x) != self.g.ty(*y) {
                return Some(format!("types {} and {}", print::ty(self.f.ty(*x)), print::ty(self.g.ty(*y))));
            }
            self.map[x.0 as usize] = Some(*y);
        }
        None
    }
    fn uses(&self, a: &[ValueId], b: &[ValueId]) -> Option<String> {
        let one = |x: &ValueId, y: &ValueId| match (self.constants[0].get(x), self.constants[1].get(y)) {
            (Some(l), Some(m)) => l == m,
            (None, None) => self.map[x.0 as usize] == Some(*y),
            _ => false,
        };
        let equal = a.len() == b.len() && a.iter().zip(b).all(|(x, y)| one(x, y));
        (!equal).then(|| "operands".to_string())
    }
    fn block(&mut self, a: &'a Block, b: &'a Block) -> Option<String> {
        if let Some(d) = self.define(&a.args, &b.args) {
            return Some(format!("arguments: {d}"));
        }
        let ops = |b: &'a Block| b.ops.iter().filter(|op| constant(op).is_none());
        for (i, (x, y)) in ops(a).zip(ops(b)).enumerate() {
            let place = |d: String| format!("op {i} `{}`: {d}", unbuild::name(&x.kind));
            if !alike_kinds(&x.kind, &y.kind) {
                return Some(place(format!("{:?} and {:?}", x.kind, y.kind)));
            }
            if !alike(&meaning(x), &meaning(y)) {
                return Some(place(format!("attributes {:?} and {:?}", x.extra, y.extra)));
            }
            if x.regions.len() != y.regions.len() {
                return Some(place("regions".into()));
            }
            let inner = |p: &mut Self| {
                p.uses(&x.operands, &y.operands)
                    .or_else(|| x.regions.iter().zip(&y.regions).find_map(|(r, s)| p.block(r, s)))
                    .or_else(|| p.define(&x.results, &y.results))
            };
            if let Some(d) = inner(self) {
                return Some(place(d));
            }
        }
        let (n, m) = (ops(a).count(), ops(b).count());
        if n != m {
            return Some(format!("{n} and {m} ops"));
        }
        self.uses(&a.results, &b.results).map(|d| format!("return: {d}"))
    }
}
