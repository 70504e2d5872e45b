//! The program of an artifact compiled again: the IR of each stage that can be evaluated, and the kernels by name. It is
//! held against the artifact, so that what is said of one is true of the other.

use super::Sources;
use crate::{
    artifact::{self, Lowered},
    bind::{self, Bound},
    codes,
    failure::Failure,
    front::{self, Loaded},
    model::Model,
    pipeline::{self, Options},
    targets::Selected,
    weights::WeightFile,
};
use melior::ir::{
    Module,
    operation::{OperationLike, OperationPrintingFlags},
};
use std::path::{Path, PathBuf};
use zml_format::{Artifact, Buffer, BufferKind, Kernel, Profile, Program};
use zmlc_import::{diag::Diagnostic, tree::Span};
use zmlc_passes::{context, kernels, pass::PassError};

/// Name and text, with locations.
pub struct Stage {
    pub name: &'static str,
    pub text: String,
}

pub struct Recipe {
    pub loaded: Vec<Loaded>,
    /// One for each of `loaded`.
    pub sources: Vec<Sources>,
    pub bound: Bound,
    /// From `legalize` to `fuse`.
    pub stages: Vec<Stage>,
    /// Names of the kernels in the artifact's order: those of their dispatch functions.
    pub kernels: Vec<String>,
    lowered: Lowered,
    /// Folders of the weights files.
    weights: Vec<PathBuf>,
}

impl Recipe {
    pub fn new(model: &Model, files: &[WeightFile], selected: &Selected) -> Result<Self, Failure> {
        let (mut loaded, _) = front::load(model)?;
        let sources = loaded.iter_mut().map(|l| Sources::number(&mut l.program)).collect();
        let bound = bind::bind(model, &loaded, files)?;
        let context = context::context();
        let mut module = front::legalize(&context, model, &loaded, &bound)?;
        let mut stages = vec![Stage { name: pipeline::LEGALIZE, text: print(&module)? }];
        let mut failed = None;
        let mut observe = |name: &'static str, m: &Module| match print(m) {
            Ok(text) => stages.push(Stage { name, text }),
            Err(e) => failed = Some(e),
        };
        pipeline::simplify(&context, &mut module, Options::default(), Some(&mut observe))?;
        let text = print(&module)?;
        let mut observe = |name: &'static str, m: &Module| {
            if name == "fuse" {
                match print(m) {
                    Ok(text) => stages.push(Stage { name, text }),
                    Err(e) => failed = Some(e),
                }
            }
        };
        let collect = |m: &Module, b: Vec<_>| {
            let names = kernels::read(m).unwrap_or_default().into_iter().map(|k| k.name).collect::<Vec<_>>();
            Ok((names, artifact::collect(m, &b, selected)?))
        };
        let ((kernels, lowered), _) =
            pipeline::lower(&text, selected, Options::default(), Some(&mut observe), collect)?;
        match failed {
            Some(e) => Err(e),
            None => {
                let folder = |f: &WeightFile| f.path.parent().map_or(PathBuf::from("."), Path::to_path_buf);
                let weights = files.iter().map(folder).collect();
                Ok(Recipe { loaded, sources, bound, stages, kernels, lowered, weights })
            }
        }
    }
    /// The last stage that the evaluator runs.
    pub fn fused(&self) -> &Stage {
        self.stages.last().expect("legalize is one")
    }
    /// Whether the code of kernel `i` is what this zmlc makes of the model.
    pub fn made(&self, artifact: &Artifact, profile: usize, i: usize) -> bool {
        artifact.blob(artifact.manifest.profiles[profile].kernels[i].blob) == self.lowered.code(i)
    }
    /// Where the model's weights lie.
    pub fn weight_folders(&self) -> Vec<PathBuf> {
        self.weights.clone()
    }
    /// Refuses an artifact that this zmlc would not have made of this model. The code of its kernels may differ: that may be
    /// what is wrong.
    pub fn check(&self, artifact: &Artifact, profile: usize, path: &str) -> Result<(), Failure> {
        let kernels = |p: &Profile| p.kernels.iter().map(|k| Kernel { blob: 0, ..k.clone() }).collect::<Vec<_>>();
        let programs = |p: &Profile| p.programs.iter().map(without_blobs).collect::<Vec<_>>();
        let (theirs, ours) = (&artifact.manifest.profiles[profile], &self.lowered.profile);
        let same_entries = artifact.manifest.entries == self.lowered.entries;
        if same_entries && kernels(theirs) == kernels(ours) && programs(theirs) == programs(ours) {
            return Ok(());
        }
        let d =
            Diagnostic::error(codes::ARTIFACT, Span::NONE, format!("{path} is not what this zmlc makes of the model"));
        Err(d.hint("build it again with `zmlc build`, or name its own model.toml with --model").into())
    }
}

/// Constants are blobs, which are numbered for each artifact.
fn without_blobs(p: &Program) -> Program {
    let plain = |b: &Buffer| match b.kind {
        BufferKind::Constant(_) => Buffer { kind: BufferKind::Constant(0), ..b.clone() },
        _ => b.clone(),
    };
    Program { buffers: p.buffers.iter().map(plain).collect(), ..p.clone() }
}

fn print(module: &Module) -> Result<String, Failure> {
    let flags = OperationPrintingFlags::new().enable_debug_info(true, false);
    let text = module.as_operation().to_string_with_flags(flags);
    text.map_err(|e| PassError::Bug(format!("the IR cannot be printed: {e}")).into())
}
