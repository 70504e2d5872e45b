//! Which op goes into which group: one walk in program order, then two clean-ups.
//!
//! Heavy ops found groups (or join one with the same rows); an elementwise op joins the group whose value it reads, if
//! it reads it at its own row, and otherwise stays free: its readers compute it again. A free op becomes a dispatch of
//! its own when it must be in memory, or when computing it again would cost more than writing and reading it.

use super::{
    attention,
    group::{Cone, Grouper, Hero, Join, Under},
    view::{Kind, Node, Val},
};
use crate::{
    ir::{ValueLike, elem_bytes, name},
    rows::Rows,
};
use std::collections::BTreeSet;

/// Distinct evaluations in one kernel: bounds its code.
const MOST_VISITS: usize = 600;
/// Those of them at most that compute an op at a further place.
const MOST_AGAIN: usize = 128;
/// Scalar operations of one element from which on a kernel's code is too long to have most of them for what is computed at
/// several places.
const MOST_REPEATED: u64 = 512;
/// The same with what branches compute each for themselves.
const MOST_CODE: usize = 400;
/// Scalar operations that a launch is worth.
const LAUNCH: u64 = 20_000_000;
/// Scalar operations that a byte moved is worth.
const BYTE: u64 = 20;
/// Scalar operations of one element from which on it is looked for what several of them share.
const LONG: u64 = 1024;
/// Scalar operations of an element that are rather done again than read.
const LIGHT: u64 = 4;
/// How far back a sibling reduction is looked for, in groups.
const SIBLINGS: usize = 48;

pub fn assign(f: &mut Grouper) {
    let attentions = attention::find(f);
    for a in &attentions {
        a.inner.iter().for_each(|n| f.inner[*n] = true);
    }
    super::shared::prologues(f);
    for node in 0..f.view.nodes.len() {
        if let Some(a) = attentions.iter().find(|a| a.out == node) {
            attend(f, a);
        } else if !f.inner[node] && !f.prologue[node] {
            place(f, node);
        }
    }
    release(f);
    super::shared::merge(f);
    merge_loops(f);
}

fn place(f: &mut Grouper, node: Node) {
    if f.library_operands(node).is_some() {
        return found(f, node, Hero::Library, "a library computes it".into());
    }
    match f.view.nodes[node].kind {
        Kind::Constant if f.is_wanted(node) => own_loop(f, node, "a constant that must be in memory"),
        Kind::Constant => {}
        Kind::Host => whole(f, node, Hero::Host, "control flow and its glue"),
        Kind::Map => map(f, node),
        Kind::Reduce => reduce(f, node),
        Kind::Contraction => {
            let (m, n) = f.view.nodes[node].tile;
            found(f, node, Hero::Matmul, format!("a contraction with m = {m} and n = {n}"));
        }
        Kind::Window => found(f, node, Hero::Loop, "a reduction over a window, serial in each element".into()),
        Kind::Scan => found(f, node, Hero::Scan, "a running reduction".into()),
        Kind::Update => update(f, node),
        Kind::Special => whole(f, node, Hero::Special, "an op with a kernel of its own"),
    }
}

/// Every op a dispatch of its own, with nothing but constants computed in its readers: what fused programs are held against.
pub fn separate(f: &mut Grouper) {
    for node in 0..f.view.nodes.len() {
        match f.view.nodes[node].kind {
            Kind::Map => own_loop(f, node, "fusion is left out"),
            Kind::Reduce => found(f, node, Hero::Reduce, "fusion is left out".into()),
            _ => place(f, node),
        }
    }
}

