//! The reader of portable artifacts: MLIR bytecode of the VHLO dialect, by the public documents "MLIR Bytecode Format" and
//! "StableHLO Bytecode". Every length in the file is checked before it is believed.

mod bytes;
mod encode;
mod ir;
mod lower;
mod tables;
pub(crate) mod vhlo;
mod write;

pub use write::{PORTABLE_VERSION, WRITTEN_VERSIONS, write_artifact};

use crate::{
    diag::{Diagnostic, Diagnostics, Source},
    tree::{Program, Span},
};
use bytes::{Bytes, R, damaged};
use ir::{Ir, OpName};
use tables::{Dialect, Entry, Tables};

/// Newest version of MLIR's bytecode that is read.
const FORMAT: u64 = 6;
/// What stands where a version stands, beyond this, is none.
const IMPLAUSIBLE: u64 = 1000;

/// First bytes of MLIR bytecode, `MLïR` in Latin-1.
pub(crate) const MAGIC: &[u8] = b"ML\xefR";

pub(crate) fn read(source: &Source) -> Result<Program, Diagnostics> {
    read_inner(&source.bytes).map_err(|list| Diagnostics::from(list).locate(source))
}

fn read_inner(file: &[u8]) -> Result<Program, Vec<Diagnostic>> {
    let fail = |e: Box<Diagnostic>| vec![*e];
    let mut b = Bytes::new(file, 0);
    b.take(MAGIC.len()).map_err(fail)?;
    let format = b.varint().map_err(fail)?;
    let producer = b.terminated().map_err(fail)?;
    let producer = String::from_utf8_lossy(producer).into_owned();
    check_version(&producer, format).map_err(fail)?;
    let sections = sections(&mut b).map_err(fail)?;
    let need = |id: usize, what: &str| match &sections[id] {
        Some(s) => Ok(s.clone()),
        None => Err(vec![*damaged(file.len(), format!("it has no section of {what}"))]),
    };
    let strings = strings(need(0, "strings")?).map_err(fail)?;
    let (dialects, ops) = dialects(need(1, "dialects")?, &strings, format).map_err(fail)?;
    let data = need(2, "attributes")?;
    let (attrs, types) = offsets(need(3, "offsets")?, &dialects, &data).map_err(fail)?;
    let properties = match &sections[8] {
        Some(s) => properties(s.clone()).map_err(fail)?,
        None => vec![],
    };
    let tables = Tables::new(data, strings, attrs, types);
    let mut ir = Ir::new(format, &tables, ops, properties);
    if let Err(e) = ir.read(need(4, "operations")?) {
        ir.errors.push(*e);
    }
    if ir.errors.is_empty() && ir.program.funcs.is_empty() {
        ir.errors.push(Diagnostic::error("E0101", Span::NONE, "no function in the file"));
    }
    if ir.errors.is_empty() {
        check_calls(&ir.program, &mut ir.errors);
    }
    if ir.errors.is_empty() { Ok(ir.program) } else { Err(ir.errors) }
}

fn check_version(producer: &str, format: u64) -> R<()> {
    let (a, b, c) = vhlo::NEWEST;
    if let Some(v) = producer.strip_prefix("StableHLO_v") {
        let parts: Vec<u32> = v.split('.').map_while(|p| p.parse().ok()).collect();
        if let [x, y, z] = parts[..] {
            if (x, y, z) > vhlo::NEWEST {
                return Err(Box::new(
                    Diagnostic::error("E0502", Span::NONE, format!("the artifact is of StableHLO {v}; this build reads up to {a}.{b}.{c}"))
                        .hint(format!("write it for that version: `serialize_portable_artifact(module, \"{a}.{b}.{c}\")`, or use a newer zmlc")),
                ));
            }
            let (p, q, r) = vhlo::OLDEST;
            if (x, y, z) < vhlo::OLDEST {
                return Err(Box::new(
                    Diagnostic::error(
                        "E0502",
                        Span::NONE,
                        format!("the artifact is of StableHLO {v}; compatibility starts with {p}.{q}.{r}"),
                    )
                    .hint("export the program again"),
                ));
            }
        }
    }
    if format > IMPLAUSIBLE {
        return Err(damaged(4, format!("{format} is no version of MLIR bytecode")));
    }
    if format > FORMAT {
        return Err(Box::new(
            Diagnostic::error(
                "E0502",
                Span::NONE,
                format!("MLIR bytecode version {format}; this build reads up to {FORMAT}"),
            )
            .hint("write it with an older MLIR, or use a newer zmlc"),
        ));
    }
    Ok(())
}

