//! Vendor libraries: sources that are honest, and sources that are not.

use crate::common::{RUNTIME, artifact, plan};
use serde_json::Value;
use std::{
    fmt::Write as _,
    fs,
    io::{Cursor, Read, Write},
    path::{Path, PathBuf},
    process::Command,
};
use zip::{ZipWriter, write::SimpleFileOptions};
use zmlc_package::{
    ArchivePlan, PackageError, Weights, archive, check_archive, check_layout, oci,
    vendor::{Cache, Lock, Root, Selection, Source, Unpacked, closure, locate, prepare, resolve, unpack},
};

const BSD: &str = "Redistribution and use in source and binary forms, with or without modification, are permitted.";
const EULA: &str = "You may not modify the software.";

/// A fat binary; each element is architecture and length of its cubin.
fn fatbin(elements: &[(u32, usize)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (arch, content) in elements {
        let mut header = [0u8; 64];
        header[0] = 2;
        header[4] = 64;
        header[8..16].copy_from_slice(&(*content as u64).to_le_bytes());
        header[28..32].copy_from_slice(&arch.to_le_bytes());
        body.extend(header);
        body.extend(vec![*arch as u8; *content]);
    }
    let size = (body.len() as u64).to_le_bytes();
    [&0xBA55_ED50u32.to_le_bytes()[..], &[1, 0, 16, 0], &size, &body].concat()
}

/// A shared library of this soname, with GPU code, that needs `needs`. Nothing if there is no C compiler.
fn library(dir: &Path, soname: &str, needs: &[&str]) -> Option<Vec<u8>> {
    let (source, fat) = (dir.join("l.c"), dir.join("fat"));
    fs::write(&fat, fatbin(&[(80, 400_000), (90, 80_000), (100, 300_000)])).unwrap();
    let text = format!(
        "__asm__(\".section .nv_fatbin,\\\"a\\\"\\n.balign 8\\n.incbin \\\"{}\\\"\\n.previous\\n\");\nint {}(void) {{ return 1; }}",
        fat.display(),
        soname.split('.').next().unwrap().replace('-', "_")
    );
    fs::write(&source, text).unwrap();
    let out = dir.join(soname);
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-Wl,--no-as-needed"]).arg(format!("-Wl,-soname,{soname}")).arg("-o").arg(&out);
    cc.arg(&source).args(needs.iter().map(|n| dir.join(n)));
    match cc.output() {
        Ok(o) => assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr)),
        Err(_) => {
            eprintln!("skipped: there is no C compiler");
            return None;
        }
    }
    Some(fs::read(out).unwrap())
}

fn zip_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// `NAME-1.0.whl` with libraries that name each other, in the order given.
fn wheel(dir: &Path, name: &str, licence: &str, libraries: &[(&str, &[&str])]) -> Option<PathBuf> {
    let metadata =
        format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nLicense: {name} licence\n\nText\nName: no\n");
    let info = format!("{name}-1.0.dist-info");
    let mut files = vec![];
    for (soname, needs) in libraries {
        files.push((format!("{name}/lib/{soname}"), library(dir, soname, needs)?));
    }
    files.push((format!("{info}/METADATA"), metadata.into_bytes()));
    files.push((format!("{info}/licenses/License.txt"), licence.into()));
    let files: Vec<(&str, &[u8])> = files.iter().map(|(n, b)| (n.as_str(), b.as_slice())).collect();
    let path = dir.join(format!("{name}-1.0-py3-none-any.whl"));
    fs::write(&path, zip_of(&files)).unwrap();
    Some(path)
}

fn ar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        out.extend(format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, "100644", bytes.len()).as_bytes());
        out.extend(*bytes);
        if bytes.len() % 2 == 1 {
            out.push(b'\n');
        }
    }
    out
}

