//! `doctor`: what this machine can run on; and for one model, what of it would run here, and why not.

use crate::{
    device::{Backend, survey},
    drivers,
    spans::Spans,
    weights::{WeightPlaces, find_all},
};
use serde_json::json;
use std::path::Path;
use zml_format::Artifact;

/// A line for each device, or for each backend why it has none.
pub fn report(json: bool) -> String {
    let mut out = String::new();
    for backend in Backend::ALL {
        match drivers::platform(backend, &Spans::default()) {
            Ok(platform) => {
                for d in platform.devices() {
                    out += &if json {
                        let o = json!({
                            "backend": backend.name(), "device": format!("{backend}:{}", d.index), "name": d.name,
                            "kind": d.kind.name(), "arch": d.arch, "driver": d.driver, "memory": d.memory,
                        });
                        format!("{o}\n")
                    } else {
                        let mib = d.memory >> 20;
                        format!("{d}, {}, {mib} MiB, driver {}\n", d.arch, d.driver)
                    };
                }
            }
            Err(u) => {
                out += &if json {
                    format!("{}\n", json!({"backend": backend.name(), "cause": u.cause, "remedy": u.remedy}))
                } else {
                    format!("{backend}: {}; {}\n", u.cause, u.remedy)
                };
            }
        }
    }
    out
}

/// A line for each backend of the model and for what lies outside of it; and whether it would run.
pub fn of_model(artifact: &Artifact, weights: Option<&Path>, json: bool) -> (String, bool) {
    let mut rows = vec![];
    let mut serves = false;
    for (backend, found) in survey(&artifact.manifest.profiles) {
        let name = backend.name();
        serves |= found.is_ok();
        rows.push(match found {
            Ok((d, profile)) => {
                [name.into(), "ok".into(), format!("{d}, driver {}, profile {profile}", d.driver), String::new()]
            }
            Err(u) => [name.into(), "no".into(), u.cause, u.remedy],
        });
    }
    for (backend, found) in drivers::libraries(&artifact.manifest.profiles) {
        let what = format!("{backend} libraries");
        serves &= found.is_ok();
        rows.push(match found {
            Ok(path) => [what, "ok".into(), path.display().to_string(), String::new()],
            Err(u) => [what, "no".into(), u.cause, u.remedy],
        });
    }
    let places = WeightPlaces::of(artifact, weights);
    if let Some(found) = find_all(artifact, &places) {
        serves &= found.is_ok();
        rows.push(match found {
            Ok(what) => ["weights".into(), "ok".into(), what, String::new()],
            Err(e) => ["weights".into(), "no".into(), e.to_string().replace('\n', ";"), String::new()],
        });
    }
    let model = &artifact.manifest.model;
    let text = if json {
        let row = |[what, state, text, remedy]: &[String; 4]| {
            let key = if state == "ok" { "found" } else { "cause" };
            let mut o = json!({"what": what, "ok": state == "ok", key: text});
            if !remedy.is_empty() {
                o["remedy"] = remedy.as_str().into();
            }
            format!("{o}\n")
        };
        rows.iter().map(row).collect()
    } else {
        let width = rows.iter().map(|r| r[0].len()).max().unwrap_or(0);
        let row = |[what, state, text, remedy]: &[String; 4]| {
            let remedy = if remedy.is_empty() { String::new() } else { format!("; {remedy}") };
            format!("  {what:<width$}  {state}  {text}{remedy}\n")
        };
        format!("{} {}\n{}", model.name, model.version, rows.iter().map(row).collect::<String>())
    };
    (text, serves)
}
