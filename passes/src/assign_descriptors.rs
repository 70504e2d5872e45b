//! assign-descriptors: where a kernel finds its buffers and scalars, for profiles with `abi = "descriptors"`.
//!
//! Buffers: descriptor set 0, bindings in argument order. Where the profile has `addresses`, a buffer that is larger than
//! a binding may span, and of too many buffers the last, are found by address instead: the host gives the kernel a table of
//! addresses in one more buffer, at the binding after the others. Scalars: a push-constant block, 4 bytes each in argument
//! order. How each buffer is accessed is proved from the uses, so that a target may decorate by it.
//!
//! ```text
//! gpu.func @k(%a: memref<64xf32> {zml.access = "read"}, %o: memref<64xf32> {zml.access = "write"}, %n: i32)
//! ```
//! becomes
//! ```text
//! gpu.func @k(%a: memref<64xf32> {zml.access = "read", zml.binding = 0, zml.set = 0},
//!             %o: memref<64xf32> {zml.access = "write", zml.binding = 1, zml.set = 0}, %n: i32 {zml.offset = 0})
//! ```
//! and, if `%a` is too large to be bound, `%a` has `zml.address = 0` and `%o` has binding 0.
//! Must not split kernels: fuse made groups that fit, and one that does not is refused here with its numbers.
//!
//! Invariants, for every kernel:
//! 1. buffers come before scalars; those that are bound have `zml.set = 0` and `zml.binding` 0, 1, ..., the others
//!    `zml.address` 0, 1, ... in argument order;
//! 2. `zml.access` covers every access that the kernel makes;
//! 3. buffers that are bound, and the table of addresses if there is one, number at most `max-buffers`, and each spans at
//!    most `max-buffer-bytes`; without `addresses` that is all buffers;
//! 4. scalars are 4 bytes each at `zml.offset` 0, 4, ... and at most `max-scalar-bytes` together.

use crate::{
    ir::{
        B, BlockLike, O, TypeLike, V, ValueLike, array, block, body, dict_get, elem_bytes, elements, name, ops, read,
        rewrite::set_attr,
    },
    kernels,
    pass::{Env, Pass, PassError},
    spec::DeviceSpec,
};
use melior::{
    Context,
    ir::{Attribute, Module},
};
use zml_format::Access;

pub struct AssignDescriptors;

impl Pass for AssignDescriptors {
    fn name(&self) -> &'static str {
        "assign-descriptors"
    }
    fn about(&self) -> &'static str {
        "set, binding and access of each buffer, push-constant offset of each scalar"
    }
    fn run<'c>(&self, context: &'c Context, module: &mut Module<'c>, env: Env) -> Result<(), PassError> {
        let b = B::new(context, body(module));
        for f in functions(module) {
            let kernel = Kernel::of(f)?;
            kernel.write(&b, &kernel.places(env.spec())?)?;
        }
        kernels::record(&b, module)
    }
    fn verify<'c>(&self, _context: &'c Context, module: &Module<'c>, env: Env) -> Result<(), PassError> {
        for f in functions(module) {
            let kernel = Kernel::of(f)?;
            kernel.check(&kernel.places(env.spec())?)?;
        }
        Ok(())
    }
}

fn functions<'c>(module: &Module<'c>) -> Vec<O<'c>> {
    let modules = ops(body(module)).into_iter().filter(|g| name(*g) == "gpu.module");
    modules.flat_map(|g| ops(block(g, 0))).filter(|f| name(*f) == "gpu.func").collect()
}

/// Where a kernel finds a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Number of the binding.
    Bound(i64),
    /// Position in the table of addresses.
    Addressed(i64),
}