fn tar_of(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in entries {
        let mut header = tar::Header::new_gnu();
        // `set_path` would refuse what is to be tested.
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

fn deb(path: &Path, data: &[u8], ending: &str) {
    let control = tar_of(&[("./control", b"Package: libx\nVersion: 2.0-1\nDescription: x\n")]);
    let member = format!("data.tar{ending}");
    fs::write(path, ar(&[("debian-binary", b"2.0\n"), ("control.tar", &control), (&member, data)])).unwrap();
}

fn sha256(path: &Path) -> String {
    let out = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(out.stdout).unwrap()[..64].to_string()
}

fn opened(path: &Path, cache: &Cache) -> Result<Unpacked, PackageError> {
    let digest = if path.is_file() { sha256(path) } else { "0".repeat(64) };
    unpack(path, &digest, cache)
}

fn root(name: &str) -> Root {
    Root { name: name.into(), asked_by: "a test".into() }
}

fn selection<'a>(libraries: &'a [Root], archs: &'a [String], trim_proprietary: bool) -> Selection<'a> {
    Selection { target: "cuda", libraries, architecture: "amd64", archs, trim: true, trim_proprietary }
}

/// Paths below a folder, sorted.
fn tree(dir: &Path) -> Vec<String> {
    let mut all = vec![];
    for e in fs::read_dir(dir).into_iter().flatten() {
        let path = e.unwrap().path();
        all.push(path.display().to_string());
        if path.is_dir() {
            all.extend(tree(&path));
        }
    }
    all.sort();
    all
}

#[test]
fn from_wheel_to_archive_and_image() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let cache = Cache::at(dir.join("cache"));
    let libraries: &[(&str, &[&str])] =
        &[("libinner.so.3", &[]), ("libouter.so.2", &["libinner.so.3"]), ("libother.so", &[])];
    let Some(wheel) = wheel(dir, "vendor_x", BSD, libraries) else { return };
    let source = opened(&wheel, &cache).unwrap();
    assert_eq!((source.name.as_str(), source.version.as_str()), ("vendor_x", "1.0"));
    assert!(source.licence.may_be_changed && source.libraries.len() == 3);
    let (roots, archs) = ([root("libouter")], ["sm_90a".to_string()]);
    let sources = [source];
    let made = prepare(&sources, &selection(&roots, &archs, false), &cache).unwrap();
    let names: Vec<&str> = made.files.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["libinner.so.3", "libouter.so.2"]);
    let outer = &made.files[1];
    assert!(outer.changes.runpath && !made.files[0].changes.runpath && !outer.against_licence);
    let cut = outer.changes.cut.as_ref().unwrap();
    assert_eq!((cut.kept, cut.dropped), (1, 2));
    assert!(outer.bytes + 600_000 < outer.original_bytes, "{} of {}", outer.bytes, outer.original_bytes);
    assert!(made.system.contains("libc.so.6") && made.notes.is_empty());

    let artifact = artifact(dir, &["cuda"]);
    let out = dir.join("x.tar.zst");
    let plan_of = |vendor| ArchivePlan {
        runtime: RUNTIME.into(),
        artifact: artifact.clone(),
        weights: Weights::External,
        vendor,
        licenses: vec![],
        mtime: 0,
    };
    let report = archive(&plan_of(vec![made.clone()]), &out).unwrap();
    for f in
        ["lib/libinner.so.3", "lib/libouter.so.2", "LICENSES/vendor_x-1.0/vendor_x-1.0.dist-info-licenses-License.txt"]
    {
        assert!(report.files.iter().any(|x| x == f), "{:?}", report.files);
    }
    check_archive(&out).unwrap();
    let mut sbom = Vec::new();
    let raw = zstd::decode_all(fs::File::open(&out).unwrap()).unwrap();
    for e in tar::Archive::new(&raw[..]).entries().unwrap() {
        let mut e = e.unwrap();
        if e.path().unwrap().ends_with("sbom.cdx.json") {
            e.read_to_end(&mut sbom).unwrap();
        }
    }
    let sbom: Value = serde_json::from_slice(&sbom).unwrap();
    let component =
        sbom["components"].as_array().unwrap().iter().find(|c| c["bom-ref"] == "lib/libouter.so.2").unwrap();
    assert_eq!(component["pedigree"]["ancestors"][0]["hashes"][0]["content"], outer.original_sha256);
    let notes = component["pedigree"]["notes"].as_str().unwrap();
    assert!(
        notes.contains("$ORIGIN") && notes.contains("cut to sm_90a") && notes.contains("1 parts kept, 2 left out"),
        "{notes}"
    );

    let mut image = plan(&artifact);
    image.vendor = vec![made.clone()];
    let layout = dir.join("image");
    let report = oci(&image, &layout).unwrap();
    let titles: Vec<&str> = report.layers.iter().map(|l| l.title.as_str()).collect();
    assert_eq!(titles, ["base", "runtime", "cuda libraries", "model"]);
    check_layout(&layout).unwrap();

    // Again: nothing is made anew, and the bytes are the same.
    let again = prepare(&sources, &selection(&roots, &archs, false), &cache).unwrap();
    assert_eq!((&again.files[1].path, &again.files[1].sha256), (&outer.path, &outer.sha256));
    let elsewhere = Cache::at(dir.join("cache2"));
    let fresh = prepare(&[opened(&wheel, &elsewhere).unwrap()], &selection(&roots, &archs, false), &elsewhere).unwrap();
    assert_eq!(fresh.files[1].sha256, outer.sha256);
    // The cache is not trusted.
    let mut bytes = fs::read(&outer.path).unwrap();
    bytes[5000] ^= 1;
    fs::write(&outer.path, bytes).unwrap();
    assert_eq!(prepare(&sources, &selection(&roots, &archs, false), &cache).unwrap_err().code(), "E1222");
}