fn sections<'a>(b: &mut Bytes<'a>) -> R<[Option<Bytes<'a>>; 9]> {
    let mut list: [Option<Bytes>; 9] = Default::default();
    while !b.is_empty() {
        let (id, s) = b.section()?;
        match list.get_mut(id as usize) {
            Some(slot @ None) => *slot = Some(s),
            Some(Some(_)) => return b.damaged(format!("section {id} comes twice")),
            None => return b.damaged(format!("unknown section {id}")),
        }
    }
    Ok(list)
}

/// Lengths come last string first; each string ends in a zero byte.
fn strings(mut b: Bytes<'_>) -> R<Vec<&[u8]>> {
    let n = b.count()?;
    let lengths = (0..n).map(|_| b.varint()).collect::<R<Vec<_>>>()?;
    let mut list = vec![];
    for l in lengths.into_iter().rev() {
        if l == 0 || l > b.remaining() as u64 {
            return b.damaged(format!("a string of {l} bytes"));
        }
        let s = b.take(l as usize)?;
        list.push(&s[..s.len() - 1]);
    }
    Ok(list)
}

fn dialects(mut b: Bytes, strings: &[&[u8]], format: u64) -> R<(Vec<Dialect>, Vec<OpName>)> {
    let text = |i: u64, b: &Bytes| -> R<String> {
        match strings.get(i as usize) {
            Some(s) => Ok(String::from_utf8_lossy(s).into_owned()),
            None => b.damaged(format!("string {i} of {}", strings.len())),
        }
    };
    let n = b.count()?;
    let mut names = vec![];
    for _ in 0..n {
        let (name, versioned) = if format >= 1 { b.flagged()? } else { (b.varint()?, false) };
        names.push(text(name, &b)?);
        if versioned {
            b.section()?;
        }
    }
    if format >= 4 {
        // The number of ops, to reserve memory for.
        b.varint()?;
    }
    let mut ops = vec![];
    while !b.is_empty() {
        let d = b.varint()?;
        let Some(dialect) = names.get(d as usize).cloned() else { return b.damaged(format!("dialect {d} of {n}")) };
        let count = b.count()?;
        for _ in 0..count {
            let (name, registered) = if format >= 5 { b.flagged()? } else { (b.varint()?, true) };
            ops.push(OpName { dialect: dialect.clone(), name: text(name, &b)?, registered });
        }
    }
    let kinds = names
        .iter()
        .map(|n| match n.as_str() {
            "builtin" => Dialect::Builtin,
            "vhlo" => Dialect::Vhlo,
            "sdy" => Dialect::Sdy,
            _ => Dialect::Other,
        })
        .collect();
    Ok((kinds, ops))
}

fn offsets(mut b: Bytes, dialects: &[Dialect], data: &Bytes) -> R<(Vec<Entry>, Vec<Entry>)> {
    let (attrs, types) = (b.count()?, b.count()?);
    let mut at = 0usize;
    let mut lists = [vec![], vec![]];
    for (list, n) in lists.iter_mut().zip([attrs, types]) {
        while list.len() < n {
            let d = b.varint()?;
            let Some(dialect) = dialects.get(d as usize).copied() else {
                return b.damaged(format!("dialect {d} of {}", dialects.len()));
            };
            let count = b.count()?;
            for _ in 0..count {
                let (len, custom) = b.flagged()?;
                if len > (data.data.len() - at) as u64 {
                    return b.damaged("an attribute or type lies outside of its section");
                }
                list.push(Entry { dialect, at, len: len as usize, custom });
                at += len as usize;
            }
        }
        if list.len() != n {
            return b.damaged("the numbers of attributes and types disagree");
        }
    }
    let [attrs, types] = lists;
    Ok((attrs, types))
}

fn properties(mut b: Bytes<'_>) -> R<Vec<Bytes<'_>>> {
    let n = b.count()?;
    let mut list = vec![];
    for _ in 0..n {
        let len = b.count()?;
        let start = b.base + b.pos;
        list.push(Bytes::new(b.take(len)?, start));
    }
    Ok(list)
}

fn check_calls(p: &Program, errors: &mut Vec<Diagnostic>) {
    for f in &p.funcs {
        ir::each_op(&f.body, &mut |op| {
            if let crate::tree::OpKind::Call { callee } = &op.kind
                && p.func(callee).is_none()
            {
                errors.push(Diagnostic::error(
                    "E0205",
                    Span::NONE,
                    format!("no function `@{callee}`, called in `@{}`", f.name),
                ));
            }
        });
    }
}
