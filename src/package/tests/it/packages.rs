//! Archives and layouts, read back with other programs' eyes.

use crate::common::{RUNTIME, artifact, artifact_with_weights, plan, safetensors};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::Command,
};
use zmlc_package::{
    ArchivePlan, Base, Compression, ImagePlan, Search, Weights, archive, check_archive, check_layout, oci, oci_index,
};

fn archive_plan(artifact: PathBuf) -> ArchivePlan {
    ArchivePlan {
        runtime: RUNTIME.into(),
        artifact,
        weights: Weights::Include { folders: vec![] },
        vendor: vec![],
        licenses: vec![],
        mtime: 1,
    }
}

/// Name to mode and content, by another tar reader.
fn entries(tar: &[u8]) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut archive = tar::Archive::new(tar);
    archive
        .entries()
        .unwrap()
        .map(|e| {
            let mut e = e.unwrap();
            let mut body = Vec::new();
            e.read_to_end(&mut body).unwrap();
            (e.path().unwrap().display().to_string(), (e.header().mode().unwrap(), body))
        })
        .collect()
}

fn json(path: impl AsRef<Path>) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn blob(dir: &Path, digest: &str) -> PathBuf {
    dir.join("blobs").join(digest.replace(':', "/"))
}

/// Whether `program` is installed; says so when it is not.
fn have(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

#[test]
fn archive_has_everything_and_the_same_bytes_from_another_folder() {
    let mut seen = Vec::new();
    for _ in 0..2 {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("w.safetensors"), safetensors(1.0)).unwrap();
        fs::write(dir.path().join("LICENSE"), "free").unwrap();
        let mut plan = archive_plan(artifact_with_weights(dir.path(), "w.safetensors"));
        plan.licenses.push(dir.path().join("LICENSE"));
        let out = dir.path().join("out.tar.zst");
        let report = archive(&plan, &out).unwrap();
        assert_eq!(
            report.files,
            [
                "LICENSES/LICENSE",
                "LICENSES/zml-run/LICENSE",
                "LICENSES/zml-run/THIRD-PARTY",
                "bin/zml-run",
                "model/tiny.zml",
                "model/w.safetensors",
                "sbom.cdx.json"
            ],
        );
        let bytes = fs::read(&out).unwrap();
        assert_eq!(report.bytes, bytes.len() as u64);
        let checked: Vec<_> = check_archive(&out).unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(checked, report.files);
        let all = entries(&zstd::decode_all(&bytes[..]).unwrap());
        assert_eq!(all["bin/zml-run"], (0o755, fs::read(&plan.runtime).unwrap()));
        assert_eq!(all["model/w.safetensors"], (0o644, safetensors(1.0)));
        assert!(all.contains_key("lib/"));
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert!(!left.iter().any(|n| n.to_string_lossy().ends_with(".tmp")), "{left:?}");
        seen.push(report.sha256);
    }
    assert_eq!(seen[0], seen[1]);
}

#[test]
fn large_weights_are_stored_and_still_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut padded = safetensors(1.0);
    padded.resize(17 << 20, 0);
    fs::write(dir.path().join("w.safetensors"), &padded).unwrap();
    let out = dir.path().join("out.tar.zst");
    let report = archive(&archive_plan(artifact_with_weights(dir.path(), "w.safetensors")), &out).unwrap();
    assert!(report.bytes > 17 << 20, "zeros would have shrunk to nothing");
    let all = entries(&zstd::decode_all(&fs::read(&out).unwrap()[..]).unwrap());
    assert!(all["model/w.safetensors"].1 == padded);
}

