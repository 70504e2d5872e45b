//! What zml-run is made of, and the licence texts that go wherever it goes.

/// Crates of others in it, on any machine: name, version, licence.
const PARTS: &str = include_str!("runtime/parts.txt");

/// File name and text.
pub(crate) const LICENCES: [(&str, &str); 2] =
    [("LICENSE", include_str!("../../LICENSE")), ("THIRD-PARTY", include_str!("runtime/third-party.txt"))];

/// Name, version and licence of each crate in it.
pub(crate) fn parts() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    PARTS.lines().filter_map(|line| {
        let (name, rest) = line.split_once(' ')?;
        let (version, licence) = rest.split_once(' ')?;
        Some((name, version, licence))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, process::Command};

    /// What `cargo tree` says now.
    #[test]
    fn every_part_is_named_with_its_licence() {
        let machines = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];
        let out = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["tree", "-q", "--offline", "--locked", "-p", "zml-runtime", "-e", "normal,no-proc-macro"])
            .args(["--prefix", "none", "--format", "{p}|{l}"])
            .args(machines.iter().flat_map(|m| ["--target", m]))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let text = String::from_utf8(out.stdout).unwrap();
        // Crates of this repository have a path.
        let foreign = text.lines().map(|l| l.trim_end_matches(" (*)")).filter(|l| !l.is_empty() && !l.contains("(/"));
        let now: BTreeSet<String> = foreign.map(|l| l.replacen(" v", " ", 1).replacen('|', " ", 1)).collect();
        let stated: BTreeSet<String> = PARTS.lines().map(String::from).collect();
        assert_eq!(now, stated, "write src/package/runtime/parts.txt and third-party.txt anew");
        for (name, version, licence) in parts() {
            let third_party = LICENCES[1].1;
            assert!(third_party.contains(&format!("    {name} {version} {licence}\n")), "{name}");
            let free = licence.contains("Apache-2.0");
            assert!(free || third_party.contains(&format!("---- {name}-{version}\n")), "{name}: no text of {licence}");
        }
    }
}
