//! Which entry a caller means. Of a program with dynamic dimensions it is one of several specialisations, chosen by exact
//! match of sizes or of the shapes of the inputs, and by nothing else.

use crate::error::{Error, Result};
use std::fmt::Write;
use zml_format::{Dim, Entry, Manifest, Tensor, sizes};

/// The specialisations of the entry `name`, of which there is one if nothing is dynamic; without a name those of the only
/// entry. A name with sizes, `main[batch=8]`, is that one alone.
pub fn specialisations<'a>(m: &'a Manifest, name: Option<&str>) -> Result<Vec<&'a Entry>> {
    let mut groups = m.by_name();
    let all = |groups: &[Vec<&Entry>]| groups.iter().map(|g| g[0].name.as_str()).collect::<Vec<_>>().join(", ");
    let model = &m.model.name;
    let Some(name) = name else {
        return match groups.len() {
            1 => Ok(groups.swap_remove(0)),
            _ => Err(Error::Input(format!("`{model}` has several entries, name one of: {}", all(&groups)))),
        };
    };
    if let Some(at) = groups.iter().position(|g| g[0].name == name) {
        return Ok(groups.swap_remove(at));
    }
    match m.entries.iter().find(|e| e.id() == name) {
        Some(e) => Ok(vec![e]),
        None => Err(Error::Input(format!("no entry `{name}`; `{model}` has: {}", all(&groups)))),
    }
}

/// The entry of this name or, as `main[batch=8]`, of this name and these sizes; without a name the only one.
pub fn find_entry<'a>(m: &'a Manifest, name: Option<&str>) -> Result<&'a Entry> {
    match specialisations(m, name)?[..] {
        [only] => Ok(only),
        ref several => Err(Error::Input(format!(
            "entry `{}` {}: choose by the shapes of the inputs, or name one, `{}`",
            several[0].name,
            built_for(several),
            several[0].id()
        ))),
    }
}

/// Those among `entries` that have all of these sizes; at least one.
pub fn by_sizes<'a>(entries: &[&'a Entry], wanted: &[Dim]) -> Result<Vec<&'a Entry>> {
    let entry = entries[0];
    if let Some(w) = wanted.iter().find(|w| !entry.dims.iter().any(|d| d.name == w.name)) {
        let names: Vec<&str> = entry.dims.iter().map(|d| d.name.as_str()).collect();
        let has = if names.is_empty() { "has none".into() } else { format!("has {}", names.join(", ")) };
        return Err(Error::Input(format!("no dynamic dimension `{}`; entry `{}` {has}", w.name, entry.name)));
    }
    let found: Vec<&Entry> = entries.iter().copied().filter(|e| wanted.iter().all(|w| e.dims.contains(w))).collect();
    if found.is_empty() {
        return Err(Error::Input(format!(
            "entry `{}` was not built for {}; it {}",
            entry.name,
            sizes(wanted),
            built_for(entries)
        )));
    }
    Ok(found)
}

/// The one among `entries` whose inputs have exactly these shapes, each with the index of its input.
pub fn by_shapes<'a>(entries: &[&'a Entry], given: &[(usize, Vec<u64>)]) -> Result<&'a Entry> {
    let fits = |e: &Entry, (i, shape): &(usize, Vec<u64>)| input(e, *i).is_some_and(|t| t.shape == *shape);
    let found: Vec<&Entry> = entries.iter().copied().filter(|e| given.iter().all(|g| fits(e, g))).collect();
    let name = &entries[0].name;
    let show = |(i, shape): &(usize, Vec<u64>)| match input(entries[0], *i) {
        Some(t) => format!("input {i} `{}` of shape {shape:?}", t.name),
        None => format!("input {i} of shape {shape:?}"),
    };
    match found[..] {
        [one] => return Ok(one),
        [] => {}
        _ => {
            return Err(Error::Input(format!(
                "the shapes of the inputs do not tell for which sizes entry `{name}` is called; it {}",
                built_for(&found)
            )));
        }
    }
    // The inputs that fit no specialisation by themselves are to blame, or else their combination.
    let alone: Vec<_> = given.iter().filter(|g| !entries.iter().any(|e| fits(e, g))).map(show).collect();
    let (blamed, together) =
        if alone.is_empty() { (given.iter().map(show).collect(), " together") } else { (alone, "") };
    let mut message =
        format!("entry `{name}` does not take {}{together}; it {}", blamed.join(", "), built_for(entries));
    if let [(i, _)] = given
        && entries.len() <= LISTED
    {
        let shapes: Vec<String> =
            entries.iter().filter_map(|e| input(e, *i)).map(|t| format!("{:?}", t.shape)).collect();
        let _ = write!(message, ", where it is {}", shapes.join(", "));
    }
    Err(Error::Input(message))
}

/// Specialisations that a message names before it only counts.
const LISTED: usize = 16;

/// `was built for batch=1; batch=8`
pub fn built_for(entries: &[&Entry]) -> String {
    let listed: Vec<String> = entries.iter().take(LISTED).map(|e| sizes(&e.dims)).collect();
    let more = entries.len() - listed.len();
    let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("was built for {}{rest}", listed.join("; "))
}

fn input(e: &Entry, i: usize) -> Option<&Tensor> {
    e.inputs().nth(i).map(|(_, t)| t)
}
