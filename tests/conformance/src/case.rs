//! One folder of the corpus form: a program in up to three files, `inputs.safetensors`, `expected.safetensors` and
//! `meta.json`, which says how arguments are filled and outputs are compared.

use crate::{
    compare::Rule,
    tensors::{self, Tensor},
};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use zml_format::DType;

#[derive(Clone, Debug, Deserialize)]
pub struct Meta {
    pub args: Vec<Argument>,
    pub outputs: Vec<Output>,
    #[serde(default)]
    pub tags: Vec<String>,
    /// Why the outputs may differ from the expected ones.
    pub implementation_defined: Option<String>,
    /// Why there is nothing to run.
    pub skip: Option<String>,
    /// Why there is nothing to run, and should be.
    pub broken: Option<String>,
    /// The op that the case is a test of, and its element type.
    pub op: Option<String>,
    pub dtype: Option<String>,
    /// What makes the weights that are not in the folder.
    pub weights_script: Option<String>,
}
#[derive(Clone, Debug, Deserialize)]
pub struct Argument {
    /// In `inputs.safetensors`.
    pub key: String,
    pub dtype: DType,
    pub shape: Vec<u64>,
    pub weights_file: Option<String>,
    /// In `weights_file`.
    pub weights_key: Option<String>,
    /// One value everywhere.
    pub fill: Option<f64>,
}
#[derive(Clone, Debug, Deserialize)]
pub struct Output {
    /// In `expected.safetensors`.
    pub key: String,
    pub dtype: DType,
    pub shape: Vec<u64>,
    #[serde(default)]
    pub rtol: f64,
    #[serde(default)]
    pub atol: f64,
    /// Instead of `rtol` and `atol`.
    pub check: Option<Check>,
    /// Only its size is compared.
    #[serde(default)]
    pub unchecked: bool,
}

impl Output {
    /// How its elements are compared.
    pub fn rule(&self) -> Rule {
        match self.check {
            None => Rule::Tolerance { rtol: self.rtol, atol: self.atol },
            Some(Check::Eq) => Rule::Tolerance { rtol: 0.0, atol: 0.0 },
            Some(Check::AlmostEq { tolerance }) => Rule::AlmostEq(tolerance),
            Some(Check::Close { ulp, least }) => Rule::Ulp { least, most: ulp },
        }
    }
}
/// The comparisons of StableHLO's check dialect.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Check {
    /// Equal as numbers, NaN equal to NaN.
    Eq,
    AlmostEq {
        tolerance: f64,
    },
    /// At most this many steps of the type apart, and at least so many.
    Close {
        ulp: u64,
        #[serde(default)]
        least: u64,
    },
}

pub fn read_meta(dir: &Path) -> Result<Meta> {
    let path = dir.join("meta.json");
    let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("cannot read {}", path.display()))
}

/// Folders with a `meta.json` in `root`, or `root` itself, sorted by name.
pub fn find(root: &Path) -> Result<Vec<(String, PathBuf)>> {
    let name = |p: &Path| p.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if root.join("meta.json").is_file() {
        let full = root.canonicalize()?;
        return Ok(vec![(name(&full), full)]);
    }
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(root).with_context(|| format!("cannot read {}", root.display()))? {
        let path = entry?.path();
        if path.join("meta.json").is_file() {
            cases.push((name(&path), path));
        }
    }
    ensure!(!cases.is_empty(), "{} has no folder with a meta.json", root.display());
    cases.sort();
    Ok(cases)
}

/// Why a case cannot be run, if it cannot.
pub fn skip_reason(dir: &Path, meta: &Meta, program: &str) -> Option<String> {
    if let Some(reason) = &meta.skip {
        return Some(reason.clone());
    }
    if meta.tags.iter().any(|t| t == "mlir only") || !dir.join("expected.safetensors").is_file() {
        return Some("has no expected outputs".into());
    }
    if !dir.join(program).is_file() {
        return Some(format!("has no {program}"));
    }
    None
}

