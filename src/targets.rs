//! The targets that this zmlc builds for, and what `--target` selects.

use crate::{
    codes,
    failure::Failure,
    model::{Gemm, Model},
};
use zmlc_import::{
    diag::{Diagnostic, did_you_mean},
    tree::Span,
};
use zmlc_passes::{spec::DeviceSpec, target::Target};

pub fn all() -> Vec<&'static dyn Target> {
    vec![&zmlc_target_vulkan::Vulkan, &zmlc_target_cuda::Cuda, &zmlc_target_rocm::Rocm]
}

/// The library that multiplies matrices for a target, without version, where the runtime knows one.
pub fn matrix_library(target: &str) -> Option<&'static str> {
    [("cuda", "libcublasLt"), ("rocm", "libhipblaslt")].into_iter().find(|(t, _)| *t == target).map(|(_, l)| l)
}

/// A device profile to build for.
#[derive(Clone)]
pub struct Selected {
    pub target: &'static dyn Target,
    pub spec: DeviceSpec,
}
impl Selected {
    /// `cuda:sm_90a`
    pub fn id(&self) -> String {
        format!("{}:{}", self.target.name(), self.spec.name)
    }
}

/// Reads `vulkan,cuda:sm_90a,rocm:gfx942`. A bare target means model.toml's profiles for it, or the target's defaults.
/// The result is in the order of targets and, within one, in that of its profiles (the best first), each once.
pub fn select(list: &str, model: Option<&Model>) -> Result<Vec<Selected>, Failure> {
    let targets = all();
    let names: Vec<_> = targets.iter().map(|t| t.name()).collect();
    let (mut found, mut errors) = (vec![], vec![]);
    for item in list.split(',').map(str::trim).filter(|s| !s.is_empty()) {
        let (name, profile) = item.split_once(':').map_or((item, None), |(n, p)| (n, Some(p)));
        let Some(at) = names.iter().position(|n| *n == name) else {
            errors.push(unknown("target", name, &names));
            continue;
        };
        let specs = targets[at].specs();
        let known: Vec<&str> = specs.iter().map(|s| s.name.as_str()).collect();
        let section = model.and_then(|m| m.file.targets.get(name));
        let wanted: Vec<String> = match (profile, section) {
            (Some(p), _) => vec![p.into()],
            (None, Some(s)) if !s.profiles.is_empty() => s.profiles.clone(),
            (None, _) => targets[at].defaults().iter().map(|p| (*p).to_string()).collect(),
        };
        for p in wanted {
            match known.iter().position(|k| *k == p) {
                Some(i) => found.push((at, i)),
                None => errors.push(unknown(&format!("{name} profile"), &p, &known)),
            }
        }
    }
    if !errors.is_empty() {
        return Err(Failure::Input(errors.into()));
    }
    if found.is_empty() {
        return Err(Failure::Usage(format!("--target names nothing; the targets are {}", names.join(", "))));
    }
    found.sort_unstable();
    found.dedup();
    let pick = |(t, p): (usize, usize)| {
        let mut spec = targets[t].specs().swap_remove(p);
        let section = model.and_then(|m| m.file.targets.get(targets[t].name()));
        spec.library_gemm = section.is_some_and(|s| s.gemm == Gemm::Library);
        Selected { target: targets[t], spec }
    };
    Ok(found.into_iter().map(pick).collect())
}

/// The profile that IR printed after `fuse` or later was made for, from its module's `zml.profile`.
pub fn of_id(id: &str) -> Result<Selected, Failure> {
    Ok(select(id, None)?.swap_remove(0))
}

fn unknown(what: &str, name: &str, known: &[&str]) -> Diagnostic {
    let d = Diagnostic::error(codes::TARGET_LIST, Span::NONE, format!("there is no {what} `{name}`"));
    match did_you_mean(name, known.iter().copied()) {
        Some(n) => d.hint(format!("did you mean `{n}`?")),
        None => d.hint(format!("there are {}", known.join(", "))),
    }
}
