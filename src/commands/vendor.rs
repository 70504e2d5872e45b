//! `zmlc vendor add|list|update`: the sources of vendor libraries in model.toml, and the lock file that pins them.

use super::package::failure;
use crate::{
    args::{Vendor, VendorAdd, VendorList, VendorUpdate},
    artifact::write_file,
    codes,
    failure::Failure,
    model::{Gemm, Model},
    printer::Printer,
    vendor,
};
use serde_json::json;
use std::collections::BTreeSet;
use toml_edit::{Array, DocumentMut, Item, Table, value};
use zmlc_package::{
    PackageError,
    vendor::{Cache, Lock, Locked, Root, Unpacked, closure, resolve},
};

pub fn run(args: &Vendor, printer: Printer) -> Result<(), Failure> {
    match args {
        Vendor::Add(a) => add(a, printer),
        Vendor::List(a) => list(a, printer),
        Vendor::Update(a) => update(a, printer),
    }
}

/// Adds to model.toml what is not there, and pins it. Nothing is written if one source cannot be had.
fn add(args: &VendorAdd, printer: Printer) -> Result<(), Failure> {
    let model = Model::read(&args.model)?;
    let text = std::fs::read_to_string(&args.model).map_err(|e| Failure::file(&args.model, "read", &e))?;
    let mut document: DocumentMut =
        text.parse().map_err(|e| Failure::bug(format!("model.toml was read before: {e}")))?;
    let section = table(&mut document, &args.target)?;
    extend(section, "from", &args.source)?;
    extend(section, "libraries", &args.library)?;
    if args.trim_proprietary {
        section.insert("trim-proprietary", value(true));
    }
    let edited = document.to_string();
    let cache = Cache::from_environment().map_err(|e| failure(&e))?;
    let mut lock = vendor::lock(&model)?;
    let pinned = fetch(&model, &args.source, &cache, printer)?;
    let changes = put(&mut lock, &pinned);
    find_libraries(&model, args, &lock, &cache)?;
    record(&model, &lock, &pinned, &changes, printer)?;
    write_file(&args.model, edited.as_bytes())?;
    // What was just written has to read back, its target included.
    Model::read(&args.model).map(drop)
}

/// `[package.vendor.TARGET]`, made if it is not there.
fn table<'d>(document: &'d mut DocumentMut, target: &str) -> Result<&'d mut Table, Failure> {
    if !crate::targets::all().iter().any(|t| t.name() == target) {
        return Err(Failure::Usage(format!("there is no target `{target}`; `zmlc targets` lists them")));
    }
    let inline = || Failure::input(codes::MODEL, "[package.vendor] is written inline; write it as tables to add to it");
    let mut at = document.as_table_mut();
    for name in ["package", "vendor", target] {
        let is_new = !at.contains_key(name);
        let item = at.entry(name).or_insert_with(|| Item::Table(Table::new()));
        at = item.as_table_mut().ok_or_else(inline)?;
        if is_new && name != target {
            at.set_implicit(true);
        }
    }
    Ok(at)
}

fn extend(section: &mut Table, key: &str, new: &[String]) -> Result<(), Failure> {
    if new.is_empty() && key != "from" {
        return Ok(());
    }
    let item = section.entry(key).or_insert_with(|| value(Array::new()));
    let array = item.as_array_mut().ok_or_else(|| Failure::bug(format!("{key} was read as a list before")))?;
    for n in new {
        if !array.iter().any(|v| v.as_str() == Some(n)) {
            array.push(n);
        }
    }
    Ok(())
}

/// Refuses libraries that no source of the target has. Sources that are not pinned yet might have them.
fn find_libraries(model: &Model, args: &VendorAdd, lock: &Lock, cache: &Cache) -> Result<(), Failure> {
    let mut section = model.file.package.vendor.get(&args.target).cloned().unwrap_or_default();
    section.from.extend(args.source.iter().filter(|s| !section.from.contains(s)).cloned().collect::<Vec<_>>());
    for from in &section.from {
        if lock.find(&vendor::source(from)?).is_none() {
            return Ok(());
        }
    }
    let root = |name: &String| Root { name: name.clone(), asked_by: "--library".into() };
    let roots: Vec<Root> = args.library.iter().map(root).collect();
    let sources = vendor::sources(model, &section, lock, vendor::architecture(), cache)?;
    let mut missing = closure(&sources, &roots, vendor::architecture()).missing;
    missing.retain(|m| roots.iter().any(|r| r.name == m.name));
    if missing.is_empty() {
        return Ok(());
    }
    Err(failure(&PackageError::VendorMissing { target: args.target.clone(), missing }))
}

/// Sources as they are now.
fn fetch(model: &Model, sources: &[String], cache: &Cache, printer: Printer) -> Result<Vec<Locked>, Failure> {
    let folder = model.locate("".as_ref());
    let mut pinned = vec![];
    for from in sources {
        printer.note(&format!("fetching {from}"));
        let from = vendor::source(from)?;
        pinned.push(resolve(&from, &folder, vendor::architecture(), cache).map_err(|e| failure(&e))?);
    }
    Ok(pinned)
}

