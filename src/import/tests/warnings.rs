//! Warnings: each of what it is for, and none for the programs of the corpus but those listed.

mod common;

use zmlc_import::{Diagnostics, Source, read, suspicious, verify};

fn warnings(name: &str, text: impl Into<Vec<u8>>) -> Diagnostics {
    let source = Source::new(name, text);
    let p = read(&source).unwrap_or_else(|e| panic!("{e}"));
    let errors = Diagnostics::from(verify(&p)).locate(&source);
    assert!(!errors.has_errors(), "{errors}");
    Diagnostics::from(suspicious(&p)).locate(&source)
}

#[test]
fn each_is_found() {
    let text = include_str!("data/suspicious.mlir");
    insta::assert_snapshot!(warnings("suspicious.mlir", text).to_string());
}

#[test]
fn what_is_fine_gives_none() {
    let found = warnings("fine.mlir", include_str!("data/fine.mlir"));
    assert!(found.list.is_empty(), "{found}");
}

#[test]
fn the_corpus_gives_those_listed() {
    let Some(corpus) = common::corpus() else { return };
    let mut found = String::new();
    for dir in common::cases(&corpus) {
        let name = dir.file_name().expect("a folder").to_string_lossy().into_owned();
        let text = std::fs::read(dir.join("program.mlir")).expect("readable");
        let mut codes: Vec<&str> = warnings(&name, text).list.iter().map(|d| d.code).collect();
        codes.sort_unstable();
        if !codes.is_empty() {
            found.push_str(&format!("{name}: {}\n", codes.join(" ")));
        }
    }
    insta::assert_snapshot!(found);
}
