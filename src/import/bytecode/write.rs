//! The writer of portable artifacts: VHLO at its newest version, in MLIR bytecode version 6. Other readers of StableHLO and
//! our own take it back to the same tree. Locations are kept where they are names.

use super::{
    FORMAT, MAGIC,
    encode::{Dialect, Encoder, NoForm, R, flagged, varint},
    lower, vhlo,
};
use crate::{
    composite::without_chlo,
    diag::Diagnostic,
    tree::{Attr, Attrs, Block, Func, Loc, Op, Program, Span, Type, ValueId},
    unbuild,
};
use std::collections::HashMap;

/// The version that every reader of the last years takes.
pub const PORTABLE_VERSION: (u32, u32) = (1, 10);

/// The oldest and the newest version that artifacts can be written for.
pub const WRITTEN_VERSIONS: ((u32, u32), (u32, u32)) = ((1, 0), (vhlo::NEWEST.0, vhlo::NEWEST.1));

/// The program as a portable artifact of a version from 1.0 to the newest. Fails if something in it has no stable form in
/// that version: chlo's ops of dynamic shapes (others become composites), attributes of other dialects' own kinds, newer ops and types.
pub fn write_artifact(p: &Program, version: (u32, u32)) -> Result<Vec<u8>, Vec<Diagnostic>> {
    let (oldest, newest) = WRITTEN_VERSIONS;
    let (a, b) = newest;
    if !(oldest..=newest).contains(&version) {
        let m = format!("cannot write StableHLO {}.{}", version.0, version.1);
        return Err(vec![
            Diagnostic::error("E0502", Span::NONE, m).hint(format!("versions 1.0 to {a}.{b} are written")),
        ]);
    }
    let p = &*without_chlo(p)?;
    let mut w = Writer {
        version,
        e: Encoder::new(version),
        ops: vec![],
        op_index: HashMap::new(),
        properties: vec![],
        errors: vec![],
    };
    let ir = w.module(p);
    if !w.errors.is_empty() {
        return Err(w.errors);
    }
    let (a, b) = version;
    let mut out = MAGIC.to_vec();
    varint(&mut out, FORMAT);
    out.extend_from_slice(format!("StableHLO_v{a}.{b}.0\0").as_bytes());
    // Dialects first: their names are strings too.
    let dialects = w.dialects();
    let (data, offsets) = w.e.table_sections(|d| match d {
        Dialect::Builtin => 0,
        Dialect::Vhlo => 1,
    });
    let mut properties = vec![];
    varint(&mut properties, w.properties.len() as u64);
    for p in &w.properties {
        varint(&mut properties, p.len() as u64);
        properties.extend_from_slice(p);
    }
    for (id, content) in [(0, w.e.strings_section()), (1, dialects), (2, data), (3, offsets), (4, ir), (8, properties)]
    {
        section(&mut out, id, &content);
    }
    Ok(out)
}

fn section(out: &mut Vec<u8>, id: u8, content: &[u8]) {
    out.push(id);
    varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

struct Writer {
    version: (u32, u32),
    e: Encoder,
    /// Dialect and name, in the order of their numbers.
    ops: Vec<(Dialect, String)>,
    op_index: HashMap<(Dialect, String), u64>,
    properties: Vec<Vec<u8>>,
    errors: Vec<Diagnostic>,
}

/// Numbers of the values that a function's regions see.
struct Numbers<'a> {
    f: &'a Func,
    of: HashMap<ValueId, u64>,
    /// How many numbers are taken.
    len: u64,
}

impl Writer {
    fn op_name(&mut self, dialect: Dialect, name: &str) -> u64 {
        let key = (dialect, name.to_string());
        if let Some(i) = self.op_index.get(&key) {
            return *i;
        }
        self.ops.push(key.clone());
        let i = self.ops.len() as u64 - 1;
        self.op_index.insert(key, i);
        i
    }

    fn dialects(&mut self) -> Vec<u8> {
        let mut out = vec![];
        varint(&mut out, 2);
        for name in ["builtin", "vhlo"] {
            let s = self.e.string(name);
            flagged(&mut out, s, false);
        }
        varint(&mut out, self.ops.len() as u64);
        let ops = std::mem::take(&mut self.ops);
        for run in ops.chunk_by(|a, b| a.0 == b.0) {
            varint(&mut out, if run[0].0 == Dialect::Builtin { 0 } else { 1 });
            varint(&mut out, run.len() as u64);
            for (_, name) in run {
                let s = self.e.string(name);
                flagged(&mut out, s, true);
            }
        }
        out
    }

