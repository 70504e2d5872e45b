//! Sends a layout to a registry: blobs that it lacks, then manifests, then what refers to them. A broken upload goes on
//! where the registry says that it stopped.

use super::{
    Credentials, Reference,
    client::{Answer, Attempt, Client, document, message},
};
use crate::{
    PackageError, check_layout,
    error::At,
    layout::{LayoutReader, canonical},
};
use oci_spec::image::{Descriptor, ImageIndex, ImageManifest, MediaType};
use std::{
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};
use ureq::http::Method;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushReport {
    /// Of what the tag names now, `sha256:...`.
    pub digest: String,
    /// Blobs that were sent and their bytes; manifests are not counted.
    pub sent: Vec<(String, u64)>,
    /// Blobs that were there already.
    pub present: Vec<String>,
}

/// Pushes the layout's image (or index of images) as `to`, and what refers to it (SBOMs) beside it.
/// `progress` is told of each blob before it is sent, with its bytes.
pub fn push(
    dir: &Path,
    to: &Reference,
    credentials: &Credentials,
    progress: &mut dyn FnMut(&str, u64),
) -> Result<PushReport, PackageError> {
    check_layout(dir)?;
    let layout = LayoutReader::open(dir)?;
    let (main, referrers): (Vec<_>, Vec<_>) =
        layout.index.manifests().iter().partition(|d| d.artifact_type().is_none());
    let [main] = main[..] else {
        return Err(layout.bad(format!("it has {} images to choose from, not one", main.len())));
    };
    let client = Client::new(to, credentials)?;
    let mut push = Push { layout: &layout, client, report: PushReport::default(), progress };
    push.tree(main, &to.version)?;
    for r in referrers {
        push.referrer(r)?;
    }
    push.report.digest = main.digest().to_string();
    Ok(push.report)
}

struct Push<'a> {
    layout: &'a LayoutReader,
    client: Client,
    report: PushReport,
    progress: &'a mut dyn FnMut(&str, u64),
}

impl Push<'_> {
    /// Everything that a manifest or index names, then itself as `version`. Says whether the registry lists referrers.
    fn tree(&mut self, d: &Descriptor, version: &str) -> Result<bool, PackageError> {
        match d.media_type() {
            MediaType::ImageIndex => {
                let index: ImageIndex = self.layout.json(d)?;
                for m in index.manifests() {
                    self.tree(m, m.digest().as_ref())?;
                }
            }
            MediaType::ImageManifest => {
                let manifest: ImageManifest = self.layout.json(d)?;
                for blob in manifest.layers().iter().chain([manifest.config()]) {
                    self.blob(blob)?;
                }
            }
            other => return Err(self.layout.bad(format!("cannot push a `{other}`"))),
        }
        let mut bytes = Vec::new();
        self.layout.open_blob(d)?.read_to_end(&mut bytes).at("read", "a manifest")?;
        self.manifest(&bytes, d.media_type().as_ref(), version)
    }

    fn manifest(&mut self, bytes: &[u8], kind: &str, version: &str) -> Result<bool, PackageError> {
        let url = self.client.url(&format!("manifests/{version}"));
        let mut answer =
            self.client.send("push a manifest to", &Method::PUT, &url, &[("content-type", kind)], bytes)?;
        self.expect(&mut answer, "push a manifest to", &[201])?;
        Ok(answer.headers().contains_key("oci-subject"))
    }

    fn expect(&self, answer: &mut Answer, doing: &'static str, good: &[u16]) -> Result<(), PackageError> {
        let status = answer.status().as_u16();
        if good.contains(&status) {
            return Ok(());
        }
        Err(self.client.error(doing, &format!("status {status}{}", message(answer))))
    }

    fn blob(&mut self, d: &Descriptor) -> Result<(), PackageError> {
        let digest = d.digest().to_string();
        if self.report.present.contains(&digest) || self.report.sent.iter().any(|(s, _)| *s == digest) {
            return Ok(());
        }
        let url = self.client.url(&format!("blobs/{digest}"));
        let mut answer = self.client.send("ask", &Method::HEAD, &url, &[], &[])?;
        if answer.status() == 200 {
            self.report.present.push(digest);
            return Ok(());
        }
        self.expect(&mut answer, "ask", &[404])?;
        (self.progress)(&digest, d.size());
        self.upload(d, &digest)?;
        self.report.sent.push((digest, d.size()));
        Ok(())
    }

    /// One upload: where the rest goes, and how much the registry has.
    fn upload(&mut self, d: &Descriptor, digest: &str) -> Result<(), PackageError> {
        let layout = self.layout;
        let mut session: Option<String> = None;
        self.client.persist("push a blob to", |client| {
            let (location, offset) = match session.as_ref().map(|l| progress_of(client, l)).transpose()?.flatten() {
                Some(found) => found,
                None => (start(client)?, 0),
            };
            session = Some(location.clone());
            let rest = d.size().checked_sub(offset).ok_or_else(|| {
                session = None;
                Attempt::Again(format!("it says that it has {offset} bytes of a blob of {}", d.size()))
            })?;
            let mut location = location;
            if rest > 0 {
                let range = format!("{offset}-{}", d.size() - 1);
                let mut headers = vec![("content-type", "application/octet-stream")];
                if offset > 0 {
                    headers.push(("content-range", &range));
                }
                let mut open = || -> Result<Box<dyn Read>, PackageError> {
                    let mut file = layout.blob_file(d)?;
                    file.seek(SeekFrom::Start(offset)).at("read", "a blob")?;
                    Ok(Box::new(file.take(rest)))
                };
                let answer = client.once(&Method::PATCH, &location, &headers, &mut open, rest)?;
                if answer.status() != 202 {
                    session = None;
                    return Err(refused(answer));
                }
                location = next_location(client, &answer)?;
                session = Some(location.clone());
            }
            let separator = if location.contains('?') { '&' } else { '?' };
            let url = format!("{location}{separator}digest={digest}");
            let answer = client.once(&Method::PUT, &url, &[], &mut || Ok(Box::new(io::empty())), 0)?;
            if answer.status() == 201 {
                return Ok(());
            }
            session = None;
            Err(refused(answer))
        })
    }

    /// Pushes a manifest with a subject. A registry without the referrers API gets the subject's fallback tag:
    /// an index of all that refers to it (distribution spec, "Pushing Manifests with Subject").
    fn referrer(&mut self, d: &Descriptor) -> Result<(), PackageError> {
        if self.tree(d, d.digest().as_ref())? {
            return Ok(());
        }
        let manifest: ImageManifest = self.layout.json(d)?;
        let subject = manifest.subject().as_ref().ok_or_else(|| self.layout.bad("an artifact without a subject"))?;
        let tag = subject.digest().to_string().replace(':', "-");
        let url = self.client.url(&format!("manifests/{tag}"));
        let kind = MediaType::ImageIndex.to_string();
        let mut answer = self.client.send("ask", &Method::GET, &url, &[("accept", &kind)], &[])?;
        let mut index = if answer.status() == 200 {
            let text = document(&mut answer).map_err(|e| self.client.error("ask", &e))?;
            serde_json::from_slice::<ImageIndex>(&text).map_err(|e| self.client.error("read the referrers at", &e))?
        } else {
            self.expect(&mut answer, "ask", &[404])?;
            crate::compose::index(vec![])
        };
        if index.manifests().iter().any(|m| m.digest() == d.digest()) {
            return Ok(());
        }
        let mut all = index.manifests().clone();
        all.push(d.clone());
        index.set_manifests(all);
        self.manifest(&canonical(&index), &kind, &tag)?;
        Ok(())
    }
}

