//! Refuses a manifest that could lead its reader astray, so that nothing later has to ask again.
//!
//! What holds of every manifest that passes:
//! 1. every index is in range: blob, weight, state, argument, result, buffer, kernel;
//! 2. every tensor has fewer than 2^63 bytes, and an embedded weight's blob has the tensor's size;
//! 3. entries of one name are specialisations: they differ in their sizes, and agree in the names of dimensions, in names
//!    and element types of arguments and results, and in who supplies them; a result that is the next value of a state has
//!    the state's element type and shape;
//! 4. a profile has one program for each entry, and a program one result buffer of the right size for each result;
//! 5. every buffer lies within what holds it, and every slice within its buffer;
//! 6. a dispatch has as many buffers and scalars as its kernel, a copy has two equal sizes that do not overlap, a
//!    predicate has 1 byte, a case index 4;
//! 7. nothing writes a constant, a weight, or an input that is not donated;
//! 8. a matrix of a library call lies within its slice, has rows or columns without gaps that do not overlap, and its
//!    element types are some that are multiplied;
//! 9. kernels have 1 to 2^31 threads a workgroup, scalars of whole words, and addresses of buffers in ascending order;
//! 10. machine code has one blob for each kernel of its profile.
//!
//! It must not judge what a device can do: that is the runtime's.

use crate::{
    Argument, BufferKind, DType, Dispatch, Entry, EntryResult, Gemm, Kernel, Manifest, Matrix, Program, Slice, Step,
    Tensor, WeightSource,
};
use std::collections::BTreeSet;

/// Larger than any real tensor, and small enough that sums of offsets do not overflow.
const MOST_BYTES: u64 = 1 << 62;

type Check = Result<(), String>;

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(otherwise()) }
}

fn sized(t: &Tensor) -> Check {
    ensure(t.bytes() < MOST_BYTES, || format!("tensor `{}` is too large", t.name))
}

impl Manifest {
    /// See the list at the top of this file.
    pub fn check(&self) -> Check {
        for w in &self.weights {
            sized(&w.tensor)?;
            if let WeightSource::Embedded { blob } = w.source {
                self.has_blob(blob)?;
                let bytes = self.blobs[blob].bytes;
                ensure(bytes == w.tensor.bytes(), || format!("weight `{}` has {bytes} bytes", w.tensor.name))?;
            }
        }
        self.state.iter().try_for_each(|s| sized(&s.tensor))?;
        let mut ids = BTreeSet::new();
        for (i, e) in self.entries.iter().enumerate() {
            ensure(ids.insert((&e.name, &e.dims)), || format!("two entries are called `{}`", e.id()))?;
            if let Some(first) = self.entries[..i].iter().find(|f| f.name == e.name) {
                ensure(interface(first) == interface(e), || {
                    format!("`{}` and `{}` differ in more than their sizes", first.id(), e.id())
                })?;
            }
            self.check_entry(e).map_err(|why| format!("entry {}: {why}", e.id()))?;
        }
        for p in &self.profiles {
            let at = format!("profile {}:{}", p.target, p.name);
            for k in &p.kernels {
                self.has_blob(k.blob).and_then(|()| check_kernel(k)).map_err(|e| format!("{at}: {e}"))?;
            }
            if let Some(native) = &p.native {
                native.blobs.iter().try_for_each(|b| self.has_blob(*b)).map_err(|e| format!("{at}: {e}"))?;
                ensure(native.blobs.len() == p.kernels.len(), || {
                    format!("{at}: machine code of {} kernels for {}", native.blobs.len(), p.kernels.len())
                })?;
            }
            ensure(p.programs.len() == self.entries.len(), || {
                format!("{at}: {} programs for {} entries", p.programs.len(), self.entries.len())
            })?;
            for (program, entry) in p.programs.iter().zip(&self.entries) {
                Checked { program, entry, manifest: self, kernels: &p.kernels }
                    .check()
                    .map_err(|e| format!("{at}, entry {}: {e}", entry.id()))?;
            }
        }
        Ok(())
    }

    fn has_blob(&self, i: usize) -> Check {
        ensure(i < self.blobs.len(), || format!("blob {i} does not exist"))
    }