#[test]
fn what_a_licence_forbids_is_done_only_on_demand() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let cache = Cache::at(dir.join("cache"));
    let libraries: &[(&str, &[&str])] = &[("libinner.so.3", &[]), ("libouter.so.2", &["libinner.so.3"])];
    let Some(wheel) = wheel(dir, "closed", EULA, libraries) else { return };
    let sources = [opened(&wheel, &cache).unwrap()];
    let (roots, archs) = ([root("libouter.so.2")], ["sm_90a".to_string()]);
    let whole = prepare(&sources, &selection(&roots, &archs, false), &cache).unwrap();
    for f in &whole.files {
        assert!(f.changes.is_none() && f.sha256 == f.original_sha256 && !f.against_licence);
    }
    let notes = whole.notes.join("\n");
    assert!(notes.contains("libinner.so.3 goes in whole") && notes.contains("LD_LIBRARY_PATH"), "{notes}");
    let cut = prepare(&sources, &selection(&roots, &archs, true), &cache).unwrap();
    assert!(cut.files.iter().all(|f| f.against_licence && f.bytes < f.original_bytes));
    assert!(cut.notes.iter().all(|n| n.contains("although closed licence forbids it")), "{:?}", cut.notes);
    // A generic profile runs on newer GPUs too, so their code stays.
    let newer = ["sm_90+".to_string()];
    let open = prepare(&sources, &selection(&roots, &newer, true), &cache).unwrap();
    assert_eq!(open.files[0].changes.cut.as_ref().map(|c| (c.kept, c.dropped)), Some((2, 1)));
    let none = ["sm_75".to_string()];
    let e = prepare(&sources, &selection(&roots, &none, true), &cache).unwrap_err();
    assert!(e.code() == "E1226" && e.to_string().contains("nothing in it runs on sm_75"), "{e}");
}

