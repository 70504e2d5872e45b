//! `zmlc vendor`, a package with its libraries, and `verify --rebuild`, as a user calls them.

use std::{fs, path::Path, process::Command};

fn zmlc(dir: &Path, args: &[&str]) -> (i32, String, String) {
    let mut c = Command::new(env!("CARGO_BIN_EXE_zmlc"));
    c.args(args).current_dir(dir).env("ZMLC_CACHE", dir.join("cache"));
    // Wheels come from this folder and no index.
    c.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", dir.join("wheels"));
    let o = c.output().unwrap();
    let text = |b: Vec<u8>| String::from_utf8(b).unwrap();
    (o.status.code().unwrap_or(-1), text(o.stdout), text(o.stderr))
}

/// A wheel with one library, made by Python's own zip writer. Nothing without a C compiler or pip.
fn wheel(dir: &Path, version: &str) -> bool {
    let script = format!(
        "import zipfile, subprocess, os\n\
         os.makedirs('wheels', exist_ok=True)\n\
         open('x.c', 'w').write('int v(void) {{ return {}; }}')\n\
         subprocess.check_call(['cc', '-shared', '-fPIC', '-Wl,--no-as-needed', '-Wl,-soname,libx.so.1', '-o', 'libx.so.1', 'x.c'])\n\
         z = zipfile.ZipFile('wheels/zml_x-{version}-py3-none-any.whl', 'w')\n\
         z.write('libx.so.1', 'x/lib/libx.so.1')\n\
         d = 'zml_x-{version}.dist-info/'\n\
         z.writestr(d + 'METADATA', 'Metadata-Version: 2.1\\nName: zml-x\\nVersion: {version}\\nLicense: MIT\\n')\n\
         z.writestr(d + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
         z.writestr(d + 'RECORD', '')\n\
         z.close()\n",
        version.replace('.', "")
    );
    let made = Command::new("python3").args(["-c", &script]).current_dir(dir).output();
    let pip = Command::new("python3").args(["-m", "pip", "--version"]).output();
    let there = made.is_ok_and(|o| o.status.success()) && pip.is_ok_and(|o| o.status.success());
    if !there {
        eprintln!("skipped: no C compiler, or no pip");
    }
    there
}

fn model(dir: &Path) {
    let program = "module @m { func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n\
        %y = stablehlo.add %x, %x : tensor<4xf32>\n  return %y : tensor<4xf32>\n} }\n";
    fs::write(dir.join("m.mlir"), program).unwrap();
    let text = "# A model.\n[model]\nname = \"m\"\n\n[[entry]]\nname = \"main\"\nprogram = \"m.mlir\" # kept\n";
    fs::write(dir.join("model.toml"), text).unwrap();
}

