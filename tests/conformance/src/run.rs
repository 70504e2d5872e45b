//! Runs one built case with `zml-run` and compares its outputs.

use crate::{
    build::{ARTIFACT, Built},
    case, child,
    compare::compare,
    report::Status,
    serve::Pool,
    tensors::{self, Tensor},
};
use anyhow::{Context, Result, ensure};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

const LAYER: &str = "VK_LAYER_KHRONOS_validation";

/// Errors, warnings and hazards of synchronization, to a file.
fn validation(log: &Path) -> String {
    format!(
        "khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG\n\
         khronos_validation.report_flags = error,warn,perf\n\
         khronos_validation.log_filename = {}\n\
         khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT\n",
        log.display()
    )
}

pub struct Runner {
    pub zml_run: PathBuf,
    /// `--device` of `zml-run`.
    pub device: String,
    /// Runs of each case.
    pub repeat: u32,
    /// With the Vulkan validation layer.
    pub validate: bool,
    /// Processes that keep the device open, in place of one a run.
    pub pool: Option<Pool>,
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
        let mut first: Vec<Tensor> = vec![];
        for turn in 0..self.repeat {
            if let Some(detail) = self.once(dir, &built, meta.outputs.len(), &file)? {
                return Ok((Status::Failed, format!("run: {detail}")));
            }
            let found = (0..meta.outputs.len()).map(|i| tensors::read_one(&file(i))).collect::<Result<Vec<_>>>()?;
            if turn == 0 {
                first = found;
            } else if let Some(i) = (0..found.len()).find(|i| found[*i] != first[*i]) {
                let key = &meta.outputs[i].key;
                return Ok((Status::Failed, format!("run {} gives other bits of {key} than the first", turn + 1)));
            }
        }
        let expected = tensors::read(&dir.join("expected.safetensors"))?;
        let mut wrong = Vec::new();
        for (i, o) in meta.outputs.iter().enumerate() {
            let found = &first[i];
            case::check_size(&o.key, o.dtype, &o.shape, found)?;
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

    /// Calls the artifact once; what went wrong, if anything did.
    fn once(
        &self,
        dir: &Path,
        built: &Built,
        outputs: usize,
        file: &dyn Fn(usize) -> PathBuf,
    ) -> Result<Option<String>> {
        // What is judged is what the driver makes of the kernels now.
        let artifact = dir.join(ARTIFACT).display().to_string();
        let mut args = vec![artifact, "--device".into(), self.device.clone(), "--no-cache".into()];
        for (position, argument) in built.inputs.iter().enumerate() {
            let path = dir.join(format!("{argument}.safetensors"));
            args.extend(["--input".into(), format!("{position}={}", path.display())]);
        }
        for i in 0..outputs {
            args.extend(["--output".into(), format!("{i}={}", file(i).display())]);
        }
        if let Some(pool) = &self.pool {
            return Ok(pool.run(&self.device, &args, self.limit)?.failure());
        }
        let mut command = Command::new(&self.zml_run);
        command.args(args);
        if !self.validate {
            return Ok(child::run(&mut command, self.limit)?.failure());
        }
        // The layer's own settings file: its environment variables differ from release to release.
        let folder = tempfile::tempdir()?;
        let log = folder.path().join("log");
        fs::write(folder.path().join("vk_layer_settings.txt"), validation(&log))?;
        command.env("VK_INSTANCE_LAYERS", LAYER).env("VK_LAYER_SETTINGS_PATH", folder.path());
        if let Some(detail) = child::run(&mut command, self.limit)?.failure() {
            return Ok(Some(detail));
        }
        // Without the layer nothing would be said either: it writes the file when it starts.
        let said = fs::read_to_string(&log).with_context(|| format!("{LAYER} did not start: is it installed?"))?;
        Ok(said.lines().find(|l| l.contains("VUID") || l.contains("SYNC-")).map(|l| format!("validation: {l}")))
    }
}
