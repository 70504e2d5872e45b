//! The files that a model is built from, as digests: what the artifact records, and what files of today are held against.

use crate::{
    failure::Failure,
    front::Loaded,
    model::{Model, PackageSection},
    weights::{self, WeightFile},
};
use std::path::PathBuf;
use zml_format::{Source, Sources};

/// Of a model whose programs were read.
pub fn of(model: &Model, loaded: &[Loaded], files: &[WeightFile]) -> Sources {
    let mut programs: Vec<Source> = vec![];
    for l in loaded {
        if !programs.iter().any(|p| p.name == l.section.name) {
            programs.push(source(&l.section.name, &l.source.bytes));
        }
    }
    sources(model, programs, files)
}

/// Of the files that a model.toml names, as they are now.
pub fn read(model: &Model) -> Result<Sources, Failure> {
    let program = |e: &crate::model::EntrySection| {
        let path = model.locate(&e.program);
        let bytes = std::fs::read(&path).map_err(|why| Failure::file(&path, "read", &why))?;
        Ok(source(&e.name, &bytes))
    };
    let programs = model.file.entry.iter().map(program).collect::<Result<_, Failure>>()?;
    Ok(sources(model, programs, &weights::open(model)?))
}

fn sources(model: &Model, programs: Vec<Source>, files: &[WeightFile]) -> Sources {
    let weights = files.iter().map(|f| source(&f.name(), f.header())).collect();
    Sources { model: weights::sha256(said(model).as_bytes()), programs, weights }
}

/// What model.toml says of the artifact. Where its files lie is not part of that, nor how the text is laid out, nor what
/// packages get.
fn said(model: &Model) -> String {
    let mut file = model.file.clone();
    file.package = PackageSection::default();
    let paths = file.entry.iter_mut().map(|e| &mut e.program);
    for path in paths.chain(file.weights.iter_mut().flat_map(|w| &mut w.files)) {
        *path = path.file_name().map(PathBuf::from).unwrap_or_default();
    }
    serde_json::to_string(&file).expect("keys are strings")
}

fn source(name: &str, bytes: &[u8]) -> Source {
    Source { name: name.into(), sha256: weights::sha256(bytes) }
}
