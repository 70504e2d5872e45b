//! Runs graphs: many in one artifact, an entry each, compiled by the `zmlc` binary and run here; the interpreter says what is
//! right.

use crate::graph::{Graph, Num};
use anyhow::{Context, Result, bail};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use zml_format::DType;
use zml_runtime::{Artifact, Device, DeviceRequest, Model, Session, WeightPlaces};
use zmlc_import::{Source, interp, prepare, read, verify};

/// How a graph is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Fused,
    Unfused,
}
impl Form {
    pub fn name(self) -> &'static str {
        match self {
            Form::Fused => "fused",
            Form::Unfused => "unfused",
        }
    }
}

pub struct Checker {
    pub zmlc: PathBuf,
    pub device: DeviceRequest,
    /// What to build for, if not the device's usual profiles.
    pub target: Option<String>,
}

/// The results of each graph, or what stopped it.
type Outcome = Result<Vec<Vec<u8>>, String>;

impl Checker {
    /// What is wrong with each graph, if anything is.
    pub fn check(&self, graphs: &[&Graph], form: Form) -> Result<Vec<Option<String>>> {
        let wanted: Vec<Outcome> = graphs.iter().map(|g| interpret(g)).collect();
        let found = self.run(graphs, form)?;
        let one = |((g, want), found): ((&&Graph, Outcome), Outcome)| match (want, found) {
            (Err(e), _) => Some(format!("the interpreter: {e}")),
            (_, Err(e)) => Some(e),
            (Ok(want), Ok(found)) => {
                let results = g.results.iter().zip(want.iter().zip(&found)).enumerate();
                results.into_iter().find_map(|(i, (v, (want, found)))| {
                    let n = &g.nodes[*v];
                    difference(n.ty.dtype, n.num, found, want).map(|d| format!("result {i}: {d}"))
                })
            }
        };
        Ok(graphs.iter().zip(wanted).zip(found).map(one).collect())
    }

    /// All in one artifact; if that cannot be built or run, each alone.
    fn run(&self, graphs: &[&Graph], form: Form) -> Result<Vec<Outcome>> {
        let together = self.together(graphs, form);
        match together {
            Ok(found) => Ok(found.into_iter().map(Ok).collect()),
            Err(_) if graphs.len() > 1 => {
                let half = graphs.len() / 2;
                let mut found = self.run(&graphs[..half], form)?;
                found.extend(self.run(&graphs[half..], form)?);
                Ok(found)
            }
            Err(e) => Ok(vec![Err(format!("{e:#}"))]),
        }
    }
    fn together(&self, graphs: &[&Graph], form: Form) -> Result<Vec<Vec<Vec<u8>>>> {
        let folder = tempfile::tempdir()?;
        let artifact = Artifact::open(&self.build(graphs, form, folder.path())?)?;
        let device = Device::open(self.device, &artifact)?;
        let model = Model::load(&artifact, &device, &WeightPlaces::only([]))?;
        let mut session = Session::new(&model)?;
        let mut all = vec![];
        for (i, g) in graphs.iter().enumerate() {
            let entry = format!("g{i}");
            for (k, (_, bytes)) in g.inputs().enumerate() {
                session.write(&entry, k, bytes)?;
            }
            session.call(&entry)?;
            let read = |r: usize| Ok(session.read(&entry, r)?.to_vec());
            all.push((0..g.results.len()).map(read).collect::<zml_runtime::Result<_>>()?);
        }
        Ok(all)
    }
    /// The artifact of graphs, whose entries are `g0`, `g1`, ...
    fn build(&self, graphs: &[&Graph], form: Form, folder: &Path) -> Result<PathBuf> {
        let mut toml = "[model]\nname = \"random\"\n".to_string();
        for (i, g) in graphs.iter().enumerate() {
            fs::write(folder.join(format!("{i}.mlir")), g.text())?;
            toml += &format!("\n[[entry]]\nname = \"g{i}\"\nprogram = \"{i}.mlir\"\n");
        }
        let model = folder.join("model.toml");
        fs::write(&model, toml)?;
        let target = match (&self.target, self.device) {
            (Some(target), _) => target,
            (None, DeviceRequest::Named(b, _)) => b.name(),
            (None, DeviceRequest::Auto) => "vulkan",
        };
        let mut command = Command::new(&self.zmlc);
        command.arg("build").arg(&model).args(["--target", target, "-o"]).arg(folder).stdin(Stdio::null());
        if form == Form::Unfused {
            command.arg("--unfused");
        }
        let out = command.output().with_context(|| format!("cannot start {}", self.zmlc.display()))?;
        if !out.status.success() {
            let said = String::from_utf8_lossy(&out.stderr);
            let line = said.lines().find(|l| l.contains("error")).unwrap_or("it says nothing");
            bail!("zmlc build: {}: {}", out.status, line.trim());
        }
        Ok(folder.join("random.zml"))
    }
}

pub fn interpret(g: &Graph) -> Outcome {
    let source = Source::new("random.mlir", g.text().into_bytes());
    let program = read(&source).map_err(|d| d.to_string())?;
    let found = verify(&program);
    if let Some(d) = found.first() {
        return Err(d.message.clone());
    }
    let main = program.main().ok_or("there is no function")?.name.clone();
    let program = prepare(program, &main, None).map_err(|d| format!("{d:?}"))?;
    let arguments = g.inputs().map(|(v, bytes)| {
        let ty = &g.nodes[v].ty;
        let shape: Vec<u64> = ty.shape.iter().map(|d| *d as u64).collect();
        interp::Tensor::new(ty.dtype, &shape, bytes.to_vec())
    });
    let arguments = arguments.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    let results = interp::eval(&program, &main, arguments).map_err(|e| e.to_string())?;
    Ok(results.into_iter().map(|t| t.bytes).collect())
}

/// The first element that differs by more than two right implementations may.
fn difference(d: DType, n: Num, found: &[u8], want: &[u8]) -> Option<String> {
    let size = d.bytes();
    // Far more than what the errors of the ops can add up to would hide a wrong one.
    let allowed = 4.0 * n.error;
    for (i, (f, w)) in found.chunks(size).zip(want.chunks(size)).enumerate() {
        if !d.is_float() {
            if f != w {
                return Some(format!("[{i}] is {f:?} instead of {w:?}"));
            }
            continue;
        }
        let (x, y) = (number(d, f), number(d, w));
        if !(x == y || (x - y).abs() <= allowed || x.is_nan() && y.is_nan()) {
            return Some(format!("[{i}] is {x} instead of {y}, which may differ by {allowed:.2e}"));
        }
    }
    (found.len() != want.len()).then(|| format!("{} bytes instead of {}", found.len(), want.len()))
}
fn number(d: DType, b: &[u8]) -> f64 {
    let b = |n: usize| b.get(n).copied().unwrap_or_default();
    match d {
        DType::F64 => f64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(b)),
        DType::F32 => f32::from_le_bytes([0, 1, 2, 3].map(b)).into(),
        DType::F16 => half::f16::from_le_bytes([0, 1].map(b)).into(),
        _ => half::bf16::from_le_bytes([0, 1].map(b)).into(),
    }
}
