//! From model.toml to level 1: reads each entry's program, makes it static for each choice of sizes, and hands the trees to
//! `legalize` with what `bind` found their arguments to be. Every finding of every entry is reported.

use crate::{
    bind::Bound,
    codes, dims,
    failure::Failure,
    metadata,
    model::{EntrySection, Model},
    names,
};
use melior::{Context, ir::Module};
use std::rc::Rc;
use zml_format::{Dim, sizes};
use zmlc_import::{
    diag::{Diagnostic, Diagnostics, Source, did_you_mean},
    tree::{Func, Program, Span},
};
use zmlc_passes::{
    context,
    ir::{B, body},
    legalize::{self, ArgumentPlan, EntryPlan, LegalizeError, ResultPlan, Role},
};

/// A program that was read, verified and made static, with the function that an entry calls: one for each choice of sizes.
pub struct Loaded {
    pub section: EntrySection,
    pub source: Rc<Source>,
    pub program: Program,
    pub function: String,
    /// Names of the arguments.
    pub arguments: Vec<String>,
    pub dims: Vec<Dim>,
}
impl Loaded {
    pub fn func(&self) -> &Func {
        self.program.func(&self.function).expect("looked up when loaded")
    }
    /// For messages: `entry `main`` or `entry `main` for batch=8`.
    pub fn title(&self) -> String {
        title(&self.section.name, &self.dims)
    }
}

/// Reads and verifies every entry's program; warnings are returned beside.
pub fn load(model: &Model) -> Result<(Vec<Loaded>, Diagnostics), Failure> {
    let (mut loaded, mut found) = (vec![], Diagnostics::default());
    for section in &model.file.entry {
        let path = model.locate(&section.program);
        match std::fs::read(&path) {
            Ok(bytes) => {
                let source = Source::new(path.display().to_string(), bytes);
                loaded.extend(entry(model, section, source, &mut found));
            }
            Err(e) => match Failure::file(&path, "read", &e) {
                Failure::Input(d) => found.list.extend(d.list),
                f => return Err(f),
            },
        }
    }
    if found.has_errors() { Err(Failure::Input(found)) } else { Ok((loaded, found)) }
}

/// Reads and verifies one program; what is wrong goes to `found`.
pub fn read(source: &Source, found: &mut Diagnostics) -> Option<Program> {
    let program = match zmlc_import::read(source) {
        Ok(p) => p,
        Err(d) => {
            found.list.extend(d.list);
            return None;
        }
    };
    let verdict = Diagnostics::from(zmlc_import::verify(&program)).locate(source);
    let bad = verdict.has_errors();
    found.list.extend(verdict.list);
    (!bad).then_some(program)
}

