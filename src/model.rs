//! model.toml: what to compile. Reading, with unknown keys as errors at their place.

use crate::{codes, failure::Failure};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use toml::Spanned;
use zmlc_import::{
    diag::{Diagnostic, Source, did_you_mean},
    tree::Span,
};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    pub model: ModelSection,
    #[serde(default)]
    pub entry: Vec<EntrySection>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<WeightsSection>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<StateSection>,
    /// Per target, the profiles that a bare `--target NAME` builds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub targets: BTreeMap<String, TargetSection>,
    #[serde(default, skip_serializing_if = "PackageSection::is_empty")]
    pub package: PackageSection,
}
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSection {
    /// The artifact is `NAME.zml`.
    pub name: String,
    #[serde(default = "default_version")]
    pub version: String,
}
fn default_version() -> String {
    "1".into()
}
/// Keys and values with their places, so that what is wrong with one is shown there.
pub type Table = BTreeMap<Spanned<String>, Spanned<toml::Value>>;

/// A function of a StableHLO program that can be called.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntrySection {
    pub name: String,
    /// Relative to model.toml.
    pub program: PathBuf,
    /// Default: `main`, or the only public function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Names for the arguments, in order. Default: those in the program's debug locations, then `arg0`, ...
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Names for the results, in order. Default: those that the exporter wrote, then `out0`, ...
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<String>,
    /// Sizes to build for, of each dynamic dimension by its name: every combination is a specialisation.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub dims: Table,
    /// Names of dynamic dimensions, where the exporter has none: for an argument a name or a size for each dimension.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub shapes: Table,
    /// Names of arguments whose buffers the program may overwrite, besides those that it marks itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub donated: Vec<String>,
}
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightsSection {
    /// safetensors files, relative to model.toml.
    pub files: Vec<PathBuf>,
    #[serde(default)]
    pub embed: Embed,
    /// Argument name to tensor name. An argument that is not here is a weight if a tensor has its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub map: BTreeMap<String, String>,
}
/// Whether weights go into the artifact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Embed {
    /// If all of them together are at most 32 MiB.
    #[default]
    Auto,
    Always,
    Never,
}
/// Lives on the device across calls and entries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateSection {
    pub name: String,
    /// The argument that reads it, in every entry that has one of this name.
    pub argument: String,
    /// The result that is its next value. Default: the one that the program aliases with the argument, else the one of the
    /// argument's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetSection {
    /// Empty: those that the target builds anyhow.
    #[serde(alias = "arch", default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<String>,
    #[serde(default, skip_serializing_if = "Gemm::is_generated")]
    pub gemm: Gemm,
}
/// What multiplies matrices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gemm {
    /// Kernels in the artifact.
    #[default]
    Generated,
    /// The vendor's library, in the package.
    Library,
}
impl Gemm {
    // By reference, as serde asks.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    fn is_generated(&self) -> bool {
        *self == Gemm::Generated
    }
}
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageSection {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Layers go on this OCI layout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<PathBuf>,
    /// Per target, vendor libraries that go into a package.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vendor: BTreeMap<String, VendorSection>,
}
/// Vendor libraries of one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct VendorSection {
    /// `pypi:NAME`, `pypi:NAME==VERSION`, or a wheel, a .deb or a folder, relative to model.toml. zmlc.lock pins them.
    pub from: Vec<String>,
    /// What goes in, with all that it needs: sonames, or names without version, `libnccl`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<String>,
    /// Cut to the GPUs that the artifact is for.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub trim: bool,
    /// Also libraries whose licence forbids to change them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trim_proprietary: bool,
}
fn yes() -> bool {
    true
}
impl PackageSection {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A model.toml that was read, and where it lies.
#[derive(Clone, Debug)]
pub struct Model {
    pub file: ModelFile,
    pub path: PathBuf,
    /// Its text, for findings that show a place in it.
    pub source: Source,
}
impl Model {
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let text = std::fs::read(path).map_err(|e| Failure::file(path, "read", &e))?;
        let source = Source::new(name, text);
        let Ok(text) = std::str::from_utf8(&source.bytes) else {
            return Err(
                Diagnostic::error(codes::MODEL, Span::NONE, format!("{} is not UTF-8 text", source.name)).into()
            );
        };
        let file: ModelFile = toml::from_str(text).map_err(|e| invalid(&e, &source))?;
        let model = Model { file, path: path.to_path_buf(), source };
        model.check()?;
        Ok(model)
    }
    /// A path of model.toml, from the folder that it lies in.
    pub fn locate(&self, path: &Path) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(path)
    }
    fn check(&self) -> Result<(), Failure> {
        let mut found = vec![];
        let mut report = |message: String| {
            let mut d = Diagnostic::error(codes::MODEL, Span::NONE, message);
            d.file = self.path.display().to_string();
            found.push(d);
        };
        if self.file.entry.is_empty() {
            report("there is no [[entry]]: a model needs at least one".into());
        }
        if !is_file_name(&self.file.model.name) {
            report(format!("the model's name `{}` cannot be a file name", self.file.model.name));
        }
        for (i, e) in self.file.entry.iter().enumerate() {
            if self.file.entry[..i].iter().any(|f| f.name == e.name) {
                report(format!("two entries are called `{}`", e.name));
            }
        }
        for (target, section) in &self.file.targets {
            if section.gemm == Gemm::Library && crate::targets::matrix_library(target).is_none() {
                report(format!("[targets.{target}] gemm = \"library\": {target} has no matrix library"));
            }
        }
        for (target, vendor) in &self.file.package.vendor {
            if !crate::targets::all().iter().any(|t| t.name() == target) {
                report(format!("[package.vendor.{target}] is for no target; `zmlc targets` lists them"));
            }
            for from in &vendor.from {
                if let Err(e) = from.parse::<zmlc_package::vendor::Source>() {
                    report(format!("[package.vendor.{target}] {e}: {}", e.remedy()));
                }
            }
        }
        if found.is_empty() { Ok(()) } else { Err(Failure::Input(found.into())) }
    }
}

/// Whether an artifact may be called so.
pub fn is_file_name(n: &str) -> bool {
    let plain = |c: char| !c.is_control() && !matches!(c, '/' | '\\');
    !n.is_empty() && n != "." && n != ".." && n.chars().all(plain)
}

fn invalid(e: &toml::de::Error, source: &Source) -> Failure {
    let span = e.span().map_or(Span::NONE, |s| Span { start: s.start as u32, end: s.end.max(s.start + 1) as u32 });
    let mut d = Diagnostic::error(codes::MODEL, span, e.message());
    // serde: unknown field `x`, expected one of `a`, `b`
    if let Some(rest) = e.message().strip_prefix("unknown field `")
        && let Some((found, expected)) = rest.split_once('`')
    {
        let names: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
        d = Diagnostic::error(codes::MODEL, span, format!("there is no key `{found}` here"));
        d = match did_you_mean(found, names.iter().copied()) {
            Some(n) => d.hint(format!("did you mean `{n}`?")),
            None => d.hint(format!("the keys here are {}", names.join(", "))),
        };
    }
    Failure::Input(zmlc_import::diag::Diagnostics::from(d).locate(source))
}