#[test]
fn layout_says_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("image");
    let report = oci(&plan(&artifact(dir.path(), &["vulkan", "cuda"])), &out).unwrap();
    let titles: Vec<_> = report.layers.iter().map(|l| l.title.as_str()).collect();
    assert_eq!(titles, ["base", "vulkan loader", "runtime", "model"]);
    let loader = zstd::decode_all(fs::File::open(blob(&out, &report.layers[1].digest)).unwrap()).unwrap();
    let has = |name: &str| entries(&loader).keys().any(|k| k.ends_with(name));
    assert!(has("/libvulkan.so.1") && !has("/libc.so.6"));
    for name in ["libX11.so.6", "libXext.so.6"] {
        assert_ne!(has(name), report.warnings.iter().any(|w| w.starts_with(name)), "{:?}", report.warnings);
    }
    let index = json(out.join("index.json"));
    assert_eq!(index["manifests"][0]["digest"], report.digest.as_str());
    assert_eq!(index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], "latest");
    let manifest = json(blob(&out, &report.digest));
    for layer in manifest["layers"].as_array().unwrap() {
        assert_eq!(layer["mediaType"], "application/vnd.oci.image.layer.v1.tar+zstd");
    }
    let config = json(blob(&out, manifest["config"]["digest"].as_str().unwrap()));
    insta::with_settings!({filters => vec![(r"sha256:[0-9a-f]{64}", "sha256:DIGEST"), ("amd64|arm64", "ARCH")]}, {
        insta::assert_snapshot!("config", serde_json::to_string_pretty(&config).unwrap());
        insta::assert_snapshot!("annotations", serde_json::to_string_pretty(&manifest["annotations"]).unwrap());
    });
    let model = manifest["layers"][3]["digest"].as_str().unwrap();
    let tar = zstd::decode_all(fs::File::open(blob(&out, model)).unwrap()).unwrap();
    assert_eq!(entries(&tar).into_keys().collect::<Vec<_>>(), ["model/", "model/tiny.zml"]);
    let summary = check_layout(&out).unwrap();
    assert_eq!(summary.images.len(), 1);
    assert_eq!(summary.images[0].2, 4);
}

#[test]
fn cuda_alone_asks_for_no_graphics_and_rocm_for_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for (targets, expected) in [
        (&["cuda"][..], vec!["NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=compute,utility"]),
        (&["rocm"], vec![]),
    ] {
        let out = dir.path().join("image");
        let report = oci(&plan(&artifact(dir.path(), targets)), &out).unwrap();
        assert!(report.layers.iter().all(|l| l.title != "vulkan loader"));
        let manifest = json(blob(&out, &report.digest));
        let config = json(blob(&out, manifest["config"]["digest"].as_str().unwrap()));
        let env: Vec<_> =
            config["config"]["Env"].as_array().unwrap()[1..].iter().map(|v| v.as_str().unwrap()).collect();
        assert_eq!(env, expected);
    }
}

#[test]
fn compressions_differ_and_their_contents_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut plan = plan(&artifact(dir.path(), &["cuda"]));
    let mut ids = Vec::new();
    for (kind, media) in [(Compression::Zstd, "+zstd"), (Compression::Gzip, "+gzip"), (Compression::None, "")] {
        plan.compression = kind;
        let out = dir.path().join("image");
        let report = oci(&plan, &out).unwrap();
        check_layout(&out).unwrap();
        let manifest = json(blob(&out, &report.digest));
        let expected = format!("application/vnd.oci.image.layer.v1.tar{media}");
        assert_eq!(manifest["layers"][0]["mediaType"], expected.as_str());
        ids.push(json(blob(&out, manifest["config"]["digest"].as_str().unwrap()))["rootfs"].clone());
    }
    assert!(ids[0] == ids[1] && ids[1] == ids[2]);
}

#[test]
fn a_new_model_changes_the_model_layer_alone() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("image");
    let path = artifact(dir.path(), &["cuda"]);
    let first = oci(&plan(&path), &out).unwrap();
    assert_eq!(oci(&plan(&path), &dir.path().join("again")).unwrap(), first);
    artifact(dir.path(), &["cuda", "rocm"]);
    let second = oci(&plan(&path), &out).unwrap();
    let changed: Vec<_> =
        first.layers.iter().zip(&second.layers).filter(|(a, b)| a != b).map(|(a, _)| a.title.as_str()).collect();
    assert_eq!(changed, ["model"]);
    // Layers, manifest and config, and the three blobs of the SBOM: nothing of the first is left in the folder.
    assert_eq!(fs::read_dir(out.join("blobs/sha256")).unwrap().count(), 5 + second.layers.len());
}