#[test]
fn libraries_that_no_elf_names_and_those_that_are_missing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let cache = Cache::at(dir.join("cache"));
    let names = ["libcudnn.so.9", "libcudnn_graph.so.9", "libcudnn_ops.so.9", "libcudnn_cnn.so.9", "libcudnn_adv.so.9"];
    let libraries: Vec<(&str, &[&str])> = names.iter().map(|n| (*n, &[][..])).collect();
    let Some(wheel) = wheel(dir, "cudnn", EULA, &libraries) else { return };
    let sources = [opened(&wheel, &cache).unwrap()];
    let roots = ["libcudnn", "libnowhere.so.1", "libcuda.so.1"].map(root);
    let found = closure(&sources, &roots, "amd64");
    assert_eq!(found.libraries.keys().copied().collect::<Vec<_>>().len(), 5);
    let missing: Vec<&str> = found.missing.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(missing, ["libcublasLt", "libcudnn_engines_precompiled", "libcudnn_heuristic", "libnowhere.so.1"]);
    assert!(found.driver.contains("libcuda.so.1"));
    let e = prepare(&sources, &selection(&roots, &[], false), &cache).unwrap_err();
    assert!(e.code() == "E1225" && e.to_string().contains("`libcublasLt`, needed by libcudnn_adv.so.9"), "{e}");
    assert!(closure(&sources, &roots[..1], "arm64").libraries.is_empty());
    let of_the_system = ["libz.so.1", "libc.so.6"].map(root);
    let made = prepare(&sources, &selection(&of_the_system, &[], false), &cache).unwrap();
    assert_eq!(made.needs_installed().collect::<Vec<_>>(), ["libz.so.1"]);
}

#[test]
fn debs_and_folders() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let cache = Cache::at(dir.join("cache"));
    let Some(elf) = library(dir, "libx.so.1", &[]) else { return };
    let data = tar_of(&[("./usr/lib/libx.so.1.0", &elf), ("./usr/share/doc/libx/copyright", BSD.as_bytes())]);
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(&data).unwrap();
    for (ending, bytes) in
        [("", data.clone()), (".zst", zstd::encode_all(&data[..], 1).unwrap()), (".xz", xz.finish().unwrap())]
    {
        let path = dir.join(format!("x{ending}.deb"));
        deb(&path, &bytes, ending);
        let found = opened(&path, &cache).unwrap();
        assert_eq!((found.name.as_str(), found.version.as_str()), ("libx", "2.0-1"));
        assert!(found.licence.may_be_changed && found.libraries[0].name == "libx.so.1", "{ending}");
    }
    // Folders: a library is known by its soname, links inside are as good as absent, times do not count.
    let folder = dir.join("rocm");
    fs::create_dir_all(folder.join("lib/hipblaslt/library")).unwrap();
    fs::write(folder.join("lib/libx.so.1.2.3"), &elf).unwrap();
    std::os::unix::fs::symlink("libx.so.1.2.3", folder.join("lib/libx.so")).unwrap();
    fs::write(folder.join("lib/hipblaslt/library/a_gfx942.dat"), b"k").unwrap();
    let from: Source = "rocm".parse().unwrap();
    let first = resolve(&from, dir, "amd64", &cache).unwrap();
    fs::File::open(folder.join("lib/libx.so.1.2.3")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(resolve(&from, dir, "amd64", &cache).unwrap(), first);
    let found = unpack(&folder, &first.sha256, &cache).unwrap();
    assert_eq!(
        (found.libraries[0].name.as_str(), found.data[0].name.as_str()),
        ("libx.so.1", "hipblaslt/library/a_gfx942.dat")
    );

    // The lock decides.
    let (mut lock, path) = (Lock::default(), dir.join("zmlc.lock"));
    assert_eq!(locate(&from, &lock, dir, "amd64", &cache).unwrap_err().code(), "E1221");
    lock.put(first);
    lock.write(&path).unwrap();
    let lock = Lock::read(&path).unwrap();
    locate(&from, &lock, dir, "amd64", &cache).unwrap();
    fs::write(folder.join("lib/hipblaslt/library/a_gfx942.dat"), b"other").unwrap();
    assert_eq!(locate(&from, &lock, dir, "amd64", &cache).unwrap_err().code(), "E1222");
    for bad in
        ["version = 2", "x", "version = 1\n[[source]]\nfrom = \"a\"\nname = \"a\"\nfile = \"../a\"\nsha256 = \"\""]
    {
        fs::write(&path, bad).unwrap();
        assert_eq!(Lock::read(&path).unwrap_err().code(), "E1224", "{bad}");
    }
}