    fn failed(&mut self, span: Span, what: &NoForm) {
        let d = Diagnostic::error("E0602", span, format!("{} has no form in portable artifacts", what.0)).label("here");
        self.errors.push(d.hint("write the program as text"));
    }

    /// Numbers attributes as an op's properties.
    fn property_list(&mut self, list: &[(&str, Attr)]) -> R<u64> {
        let mut b = vec![];
        for (name, a) in list {
            let i = match a {
                Attr::Array(l) if crate::print::is_layouts(name) => self.e.layouts(l)?,
                _ => self.e.attr(a)?,
            };
            varint(&mut b, i);
        }
        self.properties.push(b);
        Ok(self.properties.len() as u64 - 1)
    }

    fn module(&mut self, p: &Program) -> Vec<u8> {
        let mut out = vec![];
        // One op, no arguments.
        flagged(&mut out, 1, false);
        let name = self.op_name(Dialect::Builtin, "module");
        let loc = self.e.unknown_loc();
        varint(&mut out, name);
        let mut mask = 64 | 16;
        if !p.attrs.is_empty() {
            mask |= 1;
        }
        out.push(mask);
        varint(&mut out, loc);
        if !p.attrs.is_empty() {
            let i = self.e.builtin_dict(&p.attrs);
            varint(&mut out, i);
        }
        // Its name and visibility, each optional.
        let mut b = vec![];
        match &p.name {
            Some(n) => {
                let n = self.e.builtin_string(n);
                flagged(&mut b, n, true);
            }
            None => flagged(&mut b, 0, false),
        }
        flagged(&mut b, 0, false);
        self.properties.push(b);
        varint(&mut out, self.properties.len() as u64 - 1);
        // One region, which sees no outer values, with one block that defines none.
        flagged(&mut out, 1, true);
        let mut body = vec![];
        varint(&mut body, 1);
        varint(&mut body, 0);
        flagged(&mut body, p.funcs.len() as u64, false);
        for f in &p.funcs {
            self.func(&mut body, f);
        }
        section(&mut out, 4, &body);
        out
    }

    fn func(&mut self, out: &mut Vec<u8>, f: &Func) {
        let inputs: Vec<Type> = f.body.args.iter().map(|v| f.ty(*v).clone()).collect();
        let dicts = |l: &[Attrs]| {
            let plain = l.iter().all(Attrs::is_empty);
            Attr::Array(if plain { vec![] } else { l.iter().cloned().map(Attr::Dict).collect() })
        };
        let list = [
            ("arg_attrs", dicts(&f.arg_attrs)),
            ("function_type", Attr::Type(Type::Function(inputs, f.result_types.clone()))),
            ("res_attrs", dicts(&f.result_attrs)),
            ("sym_name", Attr::Str(f.name.clone())),
            ("sym_visibility", Attr::Str(if f.public { "public".into() } else { "private".into() })),
        ];
        let name = self.op_name(Dialect::Vhlo, "func_v1");
        let loc = self.e.unknown_loc();
        varint(out, name);
        out.push(64 | 16 | u8::from(!f.attrs.is_empty()));
        varint(out, loc);
        let r = (|| {
            if !f.attrs.is_empty() {
                let d = self.e.op_dict(&f.attrs)?;
                varint(out, d);
            }
            let p = self.property_list(&list)?;
            varint(out, p);
            Ok(())
        })();
        if let Err(e) = r {
            self.failed(f.span, &e);
        }
        flagged(out, 1, true);
        let mut body = vec![];
        if f.external {
            varint(&mut body, 0);
        } else {
            let mut n = Numbers { f, of: HashMap::new(), len: 0 };
            self.region(&mut body, &mut n, &f.body);
        }
        section(out, 4, &body);
    }

