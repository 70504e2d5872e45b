//! The operations of a bytecode file into the tree.

use super::{
    bytes::{Bytes, R},
    tables::{Tables, from_the_future},
    vhlo,
};
use crate::{
    build,
    diag::Diagnostic,
    raw::{RawOp, drop_shardings},
    tree::{Attr, Attrs, Block, Func, Loc, Op, Program, Span, Type, Value, ValueId},
};

/// Regions inside of regions.
const DEEPEST: u32 = 200;

/// Parts of an encoded op, by bit.
mod mask {
    pub const ATTRS: u8 = 1;
    pub const RESULTS: u8 = 2;
    pub const OPERANDS: u8 = 4;
    pub const SUCCESSORS: u8 = 8;
    pub const REGIONS: u8 = 16;
    pub const USE_LISTS: u8 = 32;
    pub const PROPERTIES: u8 = 64;
}

pub(super) struct OpName {
    pub dialect: String,
    pub name: String,
    pub registered: bool,
}

pub(super) struct Ir<'a> {
    pub format: u64,
    pub tables: &'a Tables<'a>,
    pub ops: Vec<OpName>,
    pub properties: Vec<Bytes<'a>>,
    pub program: Program,
    pub errors: Vec<Diagnostic>,
    depth: u32,
}

/// The function being read.
#[derive(Default)]
struct Scope {
    values: Vec<Value>,
    /// Numbers of the file to values; regions push and pop.
    ids: Vec<Option<ValueId>>,
}

/// An op before its regions.
struct Head {
    name: String,
    dialect: String,
    attrs: Attrs,
    loc: Loc,
    results: Vec<Type>,
    operands: Vec<u64>,
    regions: usize,
    isolated: bool,
}

impl<'a> Ir<'a> {
    pub fn new(format: u64, tables: &'a Tables<'a>, ops: Vec<OpName>, properties: Vec<Bytes<'a>>) -> Self {
        Ir { format, tables, ops, properties, program: Program::default(), errors: vec![], depth: 0 }
    }

    pub fn read(&mut self, mut b: Bytes<'a>) -> R<()> {
        let (n, arguments) = b.flagged()?;
        if arguments {
            return b.damaged("the top level has arguments");
        }
        for _ in 0..n {
            let head = self.head(&mut b)?;
            if head.dialect != "builtin" || head.name != "module" {
                return Err(Box::new(not_portable(&head)));
            }
            for (name, a) in head.attrs {
                match (name.as_str(), a) {
                    ("sym_name", Attr::Str(s)) => self.program.name = Some(s),
                    (_, a) => self.program.attrs.push((name, a)),
                }
            }
            if head.regions > 0 {
                let mut section = self.region_section(&mut b, head.isolated)?;
                self.module_body(section.as_mut().unwrap_or(&mut b))?;
            }
        }
        Ok(())
    }