fn attend(f: &mut Grouper, a: &attention::Attention) {
    let mut cone = cone(f, a.out);
    // Its kernel computes nothing twice.
    cone.evaluations.clear();
    let rows = f.view.elements(a.max);
    let (hero, what) = match (a.is_tiled, a.is_part) {
        (true, _) => (Hero::TiledAttention, "attention in tiles"),
        (_, true) => (Hero::Attention, "parts of attention"),
        _ => (Hero::Attention, "attention"),
    };
    let why = format!("{what} of {rows} rows over {} positions", f.view.turns(a.out));
    let g = f.open(hero, f.view.elements(a.out), why);
    f.add(a.out, g, &cone);
    if a.is_part {
        // Whoever puts the parts together reads all three.
        [a.max, a.sum].into_iter().for_each(|n| f.hold(n, g));
    }
}
fn cone(f: &Grouper, node: Node) -> Cone {
    f.cone(node, None, Rows::plain(0)).unwrap_or_else(|_| unreachable!("only members of a group refuse"))
}

fn map(f: &mut Grouper, node: Node) {
    let cone = trim(f, node);
    let under = f.under(node);
    let view = f.view;
    let reads = view.nodes[node].reads.iter().filter_map(|v| view.values[*v].def).filter(|d| f.free(*d));
    let separate = reads.fold(view.nodes[node].cost, |sum, d| sum.saturating_add(f.cost[d]));
    f.cost[node] = if separate > LONG { together(f, node, cone, &under).min(separate) } else { separate };
    let wanted = f.is_wanted(node);
    // A copy or a broadcast is nothing to keep a group open for, but parts that were computed apart are.
    let joins_parts = name(view.nodes[node].op) == "tensor.concat" && f.cost[node] > 0;
    if (view.nodes[node].cost > 0 || wanted || joins_parts) && !is_of_reductions(f, node) {
        for g in f.need(&under.inputs).into_iter().rev().filter(|g| f.groups[*g].hero != Hero::Host).collect::<Vec<_>>()
        {
            match f.may_join(node, g) {
                Ok(join) if join.cone.reads_group => {
                    // Settling may put something between the two.
                    if let Some(join) = settle_into(f, node, g, join) {
                        return f.join(node, g, &join);
                    }
                }
                Ok(_) => {}
                Err(stop) => {
                    let label = view.nodes[node].label;
                    f.groups[g].stops.insert(format!("{label} {stop}"));
                }
            }
        }
    }
    if wanted {
        own_loop(f, node, "elementwise ops whose value must be in memory");
    }
}

/// Whether only reductions read a light op of what another reduction has to find in memory anyway, as those of a variance
/// do beside those of a mean: they compute it as they go, and share the reading.
fn is_of_reductions(f: &Grouper, node: Node) -> bool {
    let view = f.view;
    let n = &view.nodes[node];
    let reduces = |r: &Node| view.nodes[*r].kind == Kind::Reduce;
    let is_constant = |v: &Val| view.values[*v].def.is_some_and(|d| view.nodes[d].kind == Kind::Constant);
    let mut reads = n.reads.iter().filter(|v| view.values[**v].elements() > 1 && !is_constant(v));
    n.cost <= LIGHT
        && !f.is_wanted(node)
        && view.values[n.results[0]].readers.iter().all(reduces)
        && reads.all(|v| view.values[*v].readers.iter().any(reduces))
}

/// Scalar operations of one element of `node` if what several ops share is computed once: in a hash or a cipher, where each
/// round reads the last one several times, the sum over what is read doubles from round to round. Unbounded where ops read
/// one another at ever more places, as stencils do.
fn together(f: &Grouper, node: Node, cone: Option<Cone>, under: &Under) -> u64 {
    let cone = cone.unwrap_or_else(|| self::cone(f, node));
    if cone.visits <= 4 * under.free.len() { cone.cost } else { u64::MAX }
}

