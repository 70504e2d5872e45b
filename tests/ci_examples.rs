//! The examples for GitHub Actions and GitLab CI: they are valid by the schemas of both, and what they say to zmlc works.

mod common;

use common::{ROOT, fixture, registry::Registry, zmlc_ok};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

const GITHUB: (&str, &str) = ("examples/ci/github.yml", "vendor.github-workflows");
const GITLAB: (&str, &str) = ("examples/ci/.gitlab-ci.yml", "vendor.gitlab-ci");

fn text(file: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(file)).expect("the example")
}
/// The lines of every `script:` of a GitLab pipeline, in order.
fn scripts(pipeline: &str) -> Vec<&str> {
    let (mut lines, mut inside) = (vec![], false);
    for line in pipeline.lines() {
        inside = line.trim() == "script:" || (inside && line.starts_with("    - "));
        lines.extend(line.strip_prefix("    - ").filter(|_| inside));
    }
    lines
}
/// The commands of zmlc in a file, in order.
fn commands(file: &str) -> Vec<&str> {
    file.lines().map(|l| l.trim().trim_start_matches("- ")).filter(|l| l.starts_with("zmlc ")).collect()
}

#[test]
fn the_schemas_of_both_accept_them() {
    let checker = Path::new(ROOT).join(".venv/bin/check-jsonschema");
    if !checker.exists() {
        assert!(std::env::var_os("CI").is_none(), "CI has tools/requirements.txt in .venv");
        eprintln!("skipped: no {}", checker.display());
        return;
    }
    let accepts = |schema: &str, file: &Path| {
        Command::new(&checker).args(["--builtin-schema", schema]).arg(file).output().expect("it starts")
    };
    let folder = tempfile::tempdir().expect("a folder");
    for ((file, schema), key) in [(GITHUB, "runs-on:"), (GITLAB, "script:")] {
        let out = accepts(schema, &Path::new(ROOT).join(file));
        assert!(out.status.success(), "{file}: {}", String::from_utf8_lossy(&out.stdout));
        // And would not accept another key.
        let wrong: PathBuf = folder.path().join("wrong.yml");
        std::fs::write(&wrong, text(file).replace(key, "frobnicate:")).expect("writable");
        assert!(!accepts(schema, &wrong).status.success(), "{file}");
    }
    // Both do the same with zmlc.
    let (github, gitlab) = (text(GITHUB.0), text(GITLAB.0));
    let without_push = |file| commands(file).into_iter().filter(|c| !c.starts_with("zmlc push")).collect::<Vec<_>>();
    assert_eq!(without_push(&github), without_push(&gitlab));
    assert_eq!(commands(&github).len(), commands(&gitlab).len());
    let version = format!("ghcr.io/zmlc/zmlc:{}", env!("CARGO_PKG_VERSION"));
    assert!(github.contains(&version) && gitlab.contains(&version), "both use {version}");
}

#[test]
fn the_pipeline_builds_packages_and_pushes() {
    let Some(registry) = Registry::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::create_dir(folder.join("model")).expect("writable");
    for f in std::fs::read_dir(fixture("mnist_mlp")).expect("the fixture").map(|f| f.expect("readable").path()) {
        std::fs::copy(&f, folder.join("model").join(f.file_name().expect("a file"))).expect("copied");
    }
    let pipeline = text(GITLAB.0);
    let script = scripts(&pipeline);
    assert!(script.len() >= 7, "{script:?}");
    let programs = Path::new(env!("CARGO_BIN_EXE_zmlc")).parent().expect("a folder");
    let out = Command::new("sh")
        .args(["-ec", &script.join("\n")])
        .current_dir(folder)
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", programs.display()))
        .env("HOME", folder)
        .env("MODEL", "model/model.toml")
        .env("NAME", "mnist_mlp")
        .env("IMAGE", format!("{}/team/mnist_mlp", registry.address))
        .env("CI_REGISTRY", &registry.address)
        .env("CI_REGISTRY_USER", "gitlab-ci-token")
        .env("CI_REGISTRY_PASSWORD", "secret")
        .env("CI_COMMIT_SHORT_SHA", "0123abcd")
        .output()
        .expect("sh starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let config = std::fs::read_to_string(folder.join(".docker/config.json")).expect("the login");
    // `printf gitlab-ci-token:secret | base64`
    assert!(config.contains("\"auth\":\"Z2l0bGFiLWNpLXRva2VuOnNlY3JldA==\""), "{config}");
    // Pushed again by hand nothing is missing.
    let to = format!("{}/team/mnist_mlp:0123abcd", registry.address);
    assert!(zmlc_ok(folder, &["push", "image", &to]).contains("\n  0 blobs sent"));
}