struct Kernel<'c> {
    f: O<'c>,
    symbol: &'c str,
    buffers: Vec<V<'c>>,
    scalars: Vec<V<'c>>,
    /// The attributes of each argument.
    attrs: Vec<Attribute<'c>>,
}
impl<'c> Kernel<'c> {
    fn of(f: O<'c>) -> Result<Self, PassError> {
        let symbol = read::str_attr(f, "sym_name").unwrap_or_default();
        let entry = block(f, 0);
        let workgroup = read::int_attr(f, "workgroup_attributions").unwrap_or(0) as usize;
        let private = read::int_attr(f, "private_attributions").unwrap_or(0) as usize;
        let count = entry.argument_count() - workgroup - private;
        let arguments: Vec<V> = (0..count).map(|i| read::arg(entry, i)).collect();
        let split = arguments.iter().position(|a| !a.r#type().is_mem_ref()).unwrap_or(count);
        let (buffers, scalars) = (arguments[..split].to_vec(), arguments[split..].to_vec());
        let word = |s: &V| s.r#type().is_index() || read::int_bits(s.r#type()) == Some(32);
        if let Some(s) = scalars.iter().find(|s| !word(s)) {
            return Err(PassError::Bug(format!("kernel {symbol}: a `{}` after the buffers", s.r#type())));
        }
        let attrs = read::attr(f, "arg_attrs").map(array).unwrap_or_default();
        Ok(Kernel { f, symbol, buffers, scalars, attrs })
    }
    fn bug(&self, what: impl std::fmt::Display) -> PassError {
        PassError::Bug(format!("kernel {}: {what}", self.symbol))
    }
    fn attr(&self, argument: usize, name: &str) -> Option<Attribute<'c>> {
        self.attrs.get(argument).and_then(|a| dict_get(*a, name))
    }

    /// Where each buffer goes; refuses what the profile's budget does not allow.
    fn places(&self, spec: &DeviceSpec) -> Result<Vec<Place>, PassError> {
        let refuse = |what: String, hint: &str| {
            Err(PassError::Unsupported {
                what: format!("kernel {} {what} the profile {}", self.symbol, spec.name),
                hint: hint.into(),
            })
        };
        let bytes = |v: &V| elements(v.r#type()) as u64 * elem_bytes(v.r#type()) as u64;
        let too_large = |v: &V| spec.max_buffer_bytes > 0 && bytes(v) > spec.max_buffer_bytes;
        let mut addressed: Vec<bool> = self.buffers.iter().map(too_large).collect();
        if let Some(i) = addressed.iter().position(|large| *large && !spec.addresses) {
            let (bytes, most) = (bytes(&self.buffers[i]), spec.max_buffer_bytes);
            let what = format!("needs {bytes} bytes in buffer {i}, more than the {most} of");
            return refuse(what, "build for a profile with a larger maxStorageBufferRange");
        }
        let most = if spec.max_buffers > 0 { spec.max_buffers as usize } else { usize::MAX };
        let buffers = self.buffers.len();
        if buffers > most && !spec.addresses {
            let what = format!("binds {buffers} buffers, more than the {most} of");
            return refuse(what, "build for a profile with more storage buffers a stage");
        }
        // The table is one binding more.
        let bound =
            |addressed: &[bool]| addressed.iter().filter(|a| !**a).count() + usize::from(addressed.contains(&true));
        while bound(&addressed) > most
            && let Some(last) = addressed.iter().rposition(|a| !a)
        {
            addressed[last] = true;
        }
        let scalars = 4 * self.scalars.len();
        if scalars > spec.max_scalar_bytes as usize {
            let what = format!("takes {scalars} bytes of scalars, more than the {} of", spec.max_scalar_bytes);
            return refuse(what, "build for a profile with more push-constant space");
        }
        let (mut bindings, mut addresses) = (0.., 0..);
        let next = |addressed: &bool| match addressed {
            false => bindings.next().map(Place::Bound),
            true => addresses.next().map(Place::Addressed),
        };
        Ok(addressed.iter().map_while(next).collect())
    }

    fn write(&self, b: &B<'c>, places: &[Place]) -> Result<(), PassError> {
        let mut all = vec![];
        for (i, (v, place)) in self.buffers.iter().zip(places).enumerate() {
            let access = self.covered(i, *v)?;
            let word = match access {
                Access::Read => "read",
                Access::Write => "write",
                Access::ReadWrite => "read_write",
            };
            let access = ("zml.access", b.str(word));
            all.push(match place {
                Place::Bound(binding) => {
                    b.dict(&[access, ("zml.binding", b.i64_attr(*binding)), ("zml.set", b.i64_attr(0))])
                }
                Place::Addressed(at) => b.dict(&[access, ("zml.address", b.i64_attr(*at))]),
            });
        }
        for k in 0..self.scalars.len() {
            all.push(b.dict(&[("zml.offset", b.i64_attr(4 * k as i64))]));
        }
        set_attr(self.f, "arg_attrs", b.array(&all));
        Ok(())
    }
    /// The declared access of a buffer, or the actual one if none is declared.
    fn covered(&self, i: usize, v: V<'c>) -> Result<Access, PassError> {
        let actual = actual(v).map_err(|e| self.bug(e))?;
        let Some(declared) = self.attr(i, "zml.access").and_then(read::string) else {
            return Ok(actual.unwrap_or(Access::Read));
        };
        let declared = match declared.as_str() {
            "read" => Access::Read,
            "write" => Access::Write,
            "read_write" => Access::ReadWrite,
            other => return Err(self.bug(format!("buffer {i} has the access `{other}`"))),
        };
        match actual {
            Some(a) if (a.reads() && !declared.reads()) || (a.writes() && !declared.writes()) => {
                Err(self.bug(format!("buffer {i} is declared {declared:?} and the kernel does {a:?}")))
            }
            _ => Ok(declared),
        }
    }

    fn check(&self, places: &[Place]) -> Result<(), PassError> {
        let number = |argument, name| self.attr(argument, name).and_then(read::int);
        for (i, (v, place)) in self.buffers.iter().zip(places).enumerate() {
            let found = ["zml.set", "zml.binding", "zml.address"].map(|name| number(i, name));
            match place {
                Place::Bound(binding) if found != [Some(0), Some(*binding), None] => {
                    return Err(self.bug(format!("buffer {i} is not bound to set 0, binding {binding}")));
                }
                Place::Addressed(at) if found != [None, None, Some(*at)] => {
                    return Err(self.bug(format!("buffer {i} has not address {at}")));
                }
                _ => {}
            }
            if self.attr(i, "zml.access").is_none() {
                return Err(self.bug(format!("buffer {i} has no access")));
            }
            self.covered(i, *v)?;
        }
        for k in 0..self.scalars.len() {
            if number(self.buffers.len() + k, "zml.offset") != Some(4 * k as i64) {
                return Err(self.bug(format!("scalar {k} is not at offset {}", 4 * k)));
            }
        }
        Ok(())
    }
}

/// What a kernel does with a buffer; none if nothing.
fn actual(v: V) -> Result<Option<Access>, String> {
    let mut found: Option<Access> = None;
    let mut add = |a: Access| found = Some(if found.is_none_or(|f| f == a) { a } else { Access::ReadWrite });
    for (user, i) in read::uses(v) {
        match (name(user), i) {
            ("memref.load" | "vector.load" | "zml.copy_async", 0) => add(Access::Read),
            ("memref.store" | "vector.store", 1) => add(Access::Write),
            ("memref.atomic_rmw", 1) | ("memref.generic_atomic_rmw", 0) => add(Access::ReadWrite),
            ("memref.dim", _) => {}
            ("memref.cast" | "memref.subview" | "memref.reinterpret_cast" | "memref.memory_space_cast", 0) => {
                if let Some(a) = actual(read::result(user, 0))? {
                    add(a);
                }
            }
            (other, _) => return Err(format!("how `{other}` accesses a buffer is not known")),
        }
    }
    Ok(found)
}
