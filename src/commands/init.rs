//! `zmlc init PROGRAM`: writes a model.toml, after matching arguments with weights files and donated arguments with state.

use crate::{
    args::Init,
    artifact, codes,
    failure::Failure,
    front::{self, boundary},
    model::{Embed, EntrySection, ModelFile, ModelSection, WeightsSection},
    names,
    printer::Printer,
    weights::WeightFile,
};
use serde_json::json;
use std::{
    collections::BTreeMap,
    fmt::Write,
    path::{Path, PathBuf},
};
use zml_format::Tensor;
use zmlc_import::{
    diag::{Diagnostic, Diagnostics, Source},
    tree::Span,
};

pub fn run(args: &Init, printer: Printer) -> Result<(), Failure> {
    let bytes = std::fs::read(&args.program).map_err(|e| Failure::file(&args.program, "read", &e))?;
    let mut found = Diagnostics::default();
    let source = Source::new(args.program.display().to_string(), bytes);
    let Some(program) = front::read(&source, &mut found) else { return Err(Failure::Input(found)) };
    printer.diagnostics(&found);
    let target = args.output.join("model.toml");
    if target.exists() && !args.force {
        return Err(Failure::Usage(format!("{} exists; --force replaces it", target.display())));
    }
    let Some(func) = program.main() else {
        let public: Vec<&str> = program.funcs.iter().filter(|f| f.public).map(|f| f.name.as_str()).collect();
        let message = "the program has no function `main` and not exactly one public one";
        let d = Diagnostic::error(codes::MODEL_ENTRY, Span::NONE, message);
        let hint = format!("write model.toml by hand with `function = ...`; there are {}", public.join(", "));
        return Err(Failure::Input(Diagnostics::from(d.hint(hint)).locate(&source)));
    };
    let section =
        EntrySection { name: "main".into(), program: relative(&args.program, &args.output)?, ..Default::default() };
    let argument_names = names::arguments(func, &section);
    let files: Vec<WeightFile> = args.weights.iter().map(|p| WeightFile::open(p)).collect::<Result<_, _>>()?;

    let mut map = BTreeMap::new();
    let (mut text, mut listed) = (String::new(), vec![]);
    for (i, name) in argument_names.iter().enumerate() {
        let tensor = boundary(func.ty(func.body.args[i]), name);
        let keys = [name.clone(), names::plain(name)];
        let weight = keys.iter().find(|k| files.iter().any(|f| f.find(k).is_some()));
        let donated = func.arg_attrs.get(i).and_then(names::donation).is_some();
        let role = match (weight, donated) {
            (Some(key), _) => {
                map.insert(name.clone(), key.clone());
                format!("weight {key}")
            }
            (None, true) => "input, donated: a candidate for [[state]]".into(),
            (None, false) => "input".into(),
        };
        let form = form(tensor.as_ref());
        let _ = writeln!(text, "{i:>4}  {name:<40} {form:<24} {role}");
        listed.push(json!({"index": i, "name": name, "type": form, "role": role}));
    }
    let unused: Vec<&str> =
        files.iter().flat_map(WeightFile::names).filter(|n| !map.values().any(|v| v == n)).collect();
    let weights = if args.weights.is_empty() {
        None
    } else {
        let files = args.weights.iter().map(|p| relative(p, &args.output)).collect::<Result<_, _>>()?;
        Some(WeightsSection { files, embed: Embed::Auto, map })
    };
    let name = args.name.clone().or_else(|| program.name.as_deref().map(file_name)).unwrap_or_else(|| "model".into());
    let file = ModelFile {
        model: ModelSection { name, version: "1".into() },
        entry: vec![section],
        weights,
        ..ModelFile::default()
    };
    let toml = toml::to_string_pretty(&file).map_err(|e| Failure::bug(format!("model.toml does not print: {e}")))?;
    artifact::write_file(&target, toml.as_bytes())?;
    if !unused.is_empty() {
        let _ = writeln!(text, "\nno argument has the name of these tensors: {}", unused.join(", "));
    }
    let _ = writeln!(text, "\nwrote {}", target.display());
    printer.result(&text, &json!({"model": target, "arguments": listed, "unmatched": unused}));
    Ok(())
}

/// A module's name with everything that is not plain in a file name as `_`.
fn file_name(module: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' };
    module.chars().map(plain).collect()
}
/// `path` as seen from `folder`.
fn relative(path: &Path, folder: &Path) -> Result<PathBuf, Failure> {
    std::fs::create_dir_all(folder).map_err(|e| Failure::file(folder, "create", &e))?;
    let full = path.canonicalize().map_err(|e| Failure::file(path, "read", &e))?;
    let base = folder.canonicalize().map_err(|e| Failure::file(folder, "read", &e))?;
    let common = full.components().zip(base.components()).take_while(|(a, b)| a == b).count();
    let up = base.components().skip(common).map(|_| "..");
    Ok(up.map(PathBuf::from).chain(full.components().skip(common).map(|c| PathBuf::from(c.as_os_str()))).collect())
}
fn form(tensor: Option<&Tensor>) -> String {
    match tensor {
        Some(t) => format!("tensor<{}{}>", t.shape.iter().map(|d| format!("{d}x")).collect::<String>(), t.dtype),
        None => "not a static tensor".into(),
    }
}
