//! Names of arguments and results: those of model.toml, else those that the exporter left in the program, else `arg0`, `out0`.

use crate::model::EntrySection;
use zmlc_import::tree::{Attr, Attrs, Func, Program};

pub fn arguments(program: &Program, func: &Func, section: &EntrySection) -> Vec<String> {
    let exported = zmlc_import::argument_names(program, &func.name);
    names(func.body.args.len(), &section.arguments, |i| exported.get(i).cloned().flatten(), "arg")
}
pub fn results(func: &Func, section: &EntrySection) -> Vec<String> {
    let exported = |i: usize| match find(func.result_attrs.get(i)?, "jax.result_info")? {
        Attr::Str(s) if !s.is_empty() => Some(s.clone()),
        _ => None,
    };
    names(func.result_types.len(), &section.results, exported, "out")
}
/// The result that may live in an argument's buffer, as the exporter marked it: `Some(None)` if any may.
pub fn donation(attrs: &Attrs) -> Option<Option<usize>> {
    match (find(attrs, "tf.aliasing_output"), find(attrs, "jax.buffer_donor")) {
        (Some(Attr::Int(i, _)), _) => Some(usize::try_from(*i).ok()),
        (_, Some(Attr::Bool(true) | Attr::Unit)) => Some(None),
        _ => None,
    }
}
/// The part of an exporter's name that a weights file uses: `params['layers'][0]['w']` is `layers.0.w`.
pub fn plain(name: &str) -> String {
    let Some(open) = name.find('[') else { return name.to_string() };
    let parts: Vec<&str> = name[open..].split(['[', ']']).filter(|p| !p.is_empty()).collect();
    parts.iter().map(|p| p.trim_matches(['\'', '"'])).collect::<Vec<_>>().join(".")
}

fn find<'a>(attrs: &'a Attrs, name: &str) -> Option<&'a Attr> {
    attrs.iter().find(|(k, _)| k == name).map(|(_, a)| a)
}
fn names(n: usize, given: &[String], exported: impl Fn(usize) -> Option<String>, prefix: &str) -> Vec<String> {
    let mut all: Vec<String> = (0..n)
        .map(|i| given.get(i).cloned().or_else(|| exported(i)).unwrap_or_else(|| format!("{prefix}{i}")))
        .collect();
    for i in 0..n {
        if all[..i].contains(&all[i]) {
            all[i] = format!("{}.{i}", all[i]);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn exporter_names_become_the_names_of_weights_files() {
        assert_eq!(plain("params['conv1']['bias']"), "conv1.bias");
        assert_eq!(plain("weights['model.layers.0.mlp.up_proj.weight']"), "model.layers.0.mlp.up_proj.weight");
        assert_eq!(plain("state[3][\"w\"]"), "3.w");
        assert_eq!(plain("x"), "x");
    }
    #[test]
    fn equal_names_get_their_index() {
        assert_eq!(names(3, &[], |_| Some("x".into()), "arg"), ["x", "x.1", "x.2"]);
        assert_eq!(names(2, &["a".into()], |_| None, "arg"), ["a", "arg1"]);
    }
}
