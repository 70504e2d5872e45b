//! The frame of a kernel: a dispatch function read as data, the `gpu.module` with its `gpu.func`, arguments bound to
//! buffers, workgroups spread over the grid. What happens inside is the emitters' business.

use super::{build::Em, index::Ix};
use crate::{ir::*, kernels, spec::DeviceSpec};
use melior::ir::{Attribute, Type, r#type::FunctionType};

/// A dispatch function.
pub struct Dispatch<'c> {
    pub func: O<'c>,
    pub name: &'c str,
    pub hero: &'c str,
    pub label: &'c str,
    pub args: Vec<V<'c>>,
    pub results: Vec<V<'c>>,
    /// For each result, the argument in whose buffer it is written.
    pub alias: Vec<Option<usize>>,
    /// Everything but the return.
    pub ops: Vec<O<'c>>,
    /// Workgroups that a multiprocessor should hold at once, where that bounds what a thread may keep in registers.
    pub resident: Option<u32>,
    /// If the kernel may start early: for each argument, whether no dispatch writes it.
    pub early: Option<Vec<bool>>,
}
impl<'c> Dispatch<'c> {
    /// `None` if `func` is not a dispatch.
    pub fn of(func: O<'c>) -> Option<Self> {
        if name(func) != "func.func" || !has_attr(func, "zml.dispatch") {
            return None;
        }
        let body = block(func, 0);
        let mut ops = ops(body);
        let results = operands(ops.pop()?);
        let alias = i64s_attr(func, "zml.alias").unwrap_or_default();
        Some(Dispatch {
            func,
            name: str_attr(func, "sym_name")?,
            hero: str_attr(func, "zml.hero").unwrap_or("loop"),
            label: str_attr(func, "zml.label").unwrap_or(""),
            args: args(body),
            alias: (0..results.len()).map(|i| alias.get(i).and_then(|a| usize::try_from(*a).ok())).collect(),
            results,
            ops,
            resident: None,
            early: None,
        })
    }
}

impl<'c> Dispatch<'c> {
    /// From here on what earlier dispatches write may be read.
    pub fn wait(&self, b: &B<'c>) {
        if self.early.is_some() {
            b.op("zml.await", &[], &[], &[], vec![]);
        }
    }
    /// Whether `v` is made from nothing that a dispatch writes.
    pub fn is_constant(&self, v: V<'c>) -> bool {
        let Some(early) = &self.early else { return true };
        let (mut next, mut seen) = (vec![v], std::collections::HashSet::new());
        while let Some(v) = next.pop() {
            if !seen.insert(key(v)) {
                continue;
            }
            match def(v) {
                Some(op) => next.extend(reads(op).into_iter().chain(operands(op))),
                None if self.args.iter().zip(early).any(|(a, e)| key(*a) == key(v) && !e) => return false,
                None => {}
            }
        }
        true
    }
}

/// How a kernel is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Workgroups.
    pub grid: [u32; 3],
    /// Threads of a workgroup, along x.
    pub block: u32,
}
impl Launch {
    /// At least `groups` workgroups and at least one.
    pub fn new(groups: i64, block: u32, spec: &DeviceSpec) -> Option<Self> {
        let groups = u64::try_from(groups.max(1)).ok()?;
        let [x, y, z] = spec.max_grid.map(u64::from);
        // Divided as evenly as possible, so that few workgroups have nothing to do.
        let planes = groups.div_ceil(x * y);
        let rows = groups.div_ceil(planes).div_ceil(x);
        let columns = groups.div_ceil(planes * rows);
        let grid = [columns, rows, planes].map(|n| u32::try_from(n).ok());
        let [Some(gx), Some(gy), Some(gz)] = grid else { return None };
        (u64::from(gz) <= z).then_some(Launch { grid: [gx, gy, gz], block })
    }
}

/// What an emitter gets to work with.
pub struct Frame<'c> {
    /// Where each result is written.
    pub outs: Vec<V<'c>>,
    /// Workgroup memory as asked for.
    pub shared: Vec<V<'c>>,
    /// Number of the workgroup; may exceed what was asked for.
    pub group: Ix,
    /// Number of the thread in its workgroup.
    pub thread: Ix,
}

