//! Proves of a module after fuse:
//!
//! 1. An entry holds calls of dispatches, control flow and its glue, non-splat constants and buffers to fill, nothing else.
//! 2. A dispatch holds level 1 ops only, no non-splat constant, and no op without a reader.
//! 3. Its arguments are tensors, each read; its results are values of ops, no two the same.
//! 4. `zml.alias` names, for each result or -1, an argument that the defining update writes into and nothing else reads.
//! 5. All results have as many elements as the hero says (loop: all alike; reduce: a multiple of the rows; matmul: the
//!    contraction's; scan: the scan's; attention: the weighted sum's, or the rows' if it is a part), counting an update for
//!    a result in place.
//! 6. Every read of a heavy op is at the element's or row's own index.
//! 7. reduce has a heavy op, and each has one element a row of one of its spaces, or one in all; matmul has exactly one, a
//!    contraction with m and n.
//! 8. library is matmul with nothing but reshapes around the contraction, which is one that a library does.
//! 9. Not more buffers than the profile allows. Where it has `addresses`, an op that reads more by itself may have them.

use super::{
    attention::{self, Attention},
    group::{Grouper, Hero},
    library,
    view::{Kind, Op, View},
};
use crate::{gemm::Gemm, ir::*, pass::PassError, rows::Rows, spec::DeviceSpec};
use std::collections::BTreeSet;

pub fn check(top: Blk, spec: &DeviceSpec) -> Result<(), PassError> {
    for op in ops(top).into_iter().filter(|o| name(*o) == "func.func") {
        let symbol = str_attr(op, "sym_name").unwrap_or_default();
        let held = if has_attr(op, "zml.dispatch") { dispatch(op, spec) } else { entry(block(op, 0)) };
        held.map_err(|e| PassError::Bug(format!("{symbol}: {e}")))?;
        buffers(op, spec)?;
    }
    Ok(())
}
/// Groups keep to the profile's number; an op alone may need more.
fn buffers(op: O, spec: &DeviceSpec) -> Result<(), PassError> {
    if !has_attr(op, "zml.dispatch") || spec.max_buffers == 0 || spec.addresses {
        return Ok(());
    }
    let aliased = i64s_attr(op, "zml.alias").unwrap_or_default().iter().filter(|a| **a >= 0).count();
    let results = ops(block(op, 0)).pop().map_or(0, |ret| operands(ret).len());
    let count = args(block(op, 0)).len() - aliased + results;
    if count <= spec.max_buffers as usize {
        return Ok(());
    }
    let label = str_attr(op, "zml.label").unwrap_or_default();
    Err(PassError::Unsupported {
        what: format!("{label} needs {count} buffers, more than the {} of the profile {}", spec.max_buffers, spec.name),
        hint: "give it fewer operands".into(),
    })
}
fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

fn entry(b: Blk) -> Result<(), String> {
    for op in ops(b) {
        let n = name(op);
        let stays = n.starts_with("func.")
            || n.starts_with("scf.")
            || n == "tensor.empty"
            || n.starts_with("arith.")
            || n == "tensor.extract";
        ensure(stays, || format!("{n} is in no dispatch"))?;
        if n.starts_with("scf.") {
            for region in 0..op.region_count() {
                entry(block(op, region))?;
            }
        }
    }
    Ok(())
}

