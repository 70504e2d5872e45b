//! Fetches one image of a registry into an OCI layout, every digest checked: for `--base`.

use super::{
    Credentials, Reference,
    client::{Attempt, Client, document, message},
};
use crate::{
    PackageError, compose,
    compress::hex,
    layout::{LayoutWriter, canonical},
};
use oci_spec::image::{Descriptor, ImageIndex, ImageManifest, MediaType, Sha256Digest};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    io::{self, Write},
    path::Path,
    str::FromStr,
};
use ureq::http::Method;

const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";

/// Docker's older names of what the image spec has the same bytes for.
const DOCKER: [(&str, MediaType); 3] = [
    ("application/vnd.docker.distribution.manifest.v2+json", MediaType::ImageManifest),
    ("application/vnd.docker.container.image.v1+json", MediaType::ImageConfig),
    ("application/vnd.docker.image.rootfs.diff.tar.gzip", MediaType::ImageLayerGzip),
];

/// Writes the image for `architecture` (`amd64`, `arm64`) as a layout and returns its manifest's digest. A layout that
/// is there already is replaced. A manifest in Docker's older format is written as the image spec's, which names the same
/// blobs.
pub fn pull(
    from: &Reference,
    architecture: &str,
    credentials: &Credentials,
    dir: &Path,
) -> Result<String, PackageError> {
    let mut client = Client::new(from, credentials)?;
    compose::layout(dir, |layout| fetch(from, architecture, &mut client, layout))
}

/// Index and manifest digest of what was fetched.
fn fetch(
    from: &Reference,
    architecture: &str,
    client: &mut Client,
    layout: &LayoutWriter,
) -> Result<(ImageIndex, String), PackageError> {
    let mut version = from.version.clone();
    // An index, then a manifest.
    for _ in 0..2 {
        let Manifest { kind, bytes, pulled } = manifest(client, &version)?;
        let bad = |e: serde_json::Error| client.error("read an image of", &e);
        if kind == MediaType::ImageManifest {
            let digest = layout.raw(&bytes)?;
            let parsed: ImageManifest = serde_json::from_slice(&bytes).map_err(bad)?;
            for d in parsed.layers().iter().chain([parsed.config()]) {
                blob(client, layout, d)?;
            }
            let name = Sha256Digest::from_str(&digest).expect("SHA-256 in hex");
            let mut descriptor = Descriptor::new(kind, bytes.len() as u64, name);
            descriptor.set_annotations(Some(HashMap::from([(compose::PULLED.to_string(), pulled)])));
            return Ok((compose::index(vec![descriptor]), format!("sha256:{digest}")));
        }
        let list: ImageIndex = serde_json::from_slice(&bytes).map_err(bad)?;
        let fits = |d: &&Descriptor| {
            d.platform()
                .as_ref()
                .is_some_and(|p| p.os().to_string() == "linux" && p.architecture().to_string() == architecture)
        };
        let Some(found) = list.manifests().iter().find(fits) else {
            return Err(client.error("find an image in", &format!("it has none for linux/{architecture}")));
        };
        version = found.digest().to_string();
    }
    Err(client.error("read an image of", &"an index in an index"))
}

/// A manifest or an index of the image spec.
struct Manifest {
    kind: MediaType,
    bytes: Vec<u8>,
    /// Digest of what the registry has, `sha256:...`.
    pulled: String,
}

fn manifest(client: &mut Client, version: &str) -> Result<Manifest, PackageError> {
    let url = client.url(&format!("manifests/{version}"));
    let mut answer = client.send("fetch a manifest from", &Method::GET, &url, &[("accept", ACCEPT)], &[])?;
    if answer.status() != 200 {
        let reason = format!("status {}{}", answer.status().as_u16(), message(&mut answer));
        return Err(client.error("fetch a manifest from", &reason));
    }
    let kind = answer.headers().get("content-type").and_then(|h| h.to_str().ok()).unwrap_or_default().to_string();
    let bytes = document(&mut answer).map_err(|e| client.error("fetch a manifest from", &e))?;
    let pulled = format!("sha256:{}", hex(&Sha256::digest(&bytes)));
    if version.starts_with("sha256:") && pulled != version {
        return Err(client.error("fetch from", &format!("{version} came back with other content")));
    }
    match kind.as_str() {
        "application/vnd.docker.distribution.manifest.list.v2+json" => {
            Ok(Manifest { kind: MediaType::ImageIndex, bytes, pulled })
        }
        k if k == DOCKER[0].0 => {
            let bytes = from_docker(&bytes).map_err(|e| client.error("read an image of", &e))?;
            Ok(Manifest { kind: MediaType::ImageManifest, bytes, pulled })
        }
        k => match MediaType::from(k) {
            kind @ (MediaType::ImageIndex | MediaType::ImageManifest) => Ok(Manifest { kind, bytes, pulled }),
            other => Err(client.error("read an image of", &format!("`{other}` is not an OCI manifest"))),
        },
    }
}

/// A manifest of Docker's as one of the image spec.
fn from_docker(bytes: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    fn rename(named: &mut Value) {
        let found = DOCKER.iter().find(|(docker, _)| named.get("mediaType").is_some_and(|t| t == docker));
        if let Some((_, oci)) = found {
            named["mediaType"] = oci.to_string().into();
        }
    }
    let mut manifest: Value = serde_json::from_slice(bytes)?;
    rename(&mut manifest);
    manifest.get_mut("config").into_iter().for_each(rename);
    manifest.get_mut("layers").and_then(Value::as_array_mut).into_iter().flatten().for_each(rename);
    Ok(canonical(manifest))
}

fn blob(client: &mut Client, layout: &LayoutWriter, d: &Descriptor) -> Result<(), PackageError> {
    let url = client.url(&format!("blobs/{}", d.digest()));
    client.persist("fetch a blob from", |client| {
        let answer = client.once(&Method::GET, &url, &[], &mut || Ok(Box::new(io::empty())), 0)?;
        if answer.status() != 200 {
            let reason = format!("{}: status {}", d.digest(), answer.status().as_u16());
            return Err(Attempt::Failed(client.error("fetch a blob from", &reason)));
        }
        // One byte more than it may have: too long is another digest.
        let mut body = answer.into_body().into_with_config().limit(d.size().saturating_add(1)).reader();
        let mut broken = None;
        let stored = layout.fill(d, |out: &mut dyn Write| {
            if let Err(e) = io::copy(&mut body, out) {
                broken = Some(e.to_string());
            }
            Ok(())
        });
        match (broken, stored) {
            (Some(reason), _) => Err(Attempt::Again(reason)),
            (None, Err(e)) => Err(Attempt::Failed(e)),
            (None, Ok(())) => Ok(()),
        }
    })
}