    fn check_entry(&self, e: &Entry) -> Check {
        for a in &e.arguments {
            match a {
                Argument::Input { tensor, .. } => sized(tensor)?,
                Argument::Weight { weight } => {
                    ensure(*weight < self.weights.len(), || format!("weight {weight} does not exist"))?;
                }
                Argument::State { state } => {
                    ensure(*state < self.state.len(), || format!("state {state} does not exist"))?;
                }
            }
        }
        let mut written = BTreeSet::new();
        for r in &e.results {
            sized(&r.tensor)?;
            let Some(s) = r.state else { continue };
            let state = self.state.get(s).ok_or_else(|| format!("state {s} does not exist"))?;
            ensure(state.tensor.dtype == r.tensor.dtype && state.tensor.shape == r.tensor.shape, || {
                format!("result `{}` is not of the type of state `{}`", r.tensor.name, state.tensor.name)
            })?;
            ensure(written.insert(s), || format!("two results are the next value of state `{}`", state.tensor.name))?;
        }
        Ok(())
    }
}

/// Everything of an entry but its sizes.
type Interface<'a> = (Vec<&'a str>, Vec<Argument>, Vec<(&'a str, DType, usize, Option<usize>)>);

fn interface(e: &Entry) -> Interface<'_> {
    // A shape is kept as its rank alone.
    let any_size = |t: &Tensor| Tensor { shape: vec![0; t.shape.len()], ..t.clone() };
    let argument = |a: &Argument| match a {
        Argument::Input { tensor, donated } => Argument::Input { tensor: any_size(tensor), donated: *donated },
        other => other.clone(),
    };
    let result = |r| {
        let EntryResult { tensor, state }: &EntryResult = r;
        (&tensor.name[..], tensor.dtype, tensor.shape.len(), *state)
    };
    let dims = e.dims.iter().map(|d| &d.name[..]).collect();
    (dims, e.arguments.iter().map(argument).collect(), e.results.iter().map(result).collect())
}

fn check_kernel(k: &Kernel) -> Check {
    let threads = k.block.iter().try_fold(1u32, |n, d| n.checked_mul(*d)).filter(|n| (1..=1 << 31).contains(n));
    ensure(threads.is_some(), || format!("kernel {} has a workgroup of {:?} threads", k.symbol, k.block))?;
    ensure(k.scalar_bytes.is_multiple_of(4), || format!("kernel {} has scalars of broken words", k.symbol))?;
    let ascending = k.addresses.is_sorted_by(|a, b| a < b);
    let exist = k.addresses.last().is_none_or(|a| (*a as usize) < k.buffers.len());
    ensure(ascending && exist, || format!("kernel {} has addresses of no buffers", k.symbol))
}

/// One program beside all that its indices refer to.
struct Checked<'a> {
    program: &'a Program,
    entry: &'a Entry,
    manifest: &'a Manifest,
    kernels: &'a [Kernel],
}

