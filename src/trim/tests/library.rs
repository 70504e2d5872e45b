//! A real shared library, made by the C compiler, with fat binaries in it: trimmed, loaded, and asked.

use std::{fmt::Write, fs, path::Path, process::Command};
use zml_trim::{Arch, TrimError, trim};

/// A container as the driver reads it; each element is kind, architecture and length of its content.
fn container(elements: &[(u16, u32, usize)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (kind, arch, content) in elements {
        let mut header = [0u8; 64];
        header[..2].copy_from_slice(&kind.to_le_bytes());
        header[4..8].copy_from_slice(&64u32.to_le_bytes());
        header[8..16].copy_from_slice(&(*content as u64).to_le_bytes());
        header[28..32].copy_from_slice(&arch.to_le_bytes());
        body.extend(header);
        body.extend(vec![*arch as u8; *content]);
    }
    let mut c = 0xBA55_ED50u32.to_le_bytes().to_vec();
    c.extend([1, 0, 16, 0]);
    c.extend((body.len() as u64).to_le_bytes());
    c.extend(body);
    c
}

/// Builds `name` from C and says whether there is a compiler.
fn compile(dir: &Path, name: &str, source: &str, flags: &[&str]) -> bool {
    let file = dir.join(format!("{name}.c"));
    fs::write(&file, source).unwrap();
    let Ok(out) = Command::new("cc").arg(&file).arg("-o").arg(dir.join(name)).args(flags).output() else {
        eprintln!("skipped: there is no C compiler");
        return false;
    };
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    true
}

/// `lib.so` with three containers, `ask`, which loads a library and prints what it finds, and the containers.
fn library(dir: &Path) -> Option<Vec<Vec<u8>>> {
    let containers = vec![
        container(&[(2, 80, 300_000), (2, 90, 70_000), (2, 100, 500_000)]),
        container(&[(1, 70, 4_000), (2, 80, 200_000)]),
        container(&[(2, 100, 1_000_000)]),
    ];
    let mut source = String::new();
    for (i, c) in containers.iter().enumerate() {
        let path = dir.join(format!("c{i}"));
        fs::write(&path, c).unwrap();
        // Reached through a pointer that the loader relocates, as the driver reaches them.
        let _ = write!(
            source,
            "__asm__(\".section .nv_fatbin,\\\"a\\\"\\n.balign 8\\nc{i}: .incbin \\\"{}\\\"\\n.previous\\n\");
             extern const unsigned char c{i}[] __attribute__((visibility(\"hidden\")));\n",
            path.display()
        );
    }
    source.push_str(
        "const unsigned char *containers[] = { c0, c1, c2 };\nint after[4] = { 1, 2, 3, 4 };\nint bss[100000];\n",
    );
    source.push_str("int answer(void) { static _Thread_local int t = 38; return t + after[3] + bss[99999]; }\n");
    let ask = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        int main(int n, char **a) {
            void *l = dlopen(a[1], RTLD_NOW);
            if (!l) { puts(dlerror()); return 1; }
            const unsigned char **c = dlsym(l, "containers");
            printf("%d\n", ((int (*)(void)) dlsym(l, "answer"))());
            for (int i = 0; i < 3; i++) {
                unsigned long size = *(unsigned long *)(c[i] + 8), sum = 0;
                for (unsigned long j = 0; j < size; j++) sum += c[i][16 + j];
                printf("%lu %lu\n", size, sum);
            }
        }"#;
    (compile(dir, "lib.so", &source, &["-shared", "-fPIC", "-Wl,-z,noseparate-code"])
        && compile(dir, "ask", ask, &["-ldl"]))
    .then_some(containers)
}

fn ask(dir: &Path, library: &str) -> String {
    let out = Command::new(dir.join("ask")).arg(dir.join(library)).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
    String::from_utf8(out.stdout).unwrap()
}

/// What `ask` says of containers with these elements.
fn said(containers: &[Vec<u8>]) -> String {
    let mut text = "42\n".to_string();
    for c in containers {
        let _ = writeln!(text, "{} {}", c.len() - 16, c[16..].iter().map(|b| u64::from(*b)).sum::<u64>());
    }
    text
}

#[test]
fn a_trimmed_library_loads_and_holds_what_was_kept() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let Some(containers) = library(dir) else { return };
    assert_eq!(ask(dir, "lib.so"), said(&containers));
    let keep = ["sm_90a".parse::<Arch>().unwrap()];
    let report = trim(&dir.join("lib.so"), &dir.join("small.so"), &keep).unwrap();
    // PTX of the second container serves sm_90, nothing of the third does.
    let kept = [container(&[(2, 90, 70_000)]), container(&[(1, 70, 4_000)]), container(&[])];
    assert_eq!(ask(dir, "small.so"), said(&kept));
    assert_eq!((report.kept, report.dropped), (2, 4));
    let (before, after) =
        (fs::metadata(dir.join("lib.so")).unwrap().len(), fs::metadata(dir.join("small.so")).unwrap().len());
    assert_eq!((report.bytes_before, report.bytes_after), (before, after));
    assert!(before - after > 1_900_000, "{before} to {after}");
    let again = trim(&dir.join("lib.so"), &dir.join("again.so"), &keep).unwrap();
    assert_eq!(again, report);
    assert!(fs::read(dir.join("small.so")).unwrap() == fs::read(dir.join("again.so")).unwrap());
}

#[test]
fn what_cannot_be_trimmed_is_named_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (input, output) = (dir.join("in"), dir.join("out"));
    let keep = ["sm_90".parse::<Arch>().unwrap()];
    for bytes in [&b""[..], b"\x7fELF", b"text", &[0x7f; 200]] {
        fs::write(&input, bytes).unwrap();
        assert!(matches!(trim(&input, &output, &keep), Err(TrimError::NotElf { .. })));
    }
    assert!(matches!(trim(&input, &output, &[]), Err(TrimError::NoArch)));
    assert!(matches!(trim(&dir.join("none"), &output, &keep), Err(TrimError::Io { .. })));
    if library(dir).is_some() {
        let old = ["sm_75".parse::<Arch>().unwrap()];
        let e = trim(&dir.join("lib.so"), &output, &["sm_35".parse().unwrap()]).unwrap_err();
        assert!(e.to_string().ends_with("nothing in it runs on sm_35"), "{e}");
        let e = trim(&dir.join("lib.so"), &dir.join("absent/out"), &old).unwrap_err().to_string();
        assert!(e.starts_with(&format!("cannot write to {}: ", dir.join("absent").display())), "{e}");
        trim(&dir.join("lib.so"), &output, &old).unwrap();
        fs::remove_file(&output).unwrap();
        // Damage in the tables is an error or harmless, never a panic.
        let whole = fs::read(dir.join("lib.so")).unwrap();
        for at in (16..64).chain(64..64 + 8 * 56).chain(whole.len() - 1000..whole.len()).step_by(11) {
            let mut bad = whole.clone();
            bad[at] ^= 0xff;
            fs::write(&input, bad).unwrap();
            let _ = trim(&input, &output, &keep);
        }
    }
    assert!(fs::read_dir(dir).unwrap().all(|e| !e.unwrap().file_name().to_string_lossy().starts_with(".tmp")));
}