/// The arguments' values, in order. `None` with the file's name if a weights file is in none of the folders.
pub fn inputs(dir: &Path, meta: &Meta, weights: &[PathBuf]) -> Result<std::result::Result<Vec<Tensor>, String>> {
    let mut given = tensors::read(&dir.join("inputs.safetensors"))?;
    let mut files: BTreeMap<String, BTreeMap<String, Tensor>> = BTreeMap::new();
    let mut values = Vec::new();
    for a in &meta.args {
        let tensor = if let Some(t) = given.remove(&a.key) {
            t
        } else if let (Some(file), Some(key)) = (&a.weights_file, &a.weights_key) {
            if !files.contains_key(file) {
                let Some(path) =
                    std::iter::once(dir.join(file)).chain(weights.iter().map(|w| w.join(file))).find(|p| p.is_file())
                else {
                    return Ok(Err(file.clone()));
                };
                files.insert(file.clone(), tensors::read(&path)?);
            }
            files[file].get(key).with_context(|| format!("{file} has no tensor `{key}`"))?.clone()
        } else if let Some(fill) = a.fill {
            filled(a, fill)?
        } else {
            bail!("no value for argument `{}`", a.key);
        };
        check_size(&a.key, a.dtype, &a.shape, &tensor)?;
        values.push(tensor);
    }
    Ok(Ok(values))
}

fn filled(a: &Argument, value: f64) -> Result<Tensor> {
    let one = match a.dtype {
        DType::F32 => (value as f32).to_le_bytes().to_vec(),
        DType::F64 => value.to_le_bytes().to_vec(),
        DType::F16 => half::f16::from_f64(value).to_le_bytes().to_vec(),
        DType::BF16 => half::bf16::from_f64(value).to_le_bytes().to_vec(),
        d if d.is_int() || d == DType::I1 => (value as i64).to_le_bytes()[..d.bytes()].to_vec(),
        d => bail!("cannot fill {d}"),
    };
    let n = usize::try_from(a.shape.iter().product::<u64>())?;
    Ok(Tensor { dtype: storage(a.dtype).into(), shape: a.shape.clone(), bytes: one.repeat(n) })
}

/// Element type in a safetensors file: one value is never less than a byte, and complex numbers are pairs.
pub fn storage(d: DType) -> &'static str {
    match d {
        DType::I1 => "BOOL",
        DType::I2 | DType::I4 | DType::I8 => "I8",
        DType::I16 => "I16",
        DType::I32 => "I32",
        DType::I64 => "I64",
        DType::U16 => "U16",
        DType::U32 => "U32",
        DType::U64 => "U64",
        DType::F16 => "F16",
        DType::BF16 => "BF16",
        DType::F32 | DType::C64 => "F32",
        DType::F64 | DType::C128 => "F64",
        DType::F8E4M3FN => "F8_E4M3",
        DType::F8E5M2 => "F8_E5M2",
        DType::F8E8M0FNU => "F8_E8M0",
        _ => "U8",
    }
}

/// Refuses a tensor that is not of the size that element type and shape give.
pub fn check_size(key: &str, dtype: DType, shape: &[u64], t: &Tensor) -> Result<()> {
    let bytes = shape.iter().product::<u64>() * dtype.bytes() as u64;
    ensure!(t.bytes.len() as u64 == bytes, "`{key}` has {} bytes, not {bytes}", t.bytes.len());
    let mut as_pairs = shape.to_vec();
    if dtype.is_complex() {
        as_pairs.push(2);
    }
    ensure!(t.shape == shape || t.shape == as_pairs, "`{key}` has shape {:?}, not {shape:?}", t.shape);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_by_element_type() {
        let mut a = Argument {
            key: "arg0".into(),
            dtype: DType::BF16,
            shape: vec![2],
            weights_file: None,
            weights_key: None,
            fill: Some(-2.0),
        };
        // -2.0 in bf16 is 0xC000.
        assert_eq!(filled(&a, -2.0).unwrap().bytes, [0x00, 0xc0, 0x00, 0xc0]);
        a.dtype = DType::I16;
        assert_eq!(filled(&a, -2.0).unwrap().bytes, [0xfe, 0xff, 0xfe, 0xff]);
        a.dtype = DType::F8E4M3FN;
        assert!(filled(&a, 1.0).is_err());
    }

    #[test]
    fn sizes_and_shapes() {
        let t = Tensor { dtype: "F32".into(), shape: vec![3, 2], bytes: vec![0; 24] };
        assert!(check_size("x", DType::C64, &[3], &t).is_ok());
        assert!(check_size("x", DType::F32, &[3, 2], &t).is_ok());
        assert!(check_size("x", DType::F32, &[2, 3], &t).is_err());
        assert!(check_size("x", DType::F64, &[3, 2], &t).is_err());
    }
}
