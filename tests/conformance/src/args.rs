//! The command line, and nothing else.

use clap::Parser;
use regex::Regex;
use std::path::PathBuf;

/// Build and run folders of programs with expected outputs.
#[derive(Parser)]
pub struct Args {
    /// A folder of cases, or one case: program.mlir, inputs.safetensors, expected.safetensors, meta.json.
    /// Or StableHLO's public test programs, which assert with the check dialect: a folder, a file, or a tar
    /// (.tar, .tar.gz, .tar.xz, .tar.zst)
    pub dir: Option<PathBuf>,
    /// Build DIR into OUT with everything that --run needs, and run nothing
    #[arg(long, value_name = "OUT", requires = "dir", conflicts_with = "run")]
    pub build_only: Option<PathBuf>,
    /// Run what --build-only left in OUT; needs no compiler
    #[arg(long, value_name = "OUT", conflicts_with = "dir")]
    pub run: Option<PathBuf>,
    /// auto, vulkan[:N], cuda[:N], rocm[:N]
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// What to build for, as `zmlc build` takes it
    #[arg(long)]
    pub target: Option<String>,
    /// Which of a case's programs to build
    #[arg(long, default_value = "program.mlir", value_parser = ["program.mlir", "program_loc.mlir", "program.mlirbc"])]
    pub program: String,
    /// Write {"cases": [...], "ops": [...], "counts": {...}}
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write each case to FILE as it ends; with a FILE of an interrupted run, continue that run
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// Only cases whose name this regular expression finds
    #[arg(long, value_name = "RE")]
    pub filter: Option<Regex>,
    /// Cases at a time [default: number of cores]
    #[arg(long)]
    pub jobs: Option<usize>,
    /// Folder of weights files that are not in the cases' own; may be given again
    #[arg(long, value_name = "DIR")]
    pub weights: Vec<PathBuf>,
    /// Arguments with a weights file become weights of the model instead of inputs
    #[arg(long)]
    pub model_weights: bool,
    /// Lines `NAME: why` of cases that are known to fail: they do not fail the run, and one that passes does
    #[arg(long, value_name = "FILE")]
    pub known: Option<PathBuf>,
    /// Seconds for each step of one case: reading, building, running
    #[arg(long, default_value_t = 120)]
    pub time_limit: u64,
    /// Run each case N times: the outputs have to be the same bits every time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// Run with the Vulkan validation layer, synchronization validation too: what it says fails the case
    #[arg(long)]
    pub validate: bool,
    /// Keep the device open from case to case, in as many processes as there are jobs: quick where a driver starts slowly
    #[arg(long, conflicts_with = "validate")]
    pub keep_device: bool,
    /// Hold each built kernel against the manifest, as `zmlc verify` does: descriptors, metadata, undefined symbols
    #[arg(long)]
    pub inspect: bool,
    /// Run nothing; write each kernel of --target with its arguments and expected results below DIR, for an emulator
    #[arg(long, value_name = "DIR", requires = "target", conflicts_with_all = ["run", "build_only", "model_weights"])]
    pub dump_kernels: Option<PathBuf>,
    /// [default: beside this program]
    #[arg(long, value_name = "PATH")]
    pub zmlc: Option<PathBuf>,
    /// [default: in OUT, or beside this program]
    #[arg(long, value_name = "PATH")]
    pub zml_run: Option<PathBuf>,
    /// Run `zml-run`'s command lines from stdin: what this program starts itself for
    #[arg(long, value_name = "DEVICE", hide = true)]
    pub serve: Option<String>,
    /// Turn the test programs of one file into folders of cases below OUT: what this program starts itself for
    #[arg(long, num_args = 3, value_names = ["FILE", "STEM", "OUT"], hide = true)]
    pub convert: Option<Vec<PathBuf>>,
}
impl Args {
    pub fn jobs(&self) -> usize {
        self.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).max(1)
    }
}