    /// The regions of an op that sees no outer values stand in a section of their own.
    fn region_section(&self, b: &mut Bytes<'a>, isolated: bool) -> R<Option<Bytes<'a>>> {
        if !isolated || self.format < 2 {
            return Ok(None);
        }
        let (id, section) = b.section()?;
        if id == 4 { Ok(Some(section)) } else { b.damaged(format!("section {id} where regions were expected")) }
    }

    fn module_body(&mut self, b: &mut Bytes<'a>) -> R<()> {
        let blocks = b.varint()?;
        if blocks == 0 {
            return Ok(());
        }
        b.varint()?;
        let (n, arguments) = b.flagged()?;
        if blocks != 1 || arguments {
            return b.damaged("the module has other than one plain block");
        }
        for _ in 0..n {
            let head = self.head(b)?;
            // As in text: a mesh names devices for shardings, which are hints.
            if head.dialect == "sdy" && head.name == "mesh" && head.regions == 0 {
                continue;
            }
            let is_func = head.name == "func_v1" && head.dialect == "vhlo";
            if !is_func {
                return Err(Box::new(not_portable(&head)));
            }
            let mut section = if head.regions > 0 { self.region_section(b, head.isolated)? } else { None };
            self.func(head, section.as_mut().unwrap_or(b))?;
        }
        Ok(())
    }

    fn func(&mut self, head: Head, b: &mut Bytes<'a>) -> R<()> {
        let mut scope = Scope::default();
        let body = if head.regions > 0 { self.region(b, &mut scope)? } else { None };
        let mut f = Func {
            name: String::new(),
            public: true,
            external: body.is_none(),
            values: scope.values,
            arg_attrs: vec![],
            body: body.unwrap_or_default(),
            result_types: vec![],
            result_attrs: vec![],
            attrs: vec![],
            loc: head.loc,
            span: Span::NONE,
        };
        let dictionaries = |a: Attr| -> Vec<Attrs> {
            let Attr::Array(list) = a else { return vec![] };
            list.into_iter().map(|a| if let Attr::Dict(d) = a { d } else { vec![] }).collect()
        };
        let mut inputs = None;
        for (n, a) in head.attrs {
            match (n.as_str(), a) {
                ("sym_name", Attr::Str(s)) => f.name = s,
                ("sym_visibility", Attr::Str(s)) => f.public = s != "private",
                ("function_type", Attr::Type(Type::Function(i, o))) => {
                    inputs = Some(i);
                    f.result_types = o;
                }
                ("arg_attrs", a) => f.arg_attrs = dictionaries(a),
                ("res_attrs", a) => f.result_attrs = dictionaries(a),
                (_, a) => f.attrs.push((n, a)),
            }
        }
        if f.external {
            for ty in inputs.iter().flatten() {
                f.body.args.push(ValueId(f.values.len() as u32));
                f.values.push(Value { ty: ty.clone(), name: String::new(), loc: Loc::Unknown, span: Span::NONE });
            }
        }
        let found: Vec<&Type> = f.body.args.iter().map(|a| f.ty(*a)).collect();
        let results: Vec<&Type> = f.body.results.iter().map(|a| f.ty(*a)).collect();
        let takes = inputs.is_some_and(|i| i.iter().eq(found.iter().copied()));
        let gives = f.external || f.result_types.iter().eq(results.iter().copied());
        let agrees = takes && gives;
        if !agrees {
            let d = Diagnostic::error(
                "E0204",
                Span::NONE,
                format!("function `@{}`: its type and its body disagree", f.name),
            );
            self.errors.push(d);
        }
        f.arg_attrs.resize(f.body.args.len(), vec![]);
        f.result_attrs.resize(f.result_types.len(), vec![]);
        f.drop_shardings();
        if f.name.is_empty() {
            return b.damaged("a function without a name");
        }
        if self.program.func(&f.name).is_some() {
            self.errors.push(Diagnostic::error(
                "E0203",
                Span::NONE,
                format!("function `@{}` is defined twice", f.name),
            ));
        }
        self.program.funcs.push(f);
        Ok(())
    }

    fn head(&mut self, b: &mut Bytes<'a>) -> R<Head> {
        let i = b.varint()? as usize;
        let Some(op) = self.ops.get(i) else { return b.damaged(format!("op name {i} of {}", self.ops.len())) };
        let (dialect, name, registered) = (op.dialect.clone(), op.name.clone(), op.registered);
        let bits = b.byte()?;
        let loc = self.tables.loc(b)?;
        let mut attrs = vec![];
        if bits & mask::ATTRS != 0 {
            match self.tables.attr(b)? {
                Attr::Dict(d) => attrs = d,
                _ => return b.damaged("an op's attributes are not a dictionary"),
            }
        }
        if bits & mask::PROPERTIES != 0 {
            if registered {
                let i = b.varint()? as usize;
                let Some(p) = self.properties.get(i) else {
                    return b.damaged(format!("properties {i} of {}", self.properties.len()));
                };
                self.op_properties(&dialect, &name, p.clone(), &mut attrs)?;
            } else if let Attr::Dict(d) = self.tables.attr(b)? {
                attrs.extend(d);
            }
        }
        let mut head =
            Head { name, dialect, attrs, loc, results: vec![], operands: vec![], regions: 0, isolated: false };
        if bits & mask::RESULTS != 0 {
            let n = b.count()?;
            head.results = (0..n).map(|_| self.tables.ty(b)).collect::<R<_>>()?;
        }
        if bits & mask::OPERANDS != 0 {
            let n = b.count()?;
            head.operands = (0..n).map(|_| b.varint()).collect::<R<_>>()?;
        }
        if bits & mask::SUCCESSORS != 0 {
            return b.damaged("an op with successor blocks");
        }
        if bits & mask::USE_LISTS != 0 {
            self.skip_use_lists(b, head.results.len())?;
        }
        if bits & mask::REGIONS != 0 {
            let (n, isolated) = b.flagged()?;
            if n > b.remaining() as u64 {
                return b.damaged(format!("{n} regions are announced"));
            }
            (head.regions, head.isolated) = (n as usize, isolated);
        }
        Ok(head)
    }

    /// Orders of uses, which no compiler of ours looks at.
    fn skip_use_lists(&self, b: &mut Bytes, values: usize) -> R<()> {
        let n = if values > 1 { b.count()? } else { 1 };
        for _ in 0..n {
            if values > 1 {
                b.varint()?;
            }
            let (count, _) = b.flagged()?;
            if count > b.remaining() as u64 {
                return b.damaged("a list of uses is longer than the file");
            }
            for _ in 0..count {
                b.varint()?;
            }
        }
        Ok(())
    }

    fn op_properties(&self, dialect: &str, name: &str, mut p: Bytes, attrs: &mut Attrs) -> R<()> {
        match dialect {
            "builtin" => {
                for n in ["sym_name", "sym_visibility"] {
                    let (i, present) = p.flagged()?;
                    if present {
                        attrs.push((n.into(), self.tables.attr_at(i, &p)?));
                    }
                }
                Ok(())
            }
            "vhlo" => {
                let Some(names) = vhlo::properties(name) else {
                    return Err(Box::new(from_the_future(&format!("the op `vhlo.{name}`"))));
                };
                for n in names {
                    attrs.push((n.into(), self.tables.attr(&mut p)?));
                }
                Ok(())
            }
            // The op is refused by name when it is built.
            _ => Ok(()),
        }
    }

    /// `None` for a region without a block, as declarations have.
    fn region(&mut self, b: &mut Bytes<'a>, scope: &mut Scope) -> R<Option<Block>> {
        if self.depth >= DEEPEST {
            return b.damaged("regions are nested too deeply");
        }
        self.depth += 1;
        let mut block = Block::default();
        let blocks = b.varint()?;
        if blocks > 1 {
            return b.damaged("a region of more than one block");
        }
        if blocks == 1 {
            let defined = b.count()?;
            let mut next = scope.ids.len();
            let end = next + defined;
            scope.ids.resize(end, None);
            let (n, arguments) = b.flagged()?;
            if arguments {
                let args = self.block_arguments(b)?;
                let ids = self.define(scope, args, &mut next, end, b)?;
                block.args = ids;
            }
            for i in 0..n {
                let ended = self.op(b, scope, &mut block, &mut next, end)?;
                if ended != (i + 1 == n) {
                    return b.damaged("a return in the middle of a region, or none at its end");
                }
            }
            scope.ids.truncate(end - defined);
        }
        self.depth -= 1;
        Ok((blocks == 1).then_some(block))
    }

    fn block_arguments(&mut self, b: &mut Bytes) -> R<Vec<(Type, Loc)>> {
        let n = b.count()?;
        let mut args = vec![];
        for _ in 0..n {
            // Since format 4, unknown locations are left out.
            if self.format >= 4 {
                let (t, located) = b.flagged()?;
                let t = self.tables.ty_at(t, b)?;
                let loc = if located { self.tables.loc(b)? } else { Loc::Unknown };
                args.push((t, loc));
            } else {
                let t = self.tables.ty(b)?;
                args.push((t, self.tables.loc(b)?));
            }
        }
        if self.format >= 3 && b.byte()? != 0 {
            self.skip_use_lists(b, n)?;
        }
        Ok(args)
    }

    fn define(
        &self,
        scope: &mut Scope,
        list: Vec<(Type, Loc)>,
        next: &mut usize,
        end: usize,
        b: &Bytes,
    ) -> R<Vec<ValueId>> {
        let mut ids = vec![];
        for (ty, loc) in list {
            if *next >= end {
                return b.damaged("a region defines more values than it announces");
            }
            let id = ValueId(scope.values.len() as u32);
            scope.values.push(Value { ty, name: String::new(), loc, span: Span::NONE });
            scope.ids[*next] = Some(id);
            *next += 1;
            ids.push(id);
        }
        Ok(ids)
    }

    /// True for a return.
    fn op(&mut self, b: &mut Bytes<'a>, scope: &mut Scope, block: &mut Block, next: &mut usize, end: usize) -> R<bool> {
        let head = self.head(b)?;
        let mut operands = vec![];
        for o in &head.operands {
            match scope.ids.get(*o as usize).copied().flatten() {
                Some(v) => operands.push(v),
                None => return b.damaged(format!("value {o} is used before its definition")),
            }
        }
        if let ([v], [ty]) = (&operands[..], &head.results[..])
            && is_marker(&head)
            && scope.values[v.0 as usize].ty == *ty
            && *next < end
        {
            scope.ids[*next] = Some(*v);
            *next += 1;
            return Ok(false);
        }
        if head.dialect == "sdy" && head.name == "manual_computation" {
            return Err(Box::new(manual_computation()));
        }
        let mut regions = vec![];
        if head.regions > 0 {
            // Regions that see no outer values number their own from zero.
            let mut section = self.region_section(b, head.isolated)?;
            let outer = if head.isolated { std::mem::take(&mut scope.ids) } else { vec![] };
            for _ in 0..head.regions {
                let region = self.region(section.as_mut().unwrap_or(b), scope)?;
                regions.push(region.unwrap_or_default());
            }
            if head.isolated {
                scope.ids = outer;
            }
        }
        let (dialect, short) = match head.dialect.as_str() {
            "vhlo" => {
                let Some((short, version)) = head.name.rsplit_once("_v") else {
                    return Err(Box::new(not_portable(&head)));
                };
                if version.parse::<u32>().is_err() || vhlo::properties(&head.name).is_none() {
                    return Err(Box::new(from_the_future(&format!("the op `vhlo.{}`", head.name))));
                }
                ("stablehlo", short.to_string())
            }
            _ => return Err(Box::new(not_portable(&head))),
        };
        if short == "return" {
            block.results = operands;
            return Ok(true);
        }
        let results = head.results.into_iter().map(|t| (t, head.loc.clone())).collect();
        let results = self.define(scope, results, next, end, b)?;
        let mut attrs = head.attrs;
        drop_shardings(&mut attrs);
        vhlo::to_stablehlo(&short, &mut attrs);
        let name = if short == "call" { "func.call".into() } else { format!("{dialect}.{short}") };
        let raw = RawOp {
            name,
            name_span: Span::NONE,
            operands,
            operand_spans: vec![],
            results,
            attrs,
            attr_spans: vec![],
            regions,
            loc: head.loc,
            span: Span::NONE,
        };
        match build::op(raw, &scope.values) {
            Ok(op) => block.ops.push(op),
            Err(list) => self.errors.extend(list),
        }
        Ok(false)
    }
}

/// Sharding constraints, which are hints as in text, and the casts around them between VHLO's and the builtin types.
fn is_marker(h: &Head) -> bool {
    matches!(
        (h.dialect.as_str(), h.name.as_str()),
        ("sdy", "sharding_constraint") | ("builtin", "unrealized_conversion_cast")
    )
}

/// JAX writes none for a mesh of one device.
fn manual_computation() -> Diagnostic {
    Diagnostic::error("E0602", Span::NONE, "`sdy.manual_computation`, which `shard_map` over several devices becomes")
        .hint("a program is compiled for one device; export it with a mesh of one")
}

fn not_portable(h: &Head) -> Diagnostic {
    let d = Diagnostic::error(
        "E0503",
        Span::NONE,
        format!("`{}.{}` in bytecode that is no portable artifact", h.dialect, h.name),
    );
    d.hint(match h.dialect.as_str() {
        "stablehlo" | "func" | "chlo" => {
            "this is MLIR bytecode of the unstable dialects; write it with `stablehlo.serialize_portable_artifact`, or as text".into()
        }
        other => crate::text::other_dialect_hint(other),
    })
}

/// Ops of a block and of all regions inside.
pub(super) fn each_op(b: &Block, f: &mut impl FnMut(&Op)) {
    for op in &b.ops {
        f(op);
        op.regions.iter().for_each(|r| each_op(r, f));
    }
}
