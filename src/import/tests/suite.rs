//! StableHLO's public test suite, where the corpus has it: pass rates that must not fall.

mod common;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};
use zmlc_import::{
    Diagnostics, Severity, Source, difference,
    interp::{EvalError, eval},
    print, read, verify, without_chlo, write_artifact,
};

/// The unpacked suite: `ZMLC_SUITE`, or the corpus's archive unpacked into the build folder.
fn suite() -> Option<PathBuf> {
    if let Some(p) = std::env::var_os("ZMLC_SUITE") {
        return Some(p.into());
    }
    let archive = common::corpus()?.join("stablehlo-suite.tar.xz");
    let home = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let done = home.join("stablehlo-suite/suite");
    static UNPACK: std::sync::Once = std::sync::Once::new();
    UNPACK.call_once(|| {
        if !done.is_dir() {
            // Other processes do the same: the folder has its name once all is in it.
            let own = home.join(format!("stablehlo-suite.{}", std::process::id()));
            std::fs::create_dir_all(&own).expect("a folder for the suite");
            let unpacked = Command::new("tar").arg("xf").arg(&archive).arg("-C").arg(&own).status();
            if unpacked.is_ok_and(|s| s.success()) {
                let _ = std::fs::rename(&own, home.join("stablehlo-suite"));
            }
            let _ = std::fs::remove_dir_all(&own);
        }
    });
    if !done.is_dir() {
        eprintln!("skipped: the suite could not be unpacked");
        return None;
    }
    Some(done)
}

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut list: Vec<PathBuf> = std::fs::read_dir(dir)
        .expect("the suite is readable")
        .map(|e| e.expect("entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == extension))
        .collect();
    list.sort();
    list
}

/// Errors of a text, read and verified.
fn check(source: &Source) -> Diagnostics {
    match read(source) {
        Err(e) => e,
        Ok(p) => {
            let mut d = Diagnostics::from(verify(&p)).locate(source);
            d.list.retain(|d| d.severity == Severity::Error);
            d
        }
    }
}
fn load(path: &Path) -> Source {
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    Source::new(name, std::fs::read(path).expect("readable"))
}

#[test]
fn testdata_is_accepted() {
    let Some(suite) = suite() else { return };
    let mut bad = vec![];
    let list = files(&suite.join("testdata"), "mlir");
    for f in &list {
        let d = check(&load(f));
        if d.has_errors() {
            bad.push(d.to_string());
        }
    }
    eprintln!("testdata: {} of {} accepted", list.len() - bad.len(), list.len());
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn artifacts_equal_their_texts() {
    let Some(suite) = suite() else { return };
    let mut compared = 0;
    for f in files(&suite.join("vhlo"), "bc") {
        if f.ends_with("invalid_vhlo_future.mlir.bc") {
            let e = check(&load(&f)).to_string();
            assert!(e.contains("E0502"), "{e}");
            continue;
        }
        let text = read(load(&f.with_extension(""))).unwrap_or_else(|e| panic!("{e}"));
        let artifact = read(load(&f)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(difference(&text, &artifact), None, "{}", f.display());
        compared += 1;
    }
    assert!(compared > 30, "{compared}");
}

/// Whatever is accepted is printed and read back, and written as an artifact of the newest version and of an old one, to an
/// equal tree.
#[test]
fn what_is_accepted_is_written_and_read_back() {
    let Some(suite) = suite() else { return };
    let (mut printed, mut written, mut without) = (0, 0, BTreeMap::<String, u32>::new());
    for dir in ["testdata", "interpret", "math", "syntax"] {
        for f in files(&suite.join(dir), "mlir") {
            for c in cases(&f) {
                let Ok(p) = read(&c.source) else { continue };
                if Diagnostics::from(verify(&p)).has_errors() {
                    continue;
                }
                let again = read(Source::new("printed", print(&p))).unwrap_or_else(|e| panic!("{}\n{e}", c.name));
                assert_eq!(difference(&p, &again), None, "{}", c.name);
                printed += 1;
                // Some of what `syntax` has of collectives, an artifact has no place for.
                if dir == "syntax" {
                    continue;
                }
                for version in [(1, 20), (1, 0)] {
                    match write_artifact(&p, version) {
                        Ok(bytes) => {
                            let again =
                                read(Source::new("artifact", bytes)).unwrap_or_else(|e| panic!("{}\n{e}", c.name));
                            let p = without_chlo(&p).expect("written before");
                            assert_eq!(difference(&p, &again), None, "{} {version:?}", c.name);
                            written += 1;
                        }
                        Err(list) => {
                            *without.entry(list[0].message.clone()).or_default() += 1;
                        }
                    }
                }
            }
        }
    }
    eprintln!("{printed} printed, {written} artifacts, without a form: {without:#?}");
    assert!(printed > 2000, "{printed}");
}

/// A test program of several cases, with the lines that must be rejected.
struct Case {
    name: String,
    source: Source,
    /// Lines, from 1.
    marked: Vec<u32>,
}

fn cases(path: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(path).expect("UTF-8");
    let file = path.file_name().expect("a name").to_string_lossy().into_owned();
    let mut out = vec![];
    for (i, part) in text.split("// -----").enumerate() {
        let mut marked = vec![];
        for (n, line) in part.lines().enumerate() {
            let Some(at) = line.find("expected-error") else { continue };
            let rest = line[at + "expected-error".len()..].trim_start_matches("-re").trim_start();
            let offset = rest.strip_prefix('@').map_or(0, |r| {
                let r = r.trim_start();
                let number: String = r.chars().take_while(|c| c.is_ascii_digit() || matches!(c, '+' | '-')).collect();
                if r.starts_with("above") {
                    -1
                } else if r.starts_with("below") {
                    1
                } else {
                    number.parse::<i64>().unwrap_or(0)
                }
            });
            marked.push((n as i64 + 1 + offset) as u32);
        }
        // Dialects of MLIR's and of the suite's own test passes, and tensors without a rank, are no part of StableHLO.
        let foreign = [
            "hlo_test_",
            " arith.",
            " tensor.",
            " shape.",
            "interpreter.",
            "check.expect_serialized",
            "\"test.",
            "#sparse_tensor",
            "tensor<*x",
        ];
        if part.contains("func") && !foreign.iter().any(|f| part.contains(f)) {
            out.push(Case { name: format!("{file} #{i}"), source: Source::new(format!("{file}#{i}"), part), marked });
        }
    }
    out
}

/// Lines that a finding speaks of: that of the caret, and that on which its op starts.
fn lines(d: &Diagnostics) -> Vec<u32> {
    d.list.iter().flat_map(|d| d.position.as_ref().map(|p| p.line).into_iter().chain(d.within_line)).collect()
}

/// Functions of a text, and of those the ones in which something is wrong.
fn functions(source: &Source, d: &Diagnostics) -> (usize, usize) {
    let text = String::from_utf8_lossy(&source.bytes);
    let starts: Vec<u32> =
        text.lines().enumerate().filter(|(_, l)| l.contains("func.func")).map(|(i, _)| i as u32 + 1).collect();
    let mut bad: Vec<usize> = lines(d).into_iter().map(|l| starts.iter().filter(|s| **s <= l).count()).collect();
    bad.sort_unstable();
    bad.dedup();
    (starts.len(), bad.len())
}

#[test]
fn syntax_is_accepted_and_rejected_as_marked() {
    let Some(suite) = suite() else { return };
    let (mut good, mut bad, mut wrongly, mut marks, mut hits) = (0, 0, vec![], 0, 0);
    let mut missed: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for f in files(&suite.join("syntax"), "mlir") {
        for c in cases(&f) {
            let d = check(&c.source);
            if c.marked.is_empty() {
                let (all, wrong) = functions(&c.source, &d);
                (good, bad) = (good + all, bad + wrong);
                if d.has_errors() {
                    wrongly.push(format!("{}\n{d}", c.name));
                }
                continue;
            }
            let found = lines(&d);
            for m in &c.marked {
                marks += 1;
                if found.contains(m) {
                    hits += 1;
                } else {
                    missed.entry(c.name.clone()).or_default().push(*m);
                }
            }
        }
    }
    eprintln!("syntax: {} of {good} functions accepted, {hits} of {marks} rejected on the marked line", good - bad);
    if let Some(dir) = std::env::var_os("ZMLC_SUITE_REPORT") {
        let dir = PathBuf::from(dir);
        std::fs::write(dir.join("accepted.txt"), wrongly.join("\n")).expect("writable");
        std::fs::write(dir.join("missed.txt"), format!("{missed:#?}")).expect("writable");
    }
    assert!(bad * 50 <= good, "{}", wrongly.join("\n"));
    assert!(hits * 10 >= marks * 9, "{missed:#?}");
}

#[test]
fn interpreter_tests_are_accepted() {
    let Some(suite) = suite() else { return };
    let (mut n, mut bad) = (0, vec![]);
    for dir in ["interpret", "math"] {
        for f in files(&suite.join(dir), "mlir") {
            for c in cases(&f) {
                n += 1;
                let d = check(&c.source);
                if d.has_errors() && c.marked.is_empty() {
                    bad.push(format!("{}\n{d}", c.name));
                }
            }
        }
    }
    eprintln!("interpret, math: {} of {n} accepted", n - bad.len());
    if let Some(dir) = std::env::var_os("ZMLC_SUITE_REPORT") {
        std::fs::write(PathBuf::from(dir).join("interpret.txt"), bad.join("\n")).expect("writable");
    }
    assert!(bad.len() * 50 <= n, "{}", bad.join("\n"));
}

/// Runs the functions of a program that take nothing; the first failure.
fn run(source: &Source) -> Result<usize, EvalError> {
    let p = read(source).map_err(|e| EvalError::Unsupported(e.to_string()))?;
    let mut n = 0;
    let entries: Vec<String> = match p.func("main") {
        Some(f) => vec![f.name.clone()],
        None => p.funcs.iter().filter(|f| !f.external && f.body.args.is_empty()).map(|f| f.name.clone()).collect(),
    };
    for f in entries {
        eval(&p, &f, vec![])?;
        n += 1;
    }
    Ok(n)
}

/// Programs that assert what they compute.
#[test]
fn interpreter_computes_what_the_suite_expects() {
    let Some(suite) = suite() else { return };
    let (mut passed, mut wrong, mut without) = (0, vec![], BTreeMap::<String, u32>::new());
    for dir in ["interpret", "math", "testdata"] {
        for f in files(&suite.join(dir), "mlir") {
            if std::fs::metadata(&f).expect("readable").len() > 200_000 {
                continue;
            }
            for c in cases(&f) {
                if !c.marked.is_empty() {
                    continue;
                }
                match run(&c.source) {
                    Ok(_) => passed += 1,
                    Err(EvalError::Program(e)) => wrong.push(format!("{}: {e}", c.name)),
                    Err(e) => {
                        *without.entry(e.to_string().lines().next().unwrap_or_default().to_string()).or_default() += 1;
                    }
                }
            }
        }
    }
    eprintln!("interpreter: {passed} programs pass, {} fail, {} not run", wrong.len(), without.values().sum::<u32>());
    if let Some(dir) = std::env::var_os("ZMLC_SUITE_REPORT") {
        std::fs::write(PathBuf::from(dir).join("computed.txt"), format!("{}\n{without:#?}", wrong.join("\n")))
            .expect("writable");
    }
    assert!(wrong.len() * 50 <= passed, "{}", wrong.join("\n"));
}
