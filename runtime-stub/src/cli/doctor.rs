//! `doctor`: what this machine can run on, whatever the artifact.

use crate::{device::Backend, drivers};
use serde_json::json;

/// A line for each device, or for each backend why it has none.
pub fn report(json: bool) -> String {
    let mut out = String::new();
    for backend in Backend::ALL {
        match drivers::platform(backend) {
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
