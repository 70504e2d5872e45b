//! Writes the kernels of a built case to folders, by `zmlc bisect --dump`: code, launch, arguments, expected results.

use crate::{build::ARTIFACT, build::Built, child, report::Status};
use anyhow::{Context, Result};
use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};
use zml_format::Artifact;

pub struct Dumper {
    pub zmlc: PathBuf,
    pub folder: PathBuf,
    pub limit: Duration,
}

impl Dumper {
    /// For every profile of the artifact in `dir`, which still has its model.toml.
    pub fn dump(&self, name: &str, dir: &Path, built: &Built) -> Result<(Status, String)> {
        let artifact = Artifact::open(&dir.join(ARTIFACT)).context("the artifact")?;
        let mut kernels = 0;
        for p in &artifact.manifest.profiles {
            let into = self.folder.join(name).join(&p.name);
            let mut command = Command::new(&self.zmlc);
            command.arg("bisect").arg(dir.join(ARTIFACT)).arg("--model").arg(dir.join("model.toml"));
            command.args(["--target", &format!("{}:{}", p.target, p.name)]).arg("--dump").arg(&into);
            for (position, argument) in built.inputs.iter().enumerate() {
                let file = dir.join(format!("{argument}.safetensors"));
                command.arg("--input").arg(format!("{position}={}", file.display()));
            }
            if let Some(detail) = child::run(&mut command, self.limit)?.failure() {
                return Ok((Status::Failed, format!("dump: {detail}")));
            }
            kernels += into.read_dir().map_or(0, Iterator::count);
        }
        Ok((Status::Passed, format!("{kernels} kernels")))
    }
}
