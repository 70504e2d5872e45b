//! What `from` in `[package.vendor.TARGET]` may hold: `pypi:NAME`, `pypi:NAME==VERSION`, or the path of a wheel, a .deb
//! or a folder.

use crate::PackageError;
use std::{fmt, path::PathBuf, str::FromStr};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// `version`: the one that model.toml asks for; the lock file has the one that is used.
    Pypi { name: String, version: Option<String> },
    /// Relative to model.toml.
    Path(PathBuf),
}

impl Source {
    /// `nvidia-cublas-cu12`, or the path.
    pub fn name(&self) -> String {
        match self {
            Source::Pypi { name, .. } => name.clone(),
            Source::Path(p) => p.display().to_string(),
        }
    }
}

impl FromStr for Source {
    type Err = PackageError;
    fn from_str(text: &str) -> Result<Self, PackageError> {
        let bad = |reason: &str| Err(PackageError::Source { what: text.into(), reason: reason.into() });
        let Some(rest) = text.strip_prefix("pypi:") else {
            return if text.is_empty() { bad("it is empty") } else { Ok(Source::Path(text.into())) };
        };
        let (name, version) = rest.split_once("==").map_or((rest, None), |(n, v)| (n, Some(v)));
        // They become arguments of pip.
        let plain = |s: &str, more: &[char]| {
            s.starts_with(|c: char| c.is_ascii_alphanumeric())
                && s.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(&c))
        };
        if !plain(name, &['-', '_', '.']) || version.is_some_and(|v| !plain(v, &['.', '+', '!'])) {
            return bad("write it as pypi:NAME or pypi:NAME==VERSION");
        }
        Ok(Source::Pypi { name: name.into(), version: version.map(String::from) })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Source::Pypi { name, version: None } => write!(f, "pypi:{name}"),
            Source::Pypi { name, version: Some(v) } => write!(f, "pypi:{name}=={v}"),
            Source::Path(p) => p.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_read_back_as_written() {
        for text in ["pypi:nvidia-nccl-cu12", "pypi:nvidia-nccl-cu12==2.27.3", "libs/x.whl", "../rocm"] {
            assert_eq!(text.parse::<Source>().unwrap().to_string(), text);
        }
        for bad in ["", "pypi:", "pypi:--index-url=x", "pypi:a==", "pypi:a==1 --pre", "pypi:a b", "pypi:a>=1"] {
            assert_eq!(bad.parse::<Source>().unwrap_err().code(), "E1220", "{bad}");
        }
    }
}
