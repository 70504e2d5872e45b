//! safetensors files, read and written whole: a header of JSON behind its length, then raw little-endian bytes.

use anyhow::{Context, Result, bail, ensure};
use std::{collections::BTreeMap, path::Path};

/// Element type as safetensors calls it, shape, bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    pub dtype: String,
    pub shape: Vec<u64>,
    pub bytes: Vec<u8>,
}

pub fn read(path: &Path) -> Result<BTreeMap<String, Tensor>> {
    let file = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&file).with_context(|| format!("{} is not a safetensors file", path.display()))
}

fn parse(file: &[u8]) -> Result<BTreeMap<String, Tensor>> {
    let Some((length, rest)) = file.split_first_chunk::<8>() else { bail!("shorter than 8 bytes") };
    let length = usize::try_from(u64::from_le_bytes(*length))?;
    let (header, body) = rest.split_at_checked(length).context("the header is longer than the file")?;
    let header: BTreeMap<String, serde_json::Value> = serde_json::from_slice(header)?;
    let mut tensors = BTreeMap::new();
    for (key, t) in header.iter().filter(|(k, _)| *k != "__metadata__") {
        let [from, to] = [0, 1].map(|i| t["data_offsets"][i].as_u64().and_then(|x| usize::try_from(x).ok()));
        let bytes = from.zip(to).and_then(|(from, to)| body.get(from..to)).context("an offset out of the file")?;
        let dtype = t["dtype"].as_str().context("a tensor without dtype")?.to_string();
        let shape = serde_json::from_value(t["shape"].clone())?;
        tensors.insert(key.clone(), Tensor { dtype, shape, bytes: bytes.to_vec() });
    }
    Ok(tensors)
}

/// Writes one tensor under `key`.
pub fn write(path: &Path, key: &str, t: &Tensor) -> Result<()> {
    write_all(path, &BTreeMap::from([(key.to_string(), t.clone())]))
}

pub fn write_all(path: &Path, tensors: &BTreeMap<String, Tensor>) -> Result<()> {
    let mut header = serde_json::Map::new();
    let mut end = 0;
    for (key, t) in tensors {
        let entry = serde_json::json!({
            "dtype": t.dtype, "shape": t.shape, "data_offsets": [end, end + t.bytes.len()],
        });
        header.insert(key.clone(), entry);
        end += t.bytes.len();
    }
    let mut file = serde_json::Value::Object(header).to_string().into_bytes();
    file.resize(file.len().next_multiple_of(8), b' ');
    file.splice(0..0, (file.len() as u64).to_le_bytes());
    for t in tensors.values() {
        file.extend_from_slice(&t.bytes);
    }
    std::fs::write(path, file).with_context(|| format!("cannot write {}", path.display()))
}

/// The only tensor of a file.
pub fn read_one(path: &Path) -> Result<Tensor> {
    let mut all = read(path)?;
    ensure!(all.len() == 1, "{} has {} tensors, not one", path.display(), all.len());
    Ok(all.pop_first().expect("one").1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_damage() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let t = Tensor { dtype: "F32".into(), shape: vec![2], bytes: vec![0, 0, 128, 63, 0, 0, 0, 64] };
        write(&path, "out0", &t).unwrap();
        assert_eq!(read_one(&path).unwrap(), t);
        let whole = std::fs::read(&path).unwrap();
        for cut in [0, 7, 8, 20, whole.len() - 1] {
            assert!(parse(&whole[..cut]).is_err(), "{cut}");
        }
        let huge = [&u64::MAX.to_le_bytes()[..], b"{}"].concat();
        assert!(parse(&huge).is_err());
    }
}
