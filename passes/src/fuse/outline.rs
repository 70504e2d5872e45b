//! Writes groups as `func.func private` dispatches and leaves calls of them. Equal dispatches become one function.
//! All decisions are made before.

use super::{
    group::{Grouper, Hero},
    order::{Item, live, order},
    view::{Kind, Node, Val, View},
};
use crate::{
    ir::{rewrite::*, *},
    pass::PassError,
    rows::Rows,
};
use melior::{
    Context,
    ir::{Type, operation::OperationPrintingFlags},
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The dispatches of a module so far, by text.
pub struct Outliner<'c> {
    pub context: &'c Context,
    /// Where dispatches go.
    pub module: Blk<'c>,
    seen: HashMap<String, String>,
    taken: BTreeSet<String>,
}

impl<'c> Outliner<'c> {
    pub fn new(context: &'c Context, module: Blk<'c>) -> Self {
        let taken = ops(module).into_iter().filter_map(|o| str_attr(o, "sym_name")).map(String::from).collect();
        Outliner { context, module, seen: HashMap::new(), taken }
    }

    /// Replaces the ops of a block by calls.
    pub fn block(&mut self, block: Blk<'c>, f: &Grouper<'_, 'c>) -> Result<(), PassError> {
        let view = f.view;
        let live = live(f);
        let items = order(f, &live)?;
        let mut map: Map<'c> = HashMap::new();
        let b = B::new(self.context, block);
        // Scalars of the host stay as they are, ahead of all.
        for n in view.nodes.iter().filter(|n| n.kind == Kind::Constant && !is_tensor(result(n.op, 0).r#type())) {
            move_to_end(n.op, block);
        }
        for item in items {
            match item {
                Item::Host(n) => {
                    remap(view.nodes[n].op, &map);
                    move_to_end(view.nodes[n].op, block);
                }
                Item::Group(g) => self.call(&b, f, g, &live[&g], &mut map),
            }
        }
        for n in view.nodes.iter().rev().filter(|n| n.kind != Kind::Host) {
            if results(n.op).iter().all(|v| uses(*v).is_empty()) {
                erase(n.op);
            }
        }
        Ok(())
    }

    fn call(&mut self, b: &B<'c>, f: &Grouper<'_, 'c>, g: usize, outs: &[Val], map: &mut Map<'c>) {
        let view = f.view;
        let body = body_of(f, g, outs);
        let ins = arguments(view, &body);
        let values: Vec<V<'c>> = ins.iter().map(|v| view.values[*v].value).collect();
        let types = |vs: &[Val]| vs.iter().map(|v| view.values[*v].value.r#type()).collect::<Vec<Type<'c>>>();
        let (inputs, outputs) = (types(&ins), types(outs));
        let alias: Vec<i64> = outs.iter().map(|v| alias(view, &ins, *v)).collect();
        let location = location(view.nodes[f.groups[g].members[0]].op);
        let b = b.with_loc(location);
        let func = b.in_block(self.module).func("dispatch", &inputs, &outputs, true, |b, args| {
            let mut inner: Map<'c> = values.iter().zip(args).map(|(v, a)| (key(*v), *a)).collect();
            for n in &body {
                clone_mapped(b, view.nodes[*n].op, &mut inner);
            }
            outs.iter().map(|v| inner[&key(view.values[*v].value)]).collect()
        });
        let group = &f.groups[g];
        let hero = match group.hero {
            Hero::Loop => "loop",
            Hero::Reduce => "reduce",
            Hero::Matmul => "matmul",
            Hero::Scan => "scan",
            Hero::Library => "library",
            Hero::Attention => "attention",
            Hero::TiledAttention => "tiled-attention",
            Hero::Special | Hero::Host => name(view.nodes[group.members[0]].op),
        };
        set_attr(func, "zml.dispatch", b.unit());
        set_attr(func, "zml.hero", b.str(hero));
        if group.hero == Hero::Reduce {
            Rows::write(&b, func, &group.spaces);
        }
        set_attr(func, "zml.alias", b.i64s(&alias));
        let flags = OperationPrintingFlags::new().use_local_scope();
        let text = func.to_string_with_flags(flags).unwrap_or_else(|_| func.to_string());
        let symbol = match self.seen.get(&text) {
            Some(symbol) => {
                erase(func);
                symbol.clone()
            }
            None => {
                let label = label(view, &body);
                let symbol = self.symbol(&label);
                set_attr(func, "sym_name", b.str(&symbol));
                set_attr(func, "zml.label", b.str(&label));
                set_attr(func, "zml.why", b.str(&why(f, g)));
                self.seen.insert(text, symbol.clone());
                symbol
            }
        };
        let operands: Vec<V<'c>> = values.iter().map(|v| *map.get(&key(*v)).unwrap_or(v)).collect();
        let call = b.op("func.call", &operands, &outputs, &[("callee", b.symbol(&symbol))], vec![]);
        for (i, v) in outs.iter().enumerate() {
            map.insert(key(view.values[*v].value), result(call, i));
        }
    }

    /// `LABEL_N`, the first N that is free.
    fn symbol(&mut self, label: &str) -> String {
        let stem = if label.is_empty() { "dispatch" } else { label };
        let symbol =
            (0..).map(|n| format!("{stem}_{n}")).find(|s| !self.taken.contains(s)).expect("some number is free");
        self.taken.insert(symbol.clone());
        symbol
    }
}

/// The argument that an in-place result writes into.
fn alias(view: &View, ins: &[Val], out: Val) -> i64 {
    let operand = view.values[out].def.and_then(|d| view.updates(d));
    operand.and_then(|v| ins.iter().position(|i| *i == v)).map_or(-1, |i| i as i64)
}

/// The ops of a dispatch, each after what it reads, from the results down: an order that depends on the group alone, not on
/// where the program has what it shares with others.
fn body_of(f: &Grouper, g: usize, outs: &[Val]) -> Vec<Node> {
    let view = f.view;
    let inside = |n: Node| f.group_of[n] == Some(g) || (f.computes(Some(g), n) && f.groups[g].clones.contains(&n));
    let mut order: Vec<Node> = vec![];
    let mut seen: BTreeSet<Node> = BTreeSet::new();
    // A node goes in once all that it reads is in: it is met twice.
    let mut next: Vec<(Node, bool)> =
        outs.iter().rev().filter_map(|v| view.values[*v].def).map(|n| (n, false)).collect();
    while let Some((n, ready)) = next.pop() {
        if ready {
            order.push(n);
        } else if seen.insert(n) {
            next.push((n, true));
            let reads = view.nodes[n].reads.iter().rev().filter_map(|v| view.values[*v].def);
            next.extend(reads.filter(|d| inside(*d)).map(|d| (d, false)));
        }
    }
    order
}
/// Values read from outside, in order of first use.
fn arguments(view: &View, body: &[Node]) -> Vec<Val> {
    let inside: BTreeSet<Val> = body.iter().flat_map(|n| view.nodes[*n].results.iter().copied()).collect();
    let mut seen = inside;
    let reads = body.iter().flat_map(|n| view.nodes[*n].reads.iter().copied());
    reads.filter(|v| seen.insert(*v)).collect()
}

/// StableHLO ops of the group, without those that are seen everywhere unless there are no others.
fn label(view: &View, body: &[Node]) -> String {
    const PLAIN: [&str; 8] =
        ["broadcast_in_dim", "reshape", "convert", "constant", "slice", "transpose", "iota", "compare"];
    const LONGEST: usize = 48;
    let names: Vec<&str> = body.iter().map(|n| view.nodes[*n].label).filter(|l| !l.is_empty()).collect();
    let telling: Vec<&str> = names.iter().copied().filter(|l| !PLAIN.contains(l)).collect();
    let mut words: Vec<&str> = vec![];
    for w in if telling.is_empty() { names } else { telling } {
        let length: usize = words.iter().map(|w| w.len() + 1).sum();
        if !words.contains(&w) && length + w.len() <= LONGEST {
            words.push(w);
        }
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    words.join("_").chars().map(plain).collect()
}
fn why(f: &Grouper, g: usize) -> String {
    let group = &f.groups[g];
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for n in &group.members {
        let n = &f.view.nodes[*n];
        *counts.entry(if n.kind.heavy() { "heavy" } else { "elementwise" }).or_default() += 1;
    }
    let cheap = group.clones.iter().filter(|n| f.view.nodes[**n].kind == Kind::Map).count();
    let mut text = format!(
        "{}: {} heavy, {} elementwise, {cheap} computed again",
        group.why,
        counts.get("heavy").unwrap_or(&0),
        counts.get("elementwise").unwrap_or(&0)
    );
    for stop in &group.stops {
        text += &format!("; {stop}");
    }
    text
}
