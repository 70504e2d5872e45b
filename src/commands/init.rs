//! `zmlc init PROGRAM`: writes a model.toml, after matching arguments with weights files and donated arguments with state.

use crate::{
    args::Init,
    artifact, codes,
    dims::{self, Named},
    failure::Failure,
    front,
    model::{Embed, EntrySection, ModelFile, ModelSection, WeightsSection},
    names,
    printer::Printer,
    weights::WeightFile,
};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    path::{Path, PathBuf},
};
use zmlc_import::{
    diag::{Diagnostic, Diagnostics, Source},
    tree::{Func, Span, Type},
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
    let argument_names = names::arguments(&program, func, &section);
    let files: Vec<WeightFile> = args.weights.iter().map(|p| WeightFile::open(p)).collect::<Result<_, _>>()?;

    let dims = dims::named(&program, &func.name, &argument_names, &section);
    let mut map = BTreeMap::new();
    let (mut text, mut listed) = (String::new(), vec![]);
    for (i, name) in argument_names.iter().enumerate() {
        let ty = func.ty(func.body.args[i]);
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
        let form = match ty {
            Type::Tensor(t) => dims::form(t, i, &dims),
            _ => "not a tensor".into(),
        };
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
    let file =
        ModelFile { model: ModelSection { name, version: "1".into() }, entry: vec![section], ..ModelFile::default() };
    let mut toml = print(&file)? + &dynamic(func, &argument_names, &dims);
    if weights.is_some() {
        toml += &format!("\n{}", print(&BTreeMap::from([("weights", weights)]))?);
    }
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
fn print(part: &impl serde::Serialize) -> Result<String, Failure> {
    toml::to_string_pretty(part).map_err(|e| Failure::bug(format!("model.toml does not print: {e}")))
}
/// The tables of an entry with dynamic dimensions, for the user to fill in.
fn dynamic(func: &Func, arguments: &[String], dims: &[Named]) -> String {
    if dims.is_empty() {
        return String::new();
    }
    let mut names = dims::names(dims);
    let mut text = String::new();
    let unnamed: BTreeSet<usize> = dims.iter().filter(|d| d.name.is_none()).map(|d| d.argument).collect();
    if !unnamed.is_empty() {
        text +=
            "\n# Names for the dynamic dimensions: the same name for those that are always equal.\n[entry.shapes]\n";
        for i in unnamed {
            let mut list = vec![];
            for d in &func.tensor(func.body.args[i]).dims {
                list.push(match d {
                    Some(d) => d.to_string(),
                    None => {
                        let name = (0..).map(|n| format!("d{n}")).find(|n| !names.contains(n)).expect("one is free");
                        names.push(name.clone());
                        format!("{name:?}")
                    }
                });
            }
            let _ = writeln!(text, "{} = [{}]", dims::key(&arguments[i]), list.join(", "));
        }
    }
    text += "\n# Sizes to build for; each combination is compiled by itself, and the shapes of the inputs choose at run time.\n\
             [entry.dims]\n";
    for n in names {
        let _ = writeln!(text, "# {} = [1, 8]", dims::key(&n));
    }
    text
}