/// Puts what was fetched into the lock, and says what changed.
fn put(lock: &mut Lock, pinned: &[Locked]) -> String {
    let mut text = String::new();
    for p in pinned {
        let changed = lock.sources.iter().find(|s| s.from == p.from);
        let was = match changed {
            Some(old) if old.sha256 == p.sha256 => " (unchanged)".to_string(),
            Some(old) => format!(" (was {})", if old.version == p.version { &old.sha256 } else { &old.version }),
            None => String::new(),
        };
        text.push_str(&format!("{} {} {}{was}\n", p.name, p.version, p.sha256));
        lock.put(p.clone());
    }
    text
}

fn record(model: &Model, lock: &Lock, pinned: &[Locked], changes: &str, printer: Printer) -> Result<(), Failure> {
    let path = Lock::beside(&model.path);
    lock.write(&path).map_err(|e| failure(&e))?;
    printer.result(changes, &json!({"lock": path, "pinned": pinned}));
    Ok(())
}

/// Pins anew what is named, or everything; what model.toml no longer names leaves the lock file.
fn update(args: &VendorUpdate, printer: Printer) -> Result<(), Failure> {
    let model = Model::read(&args.model)?;
    let all: BTreeSet<&String> = model.file.package.vendor.values().flat_map(|s| &s.from).collect();
    if let Some(unknown) = args.source.iter().find(|s| !all.contains(s)) {
        return Err(Failure::Usage(format!("[package.vendor] has no source `{unknown}`")));
    }
    let named: Vec<String> =
        if args.source.is_empty() { all.iter().copied().cloned().collect() } else { args.source.clone() };
    let cache = Cache::from_environment().map_err(|e| failure(&e))?;
    let mut lock = vendor::lock(&model)?;
    let pinned = fetch(&model, &named, &cache, printer)?;
    lock.sources.retain(|s| all.contains(&s.from));
    let changes = put(&mut lock, &pinned);
    record(&model, &lock, &pinned, &changes, printer)
}

/// For each target: sources, what goes into a package and what does not, what the host has to bring, what is missing.
fn list(args: &VendorList, printer: Printer) -> Result<(), Failure> {
    let model = Model::read(&args.model)?;
    let cache = Cache::from_environment().map_err(|e| failure(&e))?;
    let lock = vendor::lock(&model)?;
    let (mut text, mut json) = (String::new(), vec![]);
    let mut sections = model.file.package.vendor.clone();
    let calling: Vec<&String> =
        model.file.targets.iter().filter(|(_, t)| t.gemm == Gemm::Library).map(|(name, _)| name).collect();
    for target in &calling {
        sections.entry((*target).clone()).or_default();
    }
    for (target, section) in &sections {
        let sources = vendor::sources(&model, section, &lock, vendor::architecture(), &cache)?;
        let (t, j) = describe(target, &vendor::roots(target, section, calling.contains(&target)), &sources);
        text.push_str(&t);
        json.push(j);
    }
    printer.result(&text, &json!({"targets": json}));
    Ok(())
}

fn describe(target: &str, roots: &[Root], sources: &[Unpacked]) -> (String, serde_json::Value) {
    let needed = closure(sources, roots, vendor::architecture());
    let mut text = format!("{target}\n");
    let mut listed = vec![];
    for s in sources {
        let licence = if s.licence.name.is_empty() { "no licence named" } else { &s.licence.name };
        let rule = if s.licence.may_be_changed { "may be changed" } else { "may not be changed" };
        text.push_str(&format!("  {} {}, {licence}: {rule}\n", s.name, s.version));
        let mut libraries = vec![];
        for l in &s.libraries {
            let goes_in = needed.libraries.get(l.name.as_str()).is_some_and(|(_, n)| n.sha256 == l.sha256);
            text.push_str(&format!("    {} {:<44} {:>12} bytes\n", if goes_in { "+" } else { " " }, l.name, l.bytes));
            libraries.push(json!({"name": l.name, "bytes": l.bytes, "sha256": l.sha256, "goes_in": goes_in}));
        }
        listed.push(json!({
            "name": s.name, "version": s.version, "licence": s.licence.name,
            "may_be_changed": s.licence.may_be_changed, "libraries": libraries,
        }));
    }
    for (what, names) in [("the driver", &needed.driver), ("the base system", &needed.system)] {
        if !names.is_empty() {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            text.push_str(&format!("  left to {what}: {}\n", names.join(", ")));
        }
    }
    for m in &needed.missing {
        text.push_str(&format!("  missing: {}, needed by {}\n", m.name, m.needed_by));
    }
    let missing: Vec<_> = needed.missing.iter().map(|m| json!({"name": m.name, "needed_by": m.needed_by})).collect();
    let json = json!({
        "target": target, "sources": listed, "driver": needed.driver, "system": needed.system, "missing": missing,
    });
    (text, json)
}
