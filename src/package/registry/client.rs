//! One repository of one registry: requests with credentials, again when a token is asked for or the registry is
//! briefly not there.

use super::{
    Credentials, Reference,
    credentials::{Login, encode_base64},
};
use crate::PackageError;
use std::{fmt::Display, io::Read, time::Duration};
use ureq::{
    Agent, Body, SendBody,
    http::{HeaderMap, Method, Request, Response},
};

const ATTEMPTS: u32 = 5;
/// Manifests and error texts; the distribution spec has registries accept manifests of 4 MiB.
pub(super) const MAX_DOCUMENT: u64 = 4 << 20;

pub(super) struct Client {
    agent: Agent,
    pub(super) reference: Reference,
    login: Option<Login>,
    /// Value of the `Authorization` header that the registry accepted last.
    authorization: Option<String>,
}

/// What came back, its body not read yet.
pub(super) type Answer = Response<Body>;

impl Client {
    pub(super) fn new(reference: &Reference, credentials: &Credentials) -> Result<Self, PackageError> {
        let tls = ureq::tls::TlsConfig::builder().root_certs(ureq::tls::RootCerts::PlatformVerifier).build();
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .tls_config(tls)
            .user_agent(concat!("zmlc/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(Duration::from_secs(30)))
            .timeout_recv_response(Some(Duration::from_secs(300)))
            .build()
            .new_agent();
        let login = credentials.find(&reference.host)?;
        Ok(Client { agent, reference: reference.clone(), login, authorization: None })
    }

    pub(super) fn url(&self, rest: &str) -> String {
        format!("{}/{rest}", self.reference.url())
    }

    pub(super) fn error(&self, doing: &'static str, reason: &dyn Display) -> PackageError {
        PackageError::Registry { image: self.reference.to_string(), doing, reason: reason.to_string() }
    }

    /// Sends a small request until it is answered, at most [`ATTEMPTS`] times. `body` is sent anew each time.
    pub(super) fn send(
        &mut self,
        doing: &'static str,
        method: &Method,
        url: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Answer, PackageError> {
        self.persist(doing, |client| client.once(method, url, headers, &mut || Ok(Box::new(body)), body.len() as u64))
    }

    /// Runs `attempt` until it succeeds or fails for good, waiting longer each time.
    pub(super) fn persist<T>(
        &mut self,
        doing: &'static str,
        mut attempt: impl FnMut(&mut Self) -> Result<T, Attempt>,
    ) -> Result<T, PackageError> {
        let mut tried = 0;
        loop {
            tried += 1;
            match attempt(self) {
                Ok(value) => return Ok(value),
                Err(Attempt::Failed(e)) => return Err(e),
                Err(Attempt::Again(reason)) if tried == ATTEMPTS => {
                    return Err(self.error(doing, &format!("{reason} ({tried} attempts)")));
                }
                Err(Attempt::Again(_)) => std::thread::sleep(Duration::from_millis(100 << tried)),
            }
        }
    }

    /// One request, and once more if the registry wants a token first. `body` opens what is sent, from its start.
    pub(super) fn once<'b>(
        &mut self,
        method: &Method,
        url: &str,
        headers: &[(&str, &str)],
        body: &mut dyn FnMut() -> Result<Box<dyn Read + 'b>, PackageError>,
        length: u64,
    ) -> Result<Answer, Attempt> {
        for round in 0..2 {
            let mut request = Request::builder().method(method).uri(url);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            if *method != Method::GET && *method != Method::HEAD {
                request = request.header("content-length", length);
            }
            // Uploads and downloads may be sent to another host, which is not to see the credentials.
            if let Some(a) = self.authorization.as_ref().filter(|_| same_host(url, &self.reference.url())) {
                request = request.header("authorization", a);
            }
            let bad_url = |e: ureq::http::Error| Attempt::Failed(self.error("reach", &format!("{url}: {e}")));
            let answer = if length == 0 {
                self.agent.run(request.body(()).map_err(bad_url)?)
            } else {
                let mut reader = body().map_err(Attempt::Failed)?;
                self.agent.run(request.body(SendBody::from_reader(&mut *reader)).map_err(bad_url)?)
            };
            let mut answer = answer.map_err(|e| match e {
                ureq::Error::BadUri(_) | ureq::Error::Http(_) => Attempt::Failed(self.error("reach", &e)),
                _ => Attempt::Again(e.to_string()),
            })?;
            let status = answer.status().as_u16();
            if status == 401 && round == 0 {
                self.authenticate(answer.headers()).map_err(|e| match e {
                    PackageError::Registry { reason, .. } => Attempt::Again(reason),
                    e => Attempt::Failed(e),
                })?;
                continue;
            }
            return match status {
                401 | 403 => Err(Attempt::Failed(self.denied(&message(&mut answer)))),
                408 | 429 | 500..=599 => Err(Attempt::Again(format!("status {status}{}", message(&mut answer)))),
                _ => Ok(answer),
            };
        }
        unreachable!("the second round returns")
    }

    fn denied(&self, message: &str) -> PackageError {
        PackageError::Denied { what: self.reference.to_string(), reason: message.trim_start_matches(": ").into() }
    }

    /// Answers a `WWW-Authenticate` challenge (RFC 9110; the token form is Docker's).
    fn authenticate(&mut self, headers: &HeaderMap) -> Result<(), PackageError> {
        let text = headers.get("www-authenticate").and_then(|h| h.to_str().ok()).unwrap_or_default();
        let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
        if scheme.eq_ignore_ascii_case("basic") {
            let Some(Login::Basic { user, password }) = &self.login else {
                return Err(self.denied("it wants a login"));
            };
            self.authorization = Some(basic(user, password));
            return Ok(());
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(self.denied("it wants a login of an unknown kind"));
        }
        let parameter = |name: &str| parameters(rest).into_iter().find(|(k, _)| k == name).map(|(_, v)| v);
        let realm = parameter("realm").ok_or_else(|| self.denied("its challenge has no realm"))?;
        if !realm.starts_with("https://") && !same_host(&realm, &self.reference.url()) {
            return Err(self.denied("it wants a login sent in clear to another host"));
        }
        let scope = format!("repository:{}:pull,push", self.reference.repository);
        let mut fields = vec![("scope", parameter("scope").unwrap_or(scope))];
        fields.extend(parameter("service").map(|s| ("service", s)));
        let answer = match &self.login {
            Some(Login::Refresh(token)) => {
                fields.push(("grant_type", "refresh_token".into()));
                fields.push(("refresh_token", token.clone()));
                self.agent.post(&realm).send_form(fields)
            }
            Some(Login::Basic { user, password }) => {
                self.agent.get(&realm).query_pairs(fields).header("authorization", basic(user, password)).call()
            }
            None => self.agent.get(&realm).query_pairs(fields).call(),
        };
        let mut answer = answer.map_err(|e| self.error("log in to", &e))?;
        match answer.status().as_u16() {
            200 => {}
            status @ (408 | 429 | 500..=599) => return Err(self.error("log in to", &format!("status {status}"))),
            _ => return Err(self.denied(&message(&mut answer))),
        }
        let text = document(&mut answer).map_err(|e| self.error("log in to", &e))?;
        let json: serde_json::Value = serde_json::from_slice(&text).map_err(|e| self.error("log in to", &e))?;
        let token = json["token"].as_str().or_else(|| json["access_token"].as_str());
        let token = token.ok_or_else(|| self.denied("its answer to a login has no token"))?;
        self.authorization = Some(format!("Bearer {token}"));
        Ok(())
    }
}

/// Whether to try once more.
pub(super) enum Attempt {
    Again(String),
    Failed(PackageError),
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", encode_base64(format!("{user}:{password}").as_bytes()))
}

/// Scheme, host and port agree.
fn same_host(a: &str, b: &str) -> bool {
    let origin = |u: &str| u.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
    origin(a) == origin(b)
}

/// `key="value"` pairs of a challenge.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut rest = text;
    while let Some((key, tail)) = rest.split_once('=') {
        let (value, next) = match tail.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => tail.split_once(',').unwrap_or((tail, "")),
        };
        pairs.push((key.trim_matches([',', ' ']).to_ascii_lowercase(), value.to_string()));
        rest = next;
    }
    pairs
}

