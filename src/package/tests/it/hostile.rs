//! Archives, layouts and artifacts that somebody made to do harm, or that a disk or a network damaged: refused by name,
//! and nothing is written.

use crate::common::{artifact, plan};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::{fs, io::Write, path::Path};
use zmlc_package::{PackageError, check_archive, check_layout, oci};

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |t, b| format!("{t}{b:02x}"))
}

/// A tar of one entry, made by another writer.
fn tar_of(name: &str, kind: tar::EntryType, link: &str, content: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    // `set_path` would refuse what is to be tested.
    header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
    header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link.as_bytes());
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    let mut builder = tar::Builder::new(Vec::new());
    builder.append(&header, content).unwrap();
    builder.into_inner().unwrap()
}

fn archive_of(dir: &Path, tar: &[u8]) -> Result<(), PackageError> {
    let path = dir.join("x.tar.zst");
    fs::write(&path, zstd::encode_all(tar, 3).unwrap()).unwrap();
    check_archive(&path).map(drop)
}

/// A layout whose only layer is `tar`, valid in everything else.
fn layout_of(dir: &Path, tar: &[u8]) -> std::path::PathBuf {
    let out = dir.join("layout");
    let blobs = out.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let put = |bytes: &[u8]| {
        fs::write(blobs.join(sha256(bytes)), bytes).unwrap();
        (format!("sha256:{}", sha256(bytes)), bytes.len())
    };
    let (layer, size) = put(&zstd::encode_all(tar, 3).unwrap());
    let config = json!({
        "architecture": "amd64", "os": "linux",
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", sha256(tar))] },
    });
    let (config, config_size) = put(config.to_string().as_bytes());
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": { "mediaType": "application/vnd.oci.image.config.v1+json", "digest": config, "size": config_size },
        "layers": [{ "mediaType": "application/vnd.oci.image.layer.v1.tar+zstd", "digest": layer, "size": size }],
    });
    let (manifest, manifest_size) = put(manifest.to_string().as_bytes());
    let index = json!({ "schemaVersion": 2, "manifests": [
        { "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": manifest, "size": manifest_size },
    ] });
    fs::write(out.join("index.json"), index.to_string()).unwrap();
    fs::write(out.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
    out
}

#[test]
fn paths_and_links_that_leave_the_root() {
    let dir = tempfile::tempdir().unwrap();
    let file = tar::EntryType::Regular;
    for name in ["../evil", "a/../../evil", ".."] {
        let tar = tar_of(name, file, "", b"x");
        assert!(archive_of(dir.path(), &tar).unwrap_err().to_string().contains("leaves the root"), "{name}");
        let e = check_layout(&layout_of(dir.path(), &tar)).unwrap_err();
        assert!(e.to_string().contains("leaves the root"), "{e}");
    }
    let hard = tar_of("a", tar::EntryType::Link, "../../etc/passwd", b"");
    assert!(check_layout(&layout_of(dir.path(), &hard)).unwrap_err().to_string().contains("leaves the root"));
    // An image may have symbolic links; an archive that people unpack in their home has none.
    let soft = tar_of("a", tar::EntryType::Symlink, "/etc", b"");
    check_layout(&layout_of(dir.path(), &soft)).unwrap();
    assert_eq!(archive_of(dir.path(), &soft).unwrap_err().code(), "E1219");
    assert!(archive_of(dir.path(), &tar_of("/etc/x", file, "", b"")).unwrap_err().to_string().contains("leaves"));
}