fn dispatch(func: O, spec: &DeviceSpec) -> Result<(), String> {
    let body = block(func, 0);
    let view = View::of(body);
    let Some((ret, inner)) = view.nodes.split_last() else { return Err("is empty".into()) };
    for n in inner {
        let what = name(n.op);
        ensure(n.kind != Kind::Host, || format!("holds {what}"))?;
        let read = n.results.iter().any(|v| !view.values[*v].readers.is_empty());
        ensure(read, || format!("the value of {what} is not read"))?;
    }
    for a in args(body) {
        ensure(is_tensor(a.r#type()), || "an argument is no tensor".into())?;
        ensure(!uses(a).is_empty(), || "an argument is not read".into())?;
    }
    let defs: Option<Vec<usize>> = ret.reads.iter().map(|v| view.values[*v].def).collect();
    let Some(defs) = defs else { return Err("a result is an argument".into()) };
    ensure(ret.op.operand_count() == ret.reads.len(), || "two results are one value".into())?;
    alias(func, &view, &ret.reads)?;

    let heavies: BTreeSet<usize> = (0..inner.len()).filter(|n| view.nodes[*n].kind.heavy()).collect();
    let first = view.elements(*defs.first().ok_or("has no results")?);
    let one = |n: i64| vec![Rows::plain(n)];
    let mut whole = None;
    let (hero, spaces) = match str_attr(func, "zml.hero") {
        Some("loop") => (Hero::Loop, one(first)),
        Some("reduce") => (Hero::Reduce, Rows::of(func).ok_or("has no zml.rows, or zml.orbits do not fit them")?),
        Some(hero @ ("attention" | "tiled-attention")) => {
            let mut f = Grouper::new(&view, usize::MAX);
            f.spec = Some(spec);
            let found = attention::find(&f);
            let [a]: [Attention; 1] = found.try_into().map_err(|_| "is not one attention")?;
            ensure(a.is_tiled == (hero == "tiled-attention"), || format!("is no {hero}"))?;
            let rows = a.is_part.then(|| Rows::plain(view.elements(a.max)));
            let spaces = one(view.elements(a.out)).into_iter().chain(rows).collect();
            let hero = if a.is_tiled { Hero::TiledAttention } else { Hero::Attention };
            whole = Some(a);
            (hero, spaces)
        }
        Some("scan") => (Hero::Scan, one(heavies.first().map_or(0, |h| view.elements(*h)))),
        Some("library") => {
            ensure(inner.iter().any(|n| Gemm::of(n.op).is_ok()), || "is no product that a library does".into())?;
            (Hero::Library, one(heavies.first().map_or(0, |h| view.elements(*h))))
        }
        Some("matmul") => (Hero::Matmul, one(heavies.first().map_or(0, |h| view.elements(*h)))),
        Some(z) => return ensure(inner.iter().any(|n| name(n.op) == z), || format!("the hero {z} is unknown")),
        None => return Err("has no zml.hero".into()),
    };
    for d in &defs {
        let n = view.elements(*d);
        let fits = |rows: i64| if hero == Hero::Reduce { n == 0 || (rows > 0 && n % rows == 0) } else { n == rows };
        ensure(spaces.iter().any(|s| fits(s.count)), || {
            let rows: Vec<String> = spaces.iter().map(|s| s.count.to_string()).collect();
            format!("a result of {n} elements in a group of {}", rows.join(", "))
        })?;
    }
    let one_contraction = heavies.len() == 1 && heavies.iter().all(|h| view.nodes[*h].kind == Kind::Contraction);
    let one_scan = heavies.len() == 1 && heavies.iter().all(|h| view.nodes[*h].kind == Kind::Scan);
    ensure(hero != Hero::Scan || one_scan, || "does not have exactly one scan".into())?;
    ensure(hero != Hero::Matmul || one_contraction, || "does not have exactly one contraction".into())?;
    ensure(hero != Hero::Library || heavies.len() == 1, || "does not have exactly one product".into())?;

    let computes = |n: &Op| n.kind == Kind::Map && !library::is_reshape(n.op);
    ensure(hero != Hero::Library || !inner.iter().any(computes), || "computes more than a library does".into())?;
    let mut f = Grouper::new(&view, usize::MAX);
    let many = hero == Hero::Reduce && spaces.iter().all(|s| s.count > 1);
    let g = f.open(hero, first, String::new());
    f.groups[g].spaces = spaces.clone();
    let (before, heavies): (BTreeSet<usize>, BTreeSet<usize>) =
        heavies.into_iter().partition(|h| many && view.elements(*h) == 1);
    before.iter().for_each(|h| f.prologue[*h] = true);
    let mut heavies = heavies;
    if let Some(a) = whole {
        ensure(heavies.iter().all(|h| *h == a.out || a.inner.contains(h)), || "reduces more than an attention".into())?;
        a.inner.iter().for_each(|n| f.inner[*n] = true);
        heavies = BTreeSet::from([a.out]);
    }
    ensure(hero != Hero::Reduce || !heavies.is_empty(), || "reduces nothing in rows".into())?;
    let members: BTreeSet<usize> = heavies.iter().chain(&defs).copied().collect();
    for m in &members {
        f.group_of[*m] = Some(g);
    }
    f.groups[g].members = members.iter().copied().collect();
    for m in &members {
        let n = view.elements(*m);
        let mine =
            spaces.iter().filter(|s| if heavies.contains(m) { n == s.count } else { s.count == 0 || n % s.count == 0 });
        let mut held = Err(format!("{} has not one value a row", name(view.nodes[*m].op)));
        for rows in mine {
            held = f.cone(*m, Some(g), *rows).map_err(|stop| format!("{} {stop}", name(view.nodes[*m].op)));
            if held.is_ok() {
                break;
            }
        }
        held?;
    }
    Ok(())
}

/// Checks `zml.alias`.
fn alias(func: O, view: &View, results: &[usize]) -> Result<(), String> {
    let alias = i64s_attr(func, "zml.alias").ok_or("has no zml.alias")?;
    ensure(alias.len() == results.len(), || "zml.alias has not one entry a result".into())?;
    let arguments = args(block(func, 0));
    for (a, v) in alias.iter().zip(results) {
        let update = view.values[*v].def.and_then(|d| view.updates(d));
        if *a == -1 {
            ensure(update.is_none(), || "an update is not in place".into())?;
            continue;
        }
        let argument = usize::try_from(*a).ok().and_then(|a| arguments.get(a)).ok_or("zml.alias names no argument")?;
        let written = update.is_some_and(|u| key(view.values[u].value) == key(*argument));
        ensure(written, || "a result is not an update of the argument that it aliases".into())?;
        ensure(uses(*argument).len() == 1, || "an argument that is written in place is read too".into())?;
    }
    Ok(())
}
