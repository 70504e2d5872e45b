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
    let (mut devices, mut called) = (vec![], vec![]);
    for (backend, found) in survey(&artifact.manifest.profiles) {
        let name = backend.name();
        devices.push((backend, found.is_ok()));
        rows.push(match found {
            Ok((d, profile)) => {
                [name.into(), "ok".into(), format!("{d}, driver {}, profile {profile}", d.driver), String::new()]
            }
            Err(u) => [name.into(), "no".into(), u.cause, u.remedy],
        });
    }
    for (backend, found) in drivers::libraries(&artifact.manifest.profiles) {
        let what = format!("{backend} libraries");
        called.push((backend, found.is_ok()));
        rows.push(match found {
            Ok(path) => [what, "ok".into(), path.display().to_string(), String::new()],
            Err(u) => [what, "no".into(), u.cause, u.remedy],
        });
    }
    let mut serves = runs(&devices, &called);
    let places = WeightPlaces::of(artifact, weights);
    if let Some(found) = find_all(artifact, &places) {
        serves &= found.is_ok();
        rows.push(match found {
            Ok(what) => ["weights".into(), "ok".into(), what, String::new()],
            Err(e) => {
                let lines: Vec<String> = e.to_string().lines().map(|l| l.trim().to_string()).collect();
                ["weights".into(), "no".into(), lines.join("; "), String::new()]
            }
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

/// Whether the model would run, by what was found of each backend, best first, and of the libraries that backends call:
/// it runs on the first backend with a device, and needs that one's library alone.
fn runs(devices: &[(Backend, bool)], libraries: &[(Backend, bool)]) -> bool {
    let chosen = devices.iter().find(|(_, found)| *found);
    chosen.is_some_and(|(backend, _)| !libraries.contains(&(*backend, false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_counts_where_its_backend_is_the_one_that_runs() {
        let (cuda, vulkan) = (Backend::Cuda, Backend::Vulkan);
        assert!(runs(&[(cuda, false), (vulkan, true)], &[(cuda, false)]));
        assert!(!runs(&[(cuda, true), (vulkan, true)], &[(cuda, false)]));
        assert!(runs(&[(cuda, true), (vulkan, false)], &[(cuda, true)]));
        assert!(!runs(&[(cuda, false), (vulkan, false)], &[(cuda, true)]));
    }
}
