//! StableHLO to level 1 (ARCHITECTURE.md): the first MLIR of the pipeline. One function for each entry, private calls
//! inlined, every op of a program that has no lowering reported at once. Values become tensors (complex: a pair, see
//! [`value`]), regions of reductions and the like become scalar code.
//!
//! It decides nothing about kernels and improves nothing: `simplify` folds copies, `fuse` groups.

mod batch_norm;
mod bitcast;
mod contract;
mod control;
mod data;
mod elementwise;
mod error;
mod fft;
mod index;
mod lower;
mod pad;
mod reduce;
mod rng;
mod scalar;
mod shape;
mod solve;
mod special;
mod value;
mod window;

pub use error::LegalizeError;
pub(crate) use index::index_component;
pub(crate) use pad::grow;
pub(crate) use shape::slice_static;

use crate::ir::{B, V, rewrite::set_attr};
use error::{Refusal, dtypes};
use lower::{Frame, Lower};
use melior::{
    Context,
    ir::{Attribute, Location, Module, operation::OperationMutLike},
};
use value::{Val, element, extents, location};
use zml_format::{Dim, sizes};
use zmlc_import::tree::{Func, Program, Type};

/// What model.toml says of an entry, for one choice of sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryPlan {
    pub name: String,
    /// The sizes that the program was specialised for; empty if it has no dynamic dimensions.
    pub dims: Vec<Dim>,
    /// One for each argument of the StableHLO function, in order.
    pub arguments: Vec<ArgumentPlan>,
    /// One for each result.
    pub results: Vec<ResultPlan>,
}
impl EntryPlan {
    /// Symbol of the function in the module.
    fn symbol(&self) -> String {
        if self.dims.is_empty() { self.name.clone() } else { format!("{}[{}]", self.name, sizes(&self.dims)) }
    }
}
#[derive(Clone, Debug, PartialEq)]
pub struct ArgumentPlan {
    pub name: String,
    pub role: Role,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `donated`: the caller gives its buffer away.
    Input { donated: bool },
    /// Index into the model's weights.
    Weight(usize),
    /// Index into the model's states.
    State(usize),
}
#[derive(Clone, Debug, PartialEq)]
pub struct ResultPlan {
    pub name: String,
    /// The state whose next value it is.
    pub state: Option<usize>,
}

/// An empty module at level 1 of a model with this name and version.
pub fn module<'c>(context: &'c Context, name: &str, version: &str) -> Module<'c> {
    let mut module = Module::new(Location::unknown(context));
    let b = B::new(context, crate::ir::body(&module));
    let dict = b.dict(&[("name", b.str(name)), ("version", b.str(version))]);
    module.as_operation_mut().set_attribute("zml.model", dict);
    module
}

/// Appends the function `func` of a verified program as the entry that `plan` names. Errors name every op that has no
/// lowering, in program order, each once; what was appended is then incomplete and the module is of no further use.
pub fn entry<'c>(b: &B<'c>, program: &Program, func: &str, plan: &EntryPlan) -> Result<(), Vec<LegalizeError>> {
    let refuse = |why: String, hint: &str| {
        vec![LegalizeError {
            code: "E0805",
            op: plan.name.clone(),
            dtype: String::new(),
            message: why,
            hint: hint.into(),
            span: program.func(func).map_or_else(Default::default, |f| f.span),
            loc: program.func(func).map_or(zmlc_import::tree::Loc::Unknown, |f| f.loc.clone()),
        }]
    };
    let f = program
        .func(func)
        .ok_or_else(|| refuse(format!("the program has no function `{func}`"), "name one that it has"))?;
    let types: Vec<&Type> = f.body.args.iter().map(|a| f.ty(*a)).collect();
    let (args, results) = (plan.arguments.len(), plan.results.len());
    if (args, results) != (types.len(), f.result_types.len()) {
        let has = (types.len(), f.result_types.len());
        return Err(refuse(
            format!("`{func}` has {} arguments and {} results, the entry names {args} and {results}", has.0, has.1),
            "run `zmlc init` on the program again",
        ));
    }
    let arguments = types.iter().enumerate().map(|(i, t)| ("argument", i, *t));
    let results = f.result_types.iter().enumerate().map(|(i, t)| ("result", i, t));
    for (what, i, t) in arguments.chain(results) {
        if let Err(r) = boundary(t) {
            let ty = zmlc_import::print::ty(t);
            let mut errors = refuse(format!("{what} {i} of `@{func}` is {ty}: {}", r.why), r.hint);
            if what == "argument" {
                errors[0].span = f.values[f.body.args[i].0 as usize].span;
            }
            errors[0].code = r.code;
            errors[0].dtype = dtypes([t].into_iter());
            return Err(errors);
        }
    }
    let mut lower = Lower::new(program);
    let b = b.with_loc(location(b, &f.loc));
    let ins: Vec<_> = types.iter().map(|t| outer_type(&b, t)).collect();
    let outs: Vec<_> = f.result_types.iter().map(|t| outer_type(&b, t)).collect();
    let op = b.func(&plan.symbol(), &ins, &outs, false, |b, args| body(&mut lower, b, f, args));
    set_attr(op, "arg_attrs", argument_attrs(&b, f, plan));
    set_attr(op, "res_attrs", result_attrs(&b, f, plan));
    if !plan.dims.is_empty() {
        let dim = |d: &Dim| b.dict(&[("name", b.str(&d.name)), ("size", b.i64_attr(d.size as i64))]);
        set_attr(op, "zml.entry", b.str(&plan.name));
        set_attr(op, "zml.dims", b.array(&plan.dims.iter().map(dim).collect::<Vec<_>>()));
    }
    if lower.errors.is_empty() { Ok(()) } else { Err(lower.errors) }
}