    fn region(&mut self, out: &mut Vec<u8>, n: &mut Numbers, b: &Block) {
        let mut next = n.len;
        for v in b.args.iter().chain(b.ops.iter().flat_map(|op| &op.results)) {
            n.of.insert(*v, next);
            next += 1;
        }
        let defined = next - n.len;
        n.len = next;
        varint(out, 1);
        varint(out, defined);
        flagged(out, b.ops.len() as u64 + 1, !b.args.is_empty());
        if !b.args.is_empty() {
            varint(out, b.args.len() as u64);
            for v in &b.args {
                let t = match self.e.ty(n.f.ty(*v)) {
                    Ok(t) => t,
                    Err(e) => {
                        self.failed(n.f.values[v.0 as usize].span, &e);
                        0
                    }
                };
                match n.f.values[v.0 as usize].loc.name() {
                    Some(name) => {
                        flagged(out, t, true);
                        let loc = self.e.name_loc(name);
                        varint(out, loc);
                    }
                    None => flagged(out, t, false),
                }
            }
            // No order of uses.
            out.push(0);
        }
        for op in &b.ops {
            if let Err(e) = self.op(out, n, op) {
                self.failed(op.span, &e);
            }
        }
        let name = self.op_name(Dialect::Vhlo, "return_v1");
        let loc = self.e.unknown_loc();
        varint(out, name);
        out.push(if b.results.is_empty() { 0 } else { 4 });
        varint(out, loc);
        if !b.results.is_empty() {
            operands(out, n, &b.results);
        }
        n.len -= defined;
    }

    fn op(&mut self, out: &mut Vec<u8>, n: &mut Numbers, op: &Op) -> R<()> {
        let full = unbuild::name(&op.kind);
        let short = match full.split_once('.') {
            Some(("stablehlo", s)) => s,
            _ if full == "func.call" => "call",
            _ => return Err(NoForm(format!("`{full}`"))),
        };
        let Some(name) = lower::op_of(short, self.version) else {
            return Err(NoForm(format!("`{full}`")));
        };
        let mut attrs = unbuild::attrs(op);
        lower::from_stablehlo(short, &mut attrs);
        let wanted = vhlo::properties(name).unwrap_or_default();
        let mut list = vec![];
        for w in &wanted {
            let own = attrs.iter().position(|(n, _)| n == w).map(|i| attrs.remove(i).1);
            let a =
                own.or_else(|| lower::default(short, w)).ok_or_else(|| NoForm(format!("`{full}` without `{w}`")))?;
            list.push((*w, a));
        }
        // What an older op has no property for may only be what it means anyway.
        for (n, a) in &attrs {
            let same = |o: &&(&str, &str, &str)| o.0.rsplit_once("_v").is_some_and(|(s, _)| s == short);
            let known = vhlo::OPS.iter().filter(same).any(|o| o.2.split(' ').any(|p| p == n));
            let empty = matches!(a, Attr::Ints(_, v) if v.is_empty());
            if known && !empty {
                return Err(NoForm(format!("`{n}` of `{full}`")));
            }
        }
        attrs.retain(|(_, a)| !matches!(a, Attr::Ints(_, v) if v.is_empty()));
        let loc = match &op.loc {
            Loc::Unknown => self.e.unknown_loc(),
            l => match l.name() {
                Some(name) => self.e.name_loc(name),
                None => self.e.unknown_loc(),
            },
        };
        let number = self.op_name(Dialect::Vhlo, name);
        varint(out, number);
        let bit = |on: bool, v: u8| if on { v } else { 0 };
        out.push(
            bit(!attrs.is_empty(), 1)
                | bit(!op.results.is_empty(), 2)
                | bit(!op.operands.is_empty(), 4)
                | bit(!op.regions.is_empty(), 16)
                | bit(!wanted.is_empty(), 64),
        );
        varint(out, loc);
        if !attrs.is_empty() {
            let d = self.e.op_dict(&attrs)?;
            varint(out, d);
        }
        if !wanted.is_empty() {
            let p = self.property_list(&list)?;
            varint(out, p);
        }
        if !op.results.is_empty() {
            varint(out, op.results.len() as u64);
            for r in &op.results {
                let t = self.e.ty(n.f.ty(*r))?;
                varint(out, t);
            }
        }
        if !op.operands.is_empty() {
            operands(out, n, &op.operands);
        }
        if !op.regions.is_empty() {
            flagged(out, op.regions.len() as u64, false);
            for r in &op.regions {
                self.region(out, n, r);
            }
        }
        Ok(())
    }
}

fn operands(out: &mut Vec<u8>, n: &Numbers, list: &[ValueId]) {
    varint(out, list.len() as u64);
    for v in list {
        varint(out, n.of.get(v).copied().unwrap_or(0));
    }
}