#[test]
fn layers_go_on_an_image_without_touching_it() {
    let dir = tempfile::tempdir().unwrap();
    let (base, out) = (dir.path().join("base"), dir.path().join("image"));
    let path = artifact(dir.path(), &["cuda"]);
    let below = oci(&plan(&path), &base).unwrap();
    let mut on_it = plan(&path);
    on_it.base = Base::Layout(base.clone());
    let report = oci(&on_it, &out).unwrap();
    check_layout(&out).unwrap();
    let titles: Vec<_> = report.layers.iter().map(|l| l.title.as_str()).collect();
    assert_eq!(titles, ["from base image", "from base image", "from base image", "runtime", "model"]);
    for (a, b) in below.layers.iter().zip(&report.layers) {
        assert_eq!(a.digest, b.digest);
        assert!(fs::read(blob(&base, &a.digest)).unwrap() == fs::read(blob(&out, &a.digest)).unwrap());
    }
    let annotations = &json(blob(&out, &report.digest))["annotations"];
    assert_eq!(annotations["org.opencontainers.image.base.digest"], below.digest.as_str());
}

/// Changes the config of a layout's image, and with it manifest and index.
fn edit_config(layout: &Path, edit: impl FnOnce(&mut Value)) {
    let put = |value: &Value, descriptor: &mut Value| {
        let bytes = value.to_string().into_bytes();
        let digest = Sha256::digest(&bytes).iter().fold("sha256:".to_string(), |t, b| format!("{t}{b:02x}"));
        fs::write(blob(layout, &digest), &bytes).unwrap();
        (descriptor["digest"], descriptor["size"]) = (digest.into(), bytes.len().into());
    };
    let named = |descriptor: &Value| json(blob(layout, descriptor["digest"].as_str().unwrap()));
    let mut index = json(layout.join("index.json"));
    let mut manifest = named(&index["manifests"][0]);
    let mut config = named(&manifest["config"]);
    edit(&mut config);
    put(&config, &mut manifest["config"]);
    put(&manifest, &mut index["manifests"][0]);
    fs::write(layout.join("index.json"), index.to_string()).unwrap();
}

#[test]
fn a_base_without_history_and_with_settings_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (base, out) = (dir.path().join("base"), dir.path().join("image"));
    let path = artifact(dir.path(), &["cuda"]);
    oci(&plan(&path), &base).unwrap();
    edit_config(&base, |config| {
        config.as_object_mut().unwrap().remove("history");
        config["config"] = serde_json::json!({
            "Cmd": ["sh"], "Entrypoint": ["/tini"], "Env": ["A=b", "NVIDIA_DRIVER_CAPABILITIES=compute", "PATH=/x"],
            "Labels": { "a": "b", "org.opencontainers.image.title": "base" }, "User": "u", "WorkingDir": "/w",
        });
    });
    let mut on_it = plan(&path);
    on_it.base = Base::Layout(base);
    let report = oci(&on_it, &out).unwrap();
    check_layout(&out).unwrap();
    let manifest = json(blob(&out, &report.digest));
    let config = json(blob(&out, manifest["config"]["digest"].as_str().unwrap()));
    let of = |key: &str| &config["config"][key];
    assert_eq!(
        of("Env"),
        &serde_json::json!([
            "A=b",
            "PATH=/x",
            "NVIDIA_VISIBLE_DEVICES=all",
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility"
        ])
    );
    assert_eq!(of("Entrypoint"), &serde_json::json!(["/usr/bin/zml-run", "/model/tiny.zml"]));
    assert_eq!((of("Cmd"), of("User"), of("WorkingDir")), (&Value::Null, &"u".into(), &"/w".into()));
    assert_eq!((&of("Labels")["a"], &of("Labels")["org.opencontainers.image.title"]), (&"b".into(), &"tiny".into()));
}

#[test]
fn one_index_over_platforms_and_no_platform_twice() {
    let dir = tempfile::tempdir().unwrap();
    let path = artifact(dir.path(), &["cuda"]);
    let out = dir.path().join("image");
    oci_index(&[plan(&path)], &out).unwrap();
    let index = json(out.join("index.json"));
    assert_eq!(index["manifests"][0]["mediaType"], "application/vnd.oci.image.index.v1+json");
    let inner = json(blob(&out, index["manifests"][0]["digest"].as_str().unwrap()));
    assert_eq!(inner["manifests"][0]["platform"]["os"], "linux");
    check_layout(&out).unwrap();
    assert_eq!(oci_index(&[plan(&path), plan(&path)], &out).unwrap_err().code(), "E1208");
    assert_eq!(oci_index(&[], &out).unwrap_err().code(), "E1214");
}

