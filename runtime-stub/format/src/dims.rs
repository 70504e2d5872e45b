//! Specialisations: entries of one name, built from one program with dynamic dimensions for several sizes of these.

use crate::{Entry, Manifest, Tensor};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A named dimension and its size: `batch=8`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dim {
    pub name: String,
    pub size: u64,
}
impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}={}", self.name, self.size)
    }
}

/// `batch=8,seq=16`
pub fn sizes(dims: &[Dim]) -> String {
    dims.iter().map(Dim::to_string).collect::<Vec<_>>().join(",")
}

impl Entry {
    /// What tells it from all others: `main`, or `main[batch=8,seq=16]`.
    pub fn id(&self) -> String {
        if self.dims.is_empty() { self.name.clone() } else { format!("{}[{}]", self.name, sizes(&self.dims)) }
    }
}

impl Manifest {
    /// The entries by name, in the order of the file: each with its specialisations, or alone.
    pub fn by_name(&self) -> Vec<Vec<&Entry>> {
        let mut groups: Vec<Vec<&Entry>> = vec![];
        for e in &self.entries {
            match groups.iter_mut().find(|g| g[0].name == e.name) {
                Some(g) => g.push(e),
                None => groups.push(vec![e]),
            }
        }
        groups
    }
}

/// The shape that a tensor has over several specialisations: a size where it is the same in all, else the name of the
/// dimension that it follows, else `?`.
pub fn symbolic(entries: &[&Entry], shapes: &[&Tensor]) -> Vec<String> {
    let Some(first) = shapes.first() else { return vec![] };
    let axis = |k: usize| {
        let size = |t: &Tensor| t.shape.get(k).copied();
        if shapes.iter().all(|t| size(t) == size(first)) {
            return first.shape[k].to_string();
        }
        let follows = |d: &usize| entries.iter().zip(shapes).all(|(e, t)| e.dims.get(*d).map(|d| d.size) == size(t));
        let names = &entries[0].dims;
        (0..names.len()).find(follows).map_or("?".into(), |d| names[d].name.clone())
    };
    (0..first.shape.len()).map(axis).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    #[test]
    fn a_shape_over_several_specialisations() {
        let of = |batch: u64, seq: u64, shape: &[u64]| {
            let dims = vec![Dim { name: "batch".into(), size: batch }, Dim { name: "seq".into(), size: seq }];
            let t = Tensor { name: "x".into(), dtype: DType::F32, shape: shape.to_vec() };
            (Entry { name: "main".into(), dims, arguments: vec![], results: vec![] }, t)
        };
        let shape = |all: &[(Entry, Tensor)]| {
            let (entries, tensors): (Vec<_>, Vec<_>) = all.iter().map(|(e, t)| (e, t)).unzip();
            symbolic(&entries, &tensors).join(" ")
        };
        let all = [of(1, 4, &[1, 4, 8, 4]), of(8, 4, &[8, 4, 8, 32]), of(8, 6, &[8, 6, 8, 48])];
        assert_eq!(shape(&all), "batch seq 8 ?");
        assert_eq!(shape(&all[..1]), "1 4 8 4");
        assert_eq!(all[1].0.id(), "main[batch=8,seq=4]");
    }
}
