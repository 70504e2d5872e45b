//! What the arguments and results of all entries are: inputs, weights with their bytes, states. It must not look into the
//! programs' bodies.

use crate::{
    codes,
    failure::Failure,
    front::Loaded,
    metadata::WeightInfo,
    model::{Embed, Model, StateSection},
    names, sources,
    weights::{self, WeightFile},
};
use zml_format::{Sources, State, Tensor};
use zmlc_import::{
    diag::{Diagnostic, Diagnostics, did_you_mean},
    tree::{Span, Type},
};
use zmlc_passes::legalize::{ArgumentPlan, EntryPlan, ResultPlan, Role};

/// Weights up to this many bytes together go into the artifact unless model.toml says otherwise.
const EMBED_LIMIT: u64 = 32 << 20;

/// What the arguments of all entries are.
pub struct Bound {
    pub plans: Vec<EntryPlan>,
    pub weights: Vec<WeightInfo>,
    pub states: Vec<State>,
    pub sources: Sources,
    pub warnings: Diagnostics,
}

/// Matches arguments with weights and states.
pub fn bind(model: &Model, loaded: &[Loaded], files: &[WeightFile]) -> Result<Bound, Failure> {
    let mut bound = Bound {
        plans: vec![],
        weights: vec![],
        states: vec![],
        sources: sources::of(model, loaded, files),
        warnings: Diagnostics::default(),
    };
    let mut states = States::default();
    let mut found = Diagnostics::default();
    let mut used: Vec<(usize, String)> = vec![];
    let mut bytes: Vec<&[u8]> = vec![];
    for l in loaded {
        let func = l.func();
        let argument_names = &l.arguments;
        let result_names = names::results(func, &l.section);
        let mut results: Vec<ResultPlan> =
            result_names.iter().map(|n| ResultPlan { name: n.clone(), state: None }).collect();
        let mut arguments = vec![];
        for (i, name) in argument_names.iter().enumerate() {
            let Some(tensor) = boundary(func.ty(func.body.args[i]), name) else {
                found.push(not_a_tensor(l, name));
                continue;
            };
            let donation = func.arg_attrs.get(i).and_then(names::donation);
            let role = if let Some(s) = model.file.state.iter().find(|s| s.argument == *name) {
                match states.bind(s, l, tensor, donation.flatten(), &mut results, &mut found) {
                    Some(at) => Role::State(at),
                    None => continue,
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
                                file: files[file].name(),
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
        unknown_names(l, &mut found);
        bound.plans.push(EntryPlan { name: l.section.name.clone(), dims: l.dims.clone(), arguments, results });
    }
    missing_keys(model, files, loaded, &mut found);
    states.unwritten(model, loaded, &mut found);
    // What is wrong with an entry is so for each of its sizes.
    let mut seen = std::collections::BTreeSet::new();
    found.list.retain(|d| seen.insert(d.message.clone()));
    if found.has_errors() {
        return Err(Failure::Input(found));
    }
    (bound.states, bound.warnings) = (states.list, found);
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

/// Name, element type and shape of an argument or result; none for what is not a static tensor.
pub fn boundary(ty: &Type, name: &str) -> Option<Tensor> {
    match ty {
        Type::Tensor(t) => Some(Tensor { name: name.into(), dtype: t.dtype, shape: t.shape()? }),
        _ => None,
    }
}
fn not_a_tensor(l: &Loaded, name: &str) -> Diagnostic {
    let message = format!("{}: argument `{name}` is not a tensor of static shape", l.title());
    Diagnostic::error(codes::ENTRY, Span::NONE, message)
}
/// The states that were met, each with where it was met first.
#[derive(Default)]
struct States {
    list: Vec<State>,
    first: Vec<String>,
    written: Vec<bool>,
}
impl States {
    /// The state that an argument is, with the result that is its next value marked, if the entry has one.
    fn bind(
        &mut self,
        s: &StateSection,
        l: &Loaded,
        tensor: Tensor,
        aliased: Option<usize>,
        results: &mut [ResultPlan],
        found: &mut Diagnostics,
    ) -> Option<usize> {
        let tensor = Tensor { name: s.name.clone(), ..tensor };
        let at = self.list.iter().position(|o| o.tensor.name == s.name).unwrap_or_else(|| {
            self.list.push(State { tensor: tensor.clone() });
            self.first.push(l.title());
            self.written.push(false);
            self.list.len() - 1
        });
        let known = &self.list[at].tensor;
        if *known != tensor {
            let (form, other) = (form(Some(known.dtype), &known.shape), form(Some(tensor.dtype), &tensor.shape));
            let message = format!("state `{}` is {form} in {} and {other} in {}", s.name, self.first[at], l.title());
            let hint = "a state has one type: export it with that size, and build for one size of each dynamic dimension \
                        that it follows";
            found.push(Diagnostic::error(codes::MODEL_ENTRY, Span::NONE, message).hint(hint));
            return None;
        }
        let named = |n: &str| results.iter().position(|r| r.name == n);
        let next = match &s.result {
            Some(r) => named(r),
            None => aliased.or_else(|| named(&s.argument)),
        };
        match next.and_then(|r| results.get_mut(r)) {
            Some(r) => {
                r.state = Some(at);
                self.written[at] = true;
            }
            None => {
                let same = |i: &usize| boundary(&l.func().result_types[*i], &s.name).as_ref() == Some(&tensor);
                let alike: Vec<String> =
                    (0..results.len()).filter(same).map(|i| format!("`{}`", results[i].name)).collect();
                if !alike.is_empty() {
                    let message = format!(
                        "entry `{}` reads state `{}` and does not change it; results of its type are {}",
                        l.section.name,
                        s.name,
                        alike.join(", ")
                    );
                    let hint = "if one is its next value, name it with `result = ...`";
                    found.push(Diagnostic::warning(codes::MODEL_ENTRY, Span::NONE, message).hint(hint));
                }
            }
        }
        Some(at)
    }

    /// States that no entry ever writes: they would stay zeros.
    fn unwritten(&self, model: &Model, loaded: &[Loaded], found: &mut Diagnostics) {
        for (state, _) in self.list.iter().zip(&self.written).filter(|(_, written)| !**written) {
            let name = &state.tensor.name;
            let section = model.file.state.iter().find(|s| s.name == *name);
            let readers = loaded.iter().filter(|l| section.is_some_and(|s| l.arguments.contains(&s.argument)));
            let mut results: Vec<String> = readers.flat_map(|l| names::results(l.func(), &l.section)).collect();
            results.dedup();
            let message = format!("state `{name}`: no result of any entry is its next value");
            let hint = format!("name it with `result = ...`; the results are {}", results.join(", "));
            found.push(Diagnostic::error(codes::MODEL_ENTRY, Span::NONE, message).hint(hint));
        }
    }
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
/// A type, of an element type that StableHLO may lack.
pub fn form(dtype: Option<zml_format::DType>, shape: &[u64]) -> String {
    let dims: String = shape.iter().map(|d| format!("{d}x")).collect();
    format!("tensor<{dims}{}>", dtype.map_or("?", zml_format::DType::name))
}
fn check_weight<'a>(file: &'a WeightFile, key: &str, want: &Tensor) -> Result<&'a [u8], Box<Diagnostic>> {
    let (dtype, shape, bytes) = file.find(key).expect("the file was chosen because it has the key");
    if dtype == Some(want.dtype) && *shape == want.shape {
        return Ok(bytes);
    }
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
fn unknown_names(l: &Loaded, found: &mut Diagnostics) {
    let arguments = &l.arguments;
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
    let arguments: Vec<&str> = loaded.iter().flat_map(|l| &l.arguments).map(String::as_str).collect();
    let no_argument = |what: &str, name: &str| {
        let d = Diagnostic::error(
            codes::MODEL_ENTRY,
            Span::NONE,
            format!("{what} `{name}`, which is no argument of any entry"),
        );
        match did_you_mean(name, arguments.iter().copied()) {
            Some(n) => d.hint(format!("did you mean `{n}`?")),
            None => d.hint(format!("the arguments are {}", arguments.join(", "))),
        }
    };
    for s in model.file.state.iter().filter(|s| !arguments.contains(&s.argument.as_str())) {
        found.push(no_argument(&format!("state `{}` names", s.name), &s.argument));
    }
    for (argument, key) in model.file.weights.iter().flat_map(|w| &w.map) {
        if !arguments.contains(&argument.as_str()) {
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