/// A group of an op that reads all its operands from memory.
fn whole(f: &mut Grouper, node: Node, hero: Hero, why: &str) {
    let g = f.open(hero, 0, why.into());
    let mut cone = Cone::default();
    cone.inputs.extend(&f.view.nodes[node].reads);
    f.add(node, g, &cone);
}
fn own_loop(f: &mut Grouper, node: Node, why: &str) {
    found(f, node, Hero::Loop, why.into());
}
/// A new group with `node` as its first member.
fn found(f: &mut Grouper, node: Node, hero: Hero, why: String) {
    trim(f, node);
    settle(f, node);
    let mut c = cone(f, node);
    if hero != Hero::Reduce {
        // Only rows have a workgroup that does a reduction before.
        let mut expelled = false;
        while let Some(n) = c.clones.iter().copied().find(|n| f.prologue[*n]) {
            reduce(f, n);
            c = cone(f, node);
            expelled = true;
        }
        if hero == Hero::Loop
            && expelled
            && let Some(join) = f
                .need(&c.inputs)
                .into_iter()
                .rev()
                .find_map(|g| f.may_join(node, g).ok().filter(|j| j.cone.reads_group).map(|j| (g, j)))
        {
            return f.join(node, join.0, &join.1);
        }
    }
    let g = f.open(hero, f.view.elements(node), why);
    f.add(node, g, &c);
}

fn reduce(f: &mut Grouper, node: Node) {
    trim(f, node);
    settle(f, node);
    let under = cone(f, node);
    let need = f.need(&under.inputs);
    let mut candidates: Vec<usize> = need.iter().rev().copied().filter(|g| f.groups[*g].hero == Hero::Reduce).collect();
    let recent = (0..f.groups.len()).rev().filter(|g| f.groups[*g].hero != Hero::Host).take(SIBLINGS);
    for g in recent.filter(|g| f.groups[*g].hero == Hero::Reduce && !need.contains(g)) {
        let shares = f.groups[g].inputs.intersection(&under.inputs).any(|v| f.view.values[*v].elements() > 1);
        let rows = f.view.elements(node);
        if shares && f.groups[g].spaces[0].count == rows && same_length(f, node, g) {
            candidates.push(g);
        }
    }
    for g in candidates {
        match f.may_join(node, g) {
            Ok(c) => return f.join(node, g, &c),
            Err(stop) => {
                let label = f.view.nodes[node].label;
                f.groups[g].stops.insert(format!("{label} {stop}"));
            }
        }
    }
    let rows = f.view.elements(node);
    found(
        f,
        node,
        Hero::Reduce,
        if rows == 1 { "a full reduction".into() } else { format!("reductions of {rows} rows") },
    );
}
/// Whether a reduction runs over as many elements as one of the group.
fn same_length(f: &Grouper, node: Node, g: usize) -> bool {
    let length = f.view.turns(node);
    f.heavies(g).any(|h| f.view.turns(h) == length)
}