/// Writes the kernel of `d` at the builder. `shared`: element count and type of each array in workgroup memory.
pub fn kernel<'c>(
    b: &B<'c>,
    d: &Dispatch<'c>,
    launch: Launch,
    shared: &[(i64, Type<'c>)],
    f: impl FnOnce(&mut Em<'c>, &B<'c>, &Frame<'c>),
) {
    eager_kernel(b, d, launch, shared, |em, b, frame| {
        d.wait(b);
        f(em, b, frame);
    });
}
/// The same where `f` itself writes [`Dispatch::wait`].
pub fn eager_kernel<'c>(
    b: &B<'c>,
    d: &Dispatch<'c>,
    launch: Launch,
    shared: &[(i64, Type<'c>)],
    f: impl FnOnce(&mut Em<'c>, &B<'c>, &Frame<'c>),
) {
    let b = &b.with_loc(location(d.func));
    let flat = |x: &V<'c>| b.memref(elements(x.r#type()), elem(x.r#type()));
    let plain: Vec<usize> = (0..d.args.len()).filter(|i| !d.alias.contains(&Some(*i))).collect();
    let mut types: Vec<Type> = plain.iter().map(|i| flat(&d.args[*i])).collect();
    types.extend(d.results.iter().map(flat));
    let attributions: Vec<Type> =
        shared.iter().map(|(n, t)| b.ty(&format!("memref<{n}x{t}, #gpu.address_space<workgroup>>"))).collect();
    let all: Vec<Type> = types.iter().chain(&attributions).copied().collect();
    let mut wide = d.ops.iter().any(|op| results(*op).iter().chain(&operands(*op)).any(|v| is_far(*v)));
    let module = b.region(&[], |b, _| {
        let body = b.region(&all, |b, memory| {
            let dim =
                |op: &str, d: &str| b.op1(op, &[], b.index(), &[("dimension", b.attr(&format!("#gpu<dim {d}>")))]);
            let thread = dim("gpu.thread_id", "x");
            let mut em = Em::new(b.c, def(thread).expect("just written"));
            let thread = em.ix.value(thread, (0, i64::from(launch.block) - 1));
            let mut group = em.ix.constant(0);
            let mut stride = 1;
            for (d, n) in ["x", "y", "z"].into_iter().zip(launch.grid) {
                if n > 1 {
                    let i = em.ix.value(dim("gpu.block_id", d), (0, i64::from(n) - 1));
                    let i = em.ix.scale(i, stride);
                    group = em.ix.add(group, i);
                }
                stride *= i64::from(n);
            }
            let outs = memory[plain.len()..types.len()].to_vec();
            for (i, a) in plain.iter().enumerate() {
                em.buffers.insert(key(d.args[*a]), memory[i]);
            }
            for (i, a) in d.alias.iter().enumerate() {
                if let Some(a) = a {
                    em.buffers.insert(key(d.args[*a]), outs[i]);
                }
            }
            let frame = Frame { outs, shared: memory[types.len()..].to_vec(), group, thread };
            f(&mut em, b, &frame);
            wide |= em.farthest > i64::from(i32::MAX);
            em.drop_unread();
            b.op("gpu.return", &[], &[], &[], vec![]);
        });
        let function = b.op(
            "gpu.func",
            &[],
            &[],
            &[
                ("sym_name", b.str(d.name)),
                ("function_type", b.type_attr(FunctionType::new(b.c, &types, &[]).into())),
                ("gpu.kernel", b.unit()),
                ("known_block_size", b.i32s(&[launch.block as i32, 1, 1])),
                ("workgroup_attributions", b.i64_attr(shared.len() as i64)),
                ("zml.grid", b.i32s(&launch.grid.map(|n| n as i32))),
                ("zml.label", b.str(d.label)),
            ],
            vec![body],
        );
        let constant = |i: usize| {
            let argument = plain.get(i).filter(|_| i < plain.len());
            argument.is_some_and(|a| d.early.as_ref().is_some_and(|e| e[*a]))
        };
        let access: Vec<Attribute> = args(block(function, 0))[..types.len()]
            .iter()
            .enumerate()
            .map(|(i, m)| {
                let mut all = vec![("zml.access", b.str(access(*m)))];
                if constant(i) {
                    all.push(("zml.constant", b.unit()));
                }
                b.dict(&all)
            })
            .collect();
        set_arguments(b, function, &access);
        if let Some(n) = d.resident {
            rewrite::set_attr(function, "zml.resident", b.i64_attr(i64::from(n)));
        }
        if d.early.is_some() {
            rewrite::set_attr(function, "zml.overlaps", b.unit());
        }
        if wide {
            rewrite::set_attr(function, kernels::WIDE, b.unit());
        }
    });
    b.op("gpu.module", &[], &[], &[("sym_name", b.str(d.name))], vec![module]);
}
/// Whether the sum of two positions in a tensor may exceed 31 bits: searches in it compute such.
fn is_far(v: V) -> bool {
    is_tensor(v.r#type()) && elements(v.r#type()) > i64::from(i32::MAX) / 2
}
fn set_arguments<'c>(b: &B<'c>, function: O<'c>, attributes: &[Attribute<'c>]) {
    rewrite::set_attr(function, "arg_attrs", b.array(attributes));
}
/// What the kernel does with a buffer. One that it does not touch counts as read.
fn access(memory: V) -> &'static str {
    let users: Vec<&str> = uses(memory).iter().map(|(op, _)| name(*op)).collect();
    let writes = users.iter().any(|op| op.ends_with(".store"));
    let reads = users.iter().any(|op| op.ends_with(".load") || *op == "zml.copy_async");
    match (reads, writes) {
        (true, true) => "read_write",
        (false, true) => "write",
        _ => "read",
    }
}