/// A runtime and a root file system for aarch64, as far as anyone looks who does not run them: this machine's, with
/// another machine's number in each ELF header.
fn arm64(dir: &Path) -> (PathBuf, PathBuf) {
    let root = dir.join("root");
    let patched = |from: &Path, to: PathBuf| {
        let mut bytes = fs::read(from).unwrap();
        bytes[18..20].copy_from_slice(&183u16.to_le_bytes());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(&to, bytes).unwrap();
        to
    };
    let here = zmlc_package::BaseFiles::for_executable(Path::new(RUNTIME), &Search::host()).unwrap();
    for (inside, path) in here.files().filter(|(inside, _)| inside.contains(".so")) {
        patched(path, root.join(inside.replace("x86_64-linux-gnu", "aarch64-linux-gnu")));
    }
    (patched(Path::new(RUNTIME), dir.join("zml-run-arm64")), root)
}

#[test]
fn an_index_over_amd64_and_arm64() {
    if zmlc_package::architecture(Path::new(RUNTIME)).unwrap() != "amd64" {
        eprintln!("skipped: this machine is no amd64");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let first = plan(&artifact(dir.path(), &["cuda"]));
    let (runtime, root) = arm64(dir.path());
    let second = ImagePlan { runtime, base: Base::Files(Search { root }), ..first.clone() };
    let out = dir.path().join("image");
    let reports = oci_index(&[first, second], &out).unwrap();
    assert_eq!(reports.iter().map(|r| r.platform.as_str()).collect::<Vec<_>>(), ["linux/amd64", "linux/arm64"]);
    // The model is one layer in both; what runs it is another.
    let layer = |i: usize, title: &str| reports[i].layers.iter().find(|l| l.title == title).unwrap().digest.clone();
    assert_eq!(layer(0, "model"), layer(1, "model"));
    assert!(layer(0, "runtime") != layer(1, "runtime") && layer(0, "base") != layer(1, "base"));
    let top = json(out.join("index.json"));
    assert_eq!(top["manifests"].as_array().unwrap().len(), 3, "the index, and an SBOM for each image");
    assert_eq!(top["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], "latest");
    let index = json(blob(&out, top["manifests"][0]["digest"].as_str().unwrap()));
    for (i, architecture) in ["amd64", "arm64"].into_iter().enumerate() {
        let d = &index["manifests"][i];
        assert_eq!(d["platform"], serde_json::json!({"architecture": architecture, "os": "linux"}));
        assert_eq!(d["digest"], reports[i].digest.as_str());
        let manifest = json(blob(&out, d["digest"].as_str().unwrap()));
        let config = json(blob(&out, manifest["config"]["digest"].as_str().unwrap()));
        assert_eq!((&config["architecture"], &config["os"]), (&architecture.into(), &"linux".into()));
    }
    assert_eq!(check_layout(&out).unwrap().images.len(), 2);
    if have("skopeo") {
        for architecture in ["amd64", "arm64"] {
            let from = format!("oci:{}:latest", out.display());
            let args = ["inspect", "--override-arch", architecture, "--format", "{{.Architecture}}", &from];
            let said = Command::new("skopeo").args(args).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), architecture, "{said:?}");
        }
    }
}

#[test]
fn a_folder_that_is_not_a_layout_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("home");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("precious"), "x").unwrap();
    let e = oci(&plan(&artifact(dir.path(), &["cuda"])), &out).unwrap_err();
    assert_eq!(e.code(), "E1211");
    assert_eq!(fs::read_to_string(out.join("precious")).unwrap(), "x");
}