/// Whether a value of this type can cross an entry's boundary.
fn boundary(t: &Type) -> Result<(), Refusal> {
    match t {
        Type::Tensor(t) if t.quant.is_some() => {
            Err(Refusal::dtype("a quantised tensor cannot cross an entry's boundary"))
        }
        Type::Tensor(t) if !t.is_static() => Err(Refusal::dynamic("an entry's tensors need static shapes")),
        Type::Tensor(_) => Ok(()),
        Type::Token => Err(Refusal {
            hint: "order effects inside of the function; its callers have none",
            ..Refusal::op("a token cannot cross an entry's boundary")
        }),
        Type::Tuple(_) => Err(Refusal {
            hint: "give its parts one by one, `-> (tensor<4xf32>, tensor<4xf32>)`; exporters do so with `return_tuple=False`",
            ..Refusal::op("only tensors can cross an entry's boundary")
        }),
        _ => Err(Refusal {
            hint: "write it as a tensor, a scalar as `tensor<f32>`",
            ..Refusal::op("only tensors can cross an entry's boundary")
        }),
    }
}
/// Complex values are interleaved at the boundary: a last dimension of 2.
fn outer_type<'c>(b: &B<'c>, t: &Type) -> melior::ir::Type<'c> {
    let t = t.tensor();
    let mut shape = extents(t);
    if t.dtype.is_complex() {
        shape.push(2);
    }
    b.tensor(&shape, element(b, t.dtype))
}
fn body<'p, 'c>(lower: &mut Lower<'p, 'c>, b: &B<'c>, f: &'p Func, args: &[V<'c>]) -> Vec<V<'c>> {
    let mut frame = Frame::new(f);
    for (id, v) in f.body.args.iter().zip(args) {
        let complex = f.tensor(*id).dtype.is_complex();
        frame.set(*id, if complex { shape::deinterleave(b, *v) } else { Val::One(*v) });
    }
    let results = lower.block(&mut frame, b, &f.body);
    results
        .iter()
        .map(|v| if let Val::Complex(re, im) = v { shape::interleave(b, *re, *im) } else { v.one() })
        .collect()
}
fn argument_attrs<'c>(b: &B<'c>, f: &Func, plan: &EntryPlan) -> Attribute<'c> {
    let dict = |(a, id): (&ArgumentPlan, _)| {
        let mut attrs = vec![("zml.name", b.str(&a.name)), ("zml.dtype", b.str(f.tensor(id).dtype.name()))];
        match a.role {
            Role::Input { donated } => {
                attrs.push(("zml.role", b.str("input")));
                if donated {
                    attrs.push(("zml.donated", b.unit()));
                }
            }
            Role::Weight(i) => attrs.extend([("zml.role", b.str("weight")), ("zml.index", b.i64_attr(i as i64))]),
            Role::State(i) => attrs.extend([("zml.role", b.str("state")), ("zml.index", b.i64_attr(i as i64))]),
        }
        b.dict(&attrs)
    };
    b.array(&plan.arguments.iter().zip(f.body.args.iter().copied()).map(dict).collect::<Vec<_>>())
}
fn result_attrs<'c>(b: &B<'c>, f: &Func, plan: &EntryPlan) -> Attribute<'c> {
    let dict = |(r, t): (&ResultPlan, &Type)| {
        let mut attrs = vec![("zml.name", b.str(&r.name)), ("zml.dtype", b.str(t.tensor().dtype.name()))];
        if let Some(i) = r.state {
            attrs.push(("zml.state", b.i64_attr(i as i64)));
        }
        b.dict(&attrs)
    };
    b.array(&plan.results.iter().zip(&f.result_types).map(dict).collect::<Vec<_>>())
}
