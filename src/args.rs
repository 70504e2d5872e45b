//! The command line, and nothing else.

use crate::printer::MessageFormat;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use zml_runtime::DeviceRequest;

/// Compiles a StableHLO model, once and with no GPU present, into one artifact for Vulkan, CUDA and ROCm.
///
/// Exit codes: 0 done, 1 something is wrong with the input, 2 wrong usage, 101 a bug in zmlc.
#[derive(Parser, Debug)]
#[command(name = "zmlc", version, propagate_version = true, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// Messages for people, or one JSON object a line.
    #[arg(long, global = true, value_enum, default_value_t)]
    pub message_format: MessageFormat,
    /// No remarks and no progress; errors are still shown.
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Write a model.toml for a StableHLO program.
    Init(Init),
    /// Read and verify StableHLO programs, and nothing more.
    Check(Check),
    /// Write a program as StableHLO text (.mlir) or as a portable artifact (.mlirbc).
    Convert(Convert),
    /// Compile a model to DIR/NAME.zml.
    Build(Build),
    /// Run an artifact. The same options as zml-run, which needs no compiler.
    #[command(disable_help_flag = true)]
    Run(Passthrough),
    /// Time calls of an artifact, and each of its kernels. The same as zml-run bench.
    #[command(disable_help_flag = true)]
    Bench(Passthrough),
    /// Find the first kernel, element and source op at which an artifact computes something wrong.
    Bisect(Bisect),
    /// Show what an artifact holds: entries, sizes, kernels, buffers, targets.
    Inspect(Inspect),
    /// Show the IR after each pass, down to SPIR-V, PTX and AMD assembly.
    InspectIr(InspectIr),
    /// Put an artifact and the runtime into an archive or an OCI image layout.
    Package(Package),
    /// Send an OCI image layout to a registry. Blobs that are there already are not sent.
    Push(Push),
    /// The vendor libraries that model.toml puts into a package.
    #[command(subcommand)]
    Vendor(Vendor),
    /// Check the digests of an artifact, an archive or an OCI image layout.
    Verify(Verify),
    /// List targets and device profiles.
    Targets(Targets),
    /// Say what this machine can build for and run on, and what is missing.
    Doctor,
    /// Explain the code of an error, E0901.
    Explain { code: String },
    /// Print a completion script for a shell.
    Completions { shell: clap_complete::Shell },
}

