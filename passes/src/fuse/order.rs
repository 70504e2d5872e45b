//! The order in which an entry runs its groups and what stays in it: by dependencies, readers of a buffer before who
//! writes into it, and otherwise as the program had it. It must not change what is grouped.

use super::{
    group::{Grouper, Hero},
    view::{Kind, Node, Val},
};
use crate::pass::PassError;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Item {
    Group(usize),
    Host(Node),
}

/// Groups whose results something needs, with the values that they write.
pub fn live(f: &Grouper) -> BTreeMap<usize, Vec<Val>> {
    let hosts = f.view.nodes.iter().filter(|n| n.kind == Kind::Host);
    let mut next: Vec<Val> = hosts.flat_map(|n| n.reads.iter().copied()).collect();
    let (mut needed, mut found) = (BTreeSet::new(), BTreeSet::new());
    while let Some(v) = next.pop() {
        if needed.insert(v)
            && let Some(g) = f.writer(v).filter(|g| f.groups[*g].hero != Hero::Host)
            && found.insert(g)
        {
            next.extend(&f.groups[g].inputs);
        }
    }
    let results = |g: &usize| {
        let all = f.groups[*g].members.iter().flat_map(|n| f.view.nodes[*n].results.iter().copied());
        all.filter(|v| needed.contains(v)).collect()
    };
    found.iter().map(|g| (*g, results(g))).collect()
}

/// Errors are bugs: groups that depend on one another in a circle.
pub fn order(f: &Grouper, live: &BTreeMap<usize, Vec<Val>>) -> Result<Vec<Item>, PassError> {
    let view = f.view;
    let mut items: Vec<Item> = live.keys().map(|g| Item::Group(*g)).collect();
    items.extend((0..view.nodes.len()).filter(|n| view.nodes[*n].kind == Kind::Host).map(Item::Host));
    let position = |i: &Item| match i {
        Item::Group(g) => f.groups[*g].members[0],
        Item::Host(n) => *n,
    };
    items.sort_by_key(position);
    let reads = |i: &Item| -> Vec<Val> {
        match i {
            Item::Group(g) => f.groups[*g].inputs.iter().copied().collect(),
            Item::Host(n) => view.nodes[*n].reads.clone(),
        }
    };
    let mut writer: BTreeMap<Val, usize> = BTreeMap::new();
    for (i, item) in items.iter().enumerate() {
        match item {
            Item::Group(g) => writer.extend(live[g].iter().map(|v| (*v, i))),
            Item::Host(n) => writer.extend(view.nodes[*n].results.iter().map(|v| (*v, i))),
        }
    }
    let mut readers: BTreeMap<Val, Vec<usize>> = BTreeMap::new();
    let mut before: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); items.len()];
    for (i, item) in items.iter().enumerate() {
        for v in reads(item) {
            readers.entry(v).or_default().push(i);
            before[i].extend(writer.get(&v).filter(|w| **w != i));
        }
    }
    for (i, item) in items.iter().enumerate() {
        let Item::Group(g) = item else { continue };
        for operand in f.groups[*g].members.iter().filter_map(|n| view.updates(*n)) {
            for r in readers.get(&operand).into_iter().flatten().filter(|r| **r != i) {
                if !reaches(&before, *r, i) {
                    before[i].insert(*r);
                }
            }
        }
    }
    let mut done = vec![];
    let mut open: BTreeSet<usize> = (0..items.len()).collect();
    while let Some(i) = open.iter().copied().find(|i| before[*i].is_disjoint(&open)) {
        open.remove(&i);
        done.push(items[i]);
    }
    if open.is_empty() { Ok(done) } else { Err(PassError::Bug("groups depend on one another in a circle".into())) }
}
/// Whether `from` must come after `to`.
fn reaches(before: &[BTreeSet<usize>], from: usize, to: usize) -> bool {
    let (mut next, mut seen) = (vec![from], BTreeSet::new());
    while let Some(i) = next.pop() {
        if i == to {
            return true;
        }
        if seen.insert(i) {
            next.extend(&before[i]);
        }
    }
    false
}
