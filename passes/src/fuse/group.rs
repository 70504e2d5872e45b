//! Groups of ops in the making: what a group holds, what an op of it reads and where, and whether another op may join.
//! The order in which joins are tried, and what is tried, is in `assign`; nothing is written here.

use super::{
    index::{Ix, Table, of_orbit},
    library,
    view::{Kind, Node, Val, View},
};
use crate::{
    ir::{ValueLike, is_tensor},
    rows::Rows,
    spec::DeviceSpec,
};
use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, HashSet},
    rc::Rc,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hero {
    Loop,
    Reduce,
    Matmul,
    Scan,
    /// One contraction that a vendor's library computes.
    Library,
    /// Scores, softmax and weighted sum at once.
    Attention,
    /// The same by tiles of fragments.
    TiledAttention,
    /// One op that no hero covers.
    Special,
    /// One op that stays in the entry, so that dependencies through it are seen.
    Host,
}

pub struct Group {
    pub hero: Hero,
    /// Row spaces of a reduce group, else one with the elements of every result.
    pub spaces: Vec<Rows>,
    /// Ops whose values the group may write, in program order.
    pub members: Vec<Node>,
    /// Direct dependencies: groups that write what this one reads.
    pub deps: BTreeSet<usize>,
    /// Ops that are computed again in this group.
    pub clones: BTreeSet<Node>,
    /// Those of them that are in memory for others: who writes them needs this group's values.
    pub kept: BTreeSet<Node>,
    /// Values that it reads.
    pub inputs: BTreeSet<Val>,
    /// Why it is there, and why it stops where it does.
    pub why: String,
    pub stops: BTreeSet<String>,
}

/// Everything that computing one op's own elements takes.
#[derive(Default)]
pub struct Cone {
    pub inputs: BTreeSet<Val>,
    pub clones: BTreeSet<Node>,
    /// Distinct (value, index) pairs: what an emitter computes for one element.
    pub visits: usize,
    /// Scalar operations of one element.
    pub cost: u64,
    /// Evaluations of each free op, reductions counted in.
    pub evaluations: BTreeMap<Node, i64>,
    /// At how many places each free op is computed.
    pub places: BTreeMap<Node, usize>,
    /// Whether it reads a member of the group at all.
    pub reads_group: bool,
}

/// What has been met on the way down from an element: each place once.
#[derive(Default)]
struct Walk {
    t: Table,
    seen: HashSet<(Val, Vec<Ix>)>,
}

/// How an op may join a group.
pub struct Join {
    pub cone: Cone,
    /// The row space that it belongs to, and what that becomes.
    pub space: usize,
    pub rows: Rows,
}

/// Why an op does not join a group.
#[derive(Debug, PartialEq)]
pub enum Stop {
    Space,
    OtherElement,
    InPlace,
    Cycle,
    Buffers,
    Serial,
}
impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(match self {
            Stop::Space => "has other rows",
            Stop::OtherElement => "reads other rows of the value",
            Stop::InPlace => "reads a buffer written in place",
            Stop::Cycle => "would close a circle of dispatches",
            Stop::Buffers => "needs more buffers than a kernel may bind",
            Stop::Serial => "would leave too much to one row",
        })
    }
}

/// Elements that a single row may write after its reductions.
const LONGEST_TAIL: i64 = 1 << 16;
/// What a value costs that every workgroup computes again, in values that are computed once: workgroups run side by side.
const WORKGROUPS: i64 = 8;

/// What a free op, or one that is about to be grouped, computes anew and reads from memory, whatever the indices.
#[derive(Default)]
pub struct Under {
    /// Free elementwise ops below it, in program order.
    pub free: Vec<Node>,
    pub inputs: BTreeSet<Val>,
    /// Whether all of them are read at the element's own index, so that each is computed once.
    pub plain: bool,
}

pub struct Grouper<'v, 'c> {
    pub view: &'v View<'c>,
    pub groups: Vec<Group>,
    pub group_of: Vec<Option<usize>>,
    /// Values that must be in memory, whoever computes them.
    pub wanted: Vec<bool>,
    /// Evaluations so far of ops that are in no group.
    pub evaluations: Vec<i64>,
    /// Operations for one element of an op with everything free under it.
    pub cost: Vec<u64>,
    pub budget: usize,
    /// As far as it is known.
    under: Vec<Option<Rc<Under>>>,
    /// Reductions of one element that each workgroup of their readers does again.
    pub prologue: Vec<bool>,
    /// Ops that an attention has for itself.
    pub inner: Vec<bool>,
    /// The device, where what it multiplies decides.
    pub spec: Option<&'v DeviceSpec>,
    /// Places that were followed so far: what grouping takes.
    pub followed: Cell<usize>,
}

