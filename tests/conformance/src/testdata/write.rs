//! A converted test as a folder of the corpus form.

use super::parts::Case;
use crate::tensors::{self, Tensor};
use anyhow::Result;
use serde_json::json;
use std::{collections::BTreeMap, fs, path::Path};
use zmlc_import::interp;

pub fn case(dir: &Path, case: &Case) -> Result<()> {
    let empty = json!({ "args": [], "outputs": [] });
    let (program, meta, inputs, expected) = match case {
        Case::Unread(text) => (text.as_str(), empty, vec![], vec![]),
        Case::Skip(why) => ("", json!({ "args": [], "outputs": [], "skip": why }), vec![], vec![]),
        Case::Runs(c) => {
            let describe =
                |key: String, t: &interp::Tensor| json!({ "key": key, "dtype": t.dtype.name(), "shape": t.shape });
            let args: Vec<_> = c.inputs.iter().enumerate().map(|(i, t)| describe(format!("arg{i}"), t)).collect();
            let mut outputs = Vec::new();
            for (i, (t, check)) in c.expected.iter().enumerate() {
                let mut o = describe(format!("out{i}"), t);
                o["check"] = check.clone();
                outputs.push(o);
            }
            let values: Vec<&interp::Tensor> = c.expected.iter().map(|e| &e.0).collect();
            let meta = json!({ "args": args, "outputs": outputs, "op": c.op, "dtype": c.dtype });
            (c.program.as_str(), meta, c.inputs.iter().collect(), values)
        }
    };
    fs::write(dir.join("program.mlir"), program)?;
    fs::write(dir.join("meta.json"), serde_json::to_vec(&meta)?)?;
    for (file, prefix, values) in [("inputs.safetensors", "arg", inputs), ("expected.safetensors", "out", expected)] {
        let all: BTreeMap<String, Tensor> =
            values.into_iter().enumerate().map(|(i, t)| (format!("{prefix}{i}"), stored(t))).collect();
        tensors::write_all(&dir.join(file), &all)?;
    }
    Ok(())
}

/// A case of which nothing can be had, which is a failure.
pub fn unreadable(dir: &Path, why: &str) -> Result<()> {
    let meta = json!({ "args": [], "outputs": [], "broken": why });
    Ok(fs::write(dir.join("meta.json"), serde_json::to_vec(&meta)?)?)
}

/// As the corpus stores it: complex numbers as pairs.
fn stored(t: &interp::Tensor) -> Tensor {
    let mut shape = t.shape.clone();
    if t.dtype.is_complex() {
        shape.push(2);
    }
    Tensor { dtype: crate::case::storage(t.dtype).into(), shape, bytes: t.bytes.clone() }
}
