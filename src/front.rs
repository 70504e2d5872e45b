//! From model.toml to level 1: reads each entry's program, decides what each argument is (input, weight, state) and hands the
//! tree to `legalize`. Every finding of every entry is reported.

use crate::{
    codes,
    failure::Failure,
    metadata::{self, WeightInfo},
    model::{Embed, EntrySection, Model},
    names,
    weights::{self, WeightFile},
};
use melior::{Context, ir::Module};
use zml_format::{State, Tensor};
use zmlc_import::{
    diag::{Diagnostic, Diagnostics, Source, did_you_mean},
    tree::{Func, Program, Span, Type},
};
use zmlc_passes::{
    ir::{B, body},
    legalize::{self, ArgumentPlan, EntryPlan, ResultPlan, Role},
};

/// Weights up to this many bytes together go into the artifact unless model.toml says otherwise.
const EMBED_LIMIT: u64 = 32 << 20;

/// A program that was read and verified, with the function that an entry calls.
pub struct Loaded {
    pub section: EntrySection,
    pub source: Source,
    pub program: Program,
    pub function: String,
}
impl Loaded {
    pub fn func(&self) -> &Func {
        self.program.func(&self.function).expect("looked up when loaded")
    }
}

/// Reads and verifies every entry's program; warnings are returned beside.
pub fn load(model: &Model) -> Result<(Vec<Loaded>, Diagnostics), Failure> {
    let (mut loaded, mut found) = (vec![], Diagnostics::default());
    for section in &model.file.entry {
        let path = model.locate(&section.program);
        match std::fs::read(&path) {
            Ok(bytes) => match entry(section, Source::new(path.display().to_string(), bytes), &mut found) {
                Some(l) => loaded.push(l),
                None => continue,
            },
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

fn entry(section: &EntrySection, source: Source, found: &mut Diagnostics) -> Option<Loaded> {
    let program = read(&source, found)?;
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
        return None;
    };
    match zmlc_import::prepare(program, &function, None) {
        Ok(program) => Some(Loaded { section: section.clone(), source, program, function }),
        Err(list) => {
            found.list.extend(Diagnostics::from(list).locate(&source).list);
            None
        }
    }
}

/// What the arguments of all entries are.
pub struct Bound {
    pub plans: Vec<EntryPlan>,
    pub weights: Vec<WeightInfo>,
    pub states: Vec<State>,
}

/// Matches arguments with weights and states.
pub fn bind(model: &Model, loaded: &[Loaded], files: &[WeightFile]) -> Result<Bound, Failure> {
    let mut bound = Bound { plans: vec![], weights: vec![], states: vec![] };
    let mut found = Diagnostics::default();
    let mut used: Vec<(usize, String)> = vec![];
    let mut bytes: Vec<&[u8]> = vec![];
    for l in loaded {
        let func = l.func();
        let argument_names = names::arguments(func, &l.section);
        let result_names = names::results(func, &l.section);
        let mut results: Vec<ResultPlan> =
            result_names.iter().map(|n| ResultPlan { name: n.clone(), state: None }).collect();
        let mut arguments = vec![];
        for (i, name) in argument_names.iter().enumerate() {
            let Some(tensor) = boundary(func.ty(func.body.args[i]), name) else {
                found.push(not_a_tensor(&l.section, "argument", name));
                continue;
            };
            let donation = func.arg_attrs.get(i).and_then(names::donation);
            let role = if let Some(s) = model.file.state.iter().find(|s| s.argument == *name) {
                let next = match &s.result {
                    Some(r) => result_names.iter().position(|n| n == r),
                    None => donation.flatten().or_else(|| result_names.iter().position(|n| n == name)),
                };
                match next.filter(|r| *r < results.len()) {
                    Some(r) => Role::State(state(&mut bound.states, s.name.clone(), tensor, &mut results[r])),
                    None => {
                        found.push(
                            Diagnostic::error(
                                codes::MODEL_ENTRY,
                                Span::NONE,
                                format!(
                                    "state `{}`: no result of entry `{}` is its next value",
                                    s.name, l.section.name
                                ),
                            )
                            .hint(format!("name it with `result = ...`; the results are {}", result_names.join(", "))),
                        );
                        continue;
                    }
                }
            } else if let Some((file, key)) = weight_of(model, files, name) {
                match check_weight(&files[file], &key, &tensor) {
                    Ok(data) => {
                        let at = used.iter().position(|u| *u == (file, key.clone())).unwrap_or_else(|| {
                            used.push((file, key.clone()));
                            bytes.push(data);
                            bound.weights.push(WeightInfo {
                                tensor: Tensor { name: key.clone(), ..tensor },
                                sha256: String::new(),
                                file: file_name(&files[file]),
                                key,
                                embed: false,
                            });
                            bound.weights.len() - 1
                        });
                        Role::Weight(at)
                    }
                    Err(d) => {
                        found.push(*d);
                        continue;
                    }
                }
            } else {
                Role::Input { donated: donation.is_some() || l.section.donated.contains(name) }
            };
            arguments.push(ArgumentPlan { name: name.clone(), role });
        }
        unknown_names(l, &argument_names, &mut found);
        bound.plans.push(EntryPlan { name: l.section.name.clone(), arguments, results });
    }
    missing_keys(model, files, loaded, &mut found);
    if found.has_errors() {
        return Err(Failure::Input(found));
    }
    let total: u64 = bytes.iter().map(|b| b.len() as u64).sum();
    let embed = match model.file.weights.as_ref().map(|w| w.embed).unwrap_or_default() {
        Embed::Always => true,
        Embed::Never => false,
        Embed::Auto => total <= EMBED_LIMIT,
    };
    for (w, data) in bound.weights.iter_mut().zip(bytes) {
        w.sha256 = weights::sha256(data);
        w.embed = embed;
    }
    Ok(bound)
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
    Ok(module)
}

/// Name, element type and shape of an argument or result; none for what is not a static tensor.
pub fn boundary(ty: &Type, name: &str) -> Option<Tensor> {
    match ty {
        Type::Tensor(t) => Some(Tensor { name: name.into(), dtype: t.dtype, shape: t.shape()? }),
        _ => None,
    }
}
fn not_a_tensor(section: &EntrySection, what: &str, name: &str) -> Diagnostic {
    Diagnostic::error(
        codes::ENTRY,
        Span::NONE,
        format!("entry `{}`: {what} `{name}` is not a tensor of static shape", section.name),
    )
}
fn state(states: &mut Vec<State>, name: String, tensor: Tensor, result: &mut ResultPlan) -> usize {
    let at = states.iter().position(|s| s.tensor.name == name).unwrap_or_else(|| {
        states.push(State { tensor: Tensor { name, ..tensor } });
        states.len() - 1
    });
    result.state = Some(at);
    at
}
fn file_name(f: &WeightFile) -> String {
    f.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}
/// File and key of the weight that an argument is: by the map, else by its name, else by the plain form of its name.
fn weight_of(model: &Model, files: &[WeightFile], name: &str) -> Option<(usize, String)> {
    let map = &model.file.weights.as_ref()?.map;
    let find = |key: &str| files.iter().position(|f| f.find(key).is_some()).map(|f| (f, key.to_string()));
    match map.get(name) {
        Some(key) => find(key),
        None => find(name).or_else(|| find(&names::plain(name))),
    }
}
fn check_weight<'a>(file: &'a WeightFile, key: &str, want: &Tensor) -> Result<&'a [u8], Box<Diagnostic>> {
    let (dtype, shape, bytes) = file.find(key).expect("the file was chosen because it has the key");
    if dtype == Some(want.dtype) && *shape == want.shape {
        return Ok(bytes);
    }
    let form = |d: Option<zml_format::DType>, s: &[u64]| {
        let dims: String = s.iter().map(|d| format!("{d}x")).collect();
        format!("tensor<{dims}{}>", d.map_or("?", zml_format::DType::name))
    };
    Err(Box::new(
        Diagnostic::error(
            codes::WEIGHTS,
            Span::NONE,
            format!(
                "weight `{key}` in {} is {}, argument `{}` is {}",
                file.path.display(),
                form(dtype, shape),
                want.name,
                form(Some(want.dtype), &want.shape)
            ),
        )
        .hint("export the program and the weights from the same model, in the same element type"),
    ))
}
fn unknown_names(l: &Loaded, arguments: &[String], found: &mut Diagnostics) {
    for d in l.section.donated.iter().filter(|d| !arguments.contains(d)) {
        let report = Diagnostic::error(
            codes::MODEL_ENTRY,
            Span::NONE,
            format!("entry `{}`: `donated` names `{d}`, which is no argument", l.section.name),
        );
        found.push(match did_you_mean(d, arguments.iter().map(String::as_str)) {
            Some(n) => report.hint(format!("did you mean `{n}`?")),
            None => report.hint(format!("the arguments are {}", arguments.join(", "))),
        });
    }
}
/// Map entries that name no argument or no tensor, and states that name no argument.
fn missing_keys(model: &Model, files: &[WeightFile], loaded: &[Loaded], found: &mut Diagnostics) {
    let arguments: Vec<String> = loaded.iter().flat_map(|l| names::arguments(l.func(), &l.section)).collect();
    let no_argument = |what: &str, name: &str| {
        let d = Diagnostic::error(
            codes::MODEL_ENTRY,
            Span::NONE,
            format!("{what} `{name}`, which is no argument of any entry"),
        );
        match did_you_mean(name, arguments.iter().map(String::as_str)) {
            Some(n) => d.hint(format!("did you mean `{n}`?")),
            None => d.hint(format!("the arguments are {}", arguments.join(", "))),
        }
    };
    for s in model.file.state.iter().filter(|s| !arguments.contains(&s.argument)) {
        found.push(no_argument(&format!("state `{}` names", s.name), &s.argument));
    }
    for (argument, key) in model.file.weights.iter().flat_map(|w| &w.map) {
        if !arguments.contains(argument) {
            found.push(no_argument("[weights.map] names", argument));
        }
        if !files.iter().any(|f| f.find(key).is_some()) {
            let d = Diagnostic::error(codes::WEIGHTS, Span::NONE, format!("no weights file has a tensor `{key}`"));
            found.push(match did_you_mean(key, files.iter().flat_map(WeightFile::names)) {
                Some(n) => d.hint(format!("did you mean `{n}`?")),
                None => d,
            });
        }
    }
}