impl<'v, 'c> Grouper<'v, 'c> {
    pub fn new(view: &'v View<'c>, budget: usize) -> Self {
        let mut wanted = vec![false; view.values.len()];
        for (node, n) in view.nodes.iter().enumerate() {
            match n.kind {
                Kind::Host | Kind::Special => n.reads.iter().for_each(|v| wanted[*v] = true),
                Kind::Update => wanted[view.updates(node).expect("an update")] = true,
                _ => {}
            }
        }
        let count = view.nodes.len();
        Grouper {
            view,
            groups: vec![],
            group_of: vec![None; count],
            wanted,
            evaluations: vec![0; count],
            cost: vec![0; count],
            budget,
            under: vec![None; count],
            prologue: vec![false; count],
            inner: vec![false; count],
            spec: None,
            followed: Cell::new(0),
        }
    }
    /// What the vendor's library multiplies, where the device has one, has to be in memory.
    pub fn use_library(&mut self) {
        for node in 0..self.view.nodes.len() {
            self.library_operands(node).into_iter().flatten().for_each(|v| self.wanted[v] = true);
        }
    }
    /// The operands of a contraction that the vendor's library computes.
    pub fn library_operands(&self, node: Node) -> Option<[Val; 2]> {
        library::operands(self.view, node, self.spec.filter(|s| s.library_gemm)?)
    }
    pub fn under(&mut self, node: Node) -> Rc<Under> {
        let mut next = vec![node];
        while let Some(n) = next.last().copied() {
            let below = self.view.nodes[n].reads.iter().filter_map(|v| self.view.values[*v].def);
            let below: Vec<Node> =
                below.filter(|d| self.view.nodes[*d].kind != Kind::Constant && self.free(*d)).collect();
            let open: Vec<Node> = below.iter().copied().filter(|d| self.under[*d].is_none()).collect();
            if open.is_empty() {
                next.pop();
                self.under[n] = Some(Rc::new(self.union(n, &below)));
            }
            next.extend(open);
        }
        self.under[node].clone().expect("just computed")
    }
    fn union(&self, node: Node, below: &[Node]) -> Under {
        let mut all = Under { plain: self.view.is_plain(node), ..Under::default() };
        for v in &self.view.nodes[node].reads {
            if self.view.values[*v].def.is_none_or(|d| !self.free(d)) {
                all.inputs.insert(*v);
            }
        }
        for d in below {
            let u = self.under[*d].as_ref().expect("computed before its readers");
            all.inputs.extend(&u.inputs);
            all.plain &= u.plain;
            all.free.extend(&u.free);
            all.free.push(*d);
        }
        all.free.sort_unstable();
        all.free.dedup();
        all
    }
    /// `node` is no longer what it was to its readers.
    pub fn forget(&mut self, node: Node) {
        let mut next = vec![node];
        while let Some(n) = next.pop() {
            let results = self.view.nodes[n].results.iter();
            let readers = results.flat_map(|v| self.view.values[*v].readers.iter().copied());
            next.extend(readers.filter(|r| self.under[*r].take().is_some()));
        }
    }
    pub fn is_wanted(&self, node: Node) -> bool {
        self.view.nodes[node].results.iter().any(|v| self.wanted[*v])
    }
    /// An op that readers compute for themselves.
    pub fn free(&self, node: Node) -> bool {
        match self.view.nodes[node].kind {
            Kind::Constant => true,
            Kind::Map => self.group_of[node].is_none(),
            Kind::Reduce | Kind::Contraction => {
                (self.prologue[node] || self.inner[node]) && self.group_of[node].is_none()
            }
            _ => false,
        }
    }
    /// Whether a group computes for itself what an op gives, rather than read it.
    pub fn computes(&self, g: Option<usize>, node: Node) -> bool {
        self.free(node) || g.is_some_and(|g| self.groups[g].kept.contains(&node))
    }
    /// The group that writes a value.
    pub fn writer(&self, v: Val) -> Option<usize> {
        self.view.values[v].def.and_then(|d| self.group_of[d])
    }
    pub fn heavies(&self, g: usize) -> impl Iterator<Item = Node> {
        self.groups[g].members.iter().copied().filter(|n| self.view.nodes[*n].kind.heavy())
    }

