//! StableHLO's public test programs as cases: functions without arguments that compute inputs and expected values
//! themselves and assert with the `check` dialect. Each becomes a folder of the corpus form: what is constant becomes an
//! input, so that the compiler has something to compile, and what is asserted becomes an output.
//!
//! Inputs and expected values are evaluated by the project's interpreter.

mod parts;
#[cfg(test)]
mod tests;
mod write;

use crate::{archive, case, child};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// Name of a case and its folder.
pub type Named = (String, PathBuf);

/// Whether `path` is of this form: an archive, a program, or a folder of programs.
pub fn is_testdata(path: &Path) -> bool {
    if path.is_dir() {
        return case::find(path).is_err() && programs_below(path).is_ok_and(|p| !p.is_empty());
    }
    path.is_file()
}

/// The programs of a folder and those below it, of an archive that is unpacked to `scratch`, or one: each with the name
/// that its cases begin with.
pub fn programs(path: &Path, scratch: &Path) -> Result<Vec<Named>> {
    let root = if path.is_dir() {
        path
    } else if path.extension().is_some_and(|e| e == "mlir") {
        return Ok(vec![(stem(Path::new(path.file_name().unwrap_or_default())), path.to_path_buf())]);
    } else {
        fs::create_dir_all(scratch)?;
        archive::unpack(path, scratch)?;
        scratch
    };
    let files = programs_below(root)?;
    ensure!(!files.is_empty(), "{} has no .mlir file", path.display());
    // Folders that all files share say nothing.
    let parent = |f: &PathBuf| f.parent().unwrap_or(root).to_path_buf();
    let mut shared = parent(&files[0]);
    for f in &files {
        while !f.starts_with(&shared) {
            shared.pop();
        }
    }
    Ok(files.into_iter().map(|f| (stem(f.strip_prefix(&shared).unwrap_or(&f)), f)).collect())
}

/// `interpret/add.mlir` is `interpret.add`.
fn stem(path: &Path) -> String {
    let parts: Vec<_> = path.with_extension("").iter().map(|p| p.to_string_lossy().into_owned()).collect();
    parts.join(".")
}

/// Without `meta.json`, which the folders of the other form have. Links may lead anywhere and are left out.
fn programs_below(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![];
    for e in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let e = e?;
        let (kind, path) = (e.file_type()?, e.path());
        if kind.is_dir() && !path.join("meta.json").is_file() {
            found.extend(programs_below(&path)?);
        } else if kind.is_file() && path.extension().is_some_and(|e| e == "mlir") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// What [`convert`] did, in `index.json` beside the cases.
#[derive(Serialize, Deserialize)]
struct Index {
    cases: Vec<String>,
}

/// Writes the cases of one file to folders below `into`.
pub fn convert(file: &Path, stem: &str, into: &Path) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut index = Index { cases: vec![] };
    for (name, case) in parts::split(stem, &text) {
        let dir = into.join(&name);
        fs::create_dir_all(&dir).with_context(|| format!("cannot write {}", dir.display()))?;
        write::case(&dir, &case)?;
        index.cases.push(name);
    }
    fs::write(into.join("index.json"), serde_json::to_vec(&index)?)?;
    Ok(())
}

/// The cases of one file, converted by a process of its own: a program that crashes the reader or the interpreter, or
/// keeps it busy, is one failed case.
pub fn converted(stem: &str, file: &Path, into: &Path, limit: Duration) -> Result<Vec<Named>> {
    fs::create_dir_all(into).with_context(|| format!("cannot write {}", into.display()))?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--convert").arg(file).arg(stem).arg(into);
    let outcome = child::run(&mut command, limit)?;
    if let Some(detail) = outcome.failure() {
        let dir = into.join(stem);
        fs::create_dir_all(&dir)?;
        write::unreadable(&dir, &format!("reading: {detail}"))?;
        return Ok(vec![(stem.into(), dir)]);
    }
    let index: Index = serde_json::from_slice(&fs::read(into.join("index.json"))?)?;
    Ok(index.cases.into_iter().map(|n| (n.clone(), into.join(n))).collect())
}