pub(super) fn document(answer: &mut Answer) -> Result<Vec<u8>, ureq::Error> {
    answer.body_mut().with_config().limit(MAX_DOCUMENT).read_to_vec()
}

/// What a registry says about an error, as `: CODE message`, or nothing.
pub(super) fn message(answer: &mut Answer) -> String {
    let text = document(answer).unwrap_or_default();
    let json: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let first = &json["errors"][0];
    match (first["code"].as_str(), first["message"].as_str()) {
        (Some(code), Some(m)) => format!(": {code} {m}").escape_debug().to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges() {
        let p = parameters(
            r#"realm="https://a.example/token",service="r, s",scope="repository:x:pull,push",error=invalid"#,
        );
        assert_eq!(p[0], ("realm".into(), "https://a.example/token".into()));
        assert_eq!(p[1], ("service".into(), "r, s".into()));
        assert_eq!(p[2], ("scope".into(), "repository:x:pull,push".into()));
        assert_eq!(p[3], ("error".into(), "invalid".into()));
        assert!(parameters("no pairs").is_empty());
    }

    #[test]
    fn hosts() {
        assert!(same_host("https://a.b:5/v2/x", "https://a.b:5/v2/y/z"));
        assert!(!same_host("https://a.b/v2", "https://a.b.evil/v2"));
        assert!(!same_host("http://a.b/v2", "https://a.b/v2"));
    }
}