#[test]
fn wrong_missing_and_wandering_weights_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("x.tar.zst");
    let plan = archive_plan(artifact_with_weights(dir.path(), "w.safetensors"));
    assert_eq!(archive(&plan, &out).unwrap_err().code(), "E1203");
    for bad in [safetensors(2.0), b"short".to_vec(), vec![0xff; 64], safetensors(1.0)[..60].to_vec()] {
        fs::write(dir.path().join("w.safetensors"), bad).unwrap();
        let e = archive(&plan, &out).unwrap_err();
        assert!(["E1204", "E1201"].contains(&e.code()), "{e}");
    }
    let e = archive(&archive_plan(artifact_with_weights(dir.path(), "../w.safetensors")), &out).unwrap_err();
    assert_eq!(e.code(), "E1207");
    assert!(!out.exists());
}

/// `null` for values that differ from machine to machine.
fn sbom_outline(document: &Value) -> Value {
    let mut d = document.clone();
    for c in d["components"].as_array_mut().unwrap() {
        c["hashes"][0]["content"] = Value::Null;
        // One part is enough: a new version of another is no news.
        if let Some(parts) = c.get_mut("components").and_then(Value::as_array_mut) {
            parts.truncate(1);
        }
    }
    d
}

#[test]
fn sbom_names_every_file_with_its_digest() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("w.safetensors"), safetensors(1.0)).unwrap();
    let path = artifact_with_weights(dir.path(), "w.safetensors");
    let out = dir.path().join("x.tar.zst");
    archive(&archive_plan(path.clone()), &out).unwrap();
    let all = entries(&zstd::decode_all(fs::File::open(&out).unwrap()).unwrap());
    let document: Value = serde_json::from_slice(&all["sbom.cdx.json"].1).unwrap();
    insta::assert_snapshot!("sbom", serde_json::to_string_pretty(&sbom_outline(&document)).unwrap());
    let weights = &document["components"][2];
    let sum = Command::new("sha256sum").arg(dir.path().join("w.safetensors")).output().unwrap().stdout;
    assert!(String::from_utf8(sum).unwrap().starts_with(weights["hashes"][0]["content"].as_str().unwrap()));

    let image = dir.path().join("image");
    let report = oci(&plan(&path), &image).unwrap();
    let index = json(image.join("index.json"));
    let referrer = &index["manifests"][1];
    assert_eq!(referrer["artifactType"], "application/vnd.cyclonedx+json");
    let manifest = json(blob(&image, referrer["digest"].as_str().unwrap()));
    assert_eq!(manifest["subject"]["digest"], report.digest.as_str());
    let document = json(blob(&image, manifest["layers"][0]["digest"].as_str().unwrap()));
    let names: Vec<_> =
        document["components"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"zml-run") && names.contains(&"tiny"), "{names:?}");
    if Path::new("/var/lib/dpkg/status").exists() {
        assert!(names.contains(&"libc6"), "{names:?}");
    }
}

#[test]
fn skopeo_copies_the_layout() {
    if !have("skopeo") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("image");
    let report = oci(&plan(&artifact(dir.path(), &["vulkan"])), &out).unwrap();
    let copy = dir.path().join("copy");
    let result = Command::new("skopeo")
        .args(["copy", "--insecure-policy", "--quiet"])
        .arg(format!("oci:{}:latest", out.display()))
        .arg(format!("oci:{}:latest", copy.display()))
        .output()
        .unwrap();
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    assert_eq!(json(copy.join("index.json"))["manifests"][0]["digest"], report.digest.as_str());
    check_layout(&copy).unwrap();
}

/// Whether a container can be started at all on this machine.
fn podman(root: &Path) -> Command {
    let mut c = Command::new("podman");
    c.arg("--root").arg(root.join("root")).arg("--runroot").arg(root.join("run"));
    c.args(["--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--runtime", "runc"]);
    c
}

#[test]
fn podman_runs_the_entrypoint() {
    if !have("podman") || !have("runc") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("image");
    oci(&plan(&artifact(dir.path(), &["vulkan"])), &out).unwrap();
    // podman makes a lower-case image name of the path.
    let pulled = podman(dir.path()).args(["pull", "--quiet", "oci:image:latest"]).current_dir(&dir).output().unwrap();
    assert!(pulled.status.success(), "{}", String::from_utf8_lossy(&pulled.stderr));
    let id = String::from_utf8(pulled.stdout).unwrap();
    let ran = podman(dir.path())
        .args(["run", "--rm", "--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"])
        .arg(id.trim())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "/model/tiny.zml\n");
}