impl Checked<'_> {
    fn check(&self) -> Check {
        let (p, e) = (self.program, self.entry);
        ensure(p.arena_bytes < MOST_BYTES, || "the arena is too large".into())?;
        for (i, b) in p.buffers.iter().enumerate() {
            let limit = match b.kind {
                BufferKind::Argument(a) => e.arguments.get(a).map(|a| self.manifest.argument(a).bytes()),
                BufferKind::Result(r) => e.results.get(r).map(|r| r.tensor.bytes()),
                BufferKind::Constant(c) => self.manifest.blobs.get(c).map(|b| b.bytes),
                BufferKind::Arena(offset) => p.arena_bytes.checked_sub(offset),
            };
            ensure(limit.is_some_and(|l| b.bytes <= l), || format!("buffer {i} is larger than what holds it"))?;
        }
        ensure(p.results.len() == e.results.len(), || format!("{} results for {}", p.results.len(), e.results.len()))?;
        for (b, r) in p.results.iter().zip(&e.results) {
            let bytes = p.buffers.get(*b).map(|b| b.bytes).ok_or_else(|| format!("buffer {b} does not exist"))?;
            ensure(bytes == r.tensor.bytes(), || {
                format!("result `{}` lies in a buffer of {bytes} bytes", r.tensor.name)
            })?;
        }
        self.steps(&p.steps)
    }

    fn steps(&self, steps: &[Step]) -> Check {
        for s in steps {
            match s {
                Step::Dispatch(d) => self.dispatch(d)?,
                Step::Barrier => {}
                Step::Copy { from, to } => {
                    self.slice(from)?;
                    self.written(to)?;
                    ensure(from.bytes == to.bytes, || "copy between different sizes".into())?;
                    let apart = from.buffer != to.buffer || from.offset.abs_diff(to.offset) >= from.bytes;
                    ensure(apart, || format!("copy within buffer {} onto itself", from.buffer))?;
                }
                Step::Fill { to, .. } => self.written(to)?,
                Step::Library(g) => self.gemm(g).map_err(|e| format!("library call: {e}"))?,
                Step::While { condition, predicate, body, .. } => {
                    self.scalar(predicate, 1)?;
                    self.steps(condition)?;
                    self.steps(body)?;
                }
                Step::If { predicate, then, otherwise } => {
                    self.scalar(predicate, 1)?;
                    self.steps(then)?;
                    self.steps(otherwise)?;
                }
                Step::Case { index, branches } => {
                    self.scalar(index, 4)?;
                    ensure(!branches.is_empty(), || "a case without branches".into())?;
                    branches.iter().try_for_each(|b| self.steps(b))?;
                }
            }
        }
        Ok(())
    }

    fn dispatch(&self, d: &Dispatch) -> Check {
        let k = self.kernels.get(d.kernel).ok_or_else(|| format!("kernel {} does not exist", d.kernel))?;
        ensure(k.buffers.len() == d.buffers.len() && k.scalar_bytes as usize == 4 * d.scalars.len(), || {
            format!("dispatch of {} has other arguments than the kernel", k.symbol)
        })?;
        for (s, access) in d.buffers.iter().zip(&k.buffers) {
            if access.writes() { self.written(s) } else { self.slice(s) }
                .map_err(|e| format!("dispatch of {}: {e}", k.symbol))?;
        }
        Ok(())
    }

    fn gemm(&self, g: &Gemm) -> Check {
        let types = (g.a.dtype, g.b.dtype, g.to.dtype);
        let known = [
            (DType::F32, DType::F32, DType::F32),
            (DType::F64, DType::F64, DType::F64),
            (DType::F16, DType::F16, DType::F32),
            (DType::BF16, DType::BF16, DType::F32),
            (DType::I8, DType::I8, DType::I32),
        ];
        let is_f8 = |t: DType| t.is_float() && t.bits() == 8;
        let f8 = is_f8(types.0) && is_f8(types.1) && types.2 == DType::F32;
        ensure(f8 || known.contains(&types), || format!("{types:?} is no product"))?;
        ensure([g.batch, g.m, g.n, g.k].iter().all(|e| (1..=i32::MAX as u64).contains(e)), || "an extent".into())?;
        ensure(!g.tf32 || g.a.dtype == DType::F32, || "tf32 of other factors than f32".into())?;
        self.matrix(&g.a, [g.batch, g.m, g.k])?;
        self.matrix(&g.b, [g.batch, g.k, g.n])?;
        self.matrix(&g.to, [g.batch, g.m, g.n])?;
        ensure(g.to.strides[2] == 1, || "a result by columns".into())?;
        let apart = |s: &Slice| s.buffer != g.to.slice.buffer || s.bytes == 0;
        ensure(apart(&g.a.slice) && apart(&g.b.slice), || "its result is an operand".into())?;
        self.written(&g.to.slice)?;
        self.written(&g.workspace)
    }

    fn matrix(&self, x: &Matrix, extents: [u64; 3]) -> Check {
        self.slice(&x.slice)?;
        let [_, rows, columns] = x.strides;
        let dense = |inner: u64, count: u64, outer: u64| inner == 1 && outer >= count;
        ensure(dense(columns, extents[2], rows) || dense(rows, extents[1], columns), || "a matrix with gaps".into())?;
        let last = x.strides.iter().zip(extents).try_fold(0u64, |sum, (s, e)| sum.checked_add(s.checked_mul(e - 1)?));
        let bytes = last.and_then(|l| l.checked_add(1)?.checked_mul(x.dtype.bytes() as u64));
        ensure(bytes.is_some_and(|b| b <= x.slice.bytes), || "a matrix leaves its slice".into())
    }

    fn slice(&self, s: &Slice) -> Check {
        let b = self.program.buffers.get(s.buffer).ok_or_else(|| format!("buffer {} does not exist", s.buffer))?;
        ensure(s.offset.checked_add(s.bytes).is_some_and(|e| e <= b.bytes), || {
            format!("slice out of buffer {}", s.buffer)
        })
    }

    fn written(&self, s: &Slice) -> Check {
        self.slice(s)?;
        let may = match self.program.buffers[s.buffer].kind {
            BufferKind::Argument(a) => match &self.entry.arguments[a] {
                Argument::Input { donated, .. } => *donated,
                Argument::State { .. } => true,
                Argument::Weight { .. } => false,
            },
            BufferKind::Constant(_) => false,
            BufferKind::Result(_) | BufferKind::Arena(_) => true,
        };
        ensure(may, || format!("buffer {} is written, and may only be read", s.buffer))
    }

    fn scalar(&self, s: &Slice, bytes: u64) -> Check {
        self.slice(s)?;
        ensure(s.bytes == bytes, || format!("a predicate or index of {} bytes", s.bytes))
    }
}