/// Every specialisation of an entry; none after an error.
fn entry(model: &Model, section: &EntrySection, source: Source, found: &mut Diagnostics) -> Vec<Loaded> {
    let Some(program) = read(&source, found) else { return vec![] };
    let function = match &section.function {
        Some(f) => program.func(f),
        None => program.main(),
    };
    let Some(function) = function.map(|f| f.name.clone()) else {
        let names = |public: bool| -> Vec<&str> {
            program.funcs.iter().filter(|f| f.public == public).map(|f| f.name.as_str()).collect()
        };
        let public = names(true);
        let there = match &names(false)[..] {
            _ if !public.is_empty() => format!("its public functions are {}", listed(&public)),
            [one] => format!("its only function, `{one}`, is private: write `func.func @{one}` or `func.func @main`"),
            all => format!("its functions are all private: write one of {} without `private`", listed(all)),
        };
        let d = match &section.function {
            Some(f) => {
                let d = Diagnostic::error(
                    codes::MODEL_ENTRY,
                    Span::NONE,
                    format!("entry `{}`: {} has no function `{f}`", section.name, source.name),
                );
                match did_you_mean(f, public.iter().copied()) {
                    Some(n) => d.hint(format!("did you mean `{n}`?")),
                    None => d.hint(there),
                }
            }
            None => {
                let which = if public.is_empty() {
                    "no public function"
                } else {
                    "no function `main` and not exactly one public one"
                };
                let d = Diagnostic::error(
                    codes::MODEL_ENTRY,
                    Span::NONE,
                    format!("entry `{}`: {} has {which}", section.name, source.name),
                );
                d.hint(if public.is_empty() { there } else { format!("add `function = ...` to the entry; {there}") })
            }
        };
        found.push(d);
        return vec![];
    };
    let func = program.func(&function).expect("just found");
    let arguments = names::arguments(&program, func, section);
    let choices = match dims::choices(section, &program, &function, &arguments, &model.source, &source) {
        Ok(c) => c,
        Err(d) => {
            found.list.extend(d.list);
            return vec![];
        }
    };
    let source = Rc::new(source);
    let mut loaded = vec![];
    for choice in choices {
        match zmlc_import::prepare(program.clone(), &function, choice.shapes.as_deref()) {
            Ok(program) => loaded.push(Loaded {
                section: section.clone(),
                source: source.clone(),
                program,
                function: function.clone(),
                arguments: arguments.clone(),
                dims: choice.dims,
            }),
            Err(mut list) => {
                if !choice.dims.is_empty() {
                    let title = title(&section.name, &choice.dims);
                    list.iter_mut().for_each(|d| d.message = format!("{title}: {}", d.message));
                }
                found.list.extend(Diagnostics::from(list).locate(&source).list);
            }
        }
    }
    loaded
}
/// At most ten names, and how many more there are.
fn listed(names: &[&str]) -> String {
    let list: Vec<String> = names.iter().take(10).map(|n| format!("`{n}`")).collect();
    let more = if names.len() > 10 { format!(" and {} more", names.len() - 10) } else { String::new() };
    format!("{}{more}", list.join(", "))
}
fn title(entry: &str, dims: &[Dim]) -> String {
    let sizes = if dims.is_empty() { String::new() } else { format!(" for {}", sizes(dims)) };
    format!("entry `{entry}`{sizes}")
}

/// What of a verified program no target compiles, for reasons of its own: found as `build` finds it, for each function that
/// an entry can name. Of a function with dynamic dimensions, whose sizes model.toml chooses, what shows without them.
pub fn uncompiled(program: &Program, source: &Source) -> Diagnostics {
    let functions: Vec<&Func> = match program.main() {
        Some(f) => vec![f],
        None => program.funcs.iter().filter(|f| f.public).collect(),
    };
    let context = context::context();
    let mut found = vec![];
    for f in functions {
        if !zmlc_import::dynamic_dims(program, &f.name).is_empty() {
            found.extend(zmlc_import::resolve_calls(&mut program.clone()));
            continue;
        }
        match zmlc_import::prepare(program.clone(), &f.name, None) {
            Err(list) => found.extend(list),
            Ok(p) => {
                let module = legalize::module(&context, "check", "1");
                let b = B::new(&context, body(&module));
                let arguments = (0..f.body.args.len())
                    .map(|i| ArgumentPlan { name: i.to_string(), role: Role::Input { donated: false } })
                    .collect();
                let results =
                    (0..f.result_types.len()).map(|i| ResultPlan { name: i.to_string(), state: None }).collect();
                let plan = EntryPlan { name: f.name.clone(), dims: vec![], arguments, results };
                found.extend(legalize::entry(&b, &p, &f.name, &plan).err().into_iter().flatten().map(diagnostic));
            }
        }
    }
    Diagnostics::from(found).locate(source)
}
fn diagnostic(e: LegalizeError) -> Diagnostic {
    Diagnostic::error(e.code, e.span, e.message).hint(e.hint)
}

/// The module after `legalize`, with what later stages must know of the model.
pub fn legalize<'c>(
    context: &'c Context,
    model: &Model,
    loaded: &[Loaded],
    bound: &Bound,
) -> Result<Module<'c>, Failure> {
    let module = legalize::module(context, &model.file.model.name, &model.file.model.version);
    let b = B::new(context, body(&module));
    let mut found = Diagnostics::default();
    for (l, plan) in loaded.iter().zip(&bound.plans) {
        if let Err(errors) = legalize::entry(&b, &l.program, &l.function, plan) {
            let list: Vec<Diagnostic> = errors.into_iter().map(diagnostic).collect();
            found.list.extend(Diagnostics::from(list).locate(&l.source).list);
        }
    }
    if found.has_errors() {
        return Err(Failure::Input(found));
    }
    metadata::write(&b, &module, &bound.weights, &bound.states);
    metadata::set_sources(&b, &module, &bound.sources);
    Ok(module)
}
