//! Dispatches as folders, for an emulator or a test bench: the kernel's code, its launch, its arguments before and after.

use super::{Tolerance, fused::Pair};
use crate::{artifact, failure::Failure};
use serde_json::json;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use zml_format::{Access, Artifact, DType, Profile};
use zml_runtime::tensor::{HostTensor, npy};
use zmlc_passes::{
    evaluate::{Called, Kind, Tensor},
    ir,
};

pub struct Dump<'a> {
    folder: PathBuf,
    artifact: &'a Artifact,
    profile: &'a Profile,
    /// Kernels that are there with this grid.
    seen: BTreeSet<(usize, [u32; 3])>,
}

impl<'a> Dump<'a> {
    pub fn new(folder: PathBuf, artifact: &'a Artifact, profile: &'a Profile) -> Self {
        Dump { folder, artifact, profile, seen: BTreeSet::new() }
    }
    pub fn count(&self) -> usize {
        self.seen.len()
    }
    /// Writes the first dispatch of each kernel and grid.
    pub fn write(&mut self, pair: &Pair, called: &Called) -> Result<(), Failure> {
        let (d, inputs, results) = (&pair.dispatch, called.inputs, called.results);
        if !self.seen.insert((d.kernel, d.grid)) {
            return Ok(());
        }
        let name = ir::str_attr(called.function, "sym_name").unwrap_or_default();
        let hero = ir::str_attr(called.function, "zml.hero").unwrap_or_default();
        let kernel = &self.profile.kernels[d.kernel];
        let folder = self.folder.join(format!("{:03}-{name}", self.seen.len() - 1));
        let extension = match self.profile.target.as_str() {
            "rocm" => "hsaco",
            "cuda" => "ptx",
            _ => "spv",
        };
        let code = format!("kernel.{extension}");
        artifact::write_file(&folder.join(&code), self.artifact.blob(kernel.blob))?;
        let read = (0..inputs.len()).filter(|a| !pair.alias.contains(&Some(*a))).map(|a| (&*inputs[a], None));
        let written =
            results.iter().zip(&pair.alias).map(|(r, a)| (a.map_or(&**r, |a| &*inputs[a]), Some((&**r, a.is_some()))));
        let mut list = vec![];
        for ((i, (before, after)), access) in read.chain(written).enumerate().zip(&kernel.buffers) {
            let file = format!("arg{i}.npy");
            let unwritten = Tensor { words: vec![0; before.words.len()], ..before.clone() };
            let before = if matches!(after, Some((_, false))) { &unwritten } else { before };
            write(&folder.join(&file), before)?;
            let mut entry = json!({ "file": file, "access": access_name(*access), "dtype": dtype(before.kind).name() });
            if let Some((after, _)) = after {
                let (relative, absolute) = Tolerance::default().of(after);
                entry["relative"] = json!(relative);
                entry["absolute"] = json!(absolute);
                let file = format!("expected{i}.npy");
                write(&folder.join(&file), after)?;
                entry["expected"] = json!(file);
            }
            list.push(entry);
        }
        let text = json!({
            "kernel": kernel.symbol,
            "code": code,
            "target": format!("{}:{}", self.profile.target, self.profile.name),
            "label": kernel.label,
            "emitter": hero,
            "grid": d.grid,
            "block": kernel.block,
            "shared_bytes": kernel.shared_bytes,
            "args": list,
            "scalars": d.scalars,
        });
        let text = serde_json::to_string_pretty(&text).expect("a plain value") + "\n";
        artifact::write_file(&folder.join("kernel.json"), text.as_bytes())
    }
}

fn access_name(a: Access) -> &'static str {
    match a {
        Access::Read => "read",
        Access::Write => "write",
        Access::ReadWrite => "read_write",
    }
}
fn dtype(k: Kind) -> DType {
    match k {
        Kind::Int(1) => DType::I1,
        Kind::Int(8) => DType::I8,
        Kind::Int(16) => DType::I16,
        Kind::Int(32) => DType::I32,
        Kind::Int(_) => DType::I64,
        Kind::F16 => DType::F16,
        Kind::Bf16 => DType::BF16,
        Kind::F32 => DType::F32,
        Kind::F64 => DType::F64,
    }
}
fn write(path: &Path, t: &Tensor) -> Result<(), Failure> {
    let shape = t.shape.iter().map(|d| *d as u64).collect();
    let host = HostTensor { dtype: dtype(t.kind), shape, bytes: t.to_bytes() };
    npy::write(path, &host).map_err(|e| Failure::input(crate::codes::FILE, e.to_string()))
}
