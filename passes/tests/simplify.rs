//! simplify: what it folds, before and after; and a broken module for each invariant of level 1, which its verifier names.

use zmlc_passes::{
    context,
    pass::{Env, Pass, PassError},
    simplify::{Simplify, level1},
};

const ENV: Env = Env { spec: None };

fn read(path: &std::path::Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
fn folder() -> std::path::PathBuf {
    format!("{}/../fixtures/simplify", env!("CARGO_MANIFEST_DIR")).into()
}

#[test]
fn folds() {
    let c = context::context();
    let mut m = context::parse(&c, &read(&folder().join("folds.mlir"))).unwrap();
    level1(&m).unwrap();
    Simplify.run(&c, &mut m, ENV).unwrap();
    context::verify(&c, &m).unwrap();
    Simplify.verify(&c, &m, ENV).unwrap();
    let after = context::print(&m);
    assert_eq!(context::print(&context::parse(&c, &after).unwrap()), after);
    // What is simple stays as it is.
    Simplify.run(&c, &mut m, ENV).unwrap();
    assert_eq!(context::print(&m), after);
    insta::with_settings!({snapshot_path => "../../snapshots/simplify", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("folds", after);
    });
}

/// The file's name begins with the number of the invariant that it breaks.
#[test]
fn broken_modules_are_refused() {
    let mut files: Vec<_> = std::fs::read_dir(folder().join("broken")).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let mut broken: Vec<char> = vec![];
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let c = context::context();
        let m = context::parse(&c, &read(&file)).unwrap_or_else(|e| panic!("{name}: {e}"));
        context::verify(&c, &m).unwrap_or_else(|e| panic!("{name}: {e}"));
        let Err(PassError::Bug(said)) = level1(&m) else { panic!("{name} passes") };
        let number = name.chars().next().unwrap();
        assert!(said.starts_with(&format!("not level 1: {number}:")), "{name}: {said}");
        broken.push(number);
    }
    broken.dedup();
    assert_eq!(broken, ['1', '2', '3', '4', '5', '6', '7', '8']);
}