#[derive(Args, Debug)]
pub struct Init {
    /// StableHLO text or portable bytecode.
    pub program: PathBuf,
    /// Folder for model.toml.
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub output: PathBuf,
    /// safetensors files to match arguments with, or folders of them.
    #[arg(long, value_name = "FILE")]
    pub weights: Vec<PathBuf>,
    /// The model's name. Default: the program's.
    #[arg(long)]
    pub name: Option<String>,
    /// Replace an existing model.toml.
    #[arg(long)]
    pub force: bool,
}
#[derive(Args, Debug)]
pub struct Check {
    /// Exit with 1 if there are warnings.
    #[arg(long)]
    pub deny_warnings: bool,
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
}
#[derive(Args, Debug)]
pub struct Convert {
    /// StableHLO text or portable bytecode.
    pub program: PathBuf,
    /// FILE.mlir for text, FILE.mlirbc or FILE.bc for a portable artifact; any other name with --emit.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// What to write, whatever the file is called.
    #[arg(long, value_enum)]
    pub emit: Option<Emit>,
    /// The StableHLO version whose readers must take the artifact, `1.10`.
    #[arg(long, value_name = "VERSION", value_parser = version)]
    pub artifact_version: Option<(u32, u32)>,
}
#[derive(Clone, Copy, PartialEq, Debug, clap::ValueEnum)]
pub enum Emit {
    Text,
    Artifact,
}
#[derive(Args, Debug)]
pub struct Build {
    /// model.toml. May be absent with --from if the model has no weights to embed.
    #[arg(required_unless_present = "from")]
    pub model: Option<PathBuf>,
    /// `vulkan,cuda:sm_90a,rocm:gfx942`; a bare target means its usual profiles. Default: the targets of model.toml, else all.
    #[arg(long, value_name = "LIST")]
    pub target: Option<String>,
    /// Folder for NAME.zml.
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub output: PathBuf,
    /// Put cubins beside the PTX of CUDA profiles of one architecture, made by this ptxas. Without PATH: the one in PATH.
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = "ptxas")]
    pub ptxas: Option<PathBuf>,
    /// Continue after pass PASS on the IR in FILE, as inspect-ir printed it.
    #[arg(long, num_args = 2, value_names = ["PASS", "FILE"])]
    pub from: Option<Vec<String>>,
    /// Print the time of each pass.
    #[arg(long)]
    pub timings: bool,
    /// Leave out a pass and its verifier: for finding out what it is there for. The result may be wrong.
    #[arg(long, value_name = "PASS", hide = true)]
    pub without: Vec<String>,
    /// Make each op a kernel of its own: for finding out whether fusion is at fault.
    #[arg(long, hide = true)]
    pub unfused: bool,
}
#[derive(Args, Debug)]
pub struct Passthrough {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<String>,
}
#[derive(Args, Debug)]
pub struct Bisect {
    pub artifact: PathBuf,
    /// The model.toml that the artifact was built from. Default: the one beside it.
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// The entry to run, if there are several.
    #[arg(long, value_name = "NAME")]
    pub entry: Option<String>,
    /// As `zmlc run` takes them: WHICH=FILE, all=FILE.safetensors, all=random:SEED.
    #[arg(long, value_name = "WHICH=FILE")]
    pub input: Vec<String>,
    /// auto, vulkan[:N], cuda[:N], rocm[:N].
    #[arg(long, default_value = "auto")]
    pub device: DeviceRequest,
    /// How far floats may be from the reference, relative to it. Default: by their type.
    #[arg(long)]
    pub rtol: Option<f64>,
    /// And relative to the largest number of the same result.
    #[arg(long)]
    pub atol: Option<f64>,
    /// Run nothing; write each kernel with its arguments and expected results to a folder of its own in DIR.
    #[arg(long, value_name = "DIR", requires = "target")]
    pub dump: Option<PathBuf>,
    /// With --dump: the profile of the artifact, `rocm:gfx942`.
    #[arg(long, value_name = "PROFILE", requires = "dump")]
    pub target: Option<String>,
}
#[derive(Args, Debug)]
pub struct Inspect {
    pub artifact: PathBuf,
    /// Every step of the host programs.
    #[arg(long)]
    pub steps: bool,
    /// Say which of the files that this model.toml names are not those that the artifact was built from.
    #[arg(long, value_name = "MODEL.toml")]
    pub against: Option<PathBuf>,
}
#[derive(Args, Debug)]
pub struct InspectIr {
    pub model: PathBuf,
    /// One target or profile, `vulkan`, `cuda:sm_90a`.
    #[arg(long, value_name = "TARGET", default_value = "vulkan")]
    pub target: String,
    /// The IR after this pass. Default: after the last.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["list", "all"])]
    pub pass: Option<String>,
    /// The names of the passes.
    #[arg(long, conflicts_with = "all")]
    pub list: bool,
    /// After every pass.
    #[arg(long)]
    pub all: bool,
    /// What each shown pass changed, as a diff.
    #[arg(long)]
    pub diff: bool,
    /// Of one kernel only.
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// Write each stage to a file in this folder instead of printing.
    #[arg(long, value_name = "DIR")]
    pub dump_to: Option<PathBuf>,
    /// Leave out a pass and its verifier.
    #[arg(long, value_name = "PASS", hide = true)]
    pub without: Vec<String>,
}
#[derive(Args, Debug)]
#[command(group(clap::ArgGroup::new("output").args(["archive", "oci"]).required(true).multiple(true)))]
pub struct Package {
    pub artifact: PathBuf,
    /// Write a .tar.zst archive.
    #[arg(long, value_name = "FILE", value_parser = archive_name)]
    pub archive: Option<PathBuf>,
    /// Write an OCI image layout, or push the image.
    #[arg(long, value_name = "DIR|docker://REGISTRY/NAME:TAG")]
    pub oci: Option<PathBuf>,
    /// Of the image's layers. Large weights are stored as they are.
    #[arg(long, value_enum, default_value_t, requires = "oci")]
    pub compression: LayerCompression,
    /// `linux/amd64,linux/arm64`: an image for each, under one index. Default: those of the runtimes.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub platform: Vec<String>,
    /// The runtime to pack, one for each platform. Default: zml-run beside zmlc, for other machines zml-run-arm64.
    #[arg(long, value_name = "FILE")]
    pub runtime: Vec<PathBuf>,
    /// Where the C library for a machine is, `arm64=DIR`: an unpacked root file system. Default: this machine.
    #[arg(long, value_name = "ARCH=DIR", value_parser = label)]
    pub sysroot: Vec<(String, String)>,
    /// A layer with Mesa's software Vulkan device, from the same place: the image runs without a GPU.
    #[arg(long, conflicts_with = "base", requires = "oci")]
    pub software_vulkan: bool,
    /// Put our layers on this image instead of a base of our own: an OCI layout, or an image in a registry.
    #[arg(long, value_name = "DIR|docker://REGISTRY/NAME:TAG", requires = "oci")]
    pub base: Option<PathBuf>,
    /// A label of the image, KEY=VALUE.
    #[arg(long, value_name = "KEY=VALUE", value_parser = label, requires = "oci")]
    pub label: Vec<(String, String)>,
    /// Whether weights that are not in the artifact go into the package.
    #[arg(long, value_enum, default_value_t)]
    pub weights: WeightsChoice,
    /// Where else than beside the artifact weights are looked for.
    #[arg(long, value_name = "DIR")]
    pub weights_dir: Vec<PathBuf>,
    /// A licence text to include.
    #[arg(long, value_name = "FILE")]
    pub license: Vec<PathBuf>,
    /// The model.toml whose [package] section applies: labels, base, vendor libraries.
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
}
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LayerCompression {
    #[default]
    Zstd,
    Gzip,
    None,
}
#[derive(Args, Debug)]
pub struct Push {
    /// What `zmlc package --oci DIR` wrote.
    pub layout: PathBuf,
    /// REGISTRY/NAME:TAG. Logins are those of `docker login` and `podman login`.
    pub reference: String,
}
#[derive(Subcommand, Debug)]
pub enum Vendor {
    /// Add sources to [package.vendor.TARGET], and pin them in zmlc.lock.
    Add(VendorAdd),
    /// Show what the sources hold, what goes into a package, and what is left to the host or missing.
    List(VendorList),
    /// Pin sources anew: the newest version where model.toml names none.
    Update(VendorUpdate),
}
#[derive(Args, Debug)]
pub struct VendorAdd {
    /// model.toml.
    pub model: PathBuf,
    /// pypi:NAME, pypi:NAME==VERSION, or a wheel, a .deb or a folder, relative to model.toml.
    #[arg(required = true)]
    pub source: Vec<String>,
    #[arg(long, value_name = "NAME", default_value = "cuda")]
    pub target: String,
    /// What goes into packages, with all that it needs: a soname, or a name without version, `libnccl`.
    #[arg(long, value_name = "NAME")]
    pub library: Vec<String>,
    /// Cut also libraries whose licence forbids to change them.
    #[arg(long)]
    pub trim_proprietary: bool,
}
#[derive(Args, Debug)]
pub struct VendorList {
    /// model.toml.
    pub model: PathBuf,
}
#[derive(Args, Debug)]
pub struct VendorUpdate {
    /// model.toml.
    pub model: PathBuf,
    /// As in model.toml. Default: all.
    pub source: Vec<String>,
}
#[derive(Args, Debug)]
pub struct Verify {
    /// NAME.zml, NAME.tar.zst, or the folder of a layout.
    pub path: PathBuf,
    /// Build NAME.zml again from this model.toml, and compare: the same inputs and the same zmlc give the same bytes.
    #[arg(long, value_name = "MODEL.toml")]
    pub rebuild: Option<PathBuf>,
    /// With --rebuild: the ptxas for the cubins of the artifact. Default: the one in PATH.
    #[arg(long, value_name = "PATH", requires = "rebuild")]
    pub ptxas: Option<PathBuf>,
}
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum WeightsChoice {
    #[default]
    Include,
    External,
}
#[derive(Args, Debug)]
pub struct Targets {
    /// Only this target.
    pub target: Option<String>,
}

fn label(s: &str) -> Result<(String, String), String> {
    match s.split_once('=') {
        Some(("", _)) => Err("nothing stands before its `=`".into()),
        Some((k, v)) => Ok((k.into(), v.into())),
        None => Err("it has no `=`".into()),
    }
}

/// An archive is always one of zstd, and its name says so.
fn archive_name(s: &str) -> Result<PathBuf, String> {
    if s.ends_with(".tar.zst") { Ok(s.into()) } else { Err("an archive is called NAME.tar.zst".into()) }
}

fn version(s: &str) -> Result<(u32, u32), String> {
    let parts = s.split_once('.').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let ((a, b), (c, d)) = zmlc_import::WRITTEN_VERSIONS;
    parts.ok_or_else(|| format!("a version is MAJOR.MINOR, from {a}.{b} to {c}.{d}"))
}
