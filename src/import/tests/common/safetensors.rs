//! Just enough of safetensors to read the corpus: names to bytes.

use std::{collections::BTreeMap, path::Path};

/// Shape and raw bytes of each tensor.
pub fn read(path: &Path) -> BTreeMap<String, (Vec<u64>, Vec<u8>)> {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let n = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + n]).expect("a JSON header");
    let data = &bytes[8 + n..];
    let entries = header.as_object().expect("an object").iter().filter(|(k, _)| *k != "__metadata__");
    entries
        .map(|(k, v)| {
            let at = |i: usize| v["data_offsets"][i].as_u64().expect("an offset") as usize;
            let shape = v["shape"].as_array().expect("a shape").iter().map(|d| d.as_u64().expect("a size")).collect();
            (k.clone(), (shape, data[at(0)..at(1)].to_vec()))
        })
        .collect()
}
