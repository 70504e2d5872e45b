//! An entry after fuse, beside the host program that the artifact has of it.

use super::Recipe;
use crate::failure::Failure;
use melior::ir::Module;
use zml_format::{Dispatch, Profile, Step};
use zmlc_import::interp;
use zmlc_passes::{
    evaluate::{self, Called, Tensor},
    fuse::entries,
    ir::{self, Blk, O, V, ValueLike, block, blocks, name, ops},
};

/// A call of a dispatch function and the step that it became.
pub struct Pair {
    /// Key of the call.
    call: usize,
    pub dispatch: Dispatch,
    /// Bytes of the function's arguments and results.
    pub inputs: Vec<u64>,
    pub results: Vec<u64>,
    /// For each result the argument that it is written into.
    pub alias: Vec<Option<usize>>,
}

pub struct Fused<'c> {
    top: Blk<'c>,
    entry: String,
    pub pairs: Vec<Pair>,
}

/// Sees each dispatch that the entry comes to, with the number of its pair.
pub type Watch<'w, 'c> = &'w mut dyn FnMut(usize, &Called<'_, 'c>) -> Result<(), Failure>;

impl<'c> Fused<'c> {
    /// Calls and steps are in program order, both.
    pub fn new(module: &Module<'c>, recipe: &Recipe, profile: &Profile, e: usize) -> Result<Self, Failure> {
        let top = ir::body(module);
        let function = *entries(top).get(e).ok_or_else(|| Failure::bug(format!("there is no entry {e}")))?;
        let entry = ir::str_attr(function, "sym_name").unwrap_or_default().to_string();
        let (mut calls, mut steps) = (vec![], vec![]);
        collect(block(function, 0), &mut calls);
        dispatches(&profile.programs[e].steps, &mut steps);
        // A dispatch that writes nothing is no step.
        calls.retain(|c| ir::results(*c).iter().any(|r| ir::elements(r.r#type()) > 0));
        // What a library computes is no kernel that could be wrong.
        let hero = |c: O| ir::str_attr(ir::find(top, ir::symbol_attr(c, "callee")?)?, "zml.hero");
        calls.retain(|c| hero(*c) != Some("library"));
        let unequal = || Failure::bug("the host program has other dispatches than the entry has calls");
        if calls.len() != steps.len() {
            return Err(unequal());
        }
        let pair = |(call, dispatch): (O, &Dispatch)| {
            let callee = ir::symbol_attr(call, "callee").unwrap_or_default();
            if recipe.kernels.get(dispatch.kernel).map(String::as_str) != Some(callee) {
                return Err(unequal());
            }
            let function = ir::find(top, callee).ok_or_else(unequal)?;
            let alias = ir::i64s_attr(function, "zml.alias").unwrap_or_default();
            let bytes = |v: &V| (ir::elements(v.r#type()) * ir::elem_bytes(v.r#type())) as u64;
            let results = ir::results(call);
            Ok(Pair {
                call: ir::op_key(call),
                dispatch: dispatch.clone(),
                inputs: ir::operands(call).iter().map(bytes).collect(),
                results: results.iter().map(bytes).collect(),
                alias: (0..results.len()).map(|i| alias.get(i).and_then(|a| usize::try_from(*a).ok())).collect(),
            })
        };
        let pairs = calls.into_iter().zip(steps).map(pair).collect::<Result<_, _>>()?;
        Ok(Fused { top, entry, pairs })
    }

    /// The entry's results by the evaluator.
    pub fn run(&self, given: &[interp::Tensor], watch: Watch<'_, 'c>) -> Result<Vec<Tensor>, Failure> {
        let function = ir::find(self.top, &self.entry).expect("it was found before");
        let types = ir::args(block(function, 0));
        let inputs = types.iter().zip(given).map(|(v, t)| Tensor::from_bytes(v.r#type(), &t.bytes));
        let inputs = inputs.collect::<Result<_, _>>().map_err(Failure::bug)?;
        let mut failed = None;
        let mut seen = |called: &Called<'_, 'c>| {
            let key = ir::op_key(called.call);
            let Some(at) = self.pairs.iter().position(|p| p.call == key) else { return Ok(()) };
            watch(at, called).map_err(|f| {
                failed = Some(f);
                "stopped".to_string()
            })
        };
        let found = evaluate::run(self.top, &self.entry, inputs, &mut seen);
        match failed {
            Some(f) => Err(f),
            None => found.map_err(Failure::bug),
        }
    }
}

/// Calls in the order of the steps that plan makes of them: a switch's default is its last branch.
fn collect<'c>(b: Blk<'c>, calls: &mut Vec<O<'c>>) {
    for op in ops(b) {
        let mut inner = blocks(op);
        match name(op) {
            "func.call" => calls.push(op),
            "scf.index_switch" => inner.rotate_left(1),
            _ => {}
        }
        if name(op).starts_with("scf.") {
            inner.into_iter().for_each(|b| collect(b, calls));
        }
    }
}
fn dispatches<'a>(steps: &'a [Step], found: &mut Vec<&'a Dispatch>) {
    for s in steps {
        match s {
            Step::Dispatch(d) => found.push(d),
            Step::While { condition, body, .. } => [condition, body].into_iter().for_each(|s| dispatches(s, found)),
            Step::If { then, otherwise, .. } => [then, otherwise].into_iter().for_each(|s| dispatches(s, found)),
            Step::Case { branches, .. } => branches.iter().for_each(|s| dispatches(s, found)),
            Step::Library(_) | Step::Barrier | Step::Copy { .. } | Step::Fill { .. } => {}
        }
    }
}
