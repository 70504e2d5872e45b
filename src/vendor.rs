//! The vendor libraries of a model.toml: its sources by the lock file, and what of them a package of an artifact gets.

use crate::{
    commands::package::failure,
    failure::Failure,
    model::{Model, VendorSection},
    printer::Printer,
    targets::matrix_library,
};
use zml_format::{Manifest, calls_library};
use zmlc_package::vendor::{Cache, Lock, Root, Selection, Source, Unpacked, Vendored, locate, prepare, unpack};

/// The image spec's name of the machine that zmlc runs on, for which wheels are fetched.
pub fn architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}

/// Model.toml checks this when it reads.
pub fn source(from: &str) -> Result<Source, Failure> {
    from.parse().map_err(|e| failure(&e))
}

/// What pins the sources of a model.toml.
pub fn lock(model: &Model) -> Result<Lock, Failure> {
    Lock::read(&Lock::beside(&model.path)).map_err(|e| failure(&e))
}

/// The sources of one target as the lock has them, in the order of model.toml.
pub fn sources(
    model: &Model,
    section: &VendorSection,
    lock: &Lock,
    architecture: &str,
    cache: &Cache,
) -> Result<Vec<Unpacked>, Failure> {
    let folder = model.locate("".as_ref());
    let mut found = vec![];
    for from in &section.from {
        let from = source(from)?;
        let (path, locked) = locate(&from, lock, &folder, architecture, cache).map_err(|e| failure(&e))?;
        found.push(unpack(&path, &locked.sha256, cache).map_err(|e| failure(&e))?);
    }
    Ok(found)
}

/// What goes into a package: what `libraries` names, and what the matrix products of the target call, if they call any.
pub fn roots(target: &str, section: &VendorSection, has_calls: bool) -> Vec<Root> {
    let named = section.libraries.iter().map(|l| (l.as_str(), "[package.vendor]"));
    let called = matrix_library(target).filter(|_| has_calls).map(|l| (l, "`gemm = \"library\"`"));
    named.chain(called).map(|(name, by)| Root { name: name.into(), asked_by: by.into() }).collect()
}

/// Whether an artifact's code for `target` calls a library.
fn calls(manifest: &Manifest, target: &str) -> bool {
    let profiles = manifest.profiles.iter().filter(|p| p.target == target);
    profiles.flat_map(|p| &p.programs).any(|p| calls_library(&p.steps))
}

/// One line for each target whose library is called and not among what the package gets.
pub fn lacking(manifest: &Manifest, vendored: &[Vendored]) -> Vec<String> {
    let mut targets: Vec<&str> = manifest.profiles.iter().map(|p| p.target.as_str()).collect();
    targets.dedup();
    let lacks = targets.into_iter().filter(|t| calls(manifest, t) && !vendored.iter().any(|v| v.target == *t));
    lacks
        .filter_map(|target| {
            let library = matrix_library(target)?;
            Some(format!(
                "the artifact calls {library} on {target}, and the package does not have it: `zmlc vendor add MODEL.toml SOURCE`, then --model MODEL.toml; or `zml-run --libraries DIR` where it runs"
            ))
        })
        .collect()
}

/// What a package of an artifact gets: for each target that the artifact is for, what model.toml asks for.
pub fn of_package(
    model: &Model,
    manifest: &Manifest,
    architecture: &str,
    printer: Printer,
) -> Result<Vec<Vendored>, Failure> {
    let mut all = vec![];
    for (target, section) in &model.file.package.vendor {
        let profiles: Vec<_> = manifest.profiles.iter().filter(|p| p.target == *target).collect();
        if profiles.is_empty() {
            continue;
        }
        let libraries = roots(target, section, calls(manifest, target));
        if libraries.is_empty() {
            printer.note(&format!(
                "note: nothing of [package.vendor.{target}] goes in: the artifact calls no library, and `libraries` names none"
            ));
            continue;
        }
        let cache = Cache::from_environment().map_err(|e| failure(&e))?;
        let sources = sources(model, section, &lock(model)?, architecture, &cache)?;
        let archs: Vec<String> = profiles.iter().map(|p| p.requires.arch.clone()).collect();
        let selection = Selection {
            target,
            libraries: &libraries,
            architecture,
            archs: &archs,
            trim: section.trim,
            trim_proprietary: section.trim_proprietary,
        };
        let vendored = prepare(&sources, &selection, &cache).map_err(|e| failure(&e))?;
        all.push(vendored);
    }
    Ok(all)
}
