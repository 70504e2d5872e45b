//! Which libraries of the sources a package needs: those that are asked for, what they name, and what they are known to
//! open; and what the host brings.

use super::{
    Library, Unpacked,
    known::{self, Host},
};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub struct Closure<'a> {
    /// By soname, with the source that has it.
    pub libraries: BTreeMap<&'a str, (&'a Unpacked, &'a Library)>,
    /// Left to the host's driver, if it is there.
    pub driver: BTreeSet<String>,
    /// Left to the C library's makers: in an image they come with the base.
    pub system: BTreeSet<String>,
    pub missing: Vec<Missing>,
}

/// Needed, and neither in a source nor the host's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Missing {
    pub name: String,
    pub needed_by: String,
}

/// A library that goes in because somebody asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// A soname, or a name without version, `libnccl`.
    pub name: String,
    /// `[package.vendor]`, for messages.
    pub asked_by: String,
}

pub fn closure<'a>(sources: &'a [Unpacked], roots: &[Root], architecture: &str) -> Closure<'a> {
    let mut closure = Closure::default();
    let all = || {
        let libraries = sources.iter().flat_map(|s| s.libraries.iter().map(move |l| (s, l)));
        libraries.filter(|(_, l)| l.architecture == architecture)
    };
    let mut open: Vec<(String, String, bool)> =
        roots.iter().map(|r| (r.name.clone(), r.asked_by.clone(), true)).collect();
    let mut seen = BTreeSet::new();
    while let Some((name, needed_by, required)) = open.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let versioned = name.contains(".so");
        let found = all().find(|(_, l)| if versioned { l.name == name } else { known::stem(&l.name) == name });
        let Some((source, library)) = found else {
            match known::host(&name) {
                Some(Host::Driver) => drop(closure.driver.insert(name)),
                Some(Host::System) => drop(closure.system.insert(name)),
                None if required => closure.missing.push(Missing { name, needed_by }),
                None => {}
            }
            continue;
        };
        if let Some(host) = known::host(&library.name) {
            // The driver's own library in a source (a stub, most often) must not hide the host's.
            let set = if host == Host::Driver { &mut closure.driver } else { &mut closure.system };
            set.insert(library.name.clone());
            continue;
        }
        closure.libraries.insert(&library.name, (source, library));
        open.extend(library.needed.iter().map(|n| (n.clone(), library.name.clone(), true)));
        for o in known::opens(&library.name) {
            open.push((o.stem.into(), library.name.clone(), o.required));
        }
    }
    closure.missing.sort();
    closure
}
