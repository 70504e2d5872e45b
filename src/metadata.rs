//! What the IR carries beside code so that any printed stage can be resumed: the model, its weights and states as module
//! attributes, and reading them back into the manifest.

use melior::ir::{Attribute, Module};
use zml_format::{DType, Model, Source, Sources, State, Tensor};
use zmlc_passes::ir::{B, O, array, attr, dict_get, read};

/// A weight as the IR knows it: everything but its bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightInfo {
    pub tensor: Tensor,
    pub sha256: String,
    /// File name without folders.
    pub file: String,
    pub key: String,
    pub embed: bool,
}

fn root<'c>(module: &Module<'c>) -> O<'c> {
    read::module_op(module)
}

pub fn write(b: &B, module: &Module, weights: &[WeightInfo], states: &[State]) {
    let shape = |t: &Tensor| b.i64s(&t.shape.iter().map(|d| *d as i64).collect::<Vec<_>>());
    let list: Vec<Attribute> = weights
        .iter()
        .map(|w| {
            let mut d = vec![
                ("name", b.str(&w.tensor.name)),
                ("dtype", b.str(w.tensor.dtype.name())),
                ("shape", shape(&w.tensor)),
                ("sha256", b.str(&w.sha256)),
                ("file", b.str(&w.file)),
                ("key", b.str(&w.key)),
            ];
            if w.embed {
                d.push(("embed", b.unit()));
            }
            b.dict(&d)
        })
        .collect();
    zmlc_passes::ir::rewrite::set_attr(root(module), "zml.weights", b.array(&list));
    let list: Vec<Attribute> = states
        .iter()
        .map(|s| {
            b.dict(&[
                ("name", b.str(&s.tensor.name)),
                ("dtype", b.str(s.tensor.dtype.name())),
                ("shape", shape(&s.tensor)),
            ])
        })
        .collect();
    zmlc_passes::ir::rewrite::set_attr(root(module), "zml.states", b.array(&list));
}

/// The digests of the files that the module comes from.
pub fn set_sources(b: &B, module: &Module, sources: &Sources) {
    let list = |all: &[Source]| {
        let one = |s: &Source| b.dict(&[("name", b.str(&s.name)), ("sha256", b.str(&s.sha256))]);
        b.array(&all.iter().map(one).collect::<Vec<Attribute>>())
    };
    let files =
        [("model", b.str(&sources.model)), ("programs", list(&sources.programs)), ("weights", list(&sources.weights))];
    zmlc_passes::ir::rewrite::set_attr(root(module), "zml.sources", b.dict(&files));
}
pub fn sources(module: &Module) -> Option<Sources> {
    let a = attr(root(module), "zml.sources")?;
    let list = |key: &str| -> Option<Vec<Source>> {
        let one = |a| Some(Source { name: text(a, "name")?, sha256: text(a, "sha256")? });
        array(dict_get(a, key)?).into_iter().map(one).collect()
    };
    Some(Sources { model: text(a, "model")?, programs: list("programs")?, weights: list("weights")? })
}

/// The profile that a module is being lowered for, `cuda:sm_90a`.
pub fn set_profile(b: &B, module: &Module, id: &str) {
    zmlc_passes::ir::rewrite::set_attr(root(module), "zml.profile", b.str(id));
}
pub fn profile(module: &Module) -> Option<String> {
    read::str_attr(root(module), "zml.profile").map(str::to_string)
}

/// None if an attribute is missing or has another form.
pub fn model(module: &Module) -> Option<Model> {
    let a = attr(root(module), "zml.model")?;
    Some(Model { name: text(a, "name")?, version: text(a, "version")? })
}
pub fn weights(module: &Module) -> Option<Vec<WeightInfo>> {
    array(attr(root(module), "zml.weights")?)
        .into_iter()
        .map(|a| {
            Some(WeightInfo {
                tensor: tensor(a)?,
                sha256: text(a, "sha256")?,
                file: text(a, "file")?,
                key: text(a, "key")?,
                embed: dict_get(a, "embed").is_some(),
            })
        })
        .collect()
}
pub fn states(module: &Module) -> Option<Vec<State>> {
    array(attr(root(module), "zml.states")?).into_iter().map(|a| Some(State { tensor: tensor(a)? })).collect()
}

fn tensor(a: Attribute) -> Option<Tensor> {
    let dtype: DType = text(a, "dtype")?.parse().ok()?;
    let shape = read::i64s(dict_get(a, "shape")?)?.into_iter().map(|d| d as u64).collect();
    Some(Tensor { name: text(a, "name")?, dtype, shape })
}
fn text(a: Attribute, key: &str) -> Option<String> {
    read::string(dict_get(a, key)?)
}
