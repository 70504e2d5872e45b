//! Every program of the corpus is read.

mod common;

use std::path::Path;
use zmlc_import::{Diagnostics, Source, read, tree::Program, verify};

fn load(path: &Path) -> Program {
    let bytes = std::fs::read(path).expect("readable");
    read(Source::new(path.display().to_string(), bytes)).unwrap_or_else(|e| panic!("{}\n{e}", path.display()))
}

#[test]
fn text_with_and_without_locations() {
    let Some(corpus) = common::corpus() else { return };
    for dir in common::cases(&corpus) {
        let plain = load(&dir.join("program.mlir"));
        assert!(plain.main().is_some(), "{}", dir.display());
        let found = Diagnostics::from(verify(&plain));
        assert!(found.list.is_empty(), "{}\n{found}", dir.display());
        let located = dir.join("program_loc.mlir");
        if located.is_file() {
            let p = load(&located);
            assert_eq!(p.funcs.len(), plain.funcs.len(), "{}", dir.display());
        }
    }
}

#[test]
fn argument_names_come_from_locations() {
    let Some(corpus) = common::corpus() else { return };
    let p = load(&corpus.join("mnist_mlp_b1/program_loc.mlir"));
    let main = p.main().expect("main");
    let names: Vec<_> = main.body.args.iter().map(|a| main.values[a.0 as usize].loc.name().unwrap_or("")).collect();
    assert_eq!(names, ["params['b1']", "params['b2']", "params['w1']", "params['w2']", "x"]);
}
