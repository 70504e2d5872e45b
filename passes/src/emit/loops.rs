//! The default emitter: every element of every result is computed by itself, by one thread, which takes one element or a
//! run of neighbours.
//!
//! On `tensor<6x8xf32>` with 16-byte vectors a run is 4: 12 threads, thread t owns elements 4t .. 4t+3 of the flat result
//! and the engine sees index (t / 2, (t mod 2) * 4 + lane). Results of one length share their position and what they have
//! in common. Where the length of a flat elementwise kernel is no multiple of the run, the threads after the full runs take
//! the rest one element each.

use super::{
    blocks::Blocks,
    build::Em,
    index::Ix,
    kernel::{Dispatch, Frame, Launch, kernel},
    nest::Nest,
    output::{Item, items, write},
};
use crate::{ir::*, pass::PassError, spec::DeviceSpec};

/// Results that are written together: all that have as many elements.
struct Section<'c> {
    elements: i64,
    items: Vec<Item<'c>>,
    /// Neighbours that a thread takes.
    run: i64,
    /// In blocks instead of runs.
    blocks: Option<Blocks>,
}
impl Section<'_> {
    fn threads(&self) -> i64 {
        if let Some(blocks) = &self.blocks {
            return blocks.threads();
        }
        self.elements / self.run + self.elements % self.run
    }
}

pub fn emit<'c>(b: &B<'c>, d: &Dispatch<'c>, spec: &DeviceSpec) -> Result<Launch, PassError> {
    let mut sections: Vec<Section> = vec![];
    for item in items(d) {
        let elements = item.elements();
        match sections.iter_mut().find(|s| s.elements == elements) {
            Some(s) => s.items.push(item),
            None => sections.push(Section { elements, items: vec![item], run: 1, blocks: None }),
        }
    }
    for s in &mut sections {
        s.run = run(d, s, spec);
        s.blocks = Blocks::of(d, &s.items, spec);
    }
    let threads = sections.iter().map(Section::threads).max().unwrap_or(0);
    let block = block_size(threads, spec);
    let launch =
        Launch::new((threads + i64::from(block) - 1) / i64::from(block), block, spec).ok_or_else(|| too_large(d))?;
    kernel(b, d, launch, &[], |em, b, frame| {
        let first = em.ix.scale(frame.group, i64::from(block));
        let number = em.ix.add(first, frame.thread);
        for s in &sections {
            section(em, b, d, frame, s, number);
        }
    });
    Ok(launch)
}
pub fn too_large(d: &Dispatch) -> PassError {
    PassError::Unsupported {
        what: format!("kernel {} needs more workgroups than this device starts at once", d.name),
        hint: String::new(),
    }
}
/// Few threads: small workgroups, so that they spread over the device.
fn block_size(threads: i64, spec: &DeviceSpec) -> u32 {
    let many = threads > 64 * i64::from(spec.parallel_blocks);
    (if many { 256 } else { 64 }).min(spec.max_block)
}

fn section<'c>(em: &mut Em<'c>, b: &B<'c>, d: &Dispatch<'c>, frame: &Frame<'c>, s: &Section<'c>, number: Ix) {
    let (total, run) = (s.elements, s.run);
    if total == 0 {
        return;
    }
    em.if_below(b, number, s.threads(), |em, b| {
        let items: Vec<&Item> = s.items.iter().collect();
        if let Some(blocks) = &s.blocks {
            return blocks.write(em, b, d, frame, &items, number);
        }
        let (full, rest) = (total / run, total % run);
        let vector = |em: &mut Em<'c>, b: &B<'c>| {
            let at = em.ix.scale(number, run);
            let lane = em.ix.lane(run);
            let at = em.ix.add(at, lane);
            write(em, b, d, frame, &items, at);
        };
        if rest == 0 {
            return vector(em, b);
        }
        let (x, n) = (em.ssa(b, number), em.index(full));
        let condition = b.cmpi("ult", x, n);
        em.if_else(
            b,
            condition,
            &[],
            |em, b| {
                vector(em, b);
                vec![]
            },
            |em, b| {
                let at = em.ix.add_constant(number, full * run - full);
                write(em, b, d, frame, &items, at);
                vec![]
            },
        );
    });
}
/// Work of one element in ops, an expanded function counted as twelve; serial loops are counted once.
pub fn cost(d: &Dispatch) -> i64 {
    cost_of(d.ops.iter().copied()).max(1)
}
/// The same of what `v` is computed from.
pub fn cost_under(v: V) -> i64 {
    let (mut next, mut seen) = (vec![v], std::collections::HashSet::new());
    let mut ops = vec![];
    while let Some(op) = next.pop().and_then(def) {
        if seen.insert(op_key(op)) {
            next.extend(reads(op).into_iter().chain(operands(op)));
            ops.push(op);
        }
    }
    cost_of(ops.into_iter())
}
fn cost_of<'c>(ops: impl Iterator<Item = O<'c>>) -> i64 {
    let inner = ops.flat_map(walk);
    let costs = inner.map(|op| match name(op) {
        "arith.constant" => 0,
        "tensor.extract" | "tensor.pad" | "tensor.concat" | "tensor.insert_slice" | "zml.dynamic_update_slice" => 4,
        n if n.starts_with("math.") => 12,
        n if n.starts_with("arith.") || n.starts_with("scf.") => 1,
        _ => 0,
    });
    costs.sum()
}
/// Elements a thread takes: as many as one vector holds of the widest type, while the innermost extent or, in a kernel
/// where all is at the same index, the whole length can be cut so.
fn run(d: &Dispatch, s: &Section, spec: &DeviceSpec) -> i64 {
    /// Ops of one thread above which longer runs only make the kernel slow to compile.
    const MOST_OPS: i64 = 1024;
    let types = s.items.iter().map(|i| d.results[i.result].r#type());
    let types = types.chain(d.args.iter().map(ValueLike::r#type).filter(|t| elements(*t) > 1));
    let widest = types.map(elem_bytes).max().unwrap_or(1);
    let serial = d.ops.iter().filter_map(|op| Nest::of(*op)).any(|n| !n.is_parallel());
    let fill = 64 * i64::from(spec.parallel_blocks);
    let mut run = i64::from(spec.vector_bytes) / widest;
    let fits = |run: i64| {
        let cut = s.items.iter().all(|i| i.shape.last().is_some_and(|n| n % run == 0));
        let cut = cut || (s.elements >= run && is_flat(d, s));
        cut && run * cost(d) <= MOST_OPS && (!serial || s.elements / run >= fill)
    };
    // Searches of neighbours take turns of their own.
    if d.ops.iter().flat_map(|op| walk(*op)).any(|op| matches!(name(op), "scf.for" | "scf.while")) {
        return 1;
    }
    while run > 1 && !fits(run) {
        run /= 2;
    }
    run.max(1)
}
/// Whether every value of the dispatch that has the section's length is read at the section's own flat position.
fn is_flat(d: &Dispatch, s: &Section) -> bool {
    d.ops.iter().all(|op| match name(*op) {
        "linalg.generic" => {
            let nest = Nest::of(*op).expect("a generic is a nest");
            nest.is_parallel() && nest.bounds == s.items[0].shape && nest.is_identity()
        }
        "linalg.fill" | "tensor.empty" => true,
        "arith.constant" => true,
        _ => false,
    })
}