fn update(f: &mut Grouper, node: Node) {
    let operand = f.view.updates(node).expect("an update");
    // What is written must not be read by the same kernel at other places.
    let read: Vec<Node> = f.view.nodes[node].reads.iter().skip(1).filter_map(|v| f.view.values[*v].def).collect();
    let behind = f.view.behind_reshapes(operand);
    for d in read {
        if f.free(d) && cone(f, d).inputs.iter().any(|v| f.view.behind_reshapes(*v) == behind) {
            own_loop(f, d, "an update that is computed from what it overwrites");
        }
    }
    if is_read_before(f, operand, node) {
        // Nobody reads what is overwritten later: the kernel that makes the value writes it.
        trim(f, node);
        for g in f.need(&cone(f, node).inputs).into_iter().rev() {
            let reads = |h: &usize| *h != g && f.groups[*h].inputs.contains(&operand) && f.reaches(*h, g);
            if f.groups[g].inputs.contains(&operand) || (0..f.groups.len()).any(|h| reads(&h)) {
                continue;
            }
            match f.may_join(node, g) {
                Ok(c) if c.cone.reads_group => return f.join(node, g, &c),
                Ok(_) => {}
                Err(stop) => {
                    f.groups[g].stops.insert(format!("the update in place {stop}"));
                }
            }
        }
    }
    found(f, node, Hero::Loop, "an update in place".into());
}
/// Whether all that reads `v`, perhaps through elementwise ops, comes before `node` in the program.
fn is_read_before(f: &Grouper, v: Val, node: Node) -> bool {
    let (mut next, mut seen) = (vec![v], BTreeSet::new());
    while let Some(v) = next.pop() {
        for r in f.view.values[v].readers.iter().copied().filter(|r| *r != node) {
            if r > node {
                return false;
            }
            if f.view.nodes[r].kind == Kind::Map && seen.insert(r) {
                next.extend(&f.view.nodes[r].results);
            }
        }
    }
    true
}
/// Puts free ops under `node` into memory until its own kernel is small enough in code and buffers: what its own elements
/// then take, if that had to be followed.
fn trim(f: &mut Grouper, node: Node) -> Option<Cone> {
    loop {
        let below = f.under(node);
        if below.plain && below.free.len() <= MOST_VISITS && below.inputs.len() < f.budget {
            return None;
        }
        let under = cone(f, node);
        let by_buffers = under.inputs.len() >= f.budget;
        if !by_buffers && !is_long(f, node, &under) {
            let Some(repeated) = repeated(f, &under) else { return Some(under) };
            own_loop(f, repeated, "would be computed too often in one kernel");
            continue;
        }
        let under_read = f.view.nodes[node].reads.iter().filter_map(|v| f.view.values[*v].def);
        let free: BTreeSet<Node> = under_read.filter(|d| f.free(*d) && f.view.nodes[*d].kind == Kind::Map).collect();
        let size = |d: &Node| {
            let c = cone(f, *d);
            if by_buffers { c.inputs.len() } else { c.visits.max(f.code(*d, 2 * MOST_VISITS)) }
        };
        let sizes = free.iter().map(|d| (size(d), std::cmp::Reverse(*d)));
        let Some((_, std::cmp::Reverse(largest))) = sizes.max().filter(|(size, _)| *size > 1) else {
            return Some(under);
        };
        own_loop(
            f,
            largest,
            if by_buffers { "a kernel may not bind more buffers" } else { "a kernel would grow too long" },
        );
    }
}
fn is_long(f: &Grouper, node: Node, under: &Cone) -> bool {
    under.visits > MOST_VISITS
        || under.visits - under.places.len() > MOST_AGAIN
        || under.places.keys().any(|n| f.view.branches(*n)) && f.code(node, MOST_CODE) > MOST_CODE
}
/// Of a kernel that is long because it computes dear ops at many places, as the first steps of a scan by halves are in each
/// of its results: the op nearest to the inputs that saves three quarters of what can be saved if it is in memory.
fn repeated(f: &Grouper, under: &Cone) -> Option<Node> {
    let once: u64 = under.places.keys().map(|n| f.view.nodes[*n].cost).sum();
    if under.cost <= MOST_REPEATED || under.cost.saturating_sub(once) < under.cost / 2 {
        return None;
    }
    let several = under.places.iter().filter(|(n, places)| **places > 1 && f.free(**n));
    let saved: Vec<(Node, u64)> = several
        .filter(|(n, _)| f.view.nodes[**n].kind == Kind::Map && f.view.nodes[**n].cost > 0)
        .map(|(n, places)| (*n, (*places as u64 - 1).saturating_mul(cone(f, *n).cost)))
        .collect();
    let most = saved.iter().map(|s| s.1).max().filter(|most| *most >= under.cost / 2)?;
    saved.into_iter().find(|s| s.1 >= most / 4 * 3).map(|s| s.0)
}

