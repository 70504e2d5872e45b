//! Runs one built case with `zml-run` and compares its outputs.

use crate::{
    build::{ARTIFACT, Built},
    case, child,
    compare::compare,
    report::Status,
    tensors,
};
use anyhow::{Context, Result, ensure};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

pub struct Runner {
    pub zml_run: PathBuf,
    /// `--device` of `zml-run`.
    pub device: String,
    pub limit: Duration,
}

impl Runner {
    /// The end of a case that `Builder::build` left in `dir`, and why.
    pub fn run(&self, dir: &Path) -> (Status, String) {
        match self.attempt(dir) {
            Ok(end) => end,
            Err(e) => (Status::Failed, format!("{e:#}")),
        }
    }

    fn attempt(&self, dir: &Path) -> Result<(Status, String)> {
        let path = dir.join("build.json");
        let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let built: Built = serde_json::from_slice(&text).context("build.json")?;
        if built.status != Status::Passed {
            return Ok((built.status, built.detail));
        }
        let meta = case::read_meta(dir)?;
        let outputs = tempfile::tempdir()?;
        let file = |i: usize| outputs.path().join(format!("{i}.safetensors"));
        let mut command = Command::new(&self.zml_run);
        command.arg(dir.join(ARTIFACT)).args(["--device", &self.device]);
        for (position, argument) in built.inputs.iter().enumerate() {
            command.arg("--input").arg(format!("{position}={}", dir.join(format!("{argument}.safetensors")).display()));
        }
        for i in 0..meta.outputs.len() {
            command.arg("--output").arg(format!("{i}={}", file(i).display()));
        }
        if let Some(detail) = child::run(&mut command, self.limit)?.failure() {
            return Ok((Status::Failed, format!("run: {detail}")));
        }
        let expected = tensors::read(&dir.join("expected.safetensors"))?;
        let mut wrong = Vec::new();
        for (i, o) in meta.outputs.iter().enumerate() {
            let found = tensors::read_one(&file(i))?;
            case::check_size(&o.key, o.dtype, &o.shape, &found)?;
            let value = expected.get(&o.key).with_context(|| format!("no expected `{}`", o.key))?;
            ensure!(value.bytes.len() == found.bytes.len(), "`{}` is expected with another size", o.key);
            if !o.unchecked
                && let Err(e) = compare(o.dtype, &found.bytes, &value.bytes, o.rule())
            {
                wrong.push(format!("{} ({}): {e}", o.key, o.dtype));
            }
        }
        if wrong.is_empty() {
            return Ok((Status::Passed, String::new()));
        }
        let note = meta.implementation_defined.map(|n| format!(" (implementation-defined: {n})")).unwrap_or_default();
        Ok((Status::Failed, format!("{}{note}", wrong.join("; "))))
    }
}
