//! Which pass makes another program of the one that it got, and of which op.

use super::{Difference, Recipe, Source, Tolerance, difference, recipe::Stage};
use crate::{failure::Failure, pipeline};
use zmlc_import::{
    interp,
    tree::{OpKind, Type, ValueId},
};
use zmlc_passes::{
    context,
    evaluate::{self, Tensor},
    fuse::entries,
    ir::{self, B, ValueLike},
    legalize::{self, ArgumentPlan, EntryPlan, ResultPlan, Role},
    pass::{self, Env, Run},
};

pub struct Blame<'a> {
    pub stage: &'static str,
    /// The result of the entry that is wrong.
    pub result: usize,
    pub difference: Difference,
    /// The first op whose value the stage's IR gets wrong, if it is wrong with every value a result.
    pub op: Option<(&'a Source, Difference)>,
}

/// The first of results that are not the interpreter's.
pub fn matches(found: &[Tensor], want: &[interp::Tensor], t: Tolerance) -> Option<(usize, Difference)> {
    found.iter().zip(want).enumerate().find_map(|(i, (f, w))| {
        let words = f.kind.load(&w.bytes);
        difference(f, &Tensor { words, ..f.clone() }, t).map(|d| (i, d))
    })
}

/// What the entry gives after a stage.
fn evaluated(stage: &Stage, e: usize, args: &[interp::Tensor]) -> Result<Vec<Tensor>, Failure> {
    let c = context::context();
    let module = context::parse(&c, &stage.text)?;
    evaluate_module(ir::body(&module), e, args)
}
fn evaluate_module(top: ir::Blk, e: usize, args: &[interp::Tensor]) -> Result<Vec<Tensor>, Failure> {
    let function = *entries(top).get(e).ok_or_else(|| Failure::bug(format!("there is no entry {e}")))?;
    let entry = ir::str_attr(function, "sym_name").unwrap_or_default();
    let types = ir::args(ir::block(function, 0));
    let inputs = types.iter().zip(args).map(|(v, t)| Tensor::from_bytes(v.r#type(), &t.bytes));
    let inputs = inputs.collect::<Result<_, _>>().map_err(Failure::bug)?;
    evaluate::run(top, entry, inputs, &mut |_| Ok(())).map_err(Failure::bug)
}

/// Who is to blame that entry `e` after fuse is not what the interpreter says.
pub fn blame<'a>(
    recipe: &'a Recipe,
    e: usize,
    args: &[interp::Tensor],
    want: &[interp::Tensor],
    tolerance: Tolerance,
) -> Result<Option<Blame<'a>>, Failure> {
    for (i, stage) in recipe.stages.iter().enumerate() {
        if let Some((result, difference)) = matches(&evaluated(stage, e, args)?, want, tolerance) {
            let op = first_op(recipe, e, i, args, tolerance)?;
            return Ok(Some(Blame { stage: stage.name, result, difference, op }));
        }
    }
    Ok(None)
}

/// The entry with the value of every op a result, through the stages up to `last`, against the interpreter.
fn first_op<'a>(
    recipe: &'a Recipe,
    e: usize,
    last: usize,
    args: &[interp::Tensor],
    tolerance: Tolerance,
) -> Result<Option<(&'a Source, Difference)>, Failure> {
    let loaded = &recipe.loaded[e];
    let mut program = loaded.program.clone();
    let Some(f) = program.funcs.iter_mut().find(|f| f.name == loaded.function) else { return Ok(None) };
    let shown = |v: &ValueId| matches!(f.ty(*v), Type::Tensor(t) if t.is_static() && t.quant.is_none());
    let values: Vec<(usize, ValueId)> = (f.body.ops.iter().enumerate())
        .filter(|(_, op)| !matches!(op.kind, OpKind::Constant(_)))
        .flat_map(|(i, op)| op.results.iter().filter(|v| shown(v)).map(move |v| (i, *v)))
        .collect();
    f.body.results = values.iter().map(|v| v.1).collect();
    f.result_types = values.iter().map(|v| f.ty(v.1).clone()).collect();
    f.result_attrs = vec![vec![]; values.len()];
    let Ok(want) = interp::eval(&program, &loaded.function, args.to_vec()) else { return Ok(None) };
    let plan = EntryPlan {
        name: loaded.section.name.clone(),
        dims: vec![],
        arguments: (0..args.len())
            .map(|i| ArgumentPlan { name: format!("a{i}"), role: Role::Input { donated: false } })
            .collect(),
        results: (0..values.len()).map(|i| ResultPlan { name: format!("r{i}"), state: None }).collect(),
    };
    let c = context::context();
    let mut module = legalize::module(&c, "bisect", "1");
    if legalize::entry(&B::new(&c, ir::body(&module)), &program, &loaded.function, &plan).is_err() {
        return Ok(None);
    }
    let until = recipe.stages[last].name;
    if pipeline::common().iter().any(|p| p.name() == until) {
        let run = Run { until: Some(until), ..Run::default() };
        pass::run(&c, &mut module, &pipeline::common(), Env { spec: None }, run)?;
    }
    let found = evaluate_module(ir::body(&module), 0, args)?;
    let Some((i, d)) = matches(&found, &want, tolerance) else { return Ok(None) };
    let f = program.func(&loaded.function).expect("it was there");
    Ok(recipe.sources[e].at(&f.body.ops[values[i].0].loc).map(|s| (s, d)))
}
