//! What a package is made of, as CycloneDX 1.5 JSON: each file with its digest, version and licence. Files are named by
//! their path in the package, in the property `zmlc:path`.

use crate::{
    compose::rfc3339,
    compress::hex,
    content::Model,
    dpkg::Owner,
    error::{At, PackageError},
    layout::canonical,
    runtime,
    vendor::VendoredFile,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{collections::BTreeMap, fs::File, io, path::Path};

pub(crate) const MEDIA_TYPE: &str = "application/vnd.cyclonedx+json";
const PATH: &str = "zmlc:path";

/// Collects components; their order in the document is that of their paths.
#[derive(Default)]
pub(crate) struct Sbom(Vec<(String, Value)>);

impl Sbom {
    fn add(&mut self, path: &str, here: &Path, component: Value) -> Result<(), PackageError> {
        let mut hash = Sha256::new();
        io::copy(&mut File::open(here).at("read", here)?, &mut hash).at("read", here)?;
        self.push(path, &hex(&hash.finalize()), component, vec![]);
        Ok(())
    }
    fn push(&mut self, path: &str, sha256: &str, mut component: Value, mut properties: Vec<Value>) {
        component["bom-ref"] = path.into();
        component["hashes"] = hashes(sha256);
        properties.insert(0, property(PATH, path));
        component["properties"] = properties.into();
        self.0.push((path.into(), component));
    }
    /// A program of this project.
    pub(crate) fn program(&mut self, path: &str, here: &Path) -> Result<(), PackageError> {
        let version = env!("CARGO_PKG_VERSION");
        let licence = json!([{ "license": { "id": "Apache-2.0" } }]);
        let name = name(path);
        self.add(path, here, json!({ "type": "application", "name": name, "version": version, "licenses": licence }))
    }
    /// zml-run in a package of a model, with its parts inside its entry.
    pub(crate) fn runtime(&mut self, path: &str, here: &Path) -> Result<(), PackageError> {
        self.program(path, here)?;
        let crates = runtime::parts().map(|(name, version, licence)| {
            part(name, version, licence, &format!("pkg:cargo/{name}@{}", escaped(version)))
        });
        if let Some((_, component)) = self.0.last_mut() {
            component["components"] = crates.collect();
        }
        Ok(())
    }
    /// A part of a program: it has no file of its own.
    pub(crate) fn part(&mut self, name: &str, version: &str, licence: &str, purl: &str) {
        self.0.push((format!("part:{name}@{version}"), part(name, version, licence, purl)));
    }
    pub(crate) fn model(&mut self, path: &str, model: &Model) -> Result<(), PackageError> {
        let m = &model.artifact.manifest.model;
        let component = json!({ "type": "machine-learning-model", "name": m.name, "version": m.version });
        self.add(path, &model.path, component)
    }
    pub(crate) fn weights(&mut self, path: &str, here: &Path) -> Result<(), PackageError> {
        self.add(path, here, json!({ "type": "data", "name": name(path) }))
    }
    /// A vendor's file: where it comes from and, if it was changed, from what, how, and whether against its licence.
    pub(crate) fn vendored(&mut self, path: &str, file: &VendoredFile) {
        let (source, version, licence) = &file.source;
        let mut component = json!({ "type": "library", "name": name(path), "version": version, "group": source });
        if !licence.is_empty() {
            component["licenses"] = json!([{ "license": { "name": licence } }]);
        }
        let mut properties = vec![];
        if !file.changes.is_none() {
            let mut notes = vec![];
            if file.changes.runpath {
                notes.push("search path set to $ORIGIN".to_string());
            }
            if let Some(cut) = &file.changes.cut {
                let archs = cut.archs.join(", ");
                notes.push(format!(
                    "cut to {archs} by zml-trim {}: {} parts kept, {} left out",
                    env!("CARGO_PKG_VERSION"),
                    cut.kept,
                    cut.dropped
                ));
                properties.push(property("zmlc:cut-to", &archs));
            }
            properties.push(property("zmlc:original-bytes", &file.original_bytes.to_string()));
            if file.against_licence {
                properties.push(property("zmlc:trim-proprietary", "changed although the licence forbids it"));
            }
            let original = json!({
                "type": "library", "name": name(path), "version": version, "hashes": hashes(&file.original_sha256),
            });
            component["pedigree"] = json!({ "ancestors": [original], "notes": notes.join("; ") });
        }
        self.push(path, &file.sha256, component, properties);
    }
    /// A file of the system that packages.
    pub(crate) fn system(&mut self, path: &str, here: &Path, owner: Option<&Owner>) -> Result<(), PackageError> {
        let component = match owner {
            None => json!({ "type": "file", "name": name(path) }),
            Some(o) => {
                let (name, version) = (&o.package, escaped(&o.version));
                let purl = format!("pkg:deb/{}/{name}@{version}?arch={}", o.distribution, o.architecture);
                let mut component = json!({ "type": "library", "name": name, "version": o.version, "purl": purl });
                if !o.licences.is_empty() {
                    component["licenses"] = o.licences.iter().map(|l| json!({ "license": { "name": l } })).collect();
                }
                component
            }
        };
        self.add(path, here, component)
    }

    /// The bytes of a document about the package of `name`.
    pub(crate) fn document(mut self, name: &str, version: &str, mtime: u64) -> Vec<u8> {
        self.0.sort_by(|a, b| a.0.cmp(&b.0));
        canonical(json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": {
                "timestamp": rfc3339(mtime),
                "tools": { "components": [{
                    "type": "application", "name": "zmlc", "version": env!("CARGO_PKG_VERSION"),
                }] },
                "component": {
                    "type": "application", "bom-ref": "package", "name": name, "version": version,
                },
            },
            "components": self.0.into_iter().map(|(_, c)| c).collect::<Vec<_>>(),
        }))
    }
}

/// Path and SHA-256 of each file that a document of ours names.
pub(crate) fn digests(document: &[u8]) -> Result<BTreeMap<String, String>, String> {
    let json: Value = serde_json::from_slice(document).map_err(|e| e.to_string())?;
    let components = json["components"].as_array().ok_or("it has no components")?;
    let mut found = BTreeMap::new();
    for c in components {
        let properties = c["properties"].as_array().map(Vec::as_slice).unwrap_or_default();
        let path = properties.iter().find(|p| p["name"] == PATH).and_then(|p| p["value"].as_str());
        let digest = c["hashes"][0]["content"].as_str();
        if path.is_none() && digest.is_none() && c["bom-ref"].as_str().is_some_and(|r| r.starts_with("part:")) {
            continue;
        }
        let (path, digest) = path.zip(digest).ok_or("a component without path and digest")?;
        found.insert(path.to_string(), digest.to_string());
    }
    Ok(found)
}

fn part(name: &str, version: &str, licence: &str, purl: &str) -> Value {
    let mut component = json!({
        "type": "library", "bom-ref": format!("part:{name}@{version}"), "name": name, "version": version,
    });
    if !purl.is_empty() {
        component["purl"] = purl.into();
    }
    if !licence.is_empty() {
        component["licenses"] = json!([{ "expression": licence }]);
    }
    component
}

/// `%`, `:` and `+` stand in versions and have to be escaped in a package URL.
fn escaped(version: &str) -> String {
    version.replace('%', "%25").replace(':', "%3A").replace('+', "%2B")
}

fn property(name: &str, value: &str) -> Value {
    json!({ "name": name, "value": value })
}
fn hashes(sha256: &str) -> Value {
    json!([{ "alg": "SHA-256", "content": sha256 }])
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
