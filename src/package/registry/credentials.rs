//! Where `docker login` and `podman login` leave credentials: config files with `auths`, `credHelpers`, `credsStore`.

use crate::error::{At, PackageError};
use serde_json::Value;
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Config files, the first with an entry for a host wins.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    files: Vec<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Login {
    Basic {
        user: String,
        password: String,
    },
    /// Exchanged for an access token.
    Refresh(String),
}

impl Credentials {
    /// `$REGISTRY_AUTH_FILE`, `$DOCKER_CONFIG/config.json` or `~/.docker/config.json`, and podman's file.
    pub fn from_environment() -> Self {
        let var = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let docker = var("DOCKER_CONFIG").or_else(|| var("HOME").map(|h| h.join(".docker")));
        let files = [
            var("REGISTRY_AUTH_FILE"),
            docker.map(|d| d.join("config.json")),
            var("XDG_RUNTIME_DIR").map(|d| d.join("containers/auth.json")),
        ];
        Credentials { files: files.into_iter().flatten().collect() }
    }
    pub fn from_file(path: impl Into<PathBuf>) -> Self {
        Credentials { files: vec![path.into()] }
    }
    pub fn none() -> Self {
        Self::default()
    }

    pub(super) fn find(&self, host: &str) -> Result<Option<Login>, PackageError> {
        let keys = if host == "docker.io" {
            vec!["https://index.docker.io/v1/".to_string(), "docker.io".into(), "index.docker.io".into()]
        } else {
            vec![host.to_string(), format!("https://{host}"), format!("https://{host}/v2/")]
        };
        for file in self.files.iter().filter(|f| f.is_file()) {
            let text = std::fs::read(file).at("read", file)?;
            let bad = |reason: String| PackageError::Credentials { path: file.clone(), reason };
            let config: Value = serde_json::from_slice(&text).map_err(|e| bad(e.to_string()))?;
            for key in &keys {
                let helper = config["credHelpers"][key].as_str().or_else(|| config["credsStore"].as_str());
                if let Some(helper) = helper
                    && let Some(login) = ask_helper(helper, key, file)?
                {
                    return Ok(Some(login));
                }
                let entry = &config["auths"][key];
                if let Some(token) = entry["identitytoken"].as_str().filter(|t| !t.is_empty()) {
                    return Ok(Some(Login::Refresh(token.into())));
                }
                if let Some(auth) = entry["auth"].as_str().filter(|a| !a.is_empty()) {
                    let plain = decode_base64(auth).and_then(|b| String::from_utf8(b).ok());
                    let pair = plain.as_deref().and_then(|p| p.split_once(':'));
                    let (user, password) =
                        pair.ok_or_else(|| bad(format!("`auth` of {key} is not base64 of USER:PASSWORD")))?;
                    return Ok(Some(Login::Basic { user: user.into(), password: password.into() }));
                }
            }
        }
        Ok(None)
    }
}

/// Runs `docker-credential-NAME get`, which answers on stdout. It knows nothing of a host: `None`.
fn ask_helper(name: &str, host: &str, file: &Path) -> Result<Option<Login>, PackageError> {
    let bad = |reason: String| PackageError::Credentials { path: file.into(), reason };
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')) {
        return Err(bad(format!("`{}` is not a credential helper", name.escape_debug())));
    }
    let program = format!("docker-credential-{name}");
    let failed = |e: std::io::Error| bad(format!("cannot run {program}: {e}"));
    let mut child = Command::new(&program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    // A helper that does not read its input has an answer or an error all the same.
    let _ = child.stdin.take().expect("piped").write_all(host.as_bytes());
    let output = child.wait_with_output().map_err(failed)?;
    if !output.status.success() {
        return Ok(None);
    }
    let answer: Value = serde_json::from_slice(&output.stdout).map_err(|e| bad(format!("{program}: {e}")))?;
    let (user, secret) = (answer["Username"].as_str(), answer["Secret"].as_str());
    Ok(match (user, secret) {
        (_, None) => None,
        (Some("<token>"), Some(s)) => Some(Login::Refresh(s.into())),
        (user, Some(s)) => Some(Login::Basic { user: user.unwrap_or_default().into(), password: s.into() }),
    })
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut bits, mut n) = (0u32, 0);
    for c in text.trim_end_matches('=').bytes() {
        bits = bits << 6 | ALPHABET.iter().position(|a| *a == c)? as u32;
        n += 6;
        if n >= 8 {
            n -= 8;
            out.push((bits >> n) as u8);
        }
    }
    Some(out)
}

pub(super) fn encode_base64(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().enumerate().fold(0u32, |w, (i, b)| w | u32::from(*b) << (16 - 8 * i));
        for i in 0..4 {
            let c = ALPHABET[(word >> (18 - 6 * i) & 63) as usize] as char;
            out.push(if i <= chunk.len() { c } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648, section 10.
    #[test]
    fn base64() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(encode_base64(plain.as_bytes()), coded);
            assert_eq!(decode_base64(coded).unwrap(), plain.as_bytes());
        }
        assert_eq!(decode_base64("a*"), None);
    }

    #[test]
    fn entries_by_host() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        let text = r#"{"auths": {"ghcr.io": {"auth": "bWU6YTpi"}, "https://index.docker.io/v1/": {"identitytoken": "t"},
            "bad.example.org": {"auth": "bWU="}, "empty.example.org": {}}}"#;
        std::fs::write(&path, text).unwrap();
        let c = Credentials::from_file(&path);
        let basic = Login::Basic { user: "me".into(), password: "a:b".into() };
        assert_eq!(c.find("ghcr.io").unwrap(), Some(basic));
        assert_eq!(c.find("docker.io").unwrap(), Some(Login::Refresh("t".into())));
        assert_eq!(c.find("empty.example.org").unwrap(), None);
        assert_eq!(c.find("bad.example.org").unwrap_err().code(), "E1217");
        std::fs::write(&path, r#"{"credsStore": "../../bin/sh"}"#).unwrap();
        assert_eq!(c.find("ghcr.io").unwrap_err().code(), "E1217");
    }
}