#[test]
fn hostile_sources_are_refused_by_name_and_write_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let inside = dir.join("in/side");
    fs::create_dir_all(&inside).unwrap();
    let cache = Cache::at(inside.join("cache"));
    let refuse = |file: &str, bytes: &[u8], why: &str| {
        let path = dir.join(file);
        fs::write(&path, bytes).unwrap();
        let before = tree(dir).into_iter().filter(|p| !p.contains("/cache")).collect::<Vec<_>>();
        let e = opened(&path, &cache).unwrap_err();
        assert!(e.code() == "E1220" && e.to_string().contains(why), "{file}: {e}");
        let mut left = String::new();
        for p in tree(&inside.join("cache")).iter().filter(|p| !p.ends_with("unpacked")) {
            let _ = writeln!(left, "{p}");
        }
        assert_eq!(left, "", "{file}");
        assert_eq!(tree(dir).into_iter().filter(|p| !p.contains("/cache")).collect::<Vec<_>>(), before);
    };
    // Writers refuse such names, so they are put in afterwards.
    let renamed = |to: &[u8]| {
        let name = "x".repeat(to.len());
        let mut zip = zip_of(&[(&name, b"\x7fELF")]);
        let places: Vec<usize> =
            zip.windows(name.len()).enumerate().filter(|(_, w)| *w == name.as_bytes()).map(|p| p.0).collect();
        assert_eq!(places.len(), 2);
        for at in places {
            zip[at..at + to.len()].copy_from_slice(to);
        }
        zip
    };
    refuse("a.whl", &renamed(b"../../libevil.so"), "leaves its folder");
    refuse("b.whl", &renamed(b"/etc/libevil.so"), "leaves its folder");
    refuse("c.whl", &renamed(b"..\\libevil.so"), "leaves its folder");
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.add_symlink("lib/libevil.so", "/etc/passwd", SimpleFileOptions::default()).unwrap();
    refuse("d.whl", &zip.finish().unwrap().into_inner(), "is a link");
    refuse("e.whl", b"PK\x03\x04 not really", "not a wheel");
    // 512 MiB of zeros in half a megabyte.
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file("lib/libbomb.so", SimpleFileOptions::default()).unwrap();
    for _ in 0..512 {
        zip.write_all(&[0; 1 << 20]).unwrap();
    }
    refuse("f.whl", &zip.finish().unwrap().into_inner(), "unpacks to more than it can hold");
    let bomb = vec![0; 512 << 20];
    let small = zstd::encode_all(&tar_of(&[("./usr/lib/libbomb.so", &bomb)])[..], 1).unwrap();
    drop(bomb);
    let members: &[(&str, &[u8])] = &[("debian-binary", b"2.0\n"), ("data.tar.zst", &small)];
    refuse("g.deb", &ar(members), "unpacks to more than it can hold");
    let climbing = tar_of(&[("../../libevil.so", b"\x7fELF")]);
    refuse("h.deb", &ar(&[("debian-binary", b"2.0\n"), ("data.tar", &climbing)]), "leaves the root");
    refuse("i.deb", b"!<arch>\nshort", "ends too early");
    refuse("j.deb", &ar(&[("debian-binary", b"2.0\n")]), "no data.tar");
    refuse("k.zip", b"x", "neither a wheel");
    let folder = dir.join("folder");
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink("/etc", folder.join("libx")).unwrap();
    let e = opened(&folder, &cache).unwrap_err();
    assert!(e.to_string().contains("link that leads out"), "{e}");
}