/// Puts free ops under `node` into memory that would be computed too often.
fn settle(f: &mut Grouper, node: Node) {
    while let Some(dear) = too_dear(f, &cone(f, node)) {
        own_loop(f, dear, TOO_DEAR);
    }
}
/// The same where `node` joins `g`: how it still may.
fn settle_into(f: &mut Grouper, node: Node, g: usize, join: Join) -> Option<Join> {
    let mut join = join;
    while let Some(dear) = too_dear(f, &join.cone) {
        own_loop(f, dear, TOO_DEAR);
        join = f.may_join(node, g).ok()?;
    }
    Some(join)
}
const TOO_DEAR: &str = "would be computed too often in its readers";
fn too_dear(f: &Grouper, under: &Cone) -> Option<Node> {
    // Readers before what they read: the whole of a chain goes at once.
    let dear = under.evaluations.iter().rev().find(|(n, count)| {
        let total = f.evaluations[**n].saturating_add(**count);
        let v = &f.view.values[f.view.nodes[**n].results[0]];
        let again = total.saturating_sub(v.elements()).max(0) as u64;
        let bytes = v.elements().max(0) as u64 * elem_bytes(v.value.r#type()).max(1) as u64;
        f.view.nodes[**n].kind == Kind::Map
            && f.view.nodes[**n].cost > 0
            && again.saturating_mul(f.cost[**n]) > LAUNCH + bytes.saturating_mul(2 * BYTE)
    });
    dear.map(|(n, _)| *n)
}

/// Gives the last elementwise ops of a group back to their readers, where the group writes what they read anyway.
fn release(f: &mut Grouper) {
    for g in 0..f.groups.len() {
        f.refresh(g);
    }
    for g in 0..f.groups.len() {
        for x in f.groups[g].members.clone().into_iter().rev() {
            if may_leave(f, x, g) {
                f.group_of[x] = None;
                f.forget(x);
                f.groups[g].members.retain(|m| *m != x);
                let label = f.view.nodes[x].label;
                f.groups[g].stops.insert(format!("{label} is computed again where it is read"));
                let readers: Vec<usize> = readers(f, x);
                f.refresh(g);
                for r in readers {
                    f.refresh(r);
                }
            }
        }
    }
}
/// Groups that read the value of `node` from memory.
fn readers(f: &Grouper, node: Node) -> Vec<usize> {
    let reads = |g: &usize| f.view.nodes[node].results.iter().any(|v| f.groups[*g].inputs.contains(v));
    (0..f.groups.len()).filter(reads).collect()
}
fn may_leave(f: &Grouper, x: Node, g: usize) -> bool {
    let n = &f.view.nodes[x];
    if n.kind != Kind::Map || f.is_wanted(x) || n.cost > LIGHT || f.groups[g].members.len() == 1 {
        return false;
    }
    // Nothing of the group itself reads it, and no reader would compute it over and over.
    let light = |r: &Node| {
        let inside = f.group_of[*r] == Some(g) || f.groups[g].clones.contains(r);
        !inside && !matches!(f.view.nodes[*r].kind, Kind::Contraction | Kind::Window)
    };
    if !f.view.values[n.results[0]].readers.iter().all(light) {
        return false;
    }
    let others = readers(f, x);
    let inputs = cone(f, x).inputs;
    // Nor one that writes over what it is computed from.
    if others
        .iter()
        .flat_map(|r| &f.groups[*r].members)
        .any(|m| f.view.updates(*m).is_some_and(|v| inputs.contains(&v)))
    {
        return false;
    }
    inputs.iter().all(|v| {
        let written = || f.wanted[*v] || (0..f.groups.len()).any(|h| h != g && f.groups[h].inputs.contains(v));
        f.writer(*v) != Some(g) || (!others.is_empty() && written())
    })
}

/// Loops over as many elements that share an input and do not need each other become one.
fn merge_loops(f: &mut Grouper) {
    for i in 0..f.groups.len() {
        for j in i + 1..f.groups.len() {
            let (a, b) = (&f.groups[i], &f.groups[j]);
            let loops = a.hero == Hero::Loop && b.hero == Hero::Loop && a.spaces == b.spaces;
            if !loops || a.members.is_empty() || b.members.is_empty() || a.inputs.is_disjoint(&b.inputs) {
                continue;
            }
            let writes =
                |g: usize| f.groups[g].members.iter().filter_map(|n| f.view.updates(*n)).collect::<BTreeSet<_>>();
            let clash = !writes(i).is_disjoint(&b.inputs) || !writes(j).is_disjoint(&a.inputs);
            let buffers = a.inputs.union(&b.inputs).count() + a.members.len() + b.members.len();
            if clash || buffers > f.budget || f.reaches(i, j) || f.reaches(j, i) {
                continue;
            }
            f.absorb(i, j, "with a loop of as many elements that shares an input");
        }
    }
}