/// Opens an upload session.
fn start(client: &mut Client) -> Result<String, Attempt> {
    let url = client.url("blobs/uploads/");
    let answer = client.once(&Method::POST, &url, &[], &mut || Ok(Box::new(io::empty())), 0)?;
    if answer.status() == 202 { next_location(client, &answer) } else { Err(refused(answer)) }
}

/// Where an upload stands, or nothing if the registry has forgotten it.
fn progress_of(client: &mut Client, location: &str) -> Result<Option<(String, u64)>, Attempt> {
    let answer = client.once(&Method::GET, location, &[], &mut || Ok(Box::new(io::empty())), 0)?;
    if answer.status() != 204 {
        return Ok(None);
    }
    let range = answer.headers().get("range").and_then(|r| r.to_str().ok()).unwrap_or_default();
    // `0-N`, both included. Registries say `0-0` for nothing and for one byte: start from the beginning then.
    let last = range.trim_start_matches("bytes=").split_once('-').and_then(|(_, n)| n.parse::<u64>().ok());
    match last {
        Some(n) if n > 0 => Ok(Some((next_location(client, &answer)?, n + 1))),
        _ => Ok(None),
    }
}

/// The `Location` of an answer, made absolute.
fn next_location(client: &Client, answer: &Answer) -> Result<String, Attempt> {
    let bad = || Attempt::Failed(client.error("push to", &"an upload without a usable Location"));
    let to = answer.headers().get("location").and_then(|l| l.to_str().ok()).ok_or_else(bad)?;
    if to.starts_with("https://") || to.starts_with("http://") && client.url("").starts_with("http://") {
        return Ok(to.into());
    }
    if !to.starts_with('/') {
        return Err(bad());
    }
    let base = client.url("");
    let origin: Vec<_> = base.splitn(4, '/').take(3).collect();
    Ok(format!("{}{to}", origin.join("/")))
}

fn refused(mut answer: Answer) -> Attempt {
    Attempt::Again(format!("status {}{}", answer.status().as_u16(), message(&mut answer)))
}