    /// Follows what one element of `root` needs, through free ops and the members of `g`, to values in memory.
    /// `rows`: the row space of `g` that `root` is in; of its heavy ops only the elements of the row's own orbit may be
    /// read.
    pub fn cone(&self, root: Node, g: Option<usize>, rows: Rows) -> Result<Cone, Stop> {
        let mut walk = Walk { t: Table::new(rows.orbit.0 > 1), ..Walk::default() };
        self.cone_beside(root, g, rows, &mut walk)
    }
    /// The same without what others of the group's elements, which `walk` has followed before, need too.
    fn cone_beside(&self, root: Node, g: Option<usize>, rows: Rows, walk: &mut Walk) -> Result<Cone, Stop> {
        let view = self.view;
        let Walk { t, seen } = walk;
        let elements = view.elements(root);
        let tail = if rows.count > 0 { elements / rows.count } else { 1 };
        let (count, _) = rows.orbit;
        let heavy = view.nodes[root].kind.heavy();
        let mut cone = Cone { cost: view.nodes[root].cost, ..Cone::default() };
        let mut next: Vec<(Val, Vec<Ix>, bool)> = vec![];
        for p in 0..count {
            let own = match count {
                1 => view.own(root),
                _ => of_orbit(view.space(root), rows.orbit, p, tail, 1, t),
            };
            for (v, index) in view.operands_at(root, &own, t) {
                let shared = view.is_generic_reduction(root)
                    && elements > 1
                    && view.values[v].elements() > 1
                    && index.iter().all(|x| t.is_shared(*x));
                next.push((v, index, shared));
            }
        }
        while let Some((v, index, shared)) = next.pop() {
            self.followed.set(self.followed.get() + 1);
            if !seen.insert((v, index.clone())) {
                continue;
            }
            let Some(def) = view.values[v].def else {
                cone.inputs.insert(v);
                continue;
            };
            let n = &view.nodes[def];
            if n.kind == Kind::Constant {
                self.clone_constant(def, &mut cone.clones);
                continue;
            }
            let own = g.is_some() && self.group_of[def] == g;
            // What an attention has for itself is followed even where others read it too.
            let inside = own && !self.inner[def];
            if !own && !self.computes(g, def) {
                cone.inputs.insert(v);
                continue;
            }
            cone.visits += 1;
            cone.cost = cone.cost.saturating_add(n.cost);
            if inside {
                cone.reads_group = true;
                let own = n.kind.heavy() || self.groups[self.group_of[def].expect("inside")].hero == Hero::Loop;
                if n.kind == Kind::Update {
                    return Err(Stop::InPlace);
                }
                if own && !self.is_own(&index, v, rows, tail, t) {
                    return Err(Stop::OtherElement);
                }
                if own {
                    // The group computes it already, with all that is under it.
                    continue;
                }
            } else {
                *cone.places.entry(def).or_default() += 1;
                if !own {
                    cone.clones.insert(def);
                }
                self.captured_scalars(def, &mut cone.clones);
                let turns = if heavy { t.turns(&index) } else { 1 };
                let each =
                    elements.saturating_mul(turns) / if view.nodes[root].kind == Kind::Contraction { 64 } else { 1 };
                // What all rows share a workgroup computes once.
                let once = view.elements(def).saturating_mul(WORKGROUPS);
                let count = if n.kind.heavy() {
                    view.turns(def).saturating_mul(WORKGROUPS)
                } else if shared {
                    each.min(once)
                } else {
                    each
                };
                if own || self.free(def) {
                    let e = cone.evaluations.entry(def).or_default();
                    *e = e.saturating_add(count.max(1));
                }
            }
            next.extend(view.operands_at(def, &index, t).into_iter().map(|(v, index)| (v, index, shared)));
        }
        self.captured_scalars(root, &mut cone.clones);
        if let Some(operand) = view.updates(root) {
            cone.inputs.insert(operand);
        }
        if count > 1 {
            // What no row of the orbit reads would still be an operand.
            let reached: HashSet<Val> = seen.iter().map(|(v, _)| *v).collect();
            let bodies = reached.iter().filter_map(|v| view.values[*v].def).filter(|d| {
                view.nodes[*d].kind == Kind::Map && (self.computes(g, *d) || (g.is_some() && self.group_of[*d] == g))
            });
            let all = bodies.chain([root]).flat_map(|d| &view.nodes[d].reads);
            let missing = |v: &&Val| {
                let def = view.values[**v].def;
                let constant = def.is_some_and(|d| view.nodes[d].kind == Kind::Constant);
                !constant && !reached.contains(*v) && view.updates(root) != Some(**v)
            };
            if all.into_iter().any(|v| missing(&v)) {
                return Err(Stop::OtherElement);
            }
        }
        Ok(cone)
    }
    /// Evaluations that the code of one element of `root` comes to, counted up to `most`: what one branch of a padding or
    /// concatenation computes is not at hand in another.
    pub fn code(&self, root: Node, most: usize) -> usize {
        let view = self.view;
        let mut t = Table::new(false);
        // The branch that each branch lies in.
        let mut outer: Vec<usize> = vec![0];
        let mut seen: HashSet<(Val, Vec<Ix>, usize)> = HashSet::new();
        let mut count = 0;
        let within = |def: Node, index: &[Ix], branch: usize, t: &mut Table, outer: &mut Vec<usize>| {
            let mut below: Vec<(Val, Vec<Ix>, usize)> = vec![];
            for (v, index) in view.operands_at(def, index, t) {
                let mut inside = branch;
                if view.branches(def) {
                    outer.push(branch);
                    inside = outer.len() - 1;
                }
                below.push((v, index, inside));
            }
            below
        };
        let mut next = within(root, &view.own(root), 0, &mut t, &mut outer);
        while let Some((v, index, branch)) = next.pop()
            && count <= most
        {
            let Some(def) = view.values[v].def.filter(|d| view.nodes[*d].kind != Kind::Constant && self.free(*d))
            else {
                continue;
            };
            let mut place = (v, index, branch);
            while place.2 > 0 && !seen.contains(&place) {
                place.2 = outer[place.2];
            }
            if seen.contains(&place) {
                continue;
            }
            count += 1;
            next.extend(within(def, &place.1, branch, &mut t, &mut outer));
            seen.insert((v, place.1, branch));
        }
        count
    }
    /// Whether `index` of a heavy op's value is the element of the own row, or of its orbit.
    fn is_own(&self, index: &[Ix], v: Val, rows: Rows, tail: i64, t: &mut Table) -> bool {
        let shape = &self.view.values[v].shape;
        let at = t.flat(index, shape);
        if rows.orbit.0 == 1 {
            let row = if rows.count == 1 { Ix::Const(0) } else { Ix::Digit { div: tail, modulus: rows.count } };
            return at == row;
        }
        (0..rows.orbit.0).any(|p| {
            let row = of_orbit(shape, rows.orbit, p, tail, tail, t);
            shape.iter().product::<i64>() == rows.count && t.flat(&row, shape) == at
        })
    }
    /// Scalar constants of the block that a body reads.
    fn captured_scalars(&self, node: Node, clones: &mut BTreeSet<Node>) {
        for v in &self.view.nodes[node].reads {
            let v = &self.view.values[*v];
            if let Some(c) = v.def.filter(|c| self.view.nodes[*c].kind == Kind::Constant)
                && !is_tensor(v.value.r#type())
            {
                self.clone_constant(c, clones);
            }
        }
    }
    fn clone_constant(&self, node: Node, clones: &mut BTreeSet<Node>) {
        if clones.insert(node) {
            for d in self.view.nodes[node].reads.iter().filter_map(|v| self.view.values[*v].def) {
                self.clone_constant(d, clones);
            }
        }
    }
    /// The groups that write what is read.
    pub fn need(&self, inputs: &BTreeSet<Val>) -> BTreeSet<usize> {
        inputs.iter().filter_map(|v| self.writer(*v)).collect()
    }
    /// Whether `from` depends on `to`, directly or not. Only direct dependencies are kept: a group may gain one after
    /// others came to depend on it.
    pub fn reaches(&self, from: usize, to: usize) -> bool {
        let (mut next, mut seen) = (vec![from], vec![false; self.groups.len()]);
        while let Some(g) = next.pop() {
            if g == to {
                return true;
            }
            for dep in &self.groups[g].deps {
                if !std::mem::replace(&mut seen[*dep], true) {
                    next.push(*dep);
                }
            }
        }
        false
    }
    /// Buffers that the group would bind at most with more inputs and one more result.
    fn buffers(&self, g: usize, more: &Cone) -> usize {
        let outside = |v: &&Val| self.writer(**v) != Some(g);
        let inputs = self.groups[g].inputs.union(&more.inputs).filter(outside).count();
        inputs + self.groups[g].members.len() + 1
    }
    /// What `node` would bring into group `g`, or why it stays out.
    pub fn may_join(&self, node: Node, g: usize) -> Result<Join, Stop> {
        let mut stop = Stop::Space;
        for space in 0..self.groups[g].spaces.len() {
            match self.may_join_space(node, g, space) {
                Ok(join) => return Ok(join),
                Err(Stop::Space) => {}
                Err(s) => stop = s,
            }
        }
        Err(stop)
    }
    fn may_join_space(&self, node: Node, g: usize, space: usize) -> Result<Join, Stop> {
        let group = &self.groups[g];
        let mut rows = group.spaces[space];
        let elements = self.view.elements(node);
        let kind = self.view.nodes[node].kind;
        if matches!(group.hero, Hero::Special | Hero::Host | Hero::Library) {
            return Err(Stop::InPlace);
        }
        let fits = match group.hero {
            Hero::Reduce if !kind.heavy() => rows.count > 0 && elements % rows.count == 0,
            _ => elements == rows.count,
        };
        if !fits {
            return Err(Stop::Space);
        }
        if group.hero == Hero::Reduce && rows.count < 64 && elements / rows.count > LONGEST_TAIL {
            return Err(Stop::Serial);
        }
        let mut cone = self.cone(node, Some(g), rows);
        if cone.as_ref().is_err_and(|s| *s == Stop::OtherElement)
            && let Some((wider, c)) = self.orbit(node, g, rows)
        {
            (rows, cone) = (wider, Ok(c));
        }
        let cone = cone?;
        let written: BTreeSet<Val> = group.members.iter().filter_map(|n| self.view.updates(*n)).collect();
        let overwrites_own = self.view.updates(node).is_some_and(|operand| self.writer(operand) == Some(g));
        if overwrites_own || !written.is_disjoint(&cone.inputs) {
            return Err(Stop::InPlace);
        }
        if self.need(&cone.inputs).iter().any(|p| *p != g && self.reaches(*p, g)) {
            return Err(Stop::Cycle);
        }
        if self.buffers(g, &cone) > self.budget {
            return Err(Stop::Buffers);
        }
        Ok(Join { cone, space, rows })
    }
    /// Orbits of the rows of `g` within which `node` reads, as slices between the two show them.
    fn orbit(&self, node: Node, g: usize, rows: Rows) -> Option<(Rows, Cone)> {
        let sums = self.heavies(g).all(|h| self.view.is_generic_reduction(h));
        if self.groups[g].hero != Hero::Reduce || rows.orbit.0 > 1 || !sums {
            return None;
        }
        let (mut next, mut seen) = (vec![node], HashSet::new());
        let mut found = BTreeSet::new();
        while let Some(n) = next.pop() {
            if !seen.insert(n) {
                continue;
            }
            found.extend(self.view.part(n, rows.count).filter(|o| o.0 == 2 && rows.count % (o.0 * o.1) == 0));
            let below = self.view.nodes[n].reads.iter().filter_map(|v| self.view.values[*v].def);
            next.extend(below.filter(|d| self.view.nodes[*d].kind == Kind::Map));
        }
        found.into_iter().find_map(|orbit| {
            let rows = Rows { orbit, ..rows };
            Some((rows, self.cone(node, Some(g), rows).ok()?))
        })
    }
    pub fn open(&mut self, hero: Hero, rows: i64, why: String) -> usize {
        self.groups.push(Group {
            hero,
            spaces: vec![Rows::plain(rows)],
            members: vec![],
            deps: BTreeSet::new(),
            clones: BTreeSet::new(),
            kept: BTreeSet::new(),
            inputs: BTreeSet::new(),
            why,
            stops: BTreeSet::new(),
        });
        self.groups.len() - 1
    }
    /// Puts `node` into `g`.
    pub fn join(&mut self, node: Node, g: usize, join: &Join) {
        self.groups[g].spaces[join.space] = join.rows;
        self.add(node, g, &join.cone);
    }
    /// Puts `node` into `g`, which has one row space. Groups that computed it for themselves read it from now on, unless
    /// `g` needs what they write.
    pub fn add(&mut self, node: Node, g: usize, cone: &Cone) {
        let was_free = self.free(node);
        self.group_of[node] = Some(g);
        self.forget(node);
        let need = self.need(&cone.inputs);
        let group = &mut self.groups[g];
        group.members.push(node);
        group.members.sort_unstable();
        group.deps.extend(need.into_iter().filter(|p| *p != g));
        group.clones.extend(&cone.clones);
        group.clones.remove(&node);
        group.inputs.extend(&cone.inputs);
        for (n, count) in &cone.evaluations {
            self.evaluations[*n] = self.evaluations[*n].saturating_add(*count);
        }
        if was_free {
            for other in (0..self.groups.len()).filter(|o| *o != g) {
                if !self.groups[other].clones.contains(&node) {
                    continue;
                }
                if self.reaches(g, other) {
                    self.groups[other].kept.insert(node);
                    continue;
                }
                self.groups[other].clones.remove(&node);
                self.groups[other].deps.insert(g);
                self.groups[other].inputs.extend(&self.view.nodes[node].results);
            }
        }
    }
    /// Makes what the group computes for itself one of its results.
    pub fn hold(&mut self, node: Node, g: usize) {
        self.group_of[node] = Some(g);
        self.groups[g].clones.remove(&node);
        self.groups[g].members.push(node);
        self.groups[g].members.sort_unstable();
    }
    /// Reads the clones, inputs and dependencies of a group anew, after ops left it or others.
    pub fn refresh(&mut self, g: usize) {
        let mut all = Cone::default();
        let mut walk = Walk::default();
        for node in self.groups[g].members.clone() {
            if matches!(self.groups[g].hero, Hero::Special | Hero::Host) {
                all.inputs.extend(&self.view.nodes[node].reads);
                continue;
            }
            let found = match &self.groups[g].spaces[..] {
                [rows] if self.groups[g].hero == Hero::Loop => self.cone_beside(node, Some(g), *rows, &mut walk).ok(),
                spaces => spaces.iter().find_map(|rows| self.cone(node, Some(g), *rows).ok()),
            };
            if let Some(c) = found {
                all.inputs.extend(&c.inputs);
                all.clones.extend(&c.clones);
            }
        }
        let need = self.need(&all.inputs);
        let group = &mut self.groups[g];
        (group.inputs, group.clones) = (all.inputs, all.clones);
        group.deps = need.into_iter().filter(|p| *p != g).collect();
    }
    /// Makes group `from` part of group `into`; `from` stays behind empty.
    pub fn absorb(&mut self, into: usize, from: usize, why: &str) {
        let from_group = &mut self.groups[from];
        let members = std::mem::take(&mut from_group.members);
        let (clones, inputs) = (std::mem::take(&mut from_group.clones), std::mem::take(&mut from_group.inputs));
        let kept = std::mem::take(&mut from_group.kept);
        let (deps, stops) = (std::mem::take(&mut from_group.deps), std::mem::take(&mut from_group.stops));
        let spaces = from_group.spaces.clone();
        for n in &members {
            self.group_of[*n] = Some(into);
        }
        let group = &mut self.groups[into];
        group.members.extend(members);
        group.members.sort_unstable();
        group.clones.extend(clones);
        group.kept.extend(kept);
        group.inputs.extend(inputs);
        group.deps.extend(deps);
        group.stops.extend(stops);
        for rows in spaces {
            match group.spaces.iter_mut().find(|s| s.count == rows.count) {
                Some(s) if s.orbit.0 == 1 => *s = rows,
                Some(_) => {}
                None => group.spaces.push(rows),
            }
        }
        group.why = format!("{}; {why}", group.why);
        for (g, group) in self.groups.iter_mut().enumerate() {
            if group.deps.remove(&from) && g != into {
                group.deps.insert(into);
            }
        }
    }
}