#[test]
fn sizes_that_lie() {
    let dir = tempfile::tempdir().unwrap();
    let mut tar = tar_of("big", tar::EntryType::Regular, "", b"x");
    // 2^63 - 1 bytes, by GNU's binary form, and a header that fits.
    tar[124..136].copy_from_slice(&[0x80, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    tar[148..156].fill(b' ');
    let sum: u32 = tar[..512].iter().map(|b| u32::from(*b)).sum();
    tar[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    assert!(archive_of(dir.path(), &tar).is_err());
    assert!(check_layout(&layout_of(dir.path(), &tar)).is_err());
    // A name of 70 KB of zeros, which compress to nothing.
    let long = tar_of("././@LongLink", tar::EntryType::GNULongName, "", &vec![b'a'; 70_000]);
    assert!(archive_of(dir.path(), &long).unwrap_err().to_string().contains("name that is too long"));
}

#[test]
fn a_bomb_is_read_in_small_memory_and_refused() {
    let dir = tempfile::tempdir().unwrap();
    // 1 GiB of zeros in some 30 KB, as one file that no SBOM names.
    let mut header = tar::Header::new_ustar();
    header.set_path("zeros").unwrap();
    header.set_size(1 << 30);
    header.set_cksum();
    let mut encoder = zstd::Encoder::new(fs::File::create(dir.path().join("x.tar.zst")).unwrap(), 1).unwrap();
    encoder.write_all(header.as_bytes()).unwrap();
    for _ in 0..1 << 10 {
        encoder.write_all(&[0; 1 << 20]).unwrap();
    }
    encoder.write_all(&[0; 1024]).unwrap();
    encoder.finish().unwrap();
    assert_eq!(check_archive(&dir.path().join("x.tar.zst")).unwrap_err().code(), "E1219");
}

#[test]
fn damage_anywhere_in_a_layout_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("image");
    oci(&plan(&artifact(dir.path(), &["cuda"])), &out).unwrap();
    let files: Vec<_> = fs::read_dir(out.join("blobs/sha256")).unwrap().map(|e| e.unwrap().path()).collect();
    for path in files.iter().chain([&out.join("index.json"), &out.join("oci-layout")]) {
        let good = fs::read(path).unwrap();
        let mut flipped = good.clone();
        flipped[good.len() / 2] ^= 1;
        for bad in [&good[..good.len() - 1], &flipped, b""] {
            fs::write(path, bad).unwrap();
            assert!(check_layout(&out).is_err(), "{}", path.display());
        }
        fs::remove_file(path).unwrap();
        assert!(check_layout(&out).is_err(), "{}", path.display());
        // A blob that is a link to somewhere else is no blob.
        let elsewhere = dir.path().join("elsewhere");
        fs::write(&elsewhere, &good).unwrap();
        if path.starts_with(out.join("blobs")) {
            std::os::unix::fs::symlink(&elsewhere, path).unwrap();
            assert!(check_layout(&out).is_err(), "{}", path.display());
            fs::remove_file(path).unwrap();
        }
        fs::write(path, good).unwrap();
    }
    check_layout(&out).unwrap();
}

#[test]
fn damage_anywhere_in_an_archive_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("x.tar.zst");
    let plan = zmlc_package::ArchivePlan {
        runtime: crate::common::RUNTIME.into(),
        artifact: artifact(dir.path(), &["cuda"]),
        weights: zmlc_package::Weights::External,
        vendor: vec![],
        licenses: vec![],
        mtime: 0,
    };
    zmlc_package::archive(&plan, &out).unwrap();
    let good = fs::read(&out).unwrap();
    for at in (0..good.len()).step_by(good.len() / 40) {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        fs::write(&out, bad).unwrap();
        assert!(check_archive(&out).is_err(), "byte {at}");
        fs::write(&out, &good[..at]).unwrap();
        assert!(check_archive(&out).is_err(), "cut at {at}");
    }
    // The same files with one changed, well-formed in all else.
    let mut tar = zstd::decode_all(&good[..]).unwrap();
    let at = tar.windows(8).position(|w| w == b"ZMLMODEL").unwrap();
    tar[at + 70] ^= 1;
    assert!(archive_of(dir.path(), &tar).unwrap_err().to_string().contains("the SBOM says"));
}

#[test]
fn what_is_no_package_is_said_to_be_none() {
    let dir = tempfile::tempdir().unwrap();
    let (text, layout) = (dir.path().join("model.toml"), dir.path().join("image"));
    fs::write(&text, "[model]").unwrap();
    let said = |e: PackageError| (e.code(), e.to_string());
    let (code, message) = said(check_archive(&text).unwrap_err());
    assert!(code == "E1219" && message.contains("neither an artifact, NAME.zml, nor an archive"), "{message}");
    let (code, message) = said(check_layout(dir.path()).unwrap_err());
    assert!(code == "E1212" && message.contains("no file `oci-layout`"), "{message}");
    let tar = tar_of("a", tar::EntryType::Regular, "", b"x");
    assert!(archive_of(dir.path(), &tar).unwrap_err().to_string().contains("it has no sbom.cdx.json"));
    let report = oci(&plan(&artifact(dir.path(), &["cuda"])), &layout).unwrap();
    fs::remove_file(layout.join("blobs").join(report.layers[0].digest.replace(':', "/"))).unwrap();
    let (code, message) = said(check_layout(&layout).unwrap_err());
    assert!(code == "E1212" && message.ends_with("is not in it"), "{message}");
}