#[test]
fn add_list_update_and_package() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    model(dir);
    if !wheel(dir, "1.0") {
        return;
    }
    let (code, out, err) = zmlc(dir, &["vendor", "add", "model.toml", "pypi:zml-x", "--library", "libx"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("zml-x 1.0 "), "{out}");
    let text = fs::read_to_string(dir.join("model.toml")).unwrap();
    for part in ["# A model.", "# kept", "[package.vendor.cuda]\nfrom = [\"pypi:zml-x\"]\nlibraries = [\"libx\"]"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let lock = fs::read_to_string(dir.join("zmlc.lock")).unwrap();
    assert!(lock.contains("version = \"1.0\"") && lock.contains("zml_x-1.0-py3-none-any.whl"), "{lock}");
    let (code, out, err) = zmlc(dir, &["vendor", "list", "model.toml"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("zml-x 1.0, MIT: may be changed") && out.contains("+ libx.so.1"), "{out}");
    assert!(out.contains("left to the base system: libc.so.6"), "{out}");

    let before = fs::read_to_string(dir.join("model.toml")).unwrap();
    let (code, _, err) = zmlc(dir, &["vendor", "add", "model.toml", "pypi:zml-x", "--library", "liby"]);
    assert!(code == 1 && err.contains("E1225") && err.contains("`liby`, needed by --library"), "{err}");
    assert_eq!(fs::read_to_string(dir.join("model.toml")).unwrap(), before);

    // A newer wheel changes nothing until it is asked for.
    assert!(wheel(dir, "2.0"));
    fs::remove_dir_all(dir.join("cache")).unwrap();
    assert!(zmlc(dir, &["vendor", "list", "model.toml"]).1.contains("zml-x 1.0,"));
    let (code, out, err) = zmlc(dir, &["vendor", "update", "model.toml"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("zml-x 2.0 ") && out.contains("(was 1.0)"), "{out}");

    let (code, _, err) = zmlc(dir, &["build", "model.toml", "--target", "cuda", "-o", "."]);
    assert_eq!(code, 0, "{err}");
    let package = ["package", "m.zml", "--model", "model.toml", "--archive", "m.tar.zst", "--runtime", "/bin/echo"];
    let (code, _, err) = zmlc(dir, &package);
    assert_eq!(code, 0, "{err}");
    let (code, out, _) = zmlc(dir, &["verify", "m.tar.zst"]);
    assert!(code == 0 && out.contains("  lib/libx.so.1\n"), "{out}");

    // What is not the locked bytes is refused, and a source that nobody has is named.
    let lock = fs::read_to_string(dir.join("zmlc.lock")).unwrap();
    fs::write(dir.join("zmlc.lock"), lock.replace("sha256 = \"", "sha256 = \"0000")).unwrap();
    let (code, _, err) = zmlc(dir, &package);
    assert!(code == 1 && err.contains("E1224"), "{err}");
    let before = fs::read_to_string(dir.join("model.toml")).unwrap();
    let (code, _, err) = zmlc(dir, &["vendor", "add", "model.toml", "pypi:zml-absent"]);
    assert!(code == 1 && err.contains("E1224"), "{err}");
    fs::remove_file(dir.join("zmlc.lock")).unwrap();
    let (code, _, err) = zmlc(dir, &package);
    assert!(code == 1 && err.contains("E1221") && err.contains("zmlc vendor update"), "{err}");
    let (code, _, err) = zmlc(dir, &["vendor", "add", "model.toml", "pypi:zml-absent"]);
    assert!(code == 1 && err.contains("E1223") && err.contains("zml-absent"), "{err}");
    assert_eq!(fs::read_to_string(dir.join("model.toml")).unwrap(), before);
    assert!(!dir.join("zmlc.lock").exists());
}

/// Such a package runs on no NVIDIA GPU.
#[test]
fn a_library_that_is_called_and_not_packed_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    model(dir);
    let program = "module @m { func.func @main(%x: tensor<16x16xf32>) -> tensor<16x16xf32> {\n\
        %y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : \
        (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>\n  return %y : tensor<16x16xf32>\n} }\n";
    fs::write(dir.join("m.mlir"), program).unwrap();
    let text = fs::read_to_string(dir.join("model.toml")).unwrap();
    fs::write(dir.join("model.toml"), text + "\n[targets.cuda]\ngemm = \"library\"\n").unwrap();
    let (code, out, err) = zmlc(dir, &["vendor", "list", "model.toml"]);
    assert!(code == 0 && out.contains("missing: libcublasLt, needed by `gemm = \"library\"`"), "{out}{err}");
    assert_eq!(zmlc(dir, &["build", "model.toml", "--target", "vulkan,cuda:sm_90a", "-o", "."]).0, 0);
    let package = ["package", "m.zml", "--runtime", "/bin/echo"];
    for more in [&["--archive", "m.tar.zst"][..], &["--archive", "m.tar.zst", "--model", "model.toml"]] {
        let (code, _, err) = zmlc(dir, &[&package[..], more].concat());
        assert!(code == 0 && err.contains("warning: the artifact calls libcublasLt on cuda"), "{err}");
    }
    let (code, out, _) =
        zmlc(dir, &[&package[..], &["--archive", "m.tar.zst", "--oci", "image", "--message-format", "json"]].concat());
    let said: Vec<serde_json::Value> = out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!((code, said.len()), (0, 2), "{out}");
    for result in said {
        let warnings = result["warnings"].as_array().unwrap();
        assert!(warnings.iter().any(|w| w.as_str().unwrap().starts_with("the artifact calls libcublasLt")), "{result}");
    }
    fs::remove_dir_all(dir.join("image")).unwrap();
    let (code, _, err) = zmlc(dir, &[&package[..], &["--oci", "image", "--base", "ghcr.io/owner/base:1"]].concat());
    assert!(code == 1 && err.contains("docker://REGISTRY/NAME:TAG"), "{err}");
    assert!(!dir.join("image").exists());
}

#[test]
fn rebuild_says_what_differs() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    model(dir);
    assert_eq!(zmlc(dir, &["build", "model.toml", "--target", "vulkan,cuda:generic", "-o", "."]).0, 0);
    let (code, out, err) = zmlc(dir, &["verify", "m.zml", "--rebuild", "model.toml"]);
    assert!(code == 0 && out.trim_end().ends_with("ok, and built again"), "{out}{err}");
    let program = fs::read_to_string(dir.join("m.mlir")).unwrap();
    fs::write(dir.join("m.mlir"), program.replace("stablehlo.add", "stablehlo.multiply")).unwrap();
    let (code, _, err) = zmlc(dir, &["verify", "m.zml", "--rebuild", "model.toml"]);
    assert!(code == 1 && err.contains("E1102") && err.contains("the code for cuda:generic is other code"), "{err}");
    assert_eq!(zmlc(dir, &["verify", dir.to_str().unwrap(), "--rebuild", "model.toml"]).0, 2);
}
