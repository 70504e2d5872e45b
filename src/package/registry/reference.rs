//! Names of images in registries: `[docker://]HOST/REPOSITORY[:TAG | @sha256:DIGEST]`.

use crate::PackageError;
use std::{fmt, str::FromStr};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// `ghcr.io`, `127.0.0.1:5000`
    pub host: String,
    /// `owner/name`
    pub repository: String,
    /// A tag, or a digest `sha256:...`.
    pub version: String,
}

impl Reference {
    /// The URL that the API starts from. Hosts of this machine are spoken to in clear, as other clients do.
    pub(super) fn url(&self) -> String {
        let host = if self.host == "docker.io" { "registry-1.docker.io" } else { &self.host };
        let scheme = if self.is_local() { "http" } else { "https" };
        format!("{scheme}://{host}/v2/{}", self.repository)
    }
    fn is_local(&self) -> bool {
        let name = self.host.rsplit_once(':').map_or(self.host.as_str(), |(n, _)| n);
        name == "localhost" || name.parse::<std::net::Ipv4Addr>().is_ok_and(|a| a.is_loopback())
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let separator = if self.version.contains(':') { '@' } else { ':' };
        write!(f, "{}/{}{separator}{}", self.host, self.repository, self.version)
    }
}

impl FromStr for Reference {
    type Err = PackageError;
    fn from_str(text: &str) -> Result<Self, PackageError> {
        let bad = |reason| PackageError::Reference { text: text.escape_debug().to_string(), reason };
        let rest = text.strip_prefix("docker://").unwrap_or(text);
        let (host, path) = rest.split_once('/').ok_or_else(|| bad("it needs a registry: HOST/NAME:TAG"))?;
        let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
        if !(host.contains(['.', ':']) || host == "localhost") || !host.chars().all(is_host) {
            return Err(bad("its first part must be a registry, such as ghcr.io or localhost:5000"));
        }
        let (path, version) = match path.split_once('@') {
            Some((path, digest)) => {
                let hex = digest
                    .strip_prefix("sha256:")
                    .filter(|h| h.len() == 64 && h.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c)));
                hex.ok_or_else(|| bad("a digest is sha256: and 64 hexadecimal digits"))?;
                (path.split_once(':').map_or(path, |(p, _)| p), digest)
            }
            None => path.split_once(':').unwrap_or((path, "latest")),
        };
        let is_tag = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        if !version.starts_with("sha256:")
            && (version.is_empty()
                || version.len() > 128
                || version.starts_with(['.', '-'])
                || !version.chars().all(is_tag))
        {
            return Err(bad("a tag has letters, digits, `_`, `.` and `-`, at most 128"));
        }
        let is_part = |p: &str| {
            let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.' | '-');
            let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
            !p.is_empty() && p.chars().all(inner) && p.starts_with(edge) && p.ends_with(edge)
        };
        if !path.split('/').all(is_part) {
            return Err(bad("a repository has lower-case letters, digits, `_`, `.` and `-`"));
        }
        let repository =
            if host == "docker.io" && !path.contains('/') { format!("library/{path}") } else { path.into() };
        Ok(Reference { host: host.into(), repository, version: version.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let r: Reference = "docker://127.0.0.1:5000/a/b:v1".parse().unwrap();
        assert_eq!((r.url().as_str(), r.version.as_str()), ("http://127.0.0.1:5000/v2/a/b", "v1"));
        assert_eq!(r.to_string(), "127.0.0.1:5000/a/b:v1");
        let r: Reference = "docker.io/debian".parse().unwrap();
        assert_eq!(
            (r.url().as_str(), r.version.as_str()),
            ("https://registry-1.docker.io/v2/library/debian", "latest")
        );
        let d = format!("ghcr.io/x/y@sha256:{}", "0".repeat(64));
        assert_eq!(d.parse::<Reference>().unwrap().to_string(), d);
        assert!("http://evil.example.org".parse::<Reference>().is_err());
    }

    #[test]
    fn what_is_not_one() {
        for bad in [
            "",
            "name:tag",
            "ghcr.io",
            "ghcr.io/",
            "ghcr.io/A/b",
            "ghcr.io/../b",
            "ghcr.io/a/b:-x",
            "ghcr.io/a//b",
            "ghcr.io/a@sha256:12",
            "gh cr.io/a",
            "ghcr.io/a:t/../x",
        ] {
            assert_eq!(bad.parse::<Reference>().unwrap_err().code(), "E1215", "{bad}");
        }
    }
}
