//! Digests of the files that an artifact was built from, so that whoever builds it again can say which one differs. No
//! folders and no times: the same files give the same bytes wherever they lie.

use serde::{Deserialize, Serialize};

/// All digests are SHA-256, lower-case hex.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sources {
    /// Of what model.toml says: keys and values as JSON, files by their names without folders, without `[package]`.
    pub model: String,
    /// Of each entry's program file, by the entry's name in model.toml.
    pub programs: Vec<Source>,
    /// Of the header of each weights file, by the file's name: names, types, shapes and places of all its tensors. The
    /// values of those that the model uses have digests of their own, `Weight::sha256`.
    pub weights: Vec<Source>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    pub name: String,
    pub sha256: String,
}

impl Sources {
    /// What of `self` is another in `now`, a phrase each.
    pub fn differences(&self, now: &Sources) -> Vec<String> {
        let mut found = vec![];
        if self.model != now.model {
            found.push("model.toml says something else".into());
        }
        differ(&self.programs, &now.programs, "the program of entry", "is another file", &mut found);
        differ(&self.weights, &now.weights, "the weights file", "has another header", &mut found);
        found
    }
}

fn differ(old: &[Source], new: &[Source], what: &str, how: &str, found: &mut Vec<String>) {
    let named = |list: &[Source], name: &str| list.iter().find(|s| s.name == name).map(|s| s.sha256.clone());
    for s in old {
        match named(new, &s.name) {
            None => found.push(format!("{what} `{}` is not there any more", s.name)),
            Some(sha256) if sha256 != s.sha256 => found.push(format!("{what} `{}` {how}", s.name)),
            Some(_) => {}
        }
    }
    let added = new.iter().filter(|s| named(old, &s.name).is_none());
    found.extend(added.map(|s| format!("{what} `{}` was not there", s.name)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_that_differs_is_named() {
        let source = |name: &str, sha256: &str| Source { name: name.into(), sha256: sha256.into() };
        let old = Sources {
            model: "m".into(),
            programs: vec![source("a", "1"), source("b", "2")],
            weights: vec![source("w.safetensors", "3")],
        };
        assert_eq!(old.differences(&old), [""; 0]);
        let new = Sources {
            model: "n".into(),
            programs: vec![source("a", "2"), source("c", "2")],
            weights: vec![source("w.safetensors", "4")],
        };
        let expected = [
            "model.toml says something else",
            "the program of entry `a` is another file",
            "the program of entry `b` is not there any more",
            "the program of entry `c` was not there",
            "the weights file `w.safetensors` has another header",
        ];
        assert_eq!(old.differences(&new), expected);
    }
}
