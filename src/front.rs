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
    ir::{B, body},
    legalize,
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
        let public: Vec<&str> = program.funcs.iter().filter(|f| f.public).map(|f| f.name.as_str()).collect();
        let d = match &section.function {
            Some(f) => {
                let d = Diagnostic::error(
                    codes::MODEL_ENTRY,
                    Span::NONE,
                    format!("entry `{}`: {} has no function `{f}`", section.name, source.name),
                );
                match did_you_mean(f, public.iter().copied()) {
                    Some(n) => d.hint(format!("did you mean `{n}`?")),
                    None => d.hint(format!("its public functions are {}", public.join(", "))),
                }
            }
            None => Diagnostic::error(
                codes::MODEL_ENTRY,
                Span::NONE,
                format!(
                    "entry `{}`: {} has no function `main` and not exactly one public one",
                    section.name, source.name
                ),
            )
            .hint(format!("add `function = ...` to the entry; the public functions are {}", public.join(", "))),
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
fn title(entry: &str, dims: &[Dim]) -> String {
    let sizes = if dims.is_empty() { String::new() } else { format!(" for {}", sizes(dims)) };
    format!("entry `{entry}`{sizes}")
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
            let list: Vec<Diagnostic> =
                errors.into_iter().map(|e| Diagnostic::error(e.code, e.span, e.message).hint(e.hint)).collect();
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
