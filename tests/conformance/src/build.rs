//! From a case to a folder that a machine with a device runs without a compiler: artifact, inputs, expected outputs,
//! `meta.json`, and `build.json` with how the build ended.

use crate::{
    case::{self, Meta},
    child::{self, Ended},
    report::Status,
    tensors,
};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

/// Codes by which zmlc says that the program is right and that this compiler or target does not do it.
const REFUSED: [&str; 2] = ["error[E0602]", "error[E08"];

pub struct Builder {
    pub zmlc: PathBuf,
    /// `--target` of `zmlc build`; its own default if absent.
    pub target: Option<String>,
    /// `program.mlir`, `program_loc.mlir` or `program.mlirbc`
    pub program: String,
    /// Folders of weights files that are not in the case's own.
    pub weights: Vec<PathBuf>,
    /// Arguments with a weights file become weights of the model and not inputs.
    pub model_weights: bool,
    /// Hold the kernels against the manifest.
    pub inspect: bool,
    /// model.toml stays beside the artifact.
    pub keep_model: bool,
    pub limit: Duration,
}

/// `build.json`; `status` is `Passed` if there is something to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Built {
    pub status: Status,
    pub detail: String,
    /// Inputs of the artifact: indexes into `meta.args`.
    pub inputs: Vec<usize>,
    /// That the compiler took.
    pub seconds: f64,
}
impl Built {
    fn no(status: Status, detail: impl Into<String>) -> Self {
        Built { status, detail: detail.into(), inputs: vec![], seconds: 0.0 }
    }
}

pub const ARTIFACT: &str = "case.zml";

impl Builder {
    /// Fills `out`, which exists and is empty.
    pub fn build(&self, dir: &Path, out: &Path) -> Result<Built> {
        let built = self.attempt(dir, out).unwrap_or_else(|e| Built::no(Status::Failed, format!("{e:#}")));
        let path = out.join("build.json");
        fs::write(&path, serde_json::to_vec(&built)?).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(built)
    }

    fn attempt(&self, dir: &Path, out: &Path) -> Result<Built> {
        let copy = |file: &str| fs::copy(dir.join(file), out.join(file)).with_context(|| format!("cannot copy {file}"));
        let meta = case::read_meta(dir)?;
        copy("meta.json")?;
        if let Some(why) = meta.broken {
            return Ok(Built::no(Status::Failed, why));
        }
        if let Some(reason) = case::skip_reason(dir, &meta, &self.program) {
            return Ok(Built::no(Status::Skipped, reason));
        }
        let values = match case::inputs(dir, &meta, &self.weights)? {
            Ok(values) => values,
            Err(file) => {
                let how = meta.weights_script.map(|s| format!(", made by {s}")).unwrap_or_default();
                return Ok(Built::no(Status::Skipped, format!("needs {file}{how}: give its folder with --weights")));
            }
        };
        let model = out.join("model.toml");
        fs::write(&model, self.model_toml(dir, &meta)?)?;
        let mut command = Command::new(&self.zmlc);
        command.arg("build").arg(&model).arg("-o").arg(out);
        if let Some(t) = &self.target {
            command.args(["--target", t]);
        }
        let start = Instant::now();
        let outcome = child::run(&mut command, self.limit)?;
        let seconds = start.elapsed().as_secs_f64();
        if let Some(detail) = outcome.failure() {
            let refused = matches!(outcome.ended, Ended::Code(1)) && REFUSED.iter().any(|c| outcome.stderr.contains(c));
            let status = if refused { Status::Refused } else { Status::Failed };
            return Ok(Built { seconds, ..Built::no(status, format!("build: {detail}")) });
        }
        if !self.keep_model {
            fs::remove_file(&model)?;
        }
        anyhow::ensure!(out.join(ARTIFACT).is_file(), "zmlc build ended well and wrote no {ARTIFACT}");
        if self.inspect {
            let outcome = child::run(Command::new(&self.zmlc).arg("verify").arg(out.join(ARTIFACT)), self.limit)?;
            if let Some(detail) = outcome.failure() {
                return Ok(Built { seconds, ..Built::no(Status::Failed, format!("verify: {detail}")) });
            }
        }
        let is_weight = |i: usize| self.model_weights && meta.args[i].weights_file.is_some();
        let inputs: Vec<usize> = (0..values.len()).filter(|i| !is_weight(*i)).collect();
        for i in &inputs {
            tensors::write(&out.join(format!("{i}.safetensors")), &meta.args[*i].key, &values[*i])?;
        }
        copy("expected.safetensors")?;
        Ok(Built { status: Status::Passed, detail: String::new(), inputs, seconds })
    }

    fn model_toml(&self, dir: &Path, meta: &Meta) -> Result<String> {
        // A JSON string is a TOML basic string.
        let quoted = |p: &Path| anyhow::Ok(serde_json::to_string(p.to_str().context("a path that is not UTF-8")?)?);
        let program = quoted(&dir.join(&self.program).canonicalize()?)?;
        let mut text = format!("[model]\nname = \"case\"\n\n[[entry]]\nname = \"main\"\nprogram = {program}\n");
        if !self.model_weights {
            return Ok(text);
        }
        let keys: Vec<_> = meta.args.iter().map(|a| format!("{:?}", a.key)).collect();
        text.push_str(&format!("arguments = [{}]\n", keys.join(", ")));
        let mut files: Vec<&String> = meta.args.iter().filter_map(|a| a.weights_file.as_ref()).collect();
        files.sort();
        files.dedup();
        if files.is_empty() {
            return Ok(text);
        }
        let mut paths = Vec::new();
        for f in files {
            let found =
                std::iter::once(dir.join(f)).chain(self.weights.iter().map(|w| w.join(f))).find(|p| p.is_file());
            paths.push(quoted(&found.context("a weights file that was there a moment ago")?.canonicalize()?)?);
        }
        text.push_str(&format!("\n[weights]\nfiles = [{}]\nembed = \"always\"\n\n[weights.map]\n", paths.join(", ")));
        for a in &meta.args {
            if let Some(key) = &a.weights_key {
                text.push_str(&format!("{} = {}\n", a.key, serde_json::to_string(key)?));
            }
        }
        Ok(text)
    }
}
