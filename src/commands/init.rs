//! `zmlc init PROGRAM`: writes a model.toml, after matching arguments with weights files and donated arguments with state.

use crate::{
    args::Init,
    artifact, bind, codes,
    dims::{self, Named},
    failure::Failure,
    front,
    model::{Embed, EntrySection, ModelSection, WeightsSection, is_file_name},
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
    tree::{Func, Program, Span, Type},
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
    if let Some(name) = args.name.as_ref().filter(|n| !is_file_name(n)) {
        return Err(Failure::Usage(format!(
            "--name {name:?}: the artifact is NAME.zml, and this cannot be a file name"
        )));
    }
    let functions = entries(&program).map_err(|d| d.locate(&source))?;
    let paths = weight_files(&args.weights)?;
    let files: Vec<WeightFile> = paths.iter().map(|p| WeightFile::open(p)).collect::<Result<_, _>>()?;

    let path = relative(&args.program, &args.output)?;
    let mut map = BTreeMap::new();
    let (mut text, mut listed, mut tables) = (String::new(), vec![], String::new());
    let several = functions.len() > 1;
    let mut named = false;
    for func in functions {
        let section = EntrySection {
            name: if several { func.name.clone() } else { "main".into() },
            program: path.clone(),
            function: several.then(|| func.name.clone()),
            ..Default::default()
        };
        if several {
            let _ = writeln!(text, "{}entry {}", if text.is_empty() { "" } else { "\n" }, section.name);
        }
        let argument_names = names::arguments(&program, func, &section);
        named |= zmlc_import::argument_names(&program, &func.name).iter().any(Option::is_some);
        let dims = dims::named(&program, &func.name, &argument_names, &section);
        for (i, name) in argument_names.iter().enumerate() {
            let ty = func.ty(func.body.args[i]);
            let donated = func.arg_attrs.get(i).and_then(names::donation).is_some();
            let role = match (weight(&files, name), donated) {
                (Some((key, file)), _) => {
                    let misfit = misfit(file, &key, ty);
                    let role = format!("weight {key}{misfit}");
                    map.insert(name.clone(), key);
                    role
                }
                (None, true) => "input, donated: a candidate for [[state]]".into(),
                (None, false) => "input".into(),
            };
            let form = match ty {
                Type::Tensor(t) => dims::form(t, i, &dims),
                _ => "not a tensor".into(),
            };
            let _ = writeln!(text, "{i:>4}  {name:<40} {form:<24} {role}");
            listed.push(json!({"entry": section.name, "index": i, "name": name, "type": form, "role": role}));
        }
        let _ = write!(tables, "\n{}", print(&BTreeMap::from([("entry", [&section])]))?);
        tables += &dynamic(func, &argument_names, &dims);
    }
    let unused: Vec<&str> =
        files.iter().flat_map(WeightFile::names).filter(|n| !map.values().any(|v| v == n)).collect();
    let name = args.name.clone().or_else(|| program.name.as_deref().map(file_name)).unwrap_or_else(|| "model".into());
    let model = ModelSection { name, version: "1".into() };
    let mut toml = print(&BTreeMap::from([("model", model)]))? + &tables;
    if !paths.is_empty() {
        let files = paths.iter().map(|p| relative(p, &args.output)).collect::<Result<_, _>>()?;
        let weights = WeightsSection { files, embed: Embed::Auto, map };
        toml += &format!("\n{}", print(&BTreeMap::from([("weights", weights)]))?);
    }
    artifact::write_file(&target, toml.as_bytes())?;
    if !unused.is_empty() {
        let _ = writeln!(text, "\nno argument has the name of these tensors: {}", unused.join(", "));
        if !named {
            text += "the program does not say its arguments' names: export it with them, in JAX by \
                     `lowered.as_text(debug_info=True)`, or write the lines of [weights.map]\n";
        }
    }
    let _ = writeln!(text, "\nwrote {}", target.display());
    printer.result(&text, &json!({"model": target, "arguments": listed, "unmatched": unused}));
    Ok(())
}

/// `main`, or else every public function that has a body.
fn entries(program: &Program) -> Result<Vec<&Func>, Diagnostics> {
    if let Some(f) = program.main() {
        return Ok(vec![f]);
    }
    let public: Vec<&Func> = program.funcs.iter().filter(|f| f.public && !f.external).collect();
    if public.is_empty() {
        let d = Diagnostic::error(codes::MODEL_ENTRY, Span::NONE, "the program has no public function");
        return Err(d.hint("an entry calls a function without `private`").into());
    }
    Ok(public)
}

/// The files given, and those of the folders given.
fn weight_files(given: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut list = vec![];
    for path in given {
        if !path.is_dir() {
            list.push(path.clone());
            continue;
        }
        let failed = |e: std::io::Error| Failure::file(path, "read", &e);
        let all = std::fs::read_dir(path).map_err(failed)?.map(|e| e.map(|e| e.path()));
        let mut found: Vec<PathBuf> = all.collect::<Result<_, _>>().map_err(failed)?;
        found.retain(|p| p.extension().is_some_and(|e| e == "safetensors"));
        if found.is_empty() {
            let m = format!("no .safetensors file in {}", path.display());
            let d = Diagnostic::error(codes::WEIGHTS, Span::NONE, m);
            let hint = "weights are read from .safetensors files; convert others with the safetensors Python package";
            return Err(d.hint(hint).into());
        }
        found.sort();
        list.append(&mut found);
    }
    Ok(list)
}

/// The tensor that has an argument's name, and its file.
fn weight<'f>(files: &'f [WeightFile], name: &str) -> Option<(String, &'f WeightFile)> {
    let keys = [name.to_string(), names::plain(name)];
    keys.into_iter().find_map(|k| files.iter().find(|f| f.find(&k).is_some()).map(|f| (k, f)))
}

/// What is to be said of a tensor that is of another type than its argument.
fn misfit(file: &WeightFile, key: &str, ty: &Type) -> String {
    let Some((dtype, shape, _)) = file.find(key) else { return String::new() };
    let fits = matches!(ty, Type::Tensor(t) if dtype == Some(t.dtype)
        && t.rank() == shape.len()
        && t.dims.iter().zip(shape).all(|(want, n)| want.is_none_or(|w| w == *n)));
    if fits { String::new() } else { format!(", which is {}: does not fit", bind::form(dtype, shape)) }
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
